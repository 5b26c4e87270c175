"""Keeps the next rows of a queue in memory, in order, for as long as they are valid.

A row that was read ahead equals that in the store until a change is noted.
``engine/queue_state.py`` notes messages that become visible again, or leave out of order. When all
rows of a queue have been read, arriving messages are added: a get of a new one reads nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterator
from typing import Any, Final, TypeAlias

from mayfly.store.messages import Messages
from mayfly.store.units import StoredMessage, stored_message

#: The columns of a row. The garbage collector would traverse a StoredMessage in each pass, which
#: takes more time than to create one at its get.
_Columns: TypeAlias = tuple[Any, ...]
#: The places of key and body in a row.
_KEY: Final = StoredMessage._fields.index("k")
_BODY: Final = StoredMessage._fields.index("body")

#: Rows read with one statement, at first and at most: the next page is longer by this factor.
_FIRST_PAGE: Final = 1
_PAGE_GROWTH: Final = 8
_LARGEST_PAGE: Final = 64
#: The end before anything was read: no key is below it.
_NOWHERE: Final = -(2**63)
#: Bytes of the bodies of a page; no longer body is kept when it arrives.
_PAGE_BYTES: Final = 64 * 1024
#: Bytes that a row takes beside its body.
_ROW_BYTES: Final = 512
#: Bytes that the queues of a queue manager may borrow together: 23,000 messages of 200 bytes.
_MEMORY_BYTES: Final = 16 * 1024 * 1024
#: A queue borrows a multiple of this, and as much again as it has, up to the largest loan. It gives
#: unused ones back from that on.
_LOAN_BYTES: Final = 4 * 1024
LARGEST_LOAN_BYTES: Final = 64 * 1024
#: Rows before the first are dropped from this number on, and from this part of all on.
_GONE_ROWS: Final = 64
_GONE_PART: Final = 8


class RowMemory:
    """Memory in bytes that all queues of a queue manager share for rows kept at their arrival.

    The engine lock is held.
    """

    __slots__ = ("_borrowers", "left_bytes")

    def __init__(self) -> None:
        """Begin with all bytes free."""
        self.left_bytes = _MEMORY_BYTES
        #: Those that have borrowed, the oldest first.
        self._borrowers: dict[ReadAhead, None] = {}

    def borrow(self, borrower: ReadAhead, size_bytes: int) -> bool:
        """Reserve bytes for rows of a queue; return False, with none reserved, if too few are left.

        ``borrower`` is the memory of that queue. When bytes are missing, other queues drop their
        rows first, in the order in which they borrowed.
        """
        while self.left_bytes < size_bytes:
            oldest = next(iter(self._borrowers), borrower)
            if oldest is borrower:
                return False
            oldest.forget()
        self.left_bytes -= size_bytes
        self._borrowers.setdefault(borrower)
        return True

    def give_back(self, borrower: ReadAhead, size_bytes: int) -> None:
        """Take back bytes that a queue had reserved.

        A queue that has more bytes reserved counts as the newest borrower.
        """
        self.left_bytes += size_bytes
        del self._borrowers[borrower]
        if borrower.borrowed_bytes:
            self._borrowers[borrower] = None


class ReadAhead:
    """The next rows of a queue with one persistence, kept in memory in key order.

    Of the keys below ``end``, those not in memory are not visible: hidden, gone, or before the
    first visible key. The engine lock is held.
    """

    __slots__ = (
        "_left_bytes",
        "_memory",
        "_place",
        "_size",
        "borrowed_bytes",
        "end",
        "gone",
        "has_all",
        "is_read",
        "rows",
    )

    def __init__(self, memory: RowMemory) -> None:
        """Begin with no row in memory; rows that arrive use bytes of ``memory``."""
        self.end = _NOWHERE
        self.rows: list[_Columns] = []
        self._place = 0
        #: Keys of rows that have left out of turn.
        self.gone: set[int] = set()
        self._size = _FIRST_PAGE
        #: Whether the store has no row behind the end.
        self.has_all = False
        #: Whether a get or browse has ever read the first row: before that, no arrival is kept.
        self.is_read = False
        self._memory = memory
        #: Borrowed bytes that no row takes; below 0 where it has only read.
        self._left_bytes = self.borrowed_bytes = 0

    def forget(self) -> None:
        """Drop all rows from memory: one that was read before has changed or become visible."""
        self.end = _NOWHERE
        self._size = _FIRST_PAGE
        self.has_all = False
        self._drop_all()

    def begin(self) -> None:
        """Keep all rows that arrive from now on, because the store has no row of this queue."""
        self.end, self.has_all = _NOWHERE, True
        self._drop_all()

    def lower(self, key: int) -> None:
        """Note that the message with this key, and maybe later ones, has become visible again.

        When rows were read beyond that key, all of them are dropped.
        """
        self.has_all = False
        if key < self.end:
            self.forget()

    def leave(self, key: int) -> None:
        """Note that a message has left the queue while rows before it may still be there.

        ``key`` is the key of the message.
        """
        if key < self.end:
            self.gone.add(key)
            if len(self.gone) >= max(_GONE_ROWS, (len(self.rows) - self._place) // 2):
                self._drop_gone()

    def arrive(self, row: StoredMessage, first: int) -> None:
        """Note that the store has a new visible row; keep it in memory if bytes for it are left.

        ``first`` is the first visible key before the arrival, and ``end`` the key up to which rows
        were read. A row with a key from ``end`` on is kept only if all rows of the store are in
        memory (``has_all``).
        """
        key, row_bytes = row.k, _ROW_BYTES + len(row.body)
        if key >= self.end:
            if not self.has_all:
                return
            if row_bytes > self._left_bytes and not self._reserve(row_bytes, first):
                self.has_all = False
                return
            self.rows.append(row[:])
            self.end = key + 1
        elif row_bytes > self._left_bytes and not self._reserve(row_bytes, first):
            self.forget()
            return
        else:
            # With the new row the first may go back, and those before it have been got.
            self._pass_over(first)
            rows = self.rows
            place = bisect_left(rows, (key,), self._place)
            if place < len(rows) and rows[place][_KEY] == key:
                # It was read when it was durable, and is seen from now on.
                return
            rows.insert(place, row[:])
        self._left_bytes -= row_bytes

    def next(self, hidden: Container[int], first: int) -> StoredMessage | None:
        """Return the first row in memory with ``first <= k`` that is not hidden; keep it there.

        None when no such row is in memory; unless ``has_all``, :meth:`read` reads more from the
        store. ``first`` decreases only after :meth:`forget`.
        """
        rows, gone = self.rows, self.gone
        for place in range(self._place, len(rows)):
            row = rows[place]
            key = row[_KEY]
            if key >= first and key not in hidden and not (gone and key in gone):
                self._place = place
                if place >= _GONE_ROWS and place * _GONE_PART >= len(rows):
                    self._drop_gone()
                # Made without a call of Python, as every get comes here.
                return tuple.__new__(StoredMessage, row)
        if rows:
            self._drop_all()
        return None

    def read(
        self, messages: Messages, hidden: Container[int], first: int, high: int
    ) -> StoredMessage | None:
        """Read rows from the key ``end`` on until one is visible, and return that one.

        ``messages`` is the store, ``hidden`` has the keys of hidden messages. The rows read with it
        stay in memory. None when no visible row with ``first <= k < high`` is left.
        """
        self.is_read = True
        while not self.has_all:
            start = max(first, self.end)
            rows, self.has_all = messages.page(start, high, self._size, _PAGE_BYTES)
            if not rows:
                break
            self._size = min(self._size * _PAGE_GROWTH, _LARGEST_PAGE)
            last_key = rows[-1][_KEY]
            if len(rows) == 1 and len(rows[0][_BODY]) > _PAGE_BYTES:
                self.end, self.has_all = last_key, False
                if last_key not in hidden:
                    # It is too long to be kept, and the next look reads it again.
                    return stored_message(rows[0])
                self.end = last_key + 1
                continue
            self.rows, self._left_bytes, self.end = rows, -_bytes_of(rows), last_key + 1
            row = self.next(hidden, first)
            if row is not None:
                return row
        return None

    def rows_from(self, low: int, hidden: Container[int]) -> Iterator[StoredMessage]:
        """Yield the visible rows in memory with the key ``low`` or a higher one."""
        rows, gone = self.rows, self.gone
        for place in range(bisect_left(rows, (low,), self._place), len(rows)):
            row = rows[place]
            key = row[_KEY]
            if key not in hidden and key not in gone:
                yield tuple.__new__(StoredMessage, row)

    def pass_over(self, first: int) -> None:
        """Skip the rows before the key ``first``, and free their memory when they are many."""
        self._pass_over(first)
        if self._place >= _GONE_ROWS and self._place * _GONE_PART >= len(self.rows):
            self._drop_gone()

    def _pass_over(self, first: int) -> None:
        """Skip the rows before the key ``first``, without freeing them."""
        self._place = bisect_left(self.rows, (first,), self._place)

    def _reserve(self, row_bytes: int, first: int) -> bool:
        """Return True if memory for a new row is reserved; rows that are gone are dropped first.

        False when its data is longer than 64 KB, or the shared memory is used up.
        """
        if row_bytes > _ROW_BYTES + _PAGE_BYTES:
            return False
        self._pass_over(first)
        self._drop_gone()
        lacking_bytes = row_bytes - self._left_bytes
        if lacking_bytes > 0:
            loan_bytes = max(lacking_bytes, min(self.borrowed_bytes, LARGEST_LOAN_BYTES))
            loan_bytes = -(-loan_bytes // _LOAN_BYTES) * _LOAN_BYTES
            if not self._memory.borrow(self, loan_bytes):
                return False
            self.borrowed_bytes += loan_bytes
            self._left_bytes += loan_bytes
        return True

    def _drop_gone(self) -> None:
        """Drop the rows that were skipped or have left; give unused memory back if it is much."""
        rows, gone = self.rows, self.gone
        dropped = rows[: self._place]
        del rows[: self._place]
        if gone:
            dropped += [row for row in rows if row[_KEY] in gone]
            rows[:] = [row for row in rows if row[_KEY] not in gone]
            gone.clear()
        self._place = 0
        self._left_bytes += _bytes_of(dropped)
        if self._left_bytes >= LARGEST_LOAN_BYTES:
            self._give_back(self._left_bytes // _LOAN_BYTES * _LOAN_BYTES)

    def _drop_all(self) -> None:
        """Drop all rows and give their memory back."""
        self.rows, self._place = [], 0
        if self.gone:
            self.gone = set()
        if self.borrowed_bytes:
            self._give_back(self.borrowed_bytes)
        self._left_bytes = 0

    def _give_back(self, size_bytes: int) -> None:
        """Give borrowed bytes back to the shared memory."""
        self.borrowed_bytes -= size_bytes
        self._left_bytes -= size_bytes
        self._memory.give_back(self, size_bytes)


def _bytes_of(rows: list[_Columns]) -> int:
    """Return the memory in bytes that rows take."""
    return len(rows) * _ROW_BYTES + sum([len(row[_BODY]) for row in rows])
