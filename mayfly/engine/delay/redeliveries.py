"""Backed-out messages whose redelivery is delayed (BODELAY), in memory: which, and until when."""

from __future__ import annotations

from heapq import heappop, heappush

from mayfly.engine import queue_state
from mayfly.engine.queue_state import Hold
from mayfly.engine.queues import Found, LocalQueue, QueueOwner
from mayfly.lifetime.moments import redelivery_delay_ms, redelivery_ms


class Redeliveries(Hold):
    """The messages of one queue manager or group whose redelivery is delayed; it hides them.

    The engine lock is held in all methods.
    """

    delays = True

    def __init__(self, owner: QueueOwner) -> None:
        """Begin without a message; ``owner`` is the queue manager or group that has the queues."""
        self._owner = owner
        #: When the delay of each ends, in epoch ms, and its key; and the same by key. A pair that
        #: is not by key is left over from a message that was redelivered early.
        self._ends: list[tuple[int, int]] = []
        self._until_ms: dict[int, int] = {}
        self._places: dict[int, tuple[LocalQueue, int]] = {}

    def delay(self, found: Found, by: Hold, now_ms: int) -> None:
        """Take over a message that ``by`` holds, and delay its redelivery from ``now_ms`` on.

        Its queue has a BODELAY; its row has the backout count before this backout.
        """
        queue_state.delay_redelivery(found, by, self)
        self._add(found, found[1].backout_count + 1, now_ms)

    def load(self, found: Found, now_ms: int) -> None:
        """Delay the redelivery of a visible message, backed out before a restart, from now on."""
        queue_state.load_delayed(found, self)
        self._add(found, found[1].backout_count, now_ms)

    def next_due_ms(self) -> int | None:
        """Return when the next delay ends, in epoch ms; None without a delayed message."""
        ends = self._ends
        while ends and self._until_ms.get(ends[0][1]) != ends[0][0]:
            heappop(ends)
        return ends[0][0] if ends else None

    def until_ms(self, key: int) -> int | None:
        """Return when the delay of the message with this key ends; None for any other message."""
        return self._until_ms.get(key)

    def redeliver_next(self) -> tuple[LocalQueue, int, int]:
        """Make the message visible whose delay ends next; return its queue, key and persistence."""
        due_ms = self.next_due_ms()
        assert due_ms is not None
        _due_ms, key = heappop(self._ends)
        return self._redeliver(key)

    def redeliver_on(self, queue: LocalQueue) -> list[tuple[LocalQueue, int, int]]:
        """Make all messages of a queue visible; return queue, key and persistence of each."""
        keys = [key for key, place in self._places.items() if place[0] is queue]
        return [self._redeliver(key) for key in keys]

    def _add(self, found: Found, backout_count: int, now_ms: int) -> None:
        """Record when the delay of a message ends, which this object hides by now."""
        queue, row, persistence = found
        definition = queue.definition
        delay_ms = redelivery_delay_ms(definition.bodelay, definition.bodelmax, backout_count)
        until_ms = redelivery_ms(now_ms + delay_ms, row.expire_at_ms)
        self._until_ms[row.k], self._places[row.k] = until_ms, (queue, persistence)
        heappush(self._ends, (until_ms, row.k))
        self._owner.must_wake = True

    def _redeliver(self, key: int) -> tuple[LocalQueue, int, int]:
        """Make a message visible by its key, and forget that it was delayed."""
        del self._until_ms[key]
        queue, persistence = self._places.pop(key)
        queue_state.redeliver(queue, key, persistence, self)
        if persistence:
            self._owner.store.held_gets.settle((key,))
        return queue, key, persistence
