"""What verbs cost where a queue manager has many queues, each with a durable subscription."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bench.child import resident_mb
from bench.figures import seconds_of
from mayfly import QueueManager
from mayfly.engine.session import Session
from mayfly.lifetime.times import SECOND_MS
from mayfly.testing import VirtualClock

_BODY: Final = os.urandom(200)
_PER_UNIT = 100


class Peopled(NamedTuple):
    """What was measured with so many queues: by step the costs of the rounds, in µs; memory."""

    size: int
    costs_us: dict[str, list[float]]
    resident_bytes: float


def peopled(count: int, rounds: int, batch: int) -> Peopled:
    """Define queues with a subscription each; measure rounds, in which messages go to all in turn.

    It is meant for a process of its own, whose memory is told.
    """
    clock, costs_us = VirtualClock(), dict[str, list[float]]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with QueueManager("BENCH", folder, clock) as manager:
            defined = seconds_of(lambda: _define(manager, count))
            for _ in range(rounds):
                for step, cost_us in _round(manager, clock, count, batch):
                    costs_us.setdefault(step, []).append(cost_us)
            resident_bytes = resident_mb() * 1e6
        costs_us["open, a queue"] = [
            seconds_of(lambda: QueueManager("BENCH", folder, clock).close()) / count * 1e6
            for _ in range(rounds)
        ]
    costs_us["define and subscribe, a queue"] = [defined / count * 1e6]
    return Peopled(count, costs_us, resident_bytes)


def _define(manager: QueueManager, count: int) -> None:
    script = "\n".join(f"DEFINE QLOCAL(Q{n}) MAXDEPTH(999999999)" for n in range(count))
    assert manager.mqsc(f"ALTER QMGR EXPRYINT(1)\n{script}").ok
    with manager.session() as session:
        for number in range(count):
            session.subscribe(f"bench/{number}", name=f"S{number}", queue=f"Q{number}")


def _round(
    manager: QueueManager, clock: VirtualClock, count: int, batch: int
) -> Iterator[tuple[str, float]]:
    with manager.session(transacted=True) as session:
        for step, run in _steps(session, clock, count, batch):
            yield step, seconds_of(run) / batch * 1e6


def _steps(
    session: Session, clock: VirtualClock, count: int, batch: int
) -> Iterator[tuple[str, Callable[[], object]]]:
    def put(number: int, *, delay_ms: int = 0, time_to_live_ms: int | None = None) -> object:
        queue = f"Q{number % count}"
        return session.put(
            queue, _BODY, persistent=True, delay_ms=delay_ms, time_to_live_ms=time_to_live_ms
        )

    def get_all() -> None:
        _in_units(session, batch, lambda n: session.get(f"Q{n % count}"))

    yield "put", lambda: _in_units(session, batch, put)
    yield "get", get_all
    yield (
        "publish to one of as many subscriptions",
        lambda: _in_units(
            session, batch, lambda n: session.publish(f"bench/{n % count}", _BODY, persistent=True)
        ),
    )
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
