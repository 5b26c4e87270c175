"""A wait on several open queues at once; the first of them that has a message ends it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from mayfly.engine.core import Core
from mayfly.engine.finding.places import Place
from mayfly.engine.get import Getter
from mayfly.engine.holder import Holder
from mayfly.engine.message import Message
from mayfly.engine.waiting import Waiter

#: Numbers of signals, which neither queues nor what else waits have.
_signal_numbers = itertools.count(-(2**59))


class Signal:
    """Lets a wait look again that nothing on its queues would; any thread may send it."""

    def __init__(self, core: Core) -> None:
        """Begin; :func:`wait_for` waits for it under ``number``."""
        self._core = core
        self.number = next(_signal_numbers)

    def send(self) -> None:
        """Let those who wait under the number look again."""
        with self._core.latch:
            self._core.waits.offer(self.number)


class Source:
    """An open queue as one of those that a thread waits on; messages are got under syncpoint."""

    def __init__(self, core: Core, getter: Getter, holder: Holder, place: Place | None) -> None:
        """Take a get in a unit of work; Handle.source makes it."""
        self._core = core
        self._getter = getter
        self._holder = holder
        self._place = place

    @property
    def is_cut(self) -> bool:
        """Whether the last take has not come to the end of the queue: :meth:`go_on`, then again."""
        return self._getter.is_cut

    def take(self, *, in_parts: bool) -> Message | None:
        """Take the next message now, under the latch; None when there is none, or it was cut.

        ``in_parts`` lets the latch go after a number of expired messages; a search by a selector
        does so anyway. Raises as ``get.get``.
        """
        self._holder.check()
        outcome = self._getter.take(in_parts=in_parts or self._place is not None)
        return None if outcome is None else outcome[0].message

    def go_on(self) -> None:
        """Go on with a search that was cut, up to what may be taken; without the latch."""
        if self._place is not None:
            self._place.scout(self._holder)


def wait_for(core: Core, take: Callable[[], Any], numbers: Iterable[int]) -> Any:
    """Wait until ``take`` returns something but None, and return that.

    It is called under the latch, at once and whenever something happens under one of the numbers,
    by the thread that makes it happen; once it has returned something, never again. Raises
    MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING; MQRC_Q_DELETED when a queue of a number goes.
    """
    waiter = Waiter(take, None, take)
    numbers = tuple(numbers)
    with core.latch:
        core.check_running()
        if not waiter.attempt():
            for number in numbers:
                core.waits.add(number, waiter)
    try:
        core.run_deferred()
        return waiter.wait(core)
    finally:
        with core.latch:
            for number in numbers:
                core.waits.withdraw(number, waiter)
