"""The consumers and browsers of the classic and the simplified JMS API.

In this order: the source of a consumer's messages, which is a queue or a subscription; messages
that were backed out too often, which go to BOQNAME or the dead-letter queue; the classic API; the
simplified API, whose consumers and browsers each use one of the classic API.

The queue manager knows a durable subscription as ``JMS:queue manager:client id:name``. The name of
a shared one that is not durable begins with JMS.ND: the two kinds never conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mayfly.client.connection import Connection as QueueConnection
from mayfly.client.connection.poison import exceeds_backout_threshold, move_away
from mayfly.jms.constants import AUTO_ACKNOWLEDGE, DUPS_OK_ACKNOWLEDGE
from mayfly.jms.destinations import Destination, Queue, Topic, queue_to_use
from mayfly.jms.errors import (
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    MessageFormatException,
    classic,
    refuse,
    simplified,
    simplified_method,
)
from mayfly.jms.mapping import incoming
from mayfly.jms.messages import Message
from mayfly.jms.protocols import OwningSession
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, MQError, NoMessage, mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, Settlement
from mayfly.verbs.requests import Subscribed
from mayfly.verbs.topic_strings import is_temporary_topic, quoted_client_id


def full_name(session: OwningSession, name: object, *, is_durable: bool) -> str:
    """Return the name of a subscription on the queue manager: ``JMS:QM1:client:name``.

    The name of one that is not durable begins with ``JMS.ND``. Without a client id this part is
    empty, and all clients share the subscription. Raises JMSException with MQRC_SUB_NAME_ERROR for
    an empty name.
    """
    if not isinstance(name, str) or not name.strip():
        refuse(rc.MQRC_SUB_NAME_ERROR, f"{name!r} cannot name a subscription")
    kind = "JMS" if is_durable else "JMS.ND"
    client = quoted_client_id(session.connection.client_id or "")
    return f"{kind}:{session.mq.name}:{client}:{name}"


_INPUT = c.MQOO_INPUT_AS_Q_DEF | c.MQOO_INQUIRE


class ConsumedQueue:
    """A queue as the source of a consumer's messages; a selector may limit them."""

    no_local = False

    def __init__(
        self, session: OwningSession, destination: Destination, selector: str | None
    ) -> None:
        """Check destination and selector; nothing is opened yet.

        Raises InvalidDestinationException for anything but a queue, InvalidSelectorException for a
        selector that is no text.
        """
        self.message_selector = selector_text(selector)
        self.destination: Queue = queue_to_use(destination)
        self._connection = session.connection

    def open(self, mq: QueueConnection) -> int:
        """Open the queue for input and return its handle.

        Raises InvalidDestinationException for a temporary queue of another connection, and MQError
        with the reason codes of MQOPEN.
        """
        opened = mq.call(self._request(_INPUT))
        is_temporary = opened.definition_type == c.MQQDT_TEMPORARY_DYNAMIC
        if is_temporary and not self._connection.has_temporary_queue(opened.queue):
            mq.call(ask.CloseObject(opened.handle))
            raise InvalidDestinationException(
                f"{opened.queue} is the temporary queue of another connection",
                rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
            )
        return opened.handle

    def open_to_browse(self, mq: QueueConnection) -> int:
        """Open the queue for browsing and return its handle.

        Raises MQError with the reason codes of MQOPEN.
        """
        return mq.call(self._request(c.MQOO_BROWSE)).handle

    def close(self, mq: QueueConnection) -> None:
        """Do nothing: unlike a subscription, a queue remains."""

    def _request(self, options: int) -> ask.Open:
        """Return the request that opens the queue with MQOO options and the selector."""
        queue = self.destination
        return ask.Open(
            queue.queue_name, options, manager=queue.queue_manager, selector=self.message_selector
        )


