"""One HTTP connection of a client: its MQ conversations, admissions, status and request bodies."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
from collections.abc import Callable, Hashable
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.requests import ClientDisconnect, HTTPConnection, Request

from mayfly.channel import ClientConnection
from mayfly.client.connection import Connection
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.servers.budget import OWN_BYTES, WAIT_SECONDS, Budget, Held, Reservation
from mayfly.servers.clients import INSTANCE_NUMBERS, Peer, Place
from mayfly.servers.http.problems import WrongRequest

_LOG = logging.getLogger("mayfly.http")
#: An admission counts for later requests of its connection for so long. Then a changed password,
#: or a stopped channel, is noticed.
REMEMBERED_SECONDS: Final = 5.0
#: APPLTAG, and MQMD.PutApplName.
APPLICATION = "HTTP"
#: Where tcp_info of Linux has the bytes that were acknowledged, and those that came.
_BYTES_OFFSET, _TCP_INFO_BYTES = 120, 136
#: A proxy may send the requests of many users over one connection.
_MAX_REMEMBERED = 16


class Key(NamedTuple):
    """Identifies an MQ conversation of a connection: queue manager, channel, and admitted user."""

    queue_manager: str
    channel: str
    terms: Hashable


class Entered(NamedTuple):
    """An admission to a channel: the user, when (ms since 1970), and the function that ends it."""

    user: str
    connected_ms: int
    leave: Callable[[], None]


class Line:
    """One HTTP connection of a client, with the MQ conversations that its requests use.

    It belongs to the server's event loop; other threads may call ``statuses``, ``end`` and
    ``quiesce`` only.
    """

    def __init__(
        self, peer: Peer, loop: asyncio.AbstractEventLoop, budget: Budget | None = None
    ) -> None:
        self.budget = Budget() if budget is None else budget
        #: The answer that is being sent.
        self.answer = Held(self.budget)
        self.peer = peer
        self.number, self.request_count = next(INSTANCE_NUMBERS), 0
        #: The socket of the connection; loops have stand-ins for it.
        self.socket: Any = None
        self.is_lost = self.is_quiescing = False
        self._places: dict[Place, Entered] = {}
        self.remembered = Remembered(loop)
        self._loop = loop
        self._over: asyncio.Future[None] | None = None
        self._conversations: dict[Key, Connection] = {}
        self._users = 0
        #: Ends the connection at once, whatever its client has still to read.
        self.cut: Callable[[], None] = self.lose
        #: Closes it behind the request under way.
        self.close_gently: Callable[[], None] = self.lose
        #: Starts the time for the request under way anew, in this number of seconds.
        self.give_time: Callable[[float], None] = lambda _seconds: None

    def when_over(self) -> asyncio.Future[None]:
        """Return a future that is done when the client has gone or an operator ends it."""
        if self._over is None:
            self._over = self._loop.create_future()
            if self.is_lost or self.is_quiescing:
                self._over.set_result(None)
        return self._over

    async def reserve(self, count: int) -> Reservation:
        """Reserve memory for a message of ``count`` bytes; wait for it up to 30 seconds.

        The wait does not shorten the time of the request. Raises MQRC_RESOURCE_PROBLEM if the
        memory is not free by then, or if the client has gone.
        """
        there: asyncio.Future[None] = self._loop.create_future()
        tell = partial(self._loop.call_soon_threadsafe, finish, there)
        reservation = self.budget.reserve(count, tell)
        assert reservation is not None
        if not reservation.is_there:
            await self._wait_for(reservation, there)
        return reservation

    async def _wait_for(self, reservation: Reservation, there: asyncio.Future[None]) -> None:
        self.give_time(WAIT_SECONDS)
        ends: list[asyncio.Future[None]] = [there, self.when_over()]
        try:
            await asyncio.wait(ends, timeout=WAIT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            reservation.end()
            raise
        self.give_time(0)
        if not reservation.is_there or self.is_lost:
            reservation.end()
            said = "the messages of all connections together leave no room: send it again"
            raise mq_error(rc.MQRC_RESOURCE_PROBLEM, said)

    def enter(self, place: Place, entered: Entered) -> None:
        """Record an admission to a channel; its ``leave`` is called when the client has gone."""
        self._places[place] = entered

    def has_entered(self, place: Place) -> bool:
        """Return True if this connection was already admitted to a channel from this address."""
        return place in self._places

    def statuses(self) -> list[ClientConnection]:
        """Return the status of each conversation, or of each channel without an open conversation.

        A client that sends administrative requests only has no conversation; its status then has
        the negative number of the connection.
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
                entered.user,
                self.peer.address,
                APPLICATION,
                self.peer.has_tls,
                entered.connected_ms,
                0 if position else self.request_count,
                0,
                sent_bytes,
                received_bytes,
            )
            for place, entered in list(self._places.items())
            for position, number in enumerate(numbers.get(place[:2]) or [-self.number])
        ]

    def end(self) -> None:
        """End the connection at once; any thread may call it."""
        self._loop.call_soon_threadsafe(self._end)

    def quiesce(self) -> None:
        """End the connection after its request; a wait for a message ends at once.

        Any thread may call it.
        """
        self._loop.call_soon_threadsafe(self._quiesce)

    def _end(self) -> None:
        if not self.is_lost:
            self.cut()

    def _quiesce(self) -> None:
        self.is_quiescing = True
        self._tell_over()
        if not self.is_lost:
            self.close_gently()

    def _tell_over(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def conversation(self, key: Key, connect: Callable[[], Connection]) -> Connection:
        """Return the open conversation of a key, else a new one from ``connect``."""
        found = self._conversations.get(key)
        if found is None or not found.is_open:
            if len(self._conversations) >= _MAX_REMEMBERED:
                self._close()
            self._conversations[key] = found = connect()
        return found

    def __enter__(self) -> None:
        """Keep the conversations open for a ``with`` block, even if the client goes meanwhile."""
        self._users += 1

    def __exit__(self, *_raised: object) -> None:
        """Close the conversations if the client has gone and no other request uses them."""
        self._users -= 1
        if self.is_lost and not self._users:
            self._close()

    def lose(self) -> None:
        """Note that the client has gone; end its admissions and its conversations.

        If a request still uses the conversations, they end after it.
        """
        self.is_lost = True
        self._tell_over()
        places, self._places = self._places, {}
        for entered in places.values():
            entered.leave()
        if not self._users:
            self._close()

    def _close(self) -> None:
        ending = list(self._conversations.values())
        self._conversations.clear()
        if ending:
            # A backout may wait for the disk.
            self._loop.run_in_executor(None, _close_all, ending)


class Remembered:
    """A cache of at most 16 values, each valid for 5 seconds; the oldest value makes room."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._found: dict[Hashable, tuple[float, object]] = {}

    def get(self, key: Hashable) -> object:
        """Return the value of a key; None if it is not there or older than 5 seconds."""
        until, found = self._found.get(key, (0.0, None))
        return found if self._loop.time() < until else None

    def note(self, key: Hashable, found: object) -> None:
        self._found.pop(key, None)
        if len(self._found) >= _MAX_REMEMBERED:
            del self._found[next(iter(self._found))]
        self._found[key] = self._loop.time() + REMEMBERED_SECONDS, found


def line_of(request: HTTPConnection) -> Line:
    """Return the HTTP connection that a request came over."""
    line = request.scope["state"]["line"]
    assert isinstance(line, Line)
    return line


def finish(future: asyncio.Future[None]) -> None:
    """Set a future's result to None, unless it is done."""
    if not future.done():
        future.set_result(None)


def _close_all(conversations: list[Connection]) -> None:
    for conversation in conversations:
        try:
            conversation.close(commit=False)
        except Exception as error:  # noqa: BLE001 - the others are closed as well
            _LOG.warning("closing a conversation of %s: %s", conversation.name, error)


def _bytes_of(connected: Any) -> tuple[int, int]:
    """Return the bytes sent and received by a socket.

    Zeros where the system does not count them.
    """
    option = getattr(socket, "TCP_INFO", None)
    if option is None or connected is None:
        return 0, 0
    try:
        told = connected.getsockopt(socket.IPPROTO_TCP, option, _TCP_INFO_BYTES)
    except OSError:
        # It has been closed since.
        return 0, 0
    if len(told) < _TCP_INFO_BYTES:
        return 0, 0
    sent_bytes, received_bytes = struct.unpack_from("QQ", told, _BYTES_OFFSET)
    return sent_bytes, received_bytes


MAX_BYTES: Final = 65_536
_TYPE: Final = "application/json"


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises WrongRequest: 415 if the Content-Type is not application/json, which keeps out forms of
    other sites; 413 for more than 64 KiB; 400 if the body is not a JSON object.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != _TYPE:
        said = f"Content-Type is {given or 'missing'!r}; it has to be {_TYPE}"
        raise WrongRequest(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, said)
    body = await read_body(request, MAX_BYTES)
    try:
        text = body.decode()
        found = json.loads(text)
        if "\\u" in text:
            # Half a surrogate pair is a character that nothing can be written in.
            json.dumps(found, ensure_ascii=False).encode()
    # Objects in objects, ten thousand deep, are no JSON that anybody means.
    except (ValueError, RecursionError) as error:
        said = f"the body is no JSON: {error}"
        raise WrongRequest(HTTPStatus.BAD_REQUEST, said) from error
    if not isinstance(found, dict):
        raise WrongRequest(HTTPStatus.BAD_REQUEST, "the body is no JSON object")
    return found


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the body of a request.

    Raises WrongRequest (413) for more than ``max_bytes``, without reading them if Content-Length
    says so. Raises ClientDisconnect if the client goes, or was cut off because it sends too slowly.
    """
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > max_bytes:
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


async def room_for_body(request: Request, max_bytes: int) -> Reservation | None:
    """Reserve memory for the body of a request; None if it needs no reservation.

    Bodies up to 64 KiB, and bodies that are refused as too long, need none. A body without a
    Content-Length reserves ``max_bytes``. The caller ends the reservation when the message is put.
    Raises MQRC_RESOURCE_PROBLEM if the memory is not free within 30 seconds.
    """
    told = request.headers.get("content-length", "")
    if told.isdecimal():
        count = int(told)
    else:
        count = max_bytes if "transfer-encoding" in request.headers else 0
    if not OWN_BYTES < count <= max_bytes:
        # Short, or refused before it is read.
        return None
    return await line_of(request).reserve(count)


def _too_long(max_bytes: int) -> WrongRequest:
    said = f"the body has more than {max_bytes} bytes"
    return WrongRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said)
