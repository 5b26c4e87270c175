"""Links: the server's end of client sockets (ClientLink), in one event loop (ServerLoop).

A link cuts received bytes into frames and passes these to its conversations. It sends and checks
heartbeats, counts the bytes that it holds in memory, and closes. The server loop has the event
loop, the threads for blocking verbs, and admission.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.channel import ClientConnection
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, failure_of, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Runtime
from mayfly.servers.acceptor import send_at_once
from mayfly.servers.budget import OWN_BYTES, Budget, ClientMemory, Reservation, SlowClientTimer
from mayfly.servers.clients import (
    INSTANCE_NUMBERS,
    Admits,
    ChannelClient,
    ChannelInstances,
    Peer,
)
from mayfly.servers.managers import ManagerTable
from mayfly.verbs.contracts.channels import Welcome
from mayfly.verbs.contracts.wire import (
    ALIVE,
    DONE_BYTES,
    ENDED,
    FAILED_BYTES,
    FIRST_FRAME_BYTES,
    HEAD_BYTES,
    HEADER,
    MAGIC,
    OURS,
    Frames,
    Preamble,
    WrongFrame,
    first_value,
    framed,
    packed,
    protocol_of,
)
from mayfly.verbs.requests import Connected

_LOG = logging.getLogger("mayfly.wire")
#: Threads for verbs that may block, and for admission, which connects.
_BLOCKING_THREADS, _ADMISSION_THREADS = 8, 4
_ALIVE = framed(0, ALIVE, packed([ALIVE]))
#: A client that has sent no byte for this many ticks is cut off. A tick is half an interval of
#: heartbeats, and a live client sends something in each interval.
_SILENT_TICKS = 3
#: Ticks in the time in which a client must be admitted.
_TICKS_TO_ADMISSION = 2
#: After this many answers a turn writes: a client need not wait for the end of a long turn.
_FRAMES_AT_A_TIME = 16
#: Longer requests are counted until they are answered.
_LONG_BYTES = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one server.

    ``connections`` is the number of sockets. When ``outstanding_bytes`` of one connection wait for
    a client that does not read, nothing more is read from that client. A connection is closed when
    no client is admitted on it within ``admission_ms``. ``heartbeat_ms`` is the longest interval of
    heartbeats, 0 for no limit.
    """

    connections: int = 10_000
    outstanding_bytes: int = 1_048_576
    admission_ms: int = 30_000
    heartbeat_ms: int = 0


def packed_answer(value: Any) -> bytes:
    """Return the payload of a successful answer; one that cannot be packed becomes a failure."""
    try:
        return DONE_BYTES + packed(value)
    except ValueError as error:
        return packed_failure(
            mq_error(rc.MQRC_UNEXPECTED_ERROR, f"the answer cannot travel: {error}")
        )


def packed_failure(error: MQError) -> bytes:
    """Return the payload of an answer with an error."""
    failure = failure_of(error)
    # A detail may quote characters that UTF-8 cannot encode.
    detail = failure.detail.encode(errors="replace").decode()
    return FAILED_BYTES + packed(failure._replace(detail=detail))


class AnyConversation(Protocol):
    """A conversation as its link sees it: of a program, or of a message channel."""

    @property
    def queue_manager(self) -> str:
        """The name of the queue manager that the conversation is connected to."""

    @property
    def connection_number(self) -> int:
        """The number of the connection on that queue manager."""

    @property
    def has_queue(self) -> bool:
        """True while 64 or more requests are queued; the link then reads no more."""

    def take(self, request: int, payload: bytes) -> None:
        """Run the request with number ``request``, or queue it; the answer is sent later.

        Raises WrongFrame if the request cannot be answered.
        """

    def suspend(self) -> None:
        """Cancel the gets that wait, without an answer, because the client reads no answers.

        :meth:`resume` starts them again.
        """

    def resume(self) -> None:
        """Start the gets again that :meth:`suspend` has cancelled."""

    def status(self) -> ClientConnection:
        """Return the attributes that DISPLAY CONN shows."""

    def quiesce(self, refusal: MQError) -> bool:
        """End waiting gets with the error ``refusal``; return True if no work is left.

        Does not wait. Work is a running request, and what is not committed or settled.
        """

    def end(self) -> None:
        """Back out the unit of work, and disconnect; called on a thread that may block."""


