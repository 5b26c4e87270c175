"""The consumers and browsers of both APIs: they take messages off a queue, wait for them, or look.

In this order: the source of a consumer's messages, which is a queue or a subscription; messages
that were backed out too often, which go to BOQNAME, else to the dead-letter queue; the classic API;
the simplified API, each of whose consumers and browsers has one of the classic API behind it.

A durable subscription is ``JMS:queue manager:client id:name`` for the queue manager, a shared one
that is not durable begins with JMS.ND: the two kinds have nothing to do with each other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mayfly.client.connection import Connection as QueueConnection
from mayfly.client.connection.topics import is_temporary_topic, quoted_client_id
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
    twin,
)
from mayfly.jms.mapping import incoming
from mayfly.jms.messages import Message
from mayfly.jms.roles import OwningSession
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, MQError, NoMessage, mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, Settlement, token_of
from mayfly.verbs.messages import Message as QueueMessage
from mayfly.verbs.requests import Subscribed


class SubscriptionRequest(NamedTuple):
    """The subscription that a consumer asks for; without a name it is the consumer's alone."""

    topic: Topic
    name: str = ""
    selector: str | None = None
    is_durable: bool = False
    is_shared: bool = False
    no_local: bool = False


def full_name(session: OwningSession, name: object, *, is_durable: bool) -> str:
    """Return the name of a subscription for the queue manager; raises MQRC_SUB_NAME_ERROR.

    With a client id of the connection the name is the client's own; else all clients share it.
    """
    if not isinstance(name, str) or not name.strip():
        refuse(rc.MQRC_SUB_NAME_ERROR, f"{name!r} cannot name a subscription")
    kind = "JMS" if is_durable else "JMS.ND"
    client = quoted_client_id(session.connection.client_id or "")
    return f"{kind}:{session.mq.name}:{client}:{name}"


_INPUT = c.MQOO_INPUT_AS_Q_DEF | c.MQOO_INQUIRE


class QueueSource:
    """A queue, of which a selector takes its part."""

    no_local = False

    def __init__(
        self, session: OwningSession, destination: Destination, selector: str | None
    ) -> None:
        """Check the destination, which must be a queue here; raises InvalidDestinationException."""
        self.message_selector = selector_text(selector)
        self.destination: Queue = queue_to_use(destination)
        self._connection = session.connection

    def open(self, mq: QueueConnection) -> int:
        """Open the queue, and return its handle.

        Raises InvalidDestinationException for a temporary queue of another connection, and the
        reasons of MQOPEN.
        """
        queue = self.destination
        opened = mq.call(
            ask.Open(
                queue.queue_name,
                _INPUT,
                manager=queue.queue_manager,
                selector=self.message_selector,
            )
        )
        is_temporary = opened.definition_type == c.MQQDT_TEMPORARY_DYNAMIC
        if is_temporary and not self._connection.has_temporary_queue(opened.queue):
            mq.call(ask.CloseObject(opened.handle))
            raise InvalidDestinationException(
                f"{opened.queue} is the temporary queue of another connection",
                rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
            )
        return opened.handle

    def open_to_browse(self, mq: QueueConnection) -> int:
        """Open the queue for a look at the messages to come, and return the handle."""
        queue = self.destination
        return mq.call(
            ask.Open(
                queue.queue_name,
                c.MQOO_BROWSE,
                manager=queue.queue_manager,
                selector=self.message_selector,
            )
        ).handle

    def close(self, mq: QueueConnection) -> None:
        """A queue is left as it is."""


