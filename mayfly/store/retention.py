"""Retention: removes the oldest rows of the ledger beyond a count."""

from __future__ import annotations

from typing import Any

import apsw

from mayfly.store.book import Book
from mayfly.store.group_commit import GroupCommit
from mayfly.store.units import Unit

_BATCH = 5_000
_FIRST = "SELECT min(position) FROM ledger"
_KEEP_LAST = "INSERT OR REPLACE INTO meta VALUES ('last_position', ?)"


class Retention:
    """Trims one ledger; knows how far it is without reading it."""

    def __init__(self, writer: apsw.Connection, book: Book, group: GroupCommit) -> None:
        """Read where the ledger begins."""
        self.book = book
        self._group = group
        found: Any = writer.execute(_FIRST).fetchall()[0][0]
        self._first_position = book.last_position + 1 if found is None else int(found)

    @property
    def first_position(self) -> int:
        """The oldest position that is kept, one past the newest when there is none."""
        return self._first_position

    def surplus(self, retention_count: int) -> int:
        """Return how many rows there are beyond a count; 0 or less: none."""
        return self.book.last_position - self._first_position + 1 - retention_count

    def trim(self, retention_count: int) -> int:
        """Remove up to a batch of the oldest rows beyond a count; return how many.

        Call it without the lock. Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN.
        """
        last, first = self.book.last_position, self._first_position
        surplus = min(last - first + 1 - retention_count, _BATCH)
        if surplus <= 0:
            return 0
        unit = Unit()
        # Positions go on behind the last one when no row is left to tell it.
        unit.statements.append((_KEEP_LAST, (last,)))
        unit.statements.append(("DELETE FROM ledger WHERE position < ?", (first + surplus,)))
        self._group.commit(unit)
        # Another thread may have come further meanwhile.
        self._first_position = max(self._first_position, first + surplus)
        return surplus
