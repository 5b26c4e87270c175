"""Arrivals of messages on one queue: when they became available; gaps, rate and bursts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.lifetime.columns import NONE, Ints, windows_at_put
from mayfly.pipeline.advise.settings import AdviseError
from mayfly.pipeline.replay.kernel import NEVER_MS
from mayfly.pipeline.replay.trace import PRIORITY_MAX, arranged, numbers

HOUR_MS = 3_600_000
_LISTED_QUEUES = 10


class QueueArrivals(NamedTuple):
    """The messages of one queue, in the order in which they became available for a get.

    ``expire_at_ms`` is NEVER_MS without a deadline. Of several waiting messages the one with the
    lowest ``rank`` is taken first: higher priority, then earlier arrival, as MSGDLVSQ(PRIORITY).
    """

    queue: str
    available_ms: Ints
    expire_at_ms: Ints
    rank: Ints

    @property
    def span_ms(self) -> int:
        """The time in ms from the first arrival to the last."""
        return int(self.available_ms[-1] - self.available_ms[0])


class ArrivalSummary(NamedTuple):
    """The arrivals in numbers; gaps are the times between one message and the next.

    ``gap_variation`` is their standard deviation divided by their mean: 0 for regular arrivals, 1
    for independent ones (Poisson), more for bursts. Arrivals all in one millisecond have no gaps:
    None.
    """

    queue: str
    messages: int
    first_ms: int
    last_ms: int
    per_hour: float | None = None
    gap_mean_ms: float | None = None
    gap_p50_ms: float | None = None
    gap_p95_ms: float | None = None
    gap_p99_ms: float | None = None
    gap_max_ms: float | None = None
    gap_variation: float | None = None


def arrivals_of(trace: pa.Table, queue: str | None = None) -> QueueArrivals:
    """Return the arrivals on a queue of a trace: a table with a row for each recorded message.

    ``queue`` None is the trace's only queue. A delayed message arrives at its delivery time; one
    whose put would be refused is left out. Raises AdviseError when nothing arrives, when the trace
    does not have ``queue``, and for None when it has several queues.
    """
    in_order = arranged(trace)
    chosen = _chosen_queue(in_order.queues, queue)
    place = in_order.queues.index(chosen)
    rows = in_order.rows.slice(
        in_order.bounds[place], in_order.bounds[place + 1] - in_order.bounds[place]
    )
    windows = windows_at_put(
        numbers(rows["put_ms"]),
        numbers(rows["life_ms"]),
        numbers(pc.fill_null(rows["delay_ms"], 0)),
    )
    kept = ~windows.refused
    if not kept.any():
        raise AdviseError(f"every put to queue {chosen!r} would be refused: nothing arrives")
    priority = numbers(pc.fill_null(rows["priority"], 0))[kept]
    available_ms, expire_at_ms = windows.deliver_at_ms[kept], windows.expire_at_ms[kept]
    order = np.argsort(available_ms, kind="stable")
    return QueueArrivals(
        chosen,
        available_ms[order],
        np.where(expire_at_ms == NONE, NEVER_MS, expire_at_ms)[order],
        _ranks(PRIORITY_MAX - priority[order]),
    )


def summary_of(arrivals: QueueArrivals) -> ArrivalSummary:
    """Return the arrivals in numbers; times and rates are None if all came in one millisecond."""
    available_ms = arrivals.available_ms
    first_ms, last_ms = int(available_ms[0]), int(available_ms[-1])
    head = (arrivals.queue, len(available_ms), first_ms, last_ms)
    gaps_ms = np.diff(available_ms)
    if not arrivals.span_ms:
        return ArrivalSummary(*head)
    mean_ms = float(gaps_ms.mean())
    p50_ms, p95_ms, p99_ms = (float(np.percentile(gaps_ms, rank)) for rank in (50, 95, 99))
    return ArrivalSummary(
        *head,
        per_hour=HOUR_MS / mean_ms,
        gap_mean_ms=mean_ms,
        gap_p50_ms=p50_ms,
        gap_p95_ms=p95_ms,
        gap_p99_ms=p99_ms,
        gap_max_ms=float(gaps_ms.max()),
        gap_variation=float(gaps_ms.std()) / mean_ms,
    )


def _chosen_queue(queues: list[str], queue: str | None) -> str:
    """Return ``queue``, or for None the only queue.

    Raises AdviseError if ``queue`` is unknown, if there are several, or none at all.
    """
    if not queues:
        raise AdviseError("there is no message in it")
    known = ", ".join(queues[:_LISTED_QUEUES])
    if queue is None and len(queues) > 1:
        raise AdviseError(f"there are {len(queues)} queues: name one of {known}")
    if queue is not None and queue not in queues:
        raise AdviseError(f"there is no message on queue {queue!r}; it has {known}")
    return queues[0] if queue is None else queue


def _ranks(level: Ints) -> Ints:
    """Return for each message its place, from 0, in the order in which messages are received.

    A lower ``level`` (the highest priority is 0) comes first; equal levels keep their order.
    """
    ranks = np.empty(len(level), dtype=np.int64)
    ranks[np.argsort(level, kind="stable")] = np.arange(len(level))
    return ranks