class ConnectionTerms(NamedTuple):
    """The limits of a connection, as agreed with its first conversation.

    ``heartbeat_ms`` is the interval of heartbeats, 0 for none. ``share_conversations`` is the most
    conversations that the connection may carry, ``max_message_bytes`` the longest message.
    """

    heartbeat_ms: int
    share_conversations: int
    max_message_bytes: int


class ConnectHandler(Protocol):
    """Handles one kind of first request (CONNECT), of programs or of message channels."""

    def applicant(self, payload: bytes, peer: Peer) -> tuple[Applicant, int]:
        """Return who wants to connect, and the heartbeat interval (ms) that the client asks for.

        ``payload`` is the encoded first request, ``peer`` the client's address and certificate.
        Raises WrongFrame for a malformed request.
        """

    def terms(self, asked_ms: int, limit_ms: int, admitted: Admitted) -> ConnectionTerms:
        """Return the agreed limits of the connection.

        ``asked_ms`` is the heartbeat interval that the client asks for, ``limit_ms`` the longest of
        this server; 0 means no limit. ``admitted`` has the limits of the channel.
        """

    def begin(
        self, link: ClientLink, number: int, applicant: Applicant, admitted: Admitted
    ) -> AnyConversation:
        """Connect to the queue manager and return the conversation, ``number`` on its link.

        ``applicant`` is the program that asked to connect, ``admitted`` the user and limits that
        admission decided. It is called on a thread that may block. Raises MQError if the connect is
        refused.
        """

    def greeting(
        self, conversation: AnyConversation, admitted: Admitted, terms: ConnectionTerms
    ) -> Connected | Welcome:
        """Return the answer to the first request, with the agreed limits ``terms``."""


#: The end of an admission: the conversation with its terms, or the error.
Outcome: TypeAlias = tuple[AnyConversation, Admitted] | MQError


class Writer(Protocol):
    """A connection that collects frames and writes them at the end of a turn of the event loop."""

    def write_unsent(self) -> None:
        """Write the collected frames to the socket; does nothing without any."""


class Outbox:
    """The connections with frames to write at the end of a turn; only the event loop uses it.

    In one turn the loop runs the requests received on a connection, or the calls that other threads
    have queued. Frames are collected because one write costs as much as a put.
    """

    __slots__ = ("_writers", "is_open")

    def __init__(self) -> None:
        """Begin outside a turn: frames are written at once."""
        #: Whether a turn is under way; outside of one, frames are written at once.
        self.is_open = False
        self._writers: list[Writer] = []

    def begin(self) -> None:
        """Begin a turn of the event loop: until :meth:`end`, frames are collected."""
        self.is_open = True

    def note(self, writer: Writer) -> None:
        """Add a connection that has collected frames in this turn; called once for each turn."""
        self._writers.append(writer)

    def end(self) -> None:
        """End the turn: write all collected frames."""
        self.is_open = False
        self.write()

    def write(self) -> None:
        """Write the frames that all noted connections have collected; errors are logged."""
        if self._writers:
            writers, self._writers = self._writers, []
            for writer in writers:
                try:
                    writer.write_unsent()
                except Exception:  # noqa: BLE001 - the frames of other connections wait behind it
                    _LOG.exception("frames cannot be written")


