"""Queues as a sink of Spark's ``format("mayfly")``: writes a DataFrame into queues, exactly once.

Each task uploads its rows to a stage of their queue manager: a table of rows that are on no queue
yet, named by query, batch, partition and attempt. The driver's commit names the stages that count,
and the queue manager puts their rows. A batch that Spark repeats, after any failure, changes
nothing (engine/bulk/stages.py). The same holds for the write of a plain DataFrame whose options
name its application and batch.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from mayfly.mqi.constants import MQPER_NOT_PERSISTENT, MQPER_PERSISTENT
from mayfly.pipeline.bulk.errors import UnknownManager
from mayfly.pipeline.bulk.queue_client import STAGED, StageClient, Upload
from mayfly.pipeline.errors import OptionError
from mayfly.pipeline.spark.messages import MOMENTS, MOMENTS_MS, PAYLOAD, OptionReader, check_moment
from mayfly.verbs.contracts.stages import JOB_PREFIX

#: Columns about the former life of a message; a put begins a new one.
IGNORED_COLUMNS = ("put_ms", "backout_count")
_QUEUE, _MANAGER, _PERSISTENCE = "queue", "manager", "persistence"
#: The names that Delta gave to these two, for the same purpose.
_APPLICATION, _VERSION, _JOB = "txnAppId", "txnVersion", "jobId"
_VERSION_LIMIT = 2**63
_QUERY_PROPERTY, _BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"
_IGNORES_EXTRA = "ignoreExtraColumns"
_ASYNCHRONOUS = "asyncProgressTracking"
#: Options of a stream that Spark itself reads.
_SPARKS_OWN = (
    "checkpointLocation",
    "queryName",
    f"{_ASYNCHRONOUS}CheckpointIntervalMs",
    f"_{_ASYNCHRONOUS}OverrideSinkSupportCheck",
)
_PERSISTENCES: dict[str, int | None] = {
    "persistent": MQPER_PERSISTENT,
    "nonpersistent": MQPER_NOT_PERSISTENT,
    "asqueue": None,
}
_TEXTS = ("string", "varchar", "char")
_WHOLE_NUMBERS = ("bigint", "int", "smallint", "tinyint", "long", "integer", "short", "byte")
_KINDS = {pa.binary(): ("binary",), pa.string(): _TEXTS}


class SinkOptions(NamedTuple):
    """The checked options for writing; ``persistence`` None leaves the choice to the queue.

    ``transaction`` is (txnAppId, txnVersion): the DataFrame is this batch of this application. A
    version not above the last one written changes nothing. With ``surrenders`` rows that no queue
    accepts are reported to the pipeline that read them, instead of an error. With
    ``ignores_extra_columns`` columns that no message has are left out, instead of an error.
    """

    url: str
    token_file: str | None
    manager: str | None
    queue: str | None
    dead_letter_queue: str
    persistence: int | None
    job_id: str
    transaction: tuple[str, int] | None
    surrenders: bool
    ignores_extra_columns: bool

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Return the checked options; raises OptionError, which names option and value."""
        given = OptionReader(options)
        if given.flag(f"{_ASYNCHRONOUS}Enabled"):
            raise OptionError(
                f"option {_ASYNCHRONOUS}Enabled: a batch must be written down before the next one "
                "is, or rows could be put twice; leave it false"
            )
        for name in _SPARKS_OWN:
            given.optional(name)
        persistence = given.text(_PERSISTENCE, "persistent")
        if persistence.lower() not in _PERSISTENCES:
            raise OptionError(
                f"option {_PERSISTENCE}: {persistence!r} is none of persistent, nonPersistent, "
                "asQueue"
            )
        parsed = cls(
            url=given.url(),
            token_file=given.optional("tokenFile"),
            manager=given.optional(_MANAGER),
            queue=given.optional(_QUEUE),
            dead_letter_queue=given.text("deadLetterQueue", ""),
            persistence=_PERSISTENCES[persistence.lower()],
            job_id=given.text(_JOB, secrets.token_hex(16)),
            surrenders=given.flag("surrenders"),
            ignores_extra_columns=given.flag(_IGNORES_EXTRA),
            transaction=_transaction(given, has_job=any(n.lower() == "jobid" for n in options)),
        )
        if parsed.queue == "":
            raise OptionError("option queue is empty: leave it out when each row names its queue")
        if not parsed.job_id:
            raise OptionError(f"option {_JOB} is empty")
        given.refuse_unknown_keys()
        return parsed

    def connect(self, manager: str | None) -> StageClient:
        """Return a client of a queue manager; ``manager`` None means the only one of the server.

        The token is read now. The first call opens the connection.
        """
        return StageClient(self.url, token_file=self.token_file, manager=manager, is_patient=True)


