"""Group commit: one transaction for many, and what becomes of them when the disk fails."""

import threading
from pathlib import Path
from threading import Event

import apsw
import pytest

from mayfly import MQError, QueueManager
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, LostAnswer, ResourceError
from mayfly.runtime import Runtime
from mayfly.runtime.runtime import PlainLock
from mayfly.store import group_commit
from mayfly.store.store import Store
from mayfly.testing import VirtualClock
from tests.spec.scene import JOIN_SECONDS, Running
from tests.store.scene import (
    GATE_SECONDS,
    NUMBER,
    Gate,
    failing_disk,
    gate,
    get_unit,
    held,
    new_row,
    opened,
    put_unit,
    statement,
)

FULL, ROOMY = 1, 1_000_000


def pages(manager: QueueManager, limit: int) -> None:
    """Let the database of a queue manager grow to a number of pages."""
    # SQLite takes the present size for any limit below it.
    manager.engine.store.commit([statement(f"PRAGMA max_page_count = {limit}")])


def test_who_comes_while_a_transaction_runs_shares_the_next_one(tmp_path: Path) -> None:
    with gate() as opening:
        store = opened(tmp_path)
    rows = [new_row(store) for _ in range(12)]
    before = store.group.batch_count
    assert opening.batch(store, *(put_unit(store, row) for row in rows)) == [None] * 12
    assert store.group.batch_count == before + 2
    assert held(store) == [row.msg_id for row in rows]
    store.close()


def shared_by_two(store: Store, opening: Gate) -> int:
    """Let two commit at the same time, and return how many transactions there were."""
    assert opening.batch(store, put_unit(store), put_unit(store)) == [None, None]
    return store.group.batch_count


def test_who_shared_the_last_transaction_shares_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gate() as opening:
        store = opened(tmp_path)
    before = shared_by_two(store, opening)
    monkeypatch.setattr(group_commit, "GATHER_SECONDS", JOIN_SECONDS)
    first = Running(lambda: store.commit([put_unit(store)]))
    while not store.group.waiting:
        Event().wait(0.001)
    assert first.is_under_way
    store.commit([put_unit(store)])
    first.finish()
    assert store.group.batch_count == before + 1
    assert len(held(store)) == 4
    store.close()


def test_who_is_left_alone_waits_for_nobody_a_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gate() as opening:
        store = opened(tmp_path)
    before = shared_by_two(store, opening)
    store.commit([put_unit(store)])
    monkeypatch.setattr(group_commit, "GATHER_SECONDS", JOIN_SECONDS)
    alone = Running(lambda: store.commit([put_unit(store)]))
    alone.finish()
    assert store.group.batch_count == before + 2
    store.close()


def test_a_caller_with_several_units_is_one_who_may_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path)
    store.commit([put_unit(store), put_unit(store), put_unit(store)])
    before = store.group.batch_count
    monkeypatch.setattr(group_commit, "GATHER_SECONDS", 10 * JOIN_SECONDS)
    Running(lambda: store.commit([put_unit(store)])).finish()
    assert store.group.batch_count == before + 1
    store.close()


class LateLock:
    """A lock; a caller of :meth:`delay_me` goes on only when let, once it has freed the lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._late = threading.local()
        self.freed, self.go_on = Event(), Event()

    def delay_me(self) -> None:
        self._late.is_next = True

    def acquire(self, blocking: bool = True) -> bool:
        return self._lock.acquire(blocking)

    def release(self) -> None:
        self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if getattr(self._late, "is_next", False):
            self._late.is_next = False
            self.freed.set()
            assert self.go_on.wait(GATE_SECONDS)


class NotingEvent(Event):
    """An event that notes whether it was set already when a timed wait for it began."""

    def __init__(self, noted: list[bool]) -> None:
        super().__init__()
        self._noted = noted

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None:
            self._noted.append(self.is_set())
        return super().wait(timeout)


class GatherRuntime(Runtime):
    """Notes each time that a leader gathers: False where it waits for the others."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting_units = LateLock()
        self.gathers: list[bool] = []
        self.event = lambda: NotingEvent(self.gathers)

    def lock(self, name: str) -> PlainLock:
        return self.waiting_units if name == "waiting units" else super().lock(name)


def queued(store: Store, count: int) -> None:
    """Wait until so many units wait for a leader."""
    while len(store.group.waiting) < count:
        Event().wait(0.001)


def test_who_leads_next_gathers_by_the_callers_of_now_not_by_those_of_the_last_time(
    tmp_path: Path,
) -> None:
    """One caller is all that the first leader expects; the next one expects two."""
    runtime = GatherRuntime()
    with gate() as opening:
        store = opened(tmp_path, runtime=runtime)
    runtime.gathers.clear()
    assert opening.batch(store, put_unit(store)) == [None]
    assert runtime.gathers == [False]
    store.close()


