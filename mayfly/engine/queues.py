"""Queues in memory: the counters, triggers and lateness of a local queue, and where searches start.

The engine lock protects all of it. Lateness is how long after their moment messages were released,
or expired ones discarded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol
from weakref import WeakSet

from mayfly.engine.attributes import QueueDefinition
from mayfly.engine.finding.read_ahead import ReadAhead, RowMemory
from mayfly.lifetime.times import SECOND_MS, Clock
from mayfly.mqi.constants import (
    MQMDS_FIFO,
    MQQA_GET_INHIBITED,
    MQTC_ON,
    MQTT_DEPTH,
    MQTT_EVERY,
    MQTT_NONE,
    MQUS_TRANSMISSION,
)
from mayfly.runtime import EngineLock, Runtime
from mayfly.runtime.compiling import weakly_held
from mayfly.store.keys import STAGING_NUMBER, priority_starts, queue_range
from mayfly.store.messages import Messages
from mayfly.store.store import Store
from mayfly.store.units import StoredMessage

#: The bounds of counts of lateness: from the millisecond of a clock to the day of an idle queue.
BOUNDS_MS: Final = (
    1,
    5,
    10,
    25,
    50,
    100,
    250,
    500,
    SECOND_MS,
    5 * SECOND_MS,
    30 * SECOND_MS,
    300 * SECOND_MS,
    3_600 * SECOND_MS,
    86_400 * SECOND_MS,
)


class LatenessCounts(NamedTuple):
    """A histogram of lateness: ``counts[i]`` counts messages late by at most ``BOUNDS_MS[i]``.

    Each counts only messages later than the bound before; one more number is for later ones.
    ``sum_ms`` is the sum of all latenesses in ms.
    """

    counts: tuple[int, ...]
    sum_ms: int


class LatenessSum(NamedTuple):
    """How many messages of one queue were released, or discarded, and how late together, in ms."""

    message_count: int
    sum_ms: int

    def plus(self, moments_ms: Sequence[int], now_ms: int) -> LatenessSum:
        """Return the sum with messages that are handled at ``now_ms``, by their moments.

        A moment in the future counts as 0 ms late.
        """
        late_ms = sum(now_ms - moment_ms for moment_ms in moments_ms if moment_ms < now_ms)
        return LatenessSum(self.message_count + len(moments_ms), self.sum_ms + late_ms)


#: The lateness of a queue without releases or discards.
NO_LATENESS: Final = LatenessSum(0, 0)


class Lateness:
    """Counts how late messages were handled, since the queue manager was opened; under its lock."""

    def __init__(self) -> None:
        """Begin with no message counted."""
        self._counts = [0] * (len(BOUNDS_MS) + 1)
        self._sum_ms = 0

    def note(self, moments_ms: Iterable[int], now_ms: int) -> None:
        """Count messages that are handled at ``now_ms``, by their deadlines or delivery times.

        A moment in the future counts as 0 ms late.
        """
        ordered = sorted(moments_ms)
        if ordered and ordered[-1] > now_ms:
            ordered = [min(moment_ms, now_ms) for moment_ms in ordered]
        end = len(ordered)
        self._sum_ms += end * now_ms - sum(ordered)
        # Each bound parts those that are within it from all that are beyond, with one search.
        for place, bound_ms in enumerate(BOUNDS_MS):
            first = bisect_left(ordered, now_ms - bound_ms, 0, end)
            self._counts[place] += end - first
            end = first
            if not end:
                return
        self._counts[-1] += end

    def counts(self) -> LatenessCounts:
        """Return the histogram so far."""
        return LatenessCounts(tuple(self._counts), self._sum_ms)


#: Attributes whose change lets the conditions be looked at again, though nothing arrives.
CONDITIONS = frozenset("TRIGGER TRIGTYPE TRIGDPTH TRIGMPRI INITQ PROCESS USAGE".split())
#: The same of an initiation queue, for the queues that it is that of.
INITIATION_CONDITIONS = frozenset("PUT GET USAGE".split())


class Trigger:
    """The trigger of one queue, made from its attributes; guarded by the engine lock.

    ``least_priority`` is TRIGMPRI. With ``is_fifo``, keys of messages do not contain their
    priority.
    """

    __slots__ = (
        "initiation_queue",
        "is_fifo",
        "last_ms",
        "least_priority",
        "messages_needed",
        "process",
        "trigger_type",
    )

    def __init__(self, definition: QueueDefinition, last_ms: int | None) -> None:
        """Set the trigger attributes from a queue definition.

        ``last_ms`` is when the last trigger message was put (ms since 1970), None for never.
        """
        self.trigger_type = definition.trigtype
        self.least_priority = definition.trigmpri
        self.is_fifo = definition.msgdlvsq == MQMDS_FIFO
        self.initiation_queue = definition.initq
        #: The process that must be defined; None on a transmission queue, which needs none (T1).
        self.process: str | None = definition.process
        if _is_transmission(definition):
            self.process = None
        #: How many qualifying messages let it trigger although none arrives.
        self.messages_needed = definition.trigdpth if self.is_depth else 1
        self.last_ms = last_ms

    @property
    def is_every(self) -> bool:
        """Whether the trigger type is TRIGTYPE(EVERY)."""
        return self.trigger_type == MQTT_EVERY

    @property
    def is_depth(self) -> bool:
        """Whether the trigger type is TRIGTYPE(DEPTH)."""
        return self.trigger_type == MQTT_DEPTH


def trigger_of(definition: QueueDefinition, number: int, last_ms: int | None) -> Trigger | None:
    """Return the trigger of a local queue, None when it has none.

    It has none with NOTRIGGER, TRIGTYPE(NONE) or an empty INITQ. The staging queue, and a
    transmission queue with GET(DISABLED), have none either. ``number`` is that of the queue,
    ``last_ms`` when its last trigger message was put, None for never.
    """
    if definition.trigger != MQTC_ON or number == STAGING_NUMBER:
        return None
    if _is_transmission(definition) and definition.get == MQQA_GET_INHIBITED:
        return None
    if definition.trigtype == MQTT_NONE or not definition.initq:
        return None
    return Trigger(definition, last_ms)


def _is_transmission(definition: QueueDefinition) -> bool:
    """Return True for a definition with USAGE(XMITQ)."""
    return definition.usage == MQUS_TRANSMISSION


#: Index of the non-persistent and of the persistent value in pairs.
VOLATILE: Final = 0
PERSISTENT: Final = 1
#: A search that passes more hidden messages than this is remembered.
MANY_HIDDEN = 32
#: How many searches by ids one queue remembers.
_MAX_SEARCHES = 64
#: A persistence, a MsgId and a CorrelId; None is any.
SearchIds = tuple[int, bytes | None, bytes | None]


class VisibilityWatcher(Protocol):
    """An object that a queue calls when messages become visible."""

    def lower(self, key: int) -> None:
        """Record that the message with this key has become visible."""

    def lower_from(self, key: int) -> None:
        """Record that messages with this key and above may have become visible."""


class StatisticsSinceReset(NamedTuple):
    """The statistics of a queue since the last reset."""

    queue: str
    seconds_since_reset: int
    high_depth: int
    put_count: int
    removed_count: int


class DepthWatcher(Protocol):
    """The statistics of a queue, for events about depth and service (``events.performance``)."""

    #: Whether events are made of them.
    makes_events: bool
    #: When a message was last put or got, in ms since 1970; None if none was.
    last_put_ms: int | None
    last_get_ms: int | None
    #: Means of the time that got messages were on the queue; None without one.
    on_queue_ms: tuple[float, float] | None

    def note_put(self, queue: LocalQueue, message_count: int) -> None:
        """Count puts, which the depth has already."""

    def note_removed(self, queue: LocalQueue, message_count: int, got_put_ms: int | None) -> None:
        """Count removals; ``got_put_ms`` is the put time of a message that a program has got."""

    def note_returned(self, queue: LocalQueue) -> None:
        """Note that messages are back on the queue."""

    def note_full(self, queue: LocalQueue) -> None:
        """Note that a put was refused because the queue is full."""

    def check_service(self, queue: LocalQueue, now_ms: int) -> None:
        """Make the event that the service interval is over, if it is."""

    def service_due_ms(self, queue: LocalQueue) -> int | None:
        """Return when that event is due; None if it is not to come."""

    def reset(self, queue: LocalQueue, now_ms: int) -> StatisticsSinceReset:
        """Return the statistics up to now, and begin anew."""


class QueueOwner(Protocol):
    """The parts of the engine, whose store has a queue, that the queue uses."""

    name: str
    engine_lock: EngineLock
    clock: Clock
    runtime: Runtime
    store: Store
    #: Key of a hidden message -> what hides it.
    hidden: dict[int, object]
    must_wake: bool
    foreign_client_count: int
    #: The limit of memory for rows that its queues have read ahead.
    row_memory: RowMemory

    @property
    def target(self) -> Callable[[int], LocalQueue | None]:
        """A function that returns the queue with a number, the target of staged messages.

        It returns None when no queue has that number. It finds a deleted queue too, while messages
        are staged for it.
        """

    @property
    def note_due(self) -> Callable[[int], None]:
        """A function to call with the key of each delayed message that becomes visible."""

    def messages(self, persistence: int) -> Messages:
        """Return the store of persistent messages for PERSISTENT, of the others for VOLATILE."""


class LocalQueue:
    """One queue that holds messages; only ``engine/queue_state.py`` changes its counters.

    ``depth`` is CURDEPTH: committed and uncommitted puts, without messages got in open units of
    work. ``present`` counts rows by persistence, got ones included. ``first`` is, by persistence,
    the lowest key that may be visible.
    """

    __slots__ = (
        "ahead",
        "awaiting_redelivery",
        "browse_locked",
        "claimed",
        "definition",
        "depth",
        "exclusive_holder",
        "expiry_lateness",
        "first",
        "high",
        "input_count",
        "is_staging",
        "locked",
        "low",
        "number",
        "output_count",
        "owner",
        "present",
        "put_and_got",
        "release_lateness",
        "slots",
        "staged_for",
        "starts",
        "statistics",
        "trigger",
        "uncommitted",
        "uncommitted_staged",
        "watchers",
    )

    def __init__(self, definition: QueueDefinition, number: int, queue_owner: QueueOwner) -> None:
        """Begin empty; ``queue_state.load`` sets the counters when a store is opened.

        ``number`` is the number of the queue, part of the keys of its messages. ``queue_owner`` is
        the queue manager, or the queue-sharing group, whose store has the queue.
        """
        self.definition = definition
        self.number = number
        #: The lowest key of each priority, 0 first.
        self.slots = tuple(reversed(priority_starts(number)))
        #: Whether delayed messages wait here.
        self.is_staging = number == STAGING_NUMBER
        #: The owner of the store that holds it: its queue manager, or that one's group.
        self.owner = queue_owner
        self.low, self.high = queue_range(number)
        self.first = [self.low, self.low]
        self.present = [0, 0]
        #: By persistence, rows that were read ahead of gets.
        self.ahead = ReadAhead(queue_owner.row_memory), ReadAhead(queue_owner.row_memory)
        self.depth = 0
        self.uncommitted = 0
        #: On the staging queue: puts and reschedules of open units of work. They are no part of the
        #: depth before the commit (D12).
        self.uncommitted_staged = 0
        self.locked = 0
        #: How many of ``locked`` are claimed by consumers: part of the totals, not of ``present``.
        self.claimed = 0
        #: Put and got again by one open unit of work (P9): no longer part of the depth.
        self.put_and_got = 0
        self.browse_locked = 0
        #: Backed out, and not to be handed out yet (BODELAY): no part of the depth.
        self.awaiting_redelivery = 0
        #: Messages on the staging queue that wait to come here.
        self.staged_for = 0
        #: Since the opening: delayed messages released for it, and expired ones discarded here.
        self.release_lateness = self.expiry_lateness = NO_LATENESS
        self.input_count = 0
        self.output_count = 0
        self.exclusive_holder: object | None = None
        #: Its trigger conditions; None for most queues.
        self.trigger: Trigger | None = None
        #: The figures of events about its performance; None for most queues.
        self.statistics: DepthWatcher | None = None
        #: Where searches by ids start; None until one was long.
        self.starts: SearchStarts | None = None
        #: Weak references; None when there was never one.
        self.watchers: WeakSet[VisibilityWatcher] | None = None

    @property
    def name(self) -> str:
        """The name of the queue, from its definition."""
        return self.definition.name

    @property
    def transmits(self) -> bool:
        """True for a transmission queue, USAGE(XMITQ)."""
        return self.definition.usage == MQUS_TRANSMISSION

    @property
    def is_open(self) -> bool:
        """True while a handle for input or output is open on this queue."""
        return bool(self.input_count or self.output_count)

    @property
    def has_uncommitted_work(self) -> bool:
        """True while an open unit of work has put messages here or got messages from here."""
        return bool(self.uncommitted or self.uncommitted_staged or self.locked or self.put_and_got)


#: The queue of a message, its row and its persistence.
Found = tuple[LocalQueue, StoredMessage, int]


@weakly_held
class SearchStarts:
    """Where searches for a MsgId or CorrelId start on one queue: earlier matches are hidden."""

    __slots__ = ("__weakref__", "_highest", "_keys")

    def __init__(self) -> None:
        """Begin with no search remembered: each starts where it asks."""
        self._keys: dict[SearchIds, int] = {}
        self._highest = 0

    def of(self, ids: SearchIds, low: int) -> int:
        """Return the key where a search for these ids starts: ``low`` or a higher one.

        No message with these ids is visible between ``low`` and the result.
        """
        return max(low, self._keys.get(ids, low))

    def note(self, ids: SearchIds, key: int) -> None:
        """Record that a search for these ids from the queue's start found none before ``key``."""
        if len(self._keys) >= _MAX_SEARCHES:
            self._keys.clear()
        self._keys[ids] = key
        self._highest = max(self._keys.values())

    def lower(self, key: int) -> None:
        """Record that the message with this key has become visible: no search starts after it."""
        if key < self._highest:
            self._keys = {ids: start for ids, start in self._keys.items() if start <= key}
            self._highest = max(self._keys.values(), default=0)

    def lower_from(self, key: int) -> None:
        """Record that messages with this key and above may have become visible."""
        self.lower(key)
