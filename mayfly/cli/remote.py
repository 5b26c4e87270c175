"""How a command reaches the server that has a queue manager open: by its folder, or by a URL."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mayfly.cli.acting_user import acting_user
from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.served import Served, served_at
from mayfly.connection import Connection
from mayfly.connection.endpoint import Endpoint
from mayfly.connection.url import endpoint_of_url, names_channel
from mayfly.contracts.folder_sockets import FolderSocket
from mayfly.contracts.tokens import TOKEN_VARIABLE, TokenMissing, check_token, read_token
from mayfly.engine import LONGEST_MESSAGE_BYTES
from mayfly.mqi.errors import ConnectionBroken, LostAnswer, MQError

USER_VARIABLE: Final = "MAYFLY_USER"
PASSWORD_VARIABLE: Final = "MAYFLY_PASSWORD"
_IN_DOUBT = "; whether the last call took effect is not known"


@contextmanager
def operating(name: str, folder: Path) -> Iterator[Connection]:
    """Connect for a block as the operator to the server that has a folder open.

    Raises CommandFailed when none has, and the MQError of a server that lets nobody in.
    """
    served = served_at(folder)
    if served is None:
        raise CommandFailed(ExitCode.PIPELINE, f"{name} is not served: no server has {folder} open")
    connection = _by_socket(name, folder, served, "mayfly")
    try:
        yield connection
    finally:
        connection.close(commit=False)


@contextmanager
def in_folder(name: str, folder: Path, served: Served, program: str) -> Iterator[Connection]:
    """Connect for a block by the socket in a folder, where nobody else can listen.

    The command is the operator, by the token; its user's name stands in the messages it puts.
    """
    with _let_in():
        connection = _by_socket(name, folder, served, program)
    with _broken_off(folder):
        yield connection


@contextmanager
def at_url(name: str, url: str, program: str) -> Iterator[Connection]:
    """Connect for a block to the server at a URL, ``mq://HOST:PORT/QMGR?channel=CHANNEL``.

    Without a channel the command is the operator, by the token in MAYFLY_TOKEN. By a channel it is
    the user in MAYFLY_USER, or who runs it, with the password in MAYFLY_PASSWORD; a terminal is
    asked for a password that is not there.
    """
    try:
        endpoint = endpoint_of_url(url)
    except MQError as error:
        raise CommandFailed(ExitCode.USAGE, error.detail) from error
    if endpoint.queue_manager not in ("", name):
        said = f"--url names the queue manager {endpoint.queue_manager}, the command {name}"
        raise CommandFailed(ExitCode.USAGE, said)
    endpoint = endpoint._replace(queue_manager=name, max_message_bytes=LONGEST_MESSAGE_BYTES)
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if token and not names_channel(url):
        with wrong_values():
            check_token(token)
        endpoint, account, password = endpoint._replace(channel=""), acting_user(), token
    else:
        account = os.environ.get(USER_VARIABLE) or acting_user()
        password = _password(account)
    with _let_in():
        connection = _connected(endpoint, account, password, program)
    with _broken_off(url):
        yield connection


def _by_socket(name: str, folder: Path, served: Served, program: str) -> Connection:
    try:
        token = read_token(served.token_file)
    except TokenMissing as error:
        raise CommandFailed(ExitCode.PIPELINE, str(error)) from error
    socket = FolderSocket(folder)
    try:
        endpoint = Endpoint((socket.path,), "", name, max_message_bytes=LONGEST_MESSAGE_BYTES)
        return _connected(endpoint, acting_user(), token, program)
    finally:
        socket.close()


def _connected(endpoint: Endpoint, account: str, password: str, program: str) -> Connection:
    # A command on a folder that nobody serves starts without the client of the network.
    from mayfly.connection.remote import connect

    return connect(endpoint, account, password, application=program)


@contextmanager
def _let_in() -> Iterator[None]:
    """End the command when no server answers, or it lets the command's user not in."""
    try:
        yield
    except MQError as error:
        raise CommandFailed(ExitCode.PIPELINE, str(error)) from error


def _password(account: str) -> str:
    """Return the password of a user; it never stands on a command line, which others can see."""
    password = os.environ.get(PASSWORD_VARIABLE)
    if password is None and sys.stdin.isatty():
        password = getpass.getpass(f"password of {account}: ")
    return password or ""


@contextmanager
def _broken_off(place: Path | str) -> Iterator[None]:
    """End the command when the server ends, or its network does."""
    try:
        yield
    except ConnectionBroken as error:
        doubt = _IN_DOUBT if isinstance(error, LostAnswer) else ""
        raise CommandFailed(ExitCode.PIPELINE, f"{error} (server of {place}){doubt}") from error
