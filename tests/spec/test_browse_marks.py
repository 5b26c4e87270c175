"""Browse marks of a handle and of a co-operating set, rule B7 and the conflicts of B8."""

from collections.abc import Callable

import pytest

from mayfly import QueueManager
from mayfly.engine import Handle, Match, Session
from mayfly.engine.api.programs import ANY
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQMDS_FIFO, MQMMBI_UNLIMITED
from mayfly.mqi.errors import NoMessage
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import token_of
from tests.over import NewSession
from tests.spec.scene import (
    BROWSE,
    INPUT,
    REPLIES,
    START_MS,
    End,
    Running,
    alter_manager,
    body,
    ends,
    local,
    refused,
    take,
    waiting,
)

FIRST, NEXT, UNDER = c.MQGMO_BROWSE_FIRST, c.MQGMO_BROWSE_NEXT, c.MQGMO_BROWSE_MSG_UNDER_CURSOR
UNMARKED, GET_UNDER = c.MQGMO_UNMARKED_BROWSE_MSG, c.MQGMO_MSG_UNDER_CURSOR
MARK, UNMARK = c.MQGMO_MARK_BROWSE_HANDLE, c.MQGMO_UNMARK_BROWSE_HANDLE
MARK_SET, UNMARK_SET = c.MQGMO_MARK_BROWSE_CO_OP, c.MQGMO_UNMARK_BROWSE_CO_OP
CO_OP = c.MQOO_CO_OP
MINUTE_MS = 60_000
#: MARKINT by default.
INTERVAL_MS = 5_000


@pytest.fixture
def q1(queue_manager: QueueManager, session: Session, persistent: bool) -> str:
    """Q1, a FIFO queue with 1, 2, 3."""
    local(queue_manager, MSGDLVSQ=MQMDS_FIFO)
    for name in (b"1", b"2", b"3"):
        session.put("Q1", name, persistent=persistent)
    return "Q1"


@pytest.fixture
def handle(session: Session, q1: str) -> Handle:
    """A handle that is alone."""
    return session.open(q1, INPUT | BROWSE)


@pytest.fixture
def pair(session: Session, q1: str) -> tuple[Handle, Handle]:
    """Two handles of one set."""
    return session.open(q1, INPUT | BROWSE | CO_OP), session.open(q1, INPUT | BROWSE | CO_OP)


def seen(handle: Handle, options: int) -> bytes | None:
    """Return the body of what a browse shows, None for nothing."""
    try:
        return take(handle, options).message.body
    except NoMessage:
        return None


def test_B7_a_handle_sees_each_message_once(handle: Handle, session: Session) -> None:
    assert c.MQGMO_BROWSE_HANDLE == FIRST | UNMARKED | MARK
    shown = [seen(handle, c.MQGMO_BROWSE_HANDLE) for _ in range(4)]
    assert shown == [b"1", b"2", b"3", None]
    session.put("Q1", b"4")
    assert seen(handle, c.MQGMO_BROWSE_HANDLE) == b"4"


def test_B7_an_arrival_before_what_is_marked_is_seen(
    queue_manager: QueueManager, session: Session
) -> None:
    """The browse begins where an unmarked message may be, wherever it has been before."""
    local(queue_manager)
    handle = session.open("Q1", BROWSE)
    for priority, name in ((3, b"3"), (1, b"1")):
        session.put("Q1", name, priority=priority)
    assert [seen(handle, c.MQGMO_BROWSE_HANDLE) for _ in range(2)] == [b"3", b"1"]
    session.put("Q1", b"9", priority=9)
    session.put("Q1", b"2", priority=2)
    assert [seen(handle, c.MQGMO_BROWSE_HANDLE) for _ in range(3)] == [b"9", b"2", None]


def test_B7_the_mark_of_a_handle_is_its_own_and_never_lapses(
    handle: Handle, session: Session, clock: VirtualClock
) -> None:
    other = session.open("Q1", BROWSE)
    assert seen(handle, FIRST | MARK) == b"1"
    clock.advance(MINUTE_MS)
    assert seen(handle, FIRST | UNMARKED) == b"2"
    assert seen(other, FIRST | UNMARKED) == b"1"


def test_B7_only_who_asks_for_unmarked_messages_passes_marked_ones_over(handle: Handle) -> None:
    """Also behind a browse that has passed them over."""
    assert seen(handle, FIRST | MARK) == b"1"
    assert seen(handle, NEXT | MARK) == b"2"
    assert seen(handle, FIRST | UNMARKED) == b"3"
    assert seen(handle, FIRST) == b"1"
    assert seen(handle, NEXT) == b"2"
    assert take(handle).message.body == b"1"


