"""Celery with Mayfly as its broker: throughput beside Redis, an idle worker, etas and kills."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.child import processor_seconds
from bench.figures import Beside, Figure, Told, at_least, at_most
from bench.peer_process import NotHere, started
from bench.peer_servers import redis_socket
from bench.remote_clients import program_of_bench
from bench.task_app import BROKER_VARIABLE
from mayfly.integrations.celery import Celery

#: Mayfly's share of the rate of Redis.
_LEAST_SHARE: Final = 0.7
_IDLE_PERCENT: Final = 1
#: A worker of one process prefetches four tasks of it, and holds them until each is acknowledged.
_HELD_BY_A_WORKER: Final = 4
_START_SECONDS: Final = 3
#: As many connections as an application of Celery has.
_PUTTERS: Final = 10


class Size(NamedTuple):
    """How much is measured: rounds of so many tasks; and etas over some seconds, with kills."""

    rounds: int = 3
    task_count: int = 1_000
    idle_seconds: int = 10
    eta_count: int = 10_000
    eta_seconds: int = 60
    kill_count: int = 10


#: What is measured unless something else is asked for.
USUAL: Final = Size()


def figures(size: Size = USUAL) -> Iterator[Told]:
    """Measure rates in turn with Redis, an idle worker, and etas whose workers are killed."""
    with ExitStack() as stack:
        brokers, missing = {"Mayfly": _mayfly(stack)}, list[str]()
        try:
            brokers["Redis"] = f"redis+socket://{redis_socket(stack)}"
        except NotHere as why:
            missing.append(str(why))
        puts, runs = _rates(stack, brokers, size)
        yield from _compared("tasks put by one program", puts, missing)
        yield from _compared("tasks put and run by one worker", runs, missing)
        yield _idle(stack, brokers["Mayfly"], size.idle_seconds)
        yield from _etas(stack, brokers["Mayfly"], size)


def _compared(name: str, rates: dict[str, list[float]], missing: Sequence[str]) -> Iterator[Told]:
    beside = Beside(name, "/s", True, rates)
    yield beside.figure(missing)
    if "Redis" in rates:
        share = beside.times_as_good("Redis")
        yield at_least(f"{name}, as a share of Redis", share, _LEAST_SHARE, "")


def _mayfly(stack: ExitStack) -> str:
    """Start a server with a folder of its own, and return the broker URL."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    server = stack.enter_context(program_of_bench("serve", folder))
    assert server.stdout is not None
    port = server.stdout.readline().split()[0]
    return f"mq://bench:bench@127.0.0.1:{port}/BENCH?channel="


def _worker(stack: ExitStack, broker: str) -> subprocess.Popen[bytes]:
    """Start a worker, which runs one task at a time."""
    command = [sys.executable, "-m", "celery", "-A", "bench.task_app", "worker"]
    options = ["-P", "solo", "-c", "1", "-l", "ERROR", "--without-mingle", "--without-gossip"]
    return started(stack, [*command, *options], environment={**os.environ, BROKER_VARIABLE: broker})


def _application(broker: str) -> Any:
    """Return the application of a program that puts tasks."""
    app = Celery("bench", broker=broker, set_as_current=False)
    app.conf.task_ignore_result = True
    return app


def _rates(
    stack: ExitStack, brokers: dict[str, str], size: Size
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the rates of the rounds: tasks put, and tasks put and run; makes take turns."""
    puts: dict[str, list[float]] = {make: [] for make in brokers}
    runs: dict[str, list[float]] = {make: [] for make in brokers}
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    with ExitStack() as workers:
        apps = {make: _application(broker) for make, broker in brokers.items()}
        for make, broker in brokers.items():
            _worker(workers, broker)
            os.mkfifo(folder / make)
            # It has started when this has run.
            _run_to_end(apps[make], folder / make)
        for _ in range(size.rounds):
            for make, app in apps.items():
                begin = time.perf_counter()
                for _ in range(size.task_count):
                    app.send_task("nothing")
                put_seconds = time.perf_counter() - begin
                _run_to_end(app, folder / make)
                puts[make].append(size.task_count / put_seconds)
                runs[make].append(size.task_count / (time.perf_counter() - begin))
    return puts, runs


def _run_to_end(app: Any, fifo: Path) -> None:
    """Wait until all tasks that were put have run."""
    app.send_task("tell", (str(fifo),))
    fifo.read_bytes()


def _idle(stack: ExitStack, broker: str, seconds: int) -> Figure:
    """Return how much of a core a worker takes that waits."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    with ExitStack() as workers:
        worker = _worker(workers, broker)
        os.mkfifo(folder / "fifo")
        _run_to_end(_application(broker), folder / "fifo")
        before = processor_seconds(worker.pid)
        time.sleep(seconds)
        percent = 100 * (processor_seconds(worker.pid) - before) / seconds
    return at_most("a worker that waits", percent, _IDLE_PERCENT, " % of a core")


def _etas(stack: ExitStack, broker: str, size: Size) -> Iterator[Figure]:
    """Put etas, kill workers while they run, and tell what was lost, early, or run twice."""
    file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "notes"
    app = _application(broker)
    first_ms = time.time_ns() // 1_000_000 + 1_000 * size.eta_seconds

    def put(number: int) -> None:
        due_ms = first_ms + 1_000 * size.eta_seconds * number // size.eta_count
        eta = datetime.fromtimestamp(due_ms / 1_000, UTC)
        app.send_task("note", (str(file), number, due_ms), eta=eta)

    # Puts of several threads share syncs.
    with ThreadPoolExecutor(_PUTTERS) as putters:
        deque(putters.map(put, range(size.eta_count)), 0)
    lead_ms = first_ms - time.time_ns() // 1_000_000
    assert lead_ms > 0, f"the last eta was put {-lead_ms} ms after the first was due"
    with ExitStack() as workers:
        running = [_worker(workers, broker) for _ in range(2)]
        time.sleep(max(0, first_ms / 1_000 - time.time()))
        for _ in range(size.kill_count):
            time.sleep(size.eta_seconds / size.kill_count)
            killed = running.pop(0)
            os.kill(killed.pid, signal.SIGKILL)
            killed.wait()
            running.append(_worker(workers, broker))
        deadline = time.perf_counter() + 2 * size.eta_seconds
        while len({number for number, _ in _notes(file)}) < size.eta_count:
            if time.perf_counter() > deadline:
                break
            time.sleep(1)
        time.sleep(_START_SECONDS)
    notes = _notes(file)
    counts = Counter(number for number, _ in notes)
    late_ms = [late for _, late in notes]
    name = f"{size.eta_count:,} etas, {size.kill_count} workers killed"
    yield at_most(f"{name}: lost", size.eta_count - len(counts), 0, "")
    yield at_most(f"{name}: early", sum(late < 0 for late in late_ms), 0, "")
    note = f"held by a killed worker, at most {_HELD_BY_A_WORKER} each; late by {_spread(late_ms)}"
    twice = sum(counts.values()) - len(counts)
    yield at_most(f"{name}: run again", twice, size.kill_count * _HELD_BY_A_WORKER, "", note)


def _notes(file: Path) -> list[tuple[int, int]]:
    """Return the numbers of the tasks that have run, and by how many ms each was late."""
    lines = file.read_text("ascii").splitlines() if file.exists() else []
    return [(int(number), int(late)) for number, late in map(str.split, lines)]


def _spread(late_ms: Sequence[int]) -> str:
    """Return the median and the highest of some ms."""
    if not late_ms:
        return "-"
    return f"{statistics.median(late_ms):,.0f} ms in the median, {max(late_ms):,} ms at most"
