"""The clients of a queue manager, which a server registers here for administration.

A queue manager that no server serves has no clients. Several servers of one process may serve it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from mayfly.engine import Engine


class ClientConnection(NamedTuple):
    """One conversation of a client.

    ``number`` is that of the connection on its queue manager, ``instance`` that of the socket,
    which several conversations may share. ``address`` is empty for a UNIX socket. A blank
    ``channel`` is that of an operator. ``sending_manager`` is the queue manager of a message
    channel, otherwise empty. Both ends send something at least every ``heartbeat_ms``; 0 is no
    promise. The bytes are those of the socket.

    Times are the queue manager's, in ms since 1970: ``connected_ms`` of the connect,
    ``unit_of_work_ms`` of the first verb of the open unit of work, None without one. ``is_running``
    is True while a verb runs. Only Mayfly's own protocol fills in these and ``open_handles``.
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
        """Return the open conversations."""

    def end(self, number: int) -> bool:
        """End the socket of a conversation; return False when the server does not have this number.

        All conversations of the socket end. Their units of work are backed out, and their clients
        get MQRC_CONNECTION_BROKEN.
        """

    def quiesce(self, number: int) -> bool:
        """End the socket of a conversation, later, when the socket has no more work.

        The call does not wait for that. Work is an open unit of work, a delivery that is not
        settled, and a running verb. Returns False when the server does not have this number.
        """


#: The clients of each server of a queue manager.
_SERVERS: weakref.WeakKeyDictionary[Engine, list[Clients]] = weakref.WeakKeyDictionary()


@contextmanager
def clients_known(manager: Engine, clients: Clients) -> Iterator[None]:
    """Register the clients of a server for administration while the context is open."""
    servers = _SERVERS.setdefault(manager, [])
    servers.append(clients)
    try:
        yield
    finally:
        servers.remove(clients)


def client_connections(manager: Engine) -> list[ClientConnection]:
    """Return the conversations of clients with a queue manager; [] when no server serves it."""
    return [
        connection
        for clients in list(_SERVERS.get(manager, ()))
        for connection in clients.connections()
        if connection.queue_manager == manager.name
    ]


def end_client(manager: Engine, number: int) -> bool:
    """End the socket of a client's conversation; return False when no server has this number.

    Units of work of the socket's conversations are backed out.
    """
    return any(clients.end(number) for clients in list(_SERVERS.get(manager, ())))


def quiesce_client(manager: Engine, number: int) -> bool:
    """End the socket of a client's conversation, later, when the socket has no more work.

    The call does not wait for that. Until then waiting gets of the client, and its verbs with
    MQ…_FAIL_IF_QUIESCING, fail with MQRC_CONNECTION_QUIESCING. Returns False when no server has a
    conversation with this number.
    """
    return any(clients.quiesce(number) for clients in list(_SERVERS.get(manager, ())))
