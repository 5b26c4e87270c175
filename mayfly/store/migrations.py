"""Brings a database that an older Mayfly has written up to the present schema, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

from mayfly.mqi.descriptor import pack_descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.structures import DDH
from mayfly.store.intents import from_version_7
from mayfly.store.keys import id_hash, queue_range, staging_id
from mayfly.store.totals import LAST_POSITION
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.outcomes import pack_counts, unpack_counts

SCHEMA_VERSION = 11
_OLD_MESSAGE = """
ALTER TABLE message RENAME TO old_message;
DROP INDEX message_by_msg_id;
DROP INDEX message_by_correl_id;
DROP INDEX message_by_deadline;
"""
#: Words of the statements whose tables and indexes version 1 did not have.
_NEW_IN_2 = (
    "TABLE message ",
    "INDEX message_",
    "INDEX ledger_",
    "_audit",
    "TABLE consumer",
    "TABLE claim",
    "TABLE stage",
    "INDEX stage_",
)
_NEW_IN_3 = ("TABLE due_claim", "INDEX due_claim")
_NEW_IN_5 = ("TABLE channel ", "TABLE intent ", "TABLE carried_out ")
#: The columns of version 1, which end with the data.
_OLD_COLUMNS = StoredMessage._fields[: StoredMessage._fields.index("body") + 1]
_COPY = (
    f"INSERT INTO message ({', '.join(_OLD_COLUMNS)}) "
    f"SELECT {', '.join(_OLD_COLUMNS)} FROM old_message WHERE k >= 0"
)
_STAGED = f"SELECT {', '.join(_OLD_COLUMNS)} FROM old_message WHERE k < 0"
_INSERT = (
    f"INSERT INTO message ({', '.join(StoredMessage._fields)}) "
    f"VALUES ({', '.join('?' * len(StoredMessage._fields))})"
)
#: ``target`` held the topic string of a copy, or where a staged message goes: the name it was put
#: to, for the copy of a publication ``name:SubId in hex:topic string``.
_AFTER_NAME = "substr(topic, instr(topic, ':') + 1)"
_SPLIT_COLUMNS = (
    "ALTER TABLE message RENAME COLUMN target TO topic",
    *(
        f"ALTER TABLE message ADD COLUMN {column}"
        for column in ("target TEXT", "sub_id BLOB", "shown_id BLOB", "only_here INTEGER")
    ),
    # ``origin_id`` of a staged message held the MsgId that the staging queue shows.
    """
UPDATE message SET shown_id = origin_id, origin_id = NULL, target = topic, topic = NULL
WHERE k < 0 AND coalesce(instr(topic, ':'), 0) = 0""",
    f"""
UPDATE message SET shown_id = origin_id, origin_id = NULL,
    target = substr(topic, 1, instr(topic, ':') - 1),
    sub_id = unhex(substr({_AFTER_NAME}, 1, instr({_AFTER_NAME}, ':') - 1)),
    topic = substr({_AFTER_NAME}, instr({_AFTER_NAME}, ':') + 1)
