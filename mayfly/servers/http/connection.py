"""One HTTP connection of a client: its MQ conversations, admissions, request bodies, and waits.

A wait is that of a coroutine for an MQ verb: a callback becomes a future, and a shutdown ends
gets that wait.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeVar

from starlette.requests import ClientDisconnect, HTTPConnection, Request

from mayfly.channel import ClientConnection
from mayfly.client.connection import Connection, OnDone, UnderWay
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.servers.budget import OWN_BYTES, WAIT_SECONDS, Budget, MemoryUse, Reservation
from mayfly.servers.clients import INSTANCE_NUMBERS, ChannelClient, Peer, close_all
from mayfly.servers.http.problems import HttpError

_LOG = logging.getLogger("mayfly.http")
#: How long later requests of a connection need no new admission. After this time a changed
#: password, or a stopped channel, is noticed.
CACHE_SECONDS: Final = 5.0
#: APPLTAG, and MQMD.PutApplName.
APPLICATION = "HTTP"
#: Where tcp_info of Linux has the bytes that were acknowledged, and those that came.
_BYTES_OFFSET, _TCP_INFO_BYTES = 120, 136
#: A proxy may send the requests of many users over one connection.
_MAX_KEPT = 16


class ConversationKey(NamedTuple):
    """The key of an MQ conversation of a connection: queue manager, channel, admitted user."""

    queue_manager: str
    channel: str
    terms: Hashable


class ChannelAdmission(NamedTuple):
    """One admission to a channel: the user, when (ms since 1970), and the function that ends it."""

    user: str
    connected_ms: int
    leave: Callable[[], None]


class HttpConnection:
    """One HTTP connection of a client, with the MQ conversations that its requests use.

    It belongs to the server's event loop; other threads may call ``statuses``, ``end`` and
    ``quiesce`` only.
    """

    def __init__(
        self, peer: Peer, loop: asyncio.AbstractEventLoop, budget: Budget | None = None
    ) -> None:
        """Start without conversations; ``peer`` is the client, ``loop`` the event loop.

        The connection takes memory from ``budget``; None means a new budget of its own.
        """
        self.budget = Budget() if budget is None else budget
        #: The answer that is being sent.
        self.answer = MemoryUse(self.budget)
        self.peer = peer
        self.number, self.request_count = next(INSTANCE_NUMBERS), 0
        #: The socket of the connection; loops have stand-ins for it.
        self.socket: Any = None
        self.is_lost = self.is_quiescing = False
        self._admissions: dict[ChannelClient, ChannelAdmission] = {}
        self.cache = VisitCache(loop)
        self._loop = loop
        self._closing: asyncio.Future[None] | None = None
        self._conversations: dict[ConversationKey, Connection] = {}
        self._users = 0
        #: Ends the connection at once, whatever its client has still to read.
        self.reset: Callable[[], None] = self.client_gone
        #: Closes it behind the request under way.
        self.close_after_request: Callable[[], None] = self.client_gone
        #: Starts the time for the request under way anew, in this number of seconds.
        self.restart_time_limit: Callable[[float], None] = lambda _seconds: None

    def when_closing(self) -> asyncio.Future[None]:
        """Return a future that is done when the client has gone or an operator ends the connection.

        Each call returns the same future.
        """
        if self._closing is None:
            self._closing = self._loop.create_future()
            if self.is_lost or self.is_quiescing:
                self._closing.set_result(None)
        return self._closing

    async def reserve(self, count: int) -> Reservation:
        """Reserve memory for a message of ``count`` bytes; the caller ends the reservation later.

        Waits for the memory up to 30 seconds, which do not count as time of the request. Raises
        MQRC_RESOURCE_PROBLEM if the memory is not free by then, or if the client has gone.
        """
        granted: asyncio.Future[None] = self._loop.create_future()
        notify = partial(self._loop.call_soon_threadsafe, finish, granted)
        reservation = self.budget.reserve(count, notify)
        assert reservation is not None
        if not reservation.is_granted:
            await self._wait_for(reservation, granted)
        return reservation

    async def _wait_for(self, reservation: Reservation, granted: asyncio.Future[None]) -> None:
        """Wait until a reservation is granted, at most 30 seconds.

        ``granted`` is done when it is granted. Raises MQRC_RESOURCE_PROBLEM, and ends the
        reservation, after that time or if the client has gone.
        """
        self.restart_time_limit(WAIT_SECONDS)
        ends: list[asyncio.Future[None]] = [granted, self.when_closing()]
        try:
            await asyncio.wait(ends, timeout=WAIT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            reservation.end()
            raise
        self.restart_time_limit(0)
        if not reservation.is_granted or self.is_lost:
            reservation.end()
            text = "the messages of all connections together leave no room: send it again"
            raise mq_error(rc.MQRC_RESOURCE_PROBLEM, text)

    def add_admission(self, place: ChannelClient, admission: ChannelAdmission) -> None:
        """Record an admission to a channel; its ``leave`` is called when the client has gone.

        ``place`` is the channel with the client's address. An admission makes the connection an
        instance of the channel.
        """
        self._admissions[place] = admission

    def is_admitted(self, place: ChannelClient) -> bool:
        """Return True if this connection has an admission to ``place``, a channel and address."""
        return place in self._admissions

    def statuses(self) -> list[ClientConnection]:
        """Return the status of each conversation, or of each channel without an open conversation.

        A client that sends only administrative requests has no conversation, and so no number of
        one: its status has minus the number of the connection in that field. Empty before the first
        admission.
        """
        numbers: dict[tuple[str, str], list[int]] = {}
        for key, conversation in list(self._conversations.items()):
            if conversation.is_open:
                numbers.setdefault(key[:2], []).append(conversation.number)
        sent_bytes, received_bytes = _bytes_of(self.socket)
        return [
            ClientConnection(
                number,
                self.number,
                place.queue_manager,
                place.channel,
                admission.user,
                self.peer.address,
                APPLICATION,
                self.peer.has_tls,
                admission.connected_ms,
                0 if position else self.request_count,
                0,
                sent_bytes,
                received_bytes,
            )
            for place, admission in list(self._admissions.items())
            for position, number in enumerate(numbers.get(place[:2]) or [-self.number])
        ]

    def end(self) -> None:
        """End the connection soon, without waiting for its request; returns at once.

        Any thread may call it.
        """
        self._loop.call_soon_threadsafe(self._end)

    def quiesce(self) -> None:
        """End the connection after its running request; any thread may call it.

        A request that waits for a message ends its wait at once.
        """
        self._loop.call_soon_threadsafe(self._quiesce)

    def _end(self) -> None:
        """Reset the connection, unless it is lost; runs in the event loop."""
        if not self.is_lost:
            self.reset()

    def _quiesce(self) -> None:
        """End waiting gets, and close the connection after its request; runs in the event loop."""
        self.is_quiescing = True
        self._notify_closing()
        if not self.is_lost:
            self.close_after_request()

    def _notify_closing(self) -> None:
        """Set the future of :meth:`when_closing`, unless it is done or was never requested."""
        if self._closing is not None and not self._closing.done():
            self._closing.set_result(None)

    def conversation(self, key: ConversationKey, connect: Callable[[], Connection]) -> Connection:
        """Return the open conversation of ``key``, else a new one from ``connect``.

        ``key`` names queue manager, channel and user. If the connection already has 16
        conversations, all 16 are closed before the new one is opened. Raises the MQError of
        ``connect``.
        """
        found = self._conversations.get(key)
        if found is None or not found.is_open:
            if len(self._conversations) >= _MAX_KEPT:
                self._close()
            self._conversations[key] = found = connect()
        return found

    def __enter__(self) -> None:
        """Keep the conversations open for a ``with`` block, even if the client goes meanwhile."""
        self._users += 1

    def __exit__(self, *_raised: object) -> None:
        """Close the conversations if the client has gone and no other request uses them.

        Exceptions of the block are raised on.
        """
        self._users -= 1
        if self.is_lost and not self._users:
            self._close()

    def client_gone(self) -> None:
        """Note that the client has gone; end its admissions and its conversations.

        If a request still uses the conversations, they end after that request.
        """
        self.is_lost = True
        self._notify_closing()
        admissions, self._admissions = self._admissions, {}
        for admission in admissions.values():
            admission.leave()
        if not self._users:
            self._close()

    def _close(self) -> None:
        """Close all conversations in a thread, because a backout may wait for the disk."""
        closing = list(self._conversations.values())
        self._conversations.clear()
        if closing:
            # A backout may wait for the disk.
            self._loop.run_in_executor(None, close_all, closing, _LOG)


class VisitCache:
    """A cache of at most 16 values, each valid for 5 seconds; a new value replaces the oldest."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start empty; ``loop`` has the clock."""
        self._loop = loop
        self._found: dict[Hashable, tuple[float, object]] = {}

    def get(self, key: Hashable) -> object:
        """Return the value of a key; None if it is missing or older than 5 seconds."""
        until, found = self._found.get(key, (0.0, None))
        return found if self._loop.time() < until else None

    def remember(self, key: Hashable, found: object) -> None:
        """Store a value for 5 seconds; with 16 others the oldest value is removed."""
        self._found.pop(key, None)
        if len(self._found) >= _MAX_KEPT:
            del self._found[next(iter(self._found))]
        self._found[key] = self._loop.time() + CACHE_SECONDS, found


