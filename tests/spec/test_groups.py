"""Message groups: how they are put, got, browsed, and what becomes of them when members expire."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import GetRequest, Handle, Match, PutRequest, Session
from mayfly.engine.api.programs import ANY
from mayfly.engine.groups import index
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import NoMessage
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import GetResult, PutResult
from tests.over import NewSession
from tests.pages import part
from tests.spec.scene import (
    BROWSE,
    INPUT,
    OUTPUT,
    REPLIES,
    V2,
    End,
    Running,
    bodies,
    ends,
    local,
    refused,
    take,
    waiting,
)
from tests.store.scene import statement

IN_GROUP, LAST = c.MQMF_MSG_IN_GROUP, c.MQMF_LAST_MSG_IN_GROUP
LOGICAL, ALL_MSGS = c.MQGMO_LOGICAL_ORDER, c.MQGMO_ALL_MSGS_AVAILABLE
ORDERED, SYNCPOINT = c.MQPMO_LOGICAL_ORDER, c.MQPMO_SYNCPOINT
FIRST, NEXT = c.MQGMO_BROWSE_FIRST, c.MQGMO_BROWSE_NEXT
G, H = b"G".ljust(24, b"!"), b"H".ljust(24, b"!")


@pytest.fixture
def handle(queue_manager: QueueManager, session: Session) -> Handle:
    """Q1, open for everything by a session whose puts and gets are final at once."""
    local(queue_manager)
    return session.open("Q1", INPUT | OUTPUT | BROWSE)


@pytest.fixture
def other(queue_manager: QueueManager, handle: Handle, new_session: NewSession) -> Iterator[Handle]:
    """Q1, open by somebody else."""
    assert handle.is_open
    with new_session(queue_manager, "ben") as session:
        yield session.open("Q1", INPUT | OUTPUT | BROWSE)


def ordered(handle: Handle, body: bytes, flags: int, options: int = 0, **more: Any) -> PutResult:
    """Put in logical order; ``more`` are fields of the descriptor, and ``life_ms``."""
    request = PutRequest(V2, life_ms=more.pop("life_ms", None))
    descriptor = V2._replace(msg_flags=flags)._replace(**more)
    return handle.put(body, request._replace(descriptor=descriptor), ORDERED | options)


def member(
    handle: Handle,
    group: bytes,
    number: int,
    *,
    is_last: bool = False,
    life_ms: int | None = None,
    options: int = 0,
    priority: int = 0,
    report: int = 0,
) -> PutResult:
    """Put one member of a group at its place, by itself; its body names both."""
    descriptor = V2._replace(
        group_id=group,
        msg_seq_number=number,
        msg_flags=LAST if is_last else IN_GROUP,
        priority=priority,
        report=report,
        reply_to_q=REPLIES if report else "",
    )
    return handle.put(name(group, number), PutRequest(descriptor, life_ms=life_ms), options)


def name(group: bytes, number: int) -> bytes:
    return group[:1] + str(number).encode()


def got(handle: Handle, options: int, **more: object) -> list[bytes]:
    """Get until there is nothing."""
    found = []
    while True:
        try:
            found.append(take(handle, options, **more).message.body)
        except NoMessage:
            return found


# Putting


def test_logical_order_gives_group_id_and_numbers(handle: Handle) -> None:
    results = [
        ordered(handle, b"1", IN_GROUP),
        ordered(handle, b"2", IN_GROUP),
        ordered(handle, b"3", LAST),
        ordered(handle, b"4", IN_GROUP | LAST),
        ordered(handle, b"5", 0),
    ]
    places = [(r.descriptor.group_id, r.descriptor.msg_seq_number) for r in results]
    first, second = places[0][0], places[3][0]
    assert places == [(first, 1), (first, 2), (first, 3), (second, 1), (b"", 1)]
    assert len(first) == 24
    assert first not in (second, bytes(24))


def test_logical_order_takes_no_notice_of_the_places_given(handle: Handle) -> None:
    given = V2._replace(msg_flags=IN_GROUP, group_id=H, msg_seq_number=7, offset=9)
    for number in (1, 2):
        placed = handle.put(b"x", PutRequest(given), ORDERED).descriptor
        assert (placed.msg_seq_number, placed.offset) == (number, 0)
        assert placed.group_id != H


@pytest.mark.parametrize(
    ("flags", "group_id", "number", "offset", "stored"),
    [
        (0, b"", 1, 0, 0),
        (IN_GROUP, G, 7, 0, IN_GROUP),
        (LAST, G, 7, 0, IN_GROUP | LAST),
        (c.MQMF_SEGMENT, G, 1, 9, c.MQMF_SEGMENT),
        (c.MQMF_LAST_SEGMENT, G, 1, 9, c.MQMF_SEGMENT | c.MQMF_LAST_SEGMENT),
        (c.MQMF_SEGMENTATION_ALLOWED, G, 1, 0, c.MQMF_SEGMENTATION_ALLOWED),
    ],
)
def test_flags_say_which_of_the_given_fields_count(
    handle: Handle, flags: int, group_id: bytes, number: int, offset: int, stored: int
) -> None:
    given = V2._replace(group_id=G, msg_seq_number=7, offset=9, msg_flags=flags)
    handle.put(b"x", PutRequest(given))
    seen = take(handle).message.descriptor
    assert (seen.group_id, seen.msg_seq_number, seen.offset) == (group_id, number, offset)
    assert seen.msg_flags == stored


def test_without_logical_order_a_group_id_is_made_where_there_is_none(handle: Handle) -> None:
    made = [
        handle.put(b"x", PutRequest(V2._replace(msg_flags=flags, group_id=given))).descriptor
        for flags, given in ((IN_GROUP, b""), (c.MQMF_SEGMENTATION_ALLOWED, bytes(24)))
    ]
    assert len({d.group_id for d in made}) == 2
    assert all(d.group_id.strip(b"\0") for d in made)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (0, rc.MQRC_MSG_SEQ_NUMBER_ERROR),
        (1, 0),
        (999_999_999, 0),
        (1_000_000_000, rc.MQRC_MSG_SEQ_NUMBER_ERROR),
    ],
)
def test_2250_is_for_numbers_that_no_member_has(
    queue_manager: QueueManager, handle: Handle, number: int, reason: int
) -> None:
    if reason:
        with refused(reason):
            member(handle, G, number)
    else:
        member(handle, G, number)
    assert queue_manager.curdepth("Q1") == (reason == 0)
    if not reason:
        ungrouped = V2._replace(msg_seq_number=0, offset=-1)
        handle.put(b"x", PutRequest(ungrouped))


def test_2257_logical_order_needs_version_2(queue_manager: QueueManager, handle: Handle) -> None:
    with refused(rc.MQRC_WRONG_MD_VERSION):
        handle.put(b"x", PutRequest(V2._replace(version=1)), ORDERED)
    assert queue_manager.curdepth("Q1") == 0


def test_2241_a_message_of_no_group_within_one(queue_manager: QueueManager, handle: Handle) -> None:
    ordered(handle, b"1", IN_GROUP)
    with refused(rc.MQRC_INCOMPLETE_GROUP):
        ordered(handle, b"x", 0)
    assert queue_manager.curdepth("Q1") == 1
    assert ordered(handle, b"2", LAST).descriptor.msg_seq_number == 2


def test_2241_is_a_warning_out_of_logical_order(handle: Handle) -> None:
    ordered(handle, b"1", IN_GROUP)
    result = handle.put(b"x", PutRequest(V2))
    assert result.warning == rc.MQRC_INCOMPLETE_GROUP
    assert handle.put(b"y", PutRequest(V2)).warning == rc.MQRC_NONE
    assert ordered(handle, b"1", IN_GROUP).descriptor.msg_seq_number == 1


def test_2241_is_a_warning_of_the_close(session: Session, handle: Handle) -> None:
    ordered(handle, b"1", IN_GROUP)
    assert handle.close() == rc.MQRC_INCOMPLETE_GROUP
    again = session.open("Q1", INPUT | OUTPUT)
    ordered(again, b"1", IN_GROUP)
    ordered(again, b"2", LAST)
    assert again.close() == rc.MQRC_NONE
    apart = session.open("Q1", INPUT | OUTPUT)
    member(apart, G, 1)
    assert apart.close() == rc.MQRC_NONE


@pytest.mark.parametrize("inside", [0, SYNCPOINT])
def test_2245_a_group_partly_in_a_unit_of_work(
    queue_manager: QueueManager, handle: Handle, session: Session, inside: int
) -> None:
    ordered(handle, b"1", IN_GROUP, inside)
    with refused(rc.MQRC_INCONSISTENT_UOW):
        ordered(handle, b"2", LAST, inside ^ SYNCPOINT)
    ordered(handle, b"2", LAST, inside)
    session.commit()
    assert queue_manager.curdepth("Q1") == 2


def test_2185_persistence_differs_within_a_group(
    queue_manager: QueueManager, handle: Handle
) -> None:
    ordered(handle, b"1", IN_GROUP, persistence=c.MQPER_PERSISTENT)
    with refused(rc.MQRC_INCONSISTENT_PERSISTENCE):
        ordered(handle, b"2", LAST)
    with refused(rc.MQRC_INCONSISTENT_PERSISTENCE):
        ordered(handle, b"2", LAST, persistence=c.MQPER_NOT_PERSISTENT)
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) DEFPSIST(YES)").ok
    ordered(handle, b"2", LAST, persistence=c.MQPER_PERSISTENCE_AS_Q_DEF)
    assert queue_manager.curdepth("Q1") == 2


def test_a_put_that_fails_leaves_the_order_where_it_was(
    queue_manager: QueueManager, handle: Handle
) -> None:
    ordered(handle, b"1", IN_GROUP)
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) PUT(DISABLED)").ok
    with refused(rc.MQRC_PUT_INHIBITED):
        ordered(handle, b"2", IN_GROUP)
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) PUT(ENABLED)").ok
    assert ordered(handle, b"2", IN_GROUP).descriptor.msg_seq_number == 2


def test_backout_takes_the_order_back_to_where_the_unit_of_work_began(
    session: Session, handle: Handle
) -> None:
    ordered(handle, b"1", IN_GROUP, SYNCPOINT)
    session.commit()
    ordered(handle, b"2", IN_GROUP, SYNCPOINT)
    ordered(handle, b"3", LAST, SYNCPOINT)
    session.backout()
    assert ordered(handle, b"2", LAST, SYNCPOINT).descriptor.msg_seq_number == 2
    session.commit()
    assert bodies(session, "Q1") == [b"1", b"2"]


def test_commit_that_a_full_disk_refuses_takes_the_order_back(
    tmp_path: Path, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        local(qm, DEFPSIST=c.MQPER_PERSISTENT)
        with new_session(qm, transacted=True) as session:
            handle = session.open("Q1", INPUT | OUTPUT | BROWSE)
            first = ordered(handle, b"1", IN_GROUP, SYNCPOINT).descriptor
            session.commit()
            qm.engine.store.commit([statement("PRAGMA max_page_count = 1")])
            for _ in range(2):
                placed = ordered(handle, b"x" * 100_000, IN_GROUP, SYNCPOINT).descriptor
                assert (placed.group_id, placed.msg_seq_number) == (first.group_id, 2)
                with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
                    session.commit()
            qm.engine.store.commit([statement("PRAGMA max_page_count = 1000000")])
            placed = ordered(handle, b"2", LAST, SYNCPOINT).descriptor
            assert (placed.group_id, placed.msg_seq_number) == (first.group_id, 2)
            session.commit()
            assert got(handle, LOGICAL) == [b"1", b"2"]
        assert qm.verify().ok


def test_D9_logical_order_and_a_delay_do_not_go_together(
    queue_manager: QueueManager, handle: Handle
) -> None:
    request = PutRequest(V2._replace(msg_flags=IN_GROUP), delay_ms=1_000)
    with refused(rc.MQRC_OPTIONS_ERROR):
        handle.put(b"x", request, ORDERED)
    assert queue_manager.counts("Q1").staged == 0
    assert ordered(handle, b"1", IN_GROUP).descriptor.msg_seq_number == 1


def test_X3_each_member_is_capped(queue_manager: QueueManager, handle: Handle) -> None:
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) CAPEXPRY(10)").ok
    ordered(handle, b"1", IN_GROUP, life_ms=500)
    ordered(handle, b"2", LAST, life_ms=5_000)
    assert [take(handle, LOGICAL).message.remaining_ms for _ in "12"] == [500, 1_000]


# Getting


def test_logical_order_brings_groups_together(handle: Handle) -> None:
    """The queue holds G1 H1 x G2 H2, arrived in this order, each group out of order in itself."""
    member(handle, H, 2, is_last=True)
    member(handle, G, 1)
    member(handle, H, 1)
    handle.put(b"x", PutRequest(V2))
    member(handle, G, 2, is_last=True)
    assert got(handle, LOGICAL) == [b"G1", b"G2", b"H1", b"H2", b"x"]


def test_logical_order_stays_in_a_group_though_others_have_higher_priority(
    handle: Handle,
) -> None:
    member(handle, G, 1)
    assert take(handle, LOGICAL).message.body == b"G1"
    member(handle, H, 1, is_last=True, priority=9)
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, LOGICAL)
    member(handle, G, 2, is_last=True)
    assert got(handle, LOGICAL) == [b"G2", b"H1"]


def test_all_msgs_available_keeps_incomplete_groups_back(
    queue_manager: QueueManager, handle: Handle
) -> None:
    member(handle, G, 1)
    member(handle, G, 3, is_last=True)
    member(handle, H, 2, is_last=True)
    member(handle, H, 1)
    assert got(handle, LOGICAL | ALL_MSGS) == [b"H1", b"H2"]
    assert queue_manager.curdepth("Q1") == 2
    member(handle, G, 2)
    assert got(handle, LOGICAL | ALL_MSGS) == [b"G1", b"G2", b"G3"]


def test_all_msgs_available_without_logical_order_is_asked_of_each_get(handle: Handle) -> None:
    member(handle, G, 2, is_last=True)
    member(handle, G, 1)
    handle.put(b"x", PutRequest(V2))
    assert got(handle, ALL_MSGS) == [b"G2", b"x"]
    assert take(handle).message.body == b"G1"


def test_within_a_group_that_was_begun_it_need_not_be_whole(handle: Handle, other: Handle) -> None:
    for number in (1, 2, 3):
        member(handle, G, number, is_last=number == 3)
    assert take(handle, LOGICAL | ALL_MSGS).message.body == b"G1"
    assert take(other, match=Match(group_id=G, msg_seq_number=3)).message.body == b"G3"
    assert take(handle, LOGICAL | ALL_MSGS).message.body == b"G2"
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, LOGICAL | ALL_MSGS)


def test_a_group_of_another_is_not_lost_when_it_takes_one_member(
    handle: Handle, other: Handle
) -> None:
    for number in (1, 2):
        member(handle, G, number, is_last=number == 2)
    assert take(other).message.body == b"G1"
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, LOGICAL | ALL_MSGS)
    assert take(other).message.body == b"G2"


def test_wait_until_the_group_is_whole(
    queue_manager: QueueManager, clock: VirtualClock, handle: Handle, other: Handle
) -> None:
    member(other, G, 2, is_last=True)
    request = GetRequest(wait_ms=1_000)
    options = LOGICAL | ALL_MSGS | c.MQGMO_WAIT
    waiter = waiting(queue_manager, "Q1", lambda: handle.get(request, options))
    member(other, H, 1)
    clock.advance(999)
    assert waiter.is_under_way
    member(other, G, 1)
    result = waiter.finish()
    assert isinstance(result, GetResult)
    assert result.message.body == b"G1"
    assert take(handle, LOGICAL).message.body == b"G2"


def test_wait_for_a_group_ends_on_time(
    queue_manager: QueueManager, clock: VirtualClock, handle: Handle
) -> None:
    member(handle, G, 1)
    request = GetRequest(wait_ms=1_000)
    options = LOGICAL | ALL_MSGS | c.MQGMO_WAIT
    waiter = waiting(queue_manager, "Q1", lambda: handle.get(request, options))
    clock.advance(1_000)
    waiter.finish()
    assert waiter.error is not None
    assert waiter.error.reason == rc.MQRC_NO_MSG_AVAILABLE


def test_G8_a_group_put_in_a_unit_of_work_comes_with_its_commit(
    queue_manager: QueueManager, session: Session, handle: Handle, other: Handle
) -> None:
    options = LOGICAL | ALL_MSGS | c.MQGMO_WAIT
    request = GetRequest(wait_ms=c.MQWI_UNLIMITED)
    waiter = waiting(queue_manager, "Q1", lambda: other.get(request, options))
    for number in (1, 2):
        member(handle, G, number, is_last=number == 2, options=SYNCPOINT)
    assert waiter.is_under_way
    session.commit()
    waiter.finish()
    assert take(other, options).message.body == b"G2"


def test_P9_the_own_unit_of_work_sees_its_group(session: Session, handle: Handle) -> None:
    member(handle, G, 2, is_last=True)
    member(handle, G, 1, options=SYNCPOINT)
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, LOGICAL | ALL_MSGS)
    in_unit = LOGICAL | ALL_MSGS | c.MQGMO_SYNCPOINT
    assert got(handle, in_unit) == [b"G1", b"G2"]
    session.backout()
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, LOGICAL | ALL_MSGS)
    assert bodies(session, "Q1") == [b"G2"]


def test_P9_an_own_member_got_outside_of_the_unit_of_work_confirms_its_delivery(
    queue_manager: QueueManager, session: Session, handle: Handle
) -> None:
    """Its put is not committed yet, so the report is part of the unit of work, as its end is."""
    local(queue_manager, REPLIES)
    asked = V2._replace(
        report=c.MQRO_COD, reply_to_q=REPLIES, msg_flags=c.MQMF_LAST_MSG_IN_GROUP, persistence=0
    )
    handle.put(b"own", PutRequest(asked), c.MQPMO_SYNCPOINT)
    take(handle, c.MQGMO_LOGICAL_ORDER | c.MQGMO_SYNCPOINT_IF_PERSISTENT)
    session.commit()
    report = session.get(REPLIES)
    assert report is not None
    assert report.descriptor.feedback == c.MQFB_COD
    assert queue_manager.curdepth(REPLIES) == 0


def test_G8_backout_gives_a_group_back_whole(session: Session, handle: Handle) -> None:
    for number in (1, 2, 3):
        member(handle, G, number, is_last=number == 3)
    options = LOGICAL | ALL_MSGS | c.MQGMO_SYNCPOINT
    for count in range(2):
        seen = [take(handle, options).message for _ in "123"]
        assert [m.body for m in seen] == [b"G1", b"G2", b"G3"]
        assert [m.backout_count for m in seen] == [count] * 3
        session.backout()
    take(handle, options)
    session.commit()
    take(handle, options)
    session.backout()
    assert take(handle, options).message.body == b"G2"


def test_2245_a_group_got_partly_in_a_unit_of_work(session: Session, handle: Handle) -> None:
    for number in (1, 2):
        member(handle, G, number, is_last=number == 2)
    take(handle, LOGICAL | c.MQGMO_SYNCPOINT)
    with refused(rc.MQRC_INCONSISTENT_UOW):
        take(handle, LOGICAL)
    assert take(handle, LOGICAL | c.MQGMO_SYNCPOINT).message.body == b"G2"
    session.commit()


def test_2241_a_get_that_leaves_logical_order_is_told(handle: Handle) -> None:
    for number in (1, 2, 3):
        member(handle, G, number, is_last=number == 3)
    take(handle, LOGICAL)
    result = take(handle)
    assert (result.message.body, result.warning) == (b"G2", rc.MQRC_INCOMPLETE_GROUP)
    assert take(handle, LOGICAL).message.body == b"G3"


def test_2241_closing_within_a_group_that_was_got(handle: Handle) -> None:
    member(handle, G, 1)
    take(handle, LOGICAL)
    assert handle.close() == rc.MQRC_INCOMPLETE_GROUP


def test_a_get_by_group_id_begins_where_logical_order_goes_on(handle: Handle) -> None:
    """So a program goes on after a restart with a group that it has half got."""
    for number in (2, 3, 4):
        member(handle, G, number, is_last=number == 4)
    member(handle, H, 1, is_last=True, priority=9)
    assert take(handle, match=Match(group_id=G, msg_seq_number=2)).message.body == b"G2"
    assert got(handle, LOGICAL) == [b"G3", b"G4", b"H1"]


@pytest.mark.parametrize(
    "match",
    [
        Match(group_id=H),
        Match(msg_seq_number=3),
        Match(offset=1),
        Match(msg_id=b"other".ljust(24, b"\0")),
        Match(correl_id=b"other".ljust(24, b"\0")),
    ],
)
def test_2247_match_options_may_only_name_what_comes_next(handle: Handle, match: Match) -> None:
    for number in (1, 2):
        member(handle, G, number, is_last=number == 2)
    member(handle, H, 1, is_last=True)
    take(handle, LOGICAL)
    with refused(rc.MQRC_MATCH_OPTIONS_ERROR):
        take(handle, LOGICAL, match=match)
    right = Match(group_id=G, msg_seq_number=2, offset=0)
    assert take(handle, LOGICAL, match=right).message.body == b"G2"


@pytest.mark.parametrize("match", [Match(msg_seq_number=2), Match(offset=1)])
def test_2247_logical_order_begins_with_a_first_message(handle: Handle, match: Match) -> None:
    member(handle, G, 2)
    with refused(rc.MQRC_MATCH_OPTIONS_ERROR):
        take(handle, LOGICAL, match=match)


def test_match_options_choose_the_group(handle: Handle) -> None:
    for group in (G, H):
        for number in (1, 2):
            member(handle, group, number, is_last=number == 2)
    both = LOGICAL | ALL_MSGS
    assert take(handle, both, match=Match(group_id=H)).message.body == b"H1"
    assert take(handle, both, match=Match(group_id=H)).message.body == b"H2"
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, both, match=Match(group_id=H))
    assert got(handle, both) == [b"G1", b"G2"]


def test_match_options_and_a_selector_choose_among_whole_groups(
    session: Session, handle: Handle
) -> None:
    ids = [member(handle, group, 1, is_last=True).msg_id for group in (G, H)]
    assert take(handle, ALL_MSGS, match=Match(msg_id=ids[1])).message.body == b"H1"
    member(handle, H, 1, is_last=True, priority=3)
    chosen = session.open("Q1", INPUT, selector="JMSPriority = 3")
    assert got(chosen, ALL_MSGS) == [b"H1"]
    assert got(handle, ALL_MSGS) == [b"G1"]


def test_2046_options_that_do_not_go_with_groups(handle: Handle) -> None:
    for options in (
        FIRST | LOGICAL | c.MQGMO_MARK_BROWSE_HANDLE,
        FIRST | ALL_MSGS | c.MQGMO_UNMARKED_BROWSE_MSG,
        FIRST | c.MQGMO_COMPLETE_MSG | c.MQGMO_LOCK,
        c.MQGMO_UNLOCK | LOGICAL,
    ):
        with refused(rc.MQRC_OPTIONS_ERROR):
            take(handle, options)


def test_2090_a_wait_interval_below_unlimited(handle: Handle) -> None:
    with refused(rc.MQRC_WAIT_INTERVAL_ERROR):
        take(handle, LOGICAL | c.MQGMO_WAIT, wait_ms=-2)


def test_2016_and_2024_hinder_gets_of_groups(
    queue_manager: QueueManager, session: Session, handle: Handle
) -> None:
    for number in (1, 2):
        member(handle, G, number, is_last=number == 2)
    assert queue_manager.mqsc("ALTER QMGR MAXUMSGS(1)").ok
    in_unit = LOGICAL | c.MQGMO_SYNCPOINT
    take(handle, in_unit)
    with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
        take(handle, in_unit)
    session.backout()
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)").ok
    with refused(rc.MQRC_GET_INHIBITED):
        take(handle, LOGICAL)


# Browsing


def test_browse_in_logical_order(handle: Handle) -> None:
    member(handle, G, 2)
    member(handle, H, 1)
    member(handle, G, 1)
    member(handle, G, 3, is_last=True)
    member(handle, H, 2, is_last=True)
    seen = [take(handle, LOGICAL | FIRST).message.body]
    seen += [take(handle, LOGICAL | NEXT).message.body for _ in range(4)]
    assert seen == [b"H1", b"H2", b"G1", b"G2", b"G3"]
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, LOGICAL | NEXT)
    assert take(handle, LOGICAL | FIRST).message.body == b"H1"


def test_browses_and_gets_stand_apart(handle: Handle) -> None:
    for number in (1, 2, 3):
        member(handle, G, number, is_last=number == 3)
    assert take(handle, LOGICAL | FIRST).message.body == b"G1"
    assert take(handle, LOGICAL).message.body == b"G1"
    assert take(handle, LOGICAL | NEXT).message.body == b"G2"
    assert take(handle, LOGICAL).message.body == b"G2"


def test_2259_a_browse_goes_on_as_it_began(handle: Handle) -> None:
    for number in (1, 2):
        member(handle, G, number, is_last=number == 2)
    take(handle, FIRST)
    with refused(rc.MQRC_INCONSISTENT_BROWSE):
        take(handle, LOGICAL | NEXT)
    take(handle, LOGICAL | FIRST)
    with refused(rc.MQRC_INCONSISTENT_BROWSE):
        take(handle, NEXT)
    assert take(handle, LOGICAL | NEXT).message.body == b"G2"


def test_2246_what_is_at_the_cursor_is_not_what_comes_next(handle: Handle) -> None:
    for number in (1, 2):
        member(handle, G, number, is_last=number == 2)
    assert [take(handle, LOGICAL | o).message.body for o in (FIRST, NEXT)] == [b"G1", b"G2"]
    with refused(rc.MQRC_INVALID_MSG_UNDER_CURSOR):
        take(handle, LOGICAL | c.MQGMO_MSG_UNDER_CURSOR)
    take(handle, LOGICAL | FIRST)
    assert take(handle, LOGICAL | c.MQGMO_MSG_UNDER_CURSOR).message.body == b"G1"
    with refused(rc.MQRC_NO_MSG_UNDER_CURSOR):
        take(handle, LOGICAL | c.MQGMO_MSG_UNDER_CURSOR)


def test_2034_the_cursor_stands_nowhere(handle: Handle) -> None:
    member(handle, G, 1)
    with refused(rc.MQRC_NO_MSG_UNDER_CURSOR):
        take(handle, LOGICAL | c.MQGMO_MSG_UNDER_CURSOR)


def test_a_member_put_again_is_found_by_a_browse_that_has_passed_where_it_was(
    handle: Handle, other: Handle
) -> None:
    """What was got by others and not met since must not stand in its place."""
    member(handle, H, 1, is_last=True)
    assert take(handle, LOGICAL | FIRST).message.body == b"H1"
    member(handle, G, 1, priority=5)
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, LOGICAL | NEXT)
    assert take(other).message.body == b"G1"
    member(handle, G, 1)
    assert take(handle, LOGICAL | NEXT).message.body == b"G1"


def test_the_rest_of_a_group_is_not_begun_by_who_finds_a_member_gone(
    handle: Handle, other: Handle
) -> None:
    for number in (3, 2, 1):
        member(handle, G, number, is_last=number == 3)
    take(handle, FIRST | LOGICAL)
    assert take(other).message.body == b"G3"
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, ALL_MSGS, match=Match(group_id=G))


def test_B5_a_lock_hides_a_member_and_so_the_group(handle: Handle, other: Handle) -> None:
    for number in (1, 2):
        member(handle, G, number, is_last=number == 2)
    assert take(handle, LOGICAL | FIRST | c.MQGMO_LOCK).message.body == b"G1"
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(other, LOGICAL | ALL_MSGS)
    assert got(handle, LOGICAL | ALL_MSGS) == [b"G1", b"G2"]


def test_B6_the_end_of_a_lock_gives_the_group_back(handle: Handle, other: Handle) -> None:
    for number in (1, 2):
        member(handle, G, number, is_last=number == 2)
    take(handle, LOGICAL | FIRST | c.MQGMO_LOCK)
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(other, LOGICAL | ALL_MSGS)
    assert handle.unlock() == rc.MQRC_NONE
    assert got(other, LOGICAL | ALL_MSGS) == [b"G1", b"G2"]


def fours(handle: Handle, **more: Any) -> None:
    """Put a group of four; ``more`` are of its head, and let a browse come to the second."""
    for number in range(1, 5):
        member(handle, G, number, is_last=number == 4, **(more if number == 1 else {}))
    for option, found in ((FIRST, b"G1"), (NEXT, b"G2")):
        assert take(handle, ALL_MSGS | option).message.body == found


@pytest.mark.parametrize(
    ("hide", "show"),
    [
        (lambda other: take(other, SYNCPOINT), "backout"),
        (lambda other: take(other, FIRST | c.MQGMO_LOCK), "unlock"),
        (lambda other: take(other), "put"),
    ],
    ids=["got in a unit of work", "locked", "got"],
)
def test_a_browse_of_whole_groups_sees_that_a_member_goes_and_comes(
    handle: Handle,
    queue_manager: QueueManager,
    hide: Callable[[Handle], object],
    show: str,
    new_session: NewSession,
) -> None:
    """Though something else comes and goes in its place, and whoever takes it knows no groups."""
    fours(handle)
    with new_session(queue_manager, "carl", transacted=True) as session:
        other = session.open("Q1", INPUT | OUTPUT | BROWSE)
        hide(other)
        handle.put(b"x", PutRequest(V2))
        with refused(rc.MQRC_NO_MSG_AVAILABLE):
            take(handle, ALL_MSGS | NEXT, match=Match(group_id=G))
        if show == "backout":
            session.backout()
        elif show == "unlock":
            other.unlock()
        else:
            member(handle, G, 1)
        assert take(handle, ALL_MSGS | NEXT).message.body == b"G3"


def test_B5_a_member_locked_by_one_handle_is_not_whole_for_another(
    handle: Handle, other: Handle
) -> None:
    """What the first has seen of the group, its own lock being no hindrance, is not the other's."""
    fours(handle)
    take(handle, ALL_MSGS | NEXT | c.MQGMO_LOCK)
    assert take(handle, ALL_MSGS | c.MQGMO_BROWSE_MSG_UNDER_CURSOR).message.body == b"G3"
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(other, ALL_MSGS | FIRST)
    assert take(handle, ALL_MSGS | NEXT).message.body == b"G4"
    assert take(other, ALL_MSGS | FIRST).message.body == b"G1"


