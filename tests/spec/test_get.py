"""MQGET and units of work, rules G1, G2, G5, G8-G10: order, match, syncpoint."""

import contextlib
import threading
from functools import partial

import pytest

from mayfly import QueueManager
from mayfly.engine import Match, Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQMDS_FIFO, MQMDS_PRIORITY
from mayfly.verbs.facts import Verification
from tests.over import NewSession
from tests.spec.scene import (
    DEAD,
    INPUT,
    V2,
    ZERO_ID,
    Running,
    alter,
    alter_manager,
    bodies,
    body,
    lives,
    local,
    put_md,
    refused,
    take,
)

WAIT = c.MQGMO_WAIT


def test_G1_priority_order_then_fifo(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        for name, priority in ((b"1", 1), (b"9a", 9), (b"0", 0), (b"9b", 9), (b"5", 5)):
            session.put("Q1", name, priority=priority, persistent=persistent)
        assert [m.body for m in session.browse("Q1")] == [b"9a", b"9b", b"5", b"1", b"0"]
        assert bodies(session, "Q1") == [b"9a", b"9b", b"5", b"1", b"0"]


def test_G1_fifo_order_by_put_not_by_commit(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    """Persistent and non-persistent messages stand in one order."""
    local(any_manager, MSGDLVSQ=MQMDS_FIFO)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        unit.put("Q1", b"1", priority=1, persistent=persistent)
        session.put("Q1", b"2", priority=9, persistent=not persistent)
        session.put("Q1", b"3", priority=5, persistent=persistent)
        assert body(session.get("Q1")) == b"2"
        unit.commit()
        assert bodies(session, "Q1") == [b"1", b"3"]


def test_G1_change_of_the_sequence_acts_on_later_puts(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager, MSGDLVSQ=MQMDS_FIFO, DEFPRTY=4)
    session.put("Q1", b"fifo 1", priority=1)
    session.put("Q1", b"fifo 9", priority=9)
    alter(queue_manager, "Q1", MSGDLVSQ=MQMDS_PRIORITY)
    session.put("Q1", b"5", priority=5)
    session.put("Q1", b"3", priority=3)
    assert bodies(session, "Q1") == [b"5", b"fifo 1", b"fifo 9", b"3"]


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        (Match(), b"1"),
        (Match(msg_id=b"M2".ljust(24, b"\0")), b"2"),
        (Match(correl_id=b"C2".ljust(24, b"\0")), b"2"),
        (Match(msg_id=b"M3".ljust(24, b"\0"), correl_id=b"C2".ljust(24, b"\0")), b"3"),
        (Match(msg_id=b"M1".ljust(24, b"\0"), correl_id=b"C2".ljust(24, b"\0")), None),
        (Match(group_id=b"G".ljust(24, b"\0")), b"2"),
        (Match(group_id=b"G".ljust(24, b"\0"), msg_seq_number=2), b"3"),
        (Match(offset=7), b"3"),
        (Match(msg_seq_number=9), None),
    ],
)
def test_G2_match(
    queue_manager: QueueManager, session: Session, match: Match, expected: bytes | None
) -> None:
    local(queue_manager)
    flags = c.MQMF_MSG_IN_GROUP | c.MQMF_SEGMENT
    group = V2._replace(group_id=b"G", msg_flags=flags)
    put_md(session, "Q1", b"1", V2, msg_id=b"M1".ljust(24, b"\0"))
    for name, descriptor in ((b"2", group), (b"3", group._replace(msg_seq_number=2, offset=7))):
        put_md(
            session,
            "Q1",
            name,
            descriptor,
            msg_id=(b"M" + name).ljust(24, b"\0"),
            correl_id=b"C2".ljust(24, b"\0"),
        )
    handle = session.open("Q1", INPUT)
    if expected is None:
        with refused(rc.MQRC_NO_MSG_AVAILABLE):
            take(handle, match=match)
    else:
        assert take(handle, match=match).message.body == expected


