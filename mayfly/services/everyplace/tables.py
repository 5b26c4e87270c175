"""The database of a queue manager: its tables, and the statements that change them.

To change them: raise VERSION, keep a folder of the old version as a test, and bring it up to date
in `open_tables`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import apsw

from mayfly.mqi.errors import NewerSchema, StoreDamaged, StoreError
from mayfly.runtime import Runtime

Statement: TypeAlias = tuple[str, tuple[Any, ...]]

DATABASE_FILE = "everyplace.db"
VERSION = 1
#: An era fits into an integer of SQLite.
_ERA_BYTES = 7
_BUSY_MS = 10_000
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
)
#: ``partner`` of a queue, and of a message on it, is empty for a local queue; exchanges are JSON
#: lists. A queue that has a rule says of which class, for the rule itself is code.
_SCHEMA = """
CREATE TABLE manager (name TEXT NOT NULL, era INTEGER NOT NULL);
CREATE TABLE queue (
    name TEXT NOT NULL,
    partner TEXT NOT NULL,
    kind TEXT NOT NULL,
    attributes TEXT NOT NULL,
    rule TEXT,
    PRIMARY KEY (name, partner)
) WITHOUT ROWID;
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    partner TEXT NOT NULL,
    body BLOB NOT NULL,
    arrived_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    confirm_id INTEGER NOT NULL,
    exchange TEXT,
    is_acknowledged INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    place INTEGER NOT NULL
);
CREATE TABLE home (
    name TEXT PRIMARY KEY,
    partner TEXT NOT NULL,
    asked TEXT,
    stored TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE withdrawn (queue TEXT, partner TEXT, exchange TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE begun (partner TEXT PRIMARY KEY, next_number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE finished (
    beginner TEXT PRIMARY KEY, era INTEGER NOT NULL, below INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE finished_number (
    beginner TEXT, number INTEGER, PRIMARY KEY (beginner, number)
) WITHOUT ROWID;
"""

SAVE_QUEUE = "INSERT OR REPLACE INTO queue VALUES (?, ?, ?, ?, ?)"
FORGET_QUEUE = "DELETE FROM queue WHERE name = ? AND partner = ?"
ADD_MESSAGE = "INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
CHANGE_MESSAGE = (
    "UPDATE message SET state = ?, confirm_id = ?, exchange = ?, is_acknowledged = ?, rank = ?,"
    " place = ? WHERE id = ?"
)
FORGET_MESSAGE = "DELETE FROM message WHERE id = ?"
SAVE_HOME = "INSERT OR REPLACE INTO home VALUES (?, ?, ?, ?)"
FORGET_HOME = "DELETE FROM home WHERE name = ?"
SAVE_WITHDRAWN = "INSERT OR REPLACE INTO withdrawn VALUES (?, ?, ?)"
FORGET_WITHDRAWN = "DELETE FROM withdrawn WHERE exchange = ?"
SAVE_BEGUN = "INSERT OR REPLACE INTO begun VALUES (?, ?)"
SAVE_FINISHED = "INSERT OR REPLACE INTO finished VALUES (?, ?, ?)"
FORGET_NUMBERS = "DELETE FROM finished_number WHERE beginner = ? AND number < ?"
FORGET_ALL_NUMBERS = "DELETE FROM finished_number WHERE beginner = ?"
SAVE_NUMBER = "INSERT OR REPLACE INTO finished_number VALUES (?, ?)"


def new_era(runtime: Runtime) -> int:
    """Return a number that tells a queue manager from all others of its name."""
    return int.from_bytes(runtime.random_bytes(_ERA_BYTES), "big")


def open_tables(folder: Path, manager: str, runtime: Runtime) -> apsw.Connection:
    """Open the database of a queue manager in a folder, made when missing.

    Raises StoreError for the folder of another queue manager and on a full disk, NewerSchema and
    StoreDamaged.
    """
    file = folder / DATABASE_FILE
    try:
        # SQLite would make it readable by all users.
        runtime.files.make(file)
        connection = apsw.Connection(str(file))
        # Somebody may be looking at it with another program.
        connection.set_busy_timeout(_BUSY_MS)
        try:
            _prepare(connection, folder, manager, runtime)
        except BaseException:
            connection.close(force=True)
            raise
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreDamaged(f"{file} is damaged: {error}", folder) from error
    except apsw.FullError as error:
        raise StoreError(f"{file}: the disk is full", folder) from error
    except (apsw.CantOpenError, apsw.IOError, apsw.ReadOnlyError, apsw.BusyError) as error:
        raise StoreError(f"{file} cannot be opened: {error}", folder) from error
    except OSError as error:
        raise StoreError(f"{file} cannot be made: {error.strerror}", folder) from error
    return connection


def _prepare(connection: apsw.Connection, folder: Path, manager: str, runtime: Runtime) -> None:
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    version: int = connection.pragma("user_version")
    if version > VERSION:
        raise NewerSchema(
            f"{folder} was written by a newer Mayfly: Everyplace tables {version}, known {VERSION}",
            folder,
        )
    if version == 0:
        with connection:
            connection.execute(_SCHEMA)
            connection.execute("INSERT INTO manager VALUES (?, ?)", (manager, new_era(runtime)))
            connection.pragma("user_version", VERSION)
    [(owner,)] = connection.execute("SELECT name FROM manager").fetchall()
    if owner != manager:
        raise StoreError(f"{folder} is the folder of Everyplace queue manager {owner}", folder)