class ServerLoop:
    """The event loop, the threads and the admission of one server.

    Only the loop itself calls its methods, except ``is_in_loop``, ``call_soon`` and
    ``run_blocking``, which any thread may call.
    """

    def __init__(
        self,
        managers: Iterable[QueueManager] | ManagerTable,
        admission: Admits,
        limits: Limits,
        budget: Budget,
        runtime: Runtime,
        connect_handlers: Mapping[int, ConnectHandler],
    ) -> None:
        """Create the event loop, which the server runs.

        ``admission`` decides which programs may connect. ``budget`` limits the memory for messages.
        ``connect_handlers`` has the handler of a first request by the number of its verb.
        """
        self.budget, self._connect_handlers = budget, connect_handlers
        self.managers = ManagerTable.of(managers)
        self.runtime = runtime
        self._admission, self.limits, self.log = admission, limits, _LOG
        self.loop = asyncio.SelectorEventLoop()
        #: The id of the thread that runs the loop; None before it runs.
        self.loop_thread: int | None = None
        self._blocking = ThreadPoolExecutor(_BLOCKING_THREADS, "mayfly-wire-verb")
        self._admitting = ThreadPoolExecutor(_ADMISSION_THREADS, "mayfly-wire-admit")
        #: Calls that other threads have left for the loop; it is woken once for all of them.
        self._calls: deque[Callable[[], object]] = deque()
        self._is_woken = False
        self.outbox = Outbox()
        self._instances = ChannelInstances()
        #: The open connections, in the order in which they came.
        self.members: dict[ClientLink, None] = {}
        #: Connections made while the server drains, whose CONNECT is refused.
        self.refused_links: dict[ClientLink, None] = {}
        self.is_draining = False
        #: Conversations whose connection broke and that are being backed out.
        self.ending_count = 0

    def shut_down(self) -> None:
        """End the threads for verbs and admission, and wait for it; the event loop has stopped."""
        self._blocking.shutdown()
        self._admitting.shutdown()

    def is_in_loop(self) -> bool:
        """Return True on the thread of the event loop."""
        return self.runtime.thread_id() == self.loop_thread

    def call_soon(self, call: Callable[[], object]) -> None:
        """Run ``call`` in the next turn of the event loop; any thread may call this.

        Does nothing if the server is closed.
        """
        self._calls.append(call)
        if not self._is_woken:
            self._is_woken = True
            try:
                self.loop.call_soon_threadsafe(self._call)
            except RuntimeError:
                # The server is closed, and so are its connections.
                self._calls.clear()

    def run_blocking(self, work: Callable[[], None]) -> None:
        """Run ``work`` on one of the threads for verbs that may block.

        Does not wait for its end.
        """
        self._blocking.submit(work)

    def handler_of(self, verb: object) -> ConnectHandler | None:
        """Return the handler of a first request; None for a verb that cannot come first."""
        return self._connect_handlers.get(verb) if type(verb) is int else None

    def manager_name(self, asked: str) -> str:
        """Return the queue manager name that a client means, unchanged unless it is blank.

        A blank name means the only queue manager served; if several are served, it stays blank.
        """
        if not asked and len(self.managers.names) == 1:
            return self.managers.names[0]
        return asked

    # For the acceptor.

    magic = MAGIC

    @property
    def handshake_seconds(self) -> float | None:
        """The longest time for a TLS handshake, the same as for admission; None without a limit."""
        return self.limits.admission_ms / SECOND_MS or None

    def capacity(self) -> int:
        """Return how many more connections the server accepts now."""
        return self.limits.connections - len(self.members)

    def new(self) -> ClientLink:
        """Return the asyncio protocol object (a link) for a new connection."""
        return ClientLink(self, next(INSTANCE_NUMBERS))

    @property
    def refusal_without_tls(self) -> bytes:
        """The answer to a Mayfly client that does not use TLS: MQRC_SSL_INITIALIZATION_ERROR."""
        error = mq_error(rc.MQRC_SSL_INITIALIZATION_ERROR, "the server speaks TLS alone")
        return OURS.packed() + framed(0, ENDED, packed([ENDED, failure_of(error)]))

    # For links.

    def enter(self, link: ClientLink) -> bool:
        """Register a new connection; return False if the limit of connections is reached.

        While the server drains, the connection is kept apart: its CONNECT is refused, and the drain
        does not wait for it.
        """
        if self.is_draining:
            self.keep_refused(link)
            return True
        if len(self.members) >= self.limits.connections:
            _LOG.warning(
                "AMQ9213E: %s is refused: %d connections", link.peer.address, len(self.members)
            )
            return False
        self.members[link] = None
        return True

    def keep_refused(self, link: ClientLink) -> None:
        """Keep a connection only until its CONNECT is refused; the drain does not wait for it."""
        self.members.pop(link, None)
        self.refused_links[link] = None

    def leave(self, link: ClientLink, conversations: list[AnyConversation]) -> None:
        """Remove a closed connection, and begin to back out its conversations."""
        self.members.pop(link, None)
        self.refused_links.pop(link, None)
        if link.instance is not None:
            self._instances.leave(link.instance)
            link.instance = None
        for conversation in conversations:
            self._back_out(conversation)

    def admit(
        self,
        applicant: Applicant,
        handler: ConnectHandler,
        link: ClientLink,
        number: int,
        on_done: Callable[[Outcome], None],
    ) -> None:
        """Ask admission whether ``applicant`` may connect, and begin a conversation; does not wait.

        The conversation gets ``number`` on ``link``. The event loop calls ``on_done`` with the
        outcome: the conversation, or an MQError. The answer to a wrong password is late, and no
        thread waits for it: otherwise clients that guess passwords would use up all threads.
        """

        def end(outcome: Outcome) -> None:
            """Report the outcome to the event loop."""
            self.call_soon(partial(self._admitted, link, applicant, on_done, outcome))

        def begin(answer: Future[Admitted]) -> None:
            """Begin the conversation after admission's answer, on a thread that may block."""
            outcome: Outcome
            try:
                admitted = answer.result()
                if self.is_draining:
                    raise mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server stops")
                outcome = handler.begin(link, number, applicant, admitted), admitted
            except Exception as error:  # noqa: BLE001 - a mistake must not let the client wait
                outcome = _refusal(error)
            end(outcome)

        def ask() -> None:
            """Ask admission, on a thread that may block."""
            absence = self.managers.absence(applicant.queue_manager, "mq")
            if absence is not None:
                end(absence)
                return
            try:
                answer = self._admission.submit(applicant)
            except Exception as error:  # noqa: BLE001 - a mistake must not let the client wait
                end(_refusal(error))
            else:
                answer.add_done_callback(lambda answer: self._on_thread(partial(begin, answer)))

        self._on_thread(ask)

    def _on_thread(self, work: Callable[[], None]) -> None:
        """Run ``work`` on a thread of admission; does nothing if the server has ended."""
        with contextlib.suppress(RuntimeError):
            self._admitting.submit(work)

    def _admitted(
        self,
        link: ClientLink,
        applicant: Applicant,
        on_done: Callable[[Outcome], None],
        outcome: Outcome,
    ) -> None:
        """Call ``on_done`` with the outcome of an admission.

        The outcome is the conversation with the decision of admission, or an MQError. The first
        conversation of a connection makes it an instance of its channel. One above MAXINST or
        MAXINSTC is backed out, and MQRC_CHANNEL_NOT_AVAILABLE is reported.
        """
        if not isinstance(outcome, MQError) and link.instance is None:
            instance = ChannelClient(applicant.queue_manager, applicant.channel, applicant.address)
            try:
                self._instances.enter(instance, outcome[1])
            except MQError as error:
                self._back_out(outcome[0])
                _LOG.warning("AMQ9489E: %s; refused: %s", error.detail, instance.address or "local")
                outcome = error
            else:
                link.instance = instance
        on_done(outcome)

    def _back_out(self, conversation: AnyConversation) -> None:
        """End a conversation on a thread that may block; does not wait for it."""
        self.ending_count += 1
        self._blocking.submit(partial(self._end, conversation))

    def _end(self, conversation: AnyConversation) -> None:
        """End a conversation on a thread that may block; errors are logged."""
        try:
            conversation.end()
        except MQError as error:
            _LOG.warning("a conversation could not be backed out: %s", error)
        except Exception:  # noqa: BLE001 - its thread serves other conversations as well
            _LOG.exception("a conversation could not be backed out")
        finally:
            self.call_soon(self._note_end)

    def _note_end(self) -> None:
        """Count a conversation as ended."""
        self.ending_count -= 1

    def _call(self) -> None:
        """Run the calls that other threads have queued; errors are logged."""
        self._is_woken = False
        calls = self._calls
        self.outbox.begin()
        while calls:
            try:
                calls.popleft()()
            except Exception:  # noqa: BLE001 - one connection's mistake is not the others'
                _LOG.exception("a call in the loop has failed")
        self.outbox.end()


