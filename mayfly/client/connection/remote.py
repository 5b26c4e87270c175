"""The connection to a queue manager that another process serves (docs/WIRE.md)."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar, cast

from mayfly.client.connection.choose import Sharing
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
from mayfly.client.connection.remote_link import RemoteLink
from mayfly.client.connection.remote_puts import CallbackPuts, UnansweredPuts
from mayfly.client.connection.remote_stream import open_stream
from mayfly.client.connection.virtual_time import VirtualTime, virtual_time_here
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, MQError, mq_error
from mayfly.runtime import Runtime
from mayfly.runtime.virtual_clock import this_process
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import PutResult
from mayfly.verbs.requests import Opened, Request, Subscribed

_R = TypeVar("_R")
#: After an error with one of these reasons, the next address of the list is tried.
_TRY_NEXT = UNREACHABLE | {rc.MQRC_Q_MGR_NAME_ERROR}


def connect(
    endpoint: Endpoint,
    user: str = "",
    password: str = "",
    *,
    application: str = "",
    sharing: Sharing | None = None,
) -> RemoteConnection:
    """Connect to the queue manager of an endpoint; its addresses are tried in order.

    ``application`` becomes PutApplName. ``sharing`` None allows sharing sockets with all
    conversations of the process, up to SHARECNV of the endpoint. When all addresses fail, the error
    of the attempt that came furthest is raised.

    Raises MQRC_HOST_NOT_AVAILABLE when nobody listens, MQRC_Q_MGR_NOT_AVAILABLE for a server with
    another protocol or version. Other errors are MQRC_Q_MGR_NAME_ERROR, MQRC_UNKNOWN_CHANNEL_NAME,
    MQRC_CHANNEL_NOT_AVAILABLE, MQRC_SSL_INITIALIZATION_ERROR and MQRC_NOT_AUTHORIZED.
    """
    failure: MQError | None = None
    for address in endpoint.addresses:
        try:
            return _connect_address(address, endpoint, user, password, application, sharing)
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
) -> RemoteConnection:
    """Connect to one address: over a shared socket with space for a conversation, or a new socket.

    ``sharing`` None shares sockets with all conversations of the process. Raises the errors of
    :func:`connect`.
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
    link = RemoteLink(open_stream(endpoint, address, runtime), address, runtime)
    try:
        made = _connect_conversation(Conversation(link), endpoint, user, password, application)
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
        self._finish = weakref.finalize(self, conversation.drop)
        self._finish.atexit = False

    def call(self, request: Request[_R]) -> _R:
        """Send a request, wait for its answer and return it; raises MQError.

        Some puts return without an answer of the server, see :meth:`_prepare_put`.
        """
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
        if request.options & c.MQPMO_ASYNC_RESPONSE and self._unanswered.is_one(request):
            return self._unanswered.send(request)
        return None

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
    ask.GetAny: lambda _connection, request: check_called(request),
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
#: Requests that cannot be taken back.
_DECIDED: Final = frozenset({ask.Put, ask.Commit, ask.Settle})
