"""The memory budget of a server: a limit on the bytes of messages of all its connections together.

docs/SERVING.md says which bytes are counted, and what happens when all are used. No client holds
bytes of the budget while it waits for more. So one connection can always proceed, and no wait is
endless:

* a message is read only when its whole length is reserved; the reservation ends after the put;
* while others wait, the connection of a slow client is closed (``SlowClientTimer``).
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
LOOK_SECONDS: Final = 1.0


class Reservation:
    """Bytes of a budget for one message: already reserved (``is_granted``), or still waited for."""

    def __init__(self, budget: Budget, count: int, on_granted: Callable[[], object] | None) -> None:
        """Prepare to reserve ``count`` bytes of a budget.

        ``on_granted`` is called when they are reserved; None if nobody waits for that. Only
        :meth:`Budget.reserve` creates one.
        """
        self._budget, self.count, self.on_granted = budget, count, on_granted
        self.is_granted = self.is_over = False

    def end(self) -> None:
        """Return the bytes to the budget, or end the wait for them; a second call does nothing."""
        self._budget.end(self)


class Budget:
    """The memory budget of one server, in bytes; any thread may call its methods."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        """Begin with no byte in use; ``limit_bytes`` is the limit of all connections together."""
        self._changing = threading.Lock()
        self._limit = self.left_bytes = limit_bytes
        #: The first one is served first, so that a long message is not passed over for ever.
        self._waiting: deque[Reservation] = deque()

    def longest(self, message_bytes: int) -> int:
        """Return the smaller of ``message_bytes`` and the limit of the budget, in bytes."""
        return min(message_bytes, self._limit)

    def limit(self, limit_bytes: int) -> None:
        """Set another limit in bytes; calls ``on_granted`` of waiting reservations that fit now.

        Bytes that are already counted stay counted.
        """
        with self._changing:
            self.left_bytes += limit_bytes - self._limit
            self._limit = limit_bytes
            granted = self._grant()
        _notify(granted)

    @property
    def is_used_up(self) -> bool:
        """Whether more bytes are counted than the limit allows.

        Clients then get no more messages.
        """
        return self.left_bytes < 0

    @property
    def is_waited_for(self) -> bool:
        """Whether at least one reservation waits for bytes."""
        return bool(self._waiting)

    def take(self, count: int) -> None:
        """Count bytes that are already in memory, even above the limit; never waits or raises."""
        with self._changing:
            self.left_bytes -= count

    def give(self, count: int) -> None:
        """Subtract bytes that were counted by :meth:`take`.

        Calls ``on_granted`` of reservations that fit.
        """
        with self._changing:
            self.left_bytes += count
            granted = self._grant()
        _notify(granted)

    def reserve(
        self, count: int, on_granted: Callable[[], object] | None = None
    ) -> Reservation | None:
        """Return a reservation of ``count`` bytes; ``is_granted`` says whether it has them already.

        Returns at once. If the bytes are not free, the reservation waits in a queue. ``on_granted``
        is then called once, from any thread, when the reservation has them. Without ``on_granted``
        nothing waits, and the result is None.
        """
        made = Reservation(self, count, on_granted)
        with self._changing:
            if not self._waiting and self._fits(count):
                self.left_bytes -= count
                made.is_granted = True
            elif on_granted is None:
                return None
            else:
                self._waiting.append(made)
        return made

    def end(self, reservation: Reservation) -> None:
        """Return the bytes of a reservation to the budget, or stop its wait.

        Calls ``on_granted`` of waiting reservations that fit now. A second call does nothing.
        """
        with self._changing:
            if reservation.is_over:
                return
            reservation.is_over = True
            if reservation.is_granted:
                self.left_bytes += reservation.count
            else:
                self._waiting.remove(reservation)
            granted = self._grant()
        _notify(granted)

    def _fits(self, count: int) -> bool:
        """Return True if ``count`` bytes are free, or if nothing else is counted.

        The caller holds ``_changing``.
        """
        # The limit may have been lowered since: a longer message then has all of it.
        return count <= self.left_bytes or (self.left_bytes == self._limit)

    def _grant(self) -> list[Reservation]:
        """Give free bytes to waiting reservations, first come first served.

        Return the granted ones. The caller holds ``_changing``, and calls :func:`_notify` after it
        has released this lock.
        """
        granted: list[Reservation] = []
        while self._waiting and self._fits(self._waiting[0].count):
            reservation = self._waiting.popleft()
            self.left_bytes -= reservation.count
            reservation.is_granted = True
            granted.append(reservation)
        return granted


def _notify(granted: list[Reservation]) -> None:
    """Call ``on_granted`` of each granted reservation; the budget's lock must not be held."""
    for reservation in granted:
        if reservation.on_granted is not None:
            reservation.on_granted()