class SubscriptionSource:
    """A subscription as the source of a consumer's messages.

    Its selector applies at publication.
    """

    def __init__(
        self,
        session: OwningSession,
        topic: Topic,
        name: str = "",
        selector: str | None = None,
        *,
        is_durable: bool = False,
        is_shared: bool = False,
        no_local: bool = False,
    ) -> None:
        """Check the arguments; nothing is subscribed to yet.

        A subscription that is neither durable nor shared needs no name: it is private to the
        consumer. ``selector`` None takes all publications. ``no_local`` leaves out those of the own
        connection, or of the own client id. Raises InvalidDestinationException for another value
        than a topic, for a temporary topic of another connection, and for a durable subscription to
        a temporary topic. Raises IllegalStateException for an unshared durable subscription without
        a client id. Also raises InvalidSelectorException, and JMSException with
        MQRC_SUB_NAME_ERROR.
        """
        self.destination = _topic_to_use(session, topic, is_durable=is_durable)
        self.message_selector = selector_text(selector)
        self.no_local = no_local
        if is_durable and not is_shared and session.connection.client_id is None:
            raise IllegalStateException(f"{name!r}: durable, but there is no client id")
        self._name = ""
        if is_durable or is_shared:
            self._name = full_name(session, name, is_durable=is_durable)
        self._is_durable, self._is_shared = is_durable, is_shared
        self._subscription: Subscribed | None = None

    def open(self, mq: QueueConnection) -> int:
        """Subscribe, and return a new handle of the subscription's queue, open for input.

        Later calls only open the queue again.

        Raises MQError with the reason codes of ``requests.JoinSubscription``, and with
        MQRC_NO_SUBSCRIPTION if the subscription has ended.
        """
        subscription = self._subscription
        if subscription is None:
            subscription = self._subscription = mq.call(
                ask.JoinSubscription(
                    self.destination.topic_name,
                    name=self._name,
                    is_durable=self._is_durable,
                    is_shared=self._is_shared,
                    no_local=self.no_local,
                    selector=self.message_selector or "",
                )
            )
            if subscription.handle:
                return subscription.handle
        elif not mq.call(ask.IsSubscriptionOpen(subscription.number)):
            raise mq_error(rc.MQRC_NO_SUBSCRIPTION, f"{self.destination}: it has ended")
        return mq.call(ask.Open(subscription.facts.queue, _INPUT)).handle

    def open_to_browse(self, mq: QueueConnection) -> int:
        """Open the queue of the subscription for browsing and return its handle.

        Raises MQError with MQRC_NO_SUBSCRIPTION before :meth:`open` and after :meth:`close`.
        """
        subscription = self._subscription
        if subscription is None:
            raise mq_error(rc.MQRC_NO_SUBSCRIPTION, f"{self.destination}: it has ended")
        return mq.call(ask.Open(subscription.facts.queue, c.MQOO_BROWSE)).handle

    def close(self, mq: QueueConnection) -> None:
        """Close the subscription; one that is not durable ends with its last consumer.

        Does nothing without an open subscription or after the connection is closed.
        """
        subscription, self._subscription = self._subscription, None
        if subscription is not None and mq.is_open:
            mq.call(ask.CloseSubscription(subscription.number))


Source = ConsumedQueue | SubscriptionSource


def selector_text(selector: str | None) -> str | None:
    """Return a message selector, None for None or a blank one.

    Raises InvalidSelectorException for a value that is no text. Opening the source checks the
    syntax.
    """
    if selector is not None and not isinstance(selector, str):
        refuse(rc.MQRC_SELECTION_STRING_ERROR, f"selector {selector!r} is no text")
    return selector if selector is not None and selector.strip() else None


