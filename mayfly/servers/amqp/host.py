"""The connection of a link, as its links use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mayfly.servers.amqp.calls import Calls
from mayfly.servers.amqp.errors import AmqpError
from mayfly.servers.amqp.puts import Puts
from mayfly.servers.amqp.service import Service
from mayfly.servers.budget import Room


class LinkHost(Protocol):
    """The connection of a client, for its links."""

    service: Service
    message_limit: int
    message_count: int
    puts: Puts | None
    calls: Calls

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left of the memory for messages: nobody is to be given more."""

    def when_room(self, call: Callable[[], None]) -> None:
        """Call something, in the loop, when something is left of it again."""

    def room(self, count: int, refuse: Callable[[], None]) -> Room | None:
        """Return room for a message of which a part has come; None where it is to be refused.

        Nothing is read from the client until it is there. After a time ``refuse`` is called.
        """

    def end_room(self, room: Room) -> None:
        """Give room back, or wait for it no longer."""

    def count_parts(self, change: int) -> None:
        """Count bytes of messages that have come in part, and have no room."""

    def pump(self) -> None:
        """Send what is to be sent."""

    def close_link(self, link: Any, error: AmqpError) -> None:
        """End a link from here, with a condition."""
