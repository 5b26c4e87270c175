"""Triggering under threads: as many trigger messages as reasons; disk and memory agree."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine.delivery import MessageIds, OutgoingMessage, arrive, new_id, new_row
from mayfly.engine.descriptors import Context, prepare
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.window import Window
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.runtime.clocks import SystemClock
from mayfly.testing import VirtualClock
from tests.spec.scene import JOIN_SECONDS, Running, alter
from tests.spec.trigger_scene import (
    DEPTH,
    EVERY,
    FIRST,
    INITQ,
    OFF,
    ON,
    Monitor,
    control,
    triggering,
)
from tests.store.scene import gate, statement

THREADS, PUTS = 4, 50


def together(*calls: Callable[[], object]) -> None:
    for running in [Running(call) for call in calls]:
        running.finish()
        assert running.error is None, running.error


def puts(qm: QueueManager, seed: int, count: int = PUTS) -> int:
    """Put with priorities of 0 to 9, some in units of work; return how many count for 5 and up."""
    chance, counted = random.Random(seed), 0
    with qm.session() as session, qm.session(transacted=True) as unit:
        for _ in range(count):
            priority = chance.randrange(10)
            chosen = chance.choice((session, unit))
            chosen.put("Q1", b"x", priority=priority, persistent=chance.random() < 0.7)
            if chance.random() < 0.3:
                unit.commit()
            counted += priority >= 5
        unit.commit()
    return counted


@pytest.mark.slow
@pytest.mark.parametrize("sequence", [c.MQMDS_PRIORITY, c.MQMDS_FIFO])
@pytest.mark.parametrize("trigger_type", [FIRST, EVERY])
def test_T3_as_many_as_count_whoever_puts_them(
    tmp_path: Path, sequence: int, trigger_type: int
) -> None:
    """What another thread has on the disk already does not count before it has taken effect."""
    with QueueManager("QM1", tmp_path / "QM1", SystemClock()) as qm, qm.session() as session:
        triggering(qm, TRIGTYPE=trigger_type, TRIGMPRI=5, MSGDLVSQ=sequence)
        alter(qm, INITQ, MAXDEPTH=10_000)
        monitor, counted = Monitor(session), list[int]()
        together(*(lambda seed=seed: counted.append(puts(qm, seed)) for seed in range(THREADS)))
        expected = sum(counted) if trigger_type == EVERY else 1
        assert monitor.read() == ["Q1"] * expected
        assert qm.verify().ok


@pytest.mark.slow
def test_T2_no_message_is_left_alone(tmp_path: Path) -> None:
    """Whoever opens, gets until nothing is there and closes leaves nothing behind unnoticed."""
    with QueueManager("QM1", tmp_path / "QM1", SystemClock()) as qm:
        triggering(qm)
        starts = qm.session()
        handle = starts.open(INITQ, c.MQOO_INPUT_SHARED)
        got: list[bytes] = []

        def serve() -> None:
            while len(got) < THREADS * PUTS:
                assert starts.get(INITQ, wait_ms=60_000) is not None
                with qm.session() as program:
                    served = program.open("Q1", c.MQOO_INPUT_SHARED)
                    while (message := program.get("Q1")) is not None:
                        got.append(message.body)
                    served.close()

        together(serve, *(lambda seed=seed: puts(qm, seed) for seed in range(THREADS)))
        assert len(got) == THREADS * PUTS
        handle.close()


def arrival(qm: QueueManager, *, persistent: bool) -> Transaction:
    """Return the work of a put to Q1 that has not been run."""
    path = qm.engine.registry.resolve("Q1")
    context = Context("", c.MQAT_UNIX, "test", qm.name)
    prepared = prepare(Descriptor(priority=5, persistence=int(persistent)), 0, 0, context)
    window = Window(qm.now_ms(), qm.now_ms(), None)
    work = Transaction()
    with qm.engine.engine_lock:
        message = OutgoingMessage(prepared, window, MessageIds(new_id(qm.engine), b""), b"x")
        arrive(qm.engine, work, path, prepared, new_row(qm.engine, path, message))
    return work


@pytest.mark.parametrize("sequence", [c.MQMDS_PRIORITY, c.MQMDS_FIFO])
def test_T5_what_another_thread_has_on_the_disk_does_not_count_before_it_takes_effect(
    tmp_path: Path, sequence: int
) -> None:
    """Otherwise each of two messages would be the second, and none the first."""
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm, qm.session() as session:
        triggering(qm, TRIGMPRI=5, MSGDLVSQ=sequence)
        monitor = Monitor(session)
        session.put("Q1", b"x", priority=5)
        assert session.get("Q1") is not None
        assert monitor.read() == ["Q1"]
        late = arrival(qm, persistent=True)
        with qm.engine.engine_lock:
            qm.engine.committer.enter([late])
        qm.engine.store.commit([late.unit])
        session.put("Q1", b"early", priority=5, persistent=True)
        found = monitor.read()
        qm.engine.committer.settle([late])
        assert (found, monitor.read()) == (["Q1"], [])
        assert qm.verify().ok


def test_T4_an_operator_waits_for_what_switches_the_queue_off(tmp_path: Path) -> None:
    """It is on its way to the disk on another thread, and came first."""
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm, qm.session() as session:
        triggering(qm, TRIGTYPE=DEPTH)
        monitor = Monitor(session)
        with qm.engine.engine_lock:
            assert qm.engine.committer.run_at_once(arrival(qm, persistent=False))
            assert control(qm) == OFF
            works, qm.engine.committer.deferred = qm.engine.committer.deferred, []
        assert len(works) == 1
        assert monitor.read() == ["Q1"]
        session.get("Q1")
        altering = Running(lambda: alter(qm, "Q1", TRIGGER=ON))
        altering.thread.join(0.05)
        assert altering.is_under_way
        qm.engine.committer.run(*works)
        altering.finish()
        assert control(qm) == ON
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        assert control(qm) == ON


def test_T4_nothing_is_switched_off_while_an_operator_changes_it(tmp_path: Path) -> None:
    """It is looked at again as soon as its definition has changed."""
    with gate() as opening:
        qm = QueueManager("QM1", tmp_path, VirtualClock())
    triggering(qm, TRIGTYPE=DEPTH)
    with qm.session() as session:
        monitor = Monitor(session)
        leader = Running(lambda: qm.engine.store.commit([statement("SELECT gate()")]))
        assert opening.reached.wait(JOIN_SECONDS)
        altering = Running(lambda: alter(qm, "Q1", DESCR="new"))
        while not qm.engine.store.group.waiting:
            assert altering.is_under_way
        session.put("Q1", b"x")
        assert (monitor.read(), control(qm)) == ([], ON)
        opening.opened.set()
        leader.finish()
        altering.finish()
        assert (monitor.read(), control(qm)) == (["Q1"], OFF)
    qm.close()
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        assert qm.mqsc("DISPLAY QLOCAL(Q1) DESCR TRIGGER").rows[0] == {
            "QUEUE": "Q1",
            "TYPE": "QLOCAL",
            "DESCR": "new",
            "TRIGGER": "NOTRIGGER",
        }
