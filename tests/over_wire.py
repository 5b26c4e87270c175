"""Tests of rules over a socket: every connection by name goes through a server of its own process.

``MAYFLY_TEST_OVER=wire pytest tests/pymqi`` runs the tests of a facade in this way; those of
``tests/jms`` likewise.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

import mayfly.connection
from mayfly import QueueManager
from mayfly.connection import Connection, by_name
from mayfly.connection.choose import NOTHING_WANTED, Wanted
from mayfly.connection.connectors import LocalConnector
from mayfly.connection.reconnection import USUAL_ATTEMPTS, Attempts
from mayfly.connection.remote import connect
from mayfly.queue_manager import managers_here
from tests.connection.serving import Served, serving

#: Tests that look at objects of this process, by the start of their names -> what they look at.
IN_PROCESS = {
    "test_connect_finds_the_open_queue_manager": "admin is the queue manager itself",
    "test_connect_opens_the_folder_under_home": "admin is the queue manager itself",
    "test_verbs_on_a_closed_queue_manager_are_2009": "a served one ends with its server",
    "test_what_is_collected_in_the_midst_of_the_engine": "the list of what is left behind",
}
IS_ASKED_FOR = os.environ.get("MAYFLY_TEST_OVER") == "wire"


class Servers:
    """Serves each queue manager of this process that somebody connects to."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._served: dict[int, tuple[QueueManager, Served]] = {}

    def connect(
        self,
        name: str,
        user: str | None = None,
        *,
        password: str | None = None,
        program: str = "mayfly",
        wanted: Wanted = NOTHING_WANTED,
    ) -> Connection:
        """Connect by name as ``mayfly.connection.connect``, over a socket where it is open here."""
        here = {n: m for n, m in managers_here().items() if not m.is_stopped}
        if not name and len(here) == 1:
            (name,) = here
        manager = here.get(name)
        if wanted.endpoint is not None or manager is None:
            return by_name.connect(name, user, password=password, program=program, wanted=wanted)
        return self.to(manager, user, program)

    def to(self, manager: QueueManager, user: str | None, program: str = "mayfly") -> Connection:
        """Connect a user, None for who opened it."""
        if id(manager) not in self._served:
            server = self._stack.enter_context(serving(manager))
            self._served[id(manager)] = manager, server
        served = self._served[id(manager)][1]
        return connect(served.endpoint(manager.name), user or "", "secret", application=program)


@contextmanager
def over_the_wire(patch: pytest.MonkeyPatch) -> Iterator[Servers]:
    """Let connections by name go over sockets."""
    with ExitStack() as stack:
        servers = Servers(stack)
        patch.setattr(mayfly.connection, "connect", servers.connect)

        def connect_like(
            connector: LocalConnector,
            user: str | None = None,
            _password: str | None = None,
            *,
            program: str,
            attempts: Attempts = USUAL_ATTEMPTS,
        ) -> Connection:
            return servers.to(connector.manager, user, program)

        patch.setattr(LocalConnector, "__call__", connect_like)
        yield servers
