"""The simplified API: a context is a connection and a session in one."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import NoReturn, Self

from mayfly.jms.bodies import MapMessage, StreamMessage
from mayfly.jms.bytes_message import BytesMessage
from mayfly.jms.connections import Connection
from mayfly.jms.constants import AUTO_ACKNOWLEDGE
from mayfly.jms.consumers import MessageConsumer
from mayfly.jms.destinations import (
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
)
from mayfly.jms.errors import JMSException, simplified
from mayfly.jms.messages import Message, TextMessage
from mayfly.jms.metadata import ConnectionMetaData
from mayfly.jms.simplified_consumers import JMSBrowser, JMSConsumer
from mayfly.jms.simplified_producer import JMSProducer


class Shared:
    """The connection of several contexts; it closes with the last of them."""

    def __init__(self, connection: Connection) -> None:
        """Begin with no context."""
        self.connection = connection
        self._lock = connection.mq.runtime.lock("shared connection")
        self._count = 0

    def join(self) -> None:
        """Count a context."""
        with self._lock:
            self._count += 1

    def leave(self) -> None:
        """Count one less; close the connection behind the last."""
        with self._lock:
            self._count -= 1
            is_last = not self._count
        if is_last:
            self.connection.close()


class JMSContext:
    """A connection with one session; used by one thread at a time, but closed by any.

    It starts by itself with its first consumer. Errors are JMSRuntimeException; those of messages
    are JMSException until the context, its producers or its consumers pass them on.
    """

    @simplified
    def __init__(self, shared: Shared, session_mode: int) -> None:
        """Open a session; the factory and other contexts make contexts."""
        self._shared = shared
        self._connection = shared.connection
        self._session = shared.connection.open_session(session_mode)
        self._auto_start = True
        self._lock = self._connection.mq.runtime.lock("jms context")
        self._is_open = True
        shared.join()

    @property
    def session_mode(self) -> int:
        """AUTO_, CLIENT_, DUPS_OK_ACKNOWLEDGE or SESSION_TRANSACTED."""
        return self._session.acknowledge_mode

    @property
    def transacted(self) -> bool:
        """Whether sends and receives are a unit of work."""
        return self._session.transacted

    @property
    def client_id(self) -> str | None:
        """The client identifier; unshared durable subscriptions need one."""
        return self._connection.client_id

    @property
    def auto_start(self) -> bool:
        """Whether the first consumer starts the connection."""
        return self._auto_start

    def set_auto_start(self, value: bool) -> None:
        """Say whether the first consumer starts the connection."""
        self._auto_start = value

    @simplified
    def create_context(self, session_mode: int = AUTO_ACKNOWLEDGE) -> JMSContext:
        """Return a context of the same connection, which closes with the last of them."""
        self._session.check_open()
        self._connection.begin()
        return JMSContext(self._shared, session_mode)

    @simplified
    def create_message(self) -> Message:
        """Return a message without a body."""
        return self._session.create_message()

    @simplified
    def create_text_message(self, text: str | None = None) -> TextMessage:
        """Return a message with a text."""
        return self._session.create_text_message(text)

    @simplified
    def create_bytes_message(self, body: bytes = b"") -> BytesMessage:
        """Return a message of bytes, to which more can be written."""
        return self._session.create_bytes_message(body)

    @simplified
    def create_map_message(self) -> MapMessage:
        """Return a message of values by name."""
        return self._session.create_map_message()

    @simplified
    def create_stream_message(self) -> StreamMessage:
        """Return a message of values in order."""
        return self._session.create_stream_message()

    @simplified
    def create_object_message(self, body: object = None) -> NoReturn:
        """Raise MQRC_FUNCTION_NOT_SUPPORTED: reading an object would run what its sender chose."""
        self._session.create_object_message(body)

    @simplified
    def create_queue(self, name: str) -> Queue:
        """Return a queue by its name or URI; it need not exist."""
        return self._session.create_queue(name)

    @simplified
    def create_temporary_queue(self) -> TemporaryQueue:
        """Make a queue that goes with the connection and only the connection receives from."""
        return self._session.create_temporary_queue()

    @simplified
    def create_topic(self, name: str) -> Topic:
        """Return a topic by its topic string or URI; levels ``+`` and ``#`` are wildcards.

        Raises InvalidDestinationRuntimeException.
        """
        return self._session.create_topic(name)

    @simplified
    def create_temporary_topic(self) -> TemporaryTopic:
        """Make a topic that only the connection subscribes to."""
        return self._session.create_temporary_topic()

    @simplified
    def unsubscribe(self, name: str) -> None:
        """Remove a durable subscription of the client id, or of nobody where there is none.

        Raises InvalidDestinationRuntimeException for a name not known, IllegalStateRuntimeException
        while it has a consumer or messages that are not acknowledged.
        """
        self._session.unsubscribe(name)

    @simplified
    def create_producer(self) -> JMSProducer:
        """Return a producer."""
        self._session.check_open()
        self._connection.begin()
        return JMSProducer(self._session)

    @simplified
    def create_consumer(
        self, destination: Destination, selector: str | None = None, no_local: bool = False
    ) -> JMSConsumer:
        """Return a consumer of a queue or topic, or of what a selector takes of its messages.

        A subscription to a topic lasts as long as its consumer; ``no_local`` leaves out what the
        connection publishes, and says nothing of queues. Raises InvalidDestinationRuntimeException,
        InvalidSelectorRuntimeException.
        """
        return self._started(self._session.create_consumer(destination, selector, no_local))

    @simplified
    def create_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None, no_local: bool = False
    ) -> JMSConsumer:
        """Return the consumer of a durable subscription of the client id, made where there is none.

        One for another topic, selector or ``no_local`` is made anew, and what has come for it is
        gone; ``no_local`` leaves out what the client id publishes. Raises
        IllegalStateRuntimeException without a client id or while it is in use,
        InvalidDestinationRuntimeException, InvalidSelectorRuntimeException, MQRC_SUB_NAME_ERROR,
        MQRC_SUB_ALREADY_EXISTS when the name is that of a shared one.
        """
        return self._started(self._session.create_durable_consumer(topic, name, selector, no_local))

    @simplified
    def create_shared_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> JMSConsumer:
        """Return one of the consumers of a subscription that ends with the last of them.

        Each message goes to one of them, whatever connections they are on; with a client id the
        name is its own. Raises MQRC_SUB_ALREADY_EXISTS when the others want another topic or
        selector, and as :meth:`create_consumer`.
        """
        return self._started(self._session.create_shared_consumer(topic, name, selector))

    @simplified
    def create_shared_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> JMSConsumer:
        """Return one of the consumers of a durable subscription, which needs no client id.

        Raises as :meth:`create_durable_consumer`, and MQRC_SUB_ALREADY_EXISTS when the name is that
        of an unshared one.
        """
        return self._started(self._session.create_shared_durable_consumer(topic, name, selector))

    def _started(self, consumer: MessageConsumer) -> JMSConsumer:
        if self._auto_start:
            self._connection.start()
        return JMSConsumer(consumer)

    @simplified
    def create_browser(self, queue: Queue, selector: str | None = None) -> JMSBrowser:
        """Return a browser of a queue, or of what a selector takes of its messages.

        Raises InvalidDestinationRuntimeException, InvalidSelectorRuntimeException.
        """
        browser = JMSBrowser(self._session.create_browser(queue, selector))
        if self._auto_start:
            self._connection.start()
        return browser

    @simplified
    def set_client_id(self, client_id: str) -> None:
        """Set the client identifier, before anything else is done with the context.

        Raises InvalidClientIDRuntimeException for a text that cannot be one, and for one that
        another connection has; IllegalStateRuntimeException when the context is in use or has one
        already.
        """
        self._connection.set_client_id(client_id)

    def get_metadata(self) -> ConnectionMetaData:
        """Return the versions of JMS and of Mayfly, and the names of JMSX properties."""
        return self._connection.get_metadata()

    @property
    def exception_listener(self) -> Callable[[JMSException], object] | None:
        """The function that is called with errors that no call can raise, or None."""
        return self._connection.exception_listener

    @simplified
    def set_exception_listener(self, listener: Callable[[JMSException], object] | None) -> None:
        """Set the function that is told of errors on threads of the library, None for no function.

        All contexts of the connection share it. It is called with one JMSException at a time.
        """
        self._connection.set_exception_listener(listener)

    @simplified
    def start(self) -> None:
        """Let messages be received."""
        self._connection.start()

    @simplified
    def stop(self) -> None:
        """Hold back messages of all contexts of the connection.

        Message listeners at work are waited for. Raises IllegalStateRuntimeException inside of one.
        """
        self._connection.stop()

    @simplified
    def commit(self) -> None:
        """Make the unit of work final.

        Raises IllegalStateRuntimeException when not transacted, TransactionRolledBackRuntime-
        Exception when it was rolled back instead.
        """
        self._session.commit()

    @simplified
    def rollback(self) -> None:
        """Undo the unit of work; raises IllegalStateRuntimeException when not transacted."""
        self._session.rollback()

    @simplified
    def recover(self) -> None:
        """Receive again what was not acknowledged; not for a transacted context."""
        self._session.recover()

    @simplified
    def acknowledge(self) -> None:
        """Acknowledge all that was received, in CLIENT_ACKNOWLEDGE; nothing in other modes."""
        self._session.acknowledge()

    @simplified
    def close(self) -> None:
        """Close and roll back; a receive of another thread returns None. May be repeated.

        Listeners at work are waited for. Raises IllegalStateRuntimeException inside of one.
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
        """Return the context."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the context, and roll back its unit of work."""
        self.close()
