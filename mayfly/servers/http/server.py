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
from mayfly.servers.budget import (
    BYTES_A_SECOND,
    REQUEST_SECONDS,
    Budget,
    MemoryUse,
    SlowClientTimer,
)
from mayfly.servers.clients import Peer
from mayfly.servers.http.connection import HttpConnection

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
    """A server of one ASGI application on one address; any thread may call its methods."""

    def __init__(
        self, application: ASGIApp, budget: Budget, runtime: Runtime | None = None
    ) -> None:
        """Prepare the server; :meth:`listen_tcp` starts it.

        ``budget`` limits the memory of all connections together.
        """
        self._application, self._budget = application, budget
        self._runtime = Runtime() if runtime is None else runtime
        self._server: _Server | None = None
        self._thread: Loop | None = None

    def listen_tcp(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Start to listen, in a thread; return the port, which the system chooses if ``port`` is 0.

        Without ``tls`` it speaks plain HTTP. Raises OSError if the address cannot be bound or the
        server fails to start.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        slots = ConnectionSlots(CONNECTIONS, PROBING)
        made = partial(GuardedProtocol, slots=slots, budget=self._budget)
        config = uvicorn.Config(
            self._application,
            lifespan="off",
            ws="none",
            # uvicorn calls it as a class.
            http=cast("type[asyncio.Protocol]", made),
            # It sends head and body of an answer in one system call. Each one gives the interpreter
            # lock up, and to have it back costs more than the call.
            # Without uvloop, as on Windows, asyncio's own loop is used.
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
        server = _Server(config)

        def serve() -> bool:
            server.run([bound])
            return False

        # The loop of uvicorn closes its sockets when it fails.
        thread = Loop(self._runtime, serve, "mayfly-http", survives_errors=False)
        found: int = bound.getsockname()[1]
        thread.start()
        server.has_started.wait()
        if not server.is_up:
            thread.join()
            bound.close()
            raise OSError("HTTP cannot start; the log says why")
        self._server, self._thread = server, thread
        return found

    def connections(self) -> list[ClientConnection]:
        """Return the status of each open MQ conversation of clients.

        A client that was admitted to a channel and has no conversation has one status for the
        channel. Empty when the server does not run.
        """
        return [
            status
            for http_connection in self._http_connections()
            for status in http_connection.statuses()
        ]

    def end(self, number: int) -> bool:
        """End the connection of the conversation with this number at once; does not wait.

        Returns False for an unknown number. A message that the connection has locked returns to its
        queue; a message that was put stays.
        """
        return self._with_connection(number, HttpConnection.end)

    def quiesce(self, number: int) -> bool:
        """End the connection of the conversation with this number after its request; does not wait.

        A request that waits for a message ends its wait at once. Returns False for an unknown
        number.
        """
        return self._with_connection(number, HttpConnection.quiesce)

    def _http_connections(self) -> list[HttpConnection]:
        """Return the open connections of clients; empty when the server does not run."""
        if self._server is None:
            return []
        return [
            cast("GuardedProtocol", each).http_connection
            for each in list(self._server.server_state.connections)
        ]

    def _with_connection(self, number: int, do: Callable[[HttpConnection], None]) -> bool:
        """Call ``do`` for the connection of the conversation with this number.

        Returns False, without a call, for an unknown number.
        """
        for http_connection in self._http_connections():
            if any(status.number == number for status in http_connection.statuses()):
                do(http_connection)
                return True
        return False

    def drain(self, timeout_ms: int) -> None:
        """Wait until no request is running, at most ``timeout_ms``; probes are still answered.

        The application must refuse other requests before this call. Requests that run after the
        time go on until :meth:`close`.
        """
        if self._server is not None:
            waiting, waited_ms = threading.Event(), 0.0
            while self._server.server_state.tasks and waited_ms < timeout_ms:
                waiting.wait(_LOOK_SECONDS)
                waited_ms += _LOOK_SECONDS * 1_000

    def drain_manager(self, name: str, timeout_ms: int, _why: str) -> None:
        """End the connections of clients of one queue manager; return when none is left.

        Each is closed behind its request, and a get that waits ends at once; after ``timeout_ms``
        the rest is reset. Others stay.
        """
        waiting, waited_ms = threading.Event(), 0.0
        while found := self._connections_with(name):
            for each in found:
                each.quiesce()
            if waited_ms >= timeout_ms:
                for each in found:
                    each.end()
                return
            waiting.wait(_LOOK_SECONDS)
            waited_ms += _LOOK_SECONDS * 1_000

    def _connections_with(self, manager: str) -> list[HttpConnection]:
        """Return the open connections of clients that were let in to a queue manager."""
        return [
            each
            for each in self._http_connections()
            if any(status.queue_manager == manager for status in each.statuses())
        ]

    def close(self) -> None:
        """Stop the server; running requests have 5 seconds to end, then they are cancelled.

        A second call does nothing.
        """
        server, self._server = self._server, None
        if server is not None and self._thread is not None:
            server.end()
            self._thread.join()


class _Server(uvicorn.Server):
    """A uvicorn server that reports when it listens, and stops as soon as its requests end."""

    def __init__(self, config: uvicorn.Config) -> None:
        """Prepare the server; ``is_up`` becomes True when it listens."""
        super().__init__(config)
        self.is_up = False
        #: Set when it listens, or never will.
        self.has_started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until :meth:`end`; set ``has_started`` when it listens or fails to start."""
        try:
            super().run(sockets)
        finally:
            self.has_started.set()

    def end(self) -> None:
        """Tell the started server to stop, from any thread; return at once."""
        assert self._loop is not None
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._ended.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen; then set ``is_up`` and ``has_started``."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self.is_up = True
        self.has_started.set()

    async def main_loop(self) -> None:
        """Wait for :meth:`end`; each second update the Date header of answers."""
        # A tick of 0 brings the date of answers up to date.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _TICK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to listen; give running requests 5 seconds, then cancel them."""
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
_PROBES: Final = frozenset((b"/health/live", b"/health/ready", b"/health/replica"))


class ConnectionSlots:
    """Limits the number of connections of a server; belongs to its event loop.

    A connection above the limit is accepted, but may send health probes only. At most
    ``probe_count`` of these are open; one more closes the oldest of them. So clients that open
    connections and send nothing cannot keep probes out.
    """

    def __init__(self, count: int, probe_count: int) -> None:
        """Allow ``count`` full connections, and ``probe_count`` more for health probes."""
        self._count, self._probe_count = count, probe_count
        self._full: set[HttpConnection] = set()
        #: Those that may only probe, in the order of their arrival.
        self._probing: dict[HttpConnection, None] = {}

    def add(self, http_connection: HttpConnection) -> None:
        """Add a new connection: as a full one if the limit allows, else for health probes only.

        With too many connections for probes the oldest of these is reset.
        """
        if len(self._full) < self._count:
            self._full.add(http_connection)
            return
        self._probing[http_connection] = None
        if len(self._probing) > self._probe_count:
            oldest = next(iter(self._probing))
            del self._probing[oldest]
            oldest.reset()

    def may_send(self, http_connection: HttpConnection, url: bytes) -> bool:
        """Return True if a connection may request ``url``.

        It may if it is a full one, or if the URL is that of a health probe. A connection for probes
        becomes a full one if the limit allows it by now.
        """
        if http_connection in self._full or url.partition(b"?")[0] in _PROBES:
            return True
        if len(self._full) < self._count and http_connection in self._probing:
            del self._probing[http_connection]
            self._full.add(http_connection)
            return True
        return False

    def remove(self, http_connection: HttpConnection) -> None:
        """Remove a connection that has closed; an unknown one is ignored."""
        self._full.discard(http_connection)
        self._probing.pop(http_connection, None)


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
        """Return the next ASGI message: a part of the body, or ``http.disconnect``.

        A body that has arrived completely is returned even if the client has gone.
        """
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

    http_connection: HttpConnection
    #: The last request; None before the first.
    cycle: Any

    def __init__(self, *args: Any, slots: ConnectionSlots, budget: Budget, **kwargs: Any) -> None:
        """Prepare the connection; all connections share ``slots`` and the memory ``budget``.

        ``args`` and ``kwargs`` are those of uvicorn's protocol.
        """
        super().__init__(*args, **kwargs)
        self._slots, self._budget = slots, budget
        self._unread = MemoryUse(budget)
        self._reading = SlowClientTimer(budget, self.loop, self._reset)
        self._in_head = False
        self._request_number = 0
        self._is_complete = True
        self._head_bytes = self._framing_bytes = self._header_count = 0
        self._body_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._started_at = 0.0
        self._unsent_bytes = 0
        self._wants_upgrade = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn
        """Set up the connection, and start the time limit for its first request."""
        # First: other threads look at the lines of all connections that are known.
        self.http_connection = HttpConnection(Peer.of(transport), self.loop, self._budget)
        self.http_connection.restart_time_limit = self._restart_time_limit
        self.http_connection.socket = transport.get_extra_info("socket")
        self.http_connection.reset, self.http_connection.close_after_request = (
            self._reset,
            self.shutdown,
        )
        super().connection_made(transport)
        self._start_time_limit()
        self._slots.add(self.http_connection)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the conversations of the client; free the connection's memory and its slot."""
        super().connection_lost(exc)
        self._cancel_timer()
        self._slots.remove(self.http_connection)
        self._count_as_read()
        self.http_connection.client_gone()

    def pause_writing(self) -> None:
        """Count the bytes that the client has not read; a client that reads too slowly is reset."""
        super().pause_writing()
        count = self.transport.get_write_buffer_size()
        self._unread.note(count)
        self._reading.begin(count)

    def resume_writing(self) -> None:
        """Count no unread bytes any more, because the client has read most of them."""
        super().resume_writing()
        self._count_as_read()

    def _count_as_read(self) -> None:
        """Stop the time limit for reading the answer, and free the memory of unread bytes."""
        self._reading.stop()
        self._unread.note(0)

    def _restart_time_limit(self, seconds: float) -> None:
        """Let the time limit of the running request (30 seconds) begin ``seconds`` from now."""
        self._started_at = self.loop.time() + seconds

    def data_received(self, data: bytes) -> None:
        """Parse bytes of the client, which may start a request.

        Answers 400 to bytes that are no HTTP, and 431 to a head or framing bytes that are too long;
        both close the connection.
        """
        head_before, body_before = self._open_head(), self._body_bytes
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except HttpParserError:
            self.logger.warning(_NO_HTTP)
            self.send_400_response(_NO_HTTP)
        if self._is_complete and self._timer is None and self._is_busy():
            # The usual request, whole in one piece.
            return
        if self.transport.is_closing():
            return
        if head_before and head_before == self._open_head():
            self._head_bytes += len(data)
        elif not (self._in_head or self._is_complete):
            self._framing_bytes += len(data) - _FRAMING_BYTES * (self._body_bytes - body_before)
        if self._head_bytes > HEAD_BYTES or self._framing_bytes > _MAX_FRAMING_BYTES:
            self._refuse(_TOO_LONG)
        elif self._timer is None:
            self._start_time_limit()

    def _feed(self, data: bytes) -> None:
        """Give bytes, which may hold several requests, to the parser; raises HttpParserError."""
        rest: bytes | memoryview = data
        while rest:
            try:
                self.parser.feed_data(rest)
            except HttpParserUpgrade as upgrade:
                # The parser stops behind the head of a request that asks for another protocol.
                rest = memoryview(rest)[upgrade.args[0] :]
                if not self._restart_parser():
                    return
            else:
                return

    def _open_head(self) -> int:
        """Return the number of the request whose head is being read, from 1; 0 outside a head."""
        return self._request_number if self._in_head else 0

    def on_message_begin(self) -> None:
        """Reset the counters for a new request, and put the connection into the request's state."""
        super().on_message_begin()
        self._in_head, self._is_complete = True, False
        self._request_number += 1
        self._head_bytes = self._framing_bytes = self._header_count = self._body_bytes = 0
        self.scope["state"]["http_connection"] = self.http_connection

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header of the request and count it; trailers behind a body are only counted.

        From header number 101 on, headers are not stored; the request is then refused.
        """
        self._header_count += 1
        self._head_bytes += len(name) + len(value)
        if self._in_head and self._header_count <= MAX_HEADERS:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request; refuse it (431) if its head is too long.

        A connection above the limit of connections gets 503, unless the request is a health probe.
        """
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
        self.http_connection.request_count += 1
        # With a limit of none, uvicorn answers each request with 503.
        self.limit_concurrency = None if self._slots.may_send(self.http_connection, self.url) else 0
        super().on_headers_complete()
        # uvicorn always uses its own class. Replacing the method on the object would make a
        # reference cycle, which only the garbage collector frees.
        self.cycle.__class__ = _Cycle

    def on_body(self, body: bytes) -> None:
        """Pass a part of a body to the request, unless the request was refused."""
        self._body_bytes += len(body)
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End the time limit of a request that has arrived completely, unless it was refused."""
        if self._wants_upgrade:
            return
        self._is_complete = True
        if not self.transport.is_closing():
            self._cancel_timer()
            super().on_message_complete()

    def _restart_parser(self) -> bool:
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
        """Close a connection that is idle for 30 seconds.

        A client that is still reading its answer gets more time; one that reads nothing is reset.
        """
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0:
            super().timeout_keep_alive_handler()
        elif unsent == self._unsent_bytes:
            # The client has read nothing for that time.
            self._reset()
        else:
            self._unsent_bytes = unsent
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _reset(self) -> None:
        """Reset the connection at once (SO_LINGER 0).

        A normal close would wait for the client to read what the kernel still has, for minutes.
        """
        connected = self.transport.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def _is_busy(self) -> bool:
        """Return True while a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _start_time_limit(self) -> None:
        """Start the time limit of 30 seconds for the next request."""
        self._started_at = self.loop.time()
        self._timer = self.loop.call_later(REQUEST_SECONDS, self._check_time)

    def _cancel_timer(self) -> None:
        """Stop the time limit of the request; without one it does nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_time(self) -> None:
        """Refuse a request (408) that has not arrived within 30 seconds; else check again later.

        A body gets one second more for each 64 KiB that have arrived.
        """
        self._timer = None
        allowed_seconds = REQUEST_SECONDS + self._body_bytes / BYTES_A_SECOND
        left_seconds = self._started_at + allowed_seconds - self.loop.time()
        if left_seconds > 0:
            self._timer = self.loop.call_later(left_seconds, self._check_time)
        else:
            self._refuse(_TOO_SLOW)

    def _refuse(self, status: bytes) -> None:
        """Send an error status, unless an answer has begun, and close the connection.

        ``status`` is number and phrase. A closing connection is left alone.
        """
        if self.transport.is_closing():
            return
        is_before = self._in_head or self._is_complete
        if not (self._is_busy() if is_before else self.cycle.response_started):
            self.transport.write(
                b"HTTP/1.1 %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status
            )
        self.transport.close()
