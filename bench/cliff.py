"""The release of very many delayed messages that fall due within the same second."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import NamedTuple

import apsw

from bench.child import in_child, peak_mb
from bench.clients import Client, SessionClient, Taken, bench_manager, read_body
from bench.figures import seconds_of
from mayfly import QueueManager
from mayfly.lifetime.times import SECOND_MS, Clock
from mayfly.runtime.clocks import SystemClock
from mayfly.store.database import DATABASE_FILE

_PER_UNIT = 1_000
_SAMPLE = 20_000
_SEED = 20
_NS_PER_MS = 1_000_000
#: The puts may take so long; nobody waits for the rest of it.
_DELAY_MS = 3_600_000
#: The queue manager is opened so long before the first message falls due.
_LEAD_MS = 2_000
_LONGEST_MS = 300_000
#: The other client commits this often.
_PACE_SECONDS = 0.005


class TooSlow(Exception):
    """The puts took an hour, or the release did not come to an end: nothing was measured."""


class Cliff(NamedTuple):
    """Figures from the moment at which the first message is due until all are available."""

    seconds: float
    fill_rate: float
    get_rate: float
    peak_mb: float
    commit_ms: list[float]
    in_order: bool


def cliff(count: int) -> Cliff:
    """Put persistent messages that are due in one second, in a process of its own, and watch.

    They are put an hour ahead. Then the queue manager is opened under a clock that is ahead by
    most of that hour: from there on all takes its own time, on its own threads.
    """
    with tempfile.TemporaryDirectory() as folder:
        return in_child(_cliff, folder, count)


def handed_out_seconds(client: Client, clock: Clock, count: int) -> float:
    """Return how long a client needs to take as many messages that are due.

    A peer does nothing when a message falls due: they may as well be due before the last is put.
    """
    due_ms = clock.now_ms()
    _fill(client, count, due_ms)
    _sleep_until(clock, due_ms + SECOND_MS)
    begin, left = time.perf_counter(), count
    while left:
        left -= len(client.take(_PER_UNIT))
    return time.perf_counter() - begin


def _cliff(folder: str, count: int) -> Cliff:
    clock = SystemClock()
    due_ms = clock.now_ms() + _DELAY_MS
    with bench_manager(Path(folder), clock) as manager:
        client = SessionClient(manager, clock)
        fill_rate = count / seconds_of(lambda: _fill(client, count, due_ms))
        client.close()
    ahead_ns = (due_ms - _LEAD_MS - clock.now_ms()) * _NS_PER_MS
    if ahead_ns < 0:
        raise TooSlow(f"puts at {fill_rate:,.0f}/s")
    clock = SystemClock(wall_ns=lambda: time.time_ns() + ahead_ns)
    with bench_manager(Path(folder), clock) as manager:
        client = SessionClient(manager, clock)
        _sleep_until(clock, due_ms)
        commit_ms = _commits_while(manager, lambda: _wait_for_all(manager, clock, count, due_ms))
        seconds = (clock.now_ms() - due_ms) / SECOND_MS
        peak = peak_mb()
        queue = manager.engine.registry.resolve("Q1").queue
        in_order = _in_order(_stored(Path(folder), queue.low, queue.high), count)
        begin = time.perf_counter()
        sample: list[Taken] = []
        while len(sample) < min(count, _SAMPLE):
            sample.extend(client.take(_PER_UNIT))
        get_rate = len(sample) / (time.perf_counter() - begin)
        places = [(taken.due_ms, taken.number) for taken in sample]
        client.close()
    is_kept = in_order and places == sorted(places)
    return Cliff(seconds, fill_rate, get_rate, peak, commit_ms, is_kept)


def _fill(client: Client, count: int, due_ms: int) -> None:
    """Put messages that fall due in the second that begins then, not in the order of the puts."""
    random = Random(_SEED)
    for first in range(0, count, _PER_UNIT):
        numbers = range(first, min(first + _PER_UNIT, count))
        client.put([(number, due_ms + random.randrange(SECOND_MS)) for number in numbers])


def _wait_for_all(manager: QueueManager, clock: Clock, count: int, due_ms: int) -> None:
    # CURDEPTH is cheap to ask for, but counts what is on its way to the disk too.
    while manager.curdepth("Q1") < count or manager.counts("Q1").live < count:
        if clock.now_ms() > due_ms + _LONGEST_MS:
            raise TooSlow(f"{manager.counts('Q1').live:,} of {count:,} available")
        # A user of the real clock, who asks now and then.
        time.sleep(0.01)


def _commits_while(manager: QueueManager, wait: Callable[[], None]) -> list[float]:
    """Return how long each durable put of another client took meanwhile, in ms, ascending."""
    waits_ms: list[float] = []
    is_over = threading.Event()

    def commit() -> None:
        with manager.session() as session:
            while not is_over.wait(_PACE_SECONDS):
                begin = time.perf_counter()
                session.put("Q2", bytes(200), persistent=True)
                waits_ms.append((time.perf_counter() - begin) * SECOND_MS)

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        wait()
    finally:
        is_over.set()
        thread.join()
    return sorted(waits_ms)


def _stored(folder: Path, low: int, high: int) -> Iterable[tuple[int, int]]:
    """Yield due time and running number of the messages of a queue, in get order."""
    connection = apsw.Connection(str(folder / DATABASE_FILE), flags=apsw.SQLITE_OPEN_READONLY)
    rows = connection.execute(
        "SELECT deliver_at_ms, body FROM message WHERE k >= ? AND k < ? ORDER BY k", (low, high)
    )
    for deliver_at_ms, body in rows:
        yield deliver_at_ms, read_body(body)[0]
    connection.close()


def _in_order(places: Iterable[tuple[int, int]], count: int) -> bool:
    """Return True if all messages have come, by due time and then by put order."""
    found, last = 0, (0, -1)
    for place in places:
        if place <= last:
            return False
        found, last = found + 1, place
    return found == count


def _sleep_until(clock: Clock, moment_ms: int) -> None:
    # The flood comes by the real clock, as that of the peers does.
    time.sleep(max(0, moment_ms - clock.now_ms()) / SECOND_MS)
