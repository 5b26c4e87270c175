"""Hosting for ``mayfly serve``: opens queue managers, runs the host process, handles signals."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import resource
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import typer

from mayfly.admin.mqsc.grammar import Command, MqscSyntaxError, Parameter, parse, statements
from mayfly.admin.mqsc.plan import Applied, plan
from mayfly.admin.security.admission import Admission, call_at_refresh
from mayfly.admin.security.developer import (
    APP,
    DEFINITIONS,
    DeveloperPasswords,
    developer_users,
    self_signed_certificate,
)
from mayfly.admin.security.users import users_of
from mayfly.cli.lake_engine import LakeArchive
from mayfly.cli.managers import acting_user, folder_of
from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.served import (
    IMPAIRED,
    OWNER,
    READY,
    STANDBY,
    Served,
    ServedFile,
    opened_when_free,
)
from mayfly.cli.show import note, print_json
from mayfly.cli.signals import arriving_signals
from mayfly.cli.standby import is_passing, reachable, stand_by
from mayfly.engine import manager_definition, scan_every, volatile_count
from mayfly.lifetime.times import Clock
from mayfly.mqi.constants import MQCHT_SVRCONN, MQEXPI_OFF
from mayfly.mqi.errors import MQError, StoreError
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Runtime, SystemClock
from mayfly.runtime.files import Files
from mayfly.runtime.virtual_clock import VirtualClock
from mayfly.servers.budget import Budget
from mayfly.servers.figure_history import FigureHistory
from mayfly.servers.listeners import (
    AmqpListener,
    FlightListener,
    Host,
    HttpListener,
    Listener,
    MqListener,
    notify,
)
from mayfly.servers.logs import log_to
from mayfly.servers.settings import (
    AMQP_CHANNEL,
    DEVELOPMENT_AMQP_CHANNEL,
    DEVELOPMENT_HTTP_ADMIN_CHANNEL,
    DEVELOPMENT_HTTP_CHANNEL,
    HTTP_ADMIN_CHANNEL,
    HTTP_CHANNEL,
    Listen,
    ServedFolder,
    ServeSettings,
    TlsFiles,
    check_settings,
)
from mayfly.servers.status import ServerStatus
from mayfly.services.command_server import start_command_server
from mayfly.store.database import DATABASE_FILE
from mayfly.store.replica.log import Owned
from mayfly.store.stored_objects import stored_objects
from mayfly.verbs.contracts.access import (
    MQ_SOCKET_FILE,
    TOKEN_FILE,
    TOKEN_VARIABLE,
    TokenMissing,
    read_token,
)
from mayfly.verbs.facts import WITHOUT_EFFECT

#: The scan runs this often unless the queue manager says otherwise (X9).
EXPIRY_INTERVAL_SECONDS = 5
#: With Python's own 5 ms a commit beside a busy thread waits 5 ms for the interpreter lock:
#: 225 syncs/s instead of 1,042, measured.
SWITCH_INTERVAL_SECONDS = 0.0005
#: More open files than all connections of all listeners need.
_MAX_FILES = 65_536
_TOKEN_BYTES = 32
#: The scripts of the configuration as they were last applied.
_APPLIED = "applied.json"
#: A queue manager that has stopped by itself is noticed this soon.
_LOOK_SECONDS = 1.0
#: Arrives as a signal does when a standby is to become the owner. No signal has this number.
SWITCH = 0
#: Programs have so long to end their work then; what is open after that is backed out.
_SWITCH_DRAIN_MS = 300
_LOG = logging.getLogger("mayfly.serve")
_TRACES, _METRICS = "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"
#: The groups of entry points by which packages of exporters name them.
_GROUPS = {
    _TRACES: "opentelemetry_traces_exporter",
    _METRICS: "opentelemetry_metrics_exporter",
}
_CHANNEL_KEYS = ("amqp_channel", "http_channel", "http_admin_channel")
_CHANNEL_WORDS = ("CHANNEL", "CHL")


class _AllStopped(CommandFailed):
    """All queue managers of the server have stopped by themselves."""


class _OpenManagers(NamedTuple):
    """The open queue managers of the server, their ``served.json`` files, and folders by name."""

    folders: dict[str, Path]
    files: list[ServedFile]
    managers: list[QueueManager]


def check_served(settings: ServeSettings) -> None:
    """Raise CommandFailed for settings that contradict each other, or name a file that is missing.

    MQSC scripts are parsed, and nothing is run or changed. Call it before a queue manager is made
    or opened.
    """
    with wrong_values():
        check_settings(settings)
    for served in settings.queue_managers:
        folder_of(served.name, served.path)
        commands_of(served)
    for file in settings.tls[:3]:
        if isinstance(file, Path):
            _read_text(file)


def commands_of(served: ServedFolder) -> list[Command]:
    """Return the commands of all MQSC scripts of a queue manager, parsed; none is run.

    Raises CommandFailed for the first syntax error, and for a script that cannot be read.
    """
    return [command for script in served.mqsc for command in _parsed(script)]


def _parsed(script: Path) -> Iterator[Command]:
    """Yield the commands of an MQSC script; raises CommandFailed for the first syntax error."""
    for statement in statements(_read_text(script)):
        if statement.is_command:
            try:
                yield parse(statement)
            except MqscSyntaxError as error:
                line, column = statement.place(error.start)
                text = f"{script}, line {line}, column {column}: {error}"
                raise CommandFailed(ExitCode.USAGE, text) from error


def check_channels(settings: ServeSettings, scripts: Sequence[Sequence[Command]]) -> None:
    """Raise CommandFailed for a channel that is named and will not be there when clients come.

    ``scripts`` has for each queue manager the commands of all its MQSC scripts, in their order. A
    channel is there when the scripts define it with CHLTYPE(SVRCONN), when the folder of the queue
    manager has it, or with ``--dev`` when it is one of developers. Folders are read, also those
    that a server has open, and not changed. Raises StoreError for a folder that cannot be read.
    """
    named = [(key, name) for key in _CHANNEL_KEYS if (name := getattr(settings, key))]
    if not named:
        return
    for served, commands in zip(settings.queue_managers, scripts, strict=True):
        defined = _client_channels(served, commands)
        if settings.development.is_on:
            defined |= {DEVELOPMENT_HTTP_CHANNEL, DEVELOPMENT_HTTP_ADMIN_CHANNEL}
        for key, name in named:
            if name not in defined:
                text = f"no channel {name} with CHLTYPE(SVRCONN) is defined at {served.name}"
                raise CommandFailed(
                    ExitCode.USAGE, f"{key}: {text}: neither in its folder nor by its mqsc scripts"
                )


def _client_channels(served: ServedFolder, commands: Sequence[Command]) -> set[str]:
    """Return the names of the SVRCONN channels that exist once the scripts have run.

    They are those in the folder of ``served``, as ``commands`` of the scripts add or delete them.
    """
    stored = stored_objects(folder_of(served.name, served.path), "CHANNEL")
    found = {name for name, each in stored.items() if each["CHLTYPE"] == MQCHT_SVRCONN}
    # Every queue manager is made with this one.
    found.add(AMQP_CHANNEL)
    for command in commands:
        if command.object.keyword in _CHANNEL_WORDS:
            for name in _texts(command.object):
                if command.verb.keyword == "DELETE":
                    found.discard(name)
                elif command.verb.keyword in ("DEFINE", "DEF") and _is_for_clients(command):
                    found.add(name)
    return found


def _is_for_clients(command: Command) -> bool:
    """Return True if a command has CHLTYPE(SVRCONN)."""
    kinds = [each for each in command.parameters if each.keyword == "CHLTYPE"]
    return any("SVRCONN" in _texts(each) for each in kinds)


def _texts(parameter: Parameter) -> Iterator[str]:
    """Yield the values of a parameter."""
    return (value.text for value in parameter.values or ())


def run_server(
    settings: ServeSettings, read: Callable[[], ServeSettings], *, as_json: bool
) -> None:
    """Serve queue managers until SIGINT or SIGTERM, then drain and close them.

    SIGHUP calls ``read`` for the settings and applies those that may change. Errors go to the log
    and end the process with an exit code (typer.Exit).
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    _allow_many_files()
    signals = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    with contextlib.ExitStack() as stack:
        stack.enter_context(log_to(sys.stderr, settings.log))
        stack.enter_context(_failures_in_the_log())
        arrived = stack.enter_context(arriving_signals(*signals))
        if settings.queue_managers[0].replica is None:
            _serve_open(settings, read, arrived, as_json=as_json)
        else:
            _serve_in_turn(settings, read, arrived, as_json=as_json)