class MemoryUse:
    """The bytes that one connection has in memory; those above 64 KiB count against the budget."""

    __slots__ = ("_budget", "counted")

    def __init__(self, budget: Budget) -> None:
        """Begin with no byte in memory; later bytes count against ``budget``."""
        self._budget = budget
        self.counted = 0

    def note(self, count: int) -> None:
        """Set how many bytes the connection has in memory now; the first 64 KiB are not counted."""
        change = max(0, count - OWN_BYTES) - self.counted
        if change > 0:
            self._budget.take(change)
        elif change:
            self._budget.give(-change)
        self.counted += change


class SlowClientTimer:
    """Closes the connection of a slow client while others wait for memory.

    Used in its event loop only. A client has 30 seconds, and a second more for each 64 KiB.
    """

    __slots__ = ("_budget", "_end", "_loop", "_timer")

    def __init__(
        self, budget: Budget, loop: asyncio.AbstractEventLoop, end: Callable[[], None]
    ) -> None:
        """Begin without a time limit for the client.

        When the limit is over, the connection is closed only while others wait for memory of
        ``budget``. ``end`` is then called in the event loop to close it.
        """
        self._budget, self._loop, self._end = budget, loop, end
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, count: int) -> None:
        """Start the time limit for sending or reading ``count`` bytes.

        An earlier limit is dropped.
        """
        self.stop()
        seconds = REQUEST_SECONDS + count / BYTES_A_SECOND
        self._timer = self._loop.call_later(seconds, self._check)

    def stop(self) -> None:
        """Stop the time limit, since all bytes are sent or read; a second call does nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        """Close the connection if reservations wait; otherwise check again one second later."""
        self._timer = None
        if self._budget.is_waited_for:
            self._end()
        else:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._check)


class CallsAwaitingMemory:
    """Function calls of one connection that wait until the memory budget is no longer used up."""

    __slots__ = ("_budget", "_call_soon", "_calls", "_reservation")

    def __init__(self, budget: Budget, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """Begin without calls; they wait until ``budget`` is not used up.

        ``call_soon`` runs a function in the connection's event loop.
        """
        self._budget, self._call_soon = budget, call_soon
        self._calls: list[Callable[[], None]] = []
        self._reservation: Reservation | None = None

    def call(self, call: Callable[[], None]) -> None:
        """Run a function in the event loop, as soon as the budget is not used up."""
        self._calls.append(call)
        if self._reservation is None:
            self._reservation = self._budget.reserve(0, lambda: self._call_soon(self._run))
            if self._reservation is not None and self._reservation.is_granted:
                self._call_soon(self._run)

    def end(self) -> None:
        """Drop the functions that still wait; they are never run."""
        self._calls.clear()
        self._leave()

    def _run(self) -> None:
        """Run all waiting functions in their order, after the wait in the budget is over."""
        self._leave()
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    def _leave(self) -> None:
        """End the reservation in the budget; does nothing without one."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            reservation.end()


class ClientMemory:
    """The memory of one connection: bytes received, bytes that its client has not read, and waits.

    Used in its event loop only.
    """

    __slots__ = ("_budget", "_is_waiting", "_later", "_reading", "_regulate", "_unread", "received")

    def __init__(
        self,
        budget: Budget,
        loop: asyncio.AbstractEventLoop,
        call_soon: Callable[[Callable[[], None]], object],
        *,
        regulate: Callable[[], None],
        abort: Callable[[], None],
    ) -> None:
        """Begin with no byte in memory; later bytes count against ``budget``.

        ``call_soon`` runs a function in the event loop, and may be called by any thread.
        ``regulate`` is called when the client may send more, ``abort`` when it reads too slowly.
        """
        self._budget, self._regulate = budget, regulate
        self.received, self._unread = MemoryUse(budget), MemoryUse(budget)
        self._later = CallsAwaitingMemory(budget, call_soon)
        self._is_waiting = False
        self._reading = SlowClientTimer(budget, loop, abort)

    def when_free(self, call: Callable[[], None]) -> None:
        """Run ``call`` in the event loop once the budget is not used up; not after :meth:`end`."""
        self._later.call(call)

    def is_lacking(self) -> bool:
        """Return True if the client must send no more, since the budget is used up.

        A client of whom no byte is counted may send. ``regulate`` is called when the budget is no
        longer used up.
        """
        if not (self.received.counted and self._budget.is_used_up):
            return False
        if not self._is_waiting:
            self._is_waiting = True
            self._later.call(self._wait_no_more)
        return True

    def note_unread(self, count: int) -> None:
        """Set how many bytes the client has not read; the first of them start its time limit."""
        if not self._unread.counted:
            self._reading.begin(count)
        self._unread.note(count)

    def note_read(self) -> None:
        """Note that the client has read all; its time limit ends."""
        self._reading.stop()
        self._unread.note(0)

    def end(self) -> None:
        """Count no bytes any more, and drop the calls that wait; the connection has ended."""
        self._later.end()
        self.note_read()
        self.received.note(0)

    def _wait_no_more(self) -> None:
        """Let the connection decide again whether it reads."""
        self._is_waiting = False
        self._regulate()
