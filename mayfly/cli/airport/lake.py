"""The lake of a day: the copy of its ledger, the ends of messages in it, and its balance."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from mayfly.cli.airport.day import REPORTS
from mayfly.lifetime.life import State
from mayfly.pipeline.bulk.client import LedgerClient
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.lake.copying import copy_ledger
from mayfly.pipeline.lake.parquet import ParquetLake
from mayfly.pipeline.spark.lake import read_lake
from mayfly.queue_manager import QueueManager

_LOOK_SECONDS = 0.5


class LedgerCopy:
    """Copies a ledger into a lake in a thread, until finish(); a context manager.

    ``row_count`` is the number of ledger rows in the lake so far, ``batch_count`` that of batches.
    """

    def __init__(self, url: str, token_file: Path, lake: Path) -> None:
        """Keep the server's URL, the file of its token, and the lake's folder."""
        self._url, self._token_file, self._lake = url, token_file, lake
        self.row_count = self.batch_count = 0
        self._is_over = threading.Event()
        self._pool = ThreadPoolExecutor(1, "demo-ledger")
        self._run: Future[None] | None = None

    def __enter__(self) -> Self:
        """Begin to copy."""
        self._run = self._pool.submit(self._copy)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop and wait for the thread."""
        self._is_over.set()
        self._pool.shutdown()

    def check(self) -> None:
        """Raise the error with which the copy has ended; nothing while it goes on."""
        assert self._run is not None
        if self._run.done():
            self._run.result()

    def finish(self) -> None:
        """Wait until the lake has all rows that the ledger has now; raises the copy's error."""
        assert self._run is not None
        self._is_over.set()
        self._run.result()

    def _copy(self) -> None:
        """Copy what is there every half second, and once more at the end; runs in the thread."""
        with (
            LedgerClient(self._url, token_file=self._token_file) as client,
            closing(ParquetLake(self._lake, client.info().instance_id)) as lake,
        ):
            is_last = False
            while not is_last:
                is_last = self._is_over.wait(_LOOK_SECONDS)
                for progress in copy_ledger(client, lake):
                    self.row_count += progress.row_count
                    self.batch_count += 1


def ends_in_lake(spark: SparkSession, lake: Path) -> pa.Table:
    """Return how each flight's message ended: a row for each message, read from the lake by Spark.

    Expiration reports and releases of delayed messages are left out. The columns are queue,
    correl_id, put_ms, deliver_at_ms, expire_at_ms, ended_ms and outcome.
    """
    lives = read_lake(spark, lake).where(f.col("queue") != REPORTS)
    lives = lives.where(f.col("outcome") != State.RELEASED.value)
    columns = "queue correl_id put_ms deliver_at_ms expire_at_ms ended_ms outcome".split()
    return lives.select(*columns).toArrow()


def book_problems(queue_manager: QueueManager, lake: Path, lake_rows: int) -> list[str]:
    """Return what is wrong with the balances of queue manager and lake, as texts; [] if nothing.

    ``lake_rows`` is the number of ledger rows that Spark finds in the lake.
    """
    problems = [*queue_manager.verify().problems, *check_lake(lake).texts]
    last_position = queue_manager.ledger.last_position()
    if lake_rows != last_position:
        problems.append(f"the ledger has {last_position} rows, the lake {lake_rows}")
    return problems
