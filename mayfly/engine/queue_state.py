"""Queue state: the counters of queues, and which messages are hidden.

Only this module changes them.
Each change is an event of a message. It is put and arrives; a unit of work, a channel, a Spark
batch or a browse holds it; it is given back; it moves to another queue; it ends. The table in
``lifetime/life.py`` says which event may follow in which state. The state follows from the hold:
without one the message is AVAILABLE, on the staging queue DELAYED; under a hold that locks it is
LOCKED; any other hold does not change its state.

Changes of a transaction have two steps: they are announced while the transaction is built, and
``take_effect`` or ``take_back`` follows when it is durable or has failed. All functions need the
engine lock. An event that the table does not allow raises TransitionError: a bug of the engine.

A *life* is the stay of one message on one queue, until it is got, expires or moves on; a life
record is its row in the ledger. The order of this file: life records, puts, messages one by one,
many messages, effects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from mayfly.engine.delay.staged_row import staged_identity
from mayfly.engine.finding.read_ahead import LARGEST_LOAN_BYTES
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue, QueueOwner
from mayfly.engine.transaction import Claiming, Moving, Transaction, Unclaiming
from mayfly.lifetime.life import NEXT, OUTCOMES, Event, LifeRecord, State, TransitionError
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.store.units import EndedLives, EndedMessages, StoredMessage
from mayfly.verbs.contracts.outcomes import NOBODY, DetectedBy, TerminatedBy

#: The outcome of a life by state and event: those pairs of the table that end a life.
ENDS: dict[State, dict[Event, str]] = {
    state: {event: after.value for event, after in pairs.items() if after in OUTCOMES}
    for state, pairs in NEXT.items()
}
#: The same for a message that nobody holds, by whether its queue is the staging queue.
OPEN_ENDS = ENDS[State.AVAILABLE], ENDS[State.DELAYED]
LOCKED_ENDS = ENDS[State.LOCKED]
#: The outcome of lives that are released together.
RELEASED = OPEN_ENDS[True][Event.DUE]
#: The event of a get in the life of a message: on an ordinary queue, on the staging queue (D3).
GETS = Event.GET, Event.CANCEL
#: Fewer alike messages get one record each: SQLite takes as long for those.
_ALIKE_MIN: Final = 8

# Records: the row in the ledger of a life that ends


def life_records(
    found: Sequence[Found], ended_ms: int, outcome: str, terminated_by: TerminatedBy
) -> list[EndedLives]:
    """Return the ledger records of messages of one queue whose stay there ends at ``ended_ms``.

    ``found`` is not empty. ``outcome`` is how the stay ended, a value of State; ``terminated_by``
    is the user and program that ended it. Persistent messages beside each other with the same
    descriptor, eight or more, make one record together; every other message makes a separate one.
    """
    queue = found[0][0]
    lives: list[EndedLives] = []
    start, count = 0, len(found)
    while start < count:
        _queue, first, persistence = found[start]
        end, descriptor = start + 1, first.descriptor
        while end < count and found[end][2] == persistence:
            if found[end][1].descriptor != descriptor:
                break
            end += 1
        part = found[start:end]
        if persistence and len(part) >= _ALIKE_MIN and not queue.is_staging:
            lives.append(_ended_messages(part, ended_ms, outcome, terminated_by))
        else:
            lives += [
                life_record(queue, row, ended_ms, outcome, terminated_by)
                for _queue, row, _persistence in part
            ]
        start = end
    return lives


def _ended_messages(
    found: Sequence[Found], ended_ms: int, outcome: str, terminated_by: TerminatedBy
) -> EndedMessages:
    """Return one ledger record for persistent messages of one queue with the same descriptor.

    ``outcome`` is how their stay ended at ``ended_ms``, ``terminated_by`` the user and program that
    ended it.
    """
    queue, first, _persistence = found[0]
    descriptor = unpack_descriptor(first.descriptor)
    return EndedMessages(
        [row.k for _queue, row, _persistence in found],
        queue.definition.name,
        ended_ms,
        outcome,
        descriptor.priority,
        descriptor.report,
        descriptor.reply_to_q,
        descriptor.user_identifier,
        terminated_by.detected_by,
        terminated_by.ended_by,
        terminated_by.ended_program,
    )


def life_record(
    queue: LocalQueue,
    row: StoredMessage,
    ended_ms: int,
    outcome: str,
    terminated_by: TerminatedBy,
    *,
    reason: int = 0,
) -> LifeRecord:
    """Return the ledger record of one message whose stay on a queue ends at ``ended_ms``.

    ``outcome`` is the value of the last State, ``reason`` the MQRC_* or MQFB_* of a message that
    was dead-lettered or discarded, else 0. ``terminated_by`` is the user and program that ended the
    stay. A message on the staging queue is recorded with the ids and the length that its sender
    knows.
    """
    descriptor = unpack_descriptor(row.descriptor)
    msg_id, correl_id, origin_id, body_bytes = (
        staged_identity(row)
        if queue.is_staging
        else (row.msg_id, row.correl_id, row.origin_id, len(row.body))
    )
    values = (
        queue.definition.name,
        msg_id,
        correl_id,
        origin_id,
        row.put_ms,
        row.put_ms if row.deliver_at_ms is None else row.deliver_at_ms,
        row.expire_at_ms,
        ended_ms,
        outcome,
        reason,
        descriptor.priority,
        descriptor.persistence,
        body_bytes,
        descriptor.report,
        descriptor.reply_to_q,
        row.backout_count,
        descriptor.user_identifier,
        row.capped_by,
        terminated_by.detected_by,
        terminated_by.ended_by,
        terminated_by.ended_program,
    )
    # Made without a call of Python, as every life comes here.
    return tuple.__new__(LifeRecord, values)


# Puts that are not committed yet: UNCOMMITTED. CURDEPTH counts them (P9), and only their unit of
# work sees them. They arrive (``take_effect``), are withdrawn, or end without arriving.


def reserve(queue: LocalQueue, message_count: int = 1) -> None:
    """Count ``message_count`` puts whose transaction has not taken effect.

    They count in CURDEPTH and as uncommitted (P9).
    """
    queue.depth += message_count
    queue.uncommitted += message_count
    if queue.statistics is not None:
        queue.statistics.note_put(queue, message_count)


def reserve_in_unit(queue: LocalQueue) -> None:
    """Count one put of an open unit of work on a queue.

    On an ordinary queue CURDEPTH includes it at once. On the staging queue CURDEPTH includes it
    only from the commit on (D12).
    """
    if queue.is_staging:
        queue.uncommitted_staged += 1
    else:
        queue.depth += 1
        queue.uncommitted += 1
        if queue.statistics is not None:
            queue.statistics.note_put(queue, 1)


def withdraw(queue: LocalQueue, message_count: int = 1) -> None:
    """Undo :func:`reserve` for ``message_count`` puts that were never visible on the queue.

    Raises TransitionError when the queue has fewer uncommitted puts.
    """
    _check_uncommitted(queue, message_count, Event.BACKOUT)
    queue.depth -= message_count
    queue.uncommitted -= message_count


def withdraw_from_unit(queue: LocalQueue) -> None:
    """Undo :func:`reserve_in_unit`, at a backout or when the put gets another delivery time."""
    if queue.is_staging:
        queue.uncommitted_staged -= 1
    else:
        withdraw(queue)


def withdraw_all(transaction: Transaction) -> None:
    """Undo the reservations of all puts of a transaction, also on queues of other group members.

    The messages that the transaction was to remove stay hidden.
    """
    withdraw_here(transaction)
    for part in transaction.parts.values():
        withdraw_all(part)


def withdraw_here(transaction: Transaction) -> None:
    """Undo the reservations of a transaction's puts and moves, but not those of its ``parts``."""
    for queue, _row, _persistence in transaction.arrivals:
        withdraw(queue)
    for moving in transaction.moves:
        withdraw(moving.target, len(moving.new_keys))


