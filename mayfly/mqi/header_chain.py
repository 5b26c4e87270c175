"""The MQ headers before the data of a message, one after the other, with their fields."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.mqi.code_pages import codec_name
from mayfly.mqi.constants import MQCCSI_INHERIT
from mayfly.mqi.errors import MQError
from mayfly.mqi.layout import Value, int_in, is_big_endian
from mayfly.mqi.structures import DDH, HEADERS, XQH

_EMBEDDED = "MsgDesc."


class HeaderRead(NamedTuple):
    """One header: its name as ``MQDLH``, its fields by name, its place and length in bytes.

    ``format_name``, ``encoding`` and ``coded_char_set_id`` are those that announce it.
    """

    name: str
    fields: dict[str, Value]
    offset: int
    length_bytes: int
    format_name: str
    encoding: int
    coded_char_set_id: int


class HeaderChain(NamedTuple):
    """The headers of a message, and Format, Encoding, CodedCharSetId and place of its data.

    ``damage`` says which announced header cannot be read, and why; it begins at ``data_offset``.
    Empty when all could be read.
    """

    headers: list[HeaderRead]
    format_name: str
    encoding: int
    coded_char_set_id: int
    data_offset: int
    damage: str


def read_headers(
    format_name: str, encoding: int, coded_char_set_id: int, body: bytes
) -> HeaderChain:
    """Read the chain of headers at the start of a message's data; the three are those of its MQMD.

    After an MQXQH the chain goes on with the embedded MQMD. It ends at the first format that
    announces no header, or at a damaged header.
    """
    headers, offset, damage = list[HeaderRead](), 0, ""
    rest = memoryview(body)
    while (layout := HEADERS.get(format_name.strip())) is not None:
        is_plain = body.startswith(layout.struc_id, offset)
        codec = None if is_plain else codec_name(coded_char_set_id, encoding)
        # A delay header is little-endian, whatever Encoding the message has.
        big_endian = layout is not DDH and is_big_endian(encoding)
        try:
            fields = layout.unpack(rest[offset:], big_endian=big_endian, text_codec=codec)
        except MQError as error:
            damage = f"{layout.name}: {error.detail or error.text}"
            break
        size = layout.length(int_in(fields, "Version"))
        if "StrucLength" in fields:
            size = int_in(fields, "StrucLength")
        if not 0 < size <= len(body) - offset:
            damage = f"{layout.name}: StrucLength {size}, and {len(body) - offset} bytes are left"
            break
        announced = format_name, encoding, coded_char_set_id
        headers.append(HeaderRead(layout.name, fields, offset, size, *announced))
        offset += size
        prefix = _EMBEDDED if layout is XQH else ""
        format_name = str(fields[f"{prefix}Format"])
        encoding = int_in(fields, f"{prefix}Encoding")
        own_ccsid = int_in(fields, f"{prefix}CodedCharSetId")
        coded_char_set_id = coded_char_set_id if own_ccsid == MQCCSI_INHERIT else own_ccsid
    return HeaderChain(headers, format_name.strip(), encoding, coded_char_set_id, offset, damage)