def test_B7_unmark_shows_the_message_again(handle: Handle) -> None:
    assert seen(handle, c.MQGMO_BROWSE_HANDLE) == b"1"
    assert seen(handle, c.MQGMO_BROWSE_HANDLE) == b"2"
    assert seen(handle, FIRST | UNMARK) == b"1"
    assert [seen(handle, c.MQGMO_BROWSE_HANDLE) for _ in range(2)] == [b"1", b"3"]


def test_B7_under_the_cursor_it_is_marked_and_unmarked(handle: Handle) -> None:
    assert seen(handle, FIRST) == b"1"
    assert seen(handle, UNDER | MARK) == b"1"
    assert seen(handle, FIRST | UNMARKED) == b"2"
    assert seen(handle, FIRST) == b"1"
    with refused(rc.MQRC_MSG_MARKED_BROWSE_CO_OP):
        take(handle, UNDER | UNMARKED)
    assert seen(handle, UNDER | UNMARK) == b"1"
    assert seen(handle, UNDER | UNMARKED) == b"1"
    assert seen(handle, FIRST | UNMARKED) == b"1"


def test_B7_what_is_too_long_for_the_buffer_is_not_marked(handle: Handle) -> None:
    """2080 leaves everything as it is; 2079 has browsed the message."""
    result = take(handle, c.MQGMO_BROWSE_HANDLE, max_length=0)
    assert result.warning == rc.MQRC_TRUNCATED_MSG_FAILED
    accept = c.MQGMO_ACCEPT_TRUNCATED_MSG
    result = take(handle, c.MQGMO_BROWSE_HANDLE | accept, max_length=0)
    assert (result.warning, result.data_length) == (rc.MQRC_TRUNCATED_MSG_ACCEPTED, 1)
    assert seen(handle, c.MQGMO_BROWSE_HANDLE) == b"2"


def test_B7_a_set_sees_each_message_once(pair: tuple[Handle, Handle], handle: Handle) -> None:
    """Who is no member of it sees all."""
    one, other = pair
    assert c.MQGMO_BROWSE_CO_OP == FIRST | UNMARKED | MARK_SET
    shown = [seen(who, c.MQGMO_BROWSE_CO_OP) for who in (one, other, one, other)]
    assert shown == [b"1", b"2", b"3", None]
    assert seen(handle, FIRST | UNMARKED) == b"1"


def test_B7_a_set_spans_sessions_but_not_queues(
    queue_manager: QueueManager,
    pair: tuple[Handle, Handle],
    session: Session,
    new_session: NewSession,
) -> None:
    local(queue_manager, "Q2")
    session.put("Q2", b"x")
    assert seen(pair[0], c.MQGMO_BROWSE_CO_OP) == b"1"
    with new_session(queue_manager) as stranger:
        assert seen(stranger.open("Q1", BROWSE | CO_OP), c.MQGMO_BROWSE_CO_OP) == b"2"
        assert seen(stranger.open("Q2", BROWSE | CO_OP), c.MQGMO_BROWSE_CO_OP) == b"x"


@pytest.mark.parametrize("late_ms", [-1, 0, 1])
def test_B7_the_mark_of_a_set_lapses_after_markint(
    pair: tuple[Handle, Handle], clock: VirtualClock, late_ms: int
) -> None:
    assert seen(pair[0], c.MQGMO_BROWSE_CO_OP) == b"1"
    clock.advance(INTERVAL_MS + late_ms)
    assert seen(pair[1], c.MQGMO_BROWSE_CO_OP) == (b"2" if late_ms < 0 else b"1")


@pytest.mark.parametrize("interval_ms", [0, 1, 70_000, MQMMBI_UNLIMITED])
def test_B7_markint_is_that_of_the_moment_of_the_mark(
    queue_manager: QueueManager, pair: tuple[Handle, Handle], clock: VirtualClock, interval_ms: int
) -> None:
    alter_manager(queue_manager, MARKINT=interval_ms)
    assert seen(pair[0], c.MQGMO_BROWSE_CO_OP) == b"1"
    alter_manager(queue_manager, MARKINT=INTERVAL_MS)
    if interval_ms == MQMMBI_UNLIMITED:
        clock.advance(10**9)
        assert seen(pair[1], FIRST | UNMARKED) == b"2"
        return
    if interval_ms:
        clock.advance(interval_ms - 1)
        assert seen(pair[1], FIRST | UNMARKED) == b"2"
        clock.advance(1)
    assert seen(pair[1], FIRST | UNMARKED) == b"1"


