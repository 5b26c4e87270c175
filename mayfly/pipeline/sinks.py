"""Writes a batch to each sink, such that a repeat of the batch changes nothing.

A sink has one write or several. Messages, dead letters and reports of a queue sink are separate
applications, by which the queue manager recognises a repeat, under the id of the checkpoint.

A dead letter is a refused row behind an MQDLH with the reason. A row that is a message keeps its
data and ids. Any other row becomes JSON with the reason and the row as it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from mayfly.lifetime.dead_letters import Refusal, behind_header
from mayfly.lifetime.life import State
from mayfly.mqi.constants import MQAT_UNIX, MQENC_NATIVE
from mayfly.mqi.descriptor import Descriptor
from mayfly.pipeline.bulk.queue_client import STAGED, StageClient
from mayfly.pipeline.config import FileSink, KafkaSink, PipelineConfig, QueueSink, QueueSource
from mayfly.pipeline.rows import SOURCE_ROW, TO, as_pipeline_error, check_kafka, columns_of
from mayfly.pipeline.spark.sink import check_columns
from mayfly.verbs.contracts.stages import SOURCE_ROW as STAGED_ROW

#: Every queue manager has it.
DEAD_LETTER_QUEUE = "SYSTEM.DEAD.LETTER.QUEUE"
_TEXT_FORMAT = "MQSTR"
_UTF8 = 1208
#: Columns of the refused message that its dead letter keeps; a row that is no message keeps none.
_KEPT = ("msg_id", "correl_id", "priority", "persistence", "user_identifier")
_DESCRIBED = ("format", "encoding", "coded_char_set_id")
_LETTER = pa.schema([STAGED.field(name) for name in ("queue", *_DESCRIBED, "payload", *_KEPT)])
_Batches: TypeAlias = Iterator[pa.RecordBatch]


def dead_letters(rows: DataFrame, queue: str | None, application: str) -> DataFrame:
    """Return refused rows as messages for dead-letter queue ``queue``, each with an MQDLH in front.

    ``rows`` has message columns and ``config.ADDED_COLUMNS``. The result has columns that a sink
    puts: ``queue``, ``payload``, and what a message keeps of its descriptor. ``queue`` None means
    SYSTEM.DEAD.LETTER.QUEUE. ``application`` becomes PutApplName of the MQDLH.
    """
    is_message = f.col("refused_row").isNull()
    reasoned = f.to_json(f.struct("refusal", f.col("refused_row").alias("row"))).cast("binary")
    columns = [f.when(is_message, f.col(name)).alias(name) for name in (*_KEPT, *_DESCRIBED)]
    given = rows.select(
        "queue",
        *columns,
        f.when(is_message, f.col("payload")).otherwise(reasoned).alias("payload"),
        is_message.alias("is_message"),
        "reason",
        "ended_ms",
    )
    name = DEAD_LETTER_QUEUE if queue is None else queue
    return given.mapInArrow(_writer(name, application), from_arrow_schema(_LETTER))


def _writer(queue: str, application: str) -> Callable[[_Batches], _Batches]:
    """Return the function for Spark's mapInArrow that turns refused rows into dead letters.

    ``queue`` is the dead-letter queue, ``application`` becomes PutApplName of each MQDLH.
    """

    def write(batches: _Batches) -> _Batches:
        """Yield a batch of dead letters for each batch of refused rows."""
        for batch in batches:
            letters = [_letter(row, queue, application) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(letters, schema=_LETTER)

    return write


def _letter(row: dict[str, Any], queue: str, application: str) -> dict[str, Any]:
    """Return the columns of one dead letter; its payload is the MQDLH, then the row's data."""
    refused = row["queue"] or ""
    dead, header = behind_header(
        _described(row),
        Refusal(row["reason"], refused, "", MQAT_UNIX, application, row["ended_ms"]),
    )
    return {
        **{name: row[name] for name in _KEPT},
        "queue": queue,
        "format": dead.format,
        "encoding": dead.encoding,
        "coded_char_set_id": dead.coded_char_set_id,
        "payload": header + row["payload"],
    }


def _described(row: dict[str, Any]) -> Descriptor:
    """Return format, encoding and CCSID of a dead letter's data, as a message descriptor.

    A row that is no message has JSON as data: MQSTR in UTF-8. Null fields become "" and 0.
    """
    if not row["is_message"]:
        return Descriptor(format=_TEXT_FORMAT, encoding=MQENC_NATIVE, coded_char_set_id=_UTF8)
    return Descriptor(
        format=row["format"] or "",
        encoding=row["encoding"] or 0,
        coded_char_set_id=row["coded_char_set_id"] or 0,
    )


