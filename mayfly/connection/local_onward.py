"""What becomes of messages that the unit of work of a connection in this process has got."""

from __future__ import annotations

from mayfly.connection.values import Message
from mayfly.engine import Session, forward, put_dead_letter, report_exception


class LocalOnward:
    """Messages go on in the unit of work of a session; see ``interface.Onward``."""

    def __init__(self, session: Session) -> None:
        """Take the session."""
        self._session = session

    def forward(self, message: Message, name: str) -> None:
        """Put it on another queue as it is."""
        forward(self._session.core, self._session, name, message)

    def dead_letter(self, message: Message, reason: int) -> None:
        """Put it on the dead-letter queue."""
        put_dead_letter(self._session.core, self._session, message, reason)

    def report_exception(self, message: Message, reason: int) -> bool:
        """Send its exception report."""
        return report_exception(self._session.core, self._session, message, reason)
