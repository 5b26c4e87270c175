"""An engine transaction: changes that take effect together, in the store and in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mayfly.engine.queues import LocalQueue, QueueOwner
from mayfly.store.units import StoredMessage, Unit

#: Of nearly all transactions, so that they have none to make.
_NOWHERE: Mapping[QueueOwner, Transaction] = MappingProxyType({})


class Moving(NamedTuple):
    """Persistent messages that leave the staging queue for another together, by their keys."""

    source: LocalQueue
    target: LocalQueue
    old_keys: list[int]
    new_keys: list[int]


class Claiming(NamedTuple):
    """Messages that go from their queue to a claim, hidden until they have."""

    queue: LocalQueue
    keys: list[int]
    volatile_count: int


class Unclaiming(NamedTuple):
    """Messages that leave a claim: for good, or back to their queue.

    ``returned`` holds for each side, VOLATILE then PERSISTENT, how many come back and their lowest
    key. On a queue that triggers, ``keys`` are those of all that come back.
    """

    queue: LocalQueue
    message_count: int
    returned: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    keys: Sequence[int] = ()


class Transaction:
    """Changes that take effect together: a unit of the store and what follows in memory.

    An arrival is already reserved (depth and uncommitted raised), a departure already hidden; the
    end of the transaction settles both, its failure takes both back. Built with the lock held.
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
        self.unit = Unit()
        self.arrivals: list[tuple[LocalQueue, StoredMessage, int]] = []
        self.departures: list[tuple[LocalQueue, StoredMessage, int]] = []
        self.moves: list[Moving] = []
        self.claims: list[Claiming] = []
        self.ended_claims: list[Unclaiming] = []
        #: How many more, or fewer, staged messages wait to reach a queue.
        self.staged: list[tuple[LocalQueue, int]] = []
        #: Further effects in memory, called with the lock held when it takes effect. A transaction
        #: that one of them returns is run before the caller goes on.
        self.effects: list[Callable[[], Transaction | None]] = []
        #: The parts that change stores of other members of a queue-sharing group, by member.
        self.parts = _NOWHERE

    def at(self, queue_owner: QueueOwner) -> Transaction:
        """Return the part that changes the store of another member of the group."""
        part = self.parts.get(queue_owner)
        if part is None:
            part = Transaction()
            self.parts = {**self.parts, queue_owner: part}
        return part
