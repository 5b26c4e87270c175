"""Stop requests for a pipeline, by SIGINT or SIGTERM, with a clock and waits that end at them."""

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
    """Counts stop requests: the first lets a batch finish, the second breaks it off."""

    def __init__(self) -> None:
        """Begin without a request."""
        self._stop_request_count = 0
        self._signalled_ms: int | None = None
        self._never = threading.Event()

    @property
    def stop_request_count(self) -> int:
        """The number of stop requests."""
        return self._stop_request_count

    def ask(self) -> None:
        """Add one stop request; safe in a signal handler."""
        # No lock: a signal handler may come while the thread it interrupts holds it.
        self._stop_request_count += 1

    def signalled(self) -> None:
        """Add one stop request because of a signal.

        A signal within half a second of another is the same request and adds nothing.
        """
        now_ms, before_ms = self.now_ms(), self._signalled_ms
        self._signalled_ms = now_ms
        if before_ms is None or now_ms - before_ms >= _SAME_REQUEST_MS:
            self.ask()

    def now_ms(self) -> int:
        """Return milliseconds of a monotonic clock with an arbitrary start."""
        return int(time.perf_counter() * SECOND_MS)

    def wait(self, duration_ms: int) -> None:
        """Wait for ``duration_ms`` milliseconds, or until about 100 ms after a new stop request."""
        count_before, end_ms = self._stop_request_count, self.now_ms() + duration_ms
        while self._stop_request_count == count_before and (left_ms := end_ms - self.now_ms()) > 0:
            self._never.wait(min(left_ms, _STEP_MS) / SECOND_MS)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Return a context in which SIGINT and SIGTERM are stop requests.

        At its end the handlers from before are restored.
        """
        before = [
            signal.signal(number, lambda _number, _frame: self.signalled()) for number in _NUMBERS
        ]
        try:
            yield
        finally:
            for number, handler in zip(_NUMBERS, before, strict=True):
                signal.signal(number, handler)
