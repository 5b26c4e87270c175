"""The browse lock and gets of the handle that holds it, rules B5 and E16."""

import pytest

from mayfly import QueueManager
from mayfly.engine import Handle, Match, Session
from mayfly.engine.api.programs import ANY
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQMDS_FIFO
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.scene import (
    BROWSE,
    INPUT,
    REPLIES,
    STAGING,
    End,
    bodies,
    body,
    by_msg_id,
    ends,
    local,
    refused,
    take,
    waiting,
)

FIRST, NEXT, LOCK = c.MQGMO_BROWSE_FIRST, c.MQGMO_BROWSE_NEXT, c.MQGMO_LOCK
IDS = {name: name * 24 for name in (b"1", b"2", b"3")}


@pytest.fixture
def handle(queue_manager: QueueManager, session: Session, persistent: bool) -> Handle:
    """A handle for input and browse on Q1, a FIFO queue with 1, 2, 3; it has locked 1."""
    local(queue_manager, MSGDLVSQ=MQMDS_FIFO)
    for name, msg_id in IDS.items():
        session.put("Q1", name, msg_id=msg_id, persistent=persistent)
    handle = session.open("Q1", INPUT | BROWSE)
    assert take(handle, FIRST | LOCK).message.body == b"1"
    return handle


def state(queue_manager: QueueManager) -> tuple[int, int, int]:
    """Return depth, live and locked of Q1."""
    counted = queue_manager.counts("Q1")
    return queue_manager.curdepth("Q1"), counted.live, counted.locked


@pytest.mark.parametrize("match", [ANY, by_msg_id(IDS[b"1"])], ids=["any", "msg_id"])
def test_B5_a_get_of_the_holder_takes_what_it_has_locked_and_ends_the_lock(
    queue_manager: QueueManager, handle: Handle, match: Match
) -> None:
    assert take(handle, match=match).message.body == b"1"
    assert state(queue_manager) == (2, 2, 0)
    assert handle.unlock() == rc.MQRC_NO_MSG_LOCKED
    assert not queue_manager.engine.hidden


@pytest.mark.parametrize("other_gets", [1, 2])
def test_B5_gets_of_others_do_not_lead_the_holder_past_its_message(
    queue_manager: QueueManager, handle: Handle, session: Session, other_gets: int
) -> None:
    """They have moved on from where reading starts."""
    assert [body(session.get("Q1")) for _ in range(other_gets)] == [b"2", b"3"][:other_gets]
    assert take(handle).message.body == b"1"
    assert bodies(session, "Q1") == [b"3"][: 2 - other_gets]


def test_B5_other_handles_of_the_same_session_do_not_see_it(
    queue_manager: QueueManager, handle: Handle, session: Session
) -> None:
    other = session.open("Q1", INPUT)
    assert take(other).message.body == b"2"
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(other, match=by_msg_id(IDS[b"1"]))


def test_B5_a_get_of_another_message_leaves_the_lock(
    queue_manager: QueueManager, handle: Handle, session: Session
) -> None:
    assert take(handle, match=by_msg_id(IDS[b"2"])).message.body == b"2"
    assert state(queue_manager) == (2, 1, 1)
    assert bodies(session, "Q1") == [b"3"]
    assert handle.unlock() == rc.MQRC_NONE


def test_B5_G5_a_get_that_is_too_short_leaves_message_and_lock(
    queue_manager: QueueManager, handle: Handle
) -> None:
    assert take(handle, max_length=0).warning == rc.MQRC_TRUNCATED_MSG_FAILED
    assert state(queue_manager) == (3, 2, 1)
    assert take(handle, c.MQGMO_ACCEPT_TRUNCATED_MSG, max_length=0).message.body == b""
    assert state(queue_manager) == (2, 2, 0)


def test_B5_G8_backed_out_it_comes_back_without_the_lock(
    queue_manager: QueueManager, handle: Handle, session: Session
) -> None:
    assert take(handle, c.MQGMO_SYNCPOINT).message.body == b"1"
    assert state(queue_manager) == (2, 2, 1)
    session.backout()
    assert state(queue_manager) == (3, 3, 0)
    assert [(m.body, m.backout_count) for m in session.browse("Q1")] == [
        (b"1", 1),
        (b"2", 0),
        (b"3", 0),
    ]