# Lifetimes


@pytest.mark.parametrize(("passed_ms", "sees"), [(999, True), (1_000, False), (1_001, False)])
def test_E11_a_browse_of_whole_groups_sees_that_a_member_expires(
    queue_manager: QueueManager, clock: VirtualClock, handle: Handle, passed_ms: int, sees: bool
) -> None:
    fours(handle, life_ms=1_000)
    clock.advance(passed_ms)
    if sees:
        assert take(handle, ALL_MSGS | NEXT).message.body == b"G3"
    else:
        with refused(rc.MQRC_NO_MSG_AVAILABLE):
            take(handle, ALL_MSGS | NEXT)
    assert queue_manager.curdepth("Q1") == 4


@pytest.mark.parametrize("at_ms", [999, 1_000, 1_001])
def test_one_expired_member_keeps_the_group_from_those_who_want_it_whole(
    queue_manager: QueueManager, clock: VirtualClock, handle: Handle, at_ms: int
) -> None:
    member(handle, G, 1)
    member(handle, G, 2, life_ms=1_000)
    member(handle, G, 3, is_last=True)
    clock.advance(at_ms)
    found = got(handle, LOGICAL | ALL_MSGS)
    assert found == ([b"G1", b"G2", b"G3"] if at_ms < 1_000 else [])
    assert queue_manager.curdepth("Q1") == (0 if at_ms < 1_000 else 3)


