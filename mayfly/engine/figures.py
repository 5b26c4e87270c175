"""Figures (statistics) of a queue manager, once or live: queues, lateness, disk, ledger."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from mayfly.engine.counting import counts_with, expired_by_queue
from mayfly.engine.engine import Engine
from mayfly.engine.expiry import ExpiryScan, scan_interval_ms
from mayfly.engine.objects.views import oldest_put_ms
from mayfly.engine.queues import NO_LATENESS, LatenessCounts, LatenessSum, LocalQueue
from mayfly.lifetime.life import State
from mayfly.mqi.constants import MQQDT_PREDEFINED
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.errors import ObjectError
from mayfly.store.ledger_writer import Totals
from mayfly.verbs.facts import Counts

#: Queues looked at in one turn of the lock.
_STEP: Final = 500
#: Up to this number, expired messages are counted at each look; twice as many at each second one.
EXPIRED_A_LOOK: Final = 50_000
#: The name in a flow of messages that were put, beside the words of outcomes.
PUT: Final = "put"


class QueueFigures(NamedTuple):
    """Statistics of one local queue, or the sum of several.

    ``depth`` is CURDEPTH. ``present`` counts messages by state, None where they were not counted.
    ``oldest_put_ms`` is when the oldest message was put; None without a message, or for several
    queues. ``puts`` and ``ended`` (by outcome) count from the definition of the queue on, over
    restarts. ``release_lateness`` is that of delayed messages that were released for the queue,
    ``expiry_lateness`` that of expired ones discarded there, both since the opening.
    """

    depth: int
    present: Counts | None
    oldest_put_ms: int | None
    input_count: int
    output_count: int
    puts: int
    ended: Mapping[str, int]
    release_lateness: LatenessSum = NO_LATENESS
    expiry_lateness: LatenessSum = NO_LATENESS


class Figures(NamedTuple):
    """Statistics of a queue manager; counts run from its opening, positions are of the ledger.

    The ledger is the record of ended messages. ``others`` sums the queues without a separate entry.
    ``next_due_ms`` is the earliest delivery time on the staging queue, None without one; it may be
    too early until the delay processor has searched. ``ledger_asked`` is the position after which a
    reader last requested rows, None without one.
    """

    now_ms: int
    queues: Mapping[str, QueueFigures]
    others: QueueFigures
    next_due_ms: int | None
    is_releasing: bool
    release_lateness: LatenessCounts
    expiry_lateness: LatenessCounts
    ledger_first: int
    ledger_last: int
    ledger_asked: int | None
    transaction_count: int
    unit_count: int
    log_pages: int
    is_disk_full: bool

    def oldest_age_ms(self, one: QueueFigures) -> int | None:
        """Return the age in ms of the oldest message of a queue; None without a message."""
        return None if one.oldest_put_ms is None else max(0, self.now_ms - one.oldest_put_ms)


def figures(
    engine: Engine, max_queues: int, only: str | None = None, *, after: str = ""
) -> Figures:
    """Return the statistics of a queue manager; raises MQRC_CONNECTION_BROKEN when it has stopped.

    The first ``max_queues`` predefined queues whose names sort after ``after`` have a separate
    entry; dynamic queues have none, as their names change without end. With ``only`` the local
    queue of that name alone has an entry, also a dynamic one. All other queues are summed up in
    ``others``. Expired messages are counted at ``Figures.now_ms``.
    """
    engine.check_running()
    with engine.engine_lock:
        queues = sorted(engine.registry.queues(), key=lambda queue: queue.name)
        totals = totals_of(engine, queues)
        due_ms, now_ms = engine.staging.due_ms, engine.now_ms()
        why_stopped = engine.delay_processor.why_stopped()
        released, expired = engine.release_lateness.counts(), engine.expiry_lateness.counts()
    expired_counts = expired_by_queue(engine, now_ms)
    named, rest = dict[str, QueueFigures](), []
    for queue in queues:
        row = _counters_of(queue, totals.get(queue.number), None)
        is_static = queue.definition.definition_type == MQQDT_PREDEFINED
        has_entry = is_static if only is None else queue.name == only
        if queue.name > after and has_entry and len(named) < max_queues:
            named[queue.name] = _with_counts(engine, queue.name, row, expired_counts)
        else:
            rest.append(row)
    store = engine.store
    return Figures(
        now_ms,
        named,
        summed(rest)._replace(present=None),
        due_ms,
        not why_stopped,
        released,
        expired,
        store.ledger.first_position(),
        store.ledger_writer.last_position,
        store.ledger.asked_position,
        store.group.batch_count,
        store.group.unit_count,
        store.wal_pages,
        store.is_full,
    )


def totals_of(engine: Engine, queues: list[LocalQueue]) -> dict[int, Totals]:
    """Return puts and ends of queues by queue number; needs the engine lock.

    Waits, with the lock released, until the ledger of ended messages has settled. A queue without
    totals is missing in the result.
    """
    stores = [engine.store, *{queue.owner.store for queue in queues} - {engine.store}]
    engine.engine_lock.wait_while(lambda: any(store.settled_totals() is None for store in stores))
    found: dict[int, Totals] = {}
    for store in stores:
        found |= store.settled_totals() or {}
    return found


def _counters_of(queue: LocalQueue, totals: Totals | None, present: Counts | None) -> QueueFigures:
    """Return the statistics of a queue from its counters; ``oldest_put_ms`` is None.

    ``totals`` are its puts and ends so far, None without any. ``present`` are its messages by
    state, None when they are not counted.
    """
    puts, ended = (0, {}) if totals is None else (totals.puts, totals.ended)
    inputs, outputs = queue.input_count, queue.output_count
    late = queue.release_lateness, queue.expiry_lateness
    return QueueFigures(queue.depth, present, None, inputs, outputs, puts, ended, *late)


def _with_counts(
    engine: Engine, name: str, row: QueueFigures, expired: Mapping[int, int]
) -> QueueFigures:
    """Return ``row`` with message counts and oldest put time.

    ``expired`` is the number of expired messages by queue number. Returns ``row`` unchanged if the
    queue was deleted.
    """
    with contextlib.suppress(ObjectError), engine.engine_lock:
        queue = engine.registry.queue(name)
        present = counts_with(queue, expired.get(queue.number, 0))
        oldest_ms = oldest_put_ms(engine, queue)
        return row._replace(depth=queue.depth, present=present, oldest_put_ms=oldest_ms)
    return row


def summed(each: Iterable[QueueFigures]) -> QueueFigures:
    """Return the sum of the statistics of several queues; ``oldest_put_ms`` is None.

    A queue whose ``present`` is None adds nothing to the sum of ``present``.
    """
    depth = inputs = outputs = puts = 0
    present, ended = [0] * len(Counts._fields), Counter[str]()
    late = [(0, 0), (0, 0)]
    for one in each:
        depth, puts = depth + one.depth, puts + one.puts
        inputs, outputs = inputs + one.input_count, outputs + one.output_count
        if one.present is not None:
            present = [a + b for a, b in zip(present, one.present, strict=True)]
        ended.update(one.ended)
        of_one = one.release_lateness, one.expiry_lateness
        late = [(a + c, b + d) for (a, b), (c, d) in zip(late, of_one, strict=True)]
    released, discarded = (LatenessSum(*one) for one in late)
    counts = Counts(*present)
    return QueueFigures(depth, counts, None, inputs, outputs, puts, ended, released, discarded)


# Live statistics. Counters are read at each look; messages of a queue only when its counters have
# changed. Deadlines pass without a change, and the cost of counting expired messages grows with
# their number: the more there are, the more rarely they are counted.


class LiveFigures(NamedTuple):
    """Statistics of a queue manager from one call of ``Watch.look``.

    Other fields are as in Figures.
    ``queues`` are those with the most messages, ``others`` sums the rest. ``present`` counts each
    message once: a delayed one as staged; if it has expired, also as expired. ``expired_as_of_ms``
    is when expired messages were counted. ``first_expired_ms`` is the earliest deadline of those
    that an expiry scan could discard, None without any; ``scan_interval_ms`` is EXPRYINT, None for
    OFF. ``in_transit_count`` counts messages on transmission queues. ``flow`` counts messages since
    the watch began, under PUT and by outcome; a released or dead-lettered message moves on and
    counts as one put.
    """

    now_ms: int
    queues: Mapping[str, QueueFigures]
    others: QueueFigures
    queue_count: int
    present: Counts
    expired_as_of_ms: int
    first_expired_ms: int | None
    scan_interval_ms: int | None
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
    """Repeated statistics of one queue manager; one thread uses it at a time.

    It remembers the last call to count the messages put and ended since, and to read less.
    """

    def __init__(self, engine: Engine, max_queues: int) -> None:
        """Begin a watch in which up to ``max_queues`` queues have a separate entry."""
        self._engine, self._max_queues = engine, max_queues
        self._expired: Mapping[int, int] = {}
        self._expired_at_ms = 0
        self._looks_to_count = 0
        #: By number: name, puts and ends of each queue when it was last looked at.
        self._seen: dict[int, tuple[str, int, Mapping[str, int]]] = {}
        self._flow: Counter[str] | None = None
        #: By name: the queues that had an entry.
        self._entries: dict[str, QueueFigures] = {}

    def look(self) -> LiveFigures:
        """Return the statistics now.

        Raises MQRC_CONNECTION_BROKEN when the queue manager has stopped.
        """
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
        return self._live_figures(_present(each), rest)

    def _live_figures(self, present: Counts, rest: Sequence[QueueFigures]) -> LiveFigures:
        """Return the result of :meth:`look`.

        ``present`` are the messages of all queues by state, ``rest`` the queues without a separate
        entry.
        """
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
            first_ms = ExpiryScan(engine).first_deadline_ms(now_ms)
        return LiveFigures(
            now_ms,
            self._entries,
            summed(rest),
            len(self._entries) + len(rest),
            present._replace(staged=staged),
            self._expired_at_ms,
            first_ms if first_ms is not None and first_ms <= now_ms else None,
            scan_interval_ms(engine),
            in_transit,
            0 if dead is None else dead.depth,
            due_ms,
            not why_stopped,
            released,
            expired,
            dict(self._flow or {}),
            store.ledger.first_position(),
            store.ledger_writer.last_position,
            connections,
            store.is_full,
        )

    def _each(
        self, queues: Sequence[LocalQueue], totals: Mapping[int, Totals]
    ) -> dict[str, QueueFigures]:
        """Return the statistics of all queues by name; ``oldest_put_ms`` is None."""
        found: dict[str, QueueFigures] = {}
        for start in range(0, len(queues), _STEP):
            with self._engine.engine_lock:
                for queue in queues[start : start + _STEP]:
                    expired, total = self._expired.get(queue.number, 0), totals.get(queue.number)
                    present = counts_with(queue, expired)
                    found[queue.name] = _counters_of(queue, total, present)
        return found

    def _chosen(self, each: Mapping[str, QueueFigures]) -> list[str]:
        """Return the names, sorted, of the ``max_queues`` queues with the most messages.

        At equal number, a queue that had an entry in the last call comes first.
        """
        if len(each) <= self._max_queues:
            return sorted(each)
        ranks = ((-_size(one), name not in self._entries, name) for name, one in each.items())
        return sorted(map(itemgetter(2), sorted(ranks)[: self._max_queues]))

    def _with_oldest(self, name: str, one: QueueFigures) -> QueueFigures:
        """Return the statistics with the put time of the oldest message.

        The time is read again only when the counters have changed; None for an empty queue.
        """
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
        """Count expired messages by queue; after a high count, some calls use the last count."""
        if self._looks_to_count:
            self._looks_to_count -= 1
            return
        self._expired_at_ms = self._engine.now_ms()
        self._expired = counted = expired_by_queue(self._engine, self._expired_at_ms)
        self._looks_to_count = counted.total() // EXPIRED_A_LOOK

    def _add_flow(self, queues: Sequence[LocalQueue], totals: Mapping[int, Totals]) -> None:
        """Add the messages put and ended since the last call to the flow of the watch.

        The first call only remembers the totals.
        """
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


def _present(each: Mapping[str, QueueFigures]) -> Counts:
    """Return the message counts summed over all queues; delayed messages do not count as live."""
    present, staging = summed(each.values()).present, each.get(STAGING_QUEUE)
    assert present is not None
    if staging is None or staging.present is None:
        return present
    return present._replace(live=present.live - staging.present.live)


def _size(one: QueueFigures) -> int:
    """Return how many messages a queue has: depth, delayed ones for it, and locked ones."""
    assert one.present is not None
    return one.depth + one.present.staged + one.present.locked
