"""Gets and browses by a selector: rules E8, E9, E11, G1, G2, G4, G8, B2-B5 and P9 with one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly import QueueManager
from mayfly.engine import GetRequest, Handle, Match, Session
from mayfly.engine.finding import next_live
from mayfly.engine.queues import VOLATILE
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import NoMessage
from mayfly.mqi.properties import FORMAT, pack_folder, pack_header
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from tests.over import NewSession
from tests.spec.scene import (
    BROWSE,
    INPUT,
    OUTPUT,
    STAGING,
    End,
    Running,
    alter,
    ends,
    local,
    put_md,
    refused,
    take,
)

RED = "colour = 'red'"
ORDER = b"order-7".ljust(24, b"\0")
WAIT, NEXT, FIRST = c.MQGMO_WAIT, c.MQGMO_BROWSE_NEXT, c.MQGMO_BROWSE_FIRST


def put(
    session: Session, colour: str, data: bytes = b"", *, queue: str = "Q1", **more: object
) -> bytes:
    """Put a message whose MQRFH2 says its colour; ``more`` are fields of PutRequest."""
    options = more.pop("options", c.MQPMO_NONE)
    priority, persistent = more.pop("priority", 0), more.pop("persistent", False)
    assert isinstance(options, int)
    assert isinstance(priority, int)
    descriptor = Descriptor(
        format=FORMAT,
        encoding=c.MQENC_NORMAL,
        coded_char_set_id=1208,
        priority=priority,
        persistence=int(bool(persistent)),
    )
    body = pack_header(pack_folder(f"<usr><colour>{colour}</colour></usr>"), "MQSTR") + data
    return put_md(session, queue, body, descriptor, options=options, **more).msg_id


def data_of(message: Message | None) -> bytes | None:
    """Return what stands behind the MQRFH2."""
    return None if message is None else message.body.rpartition(b">")[2].lstrip()


def data(handle: Handle, options: int = 0, **more: object) -> bytes | None:
    """Get or browse through a handle and return the data, None for MQRC_NO_MSG_AVAILABLE."""
    try:
        return data_of(take(handle, options, **more).message)
    except NoMessage:
        return None


def waiting(qm: QueueManager, call: Callable[[], object]) -> Running:
    """Start a call whose wait ends some time; return once it waits, as the first that does."""
    assert not is_waiting(qm)
    running = Running(call)
    while not is_waiting(qm):
        assert running.is_under_way, "the call came back without waiting"
    return running


def is_waiting(qm: QueueManager) -> bool:
    """Tell whether somebody waits until some time."""
    with qm.engine.engine_lock:
        return qm.engine.waits.next_end_ms() is not None


def fill(session: Session, count: int, colour: str = "blue", *, persistent: bool = False) -> None:
    """Put many messages of one colour."""
    for number in range(count):
        put(session, colour, b"%d" % number, persistent=persistent)


# What is got.


def test_G1_get_takes_the_first_that_the_selector_takes_and_leaves_the_others_in_order(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        for colour, text in (("blue", b"1"), ("red", b"2"), ("blue", b"3"), ("red", b"4")):
            put(session, colour, text, persistent=persistent)
        assert data_of(session.get("Q1", selector=RED)) == b"2"
        assert data_of(session.get("Q1", selector=RED)) == b"4"
        assert session.get("Q1", selector=RED) is None
        assert any_manager.curdepth("Q1") == 2
        assert [data_of(m) for m in session.browse("Q1")] == [b"1", b"3"]
        assert session.get("Q1") is not None
        assert session.get("Q1") is not None


def test_G1_higher_priority_first_among_those_taken(
    manager: QueueManager, session: Session
) -> None:
    alter(manager, "Q1", MSGDLVSQ=c.MQMDS_PRIORITY)
    for priority, colour in ((1, "red"), (9, "blue"), (5, "red"), (5, "blue"), (8, "red")):
        put(session, colour, b"%d" % priority, priority=priority)
    handle = session.open("Q1", INPUT, selector=RED)
    assert [data(handle) for _ in range(4)] == [b"8", b"5", b"1", None]
    assert manager.curdepth("Q1") == 2


def test_G1_a_handle_goes_back_for_what_comes_before_what_it_has_refused(
    manager: QueueManager, session: Session
) -> None:
    alter(manager, "Q1", MSGDLVSQ=c.MQMDS_PRIORITY)
    handle = session.open("Q1", INPUT, selector=RED)
    fill(session, 3)
    assert data(handle) is None
    put(session, "red", b"late", priority=9)
    put(session, "blue", b"no", priority=9)
    assert data(handle) == b"late"
    assert data(handle) is None


def test_G2_a_match_comes_on_top_of_the_selector(manager: QueueManager, session: Session) -> None:
    fill(session, 2)
    wanted = put(session, "red", b"a", correl_id=b"A".ljust(24, b"\0"))
    put(session, "red", b"b", correl_id=b"B".ljust(24, b"\0"))
    handle = session.open("Q1", INPUT, selector=RED)
    other = Match(correl_id=b"C".ljust(24, b"\0"))
    assert data(handle, match=other) is None
    assert data(handle, match=Match(correl_id=b"B".ljust(24, b"\0"))) == b"b"
    assert session.get("Q1", msg_id=wanted, selector="colour = 'blue'") is None
    assert data_of(session.get("Q1", msg_id=wanted, selector=RED)) == b"a"
    assert manager.curdepth("Q1") == 2


def test_G2_what_one_match_has_passed_the_next_still_finds(
    manager: QueueManager, session: Session
) -> None:
    """A handle remembers what its selector refused, not what a MsgId has passed."""
    put(session, "red", b"first")
    last = put(session, "blue", b"last")
    handle = session.open("Q1", INPUT, selector=RED)
    assert data(handle, match=Match(msg_id=last)) is None
    assert data(handle) == b"first"


@pytest.mark.parametrize(
    ("template", "takes"),
    [
        ("JMSMessageID = 'ID:{0}'", True),
        ("JMSMessageID = 'ID:{0}' AND colour = 'blue'", False),
        (f"JMSCorrelationID = 'ID:{ORDER.hex()}'", True),
        (f"JMSCorrelationID = 'ID:{ORDER.hex()}' AND JMSMessageID = 'ID:{{0}}'", True),
        # Without a text in the header, JMS shows the CorrelId.
        ("JMSCorrelationID = 'order-7'", False),
        ('Root.MQMD.MsgId = "0x{0}"', True),
    ],
)
def test_G2_ids_in_a_selector_are_looked_up(
    any_manager: QueueManager, persistent: bool, template: str, takes: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        fill(session, 3, "red", persistent=persistent)
        msg_id = put(session, "red", b"x", persistent=persistent, correl_id=ORDER)
        message = session.get("Q1", selector=template.format(msg_id.hex()))
        assert data_of(message) == (b"x" if takes else None)
        session.get("Q1", msg_id=msg_id)


def test_G5_a_message_that_does_not_fit_stays_and_comes_again(
    manager: QueueManager, session: Session
) -> None:
    fill(session, 1)
    put(session, "red", b"long")
    handle = session.open("Q1", INPUT, selector=RED)
    for _ in range(2):
        assert take(handle, max_length=3).warning == rc.MQRC_TRUNCATED_MSG_FAILED
    assert manager.curdepth("Q1") == 2
    assert data(handle) == b"long"


@pytest.mark.parametrize("blank", [None, "", "  "])
def test_a_blank_selection_string_selects_everything(
    manager: QueueManager, session: Session, blank: str | None
) -> None:
    for text in (b"a", b"b", b"c"):
        put(session, "blue", text)
    assert data_of(session.get("Q1", selector=blank)) == b"a"
    assert len(list(session.browse("Q1", selector=blank))) == 2
    assert data(session.open("Q1", INPUT, selector=blank)) == b"b"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("colour = ", rc.MQRC_SELECTOR_SYNTAX_ERROR),
        ("colour = 'x" + "x" * 10_240 + "'", rc.MQRC_SELECTION_STRING_ERROR),
        ("1 = 2", rc.MQRC_SELECTOR_ALWAYS_FALSE),
    ],
)
def test_a_wrong_selection_string_is_refused_at_open(
    manager: QueueManager, session: Session, text: str, reason: int
) -> None:
    queue = manager.engine.registry.queue("Q1")
    for options in (INPUT, BROWSE, OUTPUT):
        with refused(reason):
            session.open("Q1", options, selector=text)
    assert not queue.is_open
    with refused(reason):
        session.open("SYSTEM.DEFAULT.MODEL.QUEUE", INPUT, selector=text)
    with refused(reason):
        session.get("Q1", selector=text)
    with refused(reason):
        next(session.browse("Q1", selector=text))


# Expiry.


def test_E9_E11_only_expired_messages_that_the_selector_takes_are_discarded(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        put(session, "blue", b"1", persistent=persistent, life_ms=1_000)
        put(session, "red", b"2", persistent=persistent, life_ms=1_000)
        put(session, "red", b"3", persistent=persistent, life_ms=1_001)
        put(session, "red", b"4", persistent=persistent, life_ms=1_000)
        clock.advance(1_000)
        handle = session.open("Q1", INPUT, selector=RED)
        assert data(handle) == b"3"
        assert sorted(ends(any_manager, "Q1")) == [End("expired", 1_000), End("got", 1_000)]
        assert any_manager.curdepth("Q1") == 2
        assert data(handle) is None
        assert any_manager.curdepth("Q1") == 1
        assert session.get("Q1") is None
        assert any_manager.curdepth("Q1") == 0


def test_E8_browse_discards_what_it_would_have_returned(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        for colour, life_ms in (("red", 500), ("blue", 500), ("red", None)):
            put(session, colour, persistent=persistent, life_ms=life_ms)
        clock.advance(499)
        assert len(list(session.browse("Q1", selector=RED))) == 2
        clock.advance(1)
        assert len(list(session.browse("Q1", selector=RED))) == 1
        assert any_manager.curdepth("Q1") == 2
        assert ends(any_manager, "Q1") == [End("expired", 500)]
        session.get("Q1")


def test_E5_a_selector_over_the_remaining_expiry_is_asked_anew_each_time(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    put(session, "red", b"x", life_ms=10_000)
    handle = session.open("Q1", INPUT | BROWSE, selector="Root.MQMD.Expiry < 50")
    clock.advance(5_000)
    assert data(handle) is None
    assert data(handle, NEXT) is None
    clock.advance(100)
    assert data(handle, NEXT) == b"x"
    assert data(handle) == b"x"


# Units of work.


def test_P9_own_uncommitted_puts_are_selected_others_are_not(
    any_manager: QueueManager, unit: Session, session: Session, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager, transacted=True) as own, new_session(any_manager) as other:
        put(other, "blue", b"1")
        put(own, "blue", b"2", options=c.MQPMO_SYNCPOINT)
        put(own, "red", b"3", options=c.MQPMO_SYNCPOINT)
        put(other, "red", b"4")
        assert data_of(other.get("Q1", selector=RED)) == b"4"
        assert other.get("Q1", selector=RED) is None
        assert data_of(own.get("Q1", selector=RED)) == b"3"
        assert own.get("Q1", selector=RED) is None
        assert data_of(own.get("Q1", selector="colour = 'blue'")) == b"1"
        assert data_of(own.get("Q1", selector="colour = 'blue'")) == b"2"


def test_P9_an_uncommitted_put_is_seen_by_a_handle_that_has_passed_its_place(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    """Put before what was refused, committed after: its key is lower."""
    local(any_manager)
    with new_session(any_manager, transacted=True) as unit, new_session(any_manager) as session:
        handle = session.open("Q1", INPUT | BROWSE, selector=RED)
        put(unit, "red", b"early", persistent=persistent, options=c.MQPMO_SYNCPOINT)
        put(session, "blue", b"late", persistent=persistent)
        assert data(handle) is None
        assert data(handle, NEXT) is None
        unit.commit()
        assert data(handle, NEXT) == b"early"
        assert data(handle) == b"early"
        session.get("Q1")


def test_G8_backed_out_it_is_found_again_with_its_delivery_count(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    again = "JMSXDeliveryCount > 1"
    with new_session(any_manager, transacted=True) as unit, new_session(any_manager) as session:
        fill(session, 2, "red", persistent=persistent)
        handle = session.open("Q1", INPUT, selector=again)
        assert data(handle) is None
        assert data_of(unit.get("Q1", selector="JMSXDeliveryCount = 1")) == b"0"
        assert data(handle) is None
        unit.backout()
        assert data(handle) == b"0"
        assert data(handle) is None
        assert data_of(session.get("Q1", selector="Root.MQMD.BackoutCount = 0")) == b"1"


# Browsing.


def test_B2_browse_shows_what_the_selector_takes_in_order(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        for number in range(20):
            colour = "red" if number % 7 == 3 else "blue"
            put(session, colour, b"%d" % number, persistent=persistent)
        shown = [data_of(m) for m in session.browse("Q1", selector=RED)]
        assert shown == [b"3", b"10", b"17"]
        handle = session.open("Q1", BROWSE | INPUT, selector=RED)
        assert [data(handle, NEXT) for _ in range(4)] == [b"3", b"10", b"17", None]
        assert data(handle, c.MQGMO_BROWSE_MSG_UNDER_CURSOR) == b"17"
        put(session, "blue", b"20", persistent=persistent)
        put(session, "red", b"21", persistent=persistent)
        assert [data(handle, NEXT) for _ in range(2)] == [b"21", None]
        assert data(handle, FIRST) == b"3"
        assert data(handle, NEXT) == b"10"
        assert any_manager.curdepth("Q1") == 22
        while session.get("Q1"):
            pass


def test_B4_the_message_under_the_cursor_is_not_asked_again(
    manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    put(session, "red", b"x")
    handle = session.open("Q1", BROWSE | INPUT, selector="JMSXDeliveryCount = 1")
    with new_session(manager, transacted=True) as unit:
        assert data(handle, NEXT) == b"x"
        assert unit.get("Q1") is not None
        with refused(rc.MQRC_NO_MSG_UNDER_CURSOR):
            take(handle, c.MQGMO_MSG_UNDER_CURSOR)
        unit.backout()
        assert data(handle, NEXT) is None
        assert data(handle, c.MQGMO_MSG_UNDER_CURSOR) == b"x"


def test_B5_a_lock_hides_the_message_from_the_selectors_of_others(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager) as other:
        fill(session, 1, persistent=persistent)
        put(session, "red", b"a", persistent=persistent)
        put(session, "red", b"b", persistent=persistent)
        handle = session.open("Q1", BROWSE | INPUT, selector=RED)
        watcher = other.open("Q1", BROWSE | INPUT, selector=RED)
        assert data(handle, NEXT | c.MQGMO_LOCK) == b"a"
        assert data(watcher, NEXT) == b"b"
        assert data(watcher) == b"b"
        assert data(watcher) is None
        assert handle.unlock() == rc.MQRC_NONE
        assert data(watcher, FIRST) == b"a"
        assert data(watcher) == b"a"
        assert data(handle, NEXT) is None
        session.get("Q1")


def test_B5_the_owner_of_a_lock_gets_it_by_its_selector(
    manager: QueueManager, session: Session
) -> None:
    fill(session, 1)
    put(session, "red", b"a")
    handle = session.open("Q1", BROWSE | INPUT, selector=RED)
    assert data(handle, NEXT | c.MQGMO_LOCK) == b"a"
    assert data(handle) == b"a"
    assert manager.counts("Q1").locked == 0


# Waiting.


def test_G4_a_wait_takes_what_the_selector_takes_and_nothing_else_ends_it(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager) as getter:
        fill(session, 2, persistent=persistent)
        call = waiting(any_manager, lambda: getter.get("Q1", wait_ms=1_000, selector=RED))
        put(session, "blue", b"no", persistent=persistent)
        clock.advance(999)
        assert call.is_under_way
        assert any_manager.curdepth("Q1") == 3
        put(session, "red", b"yes", persistent=persistent)
        message = call.finish()
        assert isinstance(message, Message)
        assert data_of(message) == b"yes"
        assert any_manager.curdepth("Q1") == 3
        while session.get("Q1"):
            pass


@pytest.mark.parametrize("put_at_ms", [999, 1_000])
def test_G4_a_wait_ends_at_its_moment_whatever_else_comes(
    any_manager: QueueManager, clock: VirtualClock, put_at_ms: int, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager) as getter:
        call = waiting(any_manager, lambda: getter.get("Q1", wait_ms=1_000, selector=RED))
        put(session, "blue", delay_ms=put_at_ms)
        put(session, "red", b"late", delay_ms=1_001)
        clock.advance(1_001)
        assert call.finish() is None
        assert any_manager.curdepth("Q1") == 2
        while session.get("Q1"):
            pass


@pytest.mark.parametrize(("delay_ms", "comes"), [(999, True), (1_000, True), (1_001, False)])
def test_G4_a_selected_message_due_at_the_very_end_of_the_wait_wins(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    delay_ms: int,
    comes: bool,
    new_session: NewSession,
) -> None:
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager) as getter:
        put(session, "red", b"x", delay_ms=delay_ms, persistent=persistent, life_ms=2_000)
        call = waiting(any_manager, lambda: getter.get("Q1", wait_ms=1_000, selector=RED))
        clock.advance(60_000)
        message = call.finish()
        assert data_of(message if isinstance(message, Message) else None) == (
            b"x" if comes else None
        )
        session.get("Q1")


def test_G4_each_of_two_waits_is_served_by_its_own_message(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    """The one that has waited longer, and takes less, does not stand in the way."""
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager) as getter:
        reds = waiting(any_manager, lambda: getter.get("Q1", wait_ms=5_000, selector=RED))
        number = any_manager.engine.registry.queue("Q1").number
        with new_session(any_manager) as second:
            blues = Running(lambda: second.get("Q1", wait_ms=6_000, selector="colour = 'blue'"))
            while len(any_manager.engine.waits.by_queue[number]) < 2:
                assert blues.is_under_way
            put(session, "blue", b"b", persistent=persistent)
            message = blues.finish()
            assert isinstance(message, Message)
            assert data_of(message) == b"b"
            assert reds.is_under_way
        put(session, "red", b"r", persistent=persistent)
        message = reds.finish()
        assert isinstance(message, Message)
        assert data_of(message) == b"r"


def test_G4_a_waiting_browse_shows_what_the_selector_takes(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager) as other:
        fill(session, 1, persistent=persistent)
        handle = other.open("Q1", BROWSE, selector=RED)
        call = waiting(any_manager, lambda: data(handle, NEXT | WAIT, wait_ms=1_000))
        put(session, "blue", b"no", persistent=persistent)
        put(session, "red", b"yes", persistent=persistent)
        assert call.finish() == b"yes"
        assert any_manager.curdepth("Q1") == 3
        while session.get("Q1"):
            pass


def test_G4_E4_an_expired_message_does_not_end_the_wait_of_its_selector(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager, transacted=True) as unit, new_session(any_manager) as getter:
        call = waiting(any_manager, lambda: getter.get("Q1", wait_ms=5_000, selector=RED))
        for colour in ("red", "blue"):
            put(
                unit,
                colour,
                life_ms=1_000,
                persistent=persistent,
                options=c.MQPMO_SYNCPOINT,
            )
        clock.advance(1_000)
        unit.commit()
        assert call.is_under_way
        # Both have gone with the commit (E17), whether the selector takes them or not.
        assert ends(any_manager, "Q1") == [End("expired", 1_000)] * 2
        clock.advance(3_999)
        assert call.is_under_way
        clock.advance(1)
        assert call.finish() is None
        assert any_manager.curdepth("Q1") == 0


def test_G4_get_inhibited_and_close_end_the_wait(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    handle = session.open("Q1", INPUT, selector=RED)
    request = GetRequest(wait_ms=5_000)
    call = waiting(manager, lambda: handle.get(request, WAIT))
    alter(manager, "Q1", GET=c.MQQA_GET_INHIBITED)
    call.finish()
    assert call.error is not None
    assert call.error.reason == rc.MQRC_GET_INHIBITED
    alter(manager, "Q1", GET=c.MQQA_GET_ALLOWED)
    call = waiting(manager, lambda: handle.get(request, WAIT))
    handle.close()
    call.finish()
    assert call.error is not None
    assert call.error.reason == rc.MQRC_HOBJ_ERROR


# Long queues: a search in parts.


@pytest.fixture
def in_threes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one turn of the lock be over after three messages that are refused."""
    monkeypatch.setattr(next_live, "REFUSALS", 3)
    monkeypatch.setattr("mayfly.engine.finding.next_live.REFUSALS", 3)