def test_B7_a_mark_made_again_lasts_from_then_on(
    pair: tuple[Handle, Handle], clock: VirtualClock
) -> None:
    take(pair[0], FIRST | MARK_SET)
    clock.advance(INTERVAL_MS - 1)
    take(pair[0], FIRST | MARK_SET)
    clock.advance(INTERVAL_MS - 1)
    assert seen(pair[1], FIRST | UNMARKED) == b"2"
    clock.advance(1)
    assert seen(pair[1], FIRST | UNMARKED) == b"1"


def test_B7_any_of_the_set_unmarks_and_marks_of_handles_stay(pair: tuple[Handle, Handle]) -> None:
    one, other = pair
    assert seen(one, c.MQGMO_BROWSE_CO_OP | MARK) == b"1"
    assert seen(other, FIRST | UNMARK_SET) == b"1"
    assert seen(other, FIRST | UNMARKED) == b"1"
    assert seen(one, FIRST | UNMARKED) == b"2"
    assert seen(one, FIRST | UNMARK) == b"1"
    assert seen(one, FIRST | UNMARKED) == b"1"


@pytest.mark.parametrize("by", ["plain", "cursor", "unit"])
def test_B7_a_get_ends_the_marks_even_if_it_is_backed_out(
    queue_manager: QueueManager,
    session: Session,
    pair: tuple[Handle, Handle],
    by: str,
    new_session: NewSession,
) -> None:
    one, other = pair
    take(one, c.MQGMO_BROWSE_CO_OP | MARK)
    options = {"plain": c.MQGMO_SYNCPOINT, "cursor": GET_UNDER | c.MQGMO_SYNCPOINT}
    if by == "unit":
        with new_session(queue_manager, transacted=True) as unit:
            assert body(unit.get("Q1")) == b"1"
            unit.backout()
    else:
        assert take(one, options[by]).message.body == b"1"
        session.backout()
    assert not queue_manager.engine.marks.marked
    assert seen(one, FIRST | UNMARKED) == b"1"
    assert take(other, FIRST | UNMARKED).message.backout_count == 1


def test_B7_closing_ends_the_marks_of_a_handle_and_the_last_one_those_of_the_set(
    queue_manager: QueueManager, pair: tuple[Handle, Handle], session: Session
) -> None:
    one, other = pair
    take(one, c.MQGMO_BROWSE_CO_OP | MARK)
    one.close()
    assert seen(other, FIRST | UNMARKED) == b"2"
    other.close()
    assert not queue_manager.engine.marks.marked
    assert seen(session.open("Q1", BROWSE | CO_OP), FIRST | UNMARKED) == b"1"


def test_B7_a_session_that_ends_takes_its_marks_along(
    queue_manager: QueueManager, handle: Handle, new_session: NewSession
) -> None:
    with new_session(queue_manager) as other:
        take(other.open("Q1", BROWSE | CO_OP), c.MQGMO_BROWSE_CO_OP | MARK)
        assert len(queue_manager.engine.marks.marked) == 1
    assert not queue_manager.engine.marks.marked


def test_B7_a_mark_ends_when_its_message_is_cleared(
    queue_manager: QueueManager, handle: Handle, session: Session
) -> None:
    take(handle, c.MQGMO_BROWSE_HANDLE)
    for _ in range(3):
        session.get("Q1")
    assert not queue_manager.engine.marks.marked


def test_B7_gets_tell_of_departures_only_while_something_is_marked(
    queue_manager: QueueManager, handle: Handle, session: Session
) -> None:
    """A get of a queue without marks meets no code of marks."""
    told = queue_manager.engine.on_departure
    assert not told
    for _ in range(2):
        take(handle, c.MQGMO_BROWSE_HANDLE)
    assert len(told) == 1
    session.get("Q1")
    assert len(told) == 1
    session.get("Q1")
    assert not told


