"""Restoring and compacting the folder of a queue manager that is not running."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw

from mayfly.mqi.errors import StoreDamaged, StoreError
from mayfly.runtime import Files, Runtime
from mayfly.store.damage import (
    IDENTITY_FILE,
    checksum_vfs,
    damaged,
    identity_of,
    is_available,
    is_damage,
    protect,
    write_identity,
)
from mayfly.store.database import (
    DATABASE_FILE,
    FILE_BIRTH,
    WRITE_META,
    Database,
    connect,
    write_value,
)
from mayfly.store.followers import Followers
from mayfly.store.replica.owner import Replica
from mayfly.store.write_ahead_log import PAGE_BYTES, WriteAheadLog

_NEW_SUFFIX = ".compact"


class CompactedDatabase(NamedTuple):
    """Size of the database file before and after, and whether its pages now have checksums."""

    bytes_before: int
    bytes_after: int
    is_protected: bool


def accept_restored(folder: Path, manager_name: str) -> None:
    """Accept a database that was restored or copied, by writing anew what says whose it is.

    It may hold less than identity.json says, and its file may be a copy. Followers begin anew.
    Raises StoreError for the folder of another queue manager and for one without a database;
    FolderInUse, NewerSchema, StoreDamaged.
    """
    with _opened(folder, manager_name, accepts_restored=True) as database:
        try:
            write_identity(folder, identity_of(database.writer), Files())
            Followers(folder, Runtime()).lose_all()
        except OSError as error:
            raise StoreError(f"{folder / IDENTITY_FILE}: {error.strerror}", folder) from error


def make_own(folder: Path, manager_name: str, *, is_new_instance: bool) -> str:
    """Make a database that was written from a backup that of its folder; return its instance.

    A new instance gets a new random id, by which ledgers and lakes tell it from the one before.
    All pages are read and compared with each other first. Raises StoreError for the backup of
    another queue manager; StoreDamaged, NewerSchema.
    """
    with _opened(folder, manager_name, accepts_restored=True) as database:
        problems = [text for (text,) in database.writer.execute("PRAGMA integrity_check(10)")]
        if problems != ["ok"]:
            raise StoreDamaged(f"{folder / DATABASE_FILE} is damaged: {problems[0]}", folder)
        if is_new_instance:
            new = Runtime().random_bytes(16).hex()
            database.writer.execute(*write_value("instance_id", new))
        identity = identity_of(database.writer)
        write_identity(folder, identity, Files())
    return identity.instance


def compact(folder: Path, manager_name: str) -> CompactedDatabase:
    """Replace the database by a copy without free pages and with checksums in its pages.

    Returns the size of the file before and after, and whether its pages now have checksums. Until
    the replacement nothing has changed; the folder needs space for a second database. Raises
    StoreError when it has too little, or is the folder of another queue manager; FolderInUse,
    NewerSchema, StoreDamaged.
    """
    file, files = folder / DATABASE_FILE, Files()
    with _opened(folder, manager_name) as database:
        database.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        bytes_before = file.stat().st_size
        free_bytes = files.free_bytes(folder)
        if free_bytes < bytes_before:
            raise StoreError(
                f"{file} has {bytes_before} bytes, and only {free_bytes} are free for its copy",
                folder,
            )
        new = file.with_name(file.name + _NEW_SUFFIX)
        try:
            is_protected = _copy(file, new)
            bytes_after = new.stat().st_size
            log = folder / f"{DATABASE_FILE}-wal"
            # SQLite applies a log to any database with its name.
            assert not log.stat().st_size, f"{log} was emptied just now"
            files.replace(new, file)
            log.unlink()
            (folder / f"{DATABASE_FILE}-shm").unlink()
            Followers(folder, Runtime()).lose_all()
        finally:
            new.unlink(missing_ok=True)
        identity = identity_of(database.writer)
        write_identity(folder, identity._replace(is_protected=is_protected), files)
    return CompactedDatabase(bytes_before, bytes_after, is_protected)


def compact_replicated(folder: Path, manager_name: str, replica: Replica) -> CompactedDatabase:
    """Give free pages of a database with a replica back; its pages go to the log as one commit.

    Pages get no checksums that have none. The folder needs space for the database twice. A kill
    before the end changes nothing: the next opening discards what is not in the log. ``replica`` is
    closed. Raises StoreError as :func:`compact`, and ReplicaError, also when another process owns
    the queue manager.
    """
    file, runtime = folder / DATABASE_FILE, Runtime()
    try:
        with _opened(folder, manager_name, prepare=replica.prepare) as database:
            writer, guard = database.writer, runtime.lock("transaction")
            log = WriteAheadLog(writer, guard, Followers(folder, runtime), runtime)
            replica.begin(
                database.instance_id, log, database.file, lambda: int(writer.pragma("page_count"))
            )
            bytes_before = int(writer.pragma("page_count")) * PAGE_BYTES
            free_bytes = runtime.files.free_bytes(folder)
            if free_bytes < 2 * bytes_before:
                raise StoreError(
                    f"{file} has {bytes_before} bytes, and only {free_bytes} are free: twice as "
                    "many are needed",
                    folder,
                )
            # SQLite's copy is as large as the database: it belongs neither into memory nor /tmp.
            writer.pragma("temp_store_directory", str(folder))
            writer.pragma("temp_store", "FILE")
            writer.execute("VACUUM")
            with guard:
                replica.append(log)
                log.write_back()
            identity = identity_of(writer)
            write_identity(folder, identity, runtime.files)
    finally:
        replica.close()
    return CompactedDatabase(bytes_before, file.stat().st_size, identity.is_protected)


def _copy(file: Path, new: Path) -> bool:
    """Write a compact copy of a database file and sync it.

    Returns whether its pages have checksums.
    """
    # One that a kill has left.
    new.unlink(missing_ok=True)
    Files().make(new)
    is_protected = is_available()
    vfs = checksum_vfs(None, file.parent) if is_protected else None
    source = connect(file, vfs)
    try:
        if is_protected:
            protect(source)
        source.execute("VACUUM INTO ?", (str(new),))
    finally:
        source.close()
    birth = Files().birth_of(new)
    if birth is not None:
        with contextlib.closing(connect(new, vfs)) as copy:
            copy.execute(WRITE_META, (FILE_BIRTH, birth))
    return is_protected


@contextmanager
def _opened(
    folder: Path,
    manager_name: str,
    *,
    accepts_restored: bool = False,
    prepare: Callable[[Path], None] | None = None,
) -> Iterator[Database]:
    """Open the database of a stopped queue manager for a block, and close it after the block.

    With ``accepts_restored`` the database may hold less than identity.json says, or be a copy.
    ``prepare`` is that of a replica; without it a folder with a replica is refused.
    Errors of SQLite in the block are raised as StoreError, damage as StoreDamaged.
    """
    database = Database(folder, accepts_restored=accepts_restored, prepare=prepare)
    is_done = False
    try:
        database.bind_to_manager(manager_name)
        yield database
        is_done = True
    except apsw.FullError as error:
        raise StoreError(f"{folder}: the disk is full; nothing has changed", folder) from error
    except apsw.Error as error:
        if is_damage(error):
            raise damaged(folder / DATABASE_FILE, error) from error
        raise StoreError(f"{folder / DATABASE_FILE}: {error}", folder) from error
    finally:
        # Commits that the log of a replica lacks stay in the write-ahead log, to be discarded.
        database.close(keeps_log=prepare is not None and not is_done)
