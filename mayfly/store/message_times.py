"""Deadlines and put times of all messages of a database: counted, and moved back together."""

from __future__ import annotations

from typing import Any

from mayfly.store.messages import Messages, limited

_DEADLINES = "SELECT count(*) FROM message WHERE expire_at_ms > ?"
_EARLIEST = (
    "SELECT expire_at_ms, k FROM message WHERE expire_at_ms IS NOT NULL ORDER BY expire_at_ms"
)
_PUT_AFTER = "SELECT count(*) FROM message WHERE k >= 0 AND put_ms > ?"
_MOVE_BACK = """
UPDATE message SET put_ms = put_ms - ?, deliver_at_ms = deliver_at_ms - ?,
    expire_at_ms = expire_at_ms - ? WHERE k >= 0 AND put_ms > ?"""


def earliest_deadlines(messages: Messages, limit: int) -> list[tuple[int, int]]:
    """Return up to ``limit`` of the earliest deadlines with the keys of their messages."""
    return [(expire_at_ms, k) for expire_at_ms, k in messages.fetch(limited(_EARLIEST, limit), ())]


def count_deadlines(messages: Messages, after_ms: int, until_ms: int | None) -> int:
    """Count the messages with ``after_ms < deadline <= until_ms``; None is without an end."""
    if until_ms is None:
        return _number(messages, _DEADLINES, after_ms)
    return _number(messages, f"{_DEADLINES} AND expire_at_ms <= ?", after_ms, until_ms)


def count_put_after(messages: Messages, after_ms: int) -> int:
    """Count the messages on ordinary queues that were put later; reads all of them."""
    return _number(messages, _PUT_AFTER, after_ms)


def move_puts_back(after_ms: int, by_ms: int) -> tuple[str, tuple[int, ...]]:
    """Return what gives those messages earlier times: put, delivery and deadline."""
    return _MOVE_BACK, (by_ms, by_ms, by_ms, after_ms)


def _number(messages: Messages, sql: str, *bindings: int) -> int:
    number: Any = messages.fetch(sql, bindings)[0][0]
    return int(number)
