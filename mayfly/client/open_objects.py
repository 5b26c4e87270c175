"""The objects that a client has open, so that each verb need not open its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from mayfly.client.asking import Opening
from mayfly.connection import Connection
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError

_T = TypeVar("_T")
#: So many stay open; MAXHANDS is 256 where nobody has changed it.
MOST_OPEN = 32
#: An object is not what it was when it was opened: it is opened again, and nothing was done.
OUTDATED = frozenset({rc.MQRC_OBJECT_CHANGED, rc.MQRC_Q_DELETED, rc.MQRC_HOBJ_ERROR})


class OpenObjects:
    """Handles by what they are open for; the one that was longest not used is closed for a new."""

    def __init__(self, connection: Connection) -> None:
        """Begin with none."""
        self._connection = connection
        self._handles: dict[Opening, int] = {}

    def use(self, opening: Opening, verb: Callable[[int], _T]) -> _T:
        """Call a verb with the handle; again with a new one when the object was changed."""
        handle = self._handles.pop(opening, None)
        if handle is not None:
            # In again at the end: the first is the one that was longest not used.
            self._handles[opening] = handle
            try:
                return verb(handle)
            except MQError as error:
                if error.reason not in OUTDATED:
                    raise
                self._close(self._handles.pop(opening, handle))
        return verb(self._open(opening))

    def close(self) -> None:
        """Close them all, so that the objects can be changed and deleted."""
        handles, self._handles = self._handles, {}
        for handle in handles.values():
            self._close(handle)

    def _open(self, opening: Opening) -> int:
        if len(self._handles) >= MOST_OPEN:
            self._close(self._handles.pop(next(iter(self._handles))))
        handle = self._handles[opening] = opening.open(self._connection)
        return handle

    def _close(self, handle: int) -> None:
        # A handle that its queue manager knows no more is closed.
        with suppress(MQError):
            self._connection.close_object(handle)
