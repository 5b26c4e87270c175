"""Ctrl-C, or any signal whose handler raises, in the middle of a verb: nothing hangs or is lost."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import pytest

from mayfly import MQError, QueueManager
from mayfly.engine import GetRequest
from mayfly.lifetime.times import Driven
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.runtime.runtime import MachineSignal
from mayfly.store import group_commit
from mayfly.store.group_commit import GroupCommit
from mayfly.store.store import Store
from mayfly.store.units import Unit
from mayfly.testing import VirtualClock
from tests.facts import code_of
from tests.spec.scene import JOIN_SECONDS, Running, bodies, local
from tests.store.scene import NUMBER, gate, held, opened, put_unit, statement
from tests.store.test_group_commit import queued

#: What a leader does after its commit is queued.
LEADING = "_lead", "_gather", "_run_undecided", "_hand_over"


class CtrlC:
    """What SIGINT does: the first one raises, those that are sent behind it do nothing."""

    has_come = False

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if not self.has_come:
            self.has_come = True
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _ctrl_c_counts() -> Iterator[None]:
    """A shell starts what runs beside it with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, CtrlC())
    yield
    signal.signal(signal.SIGINT, before)


class Interrupt(BaseException):
    """What a signal's handler raises."""


class Interrupting(VirtualClock):
    """A clock whose next wake is met by a Ctrl-C."""

    is_armed = False

    def wake(self, driven: Driven) -> None:
        if self.is_armed:
            self.is_armed = False
            signal.raise_signal(signal.SIGINT)
        super().wake(driven)


def main_thread() -> int:
    ident = threading.main_thread().ident
    assert ident is not None
    return ident


def main_waits() -> bool:
    """Tell whether the main thread is inside of a wait: a signal would find it nowhere else."""
    waits = threading.Condition.wait.__code__, MachineSignal.wait.__code__
    return code_of(threading.main_thread()) in waits


def is_in(thread: threading.Thread, function: str) -> bool:
    code = code_of(thread)
    return code is not None and code.co_name == function


def interrupt_main() -> None:
    """Send SIGINT until it has come: Python does not notice one that meets it about to block."""
    ctrl_c = signal.getsignal(signal.SIGINT)
    assert isinstance(ctrl_c, CtrlC)
    while not ctrl_c.has_come:
        signal.pthread_kill(main_thread(), signal.SIGINT)
        threading.Event().wait(0.001)


def interrupt_when(ready: Callable[[], bool], then: Callable[[], object]) -> threading.Thread:
    """Send SIGINT to the main thread once it is ready for it and waits, then do something."""

    def watch() -> None:
        while not (ready() and main_waits()):
            threading.Event().wait(0.001)
        interrupt_main()
        then()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def test_a_commit_interrupted_while_another_leads_is_still_decided(tmp_path: Path) -> None:
    with gate() as opening:
        qm = QueueManager("QM1", tmp_path, VirtualClock())
    local(qm)
    session = qm.session()
    leader = Running(lambda: qm.engine.store.commit([statement("SELECT gate()")]))
    assert opening.reached.wait(JOIN_SECONDS)
    watcher = interrupt_when(lambda: bool(qm.engine.store.group.waiting), opening.opened.set)
    with pytest.raises(KeyboardInterrupt):
        session.put("Q1", b"interrupted", persistent=True)
    watcher.join(JOIN_SECONDS)
    leader.finish()
    other = Running(lambda: qm.session().put("Q1", b"next", persistent=True))
    other.finish()
    assert bodies(qm.session(), "Q1") == [b"interrupted", b"next"]
    found = qm.verify()
    assert found.ok, found.problems
    qm.close()


