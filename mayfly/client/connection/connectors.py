"""Connectors: objects that open connections to one queue manager, for facades (JMS, pymqi)."""

from __future__ import annotations

from typing import Protocol

from mayfly.client import connection
from mayfly.client.connection.interface import Connection, instrumented
from mayfly.client.connection.local import LocalConnection
from mayfly.client.connection.reconnection import DEFAULT_ATTEMPTS, Attempts
from mayfly.client.connection.routes import DEFAULT_OPTIONS, ConnectOptions, Sharing
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Runtime


class Connector(Protocol):
    """Connects users to one queue manager, local or remote."""

    @property
    def runtime(self) -> Runtime:
        """The source of threads and locks for a facade that is not connected yet."""

    @property
    def has_ended(self) -> bool:
        """True when the queue manager has closed for good and no connection can be made."""

    def __call__(
        self,
        user: str | None = None,
        password: str | None = None,
        *,
        program: str,
        attempts: Attempts = DEFAULT_ATTEMPTS,
    ) -> Connection:
        """Return a new connection of a user; ``program`` becomes PutApplName.

        ``attempts`` applies when the connection reconnects. ``user`` None is the default user of
        the queue manager. Raises the reason codes of MQCONN and MQRC_NOT_AUTHORIZED.
        """

    def apart(self, sharing: Sharing) -> Connector:
        """Return a connector whose connections share sockets with each other only.

        ``sharing`` is their group, and says how many of them may use one socket.
        """


class LocalConnector:
    """Connects to a queue manager object of this process; the user is not authenticated."""

    def __init__(self, manager: object) -> None:
        """Take a QueueManager; raises TypeError for any other object."""
        if not isinstance(manager, QueueManager):
            raise TypeError(
                f"{manager!r} is no queue manager of this process: one that another process "
                "serves is connected to by its address (docs/SERVING.md)"
            )
        self.manager = manager
        self.runtime = manager.engine.runtime

    @property
    def has_ended(self) -> bool:
        """True when the queue manager is closed or closing."""
        return self.manager.engine.is_closing or self.manager.is_stopped

    def __call__(
        self,
        user: str | None = None,
        password: str | None = None,
        *,
        program: str,
        attempts: Attempts = DEFAULT_ATTEMPTS,
    ) -> Connection:
        """Return a new connection; the password is not checked.

        ``attempts`` is ignored: the connection does not reconnect.
        """
        session = self.manager.session(user, program=program, groups=None)
        return instrumented(LocalConnection(session, self.manager))

    def apart(self, sharing: Sharing) -> Connector:
        """Return this connector: its connections have no sockets."""
        return self


class NamedConnector:
    """Connects to a queue manager by its name, by the route of ``wanted`` (docs/CLIENTS.md)."""

    def __init__(self, name: str, wanted: ConnectOptions = DEFAULT_OPTIONS) -> None:
        """Take the name of the queue manager and the route to it; nothing is connected yet."""
        self._name, self._wanted = name, wanted
        self.runtime = Runtime()

    @property
    def has_ended(self) -> bool:
        """Always False: a queue manager of this name may be started again."""
        return False

    def __call__(
        self,
        user: str | None = None,
        password: str | None = None,
        *,
        program: str,
        attempts: Attempts = DEFAULT_ATTEMPTS,
    ) -> Connection:
        """Return a new connection of a user; ``program`` becomes PutApplName.

        Raises MQError when no route works, see ``connection.connect``.
        """
        wanted = self._wanted._replace(attempts=attempts)
        return connection.connect(
            self._name, user, password=password, program=program, wanted=wanted
        )

    def apart(self, sharing: Sharing) -> Connector:
        """Return a connector to the same queue manager, for connections of one group.

        They share sockets with each other only, as ``sharing`` says.
        """
        return NamedConnector(self._name, self._wanted._replace(sharing=sharing))
