"""Builds and starts a pipeline in Spark: one streaming query from its sources to its sinks.

Readers attach the consumers of queue sources and end their claims. A claim is a set of messages
that a queue manager reserves for a consumer until their batch is written. Spark asks for the next
batch only at its next trigger, and not at all after the query is stopped. So the pipeline itself
ends the claims that the checkpoint records as written, after each batch and at its end.

Messages that a batch cannot use are backed out, so that the others continue. There are two kinds.
Rows that neither their queue nor the dead-letter queue accepts are left out by the queue manager of
the sink, which returns them. Other rows make Spark fail, in an expression of a route or in reading
a message. Then the claimed rows are read again without a write, and halved until the failing rows
are found. In both cases their own queue manager backs them out: up to BOTHRESH they come again,
then they go to BOQNAME or the dead-letter queue. The repeated batch does not contain them.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # has no types
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from mayfly.mqi.reasons import MQRC_BACKOUT_THRESHOLD_REACHED
from mayfly.pipeline.bulk.batch_log import LocalFiles, LogFiles, WrittenClaims, written_claims
from mayfly.pipeline.bulk.errors import BulkError
from mayfly.pipeline.bulk.queue_client import QueueClient
from mayfly.pipeline.config import (
    ClaimedSource,
    FileSink,
    FileSource,
    PipelineConfig,
    PipelineFileError,
    QueueSink,
    QueueSource,
    Source,
)
from mayfly.pipeline.errors import CheckpointError
from mayfly.pipeline.failures import JAVA_ENDED, RAISED, RowsBackedOut, failure_of, may_be_of_rows
from mayfly.pipeline.progress import path_here
from mayfly.pipeline.rows import routed_again, routed_rows, source_row
from mayfly.pipeline.sinks import SinkWrite, check_sinks, sink_writes
from mayfly.pipeline.spark.checkpoints import Folder, check_scheme, mark_in
from mayfly.pipeline.spark.delay_line import SESSION_SETTINGS, write_stream
from mayfly.pipeline.spark.queue_source import RowRange, part_of
from mayfly.verbs.contracts.claims import Attached

_NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
_CHECKPOINT = "checkpointLocation"


def session_settings(config: PipelineConfig) -> dict[str, str]:
    """Return a pipeline's Spark settings; a key of its ``[spark]`` table replaces a default."""
    return {
        # A value that cannot be cast is null, and its row malformed; else it would stop the query.
        "spark.sql.ansi.enabled": "false",
        **SESSION_SETTINGS,
        # With timers, Spark would run empty batches for ever.
        _NO_DATA_BATCHES: str(not config.is_available_now).lower(),
        **config.spark,
    }


def start(
    config: PipelineConfig, spark: SparkSession, readers: Readers | None = None
) -> StreamingQuery:
    """Start the streaming query of a pipeline and return the running query.

    Writes a mark, the file by which the pipeline knows them again, into a new checkpoint and new
    output folders. ``readers`` attach the consumers of queue sources; with None the query attaches
    them itself. Raises PipelineFileError, OptionError or CheckpointError for a pipeline that cannot
    run, BulkError if a queue manager cannot be reached or refuses.
    """
    prepare(config, spark)
    check_places(config, spark)
    rows = routed_rows(config, spark)
    check_sinks(config, rows)
    checkpoint_id = tie_checkpoint(config, spark)
    for sink in config.sinks:
        if isinstance(sink, FileSink):
            tie_output(sink, checkpoint_id, spark)
    if readers is not None and any(isinstance(s, ClaimedSource) for s in config.sources):
        # Attached last: a pipeline that cannot run must not take consumers over.
        config = readers.attach(config)
        rows = routed_rows(config, spark)
    if config.has_delay_line:
        writer = write_stream(rows, config.checkpoint)
    else:
        writer = rows.writeStream.option(_CHECKPOINT, config.checkpoint)
    writer = writer.queryName(config.name).foreachBatch(BatchWriter(config, checkpoint_id))
    if config.is_available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=config.trigger)
    return writer.start()


