"""Protocols of session and connection, for consumers, producers, browsers and listeners.

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
        """Return a new connection to the queue manager for the same user."""

    def create_temporary_queue(self) -> TemporaryQueue:
        """Make a temporary queue."""

    def create_temporary_topic(self) -> TemporaryTopic:
        """Make a temporary topic."""

    def has_temporary_queue(self, name: str) -> bool:
        """Return True if the connection has made a temporary queue of this name."""

    def has_temporary_topic(self, name: str) -> bool:
        """Return True if the connection has a temporary topic of this name that is not deleted."""

    def wait_for_start(self, until_ms: int | None, is_open: Callable[[], bool]) -> bool:
        """Wait until the connection starts and return True.

        False at ``until_ms`` or after a close.
        """

    def wake(self) -> None:
        """Make threads in :meth:`wait_for_start` check the state again."""

    def forget(self, session: Any) -> None:
        """Forget a closed session."""

    def close(self) -> None:
        """Close the connection and all sessions, which roll back."""


class Listens(Protocol):
    """The message listeners of a session, as its consumers see them."""

    @property
    def is_used(self) -> bool:
        """True if any consumer has a listener."""

    def listen(self, consumer: Any, call: Callable[[Any], object]) -> None:
        """Set the listener of a consumer."""

    def leave(self, consumer: Any) -> None:
        """Remove the listener of a consumer; waits for it if it runs on another thread."""

    def leave_later(self, consumer: Any) -> bool:
        """Let a consumer close after its running listener returns.

        False if that is not running here.
        """

    def check_thread(self, call: str) -> None:
        """Raise IllegalStateException if listeners are active on another thread."""


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
        """Start the time of the transaction, unless it already runs."""

    def undo(self) -> None:
        """Back out the unit of work."""

    def acknowledge(self) -> None:
        """Acknowledge all received messages of the session."""

    def output(self, queue: Queue) -> Opened:
        """Open a queue for one send."""

    def release_output(self, queue: Queue, opened: Opened) -> None:
        """Close a queue after a send, unless the unit of work keeps it open."""

    def close_handle(self, handle: int) -> None:
        """Close a handle, if it is still open."""

    def forget(self, consumer: Any) -> None:
        """Forget a closed consumer."""
