"""Browsing through pymqi: cursor, reading again, taking under the cursor, lock and unlock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC
from mayfly.testing import VirtualClock

Fails = Callable[..., pymqi.MQMIError]
FIRST, NEXT = CMQC.MQGMO_BROWSE_FIRST, CMQC.MQGMO_BROWSE_NEXT
AGAIN, TAKE = CMQC.MQGMO_BROWSE_MSG_UNDER_CURSOR, CMQC.MQGMO_MSG_UNDER_CURSOR
LOCK, UNLOCK = CMQC.MQGMO_LOCK, CMQC.MQGMO_UNLOCK
NO_MSG, NO_CURSOR = CMQC.MQRC_NO_MSG_AVAILABLE, CMQC.MQRC_NO_MSG_UNDER_CURSOR


def read(queue: pymqi.Queue, options: int, **fields: object) -> bytes:
    return queue.get(None, pymqi.MD(**fields), pymqi.GMO(Options=options))


def browser_of_q1() -> pymqi.Queue:
    options = CMQC.MQOO_BROWSE | CMQC.MQOO_INPUT_SHARED
    return pymqi.Queue(pymqi.connect("QM1"), "Q1", options)


def test_B01_next_begins_with_the_first_and_leaves_the_messages(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    for body in (b"1", b"2"):
        queue.put(body)
    assert [read(queue, NEXT), read(queue, NEXT)] == [b"1", b"2"]
    assert fails(read, queue, NEXT).reason == NO_MSG
    assert read(queue, FIRST) == b"1"
    assert queue_manager.curdepth("Q1") == 2


def test_B02_browse_matches_and_skips_what_others_hide(queue: pymqi.Queue) -> None:
    for body, correl_id in ((b"1", b"A"), (b"2", b"B"), (b"3", b"A")):
        queue.put(body, pymqi.MD(CorrelId=correl_id))
    queue.put(b"4", pymqi.MD(CorrelId=b"A"), pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    other = browser_of_q1()
    assert read(other, NEXT, CorrelId=b"A") == b"1"
    assert read(other, NEXT, CorrelId=b"A") == b"3"
    with pytest.raises(pymqi.MQMIError, match="2033"):
        read(other, NEXT, CorrelId=b"A")
    queue.get(None, pymqi.MD(), pymqi.GMO(Options=CMQC.MQGMO_SYNCPOINT))
    assert read(other, FIRST) == b"2"


def test_B03_arrival_ahead_of_the_cursor_is_missed_until_browse_first(
    queue: pymqi.Queue, fails: Fails
) -> None:
    queue.put(b"low", pymqi.MD(Priority=1))
    assert read(queue, NEXT) == b"low"
    queue.put(b"high", pymqi.MD(Priority=9))
    assert fails(read, queue, NEXT).reason == NO_MSG
    assert read(queue, FIRST) == b"high"


def test_B04_message_under_the_cursor_is_read_again_and_taken(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    queue.put(b"1")
    queue.put(b"2")
    assert fails(read, queue, AGAIN).reason == NO_CURSOR
    assert fails(read, queue, TAKE).reason == NO_CURSOR
    read(queue, NEXT)
    read(queue, NEXT)
    assert read(queue, AGAIN) == b"2"
    assert read(queue, TAKE, MsgId=b"another") == b"2"
    assert queue_manager.curdepth("Q1") == 1
    assert fails(read, queue, TAKE).reason == NO_CURSOR
    assert read(queue, FIRST) == b"1"


def test_B04_message_taken_by_another_is_no_longer_under_the_cursor(
    queue: pymqi.Queue, fails: Fails
) -> None:
    queue.put(b"1")
    read(queue, NEXT)
    assert browser_of_q1().get() == b"1"
    assert fails(read, queue, AGAIN).reason == NO_CURSOR


def test_B05_lock_hides_the_message_from_others_until_unlocked(
    queue: pymqi.Queue, fails: Fails
) -> None:
    queue.put(b"1")
    queue.put(b"2")
    other = browser_of_q1()
    assert read(queue, FIRST | LOCK) == b"1"
    assert read(other, FIRST) == b"2"
    assert read(queue, UNLOCK) == b""
    assert read(other, FIRST) == b"1"


@pytest.mark.parametrize("ended_by", ["next", "failing next", "close", "disconnect"])
def test_B05_lock_ends_with_the_next_browse_close_and_disconnect(
    queue: pymqi.Queue, fails: Fails, ended_by: str
) -> None:
    queue.put(b"1")
    connection = pymqi.connect("QM1")
    holder = pymqi.Queue(connection, "Q1", CMQC.MQOO_BROWSE)
    assert read(holder, NEXT | LOCK) == b"1"
    assert fails(queue.get).reason == NO_MSG
    if ended_by == "next":
        queue.put(b"2")
        assert read(holder, NEXT) == b"2"
    elif ended_by == "failing next":
        assert fails(read, holder, NEXT | LOCK).reason == NO_MSG
    elif ended_by == "close":
        holder.close()
    else:
        connection.disconnect()
    assert queue.get() == b"1"


def test_B05_lock_is_no_part_of_a_unit_of_work(
    connection: pymqi.QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    queue.put(b"1")
    read(queue, FIRST | LOCK)
    connection.commit()
    connection.backout()
    assert fails(browser_of_q1().get).reason == NO_MSG
    assert read(queue, TAKE) == b"1"


def test_B06_unlock_without_a_lock_is_a_warning_and_touches_nothing(
    queue: pymqi.Queue, fails: Fails
) -> None:
    queue.put(b"1")
    md, gmo = pymqi.MD(), pymqi.GMO(Options=UNLOCK)
    before = md.get(), gmo.get()
    error = fails(queue.get, None, md, gmo)
    assert (error.comp, error.reason) == (CMQC.MQCC_WARNING, CMQC.MQRC_NO_MSG_LOCKED)
    read(queue, FIRST | LOCK)
    assert queue.get(None, md, gmo) == b""
    assert (md.get(), gmo.get()) == before


CONFLICTS = [
    FIRST | NEXT,
    FIRST | AGAIN,
    NEXT | AGAIN,
    FIRST | CMQC.MQGMO_SYNCPOINT,
    NEXT | CMQC.MQGMO_SYNCPOINT_IF_PERSISTENT,
    AGAIN | CMQC.MQGMO_MARK_SKIP_BACKOUT,
    FIRST | UNLOCK,
    FIRST | TAKE,
    LOCK,
    LOCK | TAKE,
    UNLOCK | CMQC.MQGMO_WAIT,
    UNLOCK | CMQC.MQGMO_SYNCPOINT,
    UNLOCK | LOCK,
    UNLOCK | CMQC.MQGMO_ACCEPT_TRUNCATED_MSG,
]


@pytest.mark.parametrize("options", CONFLICTS, ids=hex)
def test_B08_conflicting_options_are_refused(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails, options: int
) -> None:
    queue.put(b"1")
    read(queue, FIRST)
    error = fails(read, queue, options)
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, CMQC.MQRC_OPTIONS_ERROR)
    assert queue_manager.curdepth("Q1") == 1


@pytest.mark.parametrize("options", [FIRST, NEXT, AGAIN, TAKE, UNLOCK], ids=hex)
def test_C08_browsing_needs_the_queue_open_for_browse(
    connection: pymqi.QueueManager, fails: Fails, options: int
) -> None:
    queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_INPUT_SHARED)
    assert fails(read, queue, options).reason == CMQC.MQRC_NOT_OPEN_FOR_BROWSE


def test_G05_short_buffer_leaves_the_cursor_unless_accepted(
    queue: pymqi.Queue, fails: Fails
) -> None:
    queue.put(b"long")
    queue.put(b"2")
    browse = pymqi.GMO(Options=NEXT)
    error = fails(queue.get, 2, pymqi.MD(), browse)
    assert (error.reason, error.message) == (CMQC.MQRC_TRUNCATED_MSG_FAILED, b"lo")
    accepting = pymqi.GMO(Options=NEXT | CMQC.MQGMO_ACCEPT_TRUNCATED_MSG)
    error = fails(queue.get, 2, pymqi.MD(), accepting)
    assert (error.reason, error.message) == (CMQC.MQRC_TRUNCATED_MSG_ACCEPTED, b"lo")
    assert queue.get(2, pymqi.MD(), browse) == b"2"


def test_E16_lock_does_not_stop_the_expiry_clock(
    clock: VirtualClock, queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(REPLIES)")
    report = pymqi.MD(Expiry=10, Report=CMQC.MQRO_EXPIRATION, ReplyToQ=b"REPLIES")
    queue.put(b"1", report)
    read(queue, FIRST | LOCK)
    clock.advance(999)
    assert read(queue, AGAIN) == b"1"
    clock.advance(1)
    assert queue_manager.curdepth("Q1") == 1
    assert fails(read, queue, TAKE).reason == NO_CURSOR
    assert queue_manager.curdepth("Q1") == 0
    assert queue_manager.curdepth("REPLIES") == 1
