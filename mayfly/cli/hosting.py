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
from threading import Lock
from typing import Any

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
    READY,
    Served,
    ServedFile,
    opened_when_free,
)
from mayfly.cli.show import note, print_json
from mayfly.cli.signals import arriving_signals
from mayfly.cli.standby import ManagerRole, reachable
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
)
from mayfly.servers.logs import log_to
from mayfly.servers.managers import ManagerTable, OwnerPlace
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
from mayfly.store.database import DATABASE_FILE, stored_objects
from mayfly.store.replica.standing import OWNER, STANDBY
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
#: Arrives as a signal does when a queue manager with a replica is served no more, by an error. No
#: signal has this number.
ROLE_ENDED = 0
_LOG = logging.getLogger("mayfly.serve")
_TRACES, _METRICS = "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"
#: The groups of entry points by which packages of exporters name them.
_GROUPS = {
    _TRACES: "opentelemetry_traces_exporter",
    _METRICS: "opentelemetry_metrics_exporter",
}
_CHANNEL_KEYS = ("amqp_channel", "http_channel", "http_admin_channel")
_CHANNEL_WORDS = ("CHANNEL", "CHL")


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
        _serve_all(settings, read, arrived, as_json=as_json)


def _serve_all(
    settings: ServeSettings,
    read: Callable[[], ServeSettings],
    arrived: SimpleQueue[int],
    *,
    as_json: bool,
) -> None:
    """Open queue managers and serve them until a signal; then drain and close them.

    Those without a replica are open before anything listens. Each of the others is opened by its
    role, when nobody else owns it. ``arrived`` gets the numbers of signals, and ROLE_ENDED. SIGHUP
    calls ``read``. Raises CommandFailed, MQError, StoreError.
    """
    with contextlib.ExitStack() as stack:
        opening = stack.enter_context(_opening(settings))
        opened = [
            (served, stack.enter_context(opening.open(served, partial(_pause, arrived))))
            for served in settings.queue_managers
            if served.replica is None
        ]
        open_managers = [manager for _served, manager in opened]
        # Called when the server has stopped and nobody puts any more.
        stack.callback(_log_lost, open_managers)
        for served, manager in opened:
            opening.prepare(served, manager)
        opening.watch = stack.enter_context(telemetry_of(open_managers))
        managers = ManagerTable(open_managers, opening.folders)
        first_folder = next(iter(opening.folders.values()))
        development = settings.development
        credentials = None
        if development.is_on and open_managers:
            credentials = developed(open_managers, opening.folders)
        tls = settings.tls
        if development.has_tls:
            tls = own_certificate(first_folder, settings.listen)
        token, token_file = _token(settings.token_file, first_folder)
        admission = Admission(
            [manager.engine for manager in open_managers],
            token=token,
            runtime=opening.runtime,
            folders=opening.folders,
        )
        stack.callback(admission.close)
        for manager in open_managers:
            stack.enter_context(opening.history(manager))
        server_status = ServerStatus(managers, opening.runtime)
        served_file = Served(_absolute(token_file), _absolute(tls.certificate))
        budget = Budget(settings.limits.memory_bytes)
        announced = contextlib.ExitStack()
        mq = MqListener(
            managers,
            admission,
            settings.listen.mq,
            tls=tls,
            limits=settings.client_limits,
            budget=budget,
            folders=list(opening.folders.values()),
            announce=partial(_announce, announced, opening, open_managers, served_file),
            runtime=opening.runtime,
        )
        # Programs of this machine do not wait for Flight, which takes a second to be imported.
        listeners: list[Listener] = [
            mq,
            *_listeners(
                settings._replace(tls=tls),
                managers,
                opening,
                token,
                admission,
                server_status,
                budget,
            ),
        ]
        host = Host(managers, listeners, admission, server_status)
        for manager in open_managers:
            # REFRESH SECURITY and SIGHUP read the files of TLS again.
            call_at_refresh(manager.engine, host.reload)
        server = _ReplicaServer(host, opening, served_file, arrived, as_json=as_json)
        stack.callback(server.end_roles)
        stack.callback(host.stop)
        stack.callback(server.begin_end)
        stack.enter_context(announced)
        server.listening = _start(host)
        for manager in open_managers:
            opening.files[manager.name].set_ready(READY)
        if open_managers:
            names = [manager.name for manager in open_managers]
            print_ready(names, server.listening, credentials, served_file, as_json=as_json)
        server.start_roles([each for each in settings.queue_managers if each.replica is not None])
        _serve(host, mq, settings, read, arrived, server)
    if any(isinstance(each, FlightListener) and each.is_held for each in listeners):
        # All is closed and on the disk.
        os._exit(ExitCode.DONE)