def http_connection_of(request: HTTPConnection) -> HttpConnection:
    """Return the HTTP connection of the client that sent a request."""
    found = request.scope["state"]["http_connection"]
    assert isinstance(found, HttpConnection)
    return found


def finish(future: asyncio.Future[None]) -> None:
    """Set a future's result to None, unless the future is done."""
    if not future.done():
        future.set_result(None)


def _bytes_of(connected: Any) -> tuple[int, int]:
    """Return the bytes sent and received by the socket ``connected``.

    Both are 0 for None, for a closed socket, and where the system does not count them.
    """
    option = getattr(socket, "TCP_INFO", None)
    if option is None or connected is None:
        return 0, 0
    try:
        info = connected.getsockopt(socket.IPPROTO_TCP, option, _TCP_INFO_BYTES)
    except OSError:
        # It has been closed since.
        return 0, 0
    if len(info) < _TCP_INFO_BYTES:
        return 0, 0
    sent_bytes, received_bytes = struct.unpack_from("QQ", info, _BYTES_OFFSET)
    return sent_bytes, received_bytes


MAX_BYTES: Final = 65_536
_TYPE: Final = "application/json"


async def read_object(request: Request, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises HttpError: 415 if the Content-Type is not application/json, which keeps out forms of
    other sites; 413 for more than ``max_bytes``; 400 if the body is not a JSON object.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != _TYPE:
        message = f"Content-Type is {given or 'missing'!r}; it has to be {_TYPE}"
        raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)
    body = await read_body(request, max_bytes)
    try:
        text = body.decode()
        found = json.loads(text)
        if "\\u" in text:
            # Half a surrogate pair is a character that nothing can be written in.
            json.dumps(found, ensure_ascii=False).encode()
    # Objects in objects, ten thousand deep, are no JSON that anybody means.
    except (ValueError, RecursionError) as error:
        message = f"the body is no JSON: {error}"
        raise HttpError(HTTPStatus.BAD_REQUEST, message) from error
    if not isinstance(found, dict):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body is no JSON object")
    return found


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Read and return the body of a request; empty without a body.

    Raises HttpError (413) for more than ``max_bytes``, without reading them if Content-Length
    says so. Raises ClientDisconnect if the client goes, or was cut off because it sends too slowly.
    """
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise _too_long(max_bytes)
    body = bytearray()
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > max_bytes:
            raise _too_long(max_bytes)
        if not message.get("more_body", False):
            return bytes(body)


async def reserve_for_body(request: Request, max_bytes: int) -> Reservation | None:
    """Reserve memory for the body of a request; None if the body needs no reservation.

    Bodies up to 64 KiB, and bodies that will be refused as too long, need none. A body without a
    Content-Length reserves ``max_bytes``. The caller ends the reservation when the message is put.
    Raises MQRC_RESOURCE_PROBLEM if the memory is not free within 30 seconds.
    """
    length = request.headers.get("content-length", "")
    if length.isdecimal():
        count = int(length)
    else:
        count = max_bytes if "transfer-encoding" in request.headers else 0
    if not OWN_BYTES < count <= max_bytes:
        # Short, or refused before it is read.
        return None
    return await http_connection_of(request).reserve(count)


def _too_long(max_bytes: int) -> HttpError:
    """Return the HttpError (413) for a body of more than ``max_bytes``."""
    text = f"the body has more than {max_bytes} bytes"
    return HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)


_T = TypeVar("_T")


class VerbFutures:
    """Turns callbacks from other threads into futures; wakes the loop once for several of them."""

    def __init__(self) -> None:
        """Start without results that wait to be set."""
        self._arrived: deque[tuple[asyncio.Future[Any], object]] = deque()
        self._is_woken = False

    def callback_for(self, future: asyncio.Future[_T]) -> OnDone[_T]:
        """Return a callback that sets the result or the MQError of a future, from any thread.

        A future that is already done stays as it is.
        """
        loop = future.get_loop()

        def on_done(outcome: _T | MQError) -> None:
            self._arrived.append((future, outcome))
            if not self._is_woken:
                # Two threads may both wake it up; the second finds nothing to do.
                self._is_woken = True
                loop.call_soon_threadsafe(self._set_results)

        return on_done

    async def of(self, begin: Callable[[OnDone[_T]], object]) -> _T:
        """Start an MQ verb with ``begin``, and await its result; raises the MQError of the verb.

        ``begin`` takes the callback to be called with result or error.
        """
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        begin(self.callback_for(future))
        return await future

    def _set_results(self) -> None:
        """Set the results of all futures whose verbs have ended; runs in the event loop."""
        # First: an outcome that comes from now on wakes the loop again.
        self._is_woken = False
        while self._arrived:
            future, outcome = self._arrived.popleft()
            if future.done():
                continue
            if isinstance(outcome, MQError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)


class ClientGone(Exception):
    """The client has gone while its request was waiting; no answer is sent."""


class GetWaits:
    """All gets of HTTP requests that wait for a message; a shutdown of the server cancels them."""

    def __init__(self) -> None:
        """Start without waiting gets."""
        self._changing = threading.Lock()
        #: A future for each wait, which a drain ends.
        self._draining = set[asyncio.Future[None]]()
        self._is_over = False

    def end(self) -> None:
        """Cancel all waiting gets, and those that begin from now on; any thread may call it."""
        with self._changing:
            self._is_over = True
            draining = list(self._draining)
        for each in draining:
            each.get_loop().call_soon_threadsafe(finish, each)

    async def wait(
        self, line: HttpConnection, outcome: asyncio.Future[_T], under_way: UnderWay
    ) -> _T:
        """Await a get that waits for a message; return its result, or raise its error.

        ``line`` is the client's connection, ``outcome`` the future of the get, and ``under_way``
        cancels it. The get is cancelled if the client goes (raises ClientGone), if an operator ends
        the connection (MQRC_CONNECTION_QUIESCING), or if the server shuts down
        (MQRC_Q_MGR_QUIESCING). A get that already has its message is not cancelled: the message is
        the result. If the client has gone, the caller must then return it to its queue.
        """
        draining: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._changing:
            self._draining.add(draining)
            is_over = self._is_over
        try:
            if not is_over:
                ends: list[asyncio.Future[Any]] = [outcome, line.when_closing(), draining]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            with self._changing:
                self._draining.remove(draining)
            if not outcome.done() and under_way.cancel():
                outcome.cancel()
        if not outcome.cancelled():
            return await outcome
        if line.is_lost:
            raise ClientGone
        if line.is_quiescing:
            raise mq_error(rc.MQRC_CONNECTION_QUIESCING, "the channel was stopped by an operator")
        raise mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends")