def _refusal(error: Exception) -> MQError:
    """Return the MQError to send to a client whose admission has failed with any error.

    A programming error is logged and becomes MQRC_UNEXPECTED_ERROR.
    """
    if isinstance(error, MQError):
        return error
    if isinstance(error, CancelledError):
        return mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server stops")
    _LOG.error("admission has failed", exc_info=error)
    return mq_error(rc.MQRC_UNEXPECTED_ERROR, type(error).__name__)


class ClientLink(asyncio.Protocol):
    """The server's end of one client socket; only the event loop uses it."""

    def __init__(self, server_loop: ServerLoop, number: int) -> None:
        """Begin without a socket, which :meth:`connection_made` brings.

        ``number`` tells the sockets of all servers of the process apart.
        """
        self.server_loop, self.number = server_loop, number
        self._outbox = server_loop.outbox
        #: Frames that go out at the end of the turn.
        self._unsent: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        #: The transport after the last frame: over TLS nothing can be written behind it.
        self._closing: asyncio.Transport | None = None
        self.peer = Peer("", has_tls=False)
        self._frames = Frames(self._begin, self._take, FIRST_FRAME_BYTES, self._expect)
        #: Conversations by the client's numbers; None while admission is asked.
        self._conversations: dict[int, AnyConversation | None] = {}
        self._tick_seconds = server_loop.limits.admission_ms / 2_000
        self._tick: asyncio.TimerHandle | None = None
        self._silent_ticks = self._waited_ticks = 0
        self._is_quiet = True
        self._is_admitted = self._is_quiescing = False
        self._is_writable = self._is_reading = True
        #: Lengths of long requests that are not answered, by conversation and request; their sum.
        self._held: dict[tuple[int, int], int] = {}
        self._held_bytes = 0
        #: Messages of a batch whose rest is to come.
        self._kept_bytes = 0
        budget = server_loop.budget
        self._memory = ClientMemory(
            budget,
            server_loop.loop,
            server_loop.call_soon,
            regulate=self.regulate,
            abort=self._abort_slow,
        )
        #: Memory reserved for the long frame that is being received.
        self._reservation: Reservation | None = None
        self._is_held_up = self._is_behind = self._is_lost = False
        self._sending = SlowClientTimer(budget, server_loop.loop, self._abort_slow)
        self.channel = ""
        self.heartbeat_ms = 0
        self.sent_bytes = self.received_bytes = 0
        #: The instance of a channel that its first conversation has made it.
        self.instance: ChannelClient | None = None
        self._share_conversations = 1

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, or abort it if the server has too many; called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        send_at_once(transport)
        outstanding_bytes = self.server_loop.limits.outstanding_bytes
        counted_from = min(outstanding_bytes, OWN_BYTES)
        transport.set_write_buffer_limits(counted_from, counted_from // 4)
        self.peer = Peer.of(transport)
        if not self.server_loop.enter(self):
            transport.abort()
            return
        self._start_ticking()

    def data_received(self, data: bytes) -> None:
        """Process received bytes; a malformed frame is logged and ends the connection."""
        self._silent_ticks = 0
        self.received_bytes += len(data)
        self._outbox.begin()
        try:
            self._frames.take(data)
        except WrongFrame as wrong:
            self._refuse(str(wrong))
        finally:
            self._outbox.end()

    def pause_writing(self) -> None:
        """Count the bytes that the client has not read; called by asyncio when many wait."""
        self._is_behind = True
        self._count_unread()

    def resume_writing(self) -> None:
        """Read requests and continue gets again, since the client has read; called by asyncio."""
        self._is_behind = False
        self._memory.note_read()
        if self._is_writable:
            return
        self._is_writable = True
        for conversation in self._open_conversations():
            conversation.resume()
        self.regulate()

    def connection_lost(self, _error: Exception | None) -> None:
        """Release everything of the connection, and back out its conversations.

        asyncio calls it.
        """
        self._transport = None
        self._unsent.clear()
        self._is_lost = True
        self._sending.stop()
        self._end_reservation()
        self._memory.end()
        if self._tick is not None:
            self._tick.cancel()
        self._frames.end()
        conversations = self._open_conversations()
        self._conversations.clear()
        self.server_loop.leave(self, conversations)

    # Called by conversations and the server.

    def send(self, conversation: int, request: int, payload: bytes) -> None:
        """Send a frame to a conversation of the client; does not wait until it is written.

        If it answers a request of more than 1 KiB, the memory budget no longer counts the bytes of
        that request.
        """
        if self._held:
            length = self._held.pop((conversation, request), None)
            if length is not None:
                self._held_bytes -= length
                self._count()
                self.regulate()
        self._write(HEADER.pack(len(payload), conversation, request) + payload)

    def write_unsent(self) -> None:
        """Write the frames collected in this turn; does nothing without any."""
        unsent, self._unsent = self._unsent, []
        if unsent and self._transport is not None:
            self._transport.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))
            if self._is_behind:
                self._count_unread()

    def when_memory_is_free(self, call: Callable[[], None]) -> None:
        """Run ``call`` in the event loop once memory for messages is free.

        ``call`` is dropped if the connection ends first.
        """
        self._memory.when_free(call)

    def keep(self, change: int) -> None:
        """Add ``change`` to the counted bytes of messages that wait for the rest of their batch.

        A negative number subtracts.
        """
        self._kept_bytes += change
        self._count()

    def regulate(self) -> None:
        """Pause or resume reading, so that neither requests nor answers of the client pile up."""
        self._is_held_up = self._has_to_wait()
        reads = (
            self._is_writable
            and not self._is_held_up
            and self._held_bytes <= self.server_loop.limits.outstanding_bytes
            and not any(each.has_queue for each in self._open_conversations())
        )
        if reads == self._is_reading or self._transport is None:
            return
        self._is_reading = reads
        # Requests already received wait as well: the answer to each may be a long message.
        self._frames.is_paused = not reads
        if reads:
            self._transport.resume_reading()
            self.server_loop.loop.call_soon(self._continue)
        else:
            self._transport.pause_reading()

    def has_conversation(self, number: int) -> bool:
        """Return True if the conversation of connection number ``number`` uses this link."""
        return any(each.connection_number == number for each in self._open_conversations())

    def forget(self, number: int) -> None:
        """Remove conversation ``number``, which has disconnected; ignored if it is unknown."""
        self._conversations.pop(number, None)

    def end(self, error: MQError) -> None:
        """Send the reason to the client, and close the connection; a second call does nothing."""
        if self._transport is not None and not self._transport.is_closing():
            self._write(framed(0, ENDED, packed([ENDED, failure_of(error)])))
            self.write_unsent()
            self._closing, self._transport = self._transport, None
            self._closing.close()

    def quiesce(self, refusal: MQError, ending: MQError) -> None:
        """Close the connection with the error ``ending`` if no conversation has work left.

        While work is left, it stays open: waiting gets, and verbs with FAIL_IF_QUIESCING, fail with
        ``refusal``. The caller repeats the call.
        """
        self._is_quiescing = True
        if not self._is_admitted and not self._conversations:
            # Closing before its bytes are read would reset the connection without a reason.
            self.server_loop.keep_refused(self)
            return
        has_work = [
            each is None or not each.quiesce(refusal) for each in list(self._conversations.values())
        ]
        if not any(has_work):
            self.end(ending)

    def abort(self) -> None:
        """Abort the socket without a word to the client; does nothing if it is closed."""
        transport = self._transport or self._closing
        if transport is not None:
            transport.abort()

    def _open_conversations(self) -> list[AnyConversation]:
        """Return the conversations that are admitted."""
        return [each for each in self._conversations.values() if each is not None]

    def status(self) -> list[ClientConnection]:
        """Return the attributes of each conversation, as DISPLAY CONN shows them."""
        return [each.status() for each in self._open_conversations()]

    # The first bytes.

    def _begin(self, theirs: Preamble | None, first: bytes) -> bool:
        """Answer the preamble (protocol version) of a client; return True if frames may follow.

        ``theirs`` is None for another protocol, whose first bytes are ``first``. The socket is
        closed then, and for a version that does not fit.
        """
        if theirs is None:
            text = f"{self.peer} speaks {protocol_of(first)}"
        else:
            self._write(OURS.packed())
            if OURS.common_with(theirs) is not None:
                return True
            text = f"{self.peer} speaks {theirs} of the protocol, this server {OURS}"
        _LOG.warning("AMQ9207E: %s", text)
        if self._transport is not None:
            self._transport.close()
        return False

    def _take(self, number: int, request: int, payload: bytes) -> None:
        """Pass a frame to its conversation, or begin a new conversation with a CONNECT.

        ``number`` is that of the conversation, ``request`` that of the request. A heartbeat
        (conversation 0) is ignored. Another request of an unknown conversation is answered with
        MQRC_HCONN_ERROR.
        """
        if number == 0:
            self._end_reservation()
            return
        conversation = self._conversations.get(number)
        if conversation is not None:
            if len(payload) > _LONG_BYTES:
                self._held[number, request] = len(payload)
                self._held_bytes += len(payload)
                self._count()
                self._end_reservation()
                self.regulate()
            conversation.take(request, payload)
        elif number not in self._conversations and (
            handler := self.server_loop.handler_of(first_value(payload))
        ):
            self._connect(number, request, handler, payload)
        else:
            self._end_reservation()
            text = f"conversation {number} is not open"
            self.send(number, request, packed_failure(mq_error(rc.MQRC_HCONN_ERROR, text)))

    # Bytes in memory.

    def _expect(self, length: int) -> None:
        """Reserve memory for a frame of more than 64 KiB, of which only a part has been received.

        ``length`` is that of the whole frame. Reading pauses until the memory is free.
        """
        if self._kept_bytes:
            # The memory of kept messages is free again when their batch is complete.
            return
        has_capacity = partial(self.server_loop.call_soon, self._has_capacity)
        reservation = self.server_loop.budget.reserve(length, has_capacity)
        assert reservation is not None
        self._reservation = reservation
        if reservation.is_granted:
            self._sending.begin(length)
        else:
            self.regulate()

    def _has_capacity(self) -> None:
        """Continue to read, since the reserved memory is free."""
        if self._reservation is not None and self._reservation.is_granted:
            self._sending.begin(self._reservation.count)
        self.regulate()

    def _end_reservation(self) -> None:
        """Return the memory reserved for a frame of more than 64 KiB; does nothing without any."""
        if self._reservation is not None:
            self._sending.stop()
            self._reservation.end()
            self._reservation = None

    def _has_to_wait(self) -> bool:
        """Return True if memory for further bytes of the client is lacking.

        Reading then resumes later.
        """
        if self._reservation is not None and not self._reservation.is_granted:
            return True
        return not self._kept_bytes and self._memory.is_lacking()

    def _count(self) -> None:
        """Count the bytes of the client's requests and batches against the memory budget."""
        count = 0 if self._is_lost else self._held_bytes + self._kept_bytes
        if count > OWN_BYTES or self._memory.received.counted:
            self._memory.received.note(count)

    def _count_unread(self) -> None:
        """Count the bytes of answers that the client has not read against the memory budget.

        Above ``outstanding_bytes`` no more requests are read, and waiting gets are cancelled, until
        the client has read.
        """
        if self._transport is None:
            return
        count = self._transport.get_write_buffer_size()
        self._memory.note_unread(count)
        if self._is_writable and count > self.server_loop.limits.outstanding_bytes:
            self._is_writable = False
            self.regulate()
            for conversation in self._open_conversations():
                conversation.suspend()

    def _continue(self) -> None:
        """Process the requests that were received while reading was paused."""
        self._outbox.begin()
        try:
            self._frames.go_on()
        except WrongFrame as wrong:
            self._refuse(str(wrong))
        finally:
            self._outbox.end()

    def _abort_slow(self) -> None:
        """Log a warning and abort a slow connection, because others wait for its memory."""
        text = "is slow to send or to read a message, and others wait for the room that it has"
        _LOG.warning("AMQ9209E: %s %s", self.peer, text)
        self.abort()

    # Conversations.

    def _connect(self, number: int, request: int, handler: ConnectHandler, payload: bytes) -> None:
        """Ask admission for a new conversation, or refuse it at once.

        ``number`` is that of the conversation, ``request`` that of its first request, whose bytes
        are ``payload``. Returns without waiting for admission, whose answer is sent later. The
        conversation is refused while the server or connection ends, and above SHARECNV. Raises
        WrongFrame for a malformed request.
        """
        applicant, heartbeat_ms = handler.applicant(payload, self.peer)
        error, count = None, len(self._conversations)
        if self.server_loop.is_draining:
            error = mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends")
        elif self._is_quiescing or count >= self._share_conversations:
            why = ", which is about to end" if self._is_quiescing else " already"
            text = f"{count} conversations share this connection{why}"
            error = mq_error(rc.MQRC_CHANNEL_NOT_AVAILABLE, text)
        if error is not None:
            self.send(number, request, packed_failure(error))
            return
        name = self.server_loop.manager_name(applicant.queue_manager)
        applicant = replace(applicant, queue_manager=name)
        self._conversations[number] = None
        self.channel = applicant.channel
        on_done = partial(self._admitted, number, request, handler, heartbeat_ms)
        self.server_loop.admit(applicant, handler, self, number, on_done)

    def _admitted(
        self,
        number: int,
        request: int,
        handler: ConnectHandler,
        heartbeat_ms: int,
        outcome: Outcome,
    ) -> None:
        """Answer CONNECT with the outcome of its admission.

        ``number`` is that of the conversation, ``request`` that of its first request.
        ``heartbeat_ms`` is the interval that the client asked for. The first conversation also sets
        the connection's heartbeat interval, limits and SHARECNV.
        """
        if isinstance(outcome, MQError):
            self._conversations.pop(number, None)
            self.send(number, request, packed_failure(outcome))
            return
        conversation, admitted = outcome
        if self._transport is None:
            self.server_loop.leave(self, [conversation])
            return
        terms = handler.terms(heartbeat_ms, self.server_loop.limits.heartbeat_ms, admitted)
        self._conversations[number] = conversation
        if not self._is_admitted:
            self._is_admitted = True
            self._share_conversations = terms.share_conversations
            self.heartbeat_ms = terms.heartbeat_ms
            self._tick_seconds = terms.heartbeat_ms / 2_000
            self._start_ticking()
        longest_bytes = self.server_loop.budget.longest(terms.max_message_bytes)
        self._frames.max_bytes = max(self._frames.max_bytes, longest_bytes + HEAD_BYTES)
        # The first conversation of the connection has settled heartbeat and sharing.
        terms = ConnectionTerms(self.heartbeat_ms, self._share_conversations, longest_bytes)
        self.send(number, request, packed_answer(handler.greeting(conversation, admitted, terms)))

    # Heartbeats.

    def _start_ticking(self) -> None:
        """Start the timer of a tick: half a heartbeat interval, or half the time for admission.

        An interval of 0 means no timer.
        """
        if self._tick is not None:
            self._tick.cancel()
        self._tick = None
        if self._tick_seconds:
            loop = asyncio.get_running_loop()
            self._tick = loop.call_later(self._tick_seconds, self._tick_over)

    def _tick_over(self) -> None:
        """Send a heartbeat if nothing was sent since the last tick, and start the next tick.

        Abort a connection that has sent nothing for three ticks, or on which no client connects in
        time.
        """
        if self._is_admitted:
            if not self._is_held_up:
                self._silent_ticks += 1
            is_over = self._silent_ticks >= _SILENT_TICKS
            if self._is_quiet and self._is_writable and not is_over:
                self._write(_ALIVE)
            self._is_quiet = True
        else:
            # Only the time until CONNECT is limited, not that of admission.
            self._waited_ticks += 1
            is_over = self._waited_ticks >= _TICKS_TO_ADMISSION and not self._conversations
        if not is_over:
            self._start_ticking()
            return
        text = "sent nothing for two heartbeats" if self._is_admitted else "has not connected"
        _LOG.warning("AMQ9259E: %s %s", self.peer, text)
        self.abort()

    def _write(self, frame: bytes) -> None:
        """Write a frame: in a turn at its end, otherwise at once.

        Does nothing if the socket is closed.
        """
        if self._transport is None:
            return
        self._is_quiet = False
        self.sent_bytes += len(frame)
        if not self._outbox.is_open:
            self._transport.write(frame)
            if self._is_behind:
                self._count_unread()
            return
        unsent = self._unsent
        if not unsent:
            self._outbox.note(self)
        unsent.append(frame)
        # Answers that a client does not read are counted when they are written.
        if len(unsent) >= _FRAMES_AT_A_TIME or len(frame) > OWN_BYTES:
            self._outbox.write()

    def _refuse(self, text: str) -> None:
        """Log a malformed frame, and end the connection with MQRC_CONNECTION_BROKEN."""
        _LOG.warning("AMQ9503E: %s: %s", self.peer, text)
        self.end(mq_error(rc.MQRC_CONNECTION_BROKEN, text))
