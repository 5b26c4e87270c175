"""The bound on the bytes of messages that all connections of a server have in memory together.

docs/SERVING.md says which bytes are counted, and what happens when all are used up. No client holds
bytes of the budget while it waits for more of them. So one connection can always go on, and no wait
is endless:

* a message is read when there is room for the whole of it, and has its room until it is put;
* while others wait, a connection whose client sends or reads slowly is ended (``Patience``).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

#: The usual limit for all connections of a server together, in bytes.
LIMIT_BYTES: Final = 256 * 1024 * 1024
#: Bytes of each connection that are not counted: short messages cost no count.
OWN_BYTES: Final = 64 * 1024
#: A client has this time to send or to read a message, and a second more for each 64 KiB.
REQUEST_SECONDS: Final = 30.0
BYTES_A_SECOND: Final = 65_536
#: A client of a protocol with short waits is refused when it has no room by then.
WAIT_SECONDS: Final = 30.0
#: A late connection is looked at this often, until others wait for bytes.
_LOOK_SECONDS: Final = 1.0


class Reservation:
    """Bytes of a budget for one message: it has them (``is_there``), or waits for them."""

    def __init__(self, budget: Budget, count: int, on_there: Callable[[], object] | None) -> None:
        self._budget, self.count, self.on_there = budget, count, on_there
        self.is_there = self.is_over = False

    def end(self) -> None:
        """Give the bytes back, or end the wait for them; a second call does nothing."""
        self._budget.end(self)


class Budget:
    """The bytes of one server; any thread may call its methods."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._changing = threading.Lock()
        self._limit = self._left = limit_bytes
        #: The first one is served first, so that a long message is not passed over for ever.
        self._waiting: deque[Reservation] = deque()

    def longest(self, message_bytes: int) -> int:
        """Return the length of the longest message that can have room, in bytes."""
        return min(message_bytes, self._limit)

    def limit(self, limit_bytes: int) -> None:
        """Set another limit, for messages that come from now on."""
        with self._changing:
            self._left += limit_bytes - self._limit
            self._limit = limit_bytes
            there = self._served()
        _tell(there)

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left, so that a client is given no message more."""
        return self._left < 0

    @property
    def is_scarce(self) -> bool:
        """Whether less than an eighth is left, so that no message is asked for ahead."""
        return self._left * 8 < self._limit

    @property
    def is_waited_for(self) -> bool:
        """Whether a message waits for room."""
        return bool(self._waiting)

    def take(self, count: int) -> None:
        """Count bytes that are in memory already, also above the limit."""
        with self._changing:
            self._left -= count

    def give(self, count: int) -> None:
        """Give bytes back; messages that wait may have their room by it."""
        with self._changing:
            self._left += count
            there = self._served()
        _tell(there)

    def reserve(
        self, count: int, on_there: Callable[[], object] | None = None
    ) -> Reservation | None:
        """Return room for a message, which waits for it with ``on_there``; else None without room.

        ``on_there`` is called once, by any thread, at the end of a wait.
        """
        made = Reservation(self, count, on_there)
        with self._changing:
            if not self._waiting and self._fits(count):
                self._left -= count
                made.is_there = True
            elif on_there is None:
                return None
            else:
                self._waiting.append(made)
        return made

    def end(self, reservation: Reservation) -> None:
        """See :meth:`Reservation.end`."""
        with self._changing:
            if reservation.is_over:
                return
            reservation.is_over = True
            if reservation.is_there:
                self._left += reservation.count
            else:
                self._waiting.remove(reservation)
            there = self._served()
        _tell(there)

    def _fits(self, count: int) -> bool:
        # The limit may have been lowered since: a longer message then has all of it.
        return count <= self._left or (self._left == self._limit)

    def _served(self) -> list[Reservation]:
        """Give room to messages that wait, in their order; return those that have it now."""
        there: list[Reservation] = []
        while self._waiting and self._fits(self._waiting[0].count):
            reservation = self._waiting.popleft()
            self._left -= reservation.count
            reservation.is_there = True
            there.append(reservation)
        return there


def _tell(there: list[Reservation]) -> None:
    for reservation in there:
        if reservation.on_there is not None:
            reservation.on_there()


class Held:
    """The bytes that one connection has in memory; bytes above OWN_BYTES count."""

    __slots__ = ("_budget", "counted")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.counted = 0

    def note(self, count: int) -> None:
        """Note how many bytes there are now."""
        change = max(0, count - OWN_BYTES) - self.counted
        if change > 0:
            self._budget.take(change)
        elif change:
            self._budget.give(-change)
        self.counted += change


class Patience:
    """Ends a connection whose client is slow while others wait for bytes; belongs to its loop."""

    __slots__ = ("_budget", "_end", "_loop", "_timer")

    def __init__(
        self, budget: Budget, loop: asyncio.AbstractEventLoop, end: Callable[[], None]
    ) -> None:
        self._budget, self._loop, self._end = budget, loop, end
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, count: int) -> None:
        """Start the time that the client has to send or to read this number of bytes."""
        self.stop()
        seconds = REQUEST_SECONDS + count / BYTES_A_SECOND
        self._timer = self._loop.call_later(seconds, self._look)

    def stop(self) -> None:
        """Stop the time, as all bytes are sent or read."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._budget.is_waited_for:
            self._end()
        else:
            self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)


class Later:
    """Calls of one connection that wait until something of the budget is left."""

    __slots__ = ("_budget", "_call_soon", "_calls", "_room")

    def __init__(self, budget: Budget, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """Take ``call_soon``, by which a function is called in the loop of the connection."""
        self._budget, self._call_soon = budget, call_soon
        self._calls: list[Callable[[], None]] = []
        self._room: Reservation | None = None

    def call(self, call: Callable[[], None]) -> None:
        """Call a function as soon as the budget is not used up."""
        self._calls.append(call)
        if self._room is None:
            self._room = self._budget.reserve(0, lambda: self._call_soon(self._run))
            if self._room is not None and self._room.is_there:
                self._call_soon(self._run)

    def end(self) -> None:
        """Drop the calls that wait."""
        self._calls.clear()
        self._leave()

    def _run(self) -> None:
        self._leave()
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def _leave(self) -> None:
        reservation, self._room = self._room, None
        if reservation is not None:
            reservation.end()
