"""Retained publications: the last one of a topic, for later subscribers, while its life lasts."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import pytest

from mayfly import QueueManager
from mayfly.engine import Handle, Session
from mayfly.engine.delivery import MessageIds, OutgoingMessage
from mayfly.engine.disposal import prepared_with_own_context
from mayfly.engine.pubsub.publish import retain
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.window import window_at_put
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.snapshots import on_a_snapshot
from tests.spec.pubsub_scene import admin_sub, drained
from tests.spec.scene import (
    BROWSE,
    INPUT,
    REPLIES,
    alter,
    bodies,
    body,
    ends,
    local,
    refused,
    take,
)
from tests.store.scene import failing_disk

RETAINED = "SYSTEM.RETAINED.PUB.QUEUE"


def test_retained_a_later_subscriber_gets_the_last_one_with_what_is_left_of_its_life(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    with new_session(any_manager) as session:
        for text in (b"old", b"new"):
            session.publish("a/b", text, retain=True, persistent=persistent, time_to_live_ms=10_000)
        session.publish("a/b", b"not kept")
        assert any_manager.curdepth(RETAINED) == 1
        clock.advance(4_000)
        subscription = session.subscribe("a/+")
        message = subscription.get()
        assert message is not None
        assert (message.body, message.topic, message.remaining_ms) == (b"new", "a/b", 6_000)
        assert subscription.get() is None
        assert [e.outcome for e in ends(any_manager, RETAINED)] == ["cleared"]


def test_retained_T_minus_1_T_and_T_plus_1(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    with new_session(any_manager) as session:
        session.publish("a", b"x", retain=True, persistent=persistent, time_to_live_ms=5_000)
        clock.advance(4_999)
        message = session.subscribe("a").get()
        assert message is not None
        assert message.remaining_ms == 1
        clock.advance(1)
        assert session.subscribe("a").get() is None
        clock.advance(1)
        assert session.subscribe("#").get() is None
        assert [e.outcome for e in ends(any_manager, RETAINED)] == ["expired"]
        assert any_manager.curdepth(RETAINED) == 0


@pytest.mark.in_process
def test_retained_is_cleared_by_an_empty_one_or_by_name(session: Session) -> None:
    current = session.subscribe("a")
    session.publish("a", b"x", retain=True)
    session.publish("a", b"", retain=True)
    assert drained(session, current.queue) == [("a", b"x"), ("a", b"")]
    assert session.subscribe("a").get() is None
    assert not session.clear_retained("a")
    session.publish("a", b"y", retain=True)
    assert session.clear_retained("a")
    assert not session.clear_retained("a")
    assert session.subscribe("a").get() is None
    with refused(rc.MQRC_TOPIC_STRING_ERROR):
        session.clear_retained("#")


def locked_by(session: Session) -> Handle:
    """Lock the first message on the queue of retained publications."""
    handle = session.open(RETAINED, BROWSE | INPUT)
    take(handle, c.MQGMO_BROWSE_FIRST | c.MQGMO_LOCK)
    return handle


@pytest.mark.in_process
@pytest.mark.parametrize(("passed_ms", "was_there"), [(999, True), (1_000, False), (1_001, False)])
def test_retained_that_has_expired_is_cleared_as_if_there_were_none(
    queue_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    passed_ms: int,
    was_there: bool,
) -> None:
    session.publish("a", b"x", retain=True, time_to_live_ms=1_000)
    clock.advance(passed_ms)
    assert session.clear_retained("a") is was_there
    assert queue_manager.curdepth(RETAINED) == 0


@pytest.mark.in_process
@pytest.mark.parametrize("ending", ["cleared", "empty", "newer"])
def test_retained_ends_although_somebody_has_locked_it(
    tmp_path: Path, clock: VirtualClock, ending: str, persistent: bool, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        session.publish("a", b"old", retain=True, persistent=persistent)
        browser = new_session(qm)
        locking = locked_by(browser)
        assert body(session.subscribe("a").get()) == b"old"
        if ending == "cleared":
            assert session.clear_retained("a")
            assert not session.clear_retained("a")
        else:
            text = b"new" if ending == "newer" else b""
            session.publish("a", text, retain=True, persistent=persistent)
        now = b"new" if ending == "newer" else None
        assert body(session.subscribe("a").get()) == now
        assert [e.outcome for e in ends(qm, RETAINED)] == ["cleared"]
        assert qm.curdepth(RETAINED) == qm.counts(RETAINED).live == int(ending == "newer")
        with refused(rc.MQRC_NO_MSG_UNDER_CURSOR):
            take(locking, c.MQGMO_MSG_UNDER_CURSOR)
        assert locking.unlock() == rc.MQRC_NO_MSG_LOCKED
        browser.close()
        assert qm.verify().ok
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        assert body(session.subscribe("a").get()) == (now if persistent else None)
        assert qm.verify().ok


@pytest.mark.in_process
def test_2192_on_a_full_disk_what_was_retained_stays_whatever_should_end_it(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with (
        failing_disk() as disk,
        QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm,
        new_session(qm) as session,
    ):
        session.publish("a", b"x", retain=True, persistent=True)
        disk.error, disk.failing = apsw.FullError, "write .db-wal"
        with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
            session.clear_retained("a")
        # It has been published, which is no failure.
        session.publish("a", b"", retain=True, persistent=False)
        disk.failing = ""
        assert body(session.subscribe("a").get()) == b"x"
        assert session.clear_retained("a")
        assert session.subscribe("a").get() is None
        assert qm.curdepth(RETAINED) == 0
        assert qm.verify().ok
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        assert session.subscribe("a").get() is None


def test_retained_that_has_expired_is_left_to_who_has_locked_it(
    queue_manager: QueueManager, session: Session, clock: VirtualClock, new_session: NewSession
) -> None:
    session.publish("a", b"x", retain=True, time_to_live_ms=1_000)
    with new_session(queue_manager) as browser:
        locked_by(browser)
        clock.advance(1_000)
        assert session.subscribe("a").get() is None
        assert ends(queue_manager, RETAINED) == []
    assert session.subscribe("a").get() is None
    assert [e.outcome for e in ends(queue_manager, RETAINED)] == ["expired"]


@pytest.mark.in_process
def test_retained_that_somebody_has_got_is_there_again_when_backed_out(
    queue_manager: QueueManager, session: Session, unit: Session
) -> None:
    session.publish("a", b"x", retain=True)
    assert body(unit.get(RETAINED)) == b"x"
    assert not session.clear_retained("a")
    assert session.subscribe("a").get() is None
    unit.backout()
    assert body(session.subscribe("a").get()) == b"x"
    assert session.clear_retained("a")
    assert queue_manager.curdepth(RETAINED) == 0


def test_retained_in_a_unit_of_work_counts_from_its_commit(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    with new_session(any_manager) as other, new_session(any_manager, transacted=True) as unit:
        other.publish("a", b"first", retain=True, persistent=persistent)
        unit.publish("a", b"second", retain=True, persistent=persistent)
        assert body(other.subscribe("a").get()) == b"first"
        unit.backout()
        assert body(other.subscribe("a").get()) == b"first"
        unit.publish("a", b"third", retain=True, persistent=persistent)
        unit.commit()
        assert body(other.subscribe("a").get()) == b"third"
        assert any_manager.curdepth(RETAINED) == 1
        unit.publish("a", b"", retain=True)
        assert body(other.subscribe("a").get()) == b"third"
        unit.commit()
        assert other.subscribe("a").get() is None


@pytest.mark.parametrize("late_ms", [-1, 0, 1])
def test_E17_a_retained_one_that_expired_before_its_commit_leaves_the_living_one_alone(
    tmp_path: Path, clock: VirtualClock, persistent: bool, late_ms: int, new_session: NewSession
) -> None:
    """Also after a kill: it was never on the disk."""
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm:
        with new_session(qm) as session, new_session(qm, transacted=True) as unit:
            session.publish("a", b"living", retain=True, persistent=persistent)
            unit.publish("a", b"short", retain=True, persistent=persistent, time_to_live_ms=1_000)
            clock.advance(1_000 + late_ms)
            unit.commit()
            stays = b"short" if late_ms < 0 else b"living"
            assert body(session.subscribe("a").get()) == stays
            assert qm.curdepth(RETAINED) == 1
            outcome = "cleared" if late_ms < 0 else "expired"
            assert [e.outcome for e in ends(qm, RETAINED)] == [outcome]
            assert qm.verify().ok
        shutil.copytree(tmp_path / "QM1", tmp_path / "killed")
    with (
        QueueManager("QM1", tmp_path / "killed", clock=clock, runtime=on_a_snapshot()) as qm,
        new_session(qm) as session,
    ):
        assert body(session.subscribe("a").get()) == (stays if persistent else None)


@pytest.mark.in_process
def test_retained_survives_a_restart_when_persistent(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        for string in ("kept", "twice", "twice", "over"):
            session.publish(string, b"x", retain=True, persistent=True)
        session.publish("over", b"y", retain=True, persistent=False)
        session.publish("lost", b"x", retain=True, persistent=False)
        session.publish("short", b"x", retain=True, persistent=True, time_to_live_ms=1_000)
    clock.advance(1_000)
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        everything = session.subscribe("#")
        assert sorted(drained(session, everything.queue)) == [("kept", b"x"), ("twice", b"x")]
        session.publish("twice", b"z", retain=True, persistent=True)
        assert qm.curdepth(RETAINED) == 2
        assert qm.verify().ok


@pytest.mark.parametrize("is_newer_higher", [False, True])
def test_retained_after_a_crash_before_the_older_one_has_gone(
    tmp_path: Path, clock: VirtualClock, is_newer_higher: bool, new_session: NewSession
) -> None:
    """The newer one is durable first; then the older one goes."""
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        session.publish("a", b"older", retain=True, persistent=True, priority=5)
        work = Transaction()
        descriptor = Descriptor(persistence=1, priority=5 + (1 if is_newer_higher else -1))
        window = window_at_put(clock.now_ms(), None, 0, None)
        message = OutgoingMessage(
            prepared_with_own_context(qm.engine, descriptor), window, MessageIds(b"", b""), b"newer"
        )
        with qm.engine.engine_lock:
            retain(qm.engine, work, "a", message)
        qm.engine.committer.run(work)
        assert qm.curdepth(RETAINED) == 2
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        assert body(session.subscribe("a").get()) == b"newer"
        assert qm.curdepth(RETAINED) == 1
        assert [e.outcome for e in ends(qm, RETAINED)] == ["cleared"]
        assert qm.verify().ok


@pytest.mark.in_process
def test_retained_selectors_and_wildcards_choose(session: Session) -> None:
    for string, priority in (("a/b", 1), ("a/c", 5), ("b", 5)):
        session.publish(string, string.encode(), retain=True, priority=priority)
    chosen = session.subscribe("a/#", selector="JMSPriority = 5")
    assert drained(session, chosen.queue) == [("a/c", b"a/c")]
    assert session.subscribe("#", retained=False).get() is None


def test_retained_says_when_it_was_published(session: Session, clock: VirtualClock) -> None:
    current = session.subscribe("a").get
    session.publish("a", b"x", retain=True)
    first = current()
    clock.advance(3_600_000)
    later = session.subscribe("a").get()
    assert first is not None
    assert later is not None
    assert (later.put_date, later.put_time) == (first.put_date, first.put_time)


@pytest.mark.in_process
def test_2437_and_MQSUBRQ(session: Session) -> None:
    subscription = session.subscribe("a/#")
    with refused(rc.MQRC_NO_RETAINED_MSG):
        subscription.request_retained()
    for string in ("a", "a/b", "c"):
        session.publish(string, b"x", retain=True)
    drained(session, subscription.queue)
    assert subscription.request_retained() == 2
    assert sorted(drained(session, subscription.queue)) == [("a", b"x"), ("a/b", b"x")]
    subscription.close()
    with refused(rc.MQRC_HOBJ_ERROR):
        subscription.request_retained()


def test_2479_what_cannot_be_retained_is_not_published(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    admin_sub(queue_manager, "S", "a", "Q1")
    session.publish("a", b"first", retain=True)
    alter(queue_manager, RETAINED, PUT=1)
    with refused(rc.MQRC_PUT_NOT_RETAINED):
        session.publish("a", b"second", retain=True)
    assert bodies(session, "Q1") == [b"first"]
    assert body(session.subscribe("a").get()) == b"first"
    assert queue_manager.counts("Q1").uncommitted == 0


@pytest.mark.in_process
def test_a_subscription_that_cannot_take_what_is_retained_is_not_made(
    queue_manager: QueueManager, session: Session
) -> None:
    session.publish("a", b"x", retain=True)
    local(queue_manager, MAXDEPTH=0)
    with refused(rc.MQRC_Q_FULL):
        session.subscribe("a", name="D", durable=True, queue="Q1")
    with refused(rc.MQRC_NO_SUBSCRIPTION):
        session.resume("D")
    assert queue_manager.counts("Q1").uncommitted == 0


def test_retained_owes_no_report_of_its_own(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager, REPLIES)
    session.publish(
        "a",
        b"x",
        retain=True,
        time_to_live_ms=1_000,
        report=c.MQRO_EXPIRATION | c.MQRO_COA,
        reply_to_q=REPLIES,
    )
    clock.advance(1_000)
    assert session.subscribe("a").get() is None
    assert queue_manager.curdepth(REPLIES) == 0
