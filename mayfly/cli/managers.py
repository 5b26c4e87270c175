"""Access to queue managers for commands: opens the folder, or connects to the server."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.served import (
    SERVED_FILE,
    Served,
    check_owner,
    is_served,
    polls,
    read_served,
    served_at,
)
from mayfly.cli.show import note
from mayfly.cli.values import local_path
from mayfly.client.connection import Connection, LocalConnection
from mayfly.client.connection.endpoint import Endpoint, endpoint_of_url, names_channel
from mayfly.engine import (
    LONGEST_MESSAGE_BYTES,
    PLATFORMS,
    Configuration,
    SettingValue,
    return_to_wall_clock,
    setting_value,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, FolderInUse, LostAnswer, MQError, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.store.database import DATABASE_FILE
from mayfly.verbs.checks import check_manager_name, folder_in_home
from mayfly.verbs.contracts.access import (
    TOKEN_VARIABLE,
    FolderSocket,
    TokenMissing,
    check_token,
    read_token,
)
from mayfly.verbs.contracts.config_files import FILE_SCHEME, scheme_of

USER_VARIABLE: Final = "MAYFLY_USER"
PASSWORD_VARIABLE: Final = "MAYFLY_PASSWORD"
#: Reason codes of a server that refuses everybody because it is ending.
_ENDING: Final = frozenset(
    {rc.MQRC_Q_MGR_QUIESCING, rc.MQRC_Q_MGR_STOPPING, rc.MQRC_Q_MGR_NOT_AVAILABLE}
)
_IN_DOUBT = "; whether the last call took effect is not known"
#: No values given: the folder's own stay.
_NO_CONFIGURATION = Configuration()


class NamedSetting(NamedTuple):
    """One ``--setting NAME=VALUE``."""

    name: str
    value: SettingValue


def setting_of(text: str) -> NamedSetting:
    """Return ``NAME=VALUE`` as a setting; raises BadParameter for a wrong name or value."""
    name, equals, typed = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE, as in expiry.max_check=always")
    try:
        return NamedSetting(name, setting_value(name, typed))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Name = Annotated[
    str,
    typer.Argument(
        metavar="QMGR", help="Name of the queue manager; it lives in $MAYFLY_HOME/QMGR (~/.mayfly)."
    ),
]
FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--path", parser=local_path, metavar="FOLDER", help="Its folder, when it lives elsewhere."
    ),
]
PlaceOption = Annotated[
    str | None,
    typer.Option(
        "--path",
        "--url",
        metavar="FOLDER|URL",
        help="Its folder, when it lives elsewhere; or its server, mq://HOST:PORT?channel=CHANNEL, "
        "mqs:// with TLS. The password is in MAYFLY_PASSWORD.",
    ),
]
PlatformOption = Annotated[
    str | None,
    typer.Option(
        "--platform",
        metavar="|".join(PLATFORMS),
        help="What it is made for; never changes. [default: distributed]",
    ),
]
LevelOption = Annotated[
    int | None,
    typer.Option("--command-level", metavar="NUMBER", help="CMDLEVEL; kept. [default: 940]"),
]
SettingOption = Annotated[
    list[NamedSetting] | None,
    typer.Option(
        "--setting",
        parser=setting_of,
        metavar="NAME=VALUE",
        help="A setting, as in expiry.max_check=always; kept; may be given repeatedly.",
    ),
]


def configuration_of(
    platform: str | None, command_level: int | None, settings: Sequence[NamedSetting] | None
) -> Configuration:
    """Return the configuration in the options; empty if all are None.

    If a setting is there twice, the last one counts.
    """
    return Configuration(platform, command_level, dict(settings or ()))


def acting_user() -> str:
    """Return the operating system's user of this process, "" if it is not known."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def folder_of(name: str, path: Path | None) -> Path:
    """Return the folder of a queue manager: ``path``, else ``$MAYFLY_HOME/NAME``.

    The folder need not exist. Raises MQRC_Q_MGR_NAME_ERROR for a wrong name.
    """
    if path is None:
        return folder_in_home(name)
    check_manager_name(name)
    return path


def existing_folder(name: str, path: Path | None) -> Path:
    """Return the folder of a queue manager; raises MQRC_Q_MGR_NAME_ERROR if it has none."""
    folder = folder_of(name, path)
    if not (folder / DATABASE_FILE).exists():
        raise mq_error(
            rc.MQRC_Q_MGR_NAME_ERROR,
            f"there is no queue manager in {folder}; make one: mayfly qm create {name}",
        )
    return folder


