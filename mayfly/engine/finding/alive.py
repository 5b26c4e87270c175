"""The next message that is alive and selected, and the expired ones met on the way to it."""

from __future__ import annotations

from typing import TypeAlias

from mayfly.engine.core import Core
from mayfly.engine.finding.in_turn import first_in_turn, is_in_turn
from mayfly.engine.finding.search import ANY, Match, asker, in_order
from mayfly.engine.queues import Found, LocalQueue
from mayfly.engine.requester import Requester
from mayfly.lifetime.moments import is_expired
from mayfly.store.units import StoredMessage

#: Expired messages that one turn of the lock passes over; then they are discarded, and on.
DISCARD_BATCH = 1_000
#: Messages that a selector refuses in one turn of the lock, some 5 ms, and bytes of their bodies.
REFUSALS, REFUSED_BYTES = 1_000, 4 * 1024 * 1024


#: A live message or None, the expired ones met before it, a key before which all has been met, and
#: whether the look was cut short: then it has met DISCARD_BATCH expired messages, or as many
#: refused ones as one turn of the lock has time for. A named tuple would cost each get 0.3 µs.
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
) -> Look:
    """Look for the first message live now with ``low <= k < before`` that the holder may see.

    Messages that the selector refuses are passed over, dead or alive (E11).
    """
    if match is ANY and low == queue.low and is_in_turn(queue, requester):
        found = first_in_turn(queue)
        if found is None or (before is not None and before < found[0].k):
            return None, [], low, False
        row = found[0]
        if row.expire_at_ms is None or not is_expired(row.expire_at_ms, now_ms):
            return found, [], row.k, False
    # The shortest get is spared the question, a fortieth of it.
    assert core.engine_lock.is_held()
    # A look that may discard nothing on its own must find out whether there is a live one (K7).
    may_discard = core.settings.discard_on_empty
    selects = None if match.selector is None else asker(match, core, queue, now_ms)
    expired: list[Found] = []
    reached, refused_count, refused_bytes = low, 0, 0
    for row, persistence in in_order(core, queue, match, low, requester):
        if before is not None and before < row.k:
            break
        if selects is not None and not selects(row):
            reached = row.k + 1
            refused_count += 1
            refused_bytes += len(row.body)
            is_long = refused_count >= REFUSALS or refused_bytes >= REFUSED_BYTES
            if is_long and in_parts and (may_discard or not expired):
                return None, expired, reached, True
            continue
        if not is_expired(row.expire_at_ms, now_ms):
            return (row, persistence), expired, row.k, False
        expired.append((queue, row, persistence))
        reached = row.k + 1
        if len(expired) == DISCARD_BATCH and in_parts and may_discard:
            return None, expired, reached, True
    if expired and not may_discard:
        reached = expired[0][1].k
    return None, expired, reached, False
