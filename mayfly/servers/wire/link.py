"""Connections of clients, in the loop of a server: a ClientLink for each, and an Exchange.

A link makes frames of bytes and hands them to its conversations; it shows and looks for signs of
life, counts bytes in memory, and ends. The exchange has the loop, the threads and admission.
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
from mayfly.servers.acceptor import send_at_once
from mayfly.servers.budget import OWN_BYTES, Budget, Held, Later, Patience, Reservation
from mayfly.servers.clients import INSTANCE_NUMBERS, Admits, Peer
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
    first_of,
    framed,
    packed,
    spoken_by,
)
from mayfly.verbs.requests import Connected

_LOG = logging.getLogger("mayfly.wire")
#: Threads for verbs that may block, and for admission, which connects.
_BLOCKING_THREADS, _ADMISSION_THREADS = 8, 4
_ALIVE = framed(0, ALIVE, packed([ALIVE]))
#: Ticks without a byte from the client after which it is taken for gone: a tick is half an
#: interval of heartbeats, and a client that lives sends something in each interval.
_SILENT_TICKS = 3
#: Ticks in the time that a client has to be let in.
_TICKS_TO_ADMISSION = 2
#: Answers that a turn writes together: a client need not wait for the end of a long turn.
_FRAMES_AT_A_TIME = 16
#: Longer requests are counted until they are answered.
_LONG_BYTES = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one server.

    ``connections`` is the number of sockets. When ``outstanding_bytes`` of one connection wait for
    a client that does not read, nothing more is read from the client. A connection is closed when
    no client is admitted on it within ``admission_ms``. ``heartbeat_ms`` is the longest interval of
    heartbeats; 0 is no limit.
    """

    connections: int = 10_000
    outstanding_bytes: int = 1_048_576
    admission_ms: int = 30_000
    heartbeat_ms: int = 0


def answered(value: Any) -> bytes:
    try:
        return DONE_BYTES + packed(value)
    except ValueError as error:
        return failed(mq_error(rc.MQRC_UNEXPECTED_ERROR, f"the answer cannot travel: {error}"))


def failed(error: MQError) -> bytes:
    failure = failure_of(error)
    # A detail may quote what no text can be.
    detail = failure.detail.encode(errors="replace").decode()
    return FAILED_BYTES + packed(failure._replace(detail=detail))


class AnyConversation(Protocol):
    """A conversation of whatever kind, as its connection needs it."""

    @property
    def queue_manager(self) -> str:
        """The name of its queue manager."""

    @property
    def connection_number(self) -> int:
        """Its number on its queue manager."""

    @property
    def has_queue(self) -> bool:
        """True while the requests that queue up are too many to read more."""

    def take(self, request: int, payload: bytes) -> None:
        """Take a request; raises WrongFrame for one that cannot be answered."""

    def suspend(self) -> None:
        """Take no messages for gets that wait: the client does not read its answers."""

    def resume(self) -> None:
        """Let gets wait again."""

    def status(self) -> ClientConnection:
        """Return what DISPLAY CONN shows."""

    def quiesce(self, refusal: MQError) -> bool:
        """End gets that wait; return True when no work is left."""

    def end(self) -> None:
        """Back out the unit of work; on a thread that may block."""


class ConnectionTerms(NamedTuple):
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

    def terms(self, asked_ms: int, limit_ms: int, admitted: Admitted) -> ConnectionTerms:
        """Return the terms; ``limit_ms`` is the longest interval of this server, 0 without one."""

    def begin(
        self, link: ClientLink, number: int, applicant: Applicant, admitted: Admitted
    ) -> AnyConversation:
        """Return the conversation, under the number that the client has chosen.

        It connects, on a thread that may block; raises MQError.
        """

    def greeting(
        self, conversation: AnyConversation, admitted: Admitted, terms: ConnectionTerms
    ) -> Connected | Welcome:
        """Return the answer to the first request."""


#: The end of an admission: the conversation with its terms, or the error.
Outcome: TypeAlias = tuple[AnyConversation, Admitted] | MQError


class Writer(Protocol):
    """A connection of a client that has something to write."""

    def write_unsent(self) -> None:
        """Write it."""


