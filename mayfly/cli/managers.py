"""Where queue managers live, and how a command opens one, or reaches who has it open."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mayfly.cli.acting_user import acting_user
from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.served import Served, served_at
from mayfly.engine import Configuration, check_manager_name, folder_in_home
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import FolderInUse, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.store.database import DATABASE_FILE

if TYPE_CHECKING:
    from mayfly.served import ServedQueueManager

    #: A queue manager of this process or a served one: most commands work with either.
    Operated = QueueManager | ServedQueueManager

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
    typer.Option("--path", metavar="FOLDER", help="Its folder, when it lives elsewhere."),
]
PlaceOption = Annotated[
    str | None,
    typer.Option(
        "--path",
        "--url",
        metavar="FOLDER|URL",
        help="Its folder, when it lives elsewhere; or its server, grpc://HOST:PORT or "
        "grpc+tls://HOST:PORT, whose token is in MAYFLY_TOKEN.",
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
def operated(
    name: str, place: str | None, *, make: bool = False, given: Configuration = _NOTHING
) -> Iterator[Operated]:
    """Open a queue manager as :func:`opened`, or reach the server that has it open."""
    with ExitStack() as stack:
        if place is not None and "://" in place:
            _check_not_given(name, given)
            yield stack.enter_context(_reached(name, place, None))
            return
        path = None if place is None else Path(place)
        try:
            queue_manager: Operated = stack.enter_context(
                opened(name, path, make=make, given=given)
            )
        except FolderInUse:
            folder = folder_of(name, path)
            served = served_at(folder)
            if served is None:
                # A server that was ending is gone by now. Anybody else has not been waited for.
                queue_manager = stack.enter_context(opened(name, path, make=make, given=given))
            else:
                _check_not_given(name, given)
                queue_manager = stack.enter_context(_in_folder(name, folder, served))
        yield queue_manager


def _check_not_given(name: str, given: Configuration) -> None:
    """Refuse to configure a queue manager that runs elsewhere: it is configured at its start."""
    if not given.is_empty:
        raise CommandFailed(
            ExitCode.USAGE,
            f"{name} is served: give --platform, --command-level and --setting to mayfly serve",
        )


def _in_folder(
    name: str, folder: Path, served: Served
) -> AbstractContextManager[ServedQueueManager]:
    """Reach a server by the socket in the folder: nobody else can listen there."""
    from mayfly.bulk.folder_socket import folder_url

    return _reached(name, folder_url(folder), served.token_file)


@contextmanager
def _reached(name: str, url: str, token_file: str | None) -> Iterator[ServedQueueManager]:
    from mayfly.bulk.errors import BulkError
    from mayfly.served import ServedQueueManager

    try:
        with wrong_values():
            reached = ServedQueueManager(url, token_file=token_file, manager=name)
        with reached:
            yield reached
    except BulkError as error:
        raise CommandFailed(ExitCode.PIPELINE, error.text) from error