_PERSISTENCE = {
    "persistent": "persistent",
    "non_persistent": "nonPersistent",
    "as_queue": "asQueue",
}
#: Columns that the sink decides, and delays that a row of the pipeline no longer has.
_NOT_WRITTEN = ("manager", "queue", "delay_ms", "deliver_at_ms", "time_to_live_ms")
#: SOURCE_ROW of a row, the reason code, and the reason in words.
Surrendered: TypeAlias = tuple[int, int, str]
_Write: TypeAlias = Callable[[DataFrame, int], None]


class SinkWrite(NamedTuple):
    """Rows of a batch that one function writes together; a sink has one write or several.

    ``rows`` is the condition that selects them and ``shape`` turns them into the written form.
    ``write`` takes rows and the batch number. ``surrendered`` returns the rows of a batch that no
    queue accepted.
    """

    rows: Column
    write: _Write
    shape: Callable[[DataFrame], DataFrame]
    surrendered: Callable[[int], list[Surrendered]] = lambda _batch_id: []


def sink_writes(config: PipelineConfig, checkpoint_id: str) -> list[SinkWrite]:
    """Return the writes of a batch to all sinks, in the file's order; a queue sink has up to three.

    By ``checkpoint_id`` a queue sink recognises a batch that it has already.
    """
    found: list[SinkWrite] = []
    for sink in config.sinks:
        is_for_it = f.col(TO) == sink.name
        if isinstance(sink, FileSink):
            found.append(SinkWrite(is_for_it, _file_writer(sink), _lines))
        elif isinstance(sink, KafkaSink):
            found.append(SinkWrite(is_for_it, _kafka_writer(sink), partial(_records, sink)))
        else:
            found += _queue_writes(sink, config, checkpoint_id)
    return found


def check_sinks(config: PipelineConfig, rows: DataFrame) -> None:
    """Raise PipelineFileError if a sink cannot write such columns, or needs a missing connector."""
    for number, sink in enumerate(config.sinks, 1):
        where = f"[[sink]] {number}"
        if isinstance(sink, QueueSink):
            with as_pipeline_error(config.path, where):
                check_columns(_messages(rows, sink.queue).schema, sink.queue)
        elif isinstance(sink, KafkaSink):
            columns_of(rows, {"key": sink.key, "value": sink.value}, config.path, where)
            check_kafka(rows.sparkSession, config.path, where)


def sink_options(sink: QueueSink) -> dict[str, str]:
    """Return the options of ``format("mayfly")`` that write to this sink, except the batch."""
    given = {
        "url": sink.url,
        "tokenFile": sink.token_file,
        "manager": sink.manager,
        "deadLetterQueue": sink.dead_letter_queue,
        "persistence": _PERSISTENCE[sink.persistence],
    }
    return {name: value for name, value in given.items() if value is not None}


def _queue_writes(
    sink: QueueSink, config: PipelineConfig, checkpoint_id: str
) -> Iterator[SinkWrite]:
    """Yield the writes of a queue sink: one each for messages, dead letters and reports.

    The last two are left out if they cannot occur. By ``checkpoint_id`` and the batch number the
    queue manager recognises a batch that it has already.
    """
    application = f"{checkpoint_id}/{sink.name}"
    is_for_it = f.col(TO) == sink.name
    is_dead = f.col("outcome") == State.DEAD_LETTERED.value

    def messages(rows: DataFrame) -> DataFrame:
        """Return the rows as messages to put on the sink's queue."""
        return _messages(rows, sink.queue)

    def letters(rows: DataFrame) -> DataFrame:
        """Return refused rows as messages for the sink's dead-letter queue."""
        return dead_letters(rows, sink.dead_letter_queue, config.name)

    surrenders = any(isinstance(s, QueueSource) and s.epoch is not None for s in config.sources)
    write = _queue_writer(sink, application, messages, surrenders=surrenders)
    if surrenders:
        left = partial(_surrendered, sink, application)
        yield SinkWrite(is_for_it & ~is_dead, write, messages, left)
    else:
        yield SinkWrite(is_for_it & ~is_dead, write, messages)
    if not config.has_foreign_rows:
        # Messages of queues are not refused here; the next queue manager sends their reports.
        return
    yield SinkWrite(
        is_for_it & is_dead, _queue_writer(sink, f"{application}/dead", letters), letters
    )
    if config.reports == sink.name:
        is_owed = f.col("report_owed").isNotNull()
        write = _queue_writer(sink, f"{application}/reports", _reports)
        yield SinkWrite(is_owed, write, _reports)


