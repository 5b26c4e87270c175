"""How a command reaches the server that has a queue manager open: by its folder, or by a URL."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mayfly.cli.acting_user import acting_user
from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.served import SERVED_FILE, Served, is_served, looks, served_at, told_in
from mayfly.client.connection import Connection
from mayfly.client.connection.endpoint import Endpoint
from mayfly.client.connection.url import endpoint_of_url, names_channel
from mayfly.engine import LONGEST_MESSAGE_BYTES
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, LostAnswer, MQError
from mayfly.verbs.contracts.access import (
    TOKEN_VARIABLE,
    FolderSocket,
    TokenMissing,
    check_token,
    read_token,
)

USER_VARIABLE: Final = "MAYFLY_USER"
PASSWORD_VARIABLE: Final = "MAYFLY_PASSWORD"
#: Reasons of a server that lets nobody in because it ends; it does not listen any more.
_ENDING: Final = frozenset(
    {rc.MQRC_Q_MGR_QUIESCING, rc.MQRC_Q_MGR_STOPPING, rc.MQRC_Q_MGR_NOT_AVAILABLE}
)
_IN_DOUBT = "; whether the last call took effect is not known"


@contextmanager
def operating(name: str, folder: Path, *, waits: bool = True) -> Iterator[Connection]:
    """Connect for a block as the operator to the server that has a folder open.

    Waits as :func:`in_folder` for a server that starts or ends, unless it is to be looked at as it
    is now. Raises CommandFailed when none has the folder open, and the MQError of a server that
    lets nobody in.
    """
    if waits:
        connection = _once_served(name, folder, "mayfly")
    else:
        served = served_at(folder)
        connection = None if served is None else _by_socket(name, folder, served, "mayfly")
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
    """Connect for a block by the socket in a folder, where nobody else can listen.

    The command is the operator, by the token; its user's name stands in the messages it puts. While
    the server starts or ends this says so and waits, up to 30 seconds: it is None when the server
    has ended. ``check`` is called once there is a server, and may refuse.
    """
    with _let_in():
        connection = _once_served(name, folder, program, check)
    with _broken_off(folder):
        yield connection


def _once_served(
    name: str, folder: Path, program: str, check: Callable[[], object] = lambda: None
) -> Connection | None:
    for _ in looks(folder):
        if not is_served(folder):
            return None
        served = told_in(folder / SERVED_FILE)
        if served is None:
            continue
        check()
        try:
            return _by_socket(name, folder, served, program)
        except MQError as error:
            if error.reason not in _ENDING:
                raise
    return None


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
    from mayfly.client.connection.remote import connect

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
