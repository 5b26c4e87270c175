"""The connections of a port: a number of sessions, the conversations, share each of them (L4).

Over a network a connection is a socket, which it has for itself.
"""

from __future__ import annotations

import itertools
from contextlib import suppress

from mayfly.jms.connections import Connection
from mayfly.jms.constants import SESSION_TRANSACTED
from mayfly.jms.consumers import MessageConsumer
from mayfly.jms.destinations import Topic
from mayfly.jms.errors import JMSException, classic
from mayfly.jms.factory import ConnectionFactory
from mayfly.jms.sessions import Session
from mayfly.mqi.errors import MQError
from mayfly.queue_manager import QueueManager
from mayfly.services.listener.settings import Settings

_subscriptions = itertools.count(1)


def factory_of(manager: QueueManager | ConnectionFactory) -> ConnectionFactory:
    """Return what makes connections to a queue manager; raises TypeError for what is none."""
    return manager if isinstance(manager, ConnectionFactory) else ConnectionFactory(manager)


class Conversations:
    """Opens sessions on as few connections as possible; threads share it."""

    def __init__(self, factory: ConnectionFactory, settings: Settings) -> None:
        """Begin without a connection."""
        self._factory = factory
        self._settings = settings
        #: The sessions of a topic share one subscription, which ends with the last of them.
        self._subscription = f"mayfly.listener.{next(_subscriptions)}"
        self._lock = factory.runtime.lock("conversations")
        self._connections: list[Connection] = []

    @property
    def connection_count(self) -> int:
        """How many connections are open: over a network as many as there are sockets.

        They are more than the sessions need where the channel lets fewer share one.
        """
        connections = self._connections
        sockets = set[int]().union(*(connection.sockets for connection in connections))
        return len(sockets) or len(connections)

    @classic
    def open(self) -> tuple[Session, MessageConsumer]:
        """Return a new transacted session and its consumer; raises JMSException."""
        with self._lock:
            connection = self._with_room()
            try:
                session = connection.create_session(SESSION_TRANSACTED)
                return session, self._consumer(session)
            except BaseException:
                self._close_if_unused(connection)
                raise

    def close(self, session: Session) -> None:
        """Close a session, which rolls back, and its connection if it was the last one there.

        When the connection breaks meanwhile, the queue manager rolls back.
        """
        with self._lock:
            owner = session.connection
            with suppress(MQError, JMSException):
                session.close()
            for connection in [one for one in self._connections if one is owner]:
                self._close_if_unused(connection)

    def _with_room(self) -> Connection:
        for connection in self._connections:
            has_room = len(connection.sessions()) < self._settings.conversations_per_connection
            if has_room and connection.is_open and not connection.is_broken:
                return connection
        most = self._settings.conversations_per_connection
        connection = self._factory.create_connection_of(most)
        connection.start()
        self._connections.append(connection)
        return connection

    def _consumer(self, session: Session) -> MessageConsumer:
        destination, selector = self._settings.destination, self._settings.selector
        try:
            if isinstance(destination, Topic):
                return session.create_shared_consumer(destination, self._subscription, selector)
            return session.create_consumer(destination, selector)
        except BaseException:
            session.close()
            raise

    def _close_if_unused(self, connection: Connection) -> None:
        if connection in self._connections and not connection.sessions():
            self._connections.remove(connection)
            with suppress(MQError, JMSException):
                connection.close()