def test_E11_a_member_that_no_get_would_return_is_not_discarded(
    queue_manager: QueueManager, clock: VirtualClock, handle: Handle
) -> None:
    local(queue_manager, REPLIES)
    member(handle, G, 1)
    member(handle, G, 2, is_last=True, life_ms=1_000, report=c.MQRO_EXPIRATION)
    clock.advance(1_000)
    assert got(handle, LOGICAL | ALL_MSGS) == []
    assert (queue_manager.curdepth("Q1"), queue_manager.curdepth(REPLIES)) == (2, 0)
    assert got(handle, LOGICAL) == [b"G1"]
    assert (queue_manager.curdepth("Q1"), queue_manager.curdepth(REPLIES)) == (0, 1)
    assert ends(queue_manager, "Q1") == [End("got", 1_000), End("expired", 1_000)]


def test_E8_the_first_member_expired_is_discarded_by_the_get_that_wanted_the_group(
    queue_manager: QueueManager, clock: VirtualClock, handle: Handle
) -> None:
    member(handle, G, 1, life_ms=1_000)
    member(handle, G, 2, is_last=True)
    clock.advance(1_000)
    assert got(handle, LOGICAL | ALL_MSGS) == []
    assert queue_manager.curdepth("Q1") == 1
    assert take(handle).message.body == b"G2"


