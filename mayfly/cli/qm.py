"""``mayfly qm``: make, list, start, stop and delete the queue managers of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from threading import Event
from typing import Annotated, Any, Final, NamedTuple

import typer

from mayfly.cli.managers import (
    FolderOption,
    LevelOption,
    Name,
    PlatformOption,
    SettingOption,
    configuration_of,
    existing_folder,
    folder_of,
    opened,
    operating,
)
from mayfly.cli.outcomes import CommandFailed, ExitCode, group
from mayfly.cli.ping import health_of
from mayfly.cli.served import is_served
from mayfly.cli.show import JsonOption, aligned, is_confirmed, note, print_json
from mayfly.client.connection import Administration
from mayfly.lifetime.times import SECOND_MS, spelled_duration
from mayfly.mqi import reasons as rc
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.errors import FolderInUse, MQError, mq_error
from mayfly.runtime import SystemClock
from mayfly.servers.status import ServingState
from mayfly.store.database import DATABASE_FILE, REPLICA_FILE
from mayfly.store.folder_lock import FolderLock, holder_of
from mayfly.store.followers import FOLLOWERS_FOLDER, FollowerState, followers_of
from mayfly.store.replica.applying import noted_position
from mayfly.store.replica.log import LogRow
from mayfly.store.replica.standing import (
    STANDBY,
    STANDING_FILE,
    ReplicaStanding,
    read_standing,
)
from mayfly.verbs.checks import home_folder

qm = group()
#: The output of a server that ``qm start`` has begun, in the folder of its queue manager.
LOG_FILE: Final = "server.log"
#: All files that Mayfly keeps in a folder; other files are not deleted.
_OWN_FILES: Final = (
    f"{DATABASE_FILE}*",
    "identity.json*",
    "ballast",
    "users.*",
    "ccdt.json*",
    "developer*",
    "token*",
    "served.json",
    "applied.*",
    "figures.db*",
    "mq.sock",
    REPLICA_FILE,
    f"{STANDING_FILE}*",
    LOG_FILE,
)
_LOOK_SECONDS: Final = 0.05
_LOG_LINES: Final = 5


class ManagerStatus(NamedTuple):
    """The state of one queue manager, and its figures while it is served.

    ``process_id`` is that of its server, or of another program that has it open. ``depth`` is the
    sum of CURDEPTH, ``delayed`` the number of messages that wait for their delivery time,
    ``oldest_seconds`` the age of the oldest message on a queue; all are None while no server
    answers. ``backups`` follow the queue manager, running or not. ``replica`` is the row of the log
    that its folder has, and the epoch of the owner that wrote it; None without a replica.
    ``standing`` is what its server says of its part in the replica, None without one that says so.
    """

    queue_manager: str
    state: ServingState
    folder: str
    process_id: int | None = None
    depth: int | None = None
    delayed: int | None = None
    oldest_seconds: int | None = None
    connections: int | None = None
    backups: tuple[FollowerState, ...] = ()
    replica: LogRow | None = None
    standing: ReplicaStanding | None = None


@qm.command()
def create(
    name: Name,
    *,
    platform: PlatformOption = None,
    command_level: LevelOption = None,
    setting: SettingOption = None,
    path: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a queue manager, as crtmqm does.

    A platform determines the rules of its edition and the defaults of its settings, for good. A
    queue manager that exists stays as it is: exit code 3.

    \b
    Examples:
      mayfly qm create QM1
      mayfly qm create QMI --platform ibmi
      mayfly qm create QMZ --platform zos --setting expiry.max_check=always
    """
    folder = folder_of(name, path)
    if (folder / DATABASE_FILE).exists():
        text = f"there is a queue manager in {folder}; ALTER SETTING changes what it was made with"
        raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, text)
    given = configuration_of(platform, command_level, setting)
    with opened(name, path, make=True, given=given):
        pass
    if as_json:
        print_json({"queue_manager": name, "folder": str(folder)})


@qm.command("list")
def list_all(*, as_json: JsonOption = False) -> None:
    """List the queue managers below $MAYFLY_HOME with their states and messages.

    Exit code 1 if there is none.

    \b
    Example:
      mayfly qm list --json
    """
    found = [status_of(folder.name, folder) for folder in _folders()]
    _print(found, as_json=as_json)
    if not found:
        raise CommandFailed(ExitCode.NOTHING, f"no queue manager is in {home_folder()}")