def _topic_to_use(session: OwningSession, topic: object, *, is_durable: bool) -> Topic:
    """Return ``topic`` unchanged if the session can subscribe to it.

    Raises InvalidDestinationException for a value that is no topic, for a temporary topic that this
    connection does not have, and for a durable subscription to a temporary topic.
    """
    if not isinstance(topic, Topic):
        refuse(rc.MQRC_OBJECT_TYPE_ERROR, f"{topic!r} is no topic")
    if is_temporary_topic(topic.topic_name) and (
        is_durable or not session.connection.has_temporary_topic(topic.topic_name)
    ):
        why = "cannot be durable" if is_durable else "is another connection's, or deleted"
        refuse(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, f"{topic}: a temporary topic {why}")
    return topic


_CLOSED_MEANWHILE = (rc.MQRC_HCONN_ERROR, rc.MQRC_HOBJ_ERROR)
#: The queue manager, or the connection to it, has ended before: then nothing is left to close.
_ENDED_MEANWHILE = (
    *_CLOSED_MEANWHILE,
    rc.MQRC_CONNECTION_BROKEN,
    rc.MQRC_Q_MGR_QUIESCING,
    rc.MQRC_Q_MGR_STOPPING,
)
#: The MQRFH2 is read here, whatever PROPCTL of the queue says.
_HELD = c.MQGMO_WAIT | c.MQGMO_PROPERTIES_FORCE_MQRFH2
_IN_UNIT = c.MQGMO_SYNCPOINT | _HELD
_FOREVER = c.MQWI_UNLIMITED
#: The queue manager's time of the end of a receive that does not wait.
_NOW = 0