@pytest.mark.interpreted
def test_a_leader_interrupted_while_it_waits_for_others_still_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gate() as opening:
        qm = QueueManager("QM1", tmp_path, VirtualClock())
    local(qm)
    # Two share a transaction, so the next leader waits for a second one.
    assert opening.batch(qm.engine.store, statement("SELECT 1"), statement("SELECT 1")) == [
        None,
        None,
    ]
    # Interrupted in its wait, it waits once more.
    monkeypatch.setattr(group_commit, "GATHER_SECONDS", 1.0)
    watcher = interrupt_when(lambda: bool(qm.engine.store.group.waiting), lambda: None)
    session = qm.session()
    with pytest.raises(KeyboardInterrupt):
        session.put("Q1", b"interrupted", persistent=True)
    watcher.join(JOIN_SECONDS)
    Running(lambda: qm.session().put("Q1", b"next", persistent=True)).finish()
    assert bodies(session, "Q1") == [b"interrupted", b"next"]
    qm.close()


def interrupted_at(
    line: int, call: Callable[[], object], steps: Collection[str] = ("commit",)
) -> bool:
    """Interrupt a commit before so many lines of it have begun; tell whether it came to that.

    A line is met again at the end of a ``with``, where no signal comes before its lock is let go.
    """
    codes = {vars(GroupCommit)[step].__code__ for step in steps}
    met: set[int] = set()

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        is_commit = frame.f_code in codes
        if is_commit and event == "line" and frame.f_lineno not in met:
            met.add(frame.f_lineno)
            if len(met) > line:
                raise Interrupt
        return trace if is_commit or event == "call" else None

    sys.settrace(trace)
    try:
        call()
    except Interrupt:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.interpreted
@pytest.mark.parametrize("line", range(10))
def test_a_commit_interrupted_before_it_waits_is_decided_as_it_is_told(
    tmp_path: Path, line: int
) -> None:
    """Behind another one that leads: queued, its outcome is waited for; not yet, nothing comes."""
    with gate() as opening:
        qm = QueueManager("QM1", tmp_path, VirtualClock())
    local(qm)
    group, session = qm.engine.store.group, qm.session()
    leader = Running(lambda: qm.engine.store.commit([statement("SELECT gate()")]))
    assert opening.reached.wait(JOIN_SECONDS)
    put = partial(session.put, "Q1", b"interrupted", persistent=True)
    interrupted = Running(lambda: interrupted_at(line, put))
    while not group.waiting and interrupted.is_under_way:
        threading.Event().wait(0.001)
    was_queued = bool(group.waiting)
    opening.opened.set()
    leader.finish()
    has_raised = interrupted.finish()
    assert has_raised or was_queued
    qm.session().put("Q1", b"next", persistent=True)
    expected = [b"interrupted", b"next"] if was_queued else [b"next"]
    assert bodies(qm.session(), "Q1") == expected
    found = qm.verify()
    assert found.ok, found.problems
    qm.close()
    with QueueManager("QM1", tmp_path, VirtualClock()) as again:
        assert (again.verify().ok, again.curdepth("Q1")) == (True, 0)


@pytest.mark.interpreted
@pytest.mark.parametrize("line", range(28))
def test_a_leader_interrupted_anywhere_leaves_nobody_waiting(tmp_path: Path, line: int) -> None:
    """One commit shares its transaction, another one comes while that runs and is to lead next."""
    with gate() as opening:
        store = opened(tmp_path)
    others: list[Running] = []
    store.database.writer.set_wal_hook(partial(begin_another, store, others))
    first = Running(lambda: store.commit([statement("SELECT gate()")]))
    assert opening.reached.wait(JOIN_SECONDS)
    leader = Running(lambda: interrupted_at(line, lambda: store.commit([put_unit(store)]), LEADING))
    queued(store, 1)
    others.append(Running(lambda: store.commit([put_unit(store)])))
    queued(store, 2)
    opening.opened.set()
    first.finish()
    leader.finish()
    for other in others:
        other.finish()
        assert other.error is None or other.error.reason == rc.MQRC_UNEXPECTED_ERROR
    Running(lambda: store.commit([put_unit(store)])).finish()
    assert len(held(store)) == store.ledger_writer.totals[NUMBER].present
    store.close()


