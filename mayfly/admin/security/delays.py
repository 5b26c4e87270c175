"""Answers that are kept back for a time: a guesser of passwords waits, and no thread with it."""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable
from itertools import count
from typing import Final

from mayfly.lifetime.times import SECOND_MS
from mayfly.runtime import Loop, Runtime, SystemClock

_MOST: Final = 1_000
_LOG = logging.getLogger("mayfly.security")


class Delays:
    """Calls functions later, in one thread, which the first of them starts."""

    def __init__(self, runtime: Runtime) -> None:
        """Begin with nothing to call."""
        self._runtime, self._clock = runtime, SystemClock()
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._loop: Loop | None = None
        self._is_closed = False

    def call_after(self, delay_ms: int, function: Callable[[], None]) -> None:
        """Call a function after a time.

        It is called at once when too many wait already, when there is no thread, or behind the end.
        """
        with self._changed:
            is_kept_back = delay_ms > 0 and len(self._waiting) < _MOST and self._has_thread()
            if is_kept_back:
                due_ms = self._clock.now_ms() + delay_ms
                heapq.heappush(self._waiting, (due_ms, next(self._numbers), function))
                self._changed.notify()
        if not is_kept_back:
            function()

    def close(self) -> None:
        """Call all that wait now, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _has_thread(self) -> bool:
        """Start the thread where there is none; False without one, or at the end."""
        if self._loop is None and not self._is_closed:
            loop = Loop(self._runtime, self._call_next, "mayfly-refusals")
            try:
                loop.start()
            except RuntimeError as error:
                _LOG.error("a wrong password is refused at once: %s", error)
            else:
                self._loop = loop
        return self._loop is not None and not self._is_closed

    def _call_next(self) -> bool:
        """Wait for the next function and call it; False at the end."""
        with self._changed:
            while not self._is_closed and (not self._waiting or self._left_ms() > 0):
                left_s = self._left_ms() / SECOND_MS if self._waiting else None
                self._changed.wait(left_s)
            if not self._waiting:
                return False
            _due_ms, _number, function = heapq.heappop(self._waiting)
        try:
            function()
        except Exception:  # noqa: BLE001 - one client's answer is not the others'
            _LOG.exception("a refusal cannot be answered")
        return True

    def _left_ms(self) -> int:
        return self._waiting[0][0] - self._clock.now_ms()
