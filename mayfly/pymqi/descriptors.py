"""MD and the descriptor of the queue manager: each in the form of the other; cached by value."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

from mayfly.lifetime.times import put_date, put_time
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.code_pages import MANAGER_CCSID
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error
from mayfly.pymqi.structures import MD
from mayfly.pymqi.variable_strings import Fields

_VERSIONS = (c.MQMD_VERSION_1, c.MQMD_VERSION_2)
_VERSION_2_FIELDS = ("GroupId", "MsgSeqNumber", "Offset", "MsgFlags", "OriginalLength")
#: The fields that a put reads, beside ids, Expiry, and date and time of an origin context.
_READ_BY_PUT = (
    "StrucId",
    "Version",
    "Report",
    "MsgType",
    "Feedback",
    "Encoding",
    "CodedCharSetId",
    "Format",
    "Priority",
    "Persistence",
    "ReplyToQ",
    "ReplyToQMgr",
    "UserIdentifier",
    "AccountingToken",
    "ApplIdentityData",
    "PutApplType",
    "PutApplName",
    "ApplOriginData",
    *_VERSION_2_FIELDS,
)
_read_by_put: Callable[[Fields], tuple[Any, ...]] = itemgetter(*_READ_BY_PUT)
_GROUP_ID_BYTES: Final = MD.members["GroupId"].length


def descriptor_of(fields: Fields, context_option: int) -> Descriptor:
    """Return what a put asks for with these MD fields; raises MQRC_MD_ERROR."""
    descriptor = _descriptor(_read_by_put(fields))
    if context_option != c.MQPMO_SET_ALL_CONTEXT:
        return descriptor
    # Blank, not empty: empty is the moment of the put.
    return descriptor._replace(
        put_date=_text(fields["PutDate"]) or " ", put_time=_text(fields["PutTime"]) or " "
    )


def check_md(fields: Fields) -> None:
    """Raise MQRC_MD_ERROR unless StrucId and Version are those of an MQMD."""
    if fields["StrucId"] != c.MQMD_STRUC_ID or fields["Version"] not in _VERSIONS:
        raise mq_error(
            rc.MQRC_MD_ERROR, f"StrucId {fields['StrucId']!r}, Version {fields['Version']!r}"
        )


@lru_cache(maxsize=4096)
def fields_of(descriptor: Descriptor, version: int) -> Fields:
    """Return the MD fields that a getter with this Version of MQMD sees; do not change them."""
    ccsid = descriptor.coded_char_set_id
    fields: Fields = {
        "Report": descriptor.report,
        "MsgType": descriptor.msg_type,
        "Feedback": descriptor.feedback,
        "Encoding": descriptor.encoding,
        "CodedCharSetId": MANAGER_CCSID if ccsid == c.MQCCSI_Q_MGR else ccsid,
        **_resolved_fields_of(descriptor),
    }
    if version >= c.MQMD_VERSION_2:
        fields.update(
            GroupId=descriptor.group_id.ljust(_GROUP_ID_BYTES, b"\0"),
            MsgSeqNumber=descriptor.msg_seq_number,
            Offset=descriptor.offset,
            MsgFlags=descriptor.msg_flags,
            OriginalLength=descriptor.original_length,
        )
    return fields


@lru_cache(maxsize=4096)
def put_fields_of(descriptor: Descriptor, version: int) -> Fields:
    """Return the MD fields that a put gives back to the putter; do not change them.

    MsgFlags stay the putter's, though its queue may know more of them.
    """
    fields = _resolved_fields_of(descriptor)
    if version >= c.MQMD_VERSION_2:
        fields.update(
            GroupId=descriptor.group_id.ljust(_GROUP_ID_BYTES, b"\0"),
            MsgSeqNumber=descriptor.msg_seq_number,
            Offset=descriptor.offset,
        )
    return fields


def _resolved_fields_of(descriptor: Descriptor) -> Fields:
    return {
        "Format": _padded("Format", descriptor.format),
        "Priority": descriptor.priority,
        "Persistence": descriptor.persistence,
        "ReplyToQ": _padded("ReplyToQ", descriptor.reply_to_q),
        "ReplyToQMgr": _padded("ReplyToQMgr", descriptor.reply_to_q_mgr),
        "UserIdentifier": _padded("UserIdentifier", descriptor.user_identifier),
        "AccountingToken": descriptor.accounting_token.ljust(
            MD.members["AccountingToken"].length, b"\0"
        ),
        "ApplIdentityData": _padded("ApplIdentityData", descriptor.appl_identity_data),
        "PutApplType": descriptor.put_appl_type,
        "PutApplName": _padded("PutApplName", descriptor.put_appl_name),
        "ApplOriginData": _padded("ApplOriginData", descriptor.appl_origin_data),
    }


def put_moment(descriptor: Descriptor, put_ms: int) -> tuple[bytes, bytes]:
    """Return PutDate and PutTime: the putter's own if there are any, else of the put."""
    if descriptor.put_date or descriptor.put_time:
        return _padded("PutDate", descriptor.put_date), _padded("PutTime", descriptor.put_time)
    return _moment(put_ms)


@lru_cache(maxsize=1024)
def _moment(put_ms: int) -> tuple[bytes, bytes]:
    return put_date(put_ms).encode(), put_time(put_ms).encode()


@lru_cache(maxsize=4096)
def _descriptor(values: tuple[Any, ...]) -> Descriptor:
    fields = dict(zip(_READ_BY_PUT, values, strict=True))
    check_md(fields)
    descriptor = Descriptor(
        version=fields["Version"],
        report=fields["Report"],
        msg_type=fields["MsgType"],
        feedback=fields["Feedback"],
        encoding=fields["Encoding"],
        coded_char_set_id=fields["CodedCharSetId"],
        format=_text(fields["Format"]),
        priority=fields["Priority"],
        persistence=fields["Persistence"],
        reply_to_q=_text(fields["ReplyToQ"]),
        reply_to_q_mgr=_text(fields["ReplyToQMgr"]),
        user_identifier=_text(fields["UserIdentifier"]),
        accounting_token=fields["AccountingToken"],
        appl_identity_data=_text(fields["ApplIdentityData"]),
        put_appl_type=fields["PutApplType"],
        put_appl_name=_text(fields["PutApplName"]),
        appl_origin_data=_text(fields["ApplOriginData"]),
    )
    if fields["Version"] < c.MQMD_VERSION_2:
        return descriptor
    return descriptor._replace(
        group_id=fields["GroupId"],
        msg_seq_number=fields["MsgSeqNumber"],
        offset=fields["Offset"],
        msg_flags=fields["MsgFlags"],
        original_length=fields["OriginalLength"],
    )


def _text(raw: Any) -> str:
    """Return a character field without its padding; bytes that are not UTF-8 are Latin-1."""
    text: bytes = raw.partition(b"\0")[0].rstrip(b" ")
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _padded(name: str, text: str) -> bytes:
    length = MD.members[name].length
    raw = text.encode()
    # Text that fits its field as Latin-1 only was read from it as Latin-1.
    return (raw if len(raw) <= length else text.encode("latin-1", "replace"))[:length].ljust(length)
