"""Messages whose body has typed parts: a map by name, a stream in order; how they travel."""

from __future__ import annotations

from typing import Any, cast

from mayfly.jms import values as v
from mayfly.jms.errors import MessageEOFException, MessageNotReadableException
from mayfly.jms.messages import Message
from mayfly.jms.typed_stream import TypedStream
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.mqi.properties import Element, Typed, escape, parse, property_element


class MapMessage(Message):
    """A message whose body is values by name."""

    kind = "jms_map"

    def __init__(self) -> None:
        """Make an empty map."""
        super().__init__()
        self._map: dict[str, Typed] = {}

    def set_object(self, name: str, value: object) -> None:
        """Set a bool, int (int or long by its size), float (double), str, bytes or None."""
        self._set(name, v.typed_object(value, takes_bytes=True))

    def get_object(self, name: str) -> object:
        """Return a value, None when it is not there."""
        found = self._map.get(name)
        return None if found is None else found.value

    def map_names(self) -> list[str]:
        """Return the names."""
        return list(self._map)

    def item_exists(self, name: str) -> bool:
        """Return True if there is a value of this name, even None."""
        return name in self._map

    def set_boolean(self, name: str, value: bool) -> None:
        """Set a boolean."""
        self._set(name, v.typed(v.BOOLEAN, value))

    def set_byte(self, name: str, value: int) -> None:
        """Set an integer of 8 bits."""
        self._set(name, v.typed(v.BYTE, value))

    def set_short(self, name: str, value: int) -> None:
        """Set an integer of 16 bits."""
        self._set(name, v.typed(v.SHORT, value))

    def set_char(self, name: str, value: str) -> None:
        """Set a single character."""
        self._set(name, v.typed(v.CHAR, value))

    def set_int(self, name: str, value: int) -> None:
        """Set an integer of 32 bits."""
        self._set(name, v.typed(v.INT, value))

    def set_long(self, name: str, value: int) -> None:
        """Set an integer of 64 bits."""
        self._set(name, v.typed(v.LONG, value))

    def set_float(self, name: str, value: float) -> None:
        """Set a float of 32 bits."""
        self._set(name, v.typed(v.FLOAT, value))

    def set_double(self, name: str, value: float) -> None:
        """Set a float of 64 bits."""
        self._set(name, v.typed(v.DOUBLE, value))

    def set_string(self, name: str, value: str | None) -> None:
        """Set a text."""
        self._set(name, v.typed(v.STRING, value))

    def set_bytes(self, name: str, value: bytes | None) -> None:
        """Set bytes."""
        self._set(name, v.typed(v.BYTES, value))

    def get_boolean(self, name: str) -> bool:
        """Return a value as a boolean; False when it is not there."""
        return cast(bool, self._get(name, v.BOOLEAN))

    def get_byte(self, name: str) -> int:
        """Return a value as an integer of 8 bits."""
        return cast(int, self._get(name, v.BYTE))

    def get_short(self, name: str) -> int:
        """Return a value as an integer of 16 bits."""
        return cast(int, self._get(name, v.SHORT))

    def get_char(self, name: str) -> str:
        """Return a value as a character."""
        return cast(str, self._get(name, v.CHAR))

    def get_int(self, name: str) -> int:
        """Return a value as an integer of 32 bits."""
        return cast(int, self._get(name, v.INT))

    def get_long(self, name: str) -> int:
        """Return a value as an integer of 64 bits."""
        return cast(int, self._get(name, v.LONG))

    def get_float(self, name: str) -> float:
        """Return a value as a float of 32 bits."""
        return cast(float, self._get(name, v.FLOAT))

    def get_double(self, name: str) -> float:
        """Return a value as a float of 64 bits."""
        return cast(float, self._get(name, v.DOUBLE))

    def get_string(self, name: str) -> str | None:
        """Return a value as text, None when it is not there."""
        return cast("str | None", self._get(name, v.STRING))

    def get_bytes(self, name: str) -> bytes | None:
        """Return a value as bytes, None when it is not there."""
        return cast("bytes | None", self._get(name, v.BYTES))

    def clear_body(self) -> None:
        """Empty the map."""
        super().clear_body()
        self._map = {}

    def set_raw(self, text: str) -> None:
        """Set a received body; raises MQRC_RFH_FORMAT_ERROR when it is no map."""
        self._map = {}
        for element in elements_of(text, "map"):
            # An older form has the name as the element's own.
            name = element.attributes.get("name", element.name)
            self._map[name] = _typed(element)

    def wire_body(self, codec: str) -> bytes | None:
        """Return ``<map><elt name="…" dt='…'>…</elt>…</map>`` in a codec."""
        elements = (
            property_element("elt", typed, attributes=f' name="{escape(name)}"')
            for name, typed in self._map.items()
        )
        return encoded(f"<map>{''.join(elements)}</map>", codec)

    def _body(self) -> dict[str, Any] | None:
        return {name: typed.value for name, typed in self._map.items()}

    def _set(self, name: str, value: Typed) -> None:
        self._check_writeable()
        if not name:
            raise ValueError("a value of a map needs a name")
        self._map[name] = value

    def _get(self, name: str, dt: str) -> object:
        return v.converted(self._map.get(name), dt)