def test_a_caller_that_is_late_out_of_the_lock_keeps_no_later_leader_from_gathering(
    tmp_path: Path,
) -> None:
    runtime = GatherRuntime()
    lock = runtime.waiting_units
    with gate() as opening:
        store = opened(tmp_path, runtime=runtime)

    def commit_late() -> None:
        lock.delay_me()
        store.commit([put_unit(store)])

    first = Running(lambda: store.commit([statement("SELECT gate()")]))
    assert opening.reached.wait(GATE_SECONDS)
    second = Running(lambda: store.commit([put_unit(store)]))
    queued(store, 1)
    late = Running(commit_late)
    assert lock.freed.wait(GATE_SECONDS)
    opening.opened.set()
    first.finish()
    second.finish()
    # The unit of the late caller is safe by now.
    assert len(held(store)) == 2
    lock.go_on.set()
    late.finish()
    runtime.gathers.clear()
    store.commit([put_unit(store)])
    assert runtime.gathers == [False]
    store.close()


def test_a_lone_caller_gathers_nobody(tmp_path: Path) -> None:
    runtime = GatherRuntime()
    store = opened(tmp_path, runtime=runtime)
    runtime.gathers.clear()
    for _ in range(3):
        store.commit([put_unit(store)])
    assert runtime.gathers == []
    store.close()