def _serve_in_turn(
    settings: ServeSettings,
    read: Callable[[], ServeSettings],
    arrived: SimpleQueue[int],
    *,
    as_json: bool,
) -> None:
    """Serve a queue manager with a replica: as a standby, as the owner, and so on until a signal.

    The parameters are those of :func:`_serve_open`.
    """
    served = settings.queue_managers[0]
    folder, has_owned, gives_way = folder_of(served.name, served.path), False, False
    announce = partial(print_standby, served.name, as_json=as_json)
    while True:
        stand_by(
            settings,
            served,
            folder,
            partial(_pause, arrived),
            announce,
            gives_way=gives_way,
            waits=has_owned,
        )
        has_owned, gives_way = True, False
        try:
            gives_way = _serve_open(settings, read, arrived, as_json=as_json)
            if not gives_way:
                return
        except Owned as error:
            _LOG.warning("%s", error)
        except (MQError, StoreError) as error:
            if not is_passing(error):
                raise
            _LOG.error("%s; %s follows from now on", error, served.name)
            _pause(arrived, _LOOK_SECONDS)
        except _AllStopped:
            # It has lost its lease or the database, or its disk fails, and then following does.
            _LOG.error("%s follows from now on", served.name)
            _pause(arrived, _LOOK_SECONDS)


