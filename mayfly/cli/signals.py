"""Being interrupted or told to end, as something to wait for."""

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
    """Yield what is set by SIGINT and SIGTERM; afterwards they mean again what they did before."""
    stopped = threading.Event()
    with _heard(_ENDS, lambda _number: stopped.set()):
        yield stopped


@contextmanager
def stopping(stop: Callable[[], object]) -> Iterator[None]:
    """Call ``stop`` on SIGINT and SIGTERM, for the time of a block."""
    with _heard(_ENDS, lambda _number: stop()):
        yield


@contextmanager
def arriving_signals(*numbers: signal.Signals) -> Iterator[SimpleQueue[int]]:
    """Yield a queue of the signals that arrive; afterwards they mean again what they did before."""
    arrived: SimpleQueue[int] = SimpleQueue()
    with _heard(numbers, arrived.put):
        yield arrived


@contextmanager
def _heard(numbers: tuple[signal.Signals, ...], tell: Callable[[int], object]) -> Iterator[None]:
    """Call ``tell`` for each signal, for the time of a block.

    The call is made by a thread of its own. A Python handler would run in the main thread. There it
    may come too late, after a wait that is about to begin. Or it may come in the midst of a wait,
    while the main thread holds a lock that ``tell`` needs.
    """
    heard, said = socket.socketpair()
    said.setblocking(False)

    def listen() -> None:
        while number := heard.recv(1):
            if number[0] in numbers:
                tell(number[0])

    listener = threading.Thread(target=listen, name="mayfly-signals", daemon=True)
    listener.start()
    said_before = signal.set_wakeup_fd(said.fileno(), warn_on_full_buffer=False)
    before = [signal.signal(number, lambda _number, _frame: None) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        signal.set_wakeup_fd(said_before)
        said.close()
        listener.join()
        heard.close()