def test_E14_discards_of_members_are_not_part_of_the_unit_of_work(
    queue_manager: QueueManager, clock: VirtualClock, session: Session, handle: Handle
) -> None:
    local(queue_manager, REPLIES)
    member(handle, G, 1, is_last=True, life_ms=1_000, report=c.MQRO_EXPIRATION_WITH_DATA)
    member(handle, H, 1, is_last=True)
    clock.advance(1_000)
    assert take(handle, LOGICAL | c.MQGMO_SYNCPOINT).message.body == b"H1"
    session.backout()
    report = session.get(REPLIES)
    assert report is not None
    placed = report.descriptor
    assert (placed.group_id, placed.msg_seq_number, placed.original_length) == (G, 1, 2)
    assert (placed.msg_flags, report.body) == (IN_GROUP | LAST, b"G1")
    assert bodies(session, "Q1") == [b"H1"]


def test_E9_ungrouped_and_single_members_expired_ahead_go_in_one_get(
    queue_manager: QueueManager, clock: VirtualClock, handle: Handle
) -> None:
    handle.put(b"x", PutRequest(V2, life_ms=1_000))
    member(handle, G, 1, life_ms=1_000)
    member(handle, H, 1)
    clock.advance(1_000)
    assert take(handle, LOGICAL).message.body == b"H1"
    assert queue_manager.curdepth("Q1") == 0


