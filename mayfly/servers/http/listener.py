"""The listener for HTTP of a host; Starlette and uvicorn are imported when it starts."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mayfly.channel import clients_known
from mayfly.client.connection.instruments import instrumented_application
from mayfly.queue_manager import QueueManager
from mayfly.servers.budget import Budget
from mayfly.servers.exposure import ListenAddress
from mayfly.servers.listeners import load_files, tls_context
from mayfly.servers.settings import TlsFiles
from mayfly.servers.standing import Standing
from mayfly.servers.wire.exchange import Admits

if TYPE_CHECKING:
    from mayfly.servers.http.server import HttpServer
    from mayfly.servers.http.service import Service


class HttpListener:
    """HTTP over TCP or TLS.

    Administration of the queue managers knows its clients from the start to the stop.
    """

    name = "http"

    def __init__(
        self,
        managers: Sequence[QueueManager],
        admission: Admits,
        address: ListenAddress,
        *,
        channel: str,
        admin_channel: str,
        tls: TlsFiles,
        standing: Standing,
        budget: Budget | None = None,
    ) -> None:
        """Take the parts of the server; a ``budget`` may be shared with other listeners.

        The rules of ``channel`` are for programs, those of ``admin_channel`` for administrators.
        """
        self._managers = {manager.name: manager for manager in managers}
        self._admission, self._address = admission, address
        self._channels = channel, admin_channel
        self._tls, self._standing = tls, standing
        self._budget = Budget() if budget is None else budget
        self._context: ssl.SSLContext | None = None
        self._server: HttpServer | None = None
        self._service: Service | None = None
        self._known = contextlib.ExitStack()

    def start(self) -> str:
        """Begin to listen.

        Raises OSError for an address that is taken, for files of TLS that cannot be used, and where
        Starlette or uvicorn are not installed.
        """
        try:
            from mayfly.servers.http.application import application
            from mayfly.servers.http.clients import HttpClients
            from mayfly.servers.http.server import HttpServer
            from mayfly.servers.http.service import Channels, Service
        except ModuleNotFoundError as error:
            raise OSError(f"--http needs mayfly-mq[http]: {error}") from error
        if self._tls.certificate is not None:
            self._context = tls_context(self._tls)
        channels = Channels(*self._channels)
        self._service = service = Service(self._managers, self._admission, channels, self._standing)
        is_loopback = self._address.is_loopback and self._context is None
        made = application(service, is_loopback=is_loopback)
        runtime = next(iter(self._managers.values())).engine.runtime
        server = HttpServer(instrumented_application(made), self._budget, runtime)
        try:
            port = server.listen(*self._address, self._context)
        except OSError as error:
            said = f"cannot listen on {self._address}: {error.strerror or error}"
            raise OSError(said) from error
        self._server = server
        clients = HttpClients(server.lines)
        for manager in self._managers.values():
            known = clients_known(manager.engine, clients, clients.quiesce)
            self._known.enter_context(known)
        return str(self._address._replace(port=port))

    def reload(self) -> None:
        """Load the certificate, its key and the authorities of clients into the context in use."""
        if self._context is not None:
            tls_context(self._tls)
            load_files(self._context, self._tls)

    def look(self) -> None:
        """Nothing is due once a second."""

    def drain(self, timeout_ms: int) -> None:
        """End waits and live streams, wait for other requests; probes are told that it drains."""
        if self._service is not None:
            self._service.message_waits.end()
            self._service.feeds.end()
        if self._server is not None:
            self._server.drain(timeout_ms)

    def stop(self) -> None:
        """End all connections, live streams and experiments."""
        if self._service is not None:
            self._service.feeds.end()
            self._service.experiments.end()
        self._known.close()
        if self._server is not None:
            self._server.close()
