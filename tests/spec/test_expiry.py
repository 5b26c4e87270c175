"""Expiry, rules E1-E5, E15-E18 and E31: who may still get a message."""

import shutil
from pathlib import Path

import apsw
import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.finding.next_live import DISCARD_BATCH
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.snapshots import on_a_snapshot
from tests.spec.pubsub_scene import admin_sub
from tests.spec.scene import (
    BROWSE,
    INPUT,
    REPLIES,
    START_MS,
    V2,
    End,
    alter_manager,
    body,
    by_msg_id,
    ends,
    lives,
    local,
    put_expiry,
    put_md,
    refused,
    take,
    waiting,
)
from tests.store.scene import failing_disk

EXPIRATION = c.MQRO_EXPIRATION


@pytest.mark.in_process
def test_E1_expiry_counts_in_tenths_of_a_second(
    queue_manager: QueueManager, session: Session
) -> None:
    """600 is a minute."""
    local(queue_manager)
    assert put_expiry(session, "Q1", 600).window.expire_at_ms == START_MS + 60_000


def test_E1_initial_value_is_unlimited(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """Eighty years later it is still there, and says so."""
    local(queue_manager)
    session.put("Q1", b"old")
    clock.advance(80 * 365 * 86_400_000)
    message = session.get("Q1")
    assert message is not None
    assert message.remaining_tenths == c.MQEI_UNLIMITED
    assert message.remaining_ms is None


@pytest.mark.in_process
@pytest.mark.parametrize("expiry_tenths", [0, -2, -600, -(2**31)])
def test_E2_zero_and_negative_fail_without_a_report(
    queue_manager: QueueManager, session: Session, expiry_tenths: int
) -> None:
    local(queue_manager)
    local(queue_manager, REPLIES)
    with refused(rc.MQRC_EXPIRY_ERROR):
        put_expiry(session, "Q1", expiry_tenths, c.MQRO_EXPIRATION_WITH_FULL_DATA)
    assert queue_manager.curdepth("Q1") == 0
    assert queue_manager.curdepth(REPLIES) == 0


@pytest.mark.parametrize("time_to_live_ms", [0, -1, 2**31 * 100])
def test_E2_native_time_to_live_that_is_no_life_is_refused(
    queue_manager: QueueManager, session: Session, time_to_live_ms: int
) -> None:
    local(queue_manager)
    with refused(rc.MQRC_EXPIRY_ERROR):
        session.put("Q1", b"x", time_to_live_ms=time_to_live_ms)
    assert queue_manager.curdepth("Q1") == 0


@pytest.mark.in_process
@pytest.mark.parametrize("text", ["", "False", "0", "TRUE", "1"])
def test_E3_maximum_is_enforced_while_the_variable_is_set_to_anything(
    monkeypatch: pytest.MonkeyPatch, clock: VirtualClock, text: str, new_session: NewSession
) -> None:
    monkeypatch.setenv("AMQ_ENFORCE_MAX_EXPIRY_ERROR", text)
    with QueueManager("QM1", clock=clock) as qm, new_session(qm) as session:
        local(qm)
        with refused(rc.MQRC_EXPIRY_ERROR):
            put_expiry(session, "Q1", 1_000_000_000)
        assert qm.curdepth("Q1") == 0
        put_expiry(session, "Q1", 999_999_999)
        assert qm.curdepth("Q1") == 1


@pytest.mark.in_process
@pytest.mark.parametrize("expiry_tenths", [1_000_000_000, 2**31 - 1])
def test_E3_X10_without_the_variable_large_values_are_taken_as_given(
    queue_manager: QueueManager, session: Session, expiry_tenths: int
) -> None:
    local(queue_manager)
    window = put_expiry(session, "Q1", expiry_tenths).window
    assert window.expire_at_ms == START_MS + expiry_tenths * 100


@pytest.mark.in_process
def test_X10_variable_is_read_when_the_manager_starts(
    monkeypatch: pytest.MonkeyPatch, queue_manager: QueueManager, session: Session
) -> None:
    """Setting it later changes nothing for a manager that runs."""
    local(queue_manager)
    monkeypatch.setenv("AMQ_ENFORCE_MAX_EXPIRY_ERROR", "1")
    put_expiry(session, "Q1", 1_000_000_000)
    assert queue_manager.curdepth("Q1") == 1


@pytest.mark.parametrize(
    ("late_ms", "tenths"), [(-101, 2), (-100, 1), (-1, 1), (0, None), (1, None)]
)
def test_E4_nobody_gets_an_expired_message(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    late_ms: int,
    tenths: int | None,
    new_session: NewSession,
) -> None:
    """At T-1 ms it is alive and shows at least one tenth; at T it is gone for get and browse."""
    local(any_manager)
    with new_session(any_manager) as session:
        session.put("Q1", b"x", time_to_live_ms=1_000, persistent=persistent)
        clock.advance(1_000 + late_ms)
        browsed = [message.remaining_tenths for message in session.browse("Q1")]
        message = session.get("Q1")
    assert browsed == ([] if tenths is None else [tenths])
    assert (None if message is None else message.remaining_tenths) == tenths
    assert ends(any_manager, "Q1") == [End("expired" if tenths is None else "got", 1_000 + late_ms)]


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("wait_ms", "left"), [(0, 600), (1, 600), (100, 599), (9_999, 501), (10_000, 500)]
)
def test_E5_E31_get_returns_what_is_left(
    queue_manager: QueueManager, session: Session, clock: VirtualClock, wait_ms: int, left: int
) -> None:
    """What begins a tenth counts as that tenth: rounded up."""
    local(queue_manager)
    put_expiry(session, "Q1", 600)
    clock.advance(wait_ms)
    message = session.get("Q1")
    assert message is not None
    assert message.remaining_tenths == left
    assert message.remaining_ms == 60_000 - wait_ms


