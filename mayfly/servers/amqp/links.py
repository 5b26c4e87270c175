"""Links: a client that sends, a client that receives, and the coordinator of transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proton import Link, Session, Terminus

from mayfly.servers.amqp.conversations import Conversations
from mayfly.servers.amqp.coordinator import Coordinator
from mayfly.servers.amqp.receiving import ReceivingClient
from mayfly.servers.amqp.sending import SendingClient
from mayfly.servers.amqp.terminus import default_outcome_of
from mayfly.servers.amqp.transfers import Raw

if TYPE_CHECKING:
    from mayfly.servers.amqp.host import LinkHost


class AnyLink(Protocol):
    """One link of a client."""

    key: Raw

    @property
    def link(self) -> Link:
        """The link with all that proton's class knows of it."""

    def flow(self) -> None:
        """Take note of credit."""

    def delivery(self, delivery: Raw) -> None:
        """Take a message that comes, or the outcome of one that went."""

    def quiesce(self) -> bool:
        """Begin nothing more; return True once nothing that was begun is left to end."""

    def end(self, *, is_closed: bool) -> None:
        """End in good order: closed, or detached by the client to come back."""

    def lost(self) -> None:
        """End with the connection."""

    def session_is(self, session: Session) -> bool:
        """Return True if the link belongs to a session."""


def attach(host: LinkHost, link: Link, conversations: Conversations, source: bytes) -> AnyLink:
    """Answer an attach: open the object that the link names.

    ``source`` is the source of the client as it came. Raises AmqpError or MQError when that is
    refused.
    """
    if link.is_sender:
        return ReceivingClient.attached(host, link, conversations)
    if link.remote_target.type == Terminus.COORDINATOR:
        return Coordinator(host, link, conversations)
    return SendingClient(host, link, conversations, default_outcome_of(source))