@pytest.mark.usefixtures("in_threes")
@pytest.mark.parametrize("place", range(9))
def test_G1_a_search_in_parts_finds_the_message_wherever_it_is(
    any_manager: QueueManager, persistent: bool, place: int, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        for number in range(9):
            colour = "red" if number == place else "blue"
            put(session, colour, b"%d" % number, persistent=persistent)
        assert [data_of(m) for m in session.browse("Q1", selector=RED)] == [b"%d" % place]
        assert data_of(session.get("Q1", selector=RED)) == b"%d" % place
        assert session.get("Q1", selector=RED) is None
        assert len(list(iter(lambda: session.get("Q1"), None))) == 8


@pytest.mark.usefixtures("in_threes")
def test_G4_a_wait_whose_search_is_long_goes_on_by_itself(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """Each arrival makes it start again, more than one turn of the lock can hold."""
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager) as getter:
        fill(session, 10, persistent=persistent)
        call = waiting(any_manager, lambda: getter.get("Q1", wait_ms=1_000, selector=RED))
        fill(session, 10, persistent=persistent)
        while not is_waiting(any_manager):
            assert call.is_under_way
        put(session, "red", b"x", persistent=persistent)
        message = call.finish()
        assert isinstance(message, Message)
        assert data_of(message) == b"x"
        call = waiting(any_manager, lambda: getter.get("Q1", wait_ms=1_000, selector=RED))
        put(session, "blue", persistent=persistent)
        while not is_waiting(any_manager):
            assert call.is_under_way
        clock.advance(1_000)
        assert call.finish() is None
        assert len(list(iter(lambda: session.get("Q1"), None))) == 21


@pytest.mark.usefixtures("in_threes")
def test_E9_a_search_in_parts_discards_what_it_takes_and_has_expired(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        for number in range(12):
            colour = "red" if number % 4 == 0 else "blue"
            put(session, colour, persistent=persistent, life_ms=1_000)
        put(session, "red", b"live", persistent=persistent)
        clock.advance(1_000)
        assert data_of(session.get("Q1", selector=RED)) == b"live"
        assert any_manager.curdepth("Q1") == 9
        assert session.get("Q1") is None
        assert any_manager.curdepth("Q1") == 0


@pytest.mark.in_process
def test_a_handle_does_not_ask_again_while_nothing_new_has_come(
    manager: QueueManager, session: Session
) -> None:
    """What it refused is passed by its key: it is not even read."""
    fill(session, 50)
    handle = session.open("Q1", INPUT, selector=RED)
    assert data(handle) is None
    queue = manager.engine.registry.queue("Q1")
    place = handle._place
    assert place is not None
    low = place.step_from(queue.low)
    assert manager.engine.messages(VOLATILE).in_order(low, queue.high, 100) == []
    assert data(handle) is None
    put(session, "red", b"new")
    assert data(handle) == b"new"


@pytest.mark.usefixtures("in_threes")
def test_G4_nothing_is_lost_between_searches_in_parts_and_puts_of_others(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    """Putters and getters on threads of their own, the getters of each colour waiting."""
    local(any_manager)
    per_putter = 40

    def produce(first: int) -> None:
        with new_session(any_manager) as session:
            for number in range(first, first + per_putter):
                colour = ("red", "blue", "green")[number % 3]
                put(session, colour, b"%d" % number, persistent=persistent)

    def consume(colour: str) -> list[bytes]:
        found: list[bytes] = []
        with new_session(any_manager) as session:
            handle = session.open("Q1", INPUT, selector=f"colour = '{colour}'")
            while (one := data(handle, WAIT, wait_ms=-1)) != b"end":
                assert one is not None
                found.append(one)
        return found

    getters = {colour: Running(partial(consume, colour)) for colour in ("red", "blue")}
    putters = [Running(partial(produce, n * per_putter)) for n in range(3)]
    for putter in putters:
        putter.finish()
    with new_session(any_manager) as session:
        for colour in getters:
            put(session, colour, b"end", persistent=persistent)
        got = {colour: getter.finish() for colour, getter in getters.items()}
        for place, colour in enumerate(("red", "blue")):
            numbers = got[colour]
            assert isinstance(numbers, list)
            assert sorted(map(int, numbers)) == list(range(place, 3 * per_putter, 3))
        left = list(iter(lambda: session.get("Q1"), None))
        assert len(left) == per_putter


# The staging queue.


def test_D3_a_selector_on_the_staging_queue_sees_what_is_shown_there(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    first = put(session, "red", b"1", delay_ms=1_000, correl_id=b"C".ljust(24, b"\0"))
    put(session, "red", b"2", delay_ms=2_000)
    shown = next(session.browse(STAGING))
    by_id = f"JMSCorrelationID = 'ID:{first.hex()}'"
    assert [m.msg_id for m in session.browse(STAGING, selector=by_id)] == [shown.msg_id]
    assert list(session.browse(STAGING, selector=f"JMSMessageID = 'ID:{first.hex()}'")) == []
    delayed = "Root.MQMD.Format = 'MQHDDLY'"
    assert len(list(session.browse(STAGING, selector=delayed))) == 2
    handle = session.open(STAGING, BROWSE, selector=delayed)
    assert take(handle, NEXT).message.msg_id == shown.msg_id


# An independent model.

COLOURS = ("red", "blue", "green")
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 2), st.integers(0, 9)),
        st.tuples(st.just("get"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("hold"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("back"), st.just(0), st.just(0)),
        st.tuples(st.just("browse"), st.integers(0, 2), st.just(0)),
    ),
    max_size=40,
)


class ListModel:
    """A queue as a list of (9 - priority, number, colour), and what a unit of work holds."""

    def __init__(self) -> None:
        self.there: list[tuple[int, int, str]] = []
        self.held: list[tuple[int, int, str]] = []

    def put(self, number: int, colour: str, priority: int) -> None:
        self.there.append((9 - priority, number, colour))
        self.there.sort()

    def first(self, colour: str) -> tuple[int, int, str] | None:
        return next((m for m in self.there if m[2] == colour), None)

    def take(self, colour: str, *, hold: bool) -> bytes | None:
        found = self.first(colour)
        if found is None:
            return None
        self.there.remove(found)
        if hold:
            self.held.append(found)
        return b"%d" % found[1]

    def back(self) -> None:
        self.there = sorted(self.there + self.held)
        self.held = []


@settings(max_examples=60, deadline=None)
@given(steps=_steps, is_short=st.booleans())
def test_gets_by_selectors_are_those_of_a_list(
    steps: list[tuple[str, int, int]], is_short: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if is_short:
            patch.setattr(next_live, "REFUSALS", 2)
            patch.setattr("mayfly.engine.finding.next_live.REFUSALS", 2)
        _follow(steps)


def _follow(steps: list[tuple[str, int, int]]) -> None:
    model = ListModel()
    with QueueManager("MODEL", clock=VirtualClock()) as manager:
        local(manager, MSGDLVSQ=c.MQMDS_PRIORITY)
        session, unit = manager.session(), manager.session(transacted=True)
        texts = [f"colour = '{colour}'" for colour in COLOURS]
        handles = [session.open("Q1", INPUT | BROWSE, selector=text) for text in texts]
        queue_state = [unit.open("Q1", INPUT, selector=text) for text in texts]
        for number, (step, which, priority) in enumerate(steps):
            colour = COLOURS[which]
            if step == "put":
                put(session, colour, b"%d" % number, priority=priority)
                model.put(number, colour, priority)
            elif step == "get":
                assert data(handles[which]) == model.take(colour, hold=False)
            elif step == "hold":
                got = data(queue_state[which], c.MQGMO_SYNCPOINT)
                assert got == model.take(colour, hold=True)
            elif step == "back":
                unit.backout()
                model.back()
            else:
                first = model.first(colour)
                expected = None if first is None else b"%d" % first[1]
                assert data(handles[which], FIRST) == expected
        unit.backout()
        model.back()
        left = [data_of(message) for message in session.browse("Q1")]
        assert left == [b"%d" % m[1] for m in model.there]
