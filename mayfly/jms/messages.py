"""Messages without a body and with text; headers and properties of all messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mayfly.jms.constants import DEFAULT_PRIORITY, PERSISTENT
from mayfly.jms.destinations import Destination
from mayfly.jms.errors import MessageFormatException, MessageNotWriteableException
from mayfly.jms.property_access import PropertyAccess
from mayfly.mqi.properties import UTF_8, Typed
from mayfly.properties.selectors.names import correlation_bytes, id_text

_ID_BYTES = 24


class Message(PropertyAccess):
    """A message of headers and properties; of a received one, properties may only be read.

    Headers are attributes. Those that a sender may give have a setter; the others are filled in by
    sending or receiving. Times are epoch ms; ``jms_expiration`` 0 is never.
    """

    #: mcd.Msd of this kind of message.
    kind = "jms_none"

    def __init__(self) -> None:
        """Make an empty message; sessions and contexts do."""
        self.jms_message_id: str | None = None
        self.jms_timestamp = 0
        self.jms_correlation_id: str | None = None
        self.jms_reply_to: Destination | None = None
        self.jms_destination: Destination | None = None
        self.jms_delivery_mode = PERSISTENT
        self.jms_redelivered = False
        self.jms_type: str | None = None
        self.jms_expiration = 0
        self.jms_delivery_time = 0
        self.jms_priority = DEFAULT_PRIORITY
        self._properties: dict[str, Typed] = {}
        #: Reads the properties of a received message, until somebody asks for them.
        self._unread: Callable[[], dict[str, Typed]] | None = None
        self._are_properties_writeable = True
        self._is_body_writeable = True
        self._acknowledge: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.jms_message_id or 'not sent'}>"

    def set_jms_correlation_id(self, correlation_id: str | None) -> None:
        """Set the text that ties messages together; ``ID:`` and hexadecimal digits is a CorrelId.

        Raises MessageFormatException when it is not text.
        """
        self.jms_correlation_id = _text_or_none("JMSCorrelationID", correlation_id)

    @property
    def jms_correlation_id_as_bytes(self) -> bytes | None:
        """The correlation id as a CorrelId of 24 bytes, None when there is none."""
        text = self.jms_correlation_id
        return None if text is None else correlation_bytes(text)

    def set_jms_correlation_id_as_bytes(self, correlation_id: bytes | None) -> None:
        """Set the CorrelId itself; raises MessageFormatException for more than 24 bytes."""
        if correlation_id is None:
            self.jms_correlation_id = None
            return
        if len(correlation_id) > _ID_BYTES:
            raise MessageFormatException(f"{correlation_id!r} is not at most {_ID_BYTES} bytes")
        self.jms_correlation_id = id_text(correlation_id.ljust(_ID_BYTES, b"\0"))

    def set_jms_reply_to(self, destination: Destination | None) -> None:
        """Set where an answer is to go; raises MessageFormatException for no destination."""
        if destination is not None and not isinstance(destination, Destination):
            raise MessageFormatException(f"JMSReplyTo {destination!r} is no destination")
        self.jms_reply_to = destination

    def set_jms_type(self, name: str | None) -> None:
        """Set the message type; raises MessageFormatException when it is not text."""
        self.jms_type = _text_or_none("JMSType", name)

    @property
    def typed_properties(self) -> dict[str, Typed]:
        """The properties with their types, by name."""
        unread = self._unread
        if unread is not None:
            self._properties, self._unread = unread(), None
        return self._properties

    def add_properties(self, properties: dict[str, Typed]) -> None:
        """Set properties of another object; raises MessageNotWriteableException."""
        self._properties_to_write().update(properties)

    def property_names(self) -> list[str]:
        """Return the names of the properties; headers are none."""
        return list(self.typed_properties)

    def clear_properties(self) -> None:
        """Forget the properties; they may be set then."""
        self._properties, self._unread = {}, None
        self._are_properties_writeable = True

    def clear_body(self) -> None:
        """Empty the body; it may be written then. Headers and properties stay."""
        self._is_body_writeable = True

    def acknowledge(self) -> None:
        """Acknowledge all that its session has received, where that is CLIENT_ACKNOWLEDGE.

        Raises IllegalStateException when the session is closed; does nothing in other modes.
        """
        if self._acknowledge is not None:
            self._acknowledge()

    def get_body(self, kind: type) -> Any:
        """Return the body as str, bytes or dict, None for a message without one.

        Raises MessageFormatException when the body is of another kind.
        """
        if self.is_body_assignable_to(kind):
            return self._body()
        raise MessageFormatException(f"the body of a {type(self).__name__} is no {kind.__name__}")

    def is_body_assignable_to(self, kind: type) -> bool:
        """Return True if :meth:`get_body` would return the body as this type."""
        body = self._body()
        return body is None or isinstance(body, kind)

    def _body(self) -> Any:
        return None

    def _properties_to_read(self) -> dict[str, Typed]:
        return self.typed_properties

    def _properties_to_write(self) -> dict[str, Typed]:
        if not self._are_properties_writeable:
            raise MessageNotWriteableException("received properties may only be read")
        return self.typed_properties

    def _check_writeable(self) -> None:
        if not self._is_body_writeable:
            raise MessageNotWriteableException("a received body may only be read")

    def received(
        self, properties: Callable[[], dict[str, Typed]], acknowledge: Callable[[], None] | None
    ) -> None:
        """Make this a received message, whose properties and body may only be read.

        ``properties`` reads the properties. It is called when the application first asks for them,
        because parsing them costs more than the rest of a receive.
        """
        self._unread = properties
        self._acknowledge = acknowledge
        self._are_properties_writeable = self._is_body_writeable = False

    def wire_body(self, codec: str) -> bytes | None:
        """Return the body as it travels, text in this codec; None is a null body."""
        return b""


class TextMessage(Message):
    """A message whose body is text, or None."""

    kind = "jms_text"

    def __init__(self, text: str | None = None) -> None:
        """Make a message with this text."""
        super().__init__()
        self._text: str | None = None
        #: A received body and its character set, until somebody reads the text.
        self._raw: tuple[bytes, str | None, int] | None = None
        self.set_text(text)

    @property
    def text(self) -> str | None:
        """The text; raises MessageFormatException when it is not of its character set."""
        if self._raw is not None:
            raw, codec, ccsid = self._raw
            try:
                self._text = raw.decode("" if codec is None else codec)
            except (UnicodeDecodeError, LookupError):
                raise MessageFormatException(f"the text is not of CodedCharSetId {ccsid}") from None
            self._raw = None
        return self._text

    @text.setter
    def text(self, text: str | None) -> None:
        self.set_text(text)

    def set_text(self, text: str | None) -> None:
        """Set the text; raises MessageFormatException when it is none."""
        self._check_writeable()
        self._text = _text_or_none("text", text)
        self._raw = None

    def clear_body(self) -> None:
        """Set the text to None."""
        super().clear_body()
        self._text = self._raw = None

    def set_raw(self, raw: bytes, codec: str | None, coded_char_set_id: int = UTF_8) -> None:
        """Set a received body, which is decoded when it is read; codec None is not known."""
        self._raw = raw, codec, coded_char_set_id

    def wire_body(self, codec: str) -> bytes | None:
        """Return the text in a codec; raises MessageFormatException where it has no such letter."""
        text = self.text
        if text is None:
            return None
        try:
            return text.encode(codec)
        except UnicodeEncodeError as error:
            raise MessageFormatException(f"the text: {error}") from None

    def _body(self) -> str | None:
        return self.text


def _text_or_none(name: str, text: str | None) -> str | None:
    if text is not None and not isinstance(text, str):
        raise MessageFormatException(f"{name} {text!r} is not text")
    return text
