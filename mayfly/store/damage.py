"""Damage: which errors of SQLite say that the bytes on the disk are not those that were written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from mayfly.mqi.errors import StoreDamaged


def is_damage(error: apsw.Error) -> bool:
    """Return True for a malformed database, and for a page whose checksum is wrong."""
    if isinstance(error, apsw.IOError):
        return getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA
    return isinstance(error, apsw.CorruptError | apsw.NotADBError)


def rows_of(
    connection: apsw.Connection,
    sql: str,
    bindings: tuple[Any, ...] = (),
    on_damage: Callable[[], None] = lambda: None,
    read: Callable[[apsw.Cursor], list[tuple[Any, ...]]] | None = None,
) -> list[tuple[Any, ...]]:
    """Return all rows of a statement, or those that ``read`` takes from it before it closes it.

    Calls ``on_damage``, then raises StoreDamaged.
    """
    try:
        cursor = connection.execute(sql, bindings)
        # It ends the read at once; a statement left open would keep the WAL from shrinking.
        return cursor.fetchall() if read is None else read(cursor)
    except apsw.Error as error:
        if not is_damage(error):
            raise
        on_damage()
        raise damaged(Path(connection.filename), error) from error
    except UnicodeDecodeError as error:
        on_damage()
        raise damaged(Path(connection.filename), error) from error


def damaged(file: Path, error: Exception) -> StoreDamaged:
    """Return the error to raise for damage that was met in a database file.

    The cause may also be a text or JSON that Mayfly never wrote.
    """
    what = "the checksum of a page is wrong" if isinstance(error, apsw.IOError) else str(error)
    return StoreDamaged(f"{file} is damaged: {what}", file.parent)
