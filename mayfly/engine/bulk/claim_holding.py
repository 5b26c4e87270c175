"""How claims hold messages: what each kind of queue does for the consumers that read it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from mayfly.contracts.messages import MessageColumns
from mayfly.engine.bulk.consumers import Consumer
from mayfly.engine.core import Core
from mayfly.engine.queues import LocalQueue
from mayfly.engine.work import Work
from mayfly.store.claims import (
    ClaimRow,
    ConsumerRow,
    forget_claims,
    save_consumer,
)

#: What one transaction takes or ends: nobody else's commit waits long for it.
CLAIM_ROWS_MAX = 4_000
CLAIM_BYTES_MAX = 16 * 1024 * 1024


class Limit(NamedTuple):
    """How much is claimed at most; nothing that came, or fell due, after ``up_to`` (``mark``)."""

    row_count: int
    body_bytes: int
    up_to: int | None = None


class ClaimedPage(NamedTuple):
    """Some claimed messages in order, with the queue of all of them or of each."""

    queue: str | Sequence[str]
    columns: MessageColumns

    @property
    def message_count(self) -> int:
        """How many there are."""
        return len(self.columns.payload)


class Holding(ABC):
    """Holds what consumers have claimed; a consumer's methods are called with its lock held."""

    def __init__(self, core: Core) -> None:
        """Begin with no claims."""
        self._core = core

    @abstractmethod
    def queue(self, name: str) -> LocalQueue:
        """Return the queue a name leads to, or raise why it cannot be claimed from."""

    @abstractmethod
    def load(self, consumer: Consumer) -> None:
        """Take up the open claims of a consumer as the store has them."""

    @abstractmethod
    def claim_next(self, consumer: Consumer, limit: Limit) -> ClaimRow | None:
        """Make one claim durable and return it; None when nothing is there."""

    @abstractmethod
    def end_group(self, consumer: Consumer, group: list[ClaimRow]) -> int:
        """End the first open claims; return how many messages they held."""

    @abstractmethod
    def release_group(self, consumer: Consumer, group: list[ClaimRow]) -> int:
        """Give back what the first open claims hold; return how many messages that is."""

    @abstractmethod
    def page(
        self, consumer: Consumer, rows: tuple[int, int], max_bytes: int, max_rows: int
    ) -> ClaimedPage:
        """Return the first messages of rows ``(after, until]``, none when they are not claimed.

        Called without the consumer's lock: its claims may be ended meanwhile.
        """

    def save(self, consumer: Consumer, row: ConsumerRow) -> None:
        """Make the state of a consumer durable."""
        work = Work()
        work.unit.statements.append(save_consumer(row))
        self._core.run(work)
        consumer.row = row

    def _close(self, consumer: Consumer, group: list[ClaimRow], work: Work) -> None:
        """Close the first open claims in the transaction of a work."""
        after = consumer.row._replace(closed_number=group[-1].number)
        work.unit.statements += [forget_claims(after.id, after.closed_number), save_consumer(after)]
        self._core.run(work)
        consumer.close(group, after)
