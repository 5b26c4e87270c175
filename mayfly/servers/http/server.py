"""The HTTP server: uvicorn in a thread, with limits for each connection and for all together."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from mayfly.channel import ClientConnection
from mayfly.runtime import Loop, Runtime
from mayfly.servers.budget import BYTES_A_SECOND, REQUEST_SECONDS, Budget, Held, Patience
from mayfly.servers.clients import Peer
from mayfly.servers.http.line import Line

#: Headers of all answers, those of uvicorn itself too.
_FOR_ALL: Final = [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")]
_BACKLOG: Final = 1024
#: Connections at a time, and those beyond them that may only probe.
CONNECTIONS: Final = 1_000
PROBING: Final = 64
IDLE_SECONDS: Final = 30
_GRACE_SECONDS: Final = 5
_LOOK_SECONDS: Final = 0.01
_TICK_SECONDS: Final = 1.0


class HttpServer:
    """Serves an ASGI application on one address; any thread may call its methods."""

    def __init__(
        self, application: ASGIApp, budget: Budget, runtime: Runtime | None = None
    ) -> None:
        self._application, self._budget = application, budget
        self._runtime = Runtime() if runtime is None else runtime
        self._server: _Server | None = None
        self._thread: Loop | None = None

    def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Start to listen; return the port, which the system chooses if ``port`` is 0.

        Raises OSError.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        places = Places(CONNECTIONS, PROBING)
        made = partial(GuardedProtocol, places=places, budget=self._budget)
        config = uvicorn.Config(
            self._application,
            lifespan="off",
            ws="none",
            # uvicorn calls it as a class.
            http=cast("type[asyncio.Protocol]", made),
            # It sends head and body of an answer in one system call. Each one gives the interpreter
            # lock up, and to have it back costs more than the call.
            # Where there is none, as on Windows, asyncio's own loop serves.
            loop="auto",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            headers=_FOR_ALL,
            # The address of a client is that of its socket: any client can write a header.
            proxy_headers=False,
            timeout_keep_alive=IDLE_SECONDS,
            backlog=_BACKLOG,
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        )
        self._server = server = _Server(config)

        def serve() -> bool:
            server.run([bound])
            return False

        # The loop of uvicorn closes its sockets when it fails.
        self._thread = Loop(self._runtime, serve, "mayfly-http", survives_errors=False)
        found: int = bound.getsockname()[1]
        self._thread.start()
        server.has_begun.wait()
        if not server.is_up:
            self._thread.join()
            bound.close()
            raise OSError("HTTP cannot start; the log says why")
        return found

    def connections(self) -> list[ClientConnection]:
        """Return the status of each open conversation, and of each admitted client without one."""
        return [status for line in self._lines() for status in line.statuses()]

    def end(self, number: int) -> bool:
        """End the connection that has a conversation with this number; return False if none has.

        A message that the connection has locked returns to its queue; a message that was put stays.
        """
        return self._with_line(number, Line.end)

    def quiesce(self, number: int) -> bool:
        """End the connection that has a conversation with this number, after its request.

        A request that waits for a message ends its wait at once. Returns False if there is no such
        conversation.
        """
        return self._with_line(number, Line.quiesce)

    def _lines(self) -> list[Line]:
        """Return the open connections of clients."""
        if self._server is None:
            return []
        return [
            cast("GuardedProtocol", each).line
            for each in list(self._server.server_state.connections)
        ]

    def _with_line(self, number: int, do: Callable[[Line], None]) -> bool:
        for line in self._lines():
            if any(status.number == number for status in line.statuses()):
                do(line)
                return True
        return False

    def drain(self, timeout_ms: int) -> None:
        """Wait until no request is running, at most ``timeout_ms``; probes are still answered.

        The application must refuse other requests before this is called.
        """
        if self._server is not None:
            waiting, waited_ms = threading.Event(), 0.0
            while self._server.server_state.tasks and waited_ms < timeout_ms:
                waiting.wait(_LOOK_SECONDS)
                waited_ms += _LOOK_SECONDS * 1_000

    def close(self) -> None:
        """Stop the server; requests that are running have 5 seconds to end."""
        server, self._server = self._server, None
        if server is not None and self._thread is not None:
            server.end()
            self._thread.join()


class _Server(uvicorn.Server):
    """A uvicorn server that reports when it listens, and stops as soon as its requests end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = False
        #: Set when it listens, or never will.
        self.has_begun = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until the end; sets ``has_begun`` also if the server fails to start."""
        try:
            super().run(sockets)
        finally:
            self.has_begun.set()

    def end(self) -> None:
        """Stop the server, from any thread."""
        assert self._loop is not None
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._ended.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self.is_up = True
        self.has_begun.set()

    async def main_loop(self) -> None:
        # A tick of 0 brings the date of answers up to date.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _TICK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                while state.connections or state.tasks:
                    await asyncio.sleep(_LOOK_SECONDS)
        late = list(state.tasks)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


#: Paths that are answered whatever else the server has to do.
_PROBES: Final = frozenset((b"/health/live", b"/health/ready"))


class Places:
    """Limits the connections of a server; belongs to its event loop.

    A connection above the limit is accepted, but may send health probes only. There may be
    ``probe_count`` of these; one more closes the oldest of them. So clients that open connections
    and send nothing cannot keep probes out.
    """

    def __init__(self, count: int, probe_count: int) -> None:
        self._count, self._probe_count = count, probe_count
        self._seated: set[Line] = set()
        #: Those that may only probe, in the order of their arrival.
        self._probing: dict[Line, None] = {}

    def enter(self, line: Line) -> None:
        """Add a connection: as a full one if there is space, else for probes only."""
        if len(self._seated) < self._count:
            self._seated.add(line)
            return
        self._probing[line] = None
        if len(self._probing) > self._probe_count:
            oldest = next(iter(self._probing))
            del self._probing[oldest]
            oldest.cut()

    def may_ask(self, line: Line, url: bytes) -> bool:
        """Return True if a connection may send a request for this URL.

        A connection for probes becomes a full one if there is space by now.
        """
        if line in self._seated or url.partition(b"?")[0] in _PROBES:
            return True
        if len(self._seated) < self._count and line in self._probing:
            del self._probing[line]
            self._seated.add(line)
            return True
        return False

    def leave(self, line: Line) -> None:
        """Remove a connection that has closed."""
        self._seated.discard(line)
        self._probing.pop(line, None)


#: The most bytes and headers of the head of a request.
HEAD_BYTES: Final = 16_384
MAX_HEADERS: Final = 100
#: Bytes that are neither head nor body, as the sizes of chunks: for each byte of a body, and more.
_FRAMING_BYTES: Final = 8
_MAX_FRAMING_BYTES: Final = 65_536
#: SO_LINGER: on, with 0 seconds.
_AT_ONCE: Final = struct.pack("ii", 1, 0)
_NO_HTTP: Final = "Invalid HTTP request received."
_NO_PROXY: Final = "This server is no proxy."
_TOO_LONG: Final = b"431 Request Header Fields Too Large"
_TOO_SLOW: Final = b"408 Request Timeout"


class _Cycle(RequestResponseCycle):
    """One request and its answer.

    uvicorn drops the body of a request whose client closes right after sending it, and with the
    body the client's message. This class still returns a body that has arrived completely.
    """

    _is_read = False

    async def receive(self) -> Any:
        """Return the next ASGI message: a part of the body, or ``http.disconnect``."""
        message: Any = await super().receive()
        has_body = not (self.more_body or self._is_read or self.response_complete)
        if message["type"] == "http.disconnect" and has_body:
            body, self.body = bytes(self.body), bytearray()
            message = {"type": "http.request", "body": body, "more_body": False}
        if message["type"] == "http.request" and not message["more_body"]:
            self._is_read = True
        return message


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol of one connection; closes it if the client sends too slowly or too much.

    Heads are limited to 16 KiB and 100 headers. Chunk sizes and other framing bytes are limited
    too.
    """

    line: Line
    #: The last request; None before the first.
    cycle: Any

    def __init__(self, *args: Any, places: Places, budget: Budget, **kwargs: Any) -> None:
        """Take the connection slots and the memory budget, which all connections share."""
        super().__init__(*args, **kwargs)
        self._places, self._budget = places, budget
        self._unread = Held(budget)
        self._reading = Patience(budget, self.loop, self._cut)
        self._in_head = False
        self._request_number = 0
        self._is_whole = True
        self._head_bytes = self._framing_bytes = self._header_count = 0
        self._body_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._begun_at = 0.0
        self._unsent_bytes = 0
        self._wants_upgrade = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn
        """Set up the connection, and start the time limit for its first request."""
        # First: other threads look at the lines of all connections that are known.
        self.line = Line(Peer.of(transport), self.loop, self._budget)
        self.line.give_time = self._give_time
        self.line.socket = transport.get_extra_info("socket")
        self.line.cut, self.line.close_gently = self._cut, self.shutdown
        super().connection_made(transport)
        self._await_request()
        self._places.enter(self.line)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the conversations of the client, and free its memory and its slot."""
        super().connection_lost(exc)
        self._cancel_timer()
        self._places.leave(self.line)
        self._note_read()
        self.line.lose()

    def pause_writing(self) -> None:
        """Count the bytes that the client has not read; it has limited time to read them."""
        super().pause_writing()
        count = self.transport.get_write_buffer_size()
        self._unread.note(count)
        self._reading.begin(count)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._note_read()

    def _note_read(self) -> None:
        self._reading.stop()
        self._unread.note(0)

    def _give_time(self, seconds: float) -> None:
        """Restart the time limit of the request, ``seconds`` from now."""
        self._begun_at = self.loop.time() + seconds

    def data_received(self, data: bytes) -> None:
        """Parse bytes of the client; refuse a head or framing bytes that are too long (431)."""
        head_before, body_before = self._open_head(), self._body_bytes
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except HttpParserError:
            self.logger.warning(_NO_HTTP)
            self.send_400_response(_NO_HTTP)
        if self._is_whole and self._timer is None and self._is_busy():
            # The usual request, whole in one piece.
            return
        if self.transport.is_closing():
            return
        if head_before and head_before == self._open_head():
            self._head_bytes += len(data)
        elif not (self._in_head or self._is_whole):
            self._framing_bytes += len(data) - _FRAMING_BYTES * (self._body_bytes - body_before)
        if self._head_bytes > HEAD_BYTES or self._framing_bytes > _MAX_FRAMING_BYTES:
            self._refuse(_TOO_LONG)
        elif self._timer is None:
            self._await_request()

    def _feed(self, data: bytes) -> None:
        """Give bytes to the parser, which may hold several requests; raises HttpParserError."""
        rest: bytes | memoryview = data
        while rest:
            try:
                self.parser.feed_data(rest)
            except HttpParserUpgrade as upgrade:
                # The parser stops behind the head of a request that asks for another protocol.
                rest = memoryview(rest)[upgrade.args[0] :]
                if not self._has_gone_on():
                    return
            else:
                return

    def _open_head(self) -> int:
        """Return the number of the request whose head is being read; 0 if none is."""
        return self._request_number if self._in_head else 0

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._is_whole = True, False
        self._request_number += 1
        self._head_bytes = self._framing_bytes = self._header_count = self._body_bytes = 0
        self.scope["state"]["line"] = self.line

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers, which come after a body, are counted and ignored."""
        self._header_count += 1
        self._head_bytes += len(name) + len(value)
        if self._in_head and self._header_count <= MAX_HEADERS:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request; refuse it (431) if its head is too long."""
        if self.transport.is_closing():
            return
        if self._header_count > MAX_HEADERS or self._head_bytes + len(self.url) > HEAD_BYTES:
            self._refuse(_TOO_LONG)
            return
        if self.parser.should_upgrade():
            # The parser is about to end the request before its body.
            self._wants_upgrade = True
            return
        self._in_head, self._head_bytes = False, 0
        self.line.request_count += 1
        # With a limit of none, uvicorn answers each request with 503.
        self.limit_concurrency = None if self._places.may_ask(self.line, self.url) else 0
        super().on_headers_complete()
        # uvicorn makes all of them of its own class. A function in the place of the method would
        # make each one garbage that only a collection finds.
        self.cycle.__class__ = _Cycle

    def on_body(self, body: bytes) -> None:
        """Take a part of a body; ignored if the request was refused."""
        self._body_bytes += len(body)
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request is complete; ignored if it was refused."""
        if self._wants_upgrade:
            return
        self._is_whole = True
        if not self.transport.is_closing():
            self._cancel_timer()
            super().on_message_complete()

    def _has_gone_on(self) -> bool:
        """Restart the parser with the same request, as HTTP/1.1 and without its Upgrade header.

        Otherwise the parser would take the body for the next request, which allows request
        smuggling past a proxy. Java's client asks for HTTP/2 in this way with its first request.
        Returns False if the connection is closing, or if the method is CONNECT, which is answered
        with 400.
        """
        self._wants_upgrade = False
        if self.transport.is_closing():
            return False
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            self.send_400_response(_NO_PROXY)
            return False
        kept = [b"%b: %b\r\n" % each for each in self.headers if each[0] != b"upgrade"]
        head = b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, b"".join(kept))
        self.parser = HttpRequestParser(self)
        self.parser.feed_data(head)
        return not self.transport.is_closing()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; a client that is still reading its answer gets more time."""
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0:
            super().timeout_keep_alive_handler()
        elif unsent == self._unsent_bytes:
            # The client has read nothing for that time.
            self._cut()
        else:
            self._unsent_bytes = unsent
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _cut(self) -> None:
        """Reset the connection at once (SO_LINGER 0).

        A normal close would wait for the client to read what the kernel still has, for minutes.
        """
        connected = self.transport.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def _is_busy(self) -> bool:
        """Return True while a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _await_request(self) -> None:
        self._begun_at = self.loop.time()
        self._timer = self.loop.call_later(REQUEST_SECONDS, self._look)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Refuse a request that is too late (408); bodies get a second more for each 64 KiB."""
        self._timer = None
        allowed_seconds = REQUEST_SECONDS + self._body_bytes / BYTES_A_SECOND
        left_seconds = self._begun_at + allowed_seconds - self.loop.time()
        if left_seconds > 0:
            self._timer = self.loop.call_later(left_seconds, self._look)
        else:
            self._refuse(_TOO_SLOW)

    def _refuse(self, status: bytes) -> None:
        if self.transport.is_closing():
            return
        is_before = self._in_head or self._is_whole
        if not (self._is_busy() if is_before else self.cycle.response_started):
            self.transport.write(
                b"HTTP/1.1 %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status
            )
        self.transport.close()
