"""Whether lifetimes are right, asked of a lake by Spark, for lakes that one process cannot read.

The queries are those of ``lake/lifetime_queries.py``, which DuckDB runs as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from mayfly.pipeline.lake import lifetime_queries as queries
from mayfly.pipeline.lake.files import Lease, check_complete, existing_lake
from mayfly.pipeline.lake.lifetimes import LifetimeAnalysis, analysis_from
from mayfly.pipeline.lake.measures import LATE_AFTER_MS
from mayfly.pipeline.lake.part import EVERYTHING, LakePart
from mayfly.pipeline.spark.lake import rows_of


def analyze_lifetimes(
    spark: SparkSession,
    lake_path: str | Path,
    *,
    part: LakePart = EVERYTHING,
    by: queries.By = queries.By.QUEUE,
    cap_ms: int | None = None,
    late_after_ms: int = LATE_AFTER_MS,
) -> LifetimeAnalysis:
    """Return what ``lake.analytics.analyze_lifetimes`` does, of a lake of Parquet files.

    The arguments are the same. Raises LakeError without a lake, or when a file is missing.
    """
    lease = Lease(existing_lake(lake_path))
    try:
        check_complete(lease.snapshot)
        files = part.files(lease.snapshot.files)
        ledger = rows_of(spark, files).where(part.condition())

        def rows(query: str) -> list[dict[str, Any]]:
            return [row.asDict() for row in spark.sql(query, ledger=ledger).collect()]

        return analysis_from(
            by,
            cap_ms,
            lifetimes=rows(queries.lifetimes(by, cap_ms)),
            delays=rows(queries.delays(late_after_ms)),
            consumers=rows(queries.consumers()),
        )
    finally:
        lease.close()
