"""Where in the ledger an id is: hashes of MsgIds and CorrelIds by blocks of positions.

An index by id would be written at a random place for each life that ends. Here the hashes of a
whole block are written at once, behind those that end lives: 2 µs a life, 6 bytes on the disk.
"""

from __future__ import annotations

import json
import struct
import zlib
from bisect import bisect_left
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any, Final

from mayfly.lifetime.life import KIND_LIFE
from mayfly.mqi.attribute_selectors import MQ_MSG_ID_LENGTH
from mayfly.store.database import Database
from mayfly.store.group_commit import GroupCommit
from mayfly.store.retention import Retention
from mayfly.store.units import Unit

#: Positions of a block: their hashes take some 7 ms, which other due work waits for.
BLOCK_ROWS: Final = 4_096
#: The hashes of a block are written in so many rows, of which a look reads one. The key of a row is
#: its bucket, the highest bits of its hashes, and below that its block.
_BUCKETS: Final = 32
_BUCKET_SHIFT: Final = 27
_BLOCK_BITS: Final = 40
_EDGES: Final = tuple(bucket << _BUCKET_SHIFT for bucket in range(1, _BUCKETS))
_HASH_BYTES: Final = 4
#: Lives at the end of the ledger without hashes: looking through them takes some 5 ms.
_LEFT_ROWS: Final = 16_384


def _ids_of(column: str) -> str:
    """Return what reads the ids of a column: those of full length as one text, others as a list.

    The text takes half of the time of a list. No program can give an id of another length.
    """
    is_full, digits = f"length({column}) = {MQ_MSG_ID_LENGTH}", f"hex({column})"
    return (
        f"group_concat({digits}, '') FILTER (WHERE {is_full}), "
        f"json_group_array({digits}) FILTER (WHERE NOT {is_full})"
    )


#: One row for all lives: at each row the interpreter is given up, and a busy thread of the program
#: keeps it for 5 ms. Beside two of them a block took 2 s with a row a life, and takes 55 ms so.
_IDS = f"""
SELECT {_ids_of("msg_id")}, {_ids_of("correl_id")} FROM ledger
WHERE position > ? AND position <= ? AND kind = {KIND_LIFE}"""
_INSERT = """
INSERT OR REPLACE INTO ledger_ids SELECT value ->> 0, unhex(value ->> 1) FROM json_each(?)"""
#: The first bucket has a row for each block.
_NEWEST = f"SELECT max(k) FROM ledger_ids WHERE k < {1 << _BLOCK_BITS}"
_BLOCKS = """
SELECT k FROM ledger_ids WHERE k >= ? AND k < ? AND instr(hashes, ?) ORDER BY k DESC"""
_FORGET = """
DELETE FROM ledger_ids WHERE k IN (
    SELECT i.k FROM json_each(?1) b CROSS JOIN ledger_ids i
    ON i.k >= b.value AND i.k < b.value + ?2)"""
#: The keys that the buckets begin with.
_LOWS: Final = json.dumps([bucket << _BLOCK_BITS for bucket in range(_BUCKETS)])


class LedgerIds:
    """The hashes of one ledger: one run of blocks without a gap, from the oldest on."""

    def __init__(
        self,
        database: Database,
        retention: Retention,
        group: GroupCommit,
        guard: AbstractContextManager[object],
    ) -> None:
        """Read through the ledger's connection, inside ``guard``; write by ``group``."""
        self.retention = retention
        self._database, self._group, self._guard = database, group, guard
        found: Any = database.rows(database.writer, _NEWEST)[0][0]
        self._next_block = 0 if found is None else int(found) + 1

    @property
    def until_position(self) -> int:
        """The last position with hashes, 0 for none."""
        return self._next_block * BLOCK_ROWS

    def is_behind(self) -> bool:
        """Return True if a block should get its hashes."""
        begin = max(self.until_position, self.retention.first_position - 1)
        return self.retention.book.last_position - begin >= _LEFT_ROWS + BLOCK_ROWS

    def write_next(self) -> None:
        """Write the hashes of the next block, and remove those of blocks that are no more.

        Call it without the lock. Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN.
        """
        first_block = (self.retention.first_position - 1) // BLOCK_ROWS
        block = max(self._next_block, first_block)
        after = block * BLOCK_ROWS
        with self._guard:
            reader = self._database.ledger_reader
            found = self._database.rows(reader, _IDS, (after, after + BLOCK_ROWS))
        msg_ids, odd_msg_ids, correl_ids, odd_correl_ids = found[0]
        odd_ids = [*json.loads(odd_msg_ids), *json.loads(odd_correl_ids)]
        odd = {zlib.crc32(bytes.fromhex(each)) for each in odd_ids if each}
        hashes = sorted(_hashes(msg_ids) | _hashes(correl_ids) | odd)
        packed = struct.pack(f">{len(hashes)}I", *hashes)
        cuts = [0, *(bisect_left(hashes, edge) for edge in _EDGES), len(hashes)]
        held = [
            ((bucket << _BLOCK_BITS) + block, packed[_HASH_BYTES * begin : _HASH_BYTES * end].hex())
            for bucket, (begin, end) in enumerate(pairwise(cuts))
        ]
        unit = Unit()
        unit.statements.append((_INSERT, (json.dumps(held),)))
        unit.statements.append((_FORGET, (_LOWS, first_block)))
        self._group.commit(unit)
        self._next_block = block + 1

    def blocks_with(self, identifier: bytes) -> list[tuple[int, int]]:
        """Return ranges of positions (after, until) that hold an id, newest first; maybe others."""
        crc = zlib.crc32(identifier)
        low = (crc >> _BUCKET_SHIFT) << _BLOCK_BITS
        asked = low, low + (1 << _BLOCK_BITS), crc.to_bytes(_HASH_BYTES, "big")
        with self._guard:
            found = self._database.rows(self._database.ledger_reader, _BLOCKS, asked)
        blocks = (k - low for (k,) in found)
        return [(block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS) for block in blocks]


def _hashes(digits: str | None) -> set[int]:
    """Return the hashes of ids of full length that stand one behind the other."""
    ids, length = bytes.fromhex(digits or ""), MQ_MSG_ID_LENGTH
    return {zlib.crc32(ids[at : at + length]) for at in range(0, len(ids), length)}
