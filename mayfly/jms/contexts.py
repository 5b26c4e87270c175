"""The simplified API: a context is a connection and a session in one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, NoReturn, Self

from mayfly.jms.bodies import MapMessage, StreamMessage
from mayfly.jms.browsers import QueueBrowser
from mayfly.jms.bytes_message import BytesMessage
from mayfly.jms.connections import Connection
from mayfly.jms.constants import AUTO_ACKNOWLEDGE
from mayfly.jms.consumers import MessageConsumer
from mayfly.jms.destinations import Destination, Queue, TemporaryQueue
from mayfly.jms.errors import simplified
from mayfly.jms.messages import Message, TextMessage
from mayfly.jms.simplified_producer import JMSProducer


class Shared:
    """The connection of several contexts; it closes with the last of them."""

    def __init__(self, connection: Connection) -> None:
        """Begin with no context."""
        self.connection = connection
        self._lock = threading.Lock()
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


class JMSConsumer:
    """Receives the messages of one queue. Errors are JMSRuntimeException."""

    def __init__(self, consumer: MessageConsumer) -> None:
        """Stand before a consumer of the classic API; contexts make consumers."""
        self._consumer = consumer

    @property
    def message_selector(self) -> str | None:
        """Which messages it takes; None: all."""
        return self._consumer.message_selector

    @simplified
    def receive(self, timeout_ms: int | None = None) -> Message | None:
        """Return the next message, waiting for it; None and 0 wait for ever.

        Returns None when none came in time, or when it is closed meanwhile.
        """
        return self._consumer.receive(timeout_ms)

    @simplified
    def receive_no_wait(self) -> Message | None:
        """Return the next message, None when there is none."""
        return self._consumer.receive_no_wait()

    @simplified
    def receive_body(self, body_type: type, timeout_ms: int | None = None) -> Any:
        """Return the body of the next message as str, bytes or dict; None when none came.

        Raises MessageFormatRuntimeException for a body of another type; in AUTO_ACKNOWLEDGE and
        DUPS_OK_ACKNOWLEDGE the message is received again by the next call.
        """
        message = self._consumer.receive_as(body_type, self._consumer.wait_of(timeout_ms))
        return None if message is None else message.get_body(body_type)

    @simplified
    def receive_body_no_wait(self, body_type: type) -> Any:
        """Return the body of the next message, None when there is none."""
        message = self._consumer.receive_as(body_type, 0)
        return None if message is None else message.get_body(body_type)

    @simplified
    def close(self) -> None:
        """Close; a receive of another thread returns None."""
        self._consumer.close()


class JMSBrowser:
    """Shows the messages of a queue; each iteration begins anew. Errors are JMSRuntimeException."""

    def __init__(self, browser: QueueBrowser) -> None:
        """Stand before a browser of the classic API; contexts make browsers."""
        self._browser = browser

    @property
    def queue(self) -> Queue:
        """The queue it shows."""
        return self._browser.queue

    @property
    def message_selector(self) -> str | None:
        """Which messages it shows; None: all."""
        return self._browser.message_selector

    def __iter__(self) -> Iterator[Message]:
        """Yield the messages in get order, each read when it is asked for."""
        messages = iter(self._browser)
        while (message := self._next(messages)) is not None:
            yield message

    #: JMS calls it so.
    get_enumeration = __iter__

    @simplified
    def _next(self, messages: Iterator[Message]) -> Message | None:
        return next(messages, None)

    def close(self) -> None:
        """Close; iterations under way end with an error."""
        self._browser.close()


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
        self._session = shared.connection.create_session(session_mode)
        self._auto_start = True
        self._lock = threading.Lock()
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
        """Who the client is; needed by durable subscriptions."""
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
    def create_topic(self, name: str) -> NoReturn:
        """Raise MQRC_FUNCTION_NOT_SUPPORTED: there are no topics yet."""
        self._session.create_topic(name)

    @simplified
    def create_durable_consumer(self, topic: Destination, name: str) -> NoReturn:
        """Raise MQRC_FUNCTION_NOT_SUPPORTED: there are no topics yet."""
        self._session.create_durable_consumer(topic, name)

    @simplified
    def unsubscribe(self, name: str) -> NoReturn:
        """Raise MQRC_FUNCTION_NOT_SUPPORTED: there are no topics yet."""
        self._session.unsubscribe(name)

    @simplified
    def create_producer(self) -> JMSProducer:
        """Return a producer."""
        self._session.check_open()
        return JMSProducer(self._session)

    @simplified
    def create_consumer(self, destination: Destination, selector: str | None = None) -> JMSConsumer:
        """Return a consumer of a queue, or of what a selector takes of its messages.

        Raises InvalidDestinationRuntimeException, InvalidSelectorRuntimeException.
        """
        consumer = JMSConsumer(self._session.create_consumer(destination, selector))
        if self._auto_start:
            self._connection.start()
        return consumer

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
        """Say who the client is; raises IllegalStateRuntimeException: a context has begun."""
        self._connection.set_client_id(client_id)

    @simplified
    def start(self) -> None:
        """Let messages be received."""
        self._connection.start()

    @simplified
    def stop(self) -> None:
        """Hold back messages of all contexts of the connection."""
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
        """Close and roll back; a receive of another thread returns None. May be repeated."""
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
        """Close; what was not committed is rolled back."""
        self.close()
