"""Restart: the data that a start recovers from the store, and that a close writes for it."""

from __future__ import annotations

import logging

from mayfly.engine import queue_state
from mayfly.engine.attributes import QLOCAL, QueueDefinition
from mayfly.engine.core import Core
from mayfly.engine.delay.redelivery import resume_delays
from mayfly.engine.queues import VOLATILE, LocalQueue
from mayfly.engine.transaction import Transaction
from mayfly.mqi.constants import MQQA_BACKOUT_HARDENED, MQQSGD_SHARED
from mayfly.mqi.errors import ResourceError
from mayfly.store.keys import queue_number_of
from mayfly.store.units import Unit

_LOG = logging.getLogger("mayfly")
#: Once at most: behind the first time the count is another one.
_COUNT = "UPDATE message SET backout_count = backout_count + 1 WHERE k = ? AND backout_count = ?"
_BATCH = 5_000


def recover_totals(core: Core) -> None:
    """Load the counters of all queues; record as lost the messages that a crash has ended.

    These are the non-persistent messages. Deleted queues are loaded, too, while delayed messages
    are for them.
    """
    transaction = core.store.ledger_writer.recovery()
    if transaction.deltas or transaction.statements:
        transaction.wants_balances = True
        core.store.group.commit(transaction)
        core.store.ledger_writer.totals.forget_strangers({q.number for q in core.registry.queues()})
    for number, totals in core.store.ledger_writer.totals.items():
        if number < 0 and totals.present and core.registry.by_number(-number) is None:
            gone = LocalQueue(QueueDefinition(QLOCAL, totals.queue), -number, core)
            queue_state.load(gone, 0, totals.present)
            core.registry.deleted_with_delayed[gone.number] = gone
    for queue in core.registry.queues():
        totals = core.store.ledger_writer.totals[queue.number]
        # The totals of number 0 count what is on the staging queue, for others to come to.
        staged = core.store.ledger_writer.totals[-queue.number].present if queue.number else 0
        queue_state.load(queue, totals.present, staged)


def count_interrupted(core: Core) -> None:
    """Raise by 1 the backout counts of messages that were in open units of work at a kill.

    On z/OS, private queues with NOHARDENBO are left out; on other platforms the attribute has no
    effect (HardenGetBackout). On a full disk the counts stay, and a line is logged. Messages on a
    queue with a BODELAY whose backout is counted are delayed from now on (D32). Call it before any
    get.
    """
    held = core.store.held_gets
    unit = Unit()
    leftovers = held.leftovers()
    for get in leftovers:
        queue = core.registry.by_number(queue_number_of(get.key))
        if queue is None:
            continue
        is_shared = queue.definition.qsgdisp == MQQSGD_SHARED
        is_hardened = queue.definition.hardenbo == MQQA_BACKOUT_HARDENED
        if core.platform != "zos" or is_shared or is_hardened:
            unit.statements.append((_COUNT, get))
    try:
        core.store.commit([unit])
    except ResourceError as error:
        # On a full disk they stay as they are, like those of a backout.
        _LOG.error("backout counts on %s stay as they were: %s", core.name, error)
    held.delete_leftovers()
    resume_delays(core, leftovers)


def end_non_persistent(core: Core) -> None:
    """Remove all non-persistent messages and record them as lost in the ledger.

    Nothing in memory.
    """
    if core.store.folder is None:
        return
    for queue in core.registry.queues():
        while queue.present[VOLATILE] and _end_batch(core, queue):
            pass


def _end_batch(core: Core, queue: LocalQueue) -> bool:
    """Remove up to 5,000 non-persistent messages of a queue; return False when none was left."""
    with core.engine_lock:
        transaction, now_ms = Transaction(), core.now_ms()
        rows = core.store.volatile.in_order(queue.low, queue.high, _BATCH)
        for row in rows:
            queue_state.end_at_close(core, transaction, (queue, row, VOLATILE), now_ms)
    core.committer.run(transaction)
    return bool(rows)
