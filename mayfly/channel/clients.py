"""The clients of a queue manager that a server has let in: a server hands this to administration.

A queue manager that no server serves has none. Several servers of one process may serve it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeAlias

from mayfly.engine import Engine


class ClientConnection(Protocol):
    """One conversation of a client.

    ``number`` is that of the connection on its queue manager, ``instance`` that of the socket,
    which several conversations may share. ``address`` is empty for a UNIX socket. A blank
    ``channel`` is that of an operator. ``sending_manager`` is empty, or the conversation is a
    message channel of that queue manager. Both ends speak at least every ``heartbeat_ms``, 0 for
    whenever they like. The bytes are those of the socket.
    """

    @property
    def number(self) -> int: ...
    @property
    def instance(self) -> int: ...
    @property
    def queue_manager(self) -> str: ...
    @property
    def channel(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def application(self) -> str: ...
    @property
    def has_tls(self) -> bool: ...
    @property
    def connected_ms(self) -> int: ...
    @property
    def request_count(self) -> int: ...
    @property
    def heartbeat_ms(self) -> int: ...
    @property
    def sent_bytes(self) -> int: ...
    @property
    def received_bytes(self) -> int: ...
    @property
    def sending_manager(self) -> str: ...


class Clients(Protocol):
    """The clients of one server."""

    def connections(self) -> Sequence[ClientConnection]:
        """Return the conversations that are open."""

    def end(self, number: int) -> bool:
        """End the socket of a conversation; False when it has none of this number.

        Its unit of work is backed out. The client is told MQRC_CONNECTION_BROKEN.
        """


#: Ends the socket of a conversation as soon as its work is done; False when it is not there.
Quiesce: TypeAlias = Callable[[int], bool]


class _Server(NamedTuple):
    clients: Clients
    quiesce: Quiesce | None


_SERVERS: weakref.WeakKeyDictionary[Engine, list[_Server]] = weakref.WeakKeyDictionary()


@contextmanager
def clients_known(
    manager: Engine, clients: Clients, quiesce: Quiesce | None = None
) -> Iterator[None]:
    """Let administration of a queue manager know the clients of a server for a block.

    Without ``quiesce`` clients that are to end when their work is done are ended at once.
    """
    servers = _SERVERS.setdefault(manager, [])
    server = _Server(clients, quiesce)
    servers.append(server)
    try:
        yield
    finally:
        servers.remove(server)


def client_connections(manager: Engine) -> list[ClientConnection]:
    """Return the conversations of clients with a queue manager."""
    return [
        connection
        for server in list(_SERVERS.get(manager, ()))
        for connection in server.clients.connections()
        if connection.queue_manager == manager.name
    ]


def end_client(manager: Engine, number: int) -> bool:
    """End the socket of a client's conversation; False when no server has it."""
    return any(server.clients.end(number) for server in list(_SERVERS.get(manager, ())))


def quiesce_client(manager: Engine, number: int) -> bool:
    """Let the socket of a client's conversation end when its work is done; False as above.

    Its gets that wait, and its verbs with MQ…_FAIL_IF_QUIESCING, are MQRC_CONNECTION_QUIESCING.
    """
    return any(
        server.clients.end(number) if server.quiesce is None else server.quiesce(number)
        for server in list(_SERVERS.get(manager, ()))
    )
