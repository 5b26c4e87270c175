"""The open objects of a connection in this process, by their numbers."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex, TypeAlias

from mayfly.engine import Handle
from mayfly.engine.face.programs import DefinitionHandle, TopicHandle
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error

AnyHandle: TypeAlias = Handle | TopicHandle | DefinitionHandle


class OpenObjects:
    """Handles by number; closing an object, or the session, ends its number."""

    def __init__(self) -> None:
        """Begin with nothing open."""
        #: Handles by number, for verbs. Handles that their session has closed are here as well:
        #: their ``is_open`` is False.
        self.handles: dict[int, AnyHandle] = {}

    def enter(self, handle: AnyHandle) -> int:
        """Return the number of a handle, by which it is found from now on."""
        number = handle.number
        self.handles[number] = handle
        return number

    def find(self, number: SupportsIndex) -> AnyHandle:
        """Return a handle; raises MQRC_HOBJ_ERROR for a number that is none, or closed."""
        handle = self.handles.get(index(number))
        if handle is None:
            raise not_open_here(number)
        return handle

    def queue(self, number: SupportsIndex, reason: int) -> Handle:
        """Return the handle of a queue; any other object was not opened for this: the reason."""
        handle = self.find(number)
        if not isinstance(handle, Handle):
            raise mq_error(reason, f"handle {index(number)} is no queue")
        return handle

    def no(self, reason: int, number: SupportsIndex) -> MQError:
        """Return the error for a number that is that of no open object, or not of a queue."""
        if self.handles.get(index(number)) is None:
            return not_open_here(number)
        return mq_error(reason, f"handle {index(number)} was not opened for this")

    def is_open(self, handle: int) -> bool:
        """Return True if the object of a handle is open on this connection."""
        found = self.handles.get(handle)
        return found is not None and found.is_open


def not_open_here(number: SupportsIndex) -> MQError:
    """Return the error for a number that is that of no open object."""
    return mq_error(rc.MQRC_HOBJ_ERROR, f"handle {index(number)} is not open on this connection")
