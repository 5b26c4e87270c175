"""The temporary topics of a connection: topic strings that nobody else makes."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

from mayfly.engine import new_message_id
from mayfly.engine.face.jms import clear_retained, is_subscribed_to
from mayfly.jms.destinations import TemporaryTopic
from mayfly.jms.errors import classic, refuse
from mayfly.mqi import reasons as rc

if TYPE_CHECKING:
    from mayfly.engine import Manager

#: The id is one of 24 bytes, as messages have; other topics below TEMP are anybody's.
_NAME = re.compile(r"TEMP/[0-9A-F]{48}")


class TemporaryTopics:
    """Those of one connection; threads may share it."""

    def __init__(self, manager: Manager) -> None:
        """Begin with none."""
        self._manager = manager
        self._lock = threading.Lock()
        self._names: set[str] = set()

    def create(self) -> TemporaryTopic:
        """Make one."""
        name = f"TEMP/{new_message_id(self._manager).hex().upper()}"
        with self._lock:
            self._names.add(name)
        return TemporaryTopic(name, _delete=self._delete)

    def has(self, name: str) -> bool:
        """Tell whether a topic string is one of them, and not deleted."""
        with self._lock:
            return name in self._names

    def clear(self) -> None:
        """Delete all of them; their subscribers are gone already."""
        with self._lock:
            names, self._names = self._names, set()
        if not self._manager.is_stopped:
            for name in names:
                self._clear(name)

    @classic
    def _delete(self, name: str) -> None:
        if is_subscribed_to(self._manager, name):
            refuse(rc.MQRC_OBJECT_IN_USE, f"{name} has a consumer")
        with self._lock:
            if name not in self._names:
                refuse(rc.MQRC_UNKNOWN_OBJECT_NAME, f"{name} is no temporary topic of this one")
            self._names.remove(name)
        self._clear(name)

    def _clear(self, name: str) -> None:
        # Whoever made the topic may, whatever the user is allowed to do with others.
        clear_retained(self._manager, name)


def is_temporary(name: str) -> bool:
    """Tell whether a topic string was made for a temporary topic."""
    return _NAME.fullmatch(name) is not None
