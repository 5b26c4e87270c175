"""DDELAY(SPARK) with Spark itself: a stream over the staging queue releases delayed messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mayfly import QueueManager
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.servers.flight import FlightServer
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt
from tests.bulk.books import TOKEN

pytestmark = [pytest.mark.spark, pytest.mark.slow]
START_MS = 1_700_000_000_000


@pytest.fixture
def clock() -> VirtualClock:
    """Time under control; Spark's own goes on."""
    return VirtualClock(START_MS)


@pytest.fixture
def manager(tmp_path: Path, clock: VirtualClock) -> Iterator[QueueManager]:
    """A durable queue manager that leaves delayed messages to a pipeline."""
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm:
        result = qm.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)\nALTER QMGR DDELAY(SPARK)")
        assert result.ok
        yield qm
        found = qm.verify()
        assert found.ok, found.problems


class Release:
    """The stream that releases, always from one checkpoint, and what its batches held."""

    def __init__(self, spark: SparkSession, url: str, token: Path, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._rows = (
            spark.readStream.format("mayfly")
            .options(url=url, tokenFile=str(token), queue=STAGING_QUEUE, consumer="releaser")
            .option("maxRowsPerBatch", "3")
            .load()
        )
        self.batches: dict[int, list[tuple[str, int, bytes]]] = {}
        self.query = self.start()

    def start(self) -> StreamingQuery:
        """Start, or go on."""
        writer = self._rows.writeStream.option("checkpointLocation", str(self._checkpoint))
        return writer.foreachBatch(self._note).trigger(processingTime="0 seconds").start()

    def catch_up(self) -> None:
        """Return when all that was due is released: the batch after the last one ends it."""
        self.query.processAllAvailable()
        self.query.processAllAvailable()

    def _note(self, rows: DataFrame, batch: int) -> None:
        found = rows.select("queue", "deliver_at_ms", "payload").collect()
        if found:
            self.batches[batch] = [
                (r["queue"], r["deliver_at_ms"], bytes(r["payload"])) for r in found
            ]


def test_D1_D3_D15_spark_releases_what_is_due_and_nothing_else(
    spark: SparkSession,
    manager: QueueManager,
    clock: VirtualClock,
    token_file: Path,
    tmp_path: Path,
) -> None:
    """Three to a batch, in due order, each once; a restart goes on where the stream stopped."""
    with (
        FlightServer(manager, port=0, token=TOKEN) as server,
        manager.session("anna") as session,
    ):
        ids = [
            session.put(f"Q{1 + n % 2}", b"%d" % n, delay_ms=1_000 + n, persistent=n % 3 > 0)
            for n in range(8)
        ]
        late = session.put("Q1", b"late", delay_ms=60_000)
        stream = Release(spark, server.url, token_file, tmp_path / "checkpoint")
        clock.advance(999)
        stream.catch_up()
        assert (stream.batches, manager.curdepth(STAGING_QUEUE)) == ({}, 9)
        clock.advance(4)
        assert session.schedule.cancel(ids[0]) == Receipt.CANCELLED
        stream.catch_up()
        assert list(stream.batches.values()) == [
            [(f"Q{1 + n % 2}", START_MS + 1_000 + n, b"%d" % n) for n in (1, 2, 3)]
        ]
        assert session.schedule.cancel(ids[1]) == Receipt.ALREADY_RELEASED
        stream.query.stop()
        clock.advance(10)
        assert [m.body for m in session.browse("Q1")] == [b"2"]
        stream.query = stream.start()
        stream.catch_up()
        stream.query.stop()
        assert [len(rows) for rows in stream.batches.values()] == [3, 3, 1]
        assert [m.body for m in session.browse("Q1")] == [b"2", b"4", b"6"]
        assert [m.body for m in session.browse("Q2")] == [b"1", b"3", b"5", b"7"]
        assert [m.msg_id for m in session.schedule.list()] == [late]
        message = session.get("Q1")
        assert message is not None
        assert (message.msg_id, message.put_ms) == (ids[2], START_MS)
        assert message.deliver_at_ms == START_MS + 1_002


def test_DDELAY_embedded_ends_the_stream_with_the_setting_to_change(
    spark: SparkSession, manager: QueueManager, token_file: Path, tmp_path: Path
) -> None:
    manager.mqsc("ALTER QMGR DDELAY(EMBEDDED)")
    with FlightServer(manager, port=0, token=TOKEN) as server:
        stream = Release(spark, server.url, token_file, tmp_path / "checkpoint")
        with pytest.raises(StreamingQueryException, match=r"ALTER QMGR DDELAY\(SPARK\)"):
            stream.query.processAllAvailable()
