"""Values of properties, map bodies and stream bodies: JMS types, and conversions between types.

At the end: the methods that set and read the properties of messages and producers.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Self, cast

from mayfly.jms.constants import KNOWN_PROPERTIES
from mayfly.jms.errors import MessageFormatException, NumberFormatException, refuse
from mayfly.mqi import reasons as rc
from mayfly.mqi.properties import INTEGER_BITS, Typed, Value, fits, format_float, single
from mayfly.verbs.properties.selectors.names import RESERVED

BOOLEAN, BYTE, SHORT, CHAR = "boolean", "i1", "i2", "char"
INT, LONG, FLOAT, DOUBLE = "i4", "i8", "r4", "r8"
STRING, BYTES = "string", "bin.hex"
_NAMES = {
    BOOLEAN: "boolean",
    BYTE: "byte",
    SHORT: "short",
    CHAR: "char",
    INT: "int",
    LONG: "long",
    FLOAT: "float",
    DOUBLE: "double",
    STRING: "String",
    BYTES: "byte[]",
}
#: Written as -> may be read as, besides itself.
CONVERSIONS: dict[str, tuple[str, ...]] = {
    BOOLEAN: (STRING,),
    BYTE: (SHORT, INT, LONG, STRING),
    SHORT: (INT, LONG, STRING),
    CHAR: (STRING,),
    INT: (LONG, STRING),
    LONG: (STRING,),
    FLOAT: (DOUBLE, STRING),
    DOUBLE: (STRING,),
    STRING: (BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE),
    BYTES: (),
}


def typed(dt: str, value: object) -> Typed:
    """Return ``value`` with the JMS type ``dt``, such as INT.

    Integers must be in range; an int may be used for a float type; a String or byte[] may be None.
    Raises MessageFormatException for another value.
    """
    if value is None and dt in (STRING, BYTES):
        return Typed(dt, None)
    if dt in INTEGER_BITS:
        if type(value) is int and fits(value, dt):
            return Typed(dt, value)
    elif dt in (FLOAT, DOUBLE):
        if type(value) in (int, float):
            return Typed(dt, _float(dt, value))
    elif dt == CHAR:
        if type(value) is str and len(value) == 1:
            return Typed(dt, value)
    elif dt == BYTES:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return Typed(dt, bytes(value))
    elif type(value) is (bool if dt == BOOLEAN else str):
        return Typed(dt, value)
    raise MessageFormatException(f"{value!r} is not a {_NAMES[dt]}")


def typed_object(value: object, *, takes_bytes: bool) -> Typed:
    """Return a Python value with its JMS type.

    bool becomes boolean, float double, str String; an int becomes int if it fits in 32 bits, else
    long. bytes are allowed if ``takes_bytes``. Raises MessageFormatException for another type.
    """
    if type(value) is str or value is None:
        return Typed(STRING, value)
    if type(value) is bool:
        return Typed(BOOLEAN, value)
    if type(value) is int:
        return typed(INT if fits(value, INT) else LONG, value)
    if type(value) is float:
        return Typed(DOUBLE, value)
    if takes_bytes and isinstance(value, (bytes, bytearray, memoryview)):
        return Typed(BYTES, bytes(value))
    raise MessageFormatException(f"{value!r} is a {type(value).__name__}, no type of JMS")


def known(found: Typed) -> Typed:
    """Return a value of a message unchanged; one of a type that JMS does not have becomes text."""
    return found if found.dt in CONVERSIONS else Typed(STRING, found.value)


def converted(found: Typed | None, dt: str) -> Value:
    """Return the value of ``found`` converted to type ``dt``.

    ``found`` None, a missing value, is read as null. Null reads as False for a boolean, as None for
    a String or byte[]. For a number it raises NumberFormatException, for a char
    MessageFormatException. Raises MessageFormatException where JMS has no conversion,
    NumberFormatException for a text that is no such number.
    """
    if found is None or found.value is None:
        return _null(dt)
    if found.dt == dt:
        return found.value
    if dt not in CONVERSIONS[found.dt]:
        raise MessageFormatException(f"a {_NAMES[found.dt]} cannot be read as {_NAMES[dt]}")
    if dt == STRING:
        return text_of(found)
    if found.dt == STRING:
        assert isinstance(found.value, str)
        return _parsed(found.value, dt)
    return found.value


def text_of(found: Typed) -> str:
    """Return a value other than None as text in Java's form, such as ``true`` and ``1.0E10``."""
    value = found.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_float(value, is_single=found.dt == FLOAT)
    return str(value)


