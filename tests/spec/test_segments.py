"""Messages in segments: cut by the queue manager, put one by one, got as a whole."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import Handle, Match, PutRequest, Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.properties import pack_folder, pack_header
from mayfly.mqi.structures import MDE, RFH2
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import GetResult, PutResult
from tests.over import NewSession
from tests.spec.scene import (
    BROWSE,
    INPUT,
    OUTPUT,
    REPLIES,
    V2,
    End,
    alter,
    ends,
    local,
    refused,
    take,
    waiting,
)

IN_GROUP, LAST = c.MQMF_MSG_IN_GROUP, c.MQMF_LAST_MSG_IN_GROUP
SEGMENT, LAST_SEGMENT = c.MQMF_SEGMENT, c.MQMF_LAST_SEGMENT
ALLOWED, WHOLE = c.MQMF_SEGMENTATION_ALLOWED, c.MQGMO_COMPLETE_MSG
LOGICAL, ALL_SEGMENTS = c.MQGMO_LOGICAL_ORDER, c.MQGMO_ALL_SEGMENTS_AVAILABLE
ORDERED, SYNCPOINT = c.MQPMO_LOGICAL_ORDER, c.MQPMO_SYNCPOINT
G = b"G".ljust(24, b"!")
LONG = bytes(range(200))
#: What MAXMSGL(50) makes of it: multiples of 16 bytes.
CUT = [48, 48, 48, 48, 8]
CUTTING = V2._replace(msg_flags=ALLOWED)


@pytest.fixture
def handle(queue_manager: QueueManager, session: Session) -> Handle:
    """Q1, which takes messages of 50 bytes, open for everything."""
    local(queue_manager, MAXMSGL=50)
    return session.open("Q1", INPUT | OUTPUT | BROWSE)


def segment(
    handle: Handle,
    body: bytes,
    offset: int,
    *,
    is_last: bool = False,
    life_ms: int | None = None,
    options: int = 0,
    **more: Any,
) -> PutResult:
    """Put one segment of the message G at its place."""
    flags = more.pop("msg_flags", 0) | (LAST_SEGMENT if is_last else SEGMENT)
    descriptor = V2._replace(group_id=G, offset=offset, msg_flags=flags)
    descriptor = descriptor._replace(**more)
    return handle.put(body, PutRequest(descriptor, life_ms=life_ms), options)


def abc(handle: Handle, **lives: int) -> None:
    """Put the message abc in three segments, the last one first."""
    for offset, letter in ((2, "c"), (0, "a"), (1, "b")):
        is_last = letter == "c"
        segment(handle, letter.encode(), offset, is_last=is_last, life_ms=lives.get(letter))


def each(handle: Handle, options: int = LOGICAL) -> list[tuple[int, int]]:
    """Get all segments one by one: their offsets and lengths."""
    found = []
    for _ in range(handle.queue.depth):
        message = take(handle, options).message
        found.append((message.descriptor.offset, len(message.body)))
    return found


@pytest.mark.in_process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "match"),
    [
        (0, Match(group_id=G)),
        (IN_GROUP | LAST, Match(group_id=G)),
        (0, Match(group_id=G, msg_seq_number=1, offset=0)),
        (0, None),
    ],
    ids=["by GroupId", "in a group", "by place", "browsed"],
)
def test_a_segment_takes_as_long_of_a_long_message_as_of_a_short_one(
    queue_manager: QueueManager, handle: Handle, flags: int, match: Match | None
) -> None:
    """Got one by one, or browsed where no segment may be missing."""
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(10000)").ok
    seconds = []
    for count in (110, 4_000):
        each(handle, 0)
        for number in range(count):
            segment(handle, b"x" * 20, 20 * number, is_last=number == count - 1, msg_flags=flags)
        if match is None:
            options = ALL_SEGMENTS | c.MQGMO_BROWSE_NEXT
            take(handle, options)
            seconds.append(min(seconds_of(handle, options) for _ in range(100)))
        else:
            places = [match] * 100
            if match.offset is not None:
                places = [match._replace(offset=20 * (count - n)) for n in range(1, 101)]
            seconds.append(min(seconds_of(handle, 0, match=place) for place in places))
    assert seconds[1] < 4 * seconds[0]


def seconds_of(handle: Handle, options: int, **more: Any) -> float:
    begin = time.thread_time()
    take(handle, options, **more)
    return time.thread_time() - begin


# Cut by the queue manager


def test_2030_a_message_too_long_without_the_flag(
    queue_manager: QueueManager, handle: Handle
) -> None:
    with refused(rc.MQRC_MSG_TOO_BIG_FOR_Q):
        handle.put(LONG, PutRequest(V2))
    assert queue_manager.curdepth("Q1") == 0


def test_with_the_flag_it_is_cut(queue_manager: QueueManager, handle: Handle) -> None:
    result = handle.put(LONG, PutRequest(CUTTING, correl_id=b"C" * 24))
    assert queue_manager.curdepth("Q1") == len(CUT)
    seen = [take(handle, c.MQGMO_BROWSE_NEXT).message for _ in CUT]
    assert [len(m.body) for m in seen] == CUT
    assert b"".join(m.body for m in seen) == LONG
    assert [m.descriptor.offset for m in seen] == [0, 48, 96, 144, 192]
    assert [m.descriptor.msg_flags for m in seen] == [ALLOWED | SEGMENT] * 4 + [
        ALLOWED | SEGMENT | LAST_SEGMENT
    ]
    assert {m.descriptor.group_id for m in seen} == {result.descriptor.group_id}
    assert {m.descriptor.msg_seq_number for m in seen} == {1}
    assert {m.correl_id for m in seen} == {b"C" * 24}
    assert seen[0].msg_id == result.msg_id
    assert len({m.msg_id for m in seen}) == len(CUT)


@pytest.mark.parametrize(("length", "count"), [(50, 1), (51, 2), (96, 2), (97, 3)])
def test_it_is_cut_only_when_it_does_not_fit(
    queue_manager: QueueManager, handle: Handle, length: int, count: int
) -> None:
    handle.put(bytes(length), PutRequest(CUTTING))
    assert queue_manager.curdepth("Q1") == count


def test_2031_the_queue_manager_has_a_limit_too(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager, "WIDE", MAXMSGL=100_000)
    assert queue_manager.mqsc("ALTER QMGR MAXMSGL(32768)").ok
    handle = session.open("WIDE", INPUT | OUTPUT)
    with refused(rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR):
        handle.put(bytes(40_000), PutRequest(V2))
    handle.put(bytes(40_000), PutRequest(CUTTING))
    assert queue_manager.curdepth("WIDE") == 2
    assert len(take(handle, WHOLE).message.body) == 40_000


@pytest.mark.parametrize(("limit", "reason"), [(15, rc.MQRC_MSG_TOO_BIG_FOR_Q), (16, 0)])
def test_2030_segments_are_16_bytes_at_least(
    queue_manager: QueueManager, session: Session, limit: int, reason: int
) -> None:
    local(queue_manager, "NARROW", MAXMSGL=limit)
    handle = session.open("NARROW", INPUT | OUTPUT)
    if reason:
        with refused(reason):
            handle.put(LONG, PutRequest(CUTTING))
    else:
        handle.put(LONG, PutRequest(CUTTING))
        assert take(handle, WHOLE).message.body == LONG
    assert queue_manager.curdepth("NARROW") == 0


def test_headers_stay_together_in_the_first_segment(
    queue_manager: QueueManager, session: Session
) -> None:
    header = RFH2.pack({"Format": "MQSTR", "StrucLength": 36})
    body = header + b"text" * 20
    described = CUTTING._replace(format="MQHRF2")
    local(queue_manager, "Q1", MAXMSGL=64)
    handle = session.open("Q1", INPUT | OUTPUT | BROWSE)
    handle.put(body, PutRequest(described))
    seen = [take(handle, c.MQGMO_BROWSE_NEXT).message for _ in range(2)]
    assert [m.descriptor.format for m in seen] == ["MQHRF2", "MQSTR"]
    whole = take(handle, WHOLE).message
    assert (whole.body, whole.descriptor.format) == (body, "MQHRF2")
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) MAXMSGL(32)").ok
    with refused(rc.MQRC_MSG_TOO_BIG_FOR_Q):
        handle.put(body, PutRequest(described))


@pytest.mark.in_process
@pytest.mark.slow
def test_a_header_takes_as_long_in_a_long_row_as_in_a_short_one(
    queue_manager: QueueManager, handle: Handle
) -> None:
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) MAXMSGL(4194304)").ok
    seconds = [min(seconds_of_header(handle, count) for _ in range(3)) for count in (100, 20_000)]
    assert seconds[1] < 6 * seconds[0]


def seconds_of_header(handle: Handle, count: int) -> float:
    row = MDE.pack({"Format": "MQHMDE"}) * (count - 1) + MDE.pack({}) + b"data"
    begin = time.thread_time()
    segment(handle, row, 0, format="MQHMDE")
    seconds = time.thread_time() - begin
    assert take(handle).message.body == row
    return seconds / count


@pytest.mark.parametrize("at_ms", [999, 1_000])
def test_all_segments_have_the_same_deadline(
    queue_manager: QueueManager, clock: VirtualClock, handle: Handle, at_ms: int
) -> None:
    local(queue_manager, REPLIES)
    asked = CUTTING._replace(report=c.MQRO_EXPIRATION, reply_to_q=REPLIES)
    handle.put(LONG, PutRequest(asked, life_ms=1_000))
    clock.advance(at_ms)
    if at_ms < 1_000:
        assert take(handle, WHOLE).message.remaining_ms == 1
        return
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, WHOLE)
    assert queue_manager.curdepth("Q1") == 0
    assert ends(queue_manager, "Q1") == [End("expired", 1_000)] * len(CUT)
    assert queue_manager.curdepth(REPLIES) == len(CUT)


def test_2053_all_of_its_segments_or_none(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager, "Q1", MAXMSGL=50, MAXDEPTH=5)
    handle = session.open("Q1", INPUT | OUTPUT)
    handle.put(b"x", PutRequest(V2))
    for options in (0, SYNCPOINT):
        with refused(rc.MQRC_Q_FULL):
            handle.put(LONG, PutRequest(CUTTING), options)
    session.commit()
    assert queue_manager.curdepth("Q1") == 1
    take(handle)
    handle.put(LONG, PutRequest(CUTTING))
    assert queue_manager.curdepth("Q1") == 5


def test_2024_all_of_its_segments_or_none(
    queue_manager: QueueManager, session: Session, handle: Handle
) -> None:
    assert queue_manager.mqsc("ALTER QMGR MAXUMSGS(5)").ok
    handle.put(b"x", PutRequest(V2), SYNCPOINT)
    with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
        handle.put(LONG, PutRequest(CUTTING), SYNCPOINT)
    session.commit()
    assert queue_manager.curdepth("Q1") == 1
    handle.put(LONG, PutRequest(CUTTING), SYNCPOINT)
    session.backout()
    assert queue_manager.curdepth("Q1") == 1


def test_2024_a_whole_message_is_got_with_all_its_segments_or_not(
    queue_manager: QueueManager, session: Session, handle: Handle
) -> None:
    handle.put(LONG, PutRequest(CUTTING))
    assert queue_manager.mqsc("ALTER QMGR MAXUMSGS(5)").ok
    handle.put(b"x", PutRequest(V2), SYNCPOINT)
    with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
        take(handle, WHOLE | c.MQGMO_SYNCPOINT)
    session.commit()
    assert take(handle, WHOLE | c.MQGMO_SYNCPOINT).message.body == LONG


def test_a_member_of_a_group_and_a_segment_are_cut_like_others(
    queue_manager: QueueManager, handle: Handle
) -> None:
    flags = ALLOWED | IN_GROUP
    handle.put(LONG, PutRequest(V2._replace(msg_flags=flags | SEGMENT)), ORDERED)
    last = handle.put(
        b"end", PutRequest(V2._replace(msg_flags=flags | LAST_SEGMENT)), ORDERED
    ).descriptor
    assert (last.msg_seq_number, last.offset) == (1, len(LONG))
    handle.put(LONG, PutRequest(V2._replace(msg_flags=ALLOWED | LAST)), ORDERED)
    both = [take(handle, WHOLE | LOGICAL | c.MQGMO_ALL_MSGS_AVAILABLE).message for _ in "12"]
    assert [m.body for m in both] == [LONG + b"end", LONG]
    assert [m.descriptor.msg_seq_number for m in both] == [1, 2]
    assert queue_manager.curdepth("Q1") == 0


def test_D9_what_is_delayed_is_not_cut(queue_manager: QueueManager, handle: Handle) -> None:
    with refused(rc.MQRC_MSG_TOO_BIG_FOR_Q):
        handle.put(LONG, PutRequest(CUTTING, delay_ms=1_000))
    assert queue_manager.counts("Q1").staged == 0


# Put one by one


def test_logical_order_counts_offsets(handle: Handle) -> None:
    places = []
    for body, flags in ((b"abc", SEGMENT), (b"de", SEGMENT), (b"f", LAST_SEGMENT), (b"x", 0)):
        placed = handle.put(body, PutRequest(V2._replace(msg_flags=flags)), ORDERED).descriptor
        places.append((placed.msg_seq_number, placed.offset, bool(placed.group_id)))
    assert places == [(1, 0, True), (1, 3, True), (1, 5, True), (1, 0, False)]


@pytest.mark.parametrize("flags", [0, IN_GROUP | SEGMENT, LAST])
def test_2242_another_message_within_one(
    queue_manager: QueueManager, handle: Handle, flags: int
) -> None:
    first = V2._replace(msg_flags=SEGMENT)
    handle.put(b"abc", PutRequest(first), ORDERED)
    with refused(rc.MQRC_INCOMPLETE_MSG):
        handle.put(b"x", PutRequest(V2._replace(msg_flags=flags)), ORDERED)
    assert queue_manager.curdepth("Q1") == 1
    assert handle.put(b"x", PutRequest(V2)).warning == rc.MQRC_INCOMPLETE_MSG


def test_2242_is_told_before_2241(handle: Handle) -> None:
    handle.put(b"abc", PutRequest(V2._replace(msg_flags=IN_GROUP | SEGMENT)), ORDERED)
    with refused(rc.MQRC_INCOMPLETE_MSG):
        handle.put(b"x", PutRequest(V2), ORDERED)
    assert handle.close() == rc.MQRC_INCOMPLETE_MSG


def test_2253_a_segment_without_data(queue_manager: QueueManager, handle: Handle) -> None:
    with refused(rc.MQRC_SEGMENT_LENGTH_ZERO):
        segment(handle, b"", 0)
    header = RFH2.pack({"StrucLength": 36})
    with refused(rc.MQRC_SEGMENT_LENGTH_ZERO):
        descriptor = V2._replace(msg_flags=SEGMENT, format="MQHRF2")
        handle.put(header, PutRequest(descriptor))
    assert queue_manager.curdepth("Q1") == 0
    segment(handle, b"a", 0)
    segment(handle, b"", 1, is_last=True)
    assert take(handle, WHOLE).message.body == b"a"


@pytest.mark.parametrize(
    ("offset", "is_right"), [(-1, False), (0, True), (999_999_998, True), (999_999_999, False)]
)
def test_2251_a_segment_ends_at_999_999_999(handle: Handle, offset: int, is_right: bool) -> None:
    if is_right:
        segment(handle, b"x", offset)
    else:
        with refused(rc.MQRC_OFFSET_ERROR):
            segment(handle, b"x", offset)


@pytest.mark.parametrize(
    ("is_last", "body", "original", "is_right"),
    [
        (False, b"xx", 1, False),
        (False, b"xx", 2, True),
        (False, b"xx", -1, False),
        (True, b"", 0, True),
        (True, b"", -1, False),
    ],
)
def test_2252_a_report_on_a_segment_says_how_long_that_was(
    handle: Handle, is_last: bool, body: bytes, original: int, is_right: bool
) -> None:
    more = {"msg_type": c.MQMT_REPORT, "original_length": original}
    if is_right:
        segment(handle, body, 0, is_last=is_last, **more)
    else:
        with refused(rc.MQRC_ORIGINAL_LENGTH_ERROR):
            segment(handle, body, 0, is_last=is_last, **more)


# Got


def test_complete_msg_puts_the_segments_together(
    queue_manager: QueueManager, handle: Handle
) -> None:
    abc(handle)
    message = take(handle, WHOLE).message
    assert message.body == b"abc"
    assert message.descriptor.msg_flags == SEGMENT | LAST_SEGMENT
    assert (message.descriptor.offset, message.descriptor.group_id) == (0, G)
    assert queue_manager.curdepth("Q1") == 0


def test_complete_msg_waits_until_nothing_is_missing(
    queue_manager: QueueManager, handle: Handle, new_session: NewSession
) -> None:
    segment(handle, b"c", 2, is_last=True)
    segment(handle, b"a", 0)
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, WHOLE)
    options = WHOLE | c.MQGMO_WAIT
    waiter = waiting(queue_manager, "Q1", lambda: take(handle, options, wait_ms=-1))
    with new_session(queue_manager) as session:
        segment(session.open("Q1", OUTPUT), b"b", 1)
    result = waiter.finish()
    assert isinstance(result, GetResult)
    assert result.message.body == b"abc"


def test_complete_msg_leaves_what_is_no_segment_as_it_is(handle: Handle) -> None:
    handle.put(b"x", PutRequest(V2))
    message = take(handle, WHOLE).message
    assert (message.body, message.descriptor.msg_flags) == (b"x", 0)


def test_segments_are_got_one_by_one_in_logical_order(handle: Handle) -> None:
    abc(handle)
    assert [take(handle, LOGICAL).message.body for _ in "abc"] == [b"a", b"b", b"c"]


def test_segments_are_got_as_they_lie_without_it(handle: Handle) -> None:
    abc(handle)
    assert [take(handle).message.body for _ in "abc"] == [b"c", b"a", b"b"]


def test_all_segments_available_keeps_parts_of_a_message_back(handle: Handle) -> None:
    segment(handle, b"a", 0)
    segment(handle, b"c", 2, is_last=True)
    for options in (ALL_SEGMENTS, ALL_SEGMENTS | LOGICAL):
        with refused(rc.MQRC_NO_MSG_AVAILABLE):
            take(handle, options)
    segment(handle, b"b", 1)
    options = ALL_SEGMENTS | LOGICAL
    assert [take(handle, options).message.body for _ in "abc"] == [b"a", b"b", b"c"]


def test_a_message_begun_in_segments_goes_on_in_segments(handle: Handle) -> None:
    abc(handle)
    assert take(handle, LOGICAL).message.body == b"a"
    assert take(handle, LOGICAL | WHOLE).message.body == b"b"
    assert take(handle).warning == rc.MQRC_INCOMPLETE_MSG


def test_G5_a_buffer_too_short_for_the_whole(queue_manager: QueueManager, handle: Handle) -> None:
    abc(handle)
    failed = take(handle, WHOLE, max_length=2)
    assert (failed.warning, failed.data_length) == (rc.MQRC_TRUNCATED_MSG_FAILED, 3)
    assert queue_manager.curdepth("Q1") == 3
    cut = take(handle, WHOLE | c.MQGMO_ACCEPT_TRUNCATED_MSG, max_length=2)
    assert (cut.warning, cut.message.body) == (rc.MQRC_TRUNCATED_MSG_ACCEPTED, b"ab")
    assert queue_manager.curdepth("Q1") == 0


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("coded_char_set_id", 500, rc.MQRC_INCONSISTENT_CCSIDS),
        ("encoding", c.MQENC_NATIVE ^ 3, rc.MQRC_INCONSISTENT_ENCODINGS),
    ],
)
def test_2243_2244_only_the_first_segments_alike_are_put_together(
    queue_manager: QueueManager, handle: Handle, field: str, value: int, reason: int
) -> None:
    for offset, letter in enumerate((b"a", b"b", b"c")):
        more = {field: value} if letter == b"c" else {}
        segment(handle, letter, offset, is_last=letter == b"c", **more)
    result = take(handle, WHOLE | LOGICAL)
    assert (result.message.body, result.warning) == (b"ab", reason)
    assert queue_manager.curdepth("Q1") == 1
    rest = take(handle, LOGICAL)
    assert (rest.message.body, rest.warning) == (b"c", rc.MQRC_NONE)


def test_browse_of_a_whole_message_and_the_cursor_on_it(
    queue_manager: QueueManager, handle: Handle
) -> None:
    handle.put(b"x", PutRequest(V2))
    abc(handle)
    seen = [take(handle, WHOLE | c.MQGMO_BROWSE_NEXT).message.body for _ in "12"]
    assert seen == [b"x", b"abc"]
    again = take(handle, WHOLE | c.MQGMO_BROWSE_MSG_UNDER_CURSOR)
    assert again.message.body == b"abc"
    assert take(handle, WHOLE | c.MQGMO_MSG_UNDER_CURSOR).message.body == b"abc"
    assert queue_manager.curdepth("Q1") == 1


def test_2246_the_cursor_stands_on_a_later_segment(handle: Handle) -> None:
    abc(handle)
    assert take(handle, c.MQGMO_BROWSE_FIRST).message.body == b"c"
    with refused(rc.MQRC_INVALID_MSG_UNDER_CURSOR):
        take(handle, WHOLE | c.MQGMO_MSG_UNDER_CURSOR)


@pytest.mark.parametrize("taken", [0, c.MQGMO_SYNCPOINT])
def test_2034_the_later_segment_at_the_cursor_is_gone(
    queue_manager: QueueManager, handle: Handle, taken: int, new_session: NewSession
) -> None:
    """That it was no first one says nothing any more."""
    abc(handle)
    assert take(handle, c.MQGMO_BROWSE_FIRST).message.body == b"c"
    with new_session(queue_manager) as session, refused(rc.MQRC_NO_MSG_UNDER_CURSOR):
        assert take(session.open("Q1", INPUT), taken).message.body == b"c"
        take(handle, WHOLE | c.MQGMO_MSG_UNDER_CURSOR)


def test_2034_the_message_at_the_cursor_is_not_whole(handle: Handle) -> None:
    segment(handle, b"a", 0)
    take(handle, c.MQGMO_BROWSE_FIRST)
    for option in (c.MQGMO_MSG_UNDER_CURSOR, c.MQGMO_BROWSE_MSG_UNDER_CURSOR):
        with refused(rc.MQRC_NO_MSG_UNDER_CURSOR):
            take(handle, WHOLE | option)


def test_G8_backout_gives_all_segments_back(
    queue_manager: QueueManager, session: Session, handle: Handle
) -> None:
    abc(handle)
    for count in range(2):
        message = take(handle, WHOLE | c.MQGMO_SYNCPOINT).message
        assert (message.body, message.backout_count) == (b"abc", count)
        assert queue_manager.curdepth("Q1") == 0
        session.backout()
    assert queue_manager.curdepth("Q1") == 3


@pytest.mark.parametrize("first_persistence", [0, 1])
@pytest.mark.parametrize("options", [0, c.MQGMO_SYNCPOINT, c.MQGMO_SYNCPOINT_IF_PERSISTENT])
def test_segments_of_either_persistence_are_got_as_one_message(
    queue_manager: QueueManager,
    session: Session,
    handle: Handle,
    first_persistence: int,
    options: int,
) -> None:
    """Put out of logical order they may differ; with one persistent all of it is persistent."""
    segment(handle, b"a", 0, persistence=first_persistence)
    segment(handle, b"b", 1, persistence=1 - first_persistence, is_last=True)
    if options:
        assert take(handle, WHOLE | options).message.body == b"ab"
        session.backout()
        assert queue_manager.curdepth("Q1") == 2
    assert take(handle, WHOLE | options).message.body == b"ab"
    session.commit()
    found = queue_manager.verify()
    assert found.ok, found.problems
    assert queue_manager.engine.registry.queue("Q1").present == [0, 0]
    assert ends(queue_manager, "Q1") == [End("got", 0)] * 2


def test_P9_own_uncommitted_segments_complete_a_message(
    queue_manager: QueueManager, session: Session, handle: Handle
) -> None:
    segment(handle, b"a", 0)
    segment(handle, b"b", 1, is_last=True, options=SYNCPOINT)
    assert take(handle, WHOLE | c.MQGMO_SYNCPOINT).message.body == b"ab"
    session.backout()
    assert queue_manager.curdepth("Q1") == 1


# Lifetimes


def test_a_whole_message_has_the_life_of_its_shortest_segment(
    clock: VirtualClock, handle: Handle
) -> None:
    abc(handle, a=5_000, b=1_000)
    clock.advance(400)
    assert take(handle, WHOLE).message.remaining_ms == 600


@pytest.mark.parametrize("at_ms", [999, 1_000, 1_001])
def test_E8_an_expired_segment_is_discarded_by_the_get_of_the_whole(
    queue_manager: QueueManager, clock: VirtualClock, handle: Handle, at_ms: int
) -> None:
    abc(handle, b=1_000)
    clock.advance(at_ms)
    if at_ms < 1_000:
        assert take(handle, WHOLE).message.body == b"abc"
        return
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, WHOLE)
    assert queue_manager.curdepth("Q1") == 2
    assert ends(queue_manager, "Q1") == [End("expired", at_ms)]
    assert [take(handle).message.body for _ in "ca"] == [b"c", b"a"]


def test_E11_an_expired_segment_that_would_not_be_returned_stays(
    queue_manager: QueueManager, clock: VirtualClock, handle: Handle
) -> None:
    abc(handle, b=1_000)
    clock.advance(1_000)
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, ALL_SEGMENTS | LOGICAL)
    assert queue_manager.curdepth("Q1") == 3


# Reports


def test_a_segment_each_has_its_report_with_its_length(
    queue_manager: QueueManager, session: Session, handle: Handle
) -> None:
    local(queue_manager, REPLIES)
    handle.put(LONG, PutRequest(CUTTING._replace(report=c.MQRO_COA, reply_to_q=REPLIES)))
    replies = session.open(REPLIES, INPUT | BROWSE)
    reports = [take(replies, c.MQGMO_BROWSE_NEXT).message.descriptor for _ in CUT]
    assert [(d.offset, d.original_length) for d in reports] == list(
        zip((0, 48, 96, 144, 192), CUT, strict=True)
    )
    whole = take(replies, WHOLE).message
    assert (whole.body, whole.descriptor.original_length) == (b"", len(LONG))
    assert queue_manager.curdepth(REPLIES) == 0


def test_a_whole_message_has_one_confirmation_of_delivery(
    queue_manager: QueueManager, session: Session, handle: Handle
) -> None:
    local(queue_manager, REPLIES)
    asked = c.MQRO_COD_WITH_FULL_DATA
    handle.put(LONG, PutRequest(CUTTING._replace(report=asked, reply_to_q=REPLIES)))
    take(handle, WHOLE)
    assert queue_manager.curdepth(REPLIES) == 1
    report = session.get(REPLIES)
    assert report is not None
    assert (report.body, report.descriptor.original_length) == (LONG, len(LONG))
    assert report.descriptor.msg_flags & (SEGMENT | LAST_SEGMENT) == SEGMENT | LAST_SEGMENT


def test_reports_of_two_kinds_on_one_message_are_two_messages(
    queue_manager: QueueManager, session: Session, handle: Handle
) -> None:
    local(queue_manager, REPLIES)
    asked = c.MQRO_COA_WITH_FULL_DATA | c.MQRO_COD_WITH_FULL_DATA
    handle.put(LONG, PutRequest(CUTTING._replace(report=asked, reply_to_q=REPLIES)))
    for _ in CUT:
        take(handle)
    replies = session.open(REPLIES, INPUT)
    whole = [take(replies, WHOLE).message for _ in "12"]
    assert [m.descriptor.feedback for m in whole] == [c.MQFB_COA, c.MQFB_COD]
    assert [m.body for m in whole] == [LONG, LONG]
    assert queue_manager.curdepth(REPLIES) == 0


def test_reports_with_data_are_put_together_at_their_offsets(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager, REPLIES)
    local(queue_manager, "Q1", MAXMSGL=160)
    handle = session.open("Q1", INPUT | OUTPUT)
    asked = CUTTING._replace(report=c.MQRO_COA_WITH_DATA, reply_to_q=REPLIES)
    handle.put(b"a" * 160 + b"b" * 20, PutRequest(asked))
    whole = take(session.open(REPLIES, INPUT), WHOLE).message
    assert whole.body == b"a" * 100 + bytes(60) + b"b" * 20


# To another queue manager


def test_on_a_transmission_queue_the_headers_take_their_part(
    queue_manager: QueueManager, session: Session
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(FAR) USAGE(XMITQ) MAXMSGL(600)").ok
    assert queue_manager.mqsc("DEFINE QREMOTE(Q9) RNAME(Q9) RQMNAME(FAR)").ok
    handle = session.open("Q9", OUTPUT)
    handle.put(bytes(250), PutRequest(CUTTING))
    assert queue_manager.curdepth("FAR") == 3
    sizes = [len(message.body) for message in session.browse("FAR")]
    assert max(sizes) <= 600
    assert sum(size - 500 for size in sizes) == 250


@pytest.mark.in_process
@pytest.mark.parametrize("flags", [ALLOWED, SEGMENT, LAST_SEGMENT])
def test_2443_properties_of_MQ_itself_are_not_cut(
    queue_manager: QueueManager, handle: Handle, flags: int
) -> None:
    def sent(folder: str, flags: int) -> PutResult:
        data = pack_header(pack_folder(folder), "") + b"data"
        descriptor = V2._replace(format="MQHRF2", encoding=c.MQENC_NORMAL, msg_flags=flags)
        return handle.put(data, PutRequest(descriptor))

    alter(queue_manager, "Q1", MAXMSGL=500)
    with refused(rc.MQRC_SEGMENTATION_NOT_ALLOWED):
        sent("<mq><a>1</a></mq>", flags)
    assert handle.queue.depth == 0
    sent("<mq_usr><a>1</a></mq_usr>", flags)
    sent("<mq><a>1</a></mq>", 0)
    assert handle.queue.depth == 2


@pytest.mark.in_process
def test_match_by_offset_and_number(handle: Handle) -> None:
    abc(handle)
    assert take(handle, match=Match(group_id=G, offset=1)).message.body == b"b"
    assert take(handle, match=Match(offset=2)).message.body == b"c"
    assert each(handle, 0) == [(0, 1)]


def test_a_version_1_descriptor_says_nothing_of_groups(handle: Handle) -> None:
    handle.put(b"x", PutRequest(Descriptor()))
    descriptor = take(handle, LOGICAL | WHOLE).message.descriptor
    assert (descriptor.version, descriptor.group_id, descriptor.msg_flags) == (1, b"", 0)
