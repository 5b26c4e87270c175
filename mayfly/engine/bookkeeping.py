"""Bookkeeping that falls due by time: balance rows, retention and ids of the ledger, the time."""

from __future__ import annotations

from collections.abc import Callable

from mayfly.engine.core import Core
from mayfly.engine.stored_time import StoredTime
from mayfly.lifetime.times import SECOND_MS

#: Lives of non-persistent messages and balance rows are written at the latest after this, and rows
#: of the ledger beyond its retention begin to go.
SETTLE_MS = SECOND_MS


class Bookkeeping:
    """Knows when each is due, and does what is. None of them waits for another."""

    def __init__(self, core: Core) -> None:
        """Begin; the store is open."""
        self._core = core
        self.stored_time = StoredTime(core)
        #: When the ledger was first seen to hold more rows than it may; None: it does not.
        self._surplus_since_ms: int | None = None
        #: When ids of lives were first seen to wait to be made findable; None: they do not.
        self._unindexed_since_ms: int | None = None
        #: Which piece is asked next.
        self._turn = 0

    def next_due_ms(self) -> int | None:
        """Return the moment of the next work, None when there is none."""
        assert self._core.engine_lock.is_held()
        self._look_at_ledger()
        since = (
            self._core.store.unsettled_since_ms,
            self._surplus_since_ms,
            self._unindexed_since_ms,
        )
        moments = [since_ms + SETTLE_MS for since_ms in since if since_ms is not None]
        noting_ms = self.stored_time.next_due_ms()
        if noting_ms is not None:
            moments.append(noting_ms)
        return min(moments, default=None)

    def run(self, is_pressed: Callable[[], bool]) -> None:
        """Do what is due: of the ledger a bounded part, and the rest at the next call.

        While messages wait to be released (``is_pressed``), only the next piece of it is done: the
        release then waits for one transaction.

        Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN.
        """
        core = self._core
        # Each returns True if it was due and is done.
        pieces = (self._write_balances, self._trim_ledger, self.stored_time.run, self._write_ids)
        for _ in pieces:
            piece = pieces[self._turn]
            # A full disk that refuses this piece does not keep the others from their turn.
            self._turn = (self._turn + 1) % len(pieces)
            if piece() and is_pressed():
                break
        with core.engine_lock:
            self._look_at_ledger()

    def _write_balances(self) -> bool:
        if not self._is_due(self._core.store.unsettled_since_ms):
            return False
        self._core.store.write_balances()
        return True

    def _trim_ledger(self) -> bool:
        if not self._is_due(self._surplus_since_ms):
            return False
        self._core.store.retention.trim(self._core.settings.ledger_retention_count)
        return True

    def _write_ids(self) -> bool:
        if not self._is_due(self._unindexed_since_ms):
            return False
        self._core.store.ids.write_next()
        return True

    def _is_due(self, since_ms: int | None) -> bool:
        return since_ms is not None and since_ms + SETTLE_MS <= self._core.now_ms()

    def _look_at_ledger(self) -> None:
        core = self._core
        if core.store.retention.surplus(core.settings.ledger_retention_count) <= 0:
            self._surplus_since_ms = None
        elif self._surplus_since_ms is None:
            self._surplus_since_ms = core.now_ms()
        # On a full disk that waits.
        if not core.store.ids.is_behind() or core.store.is_full:
            self._unindexed_since_ms = None
        elif self._unindexed_since_ms is None:
            self._unindexed_since_ms = core.now_ms()
