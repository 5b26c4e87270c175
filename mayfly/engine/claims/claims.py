"""Durable claims: a named consumer reserves messages in bulk, reads them in pages, and ends them.

A claim is one reserved batch of messages. It counts as delivery: it discards expired messages (E9,
E14), and reserved messages expire no more (E15). The claims of a consumer are numbered from 1, each
is one transaction; a number is skipped after claims were released. A reader that attaches to a
consumer raises its epoch, and readers with a lower epoch are refused from then on ("fenced").
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


class ConsumerClaims:
    """All consumers of a queue manager, with their claims: numbered batches of reserved messages.

    Readers of a pipeline call it. Thread-safe; call it without locks.
    """

    def __init__(self, core: Core, processor: DelayProcessor) -> None:
        """Begin without consumers; :meth:`load` reads those of the store.

        ``processor`` finds the due messages of claims on the staging queue.
        """
        self._core = core
        self._moved = OrdinaryQueueClaims(core)
        self._due = StagingQueueClaims(core, processor)
        self._consumers: dict[str, Consumer] = {}
        self._attaching = core.runtime.lock("consumers")

    @property
    def instance_id(self) -> str:
        """The random id of the store, in which alone the numbers of its claims are valid."""
        return self._core.store.ledger.instance_id

    def load(self) -> None:
        """Read all consumers and their open claims from the store when the queue manager opens."""
        core = self._core
        by_id = {}
        for row in core.store.claimed.consumers():
            by_id[row.id] = self._consumers[row.name] = self._consumer(row)
        for claim in core.store.claimed.claims():
            by_id[claim.consumer_id].claims.append(claim)
        for consumer in by_id.values():
            self._queue_state(consumer.queue).load(consumer)
            consumer.heartbeat_ms = core.now_ms()

    def consistent_states(self) -> list[ConsumerState]:
        """Return every consumer's state, sorted by name, after its calls under way have ended.

        So each message is counted either on its queue or in a claim.
        """
        found = []
        for consumer in sorted(self._consumers.values(), key=lambda consumer: consumer.row.name):
            with consumer.lock:
                found.append(consumer.state())
        return found

    def figures(self) -> list[ConsumerState]:
        """Return every consumer's state, sorted by name, without waiting for calls under way."""
        consumers = sorted([*self._consumers.values()], key=lambda consumer: consumer.row.name)
        return [consumer.state() for consumer in consumers]

    def attach(self, name: str, queue_name: str) -> ConsumerState:
        """Attach a reader to a consumer, and refuse earlier readers from then on; return the state.

        The ``epoch`` of the state is the number of this reader, which its other calls pass. An
        unknown consumer is created. Raises MQRC_OBJECT_NAME_ERROR for an invalid name, an MQError
        such as MQRC_UNKNOWN_OBJECT_NAME or MQRC_GET_INHIBITED when the queue cannot be read, and
        ClaimError ``consumer-queue`` when the consumer reads another queue.
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
        """Return a new consumer object for a stored row."""
        return Consumer(row, self._core.runtime.lock("consumer"))

    def _raise_epoch(self, consumer: Consumer, queue: str) -> ConsumerState:
        """Store the next epoch of a consumer, which shuts out earlier readers.

        Returns the new state. Raises ClaimError ``consumer-queue`` when the consumer reads another
        queue.
        """
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
            return consumer.state()

    def mark(self) -> int:
        """Return a number that separates messages put until now from later ones.

        Pass it as ``ClaimLimit.up_to`` to claim only messages that are on the queue now.
        """
        with self._core.engine_lock:
            self._core.check_running()
            mark = self._core.store.sequence.next()
            self._due.note_mark(mark)
            return mark

    def claim(self, name: str, epoch: int, after: int, limit: ClaimLimit) -> Claimed:
        """Reserve the next messages in get order; return the last claim number and the count.

        ``name`` is the consumer, ``epoch`` the number of its reader from :meth:`attach`. ``after``
        is the last claim that the reader has, ``limit`` limits the count and the bytes. Open claims
        with a number above ``after`` come first, and count too. Without an available message, or
        for a quiesced reader, the result is (``after``, 0) and nothing is written. A claim has at
        least one message, whatever its size. Raises MQRC_GET_INHIBITED, and MQRC_OBJECT_IN_USE
        while another program has the queue open exclusively. Raises ClaimError for an unknown
        consumer, a reader that was replaced (fenced), a claim ``after`` that never existed, and,
        except on the staging queue, when claims after it have ended as got.
        """
        with self._held(name, epoch) as consumer:
            consumer.check_checkpoint(after)
            if consumer.quiesced_epoch == epoch:
                return Claimed(after, 0)
            # Released claims that no reader has read are skipped.
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
        """End all open claims up to number ``until``, and remove their messages as got.

        ``epoch`` is the number of the reader from :meth:`attach`. Returns the number of messages, 0
        when the claims have ended already. Raises ClaimError for an unknown consumer, a reader that
        was replaced (fenced), a claim that never existed, and, except on the staging queue, when
        claims after ``until`` have ended as got already.
        """
        with self._held(name, epoch) as consumer:
            consumer.check_checkpoint(until)
            return self._end(consumer, until)

    def end_written(self, name: str, instance_id: str, until: int) -> int:
        """End all open claims up to number ``until``, which a checkpoint records as processed.

        Their messages are removed as got; returns how many. Any reader of the consumer may call it,
        so it needs no epoch. It returns 0 when the claims have ended already. ``instance_id`` is
        the store that the checkpoint was made with. Raises ClaimError for another store, an unknown
        consumer, and a claim that never existed.
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
        """Give a reader no further claims, so that it can end.

        ``epoch`` is the number of the reader from :meth:`attach`. The reader may still read the
        claims it has. The next reader that attaches gets claims again. Raises ClaimError for an
        unknown consumer, and for a reader that was replaced (fenced).
        """
        with self._held(name, epoch) as consumer:
            consumer.quiesced_epoch = epoch

    def renew(self, name: str, epoch: int) -> None:
        """Renew the lease of a reader, as each of its other calls does.

        ``epoch`` is the number of the reader from :meth:`attach`. Raises ClaimError for an unknown
        consumer, and for a reader that was replaced (fenced).
        """
        self._fenced(name, epoch)

    def next_lease_end_ms(self) -> int | None:
        """Return when the first lease of open claims ends unless renewed, in ms since 1970.

        None when no claims have a lease.
        """
        moments = [consumer.lease_end_ms for consumer in [*self._consumers.values()]]
        return min((moment for moment in moments if moment is not None), default=None)

    def end_expired_leases(self) -> None:
        """Put the messages of claims whose lease has ended back on their queue, for other readers.

        The reader is not fenced: if it still runs, it finds these claims empty and goes on.
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

    def ranges(self, name: str, epoch: int, after: int, until: int) -> list[tuple[int, int, int]]:
        """Return the messages in claims ``(after, until]`` as (low, high, length of their data).

        A range has the messages ``(low, high]`` of one claim.

        ``epoch`` is the number of the reader from :meth:`attach`. A consumer numbers its messages
        as rows, from 1 on. Messages that were released or backed out are left out; the result is
        empty when none is left. Raises ClaimError for an unknown consumer, a reader that was
        replaced (fenced), a claim number that never existed, and, except on the staging queue, when
        claims after ``after`` have ended as got.
        """
        with self._held(name, epoch) as consumer:
            return consumer.ranges(after, until)

    def back_out(self, name: str, epoch: int, rows: Iterable[int], reason: int) -> BackedOut:
        """Back out single claimed messages, by row number, because the reader cannot process them.

        ``epoch`` is the number of the reader from :meth:`attach`. Each message goes back to its
        queue with its backout count raised. When the count reaches BOTHRESH it goes to BOQNAME;
        when that fails, or BOTHRESH is 0, to the dead-letter queue with ``reason`` (G8). Rows that
        are not claimed are skipped. Returns how many went back and how many elsewhere. Raises
        ClaimError, and the MQError of the dead-letter queue; rows before that one stay backed out.
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
        """Return the first claimed messages with row numbers ``(after, until]``, and their queue.

        ``epoch`` is the number of the reader from :meth:`attach`. ``max_rows`` and ``max_bytes`` of
        data limit the page; one message is always returned. The same numbers have the same messages
        until these are ended or released. After that, and for a fenced reader, it raises
        ClaimError.
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
        """Put all claimed messages of a consumer back on their queue, and shut out its reader.

        Backout counts are raised, except on the staging queue. Returns the number of messages.
        Raises ClaimError for an unknown consumer, and, with an ``epoch``, when the reader of that
        epoch was replaced (fenced) already.
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
        """End the open claims of a consumer up to number ``until``.

        The messages are removed as got. Returns their number. The consumer's lock is held.
        """
        ended, queue_state = 0, self._queue_state(consumer.queue)
        while group := consumer.group(until):
            ended += queue_state.end_group(consumer, group)
        return ended

    def _give_back(self, consumer: Consumer) -> int:
        """Put the messages of all open claims of a consumer back on their queue; return how many.

        The consumer's lock is held.
        """
        released, queue_state = 0, self._queue_state(consumer.queue)
        last_number = consumer.row.last_number
        while group := consumer.group(last_number):
            released += queue_state.release_group(consumer, group)
        return released

    @contextmanager
    def _held(self, name: str, epoch: int) -> Iterator[Consumer]:
        """Hold the lock of a consumer during a block, and yield the consumer.

        Raises ClaimError for an unknown consumer and for a fenced reader.
        """
        with self._known(name).lock:
            yield self._fenced(name, epoch)

    def _fenced(self, name: str, epoch: int) -> Consumer:
        """Return a consumer and renew the lease of its reader.

        Raises ClaimError for an unknown consumer, and if ``epoch`` is not that of the newest
        reader.
        """
        self._core.check_running()
        consumer = self._known(name)
        consumer.check_epoch(epoch)
        consumer.heartbeat_ms = self._core.now_ms()
        return consumer

    def _known(self, name: str) -> Consumer:
        """Return a consumer by name; raises ClaimError ``consumer-unknown`` without one."""
        consumer = self._consumers.get(name)
        if consumer is None:
            raise ClaimError(reasons.CONSUMER_UNKNOWN, f"there is no consumer {name!r}")
        return consumer

    def _queue_state(self, queue: str) -> QueueClaims:
        """Return the object that claims messages from a queue, ordinary or the staging queue."""
        return self._due if queue == STAGING_QUEUE else self._moved
