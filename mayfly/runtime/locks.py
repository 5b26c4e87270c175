"""The lock of an engine: it says whether it is held, and wakes those who wait for a change."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING


class EngineLock(_thread.RLock):  # type: ignore[misc]  # final in typeshed, not in CPython
    """A reentrant lock with one condition: something that it guards has been settled.

    A subclass of the interpreter's own lock, because taking it must cost nothing more: the shortest
    put takes 80 µs. Queue managers of one queue-sharing group have one lock.
    """

    def __init__(self) -> None:
        """Begin free."""
        super().__init__()
        self._settled = threading.Condition(self)
        self._waiting_count = 0

    if TYPE_CHECKING:

        def is_held(self) -> bool:
            """Return True if the calling thread holds the lock: for assertions."""

    else:
        # One call of C, which threading.Condition itself relies on.
        is_held = _thread.RLock._is_owned

    def wait_while(self, is_so: Callable[[], object]) -> None:
        """Wait until something is not so any more; call it with the lock held.

        The lock is free meanwhile. The thread that changes the condition calls :meth:`tell`.
        """
        while is_so():
            self._waiting_count += 1
            try:
                self._settled.wait()
            finally:
                self._waiting_count -= 1

    def tell(self) -> None:
        """Let all that wait look again; call it with the lock held."""
        if self._waiting_count:
            self._settled.notify_all()