def arrive(
    owner: QueueOwner,
    transaction: Transaction,
    queue: LocalQueue,
    row: StoredMessage,
    *,
    persistent: bool,
) -> None:
    """Add the put of a message to a transaction of ``owner``, and count it on the queue now.

    ``persistent`` says in which store it goes. For a queue of another member of the queue-sharing
    group it is added to that member's part.
    """
    queue.depth += 1
    queue.uncommitted += 1
    if queue.statistics is not None:
        queue.statistics.note_put(queue, 1)
    if queue.owner is not owner:
        transaction = transaction.at(queue.owner)
    transaction.unit.put(queue.number, row, persistent=persistent)
    transaction.arrivals.append((queue, row, PERSISTENT if persistent else VOLATILE))
    if queue.is_staging:
        count_staged(transaction, queue, row, +1, persistent=persistent)


def add_all_reserved(
    owner: QueueOwner,
    transaction: Transaction,
    reserved: Iterable[tuple[LocalQueue, StoredMessage, bool]],
) -> None:
    """Add puts that their queues count already to a transaction of ``owner``, grouped by queue.

    Each item of ``reserved`` is the queue, the row, and whether the message is persistent.
    """
    rows_of: dict[tuple[LocalQueue, bool], list[StoredMessage]] = {}
    for queue, row, persistent in reserved:
        rows = rows_of.get((queue, persistent))
        if rows is None:
            rows = rows_of[queue, persistent] = []
        rows.append(row)
    for (queue, persistent), rows in rows_of.items():
        part = transaction if queue.owner is owner else transaction.at(queue.owner)
        part.unit.put_all(queue.number, rows, persistent=persistent)
        persistence = PERSISTENT if persistent else VOLATILE
        part.arrivals += [(queue, row, persistence) for row in rows]
        if queue.is_staging:
            for row in rows:
                count_staged(part, queue, row, +1, persistent=persistent)