@pytest.mark.parametrize("late_ms", [-1, 0])
def test_E8_a_mark_does_not_stop_the_clock(
    queue_manager: QueueManager, session: Session, clock: VirtualClock, late_ms: int
) -> None:
    """What is marked and has expired is discarded by a browse of unmarked messages, reported on."""
    local(queue_manager)
    local(queue_manager, REPLIES)
    report = c.MQRO_EXPIRATION
    session.put("Q1", b"1", time_to_live_ms=1_000, report=report, reply_to_q=REPLIES)
    session.put("Q1", b"2")
    handle = session.open("Q1", BROWSE)
    assert [seen(handle, c.MQGMO_BROWSE_HANDLE) for _ in range(2)] == [b"1", b"2"]
    session.put("Q1", b"3")
    assert seen(handle, FIRST | UNMARKED) == b"3"
    clock.advance(1_000 + late_ms)
    assert seen(handle, FIRST | UNMARKED) == b"3"
    expired = late_ms >= 0
    assert queue_manager.curdepth("Q1") == 3 - expired
    assert queue_manager.curdepth(REPLIES) == expired
    assert ends(queue_manager, "Q1") == [End("expired", 1_000)] * expired
    assert len(queue_manager.engine.marks.marked) == 2 - expired


def test_B7_who_waits_for_an_unmarked_message_wakes_at_the_lapse(
    queue_manager: QueueManager, pair: tuple[Handle, Handle], clock: VirtualClock
) -> None:
    one, other = pair
    for _ in range(3):
        take(one, c.MQGMO_BROWSE_CO_OP)
        clock.advance(10)
    browse = c.MQGMO_BROWSE_CO_OP | c.MQGMO_WAIT
    running = waiting(queue_manager, "Q1", lambda: take(other, browse, wait_ms=MINUTE_MS).message)
    clock.advance(INTERVAL_MS - 30 - 1)
    assert queue_manager.engine.waits.is_waited_on(queue_manager.engine.registry.queue("Q1").number)
    clock.advance(1)
    message = running.finish()
    assert getattr(message, "body", None) == b"1"
    assert getattr(message, "seen_ms", None) == START_MS + INTERVAL_MS


def test_B7_a_lapse_at_the_very_end_of_the_wait_wins(
    queue_manager: QueueManager, pair: tuple[Handle, Handle], clock: VirtualClock
) -> None:
    one, other = pair
    for _ in range(3):
        take(one, c.MQGMO_BROWSE_CO_OP)
    browse = c.MQGMO_BROWSE_CO_OP | c.MQGMO_WAIT
    running = waiting(
        queue_manager, "Q1", lambda: take(other, browse, wait_ms=INTERVAL_MS).message.body
    )
    clock.advance(10 * INTERVAL_MS)
    assert running.finish() == b"1"


@pytest.mark.in_process
def test_B7_a_mark_set_while_somebody_waits_wakes_them_too(
    queue_manager: QueueManager, pair: tuple[Handle, Handle], session: Session, clock: VirtualClock
) -> None:
    one, other = pair
    for _ in range(3):
        take(one, FIRST | UNMARKED | MARK_SET)
    alter_manager(queue_manager, MARKINT=100)
    browse = FIRST | UNMARKED | c.MQGMO_WAIT
    running = waiting(queue_manager, "Q1", lambda: take(other, browse, wait_ms=MINUTE_MS).message)
    take(one, FIRST | MARK_SET)
    clock.advance(100)
    message = running.finish()
    assert getattr(message, "seen_ms", None) == START_MS + 100


@pytest.mark.in_process
@pytest.mark.parametrize("how", ["unmark", "backout"])
def test_B7_who_waits_wakes_when_a_message_is_unmarked(
    queue_manager: QueueManager, session: Session, pair: tuple[Handle, Handle], how: str
) -> None:
    one, other = pair
    for _ in range(3):
        take(one, c.MQGMO_BROWSE_CO_OP)
    browse = c.MQGMO_BROWSE_CO_OP | c.MQGMO_WAIT
    running = waiting(
        queue_manager, "Q1", lambda: take(other, browse, wait_ms=MINUTE_MS).message.body
    )
    if how == "unmark":
        take(one, FIRST | UNMARK_SET)
    else:
        take(one, c.MQGMO_SYNCPOINT)
        session.backout()
    assert running.finish() == b"1"


