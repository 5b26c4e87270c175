"""Answers of a selector, given while the lock is free, for the look that goes on under it."""

from __future__ import annotations

from collections.abc import Callable

from mayfly.engine.finding.search import fields_of
from mayfly.properties.selectors import Selector
from mayfly.store.units import StoredMessage

#: Characters that a selector may compare for one message under the lock, some 0.1 ms: more, and it
#: is asked while the lock is free. A turn of the lock asks for all messages together so much.
LONG_WORK, TURN_WORK = 100_000, 4_000_000
#: More characters than the descriptor has, and what the staging queue shows before a body.
FIXED_SIZE = 512


def work_on(selector: Selector, row: StoredMessage) -> int:
    """Return how many characters a selector compares at the most to say if it takes a row."""
    size = FIXED_SIZE + len(row.body) + (0 if row.topic is None else len(row.topic))
    work = selector.work * size
    # A body is longer than its header; most need not be looked at.
    return work if work <= LONG_WORK else selector.work_on(fields_of(row, 0))


def is_long(selector: Selector, row: StoredMessage) -> bool:
    """Return True if a selector is to be asked about a row while the lock is free."""
    return work_on(selector, row) > LONG_WORK


class Verdicts:
    """Answers of a selector in one search, and the rows that it is to be asked about.

    A verdict holds for a message as it was: one that was backed out meanwhile is asked anew. A
    verdict does not say that the message is still there: the look under the lock does.
    """

    __slots__ = ("dead", "said", "unasked")

    def __init__(self) -> None:
        """Begin with none."""
        #: Key -> backout count, and whether the selector takes it.
        self.said: dict[int, tuple[int, bool]] = {}
        #: Rows at hand to be asked about by :meth:`ask`, in their order.
        self.unasked: list[StoredMessage] = []
        #: Key and side of the expired messages that a search has met in turns of the lock before,
        #: for when it finds a live one (K7).
        self.dead: list[tuple[int, int]] = []

    def of(self, row: StoredMessage) -> bool | None:
        """Return whether the selector takes a row; None if it has not been asked."""
        said = self.said.get(row.k)
        return said[1] if said is not None and said[0] == row.backout_count else None

    def note(self, row: StoredMessage, *, takes: bool) -> None:
        """Note what the selector has said."""
        self.said[row.k] = row.backout_count, takes

    def ask(self, selects: Callable[[StoredMessage], bool]) -> None:
        """Ask about the rows at hand; call it without the lock."""
        unasked, self.unasked = self.unasked, []
        for row in unasked:
            self.note(row, takes=selects(row))

    def clear(self) -> None:
        """Forget all of them: another search begins."""
        self.said.clear()
        self.unasked.clear()
        self.dead.clear()


#: Those of a search without a selector: nothing is ever noted in them.
NO_VERDICTS = Verdicts()
