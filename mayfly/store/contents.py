"""Copies of one publication share a content, stored once: MsgId, descriptor, data, topic string.

The row of such a copy has its own values alone, and the number of a row of the table ``content``,
which a trigger removes with the last copy. Reads see whole messages, by the view ``whole_message``.
100 copies for 100 queues change half as many pages as rows that each have all of it.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final, TypeAlias

import apsw

from mayfly.store.many_rows import insert_rows
from mayfly.store.units import StoredMessage

#: Of fewer copies each has its own content: two rows are written as fast as two and a content.
LEAST_COPIES: Final = 3
_OWN_COLUMNS: Final = (
    "k",
    "put_ms",
    "expire_at_ms",
    "msg_hash",
    "correl_hash",
    "correl_id",
    "capped_by",
)
_CONTENT_COLUMNS: Final = ("msg_id", "descriptor", "body", "topic")
_own_values = itemgetter(*(StoredMessage._fields.index(name) for name in _OWN_COLUMNS))
_content = itemgetter(*(StoredMessage._fields.index(name) for name in _CONTENT_COLUMNS))
#: The other columns, and what they hold in a copy on a queue; a delayed one holds more.
_OTHER_COLUMNS: Final = tuple(
    name for name in StoredMessage._fields if name not in _OWN_COLUMNS + _CONTENT_COLUMNS
)
_others = itemgetter(*(StoredMessage._fields.index(name) for name in _OTHER_COLUMNS))
_NO_OTHERS: Final = tuple(0 if name == "backout_count" else None for name in _OTHER_COLUMNS)
_INSERT_CONTENT = (
    f"INSERT INTO content ({', '.join(_CONTENT_COLUMNS)}) VALUES (?, ?, ?, ?) RETURNING id"
)
_INSERT_COPY = (
    f"INSERT INTO message (content, {', '.join(_OWN_COLUMNS)}, backout_count, msg_id, descriptor, "
    f"body) VALUES (?1, {', '.join('?' * len(_OWN_COLUMNS))}, 0, x'', x'', x'')"
)

#: Statements that find damage: contents without a copy, and those that copies lack.
IDLE_CONTENTS = (
    "SELECT id FROM content WHERE NOT EXISTS (SELECT 1 FROM message WHERE content = id) LIMIT 20"
)
LOST_CONTENTS = (
    "SELECT DISTINCT content FROM message WHERE content IS NOT NULL "
    "AND NOT EXISTS (SELECT 1 FROM content c WHERE c.id = message.content) LIMIT 20"
)

_Content: TypeAlias = tuple[Any, ...]


def insert_copies(writer: apsw.Connection, rows: list[StoredMessage]) -> list[StoredMessage]:
    """Insert those of some new messages that share a content with others; return the rest."""
    rest = list[StoredMessage]()
    alike: dict[_Content, list[StoredMessage]] = {}
    for row in rows:
        if row.topic is None or _others(row) != _NO_OTHERS:
            rest.append(row)
        else:
            alike.setdefault(_content(row), []).append(row)
    for content, copies in alike.items():
        if len(copies) < LEAST_COPIES:
            rest += copies
        else:
            [(number,)] = writer.execute(_INSERT_CONTENT, content).fetchall()
            insert_rows(writer, _INSERT_COPY, [_own_values(row) for row in copies], (number,))
    return rest


def report_lost_contents(connection: apsw.Connection) -> None:
    """Let reads of a copy that lacks its content fail: it is damage, not a message without data."""
    connection.create_scalar_function("lost_content", _lost_content, 1)


def _lost_content(*numbers: object) -> None:
    raise apsw.CorruptError(f"content {numbers[0]} of copies is missing")
