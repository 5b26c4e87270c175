"""The settings of a server, and the TOML file with them; errors name line and key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from mayfly.engine import PLATFORMS, Configuration, SettingValue, setting_value
from mayfly.servers.addresses import ListenAddress, is_loopback, listen_address
from mayfly.servers.budget import LIMIT_BYTES
from mayfly.servers.logs import LogForm
from mayfly.store.replica.lease import LEASE_MS, LEAST_LEASE_MS
from mayfly.verbs.contracts.config_files import Table, read_tables


def check_clients(host: str, *, has_tls: bool, has_roots: bool, is_open: bool) -> None:
    """Raise ValueError unless the options state which clients of other machines may use Flight.

    Beyond the loopback interface either ``has_roots`` (their certificates are checked) or
    ``is_open`` (they need none) must be set, not both. ``has_roots`` needs ``has_tls``.
    """
    if has_roots and not has_tls:
        raise ValueError(
            "clients show certificates over TLS alone: name tls_certificate as well "
            "(--tls-certificate, --tls-key)"
        )
    if has_roots and is_open:
        raise ValueError("client_roots and without_client_certificates contradict each other")
    if not (has_roots or is_open or is_loopback(host)):
        raise ValueError(
            f"host {host!r} is open to other machines: say whose certificates clients must have, "
            "client_roots (--tls-client-roots), or that they need none, "
            "without_client_certificates (--without-client-certificates)"
        )


DEFAULT_MQ = ListenAddress("127.0.0.1", 1414)
DEFAULT_FLIGHT = ListenAddress("127.0.0.1", 9414)
#: The rules of these channels are for clients of AMQP; the default rules refuse all.
AMQP_CHANNEL, DEVELOPMENT_AMQP_CHANNEL = "SYSTEM.DEF.SVRCONN", "DEV.APP.SVRCONN"
#: The rules of these channels are for programs and for administrators by HTTP.
HTTP_CHANNEL, DEVELOPMENT_HTTP_CHANNEL = "SYSTEM.DEF.SVRCONN", "DEV.APP.SVRCONN"
HTTP_ADMIN_CHANNEL, DEVELOPMENT_HTTP_ADMIN_CHANNEL = "SYSTEM.ADMIN.SVRCONN", "DEV.ADMIN.SVRCONN"
#: Clients have this long to end their work after SIGTERM.
DRAIN_SECONDS = 10
_NO_CONFIGURATION = Configuration()


class ServedFolder(NamedTuple):
    """A queue manager to serve; without ``path`` its folder is in ``$MAYFLY_HOME``.

    ``mqsc`` are scripts that run at each start. ``expiry_interval_seconds`` is the interval of the
    expiry scan: 0 is never, None leaves it to the queue manager. ``lake`` is the folder of a lake,
    in which traces look for messages that the ledger no longer has.
    """

    name: str
    path: Path | None = None
    configuration: Configuration = _NO_CONFIGURATION
    mqsc: tuple[Path, ...] = ()
    expiry_interval_seconds: int | None = None
    lake: Path | None = None
    #: The URL of a database with a log of all commits (docs/REPLICA.md).
    replica: str | None = None
    replica_lease_ms: int = LEASE_MS


class TlsFiles(NamedTuple):
    """Files in PEM: the certificate chain of the server, its key, the authorities of clients.

    ``without_client_certificates`` opens Flight beyond the loopback interface to all clients.
    """

    certificate: Path | None = None
    key: Path | None = None
    client_roots: Path | None = None
    without_client_certificates: bool = False


#: The longest interval of heartbeats of a server with a replica that names none.
REPLICA_HEARTBEAT_SECONDS: Final = 2


class ClientLimits(NamedTuple):
    """Limits for clients of Mayfly's network protocol; 0 is no limit.

    ``memory_bytes`` is for messages of all listeners together, in both directions. ``connections``
    is the number of sockets. ``outstanding_bytes`` is for bytes that a client has not read. A
    socket is closed if no client is admitted on it within ``admission_seconds``, or if it has no
    request for ``idle_seconds``. ``heartbeat_seconds`` is the longest interval of heartbeats; a
    channel with a longer one uses this one.
    """

    connections: int = 10_000
    outstanding_bytes: int = 1_048_576
    admission_seconds: int = 30
    heartbeat_seconds: int = 0
    idle_seconds: int = 0
    memory_bytes: int = LIMIT_BYTES


class Listen(NamedTuple):
    """The addresses of the listeners; a listener whose address is None is not started."""

    mq: ListenAddress | None = None
    flight: ListenAddress | None = None
    amqp: ListenAddress | None = None
    http: ListenAddress | None = None


#: The listeners of a server whose settings name none.
DEFAULT_LISTEN = Listen(DEFAULT_MQ, DEFAULT_FLIGHT)


class Development(NamedTuple):
    """Settings for developers, which only the command line can set.

    ``is_on`` defines the objects, users and rules that a first program needs. With
    ``has_virtual_clock`` time stands still until an operator advances it. With ``has_tls`` a
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
    #: Servers that the console shows together, by name: their origins, as ``https://HOST:PORT``.
    fleet: Mapping[str, str] = MappingProxyType({})

    @property
    def client_limits(self) -> ClientLimits:
        """The limits in force: with a replica, heartbeats are frequent unless ``limits`` has them.

        A client finds out by them that its server is stopped, or cut off, and goes to the next one.
        """
        has_replica = any(served.replica is not None for served in self.queue_managers)
        if self.limits.heartbeat_seconds or not has_replica:
            return self.limits
        return self.limits._replace(heartbeat_seconds=REPLICA_HEARTBEAT_SECONDS)


