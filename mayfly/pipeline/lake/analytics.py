"""Whether lifetimes are right, asked of a lake with DuckDB in this process.

The queries are those of ``lifetime_queries.py``; Spark runs the same for lakes that are too large
for this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mayfly.pipeline.lake import lifetime_queries as queries
from mayfly.pipeline.lake.answers import ledger_view, query_rows
from mayfly.pipeline.lake.lifetimes import LifetimeAnalysis, analysis_from
from mayfly.pipeline.lake.measures import LATE_AFTER_MS
from mayfly.pipeline.lake.part import EVERYTHING, LakePart


def analyze_lifetimes(
    lake_path: str | Path,
    *,
    part: LakePart = EVERYTHING,
    by: queries.By = queries.By.QUEUE,
    cap_ms: int | None = None,
    late_after_ms: int = LATE_AFTER_MS,
) -> LifetimeAnalysis:
    """Return how lifetimes, delays and consumers suited each other in a part of a lake.

    ``by`` says by what the lifetimes are grouped. With ``cap_ms`` the answer says what a CAPEXPRY
    of so many ms would have changed; None leaves that out. Delayed messages that arrived more than
    ``late_after_ms`` after their delivery time are late. The lists of the answer are empty if no
    message ended in the part. Raises LakeError without a lake, or when a file is missing or
    damaged.
    """
    with ledger_view(lake_path, part) as ledger:

        def rows(query: str) -> list[dict[str, Any]]:
            return [] if ledger is None else query_rows(ledger, query)

        return analysis_from(
            by,
            cap_ms,
            lifetimes=rows(queries.lifetimes(by, cap_ms)),
            delays=rows(queries.delays(late_after_ms)),
            consumers=rows(queries.consumers()),
        )
