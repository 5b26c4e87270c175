"""Browse marks: those of one handle, and those of the co-operating handles of a queue (B7).

A mark hides a message from browses of unmarked messages only. It is in memory, and ends with its
handle. The engine lock protects all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias
from weakref import WeakSet

from mayfly.engine.queue_state import note_visible
from mayfly.engine.queues import Found, LocalQueue
from mayfly.lifetime.moments import is_expired
from mayfly.runtime.compiling import weakly_held
from mayfly.store.units import StoredMessage

#: Ends of marks that are kept for messages that are gone, at the most, beside one for each mark.
_STALE_ENDS: Final = 1_000
#: Takes the keys of messages that are got, or leave their queue otherwise.
OnDeparture: TypeAlias = Callable[[Collection[int]], object]


class _Marked:
    """The marks on one message: of single handles, and of one handle for its co-operating set.

    ``marker`` is the handle that marked it for the set, None without such a mark.
    """

    __slots__ = ("handles", "marker", "persistence", "queue", "until_ms")

    def __init__(self, queue: LocalQueue, persistence: int) -> None:
        """Begin without marks on a message of this queue and persistence."""
        self.queue = queue
        self.persistence = persistence
        self.handles: set[object] = set()
        self.marker: object | None = None
        #: When the mark of the set lapses, None for never.
        self.until_ms: int | None = None


class _CoOperatingSet:
    """The handles of one queue with MQOO_CO_OP: their number, and the messages they have marked."""

    __slots__ = ("handle_count", "keys", "lease_ends")

    def __init__(self) -> None:
        """Begin without handles and marks."""
        self.handle_count = 0
        self.keys: set[int] = set()
        #: A heap of (until_ms, key); some marks are gone or renewed since.
        self.lease_ends: list[tuple[int, int]] = []


class Marks:
    """All browse marks of a queue manager, by message key; callers hold the engine lock."""

    def __init__(self, on_departure: list[OnDeparture]) -> None:
        """Begin without marks.

        ``on_departure`` is the list of functions that are called with the keys of messages that
        leave their queues. :meth:`_forget` is in it only while marks exist.
        """
        self._on_departure = on_departure
        self.marked: dict[int, _Marked] = {}
        self._keys: dict[object, set[int]] = {}
        self._sets: dict[int, _CoOperatingSet] = {}

    def join(self, queue: LocalQueue) -> None:
        """Add a handle with MQOO_CO_OP to the co-operating set of a queue."""
        self._sets.setdefault(queue.number, _CoOperatingSet()).handle_count += 1

    def leave(self, queue: LocalQueue, requester: object, *, co_operates: bool) -> None:
        """Remove the marks of a handle that is closed.

        ``requester`` is the handle; ``co_operates`` says that it has joined the co-operating set.
        If it is the last handle of the co-operating set, the marks of the set end too.
        """
        for key in self._keys.pop(requester, ()):
            self.marked[key].handles.discard(requester)
            self._drop_unmarked(key)
        if co_operates:
            co_operating = self._sets[queue.number]
            co_operating.handle_count -= 1
            if not co_operating.handle_count:
                del self._sets[queue.number]
                for key in co_operating.keys:
                    self.marked[key].marker = None
                    self._drop_unmarked(key)

    def mark(self, found: Found, requester: object) -> None:
        """Mark a message (MQGMO_MARK_BROWSE_HANDLE) for the handle ``requester`` alone."""
        self._marked(found).handles.add(requester)
        self._keys.setdefault(requester, set()).add(found[1].k)

    def mark_for_set(self, found: Found, requester: object, until_ms: int | None) -> None:
        """Mark a message for the co-operating set until a time in ms, or for ever if None.

        ``requester`` is the handle of the set that marks it.
        """
        queue, row, _persistence = found
        marked, co_operating = self._marked(found), self._sets[queue.number]
        marked.marker, marked.until_ms = requester, until_ms
        co_operating.keys.add(row.k)
        if until_ms is not None:
            lease_ends = co_operating.lease_ends
            heappush(lease_ends, (until_ms, row.k))
            if len(lease_ends) > 2 * len(co_operating.keys) + _STALE_ENDS:
                lease_ends[:] = {
                    lease_end for lease_end in lease_ends if self._is_current(*lease_end)
                }
                heapify(lease_ends)

    def unmark(self, key: int, requester: object) -> None:
        """Remove the mark of one handle from a message; does nothing without such a mark."""
        marked = self.marked.get(key)
        if marked is not None and requester in marked.handles:
            marked.handles.discard(requester)
            self._keys[requester].discard(key)
            self._drop_unmarked(key)
            note_visible(marked.queue, key, marked.persistence)

    def unmark_for_set(self, key: int) -> None:
        """Remove the mark of the co-operating set from a message.

        Does nothing without such a mark.
        """
        marked = self.marked.get(key)
        if marked is not None and marked.marker is not None:
            marked.marker = None
            self._sets[marked.queue.number].keys.discard(key)
            self._drop_unmarked(key)
            note_visible(marked.queue, key, marked.persistence)

    def _forget(self, keys: Collection[int]) -> None:
        """Remove all marks of messages that are got or leave their queue."""
        for key in keys:
            marked = self.marked.pop(key, None)
            if marked is not None:
                for requester in marked.handles:
                    self._keys[requester].discard(key)
                if marked.marker is not None:
                    self._sets[marked.queue.number].keys.discard(key)
        self._unsubscribe_if_empty()

    def is_of_another(self, key: int, requester: object) -> bool:
        """Return True if a handle other than ``requester`` has marked a message for its set.

        The set is the co-operating handles of the queue. Returns False without such a mark.
        """
        marked = self.marked.get(key)
        return marked is not None and marked.marker not in (None, requester)

    def next_lease_end_ms(self, is_waited_on: Callable[[int], bool]) -> int | None:
        """Return when the next mark of a set ends, in ms, on a queue with a waiting get or browse.

        ``is_waited_on`` says whether the queue with a number has one. Returns None without such a
        mark.
        """
        return min(
            (s.lease_ends[0][0] for n, s in self._sets.items() if s.lease_ends and is_waited_on(n)),
            default=None,
        )

    def end_expired_leases(self, now_ms: int, offer: Callable[[int], None]) -> None:
        """End the marks whose MARKINT is over.

        Calls ``offer`` with the number of each queue on which a mark has ended.
        """
        for number, co_operating in list(self._sets.items()):
            lease_ends = co_operating.lease_ends
            has_ended = False
            while lease_ends and lease_ends[0][0] <= now_ms:
                until_ms, key = heappop(lease_ends)
                if self._is_current(until_ms, key):
                    self.unmark_for_set(key)
                    has_ended = True
            if has_ended:
                offer(number)

    def _is_current(self, until_ms: int, key: int) -> bool:
        """Return True if the set still has a mark on a message that ends at ``until_ms``."""
        marked = self.marked.get(key)
        return marked is not None and marked.marker is not None and marked.until_ms == until_ms

    def _marked(self, found: Found) -> _Marked:
        """Return the marks on a message, made at first use."""
        queue, row, persistence = found
        if not self.marked:
            self._on_departure.append(self._forget)
        return self.marked.setdefault(row.k, _Marked(queue, persistence))

    def _drop_unmarked(self, key: int) -> None:
        """Forget a message without marks; with the last one, stop listening to departures."""
        marked = self.marked[key]
        if not marked.handles and marked.marker is None:
            del self.marked[key]
            self._unsubscribe_if_empty()

    def _unsubscribe_if_empty(self) -> None:
        """Remove :meth:`_forget` from the departure functions, if no message is marked."""
        if not self.marked:
            self._on_departure.remove(self._forget)


@weakly_held
class Unmarked:
    """The messages of a queue that neither one handle nor its co-operating set has marked.

    It remembers the lowest key where such a message may be, so that a browse from the start skips
    the marked ones. The queue calls it when messages become visible below that key.
    """

    __slots__ = (
        "__weakref__",
        "_co_operates",
        "_first",
        "_marks",
        "_now_ms",
        "_queue",
        "_requester",
        "_valid_to_ms",
    )

    def __init__(
        self,
        marks: Marks,
        queue: LocalQueue,
        requester: object,
        now_ms: Callable[[], int],
        *,
        co_operates: bool,
    ) -> None:
        """Begin with no marked message known; the queue calls this object from now on.

        ``requester`` is the handle. ``now_ms`` returns the time. With ``co_operates`` marks of its
        co-operating set count too.
        """
        self._marks = marks
        self._queue = queue
        self._requester = requester
        self._now_ms = now_ms
        self._co_operates = co_operates
        self._first = queue.low
        #: When the first of the messages that were passed over expires: its mark is over then.
        self._valid_to_ms: int | None = None
        if queue.watchers is None:
            queue.watchers = WeakSet()
        queue.watchers.add(self)

    def hides(self, row: StoredMessage) -> bool:
        """Return True if a message is marked by this handle or its set; False if it has expired."""
        marked = self._marks.marked.get(row.k)
        if marked is None or is_expired(row.expire_at_ms, self._now_ms()):
            return False
        if self._requester in marked.handles or (self._co_operates and marked.marker is not None):
            end_ms, valid_to_ms = row.expire_at_ms, self._valid_to_ms
            if end_ms is not None and (valid_to_ms is None or end_ms < valid_to_ms):
                self._valid_to_ms = end_ms
            return True
        return False

    def lower(self, key: int) -> None:
        """Record that the message with this key has become visible."""
        self._first = min(self._first, key)

    def lower_from(self, key: int) -> None:
        """Record that messages with this key and above may have become visible."""
        self.lower(key)

    def start_from(self, low: int) -> int:
        """Return the lowest key, not below ``low``, where an unmarked message may be."""
        if self._queue.is_staging:
            # Arrivals there are not reported.
            return low
        if is_expired(self._valid_to_ms, self._now_ms()):
            self._first, self._valid_to_ms = self._queue.low, None
        return max(low, self._first)

    def reach(self, low: int, key: int) -> None:
        """Record that a search for unmarked messages from ``low`` has found none before ``key``."""
        if low <= self._first:
            self._first = key
