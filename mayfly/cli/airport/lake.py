"""The lake of a day: how far its stream is, the ends of messages in it, and its balance."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from mayfly.cli.airport.day import REPORTS
from mayfly.lifetime.life import State
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.spark.lake import read_lake
from mayfly.queue_manager import QueueManager


def rows_in_lake(query: StreamingQuery) -> int:
    """Return the number of ledger rows in the lake: the stream's position, 0 before a batch."""
    progress = query.lastProgress
    return 0 if progress is None else int(json.loads(progress.sources[0].endOffset)["position"])


def ends_in_lake(spark: SparkSession, lake: Path) -> pa.Table:
    """Return how each flight's message ended, from the lake, without reports and releases."""
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
