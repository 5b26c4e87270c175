"""An independent model of a queue, one millisecond after the other, and small traces for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from mayfly.lifetime import moments, window
from mayfly.mqi.errors import MQError
from mayfly.pipeline.replay.run import EXPIRED, GOT, LEFT, REFUSED
from mayfly.pipeline.replay.settings import FIFO, PRIORITY, WhatIf
from mayfly.pipeline.replay.trace import FULL_TRACE_SCHEMA

Message = dict[str, Any]
#: Outcome, when, and how long the receiver had waited.
End = tuple[str, int | None, int | None]
#: By then all messages of the small traces below have ended.
_LAST_MS = 120

_small = st.integers(0, 6)
message = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(["Q1", "Q2", "Q3"]),
        "put_ms": _small,
        "delay_ms": st.none() | _small,
        "life_ms": st.none() | st.integers(0, 12),
        "correl_id": st.sampled_from([b"a", b"b"]),
        "get_ms": st.none() | st.integers(0, 14),
        "priority": st.none() | st.sampled_from([0, 4, 9]),
    }
)
messages = st.lists(message, max_size=16).map(
    lambda rows: [row | {"seq": seq} for seq, row in enumerate(rows)]
)
what_ifs = st.builds(
    WhatIf,
    life_ms=st.none() | st.integers(1, 12),
    delay_ms=st.none() | _small,
    cap_ms=st.none() | st.integers(1, 12),
    from_release=st.booleans(),
    sequence=st.sampled_from([PRIORITY, FIFO]),
    consumers=st.none(),
    service_ms=st.just(0),
    receive_timeout_ms=st.none() | st.integers(1, 6),
)
consumer_what_ifs = st.builds(
    lambda what_if, consumers, service_ms: what_if._replace(
        consumers=consumers, service_ms=service_ms
    ),
    what_ifs,
    st.integers(1, 4),
    _small,
)


def trace_of(rows: list[Message]) -> pa.Table:
    """Return messages as a trace."""
    return pa.Table.from_pylist(rows, schema=FULL_TRACE_SCHEMA)


def ends_of(outcomes: pa.Table) -> dict[int, End]:
    """Return the end of each message by its seq."""
    columns = [outcomes[name].to_pylist() for name in ("outcome", "ended_ms", "receiver_waited_ms")]
    ends = zip(*columns, strict=True)
    return dict(zip(outcomes["seq"].to_pylist(), ends, strict=True))


class _Receiver(NamedTuple):
    since_ms: int
    until_ms: int
    key: bytes


class Walk:
    """One queue, walked through."""

    def __init__(self, rows: list[Message], what_if: WhatIf) -> None:
        """Take the messages of one queue; they may stand in any order."""
        self.what_if = what_if
        self.rows = sorted(rows, key=lambda row: (row["put_ms"], row["seq"]))
        self.ends: dict[int, End] = {}
        self.windows: dict[int, window.Window] = {}
        self.ready: list[Message] = []
        self.receivers: list[_Receiver] = []
        count = 0 if what_if.consumers is None else what_if.consumers
        self.free_ms = [self.rows[0]["put_ms"]] * count
        for row in self.rows:
            self._put(row)

    def run(self) -> dict[int, End]:
        """Walk to the end and return how each message ended, by seq."""
        for now_ms in range(_LAST_MS):
            self._end_lives(now_ms)
            for row in self.rows:
                if row["seq"] in self.windows and self.windows[row["seq"]].deliver_at_ms == now_ms:
                    self._deliver(row, now_ms)
            if self.what_if.consumers is None:
                for row in self.rows:
                    if row["get_ms"] == now_ms:
                        self._get(row["correl_id"], now_ms)
            else:
                self._consume(now_ms)
        return {row["seq"]: self.ends.get(row["seq"], (LEFT, None, None)) for row in self.rows}

    def _put(self, row: Message) -> None:
        own = self.what_if
        delay_ms = own.delay_ms if own.delay_ms is not None else row["delay_ms"]
        try:
            self.windows[row["seq"]] = window.window_at_put(
                row["put_ms"],
                own.life_ms if own.life_ms is not None else row["life_ms"],
                0 if delay_ms is None else delay_ms,
                own.cap_ms,
                from_release=own.from_release,
            )
        except MQError:
            self.ends[row["seq"]] = (REFUSED, row["put_ms"], None)

    def _end_lives(self, now_ms: int) -> None:
        for seq, its in self.windows.items():
            if seq not in self.ends and moments.is_expired(its.expire_at_ms, now_ms):
                self.ends[seq] = (EXPIRED, its.expire_at_ms, None)
        self.ready = [row for row in self.ready if row["seq"] not in self.ends]

    def _deliver(self, row: Message, now_ms: int) -> None:
        if row["seq"] in self.ends:
            return
        for receiver in self.receivers:
            if receiver.key == row["correl_id"] and now_ms <= receiver.until_ms:
                self.receivers.remove(receiver)
                self.ends[row["seq"]] = (GOT, now_ms, now_ms - receiver.since_ms)
                return
        self.ready.append(row)

    def _get(self, key: bytes, now_ms: int) -> None:
        wanted = [row for row in self.ready if row["correl_id"] == key]
        if wanted:
            self._take(self._best(wanted), now_ms, 0)
        elif self.what_if.receive_timeout_ms is not None:
            until_ms = now_ms + self.what_if.receive_timeout_ms
            self.receivers.append(_Receiver(now_ms, until_ms, key))

    def _consume(self, now_ms: int) -> None:
        while self.ready and min(self.free_ms) <= now_ms:
            since_ms = min(self.free_ms)
            self.free_ms.remove(since_ms)
            self.free_ms.append(now_ms + self.what_if.service_ms)
            self._take(self._best(self.ready), now_ms, now_ms - since_ms)

    def _best(self, rows: list[Message]) -> Message:
        if self.what_if.sequence == FIFO:
            return rows[0]
        return max(rows, key=lambda row: 0 if row["priority"] is None else row["priority"])

    def _take(self, row: Message, now_ms: int, waited_ms: int) -> None:
        self.ready.remove(row)
        self.ends[row["seq"]] = (GOT, now_ms, waited_ms)


def walked(rows: list[Message], what_if: WhatIf) -> dict[int, End]:
    """Return how each message of a trace ends, by seq, its queues one after the other."""
    ends: dict[int, End] = {}
    for queue in {row["queue"] for row in rows}:
        ends |= Walk([row for row in rows if row["queue"] == queue], what_if).run()
    return ends
