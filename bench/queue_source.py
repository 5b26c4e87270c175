"""How fast a queue goes through durable claims and Flight into Spark, beside a bare SQLite loop."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from bench.figures import Figure, at_least, seconds_of
from bench.messaging import BODY
from bench.raw import put_loop
from mayfly import QueueManager
from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.spark.session import create_session
from mayfly.servers.flight import FlightServer
from mayfly.store.claimed_messages import COLUMNS
from mayfly.store.database import Database

_WARM_UP, _COUNT, _PER_PUT, _PER_CLAIM, _PER_BATCH = 50_000, 400_000, 1_000, 4_000, 100_000
_FLOOR, _SHARE = 50_000, 0.5

_CLAIM = f"INSERT INTO claimed (r, persistent, {COLUMNS}) SELECT k & {2**44 - 1}, 1, {COLUMNS} "
_LIVES = (
    "INSERT INTO ledger (position, kind, queue, msg_id, correl_id, put_ms, deliver_at_ms,"
    " expire_at_ms, ended_ms, outcome, reason, priority, persistent, body_bytes, report,"
    " reply_to_q, backout_count, user_identifier) "
    "SELECT r, 0, 'Q1', msg_id, correl_id, put_ms, put_ms, expire_at_ms, 1, 'got', 0, 0, 1,"
    " length(body), 0, '', backout_count, '' FROM claimed WHERE r >= ? AND r < ?"
)


def figures() -> Iterator[Figure]:
    """Claim, read and end a prepared queue by Spark, after a smaller one that warms it up."""
    spark = create_session("local[2]", "bench")
    try:
        _streamed(spark, _WARM_UP)
        bare = _COUNT / _bare_seconds(_COUNT)
        rate = _streamed(spark, _COUNT)
    finally:
        spark.stop()
    note = (
        f"{rate / bare:.2f} of a bare claim-read-end loop ({bare:,.0f}/s); without the first batch"
    )
    yield at_least("queue source", rate, min(_FLOOR, _SHARE * bare), " rows/s", note)


def _streamed(spark: SparkSession, count: int) -> float:
    """Return the rows per second of the batches after the first, which starts the workers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        token_file = folder / "token"
        token_file.write_text(secrets.token_hex(16))
        token_file.chmod(0o600)
        with QueueManager("BENCH", folder / "BENCH") as manager:
            _put(manager, count)
            with FlightServer(manager, port=0, token=token_file.read_text()) as server:
                stream = spark.readStream.format("mayfly").options(
                    url=server.url,
                    tokenFile=str(token_file),
                    queue="Q1",
                    consumer="bench",
                    maxRowsPerBatch=str(_PER_BATCH),
                    partitions="2",
                )
                writer = stream.load().writeStream.format("noop").trigger(availableNow=True)
                writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
                query = writer.start()
                query.awaitTermination()
                batches = query.recentProgress[1:]
            assert manager.counts("Q1") == (0, 0, 0, 0, 0)
            assert manager.verify().ok
    took_ms = sum(batch["durationMs"]["triggerExecution"] for batch in batches)
    rows = sum(batch["numInputRows"] for batch in batches)
    return rows * SECOND_MS / took_ms if rows else 0.0


def _put(manager: QueueManager, count: int) -> None:
    manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)")
    with manager.session(transacted=True) as session:
        for _ in range(count // _PER_PUT):
            for _ in range(_PER_PUT):
                session.put("Q1", BODY, persistent=True)
            session.commit()


def _bare_seconds(count: int) -> float:
    """Return how long SQLite alone takes to claim, read and end as many rows on the same tables."""
    with tempfile.TemporaryDirectory() as name:
        database = Database(Path(name))
        put_loop(database, count, _PER_PUT, BODY)
        seconds = seconds_of(lambda: _bare_loop(database, count))
        database.close()
    return seconds


def _bare_loop(database: Database, count: int) -> None:
    writer = database.writer
    for first in range(0, count, _PER_CLAIM):
        place = (first, first + _PER_CLAIM)
        [(low, high)] = writer.execute(
            f"SELECT min(k), max(k) FROM (SELECT k FROM message ORDER BY k LIMIT {_PER_CLAIM})"
        ).fetchall()
        writer.execute("BEGIN IMMEDIATE")
        writer.execute(f"{_CLAIM} FROM message WHERE k >= ? AND k <= ?", (low, high))
        writer.execute("DELETE FROM message WHERE k >= ? AND k <= ?", (low, high))
        writer.execute("COMMIT")
        writer.execute(f"SELECT {COLUMNS} FROM claimed ORDER BY r").fetchall()
        writer.execute("BEGIN IMMEDIATE")
        writer.execute(_LIVES, place)
        writer.execute("DELETE FROM claimed WHERE r >= ? AND r < ?", place)
        writer.execute("COMMIT")
