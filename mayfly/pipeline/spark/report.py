"""The report of a lake by Spark: a row per queue, from stored sketches or exactly from all rows.

A sketch is a small summary of durations, from which percentiles are estimated (KLL).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from mayfly.lifetime.life import State
from mayfly.pipeline.lake.errors import PartError
from mayfly.pipeline.lake.files import Lease, Snapshot, check_complete, existing_lake
from mayfly.pipeline.lake.measures import LATE_AFTER_MS, RANKS, SKETCH_NAMES, ended_in
from mayfly.pipeline.lake.part import EVERYTHING, LakePart
from mayfly.pipeline.lake.queries import report_of_queues
from mayfly.pipeline.lake.report import QueueBalance, QueueReport, reports_of
from mayfly.pipeline.spark.lake import rows_of
from mayfly.pipeline.spark.sketches import merged, merging, sketch_lake, stored_cells

__all__ = ["LATE_AFTER_MS", "QueueBalance", "QueueReport", "ledger_report"]


def ledger_report(
    spark: SparkSession,
    lake_path: str | Path,
    *,
    part: LakePart = EVERYTHING,
    late_after_ms: int = LATE_AFTER_MS,
    is_rescan: bool = False,
) -> list[QueueReport]:
    """Return a report for each queue in a part of a lake, by queue manager and name.

    Queues without messages are left out. Counts are exact. Percentiles are right to about 1 % of
    rank, and so is ``late`` for a limit other than LATE_AFTER_MS. With ``is_rescan`` all rows are
    read and everything is exact. Sketches are updated first. Raises LakeError without a lake,
    PartError for bounds that are not whole hours without a rescan.
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
        return reports_of(row.asDict() for row in used)
    finally:
        lease.close()


def _sketched(
    spark: SparkSession, snapshot: Snapshot, part: LakePart, late_after_ms: int
) -> DataFrame:
    """Return the report rows of all queues, from stored sketches: percentiles are estimates."""
    # Merged by store first: the books of a queue are the sum of the newest ones of its stores.
    cells = merged(stored_cells(spark, snapshot, part), "manager", "instance_id", "queue")
    if late_after_ms != LATE_AFTER_MS:
        rank = f.kll_sketch_get_rank_bigint("waited", f.lit(late_after_ms))
        late = f.round((1 - rank) * f.col(State.GOT.value)).cast("bigint")
        cells = cells.withColumn("late", f.when(f.col("waited").isNull(), 0).otherwise(late))
    per_queue = cells.groupBy("manager", "queue").agg(*merging(), *_books())
    measured = [_of_sketch(name, RANKS[name]).alias(f"{name}_ms") for name in SKETCH_NAMES]
    return per_queue.select(*per_queue.columns, *measured)


def _exact(
    spark: SparkSession, snapshot: Snapshot, part: LakePart, late_after_ms: int
) -> DataFrame:
    """Return the report rows of all queues, computed from all ledger rows of the part."""
    check_complete(snapshot)
    rows = rows_of(spark, part.files(snapshot.files)).where(part.condition())
    return spark.sql(report_of_queues(exact_percentiles, late_after_ms), ledger=rows)


def exact_percentiles(value: str, ranks: Sequence[float]) -> str:
    """Return SQL for an array of exact percentiles of ``value``, interpolated between two values.

    The SQL is null if there are no values. A list that is sorted at the end is four times faster
    than Spark's own exact percentile, which counts in a table of objects.
    """
    picked = ", ".join(_at(f"(size(v) - 1) * {rank}D") for rank in ranks)
    # As the only element of an array the list is sorted once for all ranks.
    one = f"array(sort_array(collect_list({value})))"
    return f"get(transform({one}, v -> CASE WHEN size(v) > 0 THEN array({picked}) END), 0)"


def _at(place: str) -> str:
    """Return SQL for the value at a fractional index of array ``v``, interpolated."""
    low, high = (f"get(v, CAST({edge}({place}) AS INT))" for edge in ("floor", "ceil"))
    return f"({low} + ({high} - {low}) * ({place} - floor({place})))"


def _books() -> list[Column]:
    """Return the columns that sum a queue's newest balances over its stores.

    A balance is the queue's counts of messages put, ended and present.
    """
    return [
        f.max("balance.at_ms").alias("at_ms"),
        f.sum("balance.puts").alias("put"),
        f.sum(f.expr(ended_in("balance.ended"))).alias("ended"),
        f.sum("balance.present").alias("present"),
    ]


def _of_sketch(name: str, ranks: tuple[float, ...]) -> Column:
    """Return the column with the estimated percentiles of a sketch, null for an empty sketch."""
    quantiles = f.kll_sketch_get_quantile_bigint(name, _array(ranks))
    return f.when(f.col(name).isNotNull(), quantiles)


def _array(ranks: tuple[float, ...]) -> Column:
    """Return the ranks as an array column."""
    return f.array(*map(f.lit, ranks))
