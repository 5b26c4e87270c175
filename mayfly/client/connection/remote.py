"""The connection to a queue manager that another process serves: puts, and gets that read ahead.

Puts can share a frame, or go without waiting for their answers (docs/WIRE.md).

A round trip for each message costs more than the rest of a get. So where a queue is opened with
MQOO_READ_AHEAD, or has DEFREADA(YES), one request takes several nonpersistent messages, and later
gets return them. The queue manager holds each of them as a delivery until it learns that the
program has it, within about a millisecond. Messages that the program never takes go back to their
places.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

from msgspec import Raw
from msgspec.structs import replace

from mayfly.client.connection.endpoint import (
    UNREACHABLE,
    Address,
    AnyAddress,
    Endpoint,
    further,
)
from mayfly.client.connection.interface import (
    DECIDED,
    Connection,
    OnDone,
    OnRefused,
    UnderWay,
    check_called,
    end_dropped,
)
from mayfly.client.connection.remote_conversation import SHARED_LINKS, Conversation, Way
from mayfly.client.connection.remote_link import (
    CONNECT_SECONDS,
    CONNECT_SECONDS_OF_SEVERAL,
    RemoteLink,
    SentRequest,
    answer_of,
    open_stream,
)
from mayfly.client.connection.routes import Sharing
from mayfly.client.connection.waits import VirtualTime, virtual_time_here
from mayfly.lifetime.times import SECOND_MS
from mayfly.lifetime.window import Window
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, MQError, error_of, mq_error
from mayfly.runtime import Runtime, SystemClock
from mayfly.runtime.virtual_clock import this_process
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import ID_BYTES
from mayfly.verbs.contracts.wire import (
    DONE_BYTES,
    MAX_AHEAD_IN_FRAME,
    MAX_PUTS_IN_FRAME,
    MAX_UNANSWERED_PUTS,
    PackedDescriptor,
    descriptor_of,
    packed,
)
from mayfly.verbs.messages import Delivery, GetResult, PutResult, Settlement
from mayfly.verbs.requests import (
    AskStreaming,
    Backout,
    Get,
    NewIds,
    Opened,
    Put,
    Puts,
    Request,
    Settle,
    Streaming,
    Subscribed,
    TakeAhead,
)
from mayfly.verbs.rows import PutsRow, put_of

#: Bytes of bodies that one request takes.
_BATCH_BYTES: Final = 262_144
#: A message that was read ahead longer ago is given back: the program is slow, another one may be
#: idle, and the clock of the queue manager may have been set.
_HELD_MAX_MS: Final = 1_000
#: Own time of the queue manager may run faster than that of the client by one part in this many.
_DRIFT: Final = 64
#: The largest number of gets that do not read ahead after an empty answer.
_PASSES_MAX: Final = 64
#: The get options with which the queue manager sends messages ahead.
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
    """The streaming that the open queues of a connection allow, by handle.

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


_R = TypeVar("_R")
#: After an error with one of these reasons, the next address of the list is tried.
_TRY_NEXT = UNREACHABLE | {rc.MQRC_Q_MGR_NAME_ERROR}
#: A frame takes no further put that would make it longer than this, in bytes.
_FRAME_BYTES = 32_768


def connect(
    endpoint: Endpoint,
    user: str = "",
    password: str = "",
    *,
    application: str = "",
    sharing: Sharing | None = None,
) -> RemoteConnection:
    """Connect to the queue manager of an endpoint; its addresses are tried in order.

    Each has five seconds to answer, a single one thirty.

    ``application`` becomes PutApplName. ``sharing`` None allows sharing sockets with all
    conversations of the process, up to SHARECNV of the endpoint. When all addresses fail, the error
    of the attempt that came furthest is raised.

    Raises MQRC_HOST_NOT_AVAILABLE when nobody listens, MQRC_Q_MGR_NOT_AVAILABLE for a server with
    another protocol or version. Other errors are MQRC_Q_MGR_NAME_ERROR, MQRC_UNKNOWN_CHANNEL_NAME,
    MQRC_CHANNEL_NOT_AVAILABLE, MQRC_SSL_INITIALIZATION_ERROR and MQRC_NOT_AUTHORIZED.
    """
    failure: MQError | None = None
    is_one = len(endpoint.addresses) == 1
    seconds = CONNECT_SECONDS if is_one else CONNECT_SECONDS_OF_SEVERAL
    for address in endpoint.addresses:
        try:
            return _connect_address(
                address, endpoint, user, password, application, sharing, seconds
            )
        except MQError as error:
            if error.reason not in _TRY_NEXT:
                raise
            failure = further(failure, error)
    if failure is None:
        raise mq_error(rc.MQRC_HOST_NOT_AVAILABLE, "the endpoint has no address")
    raise failure


