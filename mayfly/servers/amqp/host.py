"""What a link asks of the connection that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mayfly.servers.amqp.errors import AmqpError
from mayfly.servers.amqp.puts import Puts
from mayfly.servers.amqp.service import Service


class LinkHost(Protocol):
    """The connection of a client, for its links."""

    service: Service
    message_limit: int
    puts: Puts | None

    def soon(self, call: Callable[[], object]) -> None:
        """Run a call in the loop, from any thread."""

    def at_end(self, call: Callable[[], object]) -> None:
        """Run a call at the end of this pass of the loop."""

    def when_sent(self, call: Callable[[], object]) -> None:
        """Run a call in the loop once bytes have been sent to the client."""

    def pump(self) -> None:
        """Send what is to be sent."""

    def close_link(self, link: Any, error: AmqpError) -> None:
        """End a link from here, with a condition."""