def test_E17_an_own_member_expired_before_the_commit_stays_until_then(
    queue_manager: QueueManager, clock: VirtualClock, session: Session, handle: Handle
) -> None:
    member(handle, G, 1, is_last=True, life_ms=1_000, options=SYNCPOINT)
    clock.advance(1_000)
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, LOGICAL | c.MQGMO_SYNCPOINT)
    assert queue_manager.curdepth("Q1") == 1
    session.commit()
    assert got(handle, LOGICAL) == []
    assert queue_manager.curdepth("Q1") == 0


def test_K7_without_discard_on_empty_nothing_goes_when_nothing_is_found(
    clock: VirtualClock,
    new_session: NewSession,
) -> None:
    settings = {"expiry.discard_on_empty": False}
    with QueueManager("QM1", None, clock, settings=settings) as manager:
        local(manager)
        with new_session(manager) as session:
            handle = session.open("Q1", INPUT | OUTPUT)
            member(handle, G, 1, life_ms=1_000)
            clock.advance(1_000)
            assert got(handle, LOGICAL) == []
            assert manager.curdepth("Q1") == 1
            member(handle, H, 1)
            assert got(handle, LOGICAL) == [b"H1"]
            assert manager.curdepth("Q1") == 0


def test_X9_the_scan_discards_members_one_by_one(
    queue_manager: QueueManager, clock: VirtualClock, handle: Handle
) -> None:
    assert queue_manager.mqsc("ALTER QMGR EXPRYINT(5)").ok
    member(handle, G, 1)
    member(handle, G, 2, is_last=True, life_ms=1_000)
    clock.advance(5_000)
    assert queue_manager.curdepth("Q1") == 1
    assert got(handle, LOGICAL | ALL_MSGS) == []
    member(handle, G, 2, is_last=True)
    assert got(handle, LOGICAL | ALL_MSGS) == [b"G1", b"G2"]


