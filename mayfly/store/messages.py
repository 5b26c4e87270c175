"""The messages of one database, persistent or in memory: changes, and reads by key, id and time.

Reads run on the reader connection, under the queue manager's lock. Changes run on the writer
connection, inside the caller's transaction. A read may still return a message that a transaction
under way deletes: callers skip the keys that they know to be taken.

A key range is half-open: ``low <= k < high``. Every read raises StoreDamaged when the database is
damaged.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

import apsw

from mayfly.mqi.errors import StoreDamaged
from mayfly.runtime import EngineLock
from mayfly.store.contents import IDLE_CONTENTS, LEAST_COPIES, LOST_CONTENTS, Contents
from mayfly.store.damage import rows_of
from mayfly.store.keys import (
    STAGING_LOW,
    id_hash,
    key_of_delayed_id,
    key_of_generated_id,
    queue_number_of,
)
from mayfly.store.many_rows import delete_keys, insert_rows
from mayfly.store.units import (
    NO_MORE_COLUMNS,
    PLAIN_COLUMN_COUNT,
    StagedMove,
    Statement,
    StoredMessage,
    stored_message,
)

_COLUMNS = ", ".join(StoredMessage._fields)
INSERT = f"INSERT INTO message ({_COLUMNS}) VALUES ({', '.join('?' * len(StoredMessage._fields))})"
_PLAIN_COLUMNS = ", ".join(StoredMessage._fields[:PLAIN_COLUMN_COUNT])
#: For a row whose other columns are NULL; SQLite takes 0.4 µs less.
_INSERT_PLAIN = (
    f"INSERT INTO message ({_PLAIN_COLUMNS}) VALUES ({', '.join('?' * PLAIN_COLUMN_COUNT)})"
)
#: For a row that has a MsgId alone, no deadline and no delay: 5 values, of which the rows of one
#: statement share the descriptor. A message takes 0.7 µs less.
_INSERT_BARE = (
    "INSERT INTO message (descriptor, k, put_ms, backout_count, msg_id, correl_id, body) "
    "VALUES (?1, ?, ?, 0, ?, x'', ?)"
)
DELETE = "DELETE FROM message WHERE k = ?"
_BACKOUT = "UPDATE message SET backout_count = backout_count + 1 WHERE k = ?"
IN_ORDER = f"SELECT {_COLUMNS} FROM whole_message WHERE k >= ? AND k < ? ORDER BY k"
# The plus sign hides a bound value from SQLite's planner, which would prepare the statement again
# for each value: 23 µs against 5.
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
#: Most bytes of data that one INSERT of several rows may have: SQLite makes a copy of them.
_COPIED_BYTES = 2**22
#: The column of bodies.
_BODY: Final = StoredMessage._fields.index("body")
#: How SQLite's integrity check reports a wrong checksum.
_WRONG_CHECKSUM = f"error code={apsw.SQLITE_IOERR_DATA}"

# Messages without their data, or with the beginning of it

_OUTLINE_COLUMNS = "k, expire_at_ms, msg_hash, correl_hash, descriptor, body_bytes"
_OUTLINES = f"SELECT {_OUTLINE_COLUMNS} FROM whole_message WHERE k >= ? AND k < ? ORDER BY k"
# The cross join walks the keys that are asked for, never the table.
_OUTLINES_OF = (
    f"SELECT {_OUTLINE_COLUMNS} FROM json_each(?) AS asked "
    "CROSS JOIN whole_message ON k = asked.value"
)
_PRESENT = "SELECT k FROM json_each(?) AS asked CROSS JOIN message ON k = asked.value"
#: Enough for the headers before the data: an MQDLH or MQXQH, and the headers behind them.
HEAD_BYTES = 4_096
#: SQLite takes the beginning of no bytes for null.
SHORT_BODY = f"ifnull(substr(body, 1, {HEAD_BYTES}), x'')"
_SHORT_COLUMNS = ", ".join(SHORT_BODY if name == "body" else name for name in StoredMessage._fields)
_HEADS = f"SELECT body_bytes, {_SHORT_COLUMNS} FROM whole_message WHERE k >= ? AND k < ? ORDER BY k"
_HEADS_FOR_TARGET = (
    f"SELECT body_bytes, {_SHORT_COLUMNS} FROM whole_message "
    "WHERE k >= ? AND k < ? AND target_number = ? ORDER BY k"
)
_BEGINNING = "SELECT substr(body, 1, ?) FROM whole_message WHERE k = ?"
_NTH_KEY = "SELECT k FROM message WHERE k >= ? AND k < ? ORDER BY k LIMIT 1 OFFSET ?"
_WITH_MSG_ID = f"""
SELECT length(body), {_SHORT_COLUMNS} FROM message WHERE msg_hash = ?1 AND msg_id = ?2
UNION ALL
SELECT body_bytes, {_SHORT_COLUMNS} FROM whole_message
WHERE content = (SELECT id FROM content WHERE msg_hash = ?1) AND msg_id = ?2"""
_WITH_CORREL_ID = (
    f"SELECT body_bytes, {_SHORT_COLUMNS} FROM whole_message "
    "WHERE correl_hash = ? AND correl_id = ?"
)
_WITH_KEY_IN_ID = (
    f"SELECT body_bytes, {_SHORT_COLUMNS} FROM whole_message "
    "WHERE k IN carray(?) AND msg_hash IS NULL AND msg_id = ?"
)
#: A message in transit is indexed by its own ids; the CorrelId that its sender knows is in the
#: MQXQH. A search on a transmission queue reads this many, oldest first: that takes some 5 ms.
_TRANSIT_ROWS = 2_000
_IN_TRANSIT = f"""
SELECT body_bytes, {_SHORT_COLUMNS} FROM (
    SELECT * FROM whole_message WHERE k >= ? AND k < ? ORDER BY k LIMIT {_TRANSIT_ROWS})
