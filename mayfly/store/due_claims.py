"""Claims of the staging queue on the disk: which messages each one holds, by their keys.

The messages stay in the table ``message``; a claim is a list of keys, 8 bytes each.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mayfly.store.claims import Statement

_SAVE = "INSERT INTO due_claim VALUES (?, ?, ?)"
_FORGET = "DELETE FROM due_claim WHERE consumer_id = ? AND number <= ?"
_OF_CONSUMER = "SELECT number, keys FROM due_claim WHERE consumer_id = ?"
#: Key and target come first, then what MessageColumns has.
_COLUMNS = (
    "k, target, msg_id, nullif(correl_id, x''), put_ms, deliver_at_ms, expire_at_ms, "
    "backout_count, descriptor, body"
)
_ROWS = f"SELECT {_COLUMNS} FROM message WHERE k IN (SELECT value FROM json_each(?)) ORDER BY k"
#: The messages between two keys, which are those of a claim unless something came in between.
BETWEEN = f"SELECT {_COLUMNS} FROM message WHERE k >= ? AND k <= ? ORDER BY k"
_LENGTHS = (
    "SELECT k, length(body) FROM message WHERE k IN (SELECT value FROM json_each(?)) ORDER BY k"
)

Fetch = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]


def keys_of(numbers: Iterable[int]) -> array[int]:
    """Return keys as they are held in memory."""
    return array("q", numbers)


def save_keys(consumer_id: int, number: int, keys: array[int]) -> Statement:
    """Return what makes the keys of a new claim durable."""
    return _SAVE, (consumer_id, number, _little_endian(keys).tobytes())


def forget_keys(consumer_id: int, until_number: int) -> Statement:
    """Return what removes the keys of closed claims."""
    return _FORGET, (consumer_id, until_number)


def load_keys(fetch: Fetch, consumer_id: int) -> dict[int, array[int]]:
    """Return the keys of a consumer's open claims, by number."""
    found = {}
    for number, blob in fetch(_OF_CONSUMER, (consumer_id,)):
        keys = array("q")
        keys.frombytes(blob)
        found[number] = _little_endian(keys)
    return found


def lengths_of_keys(fetch: Fetch, keys: Sequence[int]) -> dict[int, int]:
    """Return how long the data is of the messages that a database holds of some keys."""
    return dict(fetch(_LENGTHS, (_as_json(keys),)))


def rows_of_keys(fetch: Fetch, keys: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the messages that a database holds of some keys, in order, as BETWEEN does."""
    return fetch(_ROWS, (_as_json(keys),))


def _as_json(keys: Sequence[int]) -> str:
    return f"[{','.join(map(str, keys))}]"


def _little_endian(keys: array[int]) -> array[int]:
    """Return keys with their bytes turned where this machine's order is the other one."""
    if sys.byteorder == "big":
        keys = array("q", keys)
        keys.byteswap()
    return keys
