"""The listeners of a server, one class for each protocol, and the host that runs them."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from mayfly.admin.security.admission import Admission
from mayfly.channel import Clients, clients_known
from mayfly.client.connection.interface import instrumented_application
from mayfly.lifetime.times import SECOND_MS
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Runtime
from mayfly.servers.addresses import ListenAddress
from mayfly.servers.budget import Budget
from mayfly.servers.clients import Admits, connection_of
from mayfly.servers.figure_history import FigureHistory
from mayfly.servers.settings import ClientLimits, Listen, TlsFiles
from mayfly.servers.status import ServerStatus, ServingState
from mayfly.servers.wire.link import Limits
from mayfly.servers.wire.server import WireServer
from mayfly.verbs.contracts.access import FolderSocket

if TYPE_CHECKING:
    from mayfly.servers.flight import FlightServer
    from mayfly.servers.http.service import Service


_LOG = logging.getLogger("mayfly.listeners")


class Listener:
    """Accepts connections over one protocol for the queue managers of a host.

    Methods that a subclass does not override do nothing.
    """

    #: Its name in settings and in the ready line: ``mq``, ``flight``.
    name = ""

    def start(self) -> str:
        """Start to listen; return the address for clients, or "" if no address is to be shown.

        Raises OSError, which names the address.
        """
        raise NotImplementedError

    def reload(self) -> None:
        """Read the TLS files again, for connections that come from now on.

        Raises OSError or ValueError if a file cannot be used; the old files then stay in use.
        """

    def look(self) -> None:
        """Do work that is due once a second; called by the host."""

    def drain(self, timeout_ms: int) -> None:
        """Accept no new connections; return when the present ones have ended.

        Returns after ``timeout_ms`` at the latest, even with connections open.
        """

    def stop(self) -> None:
        """Stop to listen, and close all connections; open units of work are backed out."""


class _ClientServer(Clients, Protocol):
    """A server of clients, as its listener sees it."""

    def listen_tcp(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen on an address and return its port; raises OSError if that is not possible."""

    def quiesce(self, number: int) -> bool:
        """Close the connection with conversation ``number`` once its work is done; does not wait.

        Returns False if no connection has this conversation.
        """

    def drain(self, timeout_ms: int) -> object:
        """Return when the connections have ended, or after ``timeout_ms``."""

    def close(self) -> None:
        """Close all connections, and end the threads of the server."""


class ClientListener(Listener):
    """A listener over TCP or TLS whose clients DISPLAY CONN shows, from its start to its stop."""

    def __init__(
        self,
        managers: Sequence[QueueManager],
        admission: Admits,
        address: ListenAddress | None,
        tls: TlsFiles,
        budget: Budget | None,
    ) -> None:
        """Serve ``managers``; without ``address`` it does not listen over TCP.

        ``admission`` decides which programs may connect. ``tls`` has the files for TLS; without a
        certificate there is no TLS. ``budget`` limits the memory for messages and may be shared
        with other listeners.
        """
        self._managers = {manager.name: manager for manager in managers}
        self._admission, self._address, self._tls = admission, address, tls
        self._budget = Budget() if budget is None else budget
        self._context: ssl.SSLContext | None = None
        self._server: _ClientServer | None = None
        #: The steps of :meth:`stop`, the last first.
        self._ending = contextlib.ExitStack()

    @property
    def _runtime(self) -> Runtime:
        """The runtime of the first queue manager, which gives servers their threads."""
        return next(iter(self._managers.values())).engine.runtime

    def _serve(self, server: _ClientServer) -> str:
        """Let ``server`` listen on the address of the settings; return it, or "" without one.

        Raises OSError if the address is in use; the server is closed then.
        """
        self._server = server
        self._ending.callback(server.close)
        address = ""
        if self._address is not None:
            try:
                port = server.listen_tcp(*self._address, self._context)
            except OSError as error:
                self.stop()
                text = f"cannot listen on {self._address}: {error.strerror or error}"
                raise OSError(text) from error
            address = str(self._address._replace(port=port))
        for manager in self._managers.values():
            self._ending.enter_context(clients_known(manager.engine, server))
        return address

    def reload(self) -> None:
        """Load certificate, key and client authorities into the TLS context in use.

        Raises OSError if a file cannot be used; the old files then stay in use. Does nothing
        without TLS.
        """
        if self._context is not None:
            # They are tried apart first: a context with half of them could shake no hands.
            tls_context(self._tls)
            _load_files(self._context, self._tls)

    def drain(self, timeout_ms: int) -> None:
        """Accept no new connections; return when the present ones have ended their work.

        Returns after ``timeout_ms`` at the latest. Does nothing before :meth:`start`.
        """
        if self._server is not None:
            self._server.drain(timeout_ms)

    def stop(self) -> None:
        """Close all connections; open units of work are backed out."""
        self._ending.close()


