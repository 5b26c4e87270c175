"""What follows in memory when a work is durable, or has failed."""

from __future__ import annotations

from collections.abc import Sequence

from mayfly.engine.holding.messages import Hold, show
from mayfly.engine.holding.puts import withdraw_here
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue, QueueOwner
from mayfly.engine.work import Unclaiming, Work


def take_effect(owner: QueueOwner, work: Work) -> None:
    """Let all that a work of an owner of queues has announced be so."""
    hidden = owner.hidden
    for queue, row, side in work.departures:
        if hidden.pop(row.k) is not work:
            queue.locked -= 1
        queue.present[side] -= 1
    for source, target, old_keys, new_keys in work.moves:
        for key in old_keys:
            del hidden[key]
        source.present[PERSISTENT] -= len(old_keys)
        target.present[PERSISTENT] += len(new_keys)
        target.uncommitted -= len(new_keys)
        _show_all(target, new_keys, PERSISTENT)
    for queue, change in work.staged:
        queue.staged_for += change
    for queue, keys, volatile_count in work.claims:
        for key in keys:
            del hidden[key]
        queue.present[VOLATILE] -= volatile_count
        queue.present[PERSISTENT] -= len(keys) - volatile_count
        queue.claimed += len(keys)
    for unclaiming in work.ended_claims:
        _unclaim(unclaiming)
    for queue, row, side in work.arrivals:
        key = row.k
        queue.present[side] += 1
        queue.uncommitted -= 1
        if key < queue.first[side]:
            queue.first[side] = key
        if queue.watchers:
            for watcher in queue.watchers:
                watcher.lower(key)
        if queue.is_staging:
            if hidden.get(key) is work:
                del hidden[key]
            owner.note_due(key)


def take_back(owner: QueueOwner, work: Work) -> list[Found]:
    """Undo what a work has announced: it will not be run, or it has failed.

    Returns the messages that were to leave and can be seen again.
    """
    hidden, returned = owner.hidden, list[Found]()
    for _queue, row, _side in work.arrivals:
        if hidden.get(row.k) is work:
            del hidden[row.k]
    for found in work.departures:
        queue, row, side = found
        holder = hidden.get(row.k)
        if holder is None:
            # The close of the queue manager has ended it (messages.end_at_close).
            continue
        if isinstance(holder, Hold):
            if not holder.locks:
                continue
            queue.locked -= 1
        del hidden[row.k]
        queue.depth += 1
        show(queue, row.k, side)
        returned.append(found)
    for moving in work.moves:
        for key in moving.old_keys:
            del hidden[key]
            show(moving.source, key, PERSISTENT)
        moving.source.depth += len(moving.old_keys)
    for queue, keys, _volatile_count in work.claims:
        for key in keys:
            del hidden[key]
        queue.depth += len(keys)
        queue.locked -= len(keys)
        for side in (VOLATILE, PERSISTENT):
            # Whichever side each was on: reading starts early rather than late.
            _show_all(queue, keys, side)
    withdraw_here(work)
    return returned


def _unclaim(unclaiming: Unclaiming) -> None:
    queue, message_count, returned, _keys = unclaiming
    queue.locked -= message_count
    queue.claimed -= message_count
    for side, (count, low_key) in enumerate(returned):
        if count:
            queue.present[side] += count
            queue.depth += count
            queue.first[side] = min(queue.first[side], low_key)
            for watcher in queue.watchers or ():
                watcher.lower_from(low_key)


def _show_all(queue: LocalQueue, keys: Sequence[int], side: int) -> None:
    queue.first[side] = min(queue.first[side], *keys)
    for watcher in queue.watchers or ():
        for key in keys:
            watcher.lower(key)
