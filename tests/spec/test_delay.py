"""Delivery delay, rules D1-D3, D12, D15-D18, D27, D28: staging, release, and one clock."""

from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.administration import QALIAS
from mayfly.engine.objects import administration
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DDH
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.scene import (
    DEAD,
    INPUT,
    REPLIES,
    STAGING,
    START_MS,
    End,
    alias,
    alter,
    alter_manager,
    bodies,
    body,
    ends,
    lives,
    local,
    refused,
    take,
    waiting,
)


@pytest.mark.parametrize(("late_ms", "comes"), [(-1, False), (0, True), (1, True)])
def test_D1_visible_from_send_time_plus_delay(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    late_ms: int,
    comes: bool,
    new_session: NewSession,
) -> None:
    """Not one millisecond earlier, for get and browse."""
    local(any_manager)
    with new_session(any_manager) as session:
        session.put("Q1", b"x", delay_ms=5_000, persistent=persistent)
        clock.advance(5_000 + late_ms)
        assert [m.body for m in session.browse("Q1")] == ([b"x"] if comes else [])
        message = session.get("Q1")
        assert (message is not None) == comes
        if message is not None:
            assert message.put_ms == START_MS
            assert message.deliver_at_ms == START_MS + 5_000


def test_D3_a_get_that_waits_on_the_staging_queue_has_the_next_delayed_message(
    manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """As on any queue: from the commit on, and its sender's message never reaches its target."""
    with (
        new_session(manager, transacted=True) as sender,
        new_session(manager) as one,
    ):
        running = waiting(manager, STAGING, lambda: one.get(STAGING, wait_ms=5_000))
        sent = sender.put("Q1", b"data", delay_ms=5_000, persistent=persistent)
        assert running.is_under_way
        sender.commit()
        clock.advance(5_000)
        served: Any = running.finish()
        assert served is not None
        assert (served.correl_id, served.body[-4:]) == (sent, b"data")
        assert (manager.curdepth("Q1"), manager.counts("Q1").staged) == (0, 0)


def test_D2_waits_on_the_staging_queue_with_a_header(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        sent = session.put(
            "Q1", b"data", delay_ms=5_000, format_name="MQSTR", persistent=persistent
        )
        assert any_manager.curdepth("Q1") == 0
        assert any_manager.curdepth(STAGING) == 1
        assert any_manager.counts("Q1").staged == 1
        staged = next(session.browse(STAGING))
        header = DDH.unpack(staged.body)
        assert header["TargetQName"] == "Q1"
        assert header["DueTime"] == START_MS + 5_000
        assert header["OriginalMsgId"] == sent
        assert header["Format"] == "MQSTR"
        assert staged.body.endswith(b"data")
        clock.advance(5_000)
        assert any_manager.curdepth("Q1") == 1
        assert any_manager.curdepth(STAGING) == 0
        assert any_manager.counts("Q1").staged == 0
        delivered = session.get("Q1")
        assert delivered is not None
        assert (delivered.body, delivered.descriptor.format) == (b"data", "MQSTR")
    life = lives(any_manager, STAGING)[0]
    assert (life.outcome, life.ended_ms) == ("released", START_MS + 5_000)
    assert lives(any_manager, "Q1")[0].origin_id == life.msg_id == staged.msg_id


def test_D2_zero_delay_does_not_touch_staging(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    session.put("Q1", b"x", delay_ms=0)
    assert queue_manager.curdepth("Q1") == 1
    assert session.get("Q1") is not None
    assert lives(queue_manager, STAGING) == []


def test_D3_staged_under_a_new_msg_id_and_original_ids_on_the_target(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        sent = session.put("Q1", b"x", delay_ms=10, correl_id=b"mine", persistent=persistent)
        staged = next(session.browse(STAGING, correl_id=sent))
        assert staged.correl_id == sent
        assert staged.msg_id != sent
        clock.advance(10)
        delivered = session.get("Q1")
    assert delivered is not None
    assert (delivered.msg_id, delivered.correl_id) == (sent, b"mine".ljust(24, b"\0"))


@pytest.mark.parametrize("transacted", [False, True])
def test_D3_cancelled_by_a_get_on_its_correl_id(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    transacted: bool,
    new_session: NewSession,
) -> None:
    local(any_manager)
    with (
        new_session(any_manager) as session,
        new_session(any_manager, transacted=transacted) as admin,
    ):
        kept = session.put("Q1", b"kept", delay_ms=1_000, persistent=persistent)
        sent = session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
        assert admin.get(STAGING, correl_id=sent) is not None
        if transacted:
            admin.commit()
        assert any_manager.counts("Q1").staged == 1
        clock.advance(1_000)
        assert bodies(session, "Q1") == [b"kept"]
    assert [(r.outcome, r.correl_id) for r in lives(any_manager, STAGING)] == [
        ("cancelled", sent),
        ("released", kept),
    ]


def test_D3_cancel_that_is_backed_out_after_the_due_time_releases_at_once(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as admin:
        sent = session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
        assert admin.get(STAGING, correl_id=sent) is not None
        clock.advance(5_000)
        assert any_manager.curdepth("Q1") == 0
        admin.backout()
        assert body(session.get("Q1")) == b"x"
        assert ends(any_manager, STAGING) == [End("released", 5_000)]


def test_D12_reaches_staging_at_the_commit(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """Before it no depth changes and the putter itself cannot get it, by CorrelId either."""
    local(any_manager)
    with new_session(any_manager, transacted=True) as unit:
        sent = unit.put("Q1", b"x", delay_ms=5_000, persistent=persistent)
        assert (any_manager.curdepth(STAGING), any_manager.curdepth("Q1")) == (0, 0)
        assert unit.get("Q1") is None
        assert unit.get(STAGING, correl_id=sent) is None
        clock.advance(1_000)
        unit.commit()
        assert any_manager.curdepth(STAGING) == 1
        clock.advance(3_999)
        assert unit.get("Q1") is None
        clock.advance(1)
        assert body(unit.get("Q1")) == b"x"


@pytest.mark.parametrize("ending", ["commit", "backout"])
def test_D12_an_open_unit_of_work_takes_its_room_on_staging(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    ending: str,
    new_session: NewSession,
) -> None:
    """CURDEPTH shows it at the commit; MAXDEPTH knows of it from the put on, whoever puts next."""
    local(any_manager)
    alter(any_manager, STAGING, MAXDEPTH=1)
    with new_session(any_manager) as other, new_session(any_manager, transacted=True) as unit:
        unit.put("Q1", b"1", delay_ms=5_000, persistent=persistent)
        assert any_manager.curdepth(STAGING) == 0
        for session in (unit, other):
            with refused(rc.MQRC_Q_FULL):
                session.put("Q1", b"2", delay_ms=5_000, persistent=persistent)
        if ending == "commit":
            unit.commit()
            with refused(rc.MQRC_Q_FULL):
                other.put("Q1", b"3", delay_ms=5_000, persistent=persistent)
        else:
            unit.backout()
            other.put("Q1", b"3", delay_ms=5_000, persistent=persistent)
        assert any_manager.curdepth(STAGING) == 1
        clock.advance(5_000)
        assert bodies(other, "Q1") == [b"1" if ending == "commit" else b"3"]


def test_D12_what_a_unit_of_work_has_rescheduled_takes_one_place(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    alter(any_manager, STAGING, MAXDEPTH=2)
    with new_session(any_manager) as other, new_session(any_manager, transacted=True) as unit:
        sent = other.put("Q1", b"1", delay_ms=5_000, persistent=persistent)
        unit.schedule.reschedule(sent, delay_ms=6_000)
        other.put("Q1", b"2", delay_ms=5_000, persistent=persistent)
        with refused(rc.MQRC_Q_FULL):
            other.put("Q1", b"3", delay_ms=5_000, persistent=persistent)
        unit.backout()
        with refused(rc.MQRC_Q_FULL):
            other.put("Q1", b"3", delay_ms=5_000, persistent=persistent)


def test_D12_backed_out_delayed_put_leaves_nothing(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager, transacted=True) as unit:
        unit.put("Q1", b"x", delay_ms=5_000, persistent=persistent)
        unit.backout()
    clock.advance(5_000)
    assert (any_manager.curdepth(STAGING), any_manager.curdepth("Q1")) == (0, 0)
    assert lives(any_manager, STAGING) == []


@pytest.mark.parametrize("late_ms", [0, 1, 60_000])
def test_D12_committed_when_due_is_released_at_once(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    late_ms: int,
    new_session: NewSession,
) -> None:
    """Also behind another staged message whose time has not come."""
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        session.put("Q1", b"later", delay_ms=3_600_000, persistent=persistent)
        unit.put("Q1", b"x", delay_ms=5_000, persistent=persistent)
        clock.advance(5_000 + late_ms)
        unit.commit()
        assert bodies(session, "Q1") == [b"x"]
        assert any_manager.engine.due_work.next_due_ms() is not None
        assert ends(any_manager, STAGING) == [End("released", 5_000 + late_ms)]


def test_D15_resolved_again_at_delivery(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """An alias that is retargeted meanwhile leads to its second target."""
    local(any_manager, "FIRST")
    local(any_manager, "SECOND")
    alias(any_manager, "A1", "FIRST")
    with new_session(any_manager) as session:
        session.put("A1", b"x", delay_ms=1_000, persistent=persistent)
        administration.alter(any_manager.engine, QALIAS, "A1", {"TARGET": "SECOND"})
        clock.advance(1_000)
        assert session.get("FIRST") is None
        assert body(session.get("SECOND")) == b"x"


def test_D16_defaults_are_fixed_at_the_send(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager, DEFPRTY=3, DEFPSIST=c.MQPER_PERSISTENT)
    session.put("Q1", b"x", delay_ms=1_000)
    alter(queue_manager, "Q1", DEFPRTY=7, DEFPSIST=c.MQPER_NOT_PERSISTENT)
    clock.advance(1_000)
    message = session.get("Q1")
    assert message is not None
    assert (message.priority, message.persistent) == (3, True)


@pytest.mark.parametrize(
    ("elapsed_ms", "tenths"),
    [(5_000, 150), (10_000, 100), (15_000, 50), (19_999, 1), (20_000, None)],
)
def test_D17_one_clock_through_staging_and_target(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    elapsed_ms: int,
    tenths: int | None,
    new_session: NewSession,
) -> None:
    """The seed's example, life 20 s and delay 5 s: 100 tenths after 10 s, about 50 after 15 s."""
    local(any_manager)
    with new_session(any_manager) as session:
        session.put("Q1", b"x", time_to_live_ms=20_000, delay_ms=5_000, persistent=persistent)
        clock.advance(elapsed_ms)
        message = session.get("Q1")
    assert (None if message is None else message.remaining_tenths) == tenths


def test_D18_R9_life_equal_to_the_delay_ends_on_staging_with_a_report_of_the_original(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    local(any_manager, REPLIES)
    with new_session(any_manager) as session:
        sent = session.put(
            "Q1",
            b"data",
            time_to_live_ms=1_000,
            delay_ms=1_000,
            correl_id=b"mine",
            format_name="MQSTR",
            report=c.MQRO_EXPIRATION_WITH_FULL_DATA,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        clock.advance(999)
        assert any_manager.curdepth(REPLIES) == 0
        clock.advance(1)
        report = session.get(REPLIES)
        assert session.get("Q1") is None
    assert report is not None
    assert report.body == b"data"
    assert report.descriptor.format == "MQSTR"
    assert report.correl_id == sent
    assert ends(any_manager, STAGING) == [End("expired", 1_000)]
    assert ends(any_manager, "Q1") == []
    assert any_manager.counts("Q1").staged == 0


def test_D27_arrival_and_delivery_reports_come_from_the_target(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """Nothing at the send or on staging; COA at the release, COD at the get."""
    local(any_manager)
    local(any_manager, REPLIES)
    with new_session(any_manager) as session:
        sent = session.put(
            "Q1",
            b"x",
            delay_ms=1_000,
            report=c.MQRO_COA | c.MQRO_COD,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        clock.advance(999)
        assert any_manager.curdepth(REPLIES) == 0
        clock.advance(1)
        arrival = session.get(REPLIES)
        assert session.get("Q1") is not None
        delivery = session.get(REPLIES)
    assert arrival is not None
    assert delivery is not None
    assert (arrival.descriptor.feedback, arrival.correl_id) == (c.MQFB_COA, sent)
    assert (delivery.descriptor.feedback, delivery.correl_id) == (c.MQFB_COD, sent)


@pytest.mark.parametrize("transacted", [False, True])
def test_D27_cancel_is_no_delivery(
    queue_manager: QueueManager, session: Session, transacted: bool, new_session: NewSession
) -> None:
    """A get on the staging queue makes no COD report, whatever the original asked for."""
    local(queue_manager)
    local(queue_manager, REPLIES)
    sent = session.put("Q1", b"x", delay_ms=1_000, report=c.MQRO_COD, reply_to_q=REPLIES)
    with new_session(queue_manager, transacted=transacted) as admin:
        assert admin.get(STAGING, correl_id=sent) is not None
    assert queue_manager.curdepth(REPLIES) == 0
    assert ends(queue_manager, STAGING) == [End("cancelled", 0)]


def test_D28_disabling_puts_on_staging_does_not_stop_the_processor(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    session.put("Q1", b"x", delay_ms=1_000)
    alter(queue_manager, STAGING, PUT=c.MQQA_PUT_INHIBITED)
    clock.advance(1_000)
    assert body(session.get("Q1")) == b"x"


def test_D2_nobody_waiting_on_the_target_is_served_early(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    alter_manager(queue_manager, DEADQ=DEAD)
    session.put("Q1", b"x", delay_ms=1_000)
    handle = session.open("Q1", INPUT)
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle)
    clock.advance(1_000)
    assert take(handle).message.body == b"x"
