"""The lock of an engine, which wakes those who wait for a change, and a signal to one thread."""

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


class Signal:
    """Something that one thread waits for, and that happens once.

    One lock of the interpreter, where an Event is two with a condition: a commit makes and sets
    one, which takes 1 µs instead of 9.
    """

    __slots__ = ("_is_set", "_pending")

    def __init__(self) -> None:
        """Begin with a lock that :meth:`set` frees."""
        self._is_set = False
        self._pending = _thread.allocate_lock()
        self._pending.acquire()

    def is_set(self) -> bool:
        """Return True once it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake the thread that waits for it; interrupted, it may be set again."""
        self._is_set = True
        if self._pending.locked():
            self._pending.release()

    def wait(self) -> None:
        """Wait until it is set; interrupted, the wait may be begun again."""
        # Interrupted once the lock was taken, it finds the flag.
        if not self._is_set:
            self._pending.acquire()
