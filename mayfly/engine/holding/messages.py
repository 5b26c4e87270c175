"""Messages that can be seen: held, given back, shown, and what ends their lives.

A message is hidden by a :class:`Hold`, a browsing handle, or the transaction that ends its life;
only the one that hides it may go on with it.
"""

from __future__ import annotations

from mayfly.engine.holding.lives import LOCKED_ENDS, OPEN_ENDS, life_of
from mayfly.engine.holding.puts import count_staged, reserve
from mayfly.engine.queues import PERSISTENT, Found, LocalQueue, QueueOwner
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.life import Event, State, TransitionError
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.outcomes import NOBODY, Ending

#: The event of a get in the life of a message: on an ordinary queue, on the staging queue (D3).
GETS = Event.GET, Event.CANCEL


class Hold:
    """Holds messages, hidden from all others: a unit of work, a channel's batch, a pipeline."""

    #: Whether its messages are LOCKED: got under syncpoint, in the words of the life table. When a
    #: transaction fails that ends them, LOCKED ones go back to their place; others stay held.
    locks = False
    #: How many it has of those that it took many at a time.
    count = 0
    #: The party named by the records of lives that it ends.
    ending = NOBODY


def state_of(queue: LocalQueue, key: int) -> State:
    """Return the state of a message that the store has: it follows from who hides it."""
    requester = queue.home.hidden.get(key)
    if isinstance(requester, Hold) and requester.locks:
        return State.LOCKED
    return State.DELAYED if queue.is_staging else State.AVAILABLE


def hold(found: Found, by: Hold) -> None:
    """Hide a message that can be seen; it is in its place in the store until its life ends."""
    queue, row, _side = found
    hidden = queue.home.hidden
    if row.k in hidden:
        raise not_free(queue, row.k)
    hidden[row.k] = by
    queue.depth -= 1
    queue.locked += 1


def hold_got(found: Found, by: Hold) -> None:
    """Hide a message that a get has got and not made final, so that a kill finds it (G8)."""
    queue, row, persistence = found
    key, home = row.k, queue.home
    hidden = home.hidden
    if key in hidden:
        raise not_free(queue, key)
    hidden[key] = by
    queue.depth -= 1
    queue.locked += 1
    if persistence:
        home.store.held_gets.note(key, row.backout_count)


def give_back(found: Found, by: Hold) -> None:
    """Let a message that is held be seen again, in its place, the same as before."""
    let_go(found, by)
    queue, row, persistence = found
    show(queue, row.k, persistence)


def hand_over(found: Found, by: Hold, to: Hold) -> None:
    """Let another one hold a message from now on: a delivery becomes part of a unit of work."""
    queue, row, _side = found
    unhide(queue, row.k, by)
    queue.home.hidden[row.k] = to


def let_go(found: Found, by: Hold) -> None:
    """Hold a message no more that leaves at the same moment: nobody is told of it."""
    queue, row, _side = found
    unhide(queue, row.k, by)
    queue.depth += 1
    queue.locked -= 1


def end(
    owner: QueueOwner,
    transaction: Transaction,
    found: Found,
    event: Event,
    now_ms: int,
    *,
    ending: Ending,
    reason: int = 0,
    by: Hold | None = None,
) -> None:
    """Add the end of a life to a work of an owner of queues: of a message that ``by`` holds.

    Without ``by`` it is one that can be seen. A held message stays held until the transaction has
    taken effect. ``ending`` says who ends it, ``reason`` why it was dead-lettered or discarded.
    """
    queue, row, persistence = found
    home, key, is_staging = queue.home, row.k, queue.is_staging
    if home.hidden.get(key) is not by:
        raise not_free(queue, key)
    is_locked = by is not None and by.locks
    outcome = (LOCKED_ENDS if is_locked else OPEN_ENDS[is_staging]).get(event)
    if outcome is None:
        raise TransitionError(f"{state_of(queue, key)}: a life does not end there by {event}")
    if home is not owner:
        transaction = transaction.at(home)
    if by is None:
        home.hidden[key] = transaction
        queue.depth -= 1
    life = life_of(queue, row, now_ms, outcome, ending, reason=reason)
    assert life.persistent == persistence
    transaction.unit.end(queue.number, key, life)
    transaction.departures.append(found)
    if is_staging:
        count_staged(transaction, queue, row, -1, persistent=bool(persistence))


