"""The virtual time of a client: waits under the virtual clock of a server in the same process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from mayfly.client.connection.interface import UnderWay
from mayfly.runtime.virtual_clock import VirtualClock, check_wait

if TYPE_CHECKING:
    from mayfly.engine import Engine
    from mayfly.queue_manager import QueueManager


class PendingRequest(UnderWay, Protocol):
    """A running get on a connection whose queue manager has a virtual clock."""

    def is_pending(self) -> bool:
        """Return False once the get has its outcome, even if the callback is not called yet."""


class VirtualTime:
    """The virtual clock of a queue manager of this process, for waits of its clients."""

    def __init__(self, clock: VirtualClock, visitors: Callable[[], int]) -> None:
        """Take the clock and a function that counts connected programs of other processes."""
        self.clock, self._visitors = clock, visitors

    def check(self) -> None:
        """Raise RuntimeError if a wait of this thread can never end; see ``check_wait``.

        A wait can never end when no other thread or program could advance the clock or put a
        message.
        """
        check_wait(self.clock, self._visitors())


def open_here() -> dict[str, QueueManager]:
    """Return the open queue managers of this process by name, without importing the engine."""
    module = sys.modules.get("mayfly.queue_manager")
    return {} if module is None else module.managers_here()


def virtual_time_of(engine: Engine) -> VirtualTime | None:
    """Return the virtual time of an engine, None when it uses real time."""
    clock = engine.clock
    return (
        VirtualTime(clock, lambda: engine.foreign_client_count)
        if isinstance(clock, VirtualClock)
        else None
    )


def virtual_time_here(name: str, number: int) -> VirtualTime | None:
    """Return the virtual time of a queue manager of this process that serves a connection.

    ``number`` is that of the connection. None when no queue manager here serves it, or the queue
    manager uses real time.
    """
    manager = open_here().get(name)
    if manager is None or not manager.engine.has_session(number):
        return None
    return virtual_time_of(manager.engine)
