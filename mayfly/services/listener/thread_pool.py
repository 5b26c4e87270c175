"""The threads that the sessions of several ports have together: no more than a limit at a time.

In ASF mode a message is taken off its queue only when its session has a thread for it. A dispatcher
therefore holds a permit for one thread while its get stands, and gives the permit up when another
port needs the thread. A thread that becomes free goes to the port that has waited longest.
"""

from __future__ import annotations

from typing import Protocol

from mayfly.runtime import Runtime


class Borrower(Protocol):
    """A run in ASF mode, whose sessions have threads only while they are needed."""

    def grant(self) -> None:
        """Have the permit for one thread that was asked for."""

    def give_up_permit(self) -> None:
        """Return the permit if it turns out to be unused."""

    def give_up_idle(self) -> bool:
        """Let the thread of a session without a message end; False when there is none."""


class ThreadPool:
    """Counts threads and permits; a limit of None is none.

    Its methods, and those of borrowers that it calls, run with ``changed`` held; so does all that
    runs change in their own state. No verb is called and no other wait begun with it held.
    """

    def __init__(self, max_threads: int | None = None, runtime: Runtime | None = None) -> None:
        """Begin with all of them free; the lock is of ``runtime``."""
        self.changed = (Runtime() if runtime is None else runtime).condition()
        self.max_threads = max_threads
        self.used_count = 0
        self._borrowers: list[Borrower] = []
        #: Those that may start one thread each.
        self._permitted: list[Borrower] = []
        #: Those that have found no thread free, longest waiting first.
        self._waiting: list[Borrower] = []

    @property
    def free_count(self) -> int | None:
        """How many threads are free, permits not looked at; None without a limit."""
        return None if self.max_threads is None else self.max_threads - self.used_count

    def take(self, count: int) -> bool:
        """Take threads; False when fewer are free. Permits that are not used are given up for them.

        Waits until they are, with ``changed`` free meanwhile.
        """
        if self._lacks(count):
            return False
        self.used_count += count
        while self._permitted and self._lacks(len(self._permitted)):
            for borrower in self._permitted:
                borrower.give_up_permit()
            self.changed.wait()
            if self._lacks(0):
                # A message has come first.
                self.give_back(count)
                return False
        return True

    def give_back(self, count: int = 1) -> None:
        """Give threads back that have ended."""
        self.used_count -= count
        self._hand_on()

    def permit(self, borrower: Borrower) -> bool:
        """Give a permit to a run that has none; False when no thread is free."""
        if self._lacks(len(self._permitted) + 1):
            return False
        self._permitted.append(borrower)
        return True

    def use_permit(self, borrower: Borrower) -> None:
        """Take the thread that a run has the permit for."""
        self._permitted.remove(borrower)
        self.used_count += 1
        # A run may be waiting until this permit is given up: another one is asked back for it.
        self._hand_on()

    def return_permit(self, borrower: Borrower) -> None:
        """Have the permit of a run back."""
        self._permitted.remove(borrower)
        self._hand_on()

    def ask(self, borrower: Borrower) -> None:
        """Let a run wait for a permit, which it may have at once; idle ones are given up for it."""
        self._waiting.append(borrower)
        self._hand_on()

    def withdraw(self, borrower: Borrower) -> None:
        """Let a run wait no more."""
        if borrower in self._waiting:
            self._waiting.remove(borrower)

    def is_wanted_beside(self, borrower: Borrower) -> bool:
        """Return True if another run waits for a thread."""
        return any(waiting is not borrower for waiting in self._waiting)

    def add(self, borrower: Borrower) -> None:
        """Enter a run in ASF mode that begins."""
        self._borrowers.append(borrower)

    def remove(self, borrower: Borrower) -> None:
        """Forget a run that ends."""
        if borrower in self._borrowers:
            self._borrowers.remove(borrower)
        self.withdraw(borrower)
        if borrower in self._permitted:
            self.return_permit(borrower)

    def _lacks(self, count: int) -> bool:
        """Return True if so many more threads would be more than the pool may have."""
        return self.max_threads is not None and self.used_count + count > self.max_threads

    def _hand_on(self) -> None:
        """Let those have permits that have waited longest."""
        while self._waiting and not self._lacks(len(self._permitted) + 1):
            borrower = self._waiting.pop(0)
            self._permitted.append(borrower)
            borrower.grant()
        if self._waiting:
            self._reclaim()
        self.changed.notify_all()

    def _reclaim(self) -> None:
        """Let permits be given up that nobody uses, or else a thread without a message."""
        for borrower in self._permitted:
            borrower.give_up_permit()
        if not self._permitted:
            any(self.is_wanted_beside(one) and one.give_up_idle() for one in self._borrowers)
