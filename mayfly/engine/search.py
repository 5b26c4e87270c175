"""Which message comes next: rows of both sides in key order, without those that are hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.holder import Holder
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.store.keys import id_hash, key_of_delayed_id, staging_id
from mayfly.store.units import StoredMessage

_FIRST_PAGE, _PAGE_GROWTH, _LARGEST_PAGE = 1, 8, 512


class Match(NamedTuple):
    """What a message must have to be selected; None and zero-length ids mean any (G2)."""

    msg_id: bytes | None = None
    correl_id: bytes | None = None
    group_id: bytes | None = None
    msg_seq_number: int | None = None
    offset: int | None = None

    def accepts(self, row: StoredMessage) -> bool:
        """Tell whether a row has all that is asked for."""
        if self.msg_id is not None and row.msg_id != self.msg_id:
            return False
        if self.correl_id is not None and row.correl_id != self.correl_id:
            return False
        if self.group_id is None and self.msg_seq_number is None and self.offset is None:
            return True
        descriptor = unpack_descriptor(row.descriptor)
        group_id = descriptor.group_id.rstrip(b"\0")
        return (
            (self.group_id is None or self.group_id.rstrip(b"\0") == group_id)
            and (self.msg_seq_number in (None, descriptor.msg_seq_number))
            and (self.offset in (None, descriptor.offset))
        )


ANY = Match()
#: No message has an empty MsgId.
NOTHING = Match(msg_id=b"")


def in_order(
    core: Core, queue: LocalQueue, match: Match, low: int, holder: Holder | None = None
) -> Iterator[tuple[StoredMessage, int]]:
    """Yield (row, side) of the visible messages with a key from ``low`` on, in key order.

    What the ``holder`` has locked is visible to it alone (B5). Call it and use it with the latch
    held; it may be left at any point.
    """
    if queue.is_staging:
        match = _as_stored(match)
    volatile, persistent = queue.present
    if holder is not None and holder.locked is not None:
        sides = [_side(core, queue, side, match, low) for side in (VOLATILE, PERSISTENT)]
        return _merged(_merged(*sides), _locked(core, holder.locked, match, low))
    if not persistent:
        return _side(core, queue, VOLATILE, match, low) if volatile else iter(())
    if not volatile:
        return _side(core, queue, PERSISTENT, match, low)
    return _merged(
        _side(core, queue, VOLATILE, match, low), _side(core, queue, PERSISTENT, match, low)
    )


def _as_stored(match: Match) -> Match:
    """Return a match on the ids that the staging queue shows as one on those it stores (D3)."""
    if match.msg_id is None:
        return (
            match
            if match.correl_id is None
            else match._replace(msg_id=match.correl_id, correl_id=None)
        )
    original_id = staging_id(match.msg_id)
    if match.correl_id not in (None, original_id):
        return NOTHING
    return match._replace(msg_id=original_id, correl_id=None)


def _merged(
    one: Iterator[tuple[StoredMessage, int]], other: Iterator[tuple[StoredMessage, int]]
) -> Iterator[tuple[StoredMessage, int]]:
    a, b = next(one, None), next(other, None)
    while a is not None and b is not None:
        if a[0].k < b[0].k:
            yield a
            a = next(one, None)
        else:
            yield b
            b = next(other, None)
    while a is not None:
        yield a
        a = next(one, None)
    while b is not None:
        yield b
        b = next(other, None)


def _locked(
    core: Core, found: tuple[LocalQueue, StoredMessage, int], match: Match, low: int
) -> Iterator[tuple[StoredMessage, int]]:
    """Yield the one message that a holder has locked; gets of others have led ``first`` past it."""
    _queue, row, side = found
    now = core.messages(side).row(row.k)
    if now is not None and row.k >= low and match.accepts(now):
        yield now, side


def _side(
    core: Core, queue: LocalQueue, side: int, match: Match, low: int
) -> Iterator[tuple[StoredMessage, int]]:
    hidden = core.hidden
    fetch = _fetcher(core, queue, side, match)
    is_any = match is ANY
    low = max(low, queue.first[side])
    size = _FIRST_PAGE
    while True:
        rows = fetch(low, size)
        for row in rows:
            if row.k not in hidden and (is_any or match.accepts(row)):
                yield row, side
        if len(rows) < size:
            return
        low = rows[-1].k + 1
        size = min(size * _PAGE_GROWTH, _LARGEST_PAGE)


def _fetcher(
    core: Core, queue: LocalQueue, side: int, match: Match
) -> Callable[[int, int], list[StoredMessage]]:
    messages, high = core.messages(side), queue.high
    if match.msg_id is not None:
        msg_id, msg_hash = match.msg_id, id_hash(match.msg_id)
        key = key_of_delayed_id(msg_id) if queue.is_staging else None
        if key is not None:
            staged_key = key
            return lambda low, size: messages.by_delayed_id(msg_id, staged_key, (low, high), size)
        return lambda low, size: messages.by_msg_id(msg_hash, low, high, size)
    if match.correl_id is not None:
        correl_hash = id_hash(match.correl_id)
        return lambda low, size: messages.by_correl_id(correl_hash, low, high, size)
    return lambda low, size: messages.in_order(low, high, size)
