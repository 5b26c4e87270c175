"""Connecting by the name of a queue manager, in this process or over a network."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from mayfly.client.connection.endpoint import UNREACHABLE, Endpoint, Reconnect, further
from mayfly.client.connection.interface import Connection, instrumented
from mayfly.client.connection.reconnecting import ReconnectingConnection
from mayfly.client.connection.routes import (
    DEFAULT_OPTIONS,
    ClientRoute,
    ConnectOptions,
    Sharing,
    routes,
)
from mayfly.client.connection.waits import open_here
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.checks import HOME_VARIABLE, folder_in_home
from mayfly.verbs.contracts.access import MQ_SOCKET_FILE, FolderSocket, TokenMissing, read_token

#: The file that a server writes beside its socket; ``mayfly.cli.served`` describes it.
_SERVED_FILE = "served.json"


def connect_to_server_of(
    folder: Path, name: str, user: str | None, program: str
) -> Connection | None:
    """Connect through the server of a queue manager's folder; None when no server is ready.

    The program connects as the operator, as if it opened the folder itself: it can read the files
    there. ``user`` None is the user that runs the program; ``program`` becomes PutApplName. Raises
    MQRC_NOT_AUTHORIZED when the token is not readable, MQRC_HOST_NOT_AVAILABLE with the owner's
    name and address when the server follows another one, and the errors of ``remote.connect``.
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
        # A killed server has left a socket that does not answer. One that answers names the owner.
        is_gone = error.reason == rc.MQRC_Q_MGR_NOT_AVAILABLE
        if is_gone or (error.reason == rc.MQRC_HOST_NOT_AVAILABLE and not _is_standby(folder)):
            return None
        raise
    finally:
        socket.close()


def _is_standby(folder: Path) -> bool:
    """Return True if the server of a folder says that another one owns the queue manager."""
    return _served_value(folder, "role") == "standby"


def _served_value(folder: Path, name: str) -> object:
    """Return a value in the file of the server of a folder; None without it."""
    with suppress(OSError, ValueError, AttributeError):
        return json.loads((folder / _SERVED_FILE).read_bytes()).get(name)
    return None


def _is_empty(file: Path) -> bool:
    """Return True if a file has no bytes; False if it has some or does not exist."""
    try:
        return not file.stat().st_size
    except FileNotFoundError:
        return False


def _token(folder: Path) -> str:
    """Return the operator's token for the server of a folder; raises MQRC_NOT_AUTHORIZED.

    A file of the server names its token file; without that name MAYFLY_TOKEN has the token.
    """
    token_file = _served_value(folder, "token_file")
    try:
        return read_token(None if token_file is None else str(token_file))
    except TokenMissing as error:
        text = f"the server of {folder} is reached by the operator's token: {error}"
        raise mq_error(rc.MQRC_NOT_AUTHORIZED, text) from error


#: After an error with one of these reasons, the next channel of a table is tried.
_TRY_NEXT = UNREACHABLE | {
    rc.MQRC_CHANNEL_NOT_AVAILABLE,
    rc.MQRC_Q_MGR_NAME_ERROR,
    rc.MQRC_SSL_INITIALIZATION_ERROR,
    rc.MQRC_UNKNOWN_CHANNEL_NAME,
}


def connect(
    name: str,
    user: str | None = None,
    *,
    password: str | None = None,
    program: str = "mayfly",
    wanted: ConnectOptions = DEFAULT_OPTIONS,
) -> Connection:
    """Connect to a queue manager by its name, over a network if it is not on this machine.

    ``wanted`` has the other wishes of the program: a channel, keys, reconnection, sharing of
    sockets. Its channel comes first, then MQSERVER, MQCCDTURL, and MQCHLLIB with MQCHLTAB
    (``choose.routes``). Without any of these the queue manager is on this machine:

    * the one that is open in this process; a blank name means the only one open here;
    * else the one in ``$MAYFLY_HOME`` that another process serves, through its server.

    A folder is never opened. ``user`` None is the user that runs the program; no password is
    checked within this process. ``program`` becomes PutApplName. Raises MQRC_Q_MGR_NAME_ERROR when
    there is no such queue manager, MQRC_Q_MGR_NOT_AVAILABLE when no process has it open, and the
    errors of ``choose.routes`` and ``remote.connect``.
    """
    ways = routes(name, wanted)
    if ways is None:
        return instrumented(_connect_here(name, user, program))
    return instrumented(_connect_away(name, ways, user, password, program=program, wanted=wanted))