class SubscriptionSource:
    """A subscription: it chooses by the selector when something is published."""

    def __init__(self, session: OwningSession, wanted: SubscriptionRequest) -> None:
        """Check what is wanted; nothing is subscribed to yet.

        Raises InvalidDestinationException for no topic, or a temporary one of another connection or
        for a durable subscription, IllegalStateException for an unshared durable one without a
        client id, InvalidSelectorException, MQRC_SUB_NAME_ERROR.
        """
        connection = session.connection
        self.destination = _topic_to_use(session, wanted)
        self.message_selector = selector_text(wanted.selector)
        self.no_local = wanted.no_local
        if wanted.is_durable and not wanted.is_shared and connection.client_id is None:
            raise IllegalStateException(f"{wanted.name!r}: durable, but there is no client id")
        self._name = ""
        if wanted.is_durable or wanted.is_shared:
            self._name = full_name(session, wanted.name, is_durable=wanted.is_durable)
        self._wanted = wanted._replace(selector=self.message_selector)
        self._subscription: Subscribed | None = None

    def open(self, mq: QueueConnection) -> int:
        """Subscribe, or open the queue of the subscription again; returns the handle.

        Raises what ``Topics.join`` does, MQRC_NO_SUBSCRIPTION when it has ended meanwhile.
        """
        subscription, wanted = self._subscription, self._wanted
        if subscription is None:
            subscription = self._subscription = mq.call(
                ask.JoinSubscription(
                    wanted.topic.topic_name,
                    name=self._name,
                    is_durable=wanted.is_durable,
                    is_shared=wanted.is_shared,
                    no_local=wanted.no_local,
                    selector=wanted.selector or "",
                )
            )
            if subscription.handle:
                return subscription.handle
        elif not mq.call(ask.IsSubscriptionOpen(subscription.number)):
            raise mq_error(rc.MQRC_NO_SUBSCRIPTION, f"{self.destination}: it has ended")
        return mq.call(ask.Open(subscription.facts.queue, _INPUT)).handle

    def open_to_browse(self, mq: QueueConnection) -> int:
        """Open the queue of the subscription for a look, and return the handle.

        Raises MQRC_NO_SUBSCRIPTION when it has ended meanwhile.
        """
        subscription = self._subscription
        if subscription is None:
            raise mq_error(rc.MQRC_NO_SUBSCRIPTION, f"{self.destination}: it has ended")
        return mq.call(ask.Open(subscription.facts.queue, c.MQOO_BROWSE)).handle

    def close(self, mq: QueueConnection) -> None:
        """Close the subscription; one that is not durable ends with the last who has it open."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None and mq.is_open:
            mq.call(ask.CloseSubscription(subscription.number))


Source = QueueSource | SubscriptionSource


def selector_text(selector: str | None) -> str | None:
    """Return a message selector, None for a blank one; raises InvalidSelectorException if no text.

    Whether it is well formed turns out when its source is opened.
    """
    if selector is not None and not isinstance(selector, str):
        refuse(rc.MQRC_SELECTION_STRING_ERROR, f"selector {selector!r} is no text")
    return selector if selector is not None and selector.strip() else None


def _topic_to_use(session: OwningSession, wanted: SubscriptionRequest) -> Topic:
    topic = wanted.topic
    if not isinstance(topic, Topic):
        refuse(rc.MQRC_OBJECT_TYPE_ERROR, f"{topic!r} is no topic")
    if is_temporary_topic(topic.topic_name) and (
        wanted.is_durable or not session.connection.has_temporary_topic(topic.topic_name)
    ):
        why = "cannot be durable" if wanted.is_durable else "is another connection's, or deleted"
        refuse(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, f"{topic}: a temporary topic {why}")
    return topic


_LOG = logging.getLogger("mayfly.jms")


def is_poisonous(mq: QueueConnection, handle: int, message: QueueMessage) -> bool:
    """Return True if a message was backed out BOTHRESH times; BOTHRESH(0) sets no limit."""
    backout_count = message.backout_count
    # Most were never backed out: their queue need not be asked.
    return backout_count > 0 and 0 < mq.call(ask.AskBackoutRule(handle)).threshold <= backout_count


def move_away(mq: QueueConnection, handle: int, message: QueueMessage) -> None:
    """Move a message that the unit of work has got to another queue, in the same unit of work.

    Its life goes on. It goes to BOQNAME as it is. Where that fails, it goes to the dead-letter
    queue with an MQDLH, or is discarded when its report options contain MQRO_DISCARD_MSG. In both
    of these cases it owes an exception report, in the same unit of work.
    Raises MQRC_BACKOUT_THRESHOLD_REACHED when no queue takes the message, or the report of a
    persistent one (D22). The caller then backs the unit of work out.
    """
    descriptor = message.descriptor
    try:
        mq.call(
            ask.Forward(
                message.queue, token_of(message), mq.call(ask.AskBackoutRule(handle)).queue_name
            )
        )
    except MQError as error:
        if descriptor.report & c.MQRO_DISCARD_MSG:
            _LOG.warning("%s on %s is discarded: %s", message.msg_id.hex(), message.queue, error)
        else:
            _dead_letter(mq, message)
        is_sent = mq.call(
            ask.ReportException(message.queue, token_of(message), rc.MQRC_BACKOUT_THRESHOLD_REACHED)
        )
        if not is_sent and descriptor.persistence == c.MQPER_PERSISTENT:
            text = f"nobody takes the exception report of {message.msg_id.hex()}"
            raise mq_error(rc.MQRC_BACKOUT_THRESHOLD_REACHED, text) from error


def _dead_letter(mq: QueueConnection, message: QueueMessage) -> None:
    try:
        mq.call(ask.DeadLetter(message.queue, token_of(message), rc.MQRC_BACKOUT_THRESHOLD_REACHED))
    except MQError as error:
        raise mq_error(
            rc.MQRC_BACKOUT_THRESHOLD_REACHED,
            f"{message.msg_id.hex()} on {message.queue} was backed out {message.backout_count} "
            f"times and can be put neither on BOQNAME nor on the dead-letter queue: {error}",
        ) from error


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
    it is handed out; otherwise the session's unit of work holds what was received.
    """

    @classic
    def __init__(self, session: OwningSession, source: Source) -> None:
        """Open the source; sessions make consumers. Raises as ``open`` of the source."""
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
        """The queue or topic it receives from."""
        return self._source.destination

    @property
    def message_selector(self) -> str | None:
        """Which messages it takes; None: all."""
        return self._source.message_selector

    @property
    def no_local(self) -> bool:
        """Whether it leaves out what its own connection, or client id, publishes."""
        return self._source.no_local

    @property
    def message_listener(self) -> Callable[[Message], object] | None:
        """The function that is called with each message; None when messages are received."""
        return self._listener

    @classic
    def set_message_listener(self, listener: Callable[[Message], object] | None) -> None:
        """Have a thread of the session call this with each message, None to receive again.

        The listener is called while the connection is started, for one message of the session at a
        time. Nobody can receive in the session meanwhile. In AUTO_ACKNOWLEDGE and
        DUPS_OK_ACKNOWLEDGE the return of the listener acknowledges the message. When the listener
        raises, the message comes again (BackoutCount and BOTHRESH apply). Raises
        IllegalStateException when the consumer is closed.
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
        """Return the next message, waiting for it; None and 0 wait for ever.

        Returns None when none came in time, or when the consumer, its session or its connection is
        closed meanwhile. Nothing comes while the connection is stopped. Raises JMSException with
        the reason of the failed get, IllegalStateException when it is closed already.
        """
        return self.receive_as(None, self.wait_of(timeout_ms))

    def receive_no_wait(self) -> Message | None:
        """Return the next message, None when there is none."""
        return self.receive_as(None, 0)

    @classic
    def receive_as(self, body_type: type | None, wait_ms: int) -> Message | None:
        """Receive a message whose body is of a type, of any type with None; -1 waits for ever.

        Raises MessageFormatException for another body; in AUTO_ACKNOWLEDGE and DUPS_OK_ACKNOWLEDGE
        the message is then received again by the next call.
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
                # The connection was lost with the message, and made again: it comes again.
                if error.reason != rc.MQRC_BACKED_OUT or not self.is_automatic:
                    raise
                continue
            if is_ended:
                return message

    @staticmethod
    def wait_of(timeout_ms: int | None) -> int:
        """Return how long a receive waits: as JMS has it, None and 0 are for ever, here -1."""
        if timeout_ms is None or timeout_ms == 0:
            return _FOREVER
        if timeout_ms < 0:
            raise JMSException(f"timeout_ms {timeout_ms} is negative", rc.MQRC_WAIT_INTERVAL_ERROR)
        return timeout_ms

    def interrupt(self) -> None:
        """End a wait of another thread, which then sees that the connection is stopped."""
        with self._session.lock:
            if self._listener is None:
                self._close_handle()

    def close(self) -> None:
        """Close; a receive of another thread returns None. A second close does nothing.

        It waits for a message listener at work. Called inside of its own listener, it closes when
        that returns.
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
        if self._mq.is_open:
            if held is not None:
                self._settle(held, is_done=False)
            self._close_handle()
            self._source.close(self._mq)

    def take_held(self) -> Delivery | None:
        """Take the message that was of another type than a receive has asked for, if any."""
        held, self._held = self._held, None
        return None if held is None else held[0]

    def accept(self, delivery: Delivery) -> Message | None:
        """Return the JMS message for the listener; None when it was poisonous and is moved away.

        Raises MQRC_BACKOUT_THRESHOLD_REACHED and others when the move fails.
        """
        message = delivery.result.message
        with self._session.lock:
            if not self.is_automatic:
                self._session.has_work = True
            handle = self.open_handle()
            if is_poisonous(self._mq, handle, message):
                self._move_away(handle, delivery)
                return None
            return incoming(message, self._mq.name, self._session.acknowledge)

    def settle(self, delivery: Delivery, *, is_done: bool) -> None:
        """Acknowledge the message of a listener that has returned, or let it come again.

        In CLIENT_ACKNOWLEDGE and SESSION_TRANSACTED it does nothing: the application acknowledges
        or commits itself.
        """
        if self.is_automatic:
            self._settle(delivery, is_done=is_done)

    def _settle(self, delivery: Delivery, *, is_done: bool) -> None:
        settlement = Settlement.TAKEN if is_done else Settlement.BACKED_OUT
        self._mq.call(ask.Settle([delivery.number], settlement))

    def _check_open(self) -> None:
        self._session.check_open()
        if not self._is_open:
            refuse(rc.MQRC_HOBJ_ERROR, "the consumer is closed")

    def _receive_one(
        self, until_ms: int | None, body_type: type | None
    ) -> tuple[bool, Message | None]:
        """Return whether the receive has ended, and with what."""
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
            if is_poisonous(self._mq, handle, message):
                self._move_away(handle, delivery)
                return False, None
            received = incoming(message, self._mq.name, self._session.acknowledge)
            return True, self._hand_out(delivery, received, body_type)

    def _get(self, handle: int, until_ms: int | None) -> Delivery:
        wait_ms = _FOREVER
        if until_ms is not None:
            wait_ms = 0 if until_ms == _NOW else max(until_ms - self._mq.now_ms(), 0)
        if self.is_automatic:
            return self._mq.call(ask.GetAny([handle], _HELD, wait_ms=wait_ms))
        result = self._mq.get(handle, _IN_UNIT, wait_ms=wait_ms)
        self._session.has_work = True
        return Delivery(0, result, handle)

    def _hand_out(self, delivery: Delivery, received: Message, body_type: type | None) -> Message:
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
        mq = self._mq
        if self.is_automatic:
            # The unit of work has nothing else in it.
            numbers = [delivery.number]
            mq.call(ask.Settle(list(numbers), Settlement.TAKEN, within=mq.number))
        try:
            move_away(mq, handle, delivery.result.message)
        except MQError as error:
            if self.is_automatic:
                self._mq.call(ask.Backout())
            else:
                # It is in the unit of work, which must not be committed without it.
                self._session.must_roll_back = error
            raise
        if self.is_automatic:
            self._mq.call(ask.Commit())

    def open_handle(self) -> int:
        """Return the handle on its queue, open."""
        if self._handle is None:
            self._handle = self._source.open(self._mq)
        return self._handle

    @classic
    def open_to_browse(self) -> int:
        """Return a new handle that sees what the consumer would get; it ends with the session.

        Raises JMSSecurityException for a user who may not browse the queue.
        """
        return self._source.open_to_browse(self._mq)

    def _close_handle(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None and self._mq.has_open(handle):
            self._mq.call(ask.CloseObject(handle))

    def _owner_is_open(self) -> bool:
        session = self._session
        return self._is_open and session.is_open and session.connection.is_open


def has_body(message: Message, body_type: type) -> bool:
    """Return True if a message has a body that can be read as a type."""
    return message.kind != Message.kind and message.is_body_assignable_to(body_type)


#: The MQRFH2 is read here, whatever PROPCTL of the queue says.
_BROWSE_NEXT = c.MQGMO_BROWSE_NEXT | c.MQGMO_PROPERTIES_FORCE_MQRFH2


class QueueBrowser:
    """Shows the messages of a queue; each iteration begins anew. Errors are JMSException."""

    @classic
    def __init__(
        self, session: OwningSession, queue: Destination, selector: str | None = None
    ) -> None:
        """Check queue and selector; sessions make browsers.

        Raises InvalidDestinationException, InvalidSelectorException.
        """
        self._selector = selector_text(selector)
        self._session = session
        self._queue = queue_to_use(queue)
        self._is_open = True
        self._handles: list[int] = []
        session.close_handle(self._open())

    @property
    def queue(self) -> Queue:
        return self._queue

    @property
    def message_selector(self) -> str | None:
        """Which messages it shows; None: all."""
        return self._selector

    def __iter__(self) -> Iterator[Message]:
        """Yield the messages in get order, each read when it is asked for."""
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
        """Close; iterations under way end with an error. A second close does nothing."""
        self._is_open = False
        for handle in list(self._handles):
            self._session.close_handle(handle)

    @classic
    def _next(self, handle: int) -> Message | None:
        self._check_open()
        try:
            message = self._session.mq.get(handle, _BROWSE_NEXT).message
        except NoMessage:
            return None
        return incoming(message, self._session.mq.name, None)

    @classic
    def _open(self) -> int:
        queue = self._queue
        return self._session.mq.call(
            ask.Open(
                queue.queue_name,
                c.MQOO_BROWSE,
                manager=queue.queue_manager,
                selector=self._selector,
            )
        ).handle

    def _check_open(self) -> None:
        self._session.check_open()
        if not self._is_open:
            refuse(rc.MQRC_HOBJ_ERROR, "the browser is closed")


def _consumer(consumer: JMSConsumer) -> MessageConsumer:
    return consumer._consumer


class JMSConsumer:
    """Receives the messages of one queue or subscription. Errors are JMSRuntimeException."""

    set_message_listener = twin(MessageConsumer.set_message_listener, _consumer)
    receive = twin(MessageConsumer.receive, _consumer)
    receive_no_wait = twin(MessageConsumer.receive_no_wait, _consumer)
    close = twin(MessageConsumer.close, _consumer)

    def __init__(self, consumer: MessageConsumer) -> None:
        """Take the consumer of the classic API that receives; contexts make consumers."""
        self._consumer = consumer

    @property
    def message_selector(self) -> str | None:
        """Which messages it takes; None: all."""
        return self._consumer.message_selector

    @property
    def message_listener(self) -> Callable[[Message], object] | None:
        """The function that is called with each message; None when messages are received."""
        return self._consumer.message_listener

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


class JMSBrowser:
    """Shows the messages of a queue; each iteration begins anew. Errors are JMSRuntimeException."""

    def __init__(self, browser: QueueBrowser) -> None:
        """Take the browser of the classic API that browses; contexts make browsers."""
        self._browser = browser

    @property
    def queue(self) -> Queue:
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
