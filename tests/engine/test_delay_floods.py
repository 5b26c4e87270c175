"""A flood of due messages among waits, consumers, a full disk and the end: in order, each once."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import apsw
import pytest

from mayfly import QueueManager
from mayfly.engine import expiry
from mayfly.engine.delay import delay_processor
from mayfly.lifetime.times import SECOND_MS, STORED_TIME_IDLE_MS, Driven
from mayfly.mqi import reasons as rc
from mayfly.runtime.clocks import SystemClock
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt
from tests.engine.delay_scene import EVERYTHING, LONG_MS, advance, delivered, put_many
from tests.spec.scene import (
    STAGING,
    START_MS,
    Running,
    bodies,
    body,
    local,
    refused,
    waiting,
)
from tests.store.scene import failing_disk, statement

FULL, ROOMY = 1, 1_000_000


class ByHand:
    """A clock whose owner runs every part of what is due."""

    def __init__(self) -> None:
        self.at_ms = START_MS

    def now_ms(self) -> int:
        return self.at_ms

    def attach(self, driven: Driven) -> None:
        """Nothing is run."""

    def detach(self, driven: Driven) -> None:
        """Nothing was run."""

    def wake(self, driven: Driven) -> None:
        """Nothing is run."""


def pages(qm: QueueManager, limit: int) -> None:
    qm.engine.store.commit([statement(f"PRAGMA max_page_count = {limit}")])


@pytest.mark.usefixtures("small_batches")
def test_the_end_in_the_middle_of_a_flood_loses_and_doubles_nothing(tmp_path: Path) -> None:
    clock = VirtualClock()
    qm = QueueManager("QM1", tmp_path, clock)
    local(qm)
    with qm.session(transacted=True) as session:
        ids = [session.put("Q1", b"x", delay_ms=10, persistent=True) for _ in range(300)]
    flood = Running(partial(clock.advance, 10))
    while not qm.curdepth("Q1"):
        assert flood.is_under_way or qm.curdepth("Q1")
    qm.close()
    flood.finish()
    with QueueManager("QM1", tmp_path, clock) as reopened:
        assert reopened.verify().ok
        clock.advance(0)
        assert list(delivered(reopened)) == ids
        assert reopened.verify().ok


@pytest.mark.usefixtures("small_batches")
def test_a_full_disk_in_the_middle_of_a_bulk_keeps_whole_batches(tmp_path: Path) -> None:
    with failing_disk() as disk, QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        disk.error = apsw.FullError
        local(qm)
        with qm.session() as session:
            ids = [session.put("Q1", b"x", delay_ms=LONG_MS, persistent=True) for _ in range(10)]
        schedule = qm.session().schedule
        releasing = schedule.release_all(EVERYTHING)
        assert next(releasing) == 3
        assert list(delivered(qm)) == ids[:3]
        disk.failing = "write"
        with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
            next(releasing)
        with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
            next(schedule.cancel_all(EVERYTHING))
        disk.failing = ""
        assert (qm.counts("Q1").staged, qm.engine.hidden) == (7, {})
        assert [entry.message_count for entry in schedule.audit()] == [3]
        found = qm.verify()
        assert found.ok, found.problems
        assert [*schedule.release_all(EVERYTHING)][-1] == 7
        assert list(delivered(qm)) == ids


@pytest.mark.usefixtures("small_batches")
def test_a_flood_on_a_full_disk_is_released_in_order_when_there_is_room(tmp_path: Path) -> None:
    clock = VirtualClock()
    with failing_disk() as disk, QueueManager("QM1", tmp_path, clock) as qm:
        disk.error = apsw.FullError
        local(qm)
        ids = put_many(qm, 20, delay_ms=10)
        disk.failing = "write"
        clock.advance(10)
        assert (qm.counts("Q1"), qm.curdepth(STAGING)) == ((20, 0, 0, 0, 0), 20)
        disk.failing = ""
        clock.advance(1_000)
        assert list(delivered(qm)) == ids
        found = qm.verify()
        assert found.ok, found.problems


def test_G4_a_wait_ends_on_time_while_a_full_disk_holds_releases_back(tmp_path: Path) -> None:
    clock = VirtualClock()
    with QueueManager("QM1", tmp_path, clock) as qm:
        local(qm)
        session = qm.session()
        session.put("Q1", b"x" * 50_000, delay_ms=10, persistent=True)
        getter = waiting(qm, "Q1", lambda: qm.session().get("Q1", wait_ms=50))
        pages(qm, FULL)
        advancing = Running(partial(clock.advance, 60))
        assert getter.finish() is None
        advancing.finish()
        pages(qm, ROOMY)
        clock.advance(1_000)
        assert len(bodies(session, "Q1")) == 1


@pytest.mark.usefixtures("small_batches")
def test_a_wait_on_another_queue_ends_on_time_during_a_flood() -> None:
    """One part of the flood is enough for it; a wait on the flooded queue lasts to its end."""
    clock = ByHand()
    with QueueManager("QM1", None, clock) as qm:
        local(qm)
        local(qm, "Q2")
        put_many(qm, 9, delay_ms=10)
        other = waiting(qm, "Q2", lambda: qm.session().get("Q2", wait_ms=10))
        mine = waiting(qm, "Q1", lambda: qm.session().get("Q1", correl_id=b"none", wait_ms=10))
        clock.at_ms += 10
        qm.engine.due_work.run_pass()
        assert other.finish() is None
        assert (qm.curdepth("Q1"), mine.is_under_way) == (3, True)
        qm.engine.due_work.run_pass()
        assert (qm.curdepth("Q1"), mine.is_under_way) == (6, True)
        qm.engine.due_work.run_pass()
        assert mine.finish() is None
        assert qm.curdepth("Q1") == 9


@pytest.mark.usefixtures("small_batches")
def test_a_release_waits_for_one_piece_of_bookkeeping_at_a_time() -> None:
    """Balance rows and the ledger's retention are due with three batches of messages."""
    clock = ByHand()
    with QueueManager("QM1", None, clock, settings={"ledger.retention_count": 2}) as qm:
        local(qm)
        store, run_pass = qm.engine.store, qm.engine.due_work.run_pass
        with qm.session() as session:
            for _ in range(5):
                session.put("Q1", b"over")
                session.get("Q1")
        store.flush()
        run_pass()
        put_many(qm, 9, delay_ms=SECOND_MS)
        clock.at_ms += SECOND_MS
        assert (store.ledger_writer.has_unbalanced(), store.retention.first_position) == (True, 1)
        assert run_pass()
        assert (qm.curdepth("Q1"), store.ledger_writer.has_unbalanced()) == (3, False)
        assert store.retention.first_position == 1
        assert run_pass()
        assert qm.curdepth("Q1") == 6
        assert store.retention.first_position > 1
        assert not run_pass()
        assert qm.curdepth("Q1") == 9


