"""Being interrupted or told to end, as an event to wait for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_event() -> Iterator[threading.Event]:
    """Yield what is set by SIGINT and SIGTERM; afterwards they mean again what they did before."""
    stopped = threading.Event()
    before = [signal.signal(number, lambda _number, _frame: stopped.set()) for number in _NUMBERS]
    try:
        yield stopped
    finally:
        for number, handler in zip(_NUMBERS, before, strict=True):
            signal.signal(number, handler)
