"""The timeline of a million delayed messages: the first look at it, each later one, and puts."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.child import in_child, resident_mb
from bench.figures import Figure, at_most, median, seconds_of
from bench.staged import SPREAD_MS, fill
from mayfly import QueueManager
from mayfly.engine.api.operating import DelayTimeline, Span
from mayfly.lifetime.times import SECOND_MS
from mayfly.runtime.clocks import SystemClock

_LOOKS, _STEPS = 100, 2_000


class Looked(NamedTuple):
    """Times of one process; those of looks and of the puts beside them in ms."""

    first_seconds: float
    whole_ms: list[float]
    queue_ms: list[float]
    narrow_ms: list[float]
    put_ms: list[float]
    kept_mb: float


def figures(count: int = 1_000_000) -> Iterator[Figure]:
    """Fill a folder, then look at it in a new process; a smaller count is for trying out."""
    with tempfile.TemporaryDirectory() as folder:
        in_child(fill, folder, count)
        found = in_child(_looked, folder, count)
    name = f"timeline of {count:,} delayed messages, {_STEPS:,} steps: "
    note = f"{found.kept_mb:.0f} MB more; the keys are read once"
    yield at_most(f"{name}the first", found.first_seconds, 2, " s", note)
    for what, ceiling_ms, samples_ms in (
        ("all of it", 60, found.whole_ms),
        ("all of one queue", 60, found.queue_ms),
        ("a hundredth of it", 15, found.narrow_ms),
    ):
        note = "a message is put before each"
        yield at_most(name + what, median(samples_ms), ceiling_ms, " ms", note, samples=samples_ms)
    note = f"median {median(found.put_ms):.2f} ms"
    yield at_most("longest put beside the first timeline", max(found.put_ms), 100, " ms", note)


def _looked(folder: str, count: int) -> Looked:
    clock = SystemClock()
    with QueueManager("BENCH", folder, clock) as manager, manager.session() as session:
        keys, put_ms, is_read = manager.engine.staged_keys, list[float](), threading.Event()

        def put() -> None:
            session.put("Q1", b"x", delay_ms=SPREAD_MS)

        def put_on() -> None:
            while not is_read.is_set():
                put_ms.append(seconds_of(put) * SECOND_MS)
                is_read.wait(0.001)

        put()
        before_mb, putting = resident_mb(), threading.Thread(target=put_on)
        putting.start()
        begin = time.perf_counter()
        first = keys.timeline(Span(None, None, _STEPS))
        first_seconds = time.perf_counter() - begin
        is_read.set()
        putting.join()
        assert sum(first.counts) >= count
        middle_ms = first.from_ms + (first.before_ms - first.from_ms) // 2
        narrow = Span(middle_ms, middle_ms + (first.before_ms - first.from_ms) // 100, _STEPS)
        return Looked(
            first_seconds,
            _ms_of(put, lambda: keys.timeline(Span(None, None, _STEPS))),
            _ms_of(put, lambda: keys.timeline(Span(None, None, _STEPS), "Q1")),
            _ms_of(put, lambda: keys.timeline(narrow)),
            put_ms,
            resident_mb() - before_mb,
        )


def _ms_of(before: Callable[[], None], look: Callable[[], DelayTimeline]) -> list[float]:
    found = []
    for _ in range(_LOOKS):
        before()
        found.append(seconds_of(look) * SECOND_MS)
    return found
