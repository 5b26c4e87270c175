"""Puts and gets: the native session and pymqi beside the bare loops."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from bench.aims import least_rate
from bench.figures import Figure, at_least, at_most, median, seconds_of
from bench.raw import RawLeader, get_loop, put_loop, put_seconds, row
from mayfly import QueueManager, pymqi
from mayfly.engine.session import Session
from mayfly.pymqi import CMQC
from mayfly.store.database import Database

BODY = os.urandom(200)
_PER_UNIT = 100
_BOTH_WAYS = CMQC.MQOO_OUTPUT | CMQC.MQOO_INPUT_AS_Q_DEF


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    #: Messages of a round in units of work.
    unit_count: int = 10_000
    single_count: int = 2_000
    threads: int = 16
    puts_each: int = 400
    pairs: int = 10_000


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 200, 10, 2, 5, 20)


def figures(size: Size = USUAL) -> Iterator[Figure]:
    """Measure everything of this file."""
    yield from _units_of_work(size)
    yield _one_thread(size)
    yield from _many_threads(size)
    yield from _pairs(size)


@contextmanager
def _manager(folder: Path | None) -> Iterator[QueueManager]:
    with QueueManager("BENCH", folder) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)")
        yield manager


def _units_of_work(size: Size) -> Iterator[Figure]:
    rates: dict[str, list[float]] = {}
    for _ in range(size.rounds):
        for name, run in (("raw", _raw), ("session", _session), ("pymqi", _pymqi)):
            with tempfile.TemporaryDirectory() as folder:
                put_seconds, get_seconds = run(Path(folder), size.unit_count)
            rates.setdefault(f"{name} put", []).append(size.unit_count / put_seconds)
            rates.setdefault(f"{name} get", []).append(size.unit_count / get_seconds)
    for verb, session_floor, pymqi_floor in (("put", 0.35, 0.25), ("get", 0.3, 0.2)):
        raw = rates[f"raw {verb}"]
        for name, floor in (("session", session_floor), ("pymqi", pymqi_floor)):
            ours = rates[f"{name} {verb}"]
            ratios = [a / b for a, b in zip(ours, raw, strict=True)]
            note = f"{median(ours):,.0f}/s against {median(raw):,.0f}/s"
            title = f"persistent {verb}, 100 a unit of work, {name}"
            yield at_least(title, median(ratios), floor, "x", note, samples=ratios)


def _raw(folder: Path, count: int) -> tuple[float, float]:
    database = Database(folder)
    result = (
        seconds_of(lambda: put_loop(database, count, _PER_UNIT, BODY)),
        seconds_of(lambda: get_loop(database, count, _PER_UNIT)),
    )
    database.close()
    return result


def _session(folder: Path, count: int) -> tuple[float, float]:
    with _manager(folder) as manager, manager.session(transacted=True) as session:
        return (
            seconds_of(
                _in_units(count, lambda: session.put("Q1", BODY, persistent=True), session.commit)
            ),
            seconds_of(_in_units(count, lambda: session.get("Q1"), session.commit)),
        )


def _pymqi(folder: Path, count: int) -> tuple[float, float]:
    with _manager(folder):
        connection = pymqi.connect("BENCH")
        queue = pymqi.Queue(connection, "Q1", _BOTH_WAYS)
        pmo = pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT)
        gmo = pymqi.GMO(Options=CMQC.MQGMO_SYNCPOINT)
        result = (
            seconds_of(
                _in_units(
                    count,
                    lambda: queue.put(BODY, pymqi.MD(Persistence=CMQC.MQPER_PERSISTENT), pmo),
                    connection.commit,
                )
            ),
            seconds_of(
                _in_units(count, lambda: queue.get(None, pymqi.MD(), gmo), connection.commit)
            ),
        )
        queue.close()
        connection.disconnect()
        return result


def _in_units(
    count: int, verb: Callable[[], object], commit: Callable[[], object]
) -> Callable[[], None]:
    def run() -> None:
        for _ in range(count // _PER_UNIT):
            for _ in range(_PER_UNIT):
                verb()
            commit()

    return run


def _one_thread(size: Size) -> Figure:
    own, raw, count = list[float](), list[float](), size.single_count
    for _ in range(size.rounds):
        with tempfile.TemporaryDirectory() as folder:
            raw.append(count / put_seconds(Path(folder), count, 1, BODY))
        with tempfile.TemporaryDirectory() as folder, _manager(Path(folder)) as manager:
            put = _durable_put(manager)
            own.append(count / seconds_of(partial(_repeat, put, count)))
    ratios = [a / b for a, b in zip(own, raw, strict=True)]
    note = f"{median(own):,.0f}/s against {median(raw):,.0f}/s of inserts with a commit each"
    title = "one thread of single durable puts beside bare SQLite"
    return at_least(title, median(ratios), least_rate(0.85), "x", note, samples=ratios)


def _repeat(verb: Callable[[], object], count: int) -> None:
    for _ in range(count):
        verb()


def _many_threads(size: Size) -> Iterator[Figure]:
    ratios, tails, rates = [], [], []
    for _ in range(size.rounds):
        with tempfile.TemporaryDirectory() as folder:
            raw_seconds = _raw_leader(Path(folder), size)
        with tempfile.TemporaryDirectory() as folder, _manager(Path(folder)) as manager:
            own_seconds, waits = _together(lambda: _durable_put(manager), size)
        ratios.append(raw_seconds / own_seconds)
        rates.append(size.threads * size.puts_each / own_seconds)
        tails.append(sorted(waits)[int(len(waits) * 0.99)] * 1000)
    note = f"{median(rates):,.0f}/s, p99 {median(tails):.2f} ms"
    title = f"{size.threads} threads of single durable puts beside the bare leader"
    yield at_least(title, median(ratios), least_rate(0.8), "x", note, samples=ratios)


def many_threads_rate(size: Size = USUAL) -> float:
    """Return how many single durable puts the threads of one process do in a second."""
    with tempfile.TemporaryDirectory() as folder, _manager(Path(folder)) as manager:
        seconds, _ = _together(lambda: _durable_put(manager), size)
    return size.threads * size.puts_each / seconds


def _raw_leader(folder: Path, size: Size) -> float:
    database, numbers = Database(folder), count(1)
    raw = RawLeader(database)
    seconds, _ = _together(lambda: lambda: raw.commit(row(next(numbers), BODY)), size)
    database.close()
    return seconds


def _durable_put(manager: QueueManager) -> Callable[[], object]:
    session = manager.session()
    return lambda: session.put("Q1", BODY, persistent=True)


def _together(make: Callable[[], Callable[[], object]], size: Size) -> tuple[float, list[float]]:
    waits: list[float] = []

    def run() -> None:
        verb = make()
        own = [seconds_of(verb) for _ in range(size.puts_each)]
        waits.extend(own)

    threads = [threading.Thread(target=run) for _ in range(size.threads)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin, waits


def _pairs(size: Size) -> Iterator[Figure]:
    native, facade, count = [], [], size.pairs
    with _manager(None) as manager, manager.session() as session:
        connection = pymqi.connect("BENCH")
        queue = pymqi.Queue(connection, "Q1", _BOTH_WAYS)
        for _ in range(size.rounds):
            native.append(seconds_of(lambda: _native_pairs(session, count)))
            facade.append(seconds_of(lambda: _facade_pairs(queue, count)))
        queue.close()
        connection.disconnect()
    for name, values, ceiling in (("session", native, 40), ("pymqi", facade, 60)):
        microseconds = min(values) / count * 1e6
        note = f"best of {size.rounds}; median {median(values) / count * 1e6:.1f} µs"
        samples = [seconds / count * 1e6 for seconds in values]
        title = f"non-persistent put + get, {name}"
        yield at_most(title, microseconds, ceiling, " µs", note, samples=samples)


def _native_pairs(session: Session, count: int) -> None:
    put, get = session.put, session.get
    for _ in range(count):
        put("Q1", BODY, persistent=False)
        get("Q1")


def _facade_pairs(queue: pymqi.Queue, count: int) -> None:
    for _ in range(count):
        queue.put(BODY, pymqi.MD(Persistence=CMQC.MQPER_NOT_PERSISTENT))
        queue.get()
