"""State of delayed messages in memory: the next delivery time, and the order of their keys."""

from __future__ import annotations

import mmap
from collections.abc import Callable

from mayfly.engine.queue_state import Hold
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue, QueueOwner
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
