"""Runs a replay of a trace in this process: the outcome of every message under other settings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.lifetime.columns import NONE, Ints, Windows, nullable, windows_at_put
from mayfly.lifetime.life import State
from mayfly.pipeline.replay import kernel
from mayfly.pipeline.replay.kernel import (
    NEVER_MS,
    Consumers,
    Found,
    Gets,
    ReplayedMessages,
    ReplayKernel,
)
from mayfly.pipeline.replay.settings import (
    AS_IT_WAS,
    PRIORITY,
    Settings,
    WhatIf,
    check_queues,
    check_settings,
    settings_of,
)
from mayfly.pipeline.replay.trace import PRIORITY_MAX, Trace, arranged, numbers

#: ``ended_ms`` is null for a message that is left. A refused one ended at its put and was never on
#: the queue: it has no window, but a ``reason``. ``receiver_waited_ms`` is the wait of the receive
#: that got the message, or of all receives of its consumer since that was free.
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
        pa.field("receiver_waited_ms", pa.int64()),
    ]
)
GOT = State.GOT.value
EXPIRED = State.EXPIRED.value
#: The put fails with ``reason``.
REFUSED = "refused"
#: Still on the queue when the trace ends: no end of life and no get that finds it.
LEFT = "left"
#: Every outcome, in the order in which they are listed.
OUTCOMES = (GOT, EXPIRED, REFUSED, LEFT)
_GOT, _EXPIRED, _REFUSED, _LEFT = range(len(OUTCOMES))


def replay_in_process(
    trace: pa.Table, what_if: Settings = AS_IT_WAS, *, with_kernel: ReplayKernel | None = None
) -> pa.Table:
    """Return the outcome of every message of a trace, sorted by queue, put time and seq.

    ``trace`` has a row for each message, with the columns of TRACE_SCHEMA and perhaps
    OPTIONAL_FIELDS. ``what_if`` has the settings to replay with, by queue; by default nothing
    changes. A get finds a message when ``deliver_at_ms <= get_ms < expire_at_ms``; an earlier get
    finds it only if it still waits then. Messages with the same correlation id are taken in order
    of delivery, higher priority first; gets are served in order of time. A message without a get
    expires at its deadline, or is left if it has none. ``with_kernel`` None selects the fastest.
    Raises ReplayError, a ValueError, for an invalid trace or setting.
    """
    return outcomes_of(arranged(trace), what_if, with_kernel=with_kernel)


def outcomes_of(
    trace: Trace, what_if: Settings = AS_IT_WAS, *, with_kernel: ReplayKernel | None = None
) -> pa.Table:
    """Return the result of `replay_in_process` for a trace that is sorted and checked already.

    Raises ReplayError for an invalid setting.
    """
    check_settings(what_if)
    check_queues(what_if, trace.queues)
    chosen = kernel.kernel_for(len(trace.rows)) if with_kernel is None else with_kernel
    columns = _Columns.of(trace)
    for queue, begin, end in zip(trace.queues, trace.bounds, trace.bounds[1:], strict=False):
        columns.decide(slice(begin, end), settings_of(what_if, queue), chosen)
    return columns.as_table(trace)


class _Columns(NamedTuple):
    """The input and the output of the kernel, one array each for the messages of all queues."""

    correl_id: pa.Array
    put_ms: Ints
    delay_ms: Ints
    life_ms: Ints
    get_ms: Ints
    priority: Ints
    windows: Windows
    found: Found

    @staticmethod
    def of(trace: Trace) -> _Columns:
        """Return the columns of a trace (recorded messages) as arrays, with empty results."""
        rows, count = trace.rows, len(trace.rows)
        return _Columns(
            rows["correl_id"].combine_chunks(),
            numbers(rows["put_ms"]),
            # Not by NONE: a delay of -1 is a caller's error, a null is no delay.
            numbers(pc.fill_null(rows["delay_ms"], 0)),
            numbers(rows["life_ms"]),
            numbers(rows["get_ms"]),
            numbers(pc.fill_null(rows["priority"], 0)),
            Windows(*(kernel.blank(count) for _ in Windows._fields)),
            Found(kernel.blank(count), kernel.blank(count)),
        )

    def decide(self, rows: slice, what_if: WhatIf, with_kernel: ReplayKernel) -> None:
        """Replay the messages of one queue, and store their delivery, expiry and get times.

        ``rows`` is the slice of the queue's rows, ``what_if`` the settings of the queue.
        """
        put_ms = self.put_ms[rows]
        windows = windows_at_put(
            put_ms,
            self.life_ms[rows] if what_if.life_ms is None else what_if.life_ms,
            self.delay_ms[rows] if what_if.delay_ms is None else what_if.delay_ms,
            NONE if what_if.cap_ms is None else what_if.cap_ms,
            from_release=what_if.from_release,
        )
        for whole, part in zip(self.windows, windows, strict=True):
            whole[rows] = part
        level = PRIORITY_MAX - self.priority[rows]
        if what_if.sequence != PRIORITY or np.all(level == level[:1]):
            level, level_count = np.zeros_like(level), 1
        else:
            level_count = PRIORITY_MAX + 1
        if what_if.consumers is None:
            key = _key(self.correl_id[rows])
            messages = _messages(windows, key * level_count + level, level_count, with_kernel)
            gets = _gets(self.get_ms[rows], key, what_if.receive_timeout_ms, with_kernel)
            found = _nothing_found(len(put_ms), with_kernel)
            with_kernel.serve_gets(messages, gets, found)
        else:
            messages = _messages(windows, level, level_count, with_kernel)
            free_ms = np.full(what_if.consumers, put_ms[0])
            consumers = Consumers(with_kernel.column(free_ms), what_if.service_ms)
            found = _nothing_found(len(put_ms), with_kernel)
            with_kernel.serve_consumers(messages, consumers, found)
        for whole, part in zip(self.found, found, strict=True):
            whole[rows] = part

    def as_table(self, trace: Trace) -> pa.Table:
        """Return the outcomes of all queues as a table of OUTCOME_SCHEMA."""
        windows, taken_ms = self.windows, self.found.taken_ms
        refused = windows.refused
        ended_ms = np.where(taken_ms != NONE, taken_ms, windows.expire_at_ms)
        ended_ms = np.where(refused, self.put_ms, ended_ms)
        code = np.where(windows.expire_at_ms != NONE, _EXPIRED, _LEFT).astype(np.int8)
        code[taken_ms != NONE] = _GOT
        code[refused] = _REFUSED
        outcome = pa.DictionaryArray.from_arrays(pa.array(code), pa.array(OUTCOMES))
        columns = [trace.rows[name] for name in ("queue", "seq", "correl_id", "put_ms")]
        columns += [nullable(windows.deliver_at_ms), nullable(windows.expire_at_ms)]
        columns += [outcome.cast(pa.string()), pa.array(windows.reason), nullable(ended_ms)]
        columns += [nullable(self.found.waited_ms)]
        return pa.table(columns, schema=OUTCOME_SCHEMA)


def _key(correl_id: pa.Array) -> Ints:
    """Return a number from 0 for each row, equal for rows with the same correlation id."""
    return np.asarray(correl_id.dictionary_encode().indices, dtype=np.int64)


def _messages(
    windows: Windows, line: Ints, level_count: int, with_kernel: ReplayKernel
) -> ReplayedMessages:
    """Return the messages of one queue as the columns that the replay functions take.

    ``windows`` are their delivery and expiry times. ``line`` has the number of the waiting list of
    each message: its correlation id's number times ``level_count``, plus its priority level.
    """
    column = with_kernel.column
    accepted = np.flatnonzero(~windows.refused)
    line_count = (int(line.max()) // level_count + 1) * level_count
    return ReplayedMessages(
        column(windows.deliver_at_ms),
        column(np.where(windows.expire_at_ms == NONE, NEVER_MS, windows.expire_at_ms)),
        column(line),
        column(_by_time(accepted, windows.deliver_at_ms)),
        level_count,
        column(kernel.blank(line_count)),
        column(kernel.blank(line_count)),
        column(kernel.blank(len(line))),
    )


def _gets(get_ms: Ints, key: Ints, timeout_ms: int | None, with_kernel: ReplayKernel) -> Gets:
    """Return the recorded gets of one queue as the columns that the replay functions take.

    ``timeout_ms`` None means that a get does not wait.
    """
    column = with_kernel.column
    key_count = int(key.max()) + 1
    return Gets(
        column(get_ms),
        column(key),
        column(_by_time(np.flatnonzero(get_ms != NONE), get_ms)),
        0 if timeout_ms is None else timeout_ms,
        column(kernel.blank(key_count)),
        column(kernel.blank(key_count)),
        column(kernel.blank(len(key))),
    )


def _nothing_found(count: int, with_kernel: ReplayKernel) -> Found:
    """Return an empty result for ``count`` messages, which the replay functions fill."""
    column = with_kernel.column
    return Found(column(kernel.blank(count)), column(kernel.blank(count)))


def _by_time(rows: Ints, at_ms: Ints) -> Ints:
    """Return rows in the order of their times; equal ones keep their order."""
    times_ms = at_ms[rows]
    if np.all(times_ms[1:] >= times_ms[:-1]):
        return rows
    return rows[np.argsort(times_ms, kind="stable")]
