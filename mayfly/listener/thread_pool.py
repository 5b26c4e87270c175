"""The threads that the sessions of several ports have together: no more than a limit at a time.

All of it changes in takes and between them (``between_takes`` of the engine): a message is taken
off its queue only when a session has a thread for it, and a thread that becomes free goes to the
port that has waited longest. With a lock of its own another port could take the thread between the
two.
"""

from __future__ import annotations

from typing import Protocol


class Borrower(Protocol):
    """A run in ASF mode, whose sessions have threads only while they are needed."""

    def wake(self) -> None:
        """Look for a message again: a thread has become free."""

    def give_up_idle(self) -> bool:
        """Let the thread of a session without a message end; False when there is none."""


class ThreadPool:
    """Counts threads; a limit of None is none."""

    def __init__(self, max_threads: int | None = None) -> None:
        """Begin with all of them free."""
        self.max_threads = max_threads
        self.used_count = 0
        self._borrowers: list[Borrower] = []
        #: Those that have found no thread free, longest waiting first.
        self._waiting: list[Borrower] = []

    @property
    def free_count(self) -> int | None:
        """How many threads are free, None without a limit."""
        return None if self.max_threads is None else self.max_threads - self.used_count

    def has_room(self, count: int = 1) -> bool:
        """Return True if so many threads are free."""
        return self.max_threads is None or self.used_count + count <= self.max_threads

    def take(self, count: int = 1) -> None:
        """Take threads that :meth:`has_room` has found."""
        self.used_count += count

    def give_back(self, count: int = 1) -> None:
        """Give threads back that have ended, and wake whoever waits for one."""
        self.used_count -= count
        waiting, self._waiting = self._waiting, []
        # The first that waits takes the thread; the others enter themselves again, in this order.
        for borrower in waiting:
            borrower.wake()

    def ask(self, borrower: Borrower) -> None:
        """Wait for a thread; an idle one of another port is given up for it."""
        if borrower in self._waiting:
            return
        self._waiting.append(borrower)
        for other in self._borrowers:
            if other is not borrower and other.give_up_idle():
                return

    def is_wanted_beside(self, borrower: Borrower) -> bool:
        """Return True if another run waits for a thread."""
        return any(waiting is not borrower for waiting in self._waiting)

    def add(self, borrower: Borrower) -> None:
        """Enter a run in ASF mode that begins."""
        self._borrowers.append(borrower)

    def remove(self, borrower: Borrower) -> None:
        """Forget a run that ends."""
        for runs in (self._borrowers, self._waiting):
            if borrower in runs:
                runs.remove(borrower)
