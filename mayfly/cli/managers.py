"""Where queue managers live on disk, and how a command opens one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from mayfly.cli.user import user
from mayfly.engine.objects.registry import check_name
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.store.database import DATABASE_FILE

#: The folder of all queue managers that are not named by ``--path``.
HOME_VARIABLE = "MAYFLY_HOME"

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
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def folder_of(name: str, path: Path | None) -> Path:
    """Return the folder of a queue manager; raises MQRC_Q_MGR_NAME_ERROR for a wrong name."""
    try:
        check_name(name)
    except MQError as error:
        raise mq_error(rc.MQRC_Q_MGR_NAME_ERROR, error.detail) from None
    if path is not None:
        return path
    if "/" in name or not name.strip("."):
        raise mq_error(
            rc.MQRC_Q_MGR_NAME_ERROR, f"{name!r} is no name of a folder; name one with --path"
        )
    home = os.environ.get(HOME_VARIABLE)
    return (Path(home) if home else Path.home() / ".mayfly") / name


@contextmanager
def opened(name: str, path: Path | None, *, make: bool = False) -> Iterator[QueueManager]:
    """Open a queue manager for a block and close it afterwards.

    One that is not there is made with ``make``, else it is MQRC_Q_MGR_NAME_ERROR.
    """
    folder = folder_of(name, path)
    is_new = not (folder / DATABASE_FILE).exists()
    if is_new and not make:
        raise mq_error(
            rc.MQRC_Q_MGR_NAME_ERROR,
            f"there is no queue manager in {folder}; "
            f"make one: mayfly mqsc {name} -c 'DEFINE QLOCAL(Q1)'",
        )
    with QueueManager(name, folder, user=user()) as queue_manager:
        if is_new:
            print(f"mayfly: made queue manager {name} in {folder}", file=sys.stderr)
        yield queue_manager
