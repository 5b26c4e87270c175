"""Bookkeeping that falls due by time: balance rows, retention and ids of the ledger, the time."""

from __future__ import annotations

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

    def run(self) -> None:
        """Do what is due: of the ledger a bounded part, and the rest at the next call.

        Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN.
        """
        core = self._core
        if self._is_due(core.store.unsettled_since_ms):
            core.store.write_balances()
        if self._is_due(self._surplus_since_ms):
            core.store.retention.trim(core.settings.ledger_retention_count)
        self.stored_time.run()
        if self._is_due(self._unindexed_since_ms):
            core.store.ids.write_next()
        with core.engine_lock:
            self._look_at_ledger()

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
