"""What the lake says of each queue, and whether it is complete.

Everything is computed by Spark from the rows of the lake; what comes back is one row a queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

from mayfly.lifetime.life import OUTCOMES, Balance, State
from mayfly.spark.lake import read_balances, read_lake, read_ledger

#: Each outcome once, as a name of a column.
_OUTCOMES = [outcome.value for outcome in OUTCOMES]
#: A message that waited a minute for its getter is worth a look, unless told otherwise.
LATE_AFTER_MS = 60_000
_PERCENTAGES = (0.5, 0.95, 0.99)


@dataclass(frozen=True)
class QueueReport:
    """How the lives of one queue ended.

    ``waited_*_ms`` are exact percentiles of the time from delivery time to get, over the lives that
    were got; None when none was. ``late`` counts those that waited longer than ``late_after_ms``.
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


def ledger_report(
    spark: SparkSession, lake_path: str | Path, *, late_after_ms: int = LATE_AFTER_MS
) -> list[QueueReport]:
    """Return a row for each queue in the lake, by queue manager and name."""
    got = f.col("outcome") == State.GOT.value
    waited_ms = f.col("ended_ms") - f.col("deliver_at_ms")
    rows = (
        read_lake(spark, lake_path)
        .groupBy("manager", "queue")
        .agg(
            f.count("*").alias("lives"),
            *_counts_by_outcome(),
            f.percentile(f.when(got, waited_ms), f.array(*map(f.lit, _PERCENTAGES))).alias(
                "waited"
            ),
            f.count_if(got & (waited_ms > late_after_ms)).alias("late"),
        )
        .orderBy("manager", "queue")
    )
    return [_queue_report(row) for row in rows.collect()]


def _queue_report(row: Row) -> QueueReport:
    p50, p95, p99 = row["waited"] or (None, None, None)
    return QueueReport(
        manager=row["manager"],
        queue=row["queue"],
        lives=row["lives"],
        outcomes={name: row[name] for name in _OUTCOMES},
        expired_share=row[State.EXPIRED.value] / row["lives"],
        waited_p50_ms=p50,
        waited_p95_ms=p95,
        waited_p99_ms=p99,
        late=row["late"],
    )


def _counts_by_outcome() -> list[Column]:
    return [f.count_if(f.col("outcome") == name).alias(name) for name in _OUTCOMES]


def verify_lake(spark: SparkSession, lake_path: str | Path) -> list[str]:
    """Return what is wrong with a lake in words; an empty list proves it complete.

    Of each store every position must be there once, from the first one on; and for each queue the
    newest balance must be balanced and count the lives that the lake lists. Where the lake begins
    later than the store (retention had trimmed it) or a queue was defined anew, what lies between
    the first and the last balance since then is compared. Lives lost at a restart are counted in a
    balance and not listed. Lives after the newest balance are not yet accounted for.
    """
    blocks = _position_blocks(read_ledger(spark, lake_path))
    first_positions = {block["instance_id"]: block["first"] for block in reversed(blocks)}
    spans = [
        _span(row, first_positions[row["instance_id"]])
        for row in _balances_at_ends(read_balances(spark, lake_path)).collect()
    ]
    listed = _lives_listed(spark, read_lake(spark, lake_path), spans)
    problems = list(_position_problems(blocks))
    for span in spans:
        problems += _span_problems(span, listed.get((span.instance_id, span.newest.queue), {}))
    return problems


def _position_blocks(rows: DataFrame) -> list[Row]:
    """Return rows and distinct positions by block of positions, in order of position."""
    bit = f.bitmap_bit_position(f.col("position"))
    return (
        rows.groupBy("instance_id", f.bitmap_bucket_number(f.col("position")).alias("block"))
        .agg(
            f.count("*").alias("rows"),
            f.bitmap_count(f.bitmap_construct_agg(bit)).alias("positions"),
            f.min("position").alias("first"),
            f.max("position").alias("last"),
        )
        .orderBy("instance_id", "block")
        .collect()
    )


