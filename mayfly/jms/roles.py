"""Protocols of session and connection, as consumers, producers, browsers and listeners use them.

The module of sessions imports those of consumers and producers, which so cannot import it.
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
        """Note that the connection is in use: from now on its client id cannot be set."""

    def connect(self) -> QueueConnection:
        """Return a new conversation of the connection's user."""

    def create_temporary_queue(self) -> TemporaryQueue:
        """Make a temporary queue."""

    def create_temporary_topic(self) -> TemporaryTopic:
        """Make a temporary topic."""

    def has_temporary_queue(self, name: str) -> bool:
        """Return True if the connection has made a temporary queue of this name."""

    def has_temporary_topic(self, name: str) -> bool:
        """Return True if the connection has made a temporary topic of this name, not deleted."""

    def wait_for_start(self, until_ms: int | None, is_open: Callable[[], bool]) -> bool:
        """Wait until it is started; False when the time is over, or ``is_open()`` is False."""

    def wake(self) -> None:
        """Make threads in :meth:`wait_for_start` look at the state again."""

    def forget(self, session: Any) -> None:
        """Forget a session that was closed."""

    def close(self) -> None:
        """Close with all sessions, which roll back."""


class Listens(Protocol):
    """The message listeners of a session, as its consumers know them."""

    @property
    def is_used(self) -> bool:
        """Whether there is a listener."""

    def listen(self, consumer: Any, call: Callable[[Any], object]) -> None:
        """Let a listener have the messages of a consumer."""

    def leave(self, consumer: Any) -> None:
        """Let a consumer have no listener; one at work on another thread is waited for."""

    def leave_later(self, consumer: Any) -> bool:
        """Let a consumer close when its own listener returns; False when that is not at work."""

    def check_thread(self, call: str) -> None:
        """Raise IllegalStateException when the session is busy with its listeners elsewhere."""


class OwningSession(Protocol):
    """The session that a consumer, a producer or a browser belongs to."""

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
        """Its message listeners."""

    def check_open(self) -> None:
        """Raise IllegalStateException when it is closed."""

    def begin_work(self, now_ms: int | None = None) -> None:
        """Let the time of a transaction run from now, unless it does."""

    def undo(self) -> None:
        """Back the unit of work out."""

    def acknowledge(self) -> None:
        """Acknowledge all that was received in it."""

    def output(self, queue: Queue) -> Opened:
        """Return what a queue's name leads to, open for one send."""

    def release_output(self, queue: Queue, opened: Opened) -> None:
        """Give back what was used for a send."""

    def close_handle(self, handle: int) -> None:
        """Close a handle of its conversation, unless it is closed."""

    def forget(self, consumer: Any) -> None:
        """Forget a consumer that was closed."""
