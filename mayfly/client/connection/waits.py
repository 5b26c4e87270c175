"""The waits of one thread for the end of verbs with a callback; any other thread may end a wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from mayfly.client.connection.interface import OnDone, UnderWay
from mayfly.mqi.errors import MQError
from mayfly.runtime import Runtime

_T = TypeVar("_T")
#: Begins a verb; its argument is called with the outcome.
Begins: TypeAlias = Callable[[OnDone[_T]], UnderWay]


class Wait:
    """Lets one thread wait; other threads may call :meth:`wake`, :meth:`end` and :meth:`join`."""

    def __init__(self, runtime: Runtime) -> None:
        """Begin without waiting."""
        self._changed = runtime.condition()
        #: Set when the first verb stands, or has ended at once.
        self.begun = runtime.event()
        self._is_woken = self._is_over = False
        #: Whether a verb is under way: it may still take a message.
        self.is_busy = False
        #: Whether it stands, and nothing has decided it yet.
        self.is_pending = False

    def attempt(self, take: Callable[[], _T]) -> _T | None:
        """Return the result of a call that does not wait; None when the wait is to end."""
        # No lock is taken on this path. The order makes it safe: this thread sets ``is_busy``, then
        # looks at ``_is_over``; the thread that ends the wait sets that, then looks at ``is_busy``.
        self.is_busy = True
        try:
            found = None if self._is_over or self._is_woken else take()
            if found is not None and not self.begun.is_set():
                self.begun.set()
            return found
        finally:
            self.is_busy = False
            if self._is_over:
                with self._changed:
                    self._changed.notify_all()

    def of(self, begin: Begins[_T]) -> _T | None:
        """Begin a verb and return its outcome; None when the wait was ended before.

        The outcome of a verb that cannot be cancelled any more is returned, so that no message is
        lost. An outcome that is an MQError is raised.
        """
        told: list[_T | MQError] = []

        def on_done(outcome: _T | MQError) -> None:
            with self._changed:
                self.is_pending = False
                told.append(outcome)
                self._changed.notify_all()

        with self._changed:
            if self._is_to_end():
                self.begun.set()
                return None
            self.is_busy = True
        try:
            self._await(begin(on_done), told)
        finally:
            with self._changed:
                self.is_busy = self.is_pending = False
                self._changed.notify_all()
            if not self.begun.is_set():
                self.begun.set()
        outcome = told[0] if told else None
        if isinstance(outcome, MQError):
            raise outcome
        return outcome

    def for_change(self, seconds: float | None = None) -> None:
        """Wait until another thread ends the wait, or so many seconds of the machine's time."""
        self.begun.set()
        with self._changed:
            if not self._is_to_end():
                self._changed.wait(seconds)
                self._is_to_end()

    def wake(self) -> None:
        """End the wait under way, else the next one; any thread may, and does not wait."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def end(self) -> None:
        """End the wait under way and all later ones; any thread may, and does not wait."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def join(self) -> None:
        """Return when no verb is under way; any other thread may call it, behind an ``end``."""
        with self._changed:
            while self.is_busy:
                self._changed.wait()

    def _await(self, under_way: UnderWay, told: list[_T | MQError]) -> None:
        if told:
            return
        with self._changed:
            self.is_pending = not told
            if not self.begun.is_set():
                self.begun.set()
            while not (told or self._is_to_end()):
                self._changed.wait()
        if told or under_way.cancel():
            return
        with self._changed:
            while not told:
                self._changed.wait()

    def _is_to_end(self) -> bool:
        is_woken, self._is_woken = self._is_woken, False
        return is_woken or self._is_over
