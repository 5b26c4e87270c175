"""The TOML file of ``mayfly serve``: read strictly, each error with its line, key and value."""

from __future__ import annotations

from pathlib import Path

from mayfly.engine import PLATFORMS, Configuration, SettingValue, setting_value
from mayfly.servers.exposure import ListenAddress, listen_address
from mayfly.servers.logs import LogForm
from mayfly.servers.settings import (
    DEFAULT_LISTEN,
    DRAIN_SECONDS,
    ClientLimits,
    Listen,
    ServedFolder,
    ServeSettings,
    TlsFiles,
    check_settings,
)
from mayfly.verbs.contracts.toml_tables import ConfigurationError, Table, read_tables

__all__ = ["ConfigurationError", "read_settings"]

_LONGEST_DRAIN_SECONDS = 3_600
_LONGEST_INTERVAL_SECONDS = 99_999_999
_HIGHEST_LEVEL = 999
_LEAST_MEMORY_BYTES, _MOST_MEMORY_BYTES = 1_048_576, 1_099_511_627_776
_MOST_CONNECTIONS, _MOST_BYTES, _DAY_SECONDS = 1_000_000, 1_073_741_824, 86_400


def read_settings(path: Path) -> ServeSettings:
    """Return the settings of ``mayfly serve`` in a file.

    Relative paths are counted from the folder of the file. Raises ConfigurationError, and OSError
    when the file cannot be read.
    """
    top = read_tables(path)
    queue_managers = tuple(_queue_manager(table) for table in top.tables("queue_manager"))
    if not queue_managers:
        top.fail("[[queue_manager]]", "is missing: a server has at least one queue manager")
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
    )
    top.refuse_the_rest()
    try:
        check_settings(settings)
    except ValueError as error:
        raise top.error("", str(error)) from error
    return settings


def _queue_manager(table: Table) -> ServedFolder:
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
    )
    table.refuse_the_rest()
    return served


def _platform(table: Table, given: str) -> str:
    if given not in PLATFORMS:
        table.fail("platform", f"{given!r} is none of {', '.join(PLATFORMS)}")
    return given


def _settings(table: Table) -> dict[str, SettingValue]:
    found: dict[str, SettingValue] = {}
    for name, text in table.texts("settings").items():
        try:
            found[name] = setting_value(name, text)
        except ValueError as error:
            table.fail("settings", str(error))
    return found


def _listen(table: Table) -> Listen:
    listen = Listen(*(_address(table, name) for name in Listen._fields))
    table.refuse_the_rest()
    return listen if any(listen) else DEFAULT_LISTEN


def _address(table: Table, key: str) -> ListenAddress | None:
    text = table.plain_text(key)
    if text is None:
        return None
    try:
        return listen_address(text)
    except ValueError as error:
        return table.fail(key, str(error))


def _limits(table: Table) -> ClientLimits:
    defaults = ClientLimits()
    limits = ClientLimits(
        _number(table, "connections", 1, _MOST_CONNECTIONS, defaults.connections),
        _number(table, "outstanding_bytes", 1, _MOST_BYTES, defaults.outstanding_bytes),
        _number(table, "admission_seconds", 1, _DAY_SECONDS, defaults.admission_seconds),
        _number(table, "heartbeat_seconds", 0, _DAY_SECONDS, defaults.heartbeat_seconds),
        _number(table, "idle_seconds", 0, _DAY_SECONDS, defaults.idle_seconds),
        _number(
            table, "memory_bytes", _LEAST_MEMORY_BYTES, _MOST_MEMORY_BYTES, defaults.memory_bytes
        ),
    )
    table.refuse_the_rest()
    return limits


def _tls(table: Table) -> TlsFiles:
    files = TlsFiles(
        table.local_place("certificate"),
        table.local_place("key"),
        table.local_place("client_roots"),
        table.truth("without_client_certificates"),
    )
    for key, file in zip(("certificate", "key", "client_roots"), files, strict=False):
        if isinstance(file, Path) and not file.is_file():
            table.fail(key, f"there is no file {file}")
    table.refuse_the_rest()
    return files


def _number(table: Table, key: str, least: int, most: int, default: int) -> int:
    value = table.number(key, least, most)
    return default if value is None else value