def test_G2_all_zero_id_means_any(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager)
    session.put("Q1", b"x", correl_id=b"C")
    assert body(session.get("Q1", msg_id=ZERO_ID, correl_id=ZERO_ID)) == b"x"


def test_G2_first_of_several_matching_in_queue_order(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        for name, priority in ((b"low", 1), (b"other", 9), (b"high", 5)):
            correl_id = b"D" if name == b"other" else b"C"
            session.put("Q1", name, priority=priority, correl_id=correl_id, persistent=persistent)
        assert body(session.get("Q1", correl_id=b"C")) == b"high"
        assert body(session.get("Q1", correl_id=b"C")) == b"low"
        assert session.get("Q1", correl_id=b"C") is None
        assert body(session.get("Q1")) == b"other"


@pytest.mark.parametrize(
    ("room_bytes", "accept", "warning", "stays"),
    [
        (3, False, rc.MQRC_TRUNCATED_MSG_FAILED, True),
        (3, True, rc.MQRC_TRUNCATED_MSG_ACCEPTED, False),
        (0, False, rc.MQRC_TRUNCATED_MSG_FAILED, True),
        (4, False, 0, False),
        (None, False, 0, False),
    ],
)
def test_G5_buffer_that_is_too_short(
    any_manager: QueueManager,
    persistent: bool,
    room_bytes: int | None,
    accept: bool,
    warning: int,
    stays: bool,
    new_session: NewSession,
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        session.put("Q1", b"data", format_name="MQSTR", persistent=persistent)
        handle = session.open("Q1", INPUT)
        result = take(handle, c.MQGMO_ACCEPT_TRUNCATED_MSG * accept, max_length=room_bytes)
        assert (result.warning, result.data_length) == (warning, 4)
        assert result.message.body == b"data"[:room_bytes]
        assert result.message.descriptor.format == "MQSTR"
        assert any_manager.curdepth("Q1") == int(stays)
        if stays:
            again = take(handle).message
            assert (again.body, again.backout_count) == (b"data", 0)


def test_G8_backout_restores_place_and_counts(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    """Depth falls at the get, rises at the backout; the message comes back where it was."""
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        for name in (b"1", b"2", b"3"):
            session.put("Q1", name, persistent=persistent)
        assert bodies(unit, "Q1") == [b"1", b"2", b"3"]
        assert any_manager.curdepth("Q1") == 0
        assert any_manager.counts("Q1").locked == 3
        assert session.get("Q1") is None
        unit.backout()
        assert any_manager.curdepth("Q1") == 3
        assert any_manager.counts("Q1").locked == 0
        assert [(m.body, m.backout_count) for m in session.browse("Q1")] == [
            (b"1", 1),
            (b"2", 1),
            (b"3", 1),
        ]
        assert body(unit.get("Q1")) == b"1"
        unit.commit()
        assert any_manager.curdepth("Q1") == 2
        bodies(session, "Q1")
    assert [r.backout_count for r in lives(any_manager, "Q1")] == [1, 1, 1]


@pytest.mark.parametrize("option", [c.MQGMO_SYNCPOINT, c.MQGMO_NO_SYNCPOINT, c.MQGMO_NONE])
def test_G8_syncpoint_is_an_option_of_the_call(
    queue_manager: QueueManager, session: Session, option: int
) -> None:
    local(queue_manager)
    session.put("Q1", b"x")
    take(session.open("Q1", INPUT), option)
    session.backout()
    assert queue_manager.curdepth("Q1") == int(option == c.MQGMO_SYNCPOINT)


def test_G8_syncpoint_if_persistent_decides_by_message(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        session.put("Q1", b"x", persistent=persistent)
        take(session.open("Q1", INPUT), c.MQGMO_SYNCPOINT_IF_PERSISTENT)
        session.backout()
        assert any_manager.curdepth("Q1") == int(persistent)


def test_G9_unit_of_work_of_both_kinds_is_one(
    any_manager: QueueManager, new_session: NewSession
) -> None:
    local(any_manager)
    local(any_manager, "Q2")
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        session.put("Q1", b"in", persistent=True)
        for is_kept in (False, True):
            assert body(unit.get("Q1")) == b"in"
            unit.put("Q2", b"volatile")
            unit.put("Q2", b"persistent", persistent=True)
            assert session.get("Q2") is None
            if is_kept:
                unit.commit()
            else:
                unit.backout()
        assert bodies(session, "Q2") == [b"volatile", b"persistent"]
        assert any_manager.curdepth("Q1") == 0


def test_G9_disconnect_commits_and_abnormal_end_backs_out(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    local(queue_manager)
    with new_session(queue_manager, transacted=True) as unit:
        unit.put("Q1", b"kept")
    with (
        contextlib.suppress(ZeroDivisionError),
        new_session(queue_manager, transacted=True) as unit,
    ):
        unit.put("Q1", b"lost")
        raise ZeroDivisionError
    with new_session(queue_manager) as session:
        assert bodies(session, "Q1") == [b"kept"]


def test_G9_more_operations_than_allowed(queue_manager: QueueManager, unit: Session) -> None:
    """The last one allowed is the MAXUMSGS-th; what is in the unit stays good."""
    local(queue_manager)
    alter_manager(queue_manager, MAXUMSGS=3)
    unit.put("Q1", b"1")
    unit.put("Q1", b"2")
    assert body(unit.get("Q1")) == b"1"
    with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
        unit.put("Q1", b"3")
    with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
        unit.get("Q1")
    assert queue_manager.curdepth("Q1") == 1
    unit.commit()
    assert bodies(unit, "Q1") == [b"2"]


def test_G10_backout_count_grows_and_nothing_is_moved_at_the_threshold(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager, BOTHRESH=1, BOQNAME=DEAD)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        session.put("Q1", b"x", persistent=persistent)
        for count in range(4):
            message = unit.get("Q1")
            assert message is not None
            assert message.backout_count == count
            unit.backout()
        assert (any_manager.curdepth("Q1"), any_manager.curdepth(DEAD)) == (1, 0)
        found = session.get("Q1")
        assert found is not None
        assert found.backout_count == 4
    assert [r.backout_count for r in lives(any_manager, "Q1")] == [4]


#: Of each of four sessions; a verification reads the whole log of the folder.
LIVES_A_VERIFICATION = 6


def test_books_balance_at_every_moment_of_busy_threads(
    any_manager: QueueManager,
    new_session: NewSession,
) -> None:
    """Verified while four sessions put, get, commit and back out; at the end nothing is missing."""
    local(any_manager)
    stop, put_counts = threading.Event(), [0] * 4
    # Lives that each session may begin: else the books outgrow whoever verifies them.
    room = [threading.Semaphore(0) for _ in range(4)]

    def work(number: int) -> None:
        with new_session(any_manager, transacted=number % 2 == 0) as session:
            while room[number].acquire() and not stop.is_set():
                session.put("Q1", b"x", persistent=number > 1, time_to_live_ms=1_000)
                put_counts[number] += 1
                session.get("Q1")
                if number % 2 == 0:
                    session.commit()

    workers = [Running(partial(work, number)) for number in range(4)]
    found: list[Verification] = []
    while len(found) < 12 or not all(put_counts):
        assert all(worker.is_under_way for worker in workers)
        for each in room:
            each.release(LIVES_A_VERIFICATION)
        found.append(any_manager.verify())
    stop.set()
    for each in room:
        each.release()
    for worker in workers:
        worker.finish()
    assert [report.problems for report in found if not report.ok] == []
    assert [worker.error for worker in workers] == [None] * 4
    with new_session(any_manager) as session:
        bodies(session, "Q1")
    any_manager.ledger.last_position()
    totals = any_manager.engine.store.ledger_writer.totals[
        any_manager.engine.registry.queue("Q1").number
    ]
    assert (totals.puts, totals.present) == (sum(put_counts), 0)