def _transaction(given: OptionReader, *, has_job: bool) -> tuple[str, int] | None:
    """Return the options txnAppId and txnVersion, None without both.

    Raises OptionError for one without the other, beside jobId, or for an invalid value.
    """
    application, version = given.optional(_APPLICATION), given.optional(_VERSION)
    if application is None and version is None:
        return None
    if not application or version is None:
        missing = _VERSION if application else _APPLICATION
        raise OptionError(f"option {missing} is missing: {_APPLICATION} and {_VERSION} go together")
    if has_job:
        raise OptionError(f"option {_JOB} beside {_APPLICATION}: each says what a repeat is")
    if application.startswith(JOB_PREFIX):
        raise OptionError(
            f"option {_APPLICATION}: {application!r} begins with {JOB_PREFIX!r}, as names do that "
            "are forgotten after a day"
        )
    if not version.isdecimal() or int(version) >= _VERSION_LIMIT:
        raise OptionError(f"option {_VERSION}: {version!r} is not a whole number from 0 to 2^63-1")
    return application, int(version)


@dataclass
class Written(WriterCommitMessage):
    """A task's message to the driver: the stages it filled, as (manager, partition, attempt)."""

    query: str
    batch: int
    stages: list[tuple[str, int, str]]
    row_count: int


class StreamSink(DataSourceStreamArrowWriter):
    """Writes the batches of a Spark stream; the query id in the checkpoint makes them unique."""

    def __init__(self, options: SinkOptions) -> None:
        """Keep the options; a connection would not survive the way to the workers."""
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Upload the rows of a Spark task, and return the ids of their stages for the commit.

        A stage is a table of uploaded rows that are on no queue yet. Raises BulkError, and
        OptionError if Spark does not pass the query id.
        """
        context = _task()
        query = context.getLocalProperty(_QUERY_PROPERTY)
        batch = context.getLocalProperty(_BATCH_PROPERTY)
        if query is None or batch is None:
            raise OptionError("a streaming write has no query id: is this Spark older than 4.2?")
        return _write(self._options, query, int(batch), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Put the uploaded rows of all tasks on their queues; called on the driver.

        For a batch that was committed before, only rows not yet put are put. Raises BulkError.
        """
        _commit(self._options, messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Do nothing: the next commit of the query removes the uploaded rows."""


class BatchSink(DataSourceArrowWriter):
    """Writes a DataFrame once: as the batch of an application that the options name.

    Without these options it is the only batch of a job, whose id is made when the write is planned.
    """

    def __init__(self, options: SinkOptions) -> None:
        """Keep the options and make the job's id; a connection would not survive to the workers."""
        self._options = options
        self._batch = options.transaction or (JOB_PREFIX + options.job_id, 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Upload the rows of a Spark task, and return the ids of their stages for the commit.

        A stage is a table of uploaded rows that are on no queue yet. Raises BulkError.
        """
        return _write(self._options, *self._batch, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Put the uploaded rows of all tasks on their queues; called on the driver.

        For a batch that was committed before, only rows not yet put are put. Raises BulkError.
        """
        _commit(self._options, messages, self._batch[1])

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: the server removes the uploaded rows after some time."""


def stream_sink(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """Return the writer for a stream; raises OptionError for a wrong option or column.

    With ``overwrite`` (mode "complete") it always raises: rows can only be added to a queue.
    """
    if overwrite:
        raise OptionError('output mode "complete": a queue only takes more; use "append"')
    parsed = SinkOptions.parse(options)
    if parsed.transaction is not None:
        raise OptionError(f"option {_APPLICATION}: a stream has its own in its checkpoint")
    check_columns(schema, parsed.queue, ignores_extra=parsed.ignores_extra_columns)
    return StreamSink(parsed)


def batch_sink(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceArrowWriter:
    """Return the writer for a DataFrame; raises OptionError for a wrong option or column.

    With ``overwrite`` (mode "overwrite") it always raises: rows can only be added to a queue.
    """
    if overwrite:
        raise OptionError('mode "overwrite": a queue only takes more; use "append"')
    parsed = SinkOptions.parse(options)
    check_columns(schema, parsed.queue, ignores_extra=parsed.ignores_extra_columns)
    return BatchSink(parsed)


def check_columns(schema: StructType, queue: str | None, *, ignores_extra: bool = False) -> None:
    """Raise OptionError, which names the column, unless rows of this schema can be put.

    Names are in any case, whole numbers of any width. A payload may be text, a moment a TIMESTAMP.
    ``queue`` is the queue for all rows; with None a queue column is required. A column that no put
    knows is refused, because its values would be lost, unless ``ignores_extra``.
    """
    names = [field.name.lower() for field in schema]
    if PAYLOAD not in names:
        raise OptionError(f"column {PAYLOAD} is missing: it holds the data of a message")
    if _QUEUE not in names and queue is None:
        raise OptionError(f"column {_QUEUE} is missing, and option {_QUEUE}: where do rows go?")
    for field in schema:
        name = field.name.lower()
        if name in IGNORED_COLUMNS:
            continue
        if name not in STAGED.names and name not in MOMENTS:
            if ignores_extra:
                continue
            raise OptionError(
                f"column {field.name} is none that a message has: {', '.join(STAGED.names)}; "
                f"drop it, or set option {_IGNORES_EXTRA}"
            )
        if names.count(name) > 1:
            raise OptionError(f"column {name} is there {names.count(name)} times")
        if name in MOMENTS:
            check_moment(field, names)
            continue
        kinds = _KINDS.get(STAGED.field(name).type, _WHOLE_NUMBERS)
        other = {PAYLOAD: _TEXTS}.get(name, ("timestamp",) if name in MOMENTS_MS else ())
        found = field.dataType.simpleString()
        if found.partition("(")[0] not in (*kinds, *other, "void"):
            wanted = " or ".join((kinds[0], *other[:1]))
            raise OptionError(f"column {field.name} is {found}, a message has {wanted} there")


def staged_rows(batch: pa.RecordBatch, options: SinkOptions) -> pa.RecordBatch:
    """Return rows with the columns of STAGED; nulls get queue and persistence of the options.

    A text payload is in UTF-8 then, and a moment in ms since 1970.
    """
    lower = [name.lower() for name in batch.schema.names]
    given = {MOMENTS.get(name, name): column for name, column in zip(lower, batch, strict=True)}
    defaults = {_QUEUE: options.queue, _PERSISTENCE: options.persistence}
    columns = []
    for field in STAGED:
        column = given.get(field.name)
        default = defaults.get(field.name)
        if column is None:
            column = pa.nulls(batch.num_rows, field.type)
        if pa.types.is_timestamp(column.type):
            # Spark's are in microseconds.
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        column = column.cast(field.type)
        if default is not None and column.null_count:
            column = pc.fill_null(column, pa.scalar(default, field.type))
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=STAGED)


class _Uploads:
    """The uploads of one Spark task, one for each queue manager that its rows name."""

    def __init__(self, options: SinkOptions, query: str, batch: int) -> None:
        """Begin without uploads; must run in a Spark task.

        ``query`` is the id of the query, or of the application or job. ``batch`` is the number of
        the batch.
        """
        self._options = options
        self._query, self._batch = query, batch
        context = _task()
        self._partition = context.partitionId()
        # A random part, as attempt numbers begin anew with every driver.
        self._attempt = f"{context.taskAttemptId()}-{secrets.token_hex(8)}"
        self._uploads: dict[str, Upload] = {}
        #: Name in a row -> name of the served queue manager.
        self._names: dict[str | None, str] = {}
        self._clients: list[StageClient] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Send each row to the upload of its queue manager; raises BulkError or OptionError."""
        managers = rows.column(_MANAGER)
        named = pc.unique(managers).to_pylist()
        for given in named:
            mask = managers.is_null() if given is None else pc.equal(managers, given)
            part = rows if len(named) == 1 else rows.filter(pc.fill_null(mask, fill_value=False))
            self._upload(given).write(part)

    def finish(self) -> Written:
        """Complete all uploads and return the message to the driver; the rows are durable then."""
        row_count = sum(upload.finish() for upload in self._uploads.values())
        stages = [(manager, self._partition, self._attempt) for manager in self._uploads]
        return Written(self._query, self._batch, stages, row_count)

    def close(self) -> None:
        """Close all connections of the task."""
        for client in self._clients:
            client.close()

    def abort(self) -> None:
        """Cancel all uploads; the server drops those that are not finished."""
        for upload in self._uploads.values():
            upload.abort()

    def _upload(self, given: str | None) -> Upload:
        """Return the upload for rows that name the queue manager ``given``; begin it once.

        Rows that name none (None), or an unknown one, go to the queue manager of the options.
        Raises OptionError if that one is unknown, and BulkError.
        """
        if given not in self._names:
            self._names[given] = self._served(given)
        name = self._names[given]
        if name not in self._uploads:
            client = self._connect(name)
            self._uploads[name] = client.begin(
                self._query, self._batch, self._partition, self._attempt
            )
        return self._uploads[name]

    def _served(self, given: str | None) -> str:
        """Return the queue manager for rows that name ``given``; the options' one if it is unknown.

        Rows for an unknown queue manager become dead letters there. Raises OptionError if the
        options' queue manager is unknown.
        """
        try:
            return self._connect(given or self._options.manager).info().manager
        except UnknownManager as error:
            if given is None:
                raise OptionError(f"option {_MANAGER}: {error}") from error
            return self._served(None)

    def _connect(self, manager: str | None) -> StageClient:
        """Return a new connection to a queue manager; :meth:`close` closes it."""
        client = self._options.connect(manager)
        self._clients.append(client)
        return client


def _write(
    options: SinkOptions, query: str, batch: int, iterator: Iterator[pa.RecordBatch]
) -> Written:
    """Upload the rows of a Spark task, and return the message about them to the driver.

    After an error the uploads are cancelled. The connections are closed in any case.
    """
    uploads = _Uploads(options, query, batch)
    try:
        for rows in iterator:
            if rows.num_rows:
                uploads.write(staged_rows(rows, options))
        return uploads.finish()
    except BaseException:
        uploads.abort()
        raise
    finally:
        uploads.close()


def _commit(
    options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch: int
) -> None:
    """Put the uploaded rows of a batch on their queues, at each queue manager that received some.

    The queue managers are called in order of name. ``messages`` are those of the tasks.
    """
    written = [message for message in messages if isinstance(message, Written)]
    named: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for message in written:
        assert message.batch == batch, f"written as batch {message.batch}, committed as {batch}"
        for manager, partition, attempt in message.stages:
            named[manager, message.query].append((partition, attempt))
    for (manager, query), stages in sorted(named.items()):
        with options.connect(manager) as client:
            client.commit(
                query,
                batch,
                sorted(stages),
                dead_letter_queue=options.dead_letter_queue,
                surrenders=options.surrenders,
            )


def _task() -> TaskContext:
    """Return Spark's context of the running task; outside a worker the assertion fails."""
    context = TaskContext.get()
    assert context is not None, "only Spark's workers write"
    return context
