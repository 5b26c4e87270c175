"""Opens, checks and migrates the SQLite database of a queue manager, in its folder or in memory.

A database on disk is checked before anything is written, then migrated to the present schema.
Damage is never overwritten: until all checks are done, closing leaves the write-ahead log as it is.
SQLite would otherwise write it back, or delete it if it takes the log for empty.

To change the schema: change schema.sql, raise SCHEMA_VERSION, add its step to MIGRATIONS, and keep
a folder of the version before in ``tests/store/fixtures``.

A reader is a connection for reads beside commits. The table ``meta`` has values by name.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any, Final

import apsw

from mayfly.mqi.errors import NewerSchema, StoreCopied, StoreDamaged, StoreError, mq_error
from mayfly.mqi.reasons import MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_NOT_AVAILABLE, reason_name
from mayfly.runtime import Files, Runtime
from mayfly.store.contents import report_lost_contents
from mayfly.store.damage import (
    IDENTITY_FILE,
    Identity,
    check_identity,
    checksum_vfs,
    damaged,
    identity_of,
    is_available,
    is_checked,
    is_damage,
    is_protected,
    protect,
    read_identity,
    rows_of,
    write_identity,
)
from mayfly.store.disk_space import Ballast
from mayfly.store.folder_lock import FolderLock
from mayfly.store.followers import Followers, LogPosition
from mayfly.store.messages import Messages
from mayfly.store.units import Statement
from mayfly.store.write_ahead_log import check_end, check_header, salts_of


class Reader:
    """A database connection, opened by its first read, for one read at a time.

    On disk reads delay no commit.
    """

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        guard: AbstractContextManager[object],
        on_damage: Callable[[], None],
        begin: Callable[[apsw.Connection], None] | None = None,
    ) -> None:
        """Open the connection later by ``connect``, and hold ``guard`` during each read.

        ``on_damage`` is called before StoreDamaged is raised. ``begin`` begins a read transaction
        in which a read sees nothing that the log of a replica lacks.
        """
        self._begin = begin
        self._connect, self._guard, self._on_damage = connect, guard, on_damage
        self._connection: apsw.Connection | None = None
        self._is_stopped = False

    def rows(
        self,
        sql: str,
        bindings: tuple[Any, ...] = (),
        read: Callable[[apsw.Cursor], list[tuple[Any, ...]]] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Return all rows of an SQL statement, or the rows that ``read`` takes from its cursor.

        ``bindings`` are the values of its parameters. Only committed data is read. On disk, call it
        without the lock of the queue manager. Raises MQRC_CONNECTION_BROKEN once stopped,
        StoreDamaged.
        """
        with self._guard:
            self.check_open()
            if self._connection is None:
                self._connection = self._connect()
            if self._begin is None:
                return rows_of(self._connection, sql, bindings, self._on_damage, read)
            self._begin(self._connection)
            try:
                return rows_of(self._connection, sql, bindings, self._on_damage, read)
            finally:
                self._connection.execute("ROLLBACK")

    def check_open(self) -> None:
        """Raise MQRC_CONNECTION_BROKEN if the reader is stopped."""
        if self._is_stopped:
            raise mq_error(MQRC_CONNECTION_BROKEN, "the store is closed")

    def stop(self) -> None:
        """Wait for the read under way and close; later reads fail with MQRC_CONNECTION_BROKEN."""
        with self._guard:
            self._is_stopped = True
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def stop_in_child(self) -> None:
        """Stop in a forked child, without the guard: its holder may be a thread of the parent."""
        self._is_stopped = True
        self._guard = nullcontext()


_READ = "SELECT value FROM meta WHERE name = ?"
_WRITE = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_ERASE = "DELETE FROM meta WHERE name = ?"
_CONFIGURATION: Final = "configuration"
#: The name of a row is this word with the user behind it.
_GROUPS: Final = "groups of "
#: The first text behind all that begin with the prefix.
_GROUPS_END: Final = _GROUPS[:-1] + chr(ord(_GROUPS[-1]) + 1)
_READ_GROUPS = "SELECT name, value FROM meta WHERE name >= ? AND name < ?"


def read_value(messages: Messages, name: str) -> Any:
    """Return the value with this name, None when none is stored."""
    rows = messages.fetch(_READ, (name,))
    return rows[0][0] if rows else None


