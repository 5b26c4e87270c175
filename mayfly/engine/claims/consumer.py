"""One consumer of a queue: its epoch, its open claims, and the interface to its queue.

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
    """A call of a consumer is refused; ``reason`` is for programs (verbs/contracts/reasons.py)."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


class Consumer:
    """One consumer with its open claims; it changes only while ``lock`` is held."""

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
        """The name of the local queue it reads."""
        return self.row.queue

    @property
    def has_lease(self) -> bool:
        """Whether its claims end unless renewed, as those of the staging queue do.

        The queue manager itself releases each of their messages once, so none is lost or
        duplicated.
        """
        return self.row.queue == STAGING_QUEUE

    @property
    def lease_end_ms(self) -> int | None:
        """When its open claims end unless its reader calls; None without a lease or open claims."""
        return lease_ends_at_ms(self.heartbeat_ms) if self.has_lease and self.claims else None

    @property
    def message_count(self) -> int:
        """The number of messages in its open claims."""
        return self.row.last_row - self.closed_row - len(self.holes)

    @property
    def closed_row(self) -> int:
        """The last row that is no longer claimed."""
        claims = self.claims
        return claims[0].after_row if claims else self.row.last_row

    def state(self) -> ConsumerState:
        """Return a snapshot of epoch, claim numbers and messages."""
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
        """Raise ClaimError unless a reader may continue behind this claim.

        It may not when later claims are ended, as it would miss their messages. Behind released
        claims it may: their messages are claimed again.
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
        """Raise ClaimError ``claims-ahead`` for a claim number that never existed."""
        row = self.row
        if number > row.last_number:
            raise ClaimError(
                reasons.CLAIMS_AHEAD,
                f"the checkpoint has read to claim {number} of consumer {row.name}, whose last is "
                f"{row.last_number}: the queue manager was restored from an older copy",
            )

    def given(self, after: int, row_count: int, body_bytes: int) -> tuple[int, int, int]:
        """Return the last open claim behind ``after`` within the limits, with total rows and bytes.

        The first claim counts whatever its size.
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
        """Return the first open claims up to ``until``, as many as one transaction may close."""
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

        Released claims and backed out rows are left out. Raises ClaimError when claims before are
        ended.
        """
        self.check_checkpoint(after)
        self.check_checkpoint(until)
        found = [claim for claim in self.claims if after < claim.number <= until]
        return self.without_holes(found[0].after_row, found[-1].last_row) if found else []

    def without_holes(self, after_row: int, until_row: int) -> list[tuple[int, int]]:
        """Return rows ``(after_row, until_row]`` as ranges in which every row is claimed."""
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
        """Return the stored state of the consumer after a claim."""
        return self.row._replace(last_number=claim.number, last_row=claim.last_row)

    def accept(self, claim: ClaimRow) -> None:
        """Add a claim that is durable."""
        self.row = self.after(claim)
        self.claims.append(claim)

    def close(self, group: list[ClaimRow], row: ConsumerRow) -> None:
        """Remove the first open claims, which are durably closed."""
        self.claims = self.claims[len(group) :]
        self.row = row
        if self.holes:
            self.holes = {hole for hole in self.holes if hole > self.closed_row}


class ClaimLimit(NamedTuple):
    """Limits of a claim; messages put, or due, after the mark ``up_to`` are left on the queue."""

    row_count: int
    body_bytes: int
    up_to: int | None = None


class ClaimedPage(NamedTuple):
    """Claimed messages in order, and the name of their queue, one for all or one for each."""

    queue: str | Sequence[str]
    columns: MessageColumns

    @property
    def message_count(self) -> int:
        """The number of messages on the page."""
        return len(self.columns.payload)


class QueueClaims(ABC):
    """How a queue holds claimed messages; unless stated, the consumer's lock is held."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @abstractmethod
    def queue(self, name: str) -> LocalQueue:
        """Return the queue of a name; raises the reason why it cannot be claimed from."""

    @abstractmethod
    def load(self, consumer: Consumer) -> None:
        """Restore the open claims of a consumer from the store."""

    @abstractmethod
    def claim_next(self, consumer: Consumer, limit: ClaimLimit) -> ClaimRow | None:
        """Make one claim durable and return it; None when no message is available."""

    @abstractmethod
    def end_group(self, consumer: Consumer, group: list[ClaimRow]) -> int:
        """End the lives of the messages in the first open claims; return their number."""

    @abstractmethod
    def release_group(self, consumer: Consumer, group: list[ClaimRow]) -> int:
        """Give back the messages in the first open claims; return their number."""

    @abstractmethod
    def back_out(self, consumer: Consumer, row: int, reason: int) -> BackedOut:
        """Take one row, which its reader cannot use, out of its claim.

        Raises the MQError of the dead-letter queue, and ClaimError where no row can be backed out.
        """

    @abstractmethod
    def page(
        self, consumer: Consumer, after: int, until: int, max_bytes: int, max_rows: int
    ) -> ClaimedPage:
        """Return the first messages of rows ``(after, until]``, none when they are not claimed.

        Called without the consumer's lock, so its claims may end meanwhile.
        """

    def save(self, consumer: Consumer, row: ConsumerRow) -> None:
        """Store the row of a consumer; durable on return."""
        transaction = Transaction()
        transaction.unit.statements.append(save_consumer(row))
        self._core.committer.run(transaction)
        consumer.row = row

    def _close(self, consumer: Consumer, group: list[ClaimRow], transaction: Transaction) -> None:
        """Run a transaction that also deletes the first open claims, then remove them in memory."""
        after = consumer.row._replace(closed_number=group[-1].number)
        transaction.unit.statements += [
            forget_claims(after.id, after.closed_number),
            save_consumer(after),
        ]
        self._core.committer.run(transaction)
        consumer.close(group, after)
