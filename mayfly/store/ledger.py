"""The ledger of ended messages: read by position, searched by id, erased, trimmed at its old end.

Each row records the end of one message's stay on a queue ("life" in names here). An index by id
would be written at a random place for each row. Instead the hashes of the ids of a whole block of
positions are written at once, outside of the commits that end messages: 2 µs a row, 6 bytes on the
disk. Rows of delayed messages on the staging queue need none: an index has the MsgIds of their
senders.

An erasure changes the rows of a range of positions by one transaction, which also writes how many
there are so far. So no row is ever erased without a record of it.
"""

from __future__ import annotations

import json
import struct
import zlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from typing import Any, Final

import apsw

from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS, LifeRecord
from mayfly.mqi.constants import MQ_MSG_ID_LENGTH
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.runtime import Runtime
from mayfly.store.database import Reader, write_value
from mayfly.store.group_commit import GroupCommit
from mayfly.store.keys import GENERATED_PREFIX, staging_id
from mayfly.store.ledger_writer import LedgerWriter
from mayfly.store.messages import limited
from mayfly.store.units import Unit
from mayfly.verbs.contracts.erasure import ERASED, Erasure, of_id, of_user
from mayfly.verbs.contracts.ledger import PositionTrimmed

# Retention: the oldest rows are removed


_BATCH = 5_000
_FIRST = "SELECT min(position) FROM ledger"
_OF_VALUE = {"id": of_id("?3"), "user": of_user("?3")}
_IN_RANGE = f"position > ?1 AND position <= ?2 AND kind = {KIND_LIFE}"
_FIND = f"SELECT position FROM ledger WHERE {_IN_RANGE} AND (%s)"
_ERASE = (
    f"UPDATE ledger SET {', '.join(f'{name} = {value}' for name, value in ERASED.items())} "
    f"WHERE {_IN_RANGE} AND (%s)"
)
#: The name of a record in the table ``meta`` is this word with its number behind it.
_NAME = "erasure "
_RECORDS = "SELECT value FROM meta WHERE name >= 'erasure ' AND name < 'erasure!' ORDER BY name"
#: SQLite overwrites what a change frees with zeros while this is on.
_OVERWRITE = "PRAGMA secure_delete = {}"


class Retention:
    """Deletes the oldest rows of the ledger, and knows the first position without reading it."""

    def __init__(
        self, writer: apsw.Connection, ledger_writer: LedgerWriter, group: GroupCommit
    ) -> None:
        """Read the first position of the ledger from ``writer``; delete rows through ``group``."""
        self.ledger_writer = ledger_writer
        self._group = group
        found: Any = writer.execute(_FIRST).fetchall()[0][0]
        self._first_position = ledger_writer.last_position + 1 if found is None else int(found)

    @property
    def first_position(self) -> int:
        """The oldest position that is kept; one above the newest when the ledger is empty."""
        return self._first_position

    def surplus(self, retention_count: int) -> int:
        """Return how many rows the ledger has beyond ``retention_count``; 0 or less for none."""
        return self.ledger_writer.last_position - self._first_position + 1 - retention_count

    def trim(self, retention_count: int) -> int:
        """Delete up to 5,000 of the oldest rows beyond ``retention_count``; return how many.

        Call it without the engine lock. Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN.
        """
        last, first = self.ledger_writer.last_position, self._first_position
        surplus = min(last - first + 1 - retention_count, _BATCH)
        if surplus <= 0:
            return 0
        unit = Unit()
        # Positions continue behind this one, even if no row is left.
        unit.statements.append(write_value("last_position", last))
        unit.statements.append(("DELETE FROM ledger WHERE position < ?", (first + surplus,)))
        self._group.commit(unit)
        # Another thread may have come further meanwhile.
        self._first_position = max(self._first_position, first + surplus)
        return surplus


# Ids: the blocks of positions that hold one


#: Positions of a block: their hashes take some 7 ms, which other due work waits for.
BLOCK_ROWS: Final = 4_096
#: The most blocks that one transaction writes, if they have few hashes.
_MAX_BLOCKS: Final = 4
#: The hashes of a block are written in 32 rows, of which a look reads one. The key of a row is its
#: bucket, the highest bits of its hashes, and below that its block.
_BUCKETS: Final = 32
_BUCKET_SHIFT: Final = 27
_BLOCK_BITS: Final = 40
_EDGES: Final = tuple(bucket << _BUCKET_SHIFT for bucket in range(1, _BUCKETS))
_HASH_BYTES: Final = 4
#: Lives at the end of the ledger without hashes: looking through them takes some 5 ms.
LEFT_ROWS: Final = 16_384


