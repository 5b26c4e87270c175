"""Browse cursor and lock, rules B1-B6 and B8."""

from collections.abc import Callable

import pytest

from mayfly import QueueManager
from mayfly.engine import Handle, Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQMDS_FIFO
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.scene import (
    BROWSE,
    INPUT,
    REPLIES,
    End,
    alter,
    bodies,
    body,
    by_msg_id,
    ends,
    local,
    refused,
    take,
    waiting,
)

FIRST, NEXT, UNDER = c.MQGMO_BROWSE_FIRST, c.MQGMO_BROWSE_NEXT, c.MQGMO_BROWSE_MSG_UNDER_CURSOR
GET_UNDER, LOCK, UNLOCK = c.MQGMO_MSG_UNDER_CURSOR, c.MQGMO_LOCK, c.MQGMO_UNLOCK


@pytest.fixture
def handle(queue_manager: QueueManager, session: Session) -> Handle:
    """A handle for input and browse on Q1, a FIFO queue with 1, 2, 3."""
    local(queue_manager, MSGDLVSQ=MQMDS_FIFO)
    for name in (b"1", b"2", b"3"):
        session.put("Q1", name)
    return session.open("Q1", INPUT | BROWSE)


def shown(handle: Handle, options: int) -> bytes:
    """Return the body of what a browse shows."""
    return take(handle, options).message.body


def test_B1_next_at_first_is_the_first_and_the_end_is_2033(handle: Handle) -> None:
    """The cursor stays at the last one: an arrival behind it is next."""
    assert [shown(handle, NEXT) for _ in range(3)] == [b"1", b"2", b"3"]
    for _ in range(2):
        with refused(rc.MQRC_NO_MSG_AVAILABLE):
            take(handle, NEXT)
    assert shown(handle, UNDER) == b"3"
    assert shown(handle, FIRST) == b"1"


def test_B1_each_handle_has_its_own_cursor(handle: Handle, session: Session) -> None:
    other = session.open("Q1", BROWSE)
    shown(handle, NEXT)
    shown(handle, NEXT)
    assert shown(other, NEXT) == b"1"
    assert shown(handle, NEXT) == b"3"


def test_B2_match_options_apply(handle: Handle, session: Session) -> None:
    second = session.put("Q1", b"4", correl_id=b"C")
    assert take(handle, FIRST, match=by_msg_id(second)).message.body == b"4"
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, NEXT)


def test_B2_skips_locked_uncommitted_and_taken_messages(
    queue_manager: QueueManager, handle: Handle, session: Session, unit: Session
) -> None:
    other = session.open("Q1", BROWSE)
    assert shown(handle, FIRST | LOCK) == b"1"
    assert body(unit.get("Q1")) == b"2"
    unit.put("Q1", b"4")
    assert [m.body for m in session.browse("Q1")] == [b"3"]
    assert shown(other, FIRST) == b"3"
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(other, NEXT)
    counted = queue_manager.counts("Q1")
    assert (counted.live, counted.locked, counted.uncommitted) == (1, 2, 1)


def test_B3_arrival_ahead_of_the_cursor_is_missed_until_first(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager, "Q2")
    handle = session.open("Q2", BROWSE)
    session.put("Q2", b"5", priority=5)
    assert shown(handle, NEXT) == b"5"
    session.put("Q2", b"9", priority=9)
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, NEXT)
    assert shown(handle, FIRST) == b"9"
    assert shown(handle, NEXT) == b"5"


def test_B4_rereads_and_gets_what_is_under_the_cursor(
    queue_manager: QueueManager, handle: Handle, session: Session
) -> None:
    """Match options are ignored."""
    shown(handle, NEXT)
    shown(handle, NEXT)
    assert shown(handle, UNDER) == b"2"
    nobody = by_msg_id(b"N" * 24)
    assert take(handle, UNDER, match=nobody).message.body == b"2"
    assert take(handle, GET_UNDER, match=nobody).message.body == b"2"
    assert queue_manager.curdepth("Q1") == 2
    assert shown(handle, NEXT) == b"3"


