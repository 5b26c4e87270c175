"""Files of a store, beside those that SQLite itself opens; all have mode 0600.

A simulator passes in a subclass whose files tear and vanish, together with a file system for SQLite
(``Runtime(vfs=, files=)``): the store also reads and extends SQLite's log. Locks on folders and
memory-mapped files always use the machine's.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import BinaryIO

FILE_MODE, FOLDER_MODE = 0o600, 0o700
_PIECE_BYTES = 64 * 1024
#: ext2 to ext4, XFS, Btrfs, tmpfs, ZFS, F2FS. Not overlayfs: a file gets the inode of its upper
#: layer at the first mount after it was written; nor network file systems and FUSE.
_WITH_BIRTHS = (0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x2FC12FC1, 0xF2F52010)
#: ``struct statx``: mask, inode, birth time; ``struct statfs`` begins with the kind.
_STATX = struct.Struct("=I28xQ40xqI164x")
_STATFS_BYTES = 256
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_AT_FDCWD = -100
_STATX_INO_BTIME = 0x100 | 0x800


class Files:
    """Operations on files of the machine; every method raises OSError on failure."""

    def size_bytes(self, file: Path) -> int | None:
        """Return the length of a file, None when the file does not exist."""
        try:
            return file.stat().st_size
        except FileNotFoundError:
            return None

    def disk_bytes(self, folder: Path) -> int:
        """Return the total size in bytes of the file system that holds a folder."""
        disk = os.statvfs(folder)
        return disk.f_blocks * disk.f_frsize

    def free_bytes(self, folder: Path) -> int:
        """Return how many bytes this user may still write on the file system of a folder."""
        disk = os.statvfs(folder)
        return disk.f_bavail * disk.f_frsize

    def birth_of(self, file: Path) -> str | None:
        """Return what tells a file from each copy of it, also from one that has taken its place.

        It is inode and birth time, which a file keeps when it is written, renamed or moved within
        its file system. None where they are not kept: on other file systems than those of
        ``_WITH_BIRTHS``, and without the system call statx.
        """
        return _birth_of(file)

    def boot_id(self) -> str:
        """Return 32 characters that differ after each start of the machine; empty if unknown.

        While the id is the same, writes of a killed process are still there, synced or not.
        """
        try:
            return _BOOT_ID.read_text("ascii").replace("-", "").strip()
        except FileNotFoundError:
            return ""

    def open(self, file: Path) -> BinaryIO:
        """Open an existing file for reading; raises FileNotFoundError when it does not exist."""
        return file.open("rb")

    def make(self, file: Path) -> None:
        """Create an empty file of mode 0600; an existing file stays unchanged.

        SQLite gives its write-ahead log and its index the mode of the database.
        """
        with contextlib.suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))

    def write_atomically(self, file: Path, content: str | bytes) -> None:
        """Replace or create a file with text or bytes; readers find the old or the new content.

        The new content is on the disk when the call returns. The old file stays when the call
        fails with an OSError.
        """
        new = file.with_name(f"{file.name}.new")
        # A file that a killed process has left may have another mode.
        self.remove(new)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        with os.fdopen(os.open(new, flags, FILE_MODE), "wb") as output:
            output.write(content.encode() if isinstance(content, str) else content)
        self.replace(new, file)

    def replace(self, new: Path, file: Path) -> None:
        """Sync ``new`` to the disk and rename it to ``file``, replacing that atomically."""
        _sync(new, os.O_RDONLY)
        new.replace(file)
        _sync(file.parent, os.O_RDONLY | os.O_DIRECTORY)

    def remove(self, file: Path) -> None:
        """Remove a file; do nothing if it does not exist."""
        file.unlink(missing_ok=True)

    def allocate(self, file: Path, size_bytes: int) -> None:
        """Create or extend a file to ``size_bytes``, with that space reserved on the disk.

        A longer file keeps its length. Raises OSError when the disk is too full; the file is empty
        then.
        """
        descriptor = os.open(file, os.O_CREAT | os.O_WRONLY, FILE_MODE)
        try:
            os.posix_fallocate(descriptor, 0, size_bytes)
        except OSError:
            # Part of the space may have been reserved.
            os.ftruncate(descriptor, 0)
            raise
        finally:
            os.close(descriptor)

    def truncate(self, file: Path, size_bytes: int) -> None:
        """Cut a file to its first ``size_bytes`` bytes, and free the rest of its space."""
        os.truncate(file, size_bytes)

    def append_zeros(self, file: Path, count_bytes: int) -> int:
        """Append ``count_bytes`` zeros to an existing file; return its new length in bytes.

        They are written 64 KB at a time. One large write would become one large piece in the
        kernel's page cache, which slows each later small write by SQLite: a commit of 200 pages
        took 2.5 ms of processor time instead of 1.1 ms.
        """
        zeros = bytes(_PIECE_BYTES)
        with file.open("r+b", buffering=0) as output:
            end = output.seek(0, os.SEEK_END)
            for start in range(0, count_bytes, _PIECE_BYTES):
                end += output.write(zeros[: count_bytes - start])
            return end

    def sync(self, file: Path) -> None:
        """Wait until everything written to a file is on the disk."""
        _sync(file, os.O_RDWR)

    def sync_descriptor(self, descriptor: int) -> None:
        """Wait until everything written to an open file, by any descriptor, is on the disk."""
        os.fdatasync(descriptor)


def _birth_of(file: Path) -> str | None:
    """Return inode and birth time of a file, None where they are not kept; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "statx"):
        return None
    kind = ctypes.create_string_buffer(_STATFS_BYTES)
    facts = ctypes.create_string_buffer(_STATX.size)
    name = os.fsencode(file)
    if libc.statfs(name, kind) or libc.statx(_AT_FDCWD, name, 0, _STATX_INO_BTIME, facts):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(file))
    mask, inode, seconds, nanoseconds = _STATX.unpack(facts.raw)
    is_known = int.from_bytes(kind.raw[: struct.calcsize("l")], sys.byteorder) in _WITH_BIRTHS
    if not is_known or mask & _STATX_INO_BTIME != _STATX_INO_BTIME:
        return None
    return f"{inode} {seconds}.{nanoseconds:09d}"


def _sync(path: Path, flags: int) -> None:
    """Open a file or folder with these flags, and wait until its content is on the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Locks of the kernel on files: each ends with the process that holds it, however that ends


#: ``struct flock`` of a lock on the whole file: type, whence, start, length, pid.
_LOCK = struct.Struct("hhqqi4x")


def locked_file(file: Path, *, empties: bool = True) -> int:
    """Return a descriptor of the file, which is made if needed, and locked.

    ``empties`` truncates the file once it is locked. The lock ends when the descriptor is closed.
    Raises BlockingIOError if another process has locked the file, OSError if it cannot be made.
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