WHERE substr(body, 1, 4) = CAST('XQH ' AS BLOB) AND substr(body, 177, 24) = ?"""

# Deadlines and put times

_DEADLINES = "SELECT count(*) FROM message WHERE expire_at_ms > ?"
_EARLIEST_DEADLINES = (
    "SELECT expire_at_ms, k FROM message WHERE expire_at_ms IS NOT NULL ORDER BY expire_at_ms"
)
_PUT_AFTER = "SELECT count(*) FROM message WHERE k >= 0 AND put_ms > ?"
_MOVE_BACK = """
UPDATE message SET put_ms = put_ms - ?, deliver_at_ms = deliver_at_ms - ?,
    expire_at_ms = expire_at_ms - ? WHERE k >= 0 AND put_ms > ?"""
#: The queue of a key; all negative keys are those of the staging queue, number 0.
_QUEUE = "CASE WHEN k < 0 THEN 0 ELSE k >> 48 END"
#: Counts expired messages by queue, in either database. The cost is proportional to the messages
#: that have expired: the index holds all columns that the statement reads.
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
#: One row for a page of delayed messages: the last key, the number of messages, their keys minus
#: the first parameter in hexadecimal, and the numbers of their targets. The page begins at the
#: second parameter. One row for all of them releases the interpreter lock once.
_STAGED_PAGE = """
SELECT max(k), count(*), group_concat(printf('%016x', k - ?1), ''),
    group_concat(printf('%08x', coalesce(target_number, -1) & 4294967295), '')
FROM (SELECT k, target_number FROM message WHERE k >= ?2 AND k < 0 ORDER BY k LIMIT {})"""

# Delayed messages, and their release

#: Copies messages from the staging queue to their new keys. An id that contains the staging key has
#: that key as its index value.
_MOVED = """
INSERT INTO message (k, put_ms, deliver_at_ms, expire_at_ms, msg_hash, correl_hash, backout_count,
    msg_id, correl_id, origin_id, descriptor, body, topic, capped_by, released_by)
SELECT p.new, put_ms, deliver_at_ms, expire_at_ms, coalesce(msg_hash, m.k), correl_hash, 0,
    msg_id, correl_id, shown_id, descriptor, body, topic, capped_by, released_by
