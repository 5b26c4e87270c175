"""The sources of a pipeline as streams of message rows; malformed rows are marked, not lost.

The SQL expressions of a table turn rows of files and of Kafka into messages. A malformed row gets
MALFORMED, a reason code, ``refusal``, the reason in words, and ``refused_row``, the row as JSON. It
has no put time, so that the delay line passes it on at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from mayfly.mqi.constants import MQ_MSG_ID_LENGTH
from mayfly.mqi.reasons import (
    MQRC_BUFFER_ERROR,
    MQRC_FORMAT_ERROR,
    MQRC_MD_ERROR,
    MQRC_UNKNOWN_OBJECT_NAME,
)
from mayfly.pipeline.config import ADDED_COLUMNS
from mayfly.pipeline.expressions import as_pipeline_error, columns_of
from mayfly.pipeline.parts import (
    ClaimedSource,
    FileSource,
    KafkaSource,
    PipelineFileError,
    QueueSource,
)
from mayfly.pipeline.progress import IN_PREFIX, ROWS
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
