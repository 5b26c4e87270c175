"""Waits of clients under a virtual clock of their own process, whose server is there as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mayfly.engine import Engine
from mayfly.queue_manager import managers_here
from mayfly.runtime.virtual_clock import VirtualClock, check_wait


class Standing(Protocol):
    """A get under way on a connection with virtual time."""

    def stands(self) -> bool:
        """Return False when it is decided, although the callback may not have been told yet."""


class VirtualTime:
    """The virtual clock of a queue manager of this process, as its connections wait under it."""

    def __init__(self, clock: VirtualClock, visitors: Callable[[], int]) -> None:
        """Take the clock, and what counts the programs of other processes that are connected."""
        self.clock, self._visitors = clock, visitors

    def check(self) -> None:
        """Raise RuntimeError where a wait by this thread can never end, as ``check_wait``."""
        check_wait(self.clock, self._visitors())


def virtual_time_of(engine: Engine) -> VirtualTime | None:
    """Return the virtual time of an engine, None where time goes by itself."""
    clock = engine.clock
    return (
        VirtualTime(clock, lambda: engine.visitor_count)
        if isinstance(clock, VirtualClock)
        else None
    )


def virtual_time_here(name: str, number: int) -> VirtualTime | None:
    """Return that of a queue manager of this process that serves the connection of a number."""
    manager = managers_here().get(name)
    if manager is None or not manager.engine.has_session(number):
        return None
    return virtual_time_of(manager.engine)
