"""The clients of a queue manager that a server has let in: a server hands this to administration.

A queue manager that no server serves has none. Several servers of one process may serve it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeAlias

from mayfly.engine import Engine


class ClientConnection(NamedTuple):
    """One conversation of a client.

    ``number`` is that of the connection on its queue manager, ``instance`` that of the socket,
    which several conversations may share. ``address`` is empty for a UNIX socket. A blank
    ``channel`` is that of an operator. ``sending_manager`` is empty, or the conversation is a
    message channel of that queue manager. Both ends speak at least every ``heartbeat_ms``, 0 for
    whenever they like. The bytes are those of the socket.

    Times are the queue manager's, in ms since 1970: of the connect, and of the first verb of the
    open unit of work, None without one. ``is_running`` is True while a verb is under way. These and
    ``open_handles`` are told by the wire alone.
    """

    number: int
    instance: int
    queue_manager: str
    channel: str
    user: str
    address: str
    application: str
    has_tls: bool
    connected_ms: int
    request_count: int
    heartbeat_ms: int
    sent_bytes: int
    received_bytes: int
    sending_manager: str = ""
    unit_of_work_ms: int | None = None
    open_handles: int = 0
    is_running: bool = False


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
