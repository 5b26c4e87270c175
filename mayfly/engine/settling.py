"""What follows in memory when messages have moved in bulk: counters, and what may be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mayfly.engine.queues import PERSISTENT, VOLATILE
from mayfly.engine.work import Claiming, Moving, Unclaiming

if TYPE_CHECKING:
    from mayfly.engine.core import Core


def settle_moving(core: Core, moving: Moving) -> None:
    """Settle messages that have gone from one queue to another."""
    source, target, old_keys, new_keys = moving
    for key in old_keys:
        del core.hidden[key]
    source.present[PERSISTENT] -= len(old_keys)
    target.present[PERSISTENT] += len(new_keys)
    target.uncommitted -= len(new_keys)
    target.reveal_all(new_keys, PERSISTENT)
    core.triggering.note(target, new_keys)


def settle_claiming(core: Core, claiming: Claiming) -> None:
    """Settle messages that have gone from their queue to a claim."""
    queue, keys, volatile_count = claiming
    for key in keys:
        del core.hidden[key]
    queue.present[VOLATILE] -= volatile_count
    queue.present[PERSISTENT] -= len(keys) - volatile_count
    core.claimed[queue.number] += len(keys)


def settle_unclaiming(core: Core, unclaiming: Unclaiming) -> None:
    """Settle messages that have left a claim, and those of them that are back."""
    queue, message_count, returned, keys = unclaiming
    queue.locked -= message_count
    core.claimed[queue.number] -= message_count
    for side, (count, low_key) in enumerate(returned):
        if count:
            queue.present[side] += count
            queue.depth += count
            queue.reveal_from(low_key, side)
    core.triggering.note(queue, keys)
