"""Sessions of the classic API: where messages are made, sent, received and acknowledged."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from mayfly.engine.handles import Handle
from mayfly.engine.session import Session as EngineSession
from mayfly.jms.bodies import MapMessage, StreamMessage
from mayfly.jms.browsers import QueueBrowser
from mayfly.jms.bytes_message import BytesMessage
from mayfly.jms.constants import ACKNOWLEDGE_MODES, CLIENT_ACKNOWLEDGE, SESSION_TRANSACTED
from mayfly.jms.consumers import MessageConsumer
from mayfly.jms.destinations import Destination, Queue, TemporaryQueue, queue_of
from mayfly.jms.errors import (
    IllegalStateException,
    JMSException,
    TransactionRolledBackException,
    classic,
    jms_error,
    refuse,
)
from mayfly.jms.messages import Message, TextMessage
from mayfly.jms.producers import MessageProducer
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQOO_OUTPUT
from mayfly.mqi.errors import ConnectionBroken, MQError

if TYPE_CHECKING:
    from mayfly.jms.connections import Connection

#: How many queues a unit of work keeps open for sends; a connection has MAXHANDS in all.
_OUTPUT_LIMIT = 32


class Session:
    """A session, used by one thread at a time, but closed by any. Errors are JMSException.

    Transacted, sends and receives are its unit of work. In CLIENT_ACKNOWLEDGE what was received
    waits in the unit of work for the acknowledgement; sends are no part of that.
    """

    def __init__(self, connection: Connection, session_mode: int) -> None:
        """Open; connections make sessions."""
        # False would be SESSION_TRANSACTED, the opposite of what JMS 1.1 means by it.
        if isinstance(session_mode, bool) or session_mode not in ACKNOWLEDGE_MODES:
            raise JMSException(f"session mode {session_mode!r}", rc.MQRC_OPTIONS_ERROR)
        self.connection = connection
        self.manager = connection.manager
        self.acknowledge_mode = session_mode
        self.transacted = session_mode == SESSION_TRANSACTED
        self.mq: EngineSession = connection.connect()
        #: Held by each operation but the wait of a receive, so that a close comes between two.
        self.lock = threading.RLock()
        self.is_open = True
        #: Why the unit of work cannot be committed: it holds a message that nobody would get.
        self.must_roll_back: MQError | None = None
        self._consumers: list[MessageConsumer] = []
        #: Queues that this unit of work sends to; they stay open until its end.
        self._outputs: dict[str, Handle] = {}

    def create_message(self) -> Message:
        """Return a message without a body."""
        self.check_open()
        return Message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        """Return a message with a text."""
        self.check_open()
        return TextMessage(text)

    def create_bytes_message(self, body: bytes = b"") -> BytesMessage:
        """Return a message of bytes, to which more can be written."""
        self.check_open()
        message = BytesMessage()
        message.write_bytes(body)
        return message

    def create_map_message(self) -> MapMessage:
        """Return a message of values by name."""
        self.check_open()
        return MapMessage()

    def create_stream_message(self) -> StreamMessage:
        """Return a message of values in order."""
        self.check_open()
        return StreamMessage()

    def create_object_message(self, body: object = None) -> NoReturn:
        """Raise MQRC_FUNCTION_NOT_SUPPORTED: reading an object would run what its sender chose."""
        refuse(rc.MQRC_FUNCTION_NOT_SUPPORTED, "object messages: send text, bytes or a map")

    def create_queue(self, name: str) -> Queue:
        """Return a queue by its name or URI; it need not exist."""
        self.check_open()
        return queue_of(name)

    @classic
    def create_temporary_queue(self) -> TemporaryQueue:
        """Make a queue that goes with the connection and only the connection receives from."""
        self.check_open()
        return self.connection.create_temporary_queue()

    def create_topic(self, name: str) -> NoReturn:
        """Raise MQRC_FUNCTION_NOT_SUPPORTED: there are no topics yet."""
        refuse_topics(name)

    def create_durable_consumer(self, topic: Destination, name: str) -> NoReturn:
        """Raise MQRC_FUNCTION_NOT_SUPPORTED: there are no topics yet."""
        refuse_topics(name)

    def unsubscribe(self, name: str) -> NoReturn:
        """Raise MQRC_FUNCTION_NOT_SUPPORTED: there are no topics yet."""
        refuse_topics(name)

    def create_producer(self, destination: Destination | None = None) -> MessageProducer:
        """Return a producer for a queue, or for those named with each send."""
        with self.lock:
            self.check_open()
            return MessageProducer(self, destination)

    def create_consumer(
        self, destination: Destination, selector: str | None = None
    ) -> MessageConsumer:
        """Return a consumer of a queue, or of what a selector takes of its messages.

        Raises InvalidDestinationException, InvalidSelectorException.
        """
        with self.lock:
            self.check_open()
            consumer = MessageConsumer(self, destination, selector)
            self._consumers.append(consumer)
        return consumer

    def create_browser(self, queue: Queue, selector: str | None = None) -> QueueBrowser:
        """Return a browser of a queue, or of what a selector takes of its messages.

        Raises InvalidDestinationException, InvalidSelectorException.
        """
        with self.lock:
            self.check_open()
            return QueueBrowser(self, queue, selector)

    def commit(self) -> None:
        """Make the unit of work final.

        Raises IllegalStateException when not transacted, TransactionRolledBackException when it was
        rolled back instead.
        """
        with self.lock:
            self._check_transacted()
            self._commit()

    @classic
    def rollback(self) -> None:
        """Undo the unit of work: sent messages vanish, received ones come back.

        Raises IllegalStateException when not transacted.
        """
        with self.lock:
            self._check_transacted()
            self._back_out()

    @classic
    def recover(self) -> None:
        """Receive again what was received and not acknowledged.

        Raises IllegalStateException when transacted.
        """
        with self.lock:
            self.check_open()
            if self.transacted:
                raise IllegalStateException("the session is transacted: roll back")
            self._back_out()

    def acknowledge(self) -> None:
        """Acknowledge all that was received, in CLIENT_ACKNOWLEDGE; nothing in other modes."""
        with self.lock:
            self.check_open()
            if self.acknowledge_mode == CLIENT_ACKNOWLEDGE:
                self._commit()

    def close(self) -> None:
        """Close and roll back; a receive of another thread returns None. May be repeated."""
        with self.lock:
            if not self.is_open:
                return
            self.is_open = False
            consumers, self._consumers = self._consumers, []
        for consumer in consumers:
            consumer.close()
        with self.lock:
            self.mq.close(commit=False)
        self.connection.wake()
        self.connection.forget(self)

    def check_open(self) -> None:
        """Raise IllegalStateException when it is closed."""
        if not self.is_open:
            refuse(rc.MQRC_HCONN_ERROR, "the session is closed")

    def connect(self) -> EngineSession:
        """Return another engine session, for a consumer that commits on its own."""
        return self.connection.connect()

    def close_handle(self, handle: Handle) -> None:
        """Close a handle of a producer or browser, which may have gone with the session."""
        with self.lock:
            if handle.is_open and self.mq.is_open:
                handle.close()

    def output_handle(self, name: str) -> Handle:
        """Open a queue for the send of a producer without one; :meth:`release_output` closes it.

        As MQPUT1, so that a queue to which nothing is being sent can be deleted; but a unit of
        work, which holds on to its queues anyway, opens each only once.
        """
        handle = self._outputs.get(name)
        if handle is None:
            handle = self.mq.open(name, MQOO_OUTPUT)
            if self.transacted and len(self._outputs) < _OUTPUT_LIMIT:
                self._outputs[name] = handle
        return handle

    def release_output(self, name: str, handle: Handle) -> None:
        """Close what :meth:`output_handle` has opened, unless the unit of work keeps it."""
        if self._outputs.get(name) is not handle:
            handle.close()

    def interrupt(self) -> None:
        """End the waits of receives, which then see that the connection is stopped."""
        for consumer in list(self._consumers):
            consumer.interrupt()

    def forget(self, consumer: MessageConsumer) -> None:
        """Forget a consumer that was closed."""
        with self.lock:
            if consumer in self._consumers:
                self._consumers.remove(consumer)

    def _check_transacted(self) -> None:
        self.check_open()
        if not self.transacted:
            raise IllegalStateException("the session is not transacted")

    def _commit(self) -> None:
        cause = self.must_roll_back
        if cause is not None:
            self._back_out()
            raise TransactionRolledBackException(cause.detail, cause.reason) from cause
        self._close_outputs()
        try:
            self.mq.commit()
        except ConnectionBroken as error:
            raise jms_error(error) from error
        except MQError as error:
            raise TransactionRolledBackException(error.detail, error.reason) from error

    def _back_out(self) -> None:
        self.must_roll_back = None
        self._close_outputs()
        self.mq.backout()

    def _close_outputs(self) -> None:
        outputs, self._outputs = self._outputs, {}
        for handle in outputs.values():
            self.close_handle(handle)

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close; what was not committed is rolled back."""
        self.close()


def refuse_topics(name: object) -> NoReturn:
    """Raise MQRC_FUNCTION_NOT_SUPPORTED for anything about topics."""
    refuse(rc.MQRC_FUNCTION_NOT_SUPPORTED, f"{name!r}: there are no topics yet")