def _connect_address(
    address: AnyAddress,
    endpoint: Endpoint,
    user: str,
    password: str,
    application: str,
    sharing: Sharing | None,
    seconds: float,
) -> RemoteConnection:
    """Connect to one address: over a shared socket with space for a conversation, or a new socket.

    ``sharing`` None shares sockets with all conversations of the process. A new socket is given up
    after ``seconds`` without an answer. Raises the errors of :func:`connect`.
    """
    way, group = None, None
    if sharing is not None:
        group = sharing.group
        share = min(sharing.max_conversations, endpoint.share_conversations)
        endpoint = endpoint._replace(share_conversations=share)
    if isinstance(address, Address) and endpoint.share_conversations > 1:
        way = Way(address, endpoint._replace(addresses=()), user, password, group)
        conversation = SHARED_LINKS.place(way)
        if conversation is not None:
            link = conversation.link
            try:
                return _connect_conversation(conversation, endpoint, user, password, application)
            except MQError as error:
                conversation.leave()
                # It was about to end, or the server has not yet forgotten one that has ended.
                if not link.is_over and error.reason != rc.MQRC_CHANNEL_NOT_AVAILABLE:
                    raise
            except BaseException:
                conversation.leave()
                raise
    runtime = Runtime()
    stream = open_stream(endpoint, address, runtime, seconds)
    # A server that is stopped takes a connection, and answers nothing.
    stream.limit(seconds)
    link = RemoteLink(stream, address, runtime)
    try:
        made = _connect_conversation(Conversation(link), endpoint, user, password, application)
        stream.limit(None)
    except BaseException:
        link.close()
        raise
    if way is not None:
        SHARED_LINKS.add(way, link)
    return made


def _connect_conversation(
    conversation: Conversation, endpoint: Endpoint, user: str, password: str, application: str
) -> RemoteConnection:
    """Send Connect on a conversation, and agree on heartbeat, sharing and message length.

    Raises MQError if the server refuses, such as MQRC_NOT_AUTHORIZED; the caller ends the
    conversation.
    """
    # A user or program name from the environment may contain bytes that are not text.
    account, program = (each.encode(errors="replace").decode() for each in (user, application))
    terms = conversation.call(
        ask.Connect(
            endpoint.channel,
            endpoint.queue_manager,
            account,
            password,
            program,
            endpoint.heartbeat_s * SECOND_MS,
            this_process(),
        )
    )
    if terms.process == this_process():
        conversation.virtual_time = virtual_time_here(terms.queue_manager, terms.number)
    max_members = min(terms.share_conversations, endpoint.share_conversations)
    conversation.link.admit(terms.heartbeat_ms, max_members)
    max_bytes = min(terms.max_message_bytes, endpoint.max_message_bytes)
    return RemoteConnection(conversation, terms.queue_manager, terms.number, max_bytes)


