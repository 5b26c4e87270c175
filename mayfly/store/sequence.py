"""Sequence numbers: the order of messages and the unique part of their ids, never given twice."""

from __future__ import annotations

from collections.abc import Callable

from mayfly.runtime import Runtime
from mayfly.store.units import Unit

#: Numbers are reserved in blocks, so that none is given again after a crash.
_BLOCK = 2**24
_LOW = 2**20
_SAVE = "INSERT OR REPLACE INTO meta VALUES ('sequence', ?)"


class Sequence:
    """Gives numbers from a block whose end is durable before the first of them is used.

    ``instance`` is a random number of this opening of the store, of 16 bits; with it, ids of two
    queue managers of one name differ.
    """

    def __init__(self, reserved: int, commit: Callable[[Unit], None], runtime: Runtime) -> None:
        """Go on behind what was reserved before; reserve the first block."""
        self.instance = int.from_bytes(runtime.random_bytes(2))
        self._last = self._low_from = reserved
        #: Whether :meth:`extend` is needed before many more numbers are given.
        self.is_low = False
        self._commit = commit
        self.extend()

    def next(self) -> int:
        """Return a new number; call it with the lock held."""
        self._last = number = self._last + 1
        if number > self._low_from:
            self.is_low = True
        return number

    def next_run(self, count: int) -> int:
        """Return the first of new consecutive numbers; call it with the lock held.

        They must be few beside what is left of a block when it is extended.
        """
        assert count < _LOW
        first = self._last + 1
        self._last += count
        if self._last > self._low_from:
            self.is_low = True
        return first

    def extend(self) -> None:
        """Reserve the next block, durably; call it without the lock."""
        reserved = self._last + _BLOCK
        unit = Unit()
        unit.statements.append((_SAVE, (reserved,)))
        self._commit(unit)
        self._low_from = reserved - _LOW
        self.is_low = self._last > self._low_from
