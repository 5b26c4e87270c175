"""Where queue managers live, and how a command opens one, or connects to the server that has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from mayfly.cli.acting_user import acting_user
from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.remote import at_url, in_folder
from mayfly.cli.values import local_path
from mayfly.client.connection import Connection, LocalConnection
from mayfly.engine import Configuration, come_back
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import FolderInUse, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.store.database import DATABASE_FILE
from mayfly.verbs.checks import check_manager_name, folder_in_home
from mayfly.verbs.contracts.files import FILE_SCHEME, scheme_of

#: No values given: the folder's own stay.
_NOTHING = Configuration()

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
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def folder_of(name: str, path: Path | None) -> Path:
    """Return the folder of a queue manager; raises MQRC_Q_MGR_NAME_ERROR for a wrong name."""
    if path is None:
        return folder_in_home(name)
    check_manager_name(name)
    return path


def existing_folder(name: str, path: Path | None) -> Path:
    """Return the folder of a queue manager that is there; else it is MQRC_Q_MGR_NAME_ERROR."""
    folder = folder_of(name, path)
    if not (folder / DATABASE_FILE).exists():
        raise mq_error(
            rc.MQRC_Q_MGR_NAME_ERROR,
            f"there is no queue manager in {folder}; "
            f"make one: mayfly mqsc {name} -c 'DEFINE QLOCAL(Q1)'",
        )
    return folder


@contextmanager
def opened(
    name: str, path: Path | None, *, make: bool = False, given: Configuration = _NOTHING
) -> Iterator[QueueManager]:
    """Open a queue manager for a block and close it afterwards.

    One that is not there is made with ``make``, else it is MQRC_Q_MGR_NAME_ERROR. The
    configuration ``given`` is kept in its folder; CommandFailed says what is wrong with it.
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
            print(f"mayfly: made queue manager {name} in {folder}", file=sys.stderr)
        yield queue_manager


@contextmanager
def connected(
    name: str,
    place: str | None,
    *,
    program: str,
    make: bool = False,
    given: Configuration = _NOTHING,
) -> Iterator[Connection]:
    """Connect to a queue manager for a block: by its folder, or to the server that has it open.

    The end of the block commits, unless it fails. One that is not there is made with ``make``. The
    configuration ``given`` is kept in its folder. Raises as :func:`opened`; CommandFailed for a
    server that cannot be reached, lets nobody in, or ends meanwhile.
    """
    with ExitStack() as stack:
        connection = _connected(stack, name, place, program, make=make, given=given)
        is_done = False
        try:
            yield connection
            is_done = True
        finally:
            connection.close(commit=is_done)


def _connected(
    stack: ExitStack,
    name: str,
    place: str | None,
    program: str,
    *,
    make: bool,
    given: Configuration,
) -> Connection:
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
    """Return True if a place is a URL, as of a server, and no folder of this machine."""
    return scheme_of(place) not in ("", FILE_SCHEME)


def is_here(connection: Connection) -> bool:
    """Return True if this process has the queue manager open."""
    return isinstance(connection, LocalConnection)


def bring_back(name: str, place: str | None) -> None:
    """Let the time of a queue manager that nobody has open go back to the wall clock's."""
    with opened(name, None if place is None else local_path(place)) as queue_manager:
        come_back(queue_manager.engine, queue_manager.close)


def _check_not_given(name: str, given: Configuration) -> None:
    """Refuse to configure a queue manager that runs elsewhere: it is configured at its start."""
    if not given.is_empty:
        raise CommandFailed(
            ExitCode.USAGE,
            f"{name} is served: give --platform, --command-level and --setting to mayfly serve",
        )
