"""Finds the next live message: not expired and selected; and the expired messages before."""

from __future__ import annotations

from typing import TypeAlias

from mayfly.engine.core import Core
from mayfly.engine.finding.search import ANY, Match, asker, in_order
from mayfly.engine.finding.selecting import (
    FIXED_SIZE,
    LONG_WORK,
    NO_RESULTS,
    REFUSALS,
    REFUSED_BYTES,
    TURN_WORK,
    SelectorResults,
    is_long,
)
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue
from mayfly.engine.requester import Requester
from mayfly.lifetime.moments import is_expired
from mayfly.store.units import StoredMessage

#: Expired messages that one turn of the lock skips; then they are discarded before it continues.
DISCARD_BATCH = 1_000
#: The result of a search: a live message or None; the expired messages before it; the key at which
#: the search continues; and whether it was cut short. It is cut short after DISCARD_BATCH expired
#: messages, after as many refused ones as one turn of the lock has time for, or at one for which
#: the selector takes too long. A named tuple would cost each get 0.3 µs.
Look: TypeAlias = tuple[tuple[StoredMessage, int] | None, list[Found], int, bool]


def look(
    core: Core,
    queue: LocalQueue,
    match: Match,
    low: int,
    now_ms: int,
    *,
    before: int | None,
    in_parts: bool,
    requester: Requester | None,
    selector_results: SelectorResults = NO_RESULTS,
) -> Look:
    """Find the first message with ``low <= k < before`` that matches and has not expired.

    ``k`` is its key; ``before`` None is no limit. Returns (message or None, the expired messages
    that were passed on the way, key at which a search continues, whether the search was cut short).
    Messages that the selector refuses are skipped, expired or not. Messages locked by the
    ``requester`` are visible to it. With ``in_parts`` one call does a bounded amount of work, and
    stops before a slow selector evaluation. ``selector_results`` holds earlier results of the
    selector. Nothing is removed from the queue. The engine lock is held.
    """
    if match is ANY and low == queue.low and takes_next(queue, requester):
        found = first_visible(queue)
        if found is None or (before is not None and before < found[0].k):
            return None, [], low, False
        row = found[0]
        if row.expire_at_ms is None or not is_expired(row.expire_at_ms, now_ms):
            return found, [], row.k, False
    # The shortest get is spared the question, a fortieth of it.
    assert core.engine_lock.is_held()
    # A look that may discard nothing on its own must find out whether there is a live one (K7).
    may_discard = core.settings.discard_on_empty
    selector, selects, has_results = match.selector, None, bool(selector_results.results)
    short_bytes = left_bytes = 0
    if selector is not None:
        selects = asker(match, core, queue, now_ms)
        short_bytes = LONG_WORK // (selector.work + 1) - FIXED_SIZE
        left_bytes = min(REFUSED_BYTES, TURN_WORK // (selector.work + 1))
    expired: list[Found] = []
    reached, refused_count = low, 0
    for row, persistence in in_order(core, queue, match, low, requester):
        if before is not None and before < row.k:
            break
        if selects is not None:
            body_bytes = len(row.body)
            is_taken = selector_results.of(row) if has_results else None
            if is_taken is None:
                # A body is longer than its header: most need not be looked at for that.
                if in_parts and (body_bytes > short_bytes or row.topic is not None):
                    assert selector is not None
                    if is_long(selector, row):
                        return _cut(expired, row.k, selector_results, may_discard=may_discard)
                is_taken = selects(row)
            if not is_taken:
                reached = row.k + 1
                refused_count += 1
                left_bytes -= body_bytes
                if in_parts and (refused_count >= REFUSALS or left_bytes <= 0):
                    return _cut(expired, reached, selector_results, may_discard=may_discard)
                continue
        if not is_expired(row.expire_at_ms, now_ms):
            if selector_results.dead:
                expired = _with_dead(expired, queue, selector_results, requester)
            return (row, persistence), expired, row.k, False
        expired.append((queue, row, persistence))
        reached = row.k + 1
        if len(expired) == DISCARD_BATCH and in_parts and may_discard:
            return None, expired, reached, True
    if selector_results.dead:
        expired = _with_dead(expired, queue, selector_results, requester)
    if expired and not may_discard:
        reached = expired[0][1].k
    return None, expired, reached, False


def _cut(
    expired: list[Found], reached: int, selector_results: SelectorResults, *, may_discard: bool
) -> Look:
    """Return the result of a search that was cut short and continues at the key ``reached``.

    ``expired`` are the expired messages found so far. With ``may_discard`` they are in the result,
    and the caller discards them. Without it they are noted in ``selector_results.dead``, for the
    end of the search.
    """
    if not may_discard:
        selector_results.dead += [(row.k, persistence) for _queue, row, persistence in expired]
        expired = []
    return None, expired, reached, True


def _with_dead(
    expired: list[Found],
    queue: LocalQueue,
    selector_results: SelectorResults,
    requester: Requester | None,
) -> list[Found]:
    """Return the expired messages that earlier parts of the search have noted, then ``expired``.

    The noted ones are in ``selector_results.dead``. Those that are gone, or that another than the
    ``requester`` hides, are left out.
    """
    queue_owner, found = queue.owner, list[Found]()
    for key, persistence in selector_results.dead:
        row = queue_owner.messages(persistence).row(key)
        if row is not None and queue_owner.hidden.get(key, requester) is requester:
            found.append((queue, row, persistence))
    return found + expired if found else expired


def takes_next(queue: LocalQueue, requester: Requester | None) -> bool:
    """Return True if the requester simply gets the first visible message of a queue.

    False on the staging queue, and when the requester has locked a message that only it sees (B5).
    """
    return not queue.is_staging and (requester is None or requester.locked is None)


def first_visible(queue: LocalQueue) -> tuple[StoredMessage, int] | None:
    """Return the first visible message, expired or not, with its persistence; else None."""
    volatile, persistent = queue.present
    one = _first_of(queue, VOLATILE) if volatile else None
    other = _first_of(queue, PERSISTENT) if persistent else None
    if one is None or (other is not None and other.k < one.k):
        return None if other is None else (other, PERSISTENT)
    return one, VOLATILE


def _first_of(queue: LocalQueue, persistence: int) -> StoredMessage | None:
    """Return the first visible message with one persistence; None if none is visible."""
    queue_owner, ahead, first = queue.owner, queue.ahead[persistence], queue.first[persistence]
    row = ahead.next(queue_owner.hidden, first)
    if row is None and not ahead.has_all:
        row = ahead.read(queue_owner.messages(persistence), queue_owner.hidden, first, queue.high)
    return row
