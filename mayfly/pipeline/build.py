"""Builds a pipeline in Spark: one streaming query from its sources to its sinks, and starts it."""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from mayfly.pipeline.bad_rows import BadRows
from mayfly.pipeline.errors import CheckpointError
from mayfly.pipeline.failures import RAISED
from mayfly.pipeline.marks import tie_checkpoint, tie_output
from mayfly.pipeline.parts import (
    ClaimedSource,
    FileSink,
    FileSource,
    PipelineConfig,
    PipelineFileError,
    QueueSink,
)
from mayfly.pipeline.readers import Readers
from mayfly.pipeline.rows import routed_rows
from mayfly.pipeline.sinks import SinkWrite, check_sinks, sink_writes
from mayfly.pipeline.spark.checkpoints import check_scheme
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
