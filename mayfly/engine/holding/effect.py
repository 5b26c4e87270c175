"""The changes in memory after a transaction is durable, or has failed."""

from __future__ import annotations

from collections.abc import Sequence

from mayfly.engine.finding.read_ahead import LARGEST_LOAN_BYTES
from mayfly.engine.holding.messages import Hold, show
from mayfly.engine.holding.puts import withdraw_here
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue, QueueOwner
from mayfly.engine.transaction import Moving, Transaction, Unclaiming


def hide_arrivals(owner: QueueOwner, transaction: Transaction) -> None:
    """Hide persistent messages until their transaction takes effect.

    The disk has them a moment before that. The non-persistent ones that it brings are not yet on
    their queue then, and may come before them (G1); and a message that is gone before it has
    arrived would arrive all the same. Moved ones are hidden only for the first reason.
    """
    hidden, unit = owner.hidden, transaction.unit
    if unit.inserts:
        for _queue, row, persistence in transaction.arrivals:
            if persistence:
                hidden[row.k] = transaction
    if unit.volatile_inserts:
        for moving in transaction.moves:
            hidden.update(dict.fromkeys(moving.new_keys, transaction))


def let_arrivals_be_seen(owner: QueueOwner, transaction: Transaction) -> None:
    """Hide what a transaction brings no more: it is as far as the others, or is not run."""
    hidden = owner.hidden
    for _queue, row, _side in transaction.arrivals:
        key = row.k
        if hidden.get(key) is transaction:
            del hidden[key]
    for moving in transaction.moves:
        for key in moving.new_keys:
            # One that was not hidden may have been got already, and is hidden by who got it.
            if key in hidden and hidden[key] is transaction:
                del hidden[key]


def take_effect(owner: QueueOwner, transaction: Transaction) -> None:
    """Let all that a transaction of an owner of queues has announced be so."""
    hidden, unit = owner.hidden, transaction.unit
    if unit.inserts or (unit.moves and unit.volatile_inserts):
        let_arrivals_be_seen(owner, transaction)
    for queue, row, persistence in transaction.departures:
        key = row.k
        if hidden[key] is not transaction:
            queue.locked -= 1
        del hidden[key]
        queue.present[persistence] -= 1
        ahead = queue.ahead[persistence]
        if ahead.borrowed_bytes > LARGEST_LOAN_BYTES and not queue.present[persistence]:
            ahead.begin()
        # One that leaves out of turn may have been read ahead.
        elif queue.first[persistence] <= key < ahead.end:
            ahead.leave(key)
    for moving in transaction.moves:
        _move(hidden, moving)
    for queue, change in transaction.staged:
        queue.staged_for += change
    for queue, keys, volatile_count in transaction.claims:
        for key in keys:
            del hidden[key]
        queue.present[VOLATILE] -= volatile_count
        queue.present[PERSISTENT] -= len(keys) - volatile_count
        queue.claimed += len(keys)
        for ahead in queue.ahead:
            ahead.forget()
    for unclaiming in transaction.ended_claims:
        _unclaim(unclaiming)
    for queue, row, persistence in transaction.arrivals:
        key = row.k
        queue.present[persistence] += 1
        queue.uncommitted -= 1
        first, ahead = queue.first[persistence], queue.ahead[persistence]
        if ahead.is_read and queue.present[persistence] == 1 and not ahead.has_all:
            ahead.begin()
        if ahead.has_all or key < ahead.end:
            ahead.arrive(row, first)
        if key < first:
            queue.first[persistence] = key
        if queue.watchers:
            for watcher in queue.watchers:
                watcher.lower(key)
        if queue.is_staging:
            if hidden.get(key) is transaction:
                del hidden[key]
            owner.note_due(key)


def take_back(owner: QueueOwner, transaction: Transaction) -> list[Found]:
    """Undo what a transaction has announced: it will not be run, or it has failed.

    Returns the messages that were to leave and can be seen again.
    """
    hidden, returned = owner.hidden, list[Found]()
    let_arrivals_be_seen(owner, transaction)
    for found in transaction.departures:
        queue, row, persistence = found
        requester = hidden.get(row.k)
        if requester is None or (
            isinstance(requester, Transaction) and requester is not transaction
        ):
            # The close of the queue manager has ended it, or is about to (messages.end_at_close).
            continue
        if isinstance(requester, Hold):
            if not requester.locks:
                continue
            queue.locked -= 1
        del hidden[row.k]
        queue.depth += 1
        show(queue, row.k, persistence)
        returned.append(found)
    for moving in transaction.moves:
        for key in moving.old_keys:
            del hidden[key]
            show(moving.source, key, PERSISTENT)
        moving.source.depth += len(moving.old_keys)
    for queue, keys, _volatile_count in transaction.claims:
        for key in keys:
            del hidden[key]
        queue.depth += len(keys)
        queue.locked -= len(keys)
        for persistence in (VOLATILE, PERSISTENT):
            # Whichever side each was on: reading starts early rather than late.
            _show_all(queue, keys, persistence)
    withdraw_here(transaction)
    return returned


def _move(hidden: dict[int, object], moving: Moving) -> None:
    source, target, old_keys, new_keys = moving
    for key in old_keys:
        del hidden[key]
    source.present[PERSISTENT] -= len(old_keys)
    target.present[PERSISTENT] += len(new_keys)
    target.uncommitted -= len(new_keys)
    _show_all(target, new_keys, PERSISTENT)


def _unclaim(unclaiming: Unclaiming) -> None:
    queue, message_count, returned, _keys = unclaiming
    queue.locked -= message_count
    queue.claimed -= message_count
    for persistence, (count, low_key) in enumerate(returned):
        if count:
            queue.present[persistence] += count
            queue.depth += count
            queue.first[persistence] = min(queue.first[persistence], low_key)
            queue.ahead[persistence].lower(low_key)
            for watcher in queue.watchers or ():
                watcher.lower_from(low_key)


def _show_all(queue: LocalQueue, keys: Sequence[int], persistence: int) -> None:
    low_key = min(keys)
    queue.first[persistence] = min(queue.first[persistence], low_key)
    queue.ahead[persistence].lower(low_key)
    for watcher in queue.watchers or ():
        for key in keys:
            watcher.lower(key)
