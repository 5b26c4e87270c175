"""A MsgId that was generated for a message tells its key, and is in no index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mayfly import QueueManager, QueueSharingGroup
from mayfly.engine import GetRequest, Match, Session
from mayfly.engine.api.bulk import ClaimLimit
from mayfly.lifetime.life import State
from mayfly.mqi import constants as c
from mayfly.testing import VirtualClock
from tests.spec.scene import INPUT, local
from tests.spec.stage_scene import row, write
from tests.store.scene import raw

PERSISTENCES = pytest.mark.parametrize("persistent", [False, True])


def indexed(folder: Path) -> dict[bytes, bool]:
    """Return of each message, by its data, whether its MsgId is in the index."""
    connection = raw(folder)
    rows: Any = connection.execute("SELECT body, msg_hash IS NOT NULL FROM message").fetchall()
    connection.close()
    return {body: bool(is_indexed) for body, is_indexed in rows}


def got_by_id(session: Session, msg_id: bytes, queue: str = "Q1") -> list[bytes]:
    """Get all that have a MsgId."""
    bodies = []
    while (message := session.get(queue, msg_id=msg_id)) is not None:
        assert message.msg_id == msg_id
        bodies.append(message.body)
    return bodies


def test_only_given_msg_ids_are_in_the_index_and_all_are_found_after_the_next_start(
    tmp_path: Path,
) -> None:
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        ids = {
            b"new %d" % priority: session.put(
                "Q1", b"new %d" % priority, persistent=True, priority=priority
            )
            for priority in (0, 5, 9)
        }
        session.put("Q1", b"delayed", persistent=True, delay_ms=60_000)
        for body in (b"given", b"given again"):
            session.put("Q1", body, persistent=True, msg_id=b"given")
    in_index = [body for body, is_indexed in indexed(tmp_path).items() if is_indexed]
    assert in_index == [b"given", b"given again"]
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm, qm.session() as session:
        for body, msg_id in ids.items():
            assert [stay.queue for stay in qm.why(msg_id).entries] == ["Q1"]
            assert got_by_id(session, msg_id) == [body]
        assert got_by_id(session, b"given".ljust(24, b"\0")) == [b"given", b"given again"]


@PERSISTENCES
@pytest.mark.parametrize("priority", range(10))
def test_a_message_is_found_by_its_generated_msg_id(priority: int, persistent: bool) -> None:
    with QueueManager("QM1", clock=VirtualClock()) as qm, qm.session() as session:
        for name in ("Q1", "Q2"):
            local(qm, name)
        for name in ("Q2", "Q1", "Q2"):
            last = session.put(name, name.encode(), priority=priority, persistent=persistent)
        msg_id = session.put("Q1", b"this", priority=priority, persistent=persistent)
        assert [stay.queue for stay in qm.why(msg_id).entries] == ["Q1"]
        assert session.get("Q2", msg_id=msg_id) is None
        assert session.get("Q1", msg_id=last) is None
        assert got_by_id(session, msg_id) == [b"this"]
        assert (qm.curdepth("Q1"), qm.curdepth("Q2")) == (1, 2)


@PERSISTENCES
@pytest.mark.parametrize("priority", [3, 4, 5])
def test_messages_with_one_msg_id_are_got_in_their_order(priority: int, persistent: bool) -> None:
    """One has told its key, the others were given the same id."""
    with QueueManager("QM1", clock=VirtualClock()) as qm, qm.session() as session:
        local(qm)
        msg_id = session.put("Q1", b"first", priority=4, persistent=persistent)
        for body in (b"second", b"third"):
            session.put("Q1", body, msg_id=msg_id, priority=priority, persistent=persistent)
        given = [b"second", b"third"]
        assert sorted(stay.state for stay in qm.why(msg_id).entries) == [State.AVAILABLE] * 3
        in_order = [*given, b"first"] if priority > 4 else [b"first", *given]
        assert [m.body for m in session.browse("Q1", msg_id=msg_id)] == in_order
        assert got_by_id(session, msg_id) == in_order


@PERSISTENCES
def test_a_get_in_logical_order_finds_a_generated_msg_id(persistent: bool) -> None:
    with QueueManager("QM1", clock=VirtualClock()) as qm, qm.session() as session:
        local(qm)
        ids = [session.put("Q1", b"%d" % n, persistent=persistent) for n in range(3)]
        handle = session.open("Q1", INPUT)
        for n in (2, 0, 1):
            request = GetRequest(match=Match(msg_id=ids[n]))
            assert handle.get(request, c.MQGMO_ALL_MSGS_AVAILABLE).message.body == b"%d" % n
        assert qm.curdepth("Q1") == 0


@PERSISTENCES
def test_a_claim_that_was_released_leaves_messages_that_are_found(persistent: bool) -> None:
    with QueueManager("QM1", clock=VirtualClock()) as qm, qm.session() as session:
        local(qm)
        ids = [session.put("Q1", b"%d" % n, priority=n, persistent=persistent) for n in range(3)]
        epoch = qm.claims.attach("reader", "Q1").epoch
        qm.claims.claim("reader", epoch, 0, ClaimLimit(3, 2**20))
        assert [stay.state for stay in qm.why(ids[1]).entries] == [State.LOCKED]
        assert session.get("Q1", msg_id=ids[1]) is None
        qm.claims.release("reader")
        for n, msg_id in enumerate(ids):
            assert got_by_id(session, msg_id) == [b"%d" % n]


def test_messages_of_a_shared_queue_have_ids_of_the_member_and_are_found(tmp_path: Path) -> None:
    """The number of their key is the group's, that of their id the member's: the index has them."""
    clock = VirtualClock()
    group = QueueSharingGroup("QSG1", tmp_path / "QSG1", clock)
    with QueueManager("QM1", tmp_path / "QM1", clock, sharing_group=group) as qm:
        qm.mqsc("DEFINE QLOCAL(S1) QSGDISP(SHARED)")
        with qm.session() as session:
            ids = [session.put("S1", b"%d" % n, persistent=True, priority=n) for n in range(3)]
            for n, msg_id in enumerate(ids):
                assert [stay.queue for stay in qm.why(msg_id).entries] == ["S1"]
                assert got_by_id(session, msg_id, "S1") == [b"%d" % n]
    group.close()


@pytest.mark.parametrize("priorities", [(4,), (0, 9)])
def test_messages_put_in_bulk_are_in_no_index_and_found(
    tmp_path: Path, priorities: tuple[int, ...]
) -> None:
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        rows = [
            row(b"%d" % n, priority=priorities[n % len(priorities)], persistence=1)
            for n in range(64)
        ]
        write(qm, rows)
        ids = {message.body: message.msg_id for message in session.browse("Q1")}
        assert len({*ids.values()}) == 64
        for body, msg_id in ids.items():
            assert [message.body for message in session.browse("Q1", msg_id=msg_id)] == [body]
    assert {*indexed(tmp_path).values()} == {False}
