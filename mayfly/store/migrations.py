"""The version of the schema, and the steps that bring a database of an older one up to date.

To change the schema: change schema.sql, raise SCHEMA_VERSION, add its step to MIGRATIONS, and keep
a folder of the version before in ``tests/store/fixtures``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import apsw

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
    """Return the statements that make the present schema."""
    return Path(__file__).with_name("schema.sql").read_text("utf-8")


def _to_version_11(writer: apsw.Connection) -> None:
    """Copies of one publication share their content; those of before have each their own."""
    writer.execute("ALTER TABLE message ADD COLUMN content INTEGER")
    for statement in _statements(*_NEW_IN_11):
        writer.execute(statement)


def _statements(*words: str) -> Iterator[str]:
    """Yield the statements of the schema that contain one of the words."""
    without_comments = "\n".join(line.split("--")[0] for line in schema().splitlines())
    for statement in without_comments.split(";"):
        if any(word in statement for word in words):
            yield statement


#: version -> what brings a database from the version before to it, in the caller's transaction.
#: A database that is older than all of them is refused.
MIGRATIONS: dict[int, Callable[[apsw.Connection], None]] = {11: _to_version_11}
OLDEST_VERSION: Final = min(MIGRATIONS) - 1
