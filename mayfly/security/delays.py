"""Answers that are kept back for a time: a guesser of passwords waits, and no thread with it."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from itertools import count
from typing import Final

from mayfly.lifetime.times import SECOND_MS
from mayfly.runtime import SystemClock

_MOST: Final = 1_000


class Delays:
    """Calls functions later, in one thread, which the first of them starts."""

    def __init__(self) -> None:
        """Begin with nothing to call."""
        self._clock = SystemClock()
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def call_after(self, delay_ms: int, function: Callable[[], None]) -> None:
        """Call a function after a time; at once when too many wait already, or it is closed."""
        with self._changed:
            if delay_ms > 0 and len(self._waiting) < _MOST and not self._is_closed:
                due_ms = self._clock.now_ms() + delay_ms
                heapq.heappush(self._waiting, (due_ms, next(self._numbers), function))
                self._changed.notify()
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="mayfly-refusals", daemon=True
                    )
                    self._thread.start()
                return
        function()

    def close(self) -> None:
        """Call all that wait now, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._is_closed and (not self._waiting or self._left_ms() > 0):
                    left_s = self._left_ms() / SECOND_MS if self._waiting else None
                    self._changed.wait(left_s)
                if not self._waiting:
                    return
                _due_ms, _number, function = heapq.heappop(self._waiting)
            function()

    def _left_ms(self) -> int:
        return self._waiting[0][0] - self._clock.now_ms()