def prepare(config: PipelineConfig, spark: SparkSession) -> None:
    """Set those of ``session_settings`` in the Spark session that can still be changed there.

    Settings that are fixed once a session runs are left as they are, without an error.
    """
    for name, value in session_settings(config).items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)


def check_places(config: PipelineConfig, spark: SparkSession) -> None:
    """Raise PipelineFileError if a folder's URL has a scheme that this Spark cannot read."""
    folders = [("checkpoint", config.checkpoint)]
    for kind, parts in (("source", config.sources), ("sink", config.sinks)):
        folders += [
            (f"[[{kind}]] {number}, path", part.path)
            for number, part in enumerate(parts, 1)
            if isinstance(part, FileSource | FileSink)
        ]
    for where, folder in folders:
        try:
            check_scheme(spark, folder)
        except CheckpointError as error:
            raise PipelineFileError(config.path, where, str(error)) from error


class BatchWriter:
    """Writes each batch of a pipeline to its sinks, one after the other, for foreachBatch.

    A batch that Spark repeats after a crash changes nothing in the sinks that have it already. A
    Kafka sink is the exception: it gets the rows again.
    """

    def __init__(self, config: PipelineConfig, checkpoint_id: str) -> None:
        """Keep the pipeline and the id of its checkpoint.

        By this id and the batch number a sink recognises a batch that it has already.
        """
        self._writes = sink_writes(config, checkpoint_id)
        self._bad_rows = BadRows(config, self._writes)
        # A file sink would make a folder of each batch without rows.
        self._is_direct = len(self._writes) == 1 and isinstance(config.sinks[0], QueueSink)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch to all sinks, then back out messages that no queue accepted.

        If the write fails because of single messages, these are backed out and RowsBackedOut is
        raised. Any other error is raised unchanged.
        """
        try:
            self._write(batch, batch_id)
        except RAISED as error:
            self._bad_rows.back_out_failing(error, batch.sparkSession)
            raise
        self._bad_rows.back_out_surrendered(batch_id)

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch to each sink that has rows in it; without sinks only count the batch."""
        if not self._writes:
            # Only counted: the queue manager itself puts these messages on their queues.
            batch.write.format("noop").mode("overwrite").save()
            return
        if self._is_direct:
            [sink] = self._writes
            sink.write(batch.where(sink.rows), batch_id)
            return
        # Without this each write would read the sources and change the state again.
        batch.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            for sink in self._with_rows(batch):
                sink.write(batch.where(sink.rows), batch_id)
        finally:
            batch.unpersist()

    def _with_rows(self, batch: DataFrame) -> list[SinkWrite]:
        """Return the writes that have at least one row in the batch; runs one Spark job."""
        seen = Observation()
        counts = [f.count_if(sink.rows).alias(str(n)) for n, sink in enumerate(self._writes)]
        batch.observe(seen, *counts).write.format("noop").mode("overwrite").save()
        found = seen.get
        return [sink for n, sink in enumerate(self._writes) if found[str(n)]]


# Marks: JSON files by which a pipeline recognises the checkpoint and output folders that it began
#
# Each checkpoint gets an id when it is begun. Queue managers and output folders record this id. So
# a pipeline with a new checkpoint is not mistaken for the old one, and does not replace its output.


#: A name that Spark ignores, in a checkpoint and among data.
MARK = "_mayfly_pipeline.json"


def tie_checkpoint(config: PipelineConfig, spark: SparkSession) -> str:
    """Return the id of the pipeline's checkpoint; for a new checkpoint write a mark with a new id.

    Raises CheckpointError if the checkpoint is of other sources or of another query, or if the mark
    is damaged.
    """
    folder = Folder(spark, config.checkpoint)
    text = folder.read(MARK)
    if text is None:
        if folder.is_of_a_query():
            raise CheckpointError(f"checkpoint {config.checkpoint} is that of another query")
        new_id = secrets.token_hex(16)
        sources = [identity(source) for source in config.sources]
        folder.write(MARK, json.dumps({"id": new_id, "sources": sources}))
        return new_id
    return check_mark(text, config)


