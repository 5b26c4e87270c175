"""The base of stream and bytes messages: a method to write and one to read each type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import cast

from mayfly.jms import values as v
from mayfly.mqi.properties import Typed


class TypedStream(ABC):
    """Values written one after the other and read in the same order.

    Reading raises MessageNotReadableException before ``reset``, MessageEOFException at the end;
    writing raises MessageNotWriteableException after it, MessageFormatException for a value that is
    not of the type.
    """

    @abstractmethod
    def _write(self, value: Typed) -> None:
        """Write a value."""

    @abstractmethod
    def _read(self, dt: str) -> object:
        """Read the next value as a type."""

    def write_boolean(self, value: bool) -> None:
        """Write a boolean."""
        self._write(v.typed(v.BOOLEAN, value))

    def write_byte(self, value: int) -> None:
        """Write an integer of 8 bits."""
        self._write(v.typed(v.BYTE, value))

    def write_short(self, value: int) -> None:
        """Write an integer of 16 bits."""
        self._write(v.typed(v.SHORT, value))

    def write_char(self, value: str) -> None:
        """Write a single character."""
        self._write(v.typed(v.CHAR, value))

    def write_int(self, value: int) -> None:
        """Write an integer of 32 bits."""
        self._write(v.typed(v.INT, value))

    def write_long(self, value: int) -> None:
        """Write an integer of 64 bits."""
        self._write(v.typed(v.LONG, value))

    def write_float(self, value: float) -> None:
        """Write a float of 32 bits."""
        self._write(v.typed(v.FLOAT, value))

    def write_double(self, value: float) -> None:
        """Write a float of 64 bits."""
        self._write(v.typed(v.DOUBLE, value))

    def read_boolean(self) -> bool:
        """Read a boolean."""
        return cast(bool, self._read(v.BOOLEAN))

    def read_byte(self) -> int:
        """Read an integer of 8 bits."""
        return cast(int, self._read(v.BYTE))

    def read_short(self) -> int:
        """Read an integer of 16 bits."""
        return cast(int, self._read(v.SHORT))

    def read_char(self) -> str:
        """Read a character."""
        return cast(str, self._read(v.CHAR))

    def read_int(self) -> int:
        """Read an integer of 32 bits."""
        return cast(int, self._read(v.INT))

    def read_long(self) -> int:
        """Read an integer of 64 bits."""
        return cast(int, self._read(v.LONG))

    def read_float(self) -> float:
        """Read a float of 32 bits."""
        return cast(float, self._read(v.FLOAT))

    def read_double(self) -> float:
        """Read a float of 64 bits."""
        return cast(float, self._read(v.DOUBLE))
