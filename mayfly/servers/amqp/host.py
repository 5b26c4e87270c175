"""The connection of a link, as its links use it."""

from __future__ import annotations

from typing import Any, Protocol

from mayfly.servers.amqp.calls import Calls
from mayfly.servers.amqp.errors import AmqpError
from mayfly.servers.amqp.puts import Puts
from mayfly.servers.amqp.service import Service


class LinkHost(Protocol):
    """The connection of a client, for its links."""

    service: Service
    message_limit: int
    message_count: int
    puts: Puts | None
    calls: Calls

    def pump(self) -> None:
        """Send what is to be sent."""

    def close_link(self, link: Any, error: AmqpError) -> None:
        """End a link from here, with a condition."""
