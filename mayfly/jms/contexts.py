"""Contexts, the simplified JMS API: a context is a connection and a session in one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Self

from mayfly.jms.connections import Connection
from mayfly.jms.constants import AUTO_ACKNOWLEDGE
from mayfly.jms.consumers import JMSBrowser, JMSConsumer, MessageConsumer
from mayfly.jms.destinations import Queue
from mayfly.jms.errors import JMSException, simplified, simplified_method
from mayfly.jms.producers import JMSProducer
from mayfly.jms.sessions import Session

P = ParamSpec("P")


class SharedConnection:
    """The connection of several contexts; it closes with the last of them."""

    def __init__(self, connection: Connection) -> None:
        """Take an open connection, which has no context yet."""
        self.connection = connection
        self._lock = connection.mq.runtime.lock("shared connection")
        self._count = 0

    def join(self) -> None:
        """Count one more context of the connection."""
        with self._lock:
            self._count += 1

    def leave(self) -> None:
        """Count one context less; close the connection after the last one."""
        with self._lock:
            self._count -= 1
            is_last = not self._count
        if is_last:
            self.connection.close()


def _session(context: JMSContext) -> Session:
    """Return the classic session behind a context."""
    return context._session


def _connection(context: JMSContext) -> Connection:
    """Return the classic connection behind a context."""
    return context._connection


def _consumer_method(
    create: Callable[Concatenate[Session, P], MessageConsumer],
) -> Callable[Concatenate[JMSContext, P], JMSConsumer]:
    """Return a JMSContext method that creates a consumer as ``create`` does.

    It starts the connection if ``auto_start`` is True. Errors are raised as JMSRuntimeException.
    """

    @simplified
    @functools.wraps(create)
    def method(self: JMSContext, /, *args: P.args, **kwargs: P.kwargs) -> JMSConsumer:
        consumer = create(self._session, *args, **kwargs)
        self._start_if_automatic()
        return JMSConsumer(consumer)

    return method


class JMSContext:
    """A connection with one session; one thread at a time uses it, and any thread may close it.

    The first consumer starts it automatically. Methods of the session and connection raise the
    JMSRuntimeException that corresponds to the JMSException. Errors of messages are JMSException
    until the context, its producers or its consumers pass them on.
    """

    create_message = simplified_method(Session.create_message, _session)
    create_text_message = simplified_method(Session.create_text_message, _session)
    create_bytes_message = simplified_method(Session.create_bytes_message, _session)
    create_map_message = simplified_method(Session.create_map_message, _session)
    create_stream_message = simplified_method(Session.create_stream_message, _session)
    create_object_message = simplified_method(Session.create_object_message, _session)
    create_queue = simplified_method(Session.create_queue, _session)
    create_temporary_queue = simplified_method(Session.create_temporary_queue, _session)
    create_topic = simplified_method(Session.create_topic, _session)
    create_temporary_topic = simplified_method(Session.create_temporary_topic, _session)
    unsubscribe = simplified_method(Session.unsubscribe, _session)
    commit = simplified_method(Session.commit, _session)
    rollback = simplified_method(Session.rollback, _session)
    recover = simplified_method(Session.recover, _session)
    acknowledge = simplified_method(Session.acknowledge, _session)
    #: They are those of all contexts of the connection.
    set_client_id = simplified_method(Connection.set_client_id, _connection)
    get_metadata = simplified_method(Connection.get_metadata, _connection)
    set_exception_listener = simplified_method(Connection.set_exception_listener, _connection)
    start = simplified_method(Connection.start, _connection)
    stop = simplified_method(Connection.stop, _connection)

    @simplified
    def __init__(self, shared: SharedConnection, session_mode: int) -> None:
        """Open a session on a shared connection; the factory and other contexts create contexts.

        Raises JMSRuntimeException with MQRC_OPTIONS_ERROR for a wrong mode,
        IllegalStateRuntimeException for a closed connection.
        """
        self._shared = shared
        self._connection = shared.connection
        self._session = shared.connection.open_session(session_mode)
        self._auto_start = True
        self._lock = self._connection.mq.runtime.lock("jms context")
        self._is_open = True
        shared.join()

    @property
    def session_mode(self) -> int:
        """AUTO_, CLIENT_ or DUPS_OK_ACKNOWLEDGE, or SESSION_TRANSACTED."""
        return self._session.acknowledge_mode

    @property
    def transacted(self) -> bool:
        """True if sends and receives belong to a unit of work."""
        return self._session.transacted

    @property
    def client_id(self) -> str | None:
        """The client identifier or None; unshared durable subscriptions need one."""
        return self._connection.client_id

    @property
    def exception_listener(self) -> Callable[[JMSException], object] | None:
        """The function that is called with errors which no call can raise, or None."""
        return self._connection.exception_listener

    @property
    def auto_start(self) -> bool:
        """True if the first consumer or browser starts the connection."""
        return self._auto_start

    def set_auto_start(self, value: bool) -> None:
        """Choose whether the first consumer or browser starts the connection."""
        self._auto_start = value

    @simplified
    def create_context(self, session_mode: int = AUTO_ACKNOWLEDGE) -> JMSContext:
        """Return another context on the same connection.

        ``session_mode`` is AUTO_, CLIENT_ or DUPS_OK_ACKNOWLEDGE, or SESSION_TRANSACTED. The close
        of the last context also closes the connection. Raises JMSRuntimeException with
        MQRC_OPTIONS_ERROR for another mode, IllegalStateRuntimeException for a closed context.
        """
        self._session.check_open()
        self._connection.begin()
        return JMSContext(self._shared, session_mode)

    @simplified
    def create_producer(self) -> JMSProducer:
        """Return a producer, which can send to any destination.

        Raises IllegalStateRuntimeException for a closed context.
        """
        self._session.check_open()
        self._connection.begin()
        return JMSProducer(self._session)

    create_consumer = _consumer_method(Session.create_consumer)
    create_durable_consumer = _consumer_method(Session.create_durable_consumer)
    create_shared_consumer = _consumer_method(Session.create_shared_consumer)
    create_shared_durable_consumer = _consumer_method(Session.create_shared_durable_consumer)

    @simplified
    def create_browser(self, queue: Queue, selector: str | None = None) -> JMSBrowser:
        """Return a browser of a queue, or of its messages that match a selector.

        Raises InvalidDestinationRuntimeException, InvalidSelectorRuntimeException.
        """
        browser = self._session.create_browser(queue, selector)
        self._start_if_automatic()
        return JMSBrowser(browser)

    def _start_if_automatic(self) -> None:
        """Start the connection if ``auto_start`` is True."""
        if self._auto_start:
            self._connection.start()

    @simplified
    def close(self) -> None:
        """Close the context and roll back; a receive on another thread returns None.

        The close of the last context also closes the connection. A second call does nothing. Waits
        for running listeners. Raises IllegalStateRuntimeException inside a listener.
        """
        self._session.check_not_called_back("close")
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
        try:
            self._session.close()
        finally:
            self._shared.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
