"""One consumer of a queue: its epoch, its open claims, and what its queue does for them.

The queue decides how claims hold messages: those of an ordinary queue move into the claim
(`ordinary_queue.py`), those of the staging queue stay where they are (`staging_queue.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.queues import LocalQueue
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.time_limits import lease_ends_at_ms
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.runtime import Lock
from mayfly.store.claimed import (
    ClaimRow,
    ConsumerRow,
    forget_claims,
    save_consumer,
)
from mayfly.verbs.contracts import reasons
from mayfly.verbs.contracts.claims import BackedOut, ConsumerState
from mayfly.verbs.contracts.messages import MessageColumns

#: The limits of one transaction, so that no other commit waits long for it.
CLAIM_ROWS_MAX = 4_000
CLAIM_BYTES_MAX = 16 * 1024 * 1024


class ClaimError(Exception):
    """A consumer is refused; ``reason`` is for programs (verbs/contracts/reasons.py)."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


class Consumer:
    """One consumer; it changes only under ``lock``, so that its claims come one after the other."""

    def __init__(self, row: ConsumerRow, lock: Lock) -> None:
        self.row, self.lock = row, lock
        #: The open claims, by number.
        self.claims: list[ClaimRow] = []
        #: Rows of the open claims that were backed out alone and are claimed no more.
        self.holes: set[int] = set()
        #: When its reader was last heard of.
        self.heartbeat_ms = 0
        #: The epoch whose reader is given no further claim.
        self.quiesced_epoch = 0

    @property
    def queue(self) -> str:
        """The local queue it reads."""
        return self.row.queue

    @property
    def has_lease(self) -> bool:
        """Whether its claims lapse when nobody renews them: those of the staging queue do.

        The queue manager itself lets each of their messages go once, so none is lost or doubled.
        """
        return self.row.queue == STAGING_QUEUE

    @property
    def lease_end_ms(self) -> int | None:
        """When its open claims lapse unless its reader is heard of; None when nothing lapses."""
        return lease_ends_at_ms(self.heartbeat_ms) if self.has_lease and self.claims else None

    @property
    def message_count(self) -> int:
        return self.row.last_row - self.closed_row - len(self.holes)

    @property
    def closed_row(self) -> int:
        """The last row that is no longer claimed."""
        claims = self.claims
        return claims[0].after_row if claims else self.row.last_row

    def standing(self) -> ConsumerState:
        row, claims = self.row, self.claims
        oldest_ms = claims[0].claimed_ms if claims else None
        return ConsumerState(
            row.name,
            row.queue,
            row.epoch,
            row.closed_number,
            row.last_number,
            self.message_count,
            oldest_ms,
        )

    def check_epoch(self, epoch: int) -> None:
        """Raise ClaimError ``consumer-fenced`` unless the epoch is the newest one."""
        if epoch != self.row.epoch:
            raise ClaimError(
                reasons.CONSUMER_FENCED,
                f"consumer {self.row.name} was attached again, or its claims were released "
                f"(epoch {self.row.epoch}, this reader has {epoch}): another query reads under "
                "its name, or did",
            )

    def check_checkpoint(self, number: int) -> None:
        """Raise ClaimError unless a reader may go on behind this claim.

        Messages ended behind it would be missing. Claims that were released hold nothing any more:
        a reader of theirs goes on behind them, and is given their messages again.
        """
        self.check_not_ahead(number)
        row = self.row
        was_released = row.released_after <= number and row.closed_number <= row.released_until + 1
        if number < row.closed_number and not was_released and not self.has_lease:
            raise ClaimError(
                reasons.CLAIMS_CLOSED,
                f"the checkpoint has read to claim {number} of consumer {row.name}, but claims up "
                f"to {row.closed_number} are ended: it is an older copy; use a new checkpoint",
            )

    def check_not_ahead(self, number: int) -> None:
        """Raise ClaimError for a claim that there has never been."""
        row = self.row
        if number > row.last_number:
            raise ClaimError(
                reasons.CLAIMS_AHEAD,
                f"the checkpoint has read to claim {number} of consumer {row.name}, whose last is "
                f"{row.last_number}: the queue manager was restored from an older copy",
            )

    def given(self, after: int, row_count: int, body_bytes: int) -> tuple[int, int, int]:
        """Return up to which claim those behind ``after`` fill a limit; their rows and bytes.

        The first one counts, however large.
        """
        until, rows, total_bytes = max(after, self.row.closed_number), 0, 0
        for claim in self.claims:
            if claim.number <= after:
                continue
            count = claim.last_row - claim.after_row
            fits = rows + count <= row_count and total_bytes + claim.body_bytes <= body_bytes
            if rows and not fits:
                break
            until, rows = claim.number, rows + count
            total_bytes += claim.body_bytes
        return until, rows, total_bytes

    def group(self, until: int) -> list[ClaimRow]:
        """Return the first open claims up to ``until`` that one transaction closes."""
        group: list[ClaimRow] = []
        start, total_bytes = self.closed_row, 0
        for claim in self.claims:
            total_bytes += claim.body_bytes
            is_full = claim.last_row - start > CLAIM_ROWS_MAX or total_bytes > CLAIM_BYTES_MAX
            if claim.number > until or (group and is_full):
                break
            group.append(claim)
        return group

    def ranges(self, after: int, until: int) -> list[tuple[int, int]]:
        """Return the rows of claims ``(after, until]`` as ranges ``(after_row, until_row]``.

        Released claims, and rows that were backed out, are in none. Raises ClaimError when some are
        ended.
        """
        self.check_checkpoint(after)
        self.check_checkpoint(until)
        found = [claim for claim in self.claims if after < claim.number <= until]
        return self.without_holes(found[0].after_row, found[-1].last_row) if found else []

    def without_holes(self, after_row: int, until_row: int) -> list[tuple[int, int]]:
        """Return rows ``(after_row, until_row]`` as ranges in which each row is claimed."""
        holes = sorted(hole for hole in self.holes if after_row < hole <= until_row)
        starts = [after_row, *holes]
        ends = [*(hole - 1 for hole in holes), until_row]
        return [(low, high) for low, high in zip(starts, ends, strict=True) if low < high]

    def next_claim(self, count: int, body_bytes: int, now_ms: int) -> ClaimRow:
        """Return the claim of the next ``count`` messages; :meth:`accept` it when it is durable."""
        row = self.row
        last_row = row.last_row + count
        return ClaimRow(row.id, row.last_number + 1, row.last_row, last_row, body_bytes, now_ms)

    def after(self, claim: ClaimRow) -> ConsumerRow:
        """Return the state of the consumer once a claim is durable."""
        return self.row._replace(last_number=claim.number, last_row=claim.last_row)

    def accept(self, claim: ClaimRow) -> None:
        self.row = self.after(claim)
        self.claims.append(claim)

    def close(self, group: list[ClaimRow], row: ConsumerRow) -> None:
        """Forget the first open claims, which are durably closed."""
        self.claims = self.claims[len(group) :]
        self.row = row
        if self.holes:
            self.holes = {hole for hole in self.holes if hole > self.closed_row}


