"""An MQMDE before the data of a put: the fields that an MQMD of version 1 does not have."""

from __future__ import annotations

from typing import Any, Final

from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.structures import MDE

_FORMAT: Final = "MQHMDE"
#: The fields of an MQMDE by the names that a Descriptor gives them.
_NAMES: Final = {
    "Encoding": "encoding",
    "CodedCharSetId": "coded_char_set_id",
    "Format": "format",
    "GroupId": "group_id",
    "MsgSeqNumber": "msg_seq_number",
    "Offset": "offset",
    "MsgFlags": "msg_flags",
    "OriginalLength": "original_length",
}
_PLAIN: Final = Descriptor()


def honoured(asked: Descriptor, body: bytes) -> tuple[Descriptor, bytes]:
    """Return a message with the fields of the MQMDE that its data begin with, and without that.

    An MQMDE whose numbers have their high byte first is data and stays, as does one behind an MQMD
    of version 2 that says something itself of groups and segments. Raises MQRC_MDE_ERROR.
    """
    if asked.format != _FORMAT or is_big_endian(asked.encoding) or _is_extended(asked):
        return asked, body
    fields: dict[str, Any] = {_NAMES[k]: v for k, v in MDE.unpack(body).items() if k in _NAMES}
    return asked._replace(version=c.MQMD_VERSION_2, **fields), body[MDE.length(2) :]


def _is_extended(asked: Descriptor) -> bool:
    return asked != asked._replace(
        group_id=asked.group_id if not asked.group_id.strip(b"\0") else b"",
        msg_seq_number=_PLAIN.msg_seq_number,
        offset=_PLAIN.offset,
        msg_flags=_PLAIN.msg_flags,
        original_length=_PLAIN.original_length,
    )
