"""Messages that no unit of work has committed yet: reserved, withdrawn, or got by their own putter.

They are UNCOMMITTED: CURDEPTH counts them (P9), nobody else can see them. In the end they arrive
(``effect.take_effect``), are withdrawn, or have a record without ever having been seen.
"""

from __future__ import annotations

from collections.abc import Iterable

from mayfly.engine.holding.lives import LOCKED_ENDS, OPEN_ENDS, life_of
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue, QueueOwner
from mayfly.engine.transaction import Moving, Transaction
from mayfly.lifetime.life import Event, LifeRecord, TransitionError
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.outcomes import Ending, MetBy


def reserve(queue: LocalQueue, message_count: int = 1) -> None:
    """Count puts that are not effective yet: CURDEPTH has them from now on (P9)."""
    queue.depth += message_count
    queue.uncommitted += message_count


def reserve_in_unit(queue: LocalQueue) -> None:
    """Count the put of an open unit of work; a delayed one reaches no depth before it (D12)."""
    if queue.is_staging:
        queue.pledged += 1
    else:
        queue.depth += 1
        queue.uncommitted += 1


def withdraw(queue: LocalQueue, message_count: int = 1) -> None:
    """Take reserved puts back: they were never part of the queue."""
    _check_uncommitted(queue, message_count, Event.BACKOUT)
    queue.depth -= message_count
    queue.uncommitted -= message_count


def withdraw_from_unit(queue: LocalQueue) -> None:
    """Take back the put of a unit of work that is backed out."""
    if queue.is_staging:
        queue.pledged -= 1
    else:
        withdraw(queue)


def withdraw_all(transaction: Transaction) -> None:
    """Take back all puts of a transaction; messages that it would have taken stay hidden."""
    withdraw_here(transaction)
    for part in transaction.parts.values():
        withdraw_all(part)


def withdraw_here(transaction: Transaction) -> None:
    """Take back what a transaction would have put on queues of the owner that runs it."""
    for queue, _row, _side in transaction.arrivals:
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
    """Reserve room for a message and add its put to a transaction."""
    queue.depth += 1
    queue.uncommitted += 1
    # As add_reserved does, without a call: every put comes here.
    if queue.home is not owner:
        transaction = transaction.at(queue.home)
    transaction.unit.put(queue.number, row, persistent=persistent)
    transaction.arrivals.append((queue, row, PERSISTENT if persistent else VOLATILE))
    if queue.is_staging:
        count_staged(transaction, queue, row, +1, persistent=persistent)


def add_reserved(
    owner: QueueOwner,
    transaction: Transaction,
    queue: LocalQueue,
    row: StoredMessage,
    *,
    persistent: bool,
) -> None:
    """Add the put of a message that is reserved already to a work of an owner of queues."""
    if queue.home is not owner:
        transaction = transaction.at(queue.home)
    transaction.unit.put(queue.number, row, persistent=persistent)
    transaction.arrivals.append((queue, row, PERSISTENT if persistent else VOLATILE))
    if queue.is_staging:
        count_staged(transaction, queue, row, +1, persistent=persistent)


def add_all_reserved(
    owner: QueueOwner,
    transaction: Transaction,
    reserved: Iterable[tuple[LocalQueue, StoredMessage, bool]],
) -> None:
    """Add puts that are reserved already, and whether they are persistent, queue by queue."""
    rows_of: dict[tuple[LocalQueue, bool], list[StoredMessage]] = {}
    for queue, row, persistent in reserved:
        rows = rows_of.get((queue, persistent))
        if rows is None:
            rows = rows_of[queue, persistent] = []
        rows.append(row)
    for (queue, persistent), rows in rows_of.items():
        part = transaction if queue.home is owner else transaction.at(queue.home)
        part.unit.put_all(queue.number, rows, persistent=persistent)
        side = PERSISTENT if persistent else VOLATILE
        part.arrivals += [(queue, row, side) for row in rows]
        if queue.is_staging:
            for row in rows:
                count_staged(part, queue, row, +1, persistent=persistent)


