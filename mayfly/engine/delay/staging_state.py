"""State of delayed messages in memory: next delivery time, order of keys, delayed redeliveries."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from heapq import heappop, heappush

from mayfly.engine import queue_state
from mayfly.engine.queue_state import Hold
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue, QueueOwner
from mayfly.lifetime.moments import redelivery_delay_ms, redelivery_ms
from mayfly.store.keys import STAGING_ORDER_BITS, due_ms_of, staging_key

KEPT = 65_536
#: 8 MiB have a bit for each millisecond of 18 hours; later times share these bits, modulo.
_USED_BITS = 2**26


class StagingOrder:
    """Generates ascending keys for delayed messages of the same delivery time, in ms.

    The store is asked when a millisecond is first used, unless it is known to be unused. Keys of
    open units of work, and of transactions under way, are not in the store. So nothing is dropped
    from memory while ``is_idle()`` is False. The engine lock is held.
    """

    def __init__(
        self, highest_key: Callable[[int, int], int | None], is_idle: Callable[[], bool]
    ) -> None:
        """Begin without keys in memory.

        ``highest_key`` returns the highest stored key of a key range or None. ``is_idle`` says that
        no put to the staging queue is uncommitted.
        """
        self._is_idle = is_idle
        self._highest_key = highest_key
        self._last: dict[int, int] = {}
        #: One bit a millisecond, modulo: set once a key of it was given. Memory is taken by those
        #: pages alone that hold a set bit; None before the first key.
        self._used: mmap.mmap | None = None
        #: Up to here an earlier run may have given keys.
        self._unknown_until_ms = -1

    def next_key(self, due_ms: int) -> int:
        """Return a new key, higher than all others of the same delivery time (ms since 1970).

        When all 2**21 keys of a millisecond are used, the key is of the next one, never of an
        earlier one.
        """
        last = self._last.get(due_ms)
        if last is None:
            last = self._stored_order(due_ms)
        order = last + 1
        if order >= 2**STAGING_ORDER_BITS:
            return self.next_key(due_ms + 1)
        if len(self._last) > KEPT and self._is_idle():
            self._last.clear()
        self._last[due_ms] = order
        return staging_key(due_ms, order)

    def _stored_order(self, due_ms: int) -> int:
        """Return the highest number that a key of a millisecond has, -1 without a key.

        ``due_ms`` is that millisecond, a delivery time. It counts as used from now on.
        """
        used = self._used or self._begin()
        place, bit = divmod(due_ms % _USED_BITS, 8)
        is_free = due_ms > self._unknown_until_ms and not used[place] >> bit & 1
        used[place] |= 1 << bit
        if is_free:
            return -1
        low = staging_key(due_ms, 0)
        highest = self._highest_key(low, staging_key(due_ms + 1, 0))
        return -1 if highest is None else highest - low

    def _begin(self) -> mmap.mmap:
        """Create and return the bit map in which a bit marks a delivery time (ms) with a key.

        The highest stored key is read before: up to its time the bits may lack keys.
        """
        highest = self._highest_key(staging_key(0, 0), 0)
        if highest is not None:
            self._unknown_until_ms = due_ms_of(highest)
        self._used = mmap.mmap(-1, _USED_BITS // 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return self._used


class StagingState:
    """State of the staging queue in memory: next delivery time, order of keys, claimed messages."""

    def __init__(self, owner: QueueOwner, staging: Callable[[], LocalQueue | None]) -> None:
        """Begin without a delivery time.

        ``owner`` is the queue manager whose delayed messages these are. ``staging`` returns its
        staging queue, None if not defined.
        """
        self._owner = owner
        self._staging = staging
        #: The earliest delivery time on the staging queue, at the latest; None when it is empty.
        self.due_ms: int | None = None
        #: How often the staging queue was defined, or enabled again: a stopped processor restarts.
        self.enabled_count = 0
        self.order = StagingOrder(self._highest_key, self._is_idle)
        #: MsgIds of puts with a key that are not committed yet (D34).
        self.unique_ids: set[bytes] = set()
        #: The hold on messages that a pipeline is about to release, with their number.
        self.releasing = Hold()

    def note_due(self, key: int) -> None:
        """Note that the message with this key is visible; wake the clock if it is due first."""
        due_ms = due_ms_of(key)
        if self.due_ms is None or due_ms < self.due_ms:
            self.due_ms = due_ms
            self._owner.must_wake = True

    def _is_idle(self) -> bool:
        """Return True unless a put to the staging queue is uncommitted."""
        queue = self._staging()
        return queue is None or not (queue.uncommitted or queue.uncommitted_staged)

    def _highest_key(self, low: int, high: int) -> int | None:
        """Return the highest staged key from ``low`` to before ``high``, None without one."""
        queue = self._staging()
        keys = [
            self._owner.messages(persistence).highest_key(low, high)
            for persistence in (VOLATILE, PERSISTENT)
            # A transaction on its way to the disk is known to the caller.
            if queue is None or queue.present[persistence]
        ]
        return max((key for key in keys if key is not None), default=None)


# Backed-out messages whose redelivery is delayed (BODELAY), in memory: which, and until when


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
