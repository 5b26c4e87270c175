"""Redelivery of backed-out messages: at the end of their delay (BODELAY), or at a CLEAR before.

A message waits on its own queue, in its old place, hidden. So it keeps its MsgId, its backout count
and its deadline, and the queue cannot refuse it when it comes back.
"""

from __future__ import annotations

from typing import Final

from mayfly.engine.core import Core
from mayfly.engine.expiry import discard_expired
from mayfly.engine.queues import PERSISTENT, Found, LocalQueue
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.moments import is_expired
from mayfly.store.held_gets import HeldGet
from mayfly.store.keys import queue_number_of
from mayfly.verbs.contracts.outcomes import DetectedBy

#: Messages that become visible in one turn of the lock.
_BATCH: Final = 1_000


def redeliver_due(core: Core) -> None:
    """Make all messages visible whose delay is over; discard those that have expired meanwhile.

    Each is offered to triggers and waiting gets, and an expired one sends the report that it owes.
    Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN for the discards.
    """
    while _redeliver_batch(core):
        pass


def _redeliver_batch(core: Core) -> bool:
    """Redeliver up to 1,000 due messages; return False when none was due."""
    delayed, transactions = core.redeliveries, list[Transaction]()
    with core.engine_lock:
        now_ms, returned = core.now_ms(), list[tuple[LocalQueue, int, int]]()
        while len(returned) < _BATCH:
            due_ms = delayed.next_due_ms()
            if due_ms is None or due_ms > now_ms:
                break
            returned.append(delayed.redeliver_next())
        if not returned:
            return False
        expired = _expired(core, returned, now_ms)
        if expired:
            transactions.append(discard_expired(core, expired, now_ms, DetectedBy.RELEASE))
            gone = {row.k for _queue, row, _persistence in expired}
            returned = [each for each in returned if each[1] not in gone]
        core.committer.offer([each[:2] for each in returned])
    if transactions:
        core.committer.run(*transactions)
    core.committer.run_deferred()
    return True


def redeliver_all(core: Core, queue: LocalQueue) -> None:
    """End the delays of all messages on a queue, which are visible then; used before a CLEAR."""
    queue_owner = queue.owner
    assert isinstance(queue_owner, Core)
    with core.engine_lock:
        queue_owner.redeliveries.redeliver_on(queue)


def resume_delays(core: Core, held: list[HeldGet]) -> None:
    """Begin the delays again of messages that were backed out before a restart, from now on.

    ``held`` are the notes about gets that the last run has left. A message is delayed if its queue
    has a BODELAY and its stored backout count includes that get. Call it before any get.
    """
    with core.engine_lock:
        for key, backout_count in held:
            queue = core.registry.by_number(queue_number_of(key))
            if queue is None or queue.is_staging or not queue.definition.bodelay:
                continue
            row = core.store.persistent.row(key)
            # Claimed by a consumer, or in doubt at a channel: its holder has it.
            if row is None or row.backout_count != backout_count + 1 or key in core.hidden:
                continue
            core.store.held_gets.note(key, backout_count)
            core.redeliveries.load((queue, row, PERSISTENT), core.now_ms())


def _expired(core: Core, returned: list[tuple[LocalQueue, int, int]], now_ms: int) -> list[Found]:
    """Return those of the redelivered messages that have expired."""
    expired: list[Found] = []
    for queue, key, persistence in returned:
        row = core.messages(persistence).row(key)
        assert row is not None
        if is_expired(row.expire_at_ms, now_ms):
            expired.append((queue, row, persistence))
    return expired
