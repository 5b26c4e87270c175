"""A driver of its own that carries messages from Q1 to Q2 until somebody is killed where it says.

An order is a file beside the checkpoint, named after the moment at which it is obeyed, once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mayfly.pipeline.spark.sink import SinkOptions, StreamSink, Written
from mayfly.spark import MayflyDataSource, create_session
from tests.spark.killing import kill_tree

CONF = {
    # Two executors, the driver and the daemons fit a laptop.
    "spark.executor.memory": "512m",
    "spark.driver.memory": "768m",
    # Blocks of a killed executor are asked for again and again before they are computed anew.
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "200ms",
}
ROWS_PER_BATCH = 600


def obey(folder: str, moment: str) -> None:
    """Do what an order for this moment says, if there is one: kill now or so many seconds later."""
    order, taken = Path(folder, moment), Path(folder, f"{moment}-{os.getpid()}")
    try:
        order.rename(taken)
    except FileNotFoundError:
        return
    wish = json.loads(taken.read_text())
    if wish["after_seconds"]:
        threading.Timer(wish["after_seconds"], kill, (wish["victim"], wish["group"])).start()
    else:
        kill(wish["victim"], wish["group"])


def kill(victim: str, group: int) -> None:
    """Kill the executor that this task runs on; or a group, after which a driver does nothing."""
    if victim == "executor":
        # This process was forked by a daemon, which the executor has started.
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
        return
    kill_tree(group)
    if victim == "driver":
        # Spark gives its Python processes a group of their own, and this is one of them.
        os.kill(os.getpid(), signal.SIGKILL)


class WatchedSink(StreamSink):
    """The sink, with the moments at which somebody may be killed."""

    def __init__(self, options: SinkOptions, folder: str) -> None:
        super().__init__(options)
        self._folder = folder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        written = super().write(iterator)
        obey(self._folder, "staged")
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        obey(self._folder, "written")
        obey(self._folder, "promoting")
        super().commit(messages, batchId)
        obey(self._folder, "promoted")


class Watched(MayflyDataSource):
    """``format("watched")``: the data source with that sink."""

    @classmethod
    def name(cls) -> str:
        return "watched"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        options = dict(self.options)
        folder = options.pop("folder")
        return WatchedSink(SinkOptions.parse(options), folder)


def main(master: str, url: str, token_file: str, folder: str) -> None:
    """Carry on: a query that has failed begins again from its checkpoint."""
    spark = create_session(
        master, conf={**CONF, "spark.sql.warehouse.dir": f"{folder}/warehouse"}, fast=True
    )
    spark.dataSource.register(Watched)
    at: Mapping[str, str] = {"url": url, "tokenFile": token_file}
    rows = (
        spark.readStream.format("mayfly")
        .options(queue="Q1", consumer="transfer", maxRowsPerBatch=str(ROWS_PER_BATCH), **at)
        .load()
        .withColumn("queue", f.lit("Q2"))
        # Tasks on both executors, with a shuffle that a killed one takes away.
        .repartition(2, "msg_id")
    )
    writer = (
        rows.writeStream.format("watched")
        .options(folder=folder, checkpointLocation=f"{folder}/checkpoint", **at)
        .trigger(processingTime="0 seconds")
    )
    while True:
        try:
            writer.start().awaitTermination()
        except StreamingQueryException as error:
            print("again after:", error, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
