"""A line between a client and a server that can be cut, or go dead without a word."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

_CHUNK_BYTES = 65_536


class Line:
    """Carries bytes both ways between who connects to ``url`` and a server.

    The first ``refused`` connections are closed at once. A line that is dead keeps its connections
    and carries nothing, as where a machine has vanished.
    """

    def __init__(self, server_url: str, *, refused: int = 0) -> None:
        parts = urlsplit(server_url)
        self._server = (parts.hostname, parts.port)
        self._refused = refused
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"grpc://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connection_count = 0
        self.carried_bytes = 0
        #: When so many bytes have come from the server, the line is cut, once.
        self.cut_after_bytes: int | None = None
        self._is_dead = False
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_error: object) -> None:
        # A call of accept() that waits is not woken by close().
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    def die(self) -> None:
        """Carry nothing any more."""
        self._is_dead = True

    def cut(self) -> None:
        """End all connections."""
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            self.connection_count += 1
            if self.connection_count <= self._refused:
                client.close()
                continue
            server = socket.create_connection(self._server)
            self._ends += [client, server]
            self._start(self._carry, client, server, False)
            self._start(self._carry, server, client, True)

    def _carry(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                if self._is_dead:
                    continue
                target.sendall(data)
                if not is_answer:
                    continue
                self.carried_bytes += len(data)
                limit = self.cut_after_bytes
                if limit is not None and self.carried_bytes >= limit:
                    self.cut_after_bytes = None
                    self.cut()
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
