"""Where in the ledger an id is: hashes of MsgIds and CorrelIds by blocks of positions.

An index by id would be written at a random place for each life that ends. Here the hashes of a
whole block are written at once, behind those that end lives: 2 µs a life, 6 bytes on the disk.

Delayed messages need none on the staging queue, where an index has the MsgIds of their senders.
"""

from __future__ import annotations

import json
import struct
import zlib
from bisect import bisect_left
from itertools import pairwise
from typing import Any, Final

from mayfly.lifetime.life import KIND_LIFE
from mayfly.mqi.constants import MQ_MSG_ID_LENGTH
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.store.group_commit import GroupCommit
from mayfly.store.keys import GENERATED_PREFIX, staging_id
from mayfly.store.reader import Reader
from mayfly.store.retention import Retention
from mayfly.store.units import Unit

#: Positions of a block: their hashes take some 7 ms, which other due work waits for.
BLOCK_ROWS: Final = 4_096
#: So many blocks at the most are written by one transaction, if they have few hashes.
_MOST_BLOCKS: Final = 4
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
    """The hashes of one ledger: one run of blocks without a gap, from the oldest on."""

    def __init__(self, reader: Reader, retention: Retention, group: GroupCommit) -> None:
        """Read through the connection of the ledger; write by ``group``."""
        self.retention = retention
        self._reader, self._group = reader, group
        found: Any = reader.rows(_NEWEST)[0][0]
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

        Blocks behind it go with it while there are fewer hashes than a block has lives.
        Call it without the lock. Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN.
        """
        first_block = (self.retention.first_position - 1) // BLOCK_ROWS
        block = max(self._next_block, first_block)
        most = min(_MOST_BLOCKS, self.retention.book.last_position // BLOCK_ROWS - block)
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

    def blocks_with(self, identifier: bytes) -> list[tuple[int, int]]:
        """Return ranges of positions (after, until) that hold an id, newest first; maybe others."""
        crc = zlib.crc32(identifier)
        low = (crc >> _BUCKET_SHIFT) << _BLOCK_BITS
        asked = low, low + (1 << _BLOCK_BITS), crc.to_bytes(_HASH_BYTES, "big")
        blocks = {k - low for (k,) in self._reader.rows(_BLOCKS, asked)}
        last_position = self.retention.book.last_position
        for msg_id in _given_by_senders(identifier):
            found = self._reader.rows(_BLOCKS_INDEXED, (msg_id, BLOCK_ROWS, last_position))
            blocks.update(block for (block,) in found)
        return [
            (block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS) for block in sorted(blocks, reverse=True)
        ]

    def _hashes_of(self, block: int) -> list[int]:
        """Return the hashes of the ids of a block that are found by them alone, ascending."""
        after = block * BLOCK_ROWS
        [found] = self._reader.rows(_IDS, (after, after + BLOCK_ROWS))
        msg_ids, odd_msg_ids, correl_ids, odd_correl_ids = found
        odd_ids = [*json.loads(odd_msg_ids), *json.loads(odd_correl_ids)]
        odd = {zlib.crc32(bytes.fromhex(each)) for each in odd_ids if each}
        return sorted(_hashes(msg_ids) | _hashes(correl_ids) | odd)


def _in_buckets(block: int, hashes: list[int]) -> list[tuple[int, str]]:
    """Return the rows that hold the hashes of a block: their key, the hashes in hexadecimal."""
    packed = struct.pack(f">{len(hashes)}I", *hashes)
    cuts = [0, *(bisect_left(hashes, edge) for edge in _EDGES), len(hashes)]
    return [
        ((bucket << _BLOCK_BITS) + block, packed[_HASH_BYTES * begin : _HASH_BYTES * end].hex())
        for bucket, (begin, end) in enumerate(pairwise(cuts))
    ]


def _given_by_senders(identifier: bytes) -> list[bytes]:
    """Return the MsgIds by which the index has delayed messages that an id may mean."""
    is_shown = identifier.startswith(_STAGING_PREFIX)
    return [identifier, staging_id(identifier)] if is_shown else [identifier]


def _hashes(digits: str | None) -> set[int]:
    """Return the hashes of ids of full length that stand one behind the other."""
    ids, length = bytes.fromhex(digits or ""), MQ_MSG_ID_LENGTH
    return {zlib.crc32(ids[at : at + length]) for at in range(0, len(ids), length)}
