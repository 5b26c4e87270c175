"""Which queue manager a name means: one open in this process, else a folder under MAYFLY_HOME."""

from __future__ import annotations

import threading

from mayfly.engine.home import HOME_VARIABLE, folder_in_home
from mayfly.engine.manager import Manager
from mayfly.engine.open_managers import open_managers
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, StoreError, mq_error
from mayfly.queue_manager import QueueManager

#: Reentrant: a connection may be collected, and disconnect, while its thread holds it.
_lock = threading.RLock()
#: Queue managers opened here, with the number of connections that keep them open.
_opened: dict[str, tuple[Manager, int]] = {}


def acquire(name: str) -> Manager:
    """Return the running queue manager of a name; blank means the only one open here.

    One that is not open in this process is opened from its folder, for as long as somebody is
    connected to it. Raises MQRC_Q_MGR_NAME_ERROR when there is neither, MQRC_Q_MGR_NOT_AVAILABLE
    when its folder cannot be opened.
    """
    with _lock:
        running = {n: m for n, m in open_managers().items() if not m.is_stopped}
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


def release(manager: Manager) -> None:
    """Give back what :func:`acquire` returned; closes what was opened for the last connection."""
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


def _open(name: str) -> Manager:
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
