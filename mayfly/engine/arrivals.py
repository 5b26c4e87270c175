"""Arrivals of messages on queues: their order, and a flag that an arrival sets."""

from __future__ import annotations

from mayfly.engine.core import Core
from mayfly.engine.queues import LocalQueue, QueueOwner
from mayfly.engine.waiting import Waiter
from mayfly.store.keys import SEQUENCE_BITS
from mayfly.verbs.messages import Message, key_of

_ARRIVAL = (1 << SEQUENCE_BITS) - 1


class Arrivals:
    """The flag ``has_work``, which an arrival on a watched queue sets.

    A service resets the flag.
    """

    def __init__(self, core: Core) -> None:
        """Begin with no watched queue and ``has_work`` True."""
        self._core = core
        self._waiters: list[Waiter] = []
        #: Whether messages may have arrived since the service last looked.
        self.has_work = True

    def watch(self, queue: LocalQueue) -> None:
        """Set ``has_work`` at each arrival on this queue from now on, until :meth:`end`."""
        waiter = Waiter(self._note, None, self)
        with self._core.engine_lock:
            self._core.waits.add(queue.number, waiter)
        self._waiters.append(waiter)

    def end(self) -> None:
        """Stop watching all queues; ``has_work`` does not change any more."""
        with self._core.engine_lock:
            for waiter in self._waiters:
                self._core.waits.withdraw(waiter)
        self._waiters.clear()

    def _note(self) -> None:
        """Set ``has_work`` and request a wake-up of the clock.

        A waiter calls this under the engine lock.
        """
        if not self.has_work:
            self.has_work = self._core.must_wake = True


def next_number(owner: QueueOwner) -> int:
    """Return a number above the arrival numbers of all messages so far; takes the engine lock."""
    with owner.engine_lock:
        return owner.store.sequence.next()


def arrival_number(message: Message) -> int:
    """Return the arrival number of a message, higher than that of each earlier arrival.

    It can be compared with the result of :func:`next_number`.
    """
    return key_of(message) & _ARRIVAL
