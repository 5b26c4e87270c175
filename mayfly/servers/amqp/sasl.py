"""The SASL exchange before AMQP: mechanisms PLAIN, EXTERNAL and ANONYMOUS (RFC 4616, 4422, 4505).

proton has no server side of PLAIN in this build, so the three performatives are handled here; its
codec makes their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from proton import Data

from mayfly.servers.amqp.codec import (
    Described,
    Scalar,
    Value,
    decoded_value,
    encoded_value,
    plain,
    symbols,
)
from mayfly.servers.amqp.errors import FRAMING_ERROR, AmqpError

PROTOCOL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
PLAIN, EXTERNAL, ANONYMOUS = "PLAIN", "EXTERNAL", "ANONYMOUS"
_MECHANISMS, _INIT, _OUTCOME = 0x40, 0x41, 0x44
_OK, _REFUSED = 0, 1
_FRAME_TYPE, _HEADER_BYTES = 1, 8
#: A first frame is at most so long: user and password are in it.
MOST_BYTES: Final = 4096


class Credentials(NamedTuple):
    """A client's answer: its mechanism, user and password ("" for none), and the host it wants."""

    mechanism: str
    user: str
    password: str
    hostname: str


def mechanisms(names: Sequence[str]) -> bytes:
    """Return the protocol header, and the frame that offers mechanisms."""
    return PROTOCOL_HEADER + _frame(_MECHANISMS, [symbols(names)])


def outcome(*, is_admitted: bool) -> bytes:
    """Return the frame that ends the exchange."""
    return _frame(_OUTCOME, [Scalar(Data.UBYTE, _OK if is_admitted else _REFUSED)])


def read_init(raw: bytes) -> tuple[Credentials, int] | None:
    """Return the answer of a client and the bytes it took; None until all of it is there.

    Raises AmqpError amqp:connection:framing-error for another frame or a malformed answer.
    """
    if len(raw) < _HEADER_BYTES:
        return None
    size, offset, kind = int.from_bytes(raw[:4], "big"), raw[4] * 4, raw[5]
    if kind != _FRAME_TYPE or not _HEADER_BYTES <= offset <= size <= MOST_BYTES:
        raise AmqpError(FRAMING_ERROR, f"a frame of type {kind} and {size} bytes is no SASL answer")
    if len(raw) < size:
        return None
    value = decoded_value(raw[offset:size])
    code = plain(value.descriptor) if isinstance(value, Described) else None
    if code not in (_INIT, "amqp:sasl-init:list"):
        raise AmqpError(FRAMING_ERROR, "the first SASL frame is no sasl-init")
    return _credentials(plain(value)), size


def _credentials(fields: object) -> Credentials:
    given = [*fields, None, None, None] if isinstance(fields, list) else [None] * 3
    mechanism, response, hostname = given[:3]
    if not isinstance(mechanism, str) or not isinstance(hostname, (str, type(None))):
        raise AmqpError(FRAMING_ERROR, "sasl-init names no mechanism")
    user = password = ""
    if mechanism == PLAIN:
        user, password = _plain(response)
    return Credentials(mechanism, user, password, hostname or "")


def _plain(response: object) -> tuple[str, str]:
    parts = response.split(b"\0") if isinstance(response, bytes) else []
    try:
        _identity, user, password = (part.decode() for part in parts)
    except ValueError:
        raise AmqpError(FRAMING_ERROR, "the response to PLAIN is malformed") from None
    return user, password


def _frame(code: int, fields: list[Value]) -> bytes:
    body = encoded_value(Described(Scalar(Data.ULONG, code), fields))
    size = _HEADER_BYTES + len(body)
    return size.to_bytes(4, "big") + bytes((2, _FRAME_TYPE, 0, 0)) + body
