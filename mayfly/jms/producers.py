"""The producers of both JMS APIs, MessageProducer and chained JMSProducer, and their sends.

The rules are those of delivery delay, time to live, priority and delivery mode. The settings of a
destination take precedence over those of the producer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar

from mayfly.client.connection import Connection as QueueConnection
from mayfly.jms import constants as k
from mayfly.jms.callbacks import CompletionListener, check_completion_listener
from mayfly.jms.destinations import Destination, Queue, Topic, destination_to_use
from mayfly.jms.errors import (
    IllegalStateException,
    InvalidDestinationException,
    MessageFormatException,
    classic,
    refuse,
    simplified,
)
from mayfly.jms.mapping import (
    DescriptorFields,
    EncodedMessage,
    SendTerms,
    descriptor_fields_of,
    outgoing,
)
from mayfly.jms.messages import BytesMessage, MapMessage, Message, TextMessage
from mayfly.jms.protocols import OwningSession
from mayfly.jms.values import PropertyAccess
from mayfly.lifetime.window import DELAY_COMMAND_LEVEL, LATEST_DUE_MS, LONGEST_LIFE_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQHO_NONE, MQOO_OUTPUT, MQOT_Q
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import Typed
from mayfly.store.keys import MAX_PRIORITY
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import PutResult
from mayfly.verbs.properties.selectors.names import id_text
from mayfly.verbs.requests import Opened
from mayfly.verbs.topic_strings import check_topic_string

P = ParamSpec("P")
C = TypeVar("C")


@dataclass
class SendSettings:
    """The settings of a producer; times are in ms, and ``time_to_live_ms`` 0 is unlimited.

    A setter that raises changes nothing.
    """

    mq: QueueConnection
    #: The queue of the producer; MQHO_NONE if each send names one, None for a topic.
    handle: int | None = c.MQHO_NONE
    delivery_mode: int = k.PERSISTENT
    priority: int = k.DEFAULT_PRIORITY
    time_to_live_ms: int = 0
    delay_ms: int = 0
    disables_id: bool = False
    disables_timestamp: bool = False

    def set_delivery_mode(self, delivery_mode: int) -> None:
        """Set PERSISTENT or NON_PERSISTENT.

        Raises JMSException with MQRC_PERSISTENCE_ERROR for another value.
        """
        if type(delivery_mode) is not int or delivery_mode not in (k.NON_PERSISTENT, k.PERSISTENT):
            refuse(rc.MQRC_PERSISTENCE_ERROR, f"delivery mode {delivery_mode!r}")
        self.delivery_mode = delivery_mode

    def set_priority(self, priority: int) -> None:
        """Set the priority, 0 to 9.

        Raises JMSException with MQRC_PRIORITY_ERROR for another value.
        """
        if type(priority) is not int or not 0 <= priority <= MAX_PRIORITY:
            text = f"priority {priority!r} is not within 0 .. {MAX_PRIORITY}"
            refuse(rc.MQRC_PRIORITY_ERROR, text)
        self.priority = priority

    def set_time_to_live(self, time_to_live_ms: int) -> None:
        """Set the time to live in ms, 0 for unlimited.

        Raises JMSException with MQRC_EXPIRY_ERROR for a wrong value, and for one shorter than the
        delay, unless expiry may count from the delivery, as on a queue with TTLFROM(RELEASE).
        """
        if type(time_to_live_ms) is not int or not 0 <= time_to_live_ms <= LONGEST_LIFE_MS:
            text = f"time to live {time_to_live_ms!r} is not within 0 .. {LONGEST_LIFE_MS} ms"
            refuse(rc.MQRC_EXPIRY_ERROR, text)
        self._check_ttl_covers_delay(time_to_live_ms, self.delay_ms)
        self.time_to_live_ms = time_to_live_ms

    def set_delivery_delay(self, delay_ms: int) -> None:
        """Set the delivery delay in ms.

        The errors are JMSException. MQRC_FUNCTION_NOT_SUPPORTED: a delay other than 0, and a queue
        manager below command level 800. MQRC_EXPIRY_ERROR: the delay is longer than the time to
        live, unless expiry may count from the delivery, as on a queue with TTLFROM(RELEASE).
        MQRC_OPTIONS_ERROR: no whole number, negative, or a delivery time after the year 2109.
        """
        mq = self.mq
        if type(delay_ms) is not int:
            refuse(rc.MQRC_OPTIONS_ERROR, f"delivery delay {delay_ms!r} is no number of ms")
        level = mq.call(ask.AskCommandLevel()) if delay_ms else DELAY_COMMAND_LEVEL
        if level < DELAY_COMMAND_LEVEL:
            needed = f"delivery delay needs command level {DELAY_COMMAND_LEVEL}"
            refuse(rc.MQRC_FUNCTION_NOT_SUPPORTED, f"{needed}; {mq.name} has {level}")
        if delay_ms < 0 or mq.now_ms() + delay_ms > LATEST_DUE_MS:
            refuse(rc.MQRC_OPTIONS_ERROR, f"delivery delay {delay_ms} is negative or too long")
        self._check_ttl_covers_delay(self.time_to_live_ms, delay_ms)
        self.delay_ms = delay_ms

    def set_disable_message_id(self, value: bool) -> None:
        """Choose whether sent messages show no JMSMessageID; they still have a MsgId."""
        self.disables_id = value

    def set_disable_message_timestamp(self, value: bool) -> None:
        """Choose whether messages carry no JMSTimestamp."""
        self.disables_timestamp = value

    def with_terms(self, terms: Mapping[str, Any]) -> SendSettings:
        """Return a copy of the settings for one send, with some values replaced by ``terms``.

        Its keys are ``delivery_mode``, ``priority`` and ``time_to_live`` (ms). Raises JMSException
        for a wrong value.
        """
        settings = replace(self)
        settings.set_time_to_live(terms.get("time_to_live", self.time_to_live_ms))
        settings.set_delivery_mode(terms.get("delivery_mode", self.delivery_mode))
        settings.set_priority(terms.get("priority", self.priority))
        return settings

    def _check_ttl_covers_delay(self, time_to_live_ms: int, delay_ms: int) -> None:
        """Raise JMSException with MQRC_EXPIRY_ERROR if a message would expire before its delivery.

        Does nothing if expiry may count from the delivery, as on a queue with TTLFROM(RELEASE).
        """
        if time_to_live_ms and delay_ms > time_to_live_ms and self._ttl_must_cover_delay():
            text = f"time to live {time_to_live_ms} ms is less than delivery delay {delay_ms} ms"
            refuse(rc.MQRC_EXPIRY_ERROR, text)

    def _ttl_must_cover_delay(self) -> bool:
        """Return True if expiry counts from the send: the time to live includes the delay.

        False if the queue has TTLFROM(RELEASE), where expiry counts from the delivery. If each send
        names a queue, False if any queue has it; the send then checks its own queue.
        """
        return self.handle is None or not self.mq.call(ask.AskLivesFromRelease(self.handle))


class ReadOnlySettings:
    """A producer base class: its settings as read-only properties."""

    _settings: SendSettings

    @property
    def delivery_mode(self) -> int:
        """The delivery mode, PERSISTENT or NON_PERSISTENT; initially PERSISTENT."""
        return self._settings.delivery_mode

    @property
    def priority(self) -> int:
        """The priority, 0 to 9; initially 4."""
        return self._settings.priority

    @property
    def time_to_live(self) -> int:
        """The time to live of messages, in ms from the send; 0 for unlimited."""
        return self._settings.time_to_live_ms

    @property
    def delivery_delay(self) -> int:
        """The delivery delay of messages, in ms from the send; 0 for none."""
        return self._settings.delay_ms

    @property
    def disable_message_id(self) -> bool:
        """True if sent messages show no JMSMessageID; they still have a MsgId."""
        return self._settings.disables_id

    @property
    def disable_message_timestamp(self) -> bool:
        """True if messages carry no JMSTimestamp."""
        return self._settings.disables_timestamp


_PERSISTENCES = {
    k.NON_PERSISTENT: c.MQPER_NOT_PERSISTENT,
    k.PERSISTENT: c.MQPER_PERSISTENT,
    k.AS_QUEUE_DEFINITION: c.MQPER_PERSISTENCE_AS_Q_DEF,
}
#: The result of a put, and the terms that the message was sent on.
Sent = tuple[PutResult, SendTerms]


def send(
    session: OwningSession,
    destination: Queue | Topic,
    message: object,
    settings: SendSettings,
    opened: Opened | None,
) -> None:
    """Send a message, then set its JMS headers.

    ``opened`` is the open queue of the producer, None if the producer has none. In a transacted
    session the send is part of the unit of work. Raises MQError and JMSException; the message is
    then unchanged and nothing is sent.
    """
    if not isinstance(message, Message):
        raise MessageFormatException(f"{message!r} is no message")
    special = descriptor_fields_of(message.typed_properties)
    # D8; a delay of a message in a group is refused by the queue manager (D9).
    if settings.delay_ms and special.is_retained:
        refuse(rc.MQRC_OPTIONS_ERROR, f"{k.JMS_IBM_RETAIN} with a delivery delay")
    with session.lock:
        session.check_open()
        if session.transacted:
            session.listening.check_thread("send")
            session.begin_work()
        time_to_live_ms = destination.expiry_ms
        if time_to_live_ms < 0:
            time_to_live_ms = settings.time_to_live_ms
        sending = _Sending(session, destination, message, settings, special, time_to_live_ms)
        if isinstance(destination, Topic):
            sent = sending.publish(destination)
        elif opened is not None:
            sent = sending.put(opened)
        else:
            sent = sending.put_by_name(destination)
        session.has_work = session.has_work or session.transacted
    _fill_in(message, destination, settings, sent)


class _Sending(NamedTuple):
    """The send of one message to one destination, with its settings and time to live."""

    session: OwningSession
    destination: Queue | Topic
    message: Message
    settings: SendSettings
    special: DescriptorFields
    #: 0 is for ever.
    time_to_live_ms: int

    def publish(self, topic: Topic) -> Sent:
        """Publish the message to a topic; return the result and the settings of the send."""
        options = self._options(is_topic=True)
        return self._put1("", options, kind=c.MQOT_TOPIC, topic=topic.topic_name)

    def put_by_name(self, queue: Queue) -> Sent:
        """Put the message to a queue that is not open.

        Returns the result and the terms of the send. Outside a unit of work MQPUT1 is enough,
        unless an attribute of the queue is needed first. Otherwise the queue is opened for this
        message, or for the unit of work.
        """
        session = self.session
        if not (session.transacted or self.special.is_retained or self._has_delay_and_ttl):
            try:
                return self._put1(
                    queue.queue_name, c.MQPMO_NO_SYNCPOINT, manager=queue.queue_manager
                )
            except MQError as error:
                if error.reason != rc.MQRC_PERSISTENT_NOT_ALLOWED:
                    raise
        opened = session.output(queue)
        try:
            return self.put(opened)
        finally:
            session.release_output(queue, opened)

    def put(self, opened: Opened) -> Sent:
        """Put the message to an open queue, or to the topic of which the queue is an alias.

        Returns the result and the terms of the send.
        """
        mq, is_topic = self.session.mq, opened.kind == c.MQOT_TOPIC
        begin_ms = now_ms = mq.now_ms()
        if (
            self._has_delay_and_ttl
            and not is_topic
            and mq.call(ask.AskLivesFromRelease(opened.handle))
        ):
            begin_ms += self.settings.delay_ms
        is_temporary = opened.definition_type == c.MQQDT_TEMPORARY_DYNAMIC
        encoded, terms = self._encoded(now_ms, begin_ms, is_temporary=is_temporary)
        result = mq.put(
            opened.handle,
            encoded.body,
            encoded.descriptor,
            self._options(is_topic=is_topic),
            correl_id=encoded.correl_id,
            time_to_live_ms=self.time_to_live_ms or None,
            delay_ms=self.settings.delay_ms,
        )
        # None is for asynchronous puts only.
        assert result is not None
        return result, terms

    @property
    def _has_delay_and_ttl(self) -> bool:
        """True if the message has both a delay and a time to live.

        TTLFROM of the queue then decides when expiry begins to count.
        """
        return bool(self.settings.delay_ms and self.time_to_live_ms)

    def _put1(
        self, name: str, options: int, *, kind: int = c.MQOT_Q, manager: str = "", topic: str = ""
    ) -> Sent:
        """Put the message with MQPUT1 to a queue or topic, with MQPMO ``options``.

        Returns the result and the terms of the send.
        """
        mq = self.session.mq
        now_ms = mq.now_ms()
        encoded, terms = self._encoded(now_ms, now_ms)
        sent = mq.call(
            ask.Put1.of(
                name,
                encoded.body,
                encoded.descriptor,
                options,
                kind=kind,
                manager=manager,
                topic=topic,
                correl_id=encoded.correl_id,
                time_to_live_ms=self.time_to_live_ms or None,
                delay_ms=self.settings.delay_ms,
            )
        )
        return sent, terms

    def _encoded(
        self, now_ms: int, begin_ms: int, *, is_temporary: bool = False
    ) -> tuple[EncodedMessage, SendTerms]:
        """Return descriptor, CorrelId and body for the put, and the settings of this send.

        These come from the destination, else from the producer. ``now_ms`` is the timestamp, and
        expiry counts from ``begin_ms``, both in ms since 1970. With ``is_temporary``, for a
        temporary queue, the message is non-persistent. Raises the errors of ``mapping.outgoing``.
        """
        destination, settings = self.destination, self.settings
        persistence_choice = destination.persistence
        mode = settings.delivery_mode if persistence_choice < 0 else persistence_choice
        persistence = _PERSISTENCES[
            persistence_choice if persistence_choice == k.AS_QUEUE_DEFINITION else mode
        ]
        if is_temporary:
            # The default of JMS is persistent, which a temporary queue does not hold.
            mode, persistence = k.NON_PERSISTENT, c.MQPER_NOT_PERSISTENT
        priority = settings.priority if destination.priority < 0 else destination.priority
        as_defined = destination.priority == k.AS_QUEUE_DEFINITION
        terms = SendTerms(
            mode,
            priority,
            persistence,
            k.AS_QUEUE_DEFINITION if as_defined else priority,
            0 if settings.disables_timestamp else now_ms,
            begin_ms + self.time_to_live_ms if self.time_to_live_ms else 0,
        )
        return outgoing(self.message, destination, terms, self.special), terms

    def _options(self, *, is_topic: bool) -> int:
        """Return the MQPMO options: syncpoint if the session is transacted, else no syncpoint.

        MQPMO_RETAIN is added for a topic if the message has JMS_IBM_Retain.
        """
        options = c.MQPMO_SYNCPOINT if self.session.transacted else c.MQPMO_NO_SYNCPOINT
        return options | (c.MQPMO_RETAIN if is_topic and self.special.is_retained else 0)


def _fill_in(
    message: Message, destination: Destination, settings: SendSettings, sent: Sent
) -> None:
    """Set the JMS headers of a sent message from the result of its put."""
    result, terms = sent
    window = result.window
    message.jms_message_id = None if settings.disables_id else id_text(result.msg_id)
    message.jms_timestamp = terms.timestamp_ms
    message.jms_destination = destination
    message.jms_delivery_mode = k.PERSISTENT if result.descriptor.persistence else k.NON_PERSISTENT
    message.jms_priority = result.descriptor.priority
    message.jms_expiration = 0 if window.expire_at_ms is None else window.expire_at_ms
    message.jms_delivery_time = window.deliver_at_ms


def _if_open(
    call: Callable[Concatenate[SendSettings, P], None],
) -> Callable[Concatenate[MessageProducer, P], None]:
    """Return a MessageProducer method that calls ``call`` on the settings of the producer.

    It raises IllegalStateException for a closed producer. Other errors are raised as JMSException.
    """

    @classic
    @functools.wraps(call)
    def setter(self: MessageProducer, /, *args: P.args, **kwargs: P.kwargs) -> None:
        self._check_open()
        call(self._settings, *args, **kwargs)

    return setter


class MessageProducer(ReadOnlySettings):
    """Sends messages to its destination, or without one to the destination of each send.

    Errors are JMSException, IllegalStateException for a closed producer. A setter that raises
    changes nothing.
    """

    @classic
    def __init__(self, session: OwningSession, destination: Destination | None) -> None:
        """Open the destination; None for one that each send names. Sessions create producers.

        Raises InvalidDestinationException for an unknown queue or a topic with wildcards.
        """
        self._session = session
        self._destination: Queue | Topic | None = None
        self._opened: Opened | None = None
        self._is_open = True
        handle: int | None = MQHO_NONE
        if destination is not None:
            handle = None
            self._destination = target = destination_to_use(destination)
            if isinstance(target, Topic):
                check_topic_string(target.topic_name, wildcards=False)
            else:
                self._opened = session.mq.call(
                    ask.Open(target.queue_name, MQOO_OUTPUT, manager=target.queue_manager)
                )
                # A queue may be an alias of a topic.
                if self._opened.kind == MQOT_Q:
                    handle = self._opened.handle
        self._settings = SendSettings(session.mq, handle)

    @property
    def destination(self) -> Destination | None:
        """The queue or topic to which the producer sends; None if each send names it."""
        return self._destination

    set_delivery_mode = _if_open(SendSettings.set_delivery_mode)
    set_priority = _if_open(SendSettings.set_priority)
    set_time_to_live = _if_open(SendSettings.set_time_to_live)
    set_delivery_delay = _if_open(SendSettings.set_delivery_delay)
    set_disable_message_id = _if_open(SendSettings.set_disable_message_id)
    set_disable_message_timestamp = _if_open(SendSettings.set_disable_message_timestamp)

    @classic
    def send(
        self, *what: object, completion_listener: CompletionListener | None = None, **terms: int
    ) -> None:
        """Send ``[destination,] message [, delivery_mode, priority, time_to_live]``.

        The destination is required exactly if the producer has none. The last three may be
        keywords; those left out are the producer's. The time to live (ms) must be 0 or at least the
        delivery delay, except on a queue with TTLFROM(RELEASE). Raises JMSException with the reason
        code of the failed put, IllegalStateException for a closed producer. A completion listener
        gets the outcome of the put instead, on another thread.
        """
        self._check_open()
        destination, message, settings = self._arguments(what, terms)
        put = partial(send, self._session, destination, message, settings, self._opened)
        if completion_listener is None:
            put()
        else:
            self._session.completions.send(put, message, completion_listener, is_simplified=False)

    def close(self) -> None:
        """Close the producer; a second call does nothing.

        Waits for completion listeners. Raises IllegalStateException inside one.
        """
        completions = self._session.completions
        completions.check_not_called_back("close")
        completions.wait_until_called()
        if self._is_open:
            self._is_open = False
            if self._opened is not None:
                self._session.close_handle(self._opened.handle)

    def _arguments(
        self, what: tuple[object, ...], terms: dict[str, int]
    ) -> tuple[Queue | Topic, object, SendSettings]:
        """Return destination, message and settings of a send, from its arguments.

        ``what`` are the positional arguments of ``send``, ``terms`` its keywords. Raises
        InvalidDestinationException without a destination, IllegalStateException for a second one,
        TypeError for other wrong arguments, and JMSException for a wrong setting.
        """
        destination = self._destination
        if destination is None:
            if not what or not isinstance(what[0], Destination):
                raise InvalidDestinationException(
                    "the producer has no destination: name one", rc.MQRC_UNKNOWN_OBJECT_NAME
                )
            destination, what = destination_to_use(what[0]), what[1:]
        elif what and isinstance(what[0], Destination):
            raise IllegalStateException(f"the producer sends to {destination} only")
        message, *rest = what or (None,)
        names = ("delivery_mode", "priority", "time_to_live")
        given = {**dict(zip(names, rest, strict=False)), **terms}
        is_twice = len(given) < len(rest) + len(terms)
        if len(rest) > len(names) or given.keys() - set(names) or is_twice:
            raise TypeError(f"send() takes a message and {', '.join(names)}")
        settings = self._settings
        if given:
            settings = settings.with_terms(given)
        return destination, message, settings

    def _check_open(self) -> None:
        """Raise IllegalStateException if the producer or its session is closed."""
        self._session.check_open()
        if not self._is_open:
            refuse(rc.MQRC_HOBJ_ERROR, "the producer is closed")


def _chained(
    call: Callable[Concatenate[C, P], None], part_of: Callable[[JMSProducer], C]
) -> Callable[Concatenate[JMSProducer, P], JMSProducer]:
    """Return a JMSProducer method that calls ``call`` on a part of it and returns the producer.

    ``part_of`` returns that part. Errors are raised as JMSRuntimeException.
    """

    @simplified
    @functools.wraps(call)
    def setter(self: JMSProducer, /, *args: P.args, **kwargs: P.kwargs) -> JMSProducer:
        call(part_of(self), *args, **kwargs)
        return self

    return setter


def _settings(producer: JMSProducer) -> SendSettings:
    """Return the send settings of a JMSProducer."""
    return producer._settings


def _headers(producer: JMSProducer) -> Message:
    """Return the message that holds the headers which a JMSProducer sets in each message."""
    return producer._headers


class JMSProducer(ReadOnlySettings, PropertyAccess):
    """Sends messages or bodies to any destination; properties and headers set here apply to each.

    Errors are JMSRuntimeException. A setter returns the producer; one that raises changes nothing.
    """

    def __init__(self, session: OwningSession) -> None:
        """Begin with the default settings of JMS; contexts create producers."""
        self._session = session
        self._settings = SendSettings(session.mq)
        self._async_listener: CompletionListener | None = None
        self._properties: dict[str, Typed] = {}
        #: Holds the headers that go with every message.
        self._headers = Message()

    set_delivery_mode = _chained(SendSettings.set_delivery_mode, _settings)
    set_priority = _chained(SendSettings.set_priority, _settings)
    set_time_to_live = _chained(SendSettings.set_time_to_live, _settings)
    set_delivery_delay = _chained(SendSettings.set_delivery_delay, _settings)
    set_disable_message_id = _chained(SendSettings.set_disable_message_id, _settings)
    set_disable_message_timestamp = _chained(SendSettings.set_disable_message_timestamp, _settings)
    set_jms_correlation_id = _chained(Message.set_jms_correlation_id, _headers)
    set_jms_correlation_id_as_bytes = _chained(Message.set_jms_correlation_id_as_bytes, _headers)
    set_jms_reply_to = _chained(Message.set_jms_reply_to, _headers)
    set_jms_type = _chained(Message.set_jms_type, _headers)

    def get_async(self) -> CompletionListener | None:
        """Return the completion listener, None without one: a failed send then raises."""
        return self._async_listener

    @simplified
    def set_async(self, completion_listener: CompletionListener | None) -> Self:
        """Set a completion listener, called by another thread; with None a failed send raises.

        Returns the producer. Raises JMSRuntimeException for an object that is no
        CompletionListener.
        """
        self._async_listener = check_completion_listener(completion_listener)
        return self

    @property
    def jms_correlation_id(self) -> str | None:
        """The correlation id for each message, or None."""
        return self._headers.jms_correlation_id

    @property
    def jms_correlation_id_as_bytes(self) -> bytes | None:
        """The correlation id for each message as a CorrelId of 24 bytes, or None."""
        return self._headers.jms_correlation_id_as_bytes

    @property
    def jms_reply_to(self) -> Destination | None:
        """The destination for replies to each message, or None."""
        return self._headers.jms_reply_to

    @property
    def jms_type(self) -> str | None:
        """The message type (JMSType) for each message, or None."""
        return self._headers.jms_type

    def property_names(self) -> list[str]:
        """Return the names of the properties that the producer sets in each message."""
        return list(self._properties)

    def clear_properties(self) -> Self:
        """Remove the properties for each message, and return the producer."""
        self._properties.clear()
        return self

    @simplified
    def set_property(self, name: str, value: object) -> Self:
        """Set a property for each message, a bool, int, float, str or None; return the producer.

        Raises MessageFormatRuntimeException for another value, JMSRuntimeException with
        MQRC_PROPERTY_NAME_ERROR for a wrong name.
        """
        return super().set_property(name, value)

    set_object_property = set_property

    @simplified
    def send(self, destination: Destination, body: object) -> Self:
        """Send a message, or a body: str, bytes, a mapping, or None for no body.

        Returns the producer. Raises JMSRuntimeException with the reason code of the failed put;
        nothing is sent then. With :meth:`set_async` the completion listener gets the error instead.
        """
        target = destination_to_use(destination)
        message = body if isinstance(body, Message) else _message_of(body)
        if self._properties:
            message.add_properties(self._properties)
        self._set_headers(message)
        put = partial(send, self._session, target, message, self._settings, None)
        if self._async_listener is None:
            put()
        else:
            self._session.check_open()
            completions = self._session.completions
            completions.send(put, message, self._async_listener, is_simplified=True)
        return self

    def _set_headers(self, message: Message) -> None:
        """Set the headers of this producer in a message; those not set here stay unchanged."""
        headers = self._headers
        if headers.jms_correlation_id is not None:
            message.jms_correlation_id = headers.jms_correlation_id
        if headers.jms_reply_to is not None:
            message.jms_reply_to = headers.jms_reply_to
        if headers.jms_type is not None:
            message.jms_type = headers.jms_type

    @simplified
    def _set_typed(self, name: str, dt: str, value: object) -> Self:
        """Set a property as JMS type ``dt``, such as INT; errors are JMSRuntimeException."""
        return super()._set_typed(name, dt, value)

    @simplified
    def _get_typed(self, name: str, dt: str) -> object:
        """Return a property as JMS type ``dt``, such as INT; a missing one is read as null.

        Errors are those of ``values.converted``, raised as JMSRuntimeException.
        """
        return super()._get_typed(name, dt)

    def _properties_to_read(self) -> dict[str, Typed]:
        """Return the properties for each message, by name."""
        return self._properties

    def _properties_to_write(self) -> dict[str, Typed]:
        """Return the properties for each message, by name; they are always writeable."""
        return self._properties


def _message_of(body: object) -> Message:
    """Return a new message with a body: str, bytes, a mapping, or None for no body.

    Raises MessageFormatException for another type.
    """
    if isinstance(body, str):
        return TextMessage(body)
    if isinstance(body, (bytes, bytearray, memoryview)):
        message = BytesMessage()
        message.write_bytes(bytes(body))
        return message
    if isinstance(body, Mapping):
        values = MapMessage()
        for name, value in body.items():
            values.set_object(name, value)
        return values
    if body is None:
        return Message()
    raise MessageFormatException(
        f"a {type(body).__name__} is no body: str, bytes, a mapping or a message; "
        "objects are not sent, as reading them would run what the sender chose"
    )
