"""Numbers of exchanges between two queue managers: each happens once, whatever the network does.

The beginner of an exchange numbers it. The other side remembers the numbers that it has finished.
Each transmission has the number below which none is open any more, so those are forgotten. A
transmission that comes twice, or late, finds its number finished and changes nothing.

Numbers go by the name of the queue manager and its era: one that has lost its memory, or stands on
another folder, begins anew under its old name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple


class Exchange(NamedTuple):
    """One exchange: the queue manager that began it, the other one, its number and its era."""

    beginner: str
    partner: str
    number: int
    #: Which one of its name the beginner is.
    era: int


class Begun:
    """The exchanges that a queue manager has begun with one partner."""

    def __init__(self, beginner: str, partner: str, era: int, next_number: int = 1) -> None:
        """Begin none; numbers go on from ``next_number``."""
        self._names = beginner, partner
        self._era = era
        self.next_number = next_number
        #: In the order in which they were begun, so the first is the lowest; a plain dict would
        #: step over all that have ended to find it.
        self._open: OrderedDict[int, None] = OrderedDict()

    def begin(self) -> Exchange:
        """Number a new exchange."""
        number = self.next_number
        self.next_number += 1
        self._open[number] = None
        return Exchange(*self._names, number, self._era)

    def go_on(self, numbers: Iterable[int]) -> None:
        """Take up what was begun before a restart and has not ended."""
        self._open.update(dict.fromkeys(sorted(numbers)))

    def end(self, exchange: Exchange) -> None:
        """Nothing will be sent, nor is an answer wanted, under this number again."""
        self._open.pop(exchange.number, None)

    def is_any_open(self) -> bool:
        """Return True if an exchange of this number has not ended."""
        return bool(self._open)

    def lowest_open(self) -> int:
        """Return the number below which none is open."""
        return next(iter(self._open), self.next_number)


class Finished:
    """The exchanges of one partner, of one era, that are over for their receiver."""

    def __init__(self, era: int, below: int = 1, numbers: Iterable[int] = ()) -> None:
        """Know what is over: all below a number, and those above it that are named."""
        self.era = era
        self.below = below
        self.numbers = set(numbers)

    def __contains__(self, exchange: Exchange) -> bool:
        """Return True if its transmission comes too late; all of another era do."""
        is_over = exchange.number < self.below or exchange.number in self.numbers
        return is_over or exchange.era != self.era

    def add(self, exchange: Exchange) -> None:
        """Note that it is over."""
        if exchange not in self:
            self.numbers.add(exchange.number)

    def forget_below(self, era: int, number: int) -> None:
        """The partner has none open below this number."""
        if era == self.era and number > self.below:
            self.below = number
            self.numbers = {n for n in self.numbers if n >= number}
