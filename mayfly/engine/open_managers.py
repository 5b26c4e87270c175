"""The queue managers that are open in this process: found by name, stopped in a forked child."""

from __future__ import annotations

import os
import weakref
from typing import Generic, Protocol, TypeVar


class _Open(Protocol):
    """What is asked of a queue manager here."""

    name: str
    takes_connections: bool

    def stop_in_child(self) -> None:
        """Stop for good in a forked child."""


_Manager = TypeVar("_Manager", bound=_Open)


class OpenManagers(Generic[_Manager]):
    """The open queue managers of one class; a forked child stops its copies of them."""

    def __init__(self) -> None:
        """Begin with none open."""
        #: By name, for those who connect by name: the one that was opened last.
        self._by_name: weakref.WeakValueDictionary[str, _Manager] = weakref.WeakValueDictionary()
        #: All of them: two may have one name, in different folders.
        self._all: weakref.WeakSet[_Manager] = weakref.WeakSet()
        os.register_at_fork(after_in_child=self._stop_in_child)

    def here(self) -> dict[str, _Manager]:
        """Return the queue managers open in this process that programs connect to, by name."""
        found = self._by_name.items()
        return {name: manager for name, manager in found if manager.takes_connections}

    def enter(self, manager: _Manager) -> None:
        """Let a queue manager that has been opened be found."""
        self._by_name[manager.name] = manager
        self._all.add(manager)

    def leave(self, manager: _Manager) -> None:
        """Let a queue manager that is being closed be found no longer."""
        if self._by_name.get(manager.name) is manager:
            del self._by_name[manager.name]

    def _stop_in_child(self) -> None:
        """A forked child shares files and locks it must not use: its copies are stopped."""
        for manager in list(self._all):
            manager.stop_in_child()
