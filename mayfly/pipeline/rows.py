"""The rows of a pipeline: all sources in one stream, with limits, outcome and destination.

The SQL expressions of a table turn rows of files and of Kafka into messages. A malformed row is
marked, not lost: it gets MALFORMED, a reason code, ``refusal``, the reason in words, and
``refused_row``, the row as JSON. It has no put time, so that the delay line passes it on at once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, reduce
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType

from mayfly.lifetime.life import State
from mayfly.mqi.constants import MQ_MSG_ID_LENGTH
from mayfly.mqi.reasons import (
    MQRC_BUFFER_ERROR,
    MQRC_EXPIRY_ERROR,
    MQRC_FORMAT_ERROR,
    MQRC_MD_ERROR,
    MQRC_NONE,
    MQRC_OPTIONS_ERROR,
    MQRC_UNKNOWN_OBJECT_NAME,
)
from mayfly.pipeline.config import (
    ADDED_COLUMNS,
    ClaimedSource,
    FileSource,
    KafkaSource,
    Limit,
    PipelineConfig,
    PipelineFileError,
    QueueLimit,
    QueueSink,
    QueueSource,
    StagingSource,
)
from mayfly.pipeline.errors import OptionError
from mayfly.pipeline.progress import (
    DEAD_LETTERED,
    EXPIRED,
    IN_PREFIX,
    LATE_MS_MAX,
    LET_GO,
    OUT,
    OVERDUE,
    RELEASED,
    REPORTS,
    ROWS,
)
from mayfly.pipeline.spark.delay_line import AT_ONCE, ENDED, TtlRule, lifetime, released_at_once
from mayfly.pipeline.spark.messages import (
    ASKED_COLUMNS,
    MESSAGE_TYPE,
    MOMENTS,
    REQUIRED_COLUMNS,
    as_messages,
)
from mayfly.pipeline.spark.queue_source import (
    CLAIMED_ROWS,
    ROW_NUMBER,
    ROW_NUMBERS,
    RowRange,
    ranges_text,
)

#: PySpark logs the errors that it raises here, on standard error.
_SPARKS_LOGGER = "SQLQueryContextLogger"


@contextmanager
def as_pipeline_error(path: Path, where: str) -> Iterator[None]:
    """Return a context that turns Spark's analysis errors into a PipelineFileError about ``where``.

    An OptionError is turned as well. Spark does not log its errors inside the context.
    """
    logger = PySparkLogger.getLogger(_SPARKS_LOGGER)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise PipelineFileError(path, where, _first_line(error)) from error
    except OptionError as error:
        raise PipelineFileError(path, where, str(error)) from error
    finally:
        logger.setLevel(level)


def columns_of(
    rows: DataFrame, expressions: Mapping[str, str], path: Path, where: str
) -> dict[str, Column]:
    """Return a Spark column for each SQL expression, by name.

    Raises PipelineFileError about ``where`` in the file ``path`` if Spark cannot compute an
    expression, or if it is not deterministic.
    """
    columns = {}
    for name, expression in expressions.items():
        with as_pipeline_error(path, f"{where}, {name}: {expression!r}"):
            columns[name] = f.expr(expression).alias(name)
            _check_repeatable(rows.select(columns[name]))
    return columns


def condition(rows: DataFrame, expression: str, path: Path, where: str) -> Column:
    """Return the Spark column of a SQL condition.

    Raises PipelineFileError about ``where`` in the file ``path`` unless the expression is boolean,
    deterministic and computable from ``rows``.
    """
    with as_pipeline_error(path, f"{where}, when: {expression!r}"):
        column = f.expr(expression)
        selected = rows.select(column)
        _check_repeatable(selected)
        kind = selected.schema[0].dataType.simpleString()
        if kind != "boolean":
            raise OptionError(f"is {kind}, neither true nor false")
    return column


def _check_repeatable(rows: DataFrame) -> None:
    """Raise OptionError if ``rows`` use uuid(), rand() or the like: a repeat would differ."""
    plan: Any = rows._jdf.queryExecution().analyzed()
    if not plan.deterministic():
        raise OptionError("gives another value each time: a batch that Spark repeats must be equal")


def _first_line(error: AnalysisException | ParseException) -> str:
    """Return the first line of Spark's error text, without the SQLSTATE behind it."""
    text = next(line for line in str(error).splitlines() if line.strip())
    return text.partition(" SQLSTATE")[0]


#: The number of the source, and of the row that its consumer has claimed; null in other rows.
SOURCE_ROW = ROW_NUMBER
_ROW_BITS = 40
#: The reason code of a row that is no message, null for all others.
MALFORMED = "_mayfly_malformed"
_CORRUPT, _ROW = "_corrupt_record", "_mayfly_row"
#: Formats whose lines may not match the schema.
_CHECKED_FORMATS = ("json", "csv")
_KAFKA = "kafka"
_TAKEN_AS_THEY_ARE = {*MESSAGE_TYPE.names, *ASKED_COLUMNS}