def reserve_staged(queue: LocalQueue) -> None:
    """Count a put of a unit of work in the depth of the staging queue, at its commit (D12)."""
    queue.uncommitted_staged -= 1
    reserve(queue)


def arrive_in_bulk(transaction: Transaction, queue: LocalQueue, keys: list[int]) -> None:
    """Add the arrival of persistent messages, by key, to a transaction.

    The queue counts them already, and the transaction's store unit has their rows.
    """
    transaction.moves.append(Moving(queue, queue, [], keys))


# Messages that one unit of work puts and gets, or that expire before its commit


def get_uncommitted(queue: LocalQueue) -> None:
    """Count that a unit of work has got a message that it put itself.

    The message leaves CURDEPTH (P9). Raises TransitionError when the queue has no uncommitted put.
    """
    _check_uncommitted(queue, 1, Event.GET_UNDER_SYNCPOINT)
    queue.depth -= 1
    queue.uncommitted -= 1
    queue.put_and_got += 1
    if queue.statistics is not None:
        queue.statistics.note_removed(queue, 1, None)


def withdraw_put_and_got(queue: LocalQueue) -> None:
    """Subtract one message that a unit of work has both put and got, at its backout.

    Raises TransitionError when the queue has none.
    """
    _check_put_and_got(queue, Event.WITHDRAW)
    queue.put_and_got -= 1


def end_put_and_got(
    transaction: Transaction,
    queue: LocalQueue,
    row: StoredMessage,
    now_ms: int,
    terminated_by: TerminatedBy,
) -> None:
    """Add the ledger record of a message that a unit of work has put and got to its commit.

    ``terminated_by`` is the user and program for the ledger. The store never has that message.
    Raises TransitionError when the queue counts none.
    """
    _check_put_and_got(queue, Event.COMMIT)
    queue.put_and_got -= 1
    life = life_record(queue, row, now_ms, LOCKED_ENDS[Event.COMMIT], terminated_by)
    transaction.unit.pass_through(queue.number, life)


def end_expired_put(
    owner: QueueOwner,
    transaction: Transaction,
    queue: LocalQueue,
    row: StoredMessage,
    now_ms: int,
    terminated_by: TerminatedBy,
) -> None:
    """Add the ledger record of a put that expired before its commit; it reaches no queue (E17).

    ``owner`` is the queue manager or group that the transaction is of. ``terminated_by`` is the
    user and program for the ledger. The queue counts it no longer. Raises TransitionError when the
    queue has no uncommitted put.
    """
    _check_uncommitted(queue, 1, Event.COMMIT)
    queue.depth -= 1
    queue.uncommitted -= 1
    part = transaction if queue.owner is owner else transaction.at(queue.owner)
    detected = terminated_by._replace(detected_by=DetectedBy.COMMIT.value)
    part.unit.pass_through(queue.number, expired_life_record(queue, row, now_ms, detected))


def hold_expired(queue: LocalQueue) -> None:
    """Prevent the deletion of a queue while the record of a message that expired is to be written.

    :func:`end_expired` or :func:`withdraw_expired` ends this.
    """
    queue.put_and_got += 1


def withdraw_expired(queue: LocalQueue) -> None:
    """Undo :func:`hold_expired`, because no record is written."""
    queue.put_and_got -= 1


def end_expired(transaction: Transaction, queue: LocalQueue, life: LifeRecord) -> None:
    """Add the ledger record of an already expired message; undo :func:`hold_expired`."""
    transaction.unit.pass_through(queue.number, life)
    queue.put_and_got -= 1


def expired_life_record(
    queue: LocalQueue, row: StoredMessage, now_ms: int, terminated_by: TerminatedBy
) -> LifeRecord:
    """Return the ledger record of a message that expired before it could be put on its queue.

    ``terminated_by`` is the user and program for the ledger.
    """
    return life_record(
        queue, row, now_ms, OPEN_ENDS[queue.is_staging][Event.DEADLINE_SEEN], terminated_by
    )


