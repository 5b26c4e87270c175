"""The message whose turn it is: the first of a queue in order, read ahead (G1)."""

from __future__ import annotations

from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.engine.requester import Requester
from mayfly.store.units import StoredMessage


def is_in_turn(queue: LocalQueue, requester: Requester | None) -> bool:
    """Return True if a requester is to take the messages of a queue just as they come.

    Not where it has locked one, which it alone sees (B5), nor what waits for its delivery time.
    """
    return not queue.is_staging and (requester is None or requester.locked is None)


def first_in_turn(queue: LocalQueue) -> tuple[StoredMessage, int] | None:
    """Return the first visible message of a queue and its side, dead or alive; None if empty."""
    volatile, persistent = queue.present
    one = _first_of(queue, VOLATILE) if volatile else None
    other = _first_of(queue, PERSISTENT) if persistent else None
    if one is None or (other is not None and other.k < one.k):
        return None if other is None else (other, PERSISTENT)
    return one, VOLATILE


def _first_of(queue: LocalQueue, side: int) -> StoredMessage | None:
    home, ahead, first = queue.home, queue.ahead[side], queue.first[side]
    row = ahead.next(home.hidden, first)
    if row is None and not ahead.has_all:
        row = ahead.read(home.messages(side), home.hidden, first, queue.high)
    return row
