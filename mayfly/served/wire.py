"""Ids and messages of a served queue manager as they travel (contracts/sessions.py)."""

from __future__ import annotations

from typing import Any

from mayfly.contracts.sessions import MessageRow
from mayfly.engine import Identifier, Message, stored_id
from mayfly.store.units import StoredMessage


def id_bytes(identifier: Identifier | None, name: str) -> bytes | None:
    """Return an id as it travels; raises MQRC_MD_ERROR for what is none."""
    return None if identifier is None else stored_id(identifier, name)


def message_from(fields: list[Any], body: bytes) -> Message:
    """Return the message that was sent as the fields of a MessageRow and a body."""
    row = MessageRow(*fields)
    stored = StoredMessage(
        row.position,
        row.put_ms,
        row.deliver_at_ms,
        row.expire_at_ms,
        None,
        None,
        row.backout_count,
        row.msg_id,
        row.correl_id,
        None,
        row.descriptor,
        b"",
        row.topic,
    )
    return Message(row.queue, stored, row.seen_ms, body)
