"""Many messages at a time: got, held by a pipeline, released, claimed and given back."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mayfly.engine.holding import messages
from mayfly.engine.holding.lives import LOCKED_ENDS, OPEN_ENDS, lives_of
from mayfly.engine.holding.messages import Hold, not_free, show, unhide
from mayfly.engine.holding.puts import count_staged
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue, QueueOwner
from mayfly.engine.transaction import Claiming, Moving, Transaction, Unclaiming
from mayfly.lifetime.life import Event, TransitionError
from mayfly.verbs.contracts.outcomes import Ending

#: How the lives end of those that are released together.
RELEASED = OPEN_ENDS[True][Event.DUE]


def hold(queue: LocalQueue, keys: Sequence[int], by: Hold) -> None:
    """Hide messages that can be seen, many at a time."""
    _hide_all(queue, keys, by)
    queue.locked += len(keys)
    by.count += len(keys)


def hold_gets(found: Sequence[Found], by: Hold) -> None:
    """Do as ``messages.hold_got`` with messages of one queue, many at a time."""
    queue = found[0][0]
    keys = [row.k for _queue, row, _side in found]
    _hide_all(queue, keys, by)
    queue.locked += len(keys)
    held_gets = queue.home.store.held_gets
    for _queue, row, persistence in found:
        if persistence:
            held_gets.note(row.k, row.backout_count)


def end_all(
    owner: QueueOwner,
    transaction: Transaction,
    found: Sequence[Found],
    event: Event,
    now_ms: int,
    *,
    ending: Ending,
    by: Hold | None = None,
) -> None:
    """Do as ``messages.end`` with messages of one queue, many at a time."""
    queue = found[0][0]
    home, is_staging = queue.home, queue.is_staging
    keys = [row.k for _queue, row, _side in found]
    ends = LOCKED_ENDS if by is not None and by.locks else OPEN_ENDS[is_staging]
    if event not in ends:
        state = messages.state_of(queue, keys[0])
        raise TransitionError(f"{state}: a life does not end there by {event}")
    if home is not owner:
        transaction = transaction.at(home)
    if by is None:
        _hide_all(queue, keys, transaction)
    else:
        _check_held(queue, keys, by)
    lives = lives_of(found, now_ms, ends[event], ending)
    volatile_keys = [(row.k,) for _queue, row, persistence in found if not persistence]
    durable_keys = [(row.k,) for _queue, row, persistence in found if persistence]
    transaction.unit.end_all(queue.number, volatile_keys, durable_keys, lives)
    transaction.departures += found
    if is_staging:
        for _queue, row, persistence in found:
            count_staged(transaction, queue, row, -1, persistent=bool(persistence))


def give_back(queue: LocalQueue, keys: Collection[int], by: Hold) -> None:
    """Let messages that are held be seen again, many at a time."""
    for key in keys:
        unhide(queue, key, by)
        for persistence in (VOLATILE, PERSISTENT):
            # Whichever side each is on: reading starts early rather than late.
            show(queue, key, persistence)
    queue.depth += len(keys)
    queue.locked -= len(keys)
    by.count -= len(keys)


def leave(transaction: Transaction, moving: Moving) -> None:
    """Add to a transaction that due messages leave the staging queue, reserved on their target.

    Their lives end as released; the unit of the transaction has them.
    """
    source, _target, old_keys, _new_keys = moving
    _hide_all(source, old_keys, transaction)
    transaction.moves.append(moving)


def count_released(
    transaction: Transaction, queue: LocalQueue, number: int, message_count: int
) -> None:
    """Count staged messages that need not wait any more for the queue of a number."""
    target = queue.home.target(number)
    if target is not None:
        transaction.unit.delta(-number).present -= message_count
        transaction.staged.append((target, -message_count))


def claim(transaction: Transaction, claiming: Claiming) -> None:
    """Add to a transaction that messages go from their queue to a claim, where they are LOCKED."""
    queue, keys, _volatile_count = claiming
    _hide_all(queue, keys, transaction)
    queue.locked += len(keys)
    transaction.claims.append(claiming)


def end_claimed(transaction: Transaction, queue: LocalQueue, message_count: int) -> str:
    """Add the end of claimed messages to a transaction; return the outcome, for its unit."""
    transaction.ended_claims.append(Unclaiming(queue, message_count))
    return LOCKED_ENDS[Event.COMMIT]


def give_back_claimed(transaction: Transaction, unclaiming: Unclaiming) -> None:
    """Add to a transaction that claimed messages go back to their queue."""
    transaction.ended_claims.append(unclaiming)


def load_claimed(queue: LocalQueue, message_count: int) -> None:
    """Take what was claimed before a restart, and is on no queue, out of its counters."""
    queue.present[PERSISTENT] -= message_count
    queue.depth -= message_count
    queue.locked += message_count
    queue.claimed += message_count


def load(queue: LocalQueue, message_count: int, staged_count: int) -> None:
    """Take over what a store has for a queue that is opened, and what is staged for it."""
    queue.present[PERSISTENT] = queue.depth = message_count
    queue.staged_for = staged_count


def _hide_all(queue: LocalQueue, keys: Sequence[int], by: object) -> None:
    hidden = queue.home.hidden
    if not hidden.keys().isdisjoint(keys):
        raise not_free(queue, next(key for key in keys if key in hidden))
    hidden.update(dict.fromkeys(keys, by))
    queue.depth -= len(keys)


def _check_held(queue: LocalQueue, keys: Sequence[int], by: Hold) -> None:
    hidden = queue.home.hidden
    for key in keys:
        if hidden.get(key) is not by:
            raise not_free(queue, key)
