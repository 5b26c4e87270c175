"""A queue manager of this machine that a server has open: reached by the socket in its folder."""

from __future__ import annotations

import getpass
import json
from contextlib import suppress
from pathlib import Path

from mayfly.client.connection.endpoint import Endpoint
from mayfly.client.connection.interface import Connection
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.contracts.access import MQ_SOCKET_FILE, FolderSocket, TokenMissing, read_token

#: The file that a server writes beside its socket; ``mayfly.cli.served`` describes it.
_SERVED_FILE = "served.json"


def connect_to_server_of(
    folder: Path, name: str, user: str | None, program: str
) -> Connection | None:
    """Connect through the server that has a folder open, None when none has, or none yet.

    The program connects as the operator, as a program does that opens the folder itself: both can
    read the files there. Raises as ``remote.connect``; MQRC_NOT_AUTHORIZED when the token cannot
    be read.
    """
    # A server fills the file once its socket listens.
    if not (folder / MQ_SOCKET_FILE).is_socket() or _is_empty(folder / _SERVED_FILE):
        return None
    from mayfly.client.connection.remote import connect as connect_remote

    socket = FolderSocket(folder)
    try:
        endpoint = Endpoint((socket.path,), "", name)
        account = user or getpass.getuser()
        return connect_remote(endpoint, account, _token(folder), application=program)
    except MQError as error:
        # A server that was killed has left its socket, which nobody answers.
        if error.reason in (rc.MQRC_Q_MGR_NOT_AVAILABLE, rc.MQRC_HOST_NOT_AVAILABLE):
            return None
        raise
    finally:
        socket.close()


def _is_empty(file: Path) -> bool:
    try:
        return not file.stat().st_size
    except FileNotFoundError:
        return False


def _token(folder: Path) -> str:
    token_file = None
    with suppress(OSError, ValueError, AttributeError):
        token_file = json.loads((folder / _SERVED_FILE).read_bytes()).get("token_file")
    try:
        return read_token(token_file)
    except TokenMissing as error:
        said = f"the server of {folder} is reached by the operator's token: {error}"
        raise mq_error(rc.MQRC_NOT_AUTHORIZED, said) from error
