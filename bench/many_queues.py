"""What verbs cost where a queue manager has many queues, each with a durable subscription."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from bench.child import resident_mb
from bench.figures import seconds_of
from bench.turns import Costs, in_turn
from mayfly import QueueManager
from mayfly.engine.session import Session
from mayfly.lifetime.times import SECOND_MS
from mayfly.testing import VirtualClock

_BODY: Final = os.urandom(200)
_PER_UNIT, _USED = 100, 100


class Peopled(NamedTuple):
    """What was measured with so many queues, and in turn with fewer; bytes of memory a queue."""

    size: int
    costs_us: Costs
    smallest_us: Costs
    bytes_each: float


def peopled(count: int, base: int, rounds: int, batch: int) -> Peopled:
    """Define queues with a subscription each; measure rounds, in which messages go to some of them.

    It is meant for a process of its own, whose memory is told. ``base`` is how many queues the
    other side has.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        small = _Queues(stack, Path(name) / "SMALL", base)
        before_bytes = resident_mb() * 1e6
        large = _Queues(stack, Path(name) / "LARGE", count)
        bytes_each = (resident_mb() * 1e6 - before_bytes) / count
        sides = (partial(large.round, batch), partial(small.round, batch))
        large_us, small_us = in_turn(rounds, *sides)
        stack.close()
        for found, opened_us in zip(
            (large_us, small_us), in_turn(rounds, large.opened, small.opened), strict=True
        ):
            found.update(opened_us)
    for found, queues in ((large_us, large), (small_us, small)):
        found["define and subscribe, a queue"] = [queues.define_us]
    return Peopled(count, large_us, small_us, bytes_each)


class _Queues:
    """A queue manager of a folder with so many queues."""

    def __init__(self, stack: ExitStack, folder: Path, count: int) -> None:
        self._folder, self._count, self._clock = folder, count, VirtualClock()
        self._manager = stack.enter_context(self._open())
        self.define_us = seconds_of(lambda: _define(self._manager, count)) / count * 1e6

    def _open(self) -> QueueManager:
        return QueueManager(self._folder.name, self._folder, self._clock)

    def round(self, batch: int) -> Iterator[tuple[str, float]]:
        """Yield each step and what it costs a message."""
        with self._manager.session(transacted=True) as session:
            for step, run in _steps(session, self._clock, self._count, batch):
                yield step, seconds_of(run) / batch * 1e6

    def opened(self) -> Iterator[tuple[str, float]]:
        """Yield what opening the folder and closing it again costs a queue, once it is closed."""
        yield "open, a queue", seconds_of(lambda: self._open().close()) / self._count * 1e6


def _define(manager: QueueManager, count: int) -> None:
    script = "\n".join(f"DEFINE QLOCAL(Q{n}) MAXDEPTH(999999999)" for n in range(count))
    assert manager.mqsc(f"ALTER QMGR EXPRYINT(1)\n{script}").ok
    with manager.session() as session:
        for number in range(count):
            session.subscribe(f"bench/{number}", name=f"S{number}", queue=f"Q{number}")


def _steps(
    session: Session, clock: VirtualClock, count: int, batch: int
) -> Iterator[tuple[str, Callable[[], object]]]:
    # However many there are, a round uses so many of them: each queue used has a cost of its own.
    used = range(0, count, max(1, count // _USED))

    def put(number: int, *, delay_ms: int = 0, time_to_live_ms: int | None = None) -> object:
        queue = f"Q{used[number % len(used)]}"
        return session.put(
            queue, _BODY, persistent=True, delay_ms=delay_ms, time_to_live_ms=time_to_live_ms
        )

    def publish(number: int) -> object:
        topic = f"bench/{used[number % len(used)]}"
        return session.publish(topic, _BODY, persistent=True)

    def get_all() -> None:
        _in_units(session, batch, lambda n: session.get(f"Q{used[n % len(used)]}"))

    yield "put", lambda: _in_units(session, batch, put)
    yield "get", get_all
    name = "publish to one of as many subscriptions"
    yield name, lambda: _in_units(session, batch, publish)
    get_all()
    _in_units(session, batch, lambda n: put(n, delay_ms=SECOND_MS))
    yield "release", lambda: clock.advance(SECOND_MS)
    get_all()
    _in_units(session, batch, lambda n: put(n, time_to_live_ms=SECOND_MS))
    yield "expiry scan", lambda: clock.advance(2 * SECOND_MS)


def _in_units(session: Session, batch: int, verb: Callable[[int], object]) -> None:
    for number in range(batch):
        verb(number)
        if number % _PER_UNIT == _PER_UNIT - 1:
            session.commit()
    session.commit()