def source_title(number: int) -> str:
    """Return the title of source ``number`` (from 1) for error texts: ``[[source]] 1``."""
    return f"[[source]] {number}"


def queue_rows(source: ClaimedSource, number: int, spark: SparkSession, path: Path) -> DataFrame:
    """Return the stream of messages of a queue source, which its consumer claims (reserves).

    ``number`` is the source's, from 1. The rows are counted for Spark's progress event. Rows of a
    queue source have the column SOURCE_ROW. Raises PipelineFileError, which names the pipeline's
    file ``path``, for a wrong expression.
    """
    rows = spark.readStream.format("mayfly").options(**queue_options(source)).load()
    rows = _numbered(rows, number).observe(f"{IN_PREFIX}{number}", f.count(f.lit(1)).alias(ROWS))
    return _with_columns(rows, source, number, path) if isinstance(source, QueueSource) else rows


def claimed_rows(
    source: QueueSource, number: int, spark: SparkSession, ranges: Iterable[RowRange], path: Path
) -> DataFrame:
    """Return messages that the consumer has reserved before, read again by row number.

    ``ranges`` are ranges (after, until] of row numbers. ``number`` is the source's, from 1.
    ``path`` is the pipeline's file, for errors.
    """
    options = {**queue_options(source), CLAIMED_ROWS: ranges_text(ranges)}
    rows = spark.read.format("mayfly").options(**options).load()
    return _with_columns(_numbered(rows, number), source, number, path)


def _with_columns(rows: DataFrame, source: QueueSource, number: int, path: Path) -> DataFrame:
    """Return messages with the columns that the source's expressions replace or add.

    Raises PipelineFileError for a wrong expression, or one whose type its column cannot have.
    """
    if not source.columns:
        return rows
    columns = columns_of(rows, source.columns, path, f"{source_title(number)}, columns")
    with as_pipeline_error(path, source_title(number)):
        # A moment by the name of a TIMESTAMP takes the place of the message's own.
        own = [MOMENTS[name] for name in columns if name in MOMENTS]
        replaced = [name for name in own if name not in columns]
        return as_messages(rows.withColumns(columns).drop(*replaced), ADDED_COLUMNS)


def source_row(value: int) -> tuple[int, int]:
    """Split a SOURCE_ROW value into the source's number (from 1) and the message's row number."""
    return value >> _ROW_BITS, value & (1 << _ROW_BITS) - 1


def _numbered(rows: DataFrame, number: int) -> DataFrame:
    """Return rows whose SOURCE_ROW also has the source's number; unchanged without the column."""
    if SOURCE_ROW not in rows.columns:
        return rows
    return rows.withColumn(SOURCE_ROW, f.col(SOURCE_ROW) + f.lit(number << _ROW_BITS))


def queue_options(source: ClaimedSource) -> dict[str, str]:
    """Return the options of Spark's ``format("mayfly")`` that read from this source."""
    given = {
        "url": source.url,
        "tokenFile": source.token_file,
        "manager": source.manager,
        "queue": source.queue,
        "consumer": source.consumer,
        "maxRowsPerBatch": source.rows_per_batch,
        "maxBytesPerBatch": source.bytes_per_batch,
        "partitions": source.partitions,
        "maxBytesPerTask": source.bytes_per_task,
        "epoch": source.epoch,
        ROW_NUMBERS: "true" if isinstance(source, QueueSource) else None,
    }
    return {name: str(value) for name, value in given.items() if value is not None}


def foreign_rows(
    source: FileSource | KafkaSource, number: int, spark: SparkSession, path: Path
) -> DataFrame:
    """Return the rows of files or of Kafka as messages.

    A malformed row gets a reason code in the column MALFORMED; it is null for others. ``number`` is
    the source's, from 1. Raises PipelineFileError, which names the pipeline's file ``path``, for a
    wrong expression or schema.
    """
    if isinstance(source, FileSource):
        read = _files(source, number, spark, path)
    else:
        read = _records(source, number, spark, path)
    counted = read.observe(f"{IN_PREFIX}{number}", f.count(f.lit(1)).alias(ROWS))
    messages = _messages(counted, source, number, path)
    with as_pipeline_error(path, source_title(number)):
        return as_messages(_marked(messages), [n for n in ADDED_COLUMNS if "refus" not in n])


def check_kafka(spark: SparkSession, path: Path, where: str) -> None:
    """Raise PipelineFileError unless Spark has its Kafka connector, which is a separate package."""
    jvm: Any = spark._jvm
    sources = jvm.org.apache.spark.sql.execution.datasources.DataSource
    try:
        sources.lookupDataSource(_KAFKA, spark._jsparkSession.sessionState().conf())
    except AnalysisException as error:
        raise PipelineFileError(path, where, _no_kafka(spark)) from error


def _no_kafka(spark: SparkSession) -> str:
    """Return the error text that says how to add Kafka's connector for this version of Spark."""
    package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
    return (
        "this Spark has no Kafka: name its package in [spark], "
        f'"spark.jars.packages" = "{package}", or put its jars among Spark\'s own'
    )


