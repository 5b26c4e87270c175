"""Which messages count for a trigger: committed, of enough priority, expired or not (T5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from mayfly.engine.core import Core
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.engine.requester import Requester
from mayfly.engine.triggering.trigger import Trigger
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.store.keys import MAX_PRIORITY, order_key

_LARGEST_PAGE = 512


def qualifying_depth(core: Core, queue: LocalQueue, trigger: Trigger, enough: int) -> int:
    """Return how many messages on a queue count, or ``enough`` when there are more.

    A message that an open unit of work has put or got does not; one that a browse has locked does.
    """
    assert core.engine_lock.is_held()
    committed = queue.depth - queue.uncommitted
    if not trigger.least_priority or committed <= 0:
        return min(committed, enough)
    keys = _qualifying_keys(core, queue, trigger, min(enough, _LARGEST_PAGE))
    return sum(1 for _key in islice(keys, enough))


def qualifying_count(core: Core, queue: LocalQueue, trigger: Trigger, keys: Sequence[int]) -> int:
    """Return how many of the messages that have just arrived count."""
    assert core.engine_lock.is_held()
    if not trigger.least_priority:
        return len(keys)
    if not trigger.is_fifo:
        end = _end_key(queue, trigger)
        return sum(1 for key in keys if key < end)
    return sum(1 for key in keys if _has_priority(core, key, trigger))


def _has_priority(core: Core, key: int, trigger: Trigger) -> bool:
    for persistence in (VOLATILE, PERSISTENT):
        for _key, packed in core.messages(persistence).described(key, key + 1, 1):
            return unpack_descriptor(packed).priority >= trigger.least_priority
    return False


def _qualifying_keys(core: Core, queue: LocalQueue, trigger: Trigger, page: int) -> Iterator[int]:
    high = queue.high if trigger.is_fifo else _end_key(queue, trigger)
    on_the_way = set(_on_the_way(core, queue))
    for persistence in (VOLATILE, PERSISTENT):
        low = queue.low if queue.present[persistence] else high
        while low < high:
            rows = core.messages(persistence).described(low, high, page)
            for key, packed in rows:
                if key in on_the_way or not _is_there(core, key):
                    continue
                # Where places do not tell the priority, the descriptor does.
                priority = unpack_descriptor(packed).priority if trigger.is_fifo else MAX_PRIORITY
                if priority >= trigger.least_priority:
                    yield key
            low = rows[-1][0] + 1 if len(rows) == page else high
            page = min(8 * page, _LARGEST_PAGE)


def _end_key(queue: LocalQueue, trigger: Trigger) -> int:
    """Return the lowest key of a priority that is too low."""
    return order_key(queue.number, trigger.least_priority - 1, 0)


def _is_there(core: Core, key: int) -> bool:
    hider = core.hidden.get(key)
    return hider is None or isinstance(hider, Requester)


def _on_the_way(core: Core, queue: LocalQueue) -> Iterator[int]:
    """Yield the keys of what may be in the store already and has not taken effect."""
    for transaction in core.committer.under_way:
        yield from (row.k for target, row, _side in transaction.arrivals if target is queue)
        for moving in transaction.moves:
            if moving.target is queue:
                yield from moving.new_keys
        for unclaiming in transaction.ended_claims:
            if unclaiming.queue is queue:
                yield from unclaiming.keys
