"""The server of AMQP 1.0 and its connections: proton processes bytes, links handle its events.

A connection runs in the event loop of the server. A queue manager calls back on its own threads;
:class:`DeferredCalls` moves these calls into the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, cast

from proton import (
    Collector,
    Condition,
    Endpoint,
    Link,
    ProtonException,
    Session,
    Terminus,
    Transport,
)
from proton import (
    Connection as ProtonConnection,
)

from mayfly.admin.security.admission import Admitted, Applicant
from mayfly.channel import ClientConnection
from mayfly.client.connection import Connection
from mayfly.mqi.errors import MQError
from mayfly.runtime import Runtime
from mayfly.servers.acceptor import LOOK_SECONDS, EventLoopServer, send_at_once
from mayfly.servers.amqp import links
from mayfly.servers.amqp.addresses import DeletedTopics
from mayfly.servers.amqp.codec import DECODE_ERROR, FORCED, NOT_FOUND, AmqpError, amqp_error
from mayfly.servers.amqp.conversations import AmqpClient, ClientConversations
from mayfly.servers.amqp.entrance import Handshake, claim_container, open_connection
from mayfly.servers.amqp.frames import (
    ClientFrames,
    Echo,
    Found,
    LinkAttached,
    LinkDetached,
    ServerFrames,
    SessionBegun,
    close_with,
)
from mayfly.servers.amqp.links import (
    BatchedPuts,
    Handlers,
    LinkEndpoint,
    Raw,
    handle_events,
    raw_of,
)
from mayfly.servers.amqp.receiving import ReceivingClient
from mayfly.servers.amqp.sending import SendingClient
from mayfly.servers.amqp.service import (
    AddedAnnotations,
    AmqpLimits,
    AmqpService,
    DeferredCalls,
    DeferredSettlements,
)
from mayfly.servers.amqp.transactions import Coordinator
from mayfly.servers.budget import WAIT_SECONDS, Budget, ClientMemory, Reservation, SlowClientTimer
from mayfly.servers.clients import INSTANCE_NUMBERS, Admits, ChannelInstances
from mayfly.verbs import requests as ask

_LOG = logging.getLogger("mayfly.amqp")
#: The time that a client has for its SASL exchange and the open of its connection.
HANDSHAKE_SECONDS = 10.0
_SESSION_BYTES = 16 * 1024 * 1024
_REST_BYTES = 64 * 1024
_WORKERS = 4
#: The time that clients have to answer a close.
_CLOSING_SECONDS: Final = 1.0
#: The most connections, as many as for Mayfly's own protocol.
_MAX_CONNECTIONS: Final = 10_000


class AmqpConnection(asyncio.Protocol):
    """One AMQP connection of a client, from its first bytes to its end."""

    # A dictionary of these would take 1.3 KB more of each connection.
    __slots__ = (
        "_allowed_count",
        "_awaited",
        "_buffer",
        "_client",
        "_collector",
        "_connection",
        "_echoes",
        "_engine",
        "_found",
        "_frames",
        "_handlers",
        "_handles",
        "_handshake",
        "_is_paused",
        "_is_reading",
        "_memory",
        "_number",
        "_numbers",
        "_open_here",
        "_part_bytes",
        "_places",
        "_put_bytes",
        "_received_bytes",
        "_refusal",
        "_reservations",
        "_sent_bytes",
        "_sent_frames",
        "_sessions",
        "_timer",
        "calls",
        "conversations",
        "links",
        "message_count",
        "message_limit",
        "puts",
        "service",
        "wire",
    )

    def __init__(self, service: AmqpService, number: int, open_here: set[AmqpConnection]) -> None:
        """Take ``service``, the parts that all connections of the server share.

        ``open_here`` is the set of the server's open connections. The connection adds itself when
        its socket is open, and removes itself at its end. ``number`` tells the sockets of all
        servers of the process apart.
        """
        self.service, self._number = service, number
        self.conversations: ClientConversations | None = None
        self.links: dict[Raw, LinkEndpoint] = {}
        self._open_here = open_here
        self._buffer = bytearray()
        #: The transport of its bytes, None when it is gone.
        self.wire: asyncio.Transport | None = None
        #: None before the first bytes, and once the client is admitted.
        self._handshake: Handshake | None = None
        self._engine: Transport | None = None
        self._connection: ProtonConnection | None = None
        self._frames = ClientFrames(service.limits.max_frame_bytes)
        self._numbers = ServerFrames()
        #: The frame at the end of the bytes that proton has now, where it asks for more.
        self._found: Found | None = None
        #: Bytes of the buffer that proton may have, and has not taken yet.
        self._allowed_count = 0
        #: Sessions by the client's channel, links by its channel and handle, and the reverse.
        self._sessions: dict[int, Raw] = {}
        self._handles: dict[tuple[int, int], Raw] = {}
        self._places: dict[Raw, tuple[int, int]] = {}
        #: Frames of the server that are looked at when all are sent, None where none needs be.
        self._sent_frames: bytearray | None = None
        #: Flows of links on which the server sends, to be answered behind what is sent now.
        self._echoes: list[tuple[Echo, Raw]] = []
        self._collector = Collector()
        self._handlers: Handlers | None = None
        self.puts: BatchedPuts | None = None
        self.calls = DeferredCalls(service.loop, self.pump)
        self._timer: asyncio.TimerHandle | None = None
        self._client: AmqpClient | None = None
        #: Messages that came and that were sent.
        self.message_count = self._sent_bytes = self._received_bytes = 0
        self._is_paused = False
        budget = service.budget
        self._memory = ClientMemory(
            budget,
            service.loop,
            service.loop.call_soon_threadsafe,
            regulate=self._regulate,
            abort=self._abort_slow,
        )
        self._put_bytes = self._part_bytes = 0
        #: Room for messages that have come in part; the one that is waited for.
        self._reservations: dict[Reservation, SlowClientTimer] = {}
        self._awaited: Reservation | None = None
        self._refusal: asyncio.TimerHandle | None = None
        self._is_reading = True
        #: The longest message that the terms of this connection allow.
        self.message_limit = 0

    # Bytes.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake of a new socket; the client has ten seconds for it."""
        # One whose TLS handshake fails never comes so far.
        self._open_here.add(self)
        send_at_once(transport)
        self.wire = cast(asyncio.Transport, transport)
        self._handshake = Handshake(self.service, self.wire, self._authenticate, self._close)
        self._timer = self.service.loop.call_later(HANDSHAKE_SECONDS, self._end_late_handshake)

    def data_received(self, data: bytes) -> None:
        """Pass received bytes to the handshake or, after it, to proton."""
        self._buffer += data
        self._received_bytes += len(data)
        if self._handshake is None:
            self._feed_engine()
        else:
            self._handshake.feed(self._buffer)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the conversations when the socket has closed; called by asyncio.

        Unsettled messages return to their queues with the backout count raised.
        """
        if self._timer is not None:
            self._timer.cancel()
        wire, self.wire = self.wire, None
        try:
            if isinstance(exc, ConnectionError) and wire is not None and self._handshake is None:
                self._read_rest(wire)
            # These calls are still to be made where a pass has failed.
            self.calls.run_at_end()
        finally:
            self._leave()

    def _leave(self) -> None:
        """Release everything of the connection: links, memory counts, conversations, engine."""
        if self._handshake is not None:
            self._handshake.leave()
        self._leave_links()
        self._part_bytes = 0
        self._memory.end()
        if self._client is not None:
            self._client.leave()
        # Callbacks under way have deliveries, which proton frees now.
        self.calls.end()
        self._engine = self._connection = self._handlers = None
        self._sessions.clear()
        self._handles.clear()
        self._places.clear()
        self._open_here.discard(self)

    def _read_rest(self, wire: asyncio.Transport) -> None:
        """Read and process the frames that arrived before the client closed the socket.

        A failed write to a closed socket ends the transport, even if received bytes are still
        unread. The client is sent no more messages. Does nothing under TLS, where such bytes cannot
        be read any more.
        """
        if wire.get_extra_info("ssl_object") is not None:
            return
        for link in self.links.values():
            # No message is taken for a client that is gone.
            link.quiesce()
        try:
            with wire.get_extra_info("socket").dup() as rest:
                rest.setblocking(False)
                while data := rest.recv(_REST_BYTES):
                    self.data_received(data)
        except OSError:
            return

    def _leave_links(self) -> None:
        """End all links without an answer to the client."""
        for link in list(self.links.values()):
            link.lost()
        self.links.clear()

    def pause_writing(self) -> None:
        """Stop writing while the client does not read, and count the bytes that wait.

        asyncio calls it.
        """
        self._is_paused = True
        self._count_unread()

    def resume_writing(self) -> None:
        """Continue to write, since the client has read; called by asyncio."""
        self._is_paused = False
        self._memory.note_read()
        self.pump()

    # Bytes in memory.

    def when_memory_is_free(self, call: Callable[[], None]) -> None:
        """Run ``call`` in the event loop once memory for messages is free.

        ``call`` is dropped if the connection ends first.
        """
        self._memory.when_free(call)

    def reserve(self, count: int, refuse: Callable[[], None]) -> Reservation | None:
        """Reserve ``count`` bytes for an incomplete message; None if it must be refused now.

        Returns at once. If the memory is not free, nothing is read from the client until it is;
        after 30 seconds ``refuse`` is called, which must refuse the message. The result is None if
        the memory is not free and another message of the connection has a reservation already.
        """
        budget, loop = self.service.budget, self.service.loop
        if self._reservations:
            reservation = budget.reserve(count)
        else:
            reservation = budget.reserve(count, partial(loop.call_soon_threadsafe, self._regulate))
        if reservation is not None:
            self._reservations[reservation] = SlowClientTimer(budget, loop, self._abort_slow)
            if reservation.is_granted:
                self._reservations[reservation].begin(count)
            else:
                self._awaited = reservation
                self._refusal = loop.call_later(WAIT_SECONDS, self._refuse, refuse)
                self._regulate()
        return reservation

    def end_reservation(self, reservation: Reservation) -> None:
        """Return reserved memory, or stop waiting for it; call it once for each reservation."""
        reservation.end()
        self._reservations.pop(reservation).stop()
        if reservation is self._awaited:
            self._await_no_more()

    def count_parts(self, change: int) -> None:
        """Add ``change`` to the counted bytes of incomplete messages that have no reservation."""
        self._part_bytes += change
        self._memory.received.note(self._part_bytes + self._put_bytes)

    def count_puts(self, change: int) -> None:
        """Add ``change`` to the counted bytes of messages that are being put.

        Above the limit ``put_bytes`` nothing more is read from the client.
        """
        self._put_bytes += change
        self._memory.received.note(self._part_bytes + self._put_bytes)
        self._regulate()

    def _regulate(self) -> None:
        """Pause or resume reading from the socket.

        Reading pauses while a reservation waits, memory is used up, or too many bytes are being
        put.
        """
        awaited = self._awaited
        if awaited is not None and awaited.is_granted:
            self._reservations[awaited].begin(awaited.count)
            self._await_no_more()
            return
        is_over = self._memory.is_lacking() or self._put_bytes > self.service.limits.put_bytes
        reads = awaited is None and not is_over
        wire = self.wire
        if reads == self._is_reading or wire is None or wire.is_closing():
            return
        self._is_reading = reads
        if reads:
            wire.resume_reading()
        else:
            wire.pause_reading()

    def _await_no_more(self) -> None:
        """End the wait of a received message for memory, granted or not.

        Cancels the time limit of the wait, and resumes reading if nothing else pauses it.
        """
        self._awaited = None
        if self._refusal is not None:
            self._refusal.cancel()
            self._refusal = None
        self._regulate()

    def _refuse(self, refuse: Callable[[], None]) -> None:
        """Refuse, by ``refuse``, a message that has waited 30 seconds for memory; send the refusal.

        Nothing is read from the client during the wait. If it were longer, the client could believe
        that the connection is dead.
        """
        refuse()
        self.pump()

    def _count_unread(self) -> None:
        """Count the bytes that the client has not read against the memory budget."""
        if self.wire is None:
            return
        unsent_bytes = links.unsent_bytes_of(self.links)
        self._memory.note_unread(self.wire.get_write_buffer_size() + unsent_bytes)

    def _abort_slow(self) -> None:
        """Log a warning and abort a slow connection, because others wait for its memory."""
        text = "slow to send or to read a message, and others wait for the room that it has"
        _LOG.warning("AMQ9209E: %s is %s", self._client and self._client.applicant.address, text)
        self.abort()

    # The engine of proton.

    def _authenticate(self, applicant: Applicant, admitted: Admitted) -> None:
        """Begin AMQP with an admitted client, and pass the buffered bytes to proton.

        ``applicant`` is the program that asked to connect, ``admitted`` the user and limits that
        admission decided.
        """
        self._client = AmqpClient(self.service, self._number, applicant, admitted)
        self._handshake = None
        self.message_limit = self.service.budget.longest(admitted.max_message_bytes)
        limits = self.service.limits
        self._engine = Transport(mode=Transport.SERVER)
        self._engine.max_frame_size = limits.max_frame_bytes
        self._engine.channel_max = 255
        self._engine.idle_timeout = limits.idle_timeout_ms / 1000
        self._connection = ProtonConnection()
        self._connection.collect(self._collector)
        self._engine.bind(self._connection)
        others: dict[str, Callable[[Any], None]] = {
            "PN_CONNECTION_REMOTE_OPEN": self._opened,
            "PN_CONNECTION_REMOTE_CLOSE": self._ended,
            "PN_SESSION_REMOTE_OPEN": self._session_opened,
            "PN_SESSION_REMOTE_CLOSE": self._ended,
            "PN_LINK_REMOTE_OPEN": self._attached,
            "PN_LINK_REMOTE_CLOSE": self._closed,
            "PN_LINK_REMOTE_DETACH": self._detached,
        }
        in_order = {name: partial(self._in_order, handler) for name, handler in others.items()}
        self._handlers = Handlers(self._delivered, self._flow, in_order)
        self._feed_engine()

    def _feed_engine(self) -> None:
        """Pass received frames to proton, each after a check by :class:`ClientFrames`."""
        engine = self._engine
        assert engine is not None
        while self._buffer and self._push(engine):
            self._allowed_count, self._found = self._frames.take(self._buffer)
            if not self._push(engine):
                break
            if self._found is not None:
                self._apply(self._found)
            elif self._buffer:
                # The rest is no whole frame.
                break
        self.pump()

    def _push(self, engine: Transport) -> bool:
        """Pass the checked bytes to proton and handle its events.

        Return False if proton takes no more bytes at present. If it will never take more, the bytes
        are dropped.
        """
        while self._allowed_count:
            capacity = engine.capacity()
            if capacity <= 0:
                if capacity < 0:
                    self._buffer.clear()
                    self._allowed_count = 0
                return False
            part = bytes(self._buffer[: min(capacity, self._allowed_count)])
            engine.push(part)
            del self._buffer[: len(part)]
            self._allowed_count -= len(part)
            self._handle_events()
        return True

    def _apply(self, found: Found) -> None:
        """Do the work for a frame that proton does not do, such as an echo or a refusal."""
        if isinstance(found, (SessionBegun, LinkAttached)):
            if self._sent_frames is None:
                self._sent_frames = bytearray()
        elif isinstance(found, LinkDetached):
            # The answer is made now: proton sends what attaches before what detaches, and a client
            # that attaches the name again takes it for the link that it is about to lose.
            assert self._engine is not None
            self._engine.pending()
        elif isinstance(found, Echo):
            self._echo(found)
        else:
            del self._buffer[: found.size]
            self._refuse_frame(found.channel, found.error)

    def _refuse_frame(self, channel: int | None, error: AmqpError | None) -> None:
        """Refuse a frame: end its session with the error, or the connection if ``channel`` is None.

        Does nothing if ``error`` is None.
        """
        if error is None:
            return
        if channel is None:
            self._buffer.clear()
            assert self._connection is not None
            has_no_open = self._connection.state & Endpoint.REMOTE_UNINIT
            last = close_with(error) if has_no_open else b""
            self.stop(error.condition, error.description, then=last)
            return
        raw = self._sessions.get(channel)
        if raw is not None:
            session = Session.wrap(raw)
            self._end_links(session)
            session.condition = error.as_condition()
            session.close()

    def _echo(self, asked: Echo) -> None:
        """Answer a flow that has ``echo`` set with the state of its session or link.

        Does nothing if the session is unknown.
        """
        session = self._sessions.get(asked.channel)
        if session is None:
            return
        handle = -1 if asked.handle is None else asked.handle
        link = self._handles.get((asked.channel, handle))
        if link is not None and link in self.links:
            if links.is_sender(link):
                self._echoes.append((asked, link))
                self._sent_frames = self._sent_frames or bytearray()
            else:
                links.give_credit(link, 0)
        # proton sends a flow when this is set.
        Session.wrap(session).incoming_capacity = _SESSION_BYTES

    def pump(self) -> None:
        """Handle proton's events, run the calls deferred to this point, and send bytes.

        Does nothing before the client is admitted or after the end.
        """
        if self._engine is None:
            return
        self._handle_events()
        while True:
            self.calls.end_pass()
            self._flush()
            # Sending makes room for more messages.
            self._handle_events()
            if not self.calls.has_more:
                break
        if self._is_paused:
            self._count_unread()

    def _flush(self) -> None:
        """Write the bytes that proton has for the client, unless writing is paused.

        Closes the socket once the AMQP connection is closed.
        """
        engine, wire = self._engine, self.wire
        if engine is None or wire is None:
            return
        has_sent = False
        while not self._is_paused and (count := engine.pending()) > 0:
            data = engine.peek(count)
            if data:
                wire.write(data)
                self._sent_bytes += len(data)
                if self._sent_frames is not None:
                    self._sent_frames += data
            engine.pop(count)
            has_sent = True
        if self._sent_frames and engine.pending() == 0:
            self._note_frames(bytes(self._sent_frames))
        if has_sent:
            self.calls.run_when_sent()
        if engine.pending() < 0 or engine.closed:
            wire.close()

    def _note_frames(self, sent: bytes) -> None:
        """Note the numbers of sessions and links in sent frames, and answer waiting echoes."""
        self._sent_frames = None
        self._numbers.note(sent)
        echoes, self._echoes = self._echoes, []
        for asked, raw in echoes:
            if raw in self.links:
                link = self._numbers.link(asked.channel, Link.wrap(raw).name)
                if link is not None:
                    credit = links.unsent_credit(raw)
                    answer = self._numbers.flow_of(sent, link, asked.limit, credit)
                    if self.wire is not None:
                        self.wire.write(answer)

    def _handle_events(self) -> None:
        """Handle all events of proton.

        A malformed field ends the connection with amqp:decode-error.
        """
        if self._handlers is None:
            return
        try:
            handle_events(self._collector, self._handlers)
        except (UnicodeDecodeError, ProtonException) as error:
            # Fields that proton takes as they come, such as a name that is no UTF-8.
            self._handlers = None
            self.stop(DECODE_ERROR, f"a field is malformed: {error}")

    def _tick(self) -> None:
        """Send a heartbeat if it is due, and check the client's.

        Then set the timer for the next time.
        """
        loop, engine = self.service.loop, self._engine
        if engine is None or self.wire is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        now = loop.time()
        due = engine.tick(now)
        self.pump()
        if due:
            self._timer = loop.call_later(max(due - now, 0.001), self._tick)

    def end(self, condition: str, why: str) -> None:
        """Close the AMQP connection with an error condition; its text is ``why``.

        Before the client is admitted, only the socket is closed.
        """
        if self._connection is None:
            self._close(why)
            return
        if self._connection.state & Endpoint.LOCAL_UNINIT:
            self._connection.open()
        self._connection.condition = Condition(condition, why)
        self._connection.close()
        self.pump()

    def abort(self) -> None:
        """Abort the socket without a word to the client; does nothing if it is closed."""
        if self.wire is not None:
            self.wire.abort()

    # Events.

    def _in_order(self, handler: Callable[[Any], None], endpoint: Any) -> None:
        """Call a handler for a connection, session or link that the client begins or ends.

        Calls deferred to the end of this pass of the event loop, and deferred settlements, are made
        first: so the client's earlier frames take effect before.
        """
        self.calls.run_at_end()
        self.service.deferred_settlements.make()
        handler(endpoint)

    def _opened(self, connection: ProtonConnection) -> None:
        """Answer the client's open frame with an open, followed by a close if it is refused."""
        hostname = connection.remote_hostname or ""
        wanted = self.service.manager_named(hostname)
        client = self._client
        assert client is not None
        names = [name.upper() for name in self.service.queue_managers]
        refused = None
        if (redirect := self.service.redirect(wanted)) is not None:
            refused = redirect.as_condition()
        elif hostname.upper() in names and wanted != client.applicant.queue_manager:
            text = f"SASL has let this connection in to {client.applicant.queue_manager}"
            refused = Condition(NOT_FOUND, f"{text}, not {wanted}")
        else:
            refused = self._begin_conversations(client, connection)
        if self.conversations is None:
            open_connection(connection, client.applicant.queue_manager, refused)
        else:
            level = self.conversations.main.call(ask.AskCommandLevel())
            open_connection(connection, client.applicant.queue_manager, refused, level)

    def _begin_conversations(
        self, client: AmqpClient, connection: ProtonConnection
    ) -> Condition | None:
        """Open the first conversation with the queue manager; return None.

        If it is refused, return the condition to send, such as amqp:unauthorized-access.
        """
        try:
            conversations = client.begin(connection.remote_container or "")
        except MQError as error:
            _LOG.warning("AMQ9489E: %s; refused: %s", error, client.applicant.address or "local")
            return Condition(amqp_error(error).condition, str(error))
        refused = claim_container(connection, conversations)
        if refused is None:
            self.conversations = conversations
            self.puts = BatchedPuts(conversations, self)
            # Only now: before a client has opened, proton has no times for it.
            self.service.loop.call_soon(self._tick)
        return refused

    def status(self) -> list[ClientConnection]:
        """Return the client's conversations, as DISPLAY CONN shows them.

        [] before it is admitted.
        """
        if self._client is None:
            return []
        return self._client.status(self.message_count, self._sent_bytes, self._received_bytes)

    def quiesce(self, condition: str, why: str) -> None:
        """End the connection with a condition once its client has no work left; does not wait.

        ``condition`` is the AMQP error condition, ``why`` its text. From now on the links send no
        messages. Work is a message that the client holds, one that is being put, and an open
        transaction. The caller repeats the call until the connection has ended.
        """
        have_ended = [link.quiesce() for link in list(self.links.values())]
        conversations = self.conversations
        if all(have_ended) and (conversations is None or not conversations.has_transactions):
            self.stop(condition, why)
        else:
            self.pump()

    def stop(self, condition: str, why: str, *, then: bytes = b"") -> None:
        """Close the connection with an error condition and its text ``why``, then its socket.

        Open units of work are backed out. The bytes ``then`` are written last.
        """
        self.end(condition, why)
        if self.wire is not None:
            self.wire.write(then)
            self.wire.close()

    def _session_opened(self, session: Session) -> None:
        """Open a session that the client begins; ignored if the connection was refused."""
        if self.conversations is None:
            # The connection is refused, and this came behind its open.
            return
        if isinstance(self._found, SessionBegun):
            self._sessions[self._found.channel] = session._impl
        session.incoming_capacity = _SESSION_BYTES
        session.open()

    def _ended(self, endpoint: Endpoint) -> None:
        """Answer the end of a session, or the close of the connection, and end all links in it.

        The close of the connection is answered when its conversations have ended.
        """
        if isinstance(endpoint, Session):
            self._end_links(endpoint)
            self._forget_session(endpoint._impl)
            endpoint.close()
            endpoint.free()
        elif self.conversations is None:
            cast(Any, endpoint).close()
        else:
            # Answered, the client may come again at once: its subscriptions and its name are free.
            self._leave_links()
            # No object of proton goes along: the last thread to know one would free it.
            self.conversations.end(partial(self.calls.soon, self._answer_close))

    def _end_links(self, session: Session) -> None:
        """End all links of a session, as if the client had detached them."""
        for link in [one for one in self.links.values() if one.session_is(session)]:
            self._forget(link, is_closed=False)

    def _forget_session(self, session: Raw) -> None:
        """Forget the channel and handle numbers of a session, whose links have ended."""
        gone = {channel for channel, raw in self._sessions.items() if raw == session}
        self._sessions = {c: raw for c, raw in self._sessions.items() if c not in gone}
        self._places = {raw: place for raw, place in self._places.items() if place[0] not in gone}
        self._handles = {place: raw for raw, place in self._places.items()}
        if self._sent_frames is None:
            self._sent_frames = bytearray()

    def _free(self, link: Link) -> None:
        """Let proton free a link that both sides have ended.

        Otherwise proton keeps it as long as the connection, and clients attach a link for each
        receive.
        """
        place = self._places.pop(raw_of(link), None)
        if place is not None:
            self._handles.pop(place, None)
            self._numbers.forget(place[0], link.name)
        link.free()

    def _answer_close(self) -> None:
        """Answer the close of the client; does nothing if the connection has ended."""
        if self._connection is not None:
            self._connection.close()

    def _attached(self, proton_link: Link) -> None:
        """Open a link that the client attaches, or refuse it with a condition."""
        if self.conversations is None or not proton_link.state & Endpoint.LOCAL_UNINIT:
            return
        try:
            source = self._found.source if isinstance(self._found, LinkAttached) else b""
            link = self._endpoint(proton_link, self.conversations, source)
        except (AmqpError, MQError) as error:
            self._refuse_link(proton_link, amqp_error(error))
        else:
            raw = raw_of(proton_link)
            self.links[raw] = link
            if isinstance(self._found, LinkAttached):
                place = self._found.channel, self._found.handle
                self._handles[place], self._places[raw] = raw, place

    def _endpoint(
        self, link: Link, conversations: ClientConversations, source: bytes
    ) -> LinkEndpoint:
        """Return the server's end of a new link: for a receiver, a sender or a coordinator.

        ``source`` is the client's encoded source. Raises AmqpError or MQError if the target or
        source cannot be opened.
        """
        if link.is_sender:
            return ReceivingClient(self, link, conversations)
        if link.remote_target.type == Terminus.COORDINATOR:
            return Coordinator(self, link, conversations)
        return SendingClient(self, link, conversations, source)

    def _refuse_link(self, link: Link, error: AmqpError) -> None:
        """Refuse an attach as the specification demands: answer without a terminus, then detach."""
        (link.source if link.is_sender else link.target).type = Terminus.UNSPECIFIED
        link.open()
        link.condition = error.as_condition()
        link.close()

    def _flow(self, proton_link: Raw) -> None:
        """Tell a link that the client has given credit or asked to drain.

        Ignored for an ended link.
        """
        link = self.links.get(proton_link)
        if link is not None and self.wire is not None:
            link.flow()

    def _delivered(self, delivery: Raw, proton_link: Raw) -> None:
        """Pass a delivery event to its link; on an ended link discard the delivery."""
        link = self.links.get(proton_link)
        if link is None:
            if links.is_sender(proton_link):
                links.settle(delivery)
            else:
                links.discard(proton_link)
            return
        link.delivery(delivery)

    def _detached(self, proton_link: Link) -> None:
        """Detach a link that the client has detached; a durable subscription stays."""
        link = self.links.get(raw_of(proton_link))
        if link is not None:
            self._forget(link, is_closed=False)
        proton_link.detach()
        self._free(proton_link)

    def _closed(self, proton_link: Link) -> None:
        """Close a link that the client has closed; this removes its durable subscription."""
        link = self.links.get(raw_of(proton_link))
        if link is not None:
            self._forget(link, is_closed=True)
        proton_link.close()
        self._free(proton_link)

    def _forget(self, link: LinkEndpoint, *, is_closed: bool) -> None:
        """End the server's end of a link that the client has closed (``is_closed``) or detached."""
        self.links.pop(link.key, None)
        link.end(is_closed=is_closed)

    def close_link(self, link: LinkEndpoint, error: AmqpError) -> None:
        """Close a link on the server's initiative, with an error for the client.

        A durable subscription of the link stays.
        """
        self.links.pop(link.key, None)
        link.end(is_closed=False)
        ended = link.link
        ended.condition = error.as_condition()
        ended.close()

    # The end of bytes.

    def _end_late_handshake(self) -> None:
        """Close the connection if its client has not opened it within ten seconds."""
        if self.conversations is None:
            self._close("a client that has not come in in time")

    def _close(self, why: str) -> None:
        """Close the socket and log the reason; does nothing if it is gone."""
        if self.wire is not None:
            address = self.wire.get_extra_info("peername")
            _LOG.info("connection of %s closed: %s", address, why, extra={"cause": why})
            self.wire.close()