class Outbox:
    """The connections that have something to write at the end of a turn; all of it in the loop.

    In one turn the loop runs the requests that have come on a connection, or the calls that other
    threads have left for it. Frames are gathered because a write costs as much as a put.
    """

    __slots__ = ("_writers", "is_open")

    def __init__(self) -> None:
        #: Whether a turn is under way; outside of one, frames are written at once.
        self.is_open = False
        self._writers: list[Writer] = []

    def begin(self) -> None:
        self.is_open = True

    def note(self, writer: Writer) -> None:
        """Let a connection write at the end of the turn; it says so once."""
        self._writers.append(writer)

    def end(self) -> None:
        self.is_open = False
        self.write()

    def write(self) -> None:
        if self._writers:
            writers, self._writers = self._writers, []
            for writer in writers:
                try:
                    writer.write_unsent()
                except Exception:  # noqa: BLE001 - the frames of other connections wait behind it
                    _LOG.exception("frames cannot be written")


class Exchange:
    """The loop, the threads and admission of a server; the loop alone calls its methods.

    Any thread may call ``is_in_loop``, ``call_soon`` and ``run_blocking``.
    """

    def __init__(
        self,
        managers: Iterable[QueueManager],
        admission: Admits,
        limits: Limits,
        budget: Budget,
        entrances: Mapping[int, Entrance],
    ) -> None:
        """Make the loop, which does not run yet; ``entrances`` are by the number of their verb."""
        self.budget, self._entrances = budget, entrances
        self.managers = {manager.name: manager for manager in managers}
        self.runtime = next(iter(self.managers.values())).engine.runtime
        self._admission, self.limits, self.log = admission, limits, _LOG
        self.loop = asyncio.SelectorEventLoop()
        self._loop_thread: int | None = None
        self._blocking = ThreadPoolExecutor(_BLOCKING_THREADS, "mayfly-wire-verb")
        self._admitting = ThreadPoolExecutor(_ADMISSION_THREADS, "mayfly-wire-admit")
        #: Calls that other threads have left for the loop; it is woken once for all of them.
        self._calls: deque[Callable[[], object]] = deque()
        self._is_woken = False
        self.outbox = Outbox()
        self.members: dict[int, ClientLink] = {}
        #: Those that are refused because the server drains.
        self.turned_away: dict[int, ClientLink] = {}
        self.is_draining = self._is_ending = False
        #: Conversations whose connection broke and that are being backed out.
        self.ending_count = 0

    def link_of(self, number: int) -> ClientLink | None:
        """Return the connection that has a conversation of this number, None without one."""
        found = (link for link in self.members.values() if link.has_conversation(number))
        return next(found, None)

    def run(self) -> bool:
        """Run the loop; the turn of the server's thread, which is the last one behind a stop."""
        self._loop_thread = self.runtime.thread_id()
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        return not self._is_ending

    def stop(self) -> None:
        self._is_ending = True
        self.loop.call_soon_threadsafe(self.loop.stop)

    def shut_down(self) -> None:
        """End the threads, when the loop has stopped."""
        self._blocking.shutdown()
        self._admitting.shutdown()
        self.loop.close()

    def is_in_loop(self) -> bool:
        return self.runtime.thread_id() == self._loop_thread

    def call_soon(self, call: Callable[[], object]) -> None:
        """Let the loop call something; any thread may."""
        self._calls.append(call)
        if not self._is_woken:
            self._is_woken = True
            try:
                self.loop.call_soon_threadsafe(self._call)
            except RuntimeError:
                # The server is closed, and so are its connections.
                self._calls.clear()

    def run_blocking(self, work: Callable[[], None]) -> None:
        self._blocking.submit(work)

    def entrance_of(self, verb: object) -> Entrance | None:
        """Return the entrance of a first request; None for a verb that cannot come first."""
        return self._entrances.get(verb) if type(verb) is int else None

    def manager_name(self, asked: str) -> str:
        """Return the queue manager that a client has asked for; blank is the only one."""
        if not asked and len(self.managers) == 1:
            return next(iter(self.managers))
        return asked

    # For the door.

    @property
    def handshake_seconds(self) -> float | None:
        """The time to be let in is that of the handshake as well."""
        return self.limits.admission_ms / SECOND_MS or None

    def capacity(self) -> int:
        return self.limits.connections - len(self.members)

    def new(self) -> ClientLink:
        return ClientLink(self, next(INSTANCE_NUMBERS))

    def without_tls(self, client: str, first: bytes) -> bytes:
        """Log a client without TLS; return MQRC_SSL_INITIALIZATION_ERROR for one of ours."""
        if not first.startswith(MAGIC):
            said = "AMQ9207E: %s speaks %s, where TLS alone is spoken"
            _LOG.warning(said, client, spoken_by(first))
            return b""
        _LOG.warning("AMQ9639E: %s has no CipherSpec, and TLS alone is spoken here", client)
        error = mq_error(rc.MQRC_SSL_INITIALIZATION_ERROR, "the server speaks TLS alone")
        return OURS.packed() + framed(0, ENDED, packed([ENDED, failure_of(error)]))

    # For links.

    def enter(self, link: ClientLink) -> bool:
        """Keep a connection; False for one too many.

        The drain waits for no connection that comes meanwhile, whose CONNECT is refused.
        """
        if self.is_draining:
            self.turn_away(link)
            return True
        if len(self.members) >= self.limits.connections:
            _LOG.warning(
                "AMQ9213E: %s is refused: %d connections", link.peer.address, len(self.members)
            )
            return False
        self.members[link.number] = link
        return True

    def turn_away(self, link: ClientLink) -> None:
        """Keep a connection that is to be refused, for which the drain does not wait."""
        self.members.pop(link.number, None)
        self.turned_away[link.number] = link

    def leave(self, link: ClientLink, conversations: list[AnyConversation]) -> None:
        """Forget a connection that is gone, and back out its units of work."""
        self.members.pop(link.number, None)
        self.turned_away.pop(link.number, None)
        for conversation in conversations:
            self._back_out(conversation)

    def admit(
        self,
        applicant: Applicant,
        entrance: Entrance,
        link: ClientLink,
        number: int,
        on_done: Callable[[Outcome], None],
    ) -> None:
        """Ask admission on another thread; ``on_done`` is called in the loop.

        The answer comes late when the password is wrong. No thread waits for it: clients that guess
        passwords would otherwise use up all threads.
        """

        def end(outcome: Outcome) -> None:
            self.call_soon(partial(self._admitted, link, applicant, on_done, outcome))

        def begin(answer: Future[Admitted]) -> None:
            outcome: Outcome
            try:
                admitted = answer.result()
                if self.is_draining:
                    raise mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server stops")
                outcome = entrance.begin(link, number, applicant, admitted), admitted
            except Exception as error:  # noqa: BLE001 - a mistake must not let the client wait
                outcome = _refusal(error)
            end(outcome)

        def ask() -> None:
            try:
                answer = self._admission.submit(applicant)
            except Exception as error:  # noqa: BLE001 - a mistake must not let the client wait
                end(_refusal(error))
            else:
                answer.add_done_callback(lambda answer: self._on_thread(partial(begin, answer)))

        self._on_thread(ask)

    def _on_thread(self, work: Callable[[], None]) -> None:
        """Run work on a thread of admission; once the server has ended it is left out."""
        with contextlib.suppress(RuntimeError):
            self._admitting.submit(work)

    def _admitted(
        self,
        link: ClientLink,
        applicant: Applicant,
        on_done: Callable[[Outcome], None],
        outcome: Outcome,
    ) -> None:
        """Refuse an instance of a channel that has too many."""
        if not isinstance(outcome, MQError) and self._one_too_many(link, applicant, outcome[1]):
            self._back_out(outcome[0])
            said = f"channel {applicant.channel} has as many instances as it may"
            _LOG.warning("AMQ9489E: %s; refused: %s", said, link.peer.address or "local")
            outcome = mq_error(rc.MQRC_CHANNEL_NOT_AVAILABLE, said)
        on_done(outcome)

    def _one_too_many(self, link: ClientLink, applicant: Applicant, admitted: Admitted) -> bool:
        if link.instance is not None:
            return False
        instance = applicant.queue_manager, applicant.channel
        same = [each for each in self.members.values() if each.instance == instance]
        of_client = [each for each in same if each.peer.address == link.peer.address]
        return len(same) >= admitted.max_instances or (
            len(of_client) >= admitted.max_instances_per_client
        )

    def _back_out(self, conversation: AnyConversation) -> None:
        self.ending_count += 1
        self._blocking.submit(partial(self._end, conversation))

    def _end(self, conversation: AnyConversation) -> None:
        try:
            conversation.end()
        except MQError as error:
            _LOG.warning("a conversation could not be backed out: %s", error)
        except Exception:  # noqa: BLE001 - its thread serves other conversations as well
            _LOG.exception("a conversation could not be backed out")
        finally:
            self.call_soon(self._note_end)

    def _note_end(self) -> None:
        self.ending_count -= 1

    def _call(self) -> None:
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
    """Return the error that a client is told; a mistake of this program is logged."""
    if isinstance(error, MQError):
        return error
    if isinstance(error, CancelledError):
        return mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server stops")
    _LOG.error("admission has failed", exc_info=error)
    return mq_error(rc.MQRC_UNEXPECTED_ERROR, type(error).__name__)


