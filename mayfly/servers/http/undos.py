"""Changes of messages that can still be undone, kept in memory for a while."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from mayfly.engine import Engine, Session
from mayfly.engine.api.operating import KeptMessages, Receipts

#: How long a change can be undone, and how many changes of a server are kept, the latest.
LIFE_MS = 10 * 60_000
MAX_UNDOS = 1_000
#: The data of cancelled messages that are kept together.
MAX_BYTES = 4 * KeptMessages.MAX_BYTES


class Undo(NamedTuple):
    """A change that can be undone: at which queue manager, by whom it was made, and its undo.

    ``run`` takes the engine and a session of the user who undoes. ``data_bytes`` is the length of
    the data that is kept for it.
    """

    manager: str
    user: str
    run: Callable[[Engine, Session], Receipts]
    until_ms: int
    data_bytes: int


class Undos:
    """The changes of a server that can be undone; any thread may use it."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Begin without changes; ``now_ms`` returns the time in ms since 1970."""
        self._now_ms, self._lock = now_ms, Lock()
        self._found: OrderedDict[str, Undo] = OrderedDict()
        #: The length of all data that is kept.
        self._kept_bytes = 0

    def add(
        self,
        manager: str,
        user: str,
        run: Callable[[Engine, Session], Receipts],
        data_bytes: int = 0,
    ) -> str:
        """Keep a change for ten minutes; return the id of its undo.

        The oldest ones are dropped above 1,000 changes or 64 MiB of data.
        """
        number = secrets.token_hex(8)
        until_ms = self._now_ms() + LIFE_MS
        with self._lock:
            self._found[number] = Undo(manager, user, run, until_ms, data_bytes)
            self._kept_bytes += data_bytes
            while len(self._found) > MAX_UNDOS or self._kept_bytes > MAX_BYTES:
                _number, dropped = self._found.popitem(last=False)
                self._kept_bytes -= dropped.data_bytes
        return number

    def take(self, number: str, manager: str, user: str) -> Undo | None:
        """Return a change and forget it; None if it is not known, over, or another user's."""
        with self._lock:
            found = self._found.get(number)
            if found is None or (found.manager, found.user) != (manager, user):
                return None
            del self._found[number]
            self._kept_bytes -= found.data_bytes
        return found if self._now_ms() < found.until_ms else None