def count_staged(
    transaction: Transaction,
    queue: LocalQueue,
    row: StoredMessage,
    change: int,
    *,
    persistent: bool,
) -> None:
    """Add ``change`` (+1 or -1) to the count of messages staged for a target queue.

    Nothing is counted for a message without a target, or whose target is unknown. The count is
    durable with the transaction.
    """
    if row.target_number is None:
        return
    target = queue.owner.target(row.target_number)
    if target is not None:
        delta = transaction.unit.delta(-row.target_number)
        delta.present += change
        delta.present_volatile += 0 if persistent else change
        transaction.staged.append((target, change))


def _check_uncommitted(queue: LocalQueue, message_count: int, event: Event) -> None:
    """Raise TransitionError if the queue has fewer than ``message_count`` uncommitted puts.

    ``event`` is for the text of the error.
    """
    if queue.uncommitted < message_count:
        raise TransitionError(f"{queue.name}: {event} of a message that is not uncommitted")


def _check_put_and_got(queue: LocalQueue, event: Event) -> None:
    """Raise TransitionError if no unit of work has put and got a message on the queue.

    ``event`` is for the text of the error.
    """
    if not queue.put_and_got:
        raise TransitionError(
            f"{queue.name}: {event} without a message that a unit of work has put and got"
        )


# Visible messages: held, given back, shown, and the end of their lives. A :class:`Hold`, a browsing
# handle or the transaction that ends its life hides a message; only that one may change it then.


class Hold:
    """An owner of hidden messages: a unit of work, or a batch of a channel or a pipeline."""

    #: Whether its messages have the state LOCKED: got under syncpoint. If the transaction that ends
    #: them fails, LOCKED ones return to their place; others stay held.
    locks = False
    #: Whether its messages have the state DELAYED: backed out, and not to be handed out yet.
    delays = False
    #: How many of its messages :func:`hold_keys` has taken.
    count = 0
    #: User and program that the ledger names for the lives that it ends.
    terminated_by = NOBODY


def state_of(queue: LocalQueue, key: int) -> State:
    """Return the state of a message in the store: DELAYED, AVAILABLE or LOCKED.

    ``key`` is its key; whether the message exists is not checked.
    """
    requester = queue.owner.hidden.get(key)
    if isinstance(requester, Hold):
        if requester.locks:
            return State.LOCKED
        if requester.delays:
            return State.DELAYED
    return State.DELAYED if queue.is_staging else State.AVAILABLE


def hold(found: Found, by: Hold) -> None:
    """Hide a visible message from all gets and browses; ``by`` holds it from now on.

    It keeps its place in the store and leaves CURDEPTH. Raises TransitionError when the message is
    hidden already.
    """
    queue, row, _persistence = found
    hidden = queue.owner.hidden
    if row.k in hidden:
        raise hold_mismatch(queue, row.k)
    hidden[row.k] = by
    queue.depth -= 1
    queue.locked += 1


def hold_got(found: Found, by: Hold) -> None:
    """Hide a message that a get has taken and not made final; ``by`` holds it from now on.

    It leaves CURDEPTH. A persistent message is noted on disk, so that a start after a kill raises
    its backout count (G8). Raises TransitionError when the message is hidden already.
    """
    queue, row, persistence = found
    key, queue_owner = row.k, queue.owner
    hidden = queue_owner.hidden
    if key in hidden:
        raise hold_mismatch(queue, key)
    hidden[key] = by
    queue.depth -= 1
    queue.locked += 1
    if queue.statistics is not None:
        queue.statistics.note_removed(queue, 1, row.put_ms)
    if persistence:
        queue_owner.store.held_gets.note(key, row.backout_count)


def give_back(found: Found, by: Hold) -> None:
    """Make a message that ``by`` holds visible again, in its old place and unchanged.

    Raises TransitionError when ``by`` does not hold it.
    """
    end_hold(found, by)
    queue, row, persistence = found
    note_visible(queue, row.k, persistence)
    if queue.statistics is not None:
        queue.statistics.note_returned(queue)


def delay_redelivery(found: Found, by: Hold, to: Hold) -> None:
    """Pass a backed-out message from the hold ``by`` to ``to``, which delays its redelivery.

    It stays hidden, in its old place and out of CURDEPTH. Raises TransitionError when ``by`` does
    not hold it.
    """
    transfer_hold(found, by, to)
    queue = found[0]
    queue.locked -= 1
    queue.awaiting_redelivery += 1


