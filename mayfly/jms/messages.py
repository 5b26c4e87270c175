"""JMS messages: their headers, and bodies of each kind: none, text, map, stream, bytes.

A map has values by name, a stream has values in order, a bytes message has binary data.
``wire_body`` encodes a body, ``set_raw`` sets a received one.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

from mayfly.jms import values as v
from mayfly.jms.constants import DEFAULT_PRIORITY, PERSISTENT
from mayfly.jms.destinations import Destination
from mayfly.jms.errors import (
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
)
from mayfly.jms.values import PropertyAccess
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQENC_FLOAT_IEEE_REVERSED, MQENC_FLOAT_MASK, MQENC_NORMAL
from mayfly.mqi.errors import mq_error
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.properties import UTF_8, Element, Typed, escape, parse, property_element
from mayfly.verbs.properties.selectors.names import correlation_bytes, id_text

_ID_BYTES = 24


class Message(PropertyAccess):
    """A message with headers and properties; the properties of a received message are read-only.

    Headers are attributes. Those that a sender may give have a setter; sending or receiving sets
    the others. Times are in ms since 1970, UTC; ``jms_expiration`` 0 is never.
    """

    #: mcd.Msd of this kind of message.
    kind = "jms_none"

    def __init__(self) -> None:
        """Begin with the default headers, no properties and a writeable body."""
        self.jms_message_id: str | None = None
        self.jms_timestamp = 0
        self.jms_correlation_id: str | None = None
        self.jms_reply_to: Destination | None = None
        self.jms_destination: Destination | None = None
        self.jms_delivery_mode = PERSISTENT
        self.jms_redelivered = False
        self.jms_type: str | None = None
        self.jms_expiration = 0
        self.jms_delivery_time = 0
        self.jms_priority = DEFAULT_PRIORITY
        self._properties: dict[str, Typed] = {}
        #: Parses the properties of a received message; None once they are parsed.
        self._unread: Callable[[], dict[str, Typed]] | None = None
        self._are_properties_writeable = True
        self._is_body_writeable = True
        self._acknowledge: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.jms_message_id or 'not sent'}>"

    def set_jms_correlation_id(self, correlation_id: str | None) -> None:
        """Set the correlation id, or remove it with None.

        ``ID:`` and hexadecimal digits are the bytes of a CorrelId; any other text is kept as it is.
        Raises MessageFormatException for a value that is not text.
        """
        self.jms_correlation_id = _text_or_none("JMSCorrelationID", correlation_id)

    @property
    def jms_correlation_id_as_bytes(self) -> bytes | None:
        """The correlation id as a CorrelId of 24 bytes, None without one."""
        text = self.jms_correlation_id
        return None if text is None else correlation_bytes(text)

    def set_jms_correlation_id_as_bytes(self, correlation_id: bytes | None) -> None:
        """Set the correlation id to a CorrelId, padded to 24 bytes; None and zeros remove it.

        Raises MessageFormatException for more than 24 bytes.
        """
        if correlation_id is None:
            self.jms_correlation_id = None
            return
        if len(correlation_id) > _ID_BYTES:
            raise MessageFormatException(f"{correlation_id!r} is not at most {_ID_BYTES} bytes")
        self.jms_correlation_id = id_text(correlation_id.ljust(_ID_BYTES, b"\0"))

    def set_jms_reply_to(self, destination: Destination | None) -> None:
        """Set the destination for replies; None removes it.

        Raises MessageFormatException for a value that is no destination.
        """
        if destination is not None and not isinstance(destination, Destination):
            raise MessageFormatException(f"JMSReplyTo {destination!r} is no destination")
        self.jms_reply_to = destination

    def set_jms_type(self, name: str | None) -> None:
        """Set the message type JMSType; None removes it.

        Raises MessageFormatException for a value that is not text.
        """
        self.jms_type = _text_or_none("JMSType", name)

    @property
    def typed_properties(self) -> dict[str, Typed]:
        """The properties with their types, by name; the first access may have to parse them."""
        unread = self._unread
        if unread is not None:
            self._properties, self._unread = unread(), None
        return self._properties

    def add_properties(self, properties: dict[str, Typed]) -> None:
        """Add properties, in place of those of the same name.

        Raises MessageNotWriteableException for a received message.
        """
        self._properties_to_write().update(properties)

    def property_names(self) -> list[str]:
        """Return the names of the properties, without headers."""
        return list(self.typed_properties)

    def clear_properties(self) -> None:
        """Remove all properties, and make properties writeable also in a received message."""
        self._properties, self._unread = {}, None
        self._are_properties_writeable = True

    def clear_body(self) -> None:
        """Empty the body, and make it writeable also in a received message."""
        self._is_body_writeable = True

    def acknowledge(self) -> None:
        """Acknowledge all received messages of the session, in CLIENT_ACKNOWLEDGE only.

        Does nothing in other modes, and for a message that was not received. Raises
        IllegalStateException if the session is closed.
        """
        if self._acknowledge is not None:
            self._acknowledge()

    def get_body(self, kind: type) -> Any:
        """Return the body, which must be of type ``kind``: str, bytes or dict.

        Returns None for a message without a body. Raises MessageFormatException for a body of
        another type.
        """
        if self.is_body_assignable_to(kind):
            return self._body()
        raise MessageFormatException(f"the body of a {type(self).__name__} is no {kind.__name__}")

    def is_body_assignable_to(self, kind: type) -> bool:
        """Return True if the body is of type ``kind``, or the message has none.

        :meth:`get_body` can then return it.
        """
        body = self._body()
        return body is None or isinstance(body, kind)

    def _body(self) -> Any:
        """Return the body as str, bytes or dict; None for a message without a body."""
        return None

    def _properties_to_read(self) -> dict[str, Typed]:
        """Return the properties with their types, by name."""
        return self.typed_properties

    def _properties_to_write(self) -> dict[str, Typed]:
        """Return the properties; raises MessageNotWriteableException if they are read-only."""
        if not self._are_properties_writeable:
            raise MessageNotWriteableException("received properties may only be read")
        return self.typed_properties

    def _check_writeable(self) -> None:
        """Raise MessageNotWriteableException if the body is read-only."""
        if not self._is_body_writeable:
            raise MessageNotWriteableException("a received body may only be read")

    def received(
        self, properties: Callable[[], dict[str, Typed]], acknowledge: Callable[[], None] | None
    ) -> None:
        """Make this a received message: its properties and body become read-only.

        ``properties`` parses the properties. It is called when the program first reads them,
        because parsing costs more than the rest of a receive. ``acknowledge`` is called by
        :meth:`acknowledge`.
        """
        self._unread = properties
        self._acknowledge = acknowledge
        self._are_properties_writeable = self._is_body_writeable = False

    def wire_body(self, codec: str) -> bytes | None:
        """Return the body as it is sent: empty, because a plain Message has none.

        Classes with a body return that, with text encoded in ``codec``, and None for a null body.
        """
        return b""


class TextMessage(Message):
    """A message whose body is text, or None."""

    kind = "jms_text"

    def __init__(self, text: str | None = None) -> None:
        """Begin with ``text``; raises MessageFormatException unless it is a str or None."""
        super().__init__()
        self._text: str | None = None
        #: A received body and its character set; None once the text is decoded.
        self._raw: tuple[bytes, str | None, int] | None = None
        self.set_text(text)

    @property
    def text(self) -> str | None:
        """The text, or None; the first access decodes a received text.

        Raises MessageFormatException if its bytes are not valid in its character set, or if the
        character set is unknown.
        """
        if self._raw is not None:
            raw, codec, ccsid = self._raw
            try:
                self._text = raw.decode("" if codec is None else codec)
            except (UnicodeDecodeError, LookupError):
                raise MessageFormatException(f"the text is not of CodedCharSetId {ccsid}") from None
            self._raw = None
        return self._text

    @text.setter
    def text(self, text: str | None) -> None:
        self.set_text(text)

    def set_text(self, text: str | None) -> None:
        """Set the text, or None.

        Raises MessageFormatException for a value that is not text, MessageNotWriteableException for
        a received message.
        """
        self._check_writeable()
        self._text = _text_or_none("text", text)
        self._raw = None

    def clear_body(self) -> None:
        """Set the text to None, and make it writeable also in a received message."""
        super().clear_body()
        self._text = self._raw = None

    def set_raw(self, raw: bytes, codec: str | None, coded_char_set_id: int = UTF_8) -> None:
        """Set a received body, ``raw``, which is decoded with ``codec`` when it is first read.

        ``codec`` None means that the character set is unknown: the read then raises
        MessageFormatException, which names ``coded_char_set_id``.
        """
        self._raw = raw, codec, coded_char_set_id

    def wire_body(self, codec: str) -> bytes | None:
        """Return the text encoded in ``codec``; None if the text is None.

        Raises MessageFormatException for a character not in the codec.
        """
        text = self.text
        if text is None:
            return None
        try:
            return text.encode(codec)
        except UnicodeEncodeError as error:
            raise MessageFormatException(f"the text: {error}") from None

    def _body(self) -> str | None:
        """Return the text, or None; raises MessageFormatException if it cannot be decoded."""
        return self.text


def _text_or_none(name: str, text: str | None) -> str | None:
    """Return ``text`` unchanged; raises MessageFormatException unless it is a str or None."""
    if text is not None and not isinstance(text, str):
        raise MessageFormatException(f"{name} {text!r} is not text")
    return text


class TypedStream(ABC):
    """Values that are written one after the other and read in the same order.

    Reading raises MessageNotReadableException before ``reset``, and MessageEOFException at the end.
    Writing raises MessageNotWriteableException after ``reset``, and MessageFormatException for a
    value of another type.
    """

    @abstractmethod
    def _write(self, value: Typed) -> None:
        """Append a value to the body.

        Raises MessageNotWriteableException for a read-only body.
        """

    @abstractmethod
    def _read(self, dt: str) -> object:
        """Read the next value as JMS type ``dt``, such as INT, and return it.

        Raises MessageEOFException at the end, MessageNotReadableException before ``reset``.
        """

    def write_boolean(self, value: bool) -> None:
        """Append a boolean to the body.

        Raises MessageFormatException for another value, MessageNotWriteableException for a
        read-only body.
        """
        self._write(v.typed(v.BOOLEAN, value))

    def write_byte(self, value: int) -> None:
        """Append an 8-bit integer to the body.

        Raises MessageFormatException for another value, MessageNotWriteableException for a
        read-only body.
        """
        self._write(v.typed(v.BYTE, value))

    def write_short(self, value: int) -> None:
        """Append a 16-bit integer to the body.

        Raises MessageFormatException for another value, MessageNotWriteableException for a
        read-only body.
        """
        self._write(v.typed(v.SHORT, value))

    def write_char(self, value: str) -> None:
        """Append a character to the body.

        Raises MessageFormatException for another value, MessageNotWriteableException for a
        read-only body.
        """
        self._write(v.typed(v.CHAR, value))

    def write_int(self, value: int) -> None:
        """Append a 32-bit integer to the body.

        Raises MessageFormatException for another value, MessageNotWriteableException for a
        read-only body.
        """
        self._write(v.typed(v.INT, value))

    def write_long(self, value: int) -> None:
        """Append a 64-bit integer to the body.

        Raises MessageFormatException for another value, MessageNotWriteableException for a
        read-only body.
        """
        self._write(v.typed(v.LONG, value))

    def write_float(self, value: float) -> None:
        """Append a 32-bit float to the body.

        Raises MessageFormatException for another value, MessageNotWriteableException for a
        read-only body.
        """
        self._write(v.typed(v.FLOAT, value))

    def write_double(self, value: float) -> None:
        """Append a 64-bit float to the body.

        Raises MessageFormatException for another value, MessageNotWriteableException for a
        read-only body.
        """
        self._write(v.typed(v.DOUBLE, value))

    def read_boolean(self) -> bool:
        """Read the next value of the body as a boolean.

        Raises MessageEOFException at the end, MessageNotReadableException before ``reset``,
        MessageFormatException for a stream value of another type.
        """
        return cast(bool, self._read(v.BOOLEAN))

    def read_byte(self) -> int:
        """Read the next value of the body as an 8-bit integer.

        Raises MessageEOFException at the end, MessageNotReadableException before ``reset``,
        MessageFormatException for a stream value of another type.
        """
        return cast(int, self._read(v.BYTE))

    def read_short(self) -> int:
        """Read the next value of the body as a 16-bit integer.

        Raises MessageEOFException at the end, MessageNotReadableException before ``reset``,
        MessageFormatException for a stream value of another type.
        """
        return cast(int, self._read(v.SHORT))

    def read_char(self) -> str:
        """Read the next value of the body as a character.

        Raises MessageEOFException at the end, MessageNotReadableException before ``reset``,
        MessageFormatException for a stream value of another type.
        """
        return cast(str, self._read(v.CHAR))

    def read_int(self) -> int:
        """Read the next value of the body as a 32-bit integer.

        Raises MessageEOFException at the end, MessageNotReadableException before ``reset``,
        MessageFormatException for a stream value of another type.
        """
        return cast(int, self._read(v.INT))

    def read_long(self) -> int:
        """Read the next value of the body as a 64-bit integer.

        Raises MessageEOFException at the end, MessageNotReadableException before ``reset``,
        MessageFormatException for a stream value of another type.
        """
        return cast(int, self._read(v.LONG))

    def read_float(self) -> float:
        """Read the next value of the body as a 32-bit float.

        Raises MessageEOFException at the end, MessageNotReadableException before ``reset``,
        MessageFormatException for a stream value of another type.
        """
        return cast(float, self._read(v.FLOAT))

    def read_double(self) -> float:
        """Read the next value of the body as a 64-bit float.

        Raises MessageEOFException at the end, MessageNotReadableException before ``reset``,
        MessageFormatException for a stream value of another type.
        """
        return cast(float, self._read(v.DOUBLE))


class MapMessage(Message):
    """A message whose body is a map of values by name.

    Reading a missing value as a number raises NumberFormatException.
    """

    kind = "jms_map"

    def __init__(self) -> None:
        """Begin with an empty map."""
        super().__init__()
        self._map: dict[str, Typed] = {}

    def set_object(self, name: str, value: object) -> None:
        """Set the value of a name to a bool, int, float, str, bytes or None.

        An int is stored as int if it fits in 32 bits, else as long; a float as double. Raises
        MessageFormatException for another value, ValueError for an empty name,
        MessageNotWriteableException for a received message.
        """
        self._set(name, v.typed_object(value, takes_bytes=True))

    def get_object(self, name: str) -> object:
        """Return the value of a name in the type in which it was set, None for a missing one."""
        found = self._map.get(name)
        return None if found is None else found.value

    def map_names(self) -> list[str]:
        """Return the names of the values, as a new list."""
        return list(self._map)

    def item_exists(self, name: str) -> bool:
        """Return True if the map has a value of this name, even None."""
        return name in self._map

    def set_boolean(self, name: str, value: bool) -> None:
        """Set the value of a name to a boolean.

        Raises MessageFormatException for another value, ValueError for an empty name,
        MessageNotWriteableException for a received message.
        """
        self._set(name, v.typed(v.BOOLEAN, value))

    def set_byte(self, name: str, value: int) -> None:
        """Set the value of a name to an 8-bit integer.

        Raises MessageFormatException for another value, ValueError for an empty name,
        MessageNotWriteableException for a received message.
        """
        self._set(name, v.typed(v.BYTE, value))

    def set_short(self, name: str, value: int) -> None:
        """Set the value of a name to a 16-bit integer.

        Raises MessageFormatException for another value, ValueError for an empty name,
        MessageNotWriteableException for a received message.
        """
        self._set(name, v.typed(v.SHORT, value))

    def set_char(self, name: str, value: str) -> None:
        """Set the value of a name to a character.

        Raises MessageFormatException for another value, ValueError for an empty name,
        MessageNotWriteableException for a received message.
        """
        self._set(name, v.typed(v.CHAR, value))

    def set_int(self, name: str, value: int) -> None:
        """Set the value of a name to a 32-bit integer.

        Raises MessageFormatException for another value, ValueError for an empty name,
        MessageNotWriteableException for a received message.
        """
        self._set(name, v.typed(v.INT, value))

    def set_long(self, name: str, value: int) -> None:
        """Set the value of a name to a 64-bit integer.

        Raises MessageFormatException for another value, ValueError for an empty name,
        MessageNotWriteableException for a received message.
        """
        self._set(name, v.typed(v.LONG, value))

    def set_float(self, name: str, value: float) -> None:
        """Set the value of a name to a 32-bit float.

        Raises MessageFormatException for another value, ValueError for an empty name,
        MessageNotWriteableException for a received message.
        """
        self._set(name, v.typed(v.FLOAT, value))

    def set_double(self, name: str, value: float) -> None:
        """Set the value of a name to a 64-bit float.

        Raises MessageFormatException for another value, ValueError for an empty name,
        MessageNotWriteableException for a received message.
        """
        self._set(name, v.typed(v.DOUBLE, value))

    def set_string(self, name: str, value: str | None) -> None:
        """Set the value of a name to text, or None.

        Raises MessageFormatException for another value, ValueError for an empty name,
        MessageNotWriteableException for a received message.
        """
        self._set(name, v.typed(v.STRING, value))

    def set_bytes(self, name: str, value: bytes | None) -> None:
        """Set the value of a name to bytes, or None.

        Raises MessageFormatException for another value, ValueError for an empty name,
        MessageNotWriteableException for a received message.
        """
        self._set(name, v.typed(v.BYTES, value))

    def get_boolean(self, name: str) -> bool:
        """Return the value of a name as a boolean; False for a missing one.

        Raises MessageFormatException if JMS has no conversion from its type.
        """
        return cast(bool, self._get(name, v.BOOLEAN))

    def get_byte(self, name: str) -> int:
        """Return the value of a name as an 8-bit integer.

        Raises NumberFormatException for a missing value or a text that is no such number,
        MessageFormatException if JMS has no conversion from its type.
        """
        return cast(int, self._get(name, v.BYTE))

    def get_short(self, name: str) -> int:
        """Return the value of a name as a 16-bit integer.

        Raises NumberFormatException for a missing value or a text that is no such number,
        MessageFormatException if JMS has no conversion from its type.
        """
        return cast(int, self._get(name, v.SHORT))

    def get_char(self, name: str) -> str:
        """Return the value of a name as a character.

        Raises MessageFormatException for a missing value, and for one that is no character.
        """
        return cast(str, self._get(name, v.CHAR))

    def get_int(self, name: str) -> int:
        """Return the value of a name as a 32-bit integer.

        Raises NumberFormatException for a missing value or a text that is no such number,
        MessageFormatException if JMS has no conversion from its type.
        """
        return cast(int, self._get(name, v.INT))

    def get_long(self, name: str) -> int:
        """Return the value of a name as a 64-bit integer.

        Raises NumberFormatException for a missing value or a text that is no such number,
        MessageFormatException if JMS has no conversion from its type.
        """
        return cast(int, self._get(name, v.LONG))

    def get_float(self, name: str) -> float:
        """Return the value of a name as a 32-bit float.

        Raises NumberFormatException for a missing value or a text that is no such number,
        MessageFormatException if JMS has no conversion from its type.
        """
        return cast(float, self._get(name, v.FLOAT))

    def get_double(self, name: str) -> float:
        """Return the value of a name as a 64-bit float.

        Raises NumberFormatException for a missing value or a text that is no such number,
        MessageFormatException if JMS has no conversion from its type.
        """
        return cast(float, self._get(name, v.DOUBLE))

    def get_string(self, name: str) -> str | None:
        """Return the value of a name as text, None for a missing one.

        Raises MessageFormatException if JMS has no conversion from its type.
        """
        return cast("str | None", self._get(name, v.STRING))

    def get_bytes(self, name: str) -> bytes | None:
        """Return the value of a name as bytes, None for a missing one.

        Raises MessageFormatException for a value that is not bytes.
        """
        return cast("bytes | None", self._get(name, v.BYTES))

    def clear_body(self) -> None:
        """Remove all values, and make the map writeable also in a received message."""
        super().clear_body()
        self._map = {}

    def set_raw(self, text: str) -> None:
        """Set a received body from XML; raises MQRC_RFH_FORMAT_ERROR if it is not one ``<map>``."""
        self._map = {}
        for element in elements_of(text, "map"):
            # An older form has the name as the element's own.
            name = element.attributes.get("name", element.name)
            self._map[name] = v.known(element.typed())

    def wire_body(self, codec: str) -> bytes | None:
        """Return ``<map><elt name="…" dt='…'>…</elt>…</map>`` in the character set ``codec``.

        A character not in it becomes a numeric XML reference. The result is never None.
        """
        elements = (
            property_element("elt", typed, attributes=f' name="{escape(name)}"')
            for name, typed in self._map.items()
        )
        return encoded(f"<map>{''.join(elements)}</map>", codec)

    def _body(self) -> dict[str, Any] | None:
        """Return the map as a new dict of value by name."""
        return {name: typed.value for name, typed in self._map.items()}

    def _set(self, name: str, value: Typed) -> None:
        """Set the value of a name.

        Raises ValueError for an empty name, MessageNotWriteableException for a received message.
        """
        self._check_writeable()
        if not name:
            raise ValueError("a value of a map needs a name")
        self._map[name] = value

    def _get(self, name: str, dt: str) -> object:
        """Return the value of a name converted to the JMS type ``dt``, such as INT.

        A missing value is read as null. The errors are those of ``values.converted``.
        """
        return v.converted(self._map.get(name), dt)


class StreamMessage(TypedStream, Message):
    """A message whose body is a sequence of values; written, then read after ``reset``."""

    kind = "jms_stream"

    def __init__(self) -> None:
        """Begin with an empty body, which is being written."""
        super().__init__()
        self._parts: list[Typed] = []
        self._at = 0

    def write_object(self, value: object) -> None:
        """Append a bool, int, float, str, bytes or None to the body, as one value.

        An int is written as int if it fits in 32 bits, else as long; a float as double. Raises
        MessageFormatException for another type, MessageNotWriteableException for a read-only body.
        """
        self._write(v.typed_object(value, takes_bytes=True))

    def read_object(self) -> object:
        """Read the next value in the type in which it was written.

        Raises MessageEOFException at the end, MessageNotReadableException before ``reset``.
        """
        value = self._next().value
        self._at += 1
        return value

    def write_string(self, value: str | None) -> None:
        """Append text or None to the body.

        Raises MessageFormatException for another value, MessageNotWriteableException for a
        read-only body.
        """
        self._write(v.typed(v.STRING, value))

    def read_string(self) -> str | None:
        """Read the next value as text; None if None was written.

        Raises MessageEOFException at the end, MessageNotReadableException before ``reset``,
        MessageFormatException for bytes.
        """
        return cast("str | None", self._read(v.STRING))

    def write_bytes(self, value: bytes | None) -> None:
        """Append bytes or None to the body, as one value.

        Raises MessageFormatException for another value, MessageNotWriteableException for a
        read-only body.
        """
        self._write(v.typed(v.BYTES, value))

    def read_bytes(self) -> bytes | None:
        """Read the next value as bytes, in full; None if None was written.

        Raises MessageEOFException at the end, MessageNotReadableException before ``reset``,
        MessageFormatException for another type.
        """
        return cast("bytes | None", self._read(v.BYTES))

    def reset(self) -> None:
        """Make the body read-only, and let reading begin at the first value."""
        self._is_body_writeable = False
        self._at = 0

    def clear_body(self) -> None:
        """Remove all values, and make the stream writeable also in a received message."""
        super().clear_body()
        self._parts, self._at = [], 0

    def set_raw(self, text: str) -> None:
        """Set a received body from XML; raises MQRC_RFH_FORMAT_ERROR if it is no ``<stream>``."""
        self._parts = [v.known(element.typed()) for element in elements_of(text, "stream")]

    def wire_body(self, codec: str) -> bytes | None:
        """Return ``<stream><elt dt='…'>…</elt>…</stream>`` in the character set ``codec``.

        A character not in it becomes a numeric XML reference. The result is never None.
        """
        elements = (property_element("elt", typed) for typed in self._parts)
        return encoded(f"<stream>{''.join(elements)}</stream>", codec)

    def is_body_assignable_to(self, kind: type) -> bool:
        """Return False: a stream is read value by value only."""
        return False

    def _write(self, value: Typed) -> None:
        """Append a value; raises MessageNotWriteableException for a read-only body."""
        self._check_writeable()
        self._parts.append(value)

    def _read(self, dt: str) -> object:
        """Return the next value converted to type ``dt``, and move behind it.

        Raises MessageEOFException at the end, MessageNotReadableException before ``reset``. Raises
        MessageFormatException for a value that cannot be converted, which stays the next one.
        """
        value = v.converted(self._next(), dt)
        # A value that could not be converted is read again.
        self._at += 1
        return value

    def _next(self) -> Typed:
        """Return the next value, which stays the next one.

        Raises MessageEOFException at the end, MessageNotReadableException before ``reset``.
        """
        if self._is_body_writeable:
            raise MessageNotReadableException("the stream is being written: reset it first")
        if self._at >= len(self._parts):
            raise MessageEOFException(f"all {len(self._parts)} values are read")
        return self._parts[self._at]


def elements_of(text: str, name: str) -> list[Element]:
    """Return the elements in the XML ``text`` of a map or stream; ``name`` is the root element.

    Raises MQRC_RFH_FORMAT_ERROR for other XML.
    """
    roots = parse(text)
    if len(roots) != 1 or roots[0].name != name:
        raise mq_error(rc.MQRC_RFH_FORMAT_ERROR, f"{text[:40]!r} is not one <{name}>")
    return roots[0].children


def encoded(text: str, codec: str) -> bytes:
    """Return encoded text; a character not in the codec becomes a numeric XML reference."""
    return text.encode(codec, "xmlcharrefreplace")


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

    Numbers are written big-endian and read in the Encoding of the message.
    """

    kind = "jms_bytes"

    def __init__(self) -> None:
        """Begin with an empty body, which is being written."""
        super().__init__()
        self._written = bytearray()
        self._received = b""
        self._at = 0
        self._integer_order = self._float_order = ">"

    @property
    def body_length(self) -> int:
        """The length of the body in bytes.

        Raises MessageNotReadableException before ``reset`` in a message that is being written.
        """
        self._check_readable()
        return len(self._received)

    def write_bytes(self, value: bytes, offset: int = 0, length: int | None = None) -> None:
        """Append bytes to the body, or ``length`` of them from ``offset``; None is up to the end.

        Raises MessageFormatException for another value, MessageNotWriteableException for a
        read-only body.
        """
        self._check_writeable()
        raw = v.typed(v.BYTES, value).value
        if not isinstance(raw, bytes):
            raise MessageFormatException("None is not bytes")
        self._written += raw[offset : None if length is None else offset + length]

    def read_bytes(self, length: int | None = None) -> bytes:
        """Read up to ``length`` bytes, None for all that are left; b"" at the end.

        Raises MessageNotReadableException before ``reset``.
        """
        self._check_readable()
        end = len(self._received) if length is None else self._at + length
        found = self._received[self._at : end]
        self._at += len(found)
        return found

    def write_utf(self, value: str) -> None:
        """Append text in Java's modified UTF-8, after its length in two bytes.

        Raises MessageFormatException for None and for more than 65,535 bytes,
        MessageNotWriteableException for a read-only body.
        """
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
        """Read text that :meth:`write_utf` wrote.

        Raises MessageFormatException for other data, MessageEOFException if bytes are missing; the
        position then stays.
        """
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
        """Read an unsigned 8-bit integer; raises MessageEOFException at the end of the body."""
        return self._take(1)[0]

    def read_unsigned_short(self) -> int:
        """Read an unsigned 16-bit integer; raises MessageEOFException if bytes are missing."""
        return cast(int, struct.unpack(self._integer_order + "H", self._take(2))[0])

    def write_object(self, value: object) -> None:
        """Append a bool, int, float, str (as by :meth:`write_utf`) or bytes to the body.

        An int has 4 bytes if it fits, else 8; a float has 8. Raises MessageFormatException for
        another value, MessageNotWriteableException for a read-only body.
        """
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
        """Make the body read-only, and let reading begin at the first byte."""
        if self._is_body_writeable:
            self._received = bytes(self._written)
            self._integer_order = self._float_order = ">"
        self._is_body_writeable = False
        self._at = 0

    def clear_body(self) -> None:
        """Empty the body, and make it writeable also in a received message."""
        super().clear_body()
        self._written, self._received, self._at = bytearray(), b"", 0

    def set_raw(self, raw: bytes, encoding: int = MQENC_NORMAL) -> None:
        """Set a received body; ``encoding`` (MQENC_*) gives the byte order of its numbers."""
        self._received, self._at = raw, 0
        self._integer_order = ">" if is_big_endian(encoding) else "<"
        is_reversed = encoding & MQENC_FLOAT_MASK == MQENC_FLOAT_IEEE_REVERSED
        self._float_order = "<" if is_reversed else ">"

    def wire_body(self, codec: str) -> bytes | None:
        """Return the body as it was written or received, never None; ``codec`` is not used."""
        return bytes(self._written) if self._is_body_writeable else self._received

    def _body(self) -> bytes | None:
        """Return the bytes written so far, or those of a read-only body; never None."""
        return self.wire_body("")

    def _write(self, value: Typed) -> None:
        """Append a number, boolean or character to the body, big-endian.

        Raises MessageFormatException for a character above U+FFFF, MessageNotWriteableException for
        a read-only body.
        """
        self._check_writeable()
        number = ord(str(value.value)) if value.dt == v.CHAR else value.value
        if value.dt == v.CHAR and not cast(int, number) < 1 << 16:
            raise MessageFormatException(f"{value.value!r} is more than a char of 16 bits")
        self._written += struct.pack(">" + _CODES[value.dt], number)

    def _read(self, dt: str) -> object:
        """Read a value of type ``dt`` in the byte order of the message.

        Raises MessageEOFException if bytes are missing, MessageNotReadableException before
        ``reset``.
        """
        order = self._float_order if dt in (v.FLOAT, v.DOUBLE) else self._integer_order
        code = order + _CODES[dt]
        value: object = struct.unpack(code, self._take(struct.calcsize(code)))[0]
        return chr(cast(int, value)) if dt == v.CHAR else value

    def _take(self, length: int) -> bytes:
        """Return the next ``length`` bytes and move behind them.

        Raises MessageEOFException, without moving, if fewer are left, MessageNotReadableException
        before ``reset``.
        """
        self._check_readable()
        if self._at + length > len(self._received):
            raise MessageEOFException(f"{len(self._received) - self._at} of {length} bytes left")
        self._at += length
        return self._received[self._at - length : self._at]

    def _check_readable(self) -> None:
        """Raise MessageNotReadableException if the body is being written."""
        if self._is_body_writeable:
            raise MessageNotReadableException("the body is being written: reset it first")


def _modified_utf_8(unit: int) -> bytes:
    """Return a UTF-16 code unit in Java's modified UTF-8: 1 to 3 bytes, NUL as ``C0 80``."""
    if 0 < unit < 0x80:
        return bytes((unit,))
    if unit < 0x800:
        return bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
    return bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
