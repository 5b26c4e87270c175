"""Conversion of single AMQP values: properties to types of an MQRFH2, and ids.

MQ has 24 bytes for an id; AMQP has a ulong, a UUID, bytes or text. An id that MQ cannot hold is
kept as a text property, marked with its type as in the JMS mapping of AMQP: ``AMQP_ULONG:5``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from proton import Data

from mayfly.mqi.properties import Typed
from mayfly.mqi.reasons import MQRC_NONE
from mayfly.properties.selectors.names import id_bytes, id_text
from mayfly.servers.amqp.codec import Scalar, Value, text
from mayfly.servers.amqp.errors import INVALID_FIELD, AmqpError, wrong_field

#: Types of an MQRFH2 by AMQP type; unsigned integers get the next wider type.
_DATA_TYPES: Final[Mapping[int, str]] = {
    Data.BOOL: "boolean",
    Data.BYTE: "i1",
    Data.UBYTE: "i2",
    Data.SHORT: "i2",
    Data.USHORT: "i4",
    Data.INT: "i4",
    Data.UINT: "i8",
    Data.LONG: "i8",
    Data.ULONG: "i8",
    Data.TIMESTAMP: "i8",
    Data.FLOAT: "r4",
    Data.DOUBLE: "r8",
    Data.STRING: "string",
    Data.SYMBOL: "string",
    Data.CHAR: "char",
    Data.BINARY: "bin.hex",
}
_AMQP_TYPES: Final[Mapping[str, int]] = {
    "boolean": Data.BOOL,
    "i1": Data.BYTE,
    "i2": Data.SHORT,
    "i4": Data.INT,
    "int": Data.INT,
    "i8": Data.LONG,
    "r4": Data.FLOAT,
    "r8": Data.DOUBLE,
    "char": Data.CHAR,
    "bin.hex": Data.BINARY,
}
_LARGEST_LONG = 2**63 - 1
_ID_BYTES: Final = 24
_ULONG, _UUID, _BINARY = "AMQP_ULONG:", "AMQP_UUID:", "AMQP_BINARY:"
_LARGEST_ULONG = 2**64 - 1
#: All integer types of AMQP, and its timestamp.
_INTEGERS: Final = frozenset(
    (
        Data.BYTE,
        Data.UBYTE,
        Data.SHORT,
        Data.USHORT,
        Data.INT,
        Data.UINT,
        Data.LONG,
        Data.ULONG,
        Data.TIMESTAMP,
    )
)


def typed(name: str, value: Value) -> Typed:
    """Return an AMQP scalar as the value of an MQRFH2 property; null becomes a null string.

    Raises AmqpError amqp:invalid-field, which names the property, for a list, a map, a decimal, or
    an unsigned integer of 2**63 or more.
    """
    if value is None:
        return Typed("string", None)
    if isinstance(value, Scalar):
        if value.type == Data.UUID:
            return Typed("string", str(value.value))
        dt = _DATA_TYPES.get(value.type)
        if dt == "i8" and value.value > _LARGEST_LONG:
            text = f"property {name}: {value.value} is more than 64 bits with a sign hold"
            raise AmqpError(INVALID_FIELD, text)
        if dt is not None:
            return Typed(dt, value.value)
    raise AmqpError(INVALID_FIELD, f"property {name} is no scalar value")


def scalar(value: Typed) -> Value:
    """Return the value of an MQRFH2 property as AMQP value.

    A type unknown to AMQP becomes a string. Null gives None.
    """
    if value.value is None:
        return None
    kind = _AMQP_TYPES.get(value.dt)
    if kind == Data.CHAR and len(str(value.value)) != 1:
        kind = None
    return Scalar(Data.STRING, str(value.value)) if kind is None else Scalar(kind, value.value)


def integer(name: str, value: Value, reason: int = MQRC_NONE) -> int:
    """Return an AMQP integer or timestamp, or a float with a whole value, as an int.

    Raises AmqpError amqp:invalid-field, with name and value, for anything else. ``reason`` is the
    MQRC_* for the description, 0 for none.
    """
    if isinstance(value, Scalar):
        # Some clients use floats for all numbers.
        is_whole = value.type in (Data.FLOAT, Data.DOUBLE) and float(value.value).is_integer()
        if is_whole or value.type in _INTEGERS:
            return int(value.value)
    shown: Any = value.value if isinstance(value, Scalar) else value
    text = f"{name} {shown!r} is no integer"
    raise wrong_field(reason, text) if reason else AmqpError(INVALID_FIELD, text)


def mq_id(value: Value) -> bytes | None:
    """Return the 24 bytes of an id that MQ can hold: 24 bytes, or ``ID:`` and 48 hex digits.

    Returns None for any other value.
    """
    if not isinstance(value, Scalar):
        return None
    if value.type == Data.STRING and len(value.value) == 3 + 2 * _ID_BYTES:
        return id_bytes(value.value)
    if value.type == Data.BINARY and len(value.value) == _ID_BYTES:
        return bytes(value.value)
    return None


def id_as_text(field: str, value: Value) -> str:
    """Return an AMQP id as text; ``Scalar(Data.ULONG, 5)`` -> ``'AMQP_ULONG:5'``.

    :func:`id_of_text` restores the id. Raises AmqpError amqp:invalid-field for a value that is not
    an id.
    """
    if isinstance(value, Scalar):
        if value.type == Data.STRING:
            return str(value.value)
        if value.type in (Data.ULONG, Data.UINT):
            return f"{_ULONG}{value.value}"
        if value.type == Data.UUID:
            return f"{_UUID}{value.value}"
        if value.type == Data.BINARY:
            return f"{_BINARY}{value.value.hex().upper()}"
    raise AmqpError(INVALID_FIELD, f"{field} is no id: neither ulong, uuid, binary nor string")


def id_of_text(kept: str) -> Scalar:
    """Return the AMQP id in a text of :func:`id_as_text`; any other text becomes a string id."""
    try:
        if kept.startswith(_ULONG) and 0 <= int(kept[len(_ULONG) :]) <= _LARGEST_ULONG:
            return Scalar(Data.ULONG, int(kept[len(_ULONG) :]))
        if kept.startswith(_UUID):
            return Scalar(Data.UUID, UUID(kept[len(_UUID) :]))
        if kept.startswith(_BINARY):
            return Scalar(Data.BINARY, bytes.fromhex(kept[len(_BINARY) :]))
    except ValueError:
        pass
    return text(kept)


def id_of_mq(identifier: bytes) -> Scalar | None:
    """Return a MsgId or CorrelId as a string id, ``ID:`` and 48 hex digits; None for zeros."""
    shown = id_text(identifier)
    return None if shown is None else text(shown)