def load_delayed(found: Found, to: Hold) -> None:
    """Hide a message, at the start, whose redelivery ``to`` delays; it leaves CURDEPTH.

    Raises TransitionError when the message is hidden already.
    """
    hold(found, to)
    queue = found[0]
    queue.locked -= 1
    queue.awaiting_redelivery += 1


def redeliver(queue: LocalQueue, key: int, persistence: int, by: Hold) -> None:
    """Make a message whose redelivery ``by`` has delayed visible again, in its old place.

    ``key`` is its key in the store. Raises TransitionError when ``by`` does not hold it.
    """
    unhide(queue, key, by)
    queue.awaiting_redelivery -= 1
    queue.depth += 1
    note_visible(queue, key, persistence)
    if queue.statistics is not None:
        queue.statistics.note_returned(queue)


def transfer_hold(found: Found, by: Hold, to: Hold) -> None:
    """Pass a hidden message from one hold to another; the message stays hidden.

    Raises TransitionError when ``by`` does not hold it.
    """
    queue, row, _persistence = found
    unhide(queue, row.k, by)
    queue.owner.hidden[row.k] = to


def end_hold(found: Found, by: Hold) -> None:
    """End the hold on a message that leaves its queue at once; it does not become visible.

    Raises TransitionError when ``by`` does not hold it.
    """
    queue, row, _persistence = found
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
    terminated_by: TerminatedBy,
    reason: int = 0,
    by: Hold | None = None,
) -> None:
    """Add the removal of a message from its queue, with its ledger record, to a transaction.

    ``owner`` is the queue manager or group that the transaction is of. ``by`` is the unit of work
    or other hold that has the message; None for a visible message. It stays hidden until the
    transaction takes effect. ``event`` gives the outcome, ``terminated_by`` is the user and program
    for the ledger, ``reason`` says why it was dead-lettered or discarded. Raises TransitionError
    when another holder hides the message, or the event does not end a message in its state.
    """
    queue, row, persistence = found
    queue_owner, key, is_staging = queue.owner, row.k, queue.is_staging
    if queue_owner.hidden.get(key) is not by:
        raise hold_mismatch(queue, key)
    is_locked = by is not None and by.locks
    outcome = (LOCKED_ENDS if is_locked else OPEN_ENDS[is_staging]).get(event)
    if outcome is None:
        raise TransitionError(
            f"{state_of(queue, key)}: a life in this state is not ended by {event}"
        )
    if queue_owner is not owner:
        transaction = transaction.at(queue_owner)
    if by is None:
        queue_owner.hidden[key] = transaction
        queue.depth -= 1
        if queue.statistics is not None:
            queue.statistics.note_removed(queue, 1, row.put_ms if event in GETS else None)
    life = life_record(queue, row, now_ms, outcome, terminated_by, reason=reason)
    assert life.persistent == persistence
    transaction.unit.end(queue.number, key, life)
    transaction.departures.append(found)
    if is_staging:
        count_staged(transaction, queue, row, -1, persistent=bool(persistence))


def end_at_close(owner: QueueOwner, transaction: Transaction, found: Found, now_ms: int) -> None:
    """Add the removal of a non-persistent message, recorded as lost, to a transaction.

    It may be visible or hidden by any holder. ``owner`` is the queue manager or group that the
    transaction is of.
    """
    queue, row, _persistence = found
    requester = owner.hidden.pop(row.k, None)
    if requester is not None:
        queue.depth += 1
        if isinstance(requester, Hold):
            if requester.delays:
                queue.awaiting_redelivery -= 1
            else:
                queue.locked -= 1
    end(owner, transaction, found, Event.RESTART, now_ms, terminated_by=NOBODY)


def is_held(found: Found, by: Hold) -> bool:
    """Return True if ``by`` holds the message now.

    The close of the queue manager may end a hold.
    """
    queue, row, _persistence = found
    return queue.owner.hidden.get(row.k) is by


def reschedule(
    transaction: Transaction, found: Found, row: StoredMessage, by: Hold | None = None
) -> None:
    """Add a new delivery time of a delayed message, and so a new key, to a transaction.

    ``row`` is the message under the new key. ``by`` is the unit of work that holds it, None for a
    visible message. Raises TransitionError when another holder hides the message.
    """
    queue, old, persistence = found
    queue_owner, unit = queue.owner, transaction.unit
    if queue_owner.hidden.get(old.k) is not by:
        raise hold_mismatch(queue, old.k)
    if by is None:
        queue_owner.hidden[old.k] = transaction
        queue.depth -= 1
    if persistence == PERSISTENT:
        unit.deletes.append((old.k,))
        unit.inserts.append(row)
    else:
        unit.volatile_deletes.append((old.k,))
        unit.volatile_inserts.append(row)
    reserve(queue)
    # The store has it before the transaction takes effect; until then it must not change again.
    queue_owner.hidden[row.k] = transaction
    transaction.departures.append(found)
    transaction.arrivals.append((queue, row, persistence))


