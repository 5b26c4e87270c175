"""Rows of a queue in order that are read before anybody asks for them, as long as they hold.

A row that was read ahead is what the store has as long as nothing was told since. Messages that are
shown again, or leave out of turn, are told of (``engine/holding``).
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from mayfly.store.messages import Messages
from mayfly.store.units import StoredMessage

#: Rows read with one statement, at first and at most: the next page is so many times as long.
_FIRST_PAGE: Final = 1
_PAGE_GROWTH: Final = 8
_LARGEST_PAGE: Final = 64
#: The end of what was read when nothing was: no key is before it.
_NOWHERE: Final = -(2**63)
#: Bytes of bodies that are kept: many queues may have rows that nobody comes to get.
_KEPT_BYTES: Final = 64 * 1024


class ReadAhead:
    """Rows of one side of a queue; all with a key below ``end`` that are not in it cannot be seen.

    They are hidden or gone, or come before the ``first`` that may be visible. All of it is under
    the lock.
    """

    __slots__ = ("_place", "_rows", "_size", "end")

    def __init__(self) -> None:
        """Begin with nothing read."""
        self.end = _NOWHERE
        self._rows: list[StoredMessage] = []
        self._place = 0
        self._size = _FIRST_PAGE

    def forget(self) -> None:
        """Read anew: a row before the end has become visible, has changed, or is gone."""
        self.end = _NOWHERE
        self._rows = []
        self._place = 0
        self._size = _FIRST_PAGE

    def lower(self, key: int) -> None:
        """Note that the message with this key has become visible."""
        if key < self.end:
            self.forget()

    def next(
        self, messages: Messages, hidden: Container[int], first: int, high: int
    ) -> StoredMessage | None:
        """Return the first row with ``first <= k < high`` that is not hidden; it stays the first.

        ``first`` never goes back without :meth:`forget` for what is before it.
        """
        while True:
            rows = self._rows
            for place in range(self._place, len(rows)):
                row = rows[place]
                if row.k >= first and row.k not in hidden:
                    self._place = place
                    return row
            rows = messages.in_order(max(first, self.end), high, self._size, _KEPT_BYTES)
            self._place = 0
            if not rows:
                self._rows = []
                return None
            self._size = min(self._size * _PAGE_GROWTH, _LARGEST_PAGE)
            last = rows[-1]
            if len(last.body) <= _KEPT_BYTES:
                self._rows, self.end = rows, last.k + 1
                continue
            # It is the only one, and read again by whoever comes next, unless it is hidden.
            self._rows, self.end = [], last.k
            if last.k not in hidden:
                return last
            self.end = last.k + 1
