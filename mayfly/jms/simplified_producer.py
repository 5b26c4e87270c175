"""The producer of the simplified API: settings that chain, and a body instead of a message."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Self

from mayfly.jms.async_sending import CompletionListener, check_completion_listener
from mayfly.jms.bodies import MapMessage
from mayfly.jms.bytes_message import BytesMessage
from mayfly.jms.destinations import Destination
from mayfly.jms.errors import (
    JMSException,
    MessageFormatException,
    jms_error,
    pass_on,
    runtime_error,
    simplified,
)
from mayfly.jms.lifetimes import begins_every_life_at_the_put
from mayfly.jms.messages import Message, TextMessage
from mayfly.jms.property_access import PropertyAccess
from mayfly.jms.roles import OwningSession
from mayfly.jms.sending import destination_to_use, send
from mayfly.jms.settings import Settings, ShowsSettings
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import Typed
from mayfly.verbs.requests import Opened

_NOT_OPENED: Opened | None = None


class JMSProducer(ShowsSettings, PropertyAccess):
    """Sends messages, or bodies, to any destination; properties and headers set here go with all.

    Errors are JMSRuntimeException. A setter returns the producer; one that raises changes nothing.
    """

    def __init__(self, session: OwningSession) -> None:
        """Begin with the settings of JMS; contexts make producers."""
        self._session = session
        self._settings = Settings()
        self._async_listener: CompletionListener | None = None
        self._properties: dict[str, Typed] = {}
        #: Holds the headers that go with every message.
        self._headers = Message()

    @simplified
    def set_delivery_mode(self, delivery_mode: int) -> Self:
        """Set PERSISTENT or NON_PERSISTENT; raises MQRC_PERSISTENCE_ERROR."""
        self._settings.set_delivery_mode(delivery_mode)
        return self

    @simplified
    def set_priority(self, priority: int) -> Self:
        """Set 0 .. 9; raises MQRC_PRIORITY_ERROR."""
        self._settings.set_priority(priority)
        return self

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

    def set_disable_message_id(self, value: bool) -> Self:
        """Ask that no message id be shown."""
        self._settings.disables_id = value
        return self

    def set_disable_message_timestamp(self, value: bool) -> Self:
        """Ask that no timestamp be carried."""
        self._settings.disables_timestamp = value
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
        """The type of every message."""
        return self._headers.jms_type

    @simplified
    def set_jms_correlation_id(self, correlation_id: str | None) -> Self:
        """Set the correlation id of every message."""
        self._headers.set_jms_correlation_id(correlation_id)
        return self

    @simplified
    def set_jms_correlation_id_as_bytes(self, correlation_id: bytes | None) -> Self:
        """Set the CorrelId of every message."""
        self._headers.set_jms_correlation_id_as_bytes(correlation_id)
        return self

    @simplified
    def set_jms_reply_to(self, destination: Destination | None) -> Self:
        """Set where answers to every message are to go."""
        self._headers.set_jms_reply_to(destination)
        return self

    @simplified
    def set_jms_type(self, name: str | None) -> Self:
        """Set the type of every message."""
        self._headers.set_jms_type(name)
        return self

    def property_names(self) -> list[str]:
        """Return the names of the properties that go with every message."""
        return list(self._properties)

    def clear_properties(self) -> Self:
        """Forget the properties."""
        self._properties.clear()
        return self

    @simplified
    def set_property(self, name: str, value: object) -> Self:
        """Set a property of every message: a bool, int, float, str or None."""
        return super().set_property(name, value)

    set_object_property = set_property

    def send(self, destination: Destination, body: object) -> Self:
        """Send a message, or a body: str, bytes, a mapping, None for a message without a body.

        Raises JMSRuntimeException with the reason of the failed put; nothing is sent then. With
        :meth:`set_async` the listener is told instead.
        """
        try:
            target = destination_to_use(destination)
            message = body if isinstance(body, Message) else _message_of(body)
            if self._properties:
                message.add_properties(self._properties)
            self._set_headers(message)
            put = partial(send, self._session, target, message, self._settings, _NOT_OPENED)
            if self._async_listener is None:
                put()
            else:
                self._session.check_open()
                completions = self._session.completions
                completions.send(put, message, self._async_listener, runtime_error)
        except JMSException as error:
            pass_on(error)
        except MQError as error:
            translated = jms_error(error)
            translated.__cause__ = error
            pass_on(translated)
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
