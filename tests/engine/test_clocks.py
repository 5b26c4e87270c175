"""Due work, the threads that run it, and the two clocks, when several threads meet."""

from __future__ import annotations

import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.mqi import reasons as rc
from mayfly.runtime.clocks import SystemClock
from mayfly.runtime.runtime import Driver
from mayfly.testing import VirtualClock
from tests.spec.scene import Running, bodies, body, local, waiting
from tests.store.scene import statement


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_due_work_that_fails_for_good_stops_the_queue_manager_instead_of_all_waits(
    tmp_path: Path,
) -> None:
    with QueueManager("QM1", tmp_path, SystemClock()) as qm:
        local(qm)
        session = qm.session()
        getter = waiting(qm, "Q1", lambda: session.get("Q1", wait_ms=-1))
        qm.session().put("Q1", b"x", delay_ms=60_000, persistent=True)
        # A descriptor that nobody can read, due at once.
        qm.engine.store.commit([statement("UPDATE message SET descriptor = x'00'")])
        with qm.engine.engine_lock:
            (row,) = qm.engine.store.persistent.in_order(-(2**63), 0, 9)
            qm.engine.store.commit([statement("UPDATE message SET k = ?", -(2**63) + 1)])
            qm.engine.staging.due_ms = 0
        assert row.descriptor == b"\0"
        qm.engine.wake()
        getter.finish()
        assert getter.error is not None
        assert getter.error.reason == rc.MQRC_CONNECTION_BROKEN


def test_two_threads_that_meet_the_same_step_of_the_wall_clock_follow_it_once() -> None:
    wall_ns = [10**18]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            clock = SystemClock(wall_ns=lambda: wall_ns[0], elapsed_ns=lambda: 5)
            start = threading.Barrier(4)

            def look(clock: SystemClock = clock, start: threading.Barrier = start) -> None:
                start.wait()
                for _ in range(20):
                    clock.now_ms()

            threads = [Running(look) for _ in range(4)]
            wall_ns[0] += 60_000_000_000
            for thread in threads:
                thread.finish()
            assert clock.now_ms() == wall_ns[0] // 1_000_000
    finally:
        sys.setswitchinterval(interval)


def test_an_advance_beside_gets_that_wait_decides_each_at_its_moment(clock: VirtualClock) -> None:
    with QueueManager("QM1", clock=clock) as qm:
        start_ms = clock.now_ms()
        ends: dict[int, tuple[bytes | None, int]] = {}

        def get(place: int) -> None:
            message = qm.session().get(f"Q{place}", wait_ms=100 * (place + 1))
            ends[place] = body(message), clock.now_ms() - start_ms

        threads = []
        for place in range(5):
            local(qm, f"Q{place}")
            threads.append(waiting(qm, f"Q{place}", partial(get, place)))
        qm.session().put("Q3", b"in time", delay_ms=400)
        qm.session().put("Q4", b"too late", delay_ms=501)
        clock.advance(1_000)
        for thread in threads:
            thread.finish()
        assert [ends[place][0] for place in range(5)] == [None, None, None, b"in time", None]
        assert bodies(qm.session(), "Q4") == [b"too late"]


def test_two_queue_managers_on_one_clock_put_to_each_other_while_it_advances(
    clock: VirtualClock,
) -> None:
    """A message for each other every 10 ms, from threads that wait: no deadlock, none lost."""
    one, two = QueueManager("ONE", clock=clock), QueueManager("TWO", clock=clock)
    for qm in (one, two):
        local(qm)
    passed = {"ONE": 0, "TWO": 0}
    over = threading.Event()

    def pass_on(source: QueueManager, target: QueueManager) -> None:
        getting, putting = source.session(), target.session()
        while not over.is_set():
            message = getting.get("Q1", wait_ms=50)
            if message is not None:
                passed[source.name] += 1
                putting.put("Q1", message.body, delay_ms=10)

    def advance() -> None:
        for _ in range(200):
            clock.advance(7)

    threads = [Running(lambda: pass_on(one, two)), Running(lambda: pass_on(two, one))]
    one.session().put("Q1", b"ball")
    advancing = [Running(advance) for _ in range(2)]
    for thread in advancing:
        thread.finish()
    while min(passed.values()) < 5:
        clock.advance(1)
        assert all(thread.is_under_way for thread in threads)
    over.set()
    while any(thread.is_under_way for thread in threads):
        clock.advance(60)
    for thread in threads:
        thread.finish()
        assert thread.error is None
    balls = 0
    for qm in (one, two):
        clock.advance(20)
        balls += qm.curdepth("Q1")
        assert qm.verify().ok
        qm.close()
    assert balls == 1


def test_an_advance_from_inside_of_due_work_is_an_error(clock: VirtualClock) -> None:
    class Inside:
        def __init__(self) -> None:
            self.due_ms: int | None = clock.now_ms() + 5
            self.error = ""

        def next_due_ms(self) -> int | None:
            return self.due_ms

        def run_due(self) -> None:
            self.due_ms = None
            try:
                clock.advance(1)
            except RuntimeError as error:
                self.error = str(error)

    inside = Inside()
    clock.attach(inside)
    clock.advance(10)
    assert inside.error == "advance() inside of what an advance runs"
    clock.detach(inside)


def test_a_system_clock_misses_no_wake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delays that begin while the driver is about to sleep; late would be an hour late."""
    monkeypatch.setattr(Driver, "LONGEST_SLEEP_SECONDS", 3_600.0)
    with QueueManager("QM1", tmp_path, SystemClock()) as qm:
        local(qm)
        session = qm.session()
        got: list[bytes | None] = []
        for number in range(60):
            session.put("Q1", b"%d" % number, delay_ms=1 + number % 7, persistent=bool(number % 2))
            # Without an end this wait does not wake the driver.
            Running(lambda: got.append(body(session.get("Q1", wait_ms=-1)))).finish()
        assert got == [b"%d" % number for number in range(60)]


def test_a_delayed_message_that_cannot_be_read_holds_no_others_back(
    tmp_path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with QueueManager("QM1", tmp_path, clock) as qm:
        local(qm)
        session = qm.session()
        for body in (b"wrong", b"right"):
            session.put("Q1", body, delay_ms=60_000, persistent=True)
        with qm.engine.engine_lock:
            (first, _second) = qm.engine.store.persistent.in_order(-(2**63), 0, 9)
        # The user in it is no text.
        wrong = first.descriptor[:-1] + b"\xff"
        qm.engine.store.commit(
            [statement("UPDATE message SET descriptor = ? WHERE k = ?", wrong, first.k)]
        )
        clock.advance(60_000)
        message = session.get("Q1")
        assert message is not None
        assert message.body == b"right"
        assert session.get("Q1") is None
        assert not qm.is_stopped
        assert caplog.text.count("stays on staging") == 1
        # Mended, it goes with the next try.
        qm.engine.store.commit(
            [statement("UPDATE message SET descriptor = ? WHERE k = ?", first.descriptor, first.k)]
        )
        clock.advance(10_000)
        message = session.get("Q1")
        assert message is not None
        assert message.body == b"wrong"
