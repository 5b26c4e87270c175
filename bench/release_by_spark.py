"""How fast a pipeline on Spark releases what is delayed: DDELAY(SPARK), beside the embedded way."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from bench.figures import Figure, at_least, seconds_of
from bench.messaging import BODY
from mayfly import QueueManager
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.spark.session import create_session
from mayfly.servers.flight import FlightServer
from mayfly.testing import VirtualClock

_WARM_UP, _COUNT, _PER_PUT, _PER_BATCH = 50_000, 400_000, 1_000, 100_000
_FLOOR = 80_000
_DELAY_MS = 60_000


def figures() -> Iterator[Figure]:
    """Read and release what is due by Spark, after a smaller flood that warms it up."""
    spark = create_session("local[2]", "bench")
    try:
        _streamed(spark, _WARM_UP)
        read, released = _streamed(spark, _COUNT)
    finally:
        spark.stop()
    note = "claimed in place, read over Flight; without the release of the batch before"
    yield at_least("staging by watermark, read", read, _FLOOR, " rows/s", note)
    embedded = _COUNT / _embedded_seconds(_COUNT)
    note = f"{released / embedded:.2f} of the embedded processor ({embedded:,.0f}/s)"
    yield Figure("staging by watermark, with release", f"{released:,.0f} rows/s", "", True, note)


def _streamed(spark: SparkSession, count: int) -> tuple[float, float]:
    """Return the rows per second of the batches after the first, without and with release."""
    with tempfile.TemporaryDirectory() as name:
        folder, clock = Path(name), VirtualClock()
        token_file = folder / "token"
        token_file.write_text(secrets.token_hex(16))
        token_file.chmod(0o600)
        with QueueManager("BENCH", folder / "BENCH", clock=clock) as manager:
            manager.mqsc("ALTER QMGR DDELAY(SPARK)")
            _put(manager, clock, count)
            with FlightServer(manager, port=0, token=token_file.read_text()) as server:
                stream = spark.readStream.format("mayfly").options(
                    url=server.url,
                    tokenFile=str(token_file),
                    queue=STAGING_QUEUE,
                    consumer="bench",
                    maxRowsPerBatch=str(_PER_BATCH),
                    partitions="2",
                )
                writer = stream.load().writeStream.format("noop").trigger(availableNow=True)
                query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
                query.awaitTermination()
                batches = query.recentProgress[1:]
            assert manager.curdepth("Q1") == count
            assert manager.verify().ok
    if not batches:
        return 0.0, 0.0
    rows = sum(batch["numInputRows"] for batch in batches)
    total_ms = sum(batch["durationMs"]["triggerExecution"] for batch in batches)
    ended_ms = sum(batch["durationMs"]["latestOffset"] for batch in batches)
    return rows * SECOND_MS / (total_ms - ended_ms), rows * SECOND_MS / total_ms


def _put(manager: QueueManager, clock: VirtualClock, count: int) -> None:
    manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)")
    with manager.session(transacted=True) as session:
        for _ in range(count // _PER_PUT):
            for _ in range(_PER_PUT):
                session.put("Q1", BODY, persistent=True, delay_ms=_DELAY_MS)
            session.commit()
    if manager.delay_processor_status() == "spark":
        clock.advance(_DELAY_MS)


def _embedded_seconds(count: int) -> float:
    """Return how long the queue manager itself takes to release as many."""
    with tempfile.TemporaryDirectory() as name:
        clock = VirtualClock()
        with QueueManager("BENCH", Path(name) / "BENCH", clock=clock) as manager:
            _put(manager, clock, count)
            seconds = seconds_of(lambda: clock.advance(_DELAY_MS))
            assert manager.curdepth("Q1") == count
    return seconds