class MqListener(ClientListener):
    """Mayfly's own network protocol over TCP or TLS, and over a socket ``mq.sock`` in each folder.

    Programs of this machine find the socket in the folder of their queue manager. DISPLAY CONN
    shows its clients.
    """

    name = "mq"

    def __init__(
        self,
        managers: Sequence[QueueManager],
        admission: Admits,
        address: ListenAddress | None,
        *,
        tls: TlsFiles,
        limits: ClientLimits,
        budget: Budget | None = None,
        folders: Sequence[Path] = (),
        announce: Callable[[], None] = lambda: None,
    ) -> None:
        """Configure the listener; without ``address`` it has only the sockets in ``folders``.

        ``limits`` are those of clients and connections; the other parameters are those of
        :class:`ClientListener`. ``announce`` is called when it listens: it writes the file by which
        programs find the sockets.
        """
        budget = Budget(limits.memory_bytes) if budget is None else budget
        super().__init__(managers, admission, address, tls, budget)
        self._limits, self._folders, self._announce = limits, folders, announce
        self._idle = _IdleConnections(limits.idle_seconds)
        self._wire_server: WireServer | None = None

    def start(self) -> str:
        """Start to listen; return the address, or "" if the listener has only sockets in folders.

        Raises OSError if an address is in use or a TLS file cannot be used.
        """
        self._context = tls_context(self._tls)
        # Ended behind the server, which removes its sockets by these paths.
        folder_sockets = [
            self._ending.enter_context(contextlib.closing(FolderSocket(folder)))
            for folder in self._folders
        ]
        self._wire_server = server = WireServer(
            self._managers.values(),
            self._admission,
            limits=_limits_of(self._limits),
            budget=self._budget,
        )
        address = self._serve(server)
        for folder_socket in folder_sockets:
            server.listen_unix(folder_socket.path)
        self._announce()
        return address

    def limit(self, limits: ClientLimits) -> None:
        """Apply other limits from now on: to new connections, memory, and idle connections.

        Open connections stay, even above the new limits.
        """
        if limits != self._limits:
            self._limits = limits
            self._budget.limit(limits.memory_bytes)
            self._idle = _IdleConnections(limits.idle_seconds)
            if self._wire_server is not None:
                self._wire_server.limit(_limits_of(limits))

    def look(self) -> None:
        """Close connections that have sent no request for ``idle_seconds``.

        0 seconds closes none.
        """
        if self._limits.idle_seconds and self._wire_server is not None:
            self._idle.look(self._wire_server)


def _limits_of(limits: ClientLimits) -> Limits:
    """Return the limits with times in ms, as the wire server takes them."""
    return Limits(
        connections=limits.connections,
        outstanding_bytes=limits.outstanding_bytes,
        admission_ms=limits.admission_seconds * SECOND_MS,
        heartbeat_ms=limits.heartbeat_seconds * SECOND_MS,
    )


class _IdleConnections:
    """Counts, once a second, for how long each connection has sent no request."""

    def __init__(self, idle_seconds: int) -> None:
        """Take the number of seconds without a request after which a connection is idle."""
        self._idle_seconds = idle_seconds
        #: Number of a conversation -> its requests, and for how many looks these are as many.
        self._seen: dict[int, tuple[int, int]] = {}

    def look(self, server: WireServer) -> None:
        """Close connections without a request for ``idle_seconds``; call it once a second.

        A connection with a running call or an open unit of work is not idle, nor is a message
        channel.
        """
        seen: dict[int, tuple[int, int]] = {}
        for status in server.connections():
            count, looks = self._seen.get(status.number, (-1, 0))
            is_busy = status.is_running or status.unit_of_work_ms is not None
            # A message channel that has nothing to send ends by itself (DISCINT).
            is_busy = is_busy or bool(status.sending_manager)
            if is_busy or count != status.request_count:
                looks = 0
            if looks >= self._idle_seconds:
                text = f"has asked for nothing for {self._idle_seconds} s"
                _LOG.info(
                    "connection %d of %s %s and is ended",
                    status.number,
                    status.user,
                    text,
                    extra={"queue_manager": status.queue_manager, "channel": status.channel},
                )
                server.end(status.number, text)
            else:
                seen[status.number] = status.request_count, looks + 1
        self._seen = seen