@contextmanager
def opened(
    name: str, path: Path | None, *, make: bool = False, given: Configuration = _NO_CONFIGURATION
) -> Iterator[QueueManager]:
    """Return a context with an open queue manager, which is closed at its end.

    One that does not exist is made with ``make``, else MQRC_Q_MGR_NAME_ERROR is raised. The
    configuration ``given`` is stored in its folder; CommandFailed says if it is wrong. Raises
    FolderInUse if another process has the folder open.
    """
    folder = folder_of(name, path) if make else existing_folder(name, path)
    is_new = not (folder / DATABASE_FILE).exists()
    platform, command_level, settings = given
    with wrong_values():
        queue_manager = QueueManager(
            name,
            folder,
            user=acting_user(),
            platform=platform,
            command_level=command_level,
            settings=settings,
        )
    with queue_manager:
        if is_new:
            note(f"made queue manager {name} in {folder}")
        yield queue_manager


@contextmanager
def connected(
    name: str,
    place: str | None,
    *,
    program: str,
    make: bool = False,
    given: Configuration = _NO_CONFIGURATION,
) -> Iterator[Connection]:
    """Return a context connected to a queue manager, by its folder or over its server.

    ``place`` is a folder or URL, None the usual folder. ``program`` is the name of the connected
    program. The end of the block commits; an exception backs out. A queue manager that does not
    exist is made with ``make``. The configuration ``given`` is stored in its folder. Raises
    MQRC_Q_MGR_NAME_ERROR if there is no such queue manager, and CommandFailed if the server cannot
    be reached, refuses the user, or ends meanwhile.
    """
    with ExitStack() as stack:
        connection = _connect(stack, name, place, program, make=make, given=given)
        is_done = False
        try:
            yield connection
            is_done = True
        finally:
            connection.close(commit=is_done)


def _connect(
    stack: ExitStack,
    name: str,
    place: str | None,
    program: str,
    *,
    make: bool,
    given: Configuration,
) -> Connection:
    """Connect by URL, by opening the folder, or by the socket in it if a server has it open.

    ``place`` is a folder or URL, None the usual folder. With ``make`` a queue manager that does not
    exist is made. The configuration ``given`` is stored in the folder. ``stack`` closes what was
    opened. Raises the errors of ``connected``.
    """
    if place is not None and is_remote(place):
        _check_not_given(name, given)
        return stack.enter_context(at_url(name, place, program))
    path = None if place is None else local_path(place)
    try:
        manager = stack.enter_context(opened(name, path, make=make, given=given))
    except FolderInUse:
        folder = folder_of(name, path)
        check = partial(_check_not_given, name, given)
        connection = stack.enter_context(in_folder(name, folder, program, check))
        if connection is not None:
            return connection
        # A server that was ending is gone by now. Anybody else has not been waited for.
        manager = stack.enter_context(opened(name, path, make=make, given=given))
    return LocalConnection(manager.session(acting_user(), program=program), manager)


def is_remote(place: str) -> bool:
    """Return True if ``place`` is the URL of a server, False for a folder of this machine."""
    return scheme_of(place) not in ("", FILE_SCHEME)


def is_here(connection: Connection) -> bool:
    """Return True if this process has the queue manager open itself, False over a server."""
    return isinstance(connection, LocalConnection)


def bring_back(name: str, place: str | None) -> None:
    """Open a queue manager, set its time back to the wall clock, and close it.

    ``place`` is its folder, None the usual one. Raises FolderInUse if a process has it open.
    """
    with opened(name, None if place is None else local_path(place)) as queue_manager:
        return_to_wall_clock(queue_manager.engine, queue_manager.close)


def _check_not_given(name: str, given: Configuration) -> None:
    """Raise CommandFailed if ``given`` is not empty: a served queue manager keeps its own."""
    if not given.is_empty:
        raise CommandFailed(
            ExitCode.USAGE,
            f"{name} is served: give --platform, --command-level and --setting to mayfly serve",
        )


@contextmanager
def operating(name: str, folder: Path, *, waits: bool = True) -> Iterator[Connection]:
    """Return a context connected as the operator to the server that has a folder open.

    ``name`` is the queue manager. With ``waits`` it waits up to 30 seconds for a server that starts
    or ends. The end of the block backs out what is not committed. Raises CommandFailed if no server
    has the folder open, and MQError if the server refuses.
    """
    if waits:
        connection = _connect_when_served(name, folder, "mayfly")
    else:
        served = served_at(folder)
        connection = None if served is None else _connect_by_socket(name, folder, served, "mayfly")
    if connection is None:
        raise CommandFailed(ExitCode.PIPELINE, f"{name} is not served: no server has {folder} open")
    try:
        yield connection
    finally:
        connection.close(commit=False)


