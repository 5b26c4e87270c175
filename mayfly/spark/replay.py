"""What-if replay: which messages of a trace would have been got and which expired, rule by rule.

A trace has one row per message: when it was put, its delay and life, and when its consumer asks for
it by correlation id. One kernel decides a queue; Spark runs it queue by queue, or one process does,
with equal answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.lifetime import window
from mayfly.lifetime.columns import (
    NONE,
    Column,
    Ints,
    Windows,
    ints,
    is_due,
    is_expired,
    nullable,
    windows_at_put,
)
from mayfly.lifetime.life import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: ``seq`` numbers the messages of one queue in put order and decides between equal moments.
#: ``get_ms`` null: nobody ever asks. A consumer that takes whatever comes first is a trace in which
#: all rows share one ``correl_id``.
TRACE_SCHEMA = pa.schema(
    [
        pa.field("queue", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("put_ms", pa.int64(), nullable=False),
        pa.field("delay_ms", pa.int64()),
        pa.field("life_ms", pa.int64()),
        pa.field("correl_id", pa.binary(), nullable=False),
        pa.field("get_ms", pa.int64()),
    ]
)
#: ``ended_ms`` is null for a message that is left; a refused one ended at its put, never having
#: been on the queue: it has no window and ``reason`` says why.
OUTCOME_SCHEMA = pa.schema(
    [
        pa.field("queue", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("correl_id", pa.binary(), nullable=False),
        pa.field("put_ms", pa.int64(), nullable=False),
        pa.field("deliver_at_ms", pa.int64()),
        pa.field("expire_at_ms", pa.int64()),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("reason", pa.int64(), nullable=False),
        pa.field("ended_ms", pa.int64()),
    ]
)
GOT = State.GOT.value
EXPIRED = State.EXPIRED.value
#: The put fails with ``reason``.
REFUSED = "refused"
#: Still on the queue when the trace ends: no end of life and no get that finds it.
LEFT = "left"

#: Rows are in this order wherever they are decided and whenever they are handed out.
_PUT_ORDER = [("put_ms", "ascending"), ("seq", "ascending")]
_ORDER = [("queue", "ascending"), *_PUT_ORDER]


class WhatIf(NamedTuple):
    """The settings to try; None leaves the trace as it is. A cap can only shorten (X3)."""

    life_ms: int | None = None
    delay_ms: int | None = None
    cap_ms: int | None = None


AS_IT_WAS = WhatIf()


def replay_in_process(trace: pa.Table, what_if: WhatIf = AS_IT_WAS) -> pa.Table:
    """Return the outcome of every row of a trace, ordered by queue, put time and seq.

    Raises ValueError when two rows of a queue have the same seq.
    """
    trace = trace.select(TRACE_SCHEMA.names).cast(TRACE_SCHEMA).sort_by("queue")
    outcomes = [replay_queue(rows, what_if) for rows in _by_queue(trace)]
    return pa.concat_tables([OUTCOME_SCHEMA.empty_table(), *outcomes]).combine_chunks()


def replay_in_spark(trace: DataFrame, what_if: WhatIf = AS_IT_WAS) -> DataFrame:
    """Return the same outcomes as a DataFrame, decided queue by queue; rows in no order.

    `ordered` brings what is collected from it into the order of `replay_in_process`.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    def decide(_queue: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        return replay_queue(rows.cast(TRACE_SCHEMA), what_if)

    grouped = trace.select(*TRACE_SCHEMA.names).groupBy("queue")
    return grouped.applyInArrow(decide, schema=from_arrow_schema(OUTCOME_SCHEMA))


def ordered(outcomes: pa.Table) -> pa.Table:
    """Return outcome rows ordered by queue, put time and seq, with exactly OUTCOME_SCHEMA."""
    rows = outcomes.select(OUTCOME_SCHEMA.names).cast(OUTCOME_SCHEMA)
    return rows.sort_by(_ORDER).combine_chunks()


def replay_queue(rows: pa.Table, what_if: WhatIf = AS_IT_WAS) -> pa.Table:
    """Decide the messages of one queue: the kernel that both ways of running share.

    A get finds a message when ``deliver_at_ms <= get_ms < expire_at_ms``; one that comes before the
    delivery time finds nothing and is not repeated. Whatever no get finds expires at its deadline,
    or is left when it has none. Messages that share a correlation id are taken in the order of
    their delivery, gets being served in the order of their time.
    """
    rows = rows.sort_by(_PUT_ORDER)
    _check_seq(rows)
    put_ms = ints(rows["put_ms"])
    windows = windows_at_put(put_ms, *_settings(rows, what_if))
    taken_ms = _taken_ms(rows["correl_id"], windows, ints(rows["get_ms"]))
    ended_ms = np.where(taken_ms != NONE, taken_ms, windows.expire_at_ms)
    ended_ms = np.where(windows.refused, put_ms, ended_ms)
    outcome = np.select(
        [windows.refused, taken_ms != NONE, windows.expire_at_ms != NONE],
        [REFUSED, GOT, EXPIRED],
        LEFT,
    )
    columns = [rows[name] for name in ("queue", "seq", "correl_id", "put_ms")]
    columns += [nullable(windows.deliver_at_ms), nullable(windows.expire_at_ms)]
    columns += [pa.array(outcome, pa.string()), pa.array(windows.reason), nullable(ended_ms)]
    return pa.table(columns, schema=OUTCOME_SCHEMA)


def changed(before: pa.Table, after: pa.Table) -> pa.Table:
    """Return which messages end otherwise in the second replay of one trace than in the first.

    Both are outcome tables of the same messages, in order; columns ``outcome`` and ``ended_ms``
    are those of the first, ``new_outcome`` and ``new_ended_ms`` those of the second.
    Raises ValueError when the two are not about the same messages.
    """
    for name in ("queue", "seq"):
        if before[name].combine_chunks() != after[name].combine_chunks():
            raise ValueError(f"the two replays differ in {name}: not the same trace in one order")
    parted = ints(before["ended_ms"]) != ints(after["ended_ms"])
    parted |= np.asarray(pc.not_equal(before["outcome"], after["outcome"]))
    both = before.select(["queue", "seq", "correl_id", "put_ms", "outcome", "ended_ms"])
    for name in ("outcome", "ended_ms"):
        both = both.append_column(f"new_{name}", after[name])
    return both.filter(pa.array(parted))


def _settings(rows: pa.Table, what_if: WhatIf) -> tuple[Column, Column, Column]:
    life_ms = rows["life_ms"] if what_if.life_ms is None else what_if.life_ms
    delay_ms = rows["delay_ms"] if what_if.delay_ms is None else what_if.delay_ms
    cap_ms = NONE if what_if.cap_ms is None else what_if.cap_ms
    return life_ms, delay_ms, cap_ms


def _taken_ms(correl_id: pa.ChunkedArray, windows: Windows, get_ms: Ints) -> Ints:
    """Return when each message is got, NONE for one that no get finds."""
    keys = np.asarray(correl_id.combine_chunks().dictionary_encode().indices)
    alone = np.bincount(keys, minlength=1)[keys] == 1
    found = alone & ~windows.refused & (get_ms != NONE)
    found &= is_due(windows.deliver_at_ms, get_ms) & ~is_expired(windows.expire_at_ms, get_ms)
    taken_ms = np.where(found, get_ms, NONE)
    shared = np.flatnonzero(~alone)
    for group in _runs(shared[np.argsort(keys[shared], kind="stable")], keys):
        _take_in_turn(group, windows, get_ms, taken_ms)
    return taken_ms


def _take_in_turn(group: Ints, windows: Windows, get_ms: Ints, taken_ms: Ints) -> None:
    """Serve the gets of one correlation id; rows of ``group`` are in put order.

    In one and the same millisecond deadlines come first, then deliveries, then gets; equal
    deliveries and equal gets keep the put order.
    """
    accepted = group[~windows.refused[group]]
    arrivals = deque(accepted[np.argsort(windows.deliver_at_ms[accepted], kind="stable")])
    asking = group[get_ms[group] != NONE]
    asking = asking[np.argsort(get_ms[asking], kind="stable")]
    waiting: deque[np.int64] = deque()
    for now_ms in get_ms[asking]:
        while arrivals and windows.deliver_at_ms[arrivals[0]] <= now_ms:
            waiting.append(arrivals.popleft())
        while waiting:
            message = waiting.popleft()
            # Gets come in the order of time: what has expired now has expired for all later ones.
            if not _has_expired(windows.expire_at_ms[message], now_ms):
                taken_ms[message] = now_ms
                break


def _has_expired(expire_at_ms: np.int64, now_ms: np.int64) -> bool:
    return window.is_expired(None if expire_at_ms == NONE else int(expire_at_ms), int(now_ms))


def _runs(rows: Ints, keys: Ints) -> Iterator[Ints]:
    """Split rows, sorted by key, where the key changes."""
    if len(rows):
        yield from np.split(rows, np.flatnonzero(np.diff(keys[rows])) + 1)


def _by_queue(trace: pa.Table) -> Iterator[pa.Table]:
    """Split a trace, sorted by queue, where the queue changes."""
    codes = np.asarray(trace["queue"].combine_chunks().dictionary_encode().indices)
    for run in _runs(np.arange(len(codes)), codes):
        yield trace.slice(run[0], len(run))


def _check_seq(rows: pa.Table) -> None:
    seq = np.sort(ints(rows["seq"]))
    twice = seq[1:][seq[1:] == seq[:-1]]
    if len(twice):
        raise ValueError(f"seq {twice[0]} occurs twice in queue {rows['queue'][0].as_py()!r}")
