"""The counts that a pipeline observes in each batch, as columns for Spark.

progress.py names them, and reads them from the events of a query.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f

from mayfly.lifetime.life import State
from mayfly.pipeline.progress import (
    DEAD_LETTERED,
    EXPIRED,
    LATE_MS_MAX,
    LET_GO,
    OVERDUE,
    RELEASED,
    REPORTS,
    ROWS,
)


def counts_in() -> list[Column]:
    """Return the aggregate column, named ROWS, that counts the rows of a source in a batch."""
    return [f.count(f.lit(1)).alias(ROWS)]


def counts_out(is_let_go: Column) -> list[Column]:
    """Return the aggregate columns that count the rows leaving the pipeline, by outcome.

    They are named RELEASED, EXPIRED, DEAD_LETTERED, REPORTS, LET_GO, OVERDUE and LATE_MS_MAX.
    ``is_let_go`` is true for rows that their own queue manager releases after the batch; LET_GO
    counts them.
    """
    outcome = f.col("outcome")
    deadline = f.col("expire_at_ms")
    is_released = outcome == State.RELEASED.value
    due = f.least(f.coalesce("deliver_at_ms", "put_ms"), deadline)
    # A row for a queue is put before it is due.
    late_ms = f.greatest(f.col("ended_ms") - due, f.lit(0))
    late = f.when(outcome != State.DEAD_LETTERED.value, late_ms)
    return [
        f.count_if(is_released).alias(RELEASED),
        f.count_if(outcome == State.EXPIRED.value).alias(EXPIRED),
        f.count_if(outcome == State.DEAD_LETTERED.value).alias(DEAD_LETTERED),
        f.count_if(f.col("report_owed").isNotNull()).alias(REPORTS),
        f.count_if(is_let_go).alias(LET_GO),
        f.count_if(is_released & (deadline <= f.col("ended_ms"))).alias(OVERDUE),
        f.max(late).alias(LATE_MS_MAX),
    ]
