"""The schema version: which folders are refused, and how an older database is migrated.

To change the schema: change schema.sql, raise SCHEMA_VERSION, add its step to MIGRATIONS, and keep
a folder of the version before in ``tests/store/fixtures``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import apsw

from mayfly.mqi.errors import NewerSchema, StoreError
from mayfly.runtime import Files
from mayfly.store.damage import rows_of

SCHEMA_VERSION: Final = 11
#: Room on the disk that a migration asks for: each changed page is written to the log, and back to
#: the database when the log is.
MIGRATION_BYTES: Final = 2**20
#: Words of the statements whose table, indexes and view version 10 did not have.
_NEW_IN_11 = (
    "TABLE content ",
    "INDEX content_",
    "INDEX message_by_content",
    "VIEW whole_message",
)


def schema() -> str:
    """Return the SQL statements that create the present schema."""
    return Path(__file__).with_name("schema.sql").read_text("utf-8")


def _to_version_11(writer: apsw.Connection) -> None:
    """Add the shared contents of publications to a database of version 10.

    Older messages keep their contents in their rows.
    """
    writer.execute("ALTER TABLE message ADD COLUMN content INTEGER")
    for statement in _statements(*_NEW_IN_11):
        writer.execute(statement)


def _statements(*words: str) -> Iterator[str]:
    """Yield those SQL statements of the present schema that contain one of these words."""
    without_comments = "\n".join(line.split("--")[0] for line in schema().splitlines())
    for statement in without_comments.split(";"):
        if any(word in statement for word in words):
            yield statement


#: version -> what brings a database from the version before to it, in the caller's transaction.
#: A database that is older than all of them is refused.
MIGRATIONS: dict[int, Callable[[apsw.Connection], None]] = {11: _to_version_11}
OLDEST_VERSION: Final = min(MIGRATIONS) - 1


class NoSpaceToMigrate(StoreError):
    """The disk is too full to migrate a database; ``missing_bytes`` more are needed."""

    def __init__(self, message: str, folder: Path, missing_bytes: int) -> None:
        """Keep how many bytes are missing on the disk."""
        super().__init__(message, folder)
        self.missing_bytes = missing_bytes


def check_version(version: int, folder: Path) -> None:
    """Raise NewerSchema for a newer schema version, StoreError for one too old to migrate.

    Version 0 is a new database.
    """
    if version > SCHEMA_VERSION:
        raise NewerSchema(
            f"{folder} was written by a newer Mayfly: schema {version}, known {SCHEMA_VERSION}",
            folder,
        )
    if 0 < version < OLDEST_VERSION:
        raise StoreError(
            f"{folder} was written by an older Mayfly: schema {version}, wanted {SCHEMA_VERSION}, "
            f"brought up to date from {OLDEST_VERSION} on; get its messages with the Mayfly that "
            "has written it, and begin with a new folder",
            folder,
        )


def bring_up_to_date(writer: apsw.Connection, file: Path, files: Files) -> None:
    """Create the tables of a new database, or migrate an older one to the present schema.

    One transaction does it: a kill in between changes nothing. Raises NoSpaceToMigrate.
    """
    version = int(rows_of(writer, "PRAGMA user_version")[0][0])
    if version == SCHEMA_VERSION:
        return
    free_bytes = files.free_bytes(file.parent)
    if version and free_bytes < MIGRATION_BYTES:
        raise NoSpaceToMigrate(
            f"{file} is of schema {version}: to bring it to schema {SCHEMA_VERSION} takes up to "
            f"{MIGRATION_BYTES} bytes, and only {free_bytes} are free; nothing has changed",
            file.parent,
            MIGRATION_BYTES - free_bytes,
        )
    with writer:
        if version == 0:
            writer.execute(schema())
        else:
            for step in range(version + 1, SCHEMA_VERSION + 1):
                MIGRATIONS[step](writer)
        writer.pragma("user_version", SCHEMA_VERSION)
