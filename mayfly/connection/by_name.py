"""A connection by the name of a queue manager: open in this process, else in MAYFLY_HOME."""

from __future__ import annotations

import threading
from functools import partial

from mayfly.connection.local import LocalConnection
from mayfly.engine import folder_in_home
from mayfly.engine.face.programs import HOME_VARIABLE
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, StoreError, mq_error
from mayfly.queue_manager import QueueManager, managers_here

#: Reentrant: a connection may be collected, and closed, while its thread holds it.
_lock = threading.RLock()
#: Queue managers opened here, with the number of connections that keep them open.
_opened: dict[str, tuple[QueueManager, int]] = {}


def connect(name: str, user: str | None = None, *, program: str = "mayfly") -> LocalConnection:
    """Connect to the running queue manager of a name; blank means the only one open here.

    One that is not open in this process is opened from its folder, for as long as somebody is
    connected to it. ``user`` None is who opened it; ``program`` becomes PutApplName. Raises
    MQRC_Q_MGR_NAME_ERROR when there is neither, MQRC_Q_MGR_NOT_AVAILABLE when its folder cannot be
    opened, MQRC_NOT_AUTHORIZED.
    """
    manager = _acquire(name)
    try:
        session = manager.session(user, program=program)
    except MQError:
        _release(manager)
        raise
    return LocalConnection(session, manager, partial(_release, manager))


def _acquire(name: str) -> QueueManager:
    with _lock:
        running = {n: m for n, m in managers_here().items() if not m.is_stopped}
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
    """Give back what was acquired; closes what was opened for the last connection."""
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
