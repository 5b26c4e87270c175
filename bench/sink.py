"""How fast Spark writes into queues, and what other clients feel of it meanwhile."""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.figures import Figure, at_least, at_most
from mayfly import QueueManager
from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.spark.session import create_session
from mayfly.servers.flight import FlightServer

_WARM_UP, _COUNT, _BODY_BYTES = 50_000, 600_000, 200
_DELAYED_COUNT = 100_000
_DELAY_MS = 3_600_000
_PARTITIONS = 4


class _Written(NamedTuple):
    """Rows a second of a write, and the durable puts of another client meanwhile, in ms."""

    rate: float
    other_ms: list[float]


def figures() -> Iterator[Figure]:
    """Write a DataFrame into a durable queue manager, after a smaller one that warms Spark up."""
    spark = create_session("local[2]", "bench")
    try:
        _written(_rows(spark, _WARM_UP))
        plain = _written(_rows(spark, _COUNT))
        beside = _written(_rows(spark, _COUNT // 3), with_other_client=True)
        delayed = _written(_rows(spark, _DELAYED_COUNT).withColumn("delay_ms", f.lit(_DELAY_MS)))
    finally:
        spark.stop()
    note = f"{_COUNT:,} rows of {_BODY_BYTES} B, from the start of the job to the last commit"
    yield at_least("sink, plain path", plain.rate, 60_000, " rows/s", note)
    slowest = sorted(beside.other_ms)
    note = f"{len(slowest):,} puts while the sink writes {beside.rate:,.0f} rows/s"
    yield at_most(
        "durable put beside the sink, p95", slowest[len(slowest) * 95 // 100], 50, " ms", note
    )
    yield at_least("sink, delayed rows", delayed.rate, 10_000, " rows/s", "each onto staging")


def _rows(spark: SparkSession, count: int) -> DataFrame:
    number = f.col("id").cast("string")
    return spark.range(0, count, 1, _PARTITIONS).select(
        f.rpad(number, _BODY_BYTES, "x").cast("binary").alias("payload")
    )


def _written(rows: DataFrame, *, with_other_client: bool = False) -> _Written:
    with tempfile.TemporaryDirectory() as name:
        token_file = Path(name) / "token"
        token_file.write_text(secrets.token_hex(16))
        token_file.chmod(0o600)
        with QueueManager("BENCH", Path(name) / "BENCH") as manager:
            for queue in ("Q1", "Q2", "SYSTEM.DDELAY.LOCAL.QUEUE"):
                manager.mqsc(f"DEFINE QLOCAL({queue})")
                manager.mqsc(f"ALTER QLOCAL({queue}) MAXDEPTH(999999999)")
            with (
                FlightServer(manager, port=0, token=token_file.read_text()) as server,
                _other_client(manager, is_wanted=with_other_client) as other_ms,
            ):
                begin = time.perf_counter()
                (
                    rows.write.format("mayfly")
                    .options(url=server.url, tokenFile=str(token_file), queue="Q1")
                    .mode("append")
                    .save()
                )
                seconds = time.perf_counter() - begin
            counts = manager.counts("Q1")
            count = counts.live + counts.staged
            assert count == rows.count(), f"{count} rows arrived"
    return _Written(count / seconds, other_ms)


@contextmanager
def _other_client(manager: QueueManager, *, is_wanted: bool) -> Iterator[list[float]]:
    """Put durable messages one by one on another thread; give how long each took in ms."""
    taken_ms: list[float] = []
    ended = threading.Event()

    def put() -> None:
        with manager.session() as session:
            while not ended.is_set():
                begin = time.perf_counter()
                session.put("Q2", b"x", persistent=True)
                taken_ms.append((time.perf_counter() - begin) * SECOND_MS)
                # A client with something else to do: 200 puts a second at most.
                ended.wait(0.005)

    thread = threading.Thread(target=put)
    if is_wanted:
        thread.start()
    try:
        yield taken_ms
    finally:
        ended.set()
        if is_wanted:
            thread.join()
