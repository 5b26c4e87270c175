"""Rows of a queue in order that are read before anybody asks for them, as long as they hold.

A row that was read ahead is what the store has as long as nothing was told since. Messages that are
shown again, or leave out of turn, are told of (``engine/holding``). Where the end of the queue was
read, messages that arrive behind it join the rows: a get of one that has just come reads nothing.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from mayfly.store.messages import Messages
from mayfly.store.pages import page_of
from mayfly.store.units import StoredMessage

#: Rows read with one statement, at first and at most: the next page is so many times as long.
_FIRST_PAGE: Final = 1
_PAGE_GROWTH: Final = 8
_LARGEST_PAGE: Final = 64
#: The end of what was read when nothing was: no key is before it.
_NOWHERE: Final = -(2**63)
#: Rows that are kept, and bytes of their bodies: many queues may have rows that nobody gets.
_KEPT_ROWS: Final = 64
_KEPT_BYTES: Final = 64 * 1024


class ReadAhead:
    """Rows of one side of a queue; all with a key below ``end`` that are not in it cannot be seen.

    They are hidden or gone, or come before the ``first`` that may be visible. All of it is under
    the lock.
    """

    __slots__ = ("_left_bytes", "_place", "_rows", "_size", "end", "has_all")

    def __init__(self) -> None:
        """Begin with nothing read."""
        self.end = _NOWHERE
        self._rows: list[StoredMessage] = []
        self._place = 0
        self._size = _FIRST_PAGE
        #: Whether the store has no row behind the end.
        self.has_all = False
        #: Bytes of bodies that may join the rows.
        self._left_bytes = 0

    def forget(self) -> None:
        """Read anew: a row before the end has become visible, has changed, or is gone."""
        self.end = _NOWHERE
        self._rows = []
        self._place = 0
        self._size = _FIRST_PAGE
        self.has_all = False

    def lower(self, key: int) -> None:
        """Note that the message with this key has become visible, and maybe others behind it."""
        self.has_all = False
        if key < self.end:
            self.forget()

    def arrive(self, row: StoredMessage) -> None:
        """Note that the store has a new row, which can be seen: it is kept if there is room.

        Without ``has_all`` only those before the end need to be told.
        """
        if row.k < self.end:
            self.forget()
        elif self.has_all:
            left_bytes = self._left_bytes - len(row.body)
            if self._place and (left_bytes < 0 or self._place >= _KEPT_ROWS):
                left_bytes += self._drop_gone()
            if left_bytes < 0 or len(self._rows) - self._place >= _KEPT_ROWS:
                self.has_all = False
            else:
                self._rows.append(row)
                self.end, self._left_bytes = row.k + 1, left_bytes

    def _drop_gone(self) -> int:
        """Drop the rows before the first; return how many bytes their bodies had."""
        gone = self._rows[: self._place]
        del self._rows[: self._place]
        self._place = 0
        return sum([len(row.body) for row in gone])

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
            if self.has_all:
                self._place = len(rows)
                return None
            start = max(first, self.end)
            rows, self.has_all = page_of(messages, start, high, self._size, _KEPT_BYTES)
            self._rows, self._place = rows, 0
            if not rows:
                self._left_bytes = _KEPT_BYTES
                return None
            self._size = min(self._size * _PAGE_GROWTH, _LARGEST_PAGE)
            self._left_bytes = _KEPT_BYTES - sum([len(row.body) for row in rows])
            last = rows[-1]
            if self._left_bytes >= 0:
                self.end = last.k + 1
                continue
            # It is the only one, and read again by whoever comes next, unless it is hidden.
            self._rows, self.end, self.has_all = [], last.k, False
            if last.k not in hidden:
                return last
            self.end = last.k + 1
