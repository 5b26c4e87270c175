"""Messages whose body is bytes: numbers in their binary form, one after the other."""

from __future__ import annotations

import struct
from typing import cast

from mayfly.jms import values as v
from mayfly.jms.errors import (
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
)
from mayfly.jms.messages import Message
from mayfly.jms.typed_stream import TypedStream
from mayfly.mqi.constants import (
    MQENC_FLOAT_IEEE_REVERSED,
    MQENC_FLOAT_MASK,
    MQENC_NORMAL,
)
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.properties import Typed

#: How struct spells each type; a char is a UTF-16 unit.
_CODES = {
    v.BOOLEAN: "?",
    v.BYTE: "b",
    v.SHORT: "h",
    v.CHAR: "H",
    v.INT: "i",
    v.LONG: "q",
    v.FLOAT: "f",
    v.DOUBLE: "d",
}
_LONGEST_UTF_BYTES = 65_535


class BytesMessage(TypedStream, Message):
    """A message whose body is bytes; written, then read after ``reset``.

    Numbers are written big-endian and read by the Encoding of the message.
    """

    kind = "jms_bytes"

    def __init__(self) -> None:
        """Make an empty body."""
        super().__init__()
        self._written = bytearray()
        self._received = b""
        self._at = 0
        self._integer_order = self._float_order = ">"

    @property
    def body_length(self) -> int:
        """The length of a readable body in bytes; raises MessageNotReadableException."""
        self._check_readable()
        return len(self._received)

    def write_bytes(self, value: bytes, offset: int = 0, length: int | None = None) -> None:
        """Write bytes, or so many of them from an offset."""
        self._check_writeable()
        raw = v.typed(v.BYTES, value).value
        if not isinstance(raw, bytes):
            raise MessageFormatException("None is not bytes")
        self._written += raw[offset : None if length is None else offset + length]

    def read_bytes(self, length: int | None = None) -> bytes:
        """Read so many bytes, all that are left with None; fewer at the end, b"" behind it."""
        self._check_readable()
        end = len(self._received) if length is None else self._at + length
        found = self._received[self._at : end]
        self._at += len(found)
        return found

    def write_utf(self, value: str) -> None:
        """Write text as Java's modified UTF-8 with its length in two bytes in front."""
        text = v.typed(v.STRING, value).value
        if not isinstance(text, str):
            raise MessageFormatException("None is not text")
        raw = text.encode("utf-16-be", "surrogatepass")
        units = struct.unpack(f">{len(raw) // 2}H", raw)
        encoded = b"".join(map(_modified_utf_8, units))
        if len(encoded) > _LONGEST_UTF_BYTES:
            raise MessageFormatException(f"{len(encoded)} bytes; at most {_LONGEST_UTF_BYTES}")
        self.write_bytes(len(encoded).to_bytes(2, "big") + encoded)

    def read_utf(self) -> str:
        """Read text that was written with :meth:`write_utf`."""
        at = self._at
        try:
            raw = self._take(int.from_bytes(self._take(2), "big"))
            # Surrogates were written one by one, NUL in two bytes.
            halves = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
            return halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
        except MessageEOFException:
            self._at = at
            raise
        except UnicodeDecodeError as error:
            self._at = at
            raise MessageFormatException(f"no modified UTF-8: {error}") from None

    def read_unsigned_byte(self) -> int:
        """Read an integer of 8 bits without a sign."""
        return self._take(1)[0]

    def read_unsigned_short(self) -> int:
        """Read an integer of 16 bits without a sign."""
        return cast(int, struct.unpack(self._integer_order + "H", self._take(2))[0])

    def write_object(self, value: object) -> None:
        """Write a bool, int (int or long by its size), float (double), str (as UTF) or bytes."""
        typed = v.typed_object(value, takes_bytes=True)
        if isinstance(typed.value, str):
            self.write_utf(typed.value)
        elif isinstance(typed.value, bytes):
            self.write_bytes(typed.value)
        elif typed.value is None:
            raise MessageFormatException("None has no bytes")
        else:
            self._write(typed)

    def reset(self) -> None:
        """Begin to read at the first byte; the body may only be read then."""
        if self._is_body_writeable:
            self._received = bytes(self._written)
            self._integer_order = self._float_order = ">"
        self._is_body_writeable = False
        self._at = 0

    def clear_body(self) -> None:
        """Empty the body."""
        super().clear_body()
        self._written, self._received, self._at = bytearray(), b"", 0

    def set_raw(self, raw: bytes, encoding: int = MQENC_NORMAL) -> None:
        """Set a received body, its numbers in this Encoding."""
        self._received, self._at = raw, 0
        self._integer_order = ">" if is_big_endian(encoding) else "<"
        is_reversed = encoding & MQENC_FLOAT_MASK == MQENC_FLOAT_IEEE_REVERSED
        self._float_order = "<" if is_reversed else ">"

    def wire_body(self, codec: str) -> bytes | None:
        """Return the bytes."""
        return bytes(self._written) if self._is_body_writeable else self._received

    def _body(self) -> bytes | None:
        return self.wire_body("")

    def _write(self, value: Typed) -> None:
        self._check_writeable()
        number = ord(str(value.value)) if value.dt == v.CHAR else value.value
        if value.dt == v.CHAR and not cast(int, number) < 1 << 16:
            raise MessageFormatException(f"{value.value!r} is more than a char of 16 bits")
        self._written += struct.pack(">" + _CODES[value.dt], number)

    def _read(self, dt: str) -> object:
        order = self._float_order if dt in (v.FLOAT, v.DOUBLE) else self._integer_order
        code = order + _CODES[dt]
        value: object = struct.unpack(code, self._take(struct.calcsize(code)))[0]
        return chr(cast(int, value)) if dt == v.CHAR else value

    def _take(self, length: int) -> bytes:
        self._check_readable()
        if self._at + length > len(self._received):
            raise MessageEOFException(f"{len(self._received) - self._at} of {length} bytes left")
        self._at += length
        return self._received[self._at - length : self._at]

    def _check_readable(self) -> None:
        if self._is_body_writeable:
            raise MessageNotReadableException("the body is being written: reset it first")


def _modified_utf_8(unit: int) -> bytes:
    if 0 < unit < 0x80:
        return bytes((unit,))
    if unit < 0x800:
        return bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
    return bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
