"""Messages that a partner moves in or out exactly once: the queue manager notes its numbers.

A number becomes durable with the unit of work that puts or gets the message. After a crash the
partner asks which one was the last, and so whether a move has taken place.
"""

from __future__ import annotations

from mayfly.engine.core import Core
from mayfly.engine.session import Session

_SAVE = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_LAST = "SELECT value FROM meta WHERE name = ?"


class MoveNumbers:
    """The numbers of moves that a queue manager knows, by names that partners choose."""

    def __init__(self, core: Core) -> None:
        """Ask the store each time; nothing is kept here."""
        self._core = core

    @property
    def instance_id(self) -> str:
        """The id that tells the queue manager from others of its name."""
        return self._core.store.ledger.instance_id

    @property
    def is_stopped(self) -> bool:
        """Whether the queue manager has stopped, so that it answers no question."""
        return self._core.is_stopped

    def note(self, session: Session, name: str, number: int) -> None:
        """Note a number with what the session commits next."""
        session.unit_of_work.note(_SAVE, (name, number))

    def last(self, name: str) -> int | None:
        """Return the number noted last, None when there is none; MQRC_CONNECTION_BROKEN."""
        core = self._core
        with core.engine_lock:
            core.check_running()
            found = core.store.persistent.fetch(_LAST, (name,))
        return found[0][0] if found else None