def check_settings(settings: ServeSettings) -> None:
    """Raise ValueError for settings that contradict each other; the text names the options.

    Examples are a queue manager named twice, or a certificate without its key.
    """
    names = [served.name for served in settings.queue_managers]
    if not names:
        raise ValueError("no queue manager is named")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"queue manager {name} is named twice")
    _check_replica(settings)
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


def _check_replica(settings: ServeSettings) -> None:
    """Raise ValueError for a replica with a virtual clock, which is that of one process."""
    has_replica = any(each.replica is not None for each in settings.queue_managers)
    if has_replica and settings.development.has_virtual_clock:
        raise ValueError("--virtual-clock and --replica contradict each other")


def _check_development(settings: ServeSettings) -> None:
    """Raise ValueError if development options are used wrongly.

    ``--virtual-clock`` and ``--tls`` need ``--dev``. With ``--dev`` addresses beyond the loopback
    interface need TLS.
    """
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


_LONGEST_DRAIN_SECONDS = 3_600
_LONGEST_INTERVAL_SECONDS = 99_999_999
_HIGHEST_LEVEL = 999
_LONGEST_LEASE_MS = 3_600_000
_LEAST_MEMORY_BYTES, _MAX_MEMORY_BYTES = 1_048_576, 1_099_511_627_776
_MAX_CONNECTIONS, _MAX_BYTES, _DAY_SECONDS = 1_000_000, 1_073_741_824, 86_400


def read_settings(path: Path) -> ServeSettings:
    """Return the settings of ``mayfly serve`` from a TOML file.

    Relative paths start at the folder of the file. Raises ConfigurationError for wrong settings,
    and OSError if the file cannot be read.
    """
    top = read_tables(path)
    queue_managers = tuple(_queue_manager(table) for table in top.tables("queue_manager"))
    if not queue_managers:
        raise top.error("[[queue_manager]]", "is missing: a server has at least one queue manager")
    listen = top.table("listen")
    amqp_channel = listen.plain_text("amqp_channel") or ""
    http_channel = listen.plain_text("http_channel") or ""
    http_admin_channel = listen.plain_text("http_admin_channel") or ""
    settings = ServeSettings(
        queue_managers,
        listen=_listen(listen),
        tls=_tls(top.table("tls")),
        limits=_limits(top.table("limits")),
        log=LogForm(top.one_of("log", LogForm, LogForm.PLAIN)),
        drain_seconds=_number(top, "drain_seconds", 0, _LONGEST_DRAIN_SECONDS, DRAIN_SECONDS),
        token_file=top.local_place("token_file"),
        amqp_channel=amqp_channel,
        http_channel=http_channel,
        http_admin_channel=http_admin_channel,
        fleet=_fleet(top),
    )
    top.refuse_unknown_keys()
    try:
        check_settings(settings)
    except ValueError as error:
        raise top.error("", str(error)) from error
    return settings


