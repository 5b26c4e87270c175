"""Durable claims: a named consumer takes messages in bulk, reads them in pages, and ends them.

A claim counts as delivery: expired messages are discarded by it (E9, E14), claimed ones are
locked and expire no more (E15). Claims of a consumer are numbered from 1 on, each one transaction;
a number is left out where claims were given back. A reader that attaches to a consumer raises its
epoch, and readers with a lower epoch are refused from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from mayfly.engine.claims.consumer import (
    ClaimedPage,
    ClaimError,
    ClaimLimit,
    Consumer,
    QueueClaims,
)
from mayfly.engine.claims.ordinary_queue import OrdinaryQueueClaims
from mayfly.engine.claims.staging_queue import StagingQueueClaims
from mayfly.engine.core import Core
from mayfly.engine.delay.delay_processor import DelayProcessor
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.store.claimed import ConsumerRow
from mayfly.verbs.checks import check_name
from mayfly.verbs.contracts import reasons
from mayfly.verbs.contracts.claims import BackedOut, Claimed, ConsumerState


class Claims:
    """The consumers of a queue manager; safe to use from any thread, without the lock."""

    def __init__(self, core: Core, processor: DelayProcessor) -> None:
        """:meth:`load` brings the consumers of the store."""
        self._core = core
        self._moved = OrdinaryQueueClaims(core)
        self._due = StagingQueueClaims(core, processor)
        self._consumers: dict[str, Consumer] = {}
        self._attaching = core.runtime.lock("consumers")

    @property
    def instance_id(self) -> str:
        """The store that offsets of these claims belong to."""
        return self._core.store.ledger.instance_id

    def load(self) -> None:
        """Take up the consumers and claims that the store holds."""
        core = self._core
        by_id = {}
        for row in core.store.claimed.consumers():
            by_id[row.id] = self._consumers[row.name] = self._consumer(row)
        for claim in core.store.claimed.claims():
            by_id[claim.consumer_id].claims.append(claim)
        for consumer in by_id.values():
            self._queue_state(consumer.queue).load(consumer)
            consumer.heartbeat_ms = core.now_ms()

    def standings(self) -> list[ConsumerState]:
        """Return how every consumer stands, by name, when what it has under way is done.

        So no message is missed that has left its queue and is not in a claim yet.
        """
        found = []
        for consumer in sorted(self._consumers.values(), key=lambda consumer: consumer.row.name):
            with consumer.lock:
                found.append(consumer.standing())
        return found

    def figures(self) -> list[ConsumerState]:
        """Return how every consumer stood a moment ago, by name; waits for no call under way."""
        consumers = sorted([*self._consumers.values()], key=lambda consumer: consumer.row.name)
        return [consumer.standing() for consumer in consumers]

    def attach(self, name: str, queue_name: str) -> ConsumerState:
        """Begin to act as a consumer, made when it is new; its former reader is refused now.

        Raises MQRC_OBJECT_NAME_ERROR for a wrong name, what opening the queue for input raises, and
        ClaimError ``consumer-queue`` when the consumer belongs to another queue.
        """
        core = self._core
        check_name(name)
        core.check_running()
        with core.engine_lock:
            name_of_queue = core.registry.resolve(queue_name).queue.name
            queue = self._queue_state(name_of_queue).queue(queue_name)
        with self._attaching:
            consumer = self._consumers.get(name)
            if consumer is None:
                number = 1 + max((c.row.id for c in self._consumers.values()), default=0)
                row = ConsumerRow(number, name, queue.name, 0, 0, 0, 0, 0, 0)
                consumer = self._consumer(row)
            return self._raise_epoch(consumer, queue.name)

    def _consumer(self, row: ConsumerRow) -> Consumer:
        return Consumer(row, self._core.runtime.lock("consumer"))

    def _raise_epoch(self, consumer: Consumer, queue: str) -> ConsumerState:
        name = consumer.row.name
        with consumer.lock:
            if consumer.queue != queue:
                raise ClaimError(
                    reasons.CONSUMER_QUEUE,
                    f"consumer {name} reads queue {consumer.queue}, not {queue}: "
                    "give each queue a consumer of its own",
                )
            row = consumer.row
            self._queue_state(queue).save(consumer, row._replace(epoch=row.epoch + 1))
            self._consumers[name] = consumer
            consumer.heartbeat_ms = self._core.now_ms()
            return consumer.standing()

    def mark(self) -> int:
        """Return a mark for ``ClaimLimit.up_to``: messages put by now are before it."""
        with self._core.engine_lock:
            self._core.check_running()
            mark = self._core.store.sequence.next()
            self._due.note_mark(mark)
            return mark

    def claim(self, name: str, epoch: int, after: int, limit: ClaimLimit) -> Claimed:
        """Claim the next messages in get order and return where the claims after ``after`` end.

        Claims that are there already come first; with none and nothing to claim, ``until`` is
        ``after`` and nothing is written, as for a reader that is quiesced. A claim is of one
        message at least, however large. Raises MQRC_GET_INHIBITED, MQRC_OBJECT_IN_USE while another
        has the queue for himself, or ClaimError.
        """
        with self._held(name, epoch) as consumer:
            consumer.check_checkpoint(after)
            if consumer.quiesced_epoch == epoch:
                return Claimed(after, 0)
            # Released claims that nobody has read are passed over.
            until, rows, body_bytes = consumer.given(after, limit.row_count, limit.body_bytes)
            while until == consumer.row.last_number:
                left = ClaimLimit(
                    limit.row_count - rows, limit.body_bytes - body_bytes, limit.up_to
                )
                if left.row_count < 1 or (rows and left.body_bytes < 1):
                    break
                claim = self._queue_state(consumer.queue).claim_next(consumer, left)
                if claim is None:
                    break
                rows += claim.last_row - claim.after_row
                body_bytes += claim.body_bytes
                until = claim.number
            return Claimed(until if rows else after, rows)

    def end(self, name: str, epoch: int, until: int) -> int:
        """End the lives of the messages of all claims up to ``until``; return how many there were.

        Claims that are closed already stay as they are. Raises ClaimError.
        """
        with self._held(name, epoch) as consumer:
            consumer.check_checkpoint(until)
            return self._end(consumer, until)

    def end_written(self, name: str, instance_id: str, until: int) -> int:
        """End all claims up to ``until``, which a checkpoint says are written; return messages.

        This holds for any reader under the name, so no epoch is asked for; claims
        that are closed already stay as they are. ``instance_id`` is the store that the checkpoint
        was made with. Raises ClaimError.
        """
        consumer = self._known(name)
        with consumer.lock:
            self._core.check_running()
            if instance_id != self.instance_id:
                raise ClaimError(
                    reasons.OTHER_INSTANCE,
                    f"the checkpoint belongs to store {instance_id}, but queue manager "
                    f"{self._core.name} is store {self.instance_id}",
                )
            consumer.check_not_ahead(until)
            return self._end(consumer, until)

    def quiesce(self, name: str, epoch: int) -> None:
        """Give a reader no further claim, so that it can end; raises ClaimError.

        The reader may still read its claims; the next reader that attaches is given claims again.
        """
        with self._held(name, epoch) as consumer:
            consumer.quiesced_epoch = epoch

    def renew(self, name: str, epoch: int) -> None:
        """Say that a reader lives, as every other call of it does; raises ClaimError."""
        self._fenced(name, epoch)

    def next_lease_end_ms(self) -> int | None:
        """Return when the next claims lapse unless their reader is heard of."""
        moments = [consumer.lease_end_ms for consumer in [*self._consumers.values()]]
        return min((moment for moment in moments if moment is not None), default=None)

    def end_expired_leases(self) -> None:
        """Give back the claims that have lapsed: their messages are due again, for any reader.

        Their reader is not fenced. Should it live, it finds nothing in them and goes on.
        """
        now_ms = self._core.now_ms()
        for consumer in [*self._consumers.values()]:
            lease_end_ms = consumer.lease_end_ms
            if lease_end_ms is None or now_ms < lease_end_ms:
                continue
            if not consumer.lock.acquire(blocking=False):
                # A call of its reader is under way, which takes long.
                consumer.heartbeat_ms = now_ms
                continue
            try:
                self._give_back(consumer)
            finally:
                consumer.lock.release()
        self._core.committer.run_deferred()

    def ranges(self, name: str, epoch: int, after: int, until: int) -> list[tuple[int, int]]:
        """Return the rows that claims ``(after, until]`` hold, as ranges ``(after, until]``."""
        with self._held(name, epoch) as consumer:
            return consumer.ranges(after, until)

    def back_out(self, name: str, epoch: int, rows: Iterable[int], reason: int) -> BackedOut:
        """Back out single messages, which the reader cannot use: the rest of their claims stays.

        A message goes back to its place with its backout count raised. When that reaches BOTHRESH
        it goes to BOQNAME instead, and where that fails, or BOTHRESH is 0, to the dead-letter queue
        with ``reason`` (G8). A row that is not claimed any more stays as it is. Raises the MQError
        of the dead-letter queue, the rows before being backed out, and ClaimError.
        """
        returned = moved = 0
        with self._held(name, epoch) as consumer:
            queue_state = self._queue_state(consumer.queue)
            for row in rows:
                if consumer.closed_row < row <= consumer.row.last_row and row not in consumer.holes:
                    done = queue_state.back_out(consumer, row, reason)
                    returned, moved = returned + done.returned, moved + done.moved
        self._core.committer.run_deferred()
        return BackedOut(returned, moved)

    def page(
        self, name: str, epoch: int, after: int, until: int, *, max_bytes: int, max_rows: int
    ) -> ClaimedPage:
        """Return the first claimed messages of rows ``(after, until]``, and their queue.

        The same rows hold the same messages until they are ended or released; then, and for a
        reader that is fenced, it raises ClaimError.
        """
        consumer = self._fenced(name, epoch)
        found = self._queue_state(consumer.queue).page(consumer, after, until, max_bytes, max_rows)
        # Checked again: the rows that were read may have been given back meanwhile.
        self._fenced(name, epoch)
        if after < until and not found.message_count:
            reason = reasons.LEASE_EXPIRED if consumer.has_lease else reasons.CLAIMS_CLOSED
            raise ClaimError(reason, f"rows after {after} of consumer {name} are no longer claimed")
        return found

    def release(self, name: str, epoch: int | None = None) -> int:
        """Give back what a consumer has claimed, each to its place with its backout count raised.

        A reader under its name is fenced. Returns how many messages there were. With an epoch it
        raises ClaimError for a reader that is fenced itself.
        """
        self._core.check_running()
        consumer = self._known(name)
        with consumer.lock:
            if epoch is not None:
                consumer.check_epoch(epoch)
            row, queue_state = consumer.row, self._queue_state(consumer.queue)
            fenced = row._replace(epoch=row.epoch + 1)
            has_claims = row.closed_number < row.last_number
            if has_claims:
                fenced = fenced._replace(
                    released_after=row.closed_number, released_until=row.last_number
                )
            queue_state.save(consumer, fenced)
            released = self._give_back(consumer)
            if has_claims:
                # A new reader begins behind a number that no old checkpoint has.
                number = row.last_number + 1
                queue_state.save(
                    consumer, consumer.row._replace(last_number=number, closed_number=number)
                )
        self._core.committer.run_deferred()
        return released

    def _end(self, consumer: Consumer, until: int) -> int:
        """End open claims of a consumer, whose lock is held; return how many messages they held."""
        ended, queue_state = 0, self._queue_state(consumer.queue)
        while group := consumer.group(until):
            ended += queue_state.end_group(consumer, group)
        return ended

    def _give_back(self, consumer: Consumer) -> int:
        """Give back all open claims of a consumer, whose lock is held; return the messages."""
        released, queue_state = 0, self._queue_state(consumer.queue)
        last_number = consumer.row.last_number
        while group := consumer.group(last_number):
            released += queue_state.release_group(consumer, group)
        return released

    @contextmanager
    def _held(self, name: str, epoch: int) -> Iterator[Consumer]:
        with self._known(name).lock:
            yield self._fenced(name, epoch)

    def _fenced(self, name: str, epoch: int) -> Consumer:
        self._core.check_running()
        consumer = self._known(name)
        consumer.check_epoch(epoch)
        consumer.heartbeat_ms = self._core.now_ms()
        return consumer

    def _known(self, name: str) -> Consumer:
        consumer = self._consumers.get(name)
        if consumer is None:
            raise ClaimError(reasons.CONSUMER_UNKNOWN, f"there is no consumer {name!r}")
        return consumer

    def _queue_state(self, queue: str) -> QueueClaims:
        """Return what holds the claims of a local queue."""
        return self._due if queue == STAGING_QUEUE else self._moved
