"""Values of properties and of map and stream bodies: which types there are and what converts."""

from __future__ import annotations

from mayfly.jms.errors import MessageFormatException, NumberFormatException
from mayfly.mqi.properties import INTEGER_BITS, Typed, Value, format_float, single

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
    """Return a value given as this type; raises MessageFormatException when it is not of it.

    Integers must fit; a float may be given as an integer; a String or byte[] may be None.
    """
    if value is None and dt in (STRING, BYTES):
        return Typed(dt, None)
    if dt in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[dt] - 1)
        if type(value) is int and -limit <= value < limit:
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
    """Return a value with the type Python's own stands for.

    bool, float (double) and str are plain; an int is an int when it fits in 32 bits, else a long;
    bytes only where ``takes_bytes``. Raises MessageFormatException for anything else.
    """
    if type(value) is str or value is None:
        return Typed(STRING, value)
    if type(value) is bool:
        return Typed(BOOLEAN, value)
    if type(value) is int:
        return typed(INT if -(2**31) <= value < 2**31 else LONG, value)
    if type(value) is float:
        return Typed(DOUBLE, value)
    if takes_bytes and isinstance(value, (bytes, bytearray, memoryview)):
        return Typed(BYTES, bytes(value))
    raise MessageFormatException(f"{value!r} is a {type(value).__name__}, no type of JMS")


def converted(found: Typed | None, dt: str) -> Value:
    """Return a value read as a type; None stands for one that is not there, which reads as null.

    Null is False as a boolean, None as a String or byte[], and no number at all. Raises
    MessageFormatException where JMS allows no conversion, NumberFormatException where a text says
    no such value.
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
    """Return a value that is not null as text, as Java would write it."""
    value = found.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_float(value, is_single=found.dt == FLOAT)
    return str(value) if isinstance(value, int) else f"{value!s}"


def _null(dt: str) -> Value:
    if dt in (STRING, BYTES):
        return None
    if dt == BOOLEAN:
        return False
    if dt == CHAR:
        raise MessageFormatException("null is not a char")
    raise NumberFormatException(f"null is not a {_NAMES[dt]}")


def _parsed(text: str, dt: str) -> Value:
    if dt == BOOLEAN:
        return text.lower() == "true"
    try:
        if "_" in text:
            raise ValueError(text)
        return typed(dt, float(text) if dt in (FLOAT, DOUBLE) else int(text)).value
    except (ValueError, MessageFormatException):
        raise NumberFormatException(f"{text!r} is not a {_NAMES[dt]}") from None


def _float(dt: str, value: object) -> float:
    assert isinstance(value, (int, float))
    try:
        return float(value) if dt == DOUBLE else single(float(value))
    except OverflowError:
        raise MessageFormatException(f"{value!r} is too large for a {_NAMES[dt]}") from None