@pytest.mark.parametrize("option", [UNDER, GET_UNDER])
def test_B4_cursor_on_nothing(handle: Handle, session: Session, option: int) -> None:
    """Never set, then on a message that somebody else has got."""
    with refused(rc.MQRC_NO_MSG_UNDER_CURSOR):
        take(handle, option)
    shown(handle, FIRST)
    assert body(session.get("Q1")) == b"1"
    with refused(rc.MQRC_NO_MSG_UNDER_CURSOR):
        take(handle, option)


@pytest.mark.parametrize("option", [UNDER, GET_UNDER])
@pytest.mark.parametrize("late_ms", [-1, 0, 1])
def test_B4_E8_expired_under_the_cursor(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    option: int,
    late_ms: int,
    new_session: NewSession,
) -> None:
    """2034, and the call that finds it so discards and reports before it returns."""
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
        shown(handle, FIRST)
        clock.advance(1_000 + late_ms)
        if late_ms < 0:
            assert take(handle, option).message.remaining_tenths == 1
            return
        with refused(rc.MQRC_NO_MSG_UNDER_CURSOR):
            take(handle, option)
        assert (any_manager.curdepth("Q1"), any_manager.curdepth(REPLIES)) == (0, 1)
        assert any_manager.counts(REPLIES).uncommitted == 0
        assert ends(any_manager, "Q1") == [End("expired", 1_000 + late_ms)]


def test_B4_get_under_cursor_in_a_unit_of_work(
    queue_manager: QueueManager, handle: Handle, session: Session
) -> None:
    shown(handle, NEXT)
    assert shown(handle, GET_UNDER | c.MQGMO_SYNCPOINT) == b"1"
    assert queue_manager.curdepth("Q1") == 2
    session.backout()
    assert next((m.body, m.backout_count) for m in session.browse("Q1")) == (b"1", 1)


def test_B4_truncated_get_under_cursor_leaves_everything(
    queue_manager: QueueManager, handle: Handle
) -> None:
    shown(handle, NEXT)
    result = take(handle, GET_UNDER, max_length=0)
    assert (result.warning, result.data_length) == (rc.MQRC_TRUNCATED_MSG_FAILED, 1)
    assert queue_manager.curdepth("Q1") == 3
    assert shown(handle, GET_UNDER) == b"1"


def test_B5_lock_hides_from_every_other_handle(
    queue_manager: QueueManager, handle: Handle, session: Session, new_session: NewSession
) -> None:
    assert shown(handle, FIRST | LOCK) == b"1"
    with new_session(queue_manager) as other:
        assert body(other.get("Q1")) == b"2"
    assert body(session.get("Q1")) == b"3"
    assert session.get("Q1") is None
    assert shown(handle, GET_UNDER) == b"1"
    assert queue_manager.curdepth("Q1") == 0


@pytest.mark.parametrize(
    "release", ["next", "first", "reread", "end", "lock", "unlock", "close", "backout"]
)
def test_B5_what_releases_a_lock(
    queue_manager: QueueManager,
    handle: Handle,
    session: Session,
    release: str,
    new_session: NewSession,
) -> None:
    """The next browse of the handle, even one that finds nothing; never the unit of work."""
    shown(handle, FIRST | LOCK)
    calls: dict[str, Callable[[], object]] = {
        "next": lambda: take(handle, NEXT),
        "first": lambda: take(handle, FIRST),
        "lock": lambda: take(handle, NEXT | LOCK),
        "unlock": handle.unlock,
        "close": handle.close,
        "backout": session.backout,
        "reread": lambda: take(handle, UNDER),
    }
    if release == "end":
        with refused(rc.MQRC_NO_MSG_AVAILABLE):
            take(handle, NEXT, match=by_msg_id(b"N" * 24))
    else:
        calls[release]()
    expected = b"2" if release == "backout" else b"1"
    with new_session(queue_manager) as other:
        assert body(other.get("Q1")) == expected