def test_E5_E20_what_is_left_can_be_put_on_again(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """Forwarding the remaining life keeps the deadline; the qmgr does nothing of its own."""
    local(queue_manager)
    local(queue_manager, "NEXT")
    session.put("Q1", b"x", time_to_live_ms=5_000)
    clock.advance(2_000)
    message = session.get("Q1")
    assert message is not None
    session.put("NEXT", message.body, time_to_live_ms=message.remaining_ms)
    forwarded = session.get("NEXT")
    assert forwarded is not None
    assert forwarded.expire_at_ms == START_MS + 5_000


@pytest.mark.parametrize(
    ("backout_at_ms", "comes_back"), [(999, True), (1_000, False), (1_001, False)]
)
def test_E15_got_under_syncpoint_and_backed_out_after_the_deadline(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    backout_at_ms: int,
    comes_back: bool,
    new_session: NewSession,
) -> None:
    local(any_manager)
    local(any_manager, REPLIES)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        session.put(
            "Q1",
            b"x",
            time_to_live_ms=1_000,
            report=EXPIRATION,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        assert unit.get("Q1") is not None
        clock.advance(backout_at_ms)
        unit.backout()
        assert any_manager.curdepth("Q1") == 1
        assert any_manager.curdepth(REPLIES) == 0
        message = session.get("Q1")
        assert (message is not None) == comes_back
        if message is not None:
            assert message.backout_count == 1
            assert message.remaining_tenths == 1
        assert any_manager.curdepth(REPLIES) == (0 if comes_back else 1)
    life = lives(any_manager, "Q1")[0]
    assert (life.outcome, life.backout_count) == ("got" if comes_back else "expired", 1)


def test_E15_commit_after_the_deadline_is_a_get(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """What was got alive stays got, however long the unit of work takes."""
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        session.put("Q1", b"x", time_to_live_ms=1_000, persistent=persistent)
        clock.advance(999)
        assert body(unit.get("Q1")) == b"x"
        clock.advance(5_000)
        assert session.get("Q1") is None
        unit.commit()
        assert ends(any_manager, "Q1") == [End("got", 5_999)]


@pytest.mark.parametrize("late_ms", [-1, 0, 1])
def test_E16_locked_message_that_expires_cannot_be_got_under_the_cursor(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    late_ms: int,
    new_session: NewSession,
) -> None:
    """2034; that call discards it and sends its report. The lock does not stop the clock (B5)."""
    local(any_manager)
    local(any_manager, REPLIES)
    with new_session(any_manager) as session:
        handle = session.open("Q1", INPUT | BROWSE)
        session.put(
            "Q1",
            b"x",
            time_to_live_ms=1_000,
            report=EXPIRATION,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        take(handle, c.MQGMO_BROWSE_NEXT | c.MQGMO_LOCK)
        clock.advance(1_000 + late_ms)
        assert session.get("Q1") is None
        assert any_manager.curdepth("Q1") == 1
        if late_ms < 0:
            assert take(handle, c.MQGMO_MSG_UNDER_CURSOR).message.remaining_tenths == 1
        else:
            with refused(rc.MQRC_NO_MSG_UNDER_CURSOR):
                take(handle, c.MQGMO_MSG_UNDER_CURSOR)
        assert any_manager.curdepth("Q1") == 0
        assert any_manager.curdepth(REPLIES) == (0 if late_ms < 0 else 1)
        assert ends(any_manager, "Q1") == [
            End("got" if late_ms < 0 else "expired", 1_000 + late_ms)
        ]


def test_E17_life_runs_from_the_put_not_from_the_commit(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """No discard and no report before the commit, not even by a scan."""
    local(any_manager)
    local(any_manager, REPLIES)
    alter_manager(any_manager, EXPRYINT=1)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        unit.put(
            "Q1",
            b"x",
            time_to_live_ms=2_000,
            report=EXPIRATION,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        clock.advance(2_999)
        assert unit.get("Q1") is None
        assert any_manager.counts("Q1").uncommitted == 1
        assert any_manager.curdepth(REPLIES) == 0
        unit.commit()
        assert (any_manager.curdepth("Q1"), any_manager.curdepth(REPLIES)) == (0, 1)
        assert session.get("Q1") is None
        assert any_manager.curdepth(REPLIES) == 1
        assert ends(any_manager, "Q1") == [End("expired", 2_999)]
        assert lives(any_manager, "Q1")[0].put_ms == START_MS


@pytest.mark.parametrize(("at_ms", "comes"), [(1_999, True), (2_000, False)])
def test_E17_boundary_at_the_commit(
    queue_manager: QueueManager,
    session: Session,
    unit: Session,
    clock: VirtualClock,
    at_ms: int,
    comes: bool,
) -> None:
    local(queue_manager)
    unit.put("Q1", b"x", time_to_live_ms=2_000)
    clock.advance(at_ms)
    unit.commit()
    assert (session.get("Q1") is not None) == comes


@pytest.mark.parametrize("late_ms", [-1, 0, 1])
def test_E17_what_expired_before_its_commit_is_discarded_and_reported_with_it(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    late_ms: int,
    new_session: NewSession,
) -> None:
    """The rest of the unit of work is as ever, its gets, and the live ones around the late one."""
    local(any_manager)
    local(any_manager, REPLIES)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        session.put("Q1", b"got", persistent=persistent)
        assert body(unit.get("Q1")) == b"got"
        unit.put("Q1", b"before", persistent=persistent)
        sent = unit.put(
            "Q1",
            b"late",
            time_to_live_ms=2_000,
            report=c.MQRO_EXPIRATION_WITH_FULL_DATA,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        unit.put("Q1", b"behind", time_to_live_ms=60_000, persistent=persistent)
        clock.advance(2_000 + late_ms)
        assert any_manager.counts("Q1").uncommitted == 3
        unit.commit()
        is_late = late_ms >= 0
        counts = any_manager.counts("Q1")
        assert (counts.live, counts.expired_present, counts.uncommitted) == (3 - is_late, 0, 0)
        report = session.get(REPLIES)
        assert (report is not None) == is_late
        if report is not None:
            assert report.descriptor.feedback == c.MQFB_EXPIRATION
            assert (report.correl_id, report.body) == (sent, b"late")
        alive = [b"before", b"behind"] if is_late else [b"before", b"late", b"behind"]
        assert [message.body for message in session.browse("Q1")] == alive
        outcomes = sorted(end.outcome for end in ends(any_manager, "Q1"))
        assert outcomes == (["expired", "got"] if is_late else ["got"])


def test_E17_discard_and_report_are_on_the_disk_with_the_commit(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    """Whatever a kill leaves, the message is never back, and its report there once."""
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm:
        local(qm)
        local(qm, REPLIES)
        with new_session(qm, transacted=True) as unit:
            unit.put(
                "Q1",
                b"x",
                time_to_live_ms=1_000,
                report=EXPIRATION,
                reply_to_q=REPLIES,
                persistent=True,
            )
            clock.advance(1_000)
            unit.commit()
        shutil.copytree(tmp_path / "QM1", tmp_path / "killed")
    # The clock of the machine it comes back on is behind: only the store knows that it is over.
    with QueueManager(
        "QM1", tmp_path / "killed", clock=VirtualClock(START_MS), runtime=on_a_snapshot()
    ) as qm:
        assert (qm.curdepth("Q1"), qm.curdepth(REPLIES)) == (0, 1)
        assert ends(qm, "Q1") == [End("expired", 1_000)]
        assert qm.verify().ok


def test_E17_a_commit_that_fails_on_a_full_disk_neither_discards_nor_reports(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    """All of it is undone, as any commit that fails."""
    with (
        failing_disk() as disk,
        QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm,
        new_session(qm, transacted=True) as unit,
    ):
        local(qm)
        local(qm, REPLIES)
        unit.put(
            "Q1",
            b"x",
            time_to_live_ms=1_000,
            report=EXPIRATION,
            reply_to_q=REPLIES,
            persistent=True,
        )
        clock.advance(1_000)
        disk.error, disk.failing = apsw.FullError, "write .db-wal"
        with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
            unit.commit()
        disk.failing = ""
        assert (qm.curdepth("Q1"), qm.curdepth(REPLIES)) == (0, 0)
        assert qm.counts("Q1").uncommitted == qm.counts(REPLIES).uncommitted == 0
        assert lives(qm, "Q1") == []
        assert qm.verify().ok


def test_E17_nobody_who_waits_gets_what_expired_before_its_commit(
    queue_manager: QueueManager, session: Session, unit: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    unit.put("Q1", b"late", time_to_live_ms=1_000)
    getter = waiting(queue_manager, "Q1", lambda: session.get("Q1", wait_ms=5_000))
    clock.advance(1_000)
    unit.commit()
    assert queue_manager.curdepth("Q1") == 0
    assert getter.is_under_way
    clock.advance(4_000)
    assert getter.finish() is None


def test_E17_a_copy_of_a_publication_that_expired_before_its_commit_is_discarded_with_it(
    queue_manager: QueueManager, session: Session, unit: Session, clock: VirtualClock
) -> None:
    """Each copy by its own deadline."""
    local(queue_manager)
    local(queue_manager, "CAPPED", CAPEXPRY=10)
    local(queue_manager, REPLIES)
    admin_sub(queue_manager, "S", "a", "Q1")
    admin_sub(queue_manager, "C", "a", "CAPPED")
    unit.publish("a", b"x", time_to_live_ms=2_000, report=EXPIRATION, reply_to_q=REPLIES)
    clock.advance(1_000)
    unit.commit()
    assert (queue_manager.curdepth("CAPPED"), queue_manager.curdepth(REPLIES)) == (0, 1)
    assert body(session.get("Q1")) == b"x"


def test_E17_what_expired_on_its_way_elsewhere_before_the_commit_is_reported_as_it_was_put(
    queue_manager: QueueManager, session: Session, unit: Session, clock: VirtualClock
) -> None:
    local(queue_manager, "QM2", USAGE=c.MQUS_TRANSMISSION)
    local(queue_manager, REPLIES)
    sent = unit.put(
        "THERE@QM2",
        b"x",
        time_to_live_ms=1_000,
        report=c.MQRO_EXPIRATION_WITH_FULL_DATA,
        reply_to_q=REPLIES,
    )
    clock.advance(1_000)
    unit.commit()
    assert queue_manager.curdepth("QM2") == 0
    report = session.get(REPLIES)
    assert report is not None
    assert (report.correl_id, report.body) == (sent, b"x")


def test_E17_backed_out_put_never_reports(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    local(any_manager, REPLIES)
    alter_manager(any_manager, EXPRYINT=1)
    with new_session(any_manager, transacted=True) as unit:
        unit.put(
            "Q1",
            b"x",
            time_to_live_ms=500,
            report=EXPIRATION,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        clock.advance(3_000)
        unit.backout()
    clock.advance(3_000)
    assert any_manager.curdepth("Q1") == 0
    assert any_manager.curdepth(REPLIES) == 0
    assert lives(any_manager, "Q1") == []


def test_E18_consumer_of_an_expired_message_sees_an_empty_queue(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """None from the native verb, 2033 from the MQI: no error of its own."""
    local(queue_manager)
    session.put("Q1", b"x", time_to_live_ms=1)
    clock.advance(1)
    handle = session.open("Q1", INPUT)
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle)
    assert session.get("Q1") is None


def test_E31_put_again_with_the_descriptor_of_a_get_filters_on_its_ids(
    queue_manager: QueueManager, session: Session
) -> None:
    """The MsgId of a get used as a match selects nothing else on the queue (G2)."""
    local(queue_manager)
    put_md(session, "Q1", b"1", V2)
    put_md(session, "Q1", b"2", V2)
    handle = session.open("Q1", INPUT)
    first = take(handle).message
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, match=by_msg_id(first.msg_id))
    assert queue_manager.curdepth("Q1") == 1


@pytest.mark.parametrize("verb", ["get", "browse"])
def test_E09_a_flood_of_expired_messages_goes_in_one_call(
    queue_manager: QueueManager, clock: VirtualClock, verb: str, new_session: NewSession
) -> None:
    """More than one turn of the lock takes: all go, the live one comes, depth is exact."""
    flood = 2 * DISCARD_BATCH + 1
    queue_manager.mqsc(f"DEFINE QLOCAL(Q1) MAXDEPTH({flood + 1})")
    with new_session(queue_manager) as session:
        for _ in range(flood):
            session.put("Q1", b"late", time_to_live_ms=1_000)
        session.put("Q1", b"alive")
        clock.advance(1_000)
        assert queue_manager.curdepth("Q1") == flood + 1
        if verb == "get":
            message = session.get("Q1")
        else:
            message = next(session.browse("Q1"))
        assert message is not None
        assert message.body == b"alive"
        assert queue_manager.curdepth("Q1") == (0 if verb == "get" else 1)


def test_E04_time_runs_on_where_the_store_has_seen_a_later_clock(
    tmp_path: Path, new_session: NewSession
) -> None:
    """Reopened under a clock an hour behind: nothing comes back to life, delays still end."""
    ahead = VirtualClock(1_700_003_600_000)
    with QueueManager("QM1", tmp_path, ahead) as manager, new_session(manager) as session:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        session.put("Q1", b"a minute", persistent=True, time_to_live_ms=60_000)
        ahead.advance(60_000)
        session.put("Q1", b"seen", persistent=True)
    behind = VirtualClock(1_700_000_000_000)
    with QueueManager("QM1", tmp_path, behind) as manager, new_session(manager) as session:
        assert manager.now_ms() >= 1_700_003_660_000
        message = session.get("Q1")
        assert message is not None
        assert message.body == b"seen"
        session.put("Q1", b"a second", delay_ms=1_000)
        behind.advance(999)
        assert session.get("Q1") is None
        behind.advance(1)
        assert session.get("Q1") is not None
