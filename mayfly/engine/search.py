"""Which message comes next: rows of both sides in key order, without those that are hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.store.keys import id_hash
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


def in_order(
    core: Core, queue: LocalQueue, match: Match, low: int
) -> Iterator[tuple[StoredMessage, int]]:
    """Yield (row, side) of the visible messages with a key from ``low`` on, in key order.

    Call it and use it with the latch held; it may be left at any point.
    """
    volatile, persistent = queue.present
    if not persistent:
        return _side(core, queue, VOLATILE, match, low) if volatile else iter(())
    if not volatile:
        return _side(core, queue, PERSISTENT, match, low)
    return _merged(
        _side(core, queue, VOLATILE, match, low), _side(core, queue, PERSISTENT, match, low)
    )


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
        msg_hash = id_hash(match.msg_id)
        return lambda low, size: messages.by_msg_id(msg_hash, low, high, size)
    if match.correl_id is not None:
        correl_hash = id_hash(match.correl_id)
        return lambda low, size: messages.by_correl_id(correl_hash, low, high, size)
    return lambda low, size: messages.in_order(low, high, size)