@pytest.mark.in_process
def test_B7_two_of_a_set_wait_and_one_of_them_gets_to_see_an_arrival(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    browse = c.MQGMO_BROWSE_CO_OP | c.MQGMO_WAIT
    found: list[bytes] = []

    def look(handle: Handle) -> None:
        try:
            found.append(take(handle, browse, wait_ms=1_000).message.body)
        except NoMessage:
            found.append(b"")

    handles = [session.open("Q1", BROWSE | CO_OP) for _ in range(2)]
    first = waiting(queue_manager, "Q1", lambda: look(handles[0]))
    number = queue_manager.engine.registry.queue("Q1").number
    second = waiting_too(queue_manager, number, lambda: look(handles[1]))
    session.put("Q1", b"x")
    clock.advance(1_000)
    for running in (first, second):
        running.finish()
    assert sorted(found) == [b"", b"x"]


def waiting_too(queue_manager: QueueManager, number: int, call: Callable[[], object]) -> Running:
    """Start a second call that waits on a queue; return once it does."""
    running = Running(call)
    while len(queue_manager.engine.waits.by_queue[number]) < 2:
        assert running.is_under_way
    return running


def test_B7_what_another_of_the_set_has_marked_is_not_got_under_the_cursor(
    pair: tuple[Handle, Handle], clock: VirtualClock
) -> None:
    """One is late: its mark has lapsed, and the other has the message now."""
    one, other = pair
    assert seen(one, c.MQGMO_BROWSE_CO_OP) == b"1"
    clock.advance(INTERVAL_MS)
    assert seen(other, c.MQGMO_BROWSE_CO_OP) == b"1"
    for options in (GET_UNDER, GET_UNDER | c.MQGMO_SYNCPOINT):
        with refused(rc.MQRC_MSG_MARKED_BROWSE_CO_OP):
            take(one, options)
    assert take(other, GET_UNDER).message.body == b"1"
    with refused(rc.MQRC_NO_MSG_UNDER_CURSOR):
        take(one, GET_UNDER)


@pytest.mark.parametrize("late_ms", [-1, 0])
def test_B7_until_the_mark_of_the_other_lapses(
    pair: tuple[Handle, Handle], clock: VirtualClock, late_ms: int
) -> None:
    one, other = pair
    take(one, FIRST)
    take(other, c.MQGMO_BROWSE_CO_OP)
    clock.advance(INTERVAL_MS + late_ms)
    if late_ms < 0:
        with refused(rc.MQRC_MSG_MARKED_BROWSE_CO_OP):
            take(one, GET_UNDER)
    else:
        assert take(one, GET_UNDER).message.body == b"1"


@pytest.mark.parametrize("late_ms", [-1, 0])
def test_B7_the_mark_of_a_closed_handle_is_not_that_of_the_next_one(
    pair: tuple[Handle, Handle], session: Session, clock: VirtualClock, late_ms: int
) -> None:
    """A program that opens its queue again is another handle: it waits like the rest of the set."""
    token = token_of(take(pair[0], c.MQGMO_BROWSE_CO_OP).message)
    pair[0].close()
    again = session.open("Q1", INPUT | BROWSE | CO_OP)
    clock.advance(INTERVAL_MS + late_ms)
    if late_ms < 0:
        with refused(rc.MQRC_MSG_MARKED_BROWSE_CO_OP):
            take(again, match=Match(token=token))
    else:
        assert take(again, match=Match(token=token)).message.body == b"1"


@pytest.mark.parametrize("mode", [c.MQGMO_COMPLETE_MSG, c.MQGMO_LOGICAL_ORDER])
def test_B7_a_mark_counts_for_gets_that_look_at_groups(
    pair: tuple[Handle, Handle], session: Session, mode: int
) -> None:
    one, other = pair
    token = token_of(take(one, FIRST).message)
    take(other, c.MQGMO_BROWSE_CO_OP)
    for options, match in ((GET_UNDER, ANY), (0, Match(token=token))):
        with refused(rc.MQRC_MSG_MARKED_BROWSE_CO_OP):
            take(one, mode | options, match=match)
    assert seen(one, UNDER | mode) == b"1"
    assert take(other, mode | GET_UNDER).message.body == b"1"
    take(other, c.MQGMO_BROWSE_CO_OP)
    worker = session.open("Q1", INPUT)
    assert take(worker, mode).message.body == b"2"


def test_B7_by_its_token_another_of_the_set_does_not_get_it_but_a_worker_does(
    pair: tuple[Handle, Handle], session: Session
) -> None:
    """A dispatcher hands tokens to workers, who are no members of the set."""
    one, other = pair
    token = token_of(take(one, c.MQGMO_BROWSE_CO_OP).message)
    with refused(rc.MQRC_MSG_MARKED_BROWSE_CO_OP):
        take(other, match=Match(token=token))
    worker = session.open("Q1", INPUT)
    assert take(worker, match=Match(token=token)).message.body == b"1"


def test_B7_a_selector_passes_marked_messages_over_and_finds_them_again(
    session: Session, q1: str, clock: VirtualClock
) -> None:
    session.put("Q1", b"4", priority=9)
    handle = session.open(q1, BROWSE | CO_OP, selector="JMSPriority < 5")
    assert [seen(handle, c.MQGMO_BROWSE_CO_OP) for _ in range(4)] == [b"1", b"2", b"3", None]
    clock.advance(INTERVAL_MS)
    assert [seen(handle, NEXT | UNMARKED), seen(handle, FIRST | UNMARKED)] == [None, b"1"]


def test_B7_match_options_and_marks_go_together(handle: Handle, session: Session) -> None:
    for _ in range(2):
        session.put("Q1", b"a", correl_id=b"A")
    match = Match(correl_id=b"A".ljust(24, b"\0"))
    for _ in range(2):
        assert take(handle, c.MQGMO_BROWSE_HANDLE, match=match).message.body == b"a"
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, c.MQGMO_BROWSE_HANDLE, match=match)
    assert take(handle, c.MQGMO_BROWSE_HANDLE, match=ANY).message.body == b"1"


