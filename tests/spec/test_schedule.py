"""Receipts of the schedule of delayed messages: each true when it is given, and given again."""

import shutil
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.delay.delay_processor import RETRY_MS
from mayfly.engine.objects import administration
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DLH
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt
from tests.over import NewSession
from tests.snapshots import on_a_snapshot
from tests.spec.scene import (
    DEAD,
    STAGING,
    START_MS,
    End,
    alter,
    alter_manager,
    bodies,
    ends,
    lives,
    local,
    refused,
)

R = Receipt
ALL_CHANGES = ("cancel", "reschedule", "release")


def change(session: Session, action: str, msg_id: bytes) -> Receipt:
    """Ask for one change."""
    if action == "cancel":
        return session.schedule.cancel(msg_id)
    if action == "release":
        return session.schedule.release(msg_id)
    return session.schedule.reschedule(msg_id, delay_ms=9_000)


def asked(session: Session, msg_id: bytes) -> set[Receipt]:
    """Ask for every change, twice; nothing may change any more."""
    return {change(session, action, msg_id) for action in ALL_CHANGES * 2}


def test_cancel_ends_the_life_and_answers_the_same_again(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        sent = session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
        kept = session.put("Q1", b"kept", delay_ms=1_000, persistent=persistent)
        clock.advance(400)
        assert session.schedule.cancel(sent) is R.CANCELLED
        assert asked(session, sent) == {R.CANCELLED}
        assert session.schedule.show(sent) is None
        assert any_manager.curdepth(STAGING) == session.schedule.count("Q1") == 1
        clock.advance(600)
        assert bodies(session, "Q1") == [b"kept"]
        assert asked(session, sent) == {R.CANCELLED}
        assert asked(session, kept) == {R.ALREADY_RELEASED}
    assert [(r.outcome, r.correl_id, r.ended_ms) for r in lives(any_manager, STAGING)] == [
        ("cancelled", sent, START_MS + 400),
        ("released", kept, START_MS + 1_000),
    ]


def test_get_from_the_staging_queue_counts_as_cancelled(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    sent = session.put("Q1", b"x", delay_ms=1_000)
    session.get(STAGING, correl_id=sent)
    assert asked(session, sent) == {R.CANCELLED}


def test_unknown_is_what_was_never_delayed(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager)
    not_delayed = session.put("Q1", b"x")
    delayed = session.put("Q1", b"x", delay_ms=1_000)
    staged_id = next(session.browse(STAGING)).msg_id
    for msg_id in (not_delayed, staged_id, b"", bytes(24), b"nobody", delayed[:-1]):
        assert asked(session, msg_id) == {R.UNKNOWN}
        assert session.schedule.show(msg_id) is None
    with refused(rc.MQRC_MD_ERROR):
        session.schedule.cancel(b"M" * 25)
    assert session.schedule.count() == 1


@pytest.mark.parametrize("given", [None, b"mine"])
def test_release_delivers_now_and_then_says_already_released(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    given: bytes | None,
    new_session: NewSession,
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        session.put("Q1", b"later", delay_ms=500_000, persistent=persistent)
        sent = session.put("Q1", b"x", delay_ms=1_000_000, msg_id=given, persistent=persistent)
        clock.advance(700)
        assert session.schedule.release(sent) is R.RELEASED
        assert asked(session, sent) == {R.ALREADY_RELEASED}
        message = session.get("Q1")
        assert message is not None
        assert (message.msg_id, message.put_ms, message.deliver_at_ms) == (
            sent,
            START_MS,
            START_MS + 700,
        )
        assert asked(session, sent) == {R.ALREADY_RELEASED}
    assert ends(any_manager, STAGING) == [End("released", 700)]


def test_expired_on_staging(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        sent = session.put("Q1", b"x", delay_ms=1_000, time_to_live_ms=1_000, persistent=persistent)
        clock.advance(999)
        assert session.schedule.show(sent) is not None
        clock.advance(1)
        assert asked(session, sent) == {R.EXPIRED}
        later = session.put("Q1", b"x", delay_ms=10, time_to_live_ms=20, persistent=persistent)
        clock.advance(20)
        assert session.get("Q1") is None
        # It was released; what became of it then is another life.
        assert asked(session, later) == {R.ALREADY_RELEASED}


@pytest.mark.parametrize(
    ("report", "receipt"), [(0, R.DEAD_LETTERED), (c.MQRO_DISCARD_MSG, R.DISCARDED)]
)
def test_dead_lettered_and_discarded(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    report: int,
    receipt: Receipt,
    new_session: NewSession,
) -> None:
    local(any_manager)
    alter_manager(any_manager, DEADQ=DEAD)
    with new_session(any_manager) as session:
        sent = session.put("Q1", b"x", delay_ms=1_000, report=report, persistent=persistent)
        alter(any_manager, "Q1", PUT=c.MQQA_PUT_INHIBITED)
        clock.advance(1_000)
        assert asked(session, sent) == {receipt}


def test_release_of_one_whose_target_is_put_disabled_fails_like_any_release(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """D20: to the dead-letter queue; where that is missing it stays and can be cancelled."""
    local(any_manager)
    with new_session(any_manager) as session:
        first = session.put("Q1", b"first", delay_ms=60_000, persistent=persistent)
        second = session.put("Q1", b"second", delay_ms=60_000, persistent=persistent)
        alter(any_manager, "Q1", PUT=c.MQQA_PUT_INHIBITED)
        assert session.schedule.release(first) is R.RELEASED
        assert any_manager.curdepth(STAGING) == 2
        assert session.schedule.release(first) is R.RELEASED
        assert session.schedule.cancel(first) is R.CANCELLED
        alter_manager(any_manager, DEADQ=DEAD)
        clock.advance(500)
        assert session.schedule.release(second) is R.RELEASED
        assert asked(session, second) == {R.DEAD_LETTERED}
        dead = session.get(DEAD)
    assert dead is not None
    assert DLH.unpack(dead.body)["Reason"] == rc.MQRC_PUT_INHIBITED
    assert (dead.msg_id, dead.body[172:]) == (second, b"second")
    assert ends(any_manager, STAGING) == [
        End("cancelled", 0),
        End("dead_lettered", 500, rc.MQRC_PUT_INHIBITED),
    ]


def test_stuck_message_released_by_hand_is_tried_at_once(
    queue_manager: QueueManager, session: Session, clock: VirtualClock, persistent: bool
) -> None:
    """Not after the retry time (D21)."""
    local(queue_manager)
    sent = session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
    alter(queue_manager, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    clock.advance(1_000)
    alter(queue_manager, "Q1", PUT=c.MQQA_PUT_ALLOWED)
    clock.advance(RETRY_MS // 2)
    assert queue_manager.curdepth("Q1") == 0
    assert session.schedule.release(sent) is R.RELEASED
    assert bodies(session, "Q1") == [b"x"]
    assert ends(queue_manager, STAGING) == [End("released", 1_000 + RETRY_MS // 2)]


def test_cleared(any_manager: QueueManager, persistent: bool, new_session: NewSession) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        sent = session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
        assert administration.clear(any_manager.engine, STAGING) == 1
        assert asked(session, sent) == {R.CLEARED}
        assert session.schedule.count("Q1") == 0


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_lost_at_restart(
    clock: VirtualClock, tmp_path: Path, how: str, new_session: NewSession
) -> None:
    """Which non-persistent messages a kill has taken nobody knows; the others keep receipts."""
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder, clock=clock) as qm, new_session(qm) as session:
        local(qm)
        lost = session.put("Q1", b"lost", delay_ms=5_000)
        kept, cancelled, moved = (
            session.put("Q1", name, delay_ms=5_000, persistent=True)
            for name in (b"kept", b"cancelled", b"moved")
        )
        session.schedule.cancel(cancelled)
        session.schedule.reschedule(moved, delay_ms=8_000)
        if how == "killed":
            shutil.copytree(folder, tmp_path / "copy")
            folder = tmp_path / "copy"
    clock.advance(4_999)
    with (
        QueueManager("QM1", folder, clock=clock, runtime=on_a_snapshot()) as qm,
        new_session(qm) as session,
    ):
        assert asked(session, lost) == {R.LOST_AT_RESTART if how == "closed" else R.UNKNOWN}
        assert asked(session, cancelled) == {R.CANCELLED}
        assert session.schedule.count("Q1") == qm.curdepth(STAGING) == 2
        clock.advance(1)
        assert bodies(session, "Q1") == [b"kept"]
        assert asked(session, kept) == {R.ALREADY_RELEASED}
        clock.advance(2_999)
        assert session.get("Q1") is None
        clock.advance(1)
        message = session.get("Q1")
        assert message is not None
        assert (message.msg_id, message.deliver_at_ms) == (moved, START_MS + 8_000)
        assert qm.verify().ok
