"""Instruments look at the connections of a process: telemetry, once it is switched on.

No verb meets one: an instrument puts itself around a connection when that is made, and
around a message listener when that is set.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from mayfly.client.connection.interface import Connection

_M = TypeVar("_M")
_A = TypeVar("_A", bound=Callable[..., Awaitable[None]])


class Instrument(Protocol):
    """Looks at what the programs of this process do with messages."""

    def connection(self, made: Connection, *, for_others: bool) -> Connection:
        """Return the connection for a program, in the place of one that was just made.

        ``for_others`` is one by which a server does the work of programs elsewhere.
        """

    def listener(self, mq: Connection, call: Callable[[_M], object]) -> Callable[[_M], object]:
        """Return the function that gets the messages of ``mq`` in the place of ``call``."""

    def application(self, application: _A) -> _A:
        """Return the application of ASGI that a server runs in the place of its own."""


_installed: list[Instrument] = []


def install(instrument: Instrument | None) -> None:
    """Let an instrument look at all connections that are made from now on, None ends it."""
    _installed[:] = [] if instrument is None else [instrument]


def instrumented(made: Connection, *, for_others: bool = False) -> Connection:
    """Return the connection that a program gets for one that was just made."""
    for instrument in _installed:
        made = instrument.connection(made, for_others=for_others)
    return made


def instrumented_listener(mq: Connection, call: Callable[[_M], object]) -> Callable[[_M], object]:
    """Return the function that gets messages in the place of a program's own."""
    for instrument in _installed:
        call = instrument.listener(mq, call)
    return call


def instrumented_application(application: _A) -> _A:
    """Return the application of ASGI that a server runs."""
    for instrument in _installed:
        application = instrument.application(application)
    return application
