"""The report and the timeline of a lake by Spark, for lakes that one process cannot read.

The queries are those of ``lake/queries.py``, which DuckDB runs as well. All figures are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mayfly.pipeline.lake.files import Lease, Snapshot, check_complete, existing_lake
from mayfly.pipeline.lake.measures import LATE_AFTER_MS
from mayfly.pipeline.lake.part import EVERYTHING, LakePart
from mayfly.pipeline.lake.queries import (
    SPAN,
    STAGED,
    WORST_QUEUES,
    course_of_lives,
    report_of_queues,
)
from mayfly.pipeline.lake.report import QueueReport, reports_of
from mayfly.pipeline.lake.timeline import PLOT_RANKS, LakeTimeline, course_from, step_between
from mayfly.pipeline.spark.lake import rows_of


def ledger_report(
    spark: SparkSession,
    lake_path: str | Path,
    *,
    part: LakePart = EVERYTHING,
    late_after_ms: int = LATE_AFTER_MS,
) -> list[QueueReport]:
    """Return a report for each queue in a part of a lake, by queue manager and name.

    A message got more than ``late_after_ms`` after its delivery time counts as late. Queues without
    messages are left out. Raises LakeError without a lake, or when a file of it is missing.
    """
    lease = Lease(existing_lake(lake_path))
    try:
        ledger = _rows_of_part(spark, lease.snapshot, part)
        query = report_of_queues(exact_percentiles, late_after_ms)
        return reports_of(row.asDict() for row in spark.sql(query, ledger=ledger).collect())
    finally:
        lease.close()


def timeline_of(
    spark: SparkSession, lake_path: str | Path, *, part: LakePart = EVERYTHING
) -> LakeTimeline:
    """Return the timeline of a part of a lake: messages that ended, by time step.

    Raises LakeError without a lake or a file of it, PlotError without ended messages.
    """
    lease = Lease(existing_lake(lake_path))
    try:
        ledger = _rows_of_part(spark, lease.snapshot, part)

        def rows(query: str) -> list[dict[str, Any]]:
            return [row.asDict() for row in spark.sql(query, ledger=ledger).collect()]

        step_ms = step_between(lake_path, rows(SPAN)[0])
        by_step = course_of_lives(exact_percentiles, step_ms, tuple(PLOT_RANKS.values()))
        return course_from(step_ms, rows(by_step), rows(WORST_QUEUES), rows(STAGED))
    finally:
        lease.close()


def _rows_of_part(spark: SparkSession, snapshot: Snapshot, part: LakePart) -> DataFrame:
    """Return the ledger rows of a part of a lake; raises LakeError when a file is missing."""
    check_complete(snapshot)
    return rows_of(spark, part.files(snapshot.files)).where(part.condition())


def exact_percentiles(value: str, ranks: Sequence[float]) -> str:
    """Return SQL for an array of exact percentiles of ``value``, interpolated between two values.

    ``ranks`` are from 0 to 1. The SQL is null if there are no values. A list that is sorted at the
    end is four times faster than Spark's own exact percentile, which counts in a table of objects.
    """
    picked = ", ".join(_at(f"(size(v) - 1) * {rank}D") for rank in ranks)
    # As the only element of an array the list is sorted once for all ranks.
    one = f"array(sort_array(collect_list({value})))"
    return f"get(transform({one}, v -> CASE WHEN size(v) > 0 THEN array({picked}) END), 0)"


def _at(place: str) -> str:
    """Return SQL for the value at a fractional index of array ``v``, interpolated."""
    low, high = (f"get(v, CAST({edge}({place}) AS INT))" for edge in ("floor", "ceil"))
    return f"({low} + ({high} - {low}) * ({place} - floor({place})))"
