"""Numbers that rise: those of messages, in the order of their arrival, and others between them."""

from __future__ import annotations

from mayfly.engine.queues import LocalQueue, QueueOwner
from mayfly.store.keys import SEQUENCE_BITS
from mayfly.verbs.messages import Message, position_of

_ARRIVAL = (1 << SEQUENCE_BITS) - 1


def next_number(owner: QueueOwner) -> int:
    """Return a number above all that a queue manager has given, also before it was last closed."""
    with owner.engine_lock:
        return owner.store.sequence.next()


def next_arrival_number(queue: LocalQueue) -> int:
    """Return a number that messages which come onto a queue later are above."""
    return next_number(queue.home)


def arrival_number(message: Message) -> int:
    """Return when a message came onto its queue, in the order of :func:`next_arrival_number`."""
    return position_of(message) & _ARRIVAL
