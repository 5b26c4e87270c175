"""The put of a message on a local queue: its row, its key, and the checks before it."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from mayfly.engine import queue_state
from mayfly.engine.core import Core
from mayfly.engine.descriptors import Prepared
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.remote_queues import Remote, header_bytes, wrapped
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.window import Window, capped_from
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.keys import generated_id, id_hash, optional_id_hash
from mayfly.store.units import NO_MORE_COLUMNS, StoredMessage, stored_message
from mayfly.verbs.checks import ID_BYTES

_ZERO_ID = bytes(ID_BYTES)


class MessageIds(NamedTuple):
    """MsgId and CorrelId of a message, 24 bytes each; CorrelId is empty for all zeros.

    ``origin_id`` is the MsgId that the message had before it was moved here, for example from the
    staging queue; None for a new message.
    """

    msg_id: bytes
    correl_id: bytes
    origin_id: bytes | None = None


class OutgoingMessage(NamedTuple):
    """A message before its put: checked descriptor, put time and expiry, ids and data."""

    prepared: Prepared
    window: Window
    ids: MessageIds
    body: bytes


#: The fields of an outgoing message: a put makes no named tuple of them, which takes 0.3 µs.
OutgoingFields: TypeAlias = tuple[Prepared, Window, tuple[bytes, bytes, bytes | None], bytes]


def new_id(core: Core) -> bytes:
    """Return a new MsgId, 24 bytes; needs the engine lock."""
    assert core.engine_lock.is_held()
    return generated_id(core.start_of_ids, core.store.sequence.next())


def new_message_id(core: Core) -> bytes:
    """Return a new MsgId, 24 bytes; takes the engine lock."""
    with core.engine_lock:
        return new_id(core)


def check_capacity(path: ResolvedQueue, prepared: Prepared, body_bytes: int) -> None:
    """Raise the error for which a queue refuses a message of this size now (C5, P7, P8).

    MQRC_PUT_INHIBITED, MQRC_MSG_TOO_BIG_FOR_Q, MQRC_MSG_TOO_BIG_FOR_Q_MGR, MQRC_Q_FULL;
    MQRC_PERSISTENT_NOT_ALLOWED on a temporary queue; MQRC_NOT_AUTHORIZED on the staging queue.
    ``path`` is the resolved name of the queue, ``prepared`` the checked descriptor. The
    transmission header counts in the size.
    """
    queue = path.queue
    if queue.is_staging:
        raise mq_error(
            rc.MQRC_NOT_AUTHORIZED, f"{queue.name} takes only puts with a delivery delay"
        )
    size_bytes = size_on(path, prepared.descriptor, body_bytes)
    check_open(path, size_bytes)
    if prepared.persistent and path.is_temporary:
        raise refusal(path, size_bytes)


def check_open(path: ResolvedQueue, body_bytes: int) -> None:
    """Raise the error for which a queue refuses any message of this size now (P7, P8).

    MQRC_PUT_INHIBITED, MQRC_MSG_TOO_BIG_FOR_Q, MQRC_MSG_TOO_BIG_FOR_Q_MGR, MQRC_Q_FULL.
    ``path`` is the resolved name of the queue.
    """
    if path.put_inhibited or body_bytes > path.largest_bytes or path.queue.depth >= path.max_depth:
        raise refusal(path, body_bytes)


def refusal(path: ResolvedQueue, body_bytes: int) -> MQError:
    """Return the error with which a queue refuses a message; call it only for a refused message.

    Without another cause that is MQRC_PERSISTENT_NOT_ALLOWED. A full queue may make an event.
    """
    queue = path.queue
    if path.put_inhibited:
        return mq_error(rc.MQRC_PUT_INHIBITED, f"PUT(DISABLED) on the way to {path.name}")
    if body_bytes > path.max_message_bytes:
        text = f"{body_bytes} bytes; {queue.name} takes MAXMSGL({path.max_message_bytes})"
        return mq_error(rc.MQRC_MSG_TOO_BIG_FOR_Q, text)
    if body_bytes > path.largest_bytes:
        text = f"{body_bytes} bytes; MAXMSGL({path.largest_bytes})"
        return mq_error(rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR, text)
    if queue.depth >= path.max_depth:
        if queue.statistics is not None:
            queue.statistics.note_full(queue)
        return mq_error(rc.MQRC_Q_FULL, f"{queue.name} holds MAXDEPTH({path.max_depth})")
    return mq_error(rc.MQRC_PERSISTENT_NOT_ALLOWED, f"{queue.name} is a temporary queue")


def size_on(path: ResolvedQueue, descriptor: Descriptor, body_bytes: int) -> int:
    """Return the length of a message on its queue in bytes, with its transmission header if any."""
    return body_bytes if path.remote is None else body_bytes + header_bytes(descriptor)


def new_row(core: Core, path: ResolvedQueue, message: OutgoingFields) -> StoredMessage:
    """Return the row of a message for the store, with a new key.

    A message without MsgId gets a new one.
    A message for another queue manager is put behind a transmission header, under a separate MsgId
    (E23). Nothing is stored yet. Needs the engine lock.
    """
    assert core.engine_lock.is_held()
    if path.remote is not None:
        message = _in_transit(core, path.remote, message)
    prepared, window, (msg_id, correl_id, origin_id), body = message
    queue_owner = path.queue.owner
    key = path.slots[prepared.order_priority] | queue_owner.store.sequence.next()
    if msg_id:
        msg_hash = id_hash(msg_id)
    elif queue_owner is core:
        # The MsgId contains the key, so it needs no index.
        msg_id, msg_hash = generated_id(core.start_of_ids, key), None
    else:
        msg_id = new_id(core)
        msg_hash = id_hash(msg_id)
    columns = (
        key,
        window.put_ms,
        None if window.deliver_at_ms == window.put_ms else window.deliver_at_ms,
        window.expire_at_ms,
        msg_hash,
        optional_id_hash(correl_id) if correl_id else None,
        0,
        msg_id,
        correl_id,
        origin_id,
        prepared.packed,
        body,
    )
    # An argument by name would cost each put 0.7 µs of 17.
    if window.capped_by is None:
        return stored_message(columns + NO_MORE_COLUMNS)
    return StoredMessage(*columns, capped_by=window.capped_by)


def _in_transit(core: Core, remote: Remote, message: OutgoingFields) -> OutgoingMessage:
    """Return the message for the transmission queue: MQXQH before the data, and a new MsgId."""
    prepared, window, (msg_id, given_correl_id, origin_id), body = message
    msg_id = msg_id or new_id(core)
    outer, correl_id, data = wrapped(
        core.name, remote, prepared, window, msg_id, given_correl_id, body
    )
    return OutgoingMessage(outer, window, MessageIds(new_id(core), correl_id, origin_id), data)


def arrive(
    core: Core,
    transaction: Transaction,
    path: ResolvedQueue,
    prepared: Prepared,
    row: StoredMessage,
) -> None:
    """Add the put of a row to a transaction, and count its space on the queue from now on.

    ``path`` leads to the queue; ``prepared`` says whether the message is persistent.
    """
    queue_state.arrive(core, transaction, path.queue, row, persistent=prepared.persistent)


def send(
    core: Core, transaction: Transaction, path: ResolvedQueue, message: OutgoingMessage
) -> None:
    """Add the put of a message of the queue manager itself, such as a report, to a transaction.

    A CAPEXPRY limit of the queue shortens its expiry from now on (X1, X3). Raises the errors of
    :func:`check_capacity`. Needs the engine lock.
    """
    assert core.engine_lock.is_held()
    prepared, window, _ids, body = message
    check_capacity(path, prepared, len(body))
    capped = capped_from(window, core.now_ms(), path.cap_ms, path.capped_by)
    arrive(core, transaction, path, prepared, new_row(core, path, message._replace(window=capped)))
