"""The staging queue: how a delayed message is stored there, and how a get or browse shows it.

A row holds the original message with its ids, under a key that contains the delivery time;
``target`` is the name it was put to. Applications see what delivery delay documents: a new MsgId
(``shown_id``), the original MsgId as CorrelId, and an MQHDDLY header before the data (D2, D3). A
message that was put there with a damaged header has no target, and is shown as it was put.
"""

from __future__ import annotations

from heapq import merge
from typing import NamedTuple, TypeAlias

from mayfly.engine.core import Core
from mayfly.engine.descriptors import Prepared
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.engine.remote_queues import full_name
from mayfly.lifetime.window import LATEST_DUE_MS, Window
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQIT_NONE, MQMDS_FIFO
from mayfly.mqi.delay_header import FORMAT, HEADER_BYTES, STAGING_QUEUE, read_delay_header
from mayfly.mqi.descriptor import pack_descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.structures import DDH
from mayfly.store.keys import (
    STAGING_LOW,
    delayed_id,
    due_ms_of,
    id_hash,
    optional_id_hash,
    staging_id,
)
from mayfly.store.messages import Due
from mayfly.store.units import StoredMessage

#: A staged message and its persistence.
DueWithPersistence: TypeAlias = tuple[Due, int]
#: Values of ``StoredMessage.ttl_from_release``; None means that all was settled at the put. Else
#: the life begins at the release, or caps of the target, too low at the put, are applied then.
LIFE_AT_RELEASE, CAP_AT_RELEASE = 1, 0
_ZERO_ID = bytes(24)
_PREFIX, _MARK = b"AMQD", b"\x02"
_UNIQUE_BYTES = 3


class Delayed(NamedTuple):
    """A message on its way to the staging queue; an empty MsgId asks for a new one."""

    prepared: Prepared
    window: Window
    msg_id: bytes
    correl_id: bytes
    body: bytes


def staging_path(core: Core, body_bytes: int) -> ResolvedQueue:
    """Return the path of the staging queue if it accepts a message of ``body_bytes`` (D11, D14).

    Raises MQRC_UNKNOWN_OBJECT_NAME when the staging queue is not defined, MQRC_Q_INDEX_TYPE_ERROR
    on z/OS unless it is FIFO and without an index, MQRC_PUT_INHIBITED, MQRC_MSG_TOO_BIG_FOR_Q,
    MQRC_Q_FULL.
    """
    staging = core.registry.resolve(STAGING_QUEUE)
    unsuitable = why_unsuitable(core, staging.queue)
    if unsuitable:
        raise mq_error(rc.MQRC_Q_INDEX_TYPE_ERROR, unsuitable)
    if staging.put_inhibited:
        raise mq_error(rc.MQRC_PUT_INHIBITED, f"PUT(DISABLED) on {STAGING_QUEUE}")
    if body_bytes + HEADER_BYTES > staging.max_message_bytes:
        raise mq_error(
            rc.MQRC_MSG_TOO_BIG_FOR_Q,
            f"{body_bytes + HEADER_BYTES} bytes with header; {STAGING_QUEUE} takes "
            f"MAXMSGL({staging.max_message_bytes})",
        )
    # Puts of open units of work count, though no depth shows them before the commit (D12).
    if staging.queue.depth + staging.queue.uncommitted_staged >= staging.max_depth:
        raise mq_error(rc.MQRC_Q_FULL, f"{STAGING_QUEUE} holds MAXDEPTH({staging.max_depth})")
    return staging


def why_unsuitable(core: Core, queue: LocalQueue) -> str:
    """Return why z/OS cannot use the staging queue as defined (D14), as text.

    Empty when the definition is right, and on other platforms.
    """
    if core.platform != "zos":
        return ""
    definition = queue.definition
    if definition.indxtype != MQIT_NONE:
        return f"{STAGING_QUEUE} must be defined with INDXTYPE(NONE)"
    if definition.msgdlvsq != MQMDS_FIFO:
        return f"{STAGING_QUEUE} must be defined with MSGDLVSQ(FIFO)"
    return ""


def staged_row(core: Core, target: ResolvedQueue | None, message: Delayed) -> StoredMessage:
    """Return a new row for the staging queue that holds a delayed message.

    Its key contains the delivery time. Without a ``target`` the row is counted for no queue, and
    the caller sets the name of its target. The engine lock is held.
    """
    assert core.engine_lock.is_held()
    prepared, window, msg_id, correl_id, body = message
    key = core.staging.order.next_key(window.deliver_at_ms)
    sequence = core.store.sequence
    if msg_id:
        msg_hash = id_hash(msg_id)
        shown_id = given_id(key, msg_hash, sequence.next())
    else:
        msg_id = delayed_id(core.name, key, sequence.instance, sequence.next())
        # The id contains the key, so the index need not find it.
        msg_hash, shown_id = None, staging_id(msg_id)
    return StoredMessage(
        key,
        window.put_ms,
        window.deliver_at_ms,
        window.expire_at_ms,
        msg_hash,
        optional_id_hash(correl_id) if correl_id else None,
        0,
        msg_id,
        correl_id,
        None,
        prepared.packed,
        body,
        capped_by=window.capped_by,
        shown_id=shown_id,
        target=None if target is None else target.name,
        target_number=None if target is None else target.queue.number,
        ttl_from_release=(
            LIFE_AT_RELEASE if target is not None and target.ttl_from_release else None
        ),
    )


