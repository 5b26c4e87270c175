"""The server of Mayfly's own protocol, and the conversation of a program with a queue manager.

A request of :data:`AT_ONCE` neither waits nor syncs, and is executed in the event loop of the
server. One of :data:`BEGUN` may wait or sync, and reports its answer by a callback. All others run
on a thread that may block. The functions that execute them are in ``connection.local``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.channel import ClientConnection
from mayfly.client.connection import LocalConnection
from mayfly.client.connection.interface import UnderWay
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, failure_of, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Runtime
from mayfly.runtime.virtual_clock import this_process
from mayfly.servers.acceptor import EventLoopServer, unix_socket
from mayfly.servers.budget import Budget
from mayfly.servers.clients import Admits, Peer, connection_of, manager_of
from mayfly.servers.managers import ManagerTable
from mayfly.servers.wire.channel_conversation import ChannelConversation
from mayfly.servers.wire.link import (
    AnyConversation,
    ClientLink,
    ConnectHandler,
    ConnectionTerms,
    Limits,
    ServerLoop,
    packed_answer,
    packed_failure,
)
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import check_max_messages
from mayfly.verbs.contracts.channels import Introduction, Welcome, introduction_of
from mayfly.verbs.contracts.wire import (
    MAX_AHEAD_IN_FRAME,
    MAX_GOT_BYTES,
    MAX_GOT_IN_FRAME,
    MAX_REQUESTS,
    REFUSED,
    WrongFrame,
    decoded,
    packed,
    verb_of,
)
from mayfly.verbs.messages import PutResult
from mayfly.verbs.requests import Connect, Connected, request_of_kind
from mayfly.verbs.rows import WIRE_FORMS, FailedPut, PutsRow, row_of_put

_LOG = logging.getLogger("mayfly.wire")
#: Requests whose answers are long.
_GETTING = frozenset({ask.Get, ask.GetAny, ask.GetMany, ask.TakeHeld, ask.TakeAhead})
#: The requests whose options may have FAIL_IF_QUIESCING, the same bit in all of them.
_FAIL_IF_QUIESCING = frozenset({*_GETTING, ask.Open, ask.Put, ask.Put1, ask.Puts, ask.Subscribe})
#: Requests that may wait behind one that blocks; then no more are read.
_LONG_QUEUE = 64
#: MsgIds for one request: they are made in the loop.
_MAX_IDS: Final = 256
#: A page is one frame, of half a megabyte at most.
MAX_LEDGER_ROWS: Final = 1_000
#: A get with one of these never waits, and may sync: it has no form with a callback.
_UNDER_CURSOR: Final = c.MQGMO_BROWSE_MSG_UNDER_CURSOR | c.MQGMO_MSG_UNDER_CURSOR
AT_ONCE: Final = frozenset(
    {
        ask.Unlock,
        ask.AskStatus,
        ask.Inquire,
        ask.AskLivesFromRelease,
        ask.AskBackoutRule,
        ask.AskCommandLevel,
        ask.AskStreaming,
        ask.TakeAhead,
        ask.NewIds,
        ask.Now,
    }
)
BEGUN: Final = frozenset(
    {
        ask.Put,
        ask.Puts,
        ask.Get,
        ask.GetAny,
        ask.WaitUntil,
        ask.AwaitDefinitions,
        ask.Commit,
        ask.Settle,
    }
)


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
        managers: Iterable[QueueManager] | ManagerTable,
        admission: Admits,
        *,
        limits: Limits | None = None,
        budget: Budget | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        """Start the event loop on a thread of ``runtime``; nothing listens yet.

        ``admission`` decides which programs may connect. ``budget`` limits the memory for messages
        and may be shared with other servers. ``runtime`` None is that of the first queue manager.
        """
        shared = ManagerTable.of(managers)
        if runtime is None:
            runtime = next(iter(shared.values())).engine.runtime
        self._server_loop = server_loop = ServerLoop(
            shared, admission, limits or Limits(), budget or Budget(), runtime, _CONNECT_HANDLERS
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

    def _drain(self, connection: ClientLink, why: str) -> None:
        """Close a connection, because its queue manager ends, once it has no work left.

        Does not wait. Waiting gets and verbs with FAIL_IF_QUIESCING fail with MQRC_Q_MGR_QUIESCING
        and the text ``why``.
        """
        ending = mq_error(rc.MQRC_Q_MGR_QUIESCING, why)
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
        connection = connection_of(link.server_loop.managers, applicant, admitted, "mq")
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
        manager = manager_of(link.server_loop.managers, applicant, "mq")
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


class ProgramConversation:
    """A remote program's connection to a queue manager of this process.

    Its code runs in the event loop of the server, with two exceptions: blocking verbs run on other
    threads, and callbacks come from any thread. While a blocking verb runs, later requests are
    queued.
    """

    __slots__ = (
        "_connected_ms",
        "_is_blocked",
        "_link",
        "_queued",
        "_refusal",
        "_request_count",
        "_server_loop",
        "_suspended",
        "_under_way",
        "_unit_of_work_ms",
        "_waits",
        "admitted",
        "applicant",
        "connection",
        "is_ended",
        "number",
    )

    def __init__(
        self,
        link: ClientLink,
        number: int,
        connection: LocalConnection,
        applicant: Applicant,
        admitted: Admitted,
    ) -> None:
        """Begin a conversation, ``number`` on its link, with an open connection.

        ``applicant`` is the program that asked to connect, ``admitted`` the user and limits that
        admission decided.
        """
        self._link, self.number, self.connection = link, number, connection
        self._server_loop = link.server_loop
        self.applicant, self.admitted = applicant, admitted
        self.is_ended = False
        self._connected_ms = connection.now_ms()
        self._unit_of_work_ms: int | None = None
        self._request_count = 0
        #: Verbs that were begun and are not answered, by the number of their request.
        self._under_way: dict[int, UnderWay | None] = {}
        #: Those of them that wait for a message, with the end of the wait, None for no end.
        self._waits: dict[int, tuple[ask.Get | ask.GetAny, int | None]] = {}
        #: Those of the waiting verbs that are cancelled for as long as the client does not read.
        self._suspended: set[int] = set()
        #: Requests that came while a verb blocks.
        self._queued: deque[tuple[int, ask.Request[Any]]] = deque()
        self._is_blocked = False
        #: The error of verbs with FAIL_IF_QUIESCING while the server drains, else None.
        self._refusal: MQError | None = None

    def take(self, request: int, payload: bytes) -> None:
        """Run a request, or queue it while a blocking verb runs; ``request`` is its number.

        A malformed request is answered with an error. Raises WrongFrame if the number is that of a
        running request.
        """
        self._request_count += 1
        if request in self._under_way:
            raise WrongFrame(f"request: {request} is under way already")
        try:
            asked = ask.request_of(payload)
        except ask.WrongRequest as wrong:
            self._fail(request, mq_error(wrong.reason, str(wrong)))
            return
        if type(asked) is ask.Cancel:
            self._cancel(request, asked.request)
        elif self._is_blocked:
            self._queued.append((request, asked))
            if self.has_queue:
                self._link.regulate()
        elif self._refusal is not None and _fails_if_quiescing(asked):
            self._fail(request, self._refusal)
        else:
            self._run(request, asked)

    @property
    def has_queue(self) -> bool:
        """True while 64 or more requests are queued; the link then reads no more."""
        return len(self._queued) >= _LONG_QUEUE

    def suspend(self) -> None:
        """Cancel waiting gets until :meth:`resume`, because the client does not read its answers.

        Their requests are not answered yet.
        """
        for request in list(self._waits):
            under_way = self._under_way.get(request)
            if under_way is not None and under_way.cancel():
                self._suspended.add(request)
                self._under_way[request] = None

    def resume(self) -> None:
        """Start the gets that :meth:`suspend` has cancelled, each for the rest of its wait."""
        suspended, self._suspended = sorted(self._suspended), set()
        for request in suspended:
            asked, until_ms = self._waits[request]
            if until_ms is not None:
                asked = replace(asked, wait_ms=max(0, until_ms - self.connection.now_ms()))
            self._run(request, asked)

    @property
    def queue_manager(self) -> str:
        """The name of the queue manager."""
        return self.connection.name

    @property
    def connection_number(self) -> int:
        """The number of the connection on its queue manager."""
        return self.connection.number

    def status(self) -> ClientConnection:
        """Return the attributes that DISPLAY CONN shows."""
        connection, applicant = self.connection, self.applicant
        return ClientConnection(
            connection.number,
            self._link.number,
            connection.name,
            applicant.channel,
            self.admitted.user,
            applicant.address,
            applicant.application,
            applicant.has_tls,
            self._connected_ms,
            self._request_count,
            self._link.heartbeat_ms,
            self._link.sent_bytes,
            self._link.received_bytes,
            unit_of_work_ms=self._unit_of_work_ms,
            open_handles=connection.holdings.handle_count,
            is_running=bool(self._under_way) or self._is_blocked,
        )

    def quiesce(self, refusal: MQError) -> bool:
        """End waiting gets with the error ``refusal``; return True if no work is left.

        From now on verbs with FAIL_IF_QUIESCING fail with the same error. Work is an open unit of
        work, a delivery that is not settled, and a running verb.
        """
        self._refusal = refusal
        for request, under_way in list(self._under_way.items()):
            if under_way is not None and under_way.cancel():
                self._forget(request)
                self._fail(request, refusal)
        has_verbs = self._under_way or self._is_blocked or self._queued
        is_open = self._unit_of_work_ms is not None or self.connection.holdings.delivery_count
        return not (has_verbs or is_open)

    def end(self) -> None:
        """Back out the unit of work, and disconnect; requests in the queue are dropped.

        Call it on a thread that may block.
        """
        self.is_ended = True
        self._queued.clear()
        self.connection.close(commit=False)

    def _run(self, request: int, asked: ask.Request[Any]) -> None:
        """Execute a request in the loop, by a callback, or on a thread, and answer it.

        A get waits first while the memory budget is used up.
        """
        kind = type(asked)
        if kind in _GETTING and self._server_loop.budget.is_used_up:
            self._is_blocked = True
            self._link.when_memory_is_free(partial(self._run_later, request, asked))
            return
        self._note_unit(asked)
        try:
            if _is_begun(asked):
                self._begin(request, asked)
            elif kind in AT_ONCE:
                self._answer(request, _execute(self.connection, asked))
            else:
                self._is_blocked = True
                self._server_loop.run_blocking(partial(self._blocked, request, asked))
        except MQError as error:
            self._fail(request, error)
        except WrongFrame as wrong:
            self._fail(request, _field_error(kind, wrong))

    def _note_unit(self, asked: ask.Request[Any]) -> None:
        """Note the time at which a unit of work begins, or that a commit or backout ends it."""
        if isinstance(asked, ask.Commit | ask.Backout):
            self._unit_of_work_ms = None
        elif self._unit_of_work_ms is None and asked.in_unit:
            self._unit_of_work_ms = self.connection.now_ms()

    def _begin(self, request: int, asked: ask.Request[Any]) -> None:
        """Begin a request that reports its answer by a callback; raises MQError, WrongFrame.

        For example, MQRC_RESOURCE_PROBLEM is raised if too many requests are running.
        """
        if (
            isinstance(asked, ask.Settle)
            and asked.within
            and not self._link.has_conversation(asked.within)
        ):
            # That unit of work belongs to a conversation of another user's connection.
            text = f"conversation {asked.within} is not on this connection"
            raise mq_error(rc.MQRC_UOW_NOT_AVAILABLE, text)
        if len(self._under_way) >= MAX_REQUESTS:
            text = f"{MAX_REQUESTS} requests of this conversation are under way"
            raise mq_error(rc.MQRC_RESOURCE_PROBLEM, text)
        if (
            isinstance(asked, ask.Get | ask.GetAny)
            and asked.options & c.MQGMO_WAIT
            and request not in self._waits
        ):
            wait_ms = asked.wait_ms
            until_ms = None if wait_ms < 0 else self.connection.now_ms() + wait_ms
            self._waits[request] = asked, until_ms
        completion = _Completion(self, request)
        try:
            outcome = _begin_request(self.connection, asked, completion)
        except (MQError, WrongFrame):
            self._forget(request)
            raise
        if isinstance(outcome, tuple):
            if request in self._waits:
                self._forget(request)
            self._answer(request, outcome[0])
        elif not completion.is_over:
            self._under_way[request] = outcome

    def report_refusal(self, request: int, handle: int, error: MQError) -> None:
        """Tell the client that a running get waits because its queue is inhibited for gets.

        Any thread may call it.
        """
        payload = packed([REFUSED, request, handle, failure_of(error)])
        self._server_loop.call_soon(partial(self._link.send, 0, REFUSED, payload))

    def done(self, request: int, outcome: Any) -> None:
        """Answer a request that was begun; any thread may call it.

        ``outcome`` is the answer or an MQError.
        """
        if self._server_loop.is_in_loop():
            self._finish(request, outcome)
        else:
            # The loop packs the answer, because the calling thread has commits to make.
            self._server_loop.call_soon(partial(self._finish, request, outcome))

    def _finish(self, request: int, outcome: Any) -> None:
        """Send the answer of a request that was begun, in the event loop."""
        self._forget(request)
        if isinstance(outcome, MQError):
            self._fail(request, outcome)
        else:
            self._answer(request, outcome)

    def _forget(self, request: int) -> None:
        """Remove a request that is answered; ignored if it is unknown."""
        self._under_way.pop(request, None)
        self._waits.pop(request, None)

    def _cancel(self, request: int, cancelled: int) -> None:
        """Cancel the running request ``cancelled``, and answer True to ``request``.

        Both are numbers of requests; ``request`` asks for the cancel. Answer False if it can no
        longer be cancelled.
        """
        under_way = self._under_way.get(cancelled)
        is_cancelled = cancelled in self._suspended
        if is_cancelled:
            self._suspended.discard(cancelled)
        elif under_way is not None:
            is_cancelled = under_way.cancel()
        if is_cancelled:
            self._forget(cancelled)
        self._answer(request, is_cancelled)

    def _blocked(self, request: int, asked: ask.Request[Any]) -> None:
        """Execute a request on a thread that may block, then let the event loop send the answer.

        Errors become a failure for the client; none is raised.
        """
        kind = type(asked)
        try:
            if isinstance(asked, ask.Disconnect):
                self._disconnect(asked.commit)
                payload = packed_answer(None)
            else:
                payload = packed_answer(_execute(self.connection, asked))
        except MQError as error:
            payload = packed_failure(error)
        except WrongFrame as wrong:
            payload = packed_failure(_field_error(kind, wrong))
        except Exception as error:  # noqa: BLE001 - a mistake here must not let the client wait
            _LOG.exception("a verb of conversation %d has failed", self.connection.number)
            payload = packed_failure(mq_error(rc.MQRC_UNEXPECTED_ERROR, type(error).__name__))
        self._server_loop.call_soon(partial(self._unblock, request, payload))

    def _disconnect(self, commit: bool) -> None:
        """Disconnect, with a commit if ``commit``, otherwise with a backout.

        The conversation leaves its link even after an error.
        """
        self.is_ended = True
        try:
            self.connection.close(commit=commit)
        finally:
            self._server_loop.call_soon(partial(self._link.forget, self.number))

    def _unblock(self, request: int, payload: bytes) -> None:
        """Send the answer of a blocking verb, and run the queued requests."""
        self._link.send(self.number, request, payload)
        self._continue()

    def _run_later(self, request: int, asked: ask.Request[Any]) -> None:
        """Run the get ``asked``, which has waited for memory, then the queued requests."""
        self._queued.appendleft((request, asked))
        self._continue()

    def _continue(self) -> None:
        """Run the queued requests up to the next one that blocks."""
        self._is_blocked = False
        had_queue = self.has_queue
        while self._queued and not self._is_blocked and not self.is_ended:
            self._run(*self._queued.popleft())
        if had_queue:
            self._link.regulate()

    def _answer(self, request: int, value: Any) -> None:
        """Send a successful answer for a request."""
        self._link.send(self.number, request, packed_answer(value))

    def _fail(self, request: int, error: MQError) -> None:
        """Send an error as the answer of a request."""
        self._link.send(self.number, request, packed_failure(error))


def _field_error(kind: type[ask.Request[Any]], wrong: WrongFrame) -> MQError:
    """Return the MQError for a wrong field of a request, with the reason code for this field."""
    return mq_error(ask.reason_of(kind, wrong.field), f"{ask.verb_name(kind)}.{wrong}")


def _fails_if_quiescing(asked: ask.Request[Any]) -> bool:
    """Return True if a request has the option FAIL_IF_QUIESCING."""
    if type(asked) not in _FAIL_IF_QUIESCING:
        return False
    options: int = asked.options  # type: ignore[attr-defined]  # all of these have options
    return bool(options & c.MQGMO_FAIL_IF_QUIESCING)


class _Completion:
    """The callbacks of one request that was begun."""

    __slots__ = ("_conversation", "_request", "is_over")

    def __init__(self, conversation: ProgramConversation, request: int) -> None:
        """Take the conversation, and the number of the request to answer."""
        self._conversation, self._request = conversation, request
        #: Whether the request is answered, or its answer is left to the loop.
        self.is_over = False

    def __call__(self, outcome: Any) -> None:
        """Report the outcome of the request: the answer as it is sent, or an MQError."""
        self.is_over = True
        self._conversation.done(self._request, outcome)

    def refused(self, handle: int, error: MQError) -> None:
        """Report that the running get waits because its queue is inhibited for gets."""
        self._conversation.report_refusal(self._request, handle, error)


def _is_begun(asked: ask.Request[Any]) -> bool:
    """Return True if a request reports its answer by a callback."""
    if isinstance(asked, ask.Get) and asked.options & _UNDER_CURSOR:
        return False
    return type(asked) in BEGUN


def _execute(connection: LocalConnection, asked: ask.Request[Any]) -> Any:
    """Execute a request and return its answer in the form to send; raises MQError, WrongFrame."""
    return _wire_answer(type(asked), connection.call(_limited(asked)))


def _begin_request(
    connection: LocalConnection, asked: ask.Request[Any], completion: _Completion
) -> tuple[Any] | UnderWay:
    """Begin a request whose answer comes by a callback.

    Returns the answer, alone in a tuple, or the running request, which reports its outcome to
    ``completion``. Raises MQError, WrongFrame.
    """
    if isinstance(asked, ask.Puts):
        return _begin_puts(connection, asked, completion)
    kind = type(asked)

    def report(outcome: Any) -> None:
        """Pass the outcome to the completion: an MQError, or the answer in the form to send."""
        completion(outcome if isinstance(outcome, MQError) else _wire_answer(kind, outcome))

    outcome = connection.begin_without_waiting(asked, report, completion.refused)
    return (_wire_answer(kind, outcome[0]),) if isinstance(outcome, tuple) else outcome


def _wire_answer(kind: type[ask.Request[Any]], answer: Any) -> Any:
    """Return the answer to a kind of request in the form in which it is sent."""
    form = WIRE_FORMS.get(ask.answer_type(kind))
    return answer if form is None else form.of_answer(answer)


def _limited(asked: ask.Request[Any]) -> ask.Request[Any]:
    """Return a request whose number of messages or rows is at most what fits into one answer.

    Raises MQRC_OPTIONS_ERROR for a number of messages or rows that is out of range.
    """
    if isinstance(asked, ask.GetMany | ask.TakeHeld):
        if isinstance(asked, ask.GetMany):
            check_max_messages(asked.max_messages)
        max_bytes = min(asked.max_bytes, MAX_GOT_BYTES)
        return replace(
            asked, max_messages=min(asked.max_messages, MAX_GOT_IN_FRAME), max_bytes=max_bytes
        )
    if isinstance(asked, ask.TakeAhead):
        most, max_bytes = min(asked.max_messages, MAX_AHEAD_IN_FRAME), asked.max_bytes
        return replace(asked, max_messages=most, max_bytes=min(max_bytes, MAX_GOT_BYTES))
    if isinstance(asked, ask.NewIds):
        return replace(asked, count=min(max(asked.count, 1), _MAX_IDS))
    if isinstance(asked, ask.ReadLedger):
        if asked.max_rows < 1:
            text = f"max_rows: {asked.max_rows} is less than 1"
            raise mq_error(rc.MQRC_OPTIONS_ERROR, text)
        return replace(asked, max_rows=min(asked.max_rows, MAX_LEDGER_ROWS))
    return asked


def _begin_puts(
    connection: LocalConnection, puts: ask.Puts, completion: _Completion
) -> tuple[PutsRow] | UnderWay:
    """Begin several puts; return the answer, alone in a tuple, or the running request.

    The running request reports its answer to ``completion``.
    """
    has_results = not puts.options & c.MQPMO_ASYNC_RESPONSE
    outcomes = connection.begin_puts(
        (_put_of(puts, message) for message in puts.messages),
        lambda outcomes: completion(_row_of_puts(outcomes, has_results)),
    )
    return (_row_of_puts(outcomes, has_results),) if isinstance(outcomes, list) else outcomes


def _put_of(puts: ask.Puts, message: msgspec.Raw) -> ask.Put | MQError:
    """Return one of several puts; a wrong field gives the MQError instead."""
    try:
        new = decoded(ask.NewMessage, bytes(message), "put.message")
    except WrongFrame as wrong:
        return mq_error(ask.reason_of(ask.Put, wrong.field), str(wrong))
    return ask.Put(puts.descriptor, puts.options, puts.handle, puts.context, new)


def _row_of_puts(outcomes: list[PutResult | MQError | None], has_results: bool) -> PutsRow:
    """Return the outcomes of several puts in the form to send.

    Without ``has_results`` it has only the failures.
    """
    failed = [
        FailedPut(place, failure_of(outcome))
        for place, outcome in enumerate(outcomes)
        if isinstance(outcome, MQError)
    ]
    results = [
        None if isinstance(outcome, MQError) else row_of_put(outcome)
        for outcome in (outcomes if has_results else ())
    ]
    return PutsRow(results, failed)
