"""Rule D34: a delayed message put with a key is the only one for its queue that waits under it."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mayfly import MQError, QueueManager
from mayfly.client import Client
from mayfly.engine import Session
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt, key_id
from tests.client.conftest import MakeClient
from tests.spec.scene import ends, refused

HOUR_MS = 3_600_000


def put(client: Client | Session, body: bytes, if_exists: str = "refuse", key: str = "k") -> bytes:
    return client.put("Q1", body, delay_ms=HOUR_MS, persistent=True, key=key, if_exists=if_exists)


def bodies_when_due(client: Client, clock: VirtualClock) -> list[bytes]:
    clock.advance(HOUR_MS)
    return [message.body for message in client.browse("Q1")]


def test_D34_a_second_put_is_refused_while_the_first_waits(
    client: Client, clock: VirtualClock
) -> None:
    assert put(client, b"1") == key_id("Q1", "k")
    with refused(rc.MQRC_OBJECT_ALREADY_EXISTS):
        put(client, b"2")
    assert put(client, b"other", key="k2") == key_id("Q1", "k2")
    assert bodies_when_due(client, clock) == [b"1", b"other"]
    put(client, b"3")
    assert client.schedule.count() == 1


def test_D34_replace_cancels_the_one_that_waits_and_the_schedule_tells_so(
    client: Client, clock: VirtualClock, queue_manager: QueueManager
) -> None:
    first = put(client, b"1")
    assert put(client, b"2", "replace") == first
    assert client.schedule.count() == 1
    assert [e.outcome for e in ends(queue_manager, "SYSTEM.DDELAY.LOCAL.QUEUE")] == ["cancelled"]
    (entry,) = client.schedule.audit()
    assert (entry.action, entry.msg_id, entry.receipt) == ("replace", first, "cancelled")
    assert bodies_when_due(client, clock) == [b"2"]
    assert client.schedule.cancel(first) == Receipt.ALREADY_RELEASED
    put(client, b"3", "replace")
    assert client.schedule.cancel(first) == Receipt.CANCELLED
    assert client.schedule.cancel(first) == Receipt.CANCELLED
    assert queue_manager.verify().ok


def test_D34_the_same_key_for_another_queue_is_another_key(
    client: Client, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q2)").ok
    put(client, b"1")
    client.put("Q2", b"2", delay_ms=HOUR_MS, key="k")
    assert client.schedule.count() == 2


def test_D34_a_backout_keeps_the_message_that_was_replaced_and_a_commit_cancels_it(
    make_client: MakeClient, clock: VirtualClock
) -> None:
    client, unit = make_client(), make_client(transacted=True)
    put(client, b"1")
    put(unit, b"2", "replace")
    unit.backout()
    assert [each.body_bytes for each in client.schedule.list("Q1")] == [1]
    put(unit, b"22", "replace")
    unit.commit()
    assert [each.body_bytes for each in client.schedule.list("Q1")] == [2]
    assert bodies_when_due(client, clock) == [b"22"]


def test_D34_two_open_units_of_work_do_not_both_put(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    one, two = make_client(transacted=True), make_client(transacted=True)
    put(one, b"1")
    with refused(rc.MQRC_OBJECT_ALREADY_EXISTS):
        put(two, b"2")
    with refused(rc.MQRC_OBJECT_IN_USE):
        put(two, b"2", "replace")
    one.backout()
    put(two, b"2")
    two.commit()
    with refused(rc.MQRC_OBJECT_ALREADY_EXISTS):
        put(one, b"1")
    put(one, b"1", "replace")
    one.commit()
    assert queue_manager.counts("Q1").staged == 1


def test_D34_a_refused_put_leaves_the_key_free(client: Client, queue_manager: QueueManager) -> None:
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) PUT(DISABLED)").ok
    with refused(rc.MQRC_PUT_INHIBITED):
        put(client, b"1")
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) PUT(ENABLED)").ok
    put(client, b"1")


def test_D34_another_user_cannot_replace_it(make_client: MakeClient) -> None:
    put(make_client("anna"), b"1")
    with refused(rc.MQRC_NOT_AUTHORIZED):
        put(make_client("bob"), b"2", "replace")


def test_D34_a_message_that_has_expired_does_not_hold_its_key(
    client: Client, clock: VirtualClock
) -> None:
    client.put("Q1", b"1", delay_ms=1_000, time_to_live_ms=1_000, key="k")
    clock.advance(1_000)
    put(client, b"2")
    assert client.schedule.count() == 1


def test_D34_a_session_does_the_same(queue_manager: QueueManager, make_client: MakeClient) -> None:
    make_client()
    with queue_manager.session() as session:
        assert put(session, b"1") == key_id("Q1", "k")
        with refused(rc.MQRC_OBJECT_ALREADY_EXISTS):
            put(session, b"2")
        put(session, b"3", "replace")
        assert session.schedule.count() == 1


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"key": "k"}, "key: the message has no delay"),
        ({"key": "", "delay_ms": 1}, "key '' is no text"),
        ({"key": "k", "delay_ms": 1, "msg_id": "0a"}, "key 'k': the message has a msg_id"),
        ({"key": "k", "delay_ms": 1, "if_exists": "keep"}, "if_exists 'keep' is not refuse or"),
    ],
)
def test_D34_a_wrong_key_is_refused(client: Client, more: dict[str, object], text: str) -> None:
    with pytest.raises(MQError, match=text) as caught:
        client.put("Q1", b"x", **more)  # type: ignore[arg-type]  # keywords of a put
    assert caught.value.reason == rc.MQRC_OPTIONS_ERROR


def test_D34_of_many_threads_one_puts_and_the_last_one_replaces(
    tmp_path: Path, clock: VirtualClock
) -> None:
    """On a disk, where a transaction is under way for a while."""
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)").ok

        def attempt(number: int) -> int:
            with manager.session() as session:
                try:
                    put(session, b"%d" % number, "replace" if number % 2 else "refuse")
                except MQError as error:
                    return error.reason
                return rc.MQRC_NONE

        with ThreadPoolExecutor(8) as threads:
            reasons = Counter(threads.map(attempt, range(40)))
        assert reasons.keys() <= {
            rc.MQRC_NONE,
            rc.MQRC_OBJECT_ALREADY_EXISTS,
            rc.MQRC_OBJECT_IN_USE,
        }
        assert manager.counts("Q1").staged == 1
        ended = ends(manager, "SYSTEM.DDELAY.LOCAL.QUEUE")
        assert [end.outcome for end in ended] == ["cancelled"] * (reasons[rc.MQRC_NONE] - 1)
        assert manager.verify().ok