def _queue_manager(table: Table) -> ServedFolder:
    """Return the settings in one table [[queue_manager]]; raises ConfigurationError."""
    served = ServedFolder(
        table.text("name"),
        table.local_place("path"),
        Configuration(
            None if (given := table.plain_text("platform")) is None else _platform(table, given),
            table.number("command_level", most=_HIGHEST_LEVEL),
            _settings(table),
        ),
        tuple(table.places("mqsc")),
        table.number("expiry_interval_seconds", 0, _LONGEST_INTERVAL_SECONDS),
        table.local_place("lake"),
        table.plain_text("replica"),
        _number(table, "replica_lease_ms", LEAST_LEASE_MS, _LONGEST_LEASE_MS, LEASE_MS),
    )
    table.refuse_unknown_keys()
    return served


def _platform(table: Table, given: str) -> str:
    """Return a platform name unchanged; raises ConfigurationError unless it is in PLATFORMS."""
    if given not in PLATFORMS:
        raise table.error("platform", f"{given!r} is none of {', '.join(PLATFORMS)}")
    return given


def _settings(table: Table) -> dict[str, SettingValue]:
    """Return the switches in the table ``settings`` by name, with parsed values.

    {} if it is missing. Raises ConfigurationError for an unknown name or a wrong value.
    """
    found: dict[str, SettingValue] = {}
    for name, text in table.texts("settings").items():
        try:
            found[name] = setting_value(name, text)
        except ValueError as error:
            raise table.error("settings", str(error)) from error
    return found


def _listen(table: Table) -> Listen:
    """Return the addresses in the table [listen]; DEFAULT_LISTEN if it has none."""
    listen = Listen(*(_address(table, name) for name in Listen._fields))
    table.refuse_unknown_keys()
    return listen if any(listen) else DEFAULT_LISTEN


def _fleet(top: Table) -> dict[str, str]:
    """Return the origins in the table [fleet] by the names of the servers; {} if it is missing.

    Raises ConfigurationError for a value that is not ``http://HOST:PORT`` or ``https://HOST:PORT``.
    """
    found = top.texts("fleet")
    for name, origin in found.items():
        parts = urlsplit(origin)
        is_origin = parts.hostname and origin == f"{parts.scheme}://{parts.netloc}".lower()
        if not is_origin or parts.scheme not in ("http", "https") or "@" in parts.netloc:
            text = f"{origin!r} is not as https://qm1.example.com:9443"
            raise top.table("fleet").error(name, text)
    return found


def _address(table: Table, key: str) -> ListenAddress | None:
    """Return the address of a key; None if the key is missing.

    Raises ConfigurationError if the value is not ``HOST:PORT``.
    """
    text = table.plain_text(key)
    if text is None:
        return None
    try:
        return listen_address(text)
    except ValueError as error:
        raise table.error(key, str(error)) from error


def _limits(table: Table) -> ClientLimits:
    """Return the limits in the table [limits], with defaults for missing keys.

    Raises ConfigurationError if a limit is out of range or a key is unknown.
    """
    defaults = ClientLimits()
    limits = ClientLimits(
        _number(table, "connections", 1, _MAX_CONNECTIONS, defaults.connections),
        _number(table, "outstanding_bytes", 1, _MAX_BYTES, defaults.outstanding_bytes),
        _number(table, "admission_seconds", 1, _DAY_SECONDS, defaults.admission_seconds),
        _number(table, "heartbeat_seconds", 0, _DAY_SECONDS, defaults.heartbeat_seconds),
        _number(table, "idle_seconds", 0, _DAY_SECONDS, defaults.idle_seconds),
        _number(
            table, "memory_bytes", _LEAST_MEMORY_BYTES, _MAX_MEMORY_BYTES, defaults.memory_bytes
        ),
    )
    table.refuse_unknown_keys()
    return limits


def _tls(table: Table) -> TlsFiles:
    """Return the files in the table [tls], None for each missing key.

    Raises ConfigurationError if a named file does not exist.
    """
    files = TlsFiles(
        table.local_place("certificate"),
        table.local_place("key"),
        table.local_place("client_roots"),
        table.boolean("without_client_certificates"),
    )
    for key, file in zip(("certificate", "key", "client_roots"), files, strict=False):
        if isinstance(file, Path) and not file.is_file():
            raise table.error(key, f"there is no file {file}")
    table.refuse_unknown_keys()
    return files


def _number(table: Table, key: str, least: int, most: int, default: int) -> int:
    """Return the number of a key; ``default`` if the key is missing.

    Raises ConfigurationError if the number is not between ``least`` and ``most``.
    """
    value = table.number(key, least, most)
    return default if value is None else value
