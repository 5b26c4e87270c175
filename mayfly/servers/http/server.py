"""The server of HTTP: uvicorn with an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from functools import partial
from typing import Final, cast

import uvicorn
from starlette.types import ASGIApp

from mayfly.runtime import Loop, Runtime
from mayfly.servers.budget import Budget
from mayfly.servers.http.guard import FOR_ALL
from mayfly.servers.http.line import Line
from mayfly.servers.http.places import Places
from mayfly.servers.http.protocol import GuardedProtocol

_BACKLOG: Final = 1024
#: Connections at a time, and those beyond them that may only probe.
_CONNECTIONS: Final = 1_000
_PROBING: Final = 64
_IDLE_SECONDS: Final = 30
_GRACE_SECONDS: Final = 5
_LOOK_SECONDS: Final = 0.01
_TICK_SECONDS: Final = 1.0


class HttpServer:
    """Serves an application on one address; any thread may call its methods."""

    def __init__(
        self, application: ASGIApp, budget: Budget, runtime: Runtime | None = None
    ) -> None:
        """Take the application that answers requests; nothing listens yet."""
        self._application, self._budget = application, budget
        self._runtime = Runtime() if runtime is None else runtime
        self._server: _Server | None = None
        self._thread: Loop | None = None

    def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen; returns the port, chosen by the system for 0. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        places = Places(_CONNECTIONS, _PROBING)
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
            headers=FOR_ALL,
            # The address of a client is that of its socket: any client can write a header.
            proxy_headers=False,
            timeout_keep_alive=_IDLE_SECONDS,
            backlog=_BACKLOG,
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        )
        self._server = server = _Server(config)

        def serve() -> bool:
            server.run([bound])
            return False

        # The loop of uvicorn closes its sockets when it fails.
        self._thread = Loop(self._runtime, serve, "mayfly-http", goes_on=False)
        found: int = bound.getsockname()[1]
        self._thread.start()
        server.has_begun.wait()
        if not server.is_up:
            self._thread.join()
            bound.close()
            raise OSError("HTTP cannot start; the log says why")
        return found

    def lines(self) -> list[Line]:
        """Return the connections of clients."""
        server = self._server
        return [] if server is None else [each.line for each in list(server.connections())]

    def drain(self, timeout_ms: int) -> None:
        """Return when no request is under way, or after a time; probes are answered all the while.

        The application refuses other requests by then.
        """
        if self._server is not None:
            waiting, waited_ms = threading.Event(), 0.0
            while self._server.server_state.tasks and waited_ms < timeout_ms:
                waiting.wait(_LOOK_SECONDS)
                waited_ms += _LOOK_SECONDS * 1_000

    def close(self) -> None:
        """End all connections; requests under way have 5 seconds."""
        server, self._server = self._server, None
        if server is not None and self._thread is not None:
            server.end()
            self._thread.join()


class _Server(uvicorn.Server):
    """Says when it listens, and ends as soon as its requests have."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = False
        #: Set when it listens, or never will.
        self.has_begun = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until the end; a failure ends the wait for the beginning as well."""
        try:
            super().run(sockets)
        finally:
            self.has_begun.set()

    def end(self) -> None:
        """End it from another thread."""
        assert self._loop is not None
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._ended.set)

    def connections(self) -> set[GuardedProtocol]:
        """Return the protocols of the connections."""
        return cast("set[GuardedProtocol]", self.server_state.connections)

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