class FlightListener(Listener):
    """Listens for Arrow Flight, for pipelines and the ledger; imports pyarrow only when it starts.

    A reload does not change its certificate, since gRPC reads it only once.
    """

    name = "flight"

    def __init__(
        self,
        managers: Sequence[QueueManager],
        folders: Mapping[str, Path],
        address: ListenAddress,
        *,
        token: str,
        tls: TlsFiles,
        budget: Budget | None = None,
    ) -> None:
        """Configure the listener; every call must have ``token``.

        ``folders``, by name of the queue manager, also get sockets, for commands of this machine.
        ``tls`` has the files for TLS. ``budget`` limits the memory and may be shared with other
        listeners.
        """
        self._budget = budget
        self._managers, self._folders, self._address = managers, folders, address
        self._token, self._tls = token, tls
        self._server: FlightServer | None = None

    def start(self) -> str:
        """Start to listen; return the URL for clients.

        Raises OSError if the address is in use or a file cannot be read, ValueError for
        contradicting options.
        """
        from mayfly.servers.flight import FlightServer

        certificate = None
        if self._tls.certificate is not None and self._tls.key is not None:
            certificate = self._tls.certificate.read_bytes(), self._tls.key.read_bytes()
        roots = self._tls.client_roots
        self._server = FlightServer(
            self._managers,
            self._address.host,
            self._address.port,
            token=self._token,
            tls_certificate=certificate,
            client_roots=None if roots is None else roots.read_bytes(),
            without_client_certificates=self._tls.without_client_certificates,
            folders=self._folders,
            budget=self._budget,
        )
        self._server.start()
        return self._server.url

    def drain(self, timeout_ms: int) -> None:
        """Do the same as :meth:`stop`: end running calls without waiting for ``timeout_ms``."""
        self.stop()

    def stop(self) -> None:
        """Refuse new calls and end all running ones; clients that do not respond have 5 seconds."""
        if self._server is not None:
            self._server.stop()

    @property
    def is_held(self) -> bool:
        """Whether a silent client has outlasted the stop, so that gRPC's threads still wait."""
        return self._server is not None and self._server.is_held


class HttpListener(ClientListener):
    """Listens for HTTP over TCP or TLS; DISPLAY CONN shows its clients."""

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
        server_status: ServerStatus,
        histories: Mapping[str, FigureHistory],
        fleet: Mapping[str, str] = MappingProxyType({}),
        budget: Budget | None = None,
    ) -> None:
        """Configure the listener; ``budget`` may be shared with other listeners.

        ``admission`` checks users; ``tls`` has the files for TLS. ``histories`` has the figures
        over time of each queue manager, by name. ``server_status`` is shown by
        health probes. The rules of ``channel`` apply to programs, those of ``admin_channel`` to
        administrators. ``fleet`` has the origins of servers whose consoles show this one, by name.
        """
        super().__init__(managers, admission, address, tls, budget)
        self._is_on_loopback = address.is_loopback
        self._channel, self._admin_channel = channel, admin_channel
        self._server_status = server_status
        self._histories, self._fleet = histories, fleet
        self.service: Service | None = None

    def start(self) -> str:
        """Start to listen; return the address.

        Raises OSError if the address is in use, a TLS file cannot be used, or Starlette or uvicorn
        is not installed.
        """
        try:
            from mayfly.servers.http.application import Application
            from mayfly.servers.http.server import HttpServer
            from mayfly.servers.http.service import Service
        except ModuleNotFoundError as error:
            raise OSError(f"--http needs mayfly-mq[http]: {error}") from error
        self._context = tls_context(self._tls)
        self.service = service = Service(
            self._managers,
            self._admission,
            self._server_status,
            channel=self._channel,
            admin_channel=self._admin_channel,
            histories=self._histories,
            fleet=self._fleet,
        )
        is_loopback = self._is_on_loopback and self._context is None
        made = Application(service, is_loopback=is_loopback)
        return self._serve(HttpServer(instrumented_application(made), self._budget, self._runtime))

    def drain(self, timeout_ms: int) -> None:
        """End waiting gets and live streams at once; wait up to ``timeout_ms`` for other requests.

        Health probes are still answered. Does nothing before :meth:`start`.
        """
        if self.service is not None:
            self.service.message_waits.end()
            self.service.feeds.end()
        super().drain(timeout_ms)

    def stop(self) -> None:
        """Close all connections, live streams and what-if experiments."""
        if self.service is not None:
            self.service.feeds.end()
            self.service.experiments.end()
        super().stop()