@qm.command()
def status(name: Name, *, path: FolderOption = None, as_json: JsonOption = False) -> None:
    """Show the state of a queue manager, how many messages it has, and what its loss would cost.

    A queue manager without a server is `stopped`; it is not opened for that, so its messages are
    not counted. For each backup that follows it: what was committed in the last so many seconds
    would be lost with its disk. Exit code 1 when such a backup does not run. With a replica: role,
    epoch, age of the lease, and how far standbys are behind. The database is not asked.

    \b
    Example:
      mayfly qm status QM1
    """
    found = status_of(name, existing_folder(name, path))
    _print([found], as_json=as_json)
    if not all(each.is_running for each in found.backups):
        raise typer.Exit(ExitCode.NOTHING)


WaitOption = Annotated[
    int, typer.Option("--wait", min=1, metavar="SECONDS", help="How long to wait for it.")
]


@qm.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def start(
    context: typer.Context,
    name: Name,
    *,
    path: FolderOption = None,
    wait: WaitOption = 60,
    as_json: JsonOption = False,
) -> None:
    """Start the server of a queue manager behind the terminal, as strmqm does.

    Other options are those of mayfly serve. The command ends when programs can connect, or when the
    server is a standby. The output of the server is in server.log in the folder. One that is served
    already stays as it is.

    \b
    Example:
      mayfly qm start QM1 --http 127.0.0.1:9080
    """
    folder = existing_folder(name, path)
    if is_served(folder):
        raise CommandFailed(ExitCode.FILE, f"{name} is served already, by {_server_text(folder)}")
    command = [sys.executable, "-m", "mayfly", "serve", name, "--path", str(folder), "--log=text"]
    log = folder / LOG_FILE
    descriptor = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        # A session of its own: the end of the terminal does not end the server.
        server = subprocess.Popen(
            [*command, *context.args],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)

    def has_started() -> bool:
        """Return True once programs can connect, or the server stands by for another."""
        return health_of(name, folder).state in (ServingState.READY, ServingState.STANDBY)

    is_over = _waited(lambda: server.poll() is not None or has_started(), wait)
    if server.poll() is not None:
        last = " / ".join(log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:])
        raise CommandFailed(ExitCode.PIPELINE, f"{name} has not started: {last or log}")
    if not is_over:
        text = f"{name} is not ready after {wait} s: process {server.pid}, {log}"
        raise CommandFailed(ExitCode.PIPELINE, text)
    _print([status_of(name, folder)], as_json=as_json)


@qm.command()
def stop(
    names: Annotated[list[str], typer.Argument(metavar="QMGR...", help="One or several.")],
    *,
    path: FolderOption = None,
    wait: WaitOption = 60,
    as_json: JsonOption = False,
) -> None:
    """Stop the server of queue managers in good order, as endmqm does, and wait for its end.

    Programs may end their units of work first. A server that has other queue managers below
    $MAYFLY_HOME open as well is stopped only if all of them are named.

    \b
    Examples:
      mayfly qm stop QM1
      mayfly qm stop QM1 QM2 --wait 120
    """
    if path is not None and len(names) > 1:
        raise CommandFailed(ExitCode.USAGE, "--path is for one queue manager alone")
    folders = {name: existing_folder(name, path) for name in names}
    processes = {name: _process_of(name, folder) for name, folder in folders.items()}
    for name, process in processes.items():
        beside = sorted(
            folder.name
            for folder in _folders()
            if holder_of(folder) == process and folder.name not in names
        )
        if beside:
            text = f"{name} is served together with {', '.join(beside)}: name them all"
            raise CommandFailed(ExitCode.USAGE, text)
    for process in set(processes.values()):
        # It may have ended since.
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    if not _waited(lambda: not any(_is_open(folder) for folder in folders.values()), wait):
        open_ones = [name for name, folder in folders.items() if _is_open(folder)]
        text = f"{', '.join(open_ones)} has not ended after {wait} s: programs have work open"
        raise CommandFailed(ExitCode.PIPELINE, text)
    _print([status_of(name, folder) for name, folder in folders.items()], as_json=as_json)