def check_mark(text: str, config: PipelineConfig) -> str:
    """Return the checkpoint id in ``text``, the content of a mark file.

    Raises CheckpointError if the mark is damaged, or if its sources differ from the pipeline's.
    """
    where = f"{MARK} in checkpoint {config.checkpoint}"
    mark = mark_in(text, where, {"id": str, "sources": list})
    held, sources = mark["sources"], [identity(source) for source in config.sources]
    if len(held) != len(sources):
        raise CheckpointError(
            f"checkpoint {config.checkpoint} is of {len(held)} sources, the pipeline has "
            f"{len(sources)}: use a new checkpoint"
        )
    for number, (old, new) in enumerate(zip(held, sources, strict=True), 1):
        if old != new:
            raise CheckpointError(
                f"checkpoint {config.checkpoint}: [[source]] {number} was {_text(old)} and is now "
                f"{_text(new)}: use a new checkpoint"
            )
    return str(mark["id"])


def tie_output(sink: FileSink, checkpoint_id: str, spark: SparkSession) -> None:
    """Mark the folder of a file sink as the output of a checkpoint; a second call changes nothing.

    Raises CheckpointError if the folder has the mark of another checkpoint, a damaged mark, or
    batches without a mark.
    """
    folder = Folder(spark, sink.path)
    text = folder.read(MARK)
    if text is None:
        if folder.has("b=0"):
            raise CheckpointError(
                f"folder {sink.path} of sink {sink.name} has batches of somebody else, which would "
                "be overwritten: use a new folder"
            )
        folder.write(MARK, json.dumps({"id": checkpoint_id}))
    elif mark_in(text, f"{MARK} in folder {sink.path}", {"id": str})["id"] != checkpoint_id:
        raise CheckpointError(
            f"folder {sink.path} of sink {sink.name} is the output of another checkpoint, whose "
            "batches would be overwritten: use a new folder"
        )


def identity(source: Source) -> dict[str, str]:
    """Return the fields of a source that must stay equal while a checkpoint is in use.

    The url of a source may change.
    """
    if isinstance(source, ClaimedSource):
        kind = "queue" if isinstance(source, QueueSource) else "staging"
        return {"kind": kind, "queue": source.queue, "consumer": source.consumer}
    if isinstance(source, FileSource):
        return {"kind": "files", "format": source.format, "path": source.path}
    return {"kind": "kafka", "topic": source.topic}


def _text(source: dict[str, str]) -> str:
    """Return the identity of a source for an error text: ``kind queue queue Q1 consumer C``."""
    return " ".join(f"{name} {value}" for name, value in source.items())


#: Errors when a checkpoint or a queue manager does not answer; the next start ends the claims.
_AWAY = (BulkError, OSError, *JAVA_ENDED)


