"""How late delayed messages are while puts run: at a steady pace, and as fast as puts go.

At the pace 5,000 durable messages a second are put in units of 100, of which 2,000 are delayed by
up to two seconds, so that as many fall due a second. At the limit all are delayed, and one thread
puts as fast as it can. One consumer waits for what falls due and takes up to 100 a unit of work.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from bench.aims import max_cost
from bench.clients import SessionClient, bench_manager, body_of
from bench.figures import Figure, at_least, at_most, median
from bench.release import lateness, percentile
from mayfly import QueueManager
from mayfly.lifetime.times import SECOND_MS
from mayfly.runtime.clocks import SystemClock

_PUTS_A_SECOND: Final = 5_000
_PER_UNIT: Final = 100
#: Of each unit so many are delayed, by less than the window: 2,000 a second.
_DELAYED_PER_UNIT: Final = 40
_WINDOW_MS: Final = 2_000
_SEED: Final = 21
_AIM_MS: Final = 50
#: The puts are to keep the pace but for a twentieth.
_KEPT: Final = 0.95


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    seconds: float = 6.0
    #: Puts at the limit, a round.
    limit_count: int = 60_000
    window_ms: int = _WINDOW_MS


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 0.1, 200, 50)


class _Paced(NamedTuple):
    """One round: how late, in ms ascending, what fell due meanwhile came; puts a second."""

    late_ms: list[int]
    put_rate: float


def figures(size: Size = USUAL) -> Iterator[Figure]:
    """Measure everything of this file."""
    clock = SystemClock()
    paced = [_round(clock, size) for _ in range(size.rounds)]
    name, rates = "release while 5,000 puts/s and 2,000 due/s run", [one.put_rate for one in paced]
    yield from _late(name, [one.late_ms for one in paced], f"{median(rates):,.0f} puts/s")
    floor = _PUTS_A_SECOND * _KEPT
    yield at_least(f"{name}, puts", median(rates), floor, "/s", "as paced", samples=rates)
    limits = [_limit(clock, size) for _ in range(size.rounds)]
    note = f"{median(one.put_rate for one in limits):,.0f} puts/s, all delayed"
    yield from _late("release while puts run at the limit", [o.late_ms for o in limits], note)


def _late(name: str, rounds: list[list[int]], note: str) -> Iterator[Figure]:
    tails = [float(percentile(each, 99)) for each in rounds]
    middle = median(float(percentile(each, 50)) for each in rounds)
    note = f"p50 {middle:g} ms; {note}; arrival - due, medians of {len(rounds)} rounds"
    yield at_most(f"{name}, p99", median(tails), max_cost(_AIM_MS), " ms", note, samples=tails)


def _limit(clock: SystemClock, size: Size) -> _Paced:
    with tempfile.TemporaryDirectory() as folder, bench_manager(Path(folder), clock) as manager:
        found = lateness(
            lambda: SessionClient(manager, clock), clock, size.limit_count, size.window_ms
        )
    # In a very short round all fall due when the puts are done.
    return _Paced(found.during_ms or found.after_ms, found.put_rate)


def _round(clock: SystemClock, size: Size) -> _Paced:
    with tempfile.TemporaryDirectory() as folder, bench_manager(Path(folder), clock) as manager:
        putter = _Putter(manager, clock, size)
        consumer = SessionClient(manager, clock)
        putter.start()
        late_ms: list[tuple[int, int]] = []
        while putter.is_alive() or len(late_ms) < putter.delayed_count:
            taken = consumer.take(_PER_UNIT)
            late_ms += [(one.due_ms, one.arrival_ms - one.due_ms) for one in taken]
        putter.join()
        consumer.close()
    assert len(late_ms) == putter.delayed_count
    # As many as are put fall due once the first window is over, and until the puts end.
    steady_ms = range(putter.begin_ms + size.window_ms, putter.end_ms)
    steady = [late for due, late in late_ms if due in steady_ms] or [late for _, late in late_ms]
    return _Paced(sorted(steady), putter.put_rate)


class _Putter(threading.Thread):
    """Puts units at the pace."""

    def __init__(self, manager: QueueManager, clock: SystemClock, size: Size) -> None:
        """Put for the seconds of a round, from the start of the thread."""
        super().__init__()
        self._session = manager.session(transacted=True)
        self._clock, self._random = clock, Random(_SEED)
        self._window_ms = size.window_ms
        self._unit_count = max(1, round(size.seconds * _PUTS_A_SECOND / _PER_UNIT))
        self.delayed_count = self._unit_count * _DELAYED_PER_UNIT
        self.begin_ms = self.end_ms = 0

    @property
    def put_rate(self) -> float:
        """Messages a second from the first put to the last commit."""
        return self._unit_count * _PER_UNIT * SECOND_MS / max(1, self.end_ms - self.begin_ms)

    def run(self) -> None:
        """Put; a unit begins when its time has come, or at once where it is late."""
        begin = time.perf_counter()
        self.begin_ms = self._clock.now_ms()
        for unit in range(self._unit_count):
            due = begin + unit * _PER_UNIT / _PUTS_A_SECOND
            # Paced: the rate of puts is fixed.
            time.sleep(max(0.0, due - time.perf_counter()))
            self._put_unit(unit)
        self.end_ms = self._clock.now_ms()
        self._session.close()

    def _put_unit(self, unit: int) -> None:
        for number in range(_PER_UNIT):
            body = body_of(unit * _PER_UNIT + number, 0)
            if number < _DELAYED_PER_UNIT:
                delay_ms = self._random.randrange(1, self._window_ms)
                self._session.put("Q1", body, persistent=True, delay_ms=delay_ms)
            else:
                self._session.put("Q2", body, persistent=True)
        self._session.commit()
