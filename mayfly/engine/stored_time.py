"""Keeps the time in the store near to the queue manager's own while nothing else is written (E4).

A restart goes on from the time in the store. Without this, a message that has expired while nothing
was written would be alive again after a restart under a clock that is behind.
"""

from __future__ import annotations

from mayfly.engine.core import Core
from mayfly.lifetime.times import STORED_TIME_IDLE_MS
from mayfly.store.units import Unit


class StoredTime:
    """Knows when the time must be written, and writes it."""

    def __init__(self, core: Core) -> None:
        """Begin; the store is open."""
        self._core = core
        #: When nothing in the store had a deadline or a delay.
        self._looked_ms = 0

    def next_due_ms(self) -> int | None:
        """Return a moment that has passed when the time should be looked at, else None.

        No moment ahead is named: nothing happens at it, and a virtual clock, which notices at its
        next due moment or at the end of its advance, would stop on its way every ten seconds.
        """
        core = self._core
        if core.store.folder is None:
            return None
        due_ms = max(core.store.book.high_water_ms, self._looked_ms) + STORED_TIME_IDLE_MS
        return due_ms if due_ms <= core.now_ms() else None

    def run(self) -> bool:
        """Write the time when that is due and anything in the store has a deadline or a delay.

        Returns True if it was due.
        """
        core = self._core
        if self.next_due_ms() is None:
            return False
        with core.engine_lock:
            is_needed = (
                core.registry.subscriptions.next_end_ms() is not None
                or core.store.persistent.has_times()
            )
            self._looked_ms = core.now_ms()
        if is_needed:
            self.write()
        return True

    def write(self) -> None:
        """Write the present time, unless it is written already."""
        store = self._core.store
        if store.folder is not None and self._core.now_ms() > store.book.high_water_ms:
            unit = Unit()
            unit.notes_time = True
            store.group.commit(unit)