def lock_for_browse(found: Found, requester: object) -> None:
    """Hide a message from all but the session or handle that has browsed it (B5).

    Raises TransitionError when the message is hidden already.
    """
    queue, row, _persistence = found
    if row.k in queue.owner.hidden:
        raise hold_mismatch(queue, row.k)
    queue.owner.hidden[row.k] = requester
    queue.browse_locked += 1


def unlock(found: Found, requester: object) -> None:
    """Remove the browse lock of a requester; the caller shows or removes the message.

    Raises TransitionError when the requester has not locked it.
    """
    queue, row, _persistence = found
    unhide(queue, row.k, requester)
    queue.browse_locked -= 1


def note_visible(queue: LocalQueue, key: int, persistence: int) -> None:
    """Let searches of a queue start no later than this message, which is visible now.

    ``key`` is its key in the store. Objects that follow what becomes visible on the queue are told.
    On the staging queue its due time is noted, too.
    """
    if key < queue.first[persistence]:
        queue.first[persistence] = key
    queue.ahead[persistence].lower(key)
    if queue.watchers:
        for watcher in queue.watchers:
            watcher.lower(key)
    if queue.is_staging:
        queue.owner.note_due(key)


def pass_over(queue: LocalQueue, persistence: int, key: int) -> None:
    """Make searches start after ``key``, since no message of this persistence up to it is visible.

    Does nothing if they start later already.
    """
    if key >= queue.first[persistence]:
        queue.first[persistence] = key + 1


def unhide(queue: LocalQueue, key: int, by: object) -> None:
    """Let gets and browses see a message again; raises TransitionError unless ``by`` hides it."""
    if queue.owner.hidden.get(key) is not by:
        raise hold_mismatch(queue, key)
    del queue.owner.hidden[key]


def hold_mismatch(queue: LocalQueue, key: int) -> TransitionError:
    """Return the error for a message that is hidden by another holder than expected, or by none."""
    requester = queue.owner.hidden.get(key)
    who = "nobody" if requester is None else type(requester).__name__
    return TransitionError(f"message {key} of {queue.name} is held by {who}, and not as expected")


# Many messages at a time: got, held by a pipeline, released, claimed and given back


def hold_keys(queue: LocalQueue, keys: Sequence[int], by: Hold) -> None:
    """Hide visible messages of one queue, by key, from all gets and browses; ``by`` holds them.

    ``by`` counts them, and they leave CURDEPTH. Raises TransitionError when a message is hidden
    already.
    """
    _hide_all(queue, keys, by)
    queue.locked += len(keys)
    by.count += len(keys)
    if queue.statistics is not None:
        queue.statistics.note_removed(queue, len(keys), None)


def hold_gets(found: Sequence[Found], by: Hold) -> None:
    """Hide messages of one queue that a get has taken and not made final; ``by`` holds them.

    They leave CURDEPTH. Persistent ones are noted on disk, so that a start after a kill raises
    their backout counts (G8). ``found`` is not empty. Raises TransitionError when a message is
    hidden already.
    """
    queue = found[0][0]
    keys = [row.k for _queue, row, _persistence in found]
    _hide_all(queue, keys, by)
    queue.locked += len(keys)
    if queue.statistics is not None:
        queue.statistics.note_removed(queue, len(keys), found[-1][1].put_ms)
    held_gets = queue.owner.store.held_gets
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
    terminated_by: TerminatedBy,
    by: Hold | None = None,
) -> None:
    """Add the removal of many messages of one queue, with ledger records, to a transaction.

    ``found`` is not empty; parameters and errors are those of :func:`end`.
    """
    queue = found[0][0]
    queue_owner, is_staging = queue.owner, queue.is_staging
    keys = [row.k for _queue, row, _persistence in found]
    ends = LOCKED_ENDS if by is not None and by.locks else OPEN_ENDS[is_staging]
    if event not in ends:
        state = state_of(queue, keys[0])
        raise TransitionError(f"{state}: a life in this state is not ended by {event}")
    if queue_owner is not owner:
        transaction = transaction.at(queue_owner)
    if by is None:
        _hide_all(queue, keys, transaction)
        if queue.statistics is not None:
            got_put_ms = found[-1][1].put_ms if event in GETS else None
            queue.statistics.note_removed(queue, len(keys), got_put_ms)
    else:
        _check_held(queue, keys, by)
    lives = life_records(found, now_ms, ends[event], terminated_by)
    volatile_keys = [(row.k,) for _queue, row, persistence in found if not persistence]
    durable_keys = [(row.k,) for _queue, row, persistence in found if persistence]
    transaction.unit.end_all(queue.number, volatile_keys, durable_keys, lives)
    transaction.departures += found
    if is_staging:
        for _queue, row, persistence in found:
            count_staged(transaction, queue, row, -1, persistent=bool(persistence))


