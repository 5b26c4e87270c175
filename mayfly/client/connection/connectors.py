"""Makers of connections to one queue manager, for facades that open several connections."""

from __future__ import annotations

from typing import Protocol

from mayfly.client import connection
from mayfly.client.connection.choose import NOTHING_WANTED, Sharing, Wanted
from mayfly.client.connection.instruments import instrumented
from mayfly.client.connection.interface import Connection
from mayfly.client.connection.local import LocalConnection
from mayfly.client.connection.reconnection import USUAL_ATTEMPTS, Attempts
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Runtime


class Connector(Protocol):
    """Connects users to one queue manager, wherever it is."""

    @property
    def runtime(self) -> Runtime:
        """The runtime of threads and locks of a facade before it is connected."""

    @property
    def has_ended(self) -> bool:
        """Whether the queue manager has ended for good: nobody will connect to it again."""

    def __call__(
        self,
        user: str | None = None,
        password: str | None = None,
        *,
        program: str,
        attempts: Attempts = USUAL_ATTEMPTS,
    ) -> Connection:
        """Return a new conversation of a user; ``program`` becomes PutApplName.

        ``attempts`` counts when the conversation is made again. ``user`` None is whoever the queue
        manager takes the program for. Raises the reason codes of MQCONN, MQRC_NOT_AUTHORIZED.
        """

    def apart(self, sharing: Sharing) -> Connector:
        """Return one whose conversations share sockets with each other alone."""


class LocalConnector:
    """Connects to a queue manager object of this process, and takes a user at its word."""

    def __init__(self, manager: object) -> None:
        """Take the queue manager; raises TypeError for anything else."""
        if not isinstance(manager, QueueManager):
            raise TypeError(
                f"{manager!r} is no queue manager of this process: one that another process "
                "serves is connected to by its address (docs/SERVING.md)"
            )
        self.manager = manager
        self.runtime = manager.engine.runtime

    @property
    def has_ended(self) -> bool:
        """Whether the object is closed, or is being closed."""
        return self.manager.engine.is_closing or self.manager.is_stopped

    def __call__(
        self,
        user: str | None = None,
        password: str | None = None,
        *,
        program: str,
        attempts: Attempts = USUAL_ATTEMPTS,
    ) -> Connection:
        """Return a new conversation; the password is not looked at."""
        session = self.manager.session(user, program=program, groups=None)
        return instrumented(LocalConnection(session, self.manager))

    def apart(self, sharing: Sharing) -> Connector:
        """Return itself: there are no sockets."""
        return self


class NamedConnector:
    """Connects to a queue manager by its name, over the way that is wanted (docs/CLIENTS.md)."""

    def __init__(self, name: str, wanted: Wanted = NOTHING_WANTED) -> None:
        """Take the name, and a channel or a channel table if the program gives one."""
        self._name, self._wanted = name, wanted
        self.runtime = Runtime()

    @property
    def has_ended(self) -> bool:
        """Return False: a queue manager of this name may be started again."""
        return False

    def __call__(
        self,
        user: str | None = None,
        password: str | None = None,
        *,
        program: str,
        attempts: Attempts = USUAL_ATTEMPTS,
    ) -> Connection:
        """Return a new conversation; raises as ``connection.connect``."""
        wanted = self._wanted._replace(attempts=attempts)
        return connection.connect(
            self._name, user, password=password, program=program, wanted=wanted
        )

    def apart(self, sharing: Sharing) -> Connector:
        """Return one to the same queue manager."""
        return NamedConnector(self._name, self._wanted._replace(sharing=sharing))
