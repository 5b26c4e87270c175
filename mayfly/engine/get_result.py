"""The result of a get or a browse: a message, and the warning with it."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.engine.message import Message
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.properties.folders import Property


class Handed(NamedTuple):
    """The content of a getter's message handle: the properties, and the message as it was put."""

    properties: list[Property]
    original: Message


class GetResult:
    """A message and a warning: 0, MQRC_TRUNCATED_MSG_ACCEPTED, or _FAILED (it stays there).

    It stays there also with a ``failure``: its properties cannot be returned as asked for. No named
    tuple, which takes three times as long to make in compiled code.
    """

    __slots__ = ("data_length", "failure", "handed", "message", "warning")

    def __init__(
        self,
        message: Message,
        warning: int,
        data_length: int,
        handed: Handed | None = None,
        failure: MQError | None = None,
    ) -> None:
        """Return a message with the length of all its data, though it may be cut."""
        self.message, self.warning, self.data_length = message, warning, data_length
        self.handed, self.failure = handed, failure

    def with_warning(self, warning: int) -> GetResult:
        """Return the same with another warning."""
        return GetResult(self.message, warning, self.data_length, self.handed, self.failure)

    def __repr__(self) -> str:
        """Show what a get has brought."""
        return f"<GetResult {self.message!r}, warning {self.warning}>"

    @property
    def stays(self) -> bool:
        """Whether the message is not taken."""
        return self.failure is not None or self.warning == rc.MQRC_TRUNCATED_MSG_FAILED