def give_back_keys(queue: LocalQueue, keys: Collection[int], by: Hold) -> None:
    """Make messages that :func:`hold_keys` has hidden visible again.

    Raises TransitionError when ``by`` does not hold one of them.
    """
    for key in keys:
        unhide(queue, key, by)
        for persistence in (VOLATILE, PERSISTENT):
            # Of either persistence: a search may start too early, never too late.
            note_visible(queue, key, persistence)
    queue.depth += len(keys)
    queue.locked -= len(keys)
    by.count -= len(keys)
    if queue.statistics is not None:
        queue.statistics.note_returned(queue)


def add_move(transaction: Transaction, moving: Moving) -> None:
    """Add the move of due messages from the staging queue to their target to a transaction.

    ``moving`` has both queues, and the keys of the messages before and after.

    The messages are hidden from now on. The target counts them already, and the transaction's store
    unit has the rows and ledger records. Raises TransitionError when a message is hidden.
    """
    source, _target, old_keys, _new_keys = moving
    _hide_all(source, old_keys, transaction)
    if source.statistics is not None:
        source.statistics.note_removed(source, len(old_keys), None)
    transaction.moves.append(moving)


def count_released(
    transaction: Transaction, queue: LocalQueue, number: int, message_count: int
) -> None:
    """Subtract released messages from the count of delayed messages for a target queue.

    ``number`` is that of the target; does nothing if no queue has it.
    """
    target = queue.owner.target(number)
    if target is not None:
        transaction.unit.delta(-number).present -= message_count
        transaction.staged.append((target, -message_count))


def claim(transaction: Transaction, claiming: Claiming) -> None:
    """Add to a transaction that a Spark batch reserves visible messages, which leave their queue.

    ``claiming`` has the queue and the keys of the messages. They are LOCKED from now on. Raises
    TransitionError when a message is hidden.
    """
    queue, keys, _volatile_count = claiming
    _hide_all(queue, keys, transaction)
    queue.locked += len(keys)
    if queue.statistics is not None:
        queue.statistics.note_removed(queue, len(keys), None)
    transaction.claims.append(claiming)


def end_claimed(transaction: Transaction, queue: LocalQueue, message_count: int) -> str:
    """Add the end of messages reserved by a Spark batch to a transaction.

    Returns their outcome for the ledger, got.
    """
    transaction.ended_claims.append(Unclaiming(queue, message_count))
    return LOCKED_ENDS[Event.COMMIT]


def give_back_claimed(transaction: Transaction, unclaiming: Unclaiming) -> None:
    """Add to a transaction that messages reserved by a Spark batch return to their queue.

    ``unclaiming`` has the queue, and how many messages return, by persistence.
    """
    transaction.ended_claims.append(unclaiming)


def load_claimed(queue: LocalQueue, message_count: int) -> None:
    """Count messages as reserved by a Spark batch, at the start, instead of as present."""
    queue.present[PERSISTENT] -= message_count
    queue.depth -= message_count
    queue.locked += message_count
    queue.claimed += message_count


def load(queue: LocalQueue, message_count: int, staged_count: int) -> None:
    """Set the counters of a queue at the start.

    ``message_count`` is the number of its persistent messages, ``staged_count`` that of the delayed
    messages whose target it is.
    """
    queue.present[PERSISTENT] = queue.depth = message_count
    queue.staged_for = staged_count


def _hide_all(queue: LocalQueue, keys: Sequence[int], by: object) -> None:
    """Hide visible messages, by key, from all gets and browses; ``by`` is the holder.

    Raises TransitionError if one is hidden already.
    """
    hidden = queue.owner.hidden
    if not hidden.keys().isdisjoint(keys):
        raise hold_mismatch(queue, next(key for key in keys if key in hidden))
    hidden.update(dict.fromkeys(keys, by))
    queue.depth -= len(keys)


def _check_held(queue: LocalQueue, keys: Sequence[int], by: Hold) -> None:
    """Raise TransitionError unless ``by`` holds all messages."""
    hidden = queue.owner.hidden
    for key in keys:
        if hidden.get(key) is not by:
            raise hold_mismatch(queue, key)


# Effects: the changes in memory after a transaction is durable, or has failed