def row_of_staged_body(core: Core, message: Delayed, new_id: bytes) -> StoredMessage:
    """Return the row of a message that an application puts on the staging queue directly.

    With a readable MQHDDLY header the message is delayed as usual. With a damaged one it has no
    target and is due at once, so that the delay processor dead-letters it. ``new_id`` is the MsgId
    if the message has none.
    """
    prepared, window, msg_id, correl_id, body = message
    try:
        return _row_of_header(core, message)
    except MQError:
        own_id = msg_id or new_id
        return StoredMessage(
            core.staging.order.next_key(window.put_ms),
            window.put_ms,
            window.put_ms,
            window.expire_at_ms,
            id_hash(staging_id(own_id)),
            optional_id_hash(correl_id) if correl_id else None,
            0,
            staging_id(own_id),
            correl_id,
            None,
            prepared.packed,
            body,
            capped_by=window.capped_by,
            shown_id=own_id,
        )


def _row_of_header(core: Core, message: Delayed) -> StoredMessage:
    """Return the row of a message whose data begin with an MQHDDLY header.

    Raises MQRC_HEADER_ERROR for an invalid header, and MQError (MQRC_UNKNOWN_OBJECT_NAME and
    others) when its target cannot be resolved.
    """
    prepared, window, _msg_id, _correl_id, body = message
    descriptor = prepared.descriptor
    if descriptor.format != FORMAT:
        raise mq_error(rc.MQRC_HEADER_ERROR, f"Format {descriptor.format!r} is not {FORMAT!r}")
    header = read_delay_header(body)
    due_ms = header.deliver_at_ms
    name = full_name(header.target_queue, header.target_manager, core.name)
    if not (0 <= due_ms <= LATEST_DUE_MS and name):
        raise mq_error(rc.MQRC_HEADER_ERROR, f"DueTime {due_ms}, target {name!r}")
    original = header.descriptor_of_data(descriptor)
    target = core.registry.resolve_target(name)
    deliver_at_ms, expire_at_ms = max(due_ms, window.put_ms), window.expire_at_ms
    if target.ttl_from_release and expire_at_ms is not None:
        expire_at_ms += deliver_at_ms - window.put_ms
    return staged_row(
        core,
        target,
        Delayed(
            prepared._replace(descriptor=original, packed=pack_descriptor(original)),
            window._replace(deliver_at_ms=deliver_at_ms, expire_at_ms=expire_at_ms),
            b"" if header.msg_id == _ZERO_ID else header.msg_id,
            b"" if header.correl_id == _ZERO_ID else header.correl_id,
            body[header.length_bytes :],
        ),
    )


def in_due_order(volatile: list[Due], persistent: list[Due]) -> list[DueWithPersistence]:
    """Merge non-persistent and persistent messages by key, each with its persistence."""
    return list(merge(((d, VOLATILE) for d in volatile), ((d, PERSISTENT) for d in persistent)))


def shown(core: Core, row: StoredMessage) -> StoredMessage:
    """Return a row of the staging queue as applications see it: new ids, header before the data.

    A row without a target has its MsgId replaced only.
    """
    assert row.shown_id is not None
    if row.target is None:
        return row._replace(msg_id=row.shown_id)
    original = unpack_descriptor(row.descriptor)
    queue, _, manager = row.target.partition("@")
    header = DDH.pack(
        {
            "TargetNumber": row.target_number or 0,
            "DueTime": due_ms_of(row.k),
            "TargetQName": queue,
            "TargetQMgrName": manager or core.name,
            "OriginalMsgId": row.msg_id,
            "OriginalCorrelId": row.correl_id,
            "Encoding": original.encoding,
            "CodedCharSetId": original.coded_char_set_id,
            "Format": original.format,
        }
    )
    return row._replace(
        msg_id=row.shown_id,
        correl_id=row.msg_id,
        descriptor=pack_descriptor(original._replace(format=FORMAT)),
        body=header + row.body,
        topic=None,
    )


def given_id(key: int, msg_hash: int, sequence: int) -> bytes:
    """Return a MsgId for the staging queue that contains the key, the hash, and a sequence number.

    ``key`` is that of the message in the store, ``msg_hash`` the hash of its original MsgId. The id
    is for a message whose sender has set the original MsgId.
    """
    unique = (sequence % 2 ** (8 * _UNIQUE_BYTES)).to_bytes(_UNIQUE_BYTES, "big")
    place, indexed = (
        (key - STAGING_LOW).to_bytes(8, "big"),
        msg_hash.to_bytes(8, "big", signed=True),
    )
    return b"".join((_PREFIX, unique, indexed[:4], _MARK, place, indexed[4:]))


def of_given_id(core: Core, shown_id: bytes) -> StoredMessage | None:
    """Return the staged message whose shown MsgId :func:`given_id` has made; None without one."""
    assert core.engine_lock.is_held()
    if shown_id[:4] != _PREFIX or shown_id[11:12] != _MARK:
        return None
    key = STAGING_LOW + int.from_bytes(shown_id[12:20], "big")
    for persistence in (VOLATILE, PERSISTENT):
        row = core.messages(persistence).row(key)
        if row is not None and row.shown_id == shown_id:
            return row
    return _moved(core, shown_id)


def _moved(core: Core, shown_id: bytes) -> StoredMessage | None:
    """Return a rescheduled message, whose key has changed, by its shown MsgId; None without one."""
    msg_hash = int.from_bytes(shown_id[7:11] + shown_id[20:], "big", signed=True)
    staging = core.registry.staging()
    if staging is None:
        return None
    for persistence, count in enumerate(staging.present):
        messages = core.messages(persistence)
        for row in messages.by_msg_hash(msg_hash, staging.low, staging.high, count):
            if row.shown_id == shown_id:
                return row
    return None
