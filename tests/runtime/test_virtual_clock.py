"""The virtual clock: jumps in order, decides waits at their moment, and is safe among threads."""

import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine.objects import administration
from mayfly.runtime.virtual_clock import VirtualClock
from tests.facts import wait_until

START_MS = 1_700_000_000_000
JOIN_SECONDS = 120.0


class Work:
    """Due work at given moments; notes each in a list that several share."""

    def __init__(self, clock: VirtualClock, moments: list[int], log: list[tuple[str, int]]) -> None:
        self.name = "work"
        self.moments = sorted(moments)
        self.log = log
        self.on_due: Callable[[], None] = lambda: None
        self._clock = clock

    def next_due_ms(self) -> int | None:
        return self.moments[0] if self.moments else None

    def run_due(self) -> None:
        while self.moments and self.moments[0] <= self._clock.now_ms():
            self.moments.pop(0)
            self.log.append((self.name, self._clock.now_ms()))
            self.on_due()


def started(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def ended(thread: threading.Thread) -> bool:
    thread.join(JOIN_SECONDS)
    return not thread.is_alive()


def test_stands_still_and_moves_only_when_told() -> None:
    clock = VirtualClock(5)
    assert clock.now_ms() == 5
    clock.advance(0)
    assert clock.now_ms() == 5
    clock.advance(7)
    assert clock.now_ms() == 12


def test_does_not_go_back() -> None:
    clock = VirtualClock()
    with pytest.raises(ValueError, match="-1"):
        clock.advance(-1)
    assert clock.now_ms() == START_MS


def test_runs_each_due_moment_at_its_own_time_also_the_last() -> None:
    clock = VirtualClock(0)
    work = Work(clock, [10, 10, 25, 30, 31], [])
    clock.attach(work)
    clock.advance(30)
    assert [at for _, at in work.log] == [10, 10, 25, 30]
    assert clock.now_ms() == 30
    assert work.moments == [31]


def test_work_that_stays_due_fails_by_an_assertion_and_not_by_a_hang() -> None:
    clock = VirtualClock(0)

    class Stays(Work):
        def run_due(self) -> None:
            self.log.append((self.name, self._clock.now_ms()))

    clock.attach(stays := Stays(clock, [10], []))
    clock.advance(9)
    with pytest.raises(AssertionError, match="work at 10 stays due"):
        clock.advance(1)
    assert len(stays.log) > 10_000
    assert {at_ms for _, at_ms in stays.log} == {10}


def test_work_that_takes_many_runs_at_one_moment_is_done() -> None:
    clock = VirtualClock(0)
    runs = 20_000

    class Pieces(Work):
        def run_due(self) -> None:
            self.moments.pop()

    clock.attach(pieces := Pieces(clock, [10] * runs, []))
    clock.advance(10)
    assert pieces.moments == []


def test_work_that_falls_due_by_other_work_is_run_on_the_way() -> None:
    clock = VirtualClock(0)
    work = Work(clock, [10], [])
    work.on_due = lambda: work.moments.append(15) if len(work.log) == 1 else None
    clock.attach(work)
    clock.advance(20)
    assert [at for _, at in work.log] == [10, 15]


def test_one_clock_drives_two_in_one_order() -> None:
    clock = VirtualClock(0)
    log: list[tuple[str, int]] = []
    for name, moments in (("a", [5, 20]), ("b", [10, 20])):
        work = Work(clock, moments, log)
        work.name = name
        clock.attach(work)
    clock.advance(100)
    assert log == [("a", 5), ("b", 10), ("a", 20), ("b", 20)]


def test_detached_work_is_no_longer_run() -> None:
    clock = VirtualClock(0)
    work = Work(clock, [5, 10], [])
    clock.attach(work)
    clock.advance(5)
    clock.detach(work)
    clock.detach(work)
    clock.advance(100)
    assert work.moments == [10]


def test_detach_waits_for_the_run_under_way() -> None:
    """On its return nothing of the work runs on another thread."""
    clock = VirtualClock(0)
    work = Work(clock, [5], [])
    inside, go_on = threading.Event(), threading.Event()

    def block() -> None:
        inside.set()
        go_on.wait(JOIN_SECONDS)
        work.log.append(("finished", 5))

    work.on_due = block
    clock.attach(work)
    advancing = started(lambda: clock.advance(10))
    assert inside.wait(JOIN_SECONDS)
    seen: list[int] = []

    def detach() -> None:
        clock.detach(work)
        seen.append(len(work.log))

    detaching = started(detach)
    detaching.join(0.05)
    assert not seen
    go_on.set()
    assert ended(detaching)
    assert ended(advancing)
    assert seen == [2]


def test_detach_from_inside_a_run_does_not_wait_for_itself() -> None:
    clock = VirtualClock(0)
    work = Work(clock, [5, 10], [])
    work.on_due = lambda: clock.detach(work)
    clock.attach(work)
    thread = started(lambda: clock.advance(20))
    assert ended(thread)
    assert work.moments == [10]


def test_advance_from_inside_a_due_callback_is_an_error() -> None:
    clock = VirtualClock(0)
    work = Work(clock, [5], [])
    errors: list[RuntimeError] = []

    def advance() -> None:
        try:
            clock.advance(1)
        except RuntimeError as error:
            errors.append(error)

    work.on_due = advance
    clock.attach(work)
    clock.advance(10)
    assert len(errors) == 1
    assert clock.now_ms() == 10
    clock.advance(1)
    assert clock.now_ms() == 11


def test_advance_whose_work_fails_leaves_the_clock_usable() -> None:
    clock = VirtualClock(0)
    work = Work(clock, [5], [])

    def fail() -> None:
        raise ZeroDivisionError

    work.on_due = fail
    clock.attach(work)
    with pytest.raises(ZeroDivisionError):
        clock.advance(10)
    clock.advance(10)
    assert clock.now_ms() == 15


def test_advances_of_two_threads_add_up() -> None:
    """One waits until the other is done; nothing is run twice or skipped."""
    clock = VirtualClock(0)
    work = Work(clock, list(range(1, 4_001)), [])
    clock.attach(work)

    def step() -> None:
        for _ in range(100):
            clock.advance(20)

    threads = [started(step) for _ in range(2)]
    assert all(ended(thread) for thread in threads)
    assert clock.now_ms() == 4_000
    assert [at for _, at in work.log] == list(range(1, 4_001))


def test_wake_of_what_is_due_now_runs_it_now() -> None:
    clock = VirtualClock(0)
    work = Work(clock, [], [])
    clock.attach(work)
    work.moments = [0]
    clock.wake(work)
    assert work.log == [("work", 0)]
    work.moments = [1]
    clock.wake(work)
    assert work.moments == [1]


def test_wake_during_the_last_step_of_an_advance_is_not_lost() -> None:
    """Work of one that becomes due while another runs at the final moment is done before return."""
    clock = VirtualClock(0)
    log: list[tuple[str, int]] = []
    early, late = Work(clock, [], log), Work(clock, [10], log)
    early.name = "early"

    def make_due() -> None:
        early.moments.append(10)
        clock.wake(early)

    late.on_due = make_due
    clock.attach(early)
    clock.attach(late)
    clock.advance(10)
    assert log == [("work", 10), ("early", 10)]


def test_years_pass_in_a_blink() -> None:
    clock = VirtualClock(0)
    work = Work(clock, [80 * 365 * 86_400_000], [])
    clock.attach(work)
    clock.advance(100 * 365 * 86_400_000)
    assert len(work.log) == 1


def test_two_managers_on_one_clock_hand_a_message_on_at_exact_moments() -> None:
    """Each releases at its own time; the second sees the time of the first's release."""
    clock = VirtualClock()
    with QueueManager("QMA", clock=clock) as a, QueueManager("QMB", clock=clock) as b:
        for manager in (a, b):
            administration.define(manager.engine, "QLOCAL", "Q1", {})
        with a.session() as one, b.session() as two:
            one.put("Q1", b"a", delay_ms=1_000)
            two.put("Q1", b"b", delay_ms=2_000)
            clock.advance(1_000)
            assert (a.curdepth("Q1"), b.curdepth("Q1")) == (1, 0)
            clock.advance(999)
            assert b.curdepth("Q1") == 0
            clock.advance(1)
            assert (a.curdepth("Q1"), b.curdepth("Q1")) == (1, 1)
            assert a.now_ms() == b.now_ms() == START_MS + 2_000
        assert a.verify().ok
        assert b.verify().ok


@pytest.mark.parametrize(("delay_ms", "comes"), [(1_000, True), (1_001, False)])
def test_wait_of_another_thread_is_decided_by_the_advance(delay_ms: int, comes: bool) -> None:
    """At its exact moment, before time moves on; the message of that millisecond wins."""
    clock = VirtualClock()
    with QueueManager("QM1", clock=clock) as qm:
        administration.define(qm.engine, "QLOCAL", "Q1", {})
        number = qm.engine.registry.queue("Q1").number
        got: list[object] = []
        with qm.session() as putter, qm.session() as getter:
            putter.put("Q1", b"x", delay_ms=delay_ms)
            thread = started(lambda: got.append(getter.get("Q1", wait_ms=1_000)))
            while not qm.engine.waits.is_waited_on(number):
                assert thread.is_alive()
            clock.advance(1_000_000)
            assert not qm.engine.waits.is_waited_on(number)
            assert ended(thread)
            assert (got[0] is not None) == comes
        assert qm.verify().ok


def test_verify_between_the_decision_of_a_wait_and_the_return_of_its_thread() -> None:
    """The books balance although the getter has not finished its get."""
    clock = VirtualClock()
    with QueueManager("QM1", clock=clock) as qm:
        administration.define(qm.engine, "QLOCAL", "Q1", {})
        number = qm.engine.registry.queue("Q1").number
        for _ in range(20):
            with qm.session() as putter, qm.session() as getter:
                thread = started(partial(getter.get, "Q1", wait_ms=-1))
                while not qm.engine.waits.is_waited_on(number):
                    assert thread.is_alive()
                putter.put("Q1", b"x")
                found = qm.verify()
                assert ended(thread)
                assert found.ok, found.problems


ALONE = """
import mayfly
from mayfly.testing import VirtualClock

for folder in {folders!r}:
    clock = VirtualClock()
    with mayfly.QueueManager("QM1", folder, clock=clock) as qm, qm.session() as session:
        qm.mqsc("DEFINE QLOCAL(Q1)")
        try:
            {wait}
        except RuntimeError as error:
            print(error)
        # The wait that was refused is forgotten: it takes nothing, and nothing else is disturbed.
        session.put("Q1", b"x")
        assert qm.curdepth("Q1") == 1
        assert session.get("Q1", wait_ms=1_000).body == b"x"
        assert qm.verify().ok
"""


WAITS = {
    "get": "session.get('Q1', wait_ms=1_000)",
    "for-ever": "session.get('Q1', wait_ms=-1)",
    "pymqi": """from mayfly import pymqi
            queue = pymqi.Queue(pymqi.connect("QM1"), "Q1")
            queue.get(None, pymqi.MD(), pymqi.GMO(Options=1, WaitInterval=1_000))""",
    "browse": """from mayfly import pymqi
            queue = pymqi.Queue(pymqi.connect("QM1"), "Q1", pymqi.CMQC.MQOO_BROWSE)
            queue.get(None, pymqi.MD(), pymqi.GMO(Options=17, WaitInterval=1_000))""",
    "jms": """from mayfly import jms
            context = jms.ConnectionFactory(qm).create_context()
            context.create_consumer(context.create_queue("Q1")).receive(1_000)""",
}


@pytest.mark.slow
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())
def test_a_wait_that_nobody_can_end_is_an_error(tmp_path: Path, wait: str) -> None:
    """A program of one thread, in a process of its own: it would hang."""
    folders = (None, str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", ALONE.format(folders=folders, wait=wait)],
        capture_output=True,
        text=True,
        check=False,
        timeout=JOIN_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(said) == len(folders)
    for line in said:
        assert line.startswith("this wait would never end: a VirtualClock moves only when")


def test_a_wait_that_another_thread_can_end_is_none() -> None:
    clock = VirtualClock()
    with QueueManager("QM1", clock=clock) as qm, qm.session() as session:
        qm.mqsc("DEFINE QLOCAL(Q1)")

        def put_when_waited_for() -> None:
            number = qm.engine.registry.queue("Q1").number
            wait_until(lambda: qm.engine.waits.is_waited_on(number))
            qm.session().put("Q1", b"x")

        thread = started(put_when_waited_for)
        message = session.get("Q1", wait_ms=1_000)
        assert message is not None
        assert ended(thread)


SERVED = """
import subprocess, sys
import mayfly
from mayfly.admin.security.admission import Admission
from mayfly.servers.wire import WireServer
from mayfly.testing import VirtualClock

PUT = '''
import sys
from pathlib import Path
from mayfly.client import Client
from mayfly.client.connection.endpoint import Endpoint
from mayfly.client.connection.remote import connect
with Client(connect(Endpoint((Path(sys.argv[1]),), "", "QM1"), "anna", "t")) as client:
    client.put("Q1", b"from another process")
'''
with mayfly.QueueManager("QM1", clock=VirtualClock()) as qm, qm.session() as session:
    qm.mqsc("DEFINE QLOCAL(Q1)")
    server = WireServer([qm], Admission([qm.engine], token="t"))
    server.listen_unix(sys.argv[1])
    with subprocess.Popen([sys.executable, "-c", PUT, sys.argv[1]]):
        print(session.get("Q1", wait_ms=1_000).body)
    server.close()
"""


@pytest.mark.slow
def test_a_wait_that_another_process_can_end_is_none(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVED, str(tmp_path / "mq.sock")],
        capture_output=True,
        text=True,
        check=False,
        timeout=JOIN_SECONDS,
    )
    assert done.stdout == "b'from another process'\n", done.stderr


LITTER = """
import gc, threading, weakref
from mayfly.runtime.virtual_clock import is_alone

class Node:
    pass

known = weakref.WeakSet()

def litter():
    for _ in range(50):
        node = Node()
        node.own = node
        known.add(node)

def start_threads():
    for _ in range(300):
        thread = threading.Thread(target=litter)
        thread.start()
        thread.join()

gc.set_threshold(1)
starters = [threading.Thread(target=start_threads) for _ in range(3)]
for starter in starters:
    starter.start()
while any(starter.is_alive() for starter in starters):
    litter()
    is_alone()
print(gc.isenabled())
"""


def test_a_look_at_other_threads_stops_none_that_starts() -> None:
    """The interpreter holds a lock for such a look; a collection in it hung both for ever."""
    done = subprocess.run(
        [sys.executable, "-c", LITTER], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