FROM (%s) p
CROSS JOIN message m ON m.k = p.old"""
_MOVE_IN = _MOVED % "SELECT CAST(key AS INTEGER) AS old, value AS new FROM json_each(?)"
_MOVE_OUT = "DELETE FROM message WHERE k IN (SELECT CAST(key AS INTEGER) FROM json_each(?))"
#: For consecutive new keys: the rows of an array are numbered from 1 on.
_MOVE_RANGE_IN = _MOVED % "SELECT value AS old, ?2 + rowid AS new FROM carray(?1)"
_MOVE_RANGE_OUT = "DELETE FROM message WHERE k IN carray(?)"
#: Messages are copied and deleted in parts of this number: the pages that one part frees take the
#: next ones. A transaction of 2,000 then writes 318 pages to the log instead of 383.
_MOVE_PART: Final = 500
#: Counts the staged messages of a range: if all of them move, one delete of the range takes a third
#: of the time.
_COUNT = "SELECT count(*) FROM message WHERE k >= ? AND k <= ?"
_MOVE_OUT_ALL = "DELETE FROM message WHERE k >= ? AND k <= ?"
_DUE = (
    "SELECT k, expire_at_ms, target, target_number, sub_id, topic, descriptor, length(body), "
    "backout_count, ttl_from_release FROM message WHERE k >= ? AND k < ? ORDER BY k"
)
#: One row for all messages: at each row SQLite releases the interpreter lock.
_ALIKE = """
SELECT json_group_array(k), max(body_bytes), total(is_other) FROM (
    SELECT k, length(body) AS body_bytes, target IS NOT ?3 OR target_number IS NOT ?4
        OR sub_id IS NOT ?5 OR descriptor <> ?6 OR backout_count <> ?7
        OR ttl_from_release IS NOT ?8 OR coalesce(expire_at_ms <= ?9, FALSE) AS is_other
    FROM message WHERE k >= ?1 AND k < ?2 ORDER BY k LIMIT %d)"""

#: Claimed messages may have a deadline, and have no index of deadlines.
_HAS_TIMES = """
SELECT EXISTS (SELECT 1 FROM message WHERE expire_at_ms IS NOT NULL)
    OR EXISTS (SELECT 1 FROM message WHERE k < 0) OR EXISTS (SELECT 1 FROM claimed)"""


def _insert_for(rows: list[StoredMessage]) -> str:
    """Return that INSERT statement for one message which needs the fewest values for these rows."""
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


def staged_page(row_count: int) -> str:
    """Return the SQL statement that reads up to ``row_count`` delayed messages, as one row."""
    return _STAGED_PAGE.format(row_count)


def move_puts_back(after_ms: int, by_ms: int) -> Statement:
    """Return the SQL statement that makes messages put after ``after_ms`` earlier by ``by_ms``.

    Put time, delivery time and expiry time change, of messages on ordinary queues. ``after_ms`` is
    in ms since 1970.
    """
    return _MOVE_BACK, (by_ms, by_ms, by_ms, after_ms)


@lru_cache(maxsize=256)
def limited(sql: str, limit: int) -> str:
    """Return an SQL statement with ``LIMIT limit`` added to its text.

    A LIMIT passed as a parameter makes SQLite prepare the statement again each time: 12 µs, not 3.
    """
    return f"{sql} LIMIT {limit}"


class Outline(NamedTuple):
    """A message without its data: the columns that the index of message groups needs."""

    k: int
    expire_at_ms: int | None
    msg_hash: int | None
    correl_hash: int | None
    descriptor: bytes
    body_bytes: int


class MessageHead(NamedTuple):
    """A message with only the first HEAD_BYTES of its data in ``row.body``.

    ``body_bytes`` is the full length of the data.
    """

    body_bytes: int
    row: StoredMessage


class Due(NamedTuple):
    """The columns of a staged message that its release reads.

    ``body_bytes`` is the length of its data.
    """

    k: int
    expire_at_ms: int | None
    target: str | None
    target_number: int | None
    sub_id: bytes | None
    topic: str | None
    descriptor: bytes
    body_bytes: int
    backout_count: int
    ttl_from_release: int | None


class Alike(NamedTuple):
    """Staged messages with one target and descriptor, which one SQL statement can move.

    ``largest_bytes`` is the length of the longest data.
    """

    first: Due
    keys: Sequence[int]
    largest_bytes: int


class Page:
    """Reads rows of an SQL statement up to a number of bytes of data, but at least one row."""

    def __init__(self, max_body_bytes: int, body_place: int) -> None:
        """Set the limit in bytes of data; ``body_place`` is the index of the data column."""
        self._left_bytes, self._body_place = max_body_bytes, body_place
        #: Whether the last row read exceeded the limit, so that there are more rows.
        self.is_cut = False

    def read(self, cursor: apsw.Cursor) -> list[tuple[Any, ...]]:
        """Return the next rows within the limit and close the cursor.

        Sets ``is_cut`` when rows are left.
        """
        rows = list[tuple[Any, ...]]()
        left_bytes, body_place = self._left_bytes, self._body_place
        try:
            for row in cursor:
                left_bytes -= len(row[body_place])
                if left_bytes < 0 and rows:
                    self.is_cut = True
                    break
                rows.append(row)
        finally:
            cursor.close()
        return rows


class Messages:
    """The table ``message`` of one database (see schema.sql): inserts, deletes, moves and reads."""

    def __init__(
        self,
        writer: apsw.Connection,
        reader: apsw.Connection,
        engine_lock: EngineLock,
        on_damage: Callable[[], None] = lambda: None,
    ) -> None:
        """Use ``writer`` for changes and ``reader`` for reads.

        In memory both are the same connection. ``engine_lock`` is held during reads. ``on_damage``
        is called before StoreDamaged is raised.
        """
        self.writer, self.contents = writer, Contents(writer)
        self._reader = reader
        self._engine_lock = engine_lock
        self._on_damage = on_damage

    def insert(self, rows: list[StoredMessage]) -> None:
        """Insert messages, with the cheapest SQL statement for them; ``rows`` must not be empty.

        Copies of a publication share their content: MsgId, descriptor, data and topic.
        """
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
        """Delete the messages with these keys, at least one.

        Each key is a tuple of one, as SQLite binds it.
        """
        if len(keys) == 1:
            self.writer.execute(DELETE, keys[0])
        else:
            delete_keys(self.writer, DELETE, keys)

    def count_backouts(self, keys: list[tuple[int]]) -> None:
        """Add one to the backout count of the messages with these keys."""
        self.writer.executemany(_BACKOUT, keys)

    def in_order(self, low: int, high: int, limit: int) -> list[StoredMessage]:
        """Return up to ``limit`` messages with ``low <= k < high``, in key order."""
        return self._rows(limited(IN_ORDER, limit), (low, high))

    def page(
        self, low: int, high: int, limit: int, max_body_bytes: int
    ) -> tuple[list[tuple[Any, ...]], bool]:
        """Return up to ``limit`` rows with ``low <= k < high``, by key, and whether no more follow.

        Rows have the columns of StoredMessage. Their data is at most ``max_body_bytes`` together;
        the first row comes in any case.
        """
        page = Page(max_body_bytes, _BODY)
        rows = self.fetch(limited(IN_ORDER, limit), (low, high), page.read)
        return rows, len(rows) < limit and not page.is_cut

    def by_msg_hash(self, msg_hash: int, low: int, high: int, limit: int) -> list[StoredMessage]:
        """Return up to ``limit`` messages with this hash of MsgId and ``low <= k < high``, by key.

        ``k`` is the key, which orders the messages of a queue. A message whose MsgId contains its
        key has no hash, and is not found here.
        """
        return self._rows(limited(_BY_MSG_HASH, limit), (msg_hash, low, high))

    def by_msg_id(self, msg_id: bytes, low: int, high: int, limit: int) -> list[StoredMessage]:
        """Return up to ``limit`` messages of a queue's key range that may have a MsgId, by key.

        Compare their MsgIds: the list may have others with the same hash.
        """
        found = self.by_msg_hash(id_hash(msg_id), low, high, limit)
        key = key_of_generated_id(msg_id, queue_number_of(low))
        if key is not None and low <= key < high:
            row = self.row(key)
            if row is not None and row.msg_hash is None and row.msg_id == msg_id:
                found = sorted([*found, row], key=attrgetter("k"))[:limit]
        return found

    def by_correl_id(
        self, correl_hash: int, low: int, high: int, limit: int
    ) -> list[StoredMessage]:
        """Return up to ``limit`` messages with ``low <= k < high`` by hash of CorrelId, by key."""
        return self._rows(limited(_BY_CORREL_ID, limit), (correl_hash, low, high))

    def expired(
        self, now_ms: int, after_expire_at_ms: int, after_key: int, limit: int
    ) -> list[StoredMessage]:
        """Return up to ``limit`` messages that expired at ``now_ms`` or earlier, earliest first.

        They come after the message with that expiry time and key, the last of the page before.
        """
        return self._rows(limited(_EXPIRED, limit), (now_ms, after_expire_at_ms, after_key))

    def count_expired(self, low: int, high: int, now_ms: int) -> int:
        """Count the messages with ``low <= k < high`` that expired at ``now_ms`` or earlier.

        The cost is proportional to the messages that have expired: the plus signs keep SQLite from
        reading the key range instead, which may be long.
        """
        return self._number(
            "SELECT count(*) FROM message WHERE expire_at_ms <= ? AND +k >= ? AND +k < ?",
            (now_ms, low, high),
        )

    def count(self, low: int, high: int) -> int:
        """Count the messages with ``low <= k < high`` by reading them; slow, to check a counter."""
        return self._number("SELECT count(*) FROM message WHERE k >= ? AND k < ?", (low, high))

    def lowest_key(self, low: int, high: int) -> int | None:
        """Return the lowest key of a message with ``low <= k < high``; None without one."""
        return self._key("SELECT min(k) FROM message WHERE k >= ? AND k < ?", (low, high))

    def highest_key(self, low: int, high: int) -> int | None:
        """Return the highest key of a message with ``low <= key < high``; None without one."""
        return self._key("SELECT max(k) FROM message WHERE k >= ? AND k < ?", (low, high))

    def described(self, low: int, high: int, limit: int) -> list[tuple[int, bytes]]:
        """Return (key, packed descriptor) of up to ``limit`` messages with ``low <= k < high``.

        They are in key order.
        """
        rows = self.fetch(limited(_DESCRIBED, limit), (low, high))
        return [(key, packed) for key, packed in rows]

    def row(self, key: int) -> StoredMessage | None:
        """Return the message with this key, None when no message has it."""
        found = self._rows(limited(IN_ORDER, 1), (key, key + 1))
        return found[0] if found else None

    def check(self) -> Iterable[str]:
        """Yield a text for each problem: from SQLite's integrity check, lost or unused contents."""
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
        """Return the rows of an SQL statement as messages."""
        return [stored_message(row) for row in self.fetch(sql, bindings)]

    def _number(self, sql: str, bindings: tuple[Any, ...]) -> int:
        """Return the number in the first column of the one row of an SQL statement."""
        number: Any = self.fetch(sql, bindings)[0][0]
        return int(number)

    def _key(self, sql: str, bindings: tuple[Any, ...]) -> int | None:
        """Return the key in the first column of the one row of an SQL statement, None for NULL."""
        key: Any = self.fetch(sql, bindings)[0][0]
        return None if key is None else int(key)

    def fetch(
        self,
        sql: str,
        bindings: tuple[Any, ...],
        read: Callable[[apsw.Cursor], list[tuple[Any, ...]]] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Return all rows of an SQL statement, or the rows that ``read`` takes from its cursor.

        ``bindings`` are the values of its parameters. Raises StoreDamaged. The engine lock is held
        during the read.
        """
        # Mostly held already: SQLite keeps no other thread from the reader (database.LOCKED_FLAGS).
        with self._engine_lock:
            return rows_of(self._reader, sql, bindings, self._on_damage, read)

    # Without their data, or with the beginning of it

    def outlines(self, low: int, high: int, limit: int) -> list[Outline]:
        """Return up to ``limit`` messages with ``low <= k < high`` without their data, by key."""
        return [Outline._make(row) for row in self.fetch(limited(_OUTLINES, limit), (low, high))]

    def outlines_of(self, keys: Iterable[int]) -> list[Outline]:
        """Return the messages with these keys without their data.

        Keys without a message are left out.
        """
        return [Outline._make(row) for row in self.fetch(_OUTLINES_OF, (json.dumps(list(keys)),))]

    def present(self, keys: Iterable[int]) -> set[int]:
        """Return those of these keys for which a message is stored."""
        return {int(row[0]) for row in self.fetch(_PRESENT, (json.dumps(list(keys)),))}

    def heads(self, low: int, high: int, limit: int) -> list[MessageHead]:
        """Return up to ``limit`` messages with ``low <= k < high``, by key, with shortened data."""
        return self._message_heads(_HEADS, (low, high), limit)

    def heads_for_target(
        self, low: int, high: int, target_number: int, limit: int
    ) -> list[MessageHead]:
        """Return up to ``limit`` staged messages of a key range for one target, by key.

        ``target_number`` is the number of the target queue. Their data is shortened.
        """
        return self._message_heads(_HEADS_FOR_TARGET, (low, high, target_number), limit)

    def nth_key(self, low: int, high: int, count: int) -> int | None:
        """Return the key behind the first ``count`` messages with ``low <= k < high``.

        None when no more than ``count`` messages are in the range.
        """
        rows = self.fetch(_NTH_KEY, (low, high, count))
        return int(rows[0][0]) if rows else None

    def beginning(self, key: int, length_bytes: int) -> bytes:
        """Return the first bytes of the data of a message; empty when no message has the key."""
        rows = self.fetch(_BEGINNING, (length_bytes, key))
        return bytes(rows[0][0] or b"") if rows else b""

    def with_id(self, numbers: Iterable[int], identifier: bytes, limit: int) -> list[MessageHead]:
        """Return messages with an id of 24 bytes as MsgId, then messages with it as CorrelId.

        ``limit`` is for each of the two. ``numbers`` are the numbers of the queues to search. A
        delayed message is found by the MsgId that its sender knows.
        """
        found = self._message_heads(_WITH_MSG_ID, (id_hash(identifier), identifier), limit)
        key = key_of_delayed_id(identifier)
        if key is not None and STAGING_LOW <= key < 0:
            keys = [key]
        else:
            candidates = [key_of_generated_id(identifier, number) for number in numbers]
            keys = [key for key in candidates if key is not None]
        if keys:
            # They are not in the index, because the id contains the key.
            found += self._message_heads(
                _WITH_KEY_IN_ID, (apsw.carray(array("q", keys)), identifier), limit
            )
        known = {each.row.k for each in found}
        correlated = self._message_heads(_WITH_CORREL_ID, (id_hash(identifier), identifier), limit)
        return found + [each for each in correlated if each.row.k not in known]

    def in_transit_with_correl_id(
        self, low: int, high: int, identifier: bytes, limit: int
    ) -> list[MessageHead]:
        """Return up to ``limit`` messages of a transmission queue by their sender's CorrelId.

        The CorrelId of 24 bytes is in the MQXQH. The key range is the queue's; only its oldest
        2,000 messages are searched.
        """
        return self._message_heads(_IN_TRANSIT, (low, high, identifier), limit)

    def _message_heads(self, sql: str, bindings: tuple[Any, ...], limit: int) -> list[MessageHead]:
        """Return up to ``limit`` rows of an SQL statement, as messages with shortened data."""
        return [
            MessageHead(body_bytes, StoredMessage(*row))
            for body_bytes, *row in self.fetch(limited(sql, limit), bindings)
        ]

    # Deadlines and put times

    def earliest_deadlines(self, limit: int) -> list[tuple[int, int]]:
        """Return expiry time (ms since 1970) and key of ``limit`` messages, earliest first."""
        return [
            (expire_at_ms, k)
            for expire_at_ms, k in self.fetch(limited(_EARLIEST_DEADLINES, limit), ())
        ]

    def count_deadlines(self, after_ms: int, until_ms: int | None) -> int:
        """Count the messages whose expiry time is above ``after_ms`` and not above ``until_ms``.

        ``until_ms`` None is unlimited.
        """
        if until_ms is None:
            return self._number(_DEADLINES, (after_ms,))
        return self._number(f"{_DEADLINES} AND expire_at_ms <= ?", (after_ms, until_ms))

    def count_put_after(self, after_ms: int) -> int:
        """Count the messages on ordinary queues put later than ``after_ms``.

        Reads all messages.
        """
        return self._number(_PUT_AFTER, (after_ms,))

    # Delayed messages, and their release

    def move(self, move: StagedMove) -> None:
        """Move staged messages to their new keys on the target queue, by a few SQL statements.

        It is part of the caller's transaction.
        """
        if move.old_keys is not None:
            self._move_to_range(move, move.old_keys)
            return
        writer = self.writer
        writer.execute(_MOVE_IN, (move.keys,))
        if self._are_alone(move):
            writer.execute(_MOVE_OUT_ALL, (move.first_key, move.last_key))
        else:
            writer.execute(_MOVE_OUT, (move.keys,))

    def _move_to_range(self, move: StagedMove, old_keys: Sequence[int]) -> None:
        """Move staged messages to consecutive new keys, 500 by each SQL statement.

        ``old_keys`` are their staging keys, ascending.
        """
        writer, keys, count = self.writer, array("q", old_keys), move.message_count
        are_alone = self._are_alone(move)
        for begin in range(0, count, _MOVE_PART):
            end = min(begin + _MOVE_PART, count)
            part = apsw.carray(keys, start=begin, stop=end)
            writer.execute(_MOVE_RANGE_IN, (part, move.first_new_key + begin - 1))
            assert writer.changes() == end - begin, "a message that was to move is gone"
            if are_alone:
                writer.execute(_MOVE_OUT_ALL, (keys[begin], keys[end - 1]))
            else:
                writer.execute(_MOVE_RANGE_OUT, (part,))

    def _are_alone(self, move: StagedMove) -> bool:
        """Return True if no other message has a key between those of the moved messages.

        False also when these keys are unknown.
        """
        if not move.first_key:
            return False
        between = move.first_key, move.last_key
        return self.writer.execute(_COUNT, between).fetchall() == [(move.message_count,)]

    def due(self, low: int, high: int, limit: int) -> list[Due]:
        """Return up to ``limit`` staged messages with ``low <= k < high``, no data, by key."""
        return [Due._make(row) for row in self.fetch(limited(_DUE, limit), (low, high))]

    def due_alike(self, first: Due, before: int, now_ms: int, limit: int) -> Alike | None:
        """Return the staged messages from ``first`` on, if one SQL statement can move all of them.

        They are up to ``limit`` messages with keys below ``before``. None if they differ in more
        than data, ids and times, or one has expired at ``now_ms``.
        """
        like = (
            first.target,
            first.target_number,
            first.sub_id,
            first.descriptor,
            first.backout_count,
            first.ttl_from_release,
        )
        found = self.fetch(_ALIKE % limit, (first.k, before, *like, now_ms))
        [(keys, largest_bytes, other_count)] = found
        # Those that another transaction has taken meanwhile may have been all there were.
        if largest_bytes is None or other_count:
            return None
        return Alike(first, json.loads(keys), largest_bytes)

    def has_times(self) -> bool:
        """Return True if any message may have an expiry time, or waits for its delivery time."""
        return bool(self.fetch(_HAS_TIMES, ())[0][0])

    def by_delayed_id(
        self, msg_id: bytes, key: int, low: int, high: int, limit: int
    ) -> list[StoredMessage]:
        """Return up to ``limit`` staged messages of a key range with a MsgId that contains ``key``.

        They are the message with this key, and messages with other keys whose senders have set this
        id.
        """
        # The key is read first: a message that another transaction moves away meanwhile is then
        # found by the index.
        row = self.row(key) if low <= key < high else None
        rows = self.by_msg_hash(id_hash(msg_id), low, high, limit)
        # Its sender may have given the id to more messages; put again from a copy it is in both.
        if row is not None and row.msg_id == msg_id and all(r.k != key for r in rows):
            rows = sorted([*rows, row], key=attrgetter("k"))[:limit]
        return rows