@qm.command()
def delete(
    name: Name,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    path: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a queue manager with all its messages, as dltmqm does. There is no way back.

    Asks first; without an answer nothing is deleted: exit code 1. One that a process has open is
    not deleted. Files that are not Mayfly's stay, and are named.

    \b
    Example:
      mayfly qm delete QM1
    """
    folder = folder_of(name, path)
    own = [file for file in sorted(folder.iterdir()) if _is_own(file)] if folder.is_dir() else []
    if not own:
        raise mq_error(rc.MQRC_Q_MGR_NAME_ERROR, f"there is no queue manager in {folder}")
    if _is_open(folder):
        raise FolderInUse(f"{name} is in use by {_server_text(folder)}: stop it first", folder)
    size_bytes = sum(file.lstat().st_size for file in own)
    question = f"Delete {name} with all its messages, {size_bytes:,} bytes in {folder}?"
    if not (yes or is_confirmed(question)):
        raise CommandFailed(ExitCode.NOTHING, "nothing is deleted")
    lock = FolderLock(folder)
    try:
        # The database goes first: a kill leaves nothing that could be opened, and a second run
        # deletes the rest.
        for file in sorted(own, key=lambda file: file.name != DATABASE_FILE):
            file.unlink(missing_ok=True)
        shutil.rmtree(folder / FOLLOWERS_FOLDER, ignore_errors=True)
        others = sorted(file.name for file in folder.iterdir())
        if not others:
            folder.rmdir()
    finally:
        lock.release()
    if others:
        note(f"{folder} stays: {', '.join(others)} in it")
    if as_json:
        print_json({"queue_manager": name, "deleted": True, "bytes": size_bytes, "left": others})
    else:
        print(f"deleted {name}: {size_bytes:,} bytes")


def status_of(name: str, folder: Path) -> ManagerStatus:
    """Return the state of a queue manager; it takes a few seconds at most, and opens nothing."""
    health = health_of(name, folder)
    # A program may have it open without a server, as a command.
    found = ManagerStatus(
        name,
        health.state,
        str(folder),
        holder_of(folder),
        backups=tuple(followers_of(folder)),
        replica=noted_position(folder),
        standing=read_standing(folder),
    )
    if not health.is_ready:
        return found
    try:
        with operating(name, folder, waits=False) as connection:
            rows = Administration(connection.call).mqsc("DISPLAY QSTATUS(*) CURDEPTH MSGAGE").rows
    except (CommandFailed, MQError):
        # It has ended, or begun to end, since.
        return found
    others = [row for row in rows if row["QUEUE"] != STAGING_QUEUE]
    total = sum(int(row["CURDEPTH"]) for row in rows)
    depth = sum(int(row["CURDEPTH"]) for row in others)
    oldest = max((int(row["MSGAGE"] or 0) for row in others), default=0)
    return found._replace(
        depth=depth,
        delayed=total - depth,
        oldest_seconds=oldest,
        connections=health.connection_count,
    )


def _print(found: list[ManagerStatus], *, as_json: bool) -> None:
    """Print states as JSON, or as a table for people."""
    if as_json:
        now_ms = SystemClock().now_ms()
        print_json(
            [
                {name: value for name, value in each._asdict().items() if name != "standing"}
                | {"backups": [_backup_json(of, now_ms) for of in each.backups]}
                | {"replica": _replica_json(each)}
                for each in found
            ]
        )
        return
    rows = [_cells(each) for each in found]
    head = ("queue manager", "state", "depth", "delayed", "oldest", "connections", "folder")
    for line in aligned([head, *rows], right={2, 3, 4, 5}) if rows else ():
        print(line)
    for one in found:
        for backup in one.backups:
            print(f"backup of {one.queue_manager} to {backup.target}: {_backup_text(backup)}")
        for text in _replica_texts(one):
            print(f"replica of {one.queue_manager}: {text}")


def _replica_json(one: ManagerStatus) -> dict[str, object] | None:
    """Return the part of a queue manager in a replica for JSON; None without a replica.

    ``role`` and what comes with it are None while no server has one.
    """
    if one.replica is None:
        return None
    number, epoch = one.replica
    found: dict[str, object] = dict.fromkeys(ReplicaStanding._fields)
    if one.standing is not None:
        found = one.standing._asdict()
        epoch = one.standing.epoch or epoch
        found["standbys"] = [each._asdict() for each in one.standing.standbys]
    # These are facts of the queue manager, and stand beside.
    for name in ("queue_manager", "process_id", "row"):
        del found[name]
    return {"number": number, **found, "epoch": epoch}


def _replica_texts(one: ManagerStatus) -> Iterator[str]:
    """Yield the part of a queue manager in a replica as phrases; nothing without a replica."""
    if one.replica is None:
        return
    number, epoch = one.replica
    standing = one.standing
    if standing is None:
        yield f"its folder has row {number:,}, of epoch {epoch}"
        return
    lease = "no lease"
    if standing.lease_age_ms is not None:
        lease = f"lease renewed {_seconds(standing.lease_age_ms)} ago"
    if standing.role == STANDBY:
        owner = f"owner {standing.owner or 'not known'} {standing.address}".rstrip()
        lag = f"{standing.lag_rows:,} rows behind for {_seconds(standing.lag_ms)}"
        yield f"standby, {lag}, epoch {standing.epoch}, {lease}, {owner}"
        return
    yield f"owner, row {number:,}, epoch {standing.epoch}, {lease}"
    for each in standing.standbys:
        lag = f"{each.lag_rows:,} rows behind for {_seconds(each.lag_ms)}"
        yield f"standby {each.name}, {lag}, seen {_seconds(each.seen_ms)} ago"


def _seconds(ms: int) -> str:
    """Return a time in seconds: ``0.2 s``."""
    return f"{ms / SECOND_MS:.1f} s"


def _backup_json(state: FollowerState, now_ms: int) -> dict[str, object]:
    """Return the state of a backup for JSON; its times are None before it is whole."""
    return {
        "target": state.target,
        "running": state.is_running,
        "safe_at_ms": state.safe_at_ms or None,
        "loss_ms": max(now_ms - state.safe_at_ms, 0) if state.safe_at_ms else None,
    }


def _backup_text(state: FollowerState) -> str:
    """Return the state of a backup, as one phrase."""
    running = "running" if state.is_running else "NOT RUNNING"
    if not state.safe_at_ms:
        return f"{running}, not whole yet"
    loss_ms = max(SystemClock().now_ms() - state.safe_at_ms, 0)
    return f"{running}, a loss would cost the last {spelled_duration(loss_ms)}"


def _cells(one: ManagerStatus) -> tuple[str, ...]:
    """Return a status as the cells of a table; empty for what is not known."""
    counts = (one.depth, one.delayed)
    is_in_use = one.state is ServingState.STOPPED and one.process_id is not None
    oldest = "" if not one.oldest_seconds else spelled_duration(one.oldest_seconds * SECOND_MS)
    return (
        one.queue_manager,
        f"open in process {one.process_id}" if is_in_use else one.state.value,
        *("" if count is None else f"{count:,}" for count in counts),
        oldest,
        "" if one.connections is None else str(one.connections),
        one.folder,
    )


def _folders() -> Iterator[Path]:
    """Yield the folders of queue managers below $MAYFLY_HOME, by name."""
    home = home_folder()
    for folder in sorted(home.iterdir()) if home.is_dir() else ():
        if (folder / DATABASE_FILE).exists():
            yield folder


def _is_open(folder: Path) -> bool:
    """Return True while a process has a folder open, or is about to."""
    return is_served(folder) or holder_of(folder) is not None


def _process_of(name: str, folder: Path) -> int:
    """Return the id of the server process of a queue manager.

    Raises CommandFailed if no server has it open: exit code 1 for a stopped one, 4 if another
    program has it, or the process cannot be seen.
    """
    process = holder_of(folder)
    if is_served(folder) and process is not None:
        return process
    if not _is_open(folder):
        raise CommandFailed(ExitCode.NOTHING, f"{name} is stopped already")
    text = f"{name} is in use by {_server_text(folder)}, which is no server of it, or starts"
    raise CommandFailed(ExitCode.FILE, text)


def _server_text(folder: Path) -> str:
    """Return ``process 4711``, for error texts."""
    process = holder_of(folder)
    return "a process that cannot be seen" if process is None else f"process {process}"


def _is_own(file: Path) -> bool:
    """Return True for a file that Mayfly has made."""
    return not file.is_dir() and any(fnmatch(file.name, pattern) for pattern in _OWN_FILES)


def _waited(is_so: Callable[[], Any], seconds: int) -> bool:
    """Wait until something is so, for some seconds; return False if it has not come about."""
    pause = Event()
    for _ in range(round(seconds / _LOOK_SECONDS)):
        if is_so():
            return True
        pause.wait(_LOOK_SECONDS)
    return bool(is_so())
