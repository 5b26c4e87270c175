"""The queue managers that are open in this process: found by name, stopped in a forked child."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mayfly.engine.manager import Manager

#: By name, for those who connect by name: the one that was opened last.
_by_name: weakref.WeakValueDictionary[str, Manager] = weakref.WeakValueDictionary()
#: All of them: two may have one name, in different folders.
_all: weakref.WeakSet[Manager] = weakref.WeakSet()


def open_managers() -> dict[str, Manager]:
    """Return the queue managers open in this process, by name."""
    return {name: manager for name, manager in _by_name.items() if manager.takes_connections}


def enter(manager: Manager) -> None:
    """Let a queue manager that has been opened be found."""
    _by_name[manager.name] = manager
    _all.add(manager)


def leave(manager: Manager) -> None:
    """Let a queue manager that is being closed be found no longer."""
    if _by_name.get(manager.name) is manager:
        del _by_name[manager.name]


def _stop_in_child() -> None:
    """A forked child shares files and locks it must not use: its copies are stopped."""
    for manager in list(_all):
        manager.stop_in_child()


os.register_at_fork(after_in_child=_stop_in_child)
