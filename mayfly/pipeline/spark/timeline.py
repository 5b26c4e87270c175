"""The timeline of a lake by Spark: from stored sketches, or from the rows of a few hours."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mayfly.lifetime.life import OUTCOMES, State
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.lake.errors import PartError, PlotError
from mayfly.pipeline.lake.files import Lease, Snapshot, check_complete, existing_lake
from mayfly.pipeline.lake.part import DAY_MS, EVERYTHING, HOUR_MS, LakePart
from mayfly.pipeline.lake.queries import QUEUES_MAX, SPAN, STAGED, WORST_QUEUES, course_of_lives
from mayfly.pipeline.lake.timeline import PLOT_RANKS, LakeTimeline, course_from, step_between
from mayfly.pipeline.spark.lake import rows_of
from mayfly.pipeline.spark.report import exact_percentiles
from mayfly.pipeline.spark.sketches import merged, sketch_lake, stored_cells

#: A shorter time needs steps of less than an hour; sketches are by the hour.
_HOURS_FROM_SKETCHES = 6


def timeline_of(
    spark: SparkSession, lake_path: str | Path, *, part: LakePart = EVERYTHING
) -> LakeTimeline:
    """Return the timeline of a part of a lake: ended messages and waits by time step.

    Updates the sketches first. Raises LakeError without a lake, PlotError without ended messages,
    and PartError for bounds that are not whole hours.
    """
    lake = existing_lake(lake_path)
    if not part.is_of_whole_hours:
        raise PartError("sketches are by the hour: name whole hours")
    sketch_lake(spark, lake)
    lease = Lease(lake)
    try:
        cells = stored_cells(spark, lease.snapshot, part)
        hour_ms = f.unix_date("date").cast("long") * DAY_MS + f.col("hour") * HOUR_MS
        cells = cells.where(f.col("lives") > 0).withColumn("start_ms", hour_ms)
        of_queues = cells.where(f.col("queue") != STAGING_QUEUE)
        span = of_queues.agg(
            f.min("start_ms").alias("first_ms"), f.max("start_ms").alias("last_ms")
        )
        [hours] = span.collect()
        if hours["first_ms"] is None:
            raise PlotError(f"no lives in {lake_path}")
        if hours["last_ms"] - hours["first_ms"] < _HOURS_FROM_SKETCHES * HOUR_MS:
            return _from_rows(spark, lease.snapshot, part)
        step_ms = step_between(lake_path, hours.asDict(), HOUR_MS)
        return _from_cells(cells, of_queues, step_ms)
    finally:
        lease.close()


def _from_rows(spark: SparkSession, snapshot: Snapshot, part: LakePart) -> LakeTimeline:
    """Return the timeline computed from ledger rows, with steps shorter than an hour."""
    check_complete(snapshot)
    ledger = rows_of(spark, part.files(snapshot.files)).where(part.condition())

    def rows(query: str) -> list[dict[str, object]]:
        """Return the rows of a query to the ledger rows, as dicts."""
        return [row.asDict() for row in spark.sql(query, ledger=ledger).collect()]

    step_ms = step_between(snapshot.lake, rows(SPAN)[0])
    by_step = course_of_lives(exact_percentiles, step_ms, tuple(PLOT_RANKS.values()))
    return course_from(step_ms, rows(by_step), rows(WORST_QUEUES), rows(STAGED))


def _from_cells(cells: DataFrame, of_queues: DataFrame, step_ms: int) -> LakeTimeline:
    """Return the timeline from hourly cells (counts and sketches), in steps of ``step_ms``.

    ``of_queues`` are the cells without those of the staging queue.
    """
    start = f.expr(f"start_ms div {step_ms} * {step_ms}")
    by_step = merged(of_queues.withColumn("start_ms", start), "start_ms")
    ranks = f.array(*map(f.lit, PLOT_RANKS.values()))
    quantiles = f.kll_sketch_get_quantile_bigint("waited", ranks)
    waited = f.when(f.col("waited").isNotNull(), quantiles).alias("waited")
    counts = ("lives", State.GOT.value, State.EXPIRED.value)
    steps = by_step.select("start_ms", *counts, waited).orderBy("start_ms").collect()
    of_queue = of_queues.groupBy("queue").agg(
        f.sum("lives").alias("lives"), f.sum(State.EXPIRED.value).alias("expired")
    )
    share = f.col("expired") / f.col("lives")
    worst = of_queue.orderBy(share.desc(), f.desc("lives"), "queue").limit(QUEUES_MAX).collect()
    names = [outcome.value for outcome in OUTCOMES]
    staged = cells.where(f.col("queue") == STAGING_QUEUE).agg(*(f.sum(n).alias(n) for n in names))
    [counted] = staged.collect()
    return course_from(
        step_ms,
        [row.asDict() for row in steps],
        [row.asDict() for row in worst],
        [{"outcome": name, "lives": counted[name] or 0} for name in names],
    )
