"""Lengths of the MQ headers before the application data of a message."""

from __future__ import annotations

from mayfly.mqi.errors import MQError
from mayfly.mqi.layout import Layout, is_big_endian
from mayfly.mqi.structures import DDH, DLH, IIH, MDE, RFH2, XQH

#: Format -> the structure it announces.
HEADERS: dict[str, Layout] = {
    "MQDEAD": DLH,
    "MQHMDE": MDE,
    "MQHRF2": RFH2,
    "MQIMS": IIH,
    "MQXMIT": XQH,
    "MQHDDLY": DDH,
}


def headers_length(format_name: str, body: bytes, encoding: int) -> int:
    """Return the bytes of the chain of headers at the start of a message's data.

    ``format_name`` and ``encoding`` are the descriptor's; each header has those of the data behind
    it. The chain ends at the first structure that is unknown or damaged. It also ends at an MQXQH,
    which has no format of the data behind it.
    """
    return leading_headers(format_name, body, encoding)[0]


def leading_headers(format_name: str, body: bytes, encoding: int) -> tuple[int, str]:
    """Return the bytes of that chain, and the format of the data behind it."""
    length = 0
    # A slice of bytes would be a copy of all the rest, for each header of a long row.
    rest = memoryview(body)
    while (layout := HEADERS.get(format_name)) is not None:
        try:
            header = layout.unpack(rest[length:], big_endian=is_big_endian(encoding))
        except MQError:
            break
        version = header["Version"]
        assert isinstance(version, int)
        size = header.get("StrucLength", layout.length(version))
        assert isinstance(size, int)
        if not 0 < size <= len(body) - length:
            break
        length += size
        format_name = str(header.get("Format", ""))
        following = header.get("Encoding", encoding)
        assert isinstance(following, int)
        encoding = following
    return length, format_name
