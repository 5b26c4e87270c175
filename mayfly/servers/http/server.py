"""The server of HTTP: uvicorn with an event loop in a thread of its own."""

from __future__ import annotations

import socket
import ssl
import threading
from typing import Final

import uvicorn
from starlette.applications import Starlette

_BACKLOG: Final = 1024
_HEADER_BYTES: Final = 16_384
_CONNECTIONS: Final = 1_000
_GRACE_SECONDS: Final = 5
_LOOK_SECONDS: Final = 0.05


class HttpServer:
    """Serves an application on one address; any thread may call its methods."""

    def __init__(self, application: Starlette) -> None:
        """Take the application that answers requests; nothing listens yet."""
        self._application = application
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen; returns the port, chosen by the system for 0. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        config = uvicorn.Config(
            self._application,
            lifespan="off",
            ws="none",
            http="h11",
            loop="asyncio",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            # The address of a client is that of its socket: any client can write a header.
            proxy_headers=False,
            h11_max_incomplete_event_size=_HEADER_BYTES,
            limit_concurrency=_CONNECTIONS,
            backlog=_BACKLOG,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        )
        self._server = server = _Server(config)
        self._thread = threading.Thread(
            target=server.run, args=([bound],), name="mayfly-http", daemon=True
        )
        self._thread.start()
        server.is_up.wait()
        found: int = bound.getsockname()[1]
        return found

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
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join()


class _Server(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()