class MessageConsumer:
    """Receives the messages of one queue or subscription. Errors are JMSException.

    In AUTO_ACKNOWLEDGE and DUPS_OK_ACKNOWLEDGE a message is held as a delivery, and settled before
    the program gets it. In other modes the session's unit of work holds the received messages.
    """

    @classic
    def __init__(self, session: OwningSession, source: Source) -> None:
        """Open the source, a queue or subscription; sessions create consumers.

        Raises the errors of ``source.open``, after closing ``source`` again.
        """
        self._session = session
        self._source = source
        #: Whether the return of a receive, or of a listener, acknowledges the message.
        self.is_automatic = session.acknowledge_mode in (AUTO_ACKNOWLEDGE, DUPS_OK_ACKNOWLEDGE)
        self._mq = session.mq
        self._handle: int | None = None
        #: A message whose body was not of the type asked for: it comes again.
        self._held: tuple[Delivery, Message] | None = None
        self._listener: Callable[[Message], object] | None = None
        self._is_open = True
        try:
            self.open_handle()
        except (MQError, JMSException):
            self._source.close(self._mq)
            raise

    @property
    def destination(self) -> Destination:
        """The queue or topic from which the consumer receives."""
        return self._source.destination

    @property
    def message_selector(self) -> str | None:
        """The message selector, None without one."""
        return self._source.message_selector

    @property
    def no_local(self) -> bool:
        """True if the consumer gets no messages that its connection or client id publishes."""
        return self._source.no_local

    @property
    def message_listener(self) -> Callable[[Message], object] | None:
        """The function that is called with each message; None if the program calls ``receive``."""
        return self._listener

    @classic
    def set_message_listener(self, listener: Callable[[Message], object] | None) -> None:
        """Let a thread of the session call ``listener`` with each message; None removes it.

        The listener is called while the connection is started, with one message of the session at a
        time. No consumer of the session can receive meanwhile. In AUTO_ACKNOWLEDGE and
        DUPS_OK_ACKNOWLEDGE the return of the listener acknowledges the message. If the listener
        raises, the message is delivered again (its backout count rises, and BOTHRESH applies).
        Raises JMSException if ``listener`` cannot be called, IllegalStateException for a closed
        consumer.
        """
        if listener is not None and not callable(listener):
            raise JMSException(f"message listener {listener!r} cannot be called")
        self._check_open()
        if listener is None:
            self._session.listening.leave(self)
        with self._session.lock:
            # From here on a stop of another thread leaves the handle open.
            self._listener = listener
        if listener is not None:
            self._session.listening.listen(self, listener)

    def receive(self, timeout_ms: int | None = None) -> Message | None:
        """Wait for the next message and return it; ``timeout_ms`` None and 0 wait without limit.

        Returns None at the end of the time, or if the consumer, its session or its connection is
        closed meanwhile. A stopped connection delivers nothing. Raises JMSException with the reason
        code of a failed get. Raises IllegalStateException for a closed consumer, or if the session
        has message listeners.
        """
        return self.receive_as(None, self.wait_of(timeout_ms))

    def receive_no_wait(self) -> Message | None:
        """Return the next message without waiting, None when the queue has none.

        Returns None while the connection is stopped. Raises the errors of :meth:`receive`.
        """
        return self.receive_as(None, 0)

    @classic
    def receive_as(self, body_type: type | None, wait_ms: int) -> Message | None:
        """Receive a message with a body of ``body_type``, None for any; ``wait_ms`` -1 is no limit.

        Returns None as :meth:`receive` does. Raises MessageFormatException for a body of another
        type; in AUTO_ACKNOWLEDGE and DUPS_OK_ACKNOWLEDGE the next call then receives the same
        message. In other modes the message comes again only after a rollback or recover.
        """
        self._check_open()
        if self._session.listening.is_used:
            raise IllegalStateException("the session has message listeners: nothing is received")
        self._session.begin_work()
        until_ms = None if wait_ms == _FOREVER else _NOW
        if wait_ms > 0:
            until_ms = self._mq.now_ms() + wait_ms
        while True:
            if not self._session.connection.wait_for_start(until_ms, self._owner_is_open):
                return None
            try:
                is_ended, message = self._receive_one(until_ms, body_type)
            except NoMessage:
                return None
            except ConnectionBroken:
                if self._owner_is_open():
                    raise
                return None
            except MQError as error:
                # The message was lost in a reconnect, and is delivered again.
                if error.reason != rc.MQRC_BACKED_OUT or not self.is_automatic:
                    raise
                continue
            if is_ended:
                return message

    @staticmethod
    def wait_of(timeout_ms: int | None) -> int:
        """Return ``timeout_ms`` as wait interval of a get: None and 0, unlimited in JMS, become -1.

        Raises JMSException with MQRC_WAIT_INTERVAL_ERROR for a negative value.
        """
        if timeout_ms is None or timeout_ms == 0:
            return _FOREVER
        if timeout_ms < 0:
            raise JMSException(f"timeout_ms {timeout_ms} is negative", rc.MQRC_WAIT_INTERVAL_ERROR)
        return timeout_ms

    def interrupt(self) -> None:
        """End the get of a receive on another thread, because the connection was stopped.

        The receive goes on: it waits for the start of the connection, up to the end of its time.
        Does nothing for a consumer with a message listener.
        """
        with self._session.lock:
            if self._listener is None:
                self._close_handle()

    def close(self) -> None:
        """Close the consumer; a receive on another thread returns None. A second call does nothing.

        Waits for a running message listener. Called inside its listener, it closes after that
        returns.
        """
        listening = self._session.listening
        if listening.leave_later(self):
            return
        listening.leave(self)
        with self._session.lock:
            if not self._is_open:
                return
            self._is_open = False
            held = self.take_held()
            try:
                self._release(held)
            except MQError as error:
                if error.reason not in _ENDED_MEANWHILE:
                    raise
        self._session.connection.wake()
        self._session.forget(self)

    def _release(self, held: Delivery | None) -> None:
        """Return a held message to its queue, then close the handle and the source.

        Does nothing after the queue manager connection is closed.
        """
        if self._mq.is_open:
            if held is not None:
                self._settle(held, is_done=False)
            self._close_handle()
            self._source.close(self._mq)

    def take_held(self) -> Delivery | None:
        """Return the message held by a receive for another body type, and clear it.

        Returns None if no message is held.
        """
        held, self._held = self._held, None
        return None if held is None else held[0]

    def accept(self, delivery: Delivery) -> Message | None:
        """Return the JMS message of a delivery, for the listener.

        Returns None if the message was backed out BOTHRESH times and has been moved away. Raises
        MQError, such as MQRC_BACKOUT_THRESHOLD_REACHED, if the move fails.
        """
        message = delivery.result.message
        with self._session.lock:
            if not self.is_automatic:
                self._session.has_work = True
            handle = self.open_handle()
            if exceeds_backout_threshold(self._mq, handle, message):
                self._move_away(handle, delivery)
                return None
            return incoming(message, self._mq.name, self._session.acknowledge)

    def settle(self, delivery: Delivery, *, is_done: bool) -> None:
        """Acknowledge the message of a listener (``is_done``), or let it be delivered again.

        Does nothing in CLIENT_ACKNOWLEDGE and SESSION_TRANSACTED: the program acknowledges or
        commits.
        """
        if self.is_automatic:
            self._settle(delivery, is_done=is_done)

    def _settle(self, delivery: Delivery, *, is_done: bool) -> None:
        """Acknowledge a held delivery (``is_done``), or return it with its backout count raised."""
        settlement = Settlement.TAKEN if is_done else Settlement.BACKED_OUT
        self._mq.call(ask.Settle([delivery.number], settlement))

    def _check_open(self) -> None:
        """Raise IllegalStateException if the consumer or its session is closed."""
        self._session.check_open()
        if not self._is_open:
            refuse(rc.MQRC_HOBJ_ERROR, "the consumer is closed")

    def _receive_one(
        self, until_ms: int | None, body_type: type | None
    ) -> tuple[bool, Message | None]:
        """Get one message by ``until_ms``; return whether the receive has ended, and its message.

        The result (True, None) means closed. (False, None) means that the caller must try again:
        the handle was closed meanwhile, or the message was moved away as backed out too often.
        Raises NoMessage at the end of the time.
        """
        with self._session.lock:
            if not self._owner_is_open():
                return True, None
            if self._held is not None:
                return True, self._hand_out(*self._held, body_type)
            handle = self.open_handle()
        try:
            delivery = self._get(handle, until_ms)
        except MQError as error:
            if error.reason not in _CLOSED_MEANWHILE:
                raise
            with self._session.lock:
                if self._handle == handle:
                    self._handle = None
            return False, None
        with self._session.lock:
            if not self._session.is_open:
                # The close has given it back.
                return True, None
            if self.is_automatic and not self._is_open:
                self._settle(delivery, is_done=False)
                return True, None
            message = delivery.result.message
            if exceeds_backout_threshold(self._mq, handle, message):
                self._move_away(handle, delivery)
                return False, None
            received = incoming(message, self._mq.name, self._session.acknowledge)
            return True, self._hand_out(delivery, received, body_type)

    def _get(self, handle: int, until_ms: int | None) -> Delivery:
        """Get a message by ``until_ms`` (queue manager time, 0 does not wait, None waits for ever).

        It is held as a delivery if the mode acknowledges automatically, else got in the unit of
        work. Raises NoMessage at the end of the time.
        """
        wait_ms = _FOREVER
        if until_ms is not None:
            wait_ms = 0 if until_ms == _NOW else max(until_ms - self._mq.now_ms(), 0)
        if self.is_automatic:
            return self._mq.call(ask.GetAny([handle], _HELD, wait_ms=wait_ms))
        result = self._mq.get(handle, _IN_UNIT, wait_ms=wait_ms)
        self._session.has_work = True
        return Delivery(0, result, handle)

    def _hand_out(self, delivery: Delivery, received: Message, body_type: type | None) -> Message:
        """Return a message for the program; acknowledge it in an automatic mode (AUTO_, DUPS_OK_).

        Raises MessageFormatException for a body that is not of ``body_type``. In an automatic mode
        the consumer then holds the message for the next receive.
        """
        if body_type is not None and not has_body(received, body_type):
            if self.is_automatic:
                self._held = delivery, received
            raise MessageFormatException(
                f"the body of a {type(received).__name__} is no {body_type.__name__}"
            )
        self._held = None
        if self.is_automatic:
            self._settle(delivery, is_done=True)
        return received

    def _move_away(self, handle: int, delivery: Delivery) -> None:
        """Move a message that was backed out too often to another queue, by :func:`move_away`.

        If the move fails in an automatic mode, the message returns to its queue; in other modes the
        session can only roll back. The error is raised in both cases.
        """
        mq = self._mq
        if self.is_automatic:
            # The unit of work has nothing else in it.
            mq.call(ask.Settle([delivery.number], Settlement.TAKEN, within=mq.number))
        try:
            move_away(mq, handle, delivery.result.message)
        except MQError as error:
            if self.is_automatic:
                mq.call(ask.Backout())
            else:
                # It is in the unit of work, which must not be committed without it.
                self._session.must_roll_back = error
            raise
        if self.is_automatic:
            mq.call(ask.Commit())

    def open_handle(self) -> int:
        """Return the handle of the queue; opens the source if it is not open."""
        if self._handle is None:
            self._handle = self._source.open(self._mq)
        return self._handle

    @classic
    def open_to_browse(self) -> int:
        """Return a new handle that browses the consumer's queue; it closes with the session.

        Raises JMSSecurityException for a user who may not browse the queue, JMSException with the
        reason codes of MQOPEN.
        """
        return self._source.open_to_browse(self._mq)

    def _close_handle(self) -> None:
        """Close the handle of the queue if it is open; a later receive opens a new one."""
        handle, self._handle = self._handle, None
        if handle is not None and self._mq.has_open(handle):
            self._mq.call(ask.CloseObject(handle))

    def _owner_is_open(self) -> bool:
        """Return True while the consumer, its session and its connection are open."""
        session = self._session
        return self._is_open and session.is_open and session.connection.is_open


