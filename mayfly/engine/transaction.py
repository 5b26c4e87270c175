"""Engine transaction: changes that take effect together, in the store and in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mayfly.engine.queues import Found, LocalQueue, QueueOwner
from mayfly.store.units import Unit

#: The parts of nearly all transactions, shared so that none is created.
_NOWHERE: Mapping[QueueOwner, Transaction] = MappingProxyType({})


class Moving(NamedTuple):
    """Persistent messages that move together from the staging queue to their target, by key.

    ``old_keys`` are their keys on ``source``, ``new_keys`` those on ``target``.
    """

    source: LocalQueue
    target: LocalQueue
    old_keys: list[int]
    new_keys: list[int]


class Claiming(NamedTuple):
    """Messages that a Spark batch reserves: by key, they leave their queue and are hidden.

    ``volatile_count`` is how many of them are not persistent.
    """

    queue: LocalQueue
    keys: list[int]
    volatile_count: int


class Unclaiming(NamedTuple):
    """Messages reserved by a Spark batch that end, or return to their queue.

    ``returned`` has for VOLATILE, then for PERSISTENT, how many return and their lowest key.
    ``keys`` are those that return, where the queue has a trigger.
    """

    queue: LocalQueue
    message_count: int
    returned: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    keys: Sequence[int] = ()


class Transaction:
    """Changes that take effect together: a unit of the store, and the changes in memory after it.

    A message that arrives is counted on its queue when it is added, one that leaves is hidden. Both
    become final when the transaction takes effect, and are undone when it fails. It is built under
    the engine lock.
    """

    __slots__ = (
        "arrivals",
        "claims",
        "departures",
        "effects",
        "ended_claims",
        "moves",
        "parts",
        "staged",
        "unit",
    )

    def __init__(self) -> None:
        """Begin without changes."""
        self.unit = Unit()
        self.arrivals: list[Found] = []
        self.departures: list[Found] = []
        self.moves: list[Moving] = []
        self.claims: list[Claiming] = []
        self.ended_claims: list[Unclaiming] = []
        #: Changes of the number of messages staged for a queue.
        self.staged: list[tuple[LocalQueue, int]] = []
        #: Further effects in memory, called with the lock held when it takes effect. A transaction
        #: that one of them returns is run before the caller continues.
        self.effects: list[Callable[[], Transaction | None]] = []
        #: The parts that change stores of other members of a queue-sharing group, by member.
        self.parts = _NOWHERE

    def at(self, queue_owner: QueueOwner) -> Transaction:
        """Return the part of this transaction for another member of the queue-sharing group.

        The first call for a member creates its part.
        """
        part = self.parts.get(queue_owner)
        if part is None:
            part = Transaction()
            self.parts = {**self.parts, queue_owner: part}
        return part