def _serve_open(
    settings: ServeSettings,
    read: Callable[[], ServeSettings],
    arrived: SimpleQueue[int],
    *,
    as_json: bool,
) -> bool:
    """Open queue managers and serve them until a signal; then drain and close them.

    ``arrived`` gets the numbers of signals, and SWITCH. SIGHUP calls ``read``. Returns True when a
    standby is to be the owner. Raises CommandFailed, MQError, StoreError.
    """
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(_open_managers(settings, partial(_pause, arrived)))
        _prepare(opened, settings.queue_managers)
        stack.enter_context(telemetry_of(opened.managers))
        first_folder = next(iter(opened.folders.values()))
        development = settings.development
        credentials = developed(opened.managers, opened.folders) if development.is_on else None
        tls = settings.tls
        if development.has_tls:
            tls = own_certificate(first_folder, settings.listen)
        token, token_file = _token(settings.token_file, first_folder)
        admission = Admission([manager.engine for manager in opened.managers], token=token)
        stack.callback(admission.close)
        histories = {
            manager.name: stack.enter_context(FigureHistory(manager)) for manager in opened.managers
        }
        server_status = ServerStatus(opened.managers)
        role = None if settings.queue_managers[0].replica is None else OWNER
        served = Served(_absolute(token_file), _absolute(tls.certificate), role=role)
        budget = Budget(settings.limits.memory_bytes)
        announced = contextlib.ExitStack()
        mq = MqListener(
            opened.managers,
            admission,
            settings.listen.mq,
            tls=tls,
            limits=settings.limits,
            budget=budget,
            folders=list(opened.folders.values()),
            announce=partial(_announce, announced, opened, served),
        )
        # Programs of this machine do not wait for Flight, which takes a second to be imported.
        listeners: list[Listener] = [
            mq,
            *_listeners(
                settings._replace(tls=tls),
                opened,
                token,
                admission,
                server_status,
                histories,
                budget,
            ),
        ]
        host = Host(opened.managers, listeners, admission, server_status)
        for manager in opened.managers:
            # REFRESH SECURITY and SIGHUP read the files of TLS again.
            call_at_refresh(manager.engine, host.reload)
        stack.callback(host.stop)
        stack.enter_context(announced)
        addresses = _start(host)
        for serving in opened.files:
            serving.set_ready(READY)
        for manager in opened.managers:
            _tell_of_owner(manager, addresses, arrived)
        print_ready(list(opened.folders), addresses, credentials, served, as_json=as_json)
        gives_way = _serve(host, mq, settings, read, arrived, opened.files)
    if any(isinstance(each, FlightListener) and each.is_held for each in listeners):
        # All is closed and on the disk.
        os._exit(ExitCode.PIPELINE if gives_way else ExitCode.DONE)
    return gives_way


