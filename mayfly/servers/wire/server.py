"""The server of remote connections: one loop in a thread of its own, listeners, the ways in."""

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
    ConnectionTerms,
    Entrance,
    Exchange,
    Limits,
)
from mayfly.verbs.contracts.channels import Introduction, Welcome, introduction_of
from mayfly.verbs.contracts.wire import verb_of
from mayfly.verbs.requests import Connect, Connected, request_of_kind

_T = TypeVar("_T")
#: How often connections that are to end when their work is done are looked at.
_LOOK_SECONDS = 0.02
_LOG = logging.getLogger("mayfly.wire")


class WireServer:
    """Serves open queue managers to remote connections.

    ``WireServer([qm], admission).listen_tcp("127.0.0.1", 1414)``. Any thread may call its methods.
    The queue managers stay open when it is closed.
    """

    def __init__(
        self,
        managers: Iterable[QueueManager],
        admission: Admits,
        *,
        limits: Limits | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Start the loop, a thread of the first manager's runtime; nothing listens yet.

        A ``budget`` may be shared with other servers.
        """
        self._exchange = Exchange(
            managers, admission, limits or Limits(), budget or Budget(), _ENTRANCES
        )
        self._acceptors: list[Acceptor] = []
        self._sockets: list[Path] = []
        self._is_closed = False
        self._thread = Loop(self._exchange.runtime, self._exchange.run, "mayfly-wire")
        self._thread.start()

    def listen_tcp(self, host: str, port: int, tls_context: ssl.SSLContext | None = None) -> int:
        """Listen on an address, port 0 for a free one; return the port. Raises OSError."""
        if tls_context is not None:
            lower_tls_buffers()
        listening = tcp_sockets(host, port)
        found = int(listening[0].getsockname()[1])
        self._open(listening, tls_context)
        return found

    def listen_unix(self, path: Path | str) -> None:
        """Listen on a UNIX socket that its owner alone may open; raises OSError."""
        path = Path(path)
        path.unlink(missing_ok=True)
        self._open([unix_socket(path)])
        self._sockets.append(path)

    def limit(self, limits: Limits) -> None:
        self._exchange.limits = limits

    def connections(self) -> list[ClientConnection]:
        return self._in_loop(
            lambda: [each for link in self._exchange.members.values() for each in link.status()]
        )

    def end(self, number: int, why: str = "was stopped by an operator") -> bool:
        """End the connection that has a conversation of this number; False when there is none.

        Its unit of work is backed out. Other conversations of its socket end as well.
        """

        def ask() -> bool:
            link = self._exchange.link_of(number)
            if link is not None:
                link.end(mq_error(rc.MQRC_CONNECTION_BROKEN, f"connection {number} {why}"))
            return link is not None

        return self._in_loop(ask)

    def quiesce(self, number: int) -> bool:
        """Let the connection that has a conversation of this number end when its work is done.

        Gets that wait, and verbs with FAIL_IF_QUIESCING, end with MQRC_CONNECTION_QUIESCING. Once
        no conversation of its socket has an open unit of work, a delivery to settle or a verb under
        way, the client is told MQRC_CONNECTION_BROKEN. False when there is none of this number.
        """

        def ask() -> bool:
            link = self._exchange.link_of(number)
            if link is not None:
                self._look_at(link)
            return link is not None

        return self._in_loop(ask)

    def _look_at(self, link: ClientLink) -> None:
        """Look whether the work of a connection is done, until it has ended."""
        if self._exchange.members.get(link.number) is link:
            said = f"channel {link.channel} was stopped by an operator"
            link.quiesce(
                mq_error(rc.MQRC_CONNECTION_QUIESCING, said),
                mq_error(rc.MQRC_CONNECTION_BROKEN, said),
            )
            self._exchange.loop.call_later(_LOOK_SECONDS, self._look_at, link)

    def drain(self, timeout_ms: int) -> bool:
        """Refuse new clients, and wait until all have gone; False when time was too short.

        Gets that wait end with MQRC_Q_MGR_QUIESCING, and so does a connection as soon as it has no
        open unit of work, no delivery to settle and no verb under way.
        """

        async def ask() -> bool:
            self._exchange.is_draining = True
            for acceptor in self._acceptors:
                acceptor.close()
            loop = asyncio.get_running_loop()
            end = loop.time() + timeout_ms / 1_000
            ending = mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends")
            while self._exchange.members or self._exchange.ending_count:
                if loop.time() >= end:
                    return False
                self._each(lambda link: link.quiesce(ending, ending))
                await asyncio.sleep(_LOOK_SECONDS)
            return True

        return self._run(ask())

    def close(self) -> None:
        """End all connections, backing out their units of work, and the thread."""
        if self._is_closed:
            return
        self._is_closed = True
        self._run(self._end_all())
        self._exchange.stop()
        self._thread.join()
        self._exchange.shut_down()
        for path in self._sockets:
            path.unlink(missing_ok=True)

    async def _end_all(self) -> None:
        exchange = self._exchange
        exchange.is_draining = True
        for acceptor in self._acceptors:
            acceptor.close()
            await acceptor.cut()
        stopping = mq_error(rc.MQRC_Q_MGR_STOPPING, "the server stops")
        self._each(lambda link: link.end(stopping))
        await asyncio.sleep(0)
        for link in [*exchange.members.values(), *exchange.turned_away.values()]:
            link.abort()
        while exchange.members or exchange.ending_count:
            await asyncio.sleep(0.005)

    def _each(self, work: Callable[[ClientLink], object]) -> None:
        """Do something for each connection; one for which it cannot be done is cut off."""
        for link in list(self._exchange.members.values()):
            try:
                work(link)
            except Exception:  # noqa: BLE001 - one client's mistake is not the others'
                _LOG.exception("a client is cut off")
                link.abort()

    def _open(
        self, listening: Sequence[socket.socket], tls_context: ssl.SSLContext | None = None
    ) -> None:
        acceptor = self._in_loop(lambda: Acceptor(listening, self._exchange, tls_context))
        self._acceptors.append(acceptor)

    def _in_loop(self, call: Callable[[], _T]) -> _T:
        async def run() -> _T:
            return call()

        return self._run(run())

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._exchange.loop).result()


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

    def terms(self, asked_ms: int, limit_ms: int, admitted: Admitted) -> ConnectionTerms:
        # The shorter interval of both sides counts.
        heartbeat_ms = _shortest(asked_ms, admitted.heartbeat_s * SECOND_MS, limit_ms)
        shared = max(1, admitted.share_conversations)
        return ConnectionTerms(heartbeat_ms, shared, admitted.max_message_bytes)

    def begin(
        self, link: ClientLink, number: int, applicant: Applicant, admitted: Admitted
    ) -> ProgramConversation:
        connection = connection_of(link.exchange.managers, applicant, admitted)
        return ProgramConversation(link, number, connection, applicant, admitted)

    def greeting(
        self, conversation: AnyConversation, admitted: Admitted, terms: ConnectionTerms
    ) -> Connected:
        name, number = conversation.queue_manager, conversation.connection_number
        return Connected(name, number, admitted.user, *terms, this_process())


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

    def terms(self, asked_ms: int, limit_ms: int, admitted: Admitted) -> ConnectionTerms:
        # HBINT of the sender counts, and 0 is never: the receiver has none of its own to say.
        return ConnectionTerms(_shortest(asked_ms, limit_ms), 1, admitted.max_message_bytes)

    def begin(
        self, link: ClientLink, number: int, applicant: Applicant, admitted: Admitted
    ) -> ChannelConversation:
        manager = manager_of(link.exchange.managers, applicant)
        return ChannelConversation(link, number, manager, applicant, admitted)

    def greeting(
        self, conversation: AnyConversation, _admitted: Admitted, terms: ConnectionTerms
    ) -> Welcome:
        return Welcome(conversation.queue_manager, terms.heartbeat_ms)


def _shortest(*intervals_ms: int) -> int:
    return min((each for each in intervals_ms if each > 0), default=0)


#: The entrances of conversations by the verb of their first request.
_ENTRANCES: Final[dict[int, Entrance]] = {
    verb_of(Connect): _Clients(),
    verb_of(Introduction): _Senders(),
}
