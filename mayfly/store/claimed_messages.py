"""Claimed messages in the store: those that consumers of pipelines have reserved.

This has their tables, changes and reads. A consumer numbers the rows it claims from 1 on. The key
``r`` has the consumer's id in its high bits and that number in its low bits, so that a range of
rows is a range of keys. A claim (a reserved batch) has the rows after the claim before it up to its
last row, except rows that were backed out alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from mayfly.store.database import Reader
from mayfly.store.keys import packed_keys, unpacked_keys
from mayfly.store.messages import HEAD_BYTES, MessageHead, Page, limited
from mayfly.store.units import Statement, StoredMessage
from mayfly.verbs.contracts.messages import NO_MESSAGES, MessageColumns

#: Enough for any consumer: a hundred thousand rows a second for a hundred days and more.
ROW_BITS = 40
#: Columns of a message on an ordinary queue.
COLUMNS = (
    "k, put_ms, deliver_at_ms, expire_at_ms, msg_hash, correl_hash, backout_count, msg_id, "
    "correl_id, origin_id, descriptor, body, topic, capped_by"
)
_COLUMN_COUNT = COLUMNS.count(",") + 1
_RANGE = "r > ? AND r <= ?"

_SAVE_CONSUMER = "INSERT OR REPLACE INTO consumer VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SAVE_CLAIM = "INSERT INTO claim VALUES (?, ?, ?, ?, ?, ?)"
_FORGET_CLAIMS = "DELETE FROM claim WHERE consumer_id = ? AND number <= ?"
#: The index in the array of keys is the place in the claim; messages in memory are not found here.
_TAKE = f"""
INSERT INTO claimed (r, persistent, {COLUMNS})
SELECT ? + p.key, 1, {COLUMNS.replace("k,", "m.k,", 1)}
FROM json_each(?) p CROSS JOIN whole_message m ON m.k = p.value"""
_TAKE_OUT = "DELETE FROM message WHERE k IN (SELECT value FROM json_each(?))"
_TAKE_VOLATILE = (
    f"INSERT INTO claimed (r, persistent, {COLUMNS}) "
    f"VALUES (?, 0, {', '.join('?' * _COLUMN_COUNT)})"
)
_GIVE_BACK = f"""
INSERT INTO message ({COLUMNS})
SELECT {COLUMNS.replace("backout_count", "backout_count + 1")}
FROM claimed WHERE {_RANGE} AND persistent"""
#: The records of the lives of a range come first: see Book.
REMOVE = f"DELETE FROM claimed WHERE {_RANGE}"

_HEADS = (
    "SELECT k, expire_at_ms, body_bytes FROM whole_message "
    f"WHERE k >= ? AND k < ? AND (k & {2**44 - 1}) <= ? ORDER BY k"
)
#: The messages with the keys of a JSON list.
OF_KEYS = (
    f"SELECT {', '.join(StoredMessage._fields)} FROM whole_message "
    "WHERE k IN (SELECT value FROM json_each(?)) ORDER BY k"
)
_PAGE = (
    "SELECT r, msg_id, nullif(correl_id, x''), put_ms, deliver_at_ms, expire_at_ms, backout_count, "
    f"descriptor, body FROM claimed WHERE {_RANGE} ORDER BY r"
)
_MESSAGES = f"SELECT {COLUMNS} FROM claimed WHERE {_RANGE} ORDER BY r"
_VOLATILE = f"SELECT {COLUMNS} FROM claimed WHERE {_RANGE} AND NOT persistent ORDER BY r"
_OF_DESCRIPTORS = (
    f"SELECT {COLUMNS} FROM claimed WHERE {_RANGE} "
    "AND descriptor IN (SELECT unhex(value) FROM json_each(?)) ORDER BY r"
)
_DESCRIPTORS = f"SELECT DISTINCT descriptor FROM claimed WHERE {_RANGE}"
_NUMBERS = f"SELECT r FROM claimed WHERE {_RANGE}"
_KEYS = f"SELECT k FROM claimed WHERE {_RANGE}"
_BY_PERSISTENCE = (
    f"SELECT persistent, count(*), min(k) FROM claimed WHERE {_RANGE} GROUP BY persistent"
)
_COUNTS = (
    "SELECT c.queue, count(*) FROM claimed JOIN consumer c "
    f"ON r >= c.id << {ROW_BITS} AND r < (c.id + 1) << {ROW_BITS} GROUP BY c.queue"
)
_CLAIMED = f"""
SELECT r, persistent, c.name, c.queue, length(body), k, put_ms, deliver_at_ms, expire_at_ms,
    msg_hash, correl_hash, backout_count, msg_id, correl_id, origin_id, descriptor,
    ifnull(substr(body, 1, ?1), x''), topic, capped_by
