"""Contents of publications: copies of one publication share one, stored once.

A content is MsgId, descriptor, data and topic string. The row of such a copy has only the values
that differ, and the number of a row of ``content``, which a trigger deletes with the last copy.
Reads see complete messages, by the view ``whole_message``. A commit of 100 copies for 100 queues
changes half as many pages as one of complete rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

import apsw

from mayfly.store.many_rows import insert_rows
from mayfly.store.units import StoredMessage

#: Fewer copies are stored whole: up to there that takes the processor less time, with 200 bytes.
LEAST_COPIES: Final = 4
_CONTENT_COLUMNS: Final = ("msg_hash", "msg_id", "descriptor", "body", "topic")
#: Columns of the row of a copy beside its key; most copies have the same values in them.
_OWN_COLUMNS: Final = (
    "put_ms",
    "expire_at_ms",
    "correl_hash",
    "correl_id",
    "capped_by",
)
#: The other columns, and what they hold in a copy on a queue; a delayed one holds more.
_COPY_COLUMNS: Final = {"k"}.union(_OWN_COLUMNS, _CONTENT_COLUMNS)
_OTHER_COLUMNS: Final = tuple(name for name in StoredMessage._fields if name not in _COPY_COLUMNS)
_NO_OTHERS: Final = tuple(0 if name == "backout_count" else None for name in _OTHER_COLUMNS)
_INSERT_CONTENT = (
    f"INSERT INTO content ({', '.join(_CONTENT_COLUMNS)}) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING RETURNING id"
)
_INSERT_COPY = (
    f"INSERT INTO message (content, {', '.join(_OWN_COLUMNS)}, k, backout_count, msg_id, "
    "descriptor, body) "
)
#: Of copies that differ in their keys alone: one statement takes all keys.
_INSERT_ALIKE = (
    f"{_INSERT_COPY}SELECT {'?, ' * (1 + len(_OWN_COLUMNS))}value, 0, x'', x'', x'' FROM carray(?)"
)
#: Of other copies of one content, one by one.
_INSERT_OWN = f"{_INSERT_COPY}VALUES (?1{', ?' * len(_OWN_COLUMNS)}, ?, 0, x'', x'', x'')"

#: Removes a content with its last copy, whichever statement removes that. With a trigger on the
#: table a delete takes up to 0.1 µs more a row, so a database that never had a content has none.
_TRIGGER = """
CREATE TRIGGER content_ends AFTER DELETE ON message WHEN old.content IS NOT NULL
BEGIN
    DELETE FROM content WHERE id = old.content
        AND NOT EXISTS (SELECT 1 FROM message WHERE content = old.content);
END"""
_HAS_TRIGGER = "SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name = 'content_ends'"

#: Statements that find damage: contents without a copy, and those that copies lack.
IDLE_CONTENTS = (
    "SELECT id FROM content WHERE NOT EXISTS (SELECT 1 FROM message WHERE content = id) LIMIT 20"
)
LOST_CONTENTS = (
    "SELECT DISTINCT content FROM message WHERE content IS NOT NULL "
    "AND NOT EXISTS (SELECT 1 FROM content c WHERE c.id = message.content) LIMIT 20"
)

_Values: TypeAlias = tuple[Any, ...]


def _getter_of(names: tuple[str, ...]) -> Callable[[StoredMessage], _Values]:
    """Return a function that returns the values of these columns of a row, as a tuple."""
    return itemgetter(*(StoredMessage._fields.index(name) for name in names))


_content_of, _own_values = _getter_of(_CONTENT_COLUMNS), _getter_of(_OWN_COLUMNS)
_other_values = _getter_of(_OTHER_COLUMNS)
_all_but_key: Callable[[StoredMessage], _Values] = itemgetter(slice(1, None))


class Contents:
    """Stores the shared contents of publications in one database, in transactions of its writer.

    ``are_shared`` is True once a row of ``message`` may lack values that are in its content.
    """

    def __init__(self, writer: apsw.Connection) -> None:
        """Use ``writer`` for all changes; look whether the database has shared contents already."""
        self._writer = writer
        #: Whether a message may lack what its content has.
        self.are_shared = self._has_trigger()

    def insert_copies(self, rows: list[StoredMessage]) -> list[StoredMessage]:
        """Insert those messages that share a content with at least three others; return the rest.

        A content is MsgId, descriptor, data and topic of a publication. The caller inserts the
        rest.
        """
        rest = list[StoredMessage]()
        shared: dict[_Values, list[list[StoredMessage]]] = {}
        # Copies come after one another, and most differ in their keys alone.
        for _values, group in groupby(rows, _all_but_key):
            alike = list(group)
            if _can_share(alike[0]):
                shared.setdefault(_content_of(alike[0]), []).append(alike)
            else:
                rest += alike
        for content, runs in shared.items():
            copies = runs[0] if len(runs) == 1 else list(chain.from_iterable(runs))
            number = self._insert(content) if len(copies) >= LEAST_COPIES else None
            if number is None:
                rest += copies
            else:
                self._insert_with(number, copies, are_alike=len(runs) == 1)
        return rest

    def _insert(self, content: _Values) -> int | None:
        """Insert a content and return its number; create the trigger that deletes unused contents.

        ``content`` has the values that the copies of a publication share. Returns None, with
        nothing inserted, when another content has the same hash of MsgId.
        """
        # The transaction that made the trigger may have been undone.
        if not self._has_trigger():
            self._writer.execute(_TRIGGER)
        self.are_shared = True
        found: Any = self._writer.execute(_INSERT_CONTENT, content).fetchall()
        return found[0][0] if found else None

    def _insert_with(self, number: int, copies: list[StoredMessage], *, are_alike: bool) -> None:
        """Insert the copies of the content with this number.

        ``are_alike``: the copies differ in their keys alone.
        """
        if are_alike:
            keys = apsw.carray(array("q", [row.k for row in copies]))
            self._writer.execute(_INSERT_ALIKE, (number, *_own_values(copies[0]), keys))
        else:
            values = [(*_own_values(row), row.k) for row in copies]
            insert_rows(self._writer, _INSERT_OWN, values, (number,))

    def _has_trigger(self) -> bool:
        """Return True if the database has the trigger that deletes unused contents."""
        return bool(self._writer.execute(_HAS_TRIGGER).fetchall())


def _can_share(row: StoredMessage) -> bool:
    """Return True if a message is the copy of a publication on an ordinary queue."""
    return row.topic is not None and row.msg_hash is not None and _other_values(row) == _NO_OTHERS


def report_lost_contents(connection: apsw.Connection) -> None:
    """Make reads on a connection raise apsw.CorruptError for a copy whose content is missing.

    Without it such a copy would look like a message without data.
    """
    connection.create_scalar_function("lost_content", _lost_content, 1)


def _lost_content(*numbers: object) -> None:
    """Raise apsw.CorruptError: the SQL function called for a copy whose content is missing."""
    raise apsw.CorruptError(f"content {numbers[0]} of copies is missing")