def _null(dt: str) -> Value:
    """Return null read as type ``dt``: None for String and byte[], False for boolean.

    Raises MessageFormatException for a char, NumberFormatException for numbers.
    """
    if dt in (STRING, BYTES):
        return None
    if dt == BOOLEAN:
        return False
    if dt == CHAR:
        raise MessageFormatException("null is not a char")
    raise NumberFormatException(f"null is not a {_NAMES[dt]}")


def _parsed(text: str, dt: str) -> Value:
    """Return a text as boolean or number of type ``dt``; text other than ``true`` is False.

    Raises NumberFormatException for a text that is no such number.
    """
    if dt == BOOLEAN:
        return text.lower() == "true"
    try:
        if "_" in text:
            raise ValueError(text)
        return typed(dt, float(text) if dt in (FLOAT, DOUBLE) else int(text)).value
    except (ValueError, MessageFormatException):
        raise NumberFormatException(f"{text!r} is not a {_NAMES[dt]}") from None


def _float(dt: str, value: object) -> float:
    """Return a number as double, or rounded to 32 bits for FLOAT.

    Raises MessageFormatException if it is too large for the type.
    """
    assert isinstance(value, (int, float))
    try:
        return float(value) if dt == DOUBLE else single(float(value))
    except OverflowError:
        raise MessageFormatException(f"{value!r} is too large for a {_NAMES[dt]}") from None


_IDENTIFIER = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")


@lru_cache(maxsize=1024)
def check_property_name(name: object) -> None:
    """Raise JMSException with MQRC_PROPERTY_NAME_ERROR unless JMS allows the property name.

    It must be a Java identifier and no word of the selector language. It may begin with JMS only if
    JMS or IBM MQ defines it.
    """
    if not isinstance(name, str) or _IDENTIFIER.fullmatch(name) is None:
        refuse(rc.MQRC_PROPERTY_NAME_ERROR, f"{name!r} is not an identifier")
    if name.upper() in RESERVED:
        refuse(rc.MQRC_PROPERTY_NAME_ERROR, f"{name!r} is a word of the selector language")
    if name.startswith("JMS") and name not in KNOWN_PROPERTIES:
        refuse(rc.MQRC_PROPERTY_NAME_ERROR, f"{name!r}: names beginning with JMS are reserved")