def begin_another(
    store: Store, others: list[Running], _connection: apsw.Connection, _name: str, _pages: int
) -> int:
    """Begin a commit while the transaction of two others runs, and wait until it is queued."""
    if len(others) == 1 and len(held(store)) == 2:
        others.append(Running(lambda: store.commit([put_unit(store)])))
        queued(store, 1)
    return apsw.SQLITE_OK


def test_an_interrupt_right_after_the_commit_undoes_nothing(tmp_path: Path) -> None:
    qm = QueueManager("QM1", tmp_path, VirtualClock())
    local(qm)
    session = qm.session()
    interrupts = [signal.SIGINT]

    def committed(_connection: apsw.Connection, _name: str, _pages: int) -> int:
        if interrupts:
            signal.raise_signal(interrupts.pop())
        return apsw.SQLITE_OK

    qm.engine.store.database.writer.set_wal_hook(committed)
    with pytest.raises(KeyboardInterrupt):
        session.put("Q1", b"one", persistent=True)
    assert qm.curdepth("Q1") == 1
    session.put("Q1", b"two", persistent=True)
    assert session.get("Q1") is not None
    found = qm.verify()
    assert found.ok, found.problems
    qm.close()
    with QueueManager("QM1", tmp_path, VirtualClock()) as again:
        assert again.verify().ok
        assert bodies(again.session(), "Q1") == [b"two"]


