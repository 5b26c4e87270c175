"""Browses a queue in bulk, page by page, in ranges of keys that can be read in parallel.

It changes nothing: unlike the browse of a handle it skips expired messages without discarding them.
"""

from __future__ import annotations

from itertools import pairwise

from mayfly.engine.core import Core
from mayfly.engine.delay.staging import shown
from mayfly.engine.finding.search import Match, in_order
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.engine.remote_queues import seen_in_transit
from mayfly.lifetime.moments import is_expired
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import mq_error
from mayfly.store.keys import priority_starts
from mayfly.store.units import StoredMessage

#: Rows looked at in one turn of the lock, and the data after which it ends.
_TURN_ROWS = 500
_TURN_BYTES = 4 * 1024 * 1024
#: A part of fewer messages is not worth a separate reader.
_PART_ROWS_MIN = 10_000


def ranges(core: Core, name: str, count: int) -> list[tuple[int, int]]:
    """Return half-open ranges of keys that cover the messages now on a queue, in get order.

    They are about ``count``, fewer for a short queue, none for an empty one. Raises
    MQRC_GET_INHIBITED, MQRC_UNKNOWN_OBJECT_NAME, and MQRC_OPTION_NOT_VALID_FOR_TYPE for a queue of
    another queue manager.
    """
    with core.engine_lock:
        core.check_running()
        queue = _browsable(core, name).queue
        count = min(count, 1 + sum(queue.present) // _PART_ROWS_MIN)
        starts = [queue.low] if queue.is_staging else priority_starts(queue.number)
        spans = [
            span
            for low, high in zip(starts, [*starts[1:], queue.high], strict=True)
            if (span := _span(queue, low, high)) is not None
        ]
    if count == 1 and spans:
        return [(spans[0][0], spans[-1][1])]
    total = sum(high - low for low, high in spans)
    return [
        part for low, high in spans for part in _cut(low, high, -(-count * (high - low) // total))
    ]


def page(
    core: Core, name: str, low: int, high: int, match: Match, priority: int | None
) -> tuple[str, list[StoredMessage], int | None]:
    """Return one page of a bulk browse: queue name, messages, and where the next page begins.

    The messages have keys ``low <= key < high``, are not expired, and match ``match`` and
    ``priority`` (None: any). The last value is the key at which the next page begins, None at the
    end. A page may be empty although more follow. Raises MQRC_GET_INHIBITED,
    MQRC_UNKNOWN_OBJECT_NAME, and MQRC_OPTION_NOT_VALID_FOR_TYPE for a queue of another queue
    manager.
    """
    found: list[StoredMessage] = []
    looked_at = body_bytes = 0
    with core.engine_lock:
        core.check_running()
        queue = _browsable(core, name).queue
        now_ms = core.now_ms()
        for row, _persistence in in_order(core, queue, match, low):
            if row.k >= high:
                break
            if looked_at == _TURN_ROWS or body_bytes >= _TURN_BYTES:
                return queue.name, found, row.k
            looked_at += 1
            body_bytes += len(row.body)
            if is_expired(row.expire_at_ms, now_ms):
                continue
            if priority is None or priority == unpack_descriptor(row.descriptor).priority:
                found.append(shown(core, row) if queue.is_staging else seen_in_transit(row, now_ms))
    return queue.name, found, None


def _browsable(core: Core, name: str) -> ResolvedQueue:
    """Return the queue that a name resolves to.

    Raises MQRC_GET_INHIBITED when the queue or an alias to it has GET(DISABLED).
    """
    path = core.registry.resolve(name)
    if path.get_inhibited:
        raise mq_error(rc.MQRC_GET_INHIBITED, f"GET(DISABLED) on the way to {name}")
    return path


def _span(queue: LocalQueue, low: int, high: int) -> tuple[int, int] | None:
    """Return the smallest range of keys that holds all messages with ``low <= key < high``.

    The end is exclusive. None when no message is in the range.
    """
    stored = [
        queue.owner.messages(persistence)
        for persistence in (VOLATILE, PERSISTENT)
        if queue.present[persistence]
    ]
    lowest = [key for each in stored if (key := each.lowest_key(low, high)) is not None]
    highest = [key for each in stored if (key := each.highest_key(low, high)) is not None]
    return (min(lowest), max(highest) + 1) if lowest else None


def _cut(low: int, high: int, count: int) -> list[tuple[int, int]]:
    """Divide a range of keys into up to ``count`` parts of equal size; empty parts are left out."""
    edges = [low + (high - low) * n // count for n in range(count + 1)]
    return [(start, end) for start, end in pairwise(edges) if start < end]
