"""Properties of messages and producers: their names, and a method for each type."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Self, cast

from mayfly.jms import values as v
from mayfly.jms.constants import KNOWN_PROPERTIES
from mayfly.jms.errors import refuse
from mayfly.mqi import reasons as rc
from mayfly.mqi.properties import Typed

_IDENTIFIER = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_RESERVED = frozenset("NULL TRUE FALSE NOT AND OR BETWEEN LIKE IN IS ESCAPE".split())


@lru_cache(maxsize=1024)
def check_property_name(name: object) -> None:
    """Raise JMSException (MQRC_PROPERTY_NAME_ERROR) unless JMS allows the name.

    It is a Java identifier, no word of the selector language, and begins with JMS only where JMS
    or IBM MQ has given it a meaning.
    """
    if not isinstance(name, str) or _IDENTIFIER.fullmatch(name) is None:
        refuse(rc.MQRC_PROPERTY_NAME_ERROR, f"{name!r} is not an identifier")
    if name.upper() in _RESERVED:
        refuse(rc.MQRC_PROPERTY_NAME_ERROR, f"{name!r} is a word of the selector language")
    if name.startswith("JMS") and name not in KNOWN_PROPERTIES:
        refuse(rc.MQRC_PROPERTY_NAME_ERROR, f"{name!r}: names beginning with JMS are reserved")


class PropertyAccess(ABC):
    """The methods with which properties are set and read; a setter returns its object.

    Reading converts as the table of JMS allows: MessageFormatException where it does not,
    NumberFormatException for a text that is no such number and for a property that is not there.
    """

    @abstractmethod
    def _properties_to_read(self) -> dict[str, Typed]:
        """Return the properties by name."""

    @abstractmethod
    def _properties_to_write(self) -> dict[str, Typed]:
        """Return the same; raises MessageNotWriteableException where they may only be read."""

    def set_property(self, name: str, value: object) -> Self:
        """Set a bool, int (int or long by its size), float (double), str or None."""
        check_property_name(name)
        properties = self._properties_to_write()
        properties[name] = v.typed_object(value, takes_bytes=False)
        return self

    def get_property(self, name: str) -> object:
        """Return the value of a property, None when it is not there."""
        found = self._properties_to_read().get(name)
        return None if found is None else found.value

    set_object_property = set_property
    get_object_property = get_property

    def property_exists(self, name: str) -> bool:
        """Return True if a property is there, even with the value None."""
        return name in self._properties_to_read()

    def set_boolean_property(self, name: str, value: bool) -> Self:
        """Set a boolean."""
        return self._set_typed(name, v.BOOLEAN, value)

    def set_byte_property(self, name: str, value: int) -> Self:
        """Set an integer of 8 bits."""
        return self._set_typed(name, v.BYTE, value)

    def set_short_property(self, name: str, value: int) -> Self:
        """Set an integer of 16 bits."""
        return self._set_typed(name, v.SHORT, value)

    def set_int_property(self, name: str, value: int) -> Self:
        """Set an integer of 32 bits."""
        return self._set_typed(name, v.INT, value)

    def set_long_property(self, name: str, value: int) -> Self:
        """Set an integer of 64 bits."""
        return self._set_typed(name, v.LONG, value)

    def set_float_property(self, name: str, value: float) -> Self:
        """Set a float of 32 bits."""
        return self._set_typed(name, v.FLOAT, value)

    def set_double_property(self, name: str, value: float) -> Self:
        """Set a float of 64 bits."""
        return self._set_typed(name, v.DOUBLE, value)

    def set_string_property(self, name: str, value: str | None) -> Self:
        """Set a text."""
        return self._set_typed(name, v.STRING, value)

    def get_boolean_property(self, name: str) -> bool:
        """Return a property as a boolean; False when it is not there."""
        return cast(bool, self._get_typed(name, v.BOOLEAN))

    def get_byte_property(self, name: str) -> int:
        """Return a property as an integer of 8 bits."""
        return cast(int, self._get_typed(name, v.BYTE))

    def get_short_property(self, name: str) -> int:
        """Return a property as an integer of 16 bits."""
        return cast(int, self._get_typed(name, v.SHORT))

    def get_int_property(self, name: str) -> int:
        """Return a property as an integer of 32 bits."""
        return cast(int, self._get_typed(name, v.INT))

    def get_long_property(self, name: str) -> int:
        """Return a property as an integer of 64 bits."""
        return cast(int, self._get_typed(name, v.LONG))

    def get_float_property(self, name: str) -> float:
        """Return a property as a float of 32 bits."""
        return cast(float, self._get_typed(name, v.FLOAT))

    def get_double_property(self, name: str) -> float:
        """Return a property as a float of 64 bits."""
        return cast(float, self._get_typed(name, v.DOUBLE))

    def get_string_property(self, name: str) -> str | None:
        """Return a property as text, None when it is not there."""
        return cast("str | None", self._get_typed(name, v.STRING))

    def _set_typed(self, name: str, dt: str, value: object) -> Self:
        check_property_name(name)
        self._properties_to_write()[name] = v.typed(dt, value)
        return self

    def _get_typed(self, name: str, dt: str) -> object:
        return v.converted(self._properties_to_read().get(name), dt)
