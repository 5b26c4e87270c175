"""Sessions of the classic API: where messages are made, sent, received and acknowledged."""

from __future__ import annotations

from typing import NoReturn, Self

from mayfly.jms.callbacks import Completions
from mayfly.jms.constants import ACKNOWLEDGE_MODES, CLIENT_ACKNOWLEDGE, SESSION_TRANSACTED
from mayfly.jms.consumers import (
    MessageConsumer,
    QueueBrowser,
    QueueSource,
    Source,
    SubscriptionRequest,
    SubscriptionSource,
    full_name,
)
from mayfly.jms.destinations import (
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    queue_of,
    topic_of,
)
from mayfly.jms.errors import (
    IllegalStateException,
    JMSException,
    TransactionRolledBackException,
    classic,
    jms_error,
    refuse,
)
from mayfly.jms.listening import Listening
from mayfly.jms.messages import BytesMessage, MapMessage, Message, StreamMessage, TextMessage
from mayfly.jms.producers import MessageProducer
from mayfly.jms.roles import OwningConnection
from mayfly.lifetime.time_limits import is_timed_out
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQOO_OUTPUT
from mayfly.mqi.errors import ConnectionBroken, MQError, mq_error
from mayfly.runtime import Lock
from mayfly.verbs import requests as ask
from mayfly.verbs.requests import Opened

#: How many queues a unit of work keeps open for sends; a connection has MAXHANDS in all.
_OUTPUT_LIMIT = 32