@pytest.mark.parametrize(
    "options",
    [
        MARK,
        UNMARK,
        UNMARKED,
        MARK_SET,
        UNMARK_SET,
        UNMARKED | GET_UNDER,
        MARK | c.MQGMO_SYNCPOINT,
        FIRST | MARK | UNMARK,
        FIRST | MARK_SET | UNMARK_SET,
        FIRST | UNMARKED | UNMARK,
        FIRST | UNMARKED | UNMARK_SET,
        FIRST | MARK | c.MQGMO_LOCK,
        FIRST | UNMARKED | c.MQGMO_LOCK,
        c.MQGMO_UNLOCK | MARK,
        FIRST | MARK | c.MQGMO_LOGICAL_ORDER,
        FIRST | MARK_SET | c.MQGMO_COMPLETE_MSG,
        FIRST | UNMARKED | c.MQGMO_ALL_MSGS_AVAILABLE,
        FIRST | UNMARK | c.MQGMO_ALL_SEGMENTS_AVAILABLE,
        c.MQGMO_BROWSE_HANDLE | NEXT,
    ],
)
def test_B8_options_that_do_not_go_together(
    pair: tuple[Handle, Handle], options: int, queue_manager: QueueManager
) -> None:
    with refused(rc.MQRC_OPTIONS_ERROR):
        take(pair[0], options)
    assert not queue_manager.engine.marks.marked


@pytest.mark.parametrize("options", [MARK_SET, UNMARK_SET])
def test_B8_marks_of_a_set_need_an_open_for_it(
    session: Session, handle: Handle, options: int
) -> None:
    with refused(rc.MQRC_OPTIONS_ERROR):
        take(handle, FIRST | options)
    with refused(rc.MQRC_NOT_OPEN_FOR_BROWSE):
        take(session.open("Q1", INPUT), FIRST | options)


def test_B8_a_set_is_for_those_who_browse(session: Session, q1: str) -> None:
    with refused(rc.MQRC_OPTIONS_ERROR):
        session.open(q1, INPUT | CO_OP)


def test_B7_ends_of_renewed_marks_are_not_kept_for_ever(
    queue_manager: QueueManager, pair: tuple[Handle, Handle]
) -> None:
    for _ in range(3_000):
        take(pair[0], FIRST | MARK_SET)
    (co_operating,) = queue_manager.engine.marks._sets.values()
    assert len(co_operating.lease_ends) < 1_100


@pytest.mark.in_process
def test_B7_who_waits_is_woken_by_a_clock_that_runs(new_session: NewSession) -> None:
    """The mark is made while the clock sleeps to the end of the wait."""
    with QueueManager("QM1") as manager, new_session(manager) as session:
        local(manager)
        session.put("Q1", b"x")
        one, other = (session.open("Q1", BROWSE | CO_OP) for _ in range(2))
        alter_manager(manager, MARKINT=MQMMBI_UNLIMITED)
        take(one, c.MQGMO_BROWSE_CO_OP)
        alter_manager(manager, MARKINT=50)
        # Nothing else is to wake it.
        manager.engine.store.write_balances()
        browse = c.MQGMO_BROWSE_CO_OP | c.MQGMO_WAIT
        running = waiting(
            manager, "Q1", lambda: take(other, browse, wait_ms=10 * MINUTE_MS).message.body
        )
        take(one, FIRST | MARK_SET)
        assert running.finish() == b"x"
