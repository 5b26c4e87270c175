"""A page of messages: so many rows in order, up to a number of bytes of their bodies."""

from __future__ import annotations

from typing import Any

import apsw

from mayfly.store.messages import IN_ORDER, Messages, limited
from mayfly.store.units import StoredMessage

_BODY = StoredMessage._fields.index("body")


def page_of(
    messages: Messages, low: int, high: int, limit: int, most_body_bytes: int
) -> tuple[list[tuple[Any, ...]], bool]:
    """Return up to ``limit`` rows with ``low <= k < high`` by key, and whether these are all.

    They have the columns of a StoredMessage. Those behind the first have no more than
    ``most_body_bytes`` of bodies together with it.
    """
    page = _Page(most_body_bytes)
    rows = messages.fetch(limited(IN_ORDER, limit), (low, high), page.read)
    return rows, len(rows) < limit and not page.is_cut


class _Page:
    """Rows of a statement up to a number of bytes of their bodies; one row in any case."""

    def __init__(self, most_body_bytes: int) -> None:
        self._left_bytes = most_body_bytes
        #: Whether there was a row more.
        self.is_cut = False

    def read(self, cursor: apsw.Cursor) -> list[tuple[Any, ...]]:
        rows = list[tuple[Any, ...]]()
        left_bytes = self._left_bytes
        try:
            for row in cursor:
                left_bytes -= len(row[_BODY])
                if left_bytes < 0 and rows:
                    self.is_cut = True
                    break
                rows.append(row)
        finally:
            cursor.close()
        return rows
