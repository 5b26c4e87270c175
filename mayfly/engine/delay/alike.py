"""Due messages that are alike, found by one statement: of a flood nobody looks at each of them."""

from __future__ import annotations

from typing import Final

from mayfly.engine.core import Core
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.store.keys import STAGING_LOW
from mayfly.store.messages import Alike, Due

#: Of messages of many kinds so many are looked at in vain.
_FIRST: Final = 16


def due_alike(
    core: Core, staging: LocalQueue, before: int, now_ms: int, limit: int
) -> Alike | None:
    """Return the next persistent messages before a key, in due order, if they are alike.

    None where it takes a look at each: another is among them, one that is hidden or not persistent,
    or they are too few.
    """
    assert core.engine_lock.is_held()
    messages, low = core.messages(PERSISTENT), max(STAGING_LOW, staging.first[PERSISTENT])
    first_count = min(_FIRST, limit)
    firsts = messages.due(low, before, first_count) if staging.present[PERSISTENT] else []
    if len(firsts) < first_count or any(_kind(due) != _kind(firsts[0]) for due in firsts):
        return None
    alike = messages.due_alike(firsts[0], before, now_ms, limit)
    if alike is None or not core.hidden.keys().isdisjoint(alike.keys):
        return None
    if staging.present[VOLATILE]:
        until = alike.keys[-1] + 1
        if core.messages(VOLATILE).lowest_key(staging.first[VOLATILE], until) is not None:
            return None
    return alike


def _kind(due: Due) -> tuple[str | None, int | None, bytes | None, bytes]:
    return due.target, due.target_number, due.sub_id, due.descriptor