@contextmanager
def in_folder(
    name: str, folder: Path, program: str, check: Callable[[], object]
) -> Iterator[Connection | None]:
    """Return a context connected by the socket in a folder, where no other user can listen.

    The command is the operator, by the token; the messages that it puts have the name of its user.
    ``program`` is the name of the connected program. The call waits, and says so, up to 30 seconds
    for a server that starts or ends. The connection is None if the server has ended. ``check`` is
    called as soon as a server is found, and may raise CommandFailed. CommandFailed is also raised
    if the server refuses, or if the connection is lost in the block.
    """
    with _connect_errors():
        connection = _connect_when_served(name, folder, program, check)
    with _connection_errors(folder):
        yield connection


def _connect_when_served(
    name: str, folder: Path, program: str, check: Callable[[], object] = lambda: None
) -> Connection | None:
    """Connect to a folder's server once it has started; return None if no server has it open.

    ``program`` is the name of the connected program. ``check`` is called as soon as a server is
    found, and may raise CommandFailed. Raises CommandFailed after 30 seconds, MQError if the server
    refuses.
    """
    for _ in polls(folder):
        if not is_served(folder):
            return None
        served = read_served(folder / SERVED_FILE)
        if served is None:
            continue
        check_owner(served, folder)
        check()
        try:
            return _connect_by_socket(name, folder, served, program)
        except MQError as error:
            if error.reason not in _ENDING:
                raise
    return None


@contextmanager
def at_url(name: str, url: str, program: str) -> Iterator[Connection]:
    """Return a context connected to the server at ``mq://HOST:PORT/QMGR?channel=CHANNEL``.

    If the URL names no channel and MAYFLY_TOKEN is set, the command is the operator, by that token.
    Otherwise it is the user in MAYFLY_USER, or the one who runs it, with the password in
    MAYFLY_PASSWORD. A password that is missing is asked for on a terminal. Raises CommandFailed for
    a wrong URL, and if the server cannot be reached, refuses, or is lost in the block.
    """
    try:
        endpoint = endpoint_of_url(url)
    except MQError as error:
        raise CommandFailed(ExitCode.USAGE, error.detail) from error
    if endpoint.queue_manager not in ("", name):
        text = f"--url names the queue manager {endpoint.queue_manager}, the command {name}"
        raise CommandFailed(ExitCode.USAGE, text)
    endpoint = endpoint._replace(queue_manager=name, max_message_bytes=LONGEST_MESSAGE_BYTES)
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if token and not names_channel(url):
        with wrong_values():
            check_token(token)
        endpoint, account, password = endpoint._replace(channel=""), acting_user(), token
    else:
        account = os.environ.get(USER_VARIABLE) or acting_user()
        password = _password(account)
    with _connect_errors():
        connection = _connect_remote(endpoint, account, password, program)
    with _connection_errors(url):
        yield connection


def _connect_by_socket(name: str, folder: Path, served: Served, program: str) -> Connection:
    """Connect as the operator by the socket in a folder; the caller closes the connection.

    ``served`` says where the server's token is. Raises CommandFailed if the token cannot be read,
    MQError if the server refuses.
    """
    try:
        token = read_token(served.token_file)
    except TokenMissing as error:
        raise CommandFailed(ExitCode.PIPELINE, str(error)) from error
    socket = FolderSocket(folder)
    try:
        endpoint = Endpoint((socket.path,), "", name, max_message_bytes=LONGEST_MESSAGE_BYTES)
        return _connect_remote(endpoint, acting_user(), token, program)
    finally:
        socket.close()


def _connect_remote(endpoint: Endpoint, account: str, password: str, program: str) -> Connection:
    """Connect to a server with a user's password or the operator's token.

    ``account`` is the user, ``password`` the password or token. ``program`` becomes PutApplName.
    Raises MQError if the server cannot be reached or refuses.
    """
    # A command on a folder that nobody serves starts without the client of the network.
    from mayfly.client.connection.remote import connect

    return connect(endpoint, account, password, application=program)


@contextmanager
def _connect_errors() -> Iterator[None]:
    """Return a context that turns the MQError of a failed connect into CommandFailed.

    The exit code is 5.
    """
    try:
        yield
    except MQError as error:
        raise CommandFailed(ExitCode.PIPELINE, str(error)) from error


def _password(account: str) -> str:
    """Return a user's password, from MAYFLY_PASSWORD or a terminal; "" without either.

    It is never taken from the command line, which other users can see.
    """
    password = os.environ.get(PASSWORD_VARIABLE)
    if password is None and sys.stdin.isatty():
        password = getpass.getpass(f"password of {account}: ")
    return password or ""


@contextmanager
def _connection_errors(place: Path | str) -> Iterator[None]:
    """Return a context that turns a lost connection into CommandFailed (exit code 5).

    The text names ``place``, the folder or URL, and says if the last call is in doubt.
    """
    try:
        yield
    except ConnectionBroken as error:
        doubt = _IN_DOUBT if isinstance(error, LostAnswer) else ""
        raise CommandFailed(ExitCode.PIPELINE, f"{error} (server of {place}){doubt}") from error
