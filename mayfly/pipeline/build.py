"""Builds and starts a pipeline in Spark: one streaming query from its sources to its sinks."""

from __future__ import annotations

import json
import secrets

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from mayfly.pipeline.bad_rows import BadRows
from mayfly.pipeline.errors import CheckpointError
from mayfly.pipeline.failures import RAISED
from mayfly.pipeline.parts import (
    ClaimedSource,
    FileSink,
    FileSource,
    PipelineConfig,
    PipelineFileError,
    QueueSink,
    QueueSource,
    Source,
)
from mayfly.pipeline.readers import Readers
from mayfly.pipeline.rows import routed_rows
from mayfly.pipeline.sinks import SinkWrite, check_sinks, sink_writes
from mayfly.pipeline.spark.checkpoints import Folder, check_scheme, mark_in
from mayfly.pipeline.spark.delay_line import SESSION_SETTINGS, write_stream

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
