"""Places for connections: those of requests of every kind, and those of probes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

#: Paths that are answered whatever else the server has to do.
PROBES: Final = frozenset((b"/health/live", b"/health/ready"))


class Occupant(Protocol):
    """A connection, as its place needs it."""

    #: Ends the connection at once.
    cut: Callable[[], None]


class Places:
    """The places of one server; they belong to its loop.

    A connection for which no place is left is kept all the same, and may only probe. There are so
    many places for such connections; a further one takes that of the connection that has had it for
    the longest time. So clients that send half a request, and no more, keep no probe out.
    """

    def __init__(self, count: int, probe_count: int) -> None:
        """Begin with all of them free."""
        self._count, self._probe_count = count, probe_count
        self._seated: set[Occupant] = set()
        #: Those that may only probe, in the order of their arrival.
        self._probing: dict[Occupant, None] = {}

    def enter(self, occupant: Occupant) -> None:
        """Give a connection a place; the oldest of those that may only probe may lose its own."""
        if len(self._seated) < self._count:
            self._seated.add(occupant)
            return
        self._probing[occupant] = None
        if len(self._probing) > self._probe_count:
            oldest = next(iter(self._probing))
            del self._probing[oldest]
            oldest.cut()

    def may_ask(self, occupant: Occupant, url: bytes) -> bool:
        """Return True if a connection may send a request; one that only probes may move up."""
        if occupant in self._seated or url.partition(b"?")[0] in PROBES:
            return True
        if len(self._seated) < self._count and occupant in self._probing:
            del self._probing[occupant]
            self._seated.add(occupant)
            return True
        return False

    def leave(self, occupant: Occupant) -> None:
        """Free the place of a connection that is gone."""
        self._seated.discard(occupant)
        self._probing.pop(occupant, None)
