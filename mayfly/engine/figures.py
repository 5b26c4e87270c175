"""The figures of a queue manager for those who watch it: of queues, lateness, disk and ledger."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from mayfly.engine.counting import counts_with, expired_by_queue
from mayfly.engine.engine import Engine
from mayfly.engine.lateness import LatenessCounts
from mayfly.engine.objects.views import oldest_put_ms
from mayfly.engine.queues import LocalQueue
from mayfly.mqi.constants import MQQDT_PREDEFINED
from mayfly.mqi.errors import ObjectError
from mayfly.store.book import Totals


class QueueFigures(NamedTuple):
    """One local queue, or several together.

    ``present`` counts messages by where they stand, as in ``Counts``; None where nobody counted.
    ``depth`` is CURDEPTH, ``oldest_age_ms`` the age of the oldest message, None without one.
    ``puts`` and ``ended`` (by outcome) run from the definition of the queue, over restarts.
    """

    depth: int
    present: Mapping[str, int] | None
    oldest_age_ms: int | None
    input_count: int
    output_count: int
    puts: int
    ended: Mapping[str, int]


class Figures(NamedTuple):
    """A queue manager. Positions are those of the ledger; counts run from its opening.

    ``next_due_ms`` is the earliest delivery time on the staging queue, None without one; it may be
    earlier than the truth until the processor has looked. ``ledger_asked`` is the position behind
    which a reader has asked for rows, None without one. ``others`` are the queues that have no
    entry of their own.
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


def figures(
    engine: Engine, most_queues: int, only: str | None = None, *, after: str = ""
) -> Figures:
    """Return the figures of a queue manager; raises MQRC_CONNECTION_BROKEN when it has stopped.

    So many predefined queues have an entry, the first ones by name behind ``after``. Dynamic queues
    have none: their names come and go without end. With ``only`` the local queue of that name has
    an entry, of whatever type. The lock is taken for each queue alone. Expired messages are counted
    once for all queues, at ``now_ms``.
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
        summary = _summary(queue, totals.get(queue.number))
        if queue.name > after and _has_entry(queue, only) and len(named) < most_queues:
            named[queue.name] = _counted(engine, queue.name, summary, expired_counts)
        else:
            rest.append(summary)
    store = engine.store
    return Figures(
        now_ms,
        named,
        _together(rest),
        due_ms,
        not why_stopped,
        released,
        expired,
        store.ledger.first_position(),
        store.book.last_position,
        store.ledger.asked_position,
        store.group.batch_count,
        store.group.unit_count,
        store.wal_pages,
        store.is_full,
    )


def _has_entry(queue: LocalQueue, only: str | None) -> bool:
    if only is None:
        return queue.definition.definition_type == MQQDT_PREDEFINED
    return queue.name == only


def totals_of(engine: Engine, queues: list[LocalQueue]) -> dict[int, Totals]:
    """Return the totals of queues by number; their counts never fall from one call to the next."""
    stores = [engine.store, *{queue.home.store for queue in queues} - {engine.store}]
    engine.engine_lock.wait_while(lambda: any(store.settled_totals() is None for store in stores))
    found: dict[int, Totals] = {}
    for store in stores:
        found |= store.settled_totals() or {}
    return found


def _summary(queue: LocalQueue, totals: Totals | None) -> QueueFigures:
    """Return what costs nothing to know of a queue."""
    puts, ended = (0, {}) if totals is None else (totals.puts, totals.ended)
    inputs, outputs = queue.input_count, queue.output_count
    return QueueFigures(queue.depth, None, None, inputs, outputs, puts, ended)


def _counted(
    engine: Engine, name: str, summary: QueueFigures, expired: Mapping[int, int]
) -> QueueFigures:
    """Add what messages of a queue have to be looked at for; nothing to one deleted meanwhile."""
    with contextlib.suppress(ObjectError), engine.engine_lock:
        queue = engine.registry.queue(name)
        counted = counts_with(queue, expired.get(queue.number, 0))._asdict()
        oldest_ms = oldest_put_ms(engine, queue)
        age_ms = None if oldest_ms is None else max(0, engine.now_ms() - oldest_ms)
        return summary._replace(depth=queue.depth, present=counted, oldest_age_ms=age_ms)
    return summary


def _together(each: list[QueueFigures]) -> QueueFigures:
    ended: Counter[str] = Counter()
    for one in each:
        ended.update(one.ended)
    return QueueFigures(
        sum(one.depth for one in each),
        None,
        None,
        sum(one.input_count for one in each),
        sum(one.output_count for one in each),
        sum(one.puts for one in each),
        ended,
    )
