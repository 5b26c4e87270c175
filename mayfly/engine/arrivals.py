"""A flag that is set when a message arrives on a watched queue; the arrival wakes the clock."""

from __future__ import annotations

from collections.abc import Callable

from mayfly.engine.core import Core
from mayfly.engine.queues import LocalQueue
from mayfly.engine.waiting import Waiter


class Arrivals:
    """Notes arrivals on the queues it watches; the server of these queues resets ``has_work``."""

    def __init__(self, core: Core) -> None:
        """Begin with no queue, and with what may be there already."""
        self._core = core
        self._waiters: list[Waiter] = []
        #: Whether there may be messages that nobody has looked for.
        self.has_work = True

    def watch(self, queue: LocalQueue) -> None:
        """Note from now on what arrives on a queue."""
        waiter = Waiter(self._note, None, self)
        with self._core.engine_lock:
            self._core.waits.add(queue.number, waiter)
        self._waiters.append(waiter)

    def end(self) -> None:
        """Watch nothing any more."""
        with self._core.engine_lock:
            for waiter in self._waiters:
                self._core.waits.withdraw(waiter)
        self._waiters.clear()

    def _note(self) -> None:
        """Something has come: under the lock, by whoever brings it, who then wakes the clock."""
        if not self.has_work:
            self.has_work = self._core.must_wake = True


def when_woken(core: Core, look: Callable[[], None]) -> None:
    """Call ``look``, without the lock, whenever the clock is told that work may be due."""
    core.on_wake.append(look)