class ClaimLimit(NamedTuple):
    """The most that is claimed; messages that came, or fell due, after the mark ``up_to`` stay."""

    row_count: int
    body_bytes: int
    up_to: int | None = None


class ClaimedPage(NamedTuple):
    """Some claimed messages in order, with the queue of all of them or of each."""

    queue: str | Sequence[str]
    columns: MessageColumns

    @property
    def message_count(self) -> int:
        return len(self.columns.payload)


class QueueClaims(ABC):
    """Holds what consumers have claimed; a consumer's methods are called with its lock held."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @abstractmethod
    def queue(self, name: str) -> LocalQueue:
        """Return the queue a name leads to, or raise why it cannot be claimed from."""

    @abstractmethod
    def load(self, consumer: Consumer) -> None:
        """Take up the open claims of a consumer as the store has them."""

    @abstractmethod
    def claim_next(self, consumer: Consumer, limit: ClaimLimit) -> ClaimRow | None:
        """Make one claim durable and return it; None when nothing is there."""

    @abstractmethod
    def end_group(self, consumer: Consumer, group: list[ClaimRow]) -> int:
        """End the first open claims; return how many messages they held."""

    @abstractmethod
    def release_group(self, consumer: Consumer, group: list[ClaimRow]) -> int:
        """Give back what the first open claims hold; return how many messages that is."""

    @abstractmethod
    def back_out(self, consumer: Consumer, row: int, reason: int) -> BackedOut:
        """Take one row out of its claim, which its reader cannot use for a reason.

        Raises the MQError of the dead-letter queue, and ClaimError where no row can be backed out.
        """

    @abstractmethod
    def page(
        self, consumer: Consumer, after: int, until: int, max_bytes: int, max_rows: int
    ) -> ClaimedPage:
        """Return the first messages of rows ``(after, until]``, none when they are not claimed.

        Called without the consumer's lock: its claims may be ended meanwhile.
        """

    def save(self, consumer: Consumer, row: ConsumerRow) -> None:
        transaction = Transaction()
        transaction.unit.statements.append(save_consumer(row))
        self._core.committer.run(transaction)
        consumer.row = row

    def _close(self, consumer: Consumer, group: list[ClaimRow], transaction: Transaction) -> None:
        after = consumer.row._replace(closed_number=group[-1].number)
        transaction.unit.statements += [
            forget_claims(after.id, after.closed_number),
            save_consumer(after),
        ]
        self._core.committer.run(transaction)
        consumer.close(group, after)
