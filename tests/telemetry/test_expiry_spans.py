"""What became of a message: its expiry is a span in the trace of its sender."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import mayfly
from mayfly import QueueManager, telemetry
from mayfly.engine.api.operating import Expired, watch_expiry
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS
from mayfly.testing import VirtualClock
from tests.channel.scene import CHANNEL, XMITQ, done, receiving, sending
from tests.telemetry.conftest import Recorded

_NS = 1_000_000


@pytest.fixture
def watched(qm: QueueManager, recorded: Recorded) -> Iterator[QueueManager]:
    end = telemetry.watch(qm, tracer_provider=recorded.tracers)
    yield qm
    end()


def test_an_expiry_that_a_get_meets_lasts_from_the_deadline_to_that_moment(
    watched: QueueManager, recorded: Recorded, clock: VirtualClock
) -> None:
    with mayfly.connect("QM1") as client:
        msg_id = client.put("ORDERS", b"tea", time_to_live_ms=2_000, correl_id="0a")
        put_ms = clock.now_ms()
        clock.advance(5_000)
        assert recorded.names() == ["put ORDERS"]
        assert client.get("ORDERS") is None
    put, expired = recorded.spans
    assert expired.name == "expire ORDERS"
    assert expired.parent is not None
    assert expired.parent.span_id == put.context.span_id
    assert [link.context.span_id for link in expired.links] == [put.context.span_id]
    assert (expired.start_time, expired.end_time) == (
        (put_ms + 2_000) * _NS,
        (put_ms + 5_000) * _NS,
    )
    assert dict(expired.attributes or {}) == {
        "messaging.system": "mayfly",
        "messaging.operation.name": "expire",
        "messaging.destination.name": "ORDERS",
        "messaging.message.id": msg_id.hex(),
        "messaging.message.conversation_id": "0a" + 46 * "0",
        "mayfly.queue_manager": "QM1",
        "mayfly.message.lateness_ms": 3_000,
        "mayfly.message.detected_by": "get",
        "mayfly.message.time_to_live_ms": 2_000,
    }


def test_a_delayed_message_that_expires_is_told_at_the_queue_it_was_for(
    watched: QueueManager, recorded: Recorded, clock: VirtualClock
) -> None:
    with mayfly.connect("QM1") as client:
        client.put("ORDERS", b"tea", time_to_live_ms=1_000, delay_ms=1_000, persistent=True)
        clock.advance(1_000)
    assert recorded.names() == ["put ORDERS", "expire ORDERS"]


def test_a_put_that_expires_before_its_commit_is_told(
    watched: QueueManager, recorded: Recorded, clock: VirtualClock
) -> None:
    with mayfly.connect("QM1", transacted=True) as client:
        client.put("ORDERS", b"tea", time_to_live_ms=1_000, persistent=True)
        clock.advance(1_000)
        client.commit()
    assert recorded.names() == ["put ORDERS", "expire ORDERS"]
    assert (recorded.span("expire ORDERS").attributes or {})[
        "mayfly.message.detected_by"
    ] == "commit"


@pytest.mark.parametrize("detected_by", ["get", "channel"])
def test_a_message_that_expires_on_its_way_is_told_as_it_was_put(
    recorded: Recorded, clock: VirtualClock, detected_by: str
) -> None:
    with sending(clock) as one, receiving(clock) as two:
        done(one, "DEFINE QREMOTE(THERE) RNAME(IN) RQMNAME(QM2) XMITQ(QM2)")
        end = telemetry.watch(one, tracer_provider=recorded.tracers)
        with mayfly.connect("QM1") as client:
            msg_id = client.put("THERE", b"tea", time_to_live_ms=1_000)
            clock.advance(1_500)
            if detected_by == "channel":
                one.channels.start(CHANNEL)
                client.put("THERE", b"more tea")
                assert two.curdepth("IN") == 1
            else:
                assert client.get(XMITQ) is None
        end()
    put, expired = recorded.spans[0], recorded.span("expire IN@QM2")
    assert put.name == "put THERE"
    assert [link.context.span_id for link in expired.links] == [put.context.span_id]
    said = expired.attributes or {}
    assert said["messaging.message.id"] == msg_id.hex()
    assert said["mayfly.message.lateness_ms"] == 500
    assert said["mayfly.message.detected_by"] == detected_by


def test_messages_without_a_context_and_watches_that_have_ended_tell_nothing(
    qm: QueueManager, recorded: Recorded, clock: VirtualClock
) -> None:
    end = telemetry.watch(qm, tracer_provider=recorded.tracers)
    with qm.session() as session:
        session.put("ORDERS", b"plain", time_to_live_ms=1_000)
        session.put("ORDERS", b"says traceparent", time_to_live_ms=1_000)
        clock.advance(1_000)
        assert session.get("ORDERS") is None
    end()
    with mayfly.connect("QM1") as client:
        client.put("ORDERS", b"tea", time_to_live_ms=1_000)
        clock.advance(1_000)
        assert client.get("ORDERS") is None
    assert recorded.names() == ["put ORDERS"]


def test_an_expiry_is_told_when_it_is_durable(tmp_path: Path, clock: VirtualClock) -> None:
    """A watcher that asks the ledger finds the lives ended there, and may use its verbs."""
    found = []
    with QueueManager("QM2", tmp_path / "QM2", clock=clock) as qm, qm.session() as session:
        assert qm.mqsc("DEFINE QLOCAL(ORDERS)\nDEFINE QLOCAL(TOLD)").ok

        def met(expired: Expired) -> None:
            outcomes = [dict(zip(LEDGER_COLUMNS, row, strict=True)) for row in qm.ledger.page(0, 9)]
            ended = [each for each in outcomes if each["kind"] == KIND_LIFE]
            found.append((expired.queue, [each["outcome"] for each in ended]))
            with qm.session() as other:
                other.put("TOLD", expired.message.body)

        end = watch_expiry(qm.engine, met)
        for body in (b"one", b"two"):
            session.put("ORDERS", body, time_to_live_ms=1_000, persistent=True)
        clock.advance(1_000)
        assert session.get("ORDERS") is None
        end()
        end()
        assert found == 2 * [("ORDERS", ["expired", "expired"])]
        told = [session.get("TOLD"), session.get("TOLD")]
        assert [each.body for each in told if each is not None] == [b"one", b"two"]
