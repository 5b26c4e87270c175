"""The figures of a queue manager from moment to moment, for those who watch it live.

Counters are looked at each time. Messages of a queue are looked at again when its counters have
changed. Deadlines pass without any change: a count of expired messages costs as much as there are,
so it is made the less often, the more there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from mayfly.engine.counting import counts_with, expired_by_queue
from mayfly.engine.engine import Engine
from mayfly.engine.figures import totals_of
from mayfly.engine.lateness import LatenessCounts
from mayfly.engine.objects.views import oldest_put_ms
from mayfly.engine.queues import LocalQueue
from mayfly.lifetime.life import State
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.store.book import Totals
from mayfly.verbs.facts import Counts

#: Queues looked at in one turn of the lock.
_STEP: Final = 500
#: So many expired messages are counted at each look; twice as many at each second one.
_EXPIRED_A_LOOK: Final = 50_000
#: The name in a flow of messages that were put, beside the words of outcomes.
PUT: Final = "put"


class LiveQueue(NamedTuple):
    """One local queue, or several together; fields as of ``QueueFigures``.

    ``oldest_put_ms`` is when the oldest message was put, None without one or for several queues.
    """

    depth: int
    present: Counts
    oldest_put_ms: int | None
    input_count: int
    output_count: int
    puts: int
    ended: Mapping[str, int]


class LiveFigures(NamedTuple):
    """A queue manager; fields that ``Figures`` has as well mean the same.

    ``queues`` are those with the most messages, by name, and ``others`` all the rest. ``present``
    counts the messages of all queues once: delayed ones are staged, and not live on the staging
    queue; those of them that have expired are both. ``expired_as_of_ms`` is
    when expired messages were counted. ``in_transit_count`` are messages on transmission queues.
    ``flow`` counts messages since the watch began: PUT, and by the outcomes of lives. A message
    that is released, or dead-lettered, goes on to another queue: it was put once.
    """

    now_ms: int
    queues: Mapping[str, LiveQueue]
    others: LiveQueue
    queue_count: int
    present: Counts
    expired_as_of_ms: int
    in_transit_count: int
    dead_letter_count: int
    next_due_ms: int | None
    is_releasing: bool
    release_lateness: LatenessCounts
    expiry_lateness: LatenessCounts
    flow: Mapping[str, int]
    ledger_first: int
    ledger_last: int
    connection_count: int
    is_disk_full: bool


class Watch:
    """Looks at one queue manager again and again; one thread at a time."""

    def __init__(self, engine: Engine, most_queues: int) -> None:
        """Begin; so many queues have an entry of their own."""
        self._engine, self._most_queues = engine, most_queues
        self._expired: Mapping[int, int] = {}
        self._expired_at_ms = 0
        self._looks_to_count = 0
        #: By number: name, puts and ends of each queue when it was last looked at.
        self._seen: dict[int, tuple[str, int, Mapping[str, int]]] = {}
        self._flow: Counter[str] | None = None
        #: By name: the queues that had an entry.
        self._entries: dict[str, LiveQueue] = {}

    def look(self) -> LiveFigures:
        """Return the figures now; raises MQRC_CONNECTION_BROKEN when it has stopped."""
        engine = self._engine
        engine.check_running()
        with engine.engine_lock:
            queues = engine.registry.queues()
            totals = totals_of(engine, queues)
        self._count_expired()
        each = self._each(queues, totals)
        self._add_flow(queues, totals)
        chosen = self._chosen(each)
        self._entries = {name: self._with_oldest(name, each[name]) for name in chosen}
        rest = [one for name, one in each.items() if name not in self._entries]
        return self._told(_present(each), rest)

    def _told(self, present: Counts, rest: Sequence[LiveQueue]) -> LiveFigures:
        engine, store = self._engine, self._engine.store
        with engine.engine_lock:
            registry = engine.registry
            staging, dead = registry.staging(), registry.by_name(registry.queue_manager.deadq)
            staged = 0 if staging is None else staging.depth + engine.staging.releasing.count
            released, expired = engine.release_lateness.counts(), engine.expiry_lateness.counts()
            in_transit = sum(queue.depth for queue in registry.queues() if queue.transmits)
            due_ms, why_stopped = engine.staging.due_ms, engine.delay_processor.why_stopped()
            connections = sum(session.is_open for session in list(engine.sessions))
            now_ms = engine.now_ms()
        return LiveFigures(
            now_ms,
            self._entries,
            together(rest),
            len(self._entries) + len(rest),
            present._replace(staged=staged),
            self._expired_at_ms,
            in_transit,
            0 if dead is None else dead.depth,
            due_ms,
            not why_stopped,
            released,
            expired,
            dict(self._flow or {}),
            store.ledger.first_position(),
            store.book.last_position,
            connections,
            store.is_full,
        )

    def _each(
        self, queues: Sequence[LocalQueue], totals: Mapping[int, Totals]
    ) -> dict[str, LiveQueue]:
        """Return all queues as they are now, without the ages of their messages."""
        found: dict[str, LiveQueue] = {}
        for start in range(0, len(queues), _STEP):
            with self._engine.engine_lock:
                for queue in queues[start : start + _STEP]:
                    expired, total = self._expired.get(queue.number, 0), totals.get(queue.number)
                    found[queue.name] = LiveQueue(
                        queue.depth,
                        counts_with(queue, expired),
                        None,
                        queue.input_count,
                        queue.output_count,
                        0 if total is None else total.puts,
                        {} if total is None else total.ended,
                    )
        return found

    def _chosen(self, each: Mapping[str, LiveQueue]) -> list[str]:
        """Return the names of the queues with the most messages, those of before first."""
        if len(each) <= self._most_queues:
            return sorted(each)
        ranks = ((-_size(one), name not in self._entries, name) for name, one in each.items())
        return sorted(map(itemgetter(2), sorted(ranks)[: self._most_queues]))

    def _with_oldest(self, name: str, one: LiveQueue) -> LiveQueue:
        """Add when the oldest message was put; nothing has changed that where counts are equal."""
        if not one.depth:
            return one
        known = self._entries.get(name)
        if known is not None and known._replace(oldest_put_ms=None) == one:
            return known
        engine = self._engine
        with engine.engine_lock:
            # It may have been deleted meanwhile.
            queue = engine.registry.by_name(name)
            oldest_ms = None if queue is None else oldest_put_ms(engine, queue)
        return one._replace(oldest_put_ms=oldest_ms)

    def _count_expired(self) -> None:
        """Count expired messages by queue, where it is time to."""
        if self._looks_to_count:
            self._looks_to_count -= 1
            return
        self._expired_at_ms = self._engine.now_ms()
        self._expired = counted = expired_by_queue(self._engine, self._expired_at_ms)
        self._looks_to_count = counted.total() // _EXPIRED_A_LOOK

    def _add_flow(self, queues: Sequence[LocalQueue], totals: Mapping[int, Totals]) -> None:
        """Add what has been put, and what has ended, since the last look."""
        flow, seen = Counter[str](), dict[int, tuple[str, int, Mapping[str, int]]]()
        for queue in queues:
            total = totals.get(queue.number)
            if total is None:
                continue
            name, puts, ended = self._seen.get(queue.number, ("", 0, dict[str, int]()))
            if name != queue.name or puts > total.puts:
                # Another queue has the number by now.
                puts, ended = 0, {}
            seen[queue.number] = queue.name, total.puts, total.ended
            if total.puts != puts or total.ended is not ended:
                flow[PUT] += total.puts - puts
                flow.update({code: n - ended.get(code, 0) for code, n in total.ended.items()})
        flow[PUT] -= flow[State.RELEASED] + flow[State.DEAD_LETTERED]
        self._seen = seen
        if self._flow is None:
            # The flow begins with the watch.
            flow.clear()
            self._flow = flow
        else:
            self._flow.update(flow)


def together(each: Iterable[LiveQueue]) -> LiveQueue:
    """Return several queues summed up."""
    depth = inputs = outputs = puts = 0
    present, ended = [0] * len(Counts._fields), Counter[str]()
    for one in each:
        depth, puts = depth + one.depth, puts + one.puts
        inputs, outputs = inputs + one.input_count, outputs + one.output_count
        present = [a + b for a, b in zip(present, one.present, strict=True)]
        ended.update(one.ended)
    return LiveQueue(depth, Counts(*present), None, inputs, outputs, puts, ended)


def _present(each: Mapping[str, LiveQueue]) -> Counts:
    """Return where all messages stand; those that are delayed are no live ones."""
    present = together(each.values()).present
    staging = each.get(STAGING_QUEUE)
    return (
        present if staging is None else present._replace(live=present.live - staging.present.live)
    )


def _size(one: LiveQueue) -> int:
    return one.depth + one.present.staged + one.present.locked
