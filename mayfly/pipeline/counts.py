"""The counts that a pipeline observes in each batch, by their names in Spark's progress event.

They are ``observedMetrics`` of a StreamingQueryProgress. Each source has one metric: IN_PREFIX and
the number of its table in the file, from 1, as ``mayfly_in_1``. OUT counts rows that left the delay
line.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f

from mayfly.lifetime.life import State

#: Name of a source's metric, up to its number; the only field is ROWS.
IN_PREFIX = "mayfly_in_"
ROWS = "rows"
#: Name of the metric in front of the sinks, and its fields.
OUT = "mayfly_out"
RELEASED = "released"
EXPIRED = "expired"
DEAD_LETTERED = "dead_lettered"
REPORTS = "reports"
#: Released rows that their own queue manager releases when the batch is done.
LET_GO = "let_go"
#: Released rows of queues whose deadline has passed: the receiving queue manager discards them.
OVERDUE = "overdue"
#: The longest time, in ms, for which a row could have left before it did; null without rows.
LATE_MS_MAX = "late_ms_max"


def counts_in() -> list[Column]:
    """Return the aggregate column, named ROWS, that counts the rows of a source in a batch."""
    return [f.count(f.lit(1)).alias(ROWS)]


def counts_out(is_let_go: Column) -> list[Column]:
    """Return the columns that count the rows leaving the pipeline, by outcome.

    LET_GO counts the rows for which ``is_let_go`` is true.
    """
    outcome = f.col("outcome")
    deadline = f.col("expire_at_ms")
    is_released = outcome == State.RELEASED.value
    due = f.least(f.coalesce("deliver_at_ms", "put_ms"), deadline)
    late = f.when(outcome != State.DEAD_LETTERED.value, f.col("ended_ms") - due)
    return [
        f.count_if(is_released).alias(RELEASED),
        f.count_if(outcome == State.EXPIRED.value).alias(EXPIRED),
        f.count_if(outcome == State.DEAD_LETTERED.value).alias(DEAD_LETTERED),
        f.count_if(f.col("report_owed").isNotNull()).alias(REPORTS),
        f.count_if(is_let_go).alias(LET_GO),
        f.count_if(is_released & (deadline <= f.col("ended_ms"))).alias(OVERDUE),
        f.max(late).alias(LATE_MS_MAX),
    ]
