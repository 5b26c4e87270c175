"""Messages that a remote connection holds before its program asks for them (read ahead).

A round trip for each message costs more than the rest of a get. So where a queue is opened with
MQOO_READ_AHEAD, or has DEFREADA(YES), one request takes several nonpersistent messages, and later
gets return them. The queue manager holds each of them as a delivery until it is told that the
program has it, within about a millisecond. Messages that the program never takes go back to their
places.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from mayfly.client.connection.remote_conversation import Conversation
from mayfly.client.connection.remote_link import SentRequest
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError
from mayfly.runtime import SystemClock
from mayfly.runtime.virtual_clock import this_process
from mayfly.verbs.contracts.wire import MAX_AHEAD_IN_FRAME, packed
from mayfly.verbs.messages import Delivery, GetResult, Settlement
from mayfly.verbs.requests import AskStreaming, Get, Settle, Streaming, TakeAhead

#: Bytes of bodies that one request takes.
_BATCH_BYTES: Final = 262_144
#: A message that was read ahead longer ago is given back: the program is slow, another one may be
#: idle, and the clock of the queue manager may have been set.
_HELD_MAX_MS: Final = 1_000
#: Own time of the queue manager may run faster than that of the client by one part in this many.
_DRIFT: Final = 64
#: The largest number of gets that do not read ahead after an empty answer.
_PASSES_MAX: Final = 64
#: What is asked of the queue manager when messages are taken ahead.
_OF_TAKING: Final = (
    c.MQGMO_NO_SYNCPOINT
    | c.MQGMO_FAIL_IF_QUIESCING
    | c.MQGMO_PROPERTIES_FORCE_MQRFH2
    | c.MQGMO_NO_PROPERTIES
    | c.MQGMO_PROPERTIES_COMPATIBILITY
)
#: The options of gets that may return a message that was read ahead.
_OF_GETS: Final = _OF_TAKING | c.MQGMO_WAIT | c.MQGMO_ACCEPT_TRUNCATED_MSG | c.MQGMO_CONVERT
_NOT_STREAMING: Final = Streaming(
    answers_later=False, reads_ahead=False, default_persistence=c.MQPER_PERSISTENT
)


class Streams:
    """What the open queues of a connection let it do without waiting.

    The queue manager is asked at the second put or get of a handle: many programs open a queue for
    one.
    """

    def __init__(self, conversation: Conversation) -> None:
        """Begin without open queues."""
        self._conversation = conversation
        #: By handle; None after the first put or get.
        self._known: dict[int, Streaming | None] = {}

    def of(self, handle: int) -> Streaming:
        """Return what a handle allows; nothing for a topic, and on a server that does not know."""
        if handle not in self._known:
            if self._conversation.open_handles.get(handle) == c.MQOT_Q:
                self._known[handle] = None
            return _NOT_STREAMING
        known = self._known[handle]
        if known is None:
            try:
                known = self._conversation.call(AskStreaming(handle, this_process()))
            except MQError:
                # An older server; a broken connection is an error of the verb that follows.
                known = _NOT_STREAMING
            self._known[handle] = known
        return known

    def forget(self, handle: int) -> None:
        """Forget a handle that is closed; an unknown one is ignored."""
        self._known.pop(handle, None)


class _Clock(Protocol):
    """The part of a clock that tells how much time has passed."""

    def now_ms(self) -> int:
        """Return the time in ms."""


class _Held(NamedTuple):
    """A delivery, and the time of this process when it was asked for."""

    asked_ms: int
    delivery: Delivery


class _Asked(NamedTuple):
    """A request that was sent: its time, the most messages, and a function that waits for them."""

    at_ms: int
    most: int
    answer: Callable[[], list[Delivery]]


class MessagesAhead:
    """The messages of one handle that were read ahead, in the order of their gets."""

    def __init__(self, conversation: Conversation, handle: int, taken: TakenAhead) -> None:
        """Begin without messages; ``taken`` tells the queue manager which the program has."""
        self._conversation, self._handle, self._taken = conversation, handle, taken
        time = conversation.virtual_time
        self._clock: _Clock = (
            SystemClock(runtime=conversation.link.runtime) if time is None else time.clock
        )
        self._options = c.MQGMO_NONE
        self._held: deque[_Held] = deque()
        #: The next messages, which are asked for while the program takes those before them.
        self._asked: _Asked | None = None
        #: How many messages the next request takes: more for a program that takes all in time.
        self._count = 1
        #: How many gets do not read ahead from now on, and after the next empty answer.
        self._passes, self._next_passes = 0, 1

    def get(self, request: Get) -> GetResult | None:
        """Return the next message that fits a get; None if the queue manager is to be asked.

        All messages are back on the queue then. A message that has expired, or may have, is never
        returned. Raises MQRC_CONNECTION_BROKEN.
        """
        if not _is_plain(request):
            self.give_back()
            return None
        options, now_ms = request.options & _OF_TAKING, self._clock.now_ms()
        if options != self._options:
            self.give_back()
            self._options = options
        if self._held and now_ms - self._held[0].asked_ms > _HELD_MAX_MS:
            self.give_back()
            self._count = 1
        if not self._held:
            self._fill(now_ms)
            if not self._held:
                return None
            now_ms = self._clock.now_ms()
        asked_ms, (number, result, _handle) = self._held[0]
        age_ms = now_ms - asked_ms
        if not _fits(request, result, age_ms) or self._conversation.link.is_over:
            self.give_back()
            return None
        self._taken.add(number)
        self._held.popleft()
        result.message.seen_ms += age_ms
        return result

    def give_back(self) -> None:
        """Return all messages to their places on the queue; raises MQRC_CONNECTION_BROKEN."""
        if self._asked is not None:
            self._receive()
        numbers = [each.delivery.number for each in self._held]
        self._held.clear()
        if numbers:
            self._conversation.call(Settle(numbers, Settlement.RETURNED))

    def _fill(self, now_ms: int) -> None:
        """Take messages ahead, unless the last answers were empty; ask for those behind them."""
        if self._asked is None:
            if self._passes:
                self._passes -= 1
                return
            self._ask(now_ms)
        if self._receive():
            self._count = min(2 * self._count, MAX_AHEAD_IN_FRAME)
            self._ask(now_ms)
        if self._held:
            self._next_passes = 1
        else:
            self._count, self._passes = 1, self._next_passes
            self._next_passes = min(2 * self._next_passes, _PASSES_MAX)

    def _ask(self, now_ms: int) -> None:
        """Ask for the next messages, without waiting for them."""
        request = TakeAhead(self._handle, self._options, self._count, _BATCH_BYTES)
        self._asked = _Asked(now_ms, self._count, self._conversation.post(request))

    def _receive(self) -> bool:
        """Wait for the messages that were asked for; return True if there may be more.

        An error is that of the get which follows: no message comes with it.
        """
        assert self._asked is not None
        at_ms, most, answer = self._asked
        try:
            found = answer()
        except MQError:
            found = []
        self._asked = None
        self._held.extend(_Held(at_ms, delivery) for delivery in found)
        return len(found) >= most


class TakenAhead:
    """The messages that a program has got from those read ahead, which end as got.

    Their numbers go to the queue manager before the next request, and within about a millisecond.
    """

    def __init__(self, conversation: Conversation) -> None:
        """Begin without messages."""
        self._conversation = conversation
        #: The numbers of the frame that is not sent yet, None without one.
        self._numbers: list[int] | None = None

    def add(self, number: int) -> None:
        """Settle a delivery as TAKEN, soon; raises MQRC_CONNECTION_BROKEN."""
        sender = self._conversation.link.sender
        with sender.lock:
            if self._numbers is None:
                self._conversation.gather(self._packed, SentRequest(is_doubtful=False))
                self._numbers = []
            self._numbers.append(number)
        sender.watch()

    def _packed(self) -> bytes:
        """Return the request for the numbers so far; later ones come with another one."""
        numbers, self._numbers = self._numbers, None
        assert numbers is not None
        return packed(Settle(numbers, Settlement.TAKEN))


def _is_plain(request: Get) -> bool:
    """Return True if a get takes the next message of a queue, outside of syncpoint."""
    return not (
        request.options & ~_OF_GETS
        or request.msg_id
        or request.correl_id
        or request.group_id
        or request.sequence_number is not None
        or request.offset is not None
        or request.token is not None
        or request.in_handle
    )


def _fits(request: Get, result: GetResult, age_ms: int) -> bool:
    """Return True if a get returns a message that was asked for ``age_ms`` ago as it is.

    It is whole in the buffer, and has not expired for certain.
    """
    message = result.message
    if request.max_length is not None and len(message.body) > request.max_length:
        return False
    if result.failure is not None or result.warning:
        return False
    if request.with_extension and message.descriptor.msg_flags:
        # An MQMDE comes before the data.
        return False
    # The queue manager has looked at its clock after the request was sent.
    until_ms = message.seen_ms + age_ms + age_ms // _DRIFT + 1
    return message.expire_at_ms is None or until_ms < message.expire_at_ms
