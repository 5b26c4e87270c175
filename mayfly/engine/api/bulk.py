"""The engine's API for bulk work: messages reserved by Spark, staged rows, a queue in ranges.

Servers use it for pipelines, and commands to show and end reservations ("claims").
"""

from mayfly.engine.bulk.bulk_browse import page as browsable_page
from mayfly.engine.bulk.bulk_browse import ranges as browsable_ranges
from mayfly.engine.bulk.stages import TRANSACTION_ROWS, StagedRows, StageMissing
from mayfly.engine.claims.consumer import ClaimError, ClaimLimit

__all__ = [
    "ClaimError",
    "ClaimLimit",
    "StageMissing",
    "StagedRows",
    "TRANSACTION_ROWS",
    "browsable_page",
    "browsable_ranges",
]
