"""Opens, owns and checks the folder of a queue manager, or a like database in memory."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from mayfly.mqi.errors import StoreDamaged, StoreError
from mayfly.runtime import Runtime
from mayfly.store.ballast import Ballast
from mayfly.store.contents import report_lost_contents
from mayfly.store.damage import damaged, is_damage, rows_of
from mayfly.store.folder_lock import FolderLock
from mayfly.store.identity import IDENTITY_FILE, identity_of, write_identity
from mayfly.store.migrations import schema
from mayfly.store.opening import (
    DEFAULT_FLAGS,
    LOCKED_FLAGS,
    NoRoomToMigrate,
    connect,
    open_writer,
)

DATABASE_FILE = "mayfly.db"
#: The index of a log of 65,000 pages, four times as many as it should have.
_INDEX_BYTES = 16 * 2**15
_LOG = logging.getLogger("mayfly.store")


class Database:
    """One SQLite database with its writer and reader connections and, on disk, its folder's lock.

    Raises FolderInUse when another open queue manager holds the folder, and NewerSchema when a
    later version has written it. Raises StoreDamaged when SQLite cannot read it, or it holds less
    than identity.json says.
    """

    def __init__(
        self, folder: Path | None, runtime: Runtime | None = None, *, accepts_older: bool = False
    ) -> None:
        """Open the database of a folder, made when missing, or one in memory for None.

        ``accepts_older`` is for a restore: the folder may hold less than identity.json says.
        """
        self.folder = folder
        self._runtime = runtime = Runtime() if runtime is None else runtime
        #: The index of the log, kept open: closing it would drop the locks of SQLite.
        self._index: int | None = None
        #: The database itself, to sync it, kept open for the same reason.
        self._file: int | None = None
        #: Room that is given up when the disk is full; None in memory.
        self.ballast: Ballast | None = None
        self._lock: FolderLock | None = None
        self._pid = os.getpid()
        #: Called when damage is read, before StoreDamaged is raised.
        self.on_damage: Callable[[], None] = lambda: None
        if folder is None:
            self.writer = self.reader = _memory_connection()
        else:
            self._open_folder(folder, accepts_older=accepts_older)
        try:
            self.instance_id = str(self._meta("instance_id", runtime.random_bytes(16).hex()))
        except BaseException:
            self.close()
            raise

    @property
    def is_durable(self) -> bool:
        """Whether the database is on disk."""
        return self.folder is not None

    def connect(self, *, flags: int = DEFAULT_FLAGS) -> apsw.Connection:
        """Return one more connection to a database on disk."""
        assert self.folder is not None
        return connect(self.folder / DATABASE_FILE, self.writer.open_vfs, flags=flags)

    def connect_beside(self) -> apsw.Connection:
        """Return one more connection on disk, the only one in memory."""
        return self.connect() if self.is_durable else self.reader

    def rows(
        self, connection: apsw.Connection, sql: str, bindings: tuple[Any, ...] = ()
    ) -> list[tuple[Any, ...]]:
        """Return all rows of a statement on one of its connections; raises StoreDamaged."""
        return rows_of(connection, sql, bindings, self.on_damage)

    def read_meta(self, name: str, default: int) -> int:
        """Return a number kept in the table ``meta``."""
        return int(self._meta(name, default))

    def claim(self, manager_name: str) -> None:
        """Write the queue manager's name into a new database; raises StoreError for another's."""
        owner = self._meta("manager", manager_name)
        if owner != manager_name and self.folder is not None:
            raise StoreError(f"{self.folder} is the folder of queue manager {owner}", self.folder)

    def sync(self) -> None:
        """Bring what checkpoints have written into the database to the disk; raises OSError."""
        assert self._file is not None
        self._runtime.files.sync_open(self._file)

    def write_identity(self, connection: apsw.Connection) -> None:
        """Write beside the database what it holds by now, as a connection reads it.

        A disk that takes no more leaves what was written before, which asks for less.
        """
        assert self.folder is not None
        try:
            write_identity(self.folder, identity_of(connection), self._runtime.files)
        except OSError as error:
            # A full disk names no file.
            _LOG.warning("%s stays as it was: %s", self.folder / IDENTITY_FILE, error.strerror)
        except StoreDamaged as damage:
            _LOG.error("%s stays as it was: %s", self.folder / IDENTITY_FILE, damage)

    def write_first_identity(self) -> None:
        """Write what the database holds unless the folder has that from before."""
        assert self.folder is not None
        if self._runtime.files.size_bytes(self.folder / IDENTITY_FILE) is None:
            self.write_identity(self.writer)

    def close(self, *, keeps_log: bool = False) -> None:
        """Close the connections and free the folder.

        The write-ahead log goes into the database first, unless it is to be left for recovery.
        """
        if os.getpid() != self._pid:
            return
        for connection in (self.writer, self.reader):
            if keeps_log and self.is_durable:
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.close()
        for descriptor in (self._index, self._file):
            if descriptor is not None:
                os.close(descriptor)
        if self._lock is not None:
            self._lock.release()

    def _open_folder(self, folder: Path, *, accepts_older: bool) -> None:
        self._lock = lock = FolderLock(folder)
        file = folder / DATABASE_FILE
        try:
            lock.make_private(DATABASE_FILE)
            self.ballast = Ballast(folder, self._runtime.files)
            try:
                self.writer = open_writer(file, self._runtime, accepts_older=accepts_older)
            except (apsw.FullError, NoRoomToMigrate) as error:
                missing_bytes = error.missing_bytes if isinstance(error, NoRoomToMigrate) else 0
                if missing_bytes > self.ballast.size_bytes or not self.ballast.give_up():
                    raise
                self.writer = open_writer(file, self._runtime, accepts_older=accepts_older)
            self.reader = self.connect(flags=LOCKED_FLAGS)
            self._index = _with_room(Path(f"{file}-shm"))
            self._file = os.open(file, os.O_RDONLY)
        except BaseException as error:
            lock.release()
            if isinstance(error, apsw.Error | OSError):
                raise _refusal(file, error) from error
            raise

    def _meta(self, name: str, default: int | str) -> int | str:
        found = self.rows(self.writer, "SELECT value FROM meta WHERE name = ?", (name,))
        if found:
            value: Any = found[0][0]
            return value if isinstance(value, int) else str(value)
        self.writer.execute("INSERT INTO meta VALUES (?, ?)", (name, default))
        return default


def _refusal(file: Path, error: apsw.Error | OSError) -> StoreError:
    """Return what to tell of a database that cannot be opened."""
    if isinstance(error, OSError):
        return StoreError(f"{error.filename} cannot be opened: {error.strerror}", file.parent)
    if is_damage(error):
        return damaged(file, error)
    if isinstance(error, apsw.FullError):
        return StoreError(f"{file}: the disk is full", file.parent)
    return StoreError(f"{file} cannot be opened: {error}", file.parent)


def _with_room(index: Path) -> int:
    """Lengthen the index of the log ahead of SQLite; return it open.

    SQLite lengthens it when a transaction is on the disk already. On a full disk its outcome would
    then be unknown, and the store would stop.
    """
    descriptor = os.open(index, os.O_RDWR)
    try:
        os.posix_fallocate(descriptor, 0, _INDEX_BYTES)
    except OSError as error:
        _LOG.info("no room made in %s: %s", index, error.strerror)
    return descriptor


class _EmptyDatabase(threading.local):
    """An empty database in memory with the present schema, from which others are copied.

    Copying its pages takes an eighth of the time that the statements of the schema take. Each
    thread has its own: two threads cannot read one connection at the same moment, and a forked
    child may not use what another thread was reading when it was forked.
    """

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        self.connection.execute(schema())


_EMPTY = _EmptyDatabase()


def _memory_connection() -> apsw.Connection:
    connection = apsw.Connection(":memory:", statementcachesize=200)
    connection.execute("PRAGMA journal_mode = MEMORY")
    with connection.backup("main", _EMPTY.connection, "main") as copying:
        copying.step()
    report_lost_contents(connection)
    return connection
