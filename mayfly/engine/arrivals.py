"""Arrivals on a queue: numbers in their order, and a flag that an arrival sets."""

from __future__ import annotations

from mayfly.engine.core import Core
from mayfly.engine.queues import LocalQueue, QueueOwner
from mayfly.engine.waiting import Waiter
from mayfly.store.keys import SEQUENCE_BITS
from mayfly.verbs.messages import Message, position_of

_ARRIVAL = (1 << SEQUENCE_BITS) - 1


class Arrivals:
    """Notes arrivals on the queues it watches; the server of these queues resets ``has_work``."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._waiters: list[Waiter] = []
        #: Whether there may be messages that nobody has looked for.
        self.has_work = True

    def watch(self, queue: LocalQueue) -> None:
        """Note from now on what arrives on a queue."""
        waiter = Waiter(self._note, None, self)
        with self._core.engine_lock:
            self._core.waits.add(queue.number, waiter)
        self._waiters.append(waiter)

    def end(self) -> None:
        """Withdraw its waits: arrivals change nothing here any more."""
        with self._core.engine_lock:
            for waiter in self._waiters:
                self._core.waits.withdraw(waiter)
        self._waiters.clear()

    def _note(self) -> None:
        """Note an arrival, under the lock; the thread that brings the message wakes the clock."""
        if not self.has_work:
            self.has_work = self._core.must_wake = True


def next_number(owner: QueueOwner) -> int:
    """Return a number above all that a queue manager has given, also before it was last closed."""
    with owner.engine_lock:
        return owner.store.sequence.next()


def arrival_number(message: Message) -> int:
    """Return when a message came onto its queue, in the order of :func:`next_number`."""
    return position_of(message) & _ARRIVAL
