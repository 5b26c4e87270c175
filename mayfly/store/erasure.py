"""Erases from the ledger which messages some were, and who put and ended them; the rows stay.

The rows of a range of positions are changed by one transaction, which also writes how many there
are so far. So no row is ever erased without a record of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from mayfly.lifetime.life import KIND_LIFE
from mayfly.runtime import Runtime
from mayfly.store.group_commit import GroupCommit
from mayfly.store.ledger import BLOCK_ROWS, SEARCHED_ROWS, LedgerIds
from mayfly.store.meta import write_value
from mayfly.store.reader import Reader
from mayfly.store.units import Unit
from mayfly.verbs.contracts.erasure import ERASED, Erasure, of_id, of_user

_OF_VALUE = {"id": of_id("?3"), "user": of_user("?3")}
_IN_RANGE = f"position > ?1 AND position <= ?2 AND kind = {KIND_LIFE}"
_FIND = f"SELECT position FROM ledger WHERE {_IN_RANGE} AND (%s)"
_ERASE = (
    f"UPDATE ledger SET {', '.join(f'{name} = {value}' for name, value in ERASED.items())} "
    f"WHERE {_IN_RANGE} AND (%s)"
)
#: The name of a record in the table ``meta`` is this word with its number behind it.
_NAME = "erasure "
_RECORDS = "SELECT value FROM meta WHERE name >= 'erasure ' AND name < 'erasure!' ORDER BY name"
#: SQLite overwrites what a change frees with zeros while this is on.
_OVERWRITE = "PRAGMA secure_delete = {}"


class LedgerErasure:
    """Erases rows of one ledger, and keeps the records of that."""

    def __init__(
        self,
        reader: Reader,
        ids: LedgerIds,
        group: GroupCommit,
        settle: Callable[[], None],
        runtime: Runtime,
    ) -> None:
        """Find rows through ``reader``, change them through ``group``, their hashes in ``ids``.

        ``settle`` writes the records of ended messages that wait for a commit.
        """
        self._reader, self._ids, self._group, self._settle = reader, ids, group, settle
        self._one_at_a_time = runtime.lock("erasure")

    def erase(self, value: bytes | str, begun: Erasure) -> Erasure:
        """Erase the rows of an id (bytes) or of a user (str); return the record with their number.

        ``begun`` is the record without a number. Rows are searched at some 3 million a second. A
        record is written only if there are rows. Call it without the engine lock. Raises
        MQRC_STORAGE_MEDIUM_FULL and MQRC_CONNECTION_BROKEN: rows up to some position are erased
        then, and recorded.
        """
        condition = _OF_VALUE[begun.selected_by]
        with self._one_at_a_time:
            self._settle()
            name = f"{_NAME}{len(self.records()) + 1:06}"
            retention = self._ids.retention
            after, last = retention.first_position - 1, retention.ledger_writer.last_position
            while after < last:
                until = min(after + SEARCHED_ROWS, last)
                bindings = (after, until, value)
                found = self._reader.rows(_FIND % condition, bindings)
                if found:
                    begun = begun._replace(row_count=begun.row_count + len(found))
                    unit = Unit()
                    unit.statements.append((_OVERWRITE.format("ON"), ()))
                    unit.statements.append((_ERASE % condition, bindings))
                    unit.statements.append((_OVERWRITE.format("OFF"), ()))
                    unit.statements.append(write_value(name, json.dumps(begun)))
                    self._group.commit(unit)
                    self._ids.write_again({(position - 1) // BLOCK_ROWS for (position,) in found})
                after = until
        return begun

    def records(self) -> list[Erasure]:
        """Return the records of erasures, oldest first, [] if there was none."""
        return [Erasure(*json.loads(value)) for (value,) in self._reader.rows(_RECORDS)]
