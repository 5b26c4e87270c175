"""MsgId, CorrelId and GroupId as JMS writes them: ``ID:`` and hexadecimal digits, or free text."""

from __future__ import annotations

_PREFIX = "ID:"
_ID_BYTES = 24


def id_text(identifier: bytes) -> str | None:
    """Return an MQ identifier of 24 bytes as JMS shows it, None for zeros."""
    return _PREFIX + identifier.hex() if identifier.strip(b"\0") else None


def id_bytes(text: str) -> bytes | None:
    """Return the 24 bytes of an ``ID:`` text, padded with zeros; None for any other text."""
    if not text.startswith(_PREFIX):
        return None
    try:
        raw = bytes.fromhex(text.removeprefix(_PREFIX))
    except ValueError:
        return None
    return raw.ljust(_ID_BYTES, b"\0") if len(raw) <= _ID_BYTES else None


def correlation_bytes(text: str) -> bytes:
    """Return the CorrelId that a JMSCorrelationID travels as."""
    identifier = id_bytes(text)
    if identifier is not None:
        return identifier
    return text.encode("utf-8", "replace")[:_ID_BYTES].ljust(_ID_BYTES, b"\0")


def canonical(text: str) -> str:
    """Return an ``ID:`` text with 48 lower case digits, so that equal ids are equal texts."""
    identifier = id_bytes(text)
    return text if identifier is None else id_text(identifier) or text
