"""MsgId, CorrelId, GroupId and other headers as JMS writes them, for messages and selectors."""

from __future__ import annotations

_PREFIX = "ID:"
_NO_PREFIX, _TYPED = "AMQP_NO_PREFIX:", ("AMQP_ULONG:", "AMQP_UUID:", "AMQP_BINARY:")
_ID_BYTES = 24
_TIMESTAMP_DIGITS = 20
_LARGEST_TIMESTAMP = 2**63 - 1


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


def sent_id_text(kept: str) -> str:
    """Return the JMSMessageID of an id that a client of AMQP has given its message.

    ``kept`` is a text, or another id as text behind its type, as ``AMQP_ULONG:5``. Programs of JMS
    have no id without ``ID:``, so that the JMS mapping of AMQP marks such a text.
    """
    if kept.startswith(_PREFIX):
        return kept
    return f"{_PREFIX}{kept if kept.startswith(_TYPED) else _NO_PREFIX + kept}"


def correlation_bytes(text: str) -> bytes:
    """Return the CorrelId that a JMSCorrelationID travels as."""
    identifier = id_bytes(text)
    if identifier is not None:
        return identifier
    return text.encode("utf-8", "replace")[:_ID_BYTES].ljust(_ID_BYTES, b"\0")


def correlation_text(correl_id: bytes, text: str | None) -> str | None:
    """Return the JMSCorrelationID of 24 bytes of CorrelId and the text beside it, if any.

    The text is returned only where the CorrelId is made from it. A program that has set another
    CorrelId knew nothing of the text, and selectors find both by the index on the CorrelId.
    """
    if text is not None and id_bytes(text) is None and correlation_bytes(text) == correl_id:
        return text
    return id_text(correl_id)


def timestamp_of(sent: str, put_ms: int) -> int:
    """Return the JMSTimestamp that the sender's text gives; that of the put if it is no number."""
    sent = sent.strip()
    is_number = sent.isdecimal() and sent.isascii() and len(sent) < _TIMESTAMP_DIGITS
    return int(sent) if is_number and int(sent) <= _LARGEST_TIMESTAMP else put_ms


def type_of(name: str | None, set_: str | None, form: str | None, domain: str | None) -> str | None:
    """Return the JMSType: the name alone, or the URI of a message with a set or a format."""
    if set_ is None and form is None:
        return name
    ending = "" if form is None else f"?format={form}"
    return f"mcd://{domain or ''}/{set_ or ''}/{name or ''}{ending}"


def canonical(text: str) -> str:
    """Return an ``ID:`` text with 48 lower case digits, so that equal ids are equal texts."""
    identifier = id_bytes(text)
    return text if identifier is None else id_text(identifier) or text