class RemoteConnection(Connection):
    """A connection to a queue manager of another process, over one conversation on a socket."""

    def __init__(
        self, conversation: Conversation, name: str, number: int, max_message_bytes: int
    ) -> None:
        """Use a conversation that the server has accepted.

        ``name`` is the queue manager's, ``number`` that of the conversation there.
        ``max_message_bytes`` is the longest message body that client and channel allow.
        """
        self.name, self.number = name, number
        self.runtime = conversation.link.runtime
        self.conversation = conversation
        self._max_message_bytes = max_message_bytes
        self._unanswered = UnansweredPuts(conversation)
        self._callback_puts = CallbackPuts(conversation)
        self._streams = Streams(conversation)
        #: By handle, messages that were read ahead.
        self._ahead: dict[int, MessagesAhead] = {}
        self._taken_ahead = TakenAhead(conversation)
        self._finish = weakref.finalize(self, conversation.drop)
        self._finish.atexit = False

    def call(self, request: Request[_R]) -> _R:
        """Send a request, wait for its answer and return it; raises MQError.

        Some puts return without an answer of the server, see :meth:`_prepare_put`.
        """
        if isinstance(request, ask.Put) and request.options & ask.RESPONSE_AS_QUEUE:
            request = cast("Request[_R]", self._with_response(request))
        prepares = _PREPARES.get(type(request))
        if prepares is not None:
            done = prepares(self, request)
            if done is not None:
                return cast("_R", done)
        answer = self.conversation.call(request)
        notes = _NOTES.get(type(request))
        if notes is not None:
            notes(self.conversation.open_handles, request, answer)
        return answer

    def begin(
        self,
        request: Request[_R],
        on_done: OnDone[_R],
        on_event: OnRefused | None = None,
    ) -> UnderWay:
        """Send a request and return the running verb; another thread calls ``on_done``.

        ``on_done`` gets the answer or an MQError; this method raises nothing. ``on_event`` is that
        of :meth:`Connection.begin`.
        """
        try:
            if self._ahead and type(request) in _GETS:
                self._give_back()
            if isinstance(request, ask.Put):
                self._check_length(request)
                if self._callback_puts.are_together:
                    self._callback_puts.put(request, cast("OnDone[PutResult | None]", on_done))
                    return DECIDED
            number = self.conversation.begin(request, on_done, on_refused=on_event)
        except MQError as error:
            self.notify(on_done, error)
            return DECIDED
        is_decided = type(request) in _DECIDED
        return DECIDED if is_decided else _RemoteGet(self.conversation, number)

    def notify(self, on_done: OnDone[_R], outcome: _R | MQError) -> None:
        """Call ``on_done`` with an outcome that is already known, after earlier callbacks."""
        self.conversation.link.notify(lambda _payload: on_done(outcome))

    def together(self) -> AbstractContextManager[object]:
        """Send the puts that begin within a ``with`` block in common frames, at its end."""
        return self._callback_puts.together()

    def close(self, *, commit: bool = True) -> None:
        """Disconnect (MQDISC): commit or back out the unit of work, and close all objects.

        A second call does nothing. A commit raises MQRC_CONNECTION_BROKEN when the server is gone,
        and MQRC_BACKED_OUT after an asynchronous put that failed.
        """
        conversation = self.conversation
        if conversation.is_closed:
            return
        self._finish.detach()
        try:
            if not conversation.link.is_over:
                self._give_back()
                if commit:
                    self._unanswered.check_before_commit()
                conversation.call(ask.Disconnect(commit))
        except ConnectionBroken:
            # A unit of work whose connection is gone is backed out: only a commit has failed.
            if commit:
                raise
        finally:
            conversation.close()

    def has_open(self, handle: int) -> bool:
        """Return True if an object is open under this handle number."""
        return handle in self.conversation.open_handles

    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end``, which closes a garbage-collected object: now, or before the next verb."""
        end_dropped(end, self.conversation.dropped.append)

    @property
    def virtual_time(self) -> VirtualTime | None:
        """The virtual clock of a server in this process, else None."""
        return self.conversation.virtual_time

    @property
    def is_open(self) -> bool:
        """True until the program closes the connection."""
        return not self.conversation.is_closed

    @property
    def is_broken(self) -> bool:
        """True when the server is gone and the program has not closed the connection."""
        self.conversation.link.check()
        return self.conversation.link.is_over and not self.conversation.is_closed

    @property
    def socket(self) -> int:
        """The number of the socket, 0 when it is gone."""
        link = self.conversation.link
        return 0 if link.is_over or self.conversation.is_closed else link.number

    def _check_length(self, request: ask.Put | ask.Put1) -> None:
        """Raise MQRC_MSG_TOO_BIG_FOR_CHANNEL for a message longer than the channel allows."""
        body_bytes = len(request.message.body)
        if body_bytes > self._max_message_bytes:
            text = f"{body_bytes} bytes; the channel takes {self._max_message_bytes}"
            raise mq_error(rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL, text)

    def _prepare_put(self, request: ask.Put) -> PutResult | None:
        """Send a put that needs no answer (see ``UnansweredPuts.is_one``) and return its result.

        Returns None if the put must wait for its answer: nothing is sent yet. Raises
        MQRC_MSG_TOO_BIG_FOR_CHANNEL.
        """
        self._check_length(request)
        if not request.options & c.MQPMO_ASYNC_RESPONSE:
            return None
        persistence = descriptor_of(request.descriptor).persistence
        if persistence == c.MQPER_PERSISTENCE_AS_Q_DEF:
            persistence = self._streams.of(request.handle).default_persistence
        if self._unanswered.is_one(request, persistence):
            return self._unanswered.send(request)
        return None

    def _with_response(self, request: ask.Put) -> ask.Put:
        """Return a put whose response is that of its queue; with MQPMO_ASYNC_RESPONSE if known.

        Otherwise the server applies the response of the queue.
        """
        if not self._streams.of(request.handle).answers_later:
            return request
        options = request.options ^ ask.RESPONSE_AS_QUEUE
        return replace(request, options=options | c.MQPMO_ASYNC_RESPONSE)

    def _prepare_get(self, request: ask.Get) -> GetResult | None:
        """Return a message that was read ahead; None if the get must go to the server.

        Raises MQRC_CONNECTION_BROKEN.
        """
        ahead = self._ahead.get(request.handle)
        if ahead is None:
            if request.in_unit or not self._streams.of(request.handle).reads_ahead:
                return None
            ahead = MessagesAhead(self.conversation, request.handle, self._taken_ahead)
            self._ahead[request.handle] = ahead
        return ahead.get(request)

    def _prepare_close(self, request: ask.CloseObject) -> None:
        """Give the messages back that were read ahead from a queue, before it is closed."""
        self._streams.forget(request.handle)
        ahead = self._ahead.pop(request.handle, None)
        if ahead is not None:
            ahead.give_back()

    def _prepare_get_any(self, request: ask.GetAny) -> None:
        """Give messages back that were read ahead; raises MQRC_OPTIONS_ERROR."""
        check_called(request)
        self._give_back()

    def _give_back(self) -> None:
        """Give all messages back that were read ahead; raises MQRC_CONNECTION_BROKEN."""
        for ahead in self._ahead.values():
            ahead.give_back()

    def _prepare_status(self, _request: ask.AskStatus) -> None:
        """Wait for the answers of all asynchronous puts; raise the error of the first failed call.

        This runs before an MQSTAT is sent, which reports only messages that a queue refused.
        """
        failure = self._unanswered.end()
        if failure is not None:
            raise failure


class _RemoteGet:
    """The running get or wait of a remote connection, which the server has still to answer."""

    def __init__(self, conversation: Conversation, request: int) -> None:
        """Take the number of a request that was sent on a conversation."""
        self.conversation, self._request = conversation, request

    def is_pending(self) -> bool:
        """Return False once the answer has come, even if the callback is not called yet."""
        self.conversation.wait_for_earlier_requests()
        return self.conversation.link.awaits(self._request)

    def cancel(self) -> bool:
        """Cancel the request, whose callback is then never called, and return True.

        False when the server has answered it, or the connection is broken.
        """
        conversation = self.conversation
        try:
            is_cancelled = conversation.call(ask.Cancel(self._request))
        except MQError:
            # The connection is gone; the callback gets that error.
            return False
        if is_cancelled:
            conversation.link.forget(self._request)
        return is_cancelled


def _note_opened(handles: dict[int, int], _request: ask.Open, opened: Opened) -> None:
    """Add an opened object to the open handles, with its kind (MQOT_*)."""
    handles[opened.handle] = opened.kind


def _note_subscribed(
    handles: dict[int, int], _request: Request[Subscribed], subscribed: Subscribed
) -> None:
    """Add the queue handle of a subscription to the open handles, unless it is MQHO_NONE."""
    if subscribed.handle != c.MQHO_NONE:
        handles[subscribed.handle] = c.MQOT_Q


def _note_closed(handles: dict[int, int], request: ask.CloseObject, _reason: int) -> None:
    """Remove a closed object from the open handles."""
    handles.pop(request.handle, None)


#: Functions that are called before a request is sent; an answer of theirs is that of the request.
_PREPARES: Final[dict[type[Request[Any]], Callable[[RemoteConnection, Any], Any]]] = {
    ask.Put: RemoteConnection._prepare_put,
    ask.Put1: RemoteConnection._check_length,
    ask.Get: RemoteConnection._prepare_get,
    ask.GetAny: RemoteConnection._prepare_get_any,
    ask.GetMany: lambda connection, _request: connection._give_back(),
    ask.TakeHeld: lambda connection, _request: connection._give_back(),
    ask.CloseObject: RemoteConnection._prepare_close,
    ask.CloseSubscription: lambda connection, _request: connection._give_back(),
    ask.Commit: lambda connection, _request: connection._unanswered.check_before_commit(),
    ask.AskStatus: RemoteConnection._prepare_status,
}
#: Functions that note the objects that are open, MQOT_* by number, when an answer has come.
_NOTES: Final[dict[type[Request[Any]], Callable[[dict[int, int], Any, Any], None]]] = {
    ask.Open: _note_opened,
    ask.CloseObject: _note_closed,
    ask.Subscribe: _note_subscribed,
    ask.JoinSubscription: _note_subscribed,
}
#: Requests to which messages that were read ahead are not there.
_GETS: Final = frozenset({ask.Get, ask.GetAny, ask.GetMany, ask.TakeHeld})
#: Requests that cannot be taken back.
_DECIDED: Final = frozenset({ask.Put, ask.Commit, ask.Settle})


def _head(put: Put) -> tuple[PackedDescriptor, int, int, int]:
    """Return what all puts of one frame share.

    That is the descriptor, the MQPMO options, the handle, and the handle whose context is passed
    on.
    """
    return put.descriptor, put.options, put.handle, put.context


class PutFrame:
    """Puts to one object that are sent in one frame, and the request of that frame.

    The lock of the sender guards it.
    """

    __slots__ = ("_byte_count", "_first", "_is_complete", "_messages", "request")

    def __init__(self, put: Put, request: SentRequest) -> None:
        """Begin an empty frame for puts with the same handle, options and descriptor as ``put``.

        ``request`` gets the answer to the frame.
        """
        self._first, self.request = put, request
        self._messages: list[Raw] = []
        self._byte_count = 0
        self._is_complete = False

    def has_capacity(self, put: Put, message: bytes) -> bool:
        """Return True if ``put``, whose encoded message is ``message``, may join the frame.

        It must have the handle, options and descriptor of the frame. The frame must not be full or
        complete.
        """
        return (
            not self._is_complete
            and _head(self._first) == _head(put)
            and not self.is_full
            and self._byte_count + len(message) <= _FRAME_BYTES
        )

    def add(self, message: bytes) -> None:
        """Add the packed message of a put."""
        self._messages.append(Raw(message))
        self._byte_count += len(message)

    @property
    def put_count(self) -> int:
        """The number of puts in the frame."""
        return len(self._messages)

    @property
    def is_full(self) -> bool:
        """True when the frame has the largest number of puts and must be sent."""
        return len(self._messages) >= MAX_PUTS_IN_FRAME

    def complete(self) -> None:
        """Accept no more puts."""
        self._is_complete = True

    def packed(self) -> bytes:
        """Return the bytes of the frame, which accepts no more puts."""
        self._is_complete = True
        return packed(Puts(*_head(self._first), self._messages))


class OpenPutFrame:
    """The frame that the next put may join; thread-safe."""

    def __init__(self, conversation: Conversation, begin: Callable[[Put], PutFrame]) -> None:
        """Begin without a frame; ``begin`` makes one for a first put and queues it to be sent."""
        self._conversation, self._begin = conversation, begin
        self._frame: PutFrame | None = None

    def put(self, put: Put, note: Callable[[PutFrame], object]) -> bool:
        """Add a put to the open frame or to a new one; ``note`` gets that frame before it is sent.

        Returns True if the frame is new: the caller must see that it is sent. A full frame is sent
        here. Raises MQError for a value that cannot be encoded, and for a broken connection.
        """
        message = self._conversation.packed_message(put.message)
        sender = self._conversation.link.sender
        with sender.lock:
            frame, is_new = self._frame, False
            if frame is None or not frame.has_capacity(put, message):
                frame = self._frame = self._begin(put)
                is_new = True
            frame.add(message)
            note(frame)
        if frame.is_full:
            sender.flush()
        return is_new


class CallbackPuts:
    """Puts with callbacks that share frames within ``with`` blocks."""

    def __init__(self, conversation: Conversation) -> None:
        """Begin without a frame, outside of a ``with`` block of :meth:`together`."""
        self._conversation = conversation
        self._open = OpenPutFrame(conversation, self._begun)
        #: The callbacks of frames that are not answered.
        self._waiting: dict[PutFrame, list[OnDone[PutResult | None]]] = {}
        #: Blocks in which puts travel together.
        self._block_count = 0

    @property
    def are_together(self) -> bool:
        """True within a ``with`` block of :meth:`together`."""
        return self._block_count > 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let puts share frames until the end of a ``with`` block, which sends the last one."""
        sender = self._conversation.link.sender
        with sender.lock:
            self._block_count += 1
        try:
            yield
        finally:
            with sender.lock:
                self._block_count -= 1
            sender.flush()

    def put(self, put: Put, on_done: OnDone[PutResult | None]) -> None:
        """Send a put; ``on_done`` gets its result or MQError.

        Within a ``with`` block of :meth:`together` the put is sent by the end of the block. Raises
        MQError when the put cannot be sent; ``on_done`` is then not called.
        """
        self._open.put(put, lambda frame: self._waiting[frame].append(on_done))
        if not self._block_count:
            # Another thread has ended the block meanwhile.
            self._conversation.link.sender.flush()

    def _begun(self, put: Put) -> PutFrame:
        """Begin an empty frame for puts with the handle, options and descriptor of ``put``.

        The frame is sent later, and its answer goes to :meth:`_answered`. Raises the error of a
        broken link.
        """
        request = SentRequest(
            is_doubtful=True, on_answer=lambda payload: self._answered(frame, payload)
        )
        frame = PutFrame(put, request)
        self._conversation.gather(frame.packed, request)
        self._waiting[frame] = []
        return frame

    def _answered(self, frame: PutFrame, payload: bytes | MQError) -> None:
        """Call the callbacks of a frame, each with its result or MQError.

        If the whole frame failed, each gets the error of the frame.
        """
        with self._conversation.link.sender.lock:
            # The connection may be gone before the frame was sent.
            frame.complete()
            on_dones = self._waiting.pop(frame)
        # Its callback has the frame: only a collection would find the two.
        del frame.request
        try:
            results, failed = answer_of(payload, PutsRow)
        except MQError as error:
            for on_done in on_dones:
                on_done(error)
            return
        failures = {place: error_of(failure) for place, failure in failed}
        for place, on_done in enumerate(on_dones):
            on_done(failures.get(place) or put_of(results[place]))


