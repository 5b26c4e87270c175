"""Claims of ordinary queues: messages move from the queue into the claim, and out when it ends.

A claim (a reserved batch) takes the next live messages in get order. They leave it with the records
and reports of a get, or go back to their places.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from heapq import merge

from mayfly.engine import queue_state
from mayfly.engine.claims.consumer import (
    CLAIM_BYTES_MAX,
    CLAIM_ROWS_MAX,
    ClaimedPage,
    ClaimLimit,
    Consumer,
    QueueClaims,
)
from mayfly.engine.core import Core
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
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store import claimed as store
from mayfly.store.keys import SEQUENCE_BITS
from mayfly.store.units import EndedRows, StoredMessage
from mayfly.verbs.contracts.claims import BackedOut
from mayfly.verbs.contracts.outcomes import MetBy, TerminatedBy

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
                        discard_expired(core, found.expired, now_ms, MetBy.CLAIM, terminated_by)
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
