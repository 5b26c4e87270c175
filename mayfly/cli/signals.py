"""Being interrupted or told to end, as an event to wait for."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_event() -> Iterator[threading.Event]:
    """Yield what is set by SIGINT and SIGTERM; afterwards they mean again what they did before.

    A thread sets it, which hears of them from the system. A handler would run in the main thread:
    not before that has come back from the wait it is about to begin, or in the midst of it, where
    it already holds the lock of the event.
    """
    stopped = threading.Event()
    heard, said = socket.socketpair()
    said.setblocking(False)

    def listen() -> None:
        while heard.recv(1):
            stopped.set()

    listener = threading.Thread(target=listen, name="mayfly-signals", daemon=True)
    listener.start()
    said_before = signal.set_wakeup_fd(said.fileno(), warn_on_full_buffer=False)
    before = [signal.signal(number, lambda _number, _frame: None) for number in _NUMBERS]
    try:
        yield stopped
    finally:
        for number, handler in zip(_NUMBERS, before, strict=True):
            signal.signal(number, handler)
        signal.set_wakeup_fd(said_before)
        said.close()
        listener.join()
        heard.close()