FROM consumer c JOIN claimed ON r >= c.id << {ROW_BITS} AND r < (c.id + 1) << {ROW_BITS}"""
_OF_QUEUE = f"{_CLAIMED} WHERE c.queue = ?2 AND r > ?3 ORDER BY r"
#: Claimed messages have no index by id or key: they are as many as open claims of pipelines hold.
_WITH_ID = f"{_CLAIMED} WHERE msg_id = ?2 OR correl_id = ?2"
_AT_KEY = f"{_CLAIMED} WHERE c.queue = ?2 AND k = ?3"

#: A claim of the staging queue is a list of keys, 8 bytes each: its messages stay where they are.
_SAVE_KEYS = "INSERT INTO due_claim VALUES (?, ?, ?)"
_FORGET_KEYS = "DELETE FROM due_claim WHERE consumer_id = ? AND number <= ?"
_OF_CONSUMER = "SELECT number, keys FROM due_claim WHERE consumer_id = ?"
#: Key and target come first, then what MessageColumns has.
_DUE_COLUMNS = (
    "k, target, msg_id, nullif(correl_id, x''), put_ms, deliver_at_ms, expire_at_ms, "
    "backout_count, descriptor, body"
)
_DUE_ROWS = (
    f"SELECT {_DUE_COLUMNS} FROM message WHERE k IN (SELECT value FROM json_each(?)) ORDER BY k"
)
#: The messages between two keys, which are those of a claim unless something came in between.
BETWEEN = f"SELECT {_DUE_COLUMNS} FROM message WHERE k >= ? AND k <= ? ORDER BY k"
_LENGTHS = (
    "SELECT k, length(body) FROM message WHERE k IN (SELECT value FROM json_each(?)) ORDER BY k"
)

Fetch = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]
#: Key, deadline and data length of a message: a claim checks these before it takes it.
Head = tuple[int, int | None, int]


class ClaimedMessage(NamedTuple):
    """A claimed (reserved) message with the name of its consumer and of its queue.

    ``message`` may have only the beginning of its data. ``persistence`` is 1 for persistent, 0 for
    not. ``row_key`` orders the claimed messages of one queue.
    """

    consumer: str
    queue: str
    message: MessageHead
    persistence: int
    row_key: int


class ConsumerRow(NamedTuple):
    """A row of the table ``consumer``: a named reader that claims messages of one queue.

    See schema.sql.
    """

    id: int
    name: str
    queue: str
    epoch: int
    last_number: int
    last_row: int
    closed_number: int
    released_after: int
    released_until: int


class ClaimRow(NamedTuple):
    """A row of the table ``claim``: an open claim with the rows ``(after_row, last_row]``.

    ``body_bytes`` is the length of its data, ``claimed_ms`` the time of the claim in ms since 1970.
    """

    consumer_id: int
    number: int
    after_row: int
    last_row: int
    body_bytes: int
    claimed_ms: int


class Rows(NamedTuple):
    """A range of a consumer's claimed messages: those numbered ``after < number <= until``."""

    consumer_id: int
    after: int
    until: int

    @property
    def range(self) -> tuple[int, int]:
        """The bounds of the range as keys ``r`` of the table ``claimed``: (after, until]."""
        base = self.consumer_id << ROW_BITS
        return base | self.after, base | self.until

    @property
    def message_count(self) -> int:
        """The number of rows in the range, including rows that were backed out."""
        return self.until - self.after


def save_consumer(row: ConsumerRow) -> Statement:
    """Return the SQL statement that stores the state of a consumer, or replaces it."""
    return _SAVE_CONSUMER, row


def save_claim(row: ClaimRow) -> Statement:
    """Return the SQL statement that stores a new claim."""
    return _SAVE_CLAIM, row


def forget_claims(consumer_id: int, until_number: int) -> Statement:
    """Return the SQL statement that deletes the claims of a consumer up to a number.

    ``consumer_id`` is the number of the consumer. The claimed messages stay in the store.
    """
    return _FORGET_CLAIMS, (consumer_id, until_number)