def _tell_of_owner(
    manager: QueueManager, addresses: Mapping[str, str], arrived: SimpleQueue[int]
) -> None:
    """Let standbys name the addresses of this owner, and let SWITCH arrive when one is wanted."""
    replica = manager.engine.replica
    if replica is None:
        return
    replica.lease.announce(reachable(addresses))
    replica.lease.on_wanted = partial(arrived.put, SWITCH)
    if replica.lease.is_wanted:
        arrived.put(SWITCH)


def _allow_many_files() -> None:
    """Raise this process's limit of open files to _MAX_FILES, as far as the system allows.

    A shell often sets 1,024. Otherwise connections use up the files before they reach their limit,
    and probes fail. A failure is ignored.
    """
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if most == resource.RLIM_INFINITY else min(most, _MAX_FILES)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        # A system may allow less than it says.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


@contextlib.contextmanager
def _failures_in_the_log() -> Iterator[None]:
    """Return a context that logs CommandFailed, MQError and StoreError as the end of the server.

    It raises typer.Exit with the exit code instead.
    """
    try:
        yield
    except CommandFailed as failure:
        _LOG.critical("%s", failure.text)
        raise typer.Exit(failure.code) from failure
    except MQError as error:
        _LOG.critical("%s", error, extra={"reason": error.reason})
        raise typer.Exit(ExitCode.MQ) from error
    except StoreError as error:
        _LOG.critical("%s", error)
        raise typer.Exit(ExitCode.FILE) from error


def _serve(
    host: Host,
    mq: MqListener,
    settings: ServeSettings,
    read: Callable[[], ServeSettings],
    arrived: SimpleQueue[int],
    files: Sequence[ServedFile],
) -> bool:
    """Handle signals until one ends the server; then drain it. Return True for SWITCH.

    To drain is to let clients end their units of work, for at most ``settings.drain_seconds``.
    ``arrived`` gets the numbers of signals. SIGHUP calls ``read`` for the settings; settings that
    cannot be read are logged and change nothing. ``files`` are the files by which each folder says
    that it is served. A second signal to end stops the drain. Raises CommandFailed when all queue
    managers have stopped.
    """
    # The objects of the server live as long as it does: to look for circles among them took 0.3 s.
    gc.freeze()
    while (number := next_signal(host, arrived, files)) == signal.SIGHUP:
        try:
            settings = _reloaded(host, mq, settings, read())
        except CommandFailed as error:
            _LOG.error("nothing is reloaded: %s", error.text)
    gives_way = number == SWITCH
    _LOG.info("ends: %s", "another is the owner" if gives_way else signal.Signals(number).name)
    drain_ms = settings.drain_seconds * 1000
    if gives_way:
        drain_ms = min(drain_ms, _SWITCH_DRAIN_MS)
    draining = host.drain(drain_ms, goes_on=gives_way)
    while draining.is_alive():
        with contextlib.suppress(Empty):
            if (number := arrived.get(timeout=0.02)) not in (signal.SIGHUP, SWITCH):
                _LOG.warning("ends at once: told so twice")
                return False
    return gives_way


def next_signal(host: Host, arrived: SimpleQueue[int], files: Sequence[ServedFile]) -> int:
    """Wait for the next signal and return its number; meanwhile watch the server each second.

    Raises CommandFailed when all queue managers have stopped. Writes IMPAIRED to ``files`` if a
    thread of the server has ended.
    """
    while True:
        with contextlib.suppress(Empty):
            return arrived.get(timeout=_LOOK_SECONDS)
        host.look()
        if host.server_status.ended_threads():
            for serving in files:
                serving.set_ready(IMPAIRED)
        stopped = host.stopped_managers()
        if len(stopped) == len(host.managers):
            raise _AllStopped(
                ExitCode.FILE, f"{', '.join(stopped)}: stopped by an error of the disk"
            )


