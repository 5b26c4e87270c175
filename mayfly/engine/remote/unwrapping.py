"""The message that a channel sends from a transmission queue: the one behind its MQXQH."""

from __future__ import annotations

from functools import lru_cache

from mayfly.engine.descriptors import Context, prepare
from mayfly.engine.remote.wrapping import (
    TRANSMISSION_FORMAT,
    Embedded,
    seen_in_transit,
    unwrapped,
)
from mayfly.lifetime.transmission import embedded_expiry
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import (
    MQAT_QMGR,
    MQFB_XMIT_Q_MSG_ERROR,
    MQFMT_MD_EXTENSION,
    MQPMO_SET_ALL_CONTEXT,
)
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.structures import XQH
from mayfly.store.units import StoredMessage

_HEADER_BYTES = XQH.length(1)
_EXPIRY = XQH.offset_of("MsgDesc.Expiry")
_MSG_ID, _CORREL_ID = XQH.offset_of("MsgDesc.MsgId"), XQH.offset_of("MsgDesc.CorrelId")
_PUT_DATE, _PUT_TIME = XQH.offset_of("MsgDesc.PutDate"), XQH.offset_of("MsgDesc.PutTime")
_FORMAT = XQH.offset_of("MsgDesc.Format")
_NOBODY = Context("", MQAT_QMGR, "", "")
_ID_BYTES, _NUMBER_BYTES, _TIME_BYTES, _FORMAT_BYTES = 24, 4, 8, 8


def out_of_transit(row: StoredMessage, now_ms: int) -> Embedded:
    """Return the message behind the MQXQH of a row, its embedded Expiry as it is now (E24).

    Raises an MQError with reason MQFB_XMIT_Q_MSG_ERROR for what no channel can send: without an
    MQXQH, with a damaged one, or for a queue that no name can have.
    """
    descriptor = unpack_descriptor(row.descriptor)
    try:
        if descriptor.format != TRANSMISSION_FORMAT:
            raise mq_error(rc.MQRC_XQH_ERROR, f"Format {descriptor.format!r} is not MQXMIT")
        embedded = _unwrapped(seen_in_transit(row, now_ms).body, descriptor.encoding)
        remote = embedded.remote
        # No name has it, and behind it that of another queue manager would be looked for.
        if "@" in remote.queue or "@" in remote.manager:
            raise mq_error(rc.MQRC_XQH_ERROR, f"{remote.queue!r}, {remote.manager!r}: no names")
    except MQError as error:
        raise MQError(MQFB_XMIT_Q_MSG_ERROR, str(error)) from error
    return embedded


def _unwrapped(body: bytes, encoding: int) -> Embedded:
    """Return what :func:`unwrapped` does; most messages of a program share most of their header."""
    if len(body) < _HEADER_BYTES:
        return _checked(unwrapped(body, encoding))
    ids_end, times_end = _CORREL_ID + _ID_BYTES, _PUT_TIME + _TIME_BYTES
    shared = b"".join(
        (
            body[:_EXPIRY],
            bytes(_NUMBER_BYTES),
            body[_EXPIRY + _NUMBER_BYTES : _MSG_ID],
            bytes(2 * _ID_BYTES),
            body[ids_end:_PUT_DATE],
            bytes(2 * _TIME_BYTES),
            body[times_end:_HEADER_BYTES],
        )
    )
    like = _like(shared, encoding)
    if like is None:
        return _checked(unwrapped(body, encoding))
    big_endian = is_big_endian(encoding)
    return like._replace(
        descriptor=like.descriptor._replace(
            put_date=body[_PUT_DATE:_PUT_TIME].decode("latin-1").rstrip(" \0"),
            put_time=body[_PUT_TIME:times_end].decode("latin-1").rstrip(" \0"),
        ),
        msg_id=body[_MSG_ID:_CORREL_ID],
        correl_id=body[_CORREL_ID:ids_end],
        expiry_tenths=embedded_expiry(body, big_endian=big_endian),
        body=body[_HEADER_BYTES:],
    )


@lru_cache(maxsize=1024)
def _like(header: bytes, encoding: int) -> Embedded | None:
    """Return what a header says without ids and times; None when more than it has to be read."""
    format_name = header[_FORMAT : _FORMAT + _FORMAT_BYTES]
    return None if format_name == MQFMT_MD_EXTENSION else _checked(unwrapped(header, encoding))


def _checked(embedded: Embedded) -> Embedded:
    """Return it unless no queue at all could take it, not even a dead-letter queue.

    Report options are left to the receiver, which owes the reports.
    """
    descriptor = embedded.descriptor._replace(report=0)
    prepare(descriptor, 0, 0, _NOBODY, MQPMO_SET_ALL_CONTEXT)
    return embedded