def test_B5_disconnect_releases_a_lock(
    queue_manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    local(queue_manager)
    session.put("Q1", b"x")
    with new_session(queue_manager) as other:
        shown(other.open("Q1", BROWSE), FIRST | LOCK)
        assert session.get("Q1") is None
    assert body(session.get("Q1")) == b"x"


def test_B5_reread_keeps_the_lock(
    queue_manager: QueueManager, handle: Handle, new_session: NewSession
) -> None:
    """LOCK on the reread, too; the message stays hidden from others meanwhile."""
    shown(handle, FIRST | LOCK)
    assert shown(handle, UNDER | LOCK) == b"1"
    with new_session(queue_manager) as other:
        assert body(other.get("Q1")) == b"2"
    assert queue_manager.counts("Q1").locked == 1


def test_B5_lock_on_a_reread_of_an_unlocked_message(
    queue_manager: QueueManager, handle: Handle, new_session: NewSession
) -> None:
    shown(handle, FIRST)
    assert shown(handle, UNDER | LOCK) == b"1"
    with new_session(queue_manager) as other:
        assert body(other.get("Q1")) == b"2"


@pytest.mark.parametrize("option", [UNDER | LOCK, GET_UNDER])
def test_B5_waiting_get_does_not_snatch_what_the_cursor_holds(
    queue_manager: QueueManager, session: Session, option: int, new_session: NewSession
) -> None:
    """Neither the reread nor the get under the cursor offers the locked message to others."""
    local(queue_manager)
    session.put("Q1", b"x")
    handle = session.open("Q1", INPUT | BROWSE)
    shown(handle, FIRST | LOCK)
    with new_session(queue_manager) as getter:
        call = waiting(queue_manager, "Q1", lambda: getter.get("Q1", wait_ms=-1))
        assert shown(handle, option) == b"x"
        assert call.is_under_way
        handle.close()
        session.put("Q1", b"y")
        call.finish()
        bodies(session, "Q1")


def test_B5_released_lock_serves_a_waiting_get(
    queue_manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    local(queue_manager)
    session.put("Q1", b"x")
    handle = session.open("Q1", BROWSE)
    shown(handle, FIRST | LOCK)
    with new_session(queue_manager) as getter:
        call = waiting(queue_manager, "Q1", lambda: getter.get("Q1", wait_ms=-1))
        assert handle.unlock() == 0
        assert call.finish() is not None


@pytest.mark.parametrize("way", ["close", "unlock", "browse"])
def test_B5_expired_lock_released_into_a_waiting_get_is_discarded_with_its_report(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    way: str,
    new_session: NewSession,
) -> None:
    local(any_manager)
    local(any_manager, REPLIES)
    with new_session(any_manager) as session, new_session(any_manager) as getter:
        session.put(
            "Q1",
            b"x",
            time_to_live_ms=1_000,
            report=c.MQRO_EXPIRATION,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        handle = session.open("Q1", BROWSE)
        shown(handle, FIRST | LOCK)
        call = waiting(any_manager, "Q1", lambda: getter.get("Q1", wait_ms=60_000))
        clock.advance(1_000)
        if way == "browse":
            alter_get = {"GET": c.MQQA_GET_ALLOWED}
            alter(any_manager, "Q1", **alter_get)
            with refused(rc.MQRC_NO_MSG_AVAILABLE):
                take(handle, NEXT)
        else:
            (handle.close if way == "close" else handle.unlock)()
        assert any_manager.curdepth("Q1") == 0
        assert any_manager.counts(REPLIES).live == 1
        clock.advance(60_000)
        assert call.finish() is None
        assert [end.at_ms for end in ends(any_manager, "Q1")] == [1_000]


def test_B5_E12_locked_and_expired_is_counted_once(
    queue_manager: QueueManager, session: Session, unit: Session, clock: VirtualClock
) -> None:
    """As locked, in a unit of work or by a browse, and not as expired and present."""
    local(queue_manager)
    for _ in range(3):
        session.put("Q1", b"x", time_to_live_ms=1_000)
    shown(session.open("Q1", BROWSE), FIRST | LOCK)
    assert unit.get("Q1") is not None
    clock.advance(1_000)
    counted = queue_manager.counts("Q1")
    assert (counted.live, counted.locked, counted.expired_present) == (0, 2, 1)
    assert queue_manager.curdepth("Q1") == 2


def test_B6_unlock(handle: Handle, queue_manager: QueueManager) -> None:
    """2209 as a warning when nothing is locked."""
    assert handle.unlock() == rc.MQRC_NO_MSG_LOCKED
    shown(handle, FIRST | LOCK)
    assert handle.unlock() == rc.MQRC_NONE
    assert handle.unlock() == rc.MQRC_NO_MSG_LOCKED
    assert queue_manager.counts("Q1").locked == 0
    assert shown(handle, UNDER) == b"1"


def test_B6_unlock_option_never_takes_a_message(
    queue_manager: QueueManager, handle: Handle
) -> None:
    """The call for it is Handle.unlock; as a get option it must not become a get."""
    with refused(rc.MQRC_OPTIONS_ERROR):
        take(handle, UNLOCK)
    assert queue_manager.curdepth("Q1") == 3


@pytest.mark.parametrize(
    "options",
    [
        FIRST | NEXT,
        FIRST | UNDER,
        NEXT | UNDER,
        FIRST | c.MQGMO_SYNCPOINT,
        NEXT | c.MQGMO_SYNCPOINT_IF_PERSISTENT,
        FIRST | c.MQGMO_MARK_SKIP_BACKOUT,
        FIRST | UNLOCK,
        NEXT | GET_UNDER,
        LOCK,
        GET_UNDER | LOCK,
        UNLOCK | c.MQGMO_WAIT,
        UNLOCK | c.MQGMO_SYNCPOINT,
        UNLOCK | c.MQGMO_ACCEPT_TRUNCATED_MSG,
        c.MQGMO_SYNCPOINT | c.MQGMO_NO_SYNCPOINT,
        c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT,
        c.MQGMO_SYNCPOINT_IF_PERSISTENT | c.MQGMO_NO_SYNCPOINT,
        0x40000000,
    ],
)
def test_B8_options_that_exclude_each_other(
    queue_manager: QueueManager, handle: Handle, options: int
) -> None:
    with refused(rc.MQRC_OPTIONS_ERROR):
        take(handle, options)
    assert queue_manager.curdepth("Q1") == 3
    assert queue_manager.counts("Q1").locked == 0


@pytest.mark.parametrize("room_bytes", [0, 1])
def test_G5_B2_truncated_browse_moves_the_cursor_only_when_accepted(
    queue_manager: QueueManager, handle: Handle, session: Session, room_bytes: int
) -> None:
    alter(queue_manager, "Q1", MAXMSGL=100)
    session.put("Q1", b"long")
    for _ in range(3):
        shown(handle, NEXT)
    failed = take(handle, NEXT, max_length=room_bytes)
    assert (failed.warning, failed.data_length) == (rc.MQRC_TRUNCATED_MSG_FAILED, 4)
    assert shown(handle, UNDER) == b"3"
    accepted = take(handle, NEXT | c.MQGMO_ACCEPT_TRUNCATED_MSG, max_length=room_bytes)
    assert accepted.warning == rc.MQRC_TRUNCATED_MSG_ACCEPTED
    assert shown(handle, UNDER) == b"long"


def test_B2_waiting_browse(
    queue_manager: QueueManager,
    handle: Handle,
    session: Session,
    clock: VirtualClock,
    new_session: NewSession,
) -> None:
    """It waits behind the cursor, is served by an arrival, and leaves it on the queue."""
    bodies(session, "Q1")
    with new_session(queue_manager) as other:
        browser = other.open("Q1", BROWSE)
        call = waiting(queue_manager, "Q1", lambda: take(browser, NEXT | c.MQGMO_WAIT, wait_ms=500))
        session.put("Q1", b"x")
        call.finish()
        assert call.error is None
        assert queue_manager.curdepth("Q1") == 1
        late = waiting(queue_manager, "Q1", lambda: take(browser, NEXT | c.MQGMO_WAIT, wait_ms=500))
        clock.advance(499)
        assert late.is_under_way
        clock.advance(1)
        late.finish()
        assert late.error is not None
        assert late.error.reason == rc.MQRC_NO_MSG_AVAILABLE
