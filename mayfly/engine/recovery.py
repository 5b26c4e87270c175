"""The start of a queue manager from its store."""

from __future__ import annotations

from mayfly.engine.attributes.attribute import QLOCAL
from mayfly.engine.attributes.of_queues import QueueDefinition
from mayfly.engine.core import Core
from mayfly.engine.holding import many
from mayfly.engine.queues import LocalQueue
from mayfly.mqi.errors import StoreError
from mayfly.store.intents import group_of


def check_in_no_group(core: Core) -> None:
    """Raise StoreError for the folder of a member of a queue-sharing group."""
    group, folder = group_of(core.store.persistent), core.store.folder
    if group and folder is not None:
        said = f"{core.name} is a member of queue-sharing group {group}: open it with that"
        raise StoreError(said, folder)


def recover_totals(core: Core) -> None:
    """Account for non-persistent messages that a crash has taken; load the counters."""
    transaction = core.store.book.recovery()
    if transaction.deltas or transaction.statements:
        transaction.wants_balances = True
        core.store.group.commit(transaction)
        core.store.book.totals.forget_strangers({q.number for q in core.registry.queues()})
    for number, totals in core.store.book.totals.items():
        if number < 0 and totals.present and core.registry.by_number(-number) is None:
            gone = LocalQueue(QueueDefinition(QLOCAL, totals.queue), -number, core)
            many.load(gone, 0, totals.present)
            core.registry.departed[gone.number] = gone
    for queue in core.registry.queues():
        totals = core.store.book.totals[queue.number]
        # The totals of number 0 count what is on the staging queue, for others to come to.
        staged = core.store.book.totals[-queue.number].present if queue.number else 0
        many.load(queue, totals.present, staged)
