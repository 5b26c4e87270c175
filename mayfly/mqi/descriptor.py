"""The message descriptor: the MQMD fields that stay as put, without ids, times and counts.

A descriptor is an immutable value. Most messages of a program share one, and its checked, resolved
and packed forms are cached.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from operator import le
from typing import NamedTuple

from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import (
    MQAT_NO_CONTEXT,
    MQCCSI_Q_MGR,
    MQENC_NATIVE,
    MQFB_NONE,
    MQMF_NONE,
    MQMT_DATAGRAM,
    MQOL_UNDEFINED,
    MQPER_PERSISTENCE_AS_Q_DEF,
    MQPRI_PRIORITY_AS_Q_DEF,
    MQRO_NONE,
)
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import encoded
from mayfly.mqi.structures import MD


class Descriptor(NamedTuple):
    """The fields of an MQMD under Python names; texts without padding, ids and tokens as bytes.

    ``put_date`` and ``put_time`` are filled only when the putter set them (origin context); empty
    means that the time of the put is used.
    """

    report: int = MQRO_NONE
    msg_type: int = MQMT_DATAGRAM
    feedback: int = MQFB_NONE
    encoding: int = MQENC_NATIVE
    coded_char_set_id: int = MQCCSI_Q_MGR
    priority: int = MQPRI_PRIORITY_AS_Q_DEF
    persistence: int = MQPER_PERSISTENCE_AS_Q_DEF
    put_appl_type: int = MQAT_NO_CONTEXT
    msg_seq_number: int = 1
    offset: int = 0
    msg_flags: int = MQMF_NONE
    original_length: int = MQOL_UNDEFINED
    version: int = 1
    format: str = ""
    reply_to_q: str = ""
    reply_to_q_mgr: str = ""
    user_identifier: str = ""
    appl_identity_data: str = ""
    put_appl_name: str = ""
    appl_origin_data: str = ""
    put_date: str = ""
    put_time: str = ""
    accounting_token: bytes = b""
    group_id: bytes = b""


_NUMBERS = struct.Struct("<13i")
_TEXT_FIELDS = range(13, 22)
_PACKED_FORMAT = 1
#: Fields of an MQMD -> the names that a Descriptor gives them, in its order; Version is left out.
MD_NAMES = {
    "Report": "report",
    "MsgType": "msg_type",
    "Feedback": "feedback",
    "Encoding": "encoding",
    "CodedCharSetId": "coded_char_set_id",
    "Priority": "priority",
    "Persistence": "persistence",
    "PutApplType": "put_appl_type",
    "MsgSeqNumber": "msg_seq_number",
    "Offset": "offset",
    "MsgFlags": "msg_flags",
    "OriginalLength": "original_length",
    "Format": "format",
    "ReplyToQ": "reply_to_q",
    "ReplyToQMgr": "reply_to_q_mgr",
    "UserIdentifier": "user_identifier",
    "ApplIdentityData": "appl_identity_data",
    "PutApplName": "put_appl_name",
    "ApplOriginData": "appl_origin_data",
    "PutDate": "put_date",
    "PutTime": "put_time",
    "AccountingToken": "accounting_token",
    "GroupId": "group_id",
}
_TEXT_NAMES = [
    name for name, field in MD_NAMES.items() if Descriptor._fields.index(field) in _TEXT_FIELDS
]
#: Length in bytes of each field of an MQMD.
_FIELD_BYTES = {field.name: field.length for field in MD.fields}
_TEXT_FIELD_BYTES = [_FIELD_BYTES[name] for name in _TEXT_NAMES]


def fitted(descriptor: Descriptor) -> Descriptor:
    """Return a descriptor whose texts are cut at their first NUL, as in an MQMD.

    Without a NUL all values stay. Raises MQRC_MD_ERROR when a text or token is too long for its
    field, TypeError when a text field is no str.
    """
    token, group_id = descriptor[22:]
    if len(token) > _FIELD_BYTES["AccountingToken"]:
        raise _too_long("AccountingToken", token)
    if len(group_id) > _FIELD_BYTES["GroupId"]:
        raise _too_long("GroupId", group_id)
    texts = descriptor[13:22]
    if _are_plain(texts):
        return descriptor
    cut = (_cut_at_nul(name, text) for name, text in zip(_TEXT_NAMES, texts, strict=True))
    return Descriptor._make((*descriptor[:13], *cut, token, group_id))


def _are_plain(texts: tuple[str, ...]) -> bool:
    """Return True if all texts are ASCII, fit their fields and have no NUL: a quick test."""
    try:
        combined = "".join(texts)
    except TypeError:
        return False
    is_short = all(map(le, map(len, texts), _TEXT_FIELD_BYTES))
    return is_short and combined.isascii() and "\0" not in combined


def cut_to_fit(text: str, field: str) -> str:
    """Return a text cut to the length of the MQMD field ``field`` and at its first NUL.

    Characters that UTF-8 cannot encode become question marks.
    """
    text = text.partition("\0")[0].encode(errors="replace").decode()
    while len(encoded(text, _FIELD_BYTES[field])) > _FIELD_BYTES[field]:
        text = text[:-1]
    return text


def _cut_at_nul(name: str, text: object) -> str:
    """Return a text for the MQMD field ``name``, cut at its first NUL.

    Raises MQRC_MD_ERROR if it is too long for the field or not encodable, TypeError if it is no
    str.
    """
    if not isinstance(text, str):
        raise TypeError(f"{name} {text!r} is not a str")
    text = text.partition("\0")[0]
    try:
        length = len(encoded(text, _FIELD_BYTES[name]))
    except UnicodeEncodeError as error:
        raise mq_error(rc.MQRC_MD_ERROR, f"{name} {text!r} is no text: {error.reason}") from None
    if length > _FIELD_BYTES[name]:
        raise _too_long(name, text)
    return text


def _too_long(name: str, value: object) -> MQError:
    """Return the MQRC_MD_ERROR for a value that is too long for the MQMD field ``name``."""
    text = f"{name} {value!r} is longer than {_FIELD_BYTES[name]} bytes"
    return mq_error(rc.MQRC_MD_ERROR, text)


@lru_cache(maxsize=4096)
def pack_descriptor(descriptor: Descriptor) -> bytes:
    """Return the descriptor as bytes, the form in which it is stored; cached.

    These are a format byte, 13 numbers, nine texts and two byte fields. Texts are separated by NUL,
    which no text from :func:`fitted` contains. Raises MQRC_MD_ERROR for a number that does not fit
    4 bytes.
    """
    texts = "\0".join(str(descriptor[n]) for n in _TEXT_FIELDS).encode()
    token = descriptor.accounting_token.rstrip(b"\0")
    try:
        numbers = _NUMBERS.pack(*descriptor[:13])
    except struct.error:
        raise _does_not_fit(descriptor) from None
    return b"".join(
        (
            bytes((_PACKED_FORMAT, len(token))),
            token,
            numbers,
            bytes((24 if descriptor.group_id.strip(b"\0") else 0,)),
            descriptor.group_id.ljust(24, b"\0") if descriptor.group_id.strip(b"\0") else b"",
            texts,
        )
    )


def _does_not_fit(descriptor: Descriptor) -> MQError:
    """Return the MQRC_MD_ERROR that names the numbers of a descriptor that do not fit 4 bytes."""
    names = zip(Descriptor._fields, descriptor[:13], strict=False)
    text = ", ".join(f"{name} {value!r}" for name, value in names if not _fits(value))
    return mq_error(rc.MQRC_MD_ERROR, f"no number of 4 bytes: {text}")


def _fits(value: object) -> bool:
    """Return True if a value is an int of 4 bytes, signed."""
    return isinstance(value, int) and -(2**31) <= value < 2**31


@lru_cache(maxsize=4096)
def unpack_descriptor(packed: bytes) -> Descriptor:
    """Return the descriptor that :func:`pack_descriptor` has packed; cached."""
    assert packed[0] == _PACKED_FORMAT, f"descriptor format {packed[0]}"
    token_end = 2 + packed[1]
    numbers_end = token_end + _NUMBERS.size
    group_end = numbers_end + 1 + packed[numbers_end]
    return Descriptor._make(
        (
            *_NUMBERS.unpack_from(packed, token_end),
            *packed[group_end:].decode().split("\0"),
            packed[2:token_end],
            packed[numbers_end + 1 : group_end],
        )
    )


class Grouping(NamedTuple):
    """The fields of a descriptor about message groups and segments."""

    msg_type: int
    feedback: int
    msg_seq_number: int
    offset: int
    msg_flags: int
    original_length: int
    group_id: bytes


def grouping_of(packed: bytes) -> Grouping:
    """Return the group and segment fields of a packed descriptor, without unpacking the rest.

    Each message of a group has a different packed form, so the cache of :func:`unpack_descriptor`
    does not help there.
    """
    start = 2 + packed[1]
    numbers = _NUMBERS.unpack_from(packed, start)
    end = start + _NUMBERS.size
    group_id = packed[end + 1 : end + 1 + packed[end]]
    return Grouping._make((*numbers[1:3], *numbers[8:12], group_id))
