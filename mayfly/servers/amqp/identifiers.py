"""Message and correlation ids: MQ has 24 bytes, AMQP a ulong, a UUID, bytes or text.

An id that MQ cannot hold is kept as text beside it, marked with its type as the JMS mapping of AMQP
writes it: ``ID:AMQP_ULONG:5``.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from proton import Data

from mayfly.properties.selectors.names import id_bytes, id_text
from mayfly.servers.amqp.codec import Scalar, Value, text
from mayfly.servers.amqp.errors import INVALID_FIELD, AmqpError

_ID_BYTES: Final = 24
_ULONG, _UUID, _BINARY = "AMQP_ULONG:", "AMQP_UUID:", "AMQP_BINARY:"
_LARGEST_ULONG = 2**64 - 1


def mq_id(value: Value) -> bytes | None:
    """Return the 24 bytes of an id that is one of MQ: ``ID:`` and 48 hex digits, or 24 bytes."""
    if not isinstance(value, Scalar):
        return None
    if value.type == Data.STRING and len(value.value) == 3 + 2 * _ID_BYTES:
        return id_bytes(value.value)
    if value.type == Data.BINARY and len(value.value) == _ID_BYTES:
        return bytes(value.value)
    return None


def as_text(field: str, value: Value) -> str:
    """Return an id as text that :func:`of_text` reads back.

    Raises AmqpError amqp:invalid-field for a value that is no id.
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


def of_text(kept: str) -> Scalar:
    """Return the id of a text that :func:`as_text` made; any other text is itself."""
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


def of_mq(identifier: bytes) -> Scalar | None:
    """Return an id of MQ as text, None for zeros."""
    shown = id_text(identifier)
    return None if shown is None else text(shown)
