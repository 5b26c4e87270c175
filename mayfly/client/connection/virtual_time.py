"""Waits of clients under a virtual clock of their own process, whose server is there as well."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from mayfly.runtime.virtual_clock import VirtualClock, check_wait

if TYPE_CHECKING:
    from mayfly.engine import Engine
    from mayfly.queue_manager import QueueManager


class PendingRequest(Protocol):
    """A get under way on a connection with virtual time."""

    def stands(self) -> bool:
        """Return False when it is decided, although the callback may not have been told yet."""

    def cancel(self) -> bool:
        """End it without effect: True, and the callback is never called."""


class VirtualTime:
    """The virtual clock of a queue manager of this process, as its connections wait under it."""

    def __init__(self, clock: VirtualClock, visitors: Callable[[], int]) -> None:
        """Take the clock, and what counts the programs of other processes that are connected."""
        self.clock, self._visitors = clock, visitors

    def check(self) -> None:
        """Raise RuntimeError where a wait by this thread can never end, as ``check_wait``."""
        check_wait(self.clock, self._visitors())


def open_here() -> dict[str, QueueManager]:
    """Return the queue managers that are open in this process: none before somebody asks for one.

    A client of a server elsewhere does not load the engine.
    """
    module = sys.modules.get("mayfly.queue_manager")
    return {} if module is None else module.managers_here()


def virtual_time_of(engine: Engine) -> VirtualTime | None:
    """Return the virtual time of an engine, None where time goes by itself."""
    clock = engine.clock
    return (
        VirtualTime(clock, lambda: engine.foreign_client_count)
        if isinstance(clock, VirtualClock)
        else None
    )


def virtual_time_here(name: str, number: int) -> VirtualTime | None:
    """Return that of a queue manager of this process that serves the connection of a number."""
    manager = open_here().get(name)
    if manager is None or not manager.engine.has_session(number):
        return None
    return virtual_time_of(manager.engine)
