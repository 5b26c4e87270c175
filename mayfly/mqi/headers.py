"""How long the MQ headers are that stand before the application data of a message."""

from __future__ import annotations

from mayfly.mqi.errors import MQError
from mayfly.mqi.layout import Layout
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


def headers_length(format_name: str, body: bytes, *, big_endian: bool = False) -> int:
    """Return the bytes of the chain of headers at the start of a message's data.

    The chain ends at the first structure that is unknown or damaged; an MQXQH says nothing of what
    follows it, so it ends there, too.
    """
    length = 0
    while (layout := HEADERS.get(format_name)) is not None:
        try:
            header = layout.unpack(body[length:], big_endian=big_endian)
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
    return length
