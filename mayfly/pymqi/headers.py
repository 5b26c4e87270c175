"""The MQ headers that stand before the data of a message; pymqi has none of them but RFH2."""

from __future__ import annotations

import struct
from typing import Self

from mayfly.mqi import constants as c
from mayfly.mqi import structures
from mayfly.mqi.layout import is_big_endian
from mayfly.pymqi.errors import PYIFError
from mayfly.pymqi.structures import MD, MQOpts

_MD_1_BYTES = structures.MD.length(c.MQMD_VERSION_1)
_MD_AT = structures.XQH.offset_of("MsgDesc.StrucId")


class Header(MQOpts):
    """A header; ``encoding`` is that of the MD, or of the header before it, and orders its numbers.

    ``body[header.get_length():]`` is what stands behind it.
    """

    def pack(self, encoding: int = c.MQENC_NATIVE) -> bytes:
        """Return the header as bytes."""
        return self._ordered(encoding).pack(*(vars(self)[name] for name in self.members))

    def unpack(self, buff: bytes, encoding: int = c.MQENC_NATIVE) -> None:
        """Take the fields from the start of a message; raises PYIFError for no such header."""
        name, size = type(self).__name__, self._codec.size
        if len(buff) < size:
            raise PYIFError(f"{name} has {size} bytes, the buffer {len(buff)}")
        found = self._ordered(encoding).unpack_from(buff)
        fields = dict(zip(self.members, found, strict=True))
        for field in ("StrucId", "Version"):
            if fields[field] != self._initial[field]:
                raise PYIFError(
                    f"{name} - {field} {fields[field]!r} is not {self._initial[field]!r}"
                )
        vars(self).update(fields)

    def get_header(self, buf: bytes) -> Self:
        """Take the fields as ``unpack`` does, native numbers, and return the header itself."""
        self.unpack(buf)
        return self

    def _ordered(self, encoding: int) -> struct.Struct:
        order = ">" if is_big_endian(encoding) else "<"
        return struct.Struct(order + "".join(member.code for member in self.members.values()))


class DLH(Header, layout=structures.DLH):
    """The dead-letter header, MQDLH."""


class XQH(Header, layout=structures.XQH):
    """The transmission queue header, MQXQH; ``MsgDescExpiry`` is Expiry of the MD within."""

    def get_embedded_md(self, buf: bytes) -> MD:
        """Return the MD within the header at the start of a message; it is one of version 1."""
        md = MD()
        # A get fills in what version 2 has besides; here those fields keep their initial values.
        md.unpack(buf[_MD_AT : _MD_AT + _MD_1_BYTES] + md.pack()[_MD_1_BYTES:])
        return md


class DDH(Header, layout=structures.DDH):
    """The header of a delayed message on the staging queue, Format MQHDDLY; Mayfly's own.

    Its numbers are little-endian whatever the encoding of the MD; ``DueTime`` is epoch ms.
    """

    def _ordered(self, encoding: int) -> struct.Struct:
        return super()._ordered(c.MQENC_INTEGER_REVERSED)


class MDE(Header, layout=structures.MDE):
    """The message descriptor extension, MQMDE."""


class IIH(Header, layout=structures.IIH):
    """The IMS information header, MQIIH; the IMS bridge reads it (docs/IMS_BRIDGE.md)."""


class TM(Header, layout=structures.TM):
    """The trigger message, MQTM; it is the whole data of a message of format MQTRIG."""


class TMC2(Header, layout=structures.TMC2):
    """The trigger message in characters, MQTMC2, that a started program has as its argument."""