def _reloaded(
    host: Host, mq: MqListener, before: ServeSettings, after: ServeSettings
) -> ServeSettings:
    """Apply the settings that can change while the server runs; return the settings in force.

    These are the drain time and the limits, and the files of users and certificates. ``before`` are
    the settings in force, ``after`` those read again. Other changes are logged as warnings and wait
    for the next start.
    """
    _LOG.info("reloads")
    for name in ("queue_managers", "listen", "tls", "token_file", "log", "fleet"):
        if getattr(before, name) != getattr(after, name):
            _LOG.warning("%s: the change counts from the next start", name)
    host.reload()
    mq.limit(after.limits)
    return before._replace(drain_seconds=after.drain_seconds, limits=after.limits)


def _pause(arrived: SimpleQueue[int], seconds: float) -> None:
    """Wait for some seconds; SIGINT or SIGTERM meanwhile raises typer.Exit with code 0.

    ``arrived`` gets the numbers of signals. SIGHUP only ends the wait.
    """
    with contextlib.suppress(Empty):
        if arrived.get(timeout=seconds) != signal.SIGHUP:
            raise typer.Exit(ExitCode.DONE)


@contextlib.contextmanager
def _open_managers(
    settings: ServeSettings, pause: Callable[[float], None]
) -> Iterator[_OpenManagers]:
    """Return a context in which the queue managers are open.

    Their folders count as served from before they are opened until they are closed, so that
    commands can say so. If a command has a folder open, this waits for its end by calling
    ``pause``. Raises FolderInUse if another server has a folder, StoreError for a damaged one.
    """
    queue_managers = settings.queue_managers
    folders = {served.name: folder_of(served.name, served.path) for served in queue_managers}
    # One for all queue managers: the status of the server then names each loop once.
    runtime = Runtime()
    clock: Clock = SystemClock(runtime=runtime)
    if settings.development.has_virtual_clock:
        clock = VirtualClock(clock.now_ms())
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context(contextlib.closing(ServedFile(folder)))
            for folder in folders.values()
        ]
        managers = [
            stack.enter_context(_open_manager(one, folders[one.name], clock, runtime, pause))
            for one in queue_managers
        ]
        # Called when the server has stopped and nobody puts any more.
        stack.callback(_log_lost, managers)
        yield _OpenManagers(folders, files, managers)


def _open_manager(
    served: ServedFolder,
    folder: Path,
    clock: Clock,
    runtime: Runtime,
    pause: Callable[[float], None],
) -> QueueManager:
    """Return the opened queue manager, which is made and logged if the folder has none.

    ``served`` has its name and configuration. Waits up to 30 seconds, by calls of ``pause``, while
    a command has the folder open. Raises CommandFailed for a wrong configuration, FolderInUse if
    the folder stays in use.
    """
    is_new = not (folder / DATABASE_FILE).exists()
    platform, command_level, settings = served.configuration
    opens = partial(
        QueueManager,
        served.name,
        folder,
        clock,
        user=acting_user(),
        platform=platform,
        command_level=command_level,
        settings=settings,
        runtime=runtime,
        replica=served.replica,
        replica_lease_ms=served.replica_lease_ms,
    )
    with wrong_values():
        manager = opened_when_free(opens, folder, pause)
    if is_new:
        # A name that was mistyped is noticed by this.
        _LOG.warning(
            "made queue manager %s in %s",
            served.name,
            folder,
            extra={"queue_manager": served.name, "folder": str(folder)},
        )
    return manager


def _prepare(opened: _OpenManagers, queue_managers: Sequence[ServedFolder]) -> None:
    """Set each queue manager's expiry scan and lake, run its MQSC scripts, start its PCF commands.

    A server without room on its disk starts all the same. Raises CommandFailed, which names the
    first command that fails.
    """
    for manager, served in zip(opened.managers, queue_managers, strict=True):
        set_scan(manager, served.expiry_interval_seconds)
        if served.lake is not None:
            manager.traces.archives.append(LakeArchive(served.lake.absolute()))
        for script in served.mqsc:
            apply_script(manager, opened.folders[manager.name], script)
        try:
            start_command_server(manager)
        except MQError as error:
            _LOG.warning("%s runs no PCF commands: %s", manager.name, error)