class AmqpServer(EventLoopServer[AmqpConnection]):
    """Serves queue managers to clients of AMQP 1.0; any thread may call its methods.

    Connections that the server ends get amqp:connection:forced.
    """

    def __init__(
        self,
        queue_managers: Sequence[str],
        admission: Admits,
        connect: Callable[[str, Admitted, Applicant], Connection],
        *,
        channel: str = "",
        limits: AmqpLimits | None = None,
        runtime: Runtime | None = None,
        budget: Budget | None = None,
        redirect: Callable[[str], AmqpError | None] = lambda _manager: None,
    ) -> None:
        """Start the event loop on its thread; nothing listens yet.

        ``admission`` checks each client by the rules of ``channel``. ``connect`` opens a
        conversation of an admitted user with a queue manager. A client whose host name is that of
        no queue manager is connected to the first one. ``runtime`` provides the thread. ``budget``
        limits the memory for messages and may be shared with other servers. ``redirect`` returns
        the error by which clients of a queue manager learn that it is not open here, None for an
        open one.
        """
        loop = asyncio.new_event_loop()
        self._executor = ThreadPoolExecutor(_WORKERS, thread_name_prefix="mayfly-amqp")
        limits = limits or AmqpLimits()
        self.service = AmqpService(
            loop,
            self._executor,
            admission,
            connect,
            queue_managers,
            limits,
            Budget() if budget is None else budget,
            channel,
            ChannelInstances(),
            DeferredSettlements(loop),
            AddedAnnotations(),
            DeletedTopics(),
            redirect,
        )
        self.open_connections: set[AmqpConnection] = set()
        super().__init__(loop, self, runtime or Runtime(), "mayfly-amqp")

    # For the acceptor.

    log, magic = _LOG, b"AMQP"
    #: The protocol header of a server that accepts only TLS (AMQP 1.0, 5.2).
    refusal_without_tls = b"AMQP\x02\x01\x00\x00"
    #: The longest time for a TLS handshake is that for the SASL exchange.
    handshake_seconds = HANDSHAKE_SECONDS

    def capacity(self) -> int:
        """Return how many more connections the server accepts now."""
        return _MAX_CONNECTIONS - len(self.open_connections)

    def new(self) -> AmqpConnection:
        """Return the asyncio protocol object for a new connection."""
        return AmqpConnection(self.service, next(INSTANCE_NUMBERS), self.open_connections)

    # For EventLoopServer.

    def _open(self) -> Collection[AmqpConnection]:
        """Return the open connections of clients."""
        return self.open_connections

    def _end(self, connection: AmqpConnection, why: str) -> None:
        """Close a connection with the AMQP error connection:forced and the text ``why``."""
        connection.stop(FORCED, why)

    def _quiesce(self, connection: AmqpConnection) -> None:
        """End a connection for an operator once its client has no work left; does not wait."""
        connection.quiesce(FORCED, "the channel was stopped by an operator")

    def _drain(self, connection: AmqpConnection, why: str) -> None:
        """End a connection, because its queue manager ends, once its client has no work left."""
        connection.quiesce(FORCED, why)

    async def _end_all(self) -> None:
        """Close all connections, wait at most one second, and abort the rest."""
        await self._cut_handshakes()
        self._each(lambda connection: connection.end(FORCED, "the server ends"))
        until = self.loop.time() + _CLOSING_SECONDS
        while self.open_connections and self.loop.time() < until:
            await asyncio.sleep(LOOK_SECONDS)
        self._each(AmqpConnection.abort)
        await asyncio.sleep(0)

    def _shut_down(self) -> None:
        """End the threads for verbs that may block."""
        self._executor.shutdown()
