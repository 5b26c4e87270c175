"""The bound on the bytes of messages that all connections of a server have in memory together.

docs/SERVING.md says which bytes are counted, and what happens when all are used up. A client
never waits with bytes of the budget in its hands that it alone can give back. So there is always
somebody who can go on, and nobody waits for ever:

* a message is read on when there is room for the whole of it, and has its room until it is put;
* while others wait, a connection is ended whose client is slow to send or to read (``Patience``).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

#: The bytes that all connections of a server may have together, where nobody says otherwise.
LIMIT_BYTES: Final = 256 * 1024 * 1024
#: A connection may have so many bytes that nobody counts: short messages cost no count.
OWN_BYTES: Final = 64 * 1024
#: A message has come, or was read, after so many seconds, and one second more for so many bytes.
REQUEST_SECONDS: Final = 30.0
BYTES_A_SECOND: Final = 65_536
#: A client that waits for room to send a message, and cannot wait for ever, is refused behind it.
WAIT_SECONDS: Final = 30.0
#: How often a connection that is late is looked at, until somebody waits for what it has.
_LOOK_SECONDS: Final = 1.0


class Room:
    """Bytes of a budget for one message, which are there, or are waited for."""

    def __init__(self, budget: Budget, count: int, on_there: Callable[[], object] | None) -> None:
        """Begin without them; ``Budget.room`` makes it."""
        self._budget, self.count, self.on_there = budget, count, on_there
        self.is_there = self.is_over = False

    def end(self) -> None:
        """Give the bytes back, or wait for them no longer; a second call does nothing."""
        self._budget.end(self)


class Budget:
    """The bytes of one server; any thread may call its methods."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._changing = threading.Lock()
        self._limit = self._left = limit_bytes
        #: The first one is served first, so that a long message is not passed over for ever.
        self._waiting: deque[Room] = deque()

    def longest(self, message_bytes: int) -> int:
        """Return the bytes of the longest message that may come: a longer one would never fit."""
        return min(message_bytes, self._limit)

    def limit(self, limit_bytes: int) -> None:
        """Let another number of bytes count from now on."""
        with self._changing:
            self._left += limit_bytes - self._limit
            self._limit = limit_bytes
            there = self._served()
        _tell(there)

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left: a client that has something is not to be given more."""
        return self._left < 0

    @property
    def is_scarce(self) -> bool:
        """Whether less than an eighth is left: nobody should be asked for more at once."""
        return self._left * 8 < self._limit

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits for what others have."""
        return bool(self._waiting)

    def take(self, count: int) -> None:
        """Take bytes that are in memory already, whether they are left or not."""
        with self._changing:
            self._left -= count

    def give(self, count: int) -> None:
        """Give some back; those that wait for them are told."""
        with self._changing:
            self._left += count
            there = self._served()
        _tell(there)

    def room(self, count: int, on_there: Callable[[], object] | None = None) -> Room | None:
        """Return room for a message; None where there is none and nobody is to be told of it later.

        ``on_there`` is called, by any thread and once, when room that is not there has come.
        """
        made = Room(self, count, on_there)
        with self._changing:
            if not self._waiting and self._fits(count):
                self._left -= count
                made.is_there = True
            elif on_there is None:
                return None
            else:
                self._waiting.append(made)
        return made

    def end(self, room: Room) -> None:
        """Give room back that is there, or wait for it no longer."""
        with self._changing:
            if room.is_over:
                return
            room.is_over = True
            if room.is_there:
                self._left += room.count
            else:
                self._waiting.remove(room)
            there = self._served()
        _tell(there)

    def _fits(self, count: int) -> bool:
        # A message longer than the limit, which was lowered since, comes when nobody has anything.
        return count <= self._left or (self._left == self._limit)

    def _served(self) -> list[Room]:
        """Serve those that wait, in their order; return them to be told."""
        there: list[Room] = []
        while self._waiting and self._fits(self._waiting[0].count):
            room = self._waiting.popleft()
            self._left -= room.count
            room.is_there = True
            there.append(room)
        return there


def _tell(there: list[Room]) -> None:
    for room in there:
        if room.on_there is not None:
            room.on_there()


class Held:
    """The bytes that one connection has in memory; those above OWN_BYTES count."""

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
    """Ends a connection that has what others wait for while its client is slow; of its loop."""

    __slots__ = ("_budget", "_end", "_loop", "_timer")

    def __init__(
        self, budget: Budget, loop: asyncio.AbstractEventLoop, end: Callable[[], None]
    ) -> None:
        """Begin with nothing that is waited for; ``end`` ends the connection."""
        self._budget, self._loop, self._end = budget, loop, end
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, count: int) -> None:
        """Begin to count the time that a client needs to send or to read so many bytes."""
        self.stop()
        seconds = REQUEST_SECONDS + count / BYTES_A_SECOND
        self._timer = self._loop.call_later(seconds, self._look)

    def stop(self) -> None:
        """Stop: all is sent, or read."""
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
    """Calls of one connection that are made once something of the budget is left again."""

    __slots__ = ("_budget", "_call_soon", "_calls", "_room")

    def __init__(self, budget: Budget, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """Begin with none; ``call_soon`` lets the loop of the connection call something."""
        self._budget, self._call_soon = budget, call_soon
        self._calls: list[Callable[[], None]] = []
        self._room: Room | None = None

    def call(self, call: Callable[[], None]) -> None:
        """Call something when nobody has more than there is."""
        self._calls.append(call)
        if self._room is None:
            self._room = self._budget.room(0, lambda: self._call_soon(self._run))
            if self._room is not None and self._room.is_there:
                self._call_soon(self._run)

    def end(self) -> None:
        """Call nothing any more."""
        self._calls.clear()
        self._leave()

    def _run(self) -> None:
        self._leave()
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def _leave(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.end()
