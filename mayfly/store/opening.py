"""Opens a database on disk: checked before anything is written, then brought up to date.

Damage is never written over: until everything is checked, closing leaves the write-ahead log as it
is, which SQLite would otherwise write back, or delete where it takes it for empty.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import apsw

from mayfly.mqi.errors import NewerSchema, StoreDamaged, StoreError
from mayfly.runtime import Files, Runtime
from mayfly.store.checksums import (
    checksum_vfs,
    is_available,
    is_checked,
    is_protected,
    protect,
)
from mayfly.store.contents import report_lost_contents
from mayfly.store.damage import rows_of
from mayfly.store.identity import (
    IDENTITY_FILE,
    Identity,
    check_identity,
    identity_of,
    read_identity,
)
from mayfly.store.log_check import check_end, check_header
from mayfly.store.migrations import (
    MIGRATION_BYTES,
    MIGRATIONS,
    OLDEST_VERSION,
    SCHEMA_VERSION,
    schema,
)

_BUSY_MS = 10_000
DEFAULT_FLAGS: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
#: Of a connection that is used under a lock of ours alone: SQLite takes none of its own,
#: which it would take and free twice for each column of a row. A row is read in 0.38 µs, not 0.55.
LOCKED_FLAGS: Final = DEFAULT_FLAGS | apsw.SQLITE_OPEN_NOMUTEX
_LOG = logging.getLogger("mayfly.store")
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    # Checkpoints run beside the commit path (log_keeper.py).
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
)


class NoRoomToMigrate(StoreError):
    """The disk has too little room to bring a database to the present schema."""

    def __init__(self, message: str, folder: Path, missing_bytes: int) -> None:
        """Say how many bytes are missing."""
        super().__init__(message, folder)
        self.missing_bytes = missing_bytes


def connect(file: Path, vfs: str | None, *, flags: int = DEFAULT_FLAGS) -> apsw.Connection:
    """Return a connection to a database file, made when missing; None is the default VFS."""
    connection = apsw.Connection(str(file), flags=flags, vfs=vfs, statementcachesize=200)
    connection.set_busy_timeout(_BUSY_MS)
    report_lost_contents(connection)
    return connection


def open_writer(file: Path, runtime: Runtime, *, accepts_older: bool) -> apsw.Connection:
    """Return the connection that writes; ``accepts_older`` asks nothing of the database's age.

    ``runtime`` has the file system below SQLite and its checksums, and the files beside it.

    Raises StoreDamaged, NewerSchema, StoreError for a folder without what it needs, errors of apsw
    and OSError.
    """
    folder, log, files = file.parent, Path(f"{file}-wal"), runtime.files
    expected = None if accepts_older else read_identity(folder, files)
    is_new = not files.size_bytes(file)
    if is_new:
        _check_nothing_is_lost(file, files.size_bytes(log), expected, accepts_older=accepts_older)
        files.make(file)
    else:
        check_header(log, files)
    was_cut_off = bool(files.size_bytes(log))
    writer = connect(file, _vfs_of(file, runtime, is_new=is_new))
    try:
        writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
        if not is_new:
            _check(writer, file, files, expected)
        elif is_available():
            protect(writer)
        if was_cut_off:
            _empty_log(writer)
        for pragma in _PRAGMAS:
            writer.execute(pragma)
        _bring_up_to_date(writer, file, files)
        writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, False)
    except BaseException:
        writer.close()
        raise
    return writer


def _check_nothing_is_lost(
    file: Path, log_bytes: int | None, expected: Identity | None, *, accepts_older: bool
) -> None:
    if expected is not None:
        raise StoreDamaged(
            f"{file} is empty, and {IDENTITY_FILE} says that it was not", file.parent
        )
    if log_bytes:
        raise StoreDamaged(f"{file} is empty, and {file.name}-wal is not", file.parent)
    if accepts_older:
        raise StoreError(f"{file} is empty: there is nothing to accept", file.parent)


def _vfs_of(file: Path, runtime: Runtime, *, is_new: bool) -> str | None:
    """Return the VFS for a database; a protected one is never opened without its checksums."""
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
    folder = file.parent
    # The first read lets SQLite read the log; a checkpoint of this mode only says how far it came.
    version = int(rows_of(writer, "PRAGMA user_version")[0][0])
    rows_of(writer, "SELECT count(*) FROM sqlite_schema")
    valid_frames, _written_back = writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    check_end(Path(f"{file}-wal"), files, max(valid_frames, 0))
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
    found = identity_of(writer)
    if found.is_protected and not is_checked(writer):
        # The first page in the log hides that of the file, which says how it must be opened.
        raise StoreDamaged(f"{file} is damaged: its header is none", folder)
    if expected is not None:
        check_identity(folder, expected, found)


def _empty_log(writer: apsw.Connection) -> None:
    """Write back what a crash has left in the log, and begin it anew.

    Else the end of the transaction that was cut off would stay in it, and look like damage after
    another crash (log_check.py).
    """
    # Another program that reads the database is not waited for.
    writer.set_busy_timeout(0)
    try:
        writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except (apsw.FullError, apsw.BusyError) as error:
        # On a full disk messages can be got all the same, which makes room.
        _LOG.warning("the log stays as a crash has left it: %s", error)
    finally:
        writer.set_busy_timeout(_BUSY_MS)


def _bring_up_to_date(writer: apsw.Connection, file: Path, files: Files) -> None:
    """Make the tables of a new database, or bring those of an older one to the present schema.

    One transaction does it: a kill in between changes nothing. Raises NoRoomToMigrate.
    """
    version = int(rows_of(writer, "PRAGMA user_version")[0][0])
    if version == SCHEMA_VERSION:
        return
    if version:
        _check_room(file, files, version)
    with writer:
        if version == 0:
            writer.execute(schema())
        else:
            for step in range(version + 1, SCHEMA_VERSION + 1):
                MIGRATIONS[step](writer)
        writer.pragma("user_version", SCHEMA_VERSION)


def _check_room(file: Path, files: Files, version: int) -> None:
    room_bytes = files.free_bytes(file.parent)
    if room_bytes < MIGRATION_BYTES:
        raise NoRoomToMigrate(
            f"{file} is of schema {version}: to bring it to schema {SCHEMA_VERSION} takes up to "
            f"{MIGRATION_BYTES} bytes, and only {room_bytes} are free; nothing has changed",
            file.parent,
            MIGRATION_BYTES - room_bytes,
        )