def end_at_close(owner: QueueOwner, transaction: Transaction, found: Found, now_ms: int) -> None:
    """Add the end of a non-persistent message that a restart loses; its holder is gone."""
    queue, row, _side = found
    requester = owner.hidden.pop(row.k, None)
    if requester is not None:
        queue.depth += 1
        queue.locked -= isinstance(requester, Hold)
    end(owner, transaction, found, Event.RESTART, now_ms, ending=NOBODY)


def is_held(found: Found, by: Hold) -> bool:
    """Return True if ``by`` still holds a message; the close of its queue manager may end that."""
    queue, row, _persistence = found
    return queue.home.hidden.get(row.k) is by


def put_off(
    transaction: Transaction, found: Found, row: StoredMessage, by: Hold | None = None
) -> None:
    """Add another delivery time of a delayed message to a transaction: ``row``, under another key.

    Its life on the queue goes on. A unit of work that holds it gives it back there, at its commit.
    """
    queue, old, persistence = found
    home, unit = queue.home, transaction.unit
    if home.hidden.get(old.k) is not by:
        raise not_free(queue, old.k)
    if by is None:
        home.hidden[old.k] = transaction
        queue.depth -= 1
    if persistence == PERSISTENT:
        unit.deletes.append((old.k,))
        unit.inserts.append(row)
    else:
        unit.volatile_deletes.append((old.k,))
        unit.volatile_inserts.append(row)
    reserve(queue)
    # The store shows it before the work takes effect; till then nobody may change it again.
    home.hidden[row.k] = transaction
    transaction.departures.append(found)
    transaction.arrivals.append((queue, row, persistence))


def lock_for_browse(found: Found, requester: object) -> None:
    """Hide a message from everybody but the handle that has browsed it (B5)."""
    queue, row, _side = found
    if row.k in queue.home.hidden:
        raise not_free(queue, row.k)
    queue.home.hidden[row.k] = requester
    queue.browse_locked += 1


def unlock(found: Found, requester: object) -> None:
    """End the lock of a browse; nobody is told, as the message may leave at the same moment."""
    queue, row, _side = found
    unhide(queue, row.k, requester)
    queue.browse_locked -= 1


def show(queue: LocalQueue, key: int, persistence: int) -> None:
    """Note that a message can be seen, so that reading starts no later than there."""
    if key < queue.first[persistence]:
        queue.first[persistence] = key
    queue.ahead[persistence].lower(key)
    if queue.watchers:
        for watcher in queue.watchers:
            watcher.lower(key)
    if queue.is_staging:
        queue.home.note_due(key)


def pass_over(queue: LocalQueue, persistence: int, key: int) -> None:
    """Note that nothing can be seen up to a key, so that nobody walks there again."""
    if key >= queue.first[persistence]:
        queue.first[persistence] = key + 1


def unhide(queue: LocalQueue, key: int, by: object) -> None:
    """Hide a message no more; raises TransitionError unless ``by`` hides it."""
    if queue.home.hidden.get(key) is not by:
        raise not_free(queue, key)
    del queue.home.hidden[key]


def not_free(queue: LocalQueue, key: int) -> TransitionError:
    """Return the error for a message that somebody else hides, or nobody."""
    requester = queue.home.hidden.get(key)
    who = "nobody" if requester is None else type(requester).__name__
    return TransitionError(f"message {key} of {queue.name} is held by {who}, and not as expected")