def test_E4_time_that_balance_rows_have_stored_is_not_stored_once_more(tmp_path: Path) -> None:
    """Both are due when the round begins; the first makes the second needless."""
    clock = ByHand()
    with QueueManager("QM1", tmp_path, clock) as qm:
        local(qm)
        qm.engine.due_work.run_pass()
        clock.at_ms += STORED_TIME_IDLE_MS
        qm.session().put("Q1", b"in memory")
        clock.at_ms += SECOND_MS
        stored_ms = []

        def should_yield() -> bool:
            stored_ms.append(qm.engine.store.ledger_writer.high_water_ms)
            return False

        qm.engine.due_work.housekeeping.run(should_yield)
        assert stored_ms == [clock.now_ms()]


@pytest.mark.usefixtures("small_batches")
def test_a_release_waits_for_one_batch_of_the_expiry_scan_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nine messages are due and seven have expired: the scan goes on behind each release."""
    monkeypatch.setattr(expiry, "BATCH", 2)
    clock = ByHand()
    with QueueManager("QM1", None, clock) as qm:
        local(qm)
        local(qm, "Q2")
        assert qm.mqsc("ALTER QMGR EXPRYINT(1)").ok
        run_pass = qm.engine.due_work.run_pass
        run_pass()
        put_many(qm, 9, delay_ms=SECOND_MS)
        with qm.session() as session:
            for _ in range(7):
                session.put("Q2", b"short", time_to_live_ms=100, persistent=True)
        clock.at_ms += SECOND_MS
        seen = []
        while True:
            is_more = run_pass()
            seen.append((qm.curdepth("Q1"), qm.curdepth("Q2")))
            if not is_more:
                break
        # The last release leaves nothing due, so the scan comes to its end.
        assert seen == [(3, 5), (6, 3), (9, 0)]
        run_pass()
        assert qm.curdepth("Q2") == 0
        with qm.engine.engine_lock:
            assert qm.engine.due_work._scan.next_due_ms() is None


@pytest.mark.usefixtures("small_batches")
def test_D17_a_side_whose_first_page_is_partly_hidden_does_not_fall_behind(
    on_clock: QueueManager,
) -> None:
    """Behind the page that was read of one side, the other side waits for the next batch."""
    qm = on_clock
    with qm.session() as session, qm.session(transacted=True) as other:
        ids = [session.put("Q1", b"%d" % n, delay_ms=10, persistent=n != 5) for n in range(7)]
        assert other.schedule.cancel(ids[0]) == Receipt.CANCELLED
        advance(qm, 10)
        assert bodies(session, "Q1") == [b"1", b"2", b"3", b"4", b"5", b"6"]
        other.backout()
        assert bodies(session, "Q1") == [b"0"]


@pytest.mark.parametrize("kind", [VirtualClock, SystemClock], ids=["virtual", "system"])
def test_waiting_consumers_get_a_flood_in_order_and_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[VirtualClock | SystemClock]
) -> None:
    monkeypatch.setattr(delay_processor, "BATCH", 50)
    clock, count = kind(), 1_000
    with QueueManager("QM1", tmp_path, clock) as qm:
        local(qm, MAXDEPTH=100_000)

        def consume(_: int) -> list[int]:
            got: list[int] = []
            with qm.session() as session:
                while (found := body(session.get("Q1", wait_ms=-1))) != b"end":
                    assert found is not None
                    got.append(int(found))
            return got

        consumers = [waiting(qm, "Q1", partial(consume, 0))]
        consumers += [Running(partial(consume, n)) for n in range(1, 4)]
        put_many(qm, count, delay_ms=1)
        if isinstance(clock, VirtualClock):
            clock.advance(1)
        with qm.session() as session:
            while qm.curdepth(STAGING) or qm.curdepth("Q1"):
                assert any(consumer.is_under_way for consumer in consumers)
            for _ in consumers:
                session.put("Q1", b"end")
        got = [consumer.finish() for consumer in consumers]
        for one in got:
            assert isinstance(one, list)
            assert one == sorted(one)
        assert sorted(n for one in got for n in one) == list(range(count))  # type: ignore[attr-defined]  # checked above
        assert qm.verify().ok