def _ids_of(column: str) -> str:
    """Return the SQL that collects a column's ids: those of 24 bytes as one text, others as a list.

    The text takes half the time of a list. No program can set an id of another length.
    """
    is_full, digits = f"length({column}) = {MQ_MSG_ID_LENGTH}", f"hex({column})"
    return (
        f"group_concat({digits}, '') FILTER (WHERE {is_full}), "
        f"json_group_array({digits}) FILTER (WHERE NOT {is_full})"
    )


#: How the generated MsgIds of delayed messages begin on the staging queue.
_STAGING_PREFIX: Final = staging_id(GENERATED_PREFIX)
_PREFIX_BYTES: Final = len(GENERATED_PREFIX)
#: The life of a delayed message whose MsgId follows from its CorrelId, by which the index has it.
_IS_INDEXED = f"""
queue = '{STAGING_QUEUE}'
AND substr(msg_id, 1, {_PREFIX_BYTES}) IS x'{_STAGING_PREFIX.hex()}'
AND substr(correl_id, 1, {_PREFIX_BYTES}) IS x'{GENERATED_PREFIX.hex()}'
AND substr(msg_id, {_PREFIX_BYTES + 1}) IS substr(correl_id, {_PREFIX_BYTES + 1})"""
#: One row for all lives: at each row the interpreter is given up, and a busy thread of the program
#: keeps it for 5 ms. Beside two of them a block took 2 s with a row a life, and takes 55 ms so.
_IDS = f"""
SELECT {_ids_of("msg_id")}, {_ids_of("correl_id")} FROM ledger
WHERE position > ? AND position <= ? AND kind = {KIND_LIFE} AND NOT ({_IS_INDEXED})"""
_INSERT = """
INSERT OR REPLACE INTO ledger_ids SELECT value ->> 0, unhex(value ->> 1) FROM json_each(?)"""
#: The first bucket has a row for each block.
_NEWEST = f"SELECT max(k) FROM ledger_ids WHERE k < {1 << _BLOCK_BITS}"
_BLOCKS = """
SELECT k FROM ledger_ids WHERE k >= ? AND k < ? AND instr(hashes, ?) ORDER BY k DESC"""
#: Each step of it finds the next block with a delayed message by one look into the index: a sender
#: may have given one MsgId to a million.
_NEXT_INDEXED = f"""
SELECT position FROM ledger WHERE queue = '{STAGING_QUEUE}' AND correl_id = ?1
AND position <= %s ORDER BY position DESC LIMIT 1"""
_BLOCKS_INDEXED = f"""
WITH RECURSIVE found (block) AS (
    SELECT (({_NEXT_INDEXED % "?3"}) - 1) / ?2
    UNION ALL SELECT (({_NEXT_INDEXED % "block * ?2"}) - 1) / ?2 FROM found WHERE block > 0)
SELECT block FROM found WHERE block IS NOT NULL"""
_FORGET = """
DELETE FROM ledger_ids WHERE k IN (
    SELECT i.k FROM json_each(?1) b CROSS JOIN ledger_ids i
    ON i.k >= b.value AND i.k < b.value + ?2)"""
#: The keys that the buckets begin with.
_LOWS: Final = json.dumps([bucket << _BLOCK_BITS for bucket in range(_BUCKETS)])


