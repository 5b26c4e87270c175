"""Signals as events and queues, for commands that wait."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

_ENDS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_event() -> Iterator[threading.Event]:
    """Return a context with an event that SIGINT and SIGTERM set.

    The handlers from before are restored at its end.
    """
    stopped = threading.Event()
    with _handling(_ENDS, lambda _number: stopped.set()):
        yield stopped


@contextmanager
def stopping(stop: Callable[[], object]) -> Iterator[None]:
    """Return a context in which SIGINT and SIGTERM call ``stop``, in a thread.

    The handlers from before are restored at its end.
    """
    with _handling(_ENDS, lambda _number: stop()):
        yield


@contextmanager
def arriving_signals(*numbers: signal.Signals) -> Iterator[SimpleQueue[int]]:
    """Return a context with a queue that gets the numbers of these signals as they arrive.

    The handlers from before are restored at its end.
    """
    arrived: SimpleQueue[int] = SimpleQueue()
    with _handling(numbers, arrived.put):
        yield arrived


@contextmanager
def _handling(
    numbers: tuple[signal.Signals, ...], handle: Callable[[int], object]
) -> Iterator[None]:
    """Return a context that calls ``handle`` with each signal's number, in a thread.

    A Python handler would run in the main thread: too late, if a wait is about to begin there; or
    in the middle of a wait, while the main thread holds a lock that ``handle`` needs.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)

    def receive() -> None:
        """Call ``handle`` for each signal until the socket is closed; the thread's function."""
        while number := receiver.recv(1):
            if number[0] in numbers:
                handle(number[0])

    listener = threading.Thread(target=receive, name="mayfly-signals", daemon=True)
    listener.start()
    descriptor_before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    before = [signal.signal(number, lambda _number, _frame: None) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        signal.set_wakeup_fd(descriptor_before)
        sender.close()
        listener.join()
        receiver.close()
