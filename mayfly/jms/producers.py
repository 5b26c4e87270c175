"""The producers of both JMS APIs: MessageProducer, and JMSProducer with chained setters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Concatenate, ParamSpec, Self, TypeVar

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
from mayfly.jms.messages import BytesMessage, MapMessage, Message, TextMessage
from mayfly.jms.roles import OwningSession
from mayfly.jms.sending import ReadOnlySettings, SendSettings, send
from mayfly.jms.values import PropertyAccess
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQHO_NONE, MQOO_OUTPUT, MQOT_Q
from mayfly.mqi.properties import Typed
from mayfly.verbs import requests as ask
from mayfly.verbs.requests import Opened
from mayfly.verbs.topic_strings import check_topic_string

P = ParamSpec("P")
C = TypeVar("C")


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