def test_an_interrupt_before_the_begin_is_never_the_success_of_the_commit_before(
    tmp_path: Path,
) -> None:
    """Two units of one batch: whoever waits for one of them is told MQRC_UNEXPECTED_ERROR."""
    store = opened(tmp_path)
    store.commit([put_unit(store)])
    interrupts = [signal.SIGINT]

    def before(_cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
        if sql == "BEGIN IMMEDIATE" and interrupts:
            signal.raise_signal(interrupts.pop())
        return True

    store.database.writer.exec_trace = before
    units = [put_unit(store), put_unit(store)]
    with pytest.raises(KeyboardInterrupt):
        store.commit(units)
    assert [reason_of(unit) for unit in units] == [rc.MQRC_UNEXPECTED_ERROR] * 2
    assert not any(unit.is_safe for unit in units)
    assert len(held(store)) == store.ledger_writer.totals[NUMBER].present == 1
    store.commit([put_unit(store)])
    assert len(held(store)) == store.ledger_writer.totals[NUMBER].present == 2
    store.close()


def reason_of(unit: Unit) -> int | None:
    return unit.error.reason if isinstance(unit.error, MQError) else None


class Guard:
    """A lock at which the next one who comes is interrupted."""

    is_armed = False

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if self.is_armed:
            self.is_armed = False
            signal.raise_signal(signal.SIGINT)
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_an_interrupt_while_the_leader_waits_for_a_checkpoint_fails_its_whole_batch(
    tmp_path: Path,
) -> None:
    """Nobody who waits for it may take it for success, as units without an error would be."""
    store = opened(tmp_path)
    store.commit([put_unit(store)])
    store.group._guard = guard = Guard()
    guard.is_armed = True
    units = [put_unit(store), put_unit(store)]
    with pytest.raises(KeyboardInterrupt):
        store.commit(units)
    assert [reason_of(unit) for unit in units] == [rc.MQRC_UNEXPECTED_ERROR] * 2
    assert not any(unit.is_safe for unit in units)
    assert len(held(store)) == 1
    store.commit([put_unit(store)])
    assert len(held(store)) == store.ledger_writer.totals[NUMBER].present == 2
    store.close()


@pytest.mark.parametrize("transacted", [False, True])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_waiting_get_that_is_interrupted_takes_no_message_later(
    tmp_path: Path, transacted: bool, persistent: bool
) -> None:
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        number = qm.engine.registry.queue(local(qm)).number
        session = qm.session(transacted=transacted)
        watcher = interrupt_when(lambda: qm.engine.waits.is_waited_on(number), lambda: None)
        with pytest.raises(KeyboardInterrupt):
            session.get("Q1", wait_ms=-1)
        watcher.join(JOIN_SECONDS)
        assert not qm.engine.waits.is_waited_on(number)
        other = qm.session()
        other.put("Q1", b"for the other", persistent=persistent)
        assert bodies(other, "Q1") == [b"for the other"]


@pytest.mark.parametrize("way", ["get", "browse"])
def test_what_is_interrupted_just_before_it_waits_leaves_no_wait_behind(way: str) -> None:
    """It counts as one that waits, and still does what others have left to do."""
    clock = Interrupting()
    with QueueManager("QM1", clock=clock) as qm, qm.session() as session:
        number = qm.engine.registry.queue(local(qm)).number
        handle = session.open("Q1", c.MQOO_BROWSE)
        options = c.MQGMO_BROWSE_NEXT | c.MQGMO_LOCK | c.MQGMO_WAIT
        calls: dict[str, Callable[[], object]] = {
            "get": lambda: session.get("Q1", wait_ms=1_000),
            "browse": lambda: handle.get(GetRequest(wait_ms=1_000), options),
        }
        with qm.engine.engine_lock:
            clock.is_armed = qm.engine.must_wake = True
        with pytest.raises(KeyboardInterrupt):
            calls[way]()
        assert not qm.engine.waits.is_waited_on(number)
        session.put("Q1", b"for the next one")
        assert bodies(session, "Q1") == [b"for the next one"]


@pytest.mark.interpreted
@pytest.mark.parametrize("persistent", [False, True])
def test_a_message_handed_to_a_get_in_the_moment_of_its_interrupt_goes_back(
    tmp_path: Path, persistent: bool
) -> None:
    """The interrupt has ended the wait, the lock is not free yet, and a message comes."""
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        queue = qm.engine.registry.queue(local(qm))
        number = queue.number
        session, other = qm.session(), qm.session()
        other.put("Q1", b"wanted", persistent=persistent)
        with qm.engine.engine_lock:
            # Nobody sees it until the lock is free again.
            (row,) = (
                *qm.engine.store.volatile.in_order(0, 2**63 - 1, 9),
                *qm.engine.store.persistent.in_order(0, 2**63 - 1, 9),
            )
            qm.engine.hidden[row.k] = self_made = object()

        def give_at_the_lock() -> None:
            while not (qm.engine.waits.is_waited_on(number) and main_waits()):
                threading.Event().wait(0.001)
            with qm.engine.engine_lock:
                interrupt_main()
                while not is_in(threading.main_thread(), "_outcome_of"):
                    threading.Event().wait(0.001)
                assert qm.engine.hidden.pop(row.k) is self_made
                queue.ahead[persistent].forget()
                qm.engine.waits.offer(number)
                assert not qm.engine.waits.is_waited_on(number)

        giving = Running(give_at_the_lock)
        with pytest.raises(KeyboardInterrupt):
            session.get("Q1", wait_ms=-1)
        giving.finish()
        assert qm.counts("Q1").live == 1
        assert bodies(other, "Q1") == [b"wanted"]
        assert qm.verify().ok


def test_an_interrupted_browse_leaves_no_wait_behind(queue_manager: QueueManager) -> None:
    number = queue_manager.engine.registry.queue(local(queue_manager)).number
    with queue_manager.session() as session:
        handle = session.open("Q1", c.MQOO_BROWSE)
        options = c.MQGMO_BROWSE_NEXT | c.MQGMO_LOCK | c.MQGMO_WAIT
        watcher = interrupt_when(
            lambda: queue_manager.engine.waits.is_waited_on(number), lambda: None
        )
        with pytest.raises(KeyboardInterrupt):
            handle.get(GetRequest(wait_ms=-1), options)
        watcher.join(JOIN_SECONDS)
        assert not queue_manager.engine.waits.is_waited_on(number)
        session.put("Q1", b"not locked")
        assert bodies(session, "Q1") == [b"not locked"]
