"""The ledger of ended lives, read by position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mayfly.lifetime.life import LEDGER_COLUMNS, LifeRecord
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.store.ledger_ids import LedgerIds
from mayfly.store.messages import limited
from mayfly.store.reader import Reader
from mayfly.verbs.contracts.ledger import PositionTrimmed

_PAGE = f"SELECT {', '.join(LEDGER_COLUMNS)} FROM ledger WHERE position > ? ORDER BY position"
_OUTCOME = (
    "SELECT outcome, user_identifier FROM ledger "
    f"WHERE correl_id = ? AND queue = '{STAGING_QUEUE}' ORDER BY position DESC LIMIT 1"
)
_FIRST = "SELECT min(position) FROM ledger"
_OLDEST = "SELECT position, ended_ms FROM ledger ORDER BY position LIMIT 1"
_WITH_ID = (
    f"SELECT {', '.join(LifeRecord._fields)} FROM ledger WHERE position > ? AND position <= ? "
    "AND (msg_id = ?3 OR correl_id = ?3) ORDER BY position DESC"
)
_MOMENT = "SELECT ended_ms FROM ledger WHERE position > ? ORDER BY position LIMIT 1"
#: Rows looked at in one read, about 20 ms: other readers of the ledger wait no longer than that.
_SEARCHED_ROWS = 50_000
_LARGEST_POSITION = 2**63 - 1


class Ledger:
    """Life and balance rows of one store; a range of positions always reads the same."""

    def __init__(
        self,
        instance_id: str,
        reader: Reader,
        ids: LedgerIds,
        flush: Callable[[], None],
        settle: Callable[[], None],
    ) -> None:
        """Read through ``reader``; find by ``ids``.

        ``flush`` brings what is kept back, ``settle`` what others are bringing as well.
        """
        self.instance_id = instance_id
        self._reader = reader
        self._ids, self._book = ids, ids.retention.book
        self._flush, self._settle = flush, settle
        #: The position behind which readers of the whole ledger have asked for rows, the highest.
        self.asked_position: int | None = None

    def last_position(self) -> int:
        """Return the newest position, 0 when nothing was ever written."""
        self._reader.check_open()
        self._flush()
        return self._book.last_position

    def first_position(self) -> int:
        """Return the oldest position still held, one past the newest when there is none."""
        # Taken before the read: a row written meanwhile is read as well, or has a later position.
        last_position = self._book.last_position
        found = self._reader.rows(_FIRST)[0][0]
        return last_position + 1 if found is None else int(found)

    def page(self, after_position: int, max_rows: int) -> list[tuple[Any, ...]]:
        """Return up to ``max_rows`` rows (LEDGER_COLUMNS) that follow a position.

        Raises PositionTrimmed when the row right after it has been removed by retention.
        """
        self._reader.check_open()
        self._flush()
        last_position = self._book.last_position
        rows = self._reader.rows(limited(_PAGE, max_rows), (after_position,))
        first_position = rows[0][0] if rows else last_position + 1
        if first_position > after_position + 1:
            raise PositionTrimmed(after_position, first_position)
        return rows

    def outcome_of_delayed(self, msg_id: bytes) -> tuple[str, str] | None:
        """Return how the last life of a delayed message on the staging queue ended, by its sender's
        MsgId, and the UserIdentifier of the sender. None when the ledger holds none. Call it
        without the lock."""
        found = self._read(_OUTCOME, (msg_id,))
        return None if not found else (str(found[0][0]), str(found[0][1] or ""))

    def search(self, identifier: bytes, limit: int) -> Iterator[tuple[int, list[LifeRecord]]]:
        """Yield lives with an id as MsgId or CorrelId, newest first, page by page of the ledger.

        Each page comes with the moment of its oldest row, so that a caller may stop there; of one
        page up to ``limit`` lives are told. Pages at the end of the ledger are searched, some
        3 million rows a second; before them only those are that ``ids`` names. Call it without the
        lock.
        """
        low, first = self.last_position(), self.first_position()
        floor = max(self._ids.until_position, first - 1)
        # A life may be in the database a moment before the last position says so.
        high = _LARGEST_POSITION
        while high > floor:
            low = max(low - _SEARCHED_ROWS, floor)
            yield from self._found(identifier, limit, (low, high))
            high = low
        for after, until in self._ids.blocks_with(identifier):
            if first <= until <= floor:
                yield from self._found(identifier, limit, (after, until))

    def _found(
        self, identifier: bytes, limit: int, positions: tuple[int, int]
    ) -> Iterator[tuple[int, list[LifeRecord]]]:
        found = self._read(limited(_WITH_ID, limit), (*positions, identifier))
        oldest = self._read(_MOMENT, positions[:1])
        if oldest:
            yield oldest[0][0], [LifeRecord._make(row) for row in found]

    def oldest(self) -> tuple[int, int] | None:
        """Return position and moment of the oldest row still held, None when there is none."""
        found = self._read(_OLDEST)
        return None if not found else (int(found[0][0]), int(found[0][1]))

    def audit(self, columns: str, limit: int, before: int) -> list[tuple[Any, ...]]:
        """Return the newest changes of the schedule with numbers below one; the number is first."""
        sql = f"SELECT id, {columns} FROM schedule_audit WHERE id < ? ORDER BY id DESC"
        return self._read(limited(sql, limit), (before,))

    def _read(self, sql: str, bindings: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        self._reader.check_open()
        self._settle()
        return self._reader.rows(sql, bindings)
