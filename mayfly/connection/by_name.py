"""Connections by the name of a queue manager, in this process or over a network."""

from __future__ import annotations

import getpass
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import cast

from mayfly.connection.choose import NOTHING_WANTED, Route, Wanted, routes
from mayfly.connection.endpoint import Reconnect
from mayfly.connection.instruments import instrumented
from mayfly.connection.interface import Connection
from mayfly.connection.local import LocalConnection
from mayfly.connection.reconnecting import ReconnectingConnection
from mayfly.connection.served_folder import connect_to_server_of
from mayfly.engine import folder_in_home
from mayfly.engine.face.programs import HOME_VARIABLE
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, StoreError, mq_error
from mayfly.queue_manager import QueueManager, managers_here

#: After an error with one of these reasons, the next channel of a table is tried.
_TRY_NEXT = frozenset(
    {
        rc.MQRC_CHANNEL_NOT_AVAILABLE,
        rc.MQRC_CONNECTION_BROKEN,
        rc.MQRC_HOST_NOT_AVAILABLE,
        rc.MQRC_Q_MGR_NAME_ERROR,
        rc.MQRC_Q_MGR_NOT_AVAILABLE,
        rc.MQRC_Q_MGR_QUIESCING,
        rc.MQRC_Q_MGR_STOPPING,
        rc.MQRC_SSL_INITIALIZATION_ERROR,
        rc.MQRC_UNKNOWN_CHANNEL_NAME,
    }
)
#: Reentrant: a connection may be collected, and closed, while its thread holds it.
_lock = threading.RLock()
#: Queue managers opened here, with the number of connections that keep them open.
_opened: dict[str, tuple[QueueManager, int]] = {}


def connect(
    name: str,
    user: str | None = None,
    *,
    password: str | None = None,
    program: str = "mayfly",
    wanted: Wanted = NOTHING_WANTED,
) -> Connection:
    """Connect to a queue manager by its name, over a network if it is not on this machine.

    The channel of ``wanted`` comes first, then MQSERVER, MQCCDTURL, and MQCHLLIB with MQCHLTAB
    (``choose.routes``). Without any of these the queue manager is on this machine:

    * the one that is open in this process; a blank name means the only one open here;
    * else the one that another process serves, through its server;
    * else its folder, which stays open for as long as somebody is connected.

    ``user`` None is the user that runs the program; in this process no password is checked.
    ``program`` becomes PutApplName. Raises MQRC_Q_MGR_NAME_ERROR when there is no such queue
    manager, MQRC_Q_MGR_NOT_AVAILABLE when its folder cannot be opened, and as ``choose.routes`` and
    ``remote.connect``.
    """
    ways = routes(name, wanted)
    if ways is None:
        return instrumented(_connect_here(name, user, program))
    return instrumented(_connect_away(name, ways, user, password, program=program, wanted=wanted))


def _connect_away(
    name: str,
    ways: Iterator[Route],
    user: str | None,
    password: str | None,
    *,
    program: str,
    wanted: Wanted,
) -> Connection:
    account = getpass.getuser() if user is None else user
    first = next(ways)
    how = wanted.reconnect or first.reconnect
    if first.reconnect is Reconnect.DISABLED:
        how = Reconnect.DISABLED
    if not wanted.may_reconnect or how in (Reconnect.NO, Reconnect.DISABLED):
        return _connect_by(chain([first], ways), account, password, program)

    def again() -> Connection:
        found = routes(name, wanted)
        assert found is not None
        return _connect_by(found, account, password, program)

    return cast("Connection", ReconnectingConnection(again, how, attempts=wanted.attempts))


def _connect_by(
    ways: Iterable[Route], account: str, password: str | None, program: str
) -> Connection:
    from mayfly.connection.remote import connect as connect_remote

    failure: MQError | None = None
    for way in ways:
        try:
            return connect_remote(way.endpoint, account, password or "", application=program)
        except MQError as error:
            if error.reason not in _TRY_NEXT:
                raise
            failure = error
    assert failure is not None
    raise failure


def _connect_here(name: str, user: str | None, program: str) -> Connection:
    if not _is_open_here(name):
        served = _through_server(name, user, program)
        if served is not None:
            return served
    manager = _acquire(name)
    try:
        session = manager.session(user, program=program, groups=None)
    except MQError:
        _release(manager)
        raise
    return LocalConnection(session, manager, partial(_release, manager))


def _through_server(name: str, user: str | None, program: str) -> Connection | None:
    try:
        folder = folder_in_home(name)
    except MQError:
        return None
    return connect_to_server_of(folder, name, user, program)


def _is_open_here(name: str) -> bool:
    return not name or name in _running()


def _running() -> dict[str, QueueManager]:
    return {n: m for n, m in managers_here().items() if not m.is_stopped}


def _acquire(name: str) -> QueueManager:
    with _lock:
        running = _running()
        if not name and len(running) == 1:
            (name,) = running
        manager = running.get(name)
        users = 0
        if manager is None:
            manager = _open(name)
        elif name not in _opened or _opened[name][0] is not manager:
            return manager
        else:
            users = _opened[name][1]
        _opened[name] = manager, users + 1
        return manager


def _release(manager: QueueManager) -> None:
    """Give back a queue manager that :func:`_acquire` has opened; the last connection closes it."""
    with _lock:
        known, users = _opened.get(manager.name, (None, 0))
        if known is not manager:
            return
        if users > 1:
            _opened[manager.name] = manager, users - 1
            return
        del _opened[manager.name]
        if not manager.is_stopped:
            manager.close()


def _open(name: str) -> QueueManager:
    try:
        folder = folder_in_home(name)
    except MQError:
        raise _unknown(name) from None
    if not folder.is_dir():
        raise _unknown(name)
    try:
        return QueueManager(name, folder)
    except StoreError as error:
        raise mq_error(rc.MQRC_Q_MGR_NOT_AVAILABLE, str(error)) from error


def _unknown(name: str) -> MQError:
    return mq_error(
        rc.MQRC_Q_MGR_NAME_ERROR,
        f"{name!r} is not open in this process and has no folder in {HOME_VARIABLE} (~/.mayfly)",
    )