class Readers:
    """The attached consumers of a pipeline's queue sources, with their present epochs.

    A claim is a set of messages that a queue manager reserves for a consumer. An epoch is a number
    that a later reader of the same consumer makes invalid.
    """

    def __init__(
        self, checkpoint: str, spark: SparkSession | None, say: Callable[[str], None]
    ) -> None:
        """Begin without attached consumers; no server is called yet.

        Without a Spark session only a checkpoint on this machine is read. ``say`` is called with a
        text about each message or failure that is left at the end.
        """
        folder = path_here(checkpoint)
        self._files: LogFiles | None = None
        if folder is not None:
            self._files = LocalFiles(folder)
        elif spark is not None:
            self._files = Folder(spark, checkpoint)
        self._say = say
        self._attached: list[tuple[ClaimedSource, Attached]] = []

    def attach(self, config: PipelineConfig) -> PipelineConfig:
        """Attach the consumer of each queue source; return the pipeline with their epochs.

        An epoch numbers the attaches of a consumer: readers with an earlier one can no longer claim
        messages. Raises BulkError if a server cannot be reached or refuses.
        """
        self._attached = []
        sources: list[Source] = []
        for source in config.sources:
            if isinstance(source, ClaimedSource):
                with _connected(source) as client:
                    attached = client.attach(source.consumer, source.queue)
                self._attached.append((source, attached))
                sources.append(replace(source, epoch=attached.epoch))
            else:
                sources.append(source)
        return replace(config, sources=tuple(sources))

    def end_written(self) -> bool:
        """End the claims that the checkpoint records as written: their messages leave the queues.

        A claim is a set of messages reserved for a consumer. Returns True if all are ended, False
        if a server or the checkpoint could not be reached.
        """
        try:
            for source, attached, written in self._written():
                with _connected(source) as client:
                    client.end_written(
                        attached.consumer, attached.instance_id, written.offset.claim
                    )
        except _AWAY:
            # The query gets the same error and reports it, or continues and ends the claims.
            return False
        return True

    def quiesce(self) -> None:
        """Tell each queue manager to reserve no more messages: the running batch is the last one.

        A server that cannot be reached is passed over.
        """
        for source, attached in self._attached:
            # A server that is away claims nothing either.
            with contextlib.suppress(*_AWAY), _connected(source) as client:
                client.quiesce(attached)

    def give_back(self) -> None:
        """Return reserved messages that are in no batch to their queues; for the end of a run.

        The messages of an unfinished batch stay reserved for the next start. A failure is reported
        through ``say``, not raised.
        """
        try:
            for source, attached, written in self._written():
                with _connected(source) as client:
                    if written.unfinished_batch is not None:
                        self._say(_unfinished(client, attached, written.unfinished_batch))
                    elif _held_count(client, attached):
                        client.release(attached.consumer, epoch=attached.epoch)
        except _AWAY as error:
            self._say(f"what it has claimed could not be looked after: {error}")

    def _written(self) -> Iterator[tuple[ClaimedSource, Attached, WrittenClaims]]:
        """Yield each attached source with the last claim that the checkpoint records as written.

        A claim is a set of messages reserved for a consumer. Yields nothing if the checkpoint
        cannot be read from here or no consumer is attached.
        """
        if self._files is None or not self._attached:
            return
        found = written_claims(self._files)
        for source, attached in self._attached:
            whose = (attached.consumer, attached.queue, attached.instance_id)
            for written in found:
                if written.offset[:3] == whose:
                    yield source, attached, written


def _connected(source: ClaimedSource) -> QueueClient:
    """Return a new client of the queue manager of a source; the caller closes it."""
    return QueueClient(source.url, token_file=source.token_file, manager=source.manager)


def _held_count(client: QueueClient, attached: Attached) -> int:
    """Return the number of messages that are reserved for this reader, 0 if none."""
    return sum(
        standing.message_count
        for standing in client.standings()
        if (standing.consumer, standing.epoch) == (attached.consumer, attached.epoch)
    )


def _unfinished(client: QueueClient, attached: Attached, batch: int) -> str:
    """Return a sentence for the user: how many messages of a batch stay reserved."""
    return (
        f"batch {batch} is not finished: its {_held_count(client, attached):,} messages of "
        f"{attached.queue} stay claimed by {attached.consumer} until the next start"
    )


#: Failing rows that one search looks for. Where these fail and no other row passes, the pipeline
#: is the cause, not the rows.
MAX_BAD_ROWS = 100


_Shape: TypeAlias = Callable[[DataFrame], DataFrame]