def apply_script(manager: QueueManager, folder: Path, script: Path) -> None:
    """Apply a script that the configuration names: change what differs, run what is no definition.

    An attribute, object or rule that an operator has altered since the script was last applied, and
    about which the script says the same as then, is kept, and a line on stderr says so. What was
    applied is in ``applied.json`` of the folder. Raises CommandFailed, which names the first
    command that fails; then nothing is changed.
    """
    place = folder / _APPLIED
    text = place.read_text("utf-8") if place.exists() else "{}"
    try:
        stored: dict[str, Any] = dict(json.loads(text).items())
        last = Applied(stored.get(str(script)))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CommandFailed(ExitCode.FILE, f"{place} is damaged: {error}") from error
    found = plan(manager.name, manager.mqsc, _read_text(script), deletes=True, last=last)
    for step in found.failing[:1]:
        raise CommandFailed(ExitCode.MQ, f"{script}: {step.object}: {step.reason}")
    for step in found.kept:
        changes = ", ".join(map(str, step.changes))
        note(f"{script}: {step.object} is kept: {step.reason}{f': {changes}' if changes else ''}")
    run_script(
        manager, "\n".join(step.command for step in found.steps if step.command), str(script)
    )
    stored[str(script)] = found.applied.stored()
    new = place.with_suffix(".new")
    new.write_text(json.dumps(stored, indent=1), "utf-8")
    new.replace(place)


def set_scan(manager: QueueManager, seconds: int | None) -> None:
    """Set the interval of the expiry scan in seconds until the queue manager is closed; 0 is off.

    The stored EXPRYINT does not change. None means the queue manager's EXPRYINT, or 5 seconds if
    that is OFF.
    """
    if seconds is None and manager_definition(manager.engine).expryint == MQEXPI_OFF:
        seconds = EXPIRY_INTERVAL_SECONDS
    if seconds is not None:
        scan_every(manager.engine, seconds)


def _listeners(
    settings: ServeSettings,
    opened: _OpenManagers,
    token: str,
    admission: Admission,
    server_status: ServerStatus,
    histories: Mapping[str, FigureHistory],
    budget: Budget,
) -> list[Listener]:
    """Return the listeners for Flight, AMQP and HTTP that the settings name, in starting order.

    None of them is started yet. They serve the ``opened`` queue managers. ``token`` admits an
    operator to Flight, ``admission`` checks the programs of AMQP and HTTP. ``histories`` has the
    figures over time that HTTP shows. ``budget`` is the memory that all share. Logs a warning for
    one that other machines reach without TLS.
    """
    tls = settings.tls
    for name, address in settings.listen._asdict().items():
        # Flight has other rules.
        is_open = address is not None and not address.is_loopback and name != "flight"
        if is_open and tls.certificate is None:
            text = "%s listens on %s without TLS: no password of another machine is taken"
            _LOG.warning(text, name, address)
    listeners: list[Listener] = []
    if settings.listen.flight is not None:
        listeners.append(
            FlightListener(
                opened.managers,
                opened.folders,
                settings.listen.flight,
                token=token,
                tls=tls,
                budget=budget,
            )
        )
    is_developing = settings.development.is_on
    if settings.listen.amqp is not None:
        default = DEVELOPMENT_AMQP_CHANNEL if is_developing else AMQP_CHANNEL
        channel = settings.amqp_channel or default
        listeners.append(
            AmqpListener(
                opened.managers,
                admission,
                settings.listen.amqp,
                channel=channel,
                tls=tls,
                budget=budget,
            )
        )
    if settings.listen.http is not None:
        default = DEVELOPMENT_HTTP_CHANNEL if is_developing else HTTP_CHANNEL
        default_admin = DEVELOPMENT_HTTP_ADMIN_CHANNEL if is_developing else HTTP_ADMIN_CHANNEL
        listeners.append(
            HttpListener(
                opened.managers,
                admission,
                settings.listen.http,
                channel=settings.http_channel or default,
                admin_channel=settings.http_admin_channel or default_admin,
                tls=tls,
                server_status=server_status,
                histories=histories,
                fleet=settings.fleet,
                budget=budget,
            )
        )
    return listeners


