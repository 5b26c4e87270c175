"""Gets by an id that many messages have: nothing is walked over twice, nothing missed (G2)."""

from __future__ import annotations

import pytest

from mayfly import QueueManager
from mayfly.engine import Handle, Match, Session
from mayfly.engine.queues import MANY_HIDDEN
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.scene import BROWSE, INPUT, local, refused, take

ALIKE = b"A".ljust(24, b"\0")
#: So many are taken that the search has noted where to begin.
TAKEN = MANY_HIDDEN + 3
UNIT = c.MQGMO_SYNCPOINT


@pytest.fixture
def handle(queue_manager: QueueManager, session: Session, persistent: bool) -> Handle:
    """A handle on Q1, where all messages have one CorrelId: the first ones are taken by it."""
    local(queue_manager)
    for number in range(TAKEN + 3):
        put(session, b"%d" % number, persistent=persistent)
    handle = session.open("Q1", INPUT | BROWSE)
    for number in range(TAKEN):
        assert get(handle) == b"%d" % number
    assert queue_manager.engine.registry.queue("Q1").starts is not None
    return handle


def put(
    session: Session,
    body: bytes,
    *,
    priority: int = 5,
    persistent: bool | None = None,
    time_to_live_ms: int | None = None,
) -> None:
    session.put(
        "Q1",
        body,
        correl_id=ALIKE,
        priority=priority,
        persistent=persistent,
        time_to_live_ms=time_to_live_ms,
    )


def get(handle: Handle, options: int = UNIT) -> bytes:
    return take(handle, options, match=Match(correl_id=ALIKE)).message.body


def test_G2_the_next_one_is_found(handle: Handle) -> None:
    assert [get(handle) for _ in range(3)] == [b"%d" % (TAKEN + n) for n in range(3)]
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        get(handle)


def test_G8_backed_out_they_are_found_again(handle: Handle, session: Session) -> None:
    session.backout()
    assert [get(handle) for _ in range(TAKEN + 3)] == [b"%d" % n for n in range(TAKEN + 3)]


def test_G8_committed_they_are_gone(
    queue_manager: QueueManager, handle: Handle, session: Session
) -> None:
    session.commit()
    assert get(handle) == b"%d" % TAKEN
    assert queue_manager.curdepth("Q1") == 2


@pytest.mark.parametrize("is_persistent", [False, True])
def test_G1_an_arrival_of_higher_priority_is_found_first(
    queue_manager: QueueManager, handle: Handle, is_persistent: bool, new_session: NewSession
) -> None:
    with new_session(queue_manager) as other:
        put(other, b"urgent", priority=9, persistent=is_persistent)
        put(other, b"late", priority=5, persistent=is_persistent)
    assert get(handle) == b"urgent"
    assert [get(handle) for _ in range(4)][-1] == b"late"


def test_P9_an_arrival_that_is_committed_later_is_found_first(
    queue_manager: QueueManager, handle: Handle, new_session: NewSession
) -> None:
    """Its place was given to it at the put, before the search went by."""
    with new_session(queue_manager, transacted=True) as other:
        put(other, b"urgent", priority=9)
        assert get(handle) == b"%d" % TAKEN
        other.commit()
    assert get(handle) == b"urgent"


def test_B5_a_lock_that_ends_shows_its_message(
    queue_manager: QueueManager, handle: Handle, new_session: NewSession
) -> None:
    with new_session(queue_manager) as other:
        browser = other.open("Q1", BROWSE)
        take(browser, c.MQGMO_BROWSE_FIRST | c.MQGMO_LOCK)
        assert get(handle) == b"%d" % (TAKEN + 1)
        browser.unlock()
    assert get(handle) == b"%d" % TAKEN


def test_E9_expired_ones_that_were_behind_the_start_are_discarded(
    queue_manager: QueueManager, handle: Handle, session: Session, clock: VirtualClock
) -> None:
    for _ in range(2):
        put(session, b"short", priority=6, time_to_live_ms=1_000)
    put(session, b"last", priority=6)
    clock.advance(1_000)
    depth = queue_manager.curdepth("Q1")
    assert get(handle) == b"last"
    assert queue_manager.curdepth("Q1") == depth - 3


def test_G2_other_ids_begin_at_their_own_place(
    queue_manager: QueueManager, handle: Handle, session: Session
) -> None:
    """Also one that comes from further on, by a browse behind its cursor."""
    session.put("Q1", b"other", correl_id=b"B".ljust(24, b"\0"), priority=9)
    assert take(handle, match=Match(correl_id=b"B".ljust(24, b"\0"))).message.body == b"other"
    found = take(handle, c.MQGMO_BROWSE_NEXT, match=Match(correl_id=ALIKE)).message.body
    assert found == b"%d" % TAKEN
    assert get(handle) == b"%d" % TAKEN


@pytest.fixture
def gap(queue_manager: QueueManager, session: Session, persistent: bool) -> Handle:
    """A handle on Q1, where between ``first`` and ``last`` many messages are taken."""
    local(queue_manager)
    handle = session.open("Q1", INPUT | BROWSE)
    put(session, b"first", persistent=persistent)
    taken = [
        session.put("Q1", b"x", correl_id=ALIKE, priority=5, persistent=persistent)
        for _ in range(TAKEN)
    ]
    put(session, b"last", priority=4, persistent=persistent)
    for msg_id in taken:
        take(handle, UNIT, match=Match(msg_id=msg_id))
    return handle


def test_B2_a_browse_from_further_on_says_nothing_of_what_stands_before_it(gap: Handle) -> None:
    assert take(gap, c.MQGMO_BROWSE_NEXT).message.body == b"first"
    for _ in range(2):
        found = take(gap, c.MQGMO_BROWSE_NEXT, match=Match(correl_id=ALIKE)).message.body
        assert found == b"last"
        take(gap, c.MQGMO_BROWSE_FIRST)
    assert [get(gap), get(gap)] == [b"first", b"last"]


def test_G2_what_a_selector_has_refused_is_not_passed_over_by_others(
    session: Session, gap: Handle
) -> None:
    choosy = session.open("Q1", INPUT | BROWSE, selector="JMSPriority = 4")
    assert get(choosy, c.MQGMO_BROWSE_FIRST) == b"last"
    assert [get(gap), get(gap)] == [b"first", b"last"]
