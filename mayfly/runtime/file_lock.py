"""Locks of the kernel on files: each ends with the process that holds it, however that ends."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from mayfly.runtime.files import FILE_MODE

#: ``struct flock`` of a lock on the whole file: type, whence, start, length, pid.
_LOCK = struct.Struct("hhqqi4x")


def locked_file(file: Path, *, empties: bool = True) -> int:
    """Return a descriptor of the file, which is made if needed, locked and, if wished, emptied.

    The lock ends when the descriptor is closed. Raises BlockingIOError if another process has
    locked the file, OSError if it cannot be made.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, FILE_MODE)
    try:
        lock = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
        if not file.exists() or not os.path.samestat(file.stat(), os.fstat(descriptor)):
            # The process before has removed it between our opening and our lock.
            raise BlockingIOError
        if empties:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_locked(file: Path) -> bool:
    """Return True while a process has the file locked, False also if there is no file.

    Raises OSError if the file cannot be opened.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        # Only asks: a lock of our own, however short, would keep another process from starting.
        asked = _LOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        kind, *_ = _LOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked))
    finally:
        os.close(descriptor)
    return bool(kind != fcntl.F_UNLCK)
