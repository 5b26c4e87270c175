"""The open objects of a connection in this process, by their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import SupportsIndex, TypeAlias

from mayfly.connection.dropped import end_dropped
from mayfly.connection.values import BackoutRule, Inquiry, Value
from mayfly.engine import Handle, Session
from mayfly.engine.face.programs import (
    DefinitionHandle,
    TopicHandle,
    has_lives_from_release,
    inquire,
    inquire_itself,
    set_attributes,
)
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error

AnyHandle: TypeAlias = Handle | TopicHandle | DefinitionHandle


class OpenObjects:
    """Handles by number; closing an object, or the session, ends its number."""

    def __init__(self, session: Session) -> None:
        """Begin with nothing open."""
        self._session = session
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

    def is_open(self, handle: int) -> bool:
        """Return True if the object of a handle is open on this connection."""
        found = self.handles.get(handle)
        return found is not None and found.is_open

    def inquire(self, handle: int, selectors: Sequence[int]) -> Inquiry:
        """MQINQ, as ``Objects.inquire``."""
        if handle == c.MQHO_NONE:
            return inquire_itself(self._session, selectors)
        found = self.find(handle)
        if isinstance(found, TopicHandle):
            raise mq_error(rc.MQRC_NOT_OPEN_FOR_INQUIRE, f"handle {handle} is that of a topic")
        return inquire(self._session.core, found, selectors)

    def backout_rule(self, handle: int) -> BackoutRule:
        """Return BOTHRESH and BOQNAME, as ``Objects.backout_rule``."""
        definition = self.queue(handle, rc.MQRC_HOBJ_ERROR).queue.definition
        return BackoutRule(definition.bothresh, definition.boqname)

    def command_level(self) -> int:
        """Return the command level, as ``Objects.command_level``."""
        return self._session.core.command_level

    def lives_from_release(self, handle: int = c.MQHO_NONE) -> bool:
        """Tell of TTLFROM(RELEASE), as ``Objects.lives_from_release``."""
        if handle == c.MQHO_NONE:
            return has_lives_from_release(self._session.core)
        return self.queue(handle, rc.MQRC_HOBJ_ERROR).path.ttl_from_release

    def set(self, handle: int, values: Mapping[int, Value]) -> None:
        """MQSET, as ``Objects.set``."""
        found = self.queue(handle, rc.MQRC_NOT_OPEN_FOR_SET)
        set_attributes(self._session.core, found, values)

    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end`` of an object that its program has dropped, now or at the next verb."""
        end_dropped(end, self._session.core.left_behind.objects.append)


def not_open_here(number: SupportsIndex) -> MQError:
    """Return the error for a number that is that of no open object."""
    return mq_error(rc.MQRC_HOBJ_ERROR, f"handle {index(number)} is not open on this connection")
