"""Roles: protocols of session and connection, for consumers, producers, browsers and listeners.

The module of sessions imports those modules, so they cannot import it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mayfly.client.connection import Connection as QueueConnection
from mayfly.jms.callbacks import Completions, ExceptionReports
from mayfly.jms.destinations import Queue, TemporaryQueue, TemporaryTopic
from mayfly.mqi.errors import MQError
from mayfly.runtime import Lock
from mayfly.verbs.requests import Opened


class OwningConnection(Protocol):
    """The connection that a session belongs to."""

    lifetime_ms: int
    reports: ExceptionReports
    is_open: bool
    is_started: bool

    @property
    def client_id(self) -> str | None:
        """The client identifier, None without one."""

    def begin(self) -> None:
        """Record that the connection is in use: its client id can no longer be set."""

    def connect(self) -> QueueConnection:
        """Return a new queue manager connection for a session, with the same user and owner id."""

    def create_temporary_queue(self) -> TemporaryQueue:
        """Create and return a temporary queue.

        Raises MQError with the reason codes of MQOPEN, IllegalStateException for a closed
        connection.
        """

    def create_temporary_topic(self) -> TemporaryTopic:
        """Create and return a topic to which only this connection can subscribe."""

    def has_temporary_queue(self, name: str) -> bool:
        """Return True if the connection has made the temporary queue and not deleted it."""

    def has_temporary_topic(self, name: str) -> bool:
        """Return True if the connection has made the temporary topic and not deleted it."""

    def wait_for_start(self, until_ms: int | None, is_open: Callable[[], bool]) -> bool:
        """Wait until the connection is started, and return True; at once if it is started already.

        Returns False at ``until_ms``, the queue manager's time (None is no limit), or when
        ``is_open()`` is False after :meth:`wake`. Raises MQRC_CONNECTION_BROKEN, or
        MQRC_Q_MGR_STOPPING at the end of the queue manager.
        """

    def wake(self) -> None:
        """Make threads in :meth:`wait_for_start` check the state again."""

    def forget(self, session: Any) -> None:
        """Remove a closed session from the connection; does nothing for an unknown one."""

    def close(self) -> None:
        """Close the connection and all sessions, which roll back; a second call does nothing."""


class Listens(Protocol):
    """The message listeners of a session, as its consumers see them."""

    @property
    def is_used(self) -> bool:
        """True if any consumer of the session has a message listener."""

    def listen(self, consumer: Any, call: Callable[[Any], object]) -> None:
        """Set the message listener of a consumer, in place of an earlier one."""

    def leave(self, consumer: Any) -> None:
        """Remove the listener of a consumer; does nothing for a consumer without one.

        Waits for the listener if it runs on another thread.
        """

    def leave_later(self, consumer: Any) -> bool:
        """Let a consumer close after its running listener returns, and return True.

        Returns False, and changes nothing, unless this consumer's listener makes the call.
        """

    def check_thread(self, call: str) -> None:
        """Raise IllegalStateException if another thread than the current one calls listeners.

        ``call`` is the method name for the text.
        """


class OwningSession(Protocol):
    """The session that a consumer, producer or browser belongs to."""

    mq: QueueConnection
    lock: Lock
    acknowledge_mode: int
    transacted: bool
    is_open: bool
    completions: Completions
    #: Why its unit of work cannot be committed, if it cannot.
    must_roll_back: MQError | None
    #: Whether something was sent or received in its unit of work.
    has_work: bool

    @property
    def connection(self) -> OwningConnection:
        """The connection of the session."""

    @property
    def listening(self) -> Listens:
        """The message listeners of the session."""

    def check_open(self) -> None:
        """Raise IllegalStateException if the session is closed."""

    def begin_work(self, now_ms: int | None = None) -> None:
        """Start the time limit of the transaction, unless the transaction has work already.

        It counts from ``now_ms``, None for now.
        """

    def undo(self) -> None:
        """Back out the unit of work of the session."""

    def acknowledge(self) -> None:
        """Acknowledge all received messages in CLIENT_ACKNOWLEDGE; does nothing in other modes.

        Raises IllegalStateException if the session is closed.
        """

    def output(self, queue: Queue) -> Opened:
        """Return a queue opened for one send; :meth:`release_output` closes it.

        Raises MQError with the reason codes of MQOPEN.
        """

    def release_output(self, queue: Queue, opened: Opened) -> None:
        """Close ``opened``, which :meth:`output` returned for ``queue``, after a send.

        Does nothing if the unit of work keeps the queue open until its end.
        """

    def close_handle(self, handle: int) -> None:
        """Close a handle; does nothing if it is closed already."""

    def forget(self, consumer: Any) -> None:
        """Remove a closed consumer from the session; does nothing for an unknown one."""
