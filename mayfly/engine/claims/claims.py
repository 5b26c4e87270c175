"""Durable claims: a consumer reserves messages of a queue in bulk, reads and ends them.

A claim is one reserved batch of messages. It counts as delivery: it discards expired messages (E9,
E14), and reserved messages expire no more (E15). The claims of a consumer are numbered from 1, each
is one transaction; a number is skipped after claims were released. A reader that attaches to a
consumer raises its epoch, and readers with a lower epoch are refused from then on ("fenced").
"""

from __future__ import annotations

import json
import logging
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
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
from mayfly.engine.delivery import MessageIds, OutgoingMessage, send
from mayfly.engine.disposal import dead_letter, original_of, prepared_with_own_context, send_report
from mayfly.engine.expiry import discard_expired
from mayfly.engine.finding.next_live import DISCARD_BATCH
from mayfly.engine.queue_state import pass_over
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue
from mayfly.engine.transaction import Claiming, Transaction, Unclaiming
from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.reports import Cause, is_owed
from mayfly.lifetime.window import Window
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQQDT_TEMPORARY_DYNAMIC, MQRO_DISCARD_MSG
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store import claimed_messages as store
from mayfly.store.claimed_messages import ConsumerRow
from mayfly.store.keys import SEQUENCE_BITS
from mayfly.store.messages import limited
from mayfly.store.units import EndedRows, StoredMessage
from mayfly.verbs.checks import check_name
from mayfly.verbs.contracts import bulk_reasons
from mayfly.verbs.contracts.claims import BackedOut, Claimed, ConsumerState
from mayfly.verbs.contracts.messages import NO_MESSAGES, MessageColumns
from mayfly.verbs.contracts.outcomes import DetectedBy, TerminatedBy


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
                    bulk_reasons.CONSUMER_QUEUE,
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
                    bulk_reasons.OTHER_INSTANCE,
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
            has_lease = consumer.has_lease
            reason = bulk_reasons.LEASE_EXPIRED if has_lease else bulk_reasons.CLAIMS_CLOSED
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
            raise ClaimError(bulk_reasons.CONSUMER_UNKNOWN, f"there is no consumer {name!r}")
        return consumer

    def _queue_state(self, queue: str) -> QueueClaims:
        """Return the object that claims messages from a queue, ordinary or the staging queue."""
        return self._due if queue == STAGING_QUEUE else self._moved


# Claims of ordinary queues: messages move from the queue into the claim, and out when it ends
#
# A claim (a reserved batch) takes the next live messages in get order. They leave it with the
# records and reports of a get, or go back to their places.


_LOG = logging.getLogger("mayfly.claims")
_ANY_SEQUENCE = 2**SEQUENCE_BITS - 1
_PAGE_ROWS = 1_000
_Record = tuple[bytes, int, int, int, str, str]
#: Reports made in one turn of the lock.
_REPORT_BATCH = 100


class _Walked:
    """The messages that a claim has found: keys to claim, and expired messages to discard."""

    def __init__(self) -> None:
        """Begin with no message found."""
        self.keys: list[int] = []
        #: Place among the keys and row of each that is in memory.
        self.volatile: list[tuple[int, StoredMessage]] = []
        self.expired: list[Found] = []
        self.body_bytes = 0
        #: Whether it ended at the limit of expired messages: there may be more to find.
        self.is_cut = False