def _announce(announced: contextlib.ExitStack, opened: _OpenManagers, served: Served) -> None:
    """Write ``served.json`` in each folder, by which local programs and commands find the server.

    ``announced`` empties the files when it is closed.
    """
    for serving, folder in zip(opened.files, opened.folders.values(), strict=True):
        socket_file = _absolute(folder / MQ_SOCKET_FILE)
        announced.enter_context(serving.announced(served._replace(mq_socket=socket_file)))


def _start(host: Host) -> dict[str, str]:
    """Start the listeners; return the address of each by its name.

    Raises CommandFailed if one cannot listen.
    """
    try:
        with wrong_values():
            return host.start()
    except OSError as error:
        raise CommandFailed(ExitCode.PIPELINE, str(error)) from error


def _token(token_file: Path | None, folder: Path) -> tuple[str, Path | None]:
    """Return the operator's token and the file that has it; None for a token in MAYFLY_TOKEN.

    Without a file and a variable a new token is written into the folder. Raises CommandFailed if
    the file cannot be read or is empty.
    """
    if token_file is None and not os.environ.get(TOKEN_VARIABLE, "").strip():
        token_file = folder / TOKEN_FILE
        if not token_file.exists():
            Files().write_atomically(token_file, secrets.token_urlsafe(_TOKEN_BYTES) + "\n")
    try:
        return read_token(token_file), token_file
    except TokenMissing as error:
        raise CommandFailed(ExitCode.FILE, str(error)) from error


def _absolute(file: Path | None) -> str | None:
    """Return the absolute path of a file as text, None for None."""
    return None if file is None else str(file.absolute())


def _read_text(file: Path) -> str:
    """Return the text of a file in UTF-8; raises CommandFailed if it cannot be read."""
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise CommandFailed(ExitCode.FILE, f"{file}: is not text: {error}") from error
    except OSError as error:
        raise CommandFailed(ExitCode.FILE, f"{error.filename}: {error.strerror}") from error


def _log_lost(managers: Sequence[QueueManager]) -> None:
    """Log the number of non-persistent messages, which are lost with this process.

    Logs nothing for a queue manager without any.
    """
    for manager in managers:
        count = volatile_count(manager.engine)
        if count:
            _LOG.warning(
                f"{manager.name}: {count:,} messages are not persistent and end now; "
                "DEFPSIST(YES) on their queue, or a put that says so, keeps them",
                extra={"queue_manager": manager.name, "lost": count},
            )


def developed(managers: Sequence[QueueManager], folders: Mapping[str, Path]) -> DeveloperPasswords:
    """Define the objects and users of --dev; return the passwords for the first queue manager.

    ``folders`` are the folders of the queue managers, by name; generated passwords are stored
    there. Raises CommandFailed if a definition fails or a password cannot be used.
    """
    found: list[DeveloperPasswords] = []
    for manager in managers:
        with wrong_values():
            found.append(
                developer_users(users_of(manager.engine), folders[manager.name], os.environ)
            )
        run_script(manager, DEFINITIONS, "--dev")
    return found[0]


def own_certificate(folder: Path, listen: Listen) -> TlsFiles:
    """Return the files of a self-signed certificate for this machine, made in ``folder``.

    Its names are localhost, this host and the listen addresses.
    """
    hosts = ["localhost", "127.0.0.1", "::1", socket.gethostname()]
    hosts += [address.host for address in listen if address is not None]
    now_ms = SystemClock().now_ms()
    return TlsFiles(*self_signed_certificate(folder, list(dict.fromkeys(hosts)), now_ms))


def run_script(manager: QueueManager, text: str, source: str) -> None:
    """Run MQSC commands; raises CommandFailed for the first that fails, with ``source``.

    All commands are run, also those after one that fails. What has no effect in Mayfly is a line on
    stderr. ``source`` says in these texts where the commands are from.
    """
    result = manager.mqsc(text)
    for message in result.messages:
        if message.code == WITHOUT_EFFECT:
            note(f"{source}: {' '.join(str(message).split())}")
    wrong = next((command for command in result.commands if not command.ok), None)
    if wrong is not None:
        failures = [message for message in wrong.messages if not message.is_information]
        reason = "; ".join(map(str, failures))
        raise CommandFailed(ExitCode.MQ, f"{source}: {wrong.command}: {reason}")