class StreamMessage(TypedStream, Message):
    """A message whose body is values in order; written, then read after ``reset``."""

    kind = "jms_stream"

    def __init__(self) -> None:
        """Make an empty stream."""
        super().__init__()
        self._parts: list[Typed] = []
        self._at = 0

    def write_object(self, value: object) -> None:
        """Write a bool, int (int or long by its size), float (double), str, bytes or None."""
        self._write(v.typed_object(value, takes_bytes=True))

    def read_object(self) -> object:
        """Read the next value as it was written."""
        value = self._next().value
        self._at += 1
        return value

    def write_string(self, value: str | None) -> None:
        """Write a text."""
        self._write(v.typed(v.STRING, value))

    def read_string(self) -> str | None:
        """Read a value as text."""
        return cast("str | None", self._read(v.STRING))

    def write_bytes(self, value: bytes | None) -> None:
        """Write bytes as one value."""
        self._write(v.typed(v.BYTES, value))

    def read_bytes(self) -> bytes | None:
        """Read a value as bytes."""
        return cast("bytes | None", self._read(v.BYTES))

    def reset(self) -> None:
        """Begin to read at the first value; the body may only be read then."""
        self._is_body_writeable = False
        self._at = 0

    def clear_body(self) -> None:
        """Empty the stream."""
        super().clear_body()
        self._parts, self._at = [], 0

    def set_raw(self, text: str) -> None:
        """Set a received body; raises MQRC_RFH_FORMAT_ERROR when it is no stream."""
        self._parts = [_typed(element) for element in elements_of(text, "stream")]

    def wire_body(self, codec: str) -> bytes | None:
        """Return ``<stream><elt dt='…'>…</elt>…</stream>`` in a codec."""
        elements = (property_element("elt", typed) for typed in self._parts)
        return encoded(f"<stream>{''.join(elements)}</stream>", codec)

    def is_body_assignable_to(self, kind: type) -> bool:
        """Tell that a stream is read value by value only."""
        return False

    def _write(self, value: Typed) -> None:
        self._check_writeable()
        self._parts.append(value)

    def _read(self, dt: str) -> object:
        value = v.converted(self._next(), dt)
        # A value that could not be converted is read again.
        self._at += 1
        return value

    def _next(self) -> Typed:
        if self._is_body_writeable:
            raise MessageNotReadableException("the stream is being written: reset it first")
        if self._at >= len(self._parts):
            raise MessageEOFException(f"all {len(self._parts)} values are read")
        return self._parts[self._at]


def elements_of(text: str, name: str) -> list[Element]:
    """Return the elements of a map or stream; raises MQRC_RFH_FORMAT_ERROR for something else."""
    roots = parse(text)
    if len(roots) != 1 or roots[0].name != name:
        raise mq_error(rc.MQRC_RFH_FORMAT_ERROR, f"{text[:40]!r} is not one <{name}>")
    return roots[0].children


def encoded(text: str, codec: str) -> bytes:
    """Return text in a codec; a letter it does not have becomes a numeric reference."""
    return text.encode(codec, "xmlcharrefreplace")


def _typed(element: Element) -> Typed:
    typed = element.typed()
    # A type that JMS does not have is text.
    return typed if typed.dt in v.CONVERSIONS else Typed(v.STRING, typed.value)
