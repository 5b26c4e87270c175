"""Sessions of the classic JMS API: they create, send, receive, acknowledge, and call listeners."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NoReturn, Self

from mayfly.client.connection.interface import instrumented_listener
from mayfly.jms.callbacks import CallingThread, Completions
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
from mayfly.jms.messages import BytesMessage, MapMessage, Message, StreamMessage, TextMessage
from mayfly.jms.producers import MessageProducer
from mayfly.jms.protocols import OwningConnection, OwningSession
from mayfly.lifetime.moments import is_timed_out
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQOO_OUTPUT
from mayfly.mqi.errors import ConnectionBroken, MQError, StoreError, mq_error
from mayfly.runtime import Lock
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery
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


# The thread of a session, which passes messages to its message listeners, one at a time


class ListenerState:
    """A message listener with its consumer, and actions to take before its next message."""

    def __init__(self, consumer: MessageConsumer, call: Callable[[Message], object]) -> None:
        """Open the consumer's queue; ``call`` is the program's listener function.

        Raises MQError with the reason codes of MQOPEN.
        """
        self.consumer = consumer
        self.call = call
        self.handle = consumer.open_handle()
        #: Whether nothing was in the unit of work before the last message.
        self.begins_unit = False
        #: Whether its message is to come again, as recover() inside of it has asked.
        self.must_recover = False
        #: Whether it has closed its own consumer.
        self.must_close = False
        #: Whether it gets nothing before definitions change or the connection is started again.
        self.is_held = False


class _ListenersChanged:
    """The outcome of a get that was cancelled because the listeners have changed."""


_LISTENERS_CHANGED = _ListenersChanged()
_Outcome = Delivery | MQError | _ListenersChanged


class ListenerThread(CallingThread):
    """The message listeners of a session and their thread, which waits without polling.

    While no listener runs, one get waits on the queues of all listeners. A message that arrives
    belongs to the session from that moment. A close or stop cancels the get. If a message came
    first, the close or stop waits until its listener returns.
    """

    what = "message"

    def __init__(self, session: OwningSession) -> None:
        """Begin without listeners and without a thread."""
        super().__init__(session.mq.runtime)
        self._session = session
        #: In the order in which they are served: the one that had the last message comes last.
        self._listeners: list[ListenerState] = []
        #: The listeners that the waiting get is for, and the outcome of the get.
        self._waiting_for: list[ListenerState] = []
        self._outcome: _Outcome | None = None
        #: Errors of queues that cannot be got from; they are still to be reported.
        self._refusals: deque[MQError] = deque()
        #: The listener whose message is not settled yet.
        self._current: ListenerState | None = None
        self._is_changed = False

    @property
    def is_used(self) -> bool:
        """True if any consumer of the session has a message listener."""
        return bool(self._listeners)

    def listen(self, consumer: MessageConsumer, call: Callable[[Message], object]) -> None:
        """Set the listener of a consumer, in place of an earlier one; starts the thread if needed.

        Raises MQError with the reason codes of MQOPEN if the queue must be opened for it.
        """
        self.leave(consumer)
        listener = ListenerState(consumer, instrumented_listener(self._session.mq, call))
        with self._changed:
            self._listeners.append(listener)
            new = self._new_thread(self._run, "mayfly-jms")
        self._signal_change()
        if new is not None:
            new.start()

    def leave(self, consumer: MessageConsumer) -> None:
        """Remove the listener of a consumer; does nothing for a consumer without one.

        Waits for the listener if it runs on another thread.
        """
        with self._changed:
            left = [one for one in self._listeners if one.consumer is not consumer]
            is_left = len(left) < len(self._listeners)
            self._listeners = left
        if is_left:
            self._signal_change()
        self._wait_while(lambda listener: listener.consumer is consumer)

    def leave_later(self, consumer: MessageConsumer) -> bool:
        """Let a consumer close after its running listener returns, and return True.

        Returns False, and changes nothing, unless this consumer's listener makes the call.
        """
        current = self._current if self.is_calling_here else None
        if current is None or current.consumer is not consumer:
            return False
        current.must_close = True
        return True

    def recover(self) -> bool:
        """Let the message of the running listener be delivered again after it returns; return True.

        Returns False outside a listener, and in a mode in which the return does not acknowledge.
        """
        current = self._current if self.is_calling_here else None
        if current is None or not current.consumer.is_automatic:
            return False
        current.must_recover = True
        return True

    def check_thread(self, call: str) -> None:
        """Raise IllegalStateException if another thread than the current one calls listeners.

        ``call`` is the method name for the text. A session without listeners, or stopped, passes.
        """
        is_busy = self.is_used and self._session.connection.is_started
        if is_busy and not self._is_own_thread():
            raise IllegalStateException(
                f"{call}() belongs into the listeners of the session, or after stop()"
            )

    def resume(self) -> None:
        """Let all listeners get messages, also those stopped by an error.

        Called when the connection has started.
        """
        with self._changed:
            for listener in self._listeners:
                listener.is_held = False
        self._signal_change()

    def wait_until_settled(self) -> None:
        """Wait until no listener has a message.

        The caller must have stopped the connection, so that no new message comes.
        """
        self._signal_change()
        self._wait_while(lambda _listener: True)

    def end(self) -> None:
        """Stop calling listeners and end the thread, after the listener that runs has returned.

        Does not wait if called on that thread.
        """
        with self._changed:
            self._is_ending = True
            thread = self._thread
        self._signal_change()
        if thread is not None and not self._is_own_thread():
            thread.join()

    def _signal_change(self) -> None:
        """Make the thread cancel its get and check the listeners again.

        A message that came before the cancel still goes to its listener.
        """
        with self._changed:
            self._is_changed = True
            self._changed.notify_all()

    def _wait_while(self, is_at_work: Callable[[ListenerState], bool]) -> None:
        """Wait while a listener for which ``is_at_work`` is True has a message or may get one.

        Returns at once on the thread that calls the listeners.
        """
        if self._is_own_thread():
            return
        with self._changed:
            while any(map(is_at_work, self._waiting_for)) or (
                self._current is not None and is_at_work(self._current)
            ):
                self._changed.wait()

    def _run(self) -> None:
        """Call listeners until the end; report the error that ends the connection or the store."""
        try:
            while self._next():
                pass
        except MQError as error:
            # The queue manager has ended.
            self._session.connection.reports.report(jms_error(error))
        except StoreError as error:
            # The store has failed, and the queue manager ends with it.
            failure = JMSException(str(error), rc.MQRC_CONNECTION_BROKEN)
            failure.__cause__ = error
            self._session.connection.reports.report(failure)
        finally:
            self._settle()

    def _next(self) -> bool:
        """Wait for a message and call its listener; return False when the thread must end.

        Raises MQError if the get fails for good. MQRC_BACKED_OUT, a lost unit of work, is only
        reported.
        """
        with self._changed:
            while not (self._is_ending or self._may_get()):
                self._is_changed = False
                self._changed.wait()
            if self._is_ending:
                return False
            self._is_changed = False
            waiting = self._waiting_for = [one for one in self._listeners if not one.is_held]
            for listener in waiting:
                held = listener.consumer.take_held()
                if held is not None:
                    self._take(listener, held)
                    break
        if self._current is not None and held is not None:
            self._process(self._current, held)
            return True
        outcome = self._get(waiting)
        if isinstance(outcome, MQError):
            if self._has_ended():
                return False
            if outcome.reason != rc.MQRC_BACKED_OUT:
                raise outcome
            # The unit of work was lost with its connection; its messages come again.
            self._session.undo()
            self._session.connection.reports.report(jms_error(outcome))
        if isinstance(outcome, Delivery) and self._current is not None:
            self._process(self._current, outcome)
        return True

    def _has_ended(self) -> bool:
        """Return ``_is_ending``, read again: another thread may have changed it."""
        return self._is_ending

    def _may_get(self) -> bool:
        """Return True if the connection is started and a listener may get a message."""
        is_started = self._session.connection.is_started
        return is_started and any(not listener.is_held for listener in self._listeners)

    def _get(self, waiting: list[ListenerState]) -> _Outcome:
        """Get a message from any queue of the listeners in ``waiting``; return the outcome.

        The outcome is a Delivery, the MQError of the get, or _LISTENERS_CHANGED. Errors of single
        queues are reported meanwhile.
        """
        options = c.MQGMO_WAIT | c.MQGMO_PROPERTIES_FORCE_MQRFH2
        if not waiting[0].consumer.is_automatic:
            options |= c.MQGMO_SYNCPOINT
        under_way = self._session.mq.begin(
            ask.GetAny([listener.handle for listener in waiting], options, tells_refusals=True),
            self._on_outcome,
            self._refuse,
        )
        while True:
            with self._changed:
                while not (self._outcome or self._refusals or self._is_changed):
                    self._changed.wait()
                refusals, self._refusals = self._refusals, deque()
                is_changed, self._is_changed = self._is_changed, False
                outcome = None if refusals or is_changed else self._outcome
                if outcome is not None:
                    self._outcome = None
                    return outcome
            for error in refusals:
                self._session.connection.reports.report(jms_error(error))
            if is_changed and under_way.cancel():
                self._on_outcome(_LISTENERS_CHANGED)

    def _on_outcome(self, outcome: _Outcome) -> None:
        """Store the outcome of the waiting get and wake the thread.

        A message becomes that of its listener. The queue manager connection calls this.
        """
        with self._changed:
            self._outcome = outcome
            if isinstance(outcome, Delivery):
                for listener in self._waiting_for:
                    if listener.handle == outcome.handle:
                        self._take(listener, outcome)
                        break
            self._waiting_for = []
            self._changed.notify_all()

    def _take(self, listener: ListenerState, delivery: Delivery) -> None:
        """Make a delivery the message of a listener.

        The other listeners then take precedence over this one for the next message. The lock must
        be held.
        """
        self._current, self._waiting_for = listener, []
        if listener in self._listeners:
            self._listeners.remove(listener)
            self._listeners.append(listener)
        listener.begins_unit = not self._session.has_work
        if not listener.consumer.is_automatic:
            self._session.begin_work(delivery.result.message.seen_ms)

    def _refuse(self, _handle: int, error: MQError) -> None:
        """Store the error of a queue that cannot be got from, for the thread to report."""
        with self._changed:
            self._refusals.append(error)
            self._changed.notify_all()

    def _settle(self) -> None:
        """Record that no listener has a message, and wake threads that wait for this."""
        with self._changed:
            self._current, self._waiting_for = None, []
            self._changed.notify_all()

    def _process(self, listener: ListenerState, delivery: Delivery) -> None:
        """Convert a delivery to a JMS message and call its listener.

        If the conversion fails, the error is reported, and the listener gets no message until an
        object definition changes or the connection is started.
        """
        try:
            message = listener.consumer.accept(delivery)
        except MQError as error:
            if listener.begins_unit:
                self._session.undo()
            self._hold(listener, error)
        except Exception as error:  # noqa: BLE001 - a message that cannot be read ends no thread
            if listener.begins_unit:
                self._session.undo()
            text = f"a message of {listener.consumer!r} cannot be read: {error!r}"
            failure = mq_error(rc.MQRC_UNEXPECTED_ERROR, text)
            failure.__cause__ = error
            self._hold(listener, failure)
        else:
            # None was backed out too often and has been moved away.
            if message is not None:
                self._call_listener(listener, delivery, message)
        self._settle()

    def _call_listener(self, listener: ListenerState, delivery: Delivery, message: Message) -> None:
        """Call a listener, then acknowledge its message or let it be delivered again.

        An exception of the listener is reported. If the listener has called ``close`` of its
        consumer, the consumer is closed now.
        """
        failure = self._failure_in(partial(listener.call, message))
        try:
            is_done = failure is None and not listener.must_recover
            listener.consumer.settle(delivery, is_done=is_done)
        except MQError as error:
            self._hold(listener, error)
        listener.must_recover = False
        if listener.must_close:
            listener.consumer.close()
        if failure is not None:
            self._session.connection.reports.report(failure)

    def _hold(self, listener: ListenerState, error: MQError) -> None:
        """Report an error, and stop giving messages to the listener.

        It gets messages again after an object definition has changed, or the connection is started.
        After MQRC_BACKED_OUT (connection lost) the error is only reported.
        """
        if error.reason == rc.MQRC_BACKED_OUT:
            # It was lost with its connection: the next one brings it, its backout count raised.
            self._session.connection.reports.report(jms_error(error))
            return
        # Its message is on the queue again and would come at once, for ever.
        listener.is_held = True

        def release(_outcome: MQError | None) -> None:
            listener.is_held = False
            self._signal_change()

        self._session.mq.begin(ask.AwaitDefinitions(), release)
        self._session.connection.reports.report(jms_error(error))
