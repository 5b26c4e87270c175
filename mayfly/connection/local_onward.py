"""What becomes of messages that the unit of work of a connection in this process has got."""

from __future__ import annotations

from mayfly.connection.values import Message
from mayfly.engine import Session, forward, put_dead_letter, report_exception
from mayfly.engine.face.programs import got_in
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error


class LocalOnward:
    """Messages go on in the unit of work of a session; see ``interface.Onward``."""

    def __init__(self, session: Session) -> None:
        """Take the session."""
        self._session = session

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

    def dead_letter(self, message: Message, reason: int) -> None:
        """Put it on the dead-letter queue."""
        put_dead_letter(self._session.core, self._session, message, reason)

    def report_exception(self, message: Message, reason: int) -> bool:
        """Send its exception report."""
        return report_exception(self._session.core, self._session, message, reason)