def has_body(message: Message, body_type: type) -> bool:
    """Return True if the body of a message can be read as type ``body_type``.

    False for a message without a body, and for a StreamMessage.
    """
    return message.kind != Message.kind and message.is_body_assignable_to(body_type)


#: The MQRFH2 is read here, whatever PROPCTL of the queue says.
_BROWSE_NEXT = c.MQGMO_BROWSE_NEXT | c.MQGMO_PROPERTIES_FORCE_MQRFH2


class QueueBrowser:
    """Browses the messages of a queue, in each iteration all. Errors are JMSException."""

    @classic
    def __init__(
        self, session: OwningSession, queue: Destination, selector: str | None = None
    ) -> None:
        """Check that the queue can be browsed with the selector; sessions create browsers.

        Raises InvalidDestinationException, InvalidSelectorException, and JMSException with the
        reason codes of MQOPEN.
        """
        self._source = ConsumedQueue(session, queue, selector)
        self._session = session
        self._is_open = True
        self._handles: list[int] = []
        session.close_handle(self._open())

    @property
    def queue(self) -> Queue:
        """The queue that is browsed."""
        return self._source.destination

    @property
    def message_selector(self) -> str | None:
        """The message selector, None without one."""
        return self._source.message_selector

    def __iter__(self) -> Iterator[Message]:
        """Yield the messages in get order; each is read when the iteration asks for it."""
        self._check_open()
        with self._session.lock:
            handle = self._open()
            self._handles.append(handle)
        try:
            while (message := self._next(handle)) is not None:
                yield message
        finally:
            self._session.close_handle(handle)
            self._handles.remove(handle)

    #: JMS calls it so.
    get_enumeration = __iter__

    def close(self) -> None:
        """Close the browser; the next step of an iteration raises IllegalStateException.

        A second call does nothing.
        """
        self._is_open = False
        for handle in list(self._handles):
            self._session.close_handle(handle)

    @classic
    def _next(self, handle: int) -> Message | None:
        """Return the next message of a browse handle, None at the end of the queue.

        Raises IllegalStateException for a closed browser.
        """
        self._check_open()
        try:
            message = self._session.mq.get(handle, _BROWSE_NEXT).message
        except NoMessage:
            return None
        return incoming(message, self._session.mq.name, None)

    @classic
    def _open(self) -> int:
        """Open the queue for browsing with the selector, and return the handle."""
        return self._source.open_to_browse(self._session.mq)

    def _check_open(self) -> None:
        """Raise IllegalStateException if the browser or its session is closed."""
        self._session.check_open()
        if not self._is_open:
            refuse(rc.MQRC_HOBJ_ERROR, "the browser is closed")