def take(
    rows: Rows, keys: list[int], volatile: Iterable[tuple[int, StoredMessage]]
) -> list[Statement]:
    """Return the SQL statements that move messages from their queue into a claim.

    ``rows`` is the range of row numbers that the claim gets. ``keys`` are the keys of all messages
    in get order, one for each row of ``rows``. Non-persistent messages come in ``volatile`` as
    well, each with its index in ``keys``.
    """
    first = rows.range[0] + 1
    as_json = _as_json(keys)
    statements: list[Statement] = [(_TAKE, (first, as_json)), (_TAKE_OUT, (as_json,))]
    statements += [
        (_TAKE_VOLATILE, (first + place, *row[: _COLUMN_COUNT - 1], row.capped_by))
        for place, row in volatile
    ]
    return statements


def give_back(rows: Rows) -> list[Statement]:
    """Return the SQL statements that move claimed persistent messages back to their queue.

    ``rows`` is a range of a consumer's row numbers. The statements delete all rows of the range
    from the claim, also non-persistent messages, which the caller puts back in memory. Backout
    counts are one higher.
    """
    return [(_GIVE_BACK, rows.range), (REMOVE, rows.range)]


def heads(fetch: Fetch, low: int, high: int, up_to_sequence: int, limit: int) -> list[Head]:
    """Return key, expiry time and data length of up to ``limit`` messages with ``low <= k < high``.

    ``fetch`` runs the statement. Messages whose sequence is higher than ``up_to_sequence`` were put
    later, and are left out.
    """
    found: list[Any] = fetch(limited(_HEADS, limit), (low, high, up_to_sequence))
    return found


def save_keys(consumer_id: int, number: int, keys: array[int]) -> Statement:
    """Return the SQL statement that stores the keys of a new claim of the staging queue.

    ``consumer_id`` is the number of the consumer, ``number`` that of the claim.
    """
    return _SAVE_KEYS, (consumer_id, number, packed_keys(keys))


def forget_keys(consumer_id: int, until_number: int) -> Statement:
    """Return the SQL statement that deletes the keys of a consumer's claims up to a number."""
    return _FORGET_KEYS, (consumer_id, until_number)


def load_keys(fetch: Fetch, consumer_id: int) -> dict[int, array[int]]:
    """Return the keys of a consumer's open claims of the staging queue, by claim number.

    ``fetch`` runs the statement. The dict is empty without an open claim.
    """
    return {number: unpacked_keys(blob) for number, blob in fetch(_OF_CONSUMER, (consumer_id,))}


def lengths_of_keys(fetch: Fetch, keys: Sequence[int]) -> dict[int, int]:
    """Return key -> data length in bytes; keys without a message are left out.

    ``fetch`` runs the SQL statement.
    """
    return dict(fetch(_LENGTHS, (_as_json(keys),)))


