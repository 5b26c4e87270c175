"""Clients of the bulk plane and servers that are gone for a moment, or for good."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest

from mayfly import QueueManager
from mayfly.pipeline.bulk import client as bulk_client
from mayfly.pipeline.bulk.client import (
    RETRY_WAITS_SECONDS,
    LedgerClient,
    SilenceWatch,
    channel_options,
)
from mayfly.pipeline.bulk.errors import ServerNotReachable
from mayfly.pipeline.bulk.queue_client import STAGED, QueueClient, StageClient
from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN
from tests.bulk.line import Line
from tests.facts import wait_until
from tests.ports import held_port

BODY_BYTES = 100_000
COUNT = 400


@pytest.fixture
def manager() -> Iterator[QueueManager]:
    """A queue manager with 40 MB on Q1, more than any buffer on the way holds."""
    with QueueManager("QM1") as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        with manager.session() as session:
            for number in range(COUNT):
                session.put("Q1", b"%d" % number + bytes(BODY_BYTES))
        yield manager


@pytest.fixture
def server(manager: QueueManager) -> Iterator[FlightServer]:
    with FlightServer(manager, port=0, token=TOKEN) as server:
        yield server


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    bodies = (body for batch in batches for body in batch.column("payload").to_pylist())
    return [int(body.rstrip(b"\0")) for body in bodies]


@pytest.mark.parametrize("refused", [1, 2])
def test_a_patient_client_asks_again_a_server_that_refuses(
    server: FlightServer, refused: int
) -> None:
    with (
        Line(server.url, refused=refused) as line,
        LedgerClient(line.url, token=TOKEN, is_patient=True) as client,
    ):
        assert client.info().manager == "QM1"
        assert line.connection_count > refused


def test_any_other_client_says_at_once_that_nobody_answers(server: FlightServer) -> None:
    with (
        Line(server.url, refused=1) as line,
        LedgerClient(line.url, token=TOKEN) as client,
        pytest.raises(ServerNotReachable),
    ):
        client.info()
    assert line.connection_count == 1


@pytest.mark.slow
def test_patience_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 5 < sum(RETRY_WAITS_SECONDS) < 10
    monkeypatch.setattr(bulk_client, "RETRY_WAITS_SECONDS", (0.01, 0.02))
    with (
        held_port() as port,
        LedgerClient(f"grpc://127.0.0.1:{port}", token=TOKEN, is_patient=True) as client,
        pytest.raises(ServerNotReachable, match=f"no Mayfly server answers at .*:{port}"),
    ):
        client.info()


def test_rows_go_on_behind_the_last_one_where_the_line_was_cut(server: FlightServer) -> None:
    with (
        Line(server.url) as line,
        QueueClient(line.url, token=TOKEN, is_patient=True) as client,
    ):
        consumer = client.attach("billing", "Q1")
        client.claim(consumer, 0, max_rows=COUNT, max_bytes=2**40)
        line.cut_after_bytes = COUNT * BODY_BYTES // 3
        rows = client.claimed("billing", consumer.epoch, 0, COUNT)
        assert numbers(rows) == [*range(COUNT)]
        assert line.connection_count > 1


def test_ledger_rows_go_on_behind_the_last_one_where_the_line_was_cut(
    manager: QueueManager, server: FlightServer
) -> None:
    with manager.session() as session:
        while session.get("Q1") is not None:
            pass
    last = manager.ledger.last_position()
    with (
        Line(server.url) as line,
        LedgerClient(line.url, token=TOKEN, is_patient=True) as client,
    ):
        client.info()
        line.cut_after_bytes = line.carried_bytes + 20_000
        batches = [*client.read(0, last, max_bytes=4_000)]
        found = [position for batch in batches for position in batch["position"].to_pylist()]
        assert found == [*range(1, last + 1)]
        assert line.cut_after_bytes is None


def test_a_stream_whose_server_is_silent_is_given_up(
    server: FlightServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that itself takes its time is not."""
    monkeypatch.setattr(bulk_client, "SILENCE_SECONDS", 2.0)
    with Line(server.url) as line, QueueClient(line.url, token=TOKEN) as client:
        consumer = client.attach("billing", "Q1")
        client.claim(consumer, 0, max_rows=COUNT, max_bytes=2**40)
        rows = client.claimed("billing", consumer.epoch, 0, COUNT)
        assert next(rows).num_rows
        line.die()
        with pytest.raises(ServerNotReachable, match="nothing has come for 2 s"):
            list(rows)


def test_only_waiting_for_the_server_counts_as_silence() -> None:
    """One of two readers does not wait, for longer than the other may."""
    cuts: list[str] = []
    idle, waiting = (SilenceWatch(partial(cuts.append, name), 0.02) for name in ("idle", "waiting"))
    with waiting.waiting():
        wait_until(lambda: cuts)
    idle.stop()
    assert (cuts, waiting.is_cut, idle.is_cut) == (["waiting"], True, False)


@pytest.mark.slow
@pytest.mark.soak
def test_an_upload_to_a_server_that_has_vanished_fails(
    server: FlightServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is sent, and nobody answers any more, not even a ping; ten seconds are gRPC's least."""
    monkeypatch.setattr(bulk_client, "channel_options", lambda: channel_options(10_000))
    with Line(server.url) as line, StageClient(line.url, token=TOKEN) as client:
        client.info()
        upload = client.begin("query", 0, 0, "attempt")
        upload.write(pa.RecordBatch.from_pylist([{"payload": b"x"}], schema=STAGED))
        line.die()
        with pytest.raises(ServerNotReachable):
            upload.finish()