def test_gets_that_share_a_transaction_are_written_by_four_statements(tmp_path: Path) -> None:
    """Each statement lets another thread have the interpreter, and the leader waits for it."""
    with gate() as opening:
        store = opened(tmp_path)
    rows = [new_row(store) for _ in range(7)]
    store.commit([put_unit(store, *rows)])
    begun: list[str] = []

    def note(_cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
        begun.append(" ".join(sql.split()[:3]))
        return True

    store.database.writer.exec_trace = note
    assert opening.batch(store, *(get_unit(row) for row in rows)) == [None] * 7
    # That of the gate comes before.
    last = begun[len(begun) - begun[::-1].index("BEGIN IMMEDIATE") - 1 :]
    assert last == ["BEGIN IMMEDIATE", "INSERT INTO ledger", "DELETE FROM message", "COMMIT"]
    assert held(store) == []
    store.close()


def test_a_bad_unit_fails_alone(tmp_path: Path) -> None:
    with gate() as opening:
        store = opened(tmp_path)
    there, good, later = new_row(store), new_row(store), new_row(store)
    store.commit([put_unit(store, there)])
    bad = get_unit(there)
    bad.put(NUMBER, good, persistent=True)
    bad.put(NUMBER, good, persistent=True)
    outcomes = opening.batch(store, put_unit(store, good), bad, put_unit(store, later))
    assert [type(outcome) for outcome in outcomes] == [type(None), apsw.ConstraintError, type(None)]
    assert held(store) == [row.msg_id for row in (there, good, later)]
    totals = store.ledger_writer.totals[NUMBER]
    assert (totals.puts, totals.present, sum(totals.ended.values())) == (3, 3, 0)
    assert store.ledger.last_position() == 0
    store.close()


def test_a_bad_unit_leaves_no_gap_in_the_ledger(tmp_path: Path) -> None:
    with gate() as opening:
        store = opened(tmp_path)
    rows = [new_row(store) for _ in range(3)]
    store.commit([put_unit(store, *rows)])
    bad = get_unit(rows[1])
    bad.put(NUMBER, rows[2], persistent=True)
    opening.batch(store, get_unit(rows[0]), bad, get_unit(rows[2]))
    assert [(row[0], row[3]) for row in store.ledger.page(0, 10)] == [
        (1, rows[0].msg_id),
        (2, rows[2].msg_id),
    ]
    assert held(store) == [rows[1].msg_id]
    store.close()


def test_a_unit_with_totals_of_an_unknown_queue_leaves_no_gap_and_changes_no_totals(
    tmp_path: Path,
) -> None:
    """It fails when its life has been written: between two good ones, which stay as they are."""
    with gate() as opening:
        store = opened(tmp_path)
    store.ledger_writer.totals.open_queue(2, "Q2")
    rows = [new_row(store) for _ in range(4)]
    store.commit([put_unit(store, *rows)])
    bad = get_unit(rows[1])
    bad.delta(2).puts += 1
    bad.delta(999).puts += 1
    outcomes = opening.batch(store, get_unit(rows[0]), bad, get_unit(rows[2]))
    assert [type(outcome) for outcome in outcomes] == [type(None), KeyError, type(None)]
    assert held(store) == [rows[1].msg_id, rows[3].msg_id]
    store.commit([get_unit(rows[3])])
    lives = [(1, rows[0].msg_id), (2, rows[2].msg_id), (3, rows[3].msg_id)]
    for again in (False, True):
        if again:
            store = opened(tmp_path)
            store.ledger_writer.totals.open_queue(2, "Q2")
        assert [(row[0], row[3]) for row in store.ledger.page(0, 10)] == lives
        assert store.ledger.last_position() == 3
        totals = store.ledger_writer.totals[NUMBER]
        assert (totals.puts, totals.present, sum(totals.ended.values())) == (4, 1, 3)
        assert store.ledger_writer.totals[2].puts == 0
        store.close()


def test_a_full_disk_fails_the_whole_batch_keeps_nothing_and_passes(tmp_path: Path) -> None:
    with gate() as opening:
        store = opened(tmp_path)
    there = new_row(store)
    store.commit([put_unit(store, there)])
    store.commit([statement("PRAGMA max_page_count = 1")])
    big = [new_row(store, bytes(100_000)) for _ in range(3)]
    outcomes = opening.batch(store, get_unit(there), *(put_unit(store, row) for row in big))
    assert [o.reason if isinstance(o, MQError) else o for o in outcomes] == [
        rc.MQRC_STORAGE_MEDIUM_FULL
    ] * 4
    assert held(store) == [there.msg_id]
    totals = store.ledger_writer.totals[NUMBER]
    assert (totals.puts, totals.present, sum(totals.ended.values())) == (1, 1, 0)
    assert store.ledger.last_position() == 0
    store.commit([statement("PRAGMA max_page_count = 1000000")])
    store.commit([put_unit(store, big[0]), get_unit(there)])
    assert held(store) == [big[0].msg_id]
    store.close()
    again = opened(tmp_path)
    assert held(again) == [big[0].msg_id]
    again.close()


@pytest.mark.parametrize("failing", ["sync .db-wal", "write .db-wal"])
def test_an_io_error_at_commit_stops_the_store_for_good(tmp_path: Path, failing: str) -> None:
    with failing_disk() as disk, gate() as opening:
        store = opened(tmp_path)
        there, lost = new_row(store), [new_row(store) for _ in range(3)]
        store.commit([put_unit(store, there)])
        disk.failing = failing
        units = [put_unit(store, row) for row in lost]
        outcomes = opening.batch(store, units[0])
        assert isinstance(outcomes[0], ConnectionBroken)
        disk.failing = ""
        commits = disk.calls.count("sync .db-wal")
        for unit in units[1:]:
            with pytest.raises(ConnectionBroken) as refused:
                store.commit([unit])
            assert refused.value.reason == rc.MQRC_CONNECTION_BROKEN
        assert disk.calls.count("sync .db-wal") == commits
        store.close()
    again = opened(tmp_path)
    assert held(again)[0] == there.msg_id
    assert not {row.msg_id for row in lost[1:]} & set(held(again))
    again.close()


def test_an_io_error_at_commit_stops_the_queue_manager(tmp_path: Path) -> None:
    with failing_disk() as disk:
        manager = QueueManager("QM1", tmp_path, VirtualClock())
        manager.mqsc("DEFINE QLOCAL(Q1) DEFPSIST(YES)")
        session = manager.session()
        kept = session.put("Q1", b"kept")
        disk.failing = "sync .db-wal"
        for body, error in ((b"unknown", LostAnswer), (b"refused", ConnectionBroken)):
            with pytest.raises(ConnectionBroken) as stopped:
                session.put("Q1", body)
            assert stopped.value.reason == rc.MQRC_CONNECTION_BROKEN
            # What has begun may have been kept, what comes later was not.
            assert type(stopped.value) is error
        disk.failing = ""
        with pytest.raises(ConnectionBroken):
            manager.session()
        manager.close()
    with QueueManager("QM1", tmp_path, VirtualClock()) as again:
        found = [message.msg_id for message in again.session().browse("Q1")]
        assert found[0] == kept
        assert len(found) <= 2
        assert again.verify().ok


def test_a_full_disk_leaves_the_queue_as_it_was(tmp_path: Path) -> None:
    with QueueManager("QM1", tmp_path, VirtualClock()) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1) DEFPSIST(YES)")
        with manager.session() as session, manager.session(transacted=True) as work:
            first = session.put("Q1", b"first")
            pages(manager, FULL)
            for body in (b"x" * 100_000, b"y" * 100_000):
                with pytest.raises(ResourceError) as full:
                    session.put("Q1", body)
                assert full.value.reason == rc.MQRC_STORAGE_MEDIUM_FULL
            work.put("Q1", b"z" * 100_000)
            got = work.get("Q1")
            assert got is not None
            assert got.msg_id == first
            with pytest.raises(ResourceError):
                work.commit()
            assert manager.counts("Q1") == (0, 1, 0, 0, 0)
            assert manager.verify().ok
            pages(manager, ROOMY)
            got = work.get("Q1")
            assert got is not None
            assert (got.msg_id, got.backout_count) == (first, 0)


def test_a_discard_that_finds_the_disk_full_fails_no_get_and_comes_later(tmp_path: Path) -> None:
    clock = VirtualClock()
    with QueueManager("QM1", tmp_path, clock) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        with manager.session() as session:
            for n in range(40):
                session.put("Q1", b"dead", time_to_live_ms=100, persistent=True, reply_to_q=f"R{n}")
            alive = session.put("Q1", b"alive", persistent=False)
            clock.advance(100)
            pages(manager, FULL)
            got = session.get("Q1")
            assert got is not None
            assert got.msg_id == alive
            pages(manager, ROOMY)
            assert session.get("Q1") is None
            assert manager.curdepth("Q1") == 0
        assert manager.verify().ok
