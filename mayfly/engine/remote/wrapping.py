"""A message on a transmission queue: the original behind an MQXQH, with a descriptor of its own."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

from mayfly.engine.descriptors import Prepared
from mayfly.engine.remote.resolution import Remote
from mayfly.lifetime.times import put_date, put_time
from mayfly.lifetime.transmission import counted_down
from mayfly.lifetime.window import Window, remaining_tenths
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import (
    MQAT_QMGR,
    MQCCSI_Q_MGR,
    MQENC_NATIVE,
    MQMF_NONE,
    MQOL_UNDEFINED,
    MQRO_ACCEPT_UNSUP_IF_XMIT_MASK,
)
from mayfly.mqi.descriptor import Descriptor, pack_descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.structures import MDE, XQH
from mayfly.store.units import StoredMessage

TRANSMISSION_FORMAT = "MQXMIT"
_EXTENSION_FORMAT = "MQHMDE"
#: How the data of a message in transit begin.
TRANSMISSION_MARK: Final = b"XQH "
_HEADER_BYTES = XQH.length(1)
_EXTENSION_BYTES = MDE.length(2)
_EMBEDDED = "MsgDesc."


class Travelling(NamedTuple):
    """A message for a transmission queue: a descriptor of its own, CorrelId and data."""

    prepared: Prepared
    correl_id: bytes
    body: bytes


class Embedded(NamedTuple):
    """The message behind an MQXQH: ids of 24 bytes, the data behind all of the headers of transit.

    ``expiry_tenths`` is the embedded Expiry as it stands there.
    """

    remote: Remote
    descriptor: Descriptor
    msg_id: bytes
    correl_id: bytes
    expiry_tenths: int
    body: bytes


def header_bytes(descriptor: Descriptor) -> int:
    """Return by how much a message grows on a transmission queue."""
    return _HEADER_BYTES + (_EXTENSION_BYTES if _needs_extension(descriptor) else 0)


def wrapped(
    way: tuple[str, Remote],
    prepared: Prepared,
    window: Window,
    ids: tuple[bytes, bytes],
    body: bytes,
) -> Travelling:
    """Return a message as it stands on the transmission queue (E23).

    The ``way`` is from the queue manager of this name to that queue; ids are MsgId and CorrelId.
    Both Expiry fields say what is left at the put; the MQMD of version 1 inside has an MQMDE behind
    it when the message is in a group or a segment. Raises MQRC_MD_ERROR for a field of the
    descriptor that has no room in an MQMD.
    """
    manager_name, remote = way
    descriptor = prepared.descriptor
    msg_id, correl_id = ids
    inner, extension = descriptor, b""
    if _needs_extension(descriptor):
        inner, extension = extended(descriptor)
    header = _packed(
        {
            "RemoteQName": remote.queue,
            "RemoteQMgrName": remote.manager,
            **_embedded_fields(inner),
            f"{_EMBEDDED}Expiry": remaining_tenths(window.expire_at_ms, window.put_ms),
            f"{_EMBEDDED}MsgId": msg_id,
            f"{_EMBEDDED}CorrelId": correl_id or bytes(24),
            f"{_EMBEDDED}PutDate": descriptor.put_date or put_date(window.put_ms),
            f"{_EMBEDDED}PutTime": descriptor.put_time or put_time(window.put_ms),
        }
    )
    outer = _outer(prepared, manager_name)
    return Travelling(outer, msg_id, header + extension + body)


def unwrapped(body: bytes, encoding: int) -> Embedded:
    """Return the message behind an MQXQH, ``encoding`` being that of the descriptor outside.

    Raises MQRC_XQH_ERROR, and MQRC_MDE_ERROR for a damaged extension behind it.
    """
    header = XQH.unpack(body, big_endian=is_big_endian(encoding))
    fields = {k.removeprefix(_EMBEDDED): v for k, v in header.items() if k.startswith(_EMBEDDED)}
    data = body[_HEADER_BYTES:]
    if fields["Format"] == _EXTENSION_FORMAT:
        inner_encoding = fields["Encoding"]
        assert isinstance(inner_encoding, int)
        extension = MDE.unpack(data, big_endian=is_big_endian(inner_encoding))
        fields |= {k: v for k, v in extension.items() if k in _EXTENDED or k in _OF_DATA}
        data = data[_EXTENSION_BYTES:]
    remote = Remote(str(header["RemoteQName"]), str(header["RemoteQMgrName"]))
    msg_id, correl_id, expiry = fields["MsgId"], fields["CorrelId"], fields["Expiry"]
    assert isinstance(msg_id, bytes)
    assert isinstance(correl_id, bytes)
    assert isinstance(expiry, int)
    known: dict[str, Any] = {_PYTHON_NAMES[k]: v for k, v in fields.items() if k in _PYTHON_NAMES}
    descriptor = Descriptor(**known, version=2 if _EXTENDED[0] in fields else 1)
    return Embedded(remote, descriptor, msg_id, correl_id, expiry, data)


def seen_in_transit(row: StoredMessage, now_ms: int) -> StoredMessage:
    """Return a row as it is seen now: an MQXQH at the start of its data has aged with it (E24)."""
    if row.body[:4] != TRANSMISSION_MARK:
        return row
    descriptor = unpack_descriptor(row.descriptor)
    if descriptor.format != TRANSMISSION_FORMAT:
        return row
    big_endian = is_big_endian(descriptor.encoding)
    return row._replace(body=counted_down(row.body, now_ms - row.put_ms, big_endian=big_endian))


def embedded_or_none(body: bytes | None, descriptor: Descriptor) -> Embedded | None:
    """Return the message behind the MQXQH of a message in transit, None when there is none."""
    if body is None or descriptor.format != TRANSMISSION_FORMAT:
        return None
    try:
        return unwrapped(body, descriptor.encoding)
    except MQError:
        return None


def _packed(fields: dict[str, object]) -> bytes:
    try:
        return XQH.pack(fields)
    except ValueError as error:
        raise mq_error(rc.MQRC_MD_ERROR, f"it cannot travel: {error}") from None


def _needs_extension(descriptor: Descriptor) -> bool:
    return (
        descriptor.msg_flags != MQMF_NONE
        or descriptor.original_length != MQOL_UNDEFINED
        or bool(descriptor.group_id.strip(b"\0"))
        or descriptor.msg_seq_number != 1
        or descriptor.offset != 0
    )


@lru_cache(maxsize=1024)
def extended(descriptor: Descriptor) -> tuple[Descriptor, bytes]:
    """Return the descriptor of version 1 that announces an MQMDE, and the MQMDE."""
    extension = MDE.pack(
        {
            "Encoding": descriptor.encoding,
            "CodedCharSetId": descriptor.coded_char_set_id,
            "Format": descriptor.format,
            "GroupId": descriptor.group_id,
            "MsgSeqNumber": descriptor.msg_seq_number,
            "Offset": descriptor.offset,
            "MsgFlags": descriptor.msg_flags,
            "OriginalLength": descriptor.original_length,
        }
    )
    announcing = descriptor._replace(
        format=_EXTENSION_FORMAT, encoding=MQENC_NATIVE, coded_char_set_id=MQCCSI_Q_MGR
    )
    return announcing, extension


#: Fields of an MQMD version 1 and of an MQMDE by the names that a Descriptor gives them.
_PYTHON_NAMES = {
    "Report": "report",
    "MsgType": "msg_type",
    "Feedback": "feedback",
    "Encoding": "encoding",
    "CodedCharSetId": "coded_char_set_id",
    "Format": "format",
    "Priority": "priority",
    "Persistence": "persistence",
    "ReplyToQ": "reply_to_q",
    "ReplyToQMgr": "reply_to_q_mgr",
    "UserIdentifier": "user_identifier",
    "AccountingToken": "accounting_token",
    "ApplIdentityData": "appl_identity_data",
    "PutApplType": "put_appl_type",
    "PutApplName": "put_appl_name",
    "PutDate": "put_date",
    "PutTime": "put_time",
    "ApplOriginData": "appl_origin_data",
    "GroupId": "group_id",
    "MsgSeqNumber": "msg_seq_number",
    "Offset": "offset",
    "MsgFlags": "msg_flags",
    "OriginalLength": "original_length",
}
_EXTENDED = ("GroupId", "MsgSeqNumber", "Offset", "MsgFlags", "OriginalLength")
_OF_DATA = ("Encoding", "CodedCharSetId", "Format")
_LATER = ("PutDate", "PutTime", *_EXTENDED)
_FIRST_VERSION = [k for k in _PYTHON_NAMES if k not in _LATER]


@lru_cache(maxsize=1024)
def _embedded_fields(descriptor: Descriptor) -> dict[str, object]:
    return {
        f"{_EMBEDDED}{name}": getattr(descriptor, _PYTHON_NAMES[name]) for name in _FIRST_VERSION
    }


@lru_cache(maxsize=1024)
def _outer(prepared: Prepared, manager_name: str) -> Prepared:
    """Return the descriptor that a message has on its way: the queue manager has put it.

    Options that would confirm its arrival or delivery here are left to the end of the way.
    """
    descriptor = prepared.descriptor
    outer = descriptor._replace(
        report=descriptor.report & ~MQRO_ACCEPT_UNSUP_IF_XMIT_MASK,
        encoding=MQENC_NATIVE,
        coded_char_set_id=MQCCSI_Q_MGR,
        format=TRANSMISSION_FORMAT,
        put_appl_type=MQAT_QMGR,
        put_appl_name=manager_name[:28],
        put_date="",
        put_time="",
        appl_origin_data="",
        version=1,
        group_id=b"",
        msg_seq_number=1,
        offset=0,
        msg_flags=MQMF_NONE,
        original_length=MQOL_UNDEFINED,
    )
    return prepared._replace(descriptor=outer, packed=pack_descriptor(outer))
