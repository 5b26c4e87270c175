"""The rows of a pipeline: all sources in one stream, with limits, outcome and destination."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType

from mayfly.lifetime.life import State
from mayfly.mqi.reasons import MQRC_EXPIRY_ERROR, MQRC_MD_ERROR, MQRC_NONE, MQRC_OPTIONS_ERROR
from mayfly.pipeline.expressions import as_pipeline_error, condition
from mayfly.pipeline.parts import (
    ClaimedSource,
    Limit,
    PipelineConfig,
    QueueLimit,
    QueueSink,
    QueueSource,
    StagingSource,
)
from mayfly.pipeline.progress import (
    DEAD_LETTERED,
    EXPIRED,
    LATE_MS_MAX,
    LET_GO,
    OUT,
    OVERDUE,
    RELEASED,
    REPORTS,
)
from mayfly.pipeline.sources import MALFORMED, claimed_rows, foreign_rows, queue_rows, source_title
from mayfly.pipeline.spark.delay_line import TtlRule, lifetime, released_at_once
from mayfly.pipeline.spark.ending import AT_ONCE, ENDED
from mayfly.pipeline.spark.messages import MESSAGE_TYPE
from mayfly.pipeline.spark.queue_source import RowRange

#: The name of the sink a row goes to; null for one that goes nowhere.
TO = "_mayfly_to"
#: True for rows that their own queue manager puts on their queues; null for others.
_LET_GO = "_mayfly_let_go"
_REFUSALS = {
    MQRC_EXPIRY_ERROR: "the delay is longer than the life, or the life is none",
    MQRC_OPTIONS_ERROR: "the delay is negative or leads too far",
    MQRC_MD_ERROR: "put_ms is out of range",
}


def routed_rows(config: PipelineConfig, spark: SparkSession) -> DataFrame:
    """Return the rows of all sources as one stream, each with its outcome and sink (column TO).

    The columns reason, ended_ms and report_owed are added as well. Raises PipelineFileError for an
    expression or a source that Spark refuses.
    """
    parts = [*_from_queues(config, spark), *_from_elsewhere(config, spark)]
    return _routed(config, parts)


def routed_again(
    config: PipelineConfig, spark: SparkSession, number: int, ranges: Iterable[RowRange]
) -> DataFrame:
    """Return reserved messages of queue source ``number`` (from 1) as a table, to find bad rows.

    ``ranges`` are their row numbers. The columns are those of ``routed_rows``. The plan is the
    same, including its counts, because Spark would otherwise leave expressions out.
    """
    source = config.sources[number - 1]
    assert isinstance(source, QueueSource)
    rows = claimed_rows(source, number, spark, ranges, config.path)
    return _routed(config, [_of_queue(config, source, rows)])


def _routed(config: PipelineConfig, parts: list[DataFrame]) -> DataFrame:
    """Return the rows of all ``parts`` with every message column, observed counts and sink (TO).

    A column that no source has is null.
    """
    with as_pipeline_error(config.path, "[[source]]"):
        rows = _together(parts)
    has_let_go = _LET_GO in rows.columns
    is_let_go = f.col(_LET_GO).isNotNull() if has_let_go else f.lit(False)
    rows = _with_all_columns(rows).observe(OUT, *counts_out(is_let_go))
    to = _destination(config, rows)
    if not has_let_go:
        return rows.withColumn(TO, to)
    return rows.withColumn(TO, f.when(f.col(_LET_GO).isNull(), to)).drop(_LET_GO)


def _with_all_columns(rows: DataFrame) -> DataFrame:
    """Return rows with all columns that a route or a key may name; missing ones are null."""
    all_of_them = {field.name: field.dataType for field in MESSAGE_TYPE}
    all_of_them |= {"refusal": StringType(), "refused_row": StringType()}
    missing = {
        name: f.lit(None).cast(kind)
        for name, kind in all_of_them.items()
        if name not in rows.columns
    }
    return rows.withColumns(missing)


def _together(parts: list[DataFrame]) -> DataFrame:
    """Return the union of DataFrames by column name; missing columns are null."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)


def _from_queues(config: PipelineConfig, spark: SparkSession) -> list[DataFrame]:
    """Return a stream for each queue source, with outcome "released"; [] without such sources."""
    found = []
    for number, source in enumerate(config.sources, 1):
        if isinstance(source, ClaimedSource):
            with as_pipeline_error(config.path, source_title(number)):
                rows = queue_rows(source, number, spark, config.path)
            found.append(_of_queue(config, source, rows))
    return found


