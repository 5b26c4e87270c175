"""A stored row as the message that a getter or browser sees."""

from __future__ import annotations

from mayfly.store.units import StoredMessage
from mayfly.verbs.messages import Message


def message_of(queue: str, row: StoredMessage, seen_ms: int) -> Message:
    """Return a row as seen at a moment."""
    return Message(queue, row, seen_ms, row.body)
