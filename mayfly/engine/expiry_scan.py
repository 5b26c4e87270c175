"""The expiry scan: discards what has expired and nobody asks for (EXPRYINT, X9)."""

from __future__ import annotations

from mayfly.engine.core import Core
from mayfly.engine.disposal import discard_expired
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found
from mayfly.lifetime.times import ms_of_seconds
from mayfly.mqi.constants import MQEXPI_OFF
from mayfly.store.keys import queue_number_of

_BATCH = 1_000
_START = (-(2**62), 0)


class ExpiryScan:
    """Knows when the next scan is due and runs it in bounded batches."""

    def __init__(self, core: Core) -> None:
        """Begin; the first scan comes one interval after the start or the change of EXPRYINT."""
        self._core = core
        self._interval_ms = 0
        self._next_ms: int | None = None

    def next_due_ms(self) -> int | None:
        """Return when the next scan is due, None while EXPRYINT is OFF."""
        seconds = self._core.registry.queue_manager.number("EXPRYINT")
        interval_ms = 0 if seconds == MQEXPI_OFF else ms_of_seconds(seconds)
        if interval_ms != self._interval_ms:
            self._interval_ms = interval_ms
            self._next_ms = self._core.now_ms() + interval_ms if interval_ms else None
        return self._next_ms

    def run(self) -> None:
        """Scan when due, then wait a whole interval."""
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > self._core.now_ms():
            return
        self.discard_all()
        self._next_ms = self._core.now_ms() + self._interval_ms

    def discard_all(self) -> int:
        """Discard every expired message that nobody hides; return how many."""
        directory = self._core.registry.directory
        holders = [self._core] if directory is None else [self._core, directory.group]
        return sum(self._discard(h, side) for h in holders for side in (VOLATILE, PERSISTENT))

    def _discard(self, holder: Core, side: int) -> int:
        core, discarded, after = self._core, 0, _START
        while True:
            with core.latch:
                now_ms = core.now_ms()
                rows = holder.messages(side).expired(now_ms, after, _BATCH)
                found: list[Found] = []
                for row in rows:
                    queue = holder.registry.by_number(queue_number_of(row.k))
                    # What is locked, got in a unit of work, or on its way out is left alone (X9).
                    if queue is not None and row.k not in holder.hidden:
                        found.append((queue, row, side))
                works = [discard_expired(core, found, now_ms)] if found else []
            if works:
                core.run(*works)
                discarded += len(found)
            if len(rows) < _BATCH:
                return discarded
            last = rows[-1]
            assert last.expire_at_ms is not None
            after = (last.expire_at_ms, last.k)
