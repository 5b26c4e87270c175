"""What the delay processor does when it releases, rules D15, D20-D22: order, failures, retries."""

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.administration import QLOCAL
from mayfly.engine.delay.delay_processor import RETRY_MS
from mayfly.engine.objects import administration
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DLH
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.scene import (
    DEAD,
    REPLIES,
    STAGING,
    START_MS,
    V2,
    End,
    alter,
    alter_manager,
    bodies,
    body,
    ends,
    lives,
    local,
    put_md,
)

INHIBITED = c.MQQA_PUT_INHIBITED


def test_D21_order_is_delivery_time_then_put_order(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """Put at one moment or at several, what has the same delivery time keeps its put order."""
    local(any_manager)
    with new_session(any_manager) as session:
        for name, delay_ms in ((b"30", 30), (b"20a", 20), (b"10", 10), (b"20b", 20)):
            session.put("Q1", name, delay_ms=delay_ms, persistent=persistent)
        clock.advance(5)
        session.put("Q1", b"20c", delay_ms=15, persistent=persistent)
        clock.advance(100)
        assert bodies(session, "Q1") == [b"10", b"20a", b"20b", b"20c", b"30"]
    assert [r.ended_ms - START_MS for r in lives(any_manager, STAGING)] == [10, 20, 20, 20, 30]


def test_D21_both_sides_are_released_in_one_order(
    any_manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    local(any_manager)
    names = [b"%d" % n for n in range(8)]
    with new_session(any_manager) as session:
        for n, name in enumerate(names):
            session.put("Q1", name, delay_ms=10, persistent=bool(n % 2))
        clock.advance(10)
        assert bodies(session, "Q1") == names


def test_D21_priority_target_orders_by_priority_and_then_by_release(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        for name, delay_ms, priority in ((b"low", 10, 1), (b"b", 30, 5), (b"a", 20, 5)):
            session.put("Q1", name, delay_ms=delay_ms, priority=priority, persistent=persistent)
        clock.advance(30)
        session.put("Q1", b"now", priority=5, persistent=persistent)
        assert bodies(session, "Q1") == [b"a", b"b", b"now", b"low"]


def test_D21_more_than_a_batch_is_released_in_order_at_its_moment(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager, MAXDEPTH=5_000)
    names = [b"%d" % n for n in range(2_001)]
    for name in names:
        session.put("Q1", name, delay_ms=10)
    clock.advance(10)
    assert queue_manager.curdepth(STAGING) == 0
    assert bodies(session, "Q1") == names


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"PUT": INHIBITED}, rc.MQRC_PUT_INHIBITED),
        ({"MAXDEPTH": 0}, rc.MQRC_Q_FULL),
        ({"MAXMSGL": 1}, rc.MQRC_MSG_TOO_BIG_FOR_Q),
    ],
)
def test_D20_failure_goes_to_the_dead_letter_queue_with_its_reason(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    attributes: dict[str, int],
    reason: int,
    new_session: NewSession,
) -> None:
    local(any_manager)
    alter_manager(any_manager, DEADQ=DEAD)
    with new_session(any_manager) as session:
        sent = session.put("Q1", b"data", delay_ms=1_000, correl_id=b"C", persistent=persistent)
        alter(any_manager, "Q1", **attributes)
        clock.advance(1_000)
        dead = session.get(DEAD)
    assert dead is not None
    assert DLH.unpack(dead.body)["Reason"] == reason
    assert dead.body[172:] == b"data"
    assert (dead.msg_id, dead.correl_id) == (sent, b"C".ljust(24, b"\0"))
    assert dead.persistent == persistent
    assert ends(any_manager, STAGING) == [End("dead_lettered", 1_000, reason)]
    assert lives(any_manager, DEAD)[0].origin_id == lives(any_manager, STAGING)[0].msg_id
    assert any_manager.counts("Q1").staged == 0