class AmqpListener(ClientListener):
    """Listens for AMQP 1.0 over TCP or TLS; proton ends connections that are silent for too long.

    Proton is imported only when it starts.
    """

    name = "amqp"

    def __init__(
        self,
        managers: Sequence[QueueManager],
        admission: Admits,
        address: ListenAddress,
        *,
        channel: str,
        tls: TlsFiles,
        budget: Budget | None = None,
    ) -> None:
        """Take the settings of the server; the rules of ``channel`` apply to its clients.

        The other parameters are those of :class:`ClientListener`.
        """
        super().__init__(managers, admission, address, tls, budget)
        self._channel = channel

    def start(self) -> str:
        """Start to listen; return the address.

        Raises OSError for an address in use, for unusable TLS files, and when python-qpid-proton is
        not installed.
        """
        try:
            from mayfly.servers.amqp.connection import AmqpServer
        except ModuleNotFoundError as error:
            text = "--amqp needs python-qpid-proton, which a C compiler builds: mayfly-mq[amqp]"
            raise OSError(text) from error
        self._context = tls_context(self._tls)
        return self._serve(
            AmqpServer(
                list(self._managers),
                self._admission,
                lambda _name, admitted, applicant: connection_of(
                    self._managers, applicant, admitted
                ),
                channel=self._channel,
                runtime=self._runtime,
                budget=self._budget,
            )
        )


def import_listeners(listen: Listen) -> None:
    """Import what the listeners of these addresses need, so that they start at once later."""
    modules = {"flight": "flight", "amqp": "amqp.connection", "http": "http.application"}
    for name, address in listen._asdict().items():
        if address is not None and name in modules:
            with contextlib.suppress(ImportError):
                # Its start says what is missing.
                import_module(f"mayfly.servers.{modules[name]}")


def tls_context(tls: TlsFiles) -> ssl.SSLContext | None:
    """Return a TLS context (1.2 or newer) for a server; None if ``tls`` has no certificate.

    Raises OSError, which names the files, if a file cannot be used.
    """
    if tls.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_files(context, tls)
    return context


def _load_files(context: ssl.SSLContext, tls: TlsFiles) -> None:
    """Load certificate, key and client authorities into a TLS context.

    Raises OSError, which names the files. With client authorities a client may show a certificate,
    but need not.
    """
    assert tls.certificate is not None
    try:
        context.load_cert_chain(tls.certificate, tls.key, password="")
        if tls.client_roots is not None:
            context.load_verify_locations(tls.client_roots)
            # The channel of a client decides whether a certificate is required (SSLCAUTH).
            context.verify_mode = ssl.CERT_OPTIONAL
    except OSError as error:
        files = ", ".join(str(file) for file in tls[:3] if file is not None)
        raise OSError(f"{files}: {error.strerror or error}") from error


# The host, which runs the listeners of a server from their start to the drain


_HOST_LOG = logging.getLogger("mayfly.host")


