"""What a link asks of the connection that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from proton import Link

from mayfly.servers.amqp.errors import AmqpError
from mayfly.servers.amqp.service import Service


class LinkHost(Protocol):
    """The connection of a client, for its links."""

    service: Service
    message_limit: int

    def soon(self, call: Callable[[], object]) -> None:
        """Run a call in the loop, from any thread."""

    def pump(self) -> None:
        """Send what is to be sent."""

    def close_link(self, link: Any, error: AmqpError) -> None:
        """End a link from here, with a condition."""


def key_of(link: Link) -> int:
    """Return the number that stands for a link of proton as long as it lives."""
    return hash(link)
