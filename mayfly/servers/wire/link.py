"""One connection of a client: bytes to frames, frames to conversations, signs of life, the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from mayfly.admin.security.applicant import Applicant
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, failure_of, mq_error
from mayfly.servers.budget import OWN_BYTES, Held, Later, Patience, Room
from mayfly.servers.door import send_at_once
from mayfly.servers.wire.answers import answered, failed
from mayfly.servers.wire.conversation import Threads
from mayfly.servers.wire.entrances import AnyConversation, Entrance, entrance_of
from mayfly.servers.wire.exchange import Exchange, Outcome
from mayfly.servers.wire.peer import Peer
from mayfly.servers.wire.status import ConnectionStatus
from mayfly.verbs.contracts.wire import (
    ALIVE,
    ENDED,
    FIRST_FRAME_BYTES,
    HEAD_BYTES,
    HEADER,
    OURS,
    Frames,
    Preamble,
    WrongFrame,
    first_of,
    framed,
    packed,
    spoken_by,
)

_ALIVE = framed(0, ALIVE, packed([ALIVE]))
#: Ticks without a byte from the client after which it is taken for gone: a tick is half an
#: interval of heartbeats, and a client that lives sends something in each interval.
_SILENT_TICKS = 3
#: The time to be let in has so many ticks.
_TICKS_TO_ADMISSION = 2
#: A turn that answers many requests writes after each so many: clients need not wait for its end.
_FRAMES_AT_A_TIME = 16
#: Longer requests are counted until they are answered.
_LONG_BYTES = 1_024


class Link(asyncio.Protocol):
    """The server's end of one socket, in the loop of the server."""

    def __init__(self, exchange: Exchange, number: int) -> None:
        """Wait for the first bytes of a client."""
        self._exchange, self.number = exchange, number
        self._outbox = exchange.outbox
        #: Frames that go out at the end of the turn.
        self._unsent: list[bytes] = []
        self.threads: Threads = exchange
        self._transport: asyncio.Transport | None = None
        #: The transport once the end was written: over TLS nothing can be written behind it.
        self._closing: asyncio.Transport | None = None
        self._peer = Peer("", has_tls=False)
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
        self._room: Room | None = None
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
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        send_at_once(transport)
        outstanding_bytes = self._exchange.limits.outstanding_bytes
        counted_from = min(outstanding_bytes, OWN_BYTES)
        transport.set_write_buffer_limits(counted_from, counted_from // 4)
        self._peer = Peer.of(transport)
        if not self._exchange.enter(self):
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
        """Go on: the client has read."""
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
        self._give_back()
        if self._tick is not None:
            self._tick.cancel()
        self._frames.end()
        conversations = self._open_conversations()
        self._conversations.clear()
        self._exchange.leave(self, conversations)

    # Called by conversations and the server.

    def tell(self, conversation: int, request: int, payload: bytes) -> None:
        """Send an answer."""
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

    def longest(self, message_bytes: int) -> int:
        """Return the bytes of the longest message that may come."""
        return self._exchange.budget.longest(message_bytes)

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left of the memory for messages: nobody is to be given more."""
        return self._exchange.budget.is_used_up

    def when_room(self, call: Callable[[], None]) -> None:
        """Call something, in the loop, when something is left of it again."""
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
            and self._held_bytes <= self._exchange.limits.outstanding_bytes
            and not any(each.has_queue for each in self._open_conversations())
        )
        if reads == self._is_reading or self._transport is None:
            return
        self._is_reading = reads
        # Requests that have come already wait as well: each may be answered by a long message.
        self._frames.is_paused = not reads
        if reads:
            self._transport.resume_reading()
            self._exchange.loop.call_soon(self._go_on)
        else:
            self._transport.pause_reading()

    def has_conversation(self, number: int) -> bool:
        """Return True if a conversation, by its number on its queue manager, uses this link."""
        return any(
            each is not None and each.connection_number == number
            for each in self._conversations.values()
        )

    def forget(self, number: int) -> None:
        """Forget a conversation that has ended."""
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
            self._exchange.turn_away(self)
            return
        has_work = [
            each is None or not each.quiesce(refusal) for each in list(self._conversations.values())
        ]
        if not any(has_work):
            self.end(ending)

    def abort(self) -> None:
        """End the connection at once."""
        transport = self._transport or self._closing
        if transport is not None:
            transport.abort()

    def _open_conversations(self) -> list[AnyConversation]:
        return [each for each in self._conversations.values() if each is not None]

    def status(self) -> list[ConnectionStatus]:
        """Return the status of its conversations."""
        return [each.status() for each in self._conversations.values() if each is not None]

    @property
    def address(self) -> str:
        """The address of the client, empty for a UNIX socket."""
        return self._peer.address

    # The first bytes.

    def _begin(self, theirs: Preamble | None, first: bytes) -> bool:
        """Answer the preamble; return True if frames may follow."""
        if theirs is None:
            said = f"{self._peer} speaks {spoken_by(first)}"
        else:
            self._write(OURS.packed())
            if OURS.common_with(theirs) is not None:
                return True
            said = f"{self._peer} speaks {theirs} of the protocol, this server {OURS}"
        self._exchange.log.warning("AMQ9207E: %s", said)
        if self._transport is not None:
            self._transport.close()
        return False

    def _take(self, number: int, request: int, payload: bytes) -> None:
        if number == 0:
            self._end_room()
            return
        conversation = self._conversations.get(number)
        if conversation is not None:
            if len(payload) > _LONG_BYTES:
                self._held[number, request] = len(payload)
                self._held_bytes += len(payload)
                self._count()
                self._end_room()
                self.regulate()
            conversation.take(request, payload)
        elif number not in self._conversations and (entrance := entrance_of(first_of(payload))):
            self._connect(number, request, entrance, payload)
        else:
            self._end_room()
            said = f"conversation {number} is not open"
            self.tell(number, request, failed(mq_error(rc.MQRC_HCONN_ERROR, said)))

    # Bytes in memory.

    def _expect(self, length: int) -> None:
        """Read a long frame on when there is room for all of it."""
        if self._kept_bytes:
            # Messages that are kept are given back when the rest of their batch has come.
            return
        room = self._exchange.budget.room(length, self._told_of_room)
        assert room is not None
        self._room = room
        if room.is_there:
            self._sending.begin(length)
        else:
            self.regulate()

    def _told_of_room(self) -> None:
        """Go on, as there is room; any thread calls it."""
        self._exchange.call_soon(self._has_room)

    def _has_room(self) -> None:
        if self._room is not None and self._room.is_there:
            self._sending.begin(self._room.count)
        self.regulate()

    def _end_room(self) -> None:
        if self._room is not None:
            self._sending.stop()
            self._room.end()
            self._room = None

    def _has_to_wait(self) -> bool:
        """Return True while there is no room for what the client sends."""
        if self._room is not None and not self._room.is_there:
            return True
        if not self._in_memory.counted or self._kept_bytes or not self.is_used_up:
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
        if self._is_writable and count > self._exchange.limits.outstanding_bytes:
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

    def _give_back(self) -> None:
        self._sending.stop()
        self._reading.stop()
        self._end_room()
        self._later.end()
        self._is_lost = True
        self._count()
        self._unread.note(0)

    def _late(self) -> None:
        """End a connection that is slow, with bytes that others wait for."""
        said = "is slow to send or to read a message, and others wait for the room that it has"
        self._exchange.log.warning("AMQ9209E: %s %s", self._peer, said)
        self.abort()

    # Conversations.

    def _connect(self, number: int, request: int, entrance: Entrance, payload: bytes) -> None:
        applicant, heartbeat_ms = entrance.applicant(payload, self._peer)
        if self._exchange.is_draining:
            error = mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends")
            self.tell(number, request, failed(error))
            return
        has_room = len(self._conversations) < self._share_conversations
        if self._is_quiescing or not has_room:
            said = f"{len(self._conversations)} conversations share this connection"
            said += ", which is about to end" if self._is_quiescing else " already"
            error = mq_error(rc.MQRC_CHANNEL_NOT_AVAILABLE, said)
            self.tell(number, request, failed(error))
            return
        asked_name = applicant.queue_manager
        applicant = replace(applicant, queue_manager=self._exchange.manager_name(asked_name))
        self._conversations[number] = None
        self.channel = applicant.channel
        beginning = _Beginning(number, request, entrance, heartbeat_ms, applicant)
        self._exchange.admit(applicant, entrance, self, partial(self._admitted, beginning))

    def _admitted(self, beginning: _Beginning, outcome: Outcome) -> None:
        """Answer to CONNECT; in the loop."""
        number, request, entrance, heartbeat_ms, applicant = beginning
        if isinstance(outcome, MQError):
            self._conversations.pop(number, None)
            self.tell(number, request, failed(outcome))
            return
        entered, admitted = outcome
        conversation = entrance.begin(self, number, entered, (applicant, admitted))
        terms = entrance.terms(heartbeat_ms, self._exchange.limits.heartbeat_ms, admitted)
        terms = terms._replace(max_message_bytes=self.longest(terms.max_message_bytes))
        if self._transport is None:
            self._exchange.leave(self, [conversation])
            return
        self._conversations[number] = conversation
        if not self._is_admitted:
            self._is_admitted = True
            self.instance = entered.name, applicant.channel
            self._share_conversations = terms.share_conversations
            self.heartbeat_ms = terms.heartbeat_ms
            self._tick_seconds = terms.heartbeat_ms / 2_000
            self._start_ticking()
        most_bytes = terms.max_message_bytes + HEAD_BYTES
        self._frames.most_bytes = max(self._frames.most_bytes, most_bytes)
        # Those of the connection, which an earlier conversation has settled.
        terms = terms._replace(
            heartbeat_ms=self.heartbeat_ms, share_conversations=self._share_conversations
        )
        self.tell(number, request, answered(entrance.greeting(entered, admitted, terms)))

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
        self._exchange.log.warning("AMQ9259E: %s %s", self._peer, said)
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
        self._exchange.log.warning("AMQ9503E: %s: %s", self._peer, said)
        self.end(mq_error(rc.MQRC_CONNECTION_BROKEN, said))


class _Beginning(NamedTuple):
    """A conversation whose applicant admission looks at."""

    number: int
    request: int
    entrance: Entrance
    heartbeat_ms: int
    applicant: Applicant
