"""How a command reaches the server of a folder as its operator, over the socket in the folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mayfly.cli.acting_user import acting_user
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.served import served_at
from mayfly.connection import Connection
from mayfly.connection.endpoint import Endpoint
from mayfly.connection.remote import connect
from mayfly.contracts.folder_sockets import FolderSocket
from mayfly.contracts.tokens import TokenMissing, read_token


@contextmanager
def operating(name: str, folder: Path) -> Iterator[Connection]:
    """Connect to the server that has a folder open; CommandFailed when none has."""
    served = served_at(folder)
    if served is None:
        raise CommandFailed(ExitCode.PIPELINE, f"{name} is not served: no server has {folder} open")
    try:
        token = read_token(served.token_file)
    except TokenMissing as error:
        raise CommandFailed(ExitCode.FILE, str(error)) from error
    socket = FolderSocket(folder)
    try:
        connection = connect(
            Endpoint((socket.path,), "", name), acting_user(), token, application="mayfly"
        )
    finally:
        socket.close()
    try:
        yield connection
    finally:
        connection.close(commit=False)
