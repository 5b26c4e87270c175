"""Dead letters: the MQDLH before the data, with reason, time, destination and data format."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.lifetime.times import put_date, put_time
from mayfly.mqi.code_pages import codec_name
from mayfly.mqi.constants import MQCCSI_INHERIT, MQCCSI_Q_MGR, MQENC_NATIVE
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.layout import Value, is_big_endian
from mayfly.mqi.structures import DLH

_FORMAT = "MQDEAD"
_NAME_LENGTH, _APPLICATION_LENGTH, _FORMAT_LENGTH = 48, 28, 8


class Refusal(NamedTuple):
    """Why a message cannot be delivered, with the time and the program that found it.

    ``queue`` is the message's destination, ``appl_type`` an MQAT_* constant, ``at_ms`` epoch ms.
    """

    reason: int
    queue: str
    manager_name: str
    appl_type: int
    appl_name: str
    at_ms: int


def behind_header(descriptor: Descriptor, refusal: Refusal) -> tuple[Descriptor, bytes]:
    """Return the descriptor of a dead letter, and the MQDLH to place before its data (Q1).

    ``refusal`` has the reason code, the queue that the message was for, the program and the time.
    Format, Encoding and CodedCharSetId of the data move into the header; the descriptor then
    describes the header. A text that is too long for its field is cut, and a character that is not
    ASCII becomes a question mark.
    """
    header = DLH.pack(
        {
            "Reason": refusal.reason,
            "DestQName": _field(refusal.queue, _NAME_LENGTH),
            "DestQMgrName": _field(refusal.manager_name, _NAME_LENGTH),
            "Encoding": descriptor.encoding,
            "CodedCharSetId": descriptor.coded_char_set_id,
            "Format": _field(descriptor.format, _FORMAT_LENGTH),
            "PutApplType": refusal.appl_type,
            "PutApplName": _field(refusal.appl_name, _APPLICATION_LENGTH),
            "PutDate": put_date(refusal.at_ms),
            "PutTime": put_time(refusal.at_ms),
        }
    )
    dead = descriptor._replace(
        format=_FORMAT, encoding=MQENC_NATIVE, coded_char_set_id=MQCCSI_Q_MGR
    )
    return dead, header


class Letter(NamedTuple):
    """The fields of an MQDLH by name, and the descriptor that the data had without the header."""

    header: dict[str, Value]
    original: Descriptor


def is_letter(descriptor: Descriptor) -> bool:
    """Return True if the Format of a descriptor is MQDEAD: an MQDLH precedes the data."""
    return descriptor.format.strip() == _FORMAT


def read_letter(descriptor: Descriptor, body: bytes) -> Letter:
    """Return the fields of the MQDLH at the start of a body, and the descriptor of the data.

    Numbers are read by Encoding, texts by CodedCharSetId. A header from z/OS has its texts in
    EBCDIC. If StrucId is ASCII, all texts are read as ASCII, whatever the descriptor says. Format,
    Encoding and CodedCharSetId of ``original`` come from the header (Q1). Raises MQRC_DLH_ERROR if
    the body does not begin with an MQDLH.
    """
    encoding, ccsid = descriptor.encoding, descriptor.coded_char_set_id
    codec = None if body.startswith(DLH.struc_id) else codec_name(ccsid, encoding)
    header = DLH.unpack(body, big_endian=is_big_endian(encoding), text_codec=codec)
    own_encoding, own_ccsid = header["Encoding"], header["CodedCharSetId"]
    assert isinstance(own_encoding, int)
    assert isinstance(own_ccsid, int)
    return Letter(
        header,
        descriptor._replace(
            format=str(header["Format"]),
            encoding=own_encoding,
            coded_char_set_id=ccsid if own_ccsid == MQCCSI_INHERIT else own_ccsid,
        ),
    )


def _field(text: str, length: int) -> str:
    """Return text as ASCII cut to ``length`` characters; other characters become question marks."""
    return text.encode("ascii", "replace").decode()[:length]
