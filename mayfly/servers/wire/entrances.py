"""The beginning of conversations: the verbs that may come first, and the entrance of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.client.connection import LocalConnection
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi.errors import MQError
from mayfly.queue_manager import QueueManager
from mayfly.runtime.virtual_clock import this_process
from mayfly.servers.clients import connection_of, manager_of
from mayfly.servers.wire.channel_conversation import ChannelConversation
from mayfly.servers.wire.conversation import Carrier, Conversation
from mayfly.servers.wire.peer import Peer
from mayfly.servers.wire.status import ConnectionStatus
from mayfly.verbs.contracts.channels import Introduction, Welcome, introduction_of
from mayfly.verbs.contracts.wire import verb_of
from mayfly.verbs.requests import Connect, Connected, request_of_kind


class AnyConversation(Protocol):
    """A conversation of whatever kind, as its connection needs it."""

    @property
    def connection_number(self) -> int:
        """Its number on its queue manager."""

    @property
    def has_queue(self) -> bool:
        """Whether so many requests queue up that no more are to be read."""

    def take(self, request: int, payload: bytes) -> None:
        """Take a request; raises WrongFrame for one that cannot be answered."""

    def suspend(self) -> None:
        """Take no messages for gets that wait: the client does not read its answers."""

    def resume(self) -> None:
        """Let gets wait again."""

    def status(self) -> ConnectionStatus:
        """Return what DISPLAY CONN shows."""

    def quiesce(self, refusal: MQError) -> bool:
        """End gets that wait; return True when no work is left."""

    def end(self) -> None:
        """Back out the unit of work; on a thread that may block."""


class Entered(Protocol):
    """The connection or receiver that was opened for an applicant that was let in."""

    @property
    def name(self) -> str:
        """The name of the queue manager."""

    def close(self, *, commit: bool) -> None:
        """Give it up: the server refuses the applicant after all."""


class Terms(NamedTuple):
    """The terms of a connection: the interval of signs of life, 0 for none; sharing; length."""

    heartbeat_ms: int
    share_conversations: int
    max_message_bytes: int


class Entrance(Protocol):
    """The way in of conversations whose first request is a certain verb."""

    def applicant(self, payload: bytes, peer: Peer) -> tuple[Applicant, int]:
        """Return the applicant, and the interval in ms in which both sides are to speak.

        Raises WrongFrame.
        """

    def terms(self, asked_ms: int, limit_ms: int, admitted: Admitted) -> Terms:
        """Return the terms; ``limit_ms`` is the longest interval of this server, 0 without one."""

    def enter(
        self, managers: Mapping[str, QueueManager], applicant: Applicant, admitted: Admitted
    ) -> Entered:
        """Open the connection or receiver, on a thread that may block; raises MQError."""

    def begin(
        self, link: Carrier, number: int, entered: Any, who: tuple[Applicant, Admitted]
    ) -> AnyConversation:
        """Return the conversation, under the number that the client has chosen."""

    def greeting(self, entered: Any, admitted: Admitted, terms: Terms) -> Connected | Welcome:
        """Return the answer to the first request."""


class _Clients:
    """CONNECT of a program."""

    def applicant(self, payload: bytes, peer: Peer) -> tuple[Applicant, int]:
        asked = request_of_kind(Connect, payload)
        applicant = Applicant(
            queue_manager=asked.queue_manager,
            address=peer.address,
            channel=asked.channel,
            user=asked.user,
            password=asked.password,
            has_tls=peer.has_tls,
            certificate_subject=peer.certificate_subject,
            certificate_issuer=peer.certificate_issuer,
            application=asked.application,
            is_of_this_process=asked.process == this_process(),
        )
        return applicant, asked.heartbeat_ms

    def terms(self, asked_ms: int, limit_ms: int, admitted: Admitted) -> Terms:
        # The shorter interval of both sides counts.
        heartbeat_ms = _shortest(asked_ms, admitted.heartbeat_s * SECOND_MS, limit_ms)
        shared = max(1, admitted.share_conversations)
        return Terms(heartbeat_ms, shared, admitted.max_message_bytes)

    def enter(
        self, managers: Mapping[str, QueueManager], applicant: Applicant, admitted: Admitted
    ) -> LocalConnection:
        return connection_of(managers, applicant, admitted)

    def begin(
        self, link: Carrier, number: int, entered: Any, who: tuple[Applicant, Admitted]
    ) -> AnyConversation:
        return Conversation(link, number, entered, *who)

    def greeting(self, entered: Any, admitted: Admitted, terms: Terms) -> Connected:
        return Connected(entered.name, entered.number, admitted.user, *terms, this_process())


class _Receiving(NamedTuple):
    """A queue manager whose receiver a sender may begin."""

    manager: QueueManager

    @property
    def name(self) -> str:
        return self.manager.name

    def close(self, *, commit: bool) -> None:
        """Nothing is open before the sender negotiates."""


class _Senders:
    """CONNECT of a message channel."""

    def applicant(self, payload: bytes, peer: Peer) -> tuple[Applicant, int]:
        asked = introduction_of(payload)
        applicant = Applicant(
            queue_manager=asked.queue_manager,
            address=peer.address,
            channel=asked.channel,
            password=asked.token,
            has_tls=peer.has_tls,
            certificate_subject=peer.certificate_subject,
            certificate_issuer=peer.certificate_issuer,
            application=f"channel of {asked.sending_manager}",
            sending_manager=asked.sending_manager,
        )
        return applicant, asked.heartbeat_ms

    def terms(self, asked_ms: int, limit_ms: int, admitted: Admitted) -> Terms:
        # HBINT of the sender counts, and 0 is never: the receiver has none of its own to say.
        return Terms(_shortest(asked_ms, limit_ms), 1, admitted.max_message_bytes)

    def enter(
        self, managers: Mapping[str, QueueManager], applicant: Applicant, _admitted: Admitted
    ) -> _Receiving:
        return _Receiving(manager_of(managers, applicant))

    def begin(
        self, link: Carrier, number: int, entered: Any, who: tuple[Applicant, Admitted]
    ) -> AnyConversation:
        return ChannelConversation(link, number, entered.manager, *who)

    def greeting(self, entered: Any, _admitted: Admitted, terms: Terms) -> Welcome:
        return Welcome(entered.name, terms.heartbeat_ms)


_ENTRANCES: Final[dict[int, Entrance]] = {
    verb_of(Connect): _Clients(),
    verb_of(Introduction): _Senders(),
}


def entrance_of(verb: object) -> Entrance | None:
    """Return the entrance of a first request; None for a verb that cannot come first."""
    return _ENTRANCES.get(verb) if type(verb) is int else None


def _shortest(*intervals_ms: int) -> int:
    return min((each for each in intervals_ms if each > 0), default=0)