@pytest.mark.in_process
def test_D15_D20_target_deleted_meanwhile(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    alter_manager(any_manager, DEADQ=DEAD)
    with new_session(any_manager) as session:
        session.put("Q1", b"data", delay_ms=1_000, persistent=persistent)
        administration.delete(any_manager.engine, QLOCAL, "Q1")
        clock.advance(1_000)
        dead = session.get(DEAD)
    assert dead is not None
    header = DLH.unpack(dead.body)
    assert (header["Reason"], header["DestQName"]) == (rc.MQRC_UNKNOWN_OBJECT_NAME, "Q1")


def test_D20_discard_option_drops_it(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    alter_manager(any_manager, DEADQ=DEAD)
    with new_session(any_manager) as session:
        session.put("Q1", b"data", delay_ms=1_000, report=c.MQRO_DISCARD_MSG, persistent=persistent)
        alter(any_manager, "Q1", PUT=INHIBITED)
        clock.advance(1_000)
        assert session.get(DEAD) is None
    assert ends(any_manager, STAGING) == [End("discarded", 1_000, rc.MQRC_PUT_INHIBITED)]


@pytest.mark.parametrize("dead_letter_queue", ["", "NOBODY", DEAD])
def test_D21_action_that_fails_keeps_it_on_staging_and_tries_again(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    dead_letter_queue: str,
    new_session: NewSession,
) -> None:
    """Without a dead-letter queue, with a missing one, with a full one."""
    local(any_manager)
    alter_manager(any_manager, DEADQ=dead_letter_queue)
    alter(any_manager, DEAD, MAXDEPTH=0)
    with new_session(any_manager) as session:
        session.put("Q1", b"first", delay_ms=1_000, persistent=persistent)
        session.put("Q1", b"second", delay_ms=2_000, persistent=persistent)
        alter(any_manager, "Q1", PUT=INHIBITED)
        clock.advance(5_000)
        assert any_manager.curdepth(STAGING) == 2
        assert ends(any_manager, STAGING) == []
        alter(any_manager, "Q1", PUT=c.MQQA_PUT_ALLOWED)
        clock.advance(1_000 + RETRY_MS - 5_000 - 1)
        assert any_manager.curdepth("Q1") == 0
        clock.advance(1)
        assert any_manager.curdepth("Q1") == 1
        clock.advance(1_000)
        assert bodies(session, "Q1") == [b"first", b"second"]
    assert ends(any_manager, STAGING) == [
        End("released", 1_000 + RETRY_MS),
        End("released", 2_000 + RETRY_MS),
    ]


def test_D21_one_that_is_stuck_does_not_hold_up_the_others(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    local(queue_manager, "Q2")
    session.put("Q1", b"stuck", delay_ms=1_000)
    session.put("Q2", b"free", delay_ms=1_000)
    session.put("Q2", b"later", delay_ms=2_000)
    alter(queue_manager, "Q1", PUT=INHIBITED)
    clock.advance(2_000)
    assert bodies(session, "Q2") == [b"free", b"later"]
    assert queue_manager.curdepth(STAGING) == 1


def test_D18_D21_expires_on_staging_while_it_is_tried_again(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """Late release: the deadline passes between two tries; the next try discards and reports."""
    local(any_manager)
    local(any_manager, REPLIES)
    with new_session(any_manager) as session:
        sent = session.put(
            "Q1",
            b"x",
            time_to_live_ms=2_000,
            delay_ms=1_000,
            report=c.MQRO_EXPIRATION,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        alter(any_manager, "Q1", PUT=INHIBITED)
        clock.advance(1_000)
        alter(any_manager, "Q1", PUT=c.MQQA_PUT_ALLOWED)
        clock.advance(RETRY_MS)
        report = session.get(REPLIES)
        assert session.get("Q1") is None
    assert report is not None
    assert report.correl_id == sent
    assert ends(any_manager, STAGING) == [End("expired", 1_000 + RETRY_MS)]


@pytest.mark.parametrize("option", [0, c.MQRO_DISCARD_MSG])
def test_D22_exception_report_after_the_action(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    option: int,
    new_session: NewSession,
) -> None:
    local(any_manager)
    local(any_manager, REPLIES)
    alter_manager(any_manager, DEADQ=DEAD)
    with new_session(any_manager) as session:
        sent = session.put(
            "Q1",
            b"data",
            delay_ms=1_000,
            report=c.MQRO_EXCEPTION_WITH_FULL_DATA | option,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        alter(any_manager, "Q1", PUT=INHIBITED)
        clock.advance(1_000)
        report = session.get(REPLIES)
        assert (session.get(DEAD) is None) == bool(option)
    assert report is not None
    assert report.descriptor.feedback == rc.MQRC_PUT_INHIBITED
    assert (report.correl_id, report.body) == (sent, b"data")


def test_D22_failed_release_sends_no_arrival_report(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    local(queue_manager, REPLIES)
    alter_manager(queue_manager, DEADQ=DEAD)
    session.put("Q1", b"x", delay_ms=1_000, report=c.MQRO_COA, reply_to_q=REPLIES)
    alter(queue_manager, "Q1", PUT=INHIBITED)
    clock.advance(1_000)
    assert queue_manager.curdepth(REPLIES) == 0
    assert queue_manager.curdepth(DEAD) == 1


def test_D22_report_that_reaches_no_queue_undoes_the_action_for_a_persistent_message(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """Persistent: everything stays as it was and is tried again; else only the report is lost."""
    local(any_manager)
    local(any_manager, REPLIES, MAXDEPTH=0)
    alter_manager(any_manager, DEADQ=DEAD)
    alter(any_manager, DEAD, MAXDEPTH=1)
    with new_session(any_manager) as session:
        session.put(
            "Q1",
            b"x",
            delay_ms=1_000,
            report=c.MQRO_EXCEPTION,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        alter(any_manager, "Q1", PUT=INHIBITED)
        clock.advance(1_000)
        assert any_manager.curdepth(STAGING) == int(persistent)
        assert any_manager.curdepth(DEAD) == int(not persistent)
        alter(any_manager, DEAD, MAXDEPTH=9)
        clock.advance(RETRY_MS)
        assert any_manager.curdepth(STAGING) == 0
        assert any_manager.curdepth(DEAD) == (2 if persistent else 1)
        assert any_manager.counts("Q1").staged == 0
        bodies(session, DEAD)


def test_Q1_dead_letter_describes_its_header_in_the_descriptor(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """Encoding and CCSID of the data move into the header; those of the MD are the header's."""
    local(queue_manager)
    alter_manager(queue_manager, DEADQ=DEAD)
    descriptor = V2._replace(encoding=273, coded_char_set_id=500, format="MQSTR")
    put_md(session, "Q1", b"data", descriptor, delay_ms=1_000)
    alter(queue_manager, "Q1", PUT=INHIBITED)
    clock.advance(1_000)
    dead = session.get(DEAD)
    assert dead is not None
    assert dead.descriptor.format == "MQDEAD"
    assert dead.descriptor.encoding == c.MQENC_NATIVE
    assert dead.descriptor.coded_char_set_id == c.MQCCSI_Q_MGR
    header = DLH.unpack(dead.body)
    assert header["Encoding"] == 273
    assert header["CodedCharSetId"] == 500
    assert header["Format"] == "MQSTR"
    assert header["DestQName"] == "Q1"
    assert header["DestQMgrName"] == "QM1"
    assert header["PutApplType"] == c.MQAT_QMGR
    assert header["PutApplName"] == "QM1"
    assert (header["PutDate"], header["PutTime"]) == ("20231114", "22132100")


def test_Q2_dead_letter_keeps_identity_ids_and_deadline(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    alter_manager(queue_manager, DEADQ=DEAD)
    sent = session.put("Q1", b"x", delay_ms=1_000, time_to_live_ms=9_000, priority=6)
    alter(queue_manager, "Q1", PUT=INHIBITED)
    clock.advance(2_000)
    dead = session.get(DEAD)
    assert dead is not None
    assert dead.descriptor.user_identifier == "anna"
    assert (dead.msg_id, dead.remaining_tenths, dead.priority) == (sent, 70, 6)
    assert dead.put_ms == START_MS


def test_Q3_dead_letter_makes_neither_arrival_nor_delivery_reports(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    local(queue_manager, REPLIES)
    alter_manager(queue_manager, DEADQ=DEAD)
    session.put("Q1", b"x", delay_ms=1_000, report=c.MQRO_COA | c.MQRO_COD, reply_to_q=REPLIES)
    alter(queue_manager, "Q1", PUT=INHIBITED)
    clock.advance(1_000)
    assert session.get(DEAD) is not None
    assert queue_manager.curdepth(REPLIES) == 0


def test_Q3_expired_dead_letter_reports_with_its_header(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    local(queue_manager, REPLIES)
    alter_manager(queue_manager, DEADQ=DEAD)
    session.put(
        "Q1",
        b"d" * 150,
        delay_ms=1_000,
        time_to_live_ms=2_000,
        report=c.MQRO_EXPIRATION_WITH_DATA,
        reply_to_q=REPLIES,
    )
    alter(queue_manager, "Q1", PUT=INHIBITED)
    clock.advance(2_000)
    assert session.get(DEAD) is None
    report = session.get(REPLIES)
    assert report is not None
    assert report.descriptor.format == "MQDEAD"
    assert report.body[:4] == b"DLH "
    assert report.body[172:] == b"d" * 100


def test_Q4_local_put_failure_goes_to_no_queue(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager, MAXDEPTH=1)
    alter_manager(queue_manager, DEADQ=DEAD)
    session.put("Q1", b"1")
    with pytest.raises(Exception, match="MQRC_Q_FULL"):
        session.put("Q1", b"2", report=c.MQRO_EXCEPTION, reply_to_q="Q1")
    assert queue_manager.curdepth(DEAD) == 0


@pytest.mark.parametrize(("room_bytes", "fits"), [(171 + 4, False), (172 + 4, True)])
def test_Q6_dead_letter_queue_needs_172_bytes_more(
    queue_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    room_bytes: int,
    fits: bool,
) -> None:
    local(queue_manager)
    alter_manager(queue_manager, DEADQ=DEAD)
    alter(queue_manager, DEAD, MAXMSGL=room_bytes)
    session.put("Q1", b"data", delay_ms=1_000)
    alter(queue_manager, "Q1", PUT=INHIBITED)
    clock.advance(1_000)
    assert queue_manager.curdepth(DEAD) == int(fits)
    assert queue_manager.curdepth(STAGING) == int(not fits)
    assert body(session.get("Q1")) is None
