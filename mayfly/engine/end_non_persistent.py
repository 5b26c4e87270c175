"""The lives of non-persistent messages end with a close, because a restart does not keep them."""

from __future__ import annotations

from mayfly.engine.core import Core
from mayfly.engine.holding import messages
from mayfly.engine.queues import VOLATILE, LocalQueue
from mayfly.engine.transaction import Transaction

_BATCH = 5_000


def end_non_persistent(core: Core) -> None:
    """Record the end of non-persistent messages, if there will be a restart to miss them."""
    if core.store.folder is None:
        return
    for queue in core.registry.queues():
        while queue.present[VOLATILE] and _end_batch(core, queue):
            pass


def _end_batch(core: Core, queue: LocalQueue) -> bool:
    with core.engine_lock:
        transaction, now_ms = Transaction(), core.now_ms()
        rows = core.store.volatile.in_order(queue.low, queue.high, _BATCH)
        for row in rows:
            messages.end_at_close(core, transaction, (queue, row, VOLATILE), now_ms)
    core.committer.run(transaction)
    return bool(rows)
