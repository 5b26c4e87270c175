"""The producers of both APIs: MessageProducer, and JMSProducer with its settings that chain."""

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
from mayfly.jms.sending import SendSettings, ShowsSettings, begins_every_life_at_the_put, send
from mayfly.jms.values import PropertyAccess
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQOO_OUTPUT, MQOT_Q
from mayfly.mqi.properties import Typed
from mayfly.verbs import requests as ask
from mayfly.verbs.requests import Opened
from mayfly.verbs.topic_strings import check_topic_string

P = ParamSpec("P")
C = TypeVar("C")


class MessageProducer(ShowsSettings):
    """Sends messages to its destination, or, made without one, to that given with each send.

    Errors are JMSException. A setter that raises changes nothing.
    """

    @classic
    def __init__(self, session: OwningSession, destination: Destination | None) -> None:
        """Open the destination; sessions make producers.

        Raises InvalidDestinationException for a queue that is not known, or wildcards in a topic.
        """
        self._session = session
        self._settings = SendSettings()
        self._destination: Queue | Topic | None = None
        self._opened: Opened | None = None
        self._is_open = True
        if destination is not None:
            self._destination = target = destination_to_use(destination)
            if isinstance(target, Topic):
                check_topic_string(target.topic_name, wildcards=False)
            else:
                self._opened = session.mq.call(
                    ask.Open(target.queue_name, MQOO_OUTPUT, manager=target.queue_manager)
                )

    @property
    def destination(self) -> Destination | None:
        """The queue or topic it sends to, None when each send names it."""
        return self._destination

    def set_delivery_mode(self, delivery_mode: int) -> None:
        """Set PERSISTENT or NON_PERSISTENT; raises MQRC_PERSISTENCE_ERROR."""
        self._check_open()
        self._settings.set_delivery_mode(delivery_mode)

    def set_priority(self, priority: int) -> None:
        """Set 0 .. 9; raises MQRC_PRIORITY_ERROR."""
        self._check_open()
        self._settings.set_priority(priority)

    @classic
    def set_time_to_live(self, time_to_live_ms: int) -> None:
        """Set the life in ms, 0 for ever; raises MQRC_EXPIRY_ERROR, also below the delay (D7)."""
        self._check_open()
        self._settings.set_time_to_live(time_to_live_ms, self._is_paired)

    @classic
    def set_delivery_delay(self, delay_ms: int) -> None:
        """Set how long messages are held back, in ms.

        Raises MQRC_FUNCTION_NOT_SUPPORTED on a queue manager that knows no delay (D5),
        MQRC_EXPIRY_ERROR when it is longer than the life (D7), MQRC_OPTIONS_ERROR when absurd.
        """
        self._check_open()
        self._settings.set_delay(self._session.mq, delay_ms, self._is_paired)

    def set_disable_message_id(self, value: bool) -> None:
        """Ask that no message id be shown."""
        self._check_open()
        self._settings.set_disable_message_id(value)

    def set_disable_message_timestamp(self, value: bool) -> None:
        """Ask that no timestamp be carried."""
        self._check_open()
        self._settings.set_disable_message_timestamp(value)

    @classic
    def send(
        self, *what: object, completion_listener: CompletionListener | None = None, **terms: int
    ) -> None:
        """Send ``[destination,] message [, delivery_mode, priority, time_to_live]``.

        The destination stands there exactly when the producer was made without one. The last three
        may be given by name and are those of the producer when left out; time to live and delay are
        checked together again (D7). Raises JMSException with the reason of the failed put; a
        completion listener is told instead, on another thread.
        """
        self._check_open()
        destination, message, settings = self._arguments(what, terms)
        put = partial(send, self._session, destination, message, settings, self._opened)
        if completion_listener is None:
            put()
        else:
            self._session.completions.send(put, message, completion_listener, is_simplified=False)

    def close(self) -> None:
        """Close; a second close does nothing.

        Completion listeners are waited for; raises IllegalStateException inside of one.
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
            settings = settings.with_terms(given, self._is_paired)
        return destination, message, settings

    def _is_paired(self) -> bool:
        """Return False if the life may begin at the release, where it does not meet the delay."""
        mq, opened = self._session.mq, self._opened
        if opened is not None and opened.kind == MQOT_Q:
            return not mq.call(ask.AskLivesFromRelease(opened.handle))
        is_unnamed = self._destination is None
        return not is_unnamed or begins_every_life_at_the_put(mq)

    def _check_open(self) -> None:
        self._session.check_open()
        if not self._is_open:
            refuse(rc.MQRC_HOBJ_ERROR, "the producer is closed")


def _chained(
    call: Callable[Concatenate[C, P], None], part_of: Callable[[JMSProducer], C]
) -> Callable[Concatenate[JMSProducer, P], JMSProducer]:
    """Return a setter that makes a call on a part of a JMSProducer and returns the producer."""

    @simplified
    @functools.wraps(call)
    def setter(self: JMSProducer, /, *args: P.args, **kwargs: P.kwargs) -> JMSProducer:
        call(part_of(self), *args, **kwargs)
        return self

    return setter


def _settings(producer: JMSProducer) -> SendSettings:
    return producer._settings


def _headers(producer: JMSProducer) -> Message:
    return producer._headers


class JMSProducer(ShowsSettings, PropertyAccess):
    """Sends messages, or bodies, to any destination; properties and headers set here go with all.

    Errors are JMSRuntimeException. A setter returns the producer; one that raises changes nothing.
    """

    def __init__(self, session: OwningSession) -> None:
        """Begin with the settings of JMS; contexts make producers."""
        self._session = session
        self._settings = SendSettings()
        self._async_listener: CompletionListener | None = None
        self._properties: dict[str, Typed] = {}
        #: Holds the headers that go with every message.
        self._headers = Message()

    set_delivery_mode = _chained(SendSettings.set_delivery_mode, _settings)
    set_priority = _chained(SendSettings.set_priority, _settings)
    set_disable_message_id = _chained(SendSettings.set_disable_message_id, _settings)
    set_disable_message_timestamp = _chained(SendSettings.set_disable_message_timestamp, _settings)
    set_jms_correlation_id = _chained(Message.set_jms_correlation_id, _headers)
    set_jms_correlation_id_as_bytes = _chained(Message.set_jms_correlation_id_as_bytes, _headers)
    set_jms_reply_to = _chained(Message.set_jms_reply_to, _headers)
    set_jms_type = _chained(Message.set_jms_type, _headers)

    @simplified
    def set_time_to_live(self, time_to_live_ms: int) -> Self:
        """Set the life in ms, 0 for ever; raises MQRC_EXPIRY_ERROR, also below the delay (D7)."""
        self._settings.set_time_to_live(time_to_live_ms, self._is_paired)
        return self

    @simplified
    def set_delivery_delay(self, delay_ms: int) -> Self:
        """Set how long messages are held back, in ms.

        Raises MQRC_FUNCTION_NOT_SUPPORTED on a queue manager that knows no delay (D5),
        MQRC_EXPIRY_ERROR when it is longer than the life (D7), MQRC_OPTIONS_ERROR when absurd.
        """
        self._settings.set_delay(self._session.mq, delay_ms, self._is_paired)
        return self

    def get_async(self) -> CompletionListener | None:
        """Return the listener that is told of each send; None when a failed send raises."""
        return self._async_listener

    @simplified
    def set_async(self, completion_listener: CompletionListener | None) -> Self:
        """Set a listener that another thread tells of each send; with None a failed send raises."""
        self._async_listener = check_completion_listener(completion_listener)
        return self

    @property
    def jms_correlation_id(self) -> str | None:
        """The correlation id of every message."""
        return self._headers.jms_correlation_id

    @property
    def jms_correlation_id_as_bytes(self) -> bytes | None:
        """The same as a CorrelId."""
        return self._headers.jms_correlation_id_as_bytes

    @property
    def jms_reply_to(self) -> Destination | None:
        """Where answers to every message are to go."""
        return self._headers.jms_reply_to

    @property
    def jms_type(self) -> str | None:
        return self._headers.jms_type

    def property_names(self) -> list[str]:
        """Return the names of the properties that go with every message."""
        return list(self._properties)

    def clear_properties(self) -> Self:
        self._properties.clear()
        return self

    @simplified
    def set_property(self, name: str, value: object) -> Self:
        """Set a property of every message: a bool, int, float, str or None."""
        return super().set_property(name, value)

    set_object_property = set_property

    @simplified
    def send(self, destination: Destination, body: object) -> Self:
        """Send a message, or a body: str, bytes, a mapping, None for a message without a body.

        Raises JMSRuntimeException with the reason of the failed put; nothing is sent then. With
        :meth:`set_async` the listener is told instead.
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

    def _is_paired(self) -> bool:
        """Return False if a life may begin at the release somewhere; each send is checked."""
        return begins_every_life_at_the_put(self._session.mq)

    def _set_headers(self, message: Message) -> None:
        headers = self._headers
        if headers.jms_correlation_id is not None:
            message.jms_correlation_id = headers.jms_correlation_id
        if headers.jms_reply_to is not None:
            message.jms_reply_to = headers.jms_reply_to
        if headers.jms_type is not None:
            message.jms_type = headers.jms_type

    @simplified
    def _set_typed(self, name: str, dt: str, value: object) -> Self:
        return super()._set_typed(name, dt, value)

    @simplified
    def _get_typed(self, name: str, dt: str) -> object:
        return super()._get_typed(name, dt)

    def _properties_to_read(self) -> dict[str, Typed]:
        return self._properties

    def _properties_to_write(self) -> dict[str, Typed]:
        return self._properties


def _message_of(body: object) -> Message:
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