def _walk(
    core: Core, queue: LocalQueue, row_count: int, body_bytes: int, up_to_sequence: int
) -> _Walked:
    """Return the next live messages of a queue: up to ``row_count``, and ``body_bytes`` of data.

    At least one is found if any is available. Messages with a sequence above ``up_to_sequence`` are
    skipped. Expired messages on the way are in the result too, for the caller to discard. The
    caller hides all of them before it releases the engine lock.
    """
    assert core.engine_lock.is_held()
    found, now_ms = _Walked(), core.now_ms()
    last = [queue.low, queue.low]
    keys = found.keys
    places: dict[int, int] = {}
    for key, expire_at_ms, length_bytes, persistence in _heads(core, queue, up_to_sequence):
        if expire_at_ms is not None and is_expired(expire_at_ms, now_ms):
            row = core.messages(persistence).row(key)
            if row is not None:
                found.expired.append((queue, row, persistence))
            found.is_cut = len(found.expired) >= DISCARD_BATCH
        elif keys and found.body_bytes + length_bytes > body_bytes:
            break
        else:
            if persistence == VOLATILE:
                places[key] = len(keys)
            keys.append(key)
            found.body_bytes += length_bytes
        last[persistence] = key + 1
        if found.is_cut or len(keys) >= row_count:
            break
    if places:
        rows = core.messages(VOLATILE).fetch(store.OF_KEYS, (json.dumps(list(places)),))
        found.volatile = [(places[row[0]], StoredMessage._make(row)) for row in rows]
    is_settled = bool(keys) or core.settings.discard_on_empty
    if up_to_sequence == _ANY_SEQUENCE and is_settled:
        for persistence in (VOLATILE, PERSISTENT):
            # Everything before has been looked at and is hidden by now.
            pass_over(queue, persistence, last[persistence] - 1)
    return found


def _heads(
    core: Core, queue: LocalQueue, up_to_sequence: int
) -> Iterator[tuple[int, int | None, int, int]]:
    """Yield key, expiry time (or None), length in bytes and persistence of visible messages.

    They come in get order; messages with a sequence above ``up_to_sequence`` are left out.
    """
    by_persistence = [
        _visible(core, queue, persistence, up_to_sequence)
        for persistence in (VOLATILE, PERSISTENT)
        if queue.present[persistence]
    ]
    return by_persistence[0] if len(by_persistence) == 1 else merge(*by_persistence)


def _visible(
    core: Core, queue: LocalQueue, persistence: int, up_to_sequence: int
) -> Iterator[tuple[int, int | None, int, int]]:
    """Yield the same values as ``_heads``, for messages with one persistence."""
    low, fetch, hidden = queue.first[persistence], core.messages(persistence).fetch, core.hidden
    while True:
        page = store.heads(fetch, low, queue.high, up_to_sequence, _PAGE_ROWS)
        for key, expire_at_ms, length_bytes in page:
            if key not in hidden:
                yield key, expire_at_ms, length_bytes, persistence
        if len(page) < _PAGE_ROWS:
            return
        low = page[-1][0] + 1


def _records_of(descriptors: Iterable[bytes]) -> tuple[list[_Record], str]:
    """Return the values that ledger records take from each distinct descriptor.

    ``descriptors`` are packed MQMDs. Each item of the first result is the packed MQMD, priority,
    persistence, report options, reply-to queue and user. The second result is a JSON list, in hex,
    of the descriptors that ask for a COD report; empty when none does.
    """
    records: list[_Record] = []
    confirming: list[str] = []
    for packed in descriptors:
        descriptor = unpack_descriptor(packed)
        records.append(
            (
                packed,
                descriptor.priority,
                descriptor.persistence,
                descriptor.report,
                descriptor.reply_to_q,
                descriptor.user_identifier,
            )
        )
        if is_owed(Cause.COD, descriptor):
            confirming.append(packed.hex())
    return records, json.dumps(confirming) if confirming else ""


def _send_confirmations(
    core: Core, transaction: Transaction, queue: LocalQueue, rows: store.Rows, confirming: str
) -> None:
    """Add the COD reports of claimed messages to the transaction that ends them (G9).

    ``rows`` are the claimed messages. ``confirming`` is the JSON list of the descriptors that ask
    for such a report.
    """
    messages = core.store.claimed.of_descriptors(rows, confirming)
    for start in range(0, len(messages), _REPORT_BATCH):
        with core.engine_lock:
            now_ms = core.now_ms()
            for row in messages[start : start + _REPORT_BATCH]:
                descriptor = unpack_descriptor(row.descriptor)
                original = original_of(queue, row, descriptor, now_ms)
                send_report(core, transaction, Cause.COD, original)