def _queue_writer(
    sink: QueueSink,
    application: str,
    shape: Callable[[DataFrame], DataFrame],
    *,
    surrenders: bool = False,
) -> _Write:
    """Return a function that puts rows on queues, shaped by ``shape``, once for each batch number.

    ``application`` names the writer to the queue manager, which ignores a batch that it has
    already. With ``surrenders`` rows that no queue accepts are kept for ``_surrendered`` instead of
    an error.
    """
    options = {**sink_options(sink), "txnAppId": application}
    if surrenders:
        options["surrenders"] = "true"

    def write(rows: DataFrame, batch_id: int) -> None:
        """Put the rows on queues as batch ``batch_id``; nothing happens for a batch put before."""
        writer = shape(rows).write.format("mayfly").mode("append")
        writer.options(**options, txnVersion=str(batch_id)).save()

    return write


def _surrendered(sink: QueueSink, application: str, batch_id: int) -> list[Surrendered]:
    """Return the rows of a batch that no queue accepted, [] if all were put; raises BulkError."""
    with StageClient(sink.url, token_file=sink.token_file, manager=sink.manager) as client:
        return client.surrendered(application, batch_id)


def _messages(rows: DataFrame, queue: str | None) -> DataFrame:
    """Return rows with the columns to put, on ``queue``, or for None on the queue each names.

    A row that is not released, such as a copy of an expired one, gets no deadline and no reports. A
    row of a file or topic that was released before it is due keeps its delivery time; one whose
    deadline comes first is put to expire at that moment.
    """
    is_released = f.col("outcome") == State.RELEASED.value
    is_early = is_released & (f.col("deliver_at_ms") > f.col("ended_ms"))
    if SOURCE_ROW in rows.columns:
        is_early &= f.col(SOURCE_ROW).isNull()
    columns = [(f.col("queue") if queue is None else f.lit(queue)).alias("queue")]
    for name in rows.columns:
        if name in STAGED.names and name not in _NOT_WRITTEN:
            ends = name in ("expire_at_ms", "report")
            column = f.when(is_released, f.col(name)) if ends else f.col(name)
            columns.append(column.alias(name))
    delivery = f.when(is_early, f.least("deliver_at_ms", "expire_at_ms"))
    columns.append(delivery.alias("deliver_at_ms"))
    if SOURCE_ROW in rows.columns:
        columns.append(f.col(SOURCE_ROW).alias(STAGED_ROW))
    return rows.select(columns)


def _reports(rows: DataFrame) -> DataFrame:
    """Return the report messages that rows owe, addressed to the manager that each names."""
    owed = rows.select("report_owed.*")
    return owed.select([n for n in owed.columns if n in STAGED.names and n != "deliver_at_ms"])


def _file_writer(sink: FileSink) -> _Write:
    """Return a function that writes a batch as files into ``b=NUMBER``, replacing this folder."""

    def write(rows: DataFrame, batch_id: int) -> None:
        """Write the rows to the subfolder of batch ``batch_id``, replacing its files."""
        writer = _lines(rows).write.format(sink.format).options(**sink.options)
        writer.mode("overwrite").save(f"{sink.path}/b={batch_id}")

    return write


def _lines(rows: DataFrame) -> DataFrame:
    """Return the rows without the columns that are internal or not for files."""
    return rows.drop("report_owed", TO, SOURCE_ROW)


def _records(sink: KafkaSink, rows: DataFrame) -> DataFrame:
    """Return the rows as Kafka records: columns key and value, by the sink's expressions."""
    return rows.select(f.expr(sink.key).alias("key"), f.expr(sink.value).alias("value"))


def _kafka_writer(sink: KafkaSink) -> _Write:
    """Return a function that writes rows to a Kafka topic; a repeated batch is written again."""

    def write(rows: DataFrame, _batch_id: int) -> None:
        """Write the rows to the Kafka topic."""
        writer = _records(sink, rows).write.format("kafka").options(**sink.options)
        writer = writer.option("kafka.bootstrap.servers", sink.bootstrap_servers)
        writer.option("topic", sink.topic).save()

    return write