def _position_problems(blocks: Iterable[Row]) -> Iterator[str]:
    """Yield gaps and doubles, in a block and between blocks."""
    previous: Row | None = None
    for block in blocks:
        within = f"store {block['instance_id']}: positions {block['first']} to {block['last']}"
        doubled = block["rows"] - block["positions"]
        missing = block["last"] - block["first"] + 1 - block["positions"]
        if doubled:
            yield f"{within}: {doubled} rows too many"
        if missing:
            yield f"{within}: {missing} rows missing"
        if previous is not None and previous["instance_id"] == block["instance_id"]:
            gap = range(previous["last"] + 1, block["first"])
            if gap:
                yield f"store {block['instance_id']}: positions {gap[0]} to {gap[-1]} missing"
        previous = block


class _Span(NamedTuple):
    """What a queue's lives in ``(after, until]`` are compared with."""

    instance_id: str
    after: int
    until: int
    base: tuple[int, ...]
    newest: Balance


def _balances_at_ends(balances: DataFrame) -> DataFrame:
    """Return the oldest and newest balance of each queue since it was (last) defined.

    A queue that was deleted and defined again counts from nothing: a count that falls shows it.
    """
    in_order = Window.partitionBy("instance_id", "queue").orderBy("position")
    counts = ["puts", *(f"ended.{name}" for name in _OUTCOMES)]
    falls = [f.col(count) < f.lag(count).over(in_order) for count in counts]
    fell = reduce(lambda one, other: one | other, falls)
    defined = f.sum(f.coalesce(fell, f.lit(False)).cast("int")).over(in_order)
    whole = f.struct("position", "at_ms", "puts", "present", "ended")
    return (
        balances.withColumn("defined", defined)
        .groupBy("instance_id", "queue", "defined")
        .agg(
            f.min_by(whole, "position").alias("oldest"), f.max_by(whole, "position").alias("newest")
        )
        .groupBy("instance_id", "queue")
        .agg(
            f.max("defined").alias("defined"),
            f.max_by("oldest", "defined").alias("oldest"),
            f.max_by("newest", "defined").alias("newest"),
        )
        .orderBy("instance_id", "queue")
    )


def _span(row: Row, first_position: int) -> _Span:
    oldest, newest = row["oldest"], row["newest"]
    is_from_the_start = first_position == 1 and row["defined"] == 0
    return _Span(
        instance_id=row["instance_id"],
        after=0 if is_from_the_start else oldest["position"],
        until=newest["position"],
        base=(0,) * len(OUTCOMES) if is_from_the_start else tuple(oldest["ended"]),
        newest=Balance(
            row["queue"], newest["at_ms"], newest["puts"], newest["present"], tuple(newest["ended"])
        ),
    )


def _lives_listed(
    spark: SparkSession, lives: DataFrame, spans: list[_Span]
) -> dict[tuple[str, str], dict[str, int]]:
    """Return the lives by outcome that the lake lists in each span, by store and queue."""
    if not spans:
        return {}
    wanted = spark.createDataFrame(
        [(span.instance_id, span.newest.queue, span.after, span.until) for span in spans],
        "instance_id string, queue string, after bigint, until bigint",
    )
    counted = (
        lives.join(f.broadcast(wanted), ["instance_id", "queue"])
        .where((f.col("position") > f.col("after")) & (f.col("position") <= f.col("until")))
        .groupBy("instance_id", "queue")
        .agg(*_counts_by_outcome())
    )
    return {(row["instance_id"], row["queue"]): row.asDict() for row in counted.collect()}


def _span_problems(span: _Span, listed: Mapping[str, int]) -> Iterator[str]:
    newest = span.newest
    where = f"queue {newest.queue} of store {span.instance_id}"
    if not newest.is_balanced():
        yield (
            f"{where}: {newest.puts} put, but {sum(newest.ended)} ended and {newest.present} "
            f"present at position {span.until}"
        )
    for outcome, ended, base in zip(OUTCOMES, newest.ended, span.base, strict=True):
        found = listed.get(outcome.value, 0)
        is_counted_only = outcome is State.LOST_AT_RESTART and found < ended - base
        if found != ended - base and not is_counted_only:
            yield (
                f"{where}: {ended - base} lives {outcome} by the balances up to position "
                f"{span.until}, {found} in the lake"
            )
