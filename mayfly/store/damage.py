"""Damage on the disk: errors of SQLite, checksums of pages, and identity.json.

* SQLite reports damage by some of its errors.
* Pages have checksums, by SQLite's checksum VFS (https://sqlite.org/cksumvfs.html), an extension
  that comes with apsw. It keeps a checksum in the last 8 bytes of each page, written when a page
  goes from the write-ahead log into the database, and verified when the page is read from there.
* ``identity.json`` holds the least that the database of a folder must hold. SQLite opens a database
  that was emptied, or that has lost its log, without an error. The file, written at creation,
  checkpoints and close, distinguishes such a store from a new one. It is not written with each
  commit, which would double the syncs.

The log has checksums of its own: see write_ahead_log.py.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from mayfly.mqi.errors import StoreDamaged, StoreError
from mayfly.runtime import Files


def is_damage(error: apsw.Error) -> bool:
    """Return True for an SQLite error of a malformed database or a page with a wrong checksum."""
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
    """Return all rows of an SQL statement, or the rows that ``read`` takes from its cursor.

    ``bindings`` are the values of its parameters. Raises StoreDamaged for a damaged database, after
    a call of ``on_damage``. Any other apsw.Error is raised as it is.
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
    """Return the StoreDamaged to raise when reading a database file failed with ``error``.

    ``error`` may also be about text or JSON that Mayfly never wrote.
    """
    what = "the checksum of a page is wrong" if isinstance(error, apsw.IOError) else str(error)
    return StoreDamaged(f"{file} is damaged: {what}", file.parent)


# Checksums of pages


EXTENSION, _VFS = "cksumvfs", "cksmvfs"
_RESERVED_BYTES = 8
#: Where a database says how many bytes of each page are reserved.
_RESERVED_AT = 20
_LOADING = threading.Lock()
#: Name of the VFS under the checksums, once they are loaded.
_lies_over = [""]


def is_available() -> bool:
    """Return True if this installation of apsw has the checksum extension."""
    return _kind_of(EXTENSION) == "extension"


@cache
def _kind_of(name: str) -> str | None:
    """Return how apsw ships an SQLite extra, such as ``"extension"``; None if it has none."""
    # It imports much of the standard library, which a queue manager in memory does without.
    from apsw import sqlite_extra

    return sqlite_extra.has(name)


def is_protected(database: Path, files: Files) -> bool:
    """Return True if the pages of a database file have checksums; raises OSError.

    Call it only while this process has the database closed: closing a file drops SQLite's locks on
    it.
    """
    with files.open(database) as file:
        header = file.read(_RESERVED_AT + 1)
    return is_protected_page(header)


def is_protected_page(first_page: bytes) -> bool:
    """Return True if page 1 of a database says that its pages have checksums."""
    return first_page[_RESERVED_AT : _RESERVED_AT + 1] == bytes((_RESERVED_BYTES,))


def checksum_vfs(vfs: str | None, folder: Path) -> str:
    """Return the name of the SQLite VFS that opens databases with checksums; load it at first use.

    It is layered on ``vfs``; None is the default of the process. A process can have it over one
    file system only. Raises StoreError for a folder on another one, and for an unknown ``vfs``.
    Connections of other code in this process keep their default VFS.
    """
    with _LOADING:
        known = apsw.vfs_names()
        if vfs is not None and vfs not in known:
            raise StoreError(f"{folder}: SQLite knows no file system {vfs!r}", folder)
        default = known[0]
        wanted = default if vfs is None else vfs
        if _VFS not in known:
            _load_over(wanted)
            apsw.set_default_vfs(default)
        elif _lies_over[0] != wanted:
            raise StoreError(
                f"{folder}: this process reads its stores through the file system "
                f"{_lies_over[0]!r}; one through {wanted!r} needs a process of its own",
                folder,
            )
    return _VFS


def _load_over(vfs: str) -> None:
    """Load the checksum extension on top of the VFS with this name.

    It becomes the default VFS, which the caller resets.
    """
    from apsw import sqlite_extra

    apsw.set_default_vfs(vfs)
    loading = apsw.Connection(":memory:")
    try:
        sqlite_extra.load(loading, EXTENSION)
    finally:
        loading.close()
    # The extension makes itself the default; the caller says what is.
    _lies_over[:] = [vfs]