class _ReplicaServer:
    """What the roles of queue managers with a replica do with the server that they share."""

    def __init__(
        self,
        host: Host,
        opening: _Opening,
        served_file: Served,
        arrived: SimpleQueue[int],
        *,
        as_json: bool,
    ) -> None:
        """Begin without roles; ``served_file`` has the files of token and TLS certificate."""
        self.host, self.opening = host, opening
        self._served_file, self._arrived, self._as_json = served_file, arrived, as_json
        #: The addresses of the listeners by name, as they are printed.
        self.listening: Mapping[str, str] = {}
        self._roles: list[ManagerRole] = []
        #: Passwords of ``--dev``, by queue manager.
        self._credentials: dict[str, DeveloperPasswords] = {}
        #: Held while a line is printed.
        self._printing = Lock()

    def start_roles(self, followed: Sequence[ServedFolder]) -> None:
        """Let each of these queue managers be followed, or owned, from now on."""
        runtime, folders = self.opening.runtime, self.opening.folders
        self._roles = [ManagerRole(each, folders[each.name], self, runtime) for each in followed]
        for role in self._roles:
            role.start()
        if not followed:
            self.host.tell_ready()

    def begin_end(self) -> None:
        """Let no role change any more: standbys follow no longer."""
        for role in self._roles:
            role.begin_end()

    def end_roles(self) -> None:
        """Close the queue managers of the roles, whose clients have ended."""
        self.begin_end()
        for role in self._roles:
            role.end()

    def check_roles(self) -> None:
        """Raise the error of a role that has ended before it began, or when nothing is served."""
        errors = [(role, role.error) for role in self._roles if role.error is not None]
        for role, error in errors:
            if not role.has_begun:
                raise error
        if len(self.host.stopped_managers()) == len(self.host.managers.names):
            raise errors[0][1]

    # For roles.

    @property
    def addresses(self) -> Mapping[str, str]:
        """The addresses of the listeners by name, as other machines know them."""
        return reachable(self.listening)

    @contextmanager
    def opened(
        self, served: ServedFolder, pause: Callable[[float], None]
    ) -> Iterator[QueueManager]:
        """Return a context with the open queue manager, ready for clients, who do not come yet.

        Raises CommandFailed, MQError, StoreError.
        """
        opening = self.opening
        with contextlib.ExitStack() as stack:
            manager = stack.enter_context(opening.open(served, pause))
            stack.callback(_log_lost, [manager])
            opening.prepare(served, manager)
            stack.callback(opening.watch(manager))
            if opening.is_developing:
                self._credentials[served.name] = developed([manager], opening.folders)
            stack.enter_context(opening.history(manager))
            yield manager

    @contextmanager
    def owned(self, manager: QueueManager) -> Iterator[None]:
        """Return a context in which clients have a queue manager, and are told that it is here."""
        name = manager.name
        self.host.open_manager(manager)
        told = self._told(name, self._served_file._replace(role=OWNER, is_ready=READY))
        with self.opening.files[name].announced(told):
            with self._printing:
                print_ready(
                    [name],
                    self.listening,
                    self._credentials.get(name),
                    told,
                    as_json=self._as_json,
                )
            self._tell_ready()
            yield

    @contextmanager
    def followed(self, name: str) -> Iterator[None]:
        """Return a context in which programs of this machine are told that it is a standby."""
        told = self._told(name, self._served_file._replace(role=STANDBY, is_ready=READY))
        with self.opening.files[name].announced(told):
            with self._printing:
                print_standby(name, self.listening, as_json=self._as_json)
            self._tell_ready()
            yield

    def _told(self, name: str, served: Served) -> Served:
        """Return the content of ``served.json`` with the socket in the folder."""
        return served._replace(mq_socket=_absolute(self.opening.folders[name] / MQ_SOCKET_FILE))

    def _tell_ready(self) -> None:
        """Tell the service manager what is served, once each queue manager has a role."""
        if all(self.host.managers.has_role(name) for name in self.host.managers.names):
            self.host.tell_ready()

    def give_way(self, manager: QueueManager, owner: OwnerPlace, timeout_ms: int, why: str) -> None:
        """Refuse clients of a queue manager, and end the present ones within a time."""
        self.host.close_manager(manager, owner, timeout_ms, why)

    def stand_by(self, name: str, owner: OwnerPlace, *, is_following: bool) -> None:
        """Tell clients of a queue manager who owns it, and probes whether it could be here."""
        self.host.managers.stand_by(name, owner, is_following=is_following)

    def fail(self, name: str) -> None:
        """Note that a queue manager is served no more, by an error."""
        self.host.managers.fail(name)
        self._arrived.put(ROLE_ENDED)


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
    server: _ReplicaServer,
) -> None:
    """Handle signals until one ends the server; then drain it.

    To drain is to let clients end their units of work, for at most ``settings.drain_seconds``.
    ``arrived`` gets the numbers of signals. SIGHUP calls ``read`` for the settings; settings that
    cannot be read are logged and change nothing. A second signal to end stops the drain. Raises
    CommandFailed when all queue managers have stopped, and the error of a role that has not begun.
    """
    # The objects of the server live as long as it does: to look for circles among them took 0.3 s.
    gc.freeze()
    files = list(server.opening.files.values())
    while (number := next_signal(host, arrived, files)) in (signal.SIGHUP, ROLE_ENDED):
        if number == ROLE_ENDED:
            server.check_roles()
            continue
        try:
            settings = _reloaded(host, mq, settings, read())
        except CommandFailed as error:
            _LOG.error("nothing is reloaded: %s", error.text)
    _LOG.info("ends: %s", signal.Signals(number).name)
    server.begin_end()
    draining = host.drain(settings.drain_seconds * 1000)
    while draining.is_alive():
        with contextlib.suppress(Empty):
            if arrived.get(timeout=0.02) not in (signal.SIGHUP, ROLE_ENDED):
                _LOG.warning("ends at once: told so twice")
                return


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
        if len(stopped) == len(host.managers.names):
            raise CommandFailed(
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
    in_force = before._replace(drain_seconds=after.drain_seconds, limits=after.limits)
    mq.limit(in_force.client_limits)
    return in_force


def _pause(arrived: SimpleQueue[int], seconds: float) -> None:
    """Wait for some seconds; SIGINT or SIGTERM meanwhile raises typer.Exit with code 0.

    ``arrived`` gets the numbers of signals. SIGHUP only ends the wait.
    """
    with contextlib.suppress(Empty):
        if arrived.get(timeout=seconds) != signal.SIGHUP:
            raise typer.Exit(ExitCode.DONE)


@contextlib.contextmanager
def _opening(settings: ServeSettings) -> Iterator[_Opening]:
    """Return a context in which the folders of all queue managers count as served.

    So commands can say who has them. Raises FolderInUse if another server has a folder.
    """
    # One for all queue managers: the status of the server then names each loop once.
    runtime = Runtime()
    clock: Clock = SystemClock(runtime=runtime)
    if settings.development.has_virtual_clock:
        clock = VirtualClock(clock.now_ms())
    folders = {each.name: folder_of(each.name, each.path) for each in settings.queue_managers}
    with contextlib.ExitStack() as stack:
        files = {
            name: stack.enter_context(contextlib.closing(ServedFile(folder)))
            for name, folder in folders.items()
        }
        yield _Opening(folders, files, clock, runtime, is_developing=settings.development.is_on)


class _Opening:
    """Opens queue managers of a server, and prepares them for clients."""

    def __init__(
        self,
        folders: dict[str, Path],
        files: dict[str, ServedFile],
        clock: Clock,
        runtime: Runtime,
        *,
        is_developing: bool,
    ) -> None:
        """Take the folders and their ``served.json`` files by name, and what all share."""
        self.folders, self.files = folders, files
        self.clock, self.runtime, self.is_developing = clock, runtime, is_developing
        #: The figures over time of each open queue manager, by name.
        self.histories: dict[str, FigureHistory] = {}
        #: Lets a queue manager send OpenTelemetry; returns what ends that.
        self.watch: Callable[[QueueManager], Callable[[], object]] = _watch_nothing

    def open(self, served: ServedFolder, pause: Callable[[float], None]) -> QueueManager:
        """Return the opened queue manager, which is made and logged if the folder has none.

        If a command has the folder open, this waits for its end by calling ``pause``. Raises
        CommandFailed for a wrong configuration, FolderInUse, StoreError.
        """
        return _open_manager(served, self.folders[served.name], self.clock, self.runtime, pause)

    def prepare(self, served: ServedFolder, manager: QueueManager) -> None:
        """Set the queue manager's expiry scan and lake, run its MQSC scripts, start PCF commands.

        A server without room on its disk starts all the same. Raises CommandFailed, which names the
        first command that fails.
        """
        set_scan(manager, served.expiry_interval_seconds)
        if served.lake is not None:
            manager.traces.archives.append(LakeArchive(served.lake.absolute()))
        for script in served.mqsc:
            apply_script(manager, self.folders[manager.name], script)
        try:
            start_command_server(manager)
        except MQError as error:
            _LOG.warning("%s runs no PCF commands: %s", manager.name, error)

    @contextmanager
    def history(self, manager: QueueManager) -> Iterator[None]:
        """Return a context in which figures of a queue manager are kept over time."""
        with FigureHistory(manager) as history:
            self.histories[manager.name] = history
            try:
                yield
            finally:
                del self.histories[manager.name]


def _watch_nothing(_manager: QueueManager) -> Callable[[], object]:
    """Send no OpenTelemetry of a queue manager; return what ends that: nothing."""
    return _nothing


def _nothing() -> None:
    """Do nothing."""


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
    managers: ManagerTable,
    opening: _Opening,
    token: str,
    admission: Admission,
    server_status: ServerStatus,
    budget: Budget,
) -> list[Listener]:
    """Return the listeners for Flight, AMQP and HTTP that the settings name, in starting order.

    None of them is started yet. They serve ``managers``. ``token`` admits an operator to Flight,
    ``admission`` checks the programs of AMQP and HTTP. ``opening`` has the folders, and the figures
    over time that HTTP shows. ``budget`` is the memory that all share. Logs a warning for
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
                managers,
                opening.folders,
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
                managers,
                admission,
                settings.listen.amqp,
                channel=channel,
                tls=tls,
                budget=budget,
                runtime=opening.runtime,
            )
        )
    if settings.listen.http is not None:
        default = DEVELOPMENT_HTTP_CHANNEL if is_developing else HTTP_CHANNEL
        default_admin = DEVELOPMENT_HTTP_ADMIN_CHANNEL if is_developing else HTTP_ADMIN_CHANNEL
        listeners.append(
            HttpListener(
                managers,
                admission,
                settings.listen.http,
                channel=settings.http_channel or default,
                admin_channel=settings.http_admin_channel or default_admin,
                tls=tls,
                server_status=server_status,
                histories=opening.histories,
                fleet=settings.fleet,
                identify=admission.identify,
                budget=budget,
                runtime=opening.runtime,
            )
        )
    return listeners


def _announce(
    announced: contextlib.ExitStack,
    opening: _Opening,
    managers: Sequence[QueueManager],
    served: Served,
) -> None:
    """Write ``served.json`` for these queue managers, by which local programs find the server.

    ``announced`` empties the files when it is closed.
    """
    for manager in managers:
        socket_file = _absolute(opening.folders[manager.name] / MQ_SOCKET_FILE)
        file = opening.files[manager.name]
        announced.enter_context(file.announced(served._replace(mq_socket=socket_file)))


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


@contextmanager
def telemetry_of(
    managers: Sequence[QueueManager], environment: Mapping[str, str] = os.environ
) -> Iterator[Callable[[QueueManager], Callable[[], object]]]:
    """Return a context in which queue managers send OpenTelemetry, if ``environment`` says so.

    Its function lets one more queue manager send it, and returns the function that ends that.
    OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER have names of installed exporters, such as
    ``console`` or ``otlp``; without both nothing is done. The SDK reads its other variables itself.
    Raises CommandFailed for an exporter that is not installed.
    """
    asked = {name: _exporter_names(environment.get(name, "")) for name in (_TRACES, _METRICS)}
    if not any(asked.values()) or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        yield _watch_nothing
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
        watch = partial(telemetry.watch, tracer_provider=tracers)
        for manager in managers:
            stack.callback(watch(manager))
        yield watch


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