def write_value(name: str, value: str | int) -> Statement:
    """Return the SQL statement that stores a value under a name, or replaces it."""
    return _WRITE, (name, value)


def read_configuration(messages: Messages) -> dict[str, Any]:
    """Return the configuration that was stored last, empty if none was; raises StoreDamaged."""
    packed = read_value(messages, _CONFIGURATION)
    if packed is None:
        return {}
    try:
        return dict(json.loads(packed))
    except (ValueError, TypeError) as error:
        raise damaged(Path(messages.writer.filename), error) from error


def write_configuration(values: dict[str, Any]) -> Statement:
    """Return the SQL statement that stores the configuration, as JSON."""
    return write_value(_CONFIGURATION, json.dumps(values))


def read_user_groups(messages: Messages) -> dict[str, tuple[str, ...]]:
    """Return the groups of each user that programs have stored; raises StoreDamaged."""
    found = {}
    for name, value in messages.fetch(_READ_GROUPS, (_GROUPS, _GROUPS_END)):
        try:
            found[str(name).removeprefix(_GROUPS)] = tuple(map(str, json.loads(value)))
        except (ValueError, TypeError) as error:
            raise damaged(Path(messages.writer.filename), error) from error
    return found


def write_user_groups(user: str, groups: tuple[str, ...]) -> Statement:
    """Return the SQL statement that stores the groups of a user.

    Without groups it deletes the entry of the user.
    """
    name = _GROUPS + user
    return write_value(name, json.dumps(groups)) if groups else (_ERASE, (name,))


_READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def stored_objects(folder: Path, kind: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a kind in a folder, name -> attributes by MQSC keyword, as stored.

    ``kind`` is that of the store, as ``CHANNEL`` or ``QLOCAL``. A folder without a queue manager
    has none. The folder may be open in another process, and nothing in it is changed. Raises
    StoreError if the database cannot be read.
    """
    file = folder / DATABASE_FILE
    if not file.exists():
        return {}
    # Beside a log SQLite takes part in its index. Without one it would make both files.
    has_log = file.with_name(f"{DATABASE_FILE}-wal").exists()
    uri = f"{file.absolute().as_uri()}?{'mode=ro' if has_log else 'immutable=1'}"
    try:
        with closing(apsw.Connection(uri, flags=_READ_ONLY)) as database:
            rows = database.execute("SELECT name, attributes FROM object WHERE kind = ?", (kind,))
            return {name: json.loads(attributes) for name, attributes in rows}
    except apsw.Error as error:
        raise StoreError(f"{file} cannot be read: {error}", file) from error


DATABASE_FILE = "mayfly.db"
#: In the folder of a queue manager with a replica: which row of the log it has (replica/).
REPLICA_FILE: Final = "replica"
#: The index of a log of 65,000 pages, four times as many as it should have.
_INDEX_BYTES = 16 * 2**15
_BUSY_MS = 10_000
#: How long a log that is about to go waits for its followers, at the opening and at the end.
_READ_SECONDS = 2.0
DEFAULT_FLAGS: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
#: For a connection that is only used under one of our locks: SQLite then takes no mutex, which it
#: would lock and unlock twice for each column of a row. A row is read in 0.38 µs, not 0.55.
LOCKED_FLAGS: Final = DEFAULT_FLAGS | apsw.SQLITE_OPEN_NOMUTEX
_LOG = logging.getLogger("mayfly.store")
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    # Checkpoints run beside the commit path (checkpointer.py).
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
)
READ_META: Final = "SELECT value FROM meta WHERE name = ?"
WRITE_META: Final = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
#: The name in the table ``meta`` of what tells the database file from its copies.
FILE_BIRTH: Final = "file"
SCHEMA_VERSION: Final = 12
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


def connect(file: Path, vfs: str | None, *, flags: int = DEFAULT_FLAGS) -> apsw.Connection:
    """Return a new connection to a database file, which is created when missing.

    ``vfs`` None is the default VFS; ``flags`` are those of ``apsw.Connection``.
    """
    connection = apsw.Connection(str(file), flags=flags, vfs=vfs, statementcachesize=200)
    connection.set_busy_timeout(_BUSY_MS)
    report_lost_contents(connection)
    return connection


def open_writer(
    file: Path, runtime: Runtime, *, accepts_restored: bool, accepts_copy: bool
) -> apsw.Connection:
    """Check a database file and migrate it to the present schema; return its writer connection.

    A missing file is created. ``accepts_restored`` skips the comparison with identity.json, and
    it or ``accepts_copy`` the question whether the file is a copy.
    ``runtime`` has the file system, the VFS and the files beside the database. Raises StoreDamaged,
    NewerSchema, StoreError for a folder that lacks what it needs, apsw.Error and OSError.
    """
    folder, log, files = file.parent, Path(f"{file}-wal"), runtime.files
    expected = None if accepts_restored else read_identity(folder, files)
    is_new = not files.size_bytes(file)
    if is_new:
        _check_nothing_is_lost(
            file, files.size_bytes(log), expected, accepts_restored=accepts_restored
        )
        files.make(file)
    else:
        check_header(log, files)
    was_cut_off = bool(files.size_bytes(log))
    writer = connect(file, _vfs_of(file, runtime, is_new=is_new))
    try:
        writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
        if not is_new:
            _check(writer, file, files, expected)
            if not (accepts_restored or accepts_copy):
                _check_not_copied(writer, file, files)
        elif is_available():
            protect(writer)
        if was_cut_off:
            let_log_go(writer, log, runtime)
            _empty_log(writer)
        for pragma in _PRAGMAS:
            writer.execute(pragma)
        bring_up_to_date(writer, file, files)
        if is_new:
            # Else each check of the log reads the tables' pages, until it is written back: two
            # thirds of the log of a queue manager that has just begun.
            _empty_log(writer)
        writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, False)
    except BaseException:
        writer.close()
        raise
    return writer


def _check_nothing_is_lost(
    file: Path, log_bytes: int | None, expected: Identity | None, *, accepts_restored: bool
) -> None:
    """Raise StoreDamaged if an empty database file has replaced one that had content.

    ``log_bytes`` is the length of its log, ``expected`` the content of identity.json; None when the
    file does not exist. With ``accepts_restored`` it raises StoreError for any empty file, as
    nothing can be restored from it.
    """
    if expected is not None:
        raise StoreDamaged(
            f"{file} is empty, and {IDENTITY_FILE} says that it was not", file.parent
        )
    if log_bytes:
        raise StoreDamaged(f"{file} is empty, and {file.name}-wal is not", file.parent)
    if accepts_restored:
        raise StoreError(f"{file} is empty: there is nothing to accept", file.parent)


def _vfs_of(file: Path, runtime: Runtime, *, is_new: bool) -> str | None:
    """Return the VFS for a database; None is the default VFS.

    A new file (``is_new``) gets checksums if apsw can make them. Raises StoreError if the file has
    checksums that apsw cannot read.
    """
    vfs = runtime.vfs
    if is_new or not is_protected(file, runtime.files):
        if is_new and not is_available():
            _LOG.warning("%s gets no checksums: this apsw comes without cksumvfs", file)
        return checksum_vfs(vfs, file.parent) if is_new and is_available() else vfs
    if not is_available():
        raise StoreError(
            f"the pages of {file} have checksums, and this apsw comes without cksumvfs: "
            "install one that has it",
            file.parent,
        )
    return checksum_vfs(vfs, file.parent)


def _check(writer: apsw.Connection, file: Path, files: Files, expected: Identity | None) -> None:
    """Check schema version, log and identity of an existing database.

    ``expected`` is the content of identity.json; None skips the comparison. Raises StoreDamaged,
    NewerSchema, or StoreError for a schema too old to migrate.
    """
    folder = file.parent
    # The first read lets SQLite read the log; a checkpoint of this mode only says how far it came.
    version = int(rows_of(writer, "PRAGMA user_version")[0][0])
    rows_of(writer, "SELECT count(*) FROM sqlite_schema")
    valid_frames, _written_back = writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    check_end(Path(f"{file}-wal"), files, max(valid_frames, 0))
    check_version(version, folder)
    found = identity_of(writer)
    if found.is_protected and not is_checked(writer):
        # The first page in the log hides that of the file, which says how it must be opened.
        raise StoreDamaged(f"{file} is damaged: its header is none", folder)
    if expected is not None:
        check_identity(folder, expected, found)


def _check_not_copied(writer: apsw.Connection, file: Path, files: Files) -> None:
    """Raise StoreCopied if a database file is not the one that its queue manager has written."""
    if not rows_of(writer, "SELECT 1 FROM sqlite_schema WHERE name = 'meta'"):
        return
    written = rows_of(writer, READ_META, (FILE_BIRTH,))
    birth = files.birth_of(file)
    if written and birth is not None and birth != written[0][0]:
        reason = f"{reason_name(MQRC_Q_MGR_NOT_AVAILABLE)} ({MQRC_Q_MGR_NOT_AVAILABLE})"
        raise StoreCopied(
            f"{reason}: {file} is a copy, and not the file that its queue manager has written: "
            "messages that were got since would be there again; if that is wanted, and the first "
            "folder is never opened again: mayfly verify --accept-restored",
            file.parent,
        )


def let_log_go(writer: apsw.Connection, log: Path, runtime: Runtime) -> None:
    """Wait until all followers (backups, replicas) have read the log, which is emptied afterwards.

    Waits two seconds at most. The end of ``log`` is noted for each follower; one that has not read
    up to it copies the whole database anew. ``writer`` is the connection that writes ``log``.
    """
    followers = Followers(log.parent, runtime)
    frames = max(writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0], 0)
    end = LogPosition(salts_of(log, runtime.files), frames)
    if frames:
        followers.wait_until_read(lambda: end, 0, _READ_SECONDS)
        followers.let_go(end)


def _empty_log(writer: apsw.Connection) -> None:
    """Write back the log that a crash has left, so that the next commit begins it anew.

    Else the end of the interrupted transaction would stay in it, and look like damage after another
    crash (write_ahead_log.py). On a full disk the log stays, with a warning.
    """
    # Another program that reads the database is not waited for.
    writer.set_busy_timeout(0)
    try:
        writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except (apsw.FullError, apsw.BusyError) as error:
        # On a full disk messages can still be got, which frees space.
        _LOG.warning("the log stays as a crash has left it: %s", error)
    finally:
        writer.set_busy_timeout(_BUSY_MS)


class Database:
    """One SQLite database: its writer and reader connections and, on disk, its folder's lock."""

    def __init__(
        self,
        folder: Path | None,
        runtime: Runtime | None = None,
        *,
        accepts_restored: bool = False,
        prepare: Callable[[Path], None] | None = None,
    ) -> None:
        """Open the database of a folder, created when missing, or one in memory for None.

        ``prepare`` is called with the folder, once that is locked, before the database is opened:
        it brings a folder with a replica to the end of the log. Without it such a folder is refused
        by StoreError, for what is written here would be in no log.
        ``accepts_restored`` is for a restore: the database may hold less than identity.json says,
        and its file may be a copy. Raises FolderInUse when another open queue manager owns the
        folder, and NewerSchema when a later version has written it. Raises StoreDamaged when SQLite
        cannot read it, or it holds less than identity.json says, StoreCopied when it is a copy.
        """
        self.folder = folder
        self._runtime = runtime = Runtime() if runtime is None else runtime
        #: File descriptor of the log's index, kept open: closing it would drop the locks of SQLite.
        self._index: int | None = None
        #: File descriptor of the database, for syncs, kept open for the same reason.
        self._file: int | None = None
        #: Disk space that is freed when the disk is full; None in memory.
        self.ballast: Ballast | None = None
        self._lock: FolderLock | None = None
        self._pid = os.getpid()
        #: Called when damage is read, before StoreDamaged is raised.
        self.on_damage: Callable[[], None] = lambda: None
        if folder is None:
            self.writer = self.reader = _memory_connection()
        else:
            self._open_folder(folder, accepts_restored=accepts_restored, prepare=prepare)
        try:
            with self.writer:
                self.instance_id = str(self._meta("instance_id", runtime.random_bytes(16).hex()))
                self._write_birth()
        except BaseException:
            self.close()
            raise

    @property
    def is_durable(self) -> bool:
        """Whether the database is on disk."""
        return self.folder is not None

    def connect(self, *, flags: int = DEFAULT_FLAGS) -> apsw.Connection:
        """Return one more connection to the database, which must be on disk.

        ``flags`` are those of ``apsw.Connection``.
        """
        assert self.folder is not None
        return connect(self.folder / DATABASE_FILE, self.writer.open_vfs, flags=flags)

    def connect_beside(self) -> apsw.Connection:
        """Return one more connection if the database is on disk; in memory its only connection."""
        return self.connect() if self.is_durable else self.reader

    def rows(
        self, connection: apsw.Connection, sql: str, bindings: tuple[Any, ...] = ()
    ) -> list[tuple[Any, ...]]:
        """Return all rows of an SQL statement on one of the database's connections.

        Raises StoreDamaged when the database is damaged.
        """
        return rows_of(connection, sql, bindings, self.on_damage)

    def read_meta(self, name: str, default: int) -> int:
        """Return a number from the table ``meta``, ``default`` for one that is missing."""
        found = self.rows(self.writer, READ_META, (name,))
        return int(found[0][0]) if found else default

    def bind_to_manager(self, manager_name: str) -> None:
        """Write the queue manager's name into a new database.

        Raises StoreError if the database belongs to a queue manager of another name.
        """
        owner = self._meta("manager", manager_name)
        if owner != manager_name and self.folder is not None:
            raise StoreError(f"{self.folder} is the folder of queue manager {owner}", self.folder)

    @property
    def file(self) -> int:
        """A descriptor of the database file, for reads; the database is on disk."""
        assert self._file is not None
        return self._file

    def sync(self) -> None:
        """Sync the database file, which checkpoints have written; raises OSError."""
        assert self._file is not None
        self._runtime.files.sync_descriptor(self._file)

    def write_identity(self, connection: apsw.Connection) -> None:
        """Write identity.json, which names the database and how far it had come.

        A start that finds a database older than this file refuses it. Values are read through
        ``connection``. When the write fails, it is logged, and the old file stays: it allows every
        database that the new one would allow.
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
        """Write identity.json if the folder has none; does nothing if the file exists."""
        assert self.folder is not None
        if self._runtime.files.size_bytes(self.folder / IDENTITY_FILE) is None:
            self.write_identity(self.writer)

    def close(self, *, keeps_log: bool = False) -> None:
        """Close the connections and release the folder; does nothing in a forked child.

        The write-ahead log is written back first, unless ``keeps_log`` leaves it for recovery.
        """
        if os.getpid() != self._pid:
            return
        if self.folder is not None and not keeps_log:
            log = self.folder / f"{DATABASE_FILE}-wal"
            with contextlib.suppress(apsw.Error, OSError):
                let_log_go(self.writer, log, self._runtime)
        for connection in (self.writer, self.reader):
            if keeps_log and self.is_durable:
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.close()
        for descriptor in (self._index, self._file):
            if descriptor is not None:
                os.close(descriptor)
        if self._lock is not None:
            self._lock.release()

    def _open_folder(
        self,
        folder: Path,
        *,
        accepts_restored: bool,
        prepare: Callable[[Path], None] | None,
    ) -> None:
        """Lock the folder, then open its database; raises StoreError.

        ``accepts_restored`` skips the comparison with identity.json. ``prepare`` gets the folder
        before its database is opened.
        """
        self._lock = lock = FolderLock(folder)
        file = folder / DATABASE_FILE

        def opened() -> apsw.Connection:
            # Of two copies with a replica only the one that owns its log can acknowledge.
            return open_writer(
                file,
                self._runtime,
                accepts_restored=accepts_restored,
                accepts_copy=prepare is not None,
            )

        try:
            lock.make_private(DATABASE_FILE)
            if prepare is not None:
                prepare(folder)
            elif self._runtime.files.size_bytes(folder / REPLICA_FILE):
                raise StoreError(
                    f"{folder} has a replica: open it with that; to part from it, remove "
                    f"{folder / REPLICA_FILE}",
                    folder,
                )
            self.ballast = Ballast(folder, self._runtime.files)
            try:
                self.writer = opened()
            except (apsw.FullError, NoSpaceToMigrate) as error:
                missing_bytes = error.missing_bytes if isinstance(error, NoSpaceToMigrate) else 0
                if missing_bytes > self.ballast.size_bytes or not self.ballast.give_up():
                    raise
                self.writer = opened()
            self.reader = self.connect(flags=LOCKED_FLAGS)
            self._index = _open_lengthened_index(Path(f"{file}-shm"))
            self._file = os.open(file, os.O_RDONLY)
        except BaseException as error:
            lock.release()
            if isinstance(error, apsw.Error | OSError):
                raise _refusal(file, error) from error
            raise

    def _write_birth(self) -> None:
        """Store the time of birth of the database file, if the file system records one.

        A copied file has another time of birth: the next start then recognizes the copy.
        """
        if self.folder is None:
            return
        birth = self._runtime.files.birth_of(self.folder / DATABASE_FILE)
        if birth is not None and [(birth,)] != self.rows(self.writer, READ_META, (FILE_BIRTH,)):
            self.writer.execute(WRITE_META, (FILE_BIRTH, birth))

    def _meta(self, name: str, default: int | str) -> int | str:
        """Return a value of the table ``meta``.

        A missing one is stored as ``default`` and returned.
        """
        found = self.rows(self.writer, READ_META, (name,))
        if found:
            value: Any = found[0][0]
            return value if isinstance(value, int) else str(value)
        self.writer.execute("INSERT INTO meta VALUES (?, ?)", (name, default))
        return default


def _refusal(file: Path, error: apsw.Error | OSError) -> StoreError:
    """Return the StoreError to raise for a database that cannot be opened."""
    if isinstance(error, OSError):
        return StoreError(f"{error.filename} cannot be opened: {error.strerror}", file.parent)
    if is_damage(error):
        return damaged(file, error)
    if isinstance(error, apsw.FullError):
        return StoreError(f"{file}: the disk is full", file.parent)
    return StoreError(f"{file} cannot be opened: {error}", file.parent)


def _open_lengthened_index(index: Path) -> int:
    """Lengthen the index of the log (the -shm file) ahead of SQLite; return its file descriptor.

    SQLite lengthens it after a transaction is on the disk. On a full disk the outcome of that
    transaction would be unknown, and the store would stop. When lengthening fails, that is only
    logged.
    """
    descriptor = os.open(index, os.O_RDWR)
    try:
        os.posix_fallocate(descriptor, 0, _INDEX_BYTES)
    except OSError as error:
        _LOG.info("no room made in %s: %s", index, error.strerror)
    return descriptor


def schema() -> str:
    """Return the SQL statements that create the present schema."""
    return Path(__file__).with_name("schema.sql").read_text("utf-8")


class _EmptyDatabase(threading.local):
    """An empty database in memory with the present schema, from which others are copied.

    Copying its pages takes an eighth of the time of the statements of the schema. Each thread has
    its own: two threads cannot read one connection at the same moment. Nor may a forked child use
    one that another thread was reading at the fork.
    """

    def __init__(self) -> None:
        """Create the empty database of the present thread, at its first use there."""
        self.connection = apsw.Connection(":memory:")
        self.connection.execute(schema())


_EMPTY = _EmptyDatabase()


def _memory_connection() -> apsw.Connection:
    """Return a connection to a new database in memory with the present schema."""
    connection = apsw.Connection(":memory:", statementcachesize=200)
    connection.execute("PRAGMA journal_mode = MEMORY")
    with connection.backup("main", _EMPTY.connection, "main") as copying:
        copying.step()
    report_lost_contents(connection)
    return connection


def _to_version_11(writer: apsw.Connection) -> None:
    """Add the shared contents of publications to a database of version 10.

    Older messages keep their contents in their rows.
    """
    writer.execute("ALTER TABLE message ADD COLUMN content INTEGER")
    for statement in _statements(*_NEW_IN_11):
        writer.execute(statement)


def _to_version_12(writer: apsw.Connection) -> None:
    """Rename the column ``met_by`` of the ledger to ``detected_by``, as in a lake."""
    writer.execute("ALTER TABLE ledger RENAME COLUMN met_by TO detected_by")


def _statements(*words: str) -> Iterator[str]:
    """Yield those SQL statements of the present schema that contain one of these words."""
    without_comments = "\n".join(line.split("--")[0] for line in schema().splitlines())
    for statement in without_comments.split(";"):
        if any(word in statement for word in words):
            yield statement


#: version -> what brings a database from the version before to it, in the caller's transaction.
#: A database that is older than all of them is refused.
MIGRATIONS: dict[int, Callable[[apsw.Connection], None]] = {
    11: _to_version_11,
    12: _to_version_12,
}
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
