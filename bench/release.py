"""How late delayed messages reach a consumer: put with delays uniform over some seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from bench.clients import Client, Taken
from bench.peers import POLL_SECONDS
from mayfly.lifetime.times import SECOND_MS, Clock

_PER_UNIT = 100
_SEED = 20
#: A message that has not come so long after the last one was due is lost.
_LONGEST_MS = 60_000


class Lateness(NamedTuple):
    """Arrival minus due time in ms, ascending, of messages due while and after the puts ran."""

    during_ms: list[int]
    after_ms: list[int]
    put_rate: float


def lateness(connect: Callable[[], Client], clock: Clock, count: int, window_ms: int) -> Lateness:
    """Put on one thread, take on another; a consumer takes up to 100 messages a unit of work."""
    begin_ms, end_ms = clock.now_ms(), list[int]()

    def produce() -> None:
        client, random = connect(), Random(_SEED)
        try:
            for first in range(0, count, _PER_UNIT):
                now_ms, numbers = clock.now_ms(), range(first, first + _PER_UNIT)
                client.put([(n, now_ms + random.randrange(1, window_ms)) for n in numbers])
        finally:
            end_ms.append(clock.now_ms())
            client.close()

    producer = threading.Thread(target=produce)
    consumer = connect()
    producer.start()
    taken: list[Taken] = []
    while len(taken) < count:
        batch = consumer.take(_PER_UNIT)
        taken.extend(batch)
        if not batch:
            # All consumers poll alike: Redis and PostgreSQL have no wait for what falls due.
            time.sleep(POLL_SECONDS)
            if end_ms and clock.now_ms() > end_ms[0] + window_ms + _LONGEST_MS:
                raise RuntimeError(f"{count - len(taken)} of {count} messages never came")
    producer.join()
    consumer.close()
    assert sorted(t.number for t in taken) == list(range(count))
    late = [(t.due_ms > end_ms[0], t.arrival_ms - t.due_ms) for t in taken]
    assert min(late_ms for _, late_ms in late) >= 0
    return Lateness(
        sorted(late_ms for is_after, late_ms in late if not is_after),
        sorted(late_ms for is_after, late_ms in late if is_after),
        count * SECOND_MS / max(1, end_ms[0] - begin_ms),
    )


def percentile(ascending: Sequence[float], percent: int) -> float:
    """Return the value below which so many percent lie."""
    return ascending[len(ascending) * percent // 100]
