"""Messages of one database, persistent or in memory, behind one set of calls.

Reads run on the reader connection, under the queue manager's lock; changes come in lists and run
on the writer connection inside the caller's transaction. A read may still show a message whose
delete is under way: callers pass over keys they know to be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import apsw

from mayfly.mqi.errors import StoreDamaged
from mayfly.runtime import EngineLock
from mayfly.store.contents import IDLE_CONTENTS, LEAST_COPIES, LOST_CONTENTS, Contents
from mayfly.store.damage import rows_of
from mayfly.store.many_rows import delete_keys, insert_rows
from mayfly.store.units import (
    NO_MORE_COLUMNS,
    PLAIN_COLUMN_COUNT,
    StoredMessage,
    stored_message,
)

_COLUMNS = ", ".join(StoredMessage._fields)
INSERT = f"INSERT INTO message ({_COLUMNS}) VALUES ({', '.join('?' * len(StoredMessage._fields))})"
_PLAIN_COLUMNS = ", ".join(StoredMessage._fields[:PLAIN_COLUMN_COUNT])
#: Of a row whose other columns are NULL; SQLite takes 0.4 µs less.
_INSERT_PLAIN = (
    f"INSERT INTO message ({_PLAIN_COLUMNS}) VALUES ({', '.join('?' * PLAIN_COLUMN_COUNT)})"
)
#: Of a row without ids but its own, deadline or delay: 5 values, and rows of a statement share one.
#: A message takes 0.7 µs less.
_INSERT_BARE = (
    "INSERT INTO message (descriptor, k, put_ms, backout_count, msg_id, correl_id, body) "
    "VALUES (?1, ?, ?, 0, ?, x'', ?)"
)
DELETE = "DELETE FROM message WHERE k = ?"
_BACKOUT = "UPDATE message SET backout_count = backout_count + 1 WHERE k = ?"
IN_ORDER = f"SELECT {_COLUMNS} FROM whole_message WHERE k >= ? AND k < ? ORDER BY k"
# The sign hides a bound value from SQLite's planner, which would prepare the statement anew for
# each one: 23 µs against 5.
_BY_MSG_HASH = f"""
SELECT {_COLUMNS} FROM message WHERE msg_hash = +?1 AND k >= ?2 AND k < ?3
UNION ALL
SELECT {_COLUMNS} FROM whole_message
WHERE content = (SELECT id FROM content WHERE msg_hash = +?1) AND k >= ?2 AND k < ?3
ORDER BY k"""
_BY_CORREL_ID = (
    f"SELECT {_COLUMNS} FROM whole_message WHERE correl_hash = +? AND k >= ? AND k < ? ORDER BY k"
)
_DESCRIBED = "SELECT k, descriptor FROM whole_message WHERE k >= ? AND k < ? ORDER BY k"
_EXPIRED = (
    f"SELECT {_COLUMNS} FROM whole_message "
    "WHERE expire_at_ms <= ? AND (expire_at_ms, k) > (?, ?) ORDER BY expire_at_ms, k"
)
#: Data of messages that are inserted together, of which SQLite makes copies.
_COPIED_BYTES = 2**22
#: How SQLite's own check names it.
_WRONG_CHECKSUM = f"error code={apsw.SQLITE_IOERR_DATA}"


def _insert_for(rows: list[StoredMessage]) -> str:
    """Return the statement that inserts rows with the fewest values."""
    sql, descriptor = _INSERT_BARE, rows[0].descriptor
    for row in rows:
        if row[PLAIN_COLUMN_COUNT:] != NO_MORE_COLUMNS:
            return INSERT
        if (
            row.msg_hash is not None
            or row.correl_hash is not None
            or row.correl_id
            or row.expire_at_ms is not None
            or row.deliver_at_ms is not None
            or row.backout_count
            or row.origin_id is not None
            or row.descriptor != descriptor
        ):
            sql = _INSERT_PLAIN
    return sql


@lru_cache(maxsize=256)
def limited(sql: str, limit: int) -> str:
    """Return a statement with its LIMIT spelled out.

    A bound LIMIT makes SQLite prepare the statement anew at every execution: 12 µs against 3.
    """
    return f"{sql} LIMIT {limit}"


class Messages:
    """The messages of one database; see the table ``message`` for what a row holds."""

    def __init__(
        self,
        writer: apsw.Connection,
        reader: apsw.Connection,
        engine_lock: EngineLock,
        on_damage: Callable[[], None] = lambda: None,
    ) -> None:
        """Use two connections to one database; they are the same one for a database in memory.

        ``on_damage`` is called before StoreDamaged is raised.
        """
        self.writer, self.contents = writer, Contents(writer)
        self._reader = reader
        self._engine_lock = engine_lock
        self._on_damage = on_damage

    def insert(self, rows: list[StoredMessage]) -> None:
        """Add messages."""
        sql = _insert_for(rows)
        if sql is INSERT and len(rows) >= LEAST_COPIES:
            rows = self.contents.insert_copies(rows)
            if not rows:
                return
        shared: tuple[Any, ...] = ()
        if sql is _INSERT_BARE:
            shared = (rows[0].descriptor,)
            values: list[tuple[Any, ...]] = [
                (row.k, row.put_ms, row.msg_id, row.body) for row in rows
            ]
        elif sql is _INSERT_PLAIN:
            values = [row[:PLAIN_COLUMN_COUNT] for row in rows]
        else:
            values = [*rows]
        if len(values) == 1:
            self.writer.execute(sql, shared + values[0])
        elif sum([len(row.body) for row in rows]) <= _COPIED_BYTES:
            insert_rows(self.writer, sql, values, shared)
        else:
            self.writer.executemany(sql, [shared + each for each in values])

    def delete(self, keys: list[tuple[int]]) -> None:
        """Remove messages by key."""
        if len(keys) == 1:
            self.writer.execute(DELETE, keys[0])
        else:
            delete_keys(self.writer, DELETE, keys)

    def count_backouts(self, keys: list[tuple[int]]) -> None:
        """Raise the backout count of messages by one."""
        self.writer.executemany(_BACKOUT, keys)

    def in_order(self, low: int, high: int, limit: int) -> list[StoredMessage]:
        """Return up to ``limit`` messages with ``low <= k < high`` by key."""
        return self._rows(limited(IN_ORDER, limit), (low, high))

    def by_msg_hash(self, msg_hash: int, low: int, high: int, limit: int) -> list[StoredMessage]:
        """Return up to ``limit`` messages of a key range that the index has by this hash, by key.

        Those whose MsgId tells their key are not in it.
        """
        return self._rows(limited(_BY_MSG_HASH, limit), (msg_hash, low, high))

    def by_correl_id(
        self, correl_hash: int, low: int, high: int, limit: int
    ) -> list[StoredMessage]:
        """Return up to ``limit`` messages of a key range whose CorrelId has this hash, by key."""
        return self._rows(limited(_BY_CORREL_ID, limit), (correl_hash, low, high))

    def expired(self, now_ms: int, after: tuple[int, int], limit: int) -> list[StoredMessage]:
        """Return expired messages by (expire_at_ms, k), those after a place in that order."""
        return self._rows(limited(_EXPIRED, limit), (now_ms, *after))

    def count_expired(self, low: int, high: int, now_ms: int) -> int:
        """Count the messages of a key range whose deadline has passed; cost is what has expired.

        The plus signs keep SQLite from walking the range, which may be long.
        """
        return self._number(
            "SELECT count(*) FROM message WHERE expire_at_ms <= ? AND +k >= ? AND +k < ?",
            (now_ms, low, high),
        )

    def count(self, low: int, high: int) -> int:
        """Count the messages of a key range one by one, to check a counter."""
        return self._number("SELECT count(*) FROM message WHERE k >= ? AND k < ?", (low, high))

    def lowest_key(self, low: int, high: int) -> int | None:
        """Return the lowest key of a range, None when it is empty."""
        return self._key("SELECT min(k) FROM message WHERE k >= ? AND k < ?", (low, high))

    def highest_key(self, low: int, high: int) -> int | None:
        """Return the highest key of a range, None when it is empty."""
        return self._key("SELECT max(k) FROM message WHERE k >= ? AND k < ?", (low, high))

    def described(self, low: int, high: int, limit: int) -> list[tuple[int, bytes]]:
        """Return key and descriptor of up to ``limit`` messages of a key range, by key."""
        rows = self.fetch(limited(_DESCRIBED, limit), (low, high))
        return [(key, packed) for key, packed in rows]

    def row(self, key: int) -> StoredMessage | None:
        """Return the message with a key."""
        found = self._rows(limited(IN_ORDER, 1), (key, key + 1))
        return found[0] if found else None

    def check(self) -> Iterable[str]:
        """Yield what the database itself finds wrong with its tables and indexes."""
        try:
            findings = self.fetch("PRAGMA integrity_check(20)", ())
            lost, idle = self.fetch(LOST_CONTENTS, ()), self.fetch(IDLE_CONTENTS, ())
        except StoreDamaged as damage:
            yield str(damage)
            return
        for (finding,) in findings:
            if finding != "ok":
                yield str(finding).replace(_WRONG_CHECKSUM, "its checksum is wrong")
        for (number,) in lost:
            yield f"content {number}, to which copies refer, is missing"
        for (number,) in idle:
            yield f"content {number} has no copy"

    def _rows(self, sql: str, bindings: tuple[Any, ...]) -> list[StoredMessage]:
        return [stored_message(row) for row in self.fetch(sql, bindings)]

    def _number(self, sql: str, bindings: tuple[Any, ...]) -> int:
        number: Any = self.fetch(sql, bindings)[0][0]
        return int(number)

    def _key(self, sql: str, bindings: tuple[Any, ...]) -> int | None:
        key: Any = self.fetch(sql, bindings)[0][0]
        return None if key is None else int(key)

    def fetch(
        self,
        sql: str,
        bindings: tuple[Any, ...],
        read: Callable[[apsw.Cursor], list[tuple[Any, ...]]] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Return all rows of a statement, or those that ``read`` takes; raises StoreDamaged."""
        # Mostly held already: SQLite keeps no other thread from the reader (opening.LOCKED_FLAGS).
        with self._engine_lock:
            return rows_of(self._reader, sql, bindings, self._on_damage, read)
