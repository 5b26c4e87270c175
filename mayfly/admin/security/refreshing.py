"""REFRESH SECURITY reaches what remembers passwords, users or certificates of a queue manager."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from mayfly.engine import Engine


class Refreshes:
    """The methods that are called when the security of one queue manager is refreshed."""

    def __init__(self) -> None:
        """Begin with none."""
        self._methods: list[weakref.WeakMethod[Callable[[], Any]]] = []

    def tell(self, method: Callable[[], Any]) -> None:
        """Call a method at each refresh, as long as its object lives."""
        alive = [reference for reference in self._methods if reference() is not None]
        self._methods = [*alive, weakref.WeakMethod(method)]

    def refresh(self) -> None:
        """Call all methods."""
        for reference in self._methods:
            method = reference()
            if method is not None:
                method()


_OF_MANAGERS: weakref.WeakKeyDictionary[Engine, Refreshes] = weakref.WeakKeyDictionary()
_FINDING = threading.Lock()


def refreshes_of(manager: Engine) -> Refreshes:
    """Return the methods that are called when the security of a queue manager is refreshed."""
    with _FINDING:
        return _OF_MANAGERS.setdefault(manager, Refreshes())


def refresh_security(manager: Engine) -> None:
    """Forget passwords that were right, and read users and certificates again."""
    refreshes_of(manager).refresh()