class ClientLink(asyncio.Protocol):
    """The server's end of one socket, in the loop of the server."""

    def __init__(self, exchange: Exchange, number: int) -> None:
        self.exchange, self.number = exchange, number
        self._outbox = exchange.outbox
        #: Frames that go out at the end of the turn.
        self._unsent: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        #: The transport once the end was written: over TLS nothing can be written behind it.
        self._closing: asyncio.Transport | None = None
        self.peer = Peer("", has_tls=False)
        self._frames = Frames(self._begin, self._take, FIRST_FRAME_BYTES, self._expect)
        #: By the numbers that the client gives them; None while admission is asked.
        self._conversations: dict[int, AnyConversation | None] = {}
        self._tick_seconds = exchange.limits.admission_ms / 2_000
        self._tick: asyncio.TimerHandle | None = None
        self._silent_ticks = self._waited_ticks = 0
        self._is_quiet = True
        self._is_admitted = self._is_quiescing = False
        self._is_writable = self._is_reading = True
        #: Long requests that are not answered, with their lengths, and the sum of these.
        self._held: dict[tuple[int, int], int] = {}
        self._held_bytes = 0
        #: Messages of a batch whose rest is to come.
        self._kept_bytes = 0
        budget = exchange.budget
        self._in_memory, self._unread = Held(budget), Held(budget)
        #: Room for the frame that is coming.
        self._room: Reservation | None = None
        self._later = Later(budget, exchange.call_soon)
        self._is_waiting = False
        self._is_held_up = self._is_behind = self._is_lost = False
        self._sending = Patience(budget, exchange.loop, self._late)
        self._reading = Patience(budget, exchange.loop, self._late)
        self.channel = ""
        self.heartbeat_ms = 0
        self.sent_bytes = self.received_bytes = 0
        #: Queue manager and channel of its first conversation.
        self.instance: tuple[str, str] | None = None
        self._share_conversations = 1

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        send_at_once(transport)
        outstanding_bytes = self.exchange.limits.outstanding_bytes
        counted_from = min(outstanding_bytes, OWN_BYTES)
        transport.set_write_buffer_limits(counted_from, counted_from // 4)
        self.peer = Peer.of(transport)
        if not self.exchange.enter(self):
            transport.abort()
            return
        self._start_ticking()

    def data_received(self, data: bytes) -> None:
        """Take received bytes; a malformed frame ends the connection, with a line in the log."""
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
        """Count what the client has not read; more and more of it stops its requests."""
        self._is_behind = True
        self._count_unread()

    def resume_writing(self) -> None:
        self._is_behind = False
        self._reading.stop()
        self._unread.note(0)
        if self._is_writable:
            return
        self._is_writable = True
        for conversation in self._open_conversations():
            conversation.resume()
        self.regulate()

    def connection_lost(self, _error: Exception | None) -> None:
        """Back out and close all that the client has begun."""
        self._transport = None
        self._unsent.clear()
        self._is_lost = True
        self._sending.stop()
        self._reading.stop()
        self._end_reservation()
        self._later.end()
        self._count()
        self._unread.note(0)
        if self._tick is not None:
            self._tick.cancel()
        self._frames.end()
        conversations = self._open_conversations()
        self._conversations.clear()
        self.exchange.leave(self, conversations)

    # Called by conversations and the server.

    def tell(self, conversation: int, request: int, payload: bytes) -> None:
        if self._held:
            length = self._held.pop((conversation, request), None)
            if length is not None:
                self._held_bytes -= length
                self._count()
                self.regulate()
        self._write(HEADER.pack(len(payload), conversation, request) + payload)

    def write_unsent(self) -> None:
        """Write the frames that a turn has left to be written."""
        unsent, self._unsent = self._unsent, []
        if unsent and self._transport is not None:
            self._transport.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))
            if self._is_behind:
                self._count_unread()

    def when_room(self, call: Callable[[], None]) -> None:
        """Call something, in the loop, when something is left of the memory for messages again."""
        self._later.call(call)

    def keep(self, change: int) -> None:
        """Count bytes of messages that wait for the rest of their batch."""
        self._kept_bytes += change
        self._count()

    def regulate(self) -> None:
        """Read from the client as long as neither its requests nor its answers pile up."""
        self._is_held_up = self._has_to_wait()
        reads = (
            self._is_writable
            and not self._is_held_up
            and self._held_bytes <= self.exchange.limits.outstanding_bytes
            and not any(each.has_queue for each in self._open_conversations())
        )
        if reads == self._is_reading or self._transport is None:
            return
        self._is_reading = reads
        # Requests that have come already wait as well: each may be answered by a long message.
        self._frames.is_paused = not reads
        if reads:
            self._transport.resume_reading()
            self.exchange.loop.call_soon(self._go_on)
        else:
            self._transport.pause_reading()

    def has_conversation(self, number: int) -> bool:
        """Return True if a conversation, by its number on its queue manager, uses this link."""
        return any(each.connection_number == number for each in self._open_conversations())

    def forget(self, number: int) -> None:
        self._conversations.pop(number, None)

    def end(self, error: MQError) -> None:
        """Tell the client why, and end the connection."""
        if self._transport is not None and not self._transport.is_closing():
            self._write(framed(0, ENDED, packed([ENDED, failure_of(error)])))
            self.write_unsent()
            self._closing, self._transport = self._transport, None
            self._closing.close()

    def quiesce(self, refusal: MQError, ending: MQError) -> None:
        """End the connection with an error unless a conversation has work left.

        Until then gets that wait, and verbs with FAIL_IF_QUIESCING, end with the refusal.
        """
        self._is_quiescing = True
        if not self._is_admitted and not self._conversations:
            # A close behind bytes that are still to be read would reset it without a word.
            self.exchange.turn_away(self)
            return
        has_work = [
            each is None or not each.quiesce(refusal) for each in list(self._conversations.values())
        ]
        if not any(has_work):
            self.end(ending)

    def abort(self) -> None:
        transport = self._transport or self._closing
        if transport is not None:
            transport.abort()

    def _open_conversations(self) -> list[AnyConversation]:
        return [each for each in self._conversations.values() if each is not None]

    def status(self) -> list[ClientConnection]:
        return [each.status() for each in self._open_conversations()]

    # The first bytes.

    def _begin(self, theirs: Preamble | None, first: bytes) -> bool:
        """Answer the preamble; return True if frames may follow."""
        if theirs is None:
            said = f"{self.peer} speaks {spoken_by(first)}"
        else:
            self._write(OURS.packed())
            if OURS.common_with(theirs) is not None:
                return True
            said = f"{self.peer} speaks {theirs} of the protocol, this server {OURS}"
        _LOG.warning("AMQ9207E: %s", said)
        if self._transport is not None:
            self._transport.close()
        return False

    def _take(self, number: int, request: int, payload: bytes) -> None:
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
            entrance := self.exchange.entrance_of(first_of(payload))
        ):
            self._connect(number, request, entrance, payload)
        else:
            self._end_reservation()
            said = f"conversation {number} is not open"
            self.tell(number, request, failed(mq_error(rc.MQRC_HCONN_ERROR, said)))

    # Bytes in memory.

    def _expect(self, length: int) -> None:
        """Read a long frame on when there is room for all of it."""
        if self._kept_bytes:
            # Messages that are kept are given back when the rest of their batch has come.
            return
        has_capacity = partial(self.exchange.call_soon, self._has_capacity)
        reservation = self.exchange.budget.reserve(length, has_capacity)
        assert reservation is not None
        self._room = reservation
        if reservation.is_there:
            self._sending.begin(length)
        else:
            self.regulate()

    def _has_capacity(self) -> None:
        if self._room is not None and self._room.is_there:
            self._sending.begin(self._room.count)
        self.regulate()

    def _end_reservation(self) -> None:
        if self._room is not None:
            self._sending.stop()
            self._room.end()
            self._room = None

    def _has_to_wait(self) -> bool:
        """Return True while there is no room for what the client sends."""
        if self._room is not None and not self._room.is_there:
            return True
        if not self._in_memory.counted or self._kept_bytes or not self.exchange.budget.is_used_up:
            return False
        if not self._is_waiting:
            self._is_waiting = True
            self._later.call(self._wait_no_more)
        return True

    def _wait_no_more(self) -> None:
        self._is_waiting = False
        self.regulate()

    def _count(self) -> None:
        count = 0 if self._is_lost else self._held_bytes + self._kept_bytes
        if count > OWN_BYTES or self._in_memory.counted:
            self._in_memory.note(count)

    def _count_unread(self) -> None:
        """Read no more from a client that does not read, and take no messages for it."""
        if self._transport is None:
            return
        count = self._transport.get_write_buffer_size()
        if not self._unread.counted:
            self._reading.begin(count)
        self._unread.note(count)
        if self._is_writable and count > self.exchange.limits.outstanding_bytes:
            self._is_writable = False
            self.regulate()
            for conversation in self._open_conversations():
                conversation.suspend()

    def _go_on(self) -> None:
        """Take the requests that have come while nothing was read."""
        self._outbox.begin()
        try:
            self._frames.go_on()
        except WrongFrame as wrong:
            self._refuse(str(wrong))
        finally:
            self._outbox.end()

    def _late(self) -> None:
        """End a connection that is slow, with bytes that others wait for."""
        said = "is slow to send or to read a message, and others wait for the room that it has"
        _LOG.warning("AMQ9209E: %s %s", self.peer, said)
        self.abort()

    # Conversations.

    def _connect(self, number: int, request: int, entrance: Entrance, payload: bytes) -> None:
        applicant, heartbeat_ms = entrance.applicant(payload, self.peer)
        error, count = None, len(self._conversations)
        if self.exchange.is_draining:
            error = mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends")
        elif self._is_quiescing or count >= self._share_conversations:
            why = ", which is about to end" if self._is_quiescing else " already"
            said = f"{count} conversations share this connection{why}"
            error = mq_error(rc.MQRC_CHANNEL_NOT_AVAILABLE, said)
        if error is not None:
            self.tell(number, request, failed(error))
            return
        name = self.exchange.manager_name(applicant.queue_manager)
        applicant = replace(applicant, queue_manager=name)
        self._conversations[number] = None
        self.channel = applicant.channel
        on_done = partial(self._admitted, number, request, entrance, heartbeat_ms, applicant)
        self.exchange.admit(applicant, entrance, self, number, on_done)

    def _admitted(
        self,
        number: int,
        request: int,
        entrance: Entrance,
        heartbeat_ms: int,
        applicant: Applicant,
        outcome: Outcome,
    ) -> None:
        """Answer to CONNECT; in the loop."""
        if isinstance(outcome, MQError):
            self._conversations.pop(number, None)
            self.tell(number, request, failed(outcome))
            return
        conversation, admitted = outcome
        if self._transport is None:
            self.exchange.leave(self, [conversation])
            return
        terms = entrance.terms(heartbeat_ms, self.exchange.limits.heartbeat_ms, admitted)
        self._conversations[number] = conversation
        if not self._is_admitted:
            self._is_admitted = True
            self.instance = applicant.queue_manager, applicant.channel
            self._share_conversations = terms.share_conversations
            self.heartbeat_ms = terms.heartbeat_ms
            self._tick_seconds = terms.heartbeat_ms / 2_000
            self._start_ticking()
        longest_bytes = self.exchange.budget.longest(terms.max_message_bytes)
        self._frames.max_bytes = max(self._frames.max_bytes, longest_bytes + HEAD_BYTES)
        # Heartbeat and sharing are those that the first conversation of the connection has settled.
        terms = ConnectionTerms(self.heartbeat_ms, self._share_conversations, longest_bytes)
        self.tell(number, request, answered(entrance.greeting(conversation, admitted, terms)))

    # Signs of life.

    def _start_ticking(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
        self._tick = None
        if self._tick_seconds:
            loop = asyncio.get_running_loop()
            self._tick = loop.call_later(self._tick_seconds, self._tick_over)

    def _tick_over(self) -> None:
        """End a connection that is silent, or has not been let in; show that this side lives."""
        if self._is_admitted:
            if not self._is_held_up:
                self._silent_ticks += 1
            is_over = self._silent_ticks >= _SILENT_TICKS
            if self._is_quiet and self._is_writable and not is_over:
                self._write(_ALIVE)
            self._is_quiet = True
        else:
            # Admission may take its time, a client may not.
            self._waited_ticks += 1
            is_over = self._waited_ticks >= _TICKS_TO_ADMISSION and not self._conversations
        if not is_over:
            self._start_ticking()
            return
        said = "sent nothing for two heartbeats" if self._is_admitted else "has not connected"
        _LOG.warning("AMQ9259E: %s %s", self.peer, said)
        self.abort()

    def _write(self, frame: bytes) -> None:
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

    def _refuse(self, said: str) -> None:
        _LOG.warning("AMQ9503E: %s: %s", self.peer, said)
        self.end(mq_error(rc.MQRC_CONNECTION_BROKEN, said))
