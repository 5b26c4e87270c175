"""Compares two replays of a trace: how their messages end, by queue and by message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.lifetime.columns import NONE, Ints, Mask, ints
from mayfly.pipeline.errors import ReplayError
from mayfly.pipeline.replay.run import EXPIRED, GOT, LEFT, OUTCOME_SCHEMA, REFUSED, outcomes_of
from mayfly.pipeline.replay.settings import AS_IT_WAS, Settings, WhatIf, settings_of
from mayfly.pipeline.replay.trace import Trace, arranged

#: By default, a message that waited longer than a minute for its get is late.
LATE_AFTER_MS = 60_000

#: One row a queue. ``late`` counts messages got later than the limit after their delivery;
#: ``waited_*_ms`` are percentiles of delivery to get, as ``mayfly ledger report`` has them, null
#: when none was got. ``depth_max`` counts delivered messages, at their deliveries. A receive is
#: empty when its wait is over; ``receives_waited_ms`` is what all have waited. ``as_recorded``
#: counts the messages that end as the trace has recorded, null when it has not.
BY_QUEUE_SCHEMA = pa.schema(
    [
        pa.field("queue", pa.string(), nullable=False),
        *(
            pa.field(name, pa.int64(), nullable=False)
            for name in ("messages", "got", "expired", "refused", "left", "late")
        ),
        *(pa.field(f"waited_p{p}_ms", pa.float64()) for p in (50, 95, 99)),
        pa.field("waited_max_ms", pa.int64()),
        pa.field("depth_max", pa.int64(), nullable=False),
        pa.field("receives_empty", pa.int64(), nullable=False),
        pa.field("receives_waited_ms", pa.int64(), nullable=False),
        pa.field("as_recorded", pa.int64()),
    ]
)
_KEPT = ("queue", "seq", "correl_id", "put_ms", "outcome", "ended_ms")
_NEW = ("outcome", "ended_ms")
#: One row for each message that ends otherwise.
CHANGED_SCHEMA = pa.schema(
    [
        *(OUTCOME_SCHEMA.field(name) for name in _KEPT),
        *(OUTCOME_SCHEMA.field(name).with_name(f"new_{name}") for name in _NEW),
    ]
)


class Comparison(NamedTuple):
    """The queues before and after (BY_QUEUE_SCHEMA), and the messages that end differently."""

    before: pa.Table
    after: pa.Table
    changed: pa.Table


def compare(
    trace: pa.Table,
    what_if: Settings,
    *,
    before: Settings = AS_IT_WAS,
    late_after_ms: int = LATE_AFTER_MS,
) -> Comparison:
    """Replay a trace with two settings, ``before`` and ``what_if``, and return the differences.

    A trace is a table with a row for each recorded message; a replay decides again how each ends. A
    message got more than ``late_after_ms`` after its delivery time counts as late. Raises
    ReplayError for an invalid trace or setting.
    """
    in_order = arranged(trace)
    first, second = outcomes_of(in_order, before), outcomes_of(in_order, what_if)
    return Comparison(
        by_queue(in_order, first, before, late_after_ms=late_after_ms),
        by_queue(in_order, second, what_if, late_after_ms=late_after_ms),
        changed(first, second),
    )


def changed(before: pa.Table, after: pa.Table) -> pa.Table:
    """Return the messages that end differently in the second of two replays of a trace.

    Both tables are outcomes of the same messages, in order. Columns ``outcome`` and ``ended_ms``
    are those of the first, ``new_outcome`` and ``new_ended_ms`` those of the second. Raises
    ReplayError when the messages differ.
    """
    for name in ("queue", "seq"):
        if before[name].combine_chunks() != after[name].combine_chunks():
            raise ReplayError(f"the two replays differ in {name}: not the same trace in one order")
    parted = ints(before["ended_ms"]) != ints(after["ended_ms"])
    parted |= np.asarray(pc.not_equal(before["outcome"], after["outcome"]))
    mask = pa.array(parted)
    columns = [before[name].filter(mask) for name in _KEPT]
    columns += [after[name].filter(mask) for name in _NEW]
    return pa.table(columns, schema=CHANGED_SCHEMA)


def turned(messages: pa.Table) -> dict[tuple[str, str], int]:
    """Return the number of changed messages for each (outcome before, outcome after).

    ``messages`` are those of `changed`. The highest number comes first.
    """
    pairs = messages.group_by(["outcome", "new_outcome"]).aggregate([([], "count_all")])
    rows = pairs.sort_by([("count_all", "descending"), ("outcome", "ascending")]).to_pylist()
    return {(row["outcome"], row["new_outcome"]): row["count_all"] for row in rows}


def by_queue(
    trace: Trace,
    outcomes: pa.Table,
    what_if: Settings = AS_IT_WAS,
    *,
    late_after_ms: int = LATE_AFTER_MS,
) -> pa.Table:
    """Return counts, waits and depth of each queue after a replay (BY_QUEUE_SCHEMA), by name.

    ``outcomes`` are the result of the replay of this trace with these settings. A message got later
    than ``late_after_ms`` after its delivery time counts as late. Raises ReplayError for a negative
    limit.
    """
    if late_after_ms < 0:
        raise ReplayError(f"late_after_ms is {late_after_ms}: a limit is not negative")
    ends = _Ends.of(trace, outcomes)
    rows = [
        ends.of_queue(queue, part, settings_of(what_if, queue), late_after_ms)
        for queue, part in _parts(trace)
    ]
    return pa.Table.from_pylist(rows, schema=BY_QUEUE_SCHEMA)


class _Ends(NamedTuple):
    """How the messages of a trace ended, as one array for each column."""

    outcome: Any
    get_ms: Ints
    deliver_at_ms: Ints
    ended_ms: Ints
    receiver_waited_ms: Ints
    recorded: Any

    @staticmethod
    def of(trace: Trace, outcomes: pa.Table) -> _Ends:
        """Return the outcomes of a replay, and the recorded outcomes of its trace, as arrays.

        ``recorded`` is None if a message of the trace has no recorded outcome.
        """
        recorded = trace.rows["recorded"]
        return _Ends(
            np.asarray(outcomes["outcome"], dtype=object),
            ints(trace.rows["get_ms"]),
            ints(outcomes["deliver_at_ms"]),
            ints(outcomes["ended_ms"]),
            ints(outcomes["receiver_waited_ms"]),
            None if recorded.null_count else np.asarray(recorded, dtype=object),
        )

    def of_queue(
        self, queue: str, part: slice, what_if: WhatIf, late_after_ms: int
    ) -> dict[str, Any]:
        """Return the counts, waits and depth of one queue, a row of BY_QUEUE_SCHEMA.

        ``part`` is the slice of the rows that belong to the queue.
        """
        outcome = self.outcome[part]
        got = outcome == GOT
        waited_ms = (self.ended_ms[part] - self.deliver_at_ms[part])[got]
        empty_count, receives_waited_ms = self._receives(part, what_if, got)
        row: dict[str, Any] = {"queue": queue, "messages": len(outcome)}
        row |= {name: int(np.sum(outcome == name)) for name in (GOT, EXPIRED, REFUSED, LEFT)}
        row["late"] = int(np.sum(waited_ms > late_after_ms))
        if len(waited_ms):
            row |= {f"waited_p{p}_ms": float(np.percentile(waited_ms, p)) for p in (50, 95, 99)}
            row["waited_max_ms"] = int(waited_ms.max())
        row["depth_max"] = self._depth_max(part, got, outcome == EXPIRED)
        row |= {"receives_empty": empty_count, "receives_waited_ms": receives_waited_ms}
        return row | {"as_recorded": self._as_recorded(part)}

    def _receives(self, part: slice, what_if: WhatIf, got: Mask) -> tuple[int, int]:
        """Return (number of receives without a message, wait of all receives in ms).

        ``part`` is the slice of the queue's rows. ``got`` marks those of them that were got.
        """
        waited_ms = self.receiver_waited_ms[part][got]
        limit_ms = what_if.receive_timeout_ms
        if what_if.consumers is None:
            # A get of the trace is served once or never; an empty one costs its whole wait.
            empty_count = int(np.sum(self.get_ms[part] != NONE)) - len(waited_ms)
            lost_ms = 0 if limit_ms is None else empty_count * limit_ms
            return empty_count, int(waited_ms.sum()) + lost_ms
        # A consumer asks again at once: its wait for a message is whole timeouts and a rest. A
        # message that is there at the very end of a wait is got, so that wait is not empty.
        empty = 0 if limit_ms is None else np.maximum(-(-waited_ms // limit_ms) - 1, 0).sum()
        return int(empty), int(waited_ms.sum())

    def _depth_max(self, part: slice, got: Mask, expired: Mask) -> int:
        """Return the largest number of messages on the queue at a delivery; 0 without any.

        ``part`` is the slice of the queue's rows; ``got`` and ``expired`` mark those that ended so.
        Within a millisecond, expiries come before a delivery and gets after it.
        """
        deliver_at_ms, ended_ms = self.deliver_at_ms[part], self.ended_ms[part]
        moments_ms = np.sort(deliver_at_ms[deliver_at_ms != NONE])
        if not len(moments_ms):
            return 0
        depth = np.searchsorted(moments_ms, moments_ms, side="right")
        depth -= np.searchsorted(np.sort(ended_ms[expired]), moments_ms, side="right")
        depth -= np.searchsorted(np.sort(ended_ms[got]), moments_ms, side="left")
        return int(depth.max())

    def _as_recorded(self, part: slice) -> int | None:
        """Return the number of messages of a queue that end as recorded, None without a record."""
        if self.recorded is None:
            return None
        outcome = self.outcome[part]
        same = outcome == self.recorded[part]
        # The record of an expired life has the moment of its discard, which no rule determines.
        same &= (outcome != GOT) | (self.ended_ms[part] == self.get_ms[part])
        return int(np.sum(same))


def _parts(trace: Trace) -> Iterator[tuple[str, slice]]:
    """Yield the name of each queue of a sorted trace with the slice of the queue's rows."""
    for queue, begin, end in zip(trace.queues, trace.bounds, trace.bounds[1:], strict=False):
        yield queue, slice(begin, end)
