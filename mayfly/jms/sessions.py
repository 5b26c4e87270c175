"""Sessions of the classic JMS API, which create, send, receive and acknowledge messages."""

from __future__ import annotations

from typing import NoReturn, Self

from mayfly.jms.callbacks import Completions
from mayfly.jms.constants import ACKNOWLEDGE_MODES, CLIENT_ACKNOWLEDGE, SESSION_TRANSACTED
from mayfly.jms.consumers import (
    ConsumedQueue,
    MessageConsumer,
    QueueBrowser,
    Source,
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
from mayfly.jms.listening import ListenerThread
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
    """A session; one thread at a time uses it, and any thread may close it.

    Errors are JMSException. In a transacted session, sends and receives form one unit of work. In
    CLIENT_ACKNOWLEDGE the unit of work holds the received messages until they are acknowledged;
    sends are outside it.
    """

    def __init__(self, connection: OwningConnection, session_mode: int) -> None:
        """Connect to the queue manager; connections create sessions.

        Raises JMSException with MQRC_OPTIONS_ERROR for a mode that is none of the four, and MQError
        if connecting fails.
        """
        # False would be SESSION_TRANSACTED, the opposite of what JMS 1.1 means by it.
        if isinstance(session_mode, bool) or session_mode not in ACKNOWLEDGE_MODES:
            raise JMSException(f"session mode {session_mode!r}", rc.MQRC_OPTIONS_ERROR)
        self.connection = connection
        self.acknowledge_mode = session_mode
        #: Whether on_message of a port runs in it: the port alone ends the transaction.
        self.is_managed_by_port = False
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
        self.listening = ListenerThread(self)
        self.completions = Completions(connection.reports, self.mq.runtime)
        self._consumers: list[MessageConsumer] = []
        #: Queues that this unit of work sends to; they stay open until its end.
        self._outputs: dict[tuple[str, str], Opened] = {}

    def create_message(self) -> Message:
        """Return a message without a body; raises IllegalStateException for a closed session."""
        self.check_open()
        return Message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        """Return a text message; raises IllegalStateException for a closed session."""
        self.check_open()
        return TextMessage(text)

    def create_bytes_message(self, body: bytes = b"") -> BytesMessage:
        """Return a bytes message that begins with ``body``; more can be written.

        Raises IllegalStateException for a closed session, MessageFormatException if ``body`` is not
        bytes.
        """
        self.check_open()
        message = BytesMessage()
        message.write_bytes(body)
        return message

    def create_map_message(self) -> MapMessage:
        """Return an empty map message, whose body has values by name.

        Raises IllegalStateException for a closed session.
        """
        self.check_open()
        return MapMessage()

    def create_stream_message(self) -> StreamMessage:
        """Return an empty stream message, whose body has values in order.

        Raises IllegalStateException for a closed session.
        """
        self.check_open()
        return StreamMessage()

    def create_object_message(self, body: object = None) -> NoReturn:
        """Raise JMSException with MQRC_FUNCTION_NOT_SUPPORTED.

        Reading an object message would run code of its sender.
        """
        refuse(rc.MQRC_FUNCTION_NOT_SUPPORTED, "object messages: send text, bytes or a map")

    def create_queue(self, name: str) -> Queue:
        """Return the queue for a name or ``queue://`` URI; the queue need not exist.

        Raises InvalidDestinationException for an invalid name, IllegalStateException for a closed
        session.
        """
        self.check_open()
        return queue_of(name)

    @classic
    def create_temporary_queue(self) -> TemporaryQueue:
        """Create and return a temporary queue, from which only this connection receives.

        The queue exists as long as the connection. Raises JMSException with the reason codes of
        MQOPEN.
        """
        self.check_open()
        return self.connection.create_temporary_queue()

    def create_topic(self, name: str) -> Topic:
        """Return the topic for a topic string or URI; the levels ``+`` and ``#`` are wildcards.

        Raises InvalidDestinationException for an invalid one, IllegalStateException for a closed
        session.
        """
        self.check_open()
        return topic_of(name)

    @classic
    def create_temporary_topic(self) -> TemporaryTopic:
        """Create and return a topic to which only this connection subscribes.

        It exists as long as the connection. Raises IllegalStateException for a closed session.
        """
        self.check_open()
        return self.connection.create_temporary_topic()

    @classic
    def unsubscribe(self, name: str) -> None:
        """Remove a durable subscription of the client id, or without a client id a shared one.

        Raises InvalidDestinationException for an unknown name. Raises IllegalStateException while
        the subscription has a consumer or unacknowledged messages.
        """
        with self.lock:
            self.check_open()
            self.connection.begin()
            full = full_name(self, name, is_durable=True)
            self.mq.call(ask.RemoveSubscription(full))

    def create_producer(self, destination: Destination | None = None) -> MessageProducer:
        """Return a producer for a destination; None for one that each send names.

        Raises InvalidDestinationException for an unknown queue or a topic with wildcards,
        IllegalStateException for a closed session.
        """
        with self.lock:
            self.check_open()
            self.connection.begin()
            return MessageProducer(self, destination)

    @classic
    def create_consumer(
        self, destination: Destination, selector: str | None = None, no_local: bool = False
    ) -> MessageConsumer:
        """Return a consumer of a queue or topic; a selector may limit its messages.

        The subscription to a topic ends with its consumer. ``no_local`` excludes messages that this
        connection publishes; it has no effect on queues. Raises InvalidDestinationException,
        InvalidSelectorException, and IllegalStateException for a closed session.
        """
        self.check_open()
        if isinstance(destination, Topic):
            return self._consumer(
                SubscriptionSource(self, destination, selector=selector, no_local=no_local)
            )
        return self._consumer(ConsumedQueue(self, destination, selector))

    @classic
    def create_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None, no_local: bool = False
    ) -> MessageConsumer:
        """Return the consumer of a durable subscription of the client id; creates that if needed.

        If it exists with another topic, selector or ``no_local``, it is created anew and its
        messages are lost. ``no_local`` excludes messages that the client id publishes. Raises
        IllegalStateException without a client id or if the subscription is in use,
        InvalidDestinationException, InvalidSelectorException, and JMSException with
        MQRC_SUB_NAME_ERROR, or MQRC_SUB_ALREADY_EXISTS for the name of a shared one.
        """
        self.check_open()
        return self._consumer(
            SubscriptionSource(self, topic, name, selector, is_durable=True, no_local=no_local)
        )

    #: JMS 1.1 calls it so.
    create_durable_subscriber = create_durable_consumer

    @classic
    def create_shared_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """Return one of the consumers of a shared subscription, which ends with its last consumer.

        Each message goes to one of its consumers, also on other connections. With a client id the
        name belongs to that client. Raises JMSException with MQRC_SUB_ALREADY_EXISTS if the others
        use another topic or selector, and the errors of :meth:`create_consumer`.
        """
        self.check_open()
        return self._consumer(SubscriptionSource(self, topic, name, selector, is_shared=True))

    @classic
    def create_shared_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """Return one of the consumers of a shared durable subscription; it needs no client id.

        The subscription is created if needed. Raises the errors of :meth:`create_durable_consumer`,
        and JMSException with MQRC_SUB_ALREADY_EXISTS for the name of an unshared one.
        """
        self.check_open()
        return self._consumer(
            SubscriptionSource(self, topic, name, selector, is_durable=True, is_shared=True)
        )

    def _consumer(self, source: Source) -> MessageConsumer:
        """Return a new consumer of a source, and remember the consumer until it closes."""
        with self.lock:
            self.check_open()
            self.connection.begin()
            consumer = MessageConsumer(self, source)
            self._consumers.append(consumer)
        return consumer

    def create_browser(self, queue: Queue, selector: str | None = None) -> QueueBrowser:
        """Return a browser of a queue, or of its messages that match a selector.

        Raises InvalidDestinationException, InvalidSelectorException, IllegalStateException for a
        closed session.
        """
        with self.lock:
            self.check_open()
            self.connection.begin()
            return QueueBrowser(self, queue, selector)

    def commit(self) -> None:
        """Commit the unit of work; first waits for the outcomes of asynchronous sends.

        Raises IllegalStateException if not transacted, or inside the on_message of a listener port.
        Raises TransactionRolledBackException if the unit of work was rolled back instead, with
        MQRC_BACKED_OUT if it was over its time limit. Raises JMSException if the connection breaks;
        the outcome may then be unknown.
        """
        self._check_thread("commit")
        with self.lock:
            self._check_transacted("commit")
            self._commit()

    @classic
    def rollback(self) -> None:
        """Roll back the unit of work: sent messages vanish, received ones are delivered again.

        Raises IllegalStateException if the session is closed or not transacted, and inside the
        on_message of a listener port.
        """
        self._check_thread("rollback")
        with self.lock:
            self._check_transacted("rollback")
            self._back_out()

    @classic
    def recover(self) -> None:
        """Return unacknowledged messages to their queues, to be delivered again.

        Their backout counts rise. Inside a listener whose return acknowledges its message, that
        message is delivered again after the return. Raises IllegalStateException if the session is
        transacted or closed.
        """
        self.listening.check_thread("recover")
        with self.lock:
            self.check_open()
            if self.transacted:
                raise IllegalStateException("the session is transacted: roll back")
            if not self.listening.recover():
                self._back_out()

    def begin_work(self, now_ms: int | None = None) -> None:
        """Start the time limit of the transaction, unless the transaction has work already.

        It counts from ``now_ms``, None for now. Called before each send and receive, so that the
        wait of a receive counts as well.
        """
        if self._lifetime_ms and not self.has_work:
            self._begun_ms = self.mq.now_ms() if now_ms is None else now_ms

    def undo(self) -> None:
        """Back out the unit of work, after a message listener could not get its message.

        Received messages return to their queues.
        """
        with self.lock:
            self._back_out()

    def acknowledge(self) -> None:
        """Acknowledge all received messages in CLIENT_ACKNOWLEDGE; does nothing in other modes.

        Raises IllegalStateException for a closed session, or if another thread calls listeners.
        """
        with self.lock:
            self.check_open()
            if self.acknowledge_mode == CLIENT_ACKNOWLEDGE:
                self.listening.check_thread("acknowledge")
                self._commit()

    def close(self) -> None:
        """Close the session and roll back; a receive on another thread returns None.

        A second call does nothing. Waits for running listeners. Raises IllegalStateException inside
        a listener.
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
        """Raise IllegalStateException if the session is closed."""
        if not self.is_open:
            refuse(rc.MQRC_HCONN_ERROR, "the session is closed")

    def check_not_called_back(self, call: str) -> None:
        """Raise IllegalStateException if the current thread is inside a listener of the session.

        ``call`` is the method name for the text: that method would wait for the listener for ever.
        """
        self.listening.check_not_called_back(call)
        self.completions.check_not_called_back(call)

    def close_handle(self, handle: int) -> None:
        """Close a handle of a producer or browser; does nothing if it is closed already."""
        with self.lock:
            if self.mq.is_open and self.mq.has_open(handle):
                self.mq.call(ask.CloseObject(handle))

    def output(self, queue: Queue) -> Opened:
        """Return a queue opened for one send; :meth:`release_output` closes it.

        A queue can be deleted between sends. A unit of work keeps its queues open and opens each
        only once. Raises MQError with the reason codes of MQOPEN.
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
        """Close ``opened``, which :meth:`output` returned for ``queue``, after a send.

        Does nothing if the unit of work keeps the queue open until its end.
        """
        if self._outputs.get((queue.queue_name, queue.queue_manager)) is not opened:
            self.mq.call(ask.CloseObject(opened.handle))

    def interrupt(self) -> None:
        """End the gets of other threads: their receives then wait for the connection to start."""
        for consumer in list(self._consumers):
            consumer.interrupt()

    def forget(self, consumer: MessageConsumer) -> None:
        """Remove a closed consumer from the session; does nothing for an unknown one."""
        with self.lock:
            if consumer in self._consumers:
                self._consumers.remove(consumer)

    def _check_thread(self, call: str) -> None:
        """Check that ``call`` may end the unit of work; wait for outcomes of asynchronous sends.

        Raises IllegalStateException if another thread calls message listeners, and inside a
        completion listener.
        """
        self.listening.check_thread(call)
        self.completions.check_not_called_back(call)
        self.completions.wait_until_called()

    def _check_transacted(self, call: str) -> None:
        """Raise IllegalStateException if the session is closed or not transacted.

        Raises it also inside the on_message of a listener port, which ends the transaction itself.
        """
        self.check_open()
        if not self.transacted:
            raise IllegalStateException("the session is not transacted")
        if self.is_managed_by_port:
            raise IllegalStateException(f"{call}() inside of on_message: its port ends it")

    def _commit(self) -> None:
        """Commit the unit of work.

        Raises TransactionRolledBackException if it is backed out instead, JMSException if the
        connection breaks.
        """
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
        """Return the MQRC_BACKED_OUT error of a transaction over its time limit, else None."""
        if not self._lifetime_ms or not self.has_work:
            return None
        elapsed_ms = self.mq.now_ms() - self._begun_ms
        if not is_timed_out(elapsed_ms, self._lifetime_ms):
            return None
        limit = f"the total transaction lifetime timeout is {self._lifetime_ms} ms"
        return mq_error(rc.MQRC_BACKED_OUT, f"{limit}, the transaction has lasted {elapsed_ms} ms")

    def _back_out(self) -> None:
        """Back out the unit of work, and close the queues that it has kept open."""
        self.must_roll_back = None
        self._close_outputs()
        self.has_work = False
        self.mq.call(ask.Backout())

    def _close_outputs(self) -> None:
        """Close the queues that the unit of work has kept open."""
        outputs, self._outputs = self._outputs, {}
        for opened in outputs.values():
            self.close_handle(opened.handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