def _give_back(core: Core, transaction: Transaction, queue: LocalQueue, rows: store.Rows) -> None:
    """Add to a transaction that claimed rows go back to their queue, backout counts raised (G8)."""
    by_persistence = core.store.claimed.by_persistence(rows)
    volatile = core.store.claimed.volatile(rows)
    count = sum(count for count, _low in by_persistence.values())
    transaction.unit.statements += store.give_back(rows)
    if volatile:
        transaction.unit.volatile_inserts += [
            row._replace(backout_count=row.backout_count + 1) for row in volatile
        ]
        transaction.unit.delta(queue.number).present_volatile += len(volatile)
    returned = by_persistence.get(VOLATILE, (0, 0)), by_persistence.get(PERSISTENT, (0, 0))
    keys = () if queue.trigger is None else core.store.claimed.keys(rows)
    queue_state.give_back_claimed(transaction, Unclaiming(queue, count, returned, keys))


def _end(
    transaction: Transaction,
    queue: LocalQueue,
    rows: store.Rows,
    now_ms: int,
    records: list[_Record],
    program: str,
) -> None:
    """Add to a transaction that consecutive claimed rows end as got by a program.

    ``records`` are the values for the ledger that ``_records_of`` returns; ``now_ms`` is the time
    of the end.
    """
    outcome = queue_state.end_claimed(transaction, queue, rows.message_count)
    ended = EndedRows(*rows.range, queue.name, now_ms, outcome, records, program)
    transaction.unit.end_rows(queue.number, ended)


def _move(
    core: Core,
    transaction: Transaction,
    queue: LocalQueue,
    rows: store.Rows,
    message: StoredMessage,
    program: str,
    reason: int,
) -> str:
    """Add to a transaction that a claimed message goes to BOQNAME or the dead-letter queue.

    With MQRO_DISCARD_MSG it is discarded instead of dead-lettered; both send an exception report if
    asked. Returns text for the log, such as ``is on B.Q``. ``rows`` is the claimed row, ``message``
    its message. ``program`` is for the ledger, ``reason`` for the dead letter and the report.
    Raises the MQError with which the dead-letter queue refuses the message.
    """
    descriptor = unpack_descriptor(message.descriptor)
    records, _confirming = _records_of([message.descriptor])
    with core.engine_lock:
        now_ms = core.now_ms()
        window = Window(now_ms, now_ms, message.expire_at_ms, message.capped_by)
        ids = MessageIds(message.msg_id, message.correl_id, message.origin_id)
        letter = OutgoingMessage(
            prepared_with_own_context(core, descriptor), window, ids, message.body
        )
        outcome = ""
        if queue.definition.bothresh:
            outcome = _to_backout_queue(core, transaction, queue, letter)
        if not outcome:
            original = original_of(queue, message, descriptor, now_ms)
            if descriptor.report & MQRO_DISCARD_MSG:
                outcome = "is discarded, as it asks"
            else:
                _to_dead_letters(core, transaction, queue, letter, reason)
                outcome = "is a dead letter"
            send_report(core, transaction, Cause.EXCEPTION, original, reason)
        _end(transaction, queue, rows, now_ms, records, program)
    return outcome


def _to_backout_queue(
    core: Core, transaction: Transaction, queue: LocalQueue, letter: OutgoingMessage
) -> str:
    """Add the put of a message to BOQNAME; return text for the log.

    The text is empty, and nothing is added, when the queue has no BOQNAME or that queue refuses the
    message. ``letter`` is the message.
    """
    name = queue.definition.boqname
    try:
        path = core.registry.resolve_target(name)
        if not name or path.queue is queue:
            return ""
        send(core, transaction, path, letter)
    except MQError as error:
        _LOG.warning("BOQNAME %r of %s takes no message: %s", name, queue.name, error)
        return ""
    return f"is on {name}"


def _to_dead_letters(
    core: Core, transaction: Transaction, queue: LocalQueue, letter: OutgoingMessage, reason: int
) -> None:
    """Add the put of a message to the dead-letter queue.

    ``letter`` is the message, ``reason`` the reason code in its MQDLH. Raises the MQError if that
    queue refuses it.
    """
    try:
        dead_letter(core, transaction, letter, reason, queue.name)
    except MQError as error:
        raise mq_error(
            error.reason,
            f"message {letter.ids.msg_id.hex()} of {queue.name} cannot be used (reason {reason}), "
            f"and neither BOQNAME nor the dead-letter queue takes it: {error.detail}",
        ) from error


