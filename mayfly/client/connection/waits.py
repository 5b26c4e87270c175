"""The waits of one thread for verbs with a callback, and the virtual time that they may take.

Any other thread may end a wait. Virtual time is that of a server in the same process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from mayfly.client.connection.interface import OnDone, UnderWay
from mayfly.mqi.errors import MQError
from mayfly.runtime import Runtime
from mayfly.runtime.virtual_clock import VirtualClock, check_wait

if TYPE_CHECKING:
    from mayfly.engine import Engine
    from mayfly.queue_manager import QueueManager


_T = TypeVar("_T")
#: Begins a verb; its argument is called with the outcome.
Begins: TypeAlias = Callable[[OnDone[_T]], UnderWay]


class Wait:
    """The waits of one thread for verbs with a callback, one after the other.

    Other threads may :meth:`wake`, :meth:`end` or :meth:`join`.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Begin without a verb; the condition and event come from ``runtime``."""
        self._changed = runtime.condition()
        #: Set when the first verb is pending, or has ended at once.
        self.begun = runtime.event()
        self._is_woken = self._is_over = False
        #: Whether a verb is under way: it may still take a message.
        self.is_busy = False
        #: Whether the verb is pending: nothing has decided it yet.
        self.is_pending = False

    def attempt(self, take: Callable[[], _T]) -> _T | None:
        """Call ``take``, which does not wait, and return its result.

        Returns None, without calling ``take``, after :meth:`end`, or after a :meth:`wake` that has
        ended no wait yet.
        """
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
        """Begin a verb, wait for its outcome and return it; raises an outcome that is an MQError.

        Returns None when the wait was ended first and the verb is cancelled. A verb that cannot be
        cancelled any more still gives its outcome, so that no message is lost.
        """
        outcomes: list[_T | MQError] = []

        def on_done(outcome: _T | MQError) -> None:
            with self._changed:
                self.is_pending = False
                outcomes.append(outcome)
                self._changed.notify_all()

        with self._changed:
            if self._is_to_end():
                self.begun.set()
                return None
            self.is_busy = True
        try:
            self._await(begin(on_done), outcomes)
        finally:
            with self._changed:
                self.is_busy = self.is_pending = False
                self._changed.notify_all()
            if not self.begun.is_set():
                self.begun.set()
        outcome = outcomes[0] if outcomes else None
        if isinstance(outcome, MQError):
            raise outcome
        return outcome

    def for_change(self, seconds: float | None = None) -> None:
        """Wait until another thread calls :meth:`wake` or :meth:`end`.

        Stops waiting after ``seconds`` of the machine's time; None is no limit.
        """
        self.begun.set()
        with self._changed:
            if not self._is_to_end():
                self._changed.wait(seconds)
                self._is_to_end()

    def wake(self) -> None:
        """End the current wait, or the next one if no wait is going on; returns at once."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def end(self) -> None:
        """End the current wait and all later ones; returns at once."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until no verb is running; another thread calls this after :meth:`end`."""
        with self._changed:
            while self.is_busy:
                self._changed.wait()

    def _await(self, under_way: UnderWay, outcomes: list[_T | MQError]) -> None:
        """Wait for the outcome of a running verb; if the wait is ended first, cancel the verb.

        ``outcomes`` is the list to which the verb's callback appends the outcome. A verb that
        cannot be cancelled any more is waited for.
        """
        if outcomes:
            return
        with self._changed:
            self.is_pending = not outcomes
            if not self.begun.is_set():
                self.begun.set()
            while not (outcomes or self._is_to_end()):
                self._changed.wait()
        if outcomes or under_way.cancel():
            return
        with self._changed:
            while not outcomes:
                self._changed.wait()

    def _is_to_end(self) -> bool:
        """Return True if the wait was woken or ended; a wake ends only one wait, so reset it."""
        is_woken, self._is_woken = self._is_woken, False
        return is_woken or self._is_over


class PendingRequest(UnderWay, Protocol):
    """A running get on a connection whose queue manager has a virtual clock."""

    def is_pending(self) -> bool:
        """Return False once the get has its outcome, even if the callback is not called yet."""


class VirtualTime:
    """The virtual clock of a queue manager of this process, for waits of its clients."""

    def __init__(self, clock: VirtualClock, visitors: Callable[[], int]) -> None:
        """Take the clock and a function that counts connected programs of other processes."""
        self.clock, self._visitors = clock, visitors

    def check(self) -> None:
        """Raise RuntimeError if a wait of this thread can never end; see ``check_wait``.

        A wait can never end when no other thread or program could advance the clock or put a
        message.
        """
        check_wait(self.clock, self._visitors())


def open_here() -> dict[str, QueueManager]:
    """Return the open queue managers of this process by name, without importing the engine."""
    module = sys.modules.get("mayfly.queue_manager")
    return {} if module is None else module.managers_here()


def virtual_time_of(engine: Engine) -> VirtualTime | None:
    """Return the virtual time of an engine, None when it uses real time."""
    clock = engine.clock
    return (
        VirtualTime(clock, lambda: engine.foreign_client_count)
        if isinstance(clock, VirtualClock)
        else None
    )


def virtual_time_here(name: str, number: int) -> VirtualTime | None:
    """Return the virtual time of a queue manager of this process that serves a connection.

    ``number`` is that of the connection. None when no queue manager here serves it, or the queue
    manager uses real time.
    """
    manager = open_here().get(name)
    if manager is None or not manager.engine.has_session(number):
        return None
    return virtual_time_of(manager.engine)
