"""Application properties and bodies of AMQP as typed values of an MQRFH2, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from proton import Data

from mayfly.mqi.properties import Typed
from mayfly.mqi.reasons import MQRC_NONE
from mayfly.servers.amqp.codec import Scalar, Value
from mayfly.servers.amqp.errors import INVALID_FIELD, AmqpError, wrong_field

#: Types that an MQRFH2 has as well. Unsigned integers take the next wider one.
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
#: All integer types of AMQP, and its timestamp.
INTEGERS: Final = frozenset(
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
    """Return a scalar as a property has it.

    Raises AmqpError amqp:invalid-field for a list, a map, a decimal, or an integer beyond 64 bits
    with a sign; it names the property.
    """
    if value is None:
        return Typed("string", None)
    if isinstance(value, Scalar):
        if value.type == Data.UUID:
            return Typed("string", str(value.value))
        dt = _DATA_TYPES.get(value.type)
        if dt == "i8" and value.value > _LARGEST_LONG:
            said = f"property {name}: {value.value} is more than 64 bits with a sign hold"
            raise AmqpError(INVALID_FIELD, said)
        if dt is not None:
            return Typed(dt, value.value)
    raise AmqpError(INVALID_FIELD, f"property {name} is no scalar value")


def scalar(value: Typed) -> Value:
    """Return the value of a property as AMQP has it; a type of no AMQP type is text."""
    if value.value is None:
        return None
    kind = _AMQP_TYPES.get(value.dt)
    if kind == Data.CHAR and len(str(value.value)) != 1:
        kind = None
    return Scalar(Data.STRING, str(value.value)) if kind is None else Scalar(kind, value.value)


def integer(name: str, value: Value, reason: int = MQRC_NONE) -> int:
    """Return an annotation that is an integer or a timestamp.

    Raises AmqpError amqp:invalid-field with name and value for anything else; ``reason`` is the
    reason code for it.
    """
    if isinstance(value, Scalar) and value.type in INTEGERS:
        return int(value.value)
    # Some clients have one type for all numbers.
    if isinstance(value, Scalar) and _is_whole_float(value):
        return int(value.value)
    shown: Any = value.value if isinstance(value, Scalar) else value
    said = f"{name} {shown!r} is no integer"
    raise wrong_field(reason, said) if reason else AmqpError(INVALID_FIELD, said)


def _is_whole_float(value: Scalar) -> bool:
    return value.type in (Data.FLOAT, Data.DOUBLE) and float(value.value).is_integer()
