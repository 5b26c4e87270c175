"""Opens, owns and checks the folder of a queue manager, or a like database in memory."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import apsw

from mayfly.mqi.errors import NewerSchema, StoreDamaged, StoreError
from mayfly.store.folder_lock import FolderLock
from mayfly.store.migrations import MIGRATIONS, SCHEMA_VERSION, schema
from mayfly.store.private_files import make_file

DATABASE_FILE = "mayfly.db"
_DURABLE_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    # Checkpoints run beside the commit path (log_keeper.py).
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
)


class Database:
    """One SQLite database with its writer and reader connections and, on disk, its folder's lock.

    Raises FolderInUse when another open queue manager holds the folder, NewerSchema when it was
    written by a later version, StoreDamaged when SQLite cannot read it.
    """

    def __init__(self, folder: Path | None) -> None:
        """Open the database of a folder, made when missing, or one in memory for None."""
        self.folder = folder
        self._lock: FolderLock | None = None
        self._pid = os.getpid()
        if folder is None:
            self.writer = self.reader = self.ledger_reader = _memory_connection()
        else:
            self._open_folder(folder)
        self.instance_id = str(self._meta("instance_id", secrets.token_hex(16)))

    @property
    def is_durable(self) -> bool:
        """Whether the database is on disk."""
        return self.folder is not None

    def connect(self) -> apsw.Connection:
        """Return one more connection to a database on disk."""
        assert self.folder is not None
        return _connect(self.folder / DATABASE_FILE)

    def read_meta(self, name: str, default: int) -> int:
        """Return a number kept in the table ``meta``."""
        return int(self._meta(name, default))

    def claim(self, manager_name: str) -> None:
        """Write the queue manager's name into a new database; raises StoreError for another's."""
        owner = self._meta("manager", manager_name)
        if owner != manager_name and self.folder is not None:
            raise StoreError(f"{self.folder} is the folder of queue manager {owner}", self.folder)

    def close(self) -> None:
        """Close the connections and free the folder."""
        if os.getpid() != self._pid:
            return
        for connection in {id(c): c for c in self._connections()}.values():
            connection.close()
        if self._lock is not None:
            self._lock.release()

    def _open_folder(self, folder: Path) -> None:
        self._lock = lock = FolderLock(folder)
        try:
            _make_private(lock, folder)
            self._open_file(folder)
        except BaseException:
            lock.release()
            raise

    def _open_file(self, folder: Path) -> None:
        file = folder / DATABASE_FILE
        try:
            self.writer = _connect(file)
            for pragma in _DURABLE_PRAGMAS:
                self.writer.execute(pragma)
            _bring_up_to_date(self.writer, folder)
            self.reader = _connect(file)
            self.ledger_reader = _connect(file)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise StoreDamaged(f"{file} is damaged: {error}", folder) from error
        except apsw.FullError as error:
            raise StoreError(f"{file}: the disk is full", folder) from error
        except (apsw.CantOpenError, apsw.IOError, apsw.ReadOnlyError) as error:
            raise StoreError(f"{file} cannot be opened: {error}", folder) from error

    def _connections(self) -> list[apsw.Connection]:
        return [self.writer, self.reader, self.ledger_reader]

    def _meta(self, name: str, default: int | str) -> int | str:
        found = self.writer.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchall()
        if found:
            value: Any = found[0][0]
            return value if isinstance(value, int) else str(value)
        self.writer.execute("INSERT INTO meta VALUES (?, ?)", (name, default))
        return default


def _memory_connection() -> apsw.Connection:
    connection = apsw.Connection(":memory:", statementcachesize=200)
    connection.execute("PRAGMA journal_mode = MEMORY")
    connection.execute(schema())
    return connection


def _make_private(lock: FolderLock, folder: Path) -> None:
    try:
        lock.make_private(DATABASE_FILE)
        # SQLite would make it readable by all users.
        make_file(folder / DATABASE_FILE)
    except OSError as error:
        raise StoreError(f"{error.filename} cannot be opened: {error.strerror}", folder) from error


def _connect(file: Path) -> apsw.Connection:
    connection = apsw.Connection(str(file), statementcachesize=200)
    connection.set_busy_timeout(10_000)
    return connection


def _bring_up_to_date(writer: apsw.Connection, folder: Path) -> None:
    version: int = writer.pragma("user_version")
    if version > SCHEMA_VERSION:
        raise NewerSchema(
            f"{folder} was written by a newer Mayfly: schema {version}, known {SCHEMA_VERSION}",
            folder,
        )
    with writer:
        if version == 0:
            writer.execute(schema())
        else:
            for step in range(version + 1, SCHEMA_VERSION + 1):
                MIGRATIONS[step](writer)
        writer.pragma("user_version", SCHEMA_VERSION)
