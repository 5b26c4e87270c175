"""The staging queue's own business: the header of a delayed message, its key, counts by target."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.engine.core import Core, Work
from mayfly.engine.delivery import Ids, Outgoing, new_id
from mayfly.engine.objects import STAGING_QUEUE, Path
from mayfly.engine.queues import LocalQueue
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor, pack_descriptor
from mayfly.mqi.errors import mq_error
from mayfly.mqi.structures import DDH
from mayfly.store.keys import id_hash
from mayfly.store.units import StoredMessage

_FORMAT = "MQHDDLY"
_ZERO_ID = bytes(24)


class Staged(NamedTuple):
    """What the header of a staged message says of the original."""

    target: str
    target_number: int
    ids: Ids
    descriptor: Descriptor
    body: bytes


def staging_queue(core: Core) -> LocalQueue:
    """Return the staging queue; raises MQRC_UNKNOWN_OBJECT_NAME where it is not defined (D14)."""
    queue = core.registry.staging()
    if queue is None:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"{STAGING_QUEUE} is not defined")
    return queue


def staged_row(core: Core, target: Path, message: Outgoing) -> StoredMessage:
    """Return the row of a delayed message on the staging queue (D2, D3).

    It has a new MsgId, and the original MsgId as its CorrelId; the header keeps the rest.
    """
    prepared, window, ids, body = message
    original = prepared.descriptor
    header = DDH.pack(
        {
            "TargetNumber": target.queue.number,
            "DueTime": window.deliver_at_ms,
            "TargetQName": target.name,
            "TargetQMgrName": core.name,
            "OriginalMsgId": ids.msg_id,
            "OriginalCorrelId": ids.correl_id,
            "Encoding": original.encoding,
            "CodedCharSetId": original.coded_char_set_id,
            "Format": original.format,
        }
    )
    msg_id = new_id(core)
    return StoredMessage(
        core.staging_order.next_key(window.deliver_at_ms),
        window.put_ms,
        window.deliver_at_ms,
        window.expire_at_ms,
        id_hash(msg_id),
        id_hash(ids.msg_id),
        0,
        msg_id,
        ids.msg_id,
        None,
        pack_descriptor(original._replace(format=_FORMAT)),
        header + body,
    )


def read_staged(row: StoredMessage, descriptor: Descriptor) -> Staged:
    """Return the original message from a row of the staging queue.

    Raises MQRC_HEADER_ERROR when somebody put a message there that has no header.
    """
    if descriptor.format != _FORMAT:
        raise mq_error(rc.MQRC_HEADER_ERROR, f"Format {descriptor.format!r} is not {_FORMAT!r}")
    header = DDH.unpack(row.body)
    number, length = header["TargetNumber"], header["StrucLength"]
    msg_id, correl_id = header["OriginalMsgId"], header["OriginalCorrelId"]
    encoding, ccsid = header["Encoding"], header["CodedCharSetId"]
    assert isinstance(number, int)
    assert isinstance(length, int)
    assert isinstance(encoding, int)
    assert isinstance(ccsid, int)
    assert isinstance(msg_id, bytes)
    assert isinstance(correl_id, bytes)
    return Staged(
        str(header["TargetQName"]),
        number,
        Ids(msg_id, b"" if correl_id == _ZERO_ID else correl_id, row.msg_id),
        descriptor._replace(
            format=str(header["Format"]), encoding=encoding, coded_char_set_id=ccsid
        ),
        row.body[length:],
    )


def count_staged(
    core: Core, work: Work, row: StoredMessage, change: int, *, persistent: bool
) -> None:
    """Count a staged message for the queue it waits to reach; durable like its other totals."""
    header = DDH.unpack(row.body)
    number = header["TargetNumber"]
    assert isinstance(number, int)
    queue = core.registry.target(number)
    if queue is not None:
        delta = work.unit.delta(-number)
        delta.present += change
        delta.present_volatile += 0 if persistent else change
        work.staged.append((queue, change))