def _of_queue(config: PipelineConfig, source: ClaimedSource, rows: DataFrame) -> DataFrame:
    """Return messages of a queue source with outcome "released", deadlines cut to the limit."""
    ended = {field.name: field.dataType for field in from_arrow_schema(ENDED)}
    cap_ms = _cap_ms(config.limit)
    if cap_ms is not None:
        capped = f.least("expire_at_ms", f.col("put_ms") + cap_ms)
        rows = rows.withColumn("expire_at_ms", capped)
    added = {
        "reason": f.lit(MQRC_NONE).cast("int"),
        "outcome": f.lit(State.RELEASED.value),
        "ended_ms": f.unix_millis(f.current_timestamp()),
        "report_owed": f.lit(None).cast(ended["report_owed"]),
    }
    if isinstance(source, StagingSource):
        added[_LET_GO] = f.lit(True)
    return rows.withColumns(added)


def _from_elsewhere(config: PipelineConfig, spark: SparkSession) -> list[DataFrame]:
    """Return a stream of the file and Kafka rows that are due, or are put at once; [] without such.

    Raises PipelineFileError for a source or a setting that Spark refuses.
    """
    parts = [
        foreign_rows(source, number, spark, config.path)
        for number, source in enumerate(config.sources, 1)
        if not isinstance(source, ClaimedSource)
    ]
    if not parts:
        return []
    with as_pipeline_error(config.path, "[[source]]"):
        rows = _together(parts)
    cap_ms = _cap_ms(config.limit)
    if cap_ms is not None:
        own = f.lit(None).cast("bigint")
        if "cap_ms" in rows.columns:
            # Below 0 is no cap.
            own = f.when(f.col("cap_ms") >= 0, f.col("cap_ms"))
        rows = rows.withColumn("cap_ms", f.least(own, cap_ms))
    line = config.delay_line
    rule: TtlRule = "release" if line.ttl_rule == "release" else "send"
    with as_pipeline_error(config.path, "[delay_line]"):
        if config.has_delay_line:
            at_once = partial(_put_at_once, config) if config.puts_delayed else None
            ended = lifetime(
                rows, ttl_rule=rule, slot_ms=line.slot_ms, shards=line.shards, at_once=at_once
            )
        else:
            ended = released_at_once(rows, ttl_rule=rule)
    reason = f.coalesce(f.col(MALFORMED).cast("int"), f.col("reason"))
    refusal = f.col("refusal")
    for code, text in _REFUSALS.items():
        is_so = refusal.isNull() & (f.col("reason") == code)
        refusal = f.when(is_so, f.lit(text)).otherwise(refusal)
    return [ended.withColumns({"refusal": refusal, "reason": reason}).drop(MALFORMED)]


def _put_at_once(config: PipelineConfig, rows: DataFrame) -> DataFrame:
    """Return messages with the column AT_ONCE, true if as released rows they go to a queue.

    Raises PipelineFileError for a wrong route condition.
    """
    ended = {field.name: field.dataType for field in from_arrow_schema(ENDED)}
    as_released = {
        "outcome": f.lit(State.RELEASED.value),
        "ended_ms": f.unix_millis(f.current_timestamp()),
        "report_owed": f.lit(None).cast(ended["report_owed"]),
    }
    complete = _with_all_columns(rows.withColumns(as_released))
    queues = [sink.name for sink in config.sinks if isinstance(sink, QueueSink)]
    to = _destination(config, complete)
    found = complete.withColumn(AT_ONCE, f.coalesce(to.isin(queues), f.lit(False)))
    return found.select(*rows.columns, AT_ONCE)


def _cap_ms(limit: Limit) -> Column | None:
    """Return the column with the lowest lifetime limit in ms for a row's queue, null if none.

    Returns None if the pipeline has no limit at all.
    """
    caps = [f.when(_fits(one), f.lit(one.cap_ms).cast("bigint")) for one in limit.queues]
    if limit.cap_ms is not None:
        caps.append(f.lit(limit.cap_ms).cast("bigint"))
    if not caps:
        return None
    return caps[0] if len(caps) == 1 else f.least(*caps)


def _fits(limit: QueueLimit) -> Column:
    """Return the condition that the row's queue has the limit's name, or matches its ``DEV.*``."""
    if limit.name.endswith("*"):
        return f.col("queue").startswith(limit.name[:-1])
    return f.col("queue") == limit.name


def _destination(config: PipelineConfig, rows: DataFrame) -> Column:
    """Return the column with the sink's name: that of the first matching route, else by outcome.

    The value is null for rows that go nowhere. Raises PipelineFileError for a wrong route
    condition.
    """
    first = config.sinks[0].name if config.sinks else None
    to = (
        f.when(f.col("outcome") == State.RELEASED.value, f.lit(first))
        .when(f.col("outcome") == State.DEAD_LETTERED.value, f.lit(config.dead_letter))
        .cast("string")
    )
    for number, route in reversed(list(enumerate(config.routes, 1))):
        fits = f.col("outcome") == route.outcome
        if route.when is not None:
            fits &= condition(rows, route.when, config.path, f"[[route]] {number}")
        to = f.when(fits, route.to).otherwise(to)
    return to


# The counts that a pipeline observes in each batch, as columns for Spark; progress.py names them


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
