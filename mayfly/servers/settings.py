"""The settings of a server: queue managers, listeners, TLS, limits, log."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mayfly.engine import Configuration
from mayfly.servers.budget import LIMIT_BYTES
from mayfly.servers.exposure import ListenAddress, check_clients
from mayfly.servers.logs import LogForm

DEFAULT_MQ = ListenAddress("127.0.0.1", 1414)
DEFAULT_FLIGHT = ListenAddress("127.0.0.1", 9414)
#: The rules of these channels are for clients of AMQP; its default rules let nobody in.
AMQP_CHANNEL, DEVELOPMENT_AMQP_CHANNEL = "SYSTEM.DEF.SVRCONN", "DEV.APP.SVRCONN"
#: The rules of these channels are for programs and for administrators by HTTP.
HTTP_CHANNEL, DEVELOPMENT_HTTP_CHANNEL = "SYSTEM.DEF.SVRCONN", "DEV.APP.SVRCONN"
HTTP_ADMIN_CHANNEL, DEVELOPMENT_HTTP_ADMIN_CHANNEL = "SYSTEM.ADMIN.SVRCONN", "DEV.ADMIN.SVRCONN"
#: Clients have this long to end their work after SIGTERM.
DRAIN_SECONDS = 10
_NO_CONFIGURATION = Configuration()


class ServedFolder(NamedTuple):
    """A queue manager to serve; without ``path`` it is in ``$MAYFLY_HOME``.

    ``mqsc`` are scripts that run at each start. ``expiry_interval_seconds`` is the interval of the
    scan: 0 is never, None leaves it to the queue manager. In ``lake``, the folder of a lake,
    stories of messages look for lives that the ledger no longer has.
    """

    name: str
    path: Path | None = None
    configuration: Configuration = _NO_CONFIGURATION
    mqsc: tuple[Path, ...] = ()
    expiry_interval_seconds: int | None = None
    lake: Path | None = None


class TlsFiles(NamedTuple):
    """Files in PEM: the certificate chain of the server, its key, the authorities of clients.

    ``without_client_certificates`` opens Flight beyond the loopback interface to all clients.
    """

    certificate: Path | None = None
    key: Path | None = None
    client_roots: Path | None = None
    without_client_certificates: bool = False


class ClientLimits(NamedTuple):
    """Limits for clients of the network protocol; 0 is no limit.

    ``memory_bytes`` is for messages of all listeners together, on their way in and out.
    ``connections`` is the number of sockets, ``outstanding_bytes`` that of bytes that wait for a
    client that does not read. A socket is closed when no client is admitted on it within
    ``admission_seconds``, or when it has no request for ``idle_seconds``. ``heartbeat_seconds`` is
    the longest interval of heartbeats; a longer one of a channel is shortened.
    """

    connections: int = 10_000
    outstanding_bytes: int = 1_048_576
    admission_seconds: int = 30
    heartbeat_seconds: int = 0
    idle_seconds: int = 0
    memory_bytes: int = LIMIT_BYTES


class Listen(NamedTuple):
    """The addresses of the listeners; None: the listener is not started."""

    mq: ListenAddress | None = None
    flight: ListenAddress | None = None
    amqp: ListenAddress | None = None
    http: ListenAddress | None = None


#: The listeners of a server whose settings name none.
DEFAULT_LISTEN = Listen(DEFAULT_MQ, DEFAULT_FLIGHT)


class Development(NamedTuple):
    """Settings for developers, which only the command line has.

    With ``is_on`` the objects, users and rules that a first program needs are defined. With
    ``has_virtual_clock`` time stands still until an operator moves it on. With ``has_tls`` a
    certificate is made for the server.
    """

    is_on: bool = False
    has_virtual_clock: bool = False
    has_tls: bool = False


class ServeSettings(NamedTuple):
    """All settings of ``mayfly serve``."""

    queue_managers: tuple[ServedFolder, ...]
    listen: Listen = DEFAULT_LISTEN
    tls: TlsFiles = TlsFiles()
    limits: ClientLimits = ClientLimits()
    log: LogForm = LogForm.PLAIN
    drain_seconds: int = DRAIN_SECONDS
    token_file: Path | None = None
    development: Development = Development()
    #: The channel whose rules are for clients of AMQP; "" is AMQP_CHANNEL, or that of --dev.
    amqp_channel: str = ""
    #: The channel whose rules are for programs by HTTP; "" is HTTP_CHANNEL, or that of --dev.
    http_channel: str = ""
    #: The channel whose rules are for administrators by HTTP; "" is HTTP_ADMIN_CHANNEL, or that of
    #: --dev.
    http_admin_channel: str = ""


def check_settings(settings: ServeSettings) -> None:
    """Raise ValueError for settings that contradict each other, naming them."""
    names = [served.name for served in settings.queue_managers]
    if not names:
        raise ValueError("no queue manager is named")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"queue manager {name} is named twice")
    tls = settings.tls
    if (tls.certificate is None) != (tls.key is None):
        raise ValueError("certificate and key go together (--tls-certificate, --tls-key)")
    _check_development(settings)
    if settings.listen.flight is not None:
        check_clients(
            settings.listen.flight.host,
            has_tls=tls.certificate is not None,
            has_roots=tls.client_roots is not None,
            is_open=tls.without_client_certificates,
        )


def _check_development(settings: ServeSettings) -> None:
    development, certificate = settings.development, settings.tls.certificate
    if not development.is_on:
        for option, is_given in (
            ("--virtual-clock", development.has_virtual_clock),
            ("--tls", development.has_tls),
        ):
            if is_given:
                raise ValueError(f"{option} is for development: it needs --dev")
        return
    if development.has_tls and certificate is not None:
        raise ValueError("--tls makes a certificate, and --tls-certificate names one")
    if development.has_tls or certificate is not None:
        return
    for address in settings.listen:
        if address is not None and not address.is_loopback:
            raise ValueError(
                f"--dev listens on {address}, beyond the loopback interface, with TLS alone: "
                "--tls makes a certificate"
            )
