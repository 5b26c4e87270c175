"""The schedule when several change it at once, when the disk is full, and across a restart."""

from collections import Counter
from pathlib import Path
from threading import Thread

import apsw
import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt
from tests.over import NewSession
from tests.spec.scene import (
    JOIN_SECONDS,
    STAGING,
    End,
    alter,
    bodies,
    ends,
    local,
    refused,
)
from tests.spec.schedule_scene import EVERYTHING, order
from tests.store.scene import failing_disk

R = Receipt
COUNT = 240


def test_receipts_stay_true_while_everybody_changes_and_time_moves(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """A cancelled message never arrives, every other one does, once, whoever was faster."""
    local(any_manager)
    alter(any_manager, "Q1", MAXDEPTH=COUNT)
    receipts: list[dict[bytes, Receipt]] = [{}, {}, {}]
    with new_session(any_manager) as session:
        sent = [
            session.put("Q1", b"x", delay_ms=1 + n // 8, persistent=persistent)
            for n in range(COUNT)
        ]

    def work(place: int) -> None:
        with new_session(any_manager) as own:
            schedule = own.schedule
            changes = (
                schedule.cancel,
                schedule.release,
                lambda msg_id: schedule.reschedule(msg_id, delay_ms=3),
            )
            # Two of the three want each message; from the last one, towards the clock.
            for n in reversed(range(COUNT)):
                if n % 3 != place:
                    receipts[place][sent[n]] = changes[place](sent[n])

    threads = [Thread(target=work, args=(place,), daemon=True) for place in range(3)]
    for thread in threads:
        thread.start()
    for step in range(COUNT // 8):
        while any(t.is_alive() for t in threads) and len(receipts[0]) < step * 5:
            threads[0].join(0.001)
        clock.advance(1)
    for thread in threads:
        thread.join(JOIN_SECONDS)
        assert not thread.is_alive()
    clock.advance(1_000)
    with new_session(any_manager) as session:
        arrived = Counter[bytes]()
        while (message := session.get("Q1")) is not None:
            arrived[message.msg_id] += 1
        for msg_id in sent:
            final = session.schedule.cancel(msg_id)
            told = {r[msg_id] for r in receipts if msg_id in r}
            assert final in (R.CANCELLED, R.ALREADY_RELEASED)
            assert arrived[msg_id] == (final is R.ALREADY_RELEASED)
            # No receipt speaks of an end that was not the end.
            assert told <= {R.RESCHEDULED, R.RELEASED, final}
    assert any_manager.curdepth(STAGING) == 0


@pytest.mark.parametrize("action", ["cancel", "release", "reschedule", "cancel_all", "unit"])
def test_full_disk_changes_nothing_and_the_change_works_afterwards(
    tmp_path: Path, clock: VirtualClock, action: str, new_session: NewSession
) -> None:
    """Neither the message nor the audit."""
    with failing_disk() as disk, QueueManager("QM1", tmp_path, clock=clock) as qm:
        local(qm)
        with new_session(qm) as session, new_session(qm, transacted=True) as unit:
            sent = [session.put("Q1", b"x", delay_ms=1_000, persistent=True) for _ in range(3)]
            before = session.schedule.list()

            def change() -> object:
                if action == "cancel_all":
                    return list(session.schedule.cancel_all(EVERYTHING))
                if action == "reschedule":
                    return session.schedule.reschedule(sent[0], delay_ms=5_000)
                if action == "release":
                    return session.schedule.release(sent[0])
                if action == "cancel":
                    return session.schedule.cancel(sent[0])
                unit.schedule.cancel(sent[0])
                unit.schedule.reschedule(sent[1], delay_ms=5_000)
                unit.commit()
                return None

            disk.error, disk.failing = apsw.FullError, "write .db-wal"
            with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
                change()
            assert session.schedule.list() == before
            disk.failing = ""
            assert any(call.startswith("write .db-wal") for call in disk.calls)
            assert session.schedule.audit() == []
            assert (qm.curdepth(STAGING), qm.counts("Q1").staged) == (3, 3)
            assert qm.verify().ok
            change()
            assert len(session.schedule.audit()) == (2 if action == "unit" else 1)
            left = {"cancel_all": 0, "reschedule": 3}.get(action, 2)
            assert qm.curdepth(STAGING) == left
            assert qm.verify().ok
            clock.advance(5_000)
            taken = {"cancel_all": 0, "cancel": 2, "unit": 2}.get(action, 3)
            assert len(bodies(session, "Q1")) == taken


def test_order_is_kept_across_a_restart_and_new_ones_go_behind(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path, clock=clock) as qm, new_session(qm) as session:
        local(qm)
        a, b, c = (
            session.put("Q1", name, delay_ms=delay_ms, persistent=True)
            for name, delay_ms in ((b"a", 5), (b"b", 10), (b"c", 7))
        )
        session.schedule.reschedule(c, delay_ms=10)
        session.schedule.reschedule(a, delay_ms=10)
        before = order(session.schedule)
        assert before == [b, c, a]
    with QueueManager("QM1", tmp_path, clock=clock) as qm, new_session(qm) as session:
        assert order(session.schedule) == before
        # At the time, and so at the very key, that the first one had.
        session.put("Q1", b"first", delay_ms=5, persistent=True)
        session.put("Q1", b"volatile", delay_ms=10)
        session.put("Q1", b"last", delay_ms=10, persistent=True)
        assert session.schedule.reschedule(a, delay_ms=10) is R.RESCHEDULED
        clock.advance(10)
        assert bodies(session, "Q1") == [b"first", b"b", b"c", b"volatile", b"last", b"a"]
        assert qm.verify().ok


def test_id_of_a_rescheduled_message_finds_it_and_not_the_one_that_took_its_key(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path, clock=clock) as qm, new_session(qm) as session:
        local(qm)
        moved = session.put("Q1", b"moved", delay_ms=5, persistent=True)
        session.schedule.reschedule(moved, delay_ms=10)
    with QueueManager("QM1", tmp_path, clock=clock) as qm, new_session(qm) as session:
        other = session.put("Q1", b"other", delay_ms=5, persistent=True)
        assert other != moved
        for msg_id, text in ((moved, b"moved"), (other, b"other")):
            found = [m.body[208:] for m in session.browse(STAGING, correl_id=msg_id)]
            assert found == [text]
            shown = session.schedule.show(msg_id)
            assert shown is not None
            assert shown.msg_id == msg_id
        assert session.schedule.cancel(moved) is R.CANCELLED
        clock.advance(10)
        assert bodies(session, "Q1") == [b"other"]


@pytest.mark.in_process
def test_books_balance_while_a_unit_of_work_holds_changes(
    queue_manager: QueueManager, session: Session, unit: Session, clock: VirtualClock
) -> None:
    """The depth of staging is without them, what is staged for the queue with them."""
    local(queue_manager)
    sent = [session.put("Q1", b"x", delay_ms=1_000, persistent=n % 2 == 0) for n in range(6)]
    for msg_id in sent[:2]:
        unit.schedule.cancel(msg_id)
    for msg_id in sent[2:4]:
        unit.schedule.reschedule(msg_id, delay_ms=9_000)
    assert queue_manager.verify().ok
    assert (queue_manager.curdepth(STAGING), queue_manager.counts("Q1").staged) == (2, 6)
    assert queue_manager.counts(STAGING).locked == 4
    clock.advance(2_000)
    assert (queue_manager.curdepth(STAGING), queue_manager.counts("Q1").staged) == (0, 4)
    assert queue_manager.verify().ok
    unit.commit()
    assert (queue_manager.curdepth(STAGING), queue_manager.counts("Q1").staged) == (2, 2)
    assert queue_manager.counts(STAGING).locked == 0
    assert queue_manager.verify().ok


@pytest.mark.in_process
def test_session_dropped_without_close_gives_its_changes_back(
    queue_manager: QueueManager, session: Session, clock: VirtualClock, new_session: NewSession
) -> None:
    local(queue_manager)
    sent = [session.put("Q1", b"x", delay_ms=1_000) for _ in range(2)]
    dropped = new_session(queue_manager, transacted=True)
    dropped.schedule.cancel(sent[0])
    dropped.schedule.reschedule(sent[1], delay_ms=60_000)
    assert session.schedule.cancel(sent[0]) is R.LOCKED
    del dropped
    assert len(session.schedule.list()) == 2
    clock.advance(1_000)
    assert len(bodies(session, "Q1")) == 2


def test_receipt_is_forgotten_with_the_ledger_s_retention(
    clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", clock=clock, settings={"ledger.retention_count": 2}) as qm:
        local(qm)
        with new_session(qm) as session:
            sent = session.put("Q1", b"x", delay_ms=10)
            later = session.put("Q1", b"x", delay_ms=10**9)
            assert session.schedule.cancel(sent) is R.CANCELLED
            assert session.schedule.cancel(sent) is R.CANCELLED
            for _ in range(5):
                session.put("Q1", b"other")
                session.get("Q1")
                clock.advance(1_000)
            assert session.schedule.cancel(sent) is R.UNKNOWN
            assert session.schedule.cancel(later) is R.CANCELLED


def test_release_on_a_full_disk_is_made_up_for(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    """Nothing arrives while the disk is full, everything once and in order afterwards."""
    with failing_disk() as disk, QueueManager("QM1", tmp_path, clock=clock) as qm:
        local(qm)
        with new_session(qm) as session:
            names = [b"%d" % n for n in range(6)]
            for n, name in enumerate(names):
                session.put("Q1", name, delay_ms=10, persistent=n % 2 == 0)
            disk.error, disk.failing = apsw.FullError, "write .db-wal"
            clock.advance(10)
            assert (qm.curdepth("Q1"), qm.counts("Q1").staged) == (0, 6)
            disk.failing = ""
            clock.advance(1_000)
            assert bodies(session, "Q1") == names
            assert ends(qm, STAGING) == [End("released", 1_010)] * 6
            assert qm.verify().ok
