"""Ways in which the tests of rules reach a queue manager: ``pytest --over=socket tests/spec``.

``session``, the default, gives the native session. ``connection`` and ``socket`` give a client of a
connection in this process, and of one over TCP; its verbs are the same. They leave out the tests
that are marked ``in_process``, which look inside or use what only the native session has, and all
that take no session from here. What a rule says and a client over a socket does not do yet is
marked ``differs_over_socket``: such a test may fail there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, SupportsIndex, cast

from mayfly import QueueManager
from mayfly.client import Client
from mayfly.connection import Connection, GetResult, LocalConnection, Opened, PutResult, Status
from mayfly.connection.remote import connect
from mayfly.engine import GetRequest, PutRequest, Session
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError
from tests.connection.serving import Served, serving

WAYS = ("session", "connection", "socket")


class NewSession:
    """Opens sessions, or what has their verbs; a queue manager is served from its first one on."""

    def __init__(self, way: str) -> None:
        """Open them in one of ``WAYS``."""
        self._way = way
        self._served: dict[int, Served] = {}
        self._servers = ExitStack()
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
        if self._way == "session":
            return manager.session(user, transacted, program, groups=groups)
        connection: Connection
        if self._way == "connection":
            own = manager.session(user, program=program, groups=groups)
            connection = LocalConnection(own, manager)
        else:
            connection = self._over_a_socket(manager, user or "", program, groups)
        self._clients.append(OpeningClient(connection, transacted=transacted))
        # What a test uses of a session, a client has; another test is marked in_process.
        return cast(Session, self._clients[-1])

    def close(self) -> None:
        """End the clients that are left over, and the servers."""
        for client in self._clients:
            with suppress(MQError):
                client.close(commit=False)
        self._servers.close()

    def _over_a_socket(
        self, manager: QueueManager, user: str, program: str, groups: Sequence[str]
    ) -> Connection:
        served = self._served.get(id(manager))
        if served is None:
            served = self._served[id(manager)] = self._servers.enter_context(serving(manager))
            # As in the process itself: nobody by name is who opened the queue manager.
            served.admission.operators = frozenset({""})
        served.admission.terms = replace(served.admission.terms, groups=tuple(groups))
        return connect(served.endpoint(manager.name), user, "secret", application=program)


class OpeningClient(Client):
    """A client that opens queues, as the native session does."""

    def open(self, name: str, options: int, **more: Any) -> QueueOfClient:
        """MQOPEN; parameters as ``Session.open``."""
        opened = self._connection.open(name, options, **more)
        return QueueOfClient(self._connection, opened, options)

    def status(self) -> Status:
        """MQSTAT."""
        return self._connection.status()


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
        return self._connection.objects.is_open(self.number)

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
        return self._connection.unlock(self.number)

    def close(self, options: int = c.MQCO_NONE) -> int:
        """MQCLOSE."""
        return self._connection.close_object(self.number, options)