def _consumer(consumer: JMSConsumer) -> MessageConsumer:
    """Return the classic consumer behind a JMSConsumer."""
    return consumer._consumer


class JMSConsumer:
    """Receives the messages of one queue or subscription. Errors are JMSRuntimeException."""

    set_message_listener = simplified_method(MessageConsumer.set_message_listener, _consumer)
    receive = simplified_method(MessageConsumer.receive, _consumer)
    receive_no_wait = simplified_method(MessageConsumer.receive_no_wait, _consumer)
    close = simplified_method(MessageConsumer.close, _consumer)

    def __init__(self, consumer: MessageConsumer) -> None:
        """Wrap a consumer of the classic API; contexts create consumers."""
        self._consumer = consumer

    @property
    def message_selector(self) -> str | None:
        """The message selector, None without one."""
        return self._consumer.message_selector

    @property
    def message_listener(self) -> Callable[[Message], object] | None:
        """The function that is called with each message; None if the program calls ``receive``."""
        return self._consumer.message_listener

    @simplified
    def receive_body(self, body_type: type, timeout_ms: int | None = None) -> Any:
        """Return the body of the next message as ``body_type``: str, bytes or dict.

        Waits for ``timeout_ms``, None and 0 without limit. Returns None at the end of the time,
        after a close, and for a null body. Raises MessageFormatRuntimeException for a body of
        another type. In AUTO_ACKNOWLEDGE and DUPS_OK_ACKNOWLEDGE the next call then receives the
        same message.
        """
        message = self._consumer.receive_as(body_type, self._consumer.wait_of(timeout_ms))
        return None if message is None else message.get_body(body_type)

    @simplified
    def receive_body_no_wait(self, body_type: type) -> Any:
        """Return the body of the next message without waiting, None when the queue has none.

        Raises MessageFormatRuntimeException for a body of another type. In AUTO_ACKNOWLEDGE and
        DUPS_OK_ACKNOWLEDGE the next call then receives the same message.
        """
        message = self._consumer.receive_as(body_type, 0)
        return None if message is None else message.get_body(body_type)


class JMSBrowser:
    """Browses the messages of a queue; each iteration starts at the first.

    Errors are JMSRuntimeException.
    """

    def __init__(self, browser: QueueBrowser) -> None:
        """Wrap a browser of the classic API; contexts create browsers."""
        self._browser = browser

    @property
    def queue(self) -> Queue:
        """The queue that is browsed."""
        return self._browser.queue

    @property
    def message_selector(self) -> str | None:
        """The message selector, None without one."""
        return self._browser.message_selector

    def __iter__(self) -> Iterator[Message]:
        """Yield the messages in get order; each is read when the iteration asks for it."""
        messages = iter(self._browser)
        while (message := self._next(messages)) is not None:
            yield message

    #: JMS calls it so.
    get_enumeration = __iter__

    @simplified
    def _next(self, messages: Iterator[Message]) -> Message | None:
        """Return the next message of an iterator, None at its end."""
        return next(messages, None)

    def close(self) -> None:
        """Close the browser; the next step of an iteration raises IllegalStateRuntimeException.

        A second call does nothing.
        """
        self._browser.close()
