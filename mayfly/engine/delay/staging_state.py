"""Facts in memory about the delayed messages of a queue manager, beside their queue."""

from __future__ import annotations

from collections.abc import Callable

from mayfly.engine.delay.staging_order import StagingOrder
from mayfly.engine.holding import Hold
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue, QueueOwner
from mayfly.store.keys import due_ms_of


class StagingState:
    """When the next message is due, the order of keys, and what a pipeline holds."""

    def __init__(self, owner: QueueOwner, staging: Callable[[], LocalQueue | None]) -> None:
        """Begin with nothing due; ``staging`` returns the staging queue, None without one."""
        self._owner = owner
        self._staging = staging
        #: The earliest delivery time on the staging queue, at the latest; None when it is empty.
        self.due_ms: int | None = None
        #: How often the staging queue was defined, or enabled again: a stopped processor restarts.
        self.enabled_count = 0
        self.order = StagingOrder(self._highest_key, self._is_idle)
        #: The hold on messages that a pipeline is about to release, with their number.
        self.releasing = Hold()

    def note_due(self, key: int) -> None:
        """Note that a delayed message can be seen: the clock may have to come earlier."""
        due_ms = due_ms_of(key)
        if self.due_ms is None or due_ms < self.due_ms:
            self.due_ms = due_ms
            self._owner.must_wake = True

    def _is_idle(self) -> bool:
        queue = self._staging()
        return queue is None or not (queue.uncommitted or queue.pledged)

    def _highest_key(self, low: int, high: int) -> int | None:
        queue = self._staging()
        keys = [
            self._owner.messages(persistence).highest_key(low, high)
            for persistence in (VOLATILE, PERSISTENT)
            # A transaction on its way to the disk is known to the caller.
            if queue is None or queue.present[persistence]
        ]
        return max((key for key in keys if key is not None), default=None)
