"""Requests for the end of a pipeline by SIGINT or SIGTERM, and waits that notice them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mayfly.lifetime.times import SECOND_MS

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_STEP_MS = 100
#: A signal that comes so soon after another is the same request: ``timeout`` sends one to its child
#: and one to the group of its child.
_SAME_REQUEST_MS = 500


class Stops:
    """Counts requests for the end: the first lets a batch finish, the second cuts it off."""

    def __init__(self) -> None:
        """Begin without a request."""
        self._asked_count = 0
        self._signalled_ms: int | None = None
        self._never = threading.Event()

    @property
    def asked_count(self) -> int:
        """The number of requests for the end."""
        return self._asked_count

    def ask(self) -> None:
        """Ask for the end."""
        # No lock: a signal handler may come while the thread it interrupts holds it.
        self._asked_count += 1

    def signalled(self) -> None:
        """Ask for the end, unless a signal has just done so."""
        now_ms, before_ms = self.now_ms(), self._signalled_ms
        self._signalled_ms = now_ms
        if before_ms is None or now_ms - before_ms >= _SAME_REQUEST_MS:
            self.ask()

    def now_ms(self) -> int:
        """Return milliseconds that only ever grow."""
        return int(time.perf_counter() * SECOND_MS)

    def wait(self, duration_ms: int) -> None:
        """Return after that time, or a tenth of a second after the end was asked for meanwhile."""
        asked_count, end_ms = self._asked_count, self.now_ms() + duration_ms
        while self._asked_count == asked_count and (left_ms := end_ms - self.now_ms()) > 0:
            self._never.wait(min(left_ms, _STEP_MS) / SECOND_MS)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM as requests; afterwards the former handlers are back."""
        before = [
            signal.signal(number, lambda _number, _frame: self.signalled()) for number in _NUMBERS
        ]
        try:
            yield
        finally:
            for number, handler in zip(_NUMBERS, before, strict=True):
                signal.signal(number, handler)
