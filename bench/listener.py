"""Listener ports: an empty on_message, one transaction a message, beside durable deletes."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.figures import Figure, at_least, at_most, median, seconds_of, without_aim
from bench.raw import RawLeader, end_all, get_loop, put_loop, row
from mayfly import QueueManager
from mayfly.jms import Message
from mayfly.listener import ListenerPort
from mayfly.store.database import Database
from mayfly.store.units import StoredMessage

_BODY = os.urandom(200)
#: So many listen where several do.
SESSIONS = 8


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    message_count: int = 10_000
    durable_count: int = 1_500
    idle_sessions: int = 50
    idle_seconds: float = 5.0


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 20, 10, 2, 0.01)


def figures(size: Size = USUAL) -> Iterator[Figure]:
    """Measure everything of this file."""
    rates = [_rate(None, size.message_count, 1) for _ in range(size.rounds)]
    name = "listener, non-persistent, one session"
    yield at_least(name, median(rates), 12_000, "/s", samples=rates)
    yield from _persistent(size)
    yield _idle(size)


def _persistent(size: Size) -> Iterator[Figure]:
    raw, one, eight = list[float](), list[float](), list[float]()
    for _ in range(size.rounds):
        with tempfile.TemporaryDirectory() as folder:
            raw.append(_raw_rate(Path(folder), size.durable_count))
        for rates, session_count in ((one, 1), (eight, SESSIONS)):
            rates.append(durable_rate(size.durable_count, session_count))
    ratios = [a / b for a, b in zip(one, raw, strict=True)]
    note = f"{median(one):,.0f}/s against {median(raw):,.0f}/s"
    name = "listener, persistent, against durable deletes"
    yield at_least(name, median(ratios), 0.6, "x", note, samples=ratios)
    # No aim: one session has become faster too (bench/before.py has the aim).
    name, ratio = f"listener, persistent, {SESSIONS} sessions", median(eight) / median(one)
    note = f"{ratio:.2f}x of one session"
    yield without_aim(name, median(eight), "/s", note, is_rate=True, samples=eight)
    yield from _bounds(size, name)


def _bounds(size: Size, name: str) -> Iterator[Figure]:
    """Measure what threads of the interpreter can do: bare ones, and ours on one processor."""
    two, one, bare = list[float](), list[float](), list[float]()
    for _ in range(size.rounds):
        two.append(durable_rate(size.durable_count, SESSIONS))
        with _one_processor():
            one.append(durable_rate(size.durable_count, SESSIONS))
        with tempfile.TemporaryDirectory() as folder:
            bare.append(_bare_rate(Path(folder), size.durable_count))
    for beside, rates in (("as many bare threads", bare), ("one processor", one)):
        ratios = [a / b for a, b in zip(two, rates, strict=True)]
        note = f"{median(two):,.0f}/s against {median(rates):,.0f}/s"
        yield without_aim(
            f"{name} beside {beside}", median(ratios), "x", note, is_rate=True, samples=ratios
        )


@contextmanager
def _one_processor() -> Iterator[None]:
    """Let the threads that are started meanwhile share one processor."""
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(all_of_them)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


def _bare_rate(folder: Path, count: int) -> float:
    """Return messages a second that bare threads delete, with their lives and a shared sync."""
    database = Database(folder)
    put_loop(database, count, 100, _BODY)
    leader = RawLeader(database, end_all)
    # Each thread has a share, so that they take turns as sessions do.
    rows = [row(number, b"") for number in range(count)]
    threads = [
        threading.Thread(target=_commit_each, args=(leader, rows[place::SESSIONS]))
        for place in range(SESSIONS)
    ]
    seconds = seconds_of(lambda: _run_all(threads))
    database.close()
    return count / seconds


def _commit_each(leader: RawLeader, rows: list[StoredMessage]) -> None:
    for each in rows:
        leader.commit(each)


def _run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def durable_rate(count: int, session_count: int) -> float:
    """Return how many persistent messages a second a port takes, a transaction each."""
    with tempfile.TemporaryDirectory() as folder:
        return _rate(Path(folder), count, session_count)


def _raw_rate(folder: Path, count: int) -> float:
    database = Database(folder)
    put_loop(database, count, 100, _BODY)
    seconds = seconds_of(lambda: get_loop(database, count, 1))
    database.close()
    return count / seconds


def _rate(folder: Path | None, count: int, session_count: int) -> float:
    """Return messages a second that a port takes off a full queue."""
    with QueueManager("BENCH", folder) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)")
        with manager.session(transacted=True) as session:
            for number in range(count):
                session.put("Q1", _BODY, persistent=folder is not None)
                if number % 100 == 0:
                    session.commit()
        countdown = _Countdown(count)
        port = _port(manager, countdown, session_count)
        begin = time.perf_counter()
        port.start()
        countdown.done.wait()
        port.stop()
        seconds = time.perf_counter() - begin
    return count / seconds


class _Countdown:
    """An on_message that does nothing but tell the last message."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._left = count
        self.done = threading.Event()

    def __call__(self, message: Message) -> None:
        with self._lock:
            self._left -= 1
            if not self._left:
                self.done.set()


def _port(manager: QueueManager, on_message: _Countdown, session_count: int) -> ListenerPort:
    return ListenerPort(
        manager,
        destination="Q1",
        on_message=on_message,
        max_sessions=session_count,
        properties={"NON.ASF.RECEIVE.TIMEOUT": "1000"},
    )


def _idle(size: Size) -> Figure:
    with QueueManager("BENCH") as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        port = _port(manager, _Countdown(1), size.idle_sessions)
        port.start()
        begin = time.process_time()
        threading.Event().wait(size.idle_seconds)
        used = time.process_time() - begin
        rollback_count = port.statistics().idle_rollbacks
        port.stop()
    note = f"receives of 1 s, {rollback_count} ended in {size.idle_seconds:g} s"
    percent = used / size.idle_seconds * 100
    return at_most(
        f"listener, idle, {size.idle_sessions} sessions", percent, 2, " % of a core", note
    )