class BadRows:
    """Finds the messages that a pipeline's batches cannot process, and backs them out."""

    def __init__(self, config: PipelineConfig, writes: Sequence[SinkWrite]) -> None:
        """Keep the pipeline and its writes to sinks; no server is called.

        Only queue sources whose consumer is attached are searched for bad rows.
        """
        self._config = config
        self._writes = writes
        self._sources = {
            number: source
            for number, source in enumerate(config.sources, 1)
            if isinstance(source, QueueSource) and source.epoch is not None
        }

    def back_out_surrendered(self, batch_id: int) -> None:
        """Back out the messages of a written batch that no sink could put on any queue.

        The messages go back to the queue that they were read from, or beyond BOTHRESH to its
        backout queue. A second call for the same batch changes nothing. Raises BulkError if a
        server fails.
        """
        if not self._sources:
            return
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        for sink in self._writes:
            for given, reason, _text in sink.surrendered(batch_id):
                number, row = source_row(given)
                found[number, reason].append(row)
        for (number, reason), rows in found.items():
            with _reader(self._sources[number]) as (client, attached):
                client.back_out(attached, sorted(rows), reason)

    def back_out_failing(self, error: BaseException, spark: SparkSession) -> None:
        """Find and back out the messages that made a batch fail; then raise RowsBackedOut.

        ``error`` is the error of the batch. Returns without a change if no single message is the
        cause. Raises BulkError if a server fails, and Spark's error if a search read fails for a
        reason other than the rows.
        """
        if not may_be_of_rows(error):
            return
        backed_out = []
        for number, source in self._sources.items():
            with _reader(source) as (client, attached):
                [standing] = [s for s in client.standings() if s.consumer == source.consumer]
                claimed = client.rows(attached, standing.closed, standing.last)
                ranges = [(part.after, part.until) for part in claimed]
                # Every column first, as the stream makes them: a write alone may need fewer.
                shapes: list[_Shape] = [_whole, *(partial(_shaped, w) for w in self._writes)]
                fails = [partial(self._fail, spark, number, shape) for shape in shapes]
                at_fault = next((fail for fail in fails if ranges and fail(ranges)), None)
                bad = [] if at_fault is None else find_failing_rows(at_fault, ranges)
                if bad:
                    done = client.back_out(attached, bad, MQRC_BACKOUT_THRESHOLD_REACHED)
                    count = done.returned + done.moved
                    backed_out.append(f"{count} of {source.queue} ({done.moved} moved away)")
        if backed_out:
            raise RowsBackedOut(
                f"messages that fail alone are backed out: {', '.join(backed_out)}; "
                f"{failure_of(error).text}"
            ) from error

    def _fail(
        self, spark: SparkSession, number: int, shape: _Shape, ranges: Sequence[RowRange]
    ) -> bool:
        """Return True if Spark cannot compute ``shape`` for these messages of source ``number``.

        ``shape`` is a function that makes the rows to compute. ``ranges`` are row numbers of
        messages that the consumer has reserved. Nothing is written. An error that rows cannot cause
        is raised again.
        """
        made = shape(routed_again(self._config, spark, number, ranges))
        try:
            made.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JJavaError) as error:
            if not may_be_of_rows(error):
                raise
            return True
        return False


def _whole(rows: DataFrame) -> DataFrame:
    """Return the rows unchanged; used as the shape that computes every column."""
    return rows


def _shaped(sink: SinkWrite, rows: DataFrame) -> DataFrame:
    """Return the rows that a write to a sink takes, in the form in which they are written."""
    return sink.shape(rows.where(sink.rows))


def find_failing_rows(
    fail: Callable[[Sequence[RowRange]], bool],
    ranges: Sequence[RowRange],
    most: int = MAX_BAD_ROWS,
) -> list[int]:
    """Return the numbers of the rows for which ``fail`` is True alone, found by halving ``ranges``.

    The search ends after ``most`` failing rows. Returns an empty list if ``most`` rows fail and no
    other row passes: then the rows are not the cause.
    """
    bad: list[int] = []
    has_passed = False
    left = [list(ranges)]
    while left and len(bad) < most:
        rows = left.pop()
        count = sum(until - after for after, until in rows)
        if not count:
            continue
        if not fail(rows):
            has_passed = True
        elif count == 1:
            bad.append(rows[0][1])
        else:
            left += [list(part_of(rows, count // 2, count)), list(part_of(rows, 0, count // 2))]
    return bad if has_passed or len(bad) < most else []


@contextmanager
def _reader(source: QueueSource) -> Iterator[tuple[QueueClient, Attached]]:
    """Return a context with a connection to the source's queue manager, and its attached consumer.

    The connection is closed at its end. Raises BulkError if the server cannot be reached or does
    not know the consumer.
    """
    assert source.epoch is not None
    with QueueClient(source.url, token_file=source.token_file, manager=source.manager) as client:
        yield client, client.attached(source.consumer, source.epoch)