def _connect_away(
    name: str,
    ways: Iterator[ClientRoute],
    user: str | None,
    password: str | None,
    *,
    program: str,
    wanted: ConnectOptions,
) -> Connection:
    """Connect over a network, with reconnection if both the program and the channel allow it.

    ``ways`` are the routes to try in order, and ``wanted`` has the program's wishes. ``program``
    becomes PutApplName. ``user`` None is the user that runs the program. Raises the errors of
    :func:`_connect_by`.
    """
    account = getpass.getuser() if user is None else user
    first = next(ways)
    how = wanted.reconnect or first.reconnect
    if first.reconnect is Reconnect.DISABLED:
        how = Reconnect.DISABLED
    if not wanted.may_reconnect or how in (Reconnect.NO, Reconnect.DISABLED):
        return _connect_by(chain([first], ways), account, password, program, wanted.sharing)

    def again() -> Connection:
        found = routes(name, wanted)
        assert found is not None
        return _connect_by(found, account, password, program, wanted.sharing)

    return ReconnectingConnection(again, how, attempts=wanted.attempts)


def _connect_by(
    ways: Iterable[ClientRoute],
    account: str,
    password: str | None,
    program: str,
    sharing: Sharing | None,
) -> Connection:
    """Connect by the first route that works; raises the error of the one that came furthest.

    ``account`` is the user to connect as, and ``program`` becomes PutApplName. ``sharing`` None
    shares sockets with all conversations of the process. Errors that another route cannot avoid,
    such as MQRC_NOT_AUTHORIZED, are raised at once.
    """
    from mayfly.client.connection.remote import connect as connect_remote

    failure: MQError | None = None
    for way in ways:
        try:
            return connect_remote(
                way.endpoint, account, password or "", application=program, sharing=sharing
            )
        except MQError as error:
            if error.reason not in _TRY_NEXT:
                raise
            failure = further(failure, error)
    assert failure is not None
    raise failure


def _connect_here(name: str, user: str | None, program: str) -> Connection:
    """Connect to a queue manager of this machine: open in this process, or served by another.

    Raises MQRC_Q_MGR_NAME_ERROR for an unknown name, MQRC_Q_MGR_NOT_AVAILABLE when no process has
    the queue manager open, and the errors of ``remote.connect``.
    """
    running = {n: m for n, m in open_here().items() if not m.is_stopped}
    if not name and len(running) == 1:
        (name,) = running
    manager = running.get(name)
    if manager is not None:
        from mayfly.client.connection.local import LocalConnection

        return LocalConnection(manager.session(user, program=program, groups=None), manager)
    try:
        folder = folder_in_home(name)
    except MQError:
        raise _unknown(name) from None
    served = connect_to_server_of(folder, name, user, program)
    if served is not None:
        return served
    if not folder.is_dir():
        raise _unknown(name)
    # A program that opened the folder would be the queue manager, and keep its server from
    # starting again.
    text = f"no server has {folder} open: start one, mayfly serve {name}, or open it yourself"
    raise mq_error(rc.MQRC_Q_MGR_NOT_AVAILABLE, f"{text}, mayfly.QueueManager.open({name!r})")


def _unknown(name: str) -> MQError:
    """Return the MQRC_Q_MGR_NAME_ERROR for a name without a queue manager on this machine."""
    return mq_error(
        rc.MQRC_Q_MGR_NAME_ERROR,
        f"{name!r} is not open in this process and has no folder in {HOME_VARIABLE} (~/.mayfly)",
    )
