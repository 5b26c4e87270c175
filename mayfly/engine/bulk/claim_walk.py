"""Which messages a claim takes: the next live ones in get order, with the expired ones before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from heapq import merge

from mayfly.engine.core import Core
from mayfly.engine.finding.alive import DISCARD_BATCH
from mayfly.engine.holding.messages import pass_over
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue
from mayfly.lifetime.window import is_expired
from mayfly.store.claims import OF_KEYS, heads
from mayfly.store.keys import SEQUENCE_BITS
from mayfly.store.units import StoredMessage

ANY_SEQUENCE = 2**SEQUENCE_BITS - 1
_PAGE_ROWS = 1_000


class Walk:
    """What was met: keys to be claimed, those in memory with their rows, and expired messages."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.keys: list[int] = []
        #: Place among the keys and row of each that is in memory.
        self.volatile: list[tuple[int, StoredMessage]] = []
        self.expired: list[Found] = []
        self.body_bytes = 0
        #: Whether it ended at so many expired messages that there may be more to find.
        self.is_cut = False


def walk(
    core: Core, queue: LocalQueue, row_count: int, body_bytes: int, up_to_sequence: int
) -> Walk:
    """Look for up to ``row_count`` live messages and ``body_bytes``, one message at least.

    The caller hides what it finds before it lets go.
    """
    assert core.latch.is_held()
    found, now_ms = Walk(), core.now_ms()
    last = [queue.low, queue.low]
    keys = found.keys
    places: dict[int, int] = {}
    for key, expire_at_ms, length_bytes, side in _heads(core, queue, up_to_sequence):
        if expire_at_ms is not None and is_expired(expire_at_ms, now_ms):
            row = core.messages(side).row(key)
            if row is not None:
                found.expired.append((queue, row, side))
            found.is_cut = len(found.expired) >= DISCARD_BATCH
        elif keys and found.body_bytes + length_bytes > body_bytes:
            break
        else:
            if side == VOLATILE:
                places[key] = len(keys)
            keys.append(key)
            found.body_bytes += length_bytes
        last[side] = key + 1
        if found.is_cut or len(keys) >= row_count:
            break
    if places:
        rows = core.messages(VOLATILE).fetch(OF_KEYS, (json.dumps(list(places)),))
        found.volatile = [(places[row[0]], StoredMessage._make(row)) for row in rows]
    is_settled = bool(keys) or core.settings.discard_on_empty
    if up_to_sequence == ANY_SEQUENCE and is_settled:
        for side in (VOLATILE, PERSISTENT):
            # Everything before has been looked at and is hidden by now.
            pass_over(queue, side, last[side] - 1)
    return found


def _heads(
    core: Core, queue: LocalQueue, up_to_sequence: int
) -> Iterator[tuple[int, int | None, int, int]]:
    """Yield key, deadline, length and side of the visible messages, in get order."""
    sides = [
        _visible(core, queue, side, up_to_sequence)
        for side in (VOLATILE, PERSISTENT)
        if queue.present[side]
    ]
    return sides[0] if len(sides) == 1 else merge(*sides)


def _visible(
    core: Core, queue: LocalQueue, side: int, up_to_sequence: int
) -> Iterator[tuple[int, int | None, int, int]]:
    low, fetch, hidden = queue.first[side], core.messages(side).fetch, core.hidden
    while True:
        page = heads(fetch, (low, queue.high), up_to_sequence, _PAGE_ROWS)
        for key, expire_at_ms, length_bytes in page:
            if key not in hidden:
                yield key, expire_at_ms, length_bytes, side
        if len(page) < _PAGE_ROWS:
            return
        low = page[-1][0] + 1
