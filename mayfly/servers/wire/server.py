"""The server of Mayfly's own protocol, and its handlers of CONNECT."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.queue_manager import QueueManager
from mayfly.runtime.virtual_clock import this_process
from mayfly.servers.acceptor import unix_socket
from mayfly.servers.budget import Budget
from mayfly.servers.clients import Admits, Peer, connection_of, manager_of
from mayfly.servers.event_loop_server import EventLoopServer
from mayfly.servers.wire.channel_conversation import ChannelConversation
from mayfly.servers.wire.conversation import ProgramConversation
from mayfly.servers.wire.link import (
    AnyConversation,
    ClientLink,
    ConnectHandler,
    ConnectionTerms,
    Limits,
    ServerLoop,
)
from mayfly.verbs.contracts.channels import Introduction, Welcome, introduction_of
from mayfly.verbs.contracts.wire import verb_of
from mayfly.verbs.requests import Connect, Connected, request_of_kind


class WireServer(EventLoopServer[ClientLink]):
    """Serves open queue managers to remote programs and message channels.

    ``WireServer([qm], admission).listen_tcp("127.0.0.1", 1414)``. Any thread may call its methods.
    :meth:`close` leaves the queue managers open.

    Clients of a connection that ends get MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_QUIESCING by a drain,
    and MQRC_Q_MGR_STOPPING by a close. While a connection is quiesced, its waiting gets, and verbs
    with FAIL_IF_QUIESCING, end with MQRC_CONNECTION_QUIESCING or MQRC_Q_MGR_QUIESCING.
    """

    def __init__(
        self,
        managers: Iterable[QueueManager],
        admission: Admits,
        *,
        limits: Limits | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Start the event loop on a thread of the first manager's runtime; nothing listens yet.

        ``admission`` decides which programs may connect. ``budget`` limits the memory for messages
        and may be shared with other servers.
        """
        self._server_loop = server_loop = ServerLoop(
            managers, admission, limits or Limits(), budget or Budget(), _CONNECT_HANDLERS
        )
        self._sockets: list[Path] = []
        super().__init__(server_loop.loop, server_loop, server_loop.runtime, "mayfly-wire")

    def listen_unix(self, path: Path | str) -> None:
        """Listen on a UNIX socket that only its owner may open; an existing file there is replaced.

        Raises OSError.
        """
        path = Path(path)
        path.unlink(missing_ok=True)
        self._accept_on([unix_socket(path)])
        self._sockets.append(path)

    def limit(self, limits: Limits) -> None:
        """Replace the limits; open connections stay."""
        self._server_loop.limits = limits

    def _run(self) -> bool:
        """Note the thread of the event loop, then run the loop as the base class does."""
        self._server_loop.loop_thread = self._server_loop.runtime.thread_id()
        return super()._run()

    def _open(self) -> Collection[ClientLink]:
        """Return the open connections of clients."""
        return self._server_loop.members

    def _has_clients(self) -> bool:
        """Return True while a connection is open, or a broken one is being backed out."""
        return bool(self._server_loop.members or self._server_loop.ending_count)

    def _end(self, connection: ClientLink, why: str) -> None:
        """Close a connection; its client gets MQRC_CONNECTION_BROKEN with the text ``why``."""
        connection.end(mq_error(rc.MQRC_CONNECTION_BROKEN, why))

    def _quiesce(self, connection: ClientLink) -> None:
        """Close a connection for an operator once it has no work left; does not wait.

        Until then waiting gets and verbs with FAIL_IF_QUIESCING fail with
        MQRC_CONNECTION_QUIESCING.
        """
        text = f"channel {connection.channel} was stopped by an operator"
        connection.quiesce(
            mq_error(rc.MQRC_CONNECTION_QUIESCING, text), mq_error(rc.MQRC_CONNECTION_BROKEN, text)
        )

    def _drain(self, connection: ClientLink) -> None:
        """Close a connection, because the server ends, once it has no work left; does not wait.

        Waiting gets and verbs with FAIL_IF_QUIESCING fail with MQRC_Q_MGR_QUIESCING.
        """
        ending = mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends")
        connection.quiesce(ending, ending)

    def _stop_accepting(self) -> None:
        """Refuse new conversations, and close the listening sockets."""
        self._server_loop.is_draining = True
        super()._stop_accepting()

    async def _end_all(self) -> None:
        """Close all connections with MQRC_Q_MGR_STOPPING, and return when they are backed out."""
        server_loop = self._server_loop
        await self._cut_handshakes()
        stopping = mq_error(rc.MQRC_Q_MGR_STOPPING, "the server stops")
        self._each(lambda link: link.end(stopping))
        await asyncio.sleep(0)
        for link in [*server_loop.members, *server_loop.refused_links]:
            link.abort()
        while self._has_clients():
            await asyncio.sleep(0.005)

    def _shut_down(self) -> None:
        """End the threads for verbs and admission, and remove the UNIX sockets."""
        self._server_loop.shut_down()
        for path in self._sockets:
            path.unlink(missing_ok=True)


