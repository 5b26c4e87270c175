"""Claims of the staging queue: a pipeline releases delayed messages in bulk (DDELAY(SPARK)).

Due messages are claimed by a list of keys. They stay on the staging queue, hidden from all other
programs; a change of one gets the receipt that it is already released. When the claim ends the
delay processor releases them to their targets, by its usual rules.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from mayfly.engine import queue_state
from mayfly.engine.claims.consumer import (
    CLAIM_BYTES_MAX,
    CLAIM_ROWS_MAX,
    ClaimedPage,
    ClaimError,
    ClaimLimit,
    Consumer,
    QueueClaims,
)
from mayfly.engine.core import Core
from mayfly.engine.delay.delay_processor import BATCH, DelayProcessor
from mayfly.engine.delay.staging import DueWithPersistence
from mayfly.engine.queues import VOLATILE, LocalQueue
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.moments import is_expired
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.store import claimed as store
from mayfly.store.messages import limited
from mayfly.verbs.contracts import reasons
from mayfly.verbs.contracts.claims import BackedOut
from mayfly.verbs.contracts.messages import NO_MESSAGES, MessageColumns

_MARKS_KEPT = 64


class StagingQueueClaims(QueueClaims):
    """Claims on the staging queue: due delayed messages reserved by pipelines that release them."""

    def __init__(self, core: Core, processor: DelayProcessor) -> None:
        """Begin without claims; ``processor`` finds due messages and releases them."""
        super().__init__(core)
        self._processor = processor
        #: The keys of each open claim, by consumer and number.
        self._keys: dict[tuple[int, int], array[int]] = {}
        #: The time at which each mark was given: messages that fall due later are behind it.
        self._marked_ms: dict[int, int] = {}

    def note_mark(self, mark: int) -> None:
        """Record the present time for a mark: a claim up to the mark has only messages due by now.

        The engine lock is held. The newest 64 marks are kept.
        """
        assert self._core.engine_lock.is_held()
        self._marked_ms[mark] = self._core.now_ms()
        while len(self._marked_ms) > _MARKS_KEPT:
            del self._marked_ms[next(iter(self._marked_ms))]

    def queue(self, name: str) -> LocalQueue:
        """Return the staging queue, if a pipeline may release its messages.

        Raises MQRC_NOT_AUTHORIZED while the queue manager itself releases them, and
        MQRC_GET_INHIBITED while releases are stopped (D28).
        """
        if not self._processor.is_left_to_spark:
            raise mq_error(
                rc.MQRC_NOT_AUTHORIZED,
                f"{name} is released by the queue manager; ALTER QMGR DDELAY(SPARK) leaves that "
                "to a pipeline",
            )
        why = self._processor.why_stopped()
        if why:
            raise mq_error(rc.MQRC_GET_INHIBITED, f"nothing is released: {why}")
        return self._core.registry.resolve(name).queue

    def load(self, consumer: Consumer) -> None:
        """Hide the claimed messages of a consumer again when the queue manager opens.

        Messages that were released, or lost from memory, are left out.
        """
        core, row = self._core, consumer.row
        last_row, claims = 0, []
        by_number = store.load_keys(core.store.claimed.fetch, row.id)
        for claim in consumer.claims:
            keys = self._present(by_number.get(claim.number, array("q")))
            # Rows are numbered again from 1: readers of earlier runs are fenced.
            claims.append(claim._replace(after_row=last_row, last_row=last_row + len(keys)))
            last_row += len(keys)
            self._keys[row.id, claim.number] = keys
            if keys:
                with core.engine_lock:
                    self._hide(keys)
        consumer.claims = claims
        consumer.row = row._replace(last_row=last_row)

    def claim_next(self, consumer: Consumer, limit: ClaimLimit) -> store.ClaimRow | None:
        """Reserve due messages, by delivery time, as one durable claim; None when none is due.

        Expired ones are discarded. ``limit`` has the most messages, the most bytes of data, and a
        mark after whose time none is claimed.
        """
        core, transaction = self._core, Transaction()
        with core.engine_lock:
            core.check_running()
            self.queue(consumer.queue)
            taken, body_bytes = self._next(limit)
            if taken:
                keys = array("q", [due.k for due, _persistence in taken])
                claim = consumer.next_claim(len(keys), body_bytes, core.now_ms())
                transaction.unit.statements += [
                    store.save_claim(claim),
                    store.save_consumer(consumer.after(claim)),
                    store.save_keys(claim.consumer_id, claim.number, keys),
                ]
                self._hide(keys)
                self._processor.pass_over(keys[-1])
            self._processor.look_ahead()
        core.committer.run_deferred()
        if not taken:
            return None
        try:
            core.committer.run(transaction)
        except BaseException:
            self._show(keys)
            raise
        self._keys[claim.consumer_id, claim.number] = keys
        consumer.accept(claim)
        # It lapses at a moment that the clock does not know yet.
        core.wake()
        return claim

    def end_group(self, consumer: Consumer, group: list[store.ClaimRow]) -> int:
        """End ``group``, the first open claims, and release their messages to the targets.

        Returns the number of messages.
        """
        released = 0
        for claim in group:
            keys = self._keys[claim.consumer_id, claim.number]
            for start in range(0, len(keys), BATCH):
                released += self._release(keys[start : start + BATCH])
        self._forget(consumer, group)
        return released

    def release_group(self, consumer: Consumer, group: list[store.ClaimRow]) -> int:
        """End ``group``, the first open claims; show their messages on the staging queue again.

        Returns the number of messages. No backout is counted.
        """
        held = [self._keys[claim.consumer_id, claim.number] for claim in group]
        self._forget(consumer, group)
        for keys in held:
            self._show(keys)
        return sum(map(len, held))

    def back_out(self, consumer: Consumer, row: int, reason: int) -> BackedOut:
        """Raise ClaimError ``consumer-queue``: staged messages cannot be backed out."""
        del row, reason
        raise ClaimError(
            reasons.CONSUMER_QUEUE,
            f"consumer {consumer.row.name} reads {consumer.queue}, off which nothing is backed out",
        )

    def page(
        self, consumer: Consumer, after: int, until: int, max_bytes: int, max_rows: int
    ) -> ClaimedPage:
        """Return the first messages of rows ``(after, until]``; the queue of each is its target.

        They are of one claim. ``max_rows`` and ``max_bytes`` of data limit them. The page is empty
        when these rows are not claimed.
        """
        for claim in consumer.claims:
            if claim.after_row <= after < claim.last_row:
                held = self._keys.get((claim.consumer_id, claim.number), array("q"))
                low = after - claim.after_row
                keys = held[low : min(until - claim.after_row, low + max_rows)]
                return self._read(consumer.queue, keys, max_bytes)
        return ClaimedPage(consumer.queue, NO_MESSAGES)

    def _next(self, limit: ClaimLimit) -> tuple[list[DueWithPersistence], int]:
        """Return the due messages for one claim, and their bytes; expired ones are discarded.

        The list is empty when none is due. The engine lock is held.
        """
        core = self._core
        now_ms = core.now_ms()
        up_to_ms = now_ms if limit.up_to is None else self._marked_ms.get(limit.up_to, now_ms)
        left_bytes = min(limit.body_bytes, CLAIM_BYTES_MAX)
        taken: list[DueWithPersistence] = []
        expired: list[DueWithPersistence] = []
        body_bytes = 0
        for due, persistence in self._processor.due(up_to_ms, min(limit.row_count, CLAIM_ROWS_MAX)):
            if is_expired(due.expire_at_ms, now_ms):
                expired.append((due, persistence))
                continue
            if taken and body_bytes + due.body_bytes > left_bytes:
                break
            taken.append((due, persistence))
            body_bytes += due.body_bytes
        if expired:
            core.committer.deferred += self._processor.release(expired, now_ms)
        return taken, body_bytes

    def _release(self, keys: array[int]) -> int:
        """Release the claimed messages with these keys to their targets; return how many.

        When the commit fails, the messages not released stay claimed for the next try.
        """
        core = self._core
        with core.engine_lock:
            core.check_running()
            now_ms = core.now_ms()
            # Messages that the last try of this end has released are gone.
            dues = [
                (due, persistence)
                for due, persistence in self._processor.of_keys(keys)
                if core.hidden.get(due.k) is core.staging.releasing
            ]
            # Should one have to stay, it can be seen.
            queue_state.give_back_keys(
                self._staging(), [due.k for due, _persistence in dues], core.staging.releasing
            )
            transactions = self._processor.release(dues, now_ms)
        try:
            core.committer.run(*transactions)
        except BaseException:
            # It is still claimed: the next try continues with what is left.
            with core.engine_lock:
                self._hide([key for key in self._present(keys) if key not in core.hidden])
            raise
        return len(dues)

    def _read(self, queue: str, keys: Sequence[int], max_bytes: int) -> ClaimedPage:
        """Return the first messages of claimed keys, up to ``max_bytes`` of data.

        The page is empty when one of these messages no longer exists.
        """
        between = limited(store.BETWEEN, len(keys))
        rows = self._core.store.claimed.first_rows(between, (keys[0], keys[-1]), max_bytes)
        if [row[0] for row in rows] != list(keys[: len(rows)]) or not rows:
            # Something has come in between, or some are in memory.
            rows = self._read_one_by_one(keys, max_bytes)
        if not rows:
            return ClaimedPage(queue, NO_MESSAGES)
        _keys, targets, *columns = zip(*rows, strict=True)
        queues = [target or queue for target in targets]
        return ClaimedPage(queues, MessageColumns(*columns))

    def _read_one_by_one(self, keys: Sequence[int], max_bytes: int) -> list[tuple[Any, ...]]:
        """Return rows of claimed keys from disk and memory, up to ``max_bytes`` of data.

        The list is empty when one of these messages no longer exists.
        """
        core, fetch = self._core, self._core.store.claimed.fetch
        lengths = store.lengths_of_keys(fetch, keys)
        in_memory = [key for key in keys if key not in lengths]
        if in_memory:
            with core.engine_lock:
                lengths |= store.lengths_of_keys(core.messages(VOLATILE).fetch, in_memory)
        count = 0
        for key in keys:
            max_bytes -= lengths.get(key, 0)
            if count and max_bytes < 0:
                break
            count += 1
        wanted = keys[:count]
        found = {row[0]: row for row in store.rows_of_keys(fetch, wanted)}
        if len(found) < count:
            with core.engine_lock:
                rows = store.rows_of_keys(core.messages(VOLATILE).fetch, wanted)
            found |= {row[0]: row for row in rows}
        return [found[key] for key in wanted] if len(found) == count else []

    def _present(self, keys: Sequence[int]) -> array[int]:
        """Return those keys for which a message exists on disk or in memory."""
        core = self._core
        found = store.lengths_of_keys(core.store.claimed.fetch, keys)
        with core.engine_lock:
            found |= store.lengths_of_keys(core.messages(VOLATILE).fetch, keys)
        return array("q", [key for key in keys if key in found])

    def _forget(self, consumer: Consumer, group: list[store.ClaimRow]) -> None:
        """Delete ``group``, the first open claims, with the list of their messages' keys, durably.

        The messages themselves do not change.
        """
        transaction = Transaction()
        transaction.unit.statements.append(store.forget_keys(consumer.row.id, group[-1].number))
        self._close(consumer, group, transaction)
        for claim in group:
            del self._keys[claim.consumer_id, claim.number]

    def _hide(self, keys: Sequence[int]) -> None:
        """Hide claimed messages from all other programs; the engine lock is held."""
        assert self._core.engine_lock.is_held()
        queue_state.hold_keys(self._staging(), keys, self._core.staging.releasing)

    def _show(self, keys: Sequence[int]) -> None:
        """Make claimed messages that were not released visible again; others are skipped."""
        core = self._core
        with core.engine_lock:
            held = [k for k in self._present(keys) if core.hidden.get(k) is core.staging.releasing]
            queue_state.give_back_keys(self._staging(), held, core.staging.releasing)
        core.committer.run_deferred()

    def _staging(self) -> LocalQueue:
        """Return the staging queue; it must exist, as a queue with claims cannot be deleted."""
        staging = self._core.registry.staging()
        assert staging is not None, "a queue with claims is not deleted"
        return staging