class Host:
    """Runs listeners for queue managers; its caller opens and closes the queue managers.

    All methods are called by one thread.
    """

    def __init__(
        self,
        managers: Sequence[QueueManager],
        listeners: Sequence[Listener],
        admission: Admission,
        server_status: ServerStatus | None = None,
    ) -> None:
        """Take open queue managers, and listeners in the order in which they start.

        ``admission`` decides which programs may connect. ``server_status`` is the status of the
        server, for health probes.
        """
        self._admission = admission
        self.managers = list(managers)
        self._listeners = list(listeners)
        self._started: list[Listener] = []
        self._logged_stopped: set[str] = set()
        #: Errors, and names of loops that are gone, which the log has already.
        self._logged: set[str] = set()
        self.server_status = server_status or ServerStatus(managers)

    def start(self) -> dict[str, str]:
        """Start the listeners in order; return their addresses by listener name.

        Tells systemd that the server is ready. If one listener raises OSError, the started ones are
        stopped and the error is raised.
        """
        addresses: dict[str, str] = {}
        try:
            for listener in self._listeners:
                self._started.append(listener)
                address = listener.start()
                if address:
                    addresses[listener.name] = address
                    _HOST_LOG.info(
                        "%s listens on %s",
                        listener.name,
                        address,
                        extra={"listener": listener.name, "address": address},
                    )
        except BaseException:
            self.stop()
            raise
        self.server_status.state = ServingState.READY
        names = [manager.name for manager in self.managers]
        _HOST_LOG.info("ready: %s", ", ".join(names), extra={"queue_managers": names})
        notify("READY=1", f"STATUS=serving {', '.join(names)}")
        return addresses

    def reload(self) -> None:
        """Read the files of admission and of the listeners again, such as TLS certificates.

        A listener that cannot read its files keeps the old ones; the error is logged.
        """
        notify("RELOADING=1")
        self._admission.refresh()
        for listener in self._started:
            try:
                listener.reload()
            except Exception as error:  # noqa: BLE001 - a wrong file must not end the server
                is_file = isinstance(error, OSError | ValueError)
                _HOST_LOG.error(
                    "%s goes on with the files of before: %s",
                    listener.name,
                    error,
                    extra={"listener": listener.name},
                    exc_info=None if is_file else error,
                )
        notify("READY=1")

    def drain(self, timeout_ms: int, *, goes_on: bool = False) -> threading.Thread:
        """Start to drain all listeners; return a thread that ends when all are drained.

        systemd gets the notice STOPPING, unless the process goes on as a standby (``goes_on``).

        Listeners accept no new connections. A connection closes when it is idle or has ended its
        unit of work. After ``timeout_ms`` the drain ends; :meth:`stop` closes the remaining
        connections.
        """
        self.server_status.state = ServingState.DRAINING
        notify(*([] if goes_on else ["STOPPING=1"]), "STATUS=draining")
        _HOST_LOG.info("draining for at most %d s", timeout_ms // 1000)
        drains = [
            threading.Thread(
                target=listener.drain, args=(timeout_ms,), name=f"mayfly-drain-{listener.name}"
            )
            for listener in self._started
        ]

        def wait_for_all() -> None:
            """Wait until every listener is drained."""
            for drain in drains:
                drain.join()

        for drain in drains:
            drain.start()
        waiting = threading.Thread(target=wait_for_all, name="mayfly-drain", daemon=True)
        waiting.start()
        return waiting

    def stop(self) -> None:
        """Stop all listeners, in the reverse order of their start.

        A second call stops nothing more. An error of a listener is logged, and the others are
        stopped.
        """
        self.server_status.state = ServingState.STOPPED
        while self._started:
            listener = self._started.pop()
            try:
                listener.stop()
            except Exception:  # noqa: BLE001 - the others are stopped as well
                _HOST_LOG.exception("%s is not stopped", listener.name)

    def look(self) -> None:
        """Do the work of the listeners that is due once a second; the caller repeats it.

        Logs each error once, and each ended server thread once; raises nothing.
        """
        for listener in self._started:
            try:
                listener.look()
            except Exception as error:  # noqa: BLE001 - one client must not end the server
                if repr(error) not in self._logged:
                    self._logged.add(repr(error))
                    _HOST_LOG.exception("%s: its clients cannot be looked at", listener.name)
        for name in self.server_status.ended_threads():
            if name not in self._logged:
                self._logged.add(name)
                text = "%s is gone: what it does is done no more until the server is started again"
                _HOST_LOG.critical(text, name, extra={"loop": name})

    def stopped_managers(self) -> list[str]:
        """Return the names of queue managers that have stopped by themselves; logs each once.

        A queue manager stops if its disk fails during a commit, or if its database is damaged.
        """
        stopped = [manager.name for manager in self.managers if manager.is_stopped]
        for name in stopped:
            if name not in self._logged_stopped:
                self._logged_stopped.add(name)
                _HOST_LOG.error("%s has stopped", name, extra={"queue_manager": name})
        return stopped


def notify(*states: str) -> None:
    """Send states such as ``READY=1`` to systemd; does nothing without ``$NOTIFY_SOCKET``.

    An OSError is ignored, since the service manager may have stopped listening.
    """
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    # An address that begins with @ is in the abstract name space.
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as systemd:
            systemd.sendto("\n".join(states).encode(), address)
    except OSError:
        return