class PropertyAccess(ABC):
    """The methods that set and read properties; a setter returns its object.

    Reading converts as JMS allows. It raises MessageFormatException without a conversion,
    NumberFormatException for a text that is no such number, or for a missing numeric property. A
    JMSProducer raises the corresponding JMSRuntimeException instead.
    """

    @abstractmethod
    def _properties_to_read(self) -> dict[str, Typed]:
        """Return the properties with their types, by name."""

    @abstractmethod
    def _properties_to_write(self) -> dict[str, Typed]:
        """Return the dict of properties, which the caller changes.

        Raises MessageNotWriteableException if they are read-only.
        """

    def set_property(self, name: str, value: object) -> Self:
        """Set a property to a bool, int, float, str or None; return the message or producer.

        An int is stored as int if it fits in 32 bits, else as long; a float as double. Raises
        MessageFormatException for another value, MessageNotWriteableException for a received
        message, JMSException with MQRC_PROPERTY_NAME_ERROR for a wrong name.
        """
        check_property_name(name)
        properties = self._properties_to_write()
        properties[name] = typed_object(value, takes_bytes=False)
        return self

    def get_property(self, name: str) -> object:
        """Return the value of a property, None for a missing one."""
        found = self._properties_to_read().get(name)
        return None if found is None else found.value

    set_object_property = set_property
    get_object_property = get_property

    def property_exists(self, name: str) -> bool:
        """Return True if the property is set, even to None."""
        return name in self._properties_to_read()

    def set_boolean_property(self, name: str, value: bool) -> Self:
        """Set a property to a boolean; return the message or producer.

        Raises MessageFormatException for another value, MessageNotWriteableException for a received
        message, JMSException with MQRC_PROPERTY_NAME_ERROR for a wrong name.
        """
        return self._set_typed(name, BOOLEAN, value)

    def set_byte_property(self, name: str, value: int) -> Self:
        """Set a property to an 8-bit integer; return the message or producer.

        Raises MessageFormatException for another value, MessageNotWriteableException for a received
        message, JMSException with MQRC_PROPERTY_NAME_ERROR for a wrong name.
        """
        return self._set_typed(name, BYTE, value)

    def set_short_property(self, name: str, value: int) -> Self:
        """Set a property to a 16-bit integer; return the message or producer.

        Raises MessageFormatException for another value, MessageNotWriteableException for a received
        message, JMSException with MQRC_PROPERTY_NAME_ERROR for a wrong name.
        """
        return self._set_typed(name, SHORT, value)

    def set_int_property(self, name: str, value: int) -> Self:
        """Set a property to a 32-bit integer; return the message or producer.

        Raises MessageFormatException for another value, MessageNotWriteableException for a received
        message, JMSException with MQRC_PROPERTY_NAME_ERROR for a wrong name.
        """
        return self._set_typed(name, INT, value)

    def set_long_property(self, name: str, value: int) -> Self:
        """Set a property to a 64-bit integer; return the message or producer.

        Raises MessageFormatException for another value, MessageNotWriteableException for a received
        message, JMSException with MQRC_PROPERTY_NAME_ERROR for a wrong name.
        """
        return self._set_typed(name, LONG, value)

    def set_float_property(self, name: str, value: float) -> Self:
        """Set a property to a 32-bit float; return the message or producer.

        Raises MessageFormatException for another value, MessageNotWriteableException for a received
        message, JMSException with MQRC_PROPERTY_NAME_ERROR for a wrong name.
        """
        return self._set_typed(name, FLOAT, value)

    def set_double_property(self, name: str, value: float) -> Self:
        """Set a property to a 64-bit float; return the message or producer.

        Raises MessageFormatException for another value, MessageNotWriteableException for a received
        message, JMSException with MQRC_PROPERTY_NAME_ERROR for a wrong name.
        """
        return self._set_typed(name, DOUBLE, value)

    def set_string_property(self, name: str, value: str | None) -> Self:
        """Set a property to text, or None; return the message or producer.

        Raises MessageFormatException for another value, MessageNotWriteableException for a received
        message, JMSException with MQRC_PROPERTY_NAME_ERROR for a wrong name.
        """
        return self._set_typed(name, STRING, value)

    def get_boolean_property(self, name: str) -> bool:
        """Return a property as a boolean; False for a missing one.

        Raises MessageFormatException if JMS has no conversion from its type.
        """
        return cast(bool, self._get_typed(name, BOOLEAN))

    def get_byte_property(self, name: str) -> int:
        """Return a property as an 8-bit integer.

        Raises NumberFormatException for a missing property or a text that is no such number,
        MessageFormatException if JMS has no conversion from its type.
        """
        return cast(int, self._get_typed(name, BYTE))

    def get_short_property(self, name: str) -> int:
        """Return a property as a 16-bit integer.

        Raises NumberFormatException for a missing property or a text that is no such number,
        MessageFormatException if JMS has no conversion from its type.
        """
        return cast(int, self._get_typed(name, SHORT))

    def get_int_property(self, name: str) -> int:
        """Return a property as a 32-bit integer.

        Raises NumberFormatException for a missing property or a text that is no such number,
        MessageFormatException if JMS has no conversion from its type.
        """
        return cast(int, self._get_typed(name, INT))

    def get_long_property(self, name: str) -> int:
        """Return a property as a 64-bit integer.

        Raises NumberFormatException for a missing property or a text that is no such number,
        MessageFormatException if JMS has no conversion from its type.
        """
        return cast(int, self._get_typed(name, LONG))

    def get_float_property(self, name: str) -> float:
        """Return a property as a 32-bit float.

        Raises NumberFormatException for a missing property or a text that is no such number,
        MessageFormatException if JMS has no conversion from its type.
        """
        return cast(float, self._get_typed(name, FLOAT))

    def get_double_property(self, name: str) -> float:
        """Return a property as a 64-bit float.

        Raises NumberFormatException for a missing property or a text that is no such number,
        MessageFormatException if JMS has no conversion from its type.
        """
        return cast(float, self._get_typed(name, DOUBLE))

    def get_string_property(self, name: str) -> str | None:
        """Return a property as text, None for a missing one."""
        return cast("str | None", self._get_typed(name, STRING))

    def _set_typed(self, name: str, dt: str, value: object) -> Self:
        """Set a property to ``value`` as JMS type ``dt``, such as INT.

        Raises JMSException with MQRC_PROPERTY_NAME_ERROR, MessageFormatException for another value,
        MessageNotWriteableException if the properties are read-only. Returns the message or
        producer.
        """
        check_property_name(name)
        self._properties_to_write()[name] = typed(dt, value)
        return self

    def _get_typed(self, name: str, dt: str) -> object:
        """Return a property converted to the JMS type ``dt``; a missing one is read as null.

        The errors are those of :func:`converted`.
        """
        return converted(self._properties_to_read().get(name), dt)