def hide_arrivals(owner: QueueOwner, transaction: Transaction) -> None:
    """Hide the persistent messages of a transaction from gets until the transaction takes effect.

    ``owner`` is the queue manager or group whose store has them.

    The disk has them a moment earlier, when the transaction's non-persistent messages are not yet
    on their queue. A get would take them out of order (G1), or before they have arrived in memory.
    Moved messages are hidden only when the transaction has non-persistent messages as well.
    """
    hidden, unit = owner.hidden, transaction.unit
    if unit.inserts:
        for _queue, row, persistence in transaction.arrivals:
            if persistence:
                hidden[row.k] = transaction
    if unit.volatile_inserts:
        for moving in transaction.moves:
            hidden.update(dict.fromkeys(moving.new_keys, transaction))


def show_arrivals(owner: QueueOwner, transaction: Transaction) -> None:
    """Undo :func:`hide_arrivals`; messages that another holder hides by now stay hidden."""
    hidden = owner.hidden
    for _queue, row, _persistence in transaction.arrivals:
        key = row.k
        if hidden.get(key) is transaction:
            del hidden[key]
    for moving in transaction.moves:
        for key in moving.new_keys:
            # One that was not hidden may have been got since, and its getter hides it.
            if key in hidden and hidden[key] is transaction:
                del hidden[key]


def take_effect(owner: QueueOwner, transaction: Transaction) -> None:
    """Apply a durable transaction to the counters and hidden messages of the queues.

    ``owner`` is the queue manager or group that the transaction is of. Messages that arrive become
    visible, those that leave are no longer counted.
    """
    hidden, unit = owner.hidden, transaction.unit
    if unit.inserts or (unit.moves and unit.volatile_inserts):
        show_arrivals(owner, transaction)
    for queue, row, persistence in transaction.departures:
        key = row.k
        if hidden[key] is not transaction:
            queue.locked -= 1
        del hidden[key]
        queue.present[persistence] -= 1
        ahead = queue.ahead[persistence]
        if ahead.borrowed_bytes > LARGEST_LOAN_BYTES and not queue.present[persistence]:
            ahead.begin()
        # One that leaves before its turn may have been read ahead.
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
    """Undo the counters and hiding of a transaction that failed or will not be run.

    ``owner`` is the queue manager or group that the transaction is of. Returns the messages that
    were to leave their queue and are visible again. A message stays hidden if its holder has
    ``locks`` False, as a channel batch has: the holder still holds it.
    """
    hidden, returned = owner.hidden, list[Found]()
    show_arrivals(owner, transaction)
    for found in transaction.departures:
        queue, row, persistence = found
        requester = hidden.get(row.k)
        if requester is None or (
            isinstance(requester, Transaction) and requester is not transaction
        ):
            # The close of the queue manager has ended it, or is about to (``end_at_close``).
            continue
        if isinstance(requester, Hold):
            if not requester.locks:
                continue
            queue.locked -= 1
        del hidden[row.k]
        queue.depth += 1
        note_visible(queue, row.k, persistence)
        returned.append(found)
    for moving in transaction.moves:
        for key in moving.old_keys:
            del hidden[key]
            note_visible(moving.source, key, PERSISTENT)
        moving.source.depth += len(moving.old_keys)
    for queue, keys, _volatile_count in transaction.claims:
        for key in keys:
            del hidden[key]
        queue.depth += len(keys)
        queue.locked -= len(keys)
        for persistence in (VOLATILE, PERSISTENT):
            # Of either persistence: a search may start too early, never too late.
            _show_all(queue, keys, persistence)
    withdraw_here(transaction)
    return returned


def _move(hidden: dict[int, object], moving: Moving) -> None:
    """Count moved messages on their target queue, where they become visible.

    ``moving`` has both queues and the keys; ``hidden`` maps the keys of hidden messages to their
    holders.
    """
    source, target, old_keys, new_keys = moving
    for key in old_keys:
        del hidden[key]
    source.present[PERSISTENT] -= len(old_keys)
    target.present[PERSISTENT] += len(new_keys)
    target.uncommitted -= len(new_keys)
    _show_all(target, new_keys, PERSISTENT)


def _unclaim(unclaiming: Unclaiming) -> None:
    """Count messages of a Spark batch as ended, or as visible on their queue again.

    ``unclaiming`` has their number, and how many of them return, by persistence.
    """
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
    """Make searches start no later than messages that have become visible."""
    low_key = min(keys)
    queue.first[persistence] = min(queue.first[persistence], low_key)
    queue.ahead[persistence].lower(low_key)
    for watcher in queue.watchers or ():
        for key in keys:
            watcher.lower(key)
