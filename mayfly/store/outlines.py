"""Messages without their data: the entries of the index of groups in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from mayfly.store.messages import Messages, limited

_COLUMNS = "k, expire_at_ms, msg_hash, correl_hash, descriptor, body_bytes"
_IN_ORDER = f"SELECT {_COLUMNS} FROM whole_message WHERE k >= ? AND k < ? ORDER BY k"
# The cross join walks the keys that are asked for, never the table.
_BY_KEY = (
    f"SELECT {_COLUMNS} FROM json_each(?) AS asked CROSS JOIN whole_message ON k = asked.value"
)
_PRESENT = "SELECT k FROM json_each(?) AS asked CROSS JOIN message ON k = asked.value"


class Outline(NamedTuple):
    """A row of the table ``message`` with the length of its data in their place."""

    k: int
    expire_at_ms: int | None
    msg_hash: int | None
    correl_hash: int | None
    descriptor: bytes
    body_bytes: int


def outlines(messages: Messages, low: int, high: int, limit: int) -> list[Outline]:
    """Return up to ``limit`` messages with ``low <= k < high`` by key."""
    return [Outline._make(row) for row in messages.fetch(limited(_IN_ORDER, limit), (low, high))]


def outlines_of(messages: Messages, keys: Iterable[int]) -> list[Outline]:
    """Return those of these messages that are there."""
    return [Outline._make(row) for row in messages.fetch(_BY_KEY, (json.dumps(list(keys)),))]


def present(messages: Messages, keys: Iterable[int]) -> set[int]:
    """Return those of these keys that messages have."""
    return {int(row[0]) for row in messages.fetch(_PRESENT, (json.dumps(list(keys)),))}
