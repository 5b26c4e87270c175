"""Hooks by which telemetry observes the connections of a process, once it is switched on.

Verbs have no hook: an instrument wraps a connection when that is made, and a message listener when
that is set.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from mayfly.client.connection.interface import Connection

_M = TypeVar("_M")
_A = TypeVar("_A", bound=Callable[..., Awaitable[None]])


class Instrument(Protocol):
    """Observes what the programs of this process do with messages."""

    def connection(self, made: Connection, *, for_others: bool) -> Connection:
        """Return a wrapper for a new connection, or the connection itself.

        ``for_others`` is True for a connection by which a server works for remote programs.
        """

    def listener(self, mq: Connection, call: Callable[[_M], object]) -> Callable[[_M], object]:
        """Return a function that replaces the message listener ``call`` of connection ``mq``."""

    def application(self, application: _A) -> _A:
        """Return an ASGI application that replaces the application of a server."""


_installed: list[Instrument] = []


def install(instrument: Instrument | None) -> None:
    """Let an instrument wrap all connections made from now on; None removes it."""
    _installed[:] = [] if instrument is None else [instrument]


def instrumented(made: Connection, *, for_others: bool = False) -> Connection:
    """Return a new connection wrapped by the installed instrument, unchanged without one.

    ``for_others`` is True for a connection by which a server works for remote programs.
    """
    for instrument in _installed:
        made = instrument.connection(made, for_others=for_others)
    return made


def instrumented_listener(mq: Connection, call: Callable[[_M], object]) -> Callable[[_M], object]:
    """Return ``call``, the message listener of connection ``mq``, wrapped by the instrument.

    It is returned unchanged if no instrument is installed.
    """
    for instrument in _installed:
        call = instrument.listener(mq, call)
    return call


def instrumented_application(application: _A) -> _A:
    """Return an ASGI application wrapped by the installed instrument, unchanged without one."""
    for instrument in _installed:
        application = instrument.application(application)
    return application