def redeem(queue: LocalQueue) -> None:
    """Reserve what a unit of work is to stage, as it is committed (D12)."""
    queue.pledged -= 1
    reserve(queue)


def arrive_in_bulk(transaction: Transaction, queue: LocalQueue, keys: list[int]) -> None:
    """Add reserved persistent messages to a transaction; its unit has them."""
    transaction.moves.append(Moving(queue, queue, [], keys))


# Messages that one unit of work puts and gets, or that expire before its commit: never seen


def get_own(queue: LocalQueue) -> None:
    """Let a unit of work get what it has put itself: no longer part of the depth (P9)."""
    _check_uncommitted(queue, 1, Event.GET_UNDER_SYNCPOINT)
    queue.depth -= 1
    queue.uncommitted -= 1
    queue.passing += 1


def withdraw_own(queue: LocalQueue) -> None:
    """Withdraw, by a backout, what the same unit of work has put and got."""
    _check_passing(queue, Event.WITHDRAW)
    queue.passing -= 1


def end_own(
    transaction: Transaction, queue: LocalQueue, row: StoredMessage, now_ms: int, ending: Ending
) -> None:
    """Record the life of what a unit of work has put and got and now commits."""
    _check_passing(queue, Event.COMMIT)
    queue.passing -= 1
    life = life_of(queue, row, now_ms, LOCKED_ENDS[Event.COMMIT], ending)
    transaction.unit.pass_through(queue.number, life)


def end_late(
    owner: QueueOwner,
    transaction: Transaction,
    late: tuple[LocalQueue, StoredMessage],
    now_ms: int,
    ending: Ending,
) -> None:
    """Record the life of a put that has expired before its commit (E17)."""
    queue, row = late
    _check_uncommitted(queue, 1, Event.COMMIT)
    queue.depth -= 1
    queue.uncommitted -= 1
    part = transaction if queue.home is owner else transaction.at(queue.home)
    met = ending._replace(met_by=MetBy.COMMIT.value)
    part.unit.pass_through(queue.number, life_of_expired(queue, row, now_ms, met))


def hold_expired(queue: LocalQueue) -> None:
    """Keep a queue for the record of a message that is too late for it."""
    queue.passing += 1


def withdraw_expired(queue: LocalQueue) -> None:
    """Let the queue go: nothing is recorded."""
    queue.passing -= 1


def end_expired(transaction: Transaction, queue: LocalQueue, life: LifeRecord) -> None:
    """Record the life of a message that was too late; see :func:`hold_expired`."""
    transaction.unit.pass_through(queue.number, life)
    queue.passing -= 1


def life_of_expired(
    queue: LocalQueue, row: StoredMessage, now_ms: int, ending: Ending
) -> LifeRecord:
    """Return the record of a message whose life ends where it begins."""
    return life_of(queue, row, now_ms, OPEN_ENDS[queue.is_staging][Event.DEADLINE_SEEN], ending)


def count_staged(
    transaction: Transaction,
    queue: LocalQueue,
    row: StoredMessage,
    change: int,
    *,
    persistent: bool,
) -> None:
    """Count a staged message for the queue it waits to reach; durable like its other totals."""
    if row.target_number is None:
        return
    target = queue.home.target(row.target_number)
    if target is not None:
        delta = transaction.unit.delta(-row.target_number)
        delta.present += change
        delta.present_volatile += 0 if persistent else change
        transaction.staged.append((target, change))


def _check_uncommitted(queue: LocalQueue, message_count: int, event: Event) -> None:
    if queue.uncommitted < message_count:
        raise TransitionError(f"{queue.name}: {event} of a message that is not uncommitted")


def _check_passing(queue: LocalQueue, event: Event) -> None:
    if not queue.passing:
        raise TransitionError(f"{queue.name}: {event} of what no unit of work has put and got")
