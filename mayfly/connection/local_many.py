"""Messages that a program of this process gets many at a time."""

from __future__ import annotations

from mayfly.connection.objects import OpenObjects
from mayfly.connection.values import Message
from mayfly.engine import GetRequest, Session
from mayfly.engine.face.programs import ANY, check_most, get_many
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

_OPTIONS = (
    c.MQGMO_SYNCPOINT
    | c.MQGMO_NO_SYNCPOINT
    | c.MQGMO_FAIL_IF_QUIESCING
    | c.MQGMO_PROPERTIES_FORCE_MQRFH2
)


class LocalMany:
    """See ``onward.Many``, whose method this is."""

    def __init__(self, session: Session, objects: OpenObjects) -> None:
        """Take the session and what is open on it."""
        self._session, self._objects = session, objects

    def get(self, handle: int, options: int, most: int, most_bytes: int) -> list[Message]:
        """Get messages that are there."""
        check_most(most)
        queue = self._objects.queue(handle, rc.MQRC_NOT_OPEN_FOR_INPUT)
        if options & ~_OPTIONS or not options & c.MQGMO_PROPERTIES_FORCE_MQRFH2:
            raise mq_error(rc.MQRC_OPTIONS_ERROR, f"GMO.Options {options:#x} of many")
        session = self._session
        unit_of_work = session.unit_of_work if options & c.MQGMO_SYNCPOINT else None
        getter = queue.getter(GetRequest(ANY), options, unit_of_work)
        if not getter.takes_any:
            raise mq_error(rc.MQRC_OPTIONS_ERROR, "many by a handle that has a selector")
        return get_many(session.core, getter, most, unit_of_work, most_bytes=most_bytes)
