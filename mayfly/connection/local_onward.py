"""Verbs that move messages that a unit of work in this process has got."""

from __future__ import annotations

from mayfly.connection.objects import OpenObjects
from mayfly.connection.values import Message
from mayfly.engine import (
    PutRequest,
    Session,
    check_forward_target,
    forward,
    full_name,
    move_under_cursor,
    new_message_id,
    put_dead_letter,
    put_reply,
    report_exception,
)
from mayfly.engine.face.programs import got_in
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error


class LocalOnward:
    """Moves messages in the unit of work of a session; see ``onward.Onward``."""

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

    def check_target(self, name: str) -> None:
        """Raise MQRC_UNKNOWN_OBJECT_NAME for a name that :meth:`forward` refuses."""
        check_forward_target(self._session.core, name)

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

    def reply(
        self,
        name: str,
        manager: str,
        body: bytes,
        descriptor: Descriptor,
        *,
        putter: str,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        time_to_live_ms: int | None = None,
    ) -> int:
        """Put a reply, on the dead-letter queue where its own does not take it."""
        session = self._session
        if session.authority is not None:
            said = "a user of limited authority says no context of replies"
            raise mq_error(rc.MQRC_NOT_AUTHORIZED, said)
        target = full_name(name, manager, session.core.name) if name else ""
        request = PutRequest(
            descriptor,
            msg_id,
            correl_id,
            time_to_live_ms,
            context_option=c.MQPMO_SET_ALL_CONTEXT,
        )
        return put_reply(session, target, putter, body, request)

    def dead_letter(self, message: Message, reason: int) -> None:
        """Put it on the dead-letter queue."""
        put_dead_letter(self._session.core, self._session, message, reason)

    def report_exception(self, message: Message, reason: int) -> bool:
        """Send its exception report."""
        return report_exception(self._session.core, self._session, message, reason)
