"""Reads of a durable database beside all other work, for those who watch a queue manager."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import apsw

from mayfly.mqi.errors import mq_error
from mayfly.mqi.reasons import MQRC_CONNECTION_BROKEN
from mayfly.store.damage import rows_of

#: The queue of a key; all negative keys are those of the staging queue, number 0.
_QUEUE = "CASE WHEN k < 0 THEN 0 ELSE k >> 48 END"
#: A statement for either side; its cost is what has expired, for the index holds all it asks for.
EXPIRED_BY_QUEUE = (
    f"SELECT {_QUEUE}, count(*) FROM message WHERE expire_at_ms <= ? GROUP BY {_QUEUE}"
)
#: The same of the messages in a JSON list of keys.
EXPIRED_OF_KEYS = (
    f"SELECT {_QUEUE}, count(*) FROM message "
    f"WHERE k IN (SELECT value FROM json_each(?)) AND expire_at_ms <= ? GROUP BY {_QUEUE}"
)
#: Number, count and first deadline by queue, without the messages in a JSON list of keys.
EXPIRED_OUTSIDE = (
    f"SELECT {_QUEUE}, count(*), min(expire_at_ms) FROM message "
    "WHERE expire_at_ms <= ? AND k NOT IN (SELECT value FROM json_each(?)) "
    f"GROUP BY {_QUEUE}"
)
#: The last key of a page of delayed messages, their number, and in hexadecimal how far their keys
#: lie behind the first parameter, and the numbers of their targets; pages are read from
#: the second one on. One row for all of them gives the interpreter lock up once.
_STAGED_PAGE = """
SELECT max(k), count(*), group_concat(printf('%016x', k - ?1), ''),
    group_concat(printf('%08x', coalesce(target_number, -1) & 4294967295), '')
FROM (SELECT k, target_number FROM message WHERE k >= ?2 AND k < 0 ORDER BY k LIMIT {})"""


def staged_page(row_count: int) -> str:
    """Return the statement that reads so many delayed messages, by key."""
    return _STAGED_PAGE.format(row_count)


class Aside:
    """A connection of its own, opened by its first read; on disk no other work waits for it."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        guard: AbstractContextManager[object],
        on_damage: Callable[[], None],
    ) -> None:
        """Read through what ``connect`` returns, inside ``guard``; nothing is opened yet."""
        self._connect, self._guard, self._on_damage = connect, guard, on_damage
        self._connection: apsw.Connection | None = None
        self._is_stopped = False

    def rows(self, sql: str, bindings: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement, as they stand on the disk.

        Raises MQRC_CONNECTION_BROKEN once stopped, StoreDamaged. Call it without the lock.
        """
        with self._guard:
            if self._is_stopped:
                raise mq_error(MQRC_CONNECTION_BROKEN, "the store is closed")
            if self._connection is None:
                self._connection = self._connect()
            return rows_of(self._connection, sql, bindings, self._on_damage)

    def stop(self) -> None:
        """Wait for the read under way, and close; later calls get MQRC_CONNECTION_BROKEN."""
        with self._guard:
            self._is_stopped = True
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def stop_in_child(self) -> None:
        """Stop without waiting: in a forked child nobody is left who would free the guard."""
        self._is_stopped = True
        self._guard = nullcontext()