def print_ready(
    names: Sequence[str],
    addresses: Mapping[str, str],
    credentials: DeveloperPasswords | None,
    served: Served,
    *,
    as_json: bool,
) -> None:
    """Print the line that says where the server listens, and with which credentials.

    ``names`` are the queue managers. ``addresses`` are those of the listeners, by name.
    ``credentials`` are those of ``--dev``, None without it. ``served`` has the files of token and
    TLS certificate.
    """
    facts: dict[str, str | None] = dict(addresses)
    if credentials is not None:
        facts |= {"user": APP, "password": credentials.app}
    if served.role is not None:
        facts["role"] = served.role
    facts["token_file"] = served.token_file
    facts["tls_certificate"] = served.tls_certificate
    if as_json:
        print_json({"ready": True, "queue_managers": list(names), **facts}, indent=None)
    else:
        text = ", ".join(f"{key} {value}" for key, value in facts.items() if value)
        print(f"serving {', '.join(names)}: {text}")
    sys.stdout.flush()


def print_standby(name: str, addresses: Mapping[str, str], *, as_json: bool) -> None:
    """Print the line of a standby, with the ports that refuse clients until it is the owner."""
    if as_json:
        facts = {"ready": False, "role": STANDBY, "queue_managers": [name], **addresses}
        print_json(facts, indent=None)
    else:
        ports = ", ".join(f"{key} {value}" for key, value in addresses.items())
        print(f"standby of {name}: {ports}")
    sys.stdout.flush()
    notify("READY=1", f"STATUS=standby of {name}")


@contextmanager
def telemetry_of(
    managers: Sequence[QueueManager], environment: Mapping[str, str] = os.environ
) -> Iterator[None]:
    """Return a context in which queue managers send OpenTelemetry, if ``environment`` says so.

    OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER have names of installed exporters, such as
    ``console`` or ``otlp``; without both nothing is done. The SDK reads its other variables itself.
    Raises CommandFailed for an exporter that is not installed.
    """
    asked = {name: _exporter_names(environment.get(name, "")) for name in (_TRACES, _METRICS)}
    if not any(asked.values()) or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        yield
        return
    try:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from mayfly import telemetry
    except ModuleNotFoundError as error:
        text = f"{_TRACES}, {_METRICS}: need mayfly-mq[otel] and opentelemetry-sdk: {error}"
        raise CommandFailed(ExitCode.USAGE, text) from error
    readers = [PeriodicExportingMetricReader(each) for each in _make_exporters(_METRICS, asked)]
    meters, tracers = MeterProvider(readers), TracerProvider()
    with ExitStack() as stack:
        for provider in (tracers, meters):
            # Spans and figures that are not yet exported are exported then.
            stack.callback(provider.shutdown)
        for exporter in _make_exporters(_TRACES, asked):
            tracers.add_span_processor(BatchSpanProcessor(exporter))
        telemetry.instrument(tracer_provider=tracers, meter_provider=meters)
        stack.callback(telemetry.uninstrument)
        for manager in managers:
            stack.callback(telemetry.watch(manager, tracer_provider=tracers))
        yield


def _exporter_names(given: str) -> list[str]:
    """Return the exporter names in a variable's text, without "none": ``otlp, none`` -> [otlp]."""
    return [name for each in given.split(",") if (name := each.strip()) not in ("", "none")]


def _make_exporters(variable: str, asked: Mapping[str, Sequence[str]]) -> list[Any]:
    """Return new exporters of the names in ``asked[variable]``; [] if it has none.

    Raises CommandFailed for an exporter that is not installed.
    """
    made = []
    for name in asked[variable]:
        found = next(iter(entry_points(group=_GROUPS[variable], name=name)), None)
        if found is None:
            known = sorted(entry_points(group=_GROUPS[variable]).names)
            text = (
                f"{variable}: exporter {name!r} is none of {', '.join(known)}; install its package"
            )
            raise CommandFailed(ExitCode.USAGE, text)
        made.append(found.load()())
    return made