class _ProgramConnect:
    """Handles the CONNECT of a program."""

    def applicant(self, payload: bytes, peer: Peer) -> tuple[Applicant, int]:
        """Return who wants to connect, and the heartbeat interval (ms) that the program asks for.

        Raises WrongFrame for a malformed request.
        """
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

    def terms(self, asked_ms: int, limit_ms: int, admitted: Admitted) -> ConnectionTerms:
        """Return the agreed limits.

        The heartbeat interval is the shortest of that of the program (``asked_ms``), of the channel
        (in ``admitted``) and of the server (``limit_ms``).
        """
        # The shorter interval of both sides counts.
        heartbeat_ms = _shortest(asked_ms, admitted.heartbeat_s * SECOND_MS, limit_ms)
        shared = max(1, admitted.share_conversations)
        return ConnectionTerms(heartbeat_ms, shared, admitted.max_message_bytes)

    def begin(
        self, link: ClientLink, number: int, applicant: Applicant, admitted: Admitted
    ) -> ProgramConversation:
        """Connect to the queue manager and return the program's conversation; raises MQError."""
        connection = connection_of(link.server_loop.managers, applicant, admitted)
        return ProgramConversation(link, number, connection, applicant, admitted)

    def greeting(
        self, conversation: AnyConversation, admitted: Admitted, terms: ConnectionTerms
    ) -> Connected:
        """Return the answer to CONNECT: queue manager, connection number, user and limits."""
        name, number = conversation.queue_manager, conversation.connection_number
        return Connected(name, number, admitted.user, *terms, this_process())


class _ChannelConnect:
    """Handles the CONNECT of a message channel."""

    def applicant(self, payload: bytes, peer: Peer) -> tuple[Applicant, int]:
        """Return who wants to connect, and the heartbeat interval (ms) that the sender asks for.

        Raises WrongFrame for a malformed request.
        """
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

    def terms(self, asked_ms: int, limit_ms: int, admitted: Admitted) -> ConnectionTerms:
        """Return the agreed limits; a channel does not share its connection.

        The parameters are those of :meth:`ConnectHandler.terms`.
        """
        # HBINT of the sender counts, and 0 is never: a receiver has no interval.
        return ConnectionTerms(_shortest(asked_ms, limit_ms), 1, admitted.max_message_bytes)

    def begin(
        self, link: ClientLink, number: int, applicant: Applicant, admitted: Admitted
    ) -> ChannelConversation:
        """Return the channel's conversation.

        Raises MQRC_Q_MGR_NAME_ERROR for an unknown queue manager.
        """
        manager = manager_of(link.server_loop.managers, applicant)
        return ChannelConversation(link, number, manager, applicant, admitted)

    def greeting(
        self, conversation: AnyConversation, _admitted: Admitted, terms: ConnectionTerms
    ) -> Welcome:
        """Return the answer to CONNECT: queue manager and heartbeat interval."""
        return Welcome(conversation.queue_manager, terms.heartbeat_ms)


def _shortest(*intervals_ms: int) -> int:
    """Return the shortest interval that is not 0, or 0 if all are 0."""
    return min((each for each in intervals_ms if each > 0), default=0)


#: The handlers of first requests by the numbers of their verbs.
_CONNECT_HANDLERS: Final[dict[int, ConnectHandler]] = {
    verb_of(Connect): _ProgramConnect(),
    verb_of(Introduction): _ChannelConnect(),
}
