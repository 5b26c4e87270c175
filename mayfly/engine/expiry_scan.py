"""The expiry scan: discards what has expired and nobody asks for (EXPRYINT, X9)."""

from __future__ import annotations

from collections.abc import Callable

from mayfly.engine.core import Core
from mayfly.engine.expired import discard_expired
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found
from mayfly.lifetime.times import ms_of_seconds, next_scan_ms
from mayfly.mqi.constants import MQEXPI_OFF
from mayfly.mqi.errors import StoreDamaged
from mayfly.store.keys import queue_number_of
from mayfly.verbs.contracts.outcomes import MetBy

_BATCH = 1_000
#: How many expired messages that are locked are looked behind before a scan is run all the same.
_LOOKED_BEHIND = 100
_START = (-(2**62), 0)
_SIDES = (VOLATILE, PERSISTENT)


class ExpiryScan:
    """Knows when the next scan is due and runs it in bounded batches."""

    def __init__(self, core: Core) -> None:
        """Begin; the first scan comes one interval after the start or the change of EXPRYINT."""
        self._core = core
        self._interval_ms = 0
        self._next_ms: int | None = None
        #: When the scan began of which a part is left; None when none is.
        self._began_ms: int | None = None

    def next_due_ms(self) -> int | None:
        """Return when the next scan is due that can find something.

        None while EXPRYINT is OFF, or no message has a deadline. Scans that can find nothing are
        passed over, also those that would meet locked messages only: under a virtual clock each
        would cost a stop.
        """
        assert self._core.engine_lock.is_held()
        seconds = self._core.registry.queue_manager.expryint
        interval_ms = 0 if seconds == MQEXPI_OFF else ms_of_seconds(seconds)
        now_ms = self._core.now_ms()
        if interval_ms != self._interval_ms:
            self._interval_ms, self._began_ms = interval_ms, None
            self._next_ms = now_ms + interval_ms if interval_ms else None
        if self._next_ms is None:
            return None
        try:
            deadlines = [self._earliest(h, s, now_ms) for h in self._holders() for s in _SIDES]
        except StoreDamaged:
            # The scan meets it as well, where the queue manager stops for it.
            return now_ms
        first_ms = min((d for d in deadlines if d is not None), default=None)
        if first_ms is None or first_ms > now_ms:
            # A message that appears later and has expired by now waits for a later scan.
            self._next_ms = next_scan_ms(self._next_ms, interval_ms, now_ms + 1)
        return None if first_ms is None else next_scan_ms(self._next_ms, interval_ms, first_ms)

    def run(self, is_pressed: Callable[[], bool]) -> None:
        """Scan when due; the next scan is to end an interval after this one began.

        So it begins earlier by the time that this one has taken, up to half of the interval. While
        messages wait to be released (``is_pressed``), one batch is done, and the rest at the next
        calls.
        """
        core = self._core
        with core.engine_lock:
            due_ms = self.next_due_ms()
        now_ms = core.now_ms()
        if due_ms is None or due_ms > now_ms:
            return
        began_ms = now_ms if self._began_ms is None else self._began_ms
        # A scan that fails begins anew.
        self._began_ms = None
        if self.discard_all(is_pressed):
            taken_ms = min(core.now_ms() - began_ms, self._interval_ms // 2)
            self._next_ms = began_ms + self._interval_ms - taken_ms
        else:
            self._began_ms = began_ms

    def discard_all(self, is_pressed: Callable[[], bool] = lambda: False) -> bool:
        """Discard every expired message that nobody hides; False when ``is_pressed`` ended it."""
        return all(
            self._discard(holder, persistence, is_pressed)
            for holder in self._holders()
            for persistence in _SIDES
        )

    def _holders(self) -> list[Core]:
        group = self._core.group
        return [self._core] if group is None else [self._core, group]

    def _earliest(self, requester: Core, persistence: int, now_ms: int) -> int | None:
        """Return the earliest deadline that a scan could find, None when there is none.

        A function that makes a message visible again need not call this: clocks ask by themselves.
        """
        messages = requester.messages(persistence)
        found = messages.earliest_deadlines(1)
        if found and found[0][0] <= now_ms and found[0][1] in requester.hidden:
            found = messages.earliest_deadlines(_LOOKED_BEHIND)
            if len(found) < _LOOKED_BEHIND or any(key not in requester.hidden for _, key in found):
                found = [(ms, key) for ms, key in found if key not in requester.hidden]
        return found[0][0] if found else None

    def _discard(self, requester: Core, persistence: int, is_pressed: Callable[[], bool]) -> bool:
        core, after = self._core, _START
        while True:
            with core.engine_lock:
                now_ms = core.now_ms()
                rows = requester.messages(persistence).expired(now_ms, after, _BATCH)
                found: list[Found] = []
                for row in rows:
                    queue = requester.registry.by_number(queue_number_of(row.k))
                    # Hidden: locked, got in a unit of work, or on its way out; left alone (X9).
                    if queue is not None and row.k not in requester.hidden:
                        found.append((queue, row, persistence))
                transactions = [discard_expired(core, found, now_ms, MetBy.SCAN)] if found else []
            if transactions:
                core.committer.run(*transactions)
            if len(rows) < _BATCH:
                return True
            if transactions and is_pressed():
                return False
            last = rows[-1]
            assert last.expire_at_ms is not None
            after = (last.expire_at_ms, last.k)


def scan_every(core: Core, seconds: int) -> None:
    """Scan at another interval, MQEXPI_OFF for never, until the queue manager is closed.

    EXPRYINT stays as it is stored.
    """
    with core.engine_lock:
        core.registry.queue_manager.expryint = seconds
    core.wake()
