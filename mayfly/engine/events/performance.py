"""Performance of queues: statistics since the last event, and the events about depth and service.

A queue has statistics while PERFMEV is ENABLED, or MONQ asks for the times of its last put and get.
A queue without them costs its puts and gets one comparison. Statistics count puts and removals when
the verb is made, committed or not, and so does CURDEPTH. An expired message counts until it is
discarded, and its discard is a removal like a get (Expiry, note 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Final

from mayfly.engine.attributes import QLOCAL, QMGR, Definition
from mayfly.engine.core import Core
from mayfly.engine.events.catalog import (
    PERFORMANCE,
    Q_DEPTH_HIGH,
    Q_DEPTH_LOW,
    Q_FULL,
    SERVICE_HIGH,
    SERVICE_OK,
    EventType,
)
from mayfly.engine.events.messages import emit
from mayfly.engine.queues import LocalQueue, StatisticsSinceReset
from mayfly.engine.state import now_ms_of
from mayfly.mqi import event_constants as e
from mayfly.mqi.errors import mq_error
from mayfly.mqi.event_constants import MQRCCF_EVENTS_DISABLED
from mayfly.verbs.facts import Value

#: QSVCIEV: which of the two events may come next.
_NO_EVENT, _NEXT_HIGH, _NEXT_OK = 0, 1, 2
_OFF, _ON = 0, 1
#: MONQ: as the queue manager says; OFF is 0, and NONE, of the queue manager, is off for all.
_AS_MANAGER: Final = -3
#: The weights of a message in the short-term and in the long-term mean of QTIME.
_SHORT_TERM, _LONG_TERM = 8, 64


class PerformanceStatistics:
    """The statistics of one local queue, and its service timer; the engine lock protects them."""

    __slots__ = (
        "_core",
        "_high_depth",
        "_put_count",
        "_removed_count",
        "_reset_ms",
        "_service_since_ms",
        "last_get_ms",
        "last_put_ms",
        "makes_events",
        "on_queue_ms",
    )

    def __init__(self, core: Core, queue: LocalQueue, *, makes_events: bool) -> None:
        """Begin now; the service timer runs if messages are on the queue."""
        self._core = core
        #: Whether PERFMEV is ENABLED; else only the times are of interest.
        self.makes_events = makes_events
        self._put_count = self._removed_count = 0
        self._high_depth, self._reset_ms = queue.depth, core.now_ms()
        #: When the service timer has begun; None while it is off.
        self._service_since_ms = self._reset_ms if queue.depth else None
        #: When a message was last put or got, in ms since 1970; None if none was.
        self.last_put_ms: int | None = None
        self.last_get_ms: int | None = None
        #: Means of the time that got messages have been on the queue, short-term and long-term.
        self.on_queue_ms: tuple[float, float] | None = None

    def note_put(self, queue: LocalQueue, message_count: int) -> None:
        """Count puts, which ``queue.depth`` has already; needs the engine lock."""
        now_ms, depth = now_ms_of(self._core), queue.depth
        self.last_put_ms = now_ms
        self._put_count += message_count
        self._high_depth = max(self._high_depth, depth)
        if not self.makes_events:
            return
        definition = queue.definition
        if depth <= message_count:
            self._service_since_ms = now_ms
            if definition.qsvciev == _NEXT_HIGH:
                self._core.must_wake = True
        else:
            self.check_service(queue, now_ms)
        if definition.qdphiev and depth * 100 >= definition.qdepthhi * definition.maxdepth:
            definition.qdphiev, definition.qdploev, definition.qdpmaxev = _OFF, _ON, _ON
            self._emit(Q_DEPTH_HIGH, queue, now_ms)

    def note_removed(self, queue: LocalQueue, message_count: int, got_put_ms: int | None) -> None:
        """Count removals, by gets, discards or a clear; ``queue.depth`` lacks them already.

        ``got_put_ms`` is the put time of the last message that a program has got, None for other
        removals. Needs the engine lock.
        """
        now_ms, depth = now_ms_of(self._core), queue.depth
        self._removed_count += message_count
        if got_put_ms is not None:
            self.last_get_ms = now_ms
            self._note_time(max(0, now_ms - got_put_ms))
        if not self.makes_events:
            return
        definition = queue.definition
        self.check_service(queue, now_ms)
        since_ms = self._service_since_ms
        in_time = since_ms is not None and now_ms - since_ms <= definition.qsvcint
        was_good = in_time and definition.qsvciev == _NEXT_OK
        if was_good:
            definition.qsvciev = _NEXT_HIGH
            self._emit(SERVICE_OK, queue, now_ms)
        self._service_since_ms = now_ms if depth > 0 else None
        if depth > 0 and definition.qsvciev == _NEXT_HIGH and (was_good or since_ms is None):
            # Else the clock knows an earlier moment, and looks again then.
            self._core.must_wake = True
        if definition.qdploev and depth * 100 <= definition.qdepthlo * definition.maxdepth:
            definition.qdphiev, definition.qdploev, definition.qdpmaxev = _ON, _OFF, _ON
            self._emit(Q_DEPTH_LOW, queue, now_ms)

    def note_returned(self, queue: LocalQueue) -> None:
        """Note that messages are back on the queue, by a backout; needs the engine lock."""
        self._high_depth = max(self._high_depth, queue.depth)

    def note_full(self, queue: LocalQueue) -> None:
        """Note that a put was refused because the queue is full; needs the engine lock."""
        definition = queue.definition
        if self.makes_events and definition.qdpmaxev:
            definition.qdploev, definition.qdpmaxev = _ON, _OFF
            self._emit(Q_FULL, queue, self._core.now_ms())

    def check_service(self, queue: LocalQueue, now_ms: int) -> None:
        """Make a Queue Service Interval High event if :meth:`service_due_ms` is reached.

        That is when more than QSVCINT ms have passed since the service timer was started. The next
        event of the queue is then QSVCIEV OK. Needs the engine lock.
        """
        due_ms = self.service_due_ms(queue)
        if due_ms is not None and due_ms <= now_ms:
            queue.definition.qsvciev = _NEXT_OK
            self._emit(SERVICE_HIGH, queue, now_ms)

    def service_due_ms(self, queue: LocalQueue) -> int | None:
        """Return when a Queue Service Interval High event is due, in ms since 1970.

        None when such an event may not come, or the service timer is off.
        """
        since_ms, definition = self._service_since_ms, queue.definition
        if since_ms is None or definition.qsvciev != _NEXT_HIGH or not self.makes_events:
            return None
        return since_ms + definition.qsvcint + 1

    def reset(self, queue: LocalQueue, now_ms: int) -> StatisticsSinceReset:
        """Return the statistics since the last reset, and reset them; needs the engine lock."""
        past = StatisticsSinceReset(
            queue.name,
            max(0, now_ms - self._reset_ms) // 1_000,
            self._high_depth,
            self._put_count,
            self._removed_count,
        )
        self._put_count = self._removed_count = 0
        self._high_depth, self._reset_ms = queue.depth, now_ms
        return past

    def _emit(self, event: EventType, queue: LocalQueue, now_ms: int) -> None:
        """Put the message of an event with the statistics since the last one, and reset them."""
        past = self.reset(queue, now_ms)
        facts: dict[int, int | str | bytes] = {
            e.MQCA_BASE_Q_NAME: past.queue,
            e.MQIA_TIME_SINCE_RESET: past.seconds_since_reset,
            e.MQIA_HIGH_Q_DEPTH: past.high_depth,
            e.MQIA_MSG_ENQ_COUNT: past.put_count,
            e.MQIA_MSG_DEQ_COUNT: past.removed_count,
        }
        emit(self._core, event, facts)

    def _note_time(self, on_queue_ms: int) -> None:
        """Add the time that a got message has been on the queue to the means."""
        short, long = self.on_queue_ms or (on_queue_ms, on_queue_ms)
        self.on_queue_ms = (
            short + (on_queue_ms - short) / _SHORT_TERM,
            long + (on_queue_ms - long) / _LONG_TERM,
        )


class PerformanceEvents:
    """Which queues of one queue manager have statistics, and the service timers that run.

    Shared queues have none. Methods need the engine lock, but for :meth:`run`.
    """

    def __init__(self, core: Core) -> None:
        """Begin without queues; :meth:`watch` is called for each."""
        self._core = core
        #: Queues with QSVCIEV.
        self._serviced: set[LocalQueue] = set()

    def watch(self, queue: LocalQueue) -> None:
        """Give a queue statistics, or take them away, as its definition and PERFMEV say now."""
        manager, definition = self._core.registry.queue_manager, queue.definition
        makes_events = bool(manager.perfmev) and queue.name != PERFORMANCE.queue
        statistics = queue.statistics
        if not makes_events and not is_monitored(self._core, queue):
            queue.statistics = None
        elif statistics is None or statistics.makes_events != makes_events:
            queue.statistics = PerformanceStatistics(self._core, queue, makes_events=makes_events)
        self._serviced.discard(queue)
        if makes_events and definition.qsvciev != _NO_EVENT:
            self._serviced.add(queue)
            self._core.must_wake = True

    def forget(self, queue: LocalQueue) -> None:
        """Forget a queue that was deleted; an unknown one is no error."""
        self._serviced.discard(queue)
        queue.statistics = None

    def changed(self, definition: Definition, before: Mapping[str, Value]) -> None:
        """Follow a changed definition; ``before`` has the old values by keyword."""
        registry = self._core.registry
        if definition.kind == QLOCAL:
            queue = registry.by_name(definition.name)
            if queue is not None:
                self.watch(queue)
        elif definition.kind == QMGR:
            after = definition.attributes
            if any(before.get(each) != after[each] for each in ("PERFMEV", "MONQ")):
                for queue in registry.queues():
                    self.watch(queue)

    def next_due_ms(self) -> int | None:
        """Return when the next Queue Service Interval High event is due, in ms since 1970.

        None when none is due at any time.
        """
        due = [
            queue.statistics.service_due_ms(queue)
            for queue in self._serviced
            if queue.statistics is not None
        ]
        return min((each for each in due if each is not None), default=None)

    def run(self) -> None:
        """Make the Queue Service Interval High events that are due; takes the engine lock."""
        core = self._core
        if not self._serviced:
            return
        with core.engine_lock:
            now_ms = core.now_ms()
            for queue in sorted(self._serviced, key=attrgetter("number")):
                if queue.statistics is not None:
                    queue.statistics.check_service(queue, now_ms)
        core.committer.run_deferred()


def is_monitored(core: Core, queue: LocalQueue) -> bool:
    """Return True if MONQ, of the queue or else of the queue manager, asks for the times of verbs.

    MONQ(NONE) of the queue manager switches it off for all queues.
    """
    of_manager, monq = core.registry.queue_manager.monq, queue.definition.monq
    return of_manager >= 0 and (of_manager if monq == _AS_MANAGER else monq) > 0


def reset_statistics(core: Core, name: str) -> StatisticsSinceReset:
    """Return the statistics of a local queue, and begin anew (RESET QSTATS).

    Raises MQRCCF_EVENTS_DISABLED without PERFMEV, for a shared queue, and for the queue of these
    events, which have none; and MQRC_UNKNOWN_OBJECT_NAME.
    """
    with core.engine_lock:
        queue = core.registry.queue(name)
        statistics = queue.statistics
        if statistics is None or not statistics.makes_events:
            text = f"{name} has no statistics: PERFMEV is DISABLED, or the queue makes no events"
            raise mq_error(MQRCCF_EVENTS_DISABLED, text)
        return statistics.reset(queue, core.now_ms())
