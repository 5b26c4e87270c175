"""Ways in which the tests of rules reach a queue manager: ``pytest --over=socket tests/spec``.

``session``, the default, gives the native session. ``connection`` and ``socket`` give a client of a
connection in this process, and of one over TCP; its verbs are the same. The tests of the facades,
tests/pymqi and tests/jms, connect by a name: with ``socket`` over TCP, else in this process.

Both ways leave out the tests that are marked ``in_process``, which look inside or use what only the
native session has, and all that do not take the fixture ``over``. What a rule says and a client
over a socket does not do yet is marked ``differs_over_socket``: such a test may fail there.

``session`` runs a sample of the test functions over a socket as well. ``make soak`` runs all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any, SupportsIndex, cast
from zlib import crc32

import pytest

import mayfly.client.connection
from mayfly import QueueManager
from mayfly.client import Client
from mayfly.client.connection import Connection, LocalConnection, by_name
from mayfly.client.connection.connectors import LocalConnector
from mayfly.client.connection.reconnection import DEFAULT_ATTEMPTS, Attempts
from mayfly.client.connection.remote import connect
from mayfly.client.connection.routes import DEFAULT_OPTIONS, ConnectOptions
from mayfly.engine import LONGEST_MESSAGE_BYTES, GetRequest, PutRequest, Session
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError
from mayfly.queue_manager import managers_here
from mayfly.verbs import requests as ask
from mayfly.verbs.facts import Status
from mayfly.verbs.messages import GetResult, PutResult
from mayfly.verbs.requests import Opened
from tests.connection.serving import Served, serving

SESSION, SOCKET = "session", "socket"
WAYS = (SESSION, "connection", SOCKET)
#: One function of so many is in the sample, by its name.
_SAMPLE_OF = 20


def is_in_sample(function: str) -> bool:
    """Whether a test function runs over a socket in each run of the tests."""
    return crc32(function.encode()) % _SAMPLE_OF == 0


class Servers:
    """Serves each queue manager to which somebody connects, until the end of the test."""

    def __init__(self) -> None:
        """Nothing is served yet."""
        self._stack = ExitStack()
        self._served: dict[int, tuple[QueueManager, Served]] = {}

    def connect(
        self,
        manager: QueueManager,
        user: str | None,
        program: str = "mayfly",
        groups: Sequence[str] = (),
    ) -> Connection:
        """Connect a user, None for who opened the queue manager."""
        if id(manager) not in self._served:
            server = self._stack.enter_context(serving(manager))
            # As in the process itself: nobody by name is who opened the queue manager.
            server.admission.operators = frozenset({""})
            self._served[id(manager)] = manager, server
        served = self._served[id(manager)][1]
        served.admission.terms = replace(served.admission.terms, groups=tuple(groups))
        endpoint = served.endpoint(manager.name, max_message_bytes=LONGEST_MESSAGE_BYTES)
        return connect(endpoint, user or "", "secret", application=program)

    def connect_by_name(
        self,
        name: str,
        user: str | None = None,
        *,
        password: str | None = None,
        program: str = "mayfly",
        wanted: ConnectOptions = DEFAULT_OPTIONS,
    ) -> Connection:
        """Connect as ``mayfly.client.connection.connect``; to what is open here over a socket."""
        here = {n: m for n, m in managers_here().items() if not m.is_stopped}
        if not name and len(here) == 1:
            (name,) = here
        manager = here.get(name)
        if wanted.endpoint is not None or manager is None:
            return by_name.connect(name, user, password=password, program=program, wanted=wanted)
        return self.connect(manager, user, program)

    def close(self) -> None:
        """End the servers."""
        self._stack.close()


@contextmanager
def names_over(way: str) -> Iterator[None]:
    """Let connections by a name go this way."""
    if way != SOCKET:
        yield
        return
    servers = Servers()

    def connect_like(
        connector: LocalConnector,
        user: str | None = None,
        _password: str | None = None,
        *,
        program: str,
        attempts: Attempts = DEFAULT_ATTEMPTS,
    ) -> Connection:
        return servers.connect(connector.manager, user, program)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mayfly.client.connection, "connect", servers.connect_by_name)
        patch.setattr(LocalConnector, "__call__", connect_like)
        yield
    servers.close()


class NewSession:
    """Opens sessions, or what has their verbs; a queue manager is served from its first one on."""

    def __init__(self, way: str) -> None:
        """Open them in one of ``WAYS``."""
        self._way = way
        self._servers = Servers()
        self._clients: list[Client] = []

    def __call__(
        self,
        manager: QueueManager,
        user: str | None = None,
        transacted: bool = False,
        program: str = "mayfly",
        *,
        groups: Sequence[str] = (),
    ) -> Session:
        """Open one; parameters as ``QueueManager.session``."""
        if self._way == SESSION:
            return manager.session(user, transacted, program, groups=groups)
        connection: Connection
        if self._way == "connection":
            own = manager.session(user, program=program, groups=groups)
            connection = LocalConnection(own, manager)
        else:
            connection = self._servers.connect(manager, user, program, groups)
        self._clients.append(OpeningClient(connection, transacted=transacted))
        # What a test uses of a session, a client has; another test is marked in_process.
        return cast(Session, self._clients[-1])

    def close(self) -> None:
        """End the clients that are left over, and the servers."""
        for client in self._clients:
            with suppress(MQError):
                client.close(commit=False)
        self._servers.close()


class OpeningClient(Client):
    """A client that opens queues, as the native session does."""

    def open(self, name: str, options: int, **more: Any) -> QueueOfClient:
        """MQOPEN; parameters as ``Session.open``."""
        opened = self._connection.call(ask.Open(name, options, **more))
        return QueueOfClient(self._connection, opened, options)

    def status(self) -> Status:
        """MQSTAT."""
        return self._connection.call(ask.AskStatus())


class QueueOfClient:
    """An open queue with the verbs of the native handle, which it says to a connection."""

    def __init__(self, connection: Connection, opened: Opened, options: int) -> None:
        """Take what was opened with these options."""
        self._connection, self.number, self.options = connection, opened.handle, options
        self.queue_name = opened.made or opened.queue

    def __index__(self) -> int:
        """Return the number of the handle."""
        return self.number

    @property
    def is_open(self) -> bool:
        """Whether neither it nor its connection has been closed."""
        return self._connection.has_open(self.number)

    def put(
        self,
        body: bytes,
        request: PutRequest,
        options: int = c.MQPMO_NONE,
        context: SupportsIndex = c.MQHO_NONE,
    ) -> PutResult | None:
        """MQPUT; parameters as ``Handle.put``."""
        return self._connection.put(
            self.number,
            body,
            request.descriptor,
            options | request.context_option,
            msg_id=request.msg_id,
            correl_id=request.correl_id,
            time_to_live_ms=request.life_ms,
            delay_ms=request.delay_ms,
            context=context.__index__(),
        )

    def put_async(
        self,
        body: bytes,
        request: PutRequest,
        options: int = c.MQPMO_NONE,
        context: SupportsIndex = c.MQHO_NONE,
    ) -> PutResult | None:
        """MQPUT with MQPMO_ASYNC_RESPONSE; parameters as ``Handle.put_async``."""
        return self.put(body, request, options | c.MQPMO_ASYNC_RESPONSE, context)

    def get(self, request: GetRequest, options: int = c.MQGMO_NONE) -> GetResult:
        """MQGET; parameters as ``Handle.get``."""
        match = request.match
        assert match.selector is None, "a selector is given when the queue is opened"
        options |= c.MQGMO_ACCEPT_TRUNCATED_MSG if request.accept_truncated else 0
        return self._connection.get(
            self.number,
            options,
            wait_ms=request.wait_ms,
            max_length=request.max_length,
            msg_id=match.msg_id or b"",
            correl_id=match.correl_id or b"",
            group_id=match.group_id or b"",
            sequence_number=match.msg_seq_number,
            offset=match.offset,
            token=match.token,
            with_extension=request.extends,
        )

    def unlock(self) -> int:
        """MQGMO_UNLOCK."""
        return self._connection.call(ask.Unlock(self.number))

    def close(self, options: int = c.MQCO_NONE) -> int:
        """MQCLOSE."""
        return self._connection.call(ask.CloseObject(self.number, options))
