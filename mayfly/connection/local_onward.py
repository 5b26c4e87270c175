"""What becomes of messages that the unit of work of a connection in this process has got."""

from __future__ import annotations

from mayfly.connection.objects import OpenObjects
from mayfly.connection.values import Message
from mayfly.engine import (
    Session,
    forward,
    move_under_cursor,
    new_message_id,
    put_dead_letter,
    report_exception,
)
from mayfly.engine.face.programs import got_in
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error


class LocalOnward:
    """Messages go on in the unit of work of a session; see ``interface.Onward``."""

    def __init__(self, session: Session, objects: OpenObjects) -> None:
        """Take the session, and what it has open."""
        self._session, self._objects = session, objects

    def new_ids(self, count: int) -> list[bytes]:
        """Return MsgIds that the queue manager gives to no other message."""
        return [new_message_id(self._session.core) for _ in range(count)]

    def found(self, queue: str, token: bytes) -> Message:
        """Return a message that the unit of work has got; MQRC_NO_MSG_AVAILABLE for any other."""
        found = got_in(self._session, queue, token)
        if found is None:
            said = f"message: the unit of work has got none of {queue!r} with this MsgToken"
            raise mq_error(rc.MQRC_NO_MSG_AVAILABLE, said)
        return found

    def forward(self, message: Message, name: str) -> None:
        """Put it on another queue as it is."""
        forward(self._session.core, self._session, name, message)

    def move(
        self,
        handle: int,
        name: str,
        *,
        descriptor: Descriptor | None = None,
        header_bytes: int = 0,
        putter: str | None = None,
    ) -> int:
        """Move the message under a browse cursor to another queue."""
        source = self._objects.queue(handle, rc.MQRC_NOT_OPEN_FOR_BROWSE)
        return move_under_cursor(
            self._session,
            source,
            name,
            descriptor=descriptor,
            header_bytes=header_bytes,
            putter=putter,
        )

    def dead_letter(self, message: Message, reason: int) -> None:
        """Put it on the dead-letter queue."""
        put_dead_letter(self._session.core, self._session, message, reason)

    def report_exception(self, message: Message, reason: int) -> bool:
        """Send its exception report."""
        return report_exception(self._session.core, self._session, message, reason)