@contextmanager
def _taken_back_on_failure(core: Core, transaction: Transaction) -> Iterator[None]:
    """Undo the effects of a transaction in memory when the block raises; the error passes on."""
    try:
        yield
    except BaseException:
        with core.engine_lock:
            core.committer.take_back(transaction)
        raise


class OrdinaryQueueClaims(QueueClaims):
    """Claims on ordinary queues: all reserved messages are in a table on disk."""

    def queue(self, name: str) -> LocalQueue:
        """Return the local queue that a name, also of an alias, stands for, to claim from it.

        Raises MQRC_UNKNOWN_OBJECT_NAME for a name that is not defined, MQRC_OBJECT_TYPE_ERROR for a
        shared or temporary queue, MQRC_GET_INHIBITED, and MQRC_OBJECT_IN_USE for a queue open for
        exclusive input.
        """
        path = self._core.registry.resolve(name)
        queue = path.queue
        if queue.owner is not self._core:
            raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"{queue.name} is shared: no claims on it")
        if queue.definition.definition_type == MQQDT_TEMPORARY_DYNAMIC:
            raise mq_error(
                rc.MQRC_OBJECT_TYPE_ERROR, f"{queue.name} is temporary, claims outlive a restart"
            )
        if path.get_inhibited:
            raise mq_error(rc.MQRC_GET_INHIBITED, f"GET(DISABLED) on the way to {name}")
        if queue.exclusive_holder is not None:
            raise mq_error(rc.MQRC_OBJECT_IN_USE, f"{queue.name} is open for exclusive input")
        return queue

    def load(self, consumer: Consumer) -> None:
        """Count a consumer's claimed messages out of the depth; find rows that were backed out."""
        core, row = self._core, consumer.row
        rows = store.Rows(row.id, consumer.closed_row, row.last_row)
        if not rows.message_count:
            return
        count = sum(count for count, _low in core.store.claimed.by_persistence(rows).values())
        if count < rows.message_count:
            consumer.holes = set(range(rows.after + 1, rows.until + 1))
            consumer.holes.difference_update(core.store.claimed.numbers(rows))
        if count:
            queue_state.load_claimed(core.registry.queue(consumer.queue), count)

    def page(
        self, consumer: Consumer, after: int, until: int, max_bytes: int, max_rows: int
    ) -> ClaimedPage:
        """Return the first messages of rows ``(after, until]``, read on a separate connection.

        ``max_rows`` and ``max_bytes`` of data limit them. The page is empty when one of the rows is
        no longer claimed.
        """
        found = self._core.store.claimed.page(
            store.Rows(consumer.row.id, after, until), max_bytes, max_rows
        )
        return ClaimedPage(consumer.queue, found)

    def claim_next(self, consumer: Consumer, limit: ClaimLimit) -> store.ClaimRow | None:
        """Move the next live messages into a new claim and return it; None when none is available.

        Expired messages on the way are discarded. ``limit`` has the most messages, the most bytes
        of data, and a mark after which none is claimed.
        """
        core = self._core
        while True:
            with core.engine_lock:
                core.check_running()
                queue = self.queue(consumer.queue)
                now_ms = core.now_ms()
                found = _walk(
                    core,
                    queue,
                    min(limit.row_count, CLAIM_ROWS_MAX),
                    min(limit.body_bytes, CLAIM_BYTES_MAX),
                    _ANY_SEQUENCE if limit.up_to is None else limit.up_to,
                )
                if found.expired and (found.keys or core.settings.discard_on_empty):
                    terminated_by = TerminatedBy(ended_program=consumer.row.name)
                    core.committer.deferred.append(
                        discard_expired(
                            core, found.expired, now_ms, DetectedBy.CLAIM, terminated_by
                        )
                    )
                claimed = self._take(consumer, queue, found, now_ms) if found.keys else None
            if claimed is not None:
                claim, transaction = claimed
                if found.volatile:
                    with _taken_back_on_failure(core, transaction):
                        # Their puts are counted on disk before they themselves are.
                        core.store.settle()
                core.committer.run(transaction)
                consumer.accept(claim)
                return claim
            core.committer.run_deferred()
            if not found.is_cut:
                return None

    def _take(
        self, consumer: Consumer, queue: LocalQueue, found: _Walked, now_ms: int
    ) -> tuple[store.ClaimRow, Transaction]:
        """Return a claim of the messages found, and the transaction that moves them into it.

        The engine lock is held; the messages are hidden.
        """
        transaction = Transaction()
        claim = consumer.next_claim(len(found.keys), found.body_bytes, now_ms)
        rows = store.Rows(claim.consumer_id, claim.after_row, claim.last_row)
        transaction.unit.statements += [
            *store.take(rows, found.keys, found.volatile),
            store.save_claim(claim),
            store.save_consumer(consumer.after(claim)),
        ]
        if found.volatile:
            # On disk from now on: a crash does not take them.
            transaction.unit.delta(queue.number).present_volatile -= len(found.volatile)
            transaction.unit.volatile_deletes += [
                (message.k,) for _place, message in found.volatile
            ]
        queue_state.claim(transaction, Claiming(queue, found.keys, len(found.volatile)))
        return claim, transaction

    def end_group(self, consumer: Consumer, group: list[store.ClaimRow]) -> int:
        """End ``group``, the first open claims; remove their messages as a get does.

        Their COD reports are sent (G9). Returns the number of messages.
        """
        core, row, transaction = self._core, consumer.row, Transaction()
        rows = store.Rows(row.id, consumer.closed_row, group[-1].last_row)
        queue = core.registry.queue(consumer.queue)
        records, confirming = _records_of(core.store.claimed.descriptors(rows))
        with core.engine_lock:
            now_ms = core.now_ms()
        if confirming:
            with _taken_back_on_failure(core, transaction):
                _send_confirmations(core, transaction, queue, rows, confirming)
        ended_count = 0
        for after, until in consumer.without_holes(rows.after, rows.until):
            _end(transaction, queue, store.Rows(row.id, after, until), now_ms, records, row.name)
            ended_count += until - after
        self._close(consumer, group, transaction)
        return ended_count

    def release_group(self, consumer: Consumer, group: list[store.ClaimRow]) -> int:
        """End ``group``, the first open claims; return their messages to the queue.

        Backout counts are raised (G8). Returns the number of messages.
        """
        core, transaction = self._core, Transaction()
        rows = store.Rows(consumer.row.id, consumer.closed_row, group[-1].last_row)
        queue = core.registry.queue(consumer.queue)
        _give_back(core, transaction, queue, rows)
        returned = sum(unclaiming.message_count for unclaiming in transaction.ended_claims)
        self._close(consumer, group, transaction)
        return returned

    def back_out(self, consumer: Consumer, row: int, reason: int) -> BackedOut:
        """Put a claimed message back on its queue, or move it away if backed out too often (G8).

        From BOTHRESH on, or always if that is 0, it goes to BOQNAME or the dead-letter queue.
        Returns (1, 0) for put back, (0, 1) for moved away. ``reason`` is the reason code for a dead
        letter. Raises the MQError of the dead-letter queue.
        """
        core, transaction = self._core, Transaction()
        rows = store.Rows(consumer.row.id, row - 1, row)
        queue = core.registry.queue(consumer.queue)
        [message] = core.store.claimed.messages(rows)
        backout_count = message.backout_count + 1
        is_moved = not backout_count < queue.definition.bothresh
        if is_moved:
            with _taken_back_on_failure(core, transaction):
                program = consumer.row.name
                outcome = _move(core, transaction, queue, rows, message, program, reason)
        else:
            _give_back(core, transaction, queue, rows)
            outcome = f"is on the queue again, backed out {backout_count} times"
        core.committer.run(transaction)
        consumer.holes.add(row)
        _LOG.warning(
            "%s of %s, which %s cannot use, %s: reason %d",
            message.msg_id.hex(),
            queue.name,
            consumer.row.name,
            outcome,
            reason,
        )
        return BackedOut(int(not is_moved), int(is_moved))


# Claims of the staging queue: a pipeline releases delayed messages in bulk (DDELAY(SPARK))
#
# Due messages are claimed by a list of keys. They stay on the staging queue, hidden from all other
# programs; a change of one gets the receipt that it is already released. When the claim ends the
# delay processor releases them to their targets, by its usual rules.


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
            bulk_reasons.CONSUMER_QUEUE,
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