class LedgerIds:
    """Hashes of the MsgIds and CorrelIds in a ledger, by block of 4,096 positions.

    A search by id so reads few blocks. The blocks with hashes have no gap; they begin with the
    oldest block of the ledger.
    """

    def __init__(self, reader: Reader, retention: Retention, group: GroupCommit) -> None:
        """Read the ledger and the hashes through ``reader``, write hashes through ``group``.

        ``retention`` knows the first position of the ledger, as older rows are deleted.
        """
        self.retention = retention
        self._reader, self._group = reader, group
        found: Any = reader.rows(_NEWEST)[0][0]
        self._next_block = 0 if found is None else int(found) + 1

    @property
    def until_position(self) -> int:
        """The last ledger position whose ids are indexed, 0 when none are."""
        return self._next_block * BLOCK_ROWS

    def is_behind(self) -> bool:
        """Return True if the next block of ledger rows can be indexed: see :meth:`write_next`.

        The newest LEFT_ROWS rows are never indexed.
        """
        begin = max(self.until_position, self.retention.first_position - 1)
        return self.retention.ledger_writer.last_position - begin >= LEFT_ROWS + BLOCK_ROWS

    def write_next(self) -> None:
        """Write the index by id of the next block of the ledger; delete that of trimmed blocks.

        The index has a hash of each id. Up to three blocks after the next one are added while they
        have few hashes together. Call it without the engine lock. Raises MQRC_STORAGE_MEDIUM_FULL,
        MQRC_CONNECTION_BROKEN.
        """
        first_block = (self.retention.first_position - 1) // BLOCK_ROWS
        block = max(self._next_block, first_block)
        most = min(_MAX_BLOCKS, self.retention.ledger_writer.last_position // BLOCK_ROWS - block)
        held, count = list[tuple[int, str]](), 0
        for following in range(block, block + most):
            hashes = self._hashes_of(following)
            held += _in_buckets(following, hashes)
            block, count = following + 1, count + len(hashes)
            if count >= BLOCK_ROWS:
                break
        unit = Unit()
        unit.statements.append((_INSERT, (json.dumps(held),)))
        unit.statements.append((_FORGET, (_LOWS, first_block)))
        self._group.commit(unit)
        self._next_block = block

    def write_again(self, blocks: Collection[int]) -> None:
        """Write the hashes of some blocks again, whose ids have changed; others need none yet.

        Call it without the engine lock. Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN.
        """
        for block in sorted(blocks):
            if block < self._next_block:
                held = _in_buckets(block, self._hashes_of(block))
                unit = Unit()
                unit.statements.append((_INSERT, (json.dumps(held),)))
                self._group.commit(unit)

    def blocks_with(self, identifier: bytes) -> list[tuple[int, int]]:
        """Return the ranges of ledger positions (after, until] that may hold an id, newest first.

        Each range is a block of 4,096 positions. A block that holds the id is never left out, if
        its ids are indexed; a returned block may lack the id.
        """
        crc = zlib.crc32(identifier)
        low = (crc >> _BUCKET_SHIFT) << _BLOCK_BITS
        asked = low, low + (1 << _BLOCK_BITS), crc.to_bytes(_HASH_BYTES, "big")
        blocks = {k - low for (k,) in self._reader.rows(_BLOCKS, asked)}
        last_position = self.retention.ledger_writer.last_position
        for msg_id in _given_by_senders(identifier):
            found = self._reader.rows(_BLOCKS_INDEXED, (msg_id, BLOCK_ROWS, last_position))
            blocks.update(block for (block,) in found)
        return [
            (block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS) for block in sorted(blocks, reverse=True)
        ]

    def _hashes_of(self, block: int) -> list[int]:
        """Return the hashes of the ids in one block of the ledger, ascending.

        ``block`` is the number of the block, of 4,096 positions. Ids of delayed messages, which
        have another index, are left out.
        """
        after = block * BLOCK_ROWS
        [found] = self._reader.rows(_IDS, (after, after + BLOCK_ROWS))
        msg_ids, odd_msg_ids, correl_ids, odd_correl_ids = found
        odd_ids = [*json.loads(odd_msg_ids), *json.loads(odd_correl_ids)]
        odd = {zlib.crc32(bytes.fromhex(each)) for each in odd_ids if each}
        return sorted(_hashes(msg_ids) | _hashes(correl_ids) | odd)


def _in_buckets(block: int, hashes: list[int]) -> list[tuple[int, str]]:
    """Return the rows of the table ``ledger_ids`` for one block: key, and hashes in hexadecimal.

    ``block`` is the number of the block; ``hashes`` are those of its ids, ascending. Each row has
    the hashes of one range of values.
    """
    packed = struct.pack(f">{len(hashes)}I", *hashes)
    cuts = [0, *(bisect_left(hashes, edge) for edge in _EDGES), len(hashes)]
    return [
        ((bucket << _BLOCK_BITS) + block, packed[_HASH_BYTES * begin : _HASH_BYTES * end].hex())
        for bucket, (begin, end) in enumerate(pairwise(cuts))
    ]


def _given_by_senders(identifier: bytes) -> list[bytes]:
    """Return the MsgIds to search the index of delayed messages for: the id, and its original.

    The original is the MsgId of the sender, if the id is one that the staging queue shows.
    """
    is_shown = identifier.startswith(_STAGING_PREFIX)
    return [identifier, staging_id(identifier)] if is_shown else [identifier]


def _hashes(digits: str | None) -> set[int]:
    """Return the hashes of ids of 24 bytes, concatenated in hexadecimal; empty for None."""
    ids, length = bytes.fromhex(digits or ""), MQ_MSG_ID_LENGTH
    return {zlib.crc32(ids[at : at + length]) for at in range(0, len(ids), length)}


# Reads


_PAGE = f"SELECT {', '.join(LEDGER_COLUMNS)} FROM ledger WHERE position > ? ORDER BY position"
_OUTCOME = (
    "SELECT outcome, user_identifier FROM ledger "
    f"WHERE correl_id = ? AND queue = '{STAGING_QUEUE}' ORDER BY position DESC LIMIT 1"
)
_OLDEST = "SELECT position, ended_ms FROM ledger ORDER BY position LIMIT 1"
_WITH_ID = (
    f"SELECT {', '.join(LifeRecord._fields)} FROM ledger WHERE position > ? AND position <= ? "
    "AND (msg_id = ?3 OR correl_id = ?3) ORDER BY position DESC"
)
_MOMENT = "SELECT ended_ms FROM ledger WHERE position > ? ORDER BY position LIMIT 1"
#: Rows searched in one read, about 20 ms: other readers of the ledger wait no longer than that.
SEARCHED_ROWS = 50_000
_LARGEST_POSITION = 2**63 - 1


class Ledger:
    """Reads the ledger of one store: the records of ended messages, and the balance rows.

    A balance row has the message counters of one queue. A range of positions always has the same
    rows.
    """

    def __init__(
        self,
        instance_id: str,
        reader: Reader,
        ids: LedgerIds,
        flush: Callable[[], None],
        settle: Callable[[], None],
    ) -> None:
        """Read through ``reader``, search with ``ids``.

        ``instance_id`` is the random id of the store, in which alone positions are valid. ``flush``
        writes the records that wait for a commit; ``settle`` also waits for those that other
        threads are writing.
        """
        self.instance_id = instance_id
        self._reader = reader
        self._ids, self._ledger_writer = ids, ids.retention.ledger_writer
        self._flush, self._settle = flush, settle
        #: The position behind which readers of the whole ledger have asked for rows, the highest.
        self.asked_position: int | None = None

    def last_position(self) -> int:
        """Write all waiting records, and return the newest position, 0 when none was ever written.

        Raises MQRC_STORAGE_MEDIUM_FULL, and MQRC_CONNECTION_BROKEN when the store is closed.
        """
        self._reader.check_open()
        self._flush()
        return self._ledger_writer.last_position

    def first_position(self) -> int:
        """Return the oldest position that is kept; one above the newest in an empty ledger.

        Raises MQRC_CONNECTION_BROKEN when the store is closed.
        """
        self._reader.check_open()
        return self._ids.retention.first_position

    def page(self, after_position: int, max_rows: int) -> list[tuple[Any, ...]]:
        """Return up to ``max_rows`` rows (columns LEDGER_COLUMNS) after a position, in order.

        Raises PositionTrimmed when retention has deleted the row right after that position.
        """
        self._reader.check_open()
        self._flush()
        last_position = self._ledger_writer.last_position
        rows = self._reader.rows(limited(_PAGE, max_rows), (after_position,))
        first_position = rows[0][0] if rows else last_position + 1
        if first_position > after_position + 1:
            raise PositionTrimmed(after_position, first_position)
        return rows

    def outcome_of_delayed(self, msg_id: bytes) -> tuple[str, str] | None:
        """Return outcome and UserIdentifier of a delayed message, by the MsgId its sender knows.

        It is the last end of such a message on the staging queue; None when the ledger has no
        record of it. Call it without the engine lock.
        """
        found = self._read(_OUTCOME, (msg_id,))
        return None if not found else (str(found[0][0]), str(found[0][1] or ""))

    def search(self, identifier: bytes, limit: int) -> Iterator[tuple[int, list[LifeRecord]]]:
        """Yield the records of ended messages with an id as MsgId or CorrelId, newest first.

        The result comes in pages: (time in ms since 1970 of the oldest row looked at, up to
        ``limit`` records), so that a caller may stop there. At the end of the ledger every row is
        searched, some 3 million a second; before that only the blocks that ``ids`` returns. Call it
        without the engine lock.
        """
        low, first = self.last_position(), self.first_position()
        floor = max(self._ids.until_position, first - 1)
        # A life may be in the database a moment before the last position says so.
        high = _LARGEST_POSITION
        while high > floor:
            low = max(low - SEARCHED_ROWS, floor)
            yield from self._search_range(identifier, limit, low, high)
            high = low
        for after, until in self._ids.blocks_with(identifier):
            if first <= until <= floor:
                yield from self._search_range(identifier, limit, after, until)

    def _search_range(
        self, identifier: bytes, limit: int, after: int, until: int
    ) -> Iterator[tuple[int, list[LifeRecord]]]:
        """Yield the records with an id in positions (after, until], with the time of the first row.

        The result comes in pages of up to ``limit`` records.

        Yields nothing when the ledger has no row after ``after``.
        """
        found = self._read(limited(_WITH_ID, limit), (after, until, identifier))
        oldest = self._read(_MOMENT, (after,))
        if oldest:
            yield oldest[0][0], [LifeRecord._make(row) for row in found]

    def oldest(self) -> tuple[int, int] | None:
        """Return position and time (ms since 1970) of the oldest row that is kept.

        None for an empty ledger.
        """
        found = self._read(_OLDEST)
        return None if not found else (int(found[0][0]), int(found[0][1]))

    def audit(self, columns: str, limit: int, before: int) -> list[tuple[Any, ...]]:
        """Return up to ``limit`` rows of the audit of delayed messages, newest first.

        Only rows with ids below ``before``; the id is the first column, then come ``columns``
        (SQL).
        """
        sql = f"SELECT id, {columns} FROM schedule_audit WHERE id < ? ORDER BY id DESC"
        return self._read(limited(sql, limit), (before,))

    def _read(self, sql: str, bindings: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Write all waiting records into the ledger, then return all rows of an SQL statement.

        Raises MQRC_CONNECTION_BROKEN when the store is closed.
        """
        self._reader.check_open()
        self._settle()
        return self._reader.rows(sql, bindings)


class LedgerErasure:
    """Erases rows of one ledger, and keeps the records of that."""

    def __init__(
        self,
        reader: Reader,
        ids: LedgerIds,
        group: GroupCommit,
        settle: Callable[[], None],
        runtime: Runtime,
    ) -> None:
        """Find rows through ``reader``, change them through ``group``, their hashes in ``ids``.

        ``settle`` writes the records of ended messages that wait for a commit.
        """
        self._reader, self._ids, self._group, self._settle = reader, ids, group, settle
        self._one_at_a_time = runtime.lock("erasure")

    def erase(self, value: bytes | str, begun: Erasure) -> Erasure:
        """Erase the rows of an id (bytes) or of a user (str); return the record with their number.

        ``begun`` is the record without a number. Rows are searched at some 3 million a second. A
        record is written only if there are rows. Call it without the engine lock. Raises
        MQRC_STORAGE_MEDIUM_FULL and MQRC_CONNECTION_BROKEN: rows up to some position are erased
        then, and recorded.
        """
        condition = _OF_VALUE[begun.selected_by]
        with self._one_at_a_time:
            self._settle()
            name = f"{_NAME}{len(self.records()) + 1:06}"
            retention = self._ids.retention
            after, last = retention.first_position - 1, retention.ledger_writer.last_position
            while after < last:
                until = min(after + SEARCHED_ROWS, last)
                bindings = (after, until, value)
                found = self._reader.rows(_FIND % condition, bindings)
                if found:
                    begun = begun._replace(row_count=begun.row_count + len(found))
                    unit = Unit()
                    unit.statements.append((_OVERWRITE.format("ON"), ()))
                    unit.statements.append((_ERASE % condition, bindings))
                    unit.statements.append((_OVERWRITE.format("OFF"), ()))
                    unit.statements.append(write_value(name, json.dumps(begun)))
                    self._group.commit(unit)
                    self._ids.write_again({(position - 1) // BLOCK_ROWS for (position,) in found})
                after = until
        return begun

    def records(self) -> list[Erasure]:
        """Return the records of erasures, oldest first, [] if there was none."""
        return [Erasure(*json.loads(value)) for (value,) in self._reader.rows(_RECORDS)]