def _files(source: FileSource, number: int, spark: SparkSession, path: Path) -> DataFrame:
    """Return the stream of a folder's files; a line that does not fit the schema is in _CORRUPT.

    Raises PipelineFileError for a wrong schema, or a folder that Spark cannot read.
    """
    reader = spark.readStream.format(source.format).options(**source.options)
    schema = source.schema
    if source.format in _CHECKED_FORMATS:
        schema = f"{schema}, {_CORRUPT} string"
        reader = reader.option("columnNameOfCorruptRecord", _CORRUPT).option("mode", "PERMISSIVE")
    if source.files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", source.files_per_batch)
    with as_pipeline_error(path, f"{source_title(number)}, schema: {source.schema!r}"):
        reader = reader.schema(schema)
    with as_pipeline_error(path, f"{source_title(number)}, path"):
        return reader.load(source.path)


def _records(source: KafkaSource, number: int, spark: SparkSession, path: Path) -> DataFrame:
    """Return a Kafka topic's records as a stream; raises PipelineFileError without a connector."""
    where = source_title(number)
    check_kafka(spark, path, where)
    reader = (
        spark.readStream.format(_KAFKA)
        .options(**source.options)
        .option("kafka.bootstrap.servers", source.bootstrap_servers)
        .option("subscribe", source.topic)
        .option("startingOffsets", source.starting_offsets)
    )
    if source.rows_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", source.rows_per_batch)
    with as_pipeline_error(path, where):
        return reader.load()


def _messages(
    read: DataFrame, source: FileSource | KafkaSource, number: int, path: Path
) -> DataFrame:
    """Return the message columns that the table's expressions define, and each row as it was read.

    A source column with a message column's name is taken as it is. put_ms is by default the time of
    the batch. Raises PipelineFileError if a required column is missing or an expression is wrong.
    """
    columns = columns_of(read, source.columns, path, f"{source_title(number)}, columns")
    for name in read.columns:
        if name.lower() in _TAKEN_AS_THEY_ARE:
            columns.setdefault(name.lower(), f.col(name).alias(name.lower()))
    # Spark gives a repeated batch the same current_timestamp.
    columns.setdefault("put_ms", f.unix_millis(f.current_timestamp()).alias("put_ms"))
    for name in REQUIRED_COLUMNS:
        if name not in columns:
            text = f"is missing: say what makes it of {', '.join(_read_columns(read))}"
            raise PipelineFileError(path, f"{source_title(number)}, columns.{name}", text)
    corrupt = f.col(_CORRUPT) if _CORRUPT in read.columns else f.lit(None).cast("string")
    row = f.struct(*[f.col(f"`{name}`") for name in _read_columns(read)])
    return read.select(
        *columns.values(),
        corrupt.alias(_CORRUPT),
        f.coalesce(corrupt, f.to_json(row)).alias(_ROW),
    )


def _read_columns(read: DataFrame) -> list[str]:
    """Return the columns that come from the source, without Spark's corrupt-line column."""
    return [name for name in read.columns if name != _CORRUPT]


def _marked(messages: DataFrame) -> DataFrame:
    """Return messages with MALFORMED (a reason code), refusal and refused_row; null for valid ones.

    Malformed rows get no put time and no reports, so that the delay line passes them on at once.
    """
    reason, refusal = f.lit(None).cast("bigint"), f.lit(None).cast("string")
    for test, code, text in reversed(_tests(messages)):
        reason = f.when(test, f.lit(code).cast("bigint")).otherwise(reason)
        refusal = f.when(test, f.lit(text)).otherwise(refusal)
    marked = messages.withColumns({MALFORMED: reason, "refusal": refusal})
    is_sound = f.col(MALFORMED).isNull()
    changed = {
        "refused_row": f.when(~is_sound, f.col(_ROW)),
        "put_ms": f.when(is_sound, f.col("put_ms")),
    }
    if "report" in messages.columns:
        changed["report"] = f.when(is_sound, f.col("report"))
    return marked.withColumns(changed).drop(_ROW, _CORRUPT)


def _tests(messages: DataFrame) -> list[tuple[Column, int, str]]:
    """Return the conditions that make a row malformed, each with its reason code and text."""
    tests = [
        (f.col(_CORRUPT).isNotNull(), MQRC_FORMAT_ERROR, "the line is not what the schema says"),
        (f.col("queue").isNull(), MQRC_UNKNOWN_OBJECT_NAME, "queue is null"),
        (f.col("payload").isNull(), MQRC_BUFFER_ERROR, "payload is null"),
        (f.col("put_ms").isNull(), MQRC_MD_ERROR, "put_ms is null"),
    ]
    for name in ("msg_id", "correl_id"):
        if name in messages.columns:
            is_long = f.length(name) > MQ_MSG_ID_LENGTH
            text = f"{name} is longer than {MQ_MSG_ID_LENGTH} bytes"
            tests.append((is_long, MQRC_MD_ERROR, text))
    return tests


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