#: The number of MsgIds that one request asks for.
_IDS_AT_A_TIME = 256
#: The answer to puts that are all put.
_ALL_PUT = DONE_BYTES + packed(PutsRow([], []))


class UnansweredPuts:
    """Asynchronous puts without an answer yet, in the order of their answers.

    MQSTAT reports messages that their queues refuse. An error of a call itself is raised by the
    next commit, which backs out, or by the next MQSTAT.
    """

    def __init__(self, conversation: Conversation) -> None:
        """Begin without puts."""
        self._conversation = conversation
        self._frames: deque[PutFrame] = deque()
        self._open = OpenPutFrame(conversation, self._begun)
        self._put_count = 0
        self._failure: MQError | None = None
        #: MsgIds that the queue manager has handed out, and its time then.
        self._ids: deque[bytes] = deque()
        self._now_ms = 0

    def is_one(self, put: Put, persistence: int) -> bool:
        """Return True if a put with MQPMO_ASYNC_RESPONSE need not wait for its answer.

        Such a put goes to a queue, and is nonpersistent or under syncpoint. A publication waits:
        its result is needed at once. ``persistence`` is that of the message or else of the queue.
        """
        is_safe = persistence == c.MQPER_NOT_PERSISTENT or put.options & c.MQPMO_SYNCPOINT
        is_queue = self._conversation.open_handles.get(put.handle) == c.MQOT_Q
        return bool(is_safe and is_queue)

    def send(self, put: Put) -> PutResult:
        """Send a put and return its result without waiting for an answer.

        The result has MsgId and CorrelId, but no fields that the queue manager sets. Waits for
        older answers when MAX_UNANSWERED_PUTS have none. Raises MQError when the put cannot be
        sent; :meth:`end` returns a failure that is known later.
        """
        if not put.message.msg_id:
            put = replace(put, message=replace(put.message, msg_id=self._new_id()))
        if self._put_count >= MAX_UNANSWERED_PUTS:
            self._wait_for(self._frames[len(self._frames) // 2])
        if self._open.put(put, self._note):
            self._conversation.link.sender.watch()
        window = Window(self._now_ms, self._now_ms, None)
        descriptor = descriptor_of(put.descriptor)
        return PutResult(
            put.message.msg_id, put.message.correl_id, descriptor, window, rc.MQRC_NONE, "", ""
        )

    def end(self) -> MQError | None:
        """Wait for all answers; return the error of the first failed call, None if none failed.

        A second call does not return the same error again.
        """
        if self._frames:
            self._wait_for(self._frames[-1])
        failure, self._failure = self._failure, None
        return failure

    def check_before_commit(self) -> None:
        """Wait for all answers; if a call failed, back out and raise MQRC_BACKED_OUT.

        Raises MQRC_CONNECTION_BROKEN when the connection is gone.
        """
        failure = self.end()
        if failure is None:
            return
        if isinstance(failure, ConnectionBroken):
            raise failure
        self._conversation.call(Backout())
        raise mq_error(rc.MQRC_BACKED_OUT, f"an asynchronous put has failed: {failure}")

    def _begun(self, put: Put) -> PutFrame:
        """Begin an empty frame for puts with the handle, options and descriptor of ``put``.

        The frame is sent later, and joins the frames without an answer.
        """
        request = SentRequest(is_doubtful=False)
        frame = PutFrame(put, request)
        self._conversation.gather(frame.packed, request)
        self._frames.append(frame)
        return frame

    def _note(self, _frame: PutFrame) -> None:
        """Count a put that has no answer yet."""
        self._put_count += 1

    def _wait_for(self, frame: PutFrame) -> None:
        """Wait for the answer to a frame, and process all answers up to it.

        The error of the first failed put is kept for :meth:`end`.
        """
        self._conversation.link.read_until(frame.request)
        while self._frames and not self._frames[0].request.is_open:
            answered = self._frames.popleft()
            self._put_count -= answered.put_count
            self._failure = self._failure or _failure_in(answered.request.payload)

    def _new_id(self) -> bytes:
        """Return a new MsgId of the queue manager; requests 256 of them at a time."""
        if not self._ids:
            now_ms, ids = self._conversation.call(NewIds(_IDS_AT_A_TIME))
            self._now_ms = now_ms
            for at in range(0, len(ids), ID_BYTES):
                self._ids.append(ids[at : at + ID_BYTES])
        return self._ids.popleft()


def _failure_in(payload: bytes | MQError | None) -> MQError | None:
    """Return the error of the first failed put in an answer, None when all succeeded."""
    if payload == _ALL_PUT:
        return None
    try:
        _results, failed = answer_of(payload, PutsRow)
    except MQError as error:
        return error
    return error_of(failed[0].failure) if failed else None
