"""Checksums of pages: a page that has changed on the disk is damage, never a wrong answer.

SQLite's checksum VFS (https://sqlite.org/cksumvfs.html), an extension that comes with apsw, keeps a
checksum in the last 8 bytes of each page. It is written when a page goes from the write-ahead log
into the database, and verified when the page is read from there; frames of the log have checksums
of their own.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path

import apsw

from mayfly.mqi.errors import StoreError
from mayfly.runtime import Files

_EXTENSION, _VFS = "cksumvfs", "cksmvfs"
_RESERVED_BYTES = 8
#: Where a database says how many bytes of each page are reserved.
_RESERVED_AT = 20
_LOADING = threading.Lock()
#: Name of the VFS under the checksums, once they are loaded.
_lies_over = [""]


def is_available() -> bool:
    """Return True if this installation of apsw has the extension."""
    return _kind_of(_EXTENSION) == "extension"


@cache
def _kind_of(name: str) -> str | None:
    """Return what apsw says of one of its extras; apsw reads a file for each answer."""
    # It imports much of the standard library, which a queue manager in memory does without.
    from apsw import sqlite_extra

    return sqlite_extra.has(name)


def is_protected(database: Path, files: Files) -> bool:
    """Return True if the pages of a database file have checksums; raises OSError.

    Only for a database that this process has not open: closing a file drops SQLite's locks on it.
    """
    with files.open(database) as file:
        header = file.read(_RESERVED_AT + 1)
    return header[_RESERVED_AT:] == bytes((_RESERVED_BYTES,))


def checksum_vfs(vfs: str | None, folder: Path) -> str:
    """Return the name of the VFS to open a protected database with, and load it unless it is.

    It lies over ``vfs``, None for the default of the process, and over one file system in a
    process: a folder for which that is another one is refused with StoreError. Connections of other
    code in this process keep the VFS that they have by default.
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
    """Load the extension, which takes what is the default for what lies below it."""
    from apsw import sqlite_extra

    apsw.set_default_vfs(vfs)
    loading = apsw.Connection(":memory:")
    try:
        sqlite_extra.load(loading, _EXTENSION)
    finally:
        loading.close()
    # The extension makes itself the default; the caller says what is.
    _lies_over[:] = [vfs]


def is_checked(connection: apsw.Connection) -> bool:
    """Return True if a connection verifies the checksums of the pages that it reads."""
    return connection.open_vfs == _VFS


def protect(connection: apsw.Connection) -> None:
    """Give the pages of an empty database room for checksums, or those of its next VACUUM."""
    connection.reserve_bytes(reserve=_RESERVED_BYTES)
