"""Values of message properties, and conversions between MQTYPE_*, MQRFH2 and Python types."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.properties import BOOLEANS, INTEGER_BITS, Typed, Value, fits, format_float, single

#: MQTYPE_* -> data type in the MQRFH2; a null has none.
DATA_TYPES: Mapping[int, str] = {
    c.MQTYPE_BOOLEAN: "boolean",
    c.MQTYPE_BYTE_STRING: "bin.hex",
    c.MQTYPE_INT8: "i1",
    c.MQTYPE_INT16: "i2",
    c.MQTYPE_INT32: "i4",
    c.MQTYPE_INT64: "i8",
    c.MQTYPE_FLOAT32: "r4",
    c.MQTYPE_FLOAT64: "r8",
    c.MQTYPE_STRING: "string",
}
_MQ_TYPES = {dt: mq_type for mq_type, dt in DATA_TYPES.items()}
#: Bytes of a value whose type says how long it is.
FIXED_BYTES = {"boolean": 4, "i1": 1, "i2": 2, "i4": 4, "i8": 8, "r4": 4, "r8": 8}
_INTEGERS = tuple(INTEGER_BITS)
#: Types to which MQIMPO_CONVERT_TYPE converts a value ("MQINQMP", Type).
_TO_INTEGERS_AND_TEXT = frozenset((*_INTEGERS, "boolean", "string"))
_CONVERSIONS: Mapping[str, frozenset[str]] = {
    "boolean": _TO_INTEGERS_AND_TEXT,
    **dict.fromkeys(_INTEGERS, _TO_INTEGERS_AND_TEXT),
    "r4": frozenset(("r8", "string")),
    "r8": frozenset(("r4", "string")),
    "bin.hex": frozenset(("string",)),
    "string": frozenset(_MQ_TYPES),
}


def python_value(name: str, value: object) -> Typed:
    """Convert a Python value to a property value: int to i4 or i8, float to r8, None to null.

    Raises MQRC_PROPERTY_TYPE_ERROR for a value of another type, MQRC_PROP_NUMBER_FORMAT_ERROR for
    an integer of more than 64 bits. ``name`` is for the error text.
    """
    if value is None:
        return Typed("string", None)
    if isinstance(value, str):
        return mq_value(name, c.MQTYPE_STRING, value)
    if isinstance(value, bool):
        return Typed("boolean", value)
    if isinstance(value, int):
        return mq_value(name, c.MQTYPE_INT32 if fits(value, "i4") else c.MQTYPE_INT64, value)
    if isinstance(value, float):
        return Typed("r8", value)
    if isinstance(value, (bytes, bytearray)):
        return Typed("bin.hex", bytes(value))
    raise _wrong_type(name, value, "a property")


def mq_value(name: str, mq_type: int, value: object) -> Typed:
    """Convert a Python value to a property value of an MQTYPE_*; MQTYPE_NULL gives a null.

    Raises MQRC_PROPERTY_TYPE_ERROR for an unknown type or a value that is not of the type, and
    MQRC_PROP_NUMBER_FORMAT_ERROR for a number that does not fit. ``name`` is for the error text.
    """
    if mq_type == c.MQTYPE_NULL:
        return Typed("string", None)
    dt = DATA_TYPES.get(mq_type)
    if dt is None:
        raise mq_error(rc.MQRC_PROPERTY_TYPE_ERROR, f"property {name}: Type {mq_type}")
    if dt in INTEGER_BITS and isinstance(value, int):
        if not fits(value, dt):
            raise _wrong_number(name, value, dt)
        return Typed(dt, int(value))
    if dt == "boolean" and isinstance(value, int):
        return Typed(dt, bool(value))
    if dt in ("r4", "r8") and isinstance(value, (int, float)):
        return Typed(dt, _checked_float(name, value, dt))
    if dt == "bin.hex" and isinstance(value, (bytes, bytearray)):
        return Typed(dt, bytes(value))
    if dt == "string" and isinstance(value, str):
        return Typed(dt, _checked_text(name, value))
    raise _wrong_type(name, value, dt)


def converted(name: str, typed: Typed, mq_type: int) -> Typed:
    """Return a property value converted to another MQTYPE_*, as MQIMPO_CONVERT_TYPE does.

    ``name`` is for the error text. A null comes back unchanged, and so does any value for
    MQTYPE_AS_SET or MQTYPE_NULL. Raises MQRC_PROPERTY_TYPE_ERROR for an unknown type,
    MQRC_PROP_CONV_NOT_SUPPORTED for two types without a conversion, and
    MQRC_PROP_NUMBER_FORMAT_ERROR for a text or number that cannot be converted.
    """
    wanted = DATA_TYPES.get(mq_type)
    if wanted is None and mq_type not in (c.MQTYPE_AS_SET, c.MQTYPE_NULL):
        raise mq_error(rc.MQRC_PROPERTY_TYPE_ERROR, f"property {name}: Type {mq_type}")
    if wanted is None or typed.value is None or typed.dt == wanted:
        return typed
    if wanted not in _CONVERSIONS.get(typed.dt, _CONVERSIONS["string"]):
        raise mq_error(
            rc.MQRC_PROP_CONV_NOT_SUPPORTED, f"property {name}: {typed.dt} is not made {wanted}"
        )
    if isinstance(typed.value, str):
        if wanted == "string":
            # Of a type that MQ has not, as the char of JMS.
            return Typed(wanted, typed.value)
        return Typed(wanted, _parse_text(name, typed.value, wanted))
    if wanted == "string":
        return Typed(wanted, _as_text(typed))
    return mq_value(name, mq_type, typed.value)


def raw_value(typed: Typed) -> bytes:
    """Return bytes of the length that MQINQMP reports for a value.

    A text comes as UTF-8, a byte string unchanged, a number as zeros of its size. A null gives no
    bytes.
    """
    if isinstance(typed.value, str):
        return typed.value.encode()
    if isinstance(typed.value, bytes):
        return typed.value
    return bytes(0 if typed.value is None else FIXED_BYTES[typed.dt])


def _parse_text(name: str, text: str, dt: str) -> Value:
    """Parse a text as a value of data type ``dt``: ``true`` -> True, ``0a`` -> one byte.

    Raises MQRC_PROP_NUMBER_FORMAT_ERROR when it is invalid.
    """
    try:
        if dt == "boolean":
            return BOOLEANS[text.strip().lower()]
        if dt == "bin.hex":
            return bytes.fromhex(text)
        if dt in ("r4", "r8"):
            return _checked_float(name, float(text), dt)
        number = int(text)
    except (KeyError, ValueError):
        raise _wrong_number(name, text, dt) from None
    if not fits(number, dt):
        raise _wrong_number(name, text, dt)
    return number


def _as_text(typed: Typed) -> str:
    """Return a boolean, number or byte string as text: ``TRUE``, ``42``, ``0AFF``."""
    value = typed.value
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return value.hex().upper()
    return (
        format_float(value, is_single=typed.dt == "r4") if isinstance(value, float) else f"{value}"
    )


def _checked_text(name: str, value: str) -> str:
    """Return a text unchanged; raises MQRC_PROPERTY_TYPE_ERROR if UTF-8 cannot encode it."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise mq_error(rc.MQRC_PROPERTY_TYPE_ERROR, f"property {name}: {error}") from None
    return value


def _checked_float(name: str, value: float, dt: str) -> float:
    """Return a number as float, rounded to 4 bytes for ``r4``.

    Raises MQRC_PROP_NUMBER_FORMAT_ERROR if it is too large.
    """
    try:
        return single(float(value)) if dt == "r4" and math.isfinite(value) else float(value)
    except (OverflowError, struct.error):
        raise _wrong_number(name, value, dt) from None


def _wrong_number(name: str, value: object, dt: str) -> MQError:
    """Return (not raise) MQRC_PROP_NUMBER_FORMAT_ERROR for a value that is no ``dt``."""
    return mq_error(
        rc.MQRC_PROP_NUMBER_FORMAT_ERROR, f"property {name}: {str(value)[:40]!r} is no {dt}"
    )


def _wrong_type(name: str, value: object, dt: str) -> MQError:
    """Return (not raise) MQRC_PROPERTY_TYPE_ERROR for a value whose type is not ``dt``."""
    return mq_error(
        rc.MQRC_PROPERTY_TYPE_ERROR, f"property {name}: {type(value).__name__} is no value of {dt}"
    )