class Session:
    """A session, used by one thread at a time, but closed by any. Errors are JMSException.

    In a transacted session, sends and receives form one unit of work. In CLIENT_ACKNOWLEDGE the
    unit of work holds the received messages until they are acknowledged; sends are outside of it.
    """

    def __init__(self, connection: OwningConnection, session_mode: int) -> None:
        # False would be SESSION_TRANSACTED, the opposite of what JMS 1.1 means by it.
        if isinstance(session_mode, bool) or session_mode not in ACKNOWLEDGE_MODES:
            raise JMSException(f"session mode {session_mode!r}", rc.MQRC_OPTIONS_ERROR)
        self.connection = connection
        self.acknowledge_mode = session_mode
        #: Whether a port has lent it to an on_message, which cannot end the port's transaction.
        self.is_lent = False
        self.transacted = session_mode == SESSION_TRANSACTED
        self.mq = connection.connect()
        #: Held by each operation but the wait of a receive, so that a close comes between two.
        self.lock: Lock = self.mq.runtime.reentrant_lock("jms session")
        self.is_open = True
        #: The error that forbids a commit: the unit of work holds a poisonous message that could
        #: not be moved away, and a commit would lose it.
        self.must_roll_back: MQError | None = None
        #: Whether something was sent or received in the unit of work.
        self.has_work = False
        #: How long a transaction may last, 0 for ever, and when the one under way began.
        self._lifetime_ms = connection.lifetime_ms if self.transacted else 0
        self._begun_ms = 0
        self.listening = Listening(self)
        self.completions = Completions(connection.reports, self.mq.runtime)
        self._consumers: list[MessageConsumer] = []
        #: Queues that this unit of work sends to; they stay open until its end.
        self._outputs: dict[tuple[str, str], Opened] = {}

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

    def create_topic(self, name: str) -> Topic:
        """Return a topic by its topic string or URI; levels ``+`` and ``#`` are wildcards.

        Raises InvalidDestinationException.
        """
        self.check_open()
        return topic_of(name)

    @classic
    def create_temporary_topic(self) -> TemporaryTopic:
        """Make a topic that only the connection subscribes to."""
        self.check_open()
        return self.connection.create_temporary_topic()

    @classic
    def unsubscribe(self, name: str) -> None:
        """Remove a durable subscription of the client id, or of nobody where there is none.

        Raises InvalidDestinationException for a name not known, IllegalStateException while it has
        a consumer or messages that are not acknowledged.
        """
        with self.lock:
            self.check_open()
            self.connection.begin()
            full = full_name(self, name, is_durable=True)
            self.mq.call(ask.RemoveSubscription(full))

    def create_producer(self, destination: Destination | None = None) -> MessageProducer:
        """Return a producer for a queue or topic, or for those named with each send."""
        with self.lock:
            self.check_open()
            self.connection.begin()
            return MessageProducer(self, destination)

    @classic
    def create_consumer(
        self, destination: Destination, selector: str | None = None, no_local: bool = False
    ) -> MessageConsumer:
        """Return a consumer of a queue or topic, or of what a selector takes of its messages.

        A subscription to a topic lasts as long as its consumer; ``no_local`` leaves out what the
        connection publishes, and says nothing of queues. Raises InvalidDestinationException,
        InvalidSelectorException.
        """
        self.check_open()
        if isinstance(destination, Topic):
            wanted = SubscriptionRequest(destination, selector=selector, no_local=no_local)
            return self._consumer(SubscriptionSource(self, wanted))
        return self._consumer(QueueSource(self, destination, selector))

    @classic
    def create_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None, no_local: bool = False
    ) -> MessageConsumer:
        """Return the consumer of a durable subscription of the client id, made where there is none.

        One for another topic, selector or ``no_local`` is made anew, and what has come for it is
        gone; ``no_local`` leaves out what the client id publishes. Raises IllegalStateException
        without a client id or while it is in use, InvalidDestinationException,
        InvalidSelectorException, MQRC_SUB_NAME_ERROR, MQRC_SUB_ALREADY_EXISTS when the name is that
        of a shared one.
        """
        self.check_open()
        wanted = SubscriptionRequest(topic, name, selector, is_durable=True, no_local=no_local)
        return self._consumer(SubscriptionSource(self, wanted))

    #: JMS 1.1 calls it so.
    create_durable_subscriber = create_durable_consumer

    @classic
    def create_shared_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """Return one of the consumers of a subscription that ends with the last of them.

        Each message goes to one of them, whatever connections they are on; with a client id the
        name is its own. Raises MQRC_SUB_ALREADY_EXISTS when the others want another topic or
        selector, and as :meth:`create_consumer`.
        """
        self.check_open()
        return self._consumer(
            SubscriptionSource(self, SubscriptionRequest(topic, name, selector, is_shared=True))
        )

    @classic
    def create_shared_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """Return one of the consumers of a durable subscription, which needs no client id.

        Raises as :meth:`create_durable_consumer`, and MQRC_SUB_ALREADY_EXISTS when the name is that
        of an unshared one.
        """
        self.check_open()
        wanted = SubscriptionRequest(topic, name, selector, is_durable=True, is_shared=True)
        return self._consumer(SubscriptionSource(self, wanted))

    def _consumer(self, source: Source) -> MessageConsumer:
        with self.lock:
            self.check_open()
            self.connection.begin()
            consumer = MessageConsumer(self, source)
            self._consumers.append(consumer)
        return consumer

    def create_browser(self, queue: Queue, selector: str | None = None) -> QueueBrowser:
        """Return a browser of a queue, or of what a selector takes of its messages.

        Raises InvalidDestinationException, InvalidSelectorException.
        """
        with self.lock:
            self.check_open()
            self.connection.begin()
            return QueueBrowser(self, queue, selector)

    def commit(self) -> None:
        """Make the unit of work final.

        Raises IllegalStateException when not transacted or inside of the on_message of a port,
        TransactionRolledBackException when it was rolled back instead: MQRC_BACKED_OUT when it has
        lasted too long.
        """
        self._check_thread("commit")
        with self.lock:
            self._check_transacted("commit")
            self._commit()

    @classic
    def rollback(self) -> None:
        """Undo the unit of work: sent messages vanish, received ones come back.

        Raises IllegalStateException when not transacted or inside of the on_message of a port.
        """
        self._check_thread("rollback")
        with self.lock:
            self._check_transacted("rollback")
            self._back_out()

    @classic
    def recover(self) -> None:
        """Receive again the messages that were received and not acknowledged.

        Inside of a listener whose return acknowledges its message, the message comes again after
        the return. Raises IllegalStateException when transacted.
        """
        self.listening.check_thread("recover")
        with self.lock:
            self.check_open()
            if self.transacted:
                raise IllegalStateException("the session is transacted: roll back")
            if not self.listening.recover():
                self._back_out()

    def begin_work(self, now_ms: int | None = None) -> None:
        """Let the time of the transaction run from now when nothing is in it yet.

        Called before each send and receive, so that the wait of a receive counts as well (L9).
        """
        if self._lifetime_ms and not self.has_work:
            self._begun_ms = self.mq.now_ms() if now_ms is None else now_ms

    def undo(self) -> None:
        """Back the unit of work out, for a listener that cannot have its message."""
        with self.lock:
            self._back_out()

    def acknowledge(self) -> None:
        """Acknowledge all that was received, in CLIENT_ACKNOWLEDGE; nothing in other modes."""
        with self.lock:
            self.check_open()
            if self.acknowledge_mode == CLIENT_ACKNOWLEDGE:
                self.listening.check_thread("acknowledge")
                self._commit()

    def close(self) -> None:
        """Close and roll back; a receive of another thread returns None. May be repeated.

        Listeners at work are waited for. Raises IllegalStateException inside of one.
        """
        self.check_not_called_back("close")
        self.listening.end()
        self.completions.end()
        with self.lock:
            if not self.is_open:
                return
            self.is_open = False
            consumers, self._consumers = self._consumers, []
        try:
            for consumer in consumers:
                consumer.close()
            with self.lock:
                self.mq.close(commit=False)
        finally:
            # Also when its connection to the queue manager breaks meanwhile.
            self.connection.wake()
            self.connection.forget(self)

    def check_open(self) -> None:
        """Raise IllegalStateException when it is closed."""
        if not self.is_open:
            refuse(rc.MQRC_HCONN_ERROR, "the session is closed")

    def check_not_called_back(self, call: str) -> None:
        """Raise IllegalStateException inside of a listener, which the call would wait for."""
        self.listening.check_not_called_back(call)
        self.completions.check_not_called_back(call)

    def close_handle(self, handle: int) -> None:
        """Close a handle of a producer or browser, which may have gone with the session."""
        with self.lock:
            if self.mq.is_open and self.mq.has_open(handle):
                self.mq.call(ask.CloseObject(handle))

    def output(self, queue: Queue) -> Opened:
        """Open a queue for the send of a producer without one; :meth:`release_output` closes it.

        A queue to which nothing is being sent can be deleted; but a unit of work, which holds on to
        its queues anyway, opens each only once.
        """
        key = queue.queue_name, queue.queue_manager
        opened = self._outputs.get(key)
        if opened is None:
            opened = self.mq.call(
                ask.Open(queue.queue_name, MQOO_OUTPUT, manager=queue.queue_manager)
            )
            if self.transacted and len(self._outputs) < _OUTPUT_LIMIT:
                self._outputs[key] = opened
        return opened

    def release_output(self, queue: Queue, opened: Opened) -> None:
        """Close what :meth:`output` has opened, unless the unit of work keeps it."""
        if self._outputs.get((queue.queue_name, queue.queue_manager)) is not opened:
            self.mq.call(ask.CloseObject(opened.handle))

    def interrupt(self) -> None:
        """End the waits of receives, which then see that the connection is stopped."""
        for consumer in list(self._consumers):
            consumer.interrupt()

    def forget(self, consumer: MessageConsumer) -> None:
        """Forget a consumer that was closed."""
        with self.lock:
            if consumer in self._consumers:
                self._consumers.remove(consumer)

    def _check_thread(self, call: str) -> None:
        """Let a unit of work end only when its listeners do not use it, and know of its sends."""
        self.listening.check_thread(call)
        self.completions.check_not_called_back(call)
        self.completions.wait_until_called()

    def _check_transacted(self, call: str) -> None:
        self.check_open()
        if not self.transacted:
            raise IllegalStateException("the session is not transacted")
        if self.is_lent:
            raise IllegalStateException(f"{call}() inside of on_message: its port ends it")

    def _commit(self) -> None:
        cause = self.must_roll_back or self._lateness()
        if cause is not None:
            self._back_out()
            raise TransactionRolledBackException(cause.detail, cause.reason) from cause
        self._close_outputs()
        self.has_work = False
        try:
            self.mq.call(ask.Commit())
        except ConnectionBroken as error:
            raise jms_error(error) from error
        except MQError as error:
            raise TransactionRolledBackException(error.detail, error.reason) from error

    def _lateness(self) -> MQError | None:
        """Return why the transaction cannot be committed any more, when it has lasted too long."""
        if not self._lifetime_ms or not self.has_work:
            return None
        elapsed_ms = self.mq.now_ms() - self._begun_ms
        if not is_timed_out(elapsed_ms, self._lifetime_ms):
            return None
        limit = f"the total transaction lifetime timeout is {self._lifetime_ms} ms"
        return mq_error(rc.MQRC_BACKED_OUT, f"{limit}, the transaction has lasted {elapsed_ms} ms")

    def _back_out(self) -> None:
        self.must_roll_back = None
        self._close_outputs()
        self.has_work = False
        self.mq.call(ask.Backout())

    def _close_outputs(self) -> None:
        outputs, self._outputs = self._outputs, {}
        for opened in outputs.values():
            self.close_handle(opened.handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