def is_checked(connection: apsw.Connection) -> bool:
    """Return True if a connection verifies the checksums of the pages that it reads."""
    return connection.open_vfs == _VFS


def protect(connection: apsw.Connection) -> None:
    """Reserve 8 bytes in each page of a database for checksums.

    An empty database has them at once, another one after its next VACUUM.
    """
    connection.reserve_bytes(reserve=_RESERVED_BYTES)


# identity.json


IDENTITY_FILE = "identity.json"
#: The newest position of the ledger, also when that has been trimmed.
LAST_POSITION = """
SELECT max(coalesce((SELECT max(position) FROM ledger), 0),
    coalesce((SELECT value FROM meta WHERE name = 'last_position'), 0))"""
_MARKS = "SELECT name, value FROM meta WHERE name IN ('instance_id', 'sequence')"


class Identity(NamedTuple):
    """The state of a database as identity.json records it; ledger_position and sequence only grow.

    ``instance`` is the random id of the database, ``schema`` its schema version.
    """

    instance: str
    schema: int
    ledger_position: int
    #: Numbers up to this one may have been given to messages.
    sequence: int
    #: Whether its pages have checksums.
    is_protected: bool


def read_identity(folder: Path, files: Files) -> Identity | None:
    """Return the content of a folder's identity.json, None when the file does not exist.

    Raises StoreDamaged when the file cannot be read or is damaged.
    """
    file = folder / IDENTITY_FILE
    try:
        with files.open(file) as text:
            fields = json.loads(text.read().decode())
        # An older Mayfly has written none.
        checksum = fields.pop("checksum", None)
        identity = Identity(**fields)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise StoreDamaged(f"{file} cannot be read: {error}{_REMEDY}", folder) from error
    kinds = tuple(type(value) for value in identity)
    if kinds != (str, int, int, int, bool):
        raise StoreDamaged(f"{file} holds what nobody writes: {fields}{_REMEDY}", folder)
    if checksum not in (None, _checksum_of(identity)):
        raise StoreDamaged(f"{file} is damaged: its checksum is wrong{_REMEDY}", folder)
    return identity


def write_identity(folder: Path, identity: Identity, files: Files) -> None:
    """Write identity.json into a folder and sync it; raises OSError."""
    fields = identity._asdict() | {"checksum": _checksum_of(identity)}
    files.write_atomically(folder / IDENTITY_FILE, json.dumps(fields, indent=2) + "\n")


def _checksum_of(identity: Identity) -> str:
    """Return the CRC-32 of an Identity as 8 hexadecimal digits."""
    return f"{zlib.crc32(json.dumps(identity).encode()):08x}"


def identity_of(connection: apsw.Connection) -> Identity:
    """Return the Identity of a database as it is now; one without tables has schema 0.

    Raises StoreDamaged when the database cannot be read.
    """
    version = int(rows_of(connection, "PRAGMA user_version")[0][0])
    is_protected = connection.reserve_bytes() > 0
    if not version:
        return Identity("", 0, 0, 0, is_protected)
    meta = dict(rows_of(connection, _MARKS))
    position = int(rows_of(connection, LAST_POSITION)[0][0])
    instance, sequence = str(meta.get("instance_id", "")), int(meta.get("sequence", 0))
    return Identity(instance, version, position, sequence, is_protected)


def check_identity(folder: Path, expected: Identity, found: Identity) -> None:
    """Raise StoreDamaged if a database is not the ``expected`` one, or holds less than that.

    ``found`` is the Identity of the database now, ``expected`` that in identity.json.
    """
    if found.instance != expected.instance and found.schema:
        wrong = f"it is the database of instance {found.instance}, not {expected.instance}"
    elif found.schema < expected.schema:
        wrong = f"its schema is {found.schema}, it was {expected.schema}"
    elif found.ledger_position < expected.ledger_position:
        wrong = f"its ledger ends at {found.ledger_position}, it was {expected.ledger_position}"
    elif found.sequence < expected.sequence:
        wrong = f"its last sequence number is {found.sequence}, it was {expected.sequence}"
    elif expected.is_protected and not found.is_protected:
        wrong = "its pages have no checksums any more"
    else:
        return
    raise StoreDamaged(f"the database is older than {IDENTITY_FILE} says: {wrong}{_REMEDY}", folder)


_REMEDY = "; after a restore on purpose: mayfly verify --accept-restored"
