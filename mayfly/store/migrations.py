"""Brings a database that an older Mayfly has written up to the present schema, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import apsw

from mayfly.mqi.descriptor import pack_descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.structures import DDH
from mayfly.store.keys import id_hash, staging_id
from mayfly.store.totals import LAST_POSITION
from mayfly.store.units import StoredMessage

SCHEMA_VERSION = 7
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
_STAGED_COLUMNS = ("target", "target_number", "ttl_from_release")
_OLD_COLUMNS = tuple(c for c in StoredMessage._fields if c not in _STAGED_COLUMNS)
_COPY = (
    f"INSERT INTO message ({', '.join(_OLD_COLUMNS)}) "
    f"SELECT {', '.join(_OLD_COLUMNS)} FROM old_message WHERE k >= 0"
)
_STAGED = f"SELECT {', '.join(_OLD_COLUMNS)} FROM old_message WHERE k < 0"
_INSERT = f"INSERT INTO message VALUES ({', '.join('?' * len(StoredMessage._fields))})"


def schema() -> str:
    """Return the statements that make the present schema."""
    return files("mayfly.store").joinpath("schema.sql").read_text("utf-8")


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
    columns = {name for _cid, name, *_ in writer.execute("PRAGMA table_info(claimed)")}
    # Version 1 had no such table; by now it has the present one.
    if "target" not in columns:
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
            yield row._replace(msg_id=staging_id(row.msg_id), origin_id=row.msg_id)


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
        origin_id=staging_id(msg_id),
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
}
