"""A client of the server: its terms, its conversations, and their status for operators."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from mayfly.admin.security.admission import Admitted, Applicant
from mayfly.channel import ClientConnection
from mayfly.servers.amqp.conversations import Conversations
from mayfly.servers.amqp.service import Service
from mayfly.servers.clients import Place

#: APPLTAG, and MQMD.PutApplName.
_APPLICATION_LENGTH: Final = 28


class Traffic(NamedTuple):
    """The traffic of a socket: messages both ways, bytes each way."""

    messages: int
    sent_bytes: int
    received_bytes: int


class Client:
    """A client that admission has let in, on its terms."""

    def __init__(
        self, service: Service, number: int, applicant: Applicant, admitted: Admitted
    ) -> None:
        """Take its terms; it has no conversation yet."""
        self._service, self._number = service, number
        self._applicant, self._admitted = applicant, admitted
        self._place: Place | None = None
        self._conversations: Conversations | None = None
        self._connected_ms = 0

    @property
    def queue_manager(self) -> str:
        """The queue manager that it has been let in to."""
        return self._applicant.queue_manager

    @property
    def address(self) -> str:
        """Its address, empty for a UNIX socket."""
        return self._applicant.address

    def begin(self, container: str) -> Conversations:
        """Open the first conversation, whose application is the id of the client's container.

        Raises MQRC_CHANNEL_NOT_AVAILABLE for one too many, and why a conversation is refused.
        """
        service, admitted = self._service, self._admitted
        place = Place(self.queue_manager, self._applicant.channel, self.address)
        service.instances.enter(place, admitted)
        self._place = place
        named = replace(self._applicant, application=container[:_APPLICATION_LENGTH] or "AMQP")
        found = Conversations(
            lambda: service.connect(named.queue_manager, admitted, named),
            service.executor,
            service.nodes,
        )
        self._applicant, self._connected_ms = named, found.main.now_ms()
        self._conversations = found
        return found

    def leave(self) -> None:
        """End its conversations: messages that are not settled go back counted."""
        if self._conversations is not None:
            self._conversations.end()
        if self._place is not None:
            self._service.instances.leave(self._place)

    def status(self, traffic: Traffic) -> list[ClientConnection]:
        """Return the status of its conversations; all messages are counted at the first one."""
        if self._conversations is None:
            return []
        applicant = self._applicant
        return [
            ClientConnection(
                number,
                self._number,
                applicant.queue_manager,
                applicant.channel,
                self._admitted.user,
                applicant.address,
                applicant.application,
                applicant.has_tls,
                self._connected_ms,
                0 if place else traffic.messages,
                self._service.limits.idle_timeout_ms,
                traffic.sent_bytes,
                traffic.received_bytes,
            )
            for place, number in enumerate(self._conversations.numbers())
        ]
