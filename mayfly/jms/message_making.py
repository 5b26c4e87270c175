"""How a session makes messages of each kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NoReturn

from mayfly.jms.bodies import MapMessage, StreamMessage
from mayfly.jms.bytes_message import BytesMessage
from mayfly.jms.errors import refuse
from mayfly.jms.messages import Message, TextMessage
from mayfly.mqi import reasons as rc


class MakesMessages(ABC):
    """A session as the maker of messages, which are the same whatever session has made them."""

    @abstractmethod
    def check_open(self) -> None:
        """Raise IllegalStateException when it is closed."""

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