def rows_of_keys(fetch: Fetch, keys: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the messages with these keys in key order, as rows with the columns of ``BETWEEN``.

    ``fetch`` runs the statement. Keys without a message are left out.
    """
    return fetch(_DUE_ROWS, (_as_json(keys),))


def _message(values: tuple[Any, ...]) -> StoredMessage:
    """Return the message in a row of the columns ``COLUMNS``."""
    *row, capped_by = values
    return StoredMessage(*row)._replace(capped_by=capped_by)


def _as_json(keys: Sequence[int]) -> str:
    """Return keys as a JSON list: ``[1, 2]`` -> ``"[1,2]"``."""
    return f"[{','.join(map(str, keys))}]"


def _claimed_message(values: tuple[Any, ...]) -> ClaimedMessage:
    """Return a claimed message from the columns of _CLAIMED."""
    row_key, persistence, consumer, queue, body_bytes, *row, capped_by = values
    message = MessageHead(body_bytes, StoredMessage(*row)._replace(capped_by=capped_by))
    return ClaimedMessage(consumer, queue, message, persistence, row_key)


class ClaimedMessages:
    """Reads consumers, claims and claimed messages through a separate database connection.

    Every read raises StoreDamaged, and MQRC_CONNECTION_BROKEN when the store is closed.
    """

    def __init__(self, reader: Reader) -> None:
        """Read through ``reader``, a separate database connection."""
        self._reader = reader

    def consumers(self) -> list[ConsumerRow]:
        """Return the state of every consumer."""
        return [ConsumerRow._make(row) for row in self.fetch("SELECT * FROM consumer", ())]

    def claims(self) -> list[ClaimRow]:
        """Return the open claims, ordered by consumer and number."""
        sql = "SELECT * FROM claim ORDER BY consumer_id, number"
        return [ClaimRow._make(row) for row in self.fetch(sql, ())]

    def page(self, rows: Rows, max_bytes: int, max_rows: int) -> MessageColumns:
        """Return the first messages of a range: up to ``max_rows``, and ``max_bytes`` of data.

        ``rows`` is a range of a consumer's row numbers. The first message comes even if it is
        longer than ``max_bytes``. Returns NO_MESSAGES if one of these rows is no longer claimed.
        """
        low, _high = rows.range
        found = self.first_rows(limited(_PAGE, max_rows), rows.range, max_bytes)
        if not found or found[-1][0] != low + len(found):
            return NO_MESSAGES
        _r, *columns = zip(*found, strict=True)
        return MessageColumns(*columns)

    def first_rows(
        self, sql: str, bindings: tuple[Any, ...], max_bytes: int
    ) -> list[tuple[Any, ...]]:
        """Return the first rows of an SQL statement, as many as ``max_bytes`` allows.

        The last columns of the returned rows have at most ``max_bytes`` together. The first row
        comes in any case.
        """
        return self._reader.rows(sql, bindings, Page(max_bytes, -1).read)

    def messages(self, rows: Rows) -> list[StoredMessage]:
        """Return the claimed messages with a consumer's row numbers in a range.

        Rows that are no longer claimed are left out.
        """
        return [_message(values) for values in self.fetch(_MESSAGES, rows.range)]

    def numbers(self, rows: Rows) -> list[int]:
        """Return those of a consumer's row numbers in a range that are still claimed."""
        base = rows.consumer_id << ROW_BITS
        return [r - base for (r,) in self.fetch(_NUMBERS, rows.range)]

    def volatile(self, rows: Rows) -> list[StoredMessage]:
        """Return the non-persistent messages with a consumer's row numbers in a range."""
        return [_message(values) for values in self.fetch(_VOLATILE, rows.range)]

    def descriptors(self, rows: Rows) -> list[bytes]:
        """Return the distinct packed descriptors of the messages in a range of claimed rows."""
        return [descriptor for (descriptor,) in self.fetch(_DESCRIPTORS, rows.range)]

    def of_descriptors(self, rows: Rows, as_json: str) -> list[StoredMessage]:
        """Return the messages of a range that have one of these packed descriptors.

        ``rows`` is a range of a consumer's row numbers. ``as_json`` is a JSON list of the
        descriptors in hexadecimal.
        """
        found = self.fetch(_OF_DESCRIPTORS, (*rows.range, as_json))
        return [_message(values) for values in found]

    def keys(self, rows: Rows) -> list[int]:
        """Return the keys that the claimed messages of a range of rows had on their queue."""
        return [key for (key,) in self.fetch(_KEYS, rows.range)]

    def by_persistence(self, rows: Rows) -> dict[int, tuple[int, int]]:
        """Return (count, lowest key) of the messages in a range of rows, by persistence.

        1 is persistent, 0 is not. A persistence without rows is left out.
        """
        return {
            persistence: (count, low)
            for persistence, count, low in self.fetch(_BY_PERSISTENCE, rows.range)
        }

    def with_id(self, identifier: bytes, limit: int) -> list[ClaimedMessage]:
        """Return up to ``limit`` claimed messages whose MsgId or CorrelId is this id.

        Reads all claimed rows.
        """
        rows = self.fetch(limited(_WITH_ID, limit), (HEAD_BYTES, identifier))
        return [_claimed_message(row) for row in rows]

    def of_queue(
        self, queue: str, after: int, limit: int, beginning_bytes: int
    ) -> list[ClaimedMessage]:
        """Return up to ``limit`` claimed messages of a queue, with the beginning of their data.

        They are those with a ``row_key`` above ``after``, in its order.
        """
        rows = self.fetch(limited(_OF_QUEUE, limit), (beginning_bytes, queue, after))
        return [_claimed_message(row) for row in rows]

    def at_key(self, queue: str, key: int) -> ClaimedMessage | None:
        """Return a claimed message by the key it had on its queue, with all of its data.

        None if no claim has it. Reads all claimed rows of the queue.
        """
        rows = self.fetch(_AT_KEY, (2**31, queue, key))
        return _claimed_message(rows[0]) if rows else None

    def counts(self) -> dict[str, int]:
        """Return the number of claimed messages by queue name; queues without any are left out.

        Reads them all, to check counters.
        """
        return dict(self.fetch(_COUNTS, ()))

    def fetch(self, sql: str, bindings: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Return all rows of an SQL statement; ``bindings`` are the values of its parameters."""
        return self._reader.rows(sql, bindings)