WHERE k < 0 AND instr(topic, ':') > 0""",
)
#: ``target_number`` 0 said of a retained publication that it goes to no neighbour.
_SPLIT_RETAINED = (
    "UPDATE message SET only_here = 1, target_number = NULL "
    "WHERE k >= ? AND k < ? AND target_number = 0"
)


#: The columns that version 9 adds to tables, all text and NULL in the rows there are.
_NEW_IN_9 = {
    "message": ("capped_by", "released_by"),
    "claimed": ("capped_by",),
    "ledger": ("capped_by", "met_by", "ended_by", "ended_program"),
}
#: Words of the statements whose table, indexes and view version 10 did not have.
_NEW_IN_11 = (
    "TABLE content ",
    "INDEX content_",
    "INDEX message_by_content",
    "VIEW whole_message",
)

#: Bytes of the staged messages. The length of data is known without reading them; data too long for
#: a page have pages of their own, of which the last is not full.
_STAGED_BYTES = """
SELECT coalesce(sum(length(body) + CASE WHEN length(body) > 3000 THEN 5120 ELSE 512 END), 0)
FROM message WHERE k < 0"""
#: Room for the parts that do not grow with the messages.
_ROOM_BYTES = 2**20


def schema() -> str:
    """Return the statements that make the present schema."""
    return Path(__file__).with_name("schema.sql").read_text("utf-8")


def bytes_to_migrate(writer: apsw.Connection, version: int) -> int:
    """Return an upper bound of what the folder of a database grows by until it is up to date.

    Each changed page is written to the log, and back to the database when the log is. Version 1
    copies every message; later versions before 8 write staged messages anew where they are.
    """
    page_bytes: int = writer.pragma("page_size")
    if version == 1:
        return 2 * page_bytes * int(writer.pragma("page_count")) + _ROOM_BYTES
    if version >= 8:
        return _ROOM_BYTES
    [(staged_bytes,)] = writer.execute(_STAGED_BYTES).fetchall()
    assert isinstance(staged_bytes, int)
    # A page may be half full.
    return 2 * staged_bytes + _ROOM_BYTES


def _to_version_2(writer: apsw.Connection) -> None:
    """Staged messages are stored as their originals; their header is made when it is looked at."""
    writer.execute(_OLD_MESSAGE)
    for statement in _statements(*_NEW_IN_2):
        writer.execute(statement)
    writer.execute(_COPY)
    writer.executemany(_INSERT, _originals(writer.execute(_STAGED)))
    writer.execute("DROP TABLE old_message")


def _to_version_3(writer: apsw.Connection) -> None:
    """Pipelines may claim what is due on the staging queue."""
    for statement in _statements(*_NEW_IN_3):
        writer.execute(statement)


def _to_version_4(writer: apsw.Connection) -> None:
    """Claimed publications keep their topic string."""
    columns = _columns(writer, "claimed")
    # Version 1 had no such table; by now it has the present one.
    if not {"target", "topic"} & columns:
        writer.execute("ALTER TABLE claimed ADD COLUMN target TEXT")


def _to_version_5(writer: apsw.Connection) -> None:
    """Channels remember how far they have come; stores may change together."""
    for statement in _statements(*_NEW_IN_5):
        writer.execute(statement)


def _to_version_6(writer: apsw.Connection) -> None:
    """Totals may be older than the last lives; those of older versions never are."""
    writer.execute("ALTER TABLE counter ADD COLUMN position INTEGER NOT NULL DEFAULT 0")
    writer.execute(f"UPDATE counter SET position = ({LAST_POSITION})")


def _to_version_7(_writer: apsw.Connection) -> None:
    """Pages may have checksums, which older versions would not write: they must not open it."""


def _to_version_8(writer: apsw.Connection) -> None:
    """Outcomes are stored by code; each column of a message holds one thing."""
    if "topic" not in _columns(writer, "message"):
        for statement in _SPLIT_COLUMNS:
            writer.execute(statement)
        for number in _numbers(writer, "SYSTEM.RETAINED.PUB.QUEUE"):
            writer.execute(_SPLIT_RETAINED, queue_range(number))
    if "topic" not in _columns(writer, "claimed"):
        writer.execute("ALTER TABLE claimed RENAME COLUMN target TO topic")
    counters: Any = writer.execute("SELECT queue_id, ended FROM counter").fetchall()
    for number, ended in counters:
        packed = pack_counts(unpack_counts(ended))
        writer.execute("UPDATE counter SET ended = ? WHERE queue_id = ?", (packed, number))
    intents: Any = writer.execute("SELECT number, changes FROM intent").fetchall()
    for number, changes in intents:
        packed = from_version_7(changes)
        writer.execute("UPDATE intent SET changes = ? WHERE number = ?", (packed, number))


def _to_version_9(writer: apsw.Connection) -> None:
    """Lives say what capped, met and ended them; their ids are found by hashes."""
    for table, names in _NEW_IN_9.items():
        for name in names:
            # A table that an earlier step has made has the present columns.
            if name not in _columns(writer, table):
                writer.execute(f"ALTER TABLE {table} ADD COLUMN {name} TEXT")
    for statement in _statements("TABLE ledger_ids"):
        writer.execute(statement)


def _to_version_10(_writer: apsw.Connection) -> None:
    """A MsgId that tells the key is not indexed; older versions would not find it."""


def _to_version_11(writer: apsw.Connection) -> None:
    """Copies of one publication share their content; those of before have each their own."""
    if "content" not in _columns(writer, "message"):
        writer.execute("ALTER TABLE message ADD COLUMN content INTEGER")
    writer.execute("DROP INDEX IF EXISTS message_by_content")
    for statement in _statements(*_NEW_IN_11):
        writer.execute(statement)


def _columns(writer: apsw.Connection, table: str) -> set[str]:
    return {str(name) for _cid, name, *_ in writer.execute(f"PRAGMA table_info({table})")}


def _numbers(writer: apsw.Connection, queue: str) -> list[int]:
    found: Any = writer.execute("SELECT id FROM object WHERE name = ? AND id > 0", (queue,))
    return [number for (number,) in found.fetchall()]


def _statements(*words: str) -> Iterator[str]:
    """Yield the statements of the schema that contain one of the words."""
    without_comments = "\n".join(line.split("--")[0] for line in schema().splitlines())
    for statement in without_comments.split(";"):
        if any(word in statement for word in words):
            yield statement


def _originals(rows: Any) -> Iterator[StoredMessage]:
    for values in rows:
        row = StoredMessage(*values)
        try:
            yield _original(row)
        except MQError:
            # Its header is damaged: release finds no target and dead-letters it as it is.
            yield row._replace(msg_id=staging_id(row.msg_id), shown_id=row.msg_id)


def _original(row: StoredMessage) -> StoredMessage:
    header: dict[str, Any] = DDH.unpack(row.body)
    msg_id, correl_id = header["OriginalMsgId"], header["OriginalCorrelId"].rstrip(b"\0")
    original = unpack_descriptor(row.descriptor)._replace(
        format=header["Format"],
        encoding=header["Encoding"],
        coded_char_set_id=header["CodedCharSetId"],
    )
    return row._replace(
        msg_hash=id_hash(msg_id),
        correl_hash=id_hash(header["OriginalCorrelId"]) if correl_id else None,
        msg_id=msg_id,
        correl_id=header["OriginalCorrelId"] if correl_id else b"",
        shown_id=staging_id(msg_id),
        descriptor=pack_descriptor(original),
        body=row.body[header["StrucLength"] :],
        target=header["TargetQName"],
        target_number=header["TargetNumber"],
    )


#: version -> what brings a database from the version before to it, in the caller's transaction.
MIGRATIONS: dict[int, Callable[[apsw.Connection], None]] = {
    2: _to_version_2,
    3: _to_version_3,
    4: _to_version_4,
    5: _to_version_5,
    6: _to_version_6,
    7: _to_version_7,
    8: _to_version_8,
    9: _to_version_9,
    10: _to_version_10,
    11: _to_version_11,
}
