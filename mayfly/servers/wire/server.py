"""The wire server: one event loop in its thread, listening sockets, and the CONNECT handlers."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.channel import ClientConnection
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Loop
from mayfly.runtime.virtual_clock import this_process
from mayfly.servers.acceptor import Acceptor, lower_tls_buffers, tcp_sockets, unix_socket
from mayfly.servers.budget import Budget
from mayfly.servers.clients import Admits, Peer, connection_of, manager_of
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

_T = TypeVar("_T")
#: How often a connection that is to end is asked whether its work is done.
_LOOK_SECONDS = 0.02
_LOG = logging.getLogger("mayfly.wire")


class WireServer:
    """Serves open queue managers to remote programs and message channels.

    ``WireServer([qm], admission).listen_tcp("127.0.0.1", 1414)``. Any thread may call its methods.
    :meth:`close` leaves the queue managers open.
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

        ``budget`` limits the memory for messages and may be shared with other servers.
        """
        self._server_loop = ServerLoop(
            managers, admission, limits or Limits(), budget or Budget(), _CONNECT_HANDLERS
        )
        self._acceptors: list[Acceptor] = []
        self._sockets: list[Path] = []
        self._is_closed = False
        self._thread = Loop(self._server_loop.runtime, self._server_loop.run, "mayfly-wire")
        self._thread.start()

    def listen_tcp(self, host: str, port: int, tls_context: ssl.SSLContext | None = None) -> int:
        """Listen on an address and return its port; port 0 is any free one.

        With ``tls_context`` only TLS is accepted. Raises OSError if the address cannot be used.
        """
        if tls_context is not None:
            lower_tls_buffers()
        listening = tcp_sockets(host, port)
        found = int(listening[0].getsockname()[1])
        self._open(listening, tls_context)
        return found

    def listen_unix(self, path: Path | str) -> None:
        """Listen on a UNIX socket that only its owner may open; an existing file there is replaced.

        Raises OSError.
        """
        path = Path(path)
        path.unlink(missing_ok=True)
        self._open([unix_socket(path)])
        self._sockets.append(path)

    def limit(self, limits: Limits) -> None:
        """Replace the limits; open connections stay."""
        self._server_loop.limits = limits

    def connections(self) -> list[ClientConnection]:
        """Return the open conversations, as DISPLAY CONN shows them."""
        return self._in_loop(
            lambda: [each for link in self._server_loop.members.values() for each in link.status()]
        )

    def end(self, number: int, why: str = "was stopped by an operator") -> bool:
        """Close the connection with conversation ``number``; return False if none has it.

        Its units of work are backed out. Other conversations of the same socket end as well.
        ``why`` is a text for the client.
        """

        def ask() -> bool:
            """End the link in the event loop; return False if none has the number."""
            link = self._server_loop.link_of(number)
            if link is not None:
                link.end(mq_error(rc.MQRC_CONNECTION_BROKEN, f"connection {number} {why}"))
            return link is not None

        return self._in_loop(ask)

    def quiesce(self, number: int) -> bool:
        """Close the connection with conversation ``number`` once its work is done; does not wait.

        Returns False if no connection has it. Waiting gets, and verbs with FAIL_IF_QUIESCING, end
        with MQRC_CONNECTION_QUIESCING. Work is an open unit of work, a delivery to settle or a
        running verb; once no conversation of the socket has any, the client gets
        MQRC_CONNECTION_BROKEN.
        """

        def ask() -> bool:
            """Begin to quiesce the link in the event loop; return False if none has the number."""
            link = self._server_loop.link_of(number)
            if link is not None:
                self._quiesce_until_gone(link)
            return link is not None

        return self._in_loop(ask)

    def _quiesce_until_gone(self, link: ClientLink) -> None:
        """Ask a connection to end once its work is done, now and every 20 ms until it has ended."""
        if self._server_loop.members.get(link.number) is link:
            text = f"channel {link.channel} was stopped by an operator"
            link.quiesce(
                mq_error(rc.MQRC_CONNECTION_QUIESCING, text),
                mq_error(rc.MQRC_CONNECTION_BROKEN, text),
            )
            self._server_loop.loop.call_later(_LOOK_SECONDS, self._quiesce_until_gone, link)

    def drain(self, timeout_ms: int) -> bool:
        """Refuse new clients, and wait until all have left; return False after ``timeout_ms``.

        Waiting gets end with MQRC_Q_MGR_QUIESCING. So does each connection as soon as it has no
        open unit of work, no delivery to settle and no running verb.
        """

        async def ask() -> bool:
            """Drain in the event loop; return False if clients are left at the end of the time."""
            self._server_loop.is_draining = True
            for acceptor in self._acceptors:
                acceptor.close()
            loop = asyncio.get_running_loop()
            end = loop.time() + timeout_ms / 1_000
            ending = mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends")
            while self._server_loop.members or self._server_loop.ending_count:
                if loop.time() >= end:
                    return False
                self._each(lambda link: link.quiesce(ending, ending))
                await asyncio.sleep(_LOOK_SECONDS)
            return True

        return self._run(ask())

    def close(self) -> None:
        """Close all connections, back out their units of work, and end the threads.

        A second call does nothing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._run(self._end_all())
        self._server_loop.stop()
        self._thread.join()
        self._server_loop.shut_down()
        for path in self._sockets:
            path.unlink(missing_ok=True)

    async def _end_all(self) -> None:
        """Close all connections with MQRC_Q_MGR_STOPPING, and wait until they are backed out."""
        server_loop = self._server_loop
        server_loop.is_draining = True
        for acceptor in self._acceptors:
            acceptor.close()
            await acceptor.cut()
        stopping = mq_error(rc.MQRC_Q_MGR_STOPPING, "the server stops")
        self._each(lambda link: link.end(stopping))
        await asyncio.sleep(0)
        for link in [*server_loop.members.values(), *server_loop.refused_links.values()]:
            link.abort()
        while server_loop.members or server_loop.ending_count:
            await asyncio.sleep(0.005)

    def _each(self, work: Callable[[ClientLink], object]) -> None:
        """Call ``work`` for each connection; an error is logged, and that connection is aborted."""
        for link in list(self._server_loop.members.values()):
            try:
                work(link)
            except Exception:  # noqa: BLE001 - one client's mistake is not the others'
                _LOG.exception("a client is cut off")
                link.abort()

    def _open(
        self, listening: Sequence[socket.socket], tls_context: ssl.SSLContext | None = None
    ) -> None:
        """Start to accept connections on listening sockets."""
        acceptor = self._in_loop(lambda: Acceptor(listening, self._server_loop, tls_context))
        self._acceptors.append(acceptor)

    def _in_loop(self, call: Callable[[], _T]) -> _T:
        """Call a function in the event loop, wait for its end, and return its result."""

        async def run() -> _T:
            return call()

        return self._run(run())

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the event loop, wait for its end, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._server_loop.loop).result()


class _ProgramConnect:
    """Handles the CONNECT of a program."""

    def applicant(self, payload: bytes, peer: Peer) -> tuple[Applicant, int]:
        """Return the facts for admission, and the heartbeat interval (ms) of the program.

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

        The shortest heartbeat interval of program, channel and server counts.
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
        """Return the facts for admission, and the heartbeat interval (ms) of the sender.

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
        """Return the agreed limits; a channel does not share its connection."""
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
