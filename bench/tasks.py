"""Mayfly as broker of Celery, taskiq and Django: rates beside a peer, idle workers, etas, kills."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from bench.child import processor_seconds
from bench.figures import Beside, Figure, Told, at_least, at_most, without_aim
from bench.peer_process import NotHere, client_library, started
from bench.peer_servers import postgres_folder, redis_socket
from bench.remote_clients import program_of_bench
from bench.task_work import BROKER_VARIABLE, Account
from mayfly import connect

#: Mayfly's share of the rate of its peer.
_LEAST_SHARE: Final = 0.7
_IDLE_PERCENT: Final = 1
_POLL_SECONDS: Final = 0.05


class Framework(NamedTuple):
    """A framework: its programs, its queue in MQ, and the broker that it is measured beside.

    ``held_by_a_worker`` is how many tasks a worker has at most that it has not acknowledged, so
    that they may run again after its kill. ``start_peer`` returns the URL of the peer, and raises
    NotHere.
    """

    name: str
    package: str
    module: str
    queue: str
    held_by_a_worker: int
    peer: str
    start_peer: Callable[[ExitStack], str]

    def command(self, role: str) -> list[str]:
        """Return the command of a program, ``worker`` or ``put``."""
        return [sys.executable, "-m", "bench.task_work", self.module, role]


def _celery_redis(stack: ExitStack) -> str:
    return f"redis+socket://{redis_socket(stack)}"


def _taskiq_redis(stack: ExitStack) -> str:
    client_library("taskiq_redis")
    return f"unix://{redis_socket(stack)}"


def _django_database(stack: ExitStack) -> str:
    client_library("django_tasks_db")
    return postgres_folder(stack)


FRAMEWORKS: Final = (
    # Four tasks are prefetched for each process of a worker.
    Framework("Celery", "celery", "bench.tasks_celery", "celery", 4, "Redis", _celery_redis),
    # So many run at a time, and none is prefetched.
    Framework("taskiq", "taskiq", "bench.tasks_taskiq", "taskiq", 100, "Redis", _taskiq_redis),
    Framework(
        "Django",
        "django",
        "bench.tasks_django",
        "django.tasks.default",
        1,
        "PostgreSQL",
        _django_database,
    ),
)


class Size(NamedTuple):
    """How much is measured: rounds of so many tasks; and etas over some seconds, with kills.

    The first eta is ``lead_seconds`` after the first put. ``worker_count`` workers run them at any
    time.
    """

    rounds: int = 3
    task_count: int = 1_000
    idle_seconds: int = 10
    eta_count: int = 10_000
    eta_seconds: int = 60
    lead_seconds: int = 60
    worker_count: int = 2
    kill_count: int = 10


#: What is measured unless something else is asked for.
USUAL: Final = Size()


def figures(size: Size = USUAL) -> Iterator[Told]:
    """Measure rates in turn with a peer, an idle worker, and etas whose workers are killed."""
    for framework in FRAMEWORKS:
        if find_spec(framework.package) is None:
            why = f"Python package {framework.package} not installed"
            yield Figure(framework.name, "-", "-", True, why)
            continue
        with ExitStack() as stack:
            brokers, missing = {"Mayfly": mayfly_server(stack)}, list[str]()
            try:
                brokers[framework.peer] = framework.start_peer(stack)
            except NotHere as why_not:
                missing.append(str(why_not))
            yield from _rates(framework, brokers, missing, size)
            yield _idle(framework, brokers["Mayfly"], size.idle_seconds)
            yield from etas(framework, brokers["Mayfly"], size)


def mayfly_server(stack: ExitStack) -> str:
    """Start a server with a folder of its own, and return its broker URL."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    server = stack.enter_context(program_of_bench("serve", folder))
    assert server.stdout is not None
    port = server.stdout.readline().split()[0]
    return f"mq://bench:bench@127.0.0.1:{port}/BENCH?channel="


