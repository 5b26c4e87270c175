"""Expired messages: each is discarded, or moved to the queue that EXPQ names, and reported on.

The report, or the move, is part of the transaction that ends the life, whether a get, a scan or the
delay processor has met the deadline. So it happens once, or not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from mayfly.engine.core import Core
from mayfly.engine.delivery import Ids, OutgoingMessage, arrive, check_room, new_row, size_on
from mayfly.engine.disposal import (
    as_given,
    behind_transit,
    dead_letter,
    dead_letter_queue_of,
    original_of,
    send_report,
)
from mayfly.engine.expiry_watch import tell_expired
from mayfly.engine.holding import messages, puts
from mayfly.engine.queues import LocalQueue
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.life import Event
from mayfly.lifetime.reports import Cause, Original
from mayfly.lifetime.window import Window
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.properties.life import as_expired
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.outcomes import NOBODY, Ending, MetBy

_LOG = logging.getLogger("mayfly.disposal")


def discard_expired(
    core: Core,
    found: Collection[tuple[LocalQueue, StoredMessage, int]],
    now_ms: int,
    met_by: MetBy,
    ending: Ending = NOBODY,
) -> Transaction:
    """Return the transaction that discards expired messages and sends their reports (E13, E14).

    The messages are hidden from this moment on. Discards are never part of anybody's unit of work.
    The records say what has met them, and on whose behalf.
    """
    ending = ending._replace(met_by=met_by.value)
    transaction = Transaction()
    deadlines_ms = []
    with core.alike_warnings.batch(now_ms):
        for each in found:
            messages.end(core, transaction, each, Event.DEADLINE_SEEN, now_ms, ending=ending)
            _follow(core, transaction, each[:2], now_ms)
            deadlines_ms.append(each[1].expire_at_ms or now_ms)
    core.expiry_lateness.note(deadlines_ms, now_ms)
    if core.on_expiry:
        tell_expired(core, transaction, (each[:2] for each in found), now_ms, ending.met_by)
    return transaction


def discard_late(
    core: Core,
    transaction: Transaction,
    late: Collection[tuple[LocalQueue, StoredMessage]],
    now_ms: int,
    ending: Ending,
) -> None:
    """Add the ends of puts that expired before their commit to its transaction, and reports (E17).

    They are never part of their queues, where they have counted as uncommitted. ``ending`` is that
    of the unit of work.
    """
    for each in late:
        puts.end_late(core, transaction, each, now_ms, ending)
        _follow(core, transaction, each, now_ms)
    if core.on_expiry:
        tell_expired(core, transaction, late, now_ms, MetBy.COMMIT.value)


def follow_expiry(
    core: Core,
    transaction: Transaction,
    ended: tuple[LocalQueue, StoredMessage],
    original: Original,
) -> None:
    """Add to a transaction what the end of an expired message owes: its report, and EXPQ's move."""
    queue, row = ended
    send_report(core, transaction, Cause.EXPIRATION, original)
    origin, target = _expiry_queue_of(core, queue, row)
    if target:
        _move(core, transaction, (origin, target), row, original)


def _follow(
    core: Core, transaction: Transaction, ended: tuple[LocalQueue, StoredMessage], now_ms: int
) -> None:
    queue, row = ended
    descriptor = unpack_descriptor(row.descriptor)
    if descriptor.report or queue.is_staging or queue.definition.expq:
        original = behind_transit(core, queue, original_of(queue, row, descriptor, now_ms))
        follow_expiry(core, transaction, ended, original)


def _expiry_queue_of(core: Core, queue: LocalQueue, row: StoredMessage) -> tuple[LocalQueue, str]:
    """Return the queue whose EXPQ counts, and its EXPQ, "" for none.

    A delayed message is one of the queue that it was put to.
    """
    if queue.is_staging and row.target is not None:
        try:
            path = core.registry.resolve_target(row.target)
        except MQError:
            return queue, ""
        if path.remote is not None:
            return queue, ""
        queue = path.queue
    return queue, queue.definition.expq


def _move(
    core: Core,
    transaction: Transaction,
    way: tuple[LocalQueue, str],
    row: StoredMessage,
    original: Original,
) -> None:
    """Add the put of an expired message to the queue that EXPQ names.

    It has no expiry there, whatever CAPEXPRY says: else it could expire on and on. Where the queue
    does not take it, it goes to the dead-letter queue; where that does not either, or is the queue
    where it has expired, nothing is left of it.
    """
    origin, target = way
    try:
        message = _moved(core, origin, row, original)
        try:
            _put(core, transaction, way, message)
        except MQError as failure:
            if _leads_to(core, dead_letter_queue_of(core), origin):
                raise
            dead_letter(core, transaction, message, failure.reason, target)
    except MQError as error:
        said = f"expired message of {origin.name} discarded: {error}"
        kind = "expired", origin.name, error.reason
        core.alike_warnings.note(_LOG, kind, core.now_ms(), said)


def _moved(
    core: Core, origin: LocalQueue, row: StoredMessage, original: Original
) -> OutgoingMessage:
    assert row.expire_at_ms is not None
    descriptor, body = as_expired(original.descriptor, original.body, origin.name, row.expire_at_ms)
    window = Window(row.put_ms, row.put_ms, None)
    ids = Ids(original.msg_id, original.correl_id, original.msg_id)
    return OutgoingMessage(as_given(core, descriptor), window, ids, body)


def _put(
    core: Core, transaction: Transaction, way: tuple[LocalQueue, str], message: OutgoingMessage
) -> None:
    origin, target = way
    path = core.registry.resolve_target(target)
    if path.remote is None and path.queue is origin:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"EXPQ of {origin.name} leads to {origin.name}")
    prepared = message.prepared
    size_bytes = size_on(path, prepared.descriptor, len(message.body))
    check_room(path, size_bytes, persistent=prepared.persistent)
    arrive(core, transaction, path, prepared, new_row(core, path, message))


def _leads_to(core: Core, name: str, queue: LocalQueue) -> bool:
    path = core.registry.resolve_target(name)
    return path.remote is None and path.queue is queue
