"""One consumer of a queue: its epoch, its open claims, and the interface to its queue.

A claim is a numbered batch of messages that a consumer has reserved. The queue decides how claims
hold messages: those of an ordinary queue move into the claim, those of the staging queue stay
where they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.queues import LocalQueue
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.moments import lease_ends_at_ms
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.runtime import Lock
from mayfly.store.claimed_messages import (
    ClaimRow,
    ConsumerRow,
    forget_claims,
    save_consumer,
)
from mayfly.verbs.contracts import bulk_reasons
from mayfly.verbs.contracts.claims import BackedOut, ConsumerState
from mayfly.verbs.contracts.messages import MessageColumns

#: The limits of one transaction, so that no other commit waits long for it.
CLAIM_ROWS_MAX = 4_000
CLAIM_BYTES_MAX = 16 * 1024 * 1024


class ClaimError(Exception):
    """A call of a consumer is refused; ``reason`` is one of ``verbs.contracts.bulk_reasons``."""

    def __init__(self, reason: str, text: str) -> None:
        """Keep a reason for programs, such as ``consumer-fenced``, and a text for people."""
        super().__init__(text)
        self.reason = reason
        self.text = text


class Consumer:
    """One consumer of a queue, with its open claims: batches of messages reserved by its reader.

    It changes only while ``lock`` is held. Messages are numbered as rows, from 1 on.
    """

    def __init__(self, row: ConsumerRow, lock: Lock) -> None:
        """Begin with the stored ``row`` and no open claim; ``lock`` guards all changes."""
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
        """The name of the local queue that the consumer reads."""
        return self.row.queue

    @property
    def has_lease(self) -> bool:
        """Whether open claims end by themselves unless renewed: True for the staging queue only.

        The queue manager itself releases each of those messages once, so none is lost or
        duplicated.
        """
        return self.row.queue == STAGING_QUEUE

    @property
    def lease_end_ms(self) -> int | None:
        """When the open claims end unless the reader calls, in ms since 1970.

        None without a lease or without open claims.
        """
        return lease_ends_at_ms(self.heartbeat_ms) if self.has_lease and self.claims else None

    @property
    def message_count(self) -> int:
        """The number of messages in the open claims."""
        return self.row.last_row - self.closed_row - len(self.holes)

    @property
    def closed_row(self) -> int:
        """The number of the last message that is no longer claimed.

        All later rows are in open claims.
        """
        claims = self.claims
        return claims[0].after_row if claims else self.row.last_row

    def state(self) -> ConsumerState:
        """Return a snapshot: epoch, claim numbers, message count, time of the oldest open claim."""
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
        """Raise ClaimError ``consumer-fenced`` unless this is the epoch of the newest reader."""
        if epoch != self.row.epoch:
            raise ClaimError(
                bulk_reasons.CONSUMER_FENCED,
                f"consumer {self.row.name} was attached again, or its claims were released "
                f"(epoch {self.row.epoch}, this reader has {epoch}): another query reads under "
                "its name, or did",
            )

    def check_checkpoint(self, number: int) -> None:
        """Raise ClaimError if a reader that has processed claims to ``number`` cannot go on there.

        ``claims-ahead``: no such claim ever existed. ``claims-closed``: later claims have ended, so
        the reader would miss their messages. If later claims ended by a release, or are on the
        staging queue, it may continue: their messages are claimed again.
        """
        self.check_not_ahead(number)
        row = self.row
        was_released = row.released_after <= number and row.closed_number <= row.released_until + 1
        if number < row.closed_number and not was_released and not self.has_lease:
            raise ClaimError(
                bulk_reasons.CLAIMS_CLOSED,
                f"the checkpoint has read to claim {number} of consumer {row.name}, but claims up "
                f"to {row.closed_number} are ended: it is an older copy; use a new checkpoint",
            )

    def check_not_ahead(self, number: int) -> None:
        """Raise ClaimError ``claims-ahead`` for a claim number that never existed."""
        row = self.row
        if number > row.last_number:
            raise ClaimError(
                bulk_reasons.CLAIMS_AHEAD,
                f"the checkpoint has read to claim {number} of consumer {row.name}, whose last is "
                f"{row.last_number}: the queue manager was restored from an older copy",
            )

    def given(self, after: int, row_count: int, body_bytes: int) -> tuple[int, int, int]:
        """Return the number of the last open claim within limits, and the rows and bytes so far.

        Open claims with a number above ``after`` are added up while the sums are within
        ``row_count`` and ``body_bytes``; the first one counts whatever its size. Without any, the
        number is ``after``, or that of the last ended claim if higher, with 0 rows.
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
        """Return the first open claims, up to number ``until``, that one transaction may end.

        Empty when no open claim has the number ``until`` or a lower one.
        """
        group: list[ClaimRow] = []
        start, total_bytes = self.closed_row, 0
        for claim in self.claims:
            total_bytes += claim.body_bytes
            is_full = claim.last_row - start > CLAIM_ROWS_MAX or total_bytes > CLAIM_BYTES_MAX
            if claim.number > until or (group and is_full):
                break
            group.append(claim)
        return group

    def ranges(self, after: int, until: int) -> list[tuple[int, int, int]]:
        """Return the rows of claims ``(after, until]`` as (low, high, length of their data).

        A range has the rows ``(low, high]`` of one claim. Messages of released claims, and backed
        out ones, are left out; a claim's length is divided among the ranges that are left. Raises
        the errors of :meth:`check_checkpoint` for ``after`` and ``until``.
        """
        self.check_checkpoint(after)
        self.check_checkpoint(until)
        return [
            (low, high, claim.body_bytes * (high - low) // (claim.last_row - claim.after_row))
            for claim in self.claims
            if after < claim.number <= until
            for low, high in self.without_holes(claim.after_row, claim.last_row)
        ]

    def without_holes(self, after_row: int, until_row: int) -> list[tuple[int, int]]:
        """Return rows ``(after_row, until_row]`` as ranges without backed out rows.

        Each range is ``(after, until]``; the list is empty when every row was backed out.
        """
        holes = sorted(hole for hole in self.holes if after_row < hole <= until_row)
        starts = [after_row, *holes]
        ends = [*(hole - 1 for hole in holes), until_row]
        return [(low, high) for low, high in zip(starts, ends, strict=True) if low < high]

    def next_claim(self, count: int, body_bytes: int, now_ms: int) -> ClaimRow:
        """Return a new claim of the next ``count`` messages, without adding it.

        Call ``accept`` when the claim is durable.
        """
        row = self.row
        last_row = row.last_row + count
        return ClaimRow(row.id, row.last_number + 1, row.last_row, last_row, body_bytes, now_ms)

    def after(self, claim: ClaimRow) -> ConsumerRow:
        """Return the consumer's row as it is to be stored together with a new claim."""
        return self.row._replace(last_number=claim.number, last_row=claim.last_row)

    def accept(self, claim: ClaimRow) -> None:
        """Add a claim, which is durable now, to the open claims."""
        self.row = self.after(claim)
        self.claims.append(claim)

    def close(self, group: list[ClaimRow], row: ConsumerRow) -> None:
        """Remove ``group``, the first open claims, from memory.

        ``row`` is the stored state without them. The caller has ended them durably.
        """
        self.claims = self.claims[len(group) :]
        self.row = row
        if self.holes:
            self.holes = {hole for hole in self.holes if hole > self.closed_row}


class ClaimLimit(NamedTuple):
    """Limits of a claim: number of messages, bytes of data, and a mark.

    Messages put, or due, after the mark ``up_to`` are not claimed; None: no such limit.
    """

    row_count: int
    body_bytes: int
    up_to: int | None = None


class ClaimedPage(NamedTuple):
    """Claimed messages in order, as columns, with their queue: one for all or one for each."""

    queue: str | Sequence[str]
    columns: MessageColumns

    @property
    def message_count(self) -> int:
        """The number of messages on the page."""
        return len(self.columns.payload)


class QueueClaims(ABC):
    """How one kind of queue holds claimed messages; unless stated, the consumer's lock is held."""

    def __init__(self, core: Core) -> None:
        """Claim messages of the queues of this queue manager."""
        self._core = core

    @abstractmethod
    def queue(self, name: str) -> LocalQueue:
        """Return the local queue with this name.

        Raises MQError when messages cannot be claimed from it.
        """

    @abstractmethod
    def load(self, consumer: Consumer) -> None:
        """Restore a consumer's open claims from the store when the queue manager opens."""

    @abstractmethod
    def claim_next(self, consumer: Consumer, limit: ClaimLimit) -> ClaimRow | None:
        """Reserve the next messages as one durable claim and return it.

        None when none is available. ``limit`` has the most messages, the most bytes of data, and a
        mark after which none is claimed.
        """

    @abstractmethod
    def end_group(self, consumer: Consumer, group: list[ClaimRow]) -> int:
        """End ``group``, the first open claims, and remove their messages as got.

        Returns the number of messages.
        """

    @abstractmethod
    def release_group(self, consumer: Consumer, group: list[ClaimRow]) -> int:
        """End ``group``, the first open claims, and put their messages back on the queue.

        Returns the number of messages. Backout counts are raised, except on the staging queue.
        """

    @abstractmethod
    def back_out(self, consumer: Consumer, row: int, reason: int) -> BackedOut:
        """Take one message, by row number, out of its claim, because its reader cannot process it.

        Returns whether it went back to the queue or elsewhere. ``reason`` is the reason code for a
        dead letter. Raises the MQError of the dead-letter queue, and ClaimError for a queue where
        no message can be backed out.
        """

    @abstractmethod
    def page(
        self, consumer: Consumer, after: int, until: int, max_bytes: int, max_rows: int
    ) -> ClaimedPage:
        """Return the first messages of rows ``(after, until]``; none when they are not claimed.

        A consumer numbers its messages as rows, from 1 on. ``max_bytes`` of data and ``max_rows``
        limit the page. Called without the consumer's lock, so the claims may end meanwhile.
        """

    def save(self, consumer: Consumer, row: ConsumerRow) -> None:
        """Store the row of a consumer, then set it in memory; durable on return."""
        transaction = Transaction()
        transaction.unit.statements.append(save_consumer(row))
        self._core.committer.run(transaction)
        consumer.row = row

    def _close(self, consumer: Consumer, group: list[ClaimRow], transaction: Transaction) -> None:
        """Run a transaction that also deletes ``group``, the first open claims.

        They are then removed in memory.
        """
        after = consumer.row._replace(closed_number=group[-1].number)
        transaction.unit.statements += [
            forget_claims(after.id, after.closed_number),
            save_consumer(after),
        ]
        self._core.committer.run(transaction)
        consumer.close(group, after)
