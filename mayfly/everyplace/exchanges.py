"""What makes each exchange between two queue managers happen once, whatever the network does.

Who begins an exchange numbers it. The other side remembers which numbers it has finished; with each
transmission it is told below which number none is open any more, and forgets those. A transmission
that comes twice, or late, finds its number finished and changes nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple


class Exchange(NamedTuple):
    """One exchange: the queue manager that began it, the other one, and its number."""

    beginner: str
    partner: str
    number: int


class Begun:
    """The exchanges that a queue manager has begun with one partner."""

    def __init__(self, beginner: str, partner: str) -> None:
        """Begin none."""
        self._names = beginner, partner
        self._next = 1
        #: In the order in which they were begun, so the first is the lowest; a plain dict would
        #: step over all that have ended to find it.
        self._open: OrderedDict[int, None] = OrderedDict()

    def begin(self) -> Exchange:
        """Number a new exchange."""
        number = self._next
        self._next += 1
        self._open[number] = None
        return Exchange(*self._names, number)

    def end(self, exchange: Exchange) -> None:
        """Nothing will be sent, nor is an answer wanted, under this number again."""
        self._open.pop(exchange.number, None)

    def lowest_open(self) -> int:
        """Return the number below which none is open."""
        return next(iter(self._open), self._next)


class Finished:
    """The exchanges of one partner that are over for their receiver."""

    def __init__(self) -> None:
        """Finish none."""
        self._below = 1
        self.numbers: set[int] = set()

    def __contains__(self, exchange: Exchange) -> bool:
        """Tell whether a transmission of it comes too late."""
        return exchange.number < self._below or exchange.number in self.numbers

    def add(self, exchange: Exchange) -> None:
        """Note that it is over."""
        if exchange.number >= self._below:
            self.numbers.add(exchange.number)

    def forget_below(self, number: int) -> None:
        """The partner has none open below this number."""
        if number > self._below:
            self._below = number
            self.numbers = {n for n in self.numbers if n >= number}