# Over a restart, and far


def test_a_persistent_group_half_put_goes_on_after_a_restart(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    """The order is the handle's: who goes on says himself where he stands, then it counts again."""
    lasting: dict[str, Any] = {"persistence": c.MQPER_PERSISTENT}
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as manager:
        local(manager)
        with new_session(manager) as session:
            handle = session.open("Q1", OUTPUT)
            group = ordered(handle, b"1", IN_GROUP, **lasting).descriptor.group_id
    with (
        QueueManager("QM1", tmp_path / "QM1", clock=clock) as manager,
        new_session(manager) as session,
    ):
        handle = session.open("Q1", INPUT | OUTPUT)
        assert ordered(handle, b"other", LAST, **lasting).descriptor.group_id != group
        second = V2._replace(group_id=group, msg_seq_number=2, msg_flags=IN_GROUP, **lasting)
        handle.put(b"2", PutRequest(second))
        assert ordered(handle, b"3", LAST, **lasting).descriptor.msg_seq_number == 3
        assert got(handle, LOGICAL | ALL_MSGS) == [b"1", b"2", b"3", b"other"]


def test_each_group_goes_to_one_of_several_who_wait(
    any_manager: QueueManager, new_session: NewSession
) -> None:
    """Four threads get whole groups, put by a fifth one member by member, half of them durable."""
    local(any_manager)
    whole = LOGICAL | ALL_MSGS | c.MQGMO_WAIT
    group_count, sizes = 24, (1, 2, 3, 5)

    def consume() -> list[tuple[bytes, int]]:
        seen: list[tuple[bytes, int]] = []
        with new_session(any_manager) as session:
            handle = session.open("Q1", INPUT)
            while True:
                message = take(handle, whole, wait_ms=c.MQWI_UNLIMITED).message
                if message.body == b"stop":
                    return seen
                seen.append((message.descriptor.group_id, message.descriptor.msg_seq_number))

    consumers = [Running(consume) for _ in range(4)]
    with new_session(any_manager) as session:
        handle = session.open("Q1", OUTPUT)
        for group in range(group_count):
            size = sizes[group % 4]
            for number in range(size, 0, -1):
                descriptor = V2._replace(
                    group_id=b"%024d" % group,
                    msg_seq_number=number,
                    msg_flags=LAST if number == size else IN_GROUP,
                    persistence=group % 2,
                )
                handle.put(b"x", PutRequest(descriptor))
        for _ in consumers:
            handle.put(b"stop", PutRequest(V2))
    by_consumer = [consumer.finish() for consumer in consumers]
    got_by = []
    for seen in by_consumer:
        assert isinstance(seen, list)
        groups = list(dict.fromkeys(group for group, _number in seen))
        expected = [(g, n) for g in groups for n in range(1, sizes[int(g) % 4] + 1)]
        assert seen == expected
        got_by += groups
    assert sorted(int(group) for group in got_by) == list(range(group_count))


def test_the_example_in_the_docs_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = part("MESSAGES.md", "Groups and segments")
    blocks = re.findall(
        r"^```python\n(.*?)^```\n```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == 1
    names: dict[str, object] = {}
    for code, output in blocks:
        exec(compile(code, "docs/MESSAGES.md", "exec"), names)
        assert capsys.readouterr().out == output
    manager = names["manager"]
    assert isinstance(manager, QueueManager)
    manager.close()


@pytest.mark.slow
def test_what_comes_in_a_crowd_is_found_all_the_same(
    queue_manager: QueueManager, handle: Handle, other: Handle
) -> None:
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(100000)").ok
    assert got(handle, LOGICAL) == []
    for _ in range(20_500):
        other.put(b"x", PutRequest(V2))
    member(other, G, 2, is_last=True)
    member(other, G, 1, priority=1)
    assert take(handle, LOGICAL | ALL_MSGS).message.body == b"G1"
    assert take(handle, LOGICAL | ALL_MSGS).message.body == b"G2"
    assert take(handle, LOGICAL | ALL_MSGS).message.body == b"x"


@pytest.mark.in_process
def test_what_others_have_got_of_groups_never_whole_is_not_remembered(
    queue_manager: QueueManager,
    handle: Handle,
    other: Handle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who wants whole groups only never meets them; others take their members one by one."""
    monkeypatch.setattr(index, "_ARRIVALS_MAX", 10)
    for number in range(1, 50):
        member(other, G, number)
        assert got(handle, LOGICAL | ALL_MSGS) == []
        take(other)
    (known,) = (w for w in handle.queue.watchers or () if isinstance(w, index.GroupIndex))
    assert len(known._entries) <= 11
    member(other, H, 1)
    member(other, H, 2, is_last=True)
    assert got(handle, LOGICAL | ALL_MSGS) == [b"H1", b"H2"]


@pytest.mark.in_process
@pytest.mark.slow
def test_a_get_takes_as_long_in_a_long_group_as_in_a_short_one(
    queue_manager: QueueManager, handle: Handle
) -> None:
    """With each way of asking for it."""
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(10000)").ok
    modes = (0, c.MQGMO_COMPLETE_MSG, c.MQGMO_ALL_SEGMENTS_AVAILABLE)
    ways = [(mode, match) for mode in modes for match in (Match(), Match(group_id=G))]
    seconds: dict[int, list[float]] = {}
    for count in (300, 8_000):
        for number in range(1, count + 1):
            member(handle, G, number, is_last=number == count)
        seconds[count] = [min(seconds_of_get(handle, *way) for _ in range(40)) for way in ways]
        assert len(got(handle, 0)) == count - 40 * len(ways)
    for way, short, long in zip(ways, seconds[300], seconds[8_000], strict=True):
        assert long < 4 * short, way


@pytest.mark.in_process
@pytest.mark.slow
def test_a_browse_of_whole_groups_takes_as_long_in_a_long_group_as_in_a_short_one(
    queue_manager: QueueManager, handle: Handle
) -> None:
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(10000)").ok
    seconds = []
    for count in (110, 4_000):
        got(handle, 0)
        for number in range(1, count + 1):
            member(handle, G, number, is_last=number == count)
        take(handle, ALL_MSGS | FIRST)
        seconds.append(min(seconds_of_get(handle, ALL_MSGS | NEXT, ANY) for _ in range(100)))
    assert seconds[1] < 4 * seconds[0]


@pytest.mark.in_process
@pytest.mark.slow
def test_a_get_by_place_takes_as_long_at_the_end_of_a_group_as_at_its_beginning(
    queue_manager: QueueManager, handle: Handle
) -> None:
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(10000)").ok
    for number in range(1, 4_001):
        member(handle, G, number, is_last=number == 4_000)
    first, last = (
        min(seconds_of_get(handle, 0, Match(group_id=G, msg_seq_number=n)) for n in numbers)
        for numbers in (range(1, 101), range(4_000, 3_900, -1))
    )
    assert last < 4 * first


def seconds_of_get(handle: Handle, mode: int, match: Match) -> float:
    begin = time.thread_time()
    take(handle, mode, match=match)
    return time.thread_time() - begin