class Program:
    """A process that puts tasks; it ends with the stack."""

    def __init__(self, stack: ExitStack, framework: Framework, broker: str) -> None:
        """Start it; it connects at the first put."""
        self._process = subprocess.Popen(
            framework.command("put"),
            env={**os.environ, BROKER_VARIABLE: broker},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(self._process.communicate, "")

    def put(self, *words: object) -> float:
        """Put what a line of ``bench.task_work`` says, and return the seconds that it took.

        Raises EOFError when the program has ended, which has said why.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise EOFError(f"the program that puts tasks has ended: {words}")
        return float(answer)

    def run_to_end(self, folder: Path) -> None:
        """Wait until all tasks that were put have run; ``folder`` gets a FIFO."""
        fifo = folder / "fifo"
        os.mkfifo(fifo)
        self.put("tell", fifo)
        fifo.read_bytes()
        fifo.unlink()


def _worker(stack: ExitStack, framework: Framework, broker: str) -> subprocess.Popen[bytes]:
    """Start a worker of one process, in a process group of its own."""
    environment = {**os.environ, BROKER_VARIABLE: broker}
    return started(stack, framework.command("worker"), environment=environment)


def _rates(
    framework: Framework, brokers: dict[str, str], missing: Sequence[str], size: Size
) -> Iterator[Told]:
    """Measure in turn how fast tasks are put while no worker runs, and then run."""
    puts: dict[str, list[float]] = {make: [] for make in brokers}
    runs: dict[str, list[float]] = {make: [] for make in brokers}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        programs = {make: Program(stack, framework, url) for make, url in brokers.items()}
        workers = {}
        for make, url in brokers.items():
            # The tables of a database are there when something is put.
            programs[make].put("nothing", 1)
            workers[make] = _worker(stack, framework, url)
            programs[make].run_to_end(folder)
        for _ in range(size.rounds):
            for make, program in programs.items():
                os.killpg(workers[make].pid, signal.SIGSTOP)
                puts[make].append(size.task_count / program.put("nothing", size.task_count))
                os.killpg(workers[make].pid, signal.SIGCONT)
                begun = time.perf_counter()
                program.run_to_end(folder)
                runs[make].append(size.task_count / (time.perf_counter() - begun))
    for name, rates in (("put by one program", puts), ("run by one worker", runs)):
        beside = Beside(f"{framework.name}: tasks {name}", "/s", True, rates)
        yield beside.figure(missing)
        if framework.peer in rates:
            share = beside.times_as_good(framework.peer)
            yield at_least(f"{beside.name}, beside {framework.peer}", share, _LEAST_SHARE, "x")


def _idle(framework: Framework, broker: str, seconds: int) -> Figure:
    """Return how much of a core a worker takes that waits, with the processes that it starts."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        worker = _worker(stack, framework, broker)
        Program(stack, framework, broker).run_to_end(folder)
        before = _seconds_of_group(worker.pid)
        # The load of idle time is what is measured.
        time.sleep(seconds)
        percent = 100 * (_seconds_of_group(worker.pid) - before) / seconds
    name = f"{framework.name}: a worker that waits"
    return at_most(name, percent, _IDLE_PERCENT, " % of a core")


def _seconds_of_group(leader: int) -> float:
    """Return the processor seconds of a process and those that it has started."""
    children = Path(f"/proc/{leader}/task/{leader}/children").read_text("ascii").split()
    return sum(map(processor_seconds, [leader, *map(int, children)]))


class Note(NamedTuple):
    """A task that has run: its number, by how many ms it was late, and its worker's group."""

    number: int
    late_ms: int
    group: int


def etas(framework: Framework, broker: str, size: Size) -> Iterator[Figure]:
    """Put etas, kill workers that run them, and tell what was lost, early, or run again."""
    with ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "notes"
        first_ms = time.time_ns() // 1_000_000 + 1_000 * size.lead_seconds
        program = Program(stack, framework, broker)
        program.put("note", file, first_ms, size.eta_count, 1_000 * size.eta_seconds)
        missed_ms = max(0, time.time_ns() // 1_000_000 - first_ms)
        workers = {}
        for _ in range(size.worker_count):
            worker = _worker(stack, framework, broker)
            workers[worker.pid] = worker
        for kill in range(1, size.kill_count + 1):
            # Evenly over the time, while the workers keep up.
            share = kill * size.eta_count // (size.kill_count + 1)
            victim = _last_at_work(file, workers, share)
            os.killpg(victim.pid, signal.SIGKILL)
            victim.wait()
            worker = _worker(stack, framework, broker)
            workers[worker.pid] = worker
        _wait_until_empty(framework.queue, broker, workers)
        notes = notes_of(file)
    counts = Counter(note.number for note in notes)
    late_ms = [note.late_ms for note in notes]
    name = f"{framework.name}: {size.eta_count:,} etas, {size.kill_count} workers killed"
    yield at_most(f"{name}: lost", size.eta_count - len(counts), 0, "")
    yield at_most(f"{name}: early", sum(late < 0 for late in late_ms), 0, "")
    held = framework.held_by_a_worker
    again = sum(counts.values()) - len(counts)
    bound = f"not yet acknowledged by a killed worker, at most {held} each"
    yield at_most(f"{name}: run again", again, size.kill_count * held, "", bound)
    note = f"{max(late_ms):,} ms at most; the last was put {missed_ms:,} ms after the first was due"
    middle_ms = statistics.median(late_ms)
    yield without_aim(f"{name}: late", middle_ms, " ms", note, is_rate=False)


def _last_at_work(
    file: Path, workers: dict[int, subprocess.Popen[bytes]], share: int
) -> subprocess.Popen[bytes]:
    """Return the worker that ran the last task, once so many have run; it is none any more."""
    while True:
        notes = notes_of(file)
        if len(notes) >= share and notes[-1].group in workers:
            return workers.pop(notes[-1].group)
        _pause(workers)


def _wait_until_empty(queue: str, broker: str, workers: dict[int, subprocess.Popen[bytes]]) -> None:
    """Return when no task waits, is delayed, or is held by a worker."""
    url, user, password = Account.of(broker)
    with connect(url, user=user, password=password) as client:
        while any(client.admin.counts(queue)):
            _pause(workers)


def _pause(workers: dict[int, subprocess.Popen[bytes]]) -> None:
    """Give workers time; raises EOFError when all have ended by themselves."""
    if all(worker.poll() is not None for worker in workers.values()):
        raise EOFError("no worker runs any more")
    time.sleep(_POLL_SECONDS)


def notes_of(file: Path) -> list[Note]:
    """Return the tasks that have run, in order."""
    lines = file.read_text("ascii").splitlines() if file.exists() else []
    return [Note(*map(int, line.split())) for line in lines]