def test_B5_the_holder_gets_in_order(queue_manager: QueueManager, session: Session) -> None:
    """What stands before the locked message comes first, what stands behind it after it."""
    local(queue_manager)
    for priority in (5, 3):
        session.put("Q1", b"%d" % priority, priority=priority)
    handle = session.open("Q1", INPUT | BROWSE)
    assert take(handle, FIRST | LOCK).message.body == b"5"
    session.put("Q1", b"9", priority=9)
    assert [take(handle).message.body for _ in range(3)] == [b"9", b"5", b"3"]


def test_B5_an_own_uncommitted_put_comes_in_its_place(
    queue_manager: QueueManager,
    handle: Handle,
    session: Session,
    persistent: bool,
    new_session: NewSession,
) -> None:
    with new_session(queue_manager, transacted=True) as unit:
        own = unit.open("Q1", INPUT | BROWSE)
        assert take(own, FIRST | LOCK).message.body == b"2"
        unit.put("Q1", b"4", persistent=persistent)
        got = [take(own, c.MQGMO_SYNCPOINT).message.body for _ in range(3)]
        assert got == [b"2", b"3", b"4"]


def test_B5_a_browse_of_the_holder_ends_the_lock_and_sees_the_message(
    queue_manager: QueueManager, handle: Handle, session: Session
) -> None:
    assert body(session.get("Q1")) == b"2"
    assert take(handle, FIRST).message.body == b"1"
    assert state(queue_manager) == (2, 2, 0)


@pytest.mark.parametrize("late_ms", [-1, 0, 1])
@pytest.mark.parametrize("is_followed", [False, True])
def test_E16_a_get_of_the_holder_discards_its_expired_message(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    late_ms: int,
    is_followed: bool,
    new_session: NewSession,
) -> None:
    """With its report, by this very call, whether anything alive comes behind it or not."""
    local(any_manager)
    local(any_manager, REPLIES)
    with new_session(any_manager) as session:
        session.put(
            "Q1",
            b"x",
            time_to_live_ms=1_000,
            report=c.MQRO_EXPIRATION,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        handle = session.open("Q1", INPUT | BROWSE)
        take(handle, FIRST | LOCK)
        if is_followed:
            session.put("Q1", b"next", persistent=persistent)
        clock.advance(1_000 + late_ms)
        if late_ms < 0:
            assert take(handle).message.remaining_tenths == 1
            return
        if is_followed:
            assert take(handle).message.body == b"next"
        else:
            with refused(rc.MQRC_NO_MSG_AVAILABLE):
                take(handle)
        assert (any_manager.curdepth("Q1"), any_manager.curdepth(REPLIES)) == (0, 1)
        assert handle.unlock() == rc.MQRC_NO_MSG_LOCKED
        assert End("expired", 1_000 + late_ms) in ends(any_manager, "Q1")


def test_B5_D3_the_holder_cancels_the_staged_message_it_has_locked(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    session.put("Q1", b"delayed", delay_ms=1_000)
    handle = session.open(STAGING, INPUT | BROWSE)
    take(handle, FIRST | LOCK)
    take(handle)
    clock.advance(1_000)
    assert [end.outcome for end in ends(queue_manager, STAGING)] == ["cancelled"]
    assert queue_manager.counts("Q1") == (0, 0, 0, 0, 0)


def test_B5_a_get_of_the_holder_that_waits_keeps_the_lock(
    queue_manager: QueueManager, handle: Handle, session: Session
) -> None:
    four = b"4" * 24
    options, match = c.MQGMO_WAIT, by_msg_id(four)
    call = waiting(queue_manager, "Q1", lambda: take(handle, options, wait_ms=-1, match=match))
    assert bodies(session, "Q1") == [b"2", b"3"]
    session.put("Q1", b"4", msg_id=four)
    call.finish()
    assert call.error is None
    assert state(queue_manager) == (1, 0, 1)
    assert take(handle).message.body == b"1"
