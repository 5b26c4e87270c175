"""What the lake says of each queue, from the stored sketches or, exactly, from its rows.

What comes back is one row a queue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from mayfly.lifetime.life import KIND_BALANCE, State
from mayfly.lifetime.reports import Cause
from mayfly.spark.lake import check_complete, existing_lake, rows_of
from mayfly.spark.lake_check import verify_lake
from mayfly.spark.lake_files import Lease, Snapshot
from mayfly.spark.lake_part import EVERYTHING, LakePart, PartError
from mayfly.spark.sketches import (
    LATE_AFTER_MS,
    OUTCOME_NAMES,
    SKETCH_NAMES,
    cells_of,
    counts,
    durations,
    merged,
    merging,
    sketch_lake,
    stored_cells,
)

__all__ = ["LATE_AFTER_MS", "QueueBalance", "QueueReport", "ledger_report", "verify_lake"]

#: Ranks that are asked of each duration: what is long is of interest, of what is left the short.
RANKS = {"waited": (0.5, 0.95, 0.99), "left": (0.5, 0.05, 0.01), "released_late": (0.5, 0.95, 0.99)}


class QueueBalance(NamedTuple):
    """The books of a queue at its newest balance: counts from its definition up to then."""

    at_ms: int
    put: int
    ended: int
    present: int

    @property
    def is_balanced(self) -> bool:
        """Tell whether every message put is accounted for."""
        return self.put == self.ended + self.present


@dataclass(frozen=True)
class QueueReport:
    """How the lives of one queue ended.

    ``waited_*_ms`` are percentiles of the time from delivery time to get, over the lives that were
    got; ``left_*_ms`` of what those that expire had left then; ``released_late_*_ms`` of the time
    from delivery time to release, on a staging queue; None when there was none. ``late`` counts
    those that waited longer than ``late_after_ms``. ``owed`` counts the reports owed by cause.
    ``balance`` is None before the first balance.
    """

    manager: str
    queue: str
    lives: int
    outcomes: dict[str, int]
    expired_share: float
    waited_p50_ms: float | None
    waited_p95_ms: float | None
    waited_p99_ms: float | None
    late: int
    left_p50_ms: float | None = None
    left_p5_ms: float | None = None
    left_p1_ms: float | None = None
    released_late_p50_ms: float | None = None
    released_late_p95_ms: float | None = None
    released_late_p99_ms: float | None = None
    owed: dict[str, int] = field(default_factory=dict)
    balance: QueueBalance | None = None


def ledger_report(
    spark: SparkSession,
    lake_path: str | Path,
    *,
    part: LakePart = EVERYTHING,
    late_after_ms: int = LATE_AFTER_MS,
    is_rescan: bool = False,
) -> list[QueueReport]:
    """Return a row for each queue used in a part of a lake, by queue manager and name.

    Counts are exact, percentiles right to about 1 % of rank, and so is ``late`` for another limit
    than LATE_AFTER_MS; ``is_rescan`` reads all rows and has everything exact. Sketches that are not
    up to date are brought so first. Raises LakeError without a lake, PartError for bounds that are
    not whole hours without a rescan.
    """
    lake = existing_lake(lake_path)
    if not is_rescan:
        if not part.is_of_whole_hours:
            raise PartError("sketches are by the hour: name whole hours, or ask for a rescan")
        sketch_lake(spark, lake)
    lease = Lease(lake)
    try:
        make = _exact if is_rescan else _sketched
        rows = make(spark, lease.snapshot, part, late_after_ms)
        used = rows.where((f.col("lives") > 0) | (f.col("put") > 0)).collect()
        return sorted(map(_queue_report, used), key=lambda row: (row.manager, row.queue))
    finally:
        lease.close()


def _sketched(
    spark: SparkSession, snapshot: Snapshot, part: LakePart, late_after_ms: int
) -> DataFrame:
    # By store first: books are added up, and only the newest of each store counts.
    cells = merged(stored_cells(spark, snapshot, part), "manager", "instance_id", "queue")
    if late_after_ms != LATE_AFTER_MS:
        rank = f.kll_sketch_get_rank_bigint("waited", f.lit(late_after_ms))
        late = f.round((1 - rank) * f.col(State.GOT.value)).cast("bigint")
        cells = cells.withColumn("late", f.when(f.col("waited").isNull(), 0).otherwise(late))
    per_queue = cells.groupBy("manager", "queue").agg(*merging(), *_books())
    return per_queue.select(*per_queue.columns, *_percentiles(_of_sketch))


def _exact(
    spark: SparkSession, snapshot: Snapshot, part: LakePart, late_after_ms: int
) -> DataFrame:
    check_complete(snapshot)
    rows = part.rows(rows_of(spark, part.files(snapshot.files)))
    measured = durations()
    per_queue = rows.groupBy("manager", "queue").agg(
        *counts(late_after_ms), *_percentiles(lambda name, ranks: _of_values(measured[name], ranks))
    )
    balances = merged(
        cells_of(rows.where(f.col("kind") == KIND_BALANCE)), "manager", "instance_id", "queue"
    )
    books = balances.groupBy("manager", "queue").agg(*_books())
    return per_queue.join(books, ["manager", "queue"], "left")


def _books() -> list[Column]:
    """Return the books of a queue: those of its stores together, where its name was used again."""
    ended = [f.col(f"balance.ended.{name}") for name in OUTCOME_NAMES]
    return [
        f.max("balance.at_ms").alias("at_ms"),
        f.sum("balance.puts").alias("put"),
        f.sum(reduce(lambda one, other: one + other, ended)).alias("ended"),
        f.sum("balance.present").alias("present"),
    ]


def _percentiles(measure: Callable[[str, tuple[float, ...]], Column]) -> list[Column]:
    return [measure(name, RANKS[name]).alias(f"{name}_ms") for name in SKETCH_NAMES]


def _of_sketch(name: str, ranks: tuple[float, ...]) -> Column:
    quantiles = f.kll_sketch_get_quantile_bigint(name, _array(ranks))
    return f.when(f.col(name).isNotNull(), quantiles)


def _of_values(measured: Column, ranks: tuple[float, ...]) -> Column:
    """Return exact percentiles: what is between two values is in proportion between them.

    A list that is sorted at the end is four times faster than Spark's own exact percentile, which
    counts in a table of objects.
    """

    def of_sorted(values: Column) -> Column:
        last = f.size(values) - 1
        return f.when(last >= 0, f.array(*(_at(values, last * rank) for rank in ranks)))

    # As the only element of an array it is sorted once, however often it is looked into.
    return f.get(f.transform(f.array(f.sort_array(f.collect_list(measured))), of_sorted), f.lit(0))


def _at(values: Column, place: Column) -> Column:
    low, high = (f.get(values, edge(place).cast("int")) for edge in (f.floor, f.ceil))
    return low + (high - low) * (place - f.floor(place))


def _array(ranks: tuple[float, ...]) -> Column:
    return f.array(*map(f.lit, ranks))


def _queue_report(row: Row) -> QueueReport:
    lives = row["lives"]
    measured = {
        f"{name}_p{_percent(rank)}_ms": value
        for name in SKETCH_NAMES
        for rank, value in zip(RANKS[name], row[f"{name}_ms"] or (None,) * 3, strict=True)
    }
    at_ms, *counted = row["at_ms"], row["put"], row["ended"], row["present"]
    return QueueReport(
        manager=row["manager"],
        queue=row["queue"],
        lives=lives,
        outcomes={name: row[name] for name in OUTCOME_NAMES},
        expired_share=row[State.EXPIRED.value] / lives if lives else 0.0,
        late=row["late"],
        owed={cause.name.lower(): row[f"owed_{cause.name.lower()}"] for cause in Cause},
        balance=None if at_ms is None else QueueBalance(at_ms, *counted),
        **measured,
    )


def _percent(rank: float) -> int:
    return round(rank * 100)
