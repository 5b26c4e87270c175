"""Files beside SQLite's, of mode 0600: everything that a store does to files by itself.

A simulator hands in a subclass whose files tear and vanish, together with a file system for SQLite
(``Runtime(vfs=, files=)``): the store reads and lengthens SQLite's log, too. Locks of folders and
mapped files are the machine's.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

FILE_MODE, FOLDER_MODE = 0o600, 0o700
_PIECE_BYTES = 64 * 1024


class Files:
    """The files of the machine; all methods raise OSError."""

    def size_bytes(self, file: Path) -> int | None:
        """Return how long a file is, None when there is none."""
        try:
            return file.stat().st_size
        except FileNotFoundError:
            return None

    def disk_bytes(self, folder: Path) -> int:
        """Return how much the disk of a folder can hold."""
        disk = os.statvfs(folder)
        return disk.f_blocks * disk.f_frsize

    def free_bytes(self, folder: Path) -> int:
        """Return how much the disk of a folder has free for its user; it takes 2 µs."""
        disk = os.statvfs(folder)
        return disk.f_bavail * disk.f_frsize

    def open(self, file: Path) -> BinaryIO:
        """Open a file to read it."""
        return file.open("rb")

    def make(self, file: Path) -> None:
        """Make an empty file unless there is one.

        SQLite gives the write-ahead log and its index the mode of the database.
        """
        with contextlib.suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))

    def write_whole(self, file: Path, text: str) -> None:
        """Put a file in the place of another; a reader finds the old or the new one.

        It is on the disk when the call returns. The old file stays when that fails.
        """
        new = file.with_name(f"{file.name}.new")
        # One that a kill has left may have another mode.
        self.remove(new)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        with os.fdopen(os.open(new, flags, FILE_MODE), "wb") as output:
            output.write(text.encode())
        self.put_in_place(new, file)

    def put_in_place(self, new: Path, file: Path) -> None:
        """Let a whole new file take the place of another at once, on the disk."""
        _sync(new, os.O_RDONLY)
        new.replace(file)
        _sync(file.parent, os.O_RDONLY | os.O_DIRECTORY)

    def remove(self, file: Path) -> None:
        """Remove a file if there is one."""
        file.unlink(missing_ok=True)

    def allocate(self, file: Path, size_bytes: int) -> None:
        """Make a file so long, with room on the disk; without that room it becomes empty."""
        descriptor = os.open(file, os.O_CREAT | os.O_WRONLY, FILE_MODE)
        try:
            os.posix_fallocate(descriptor, 0, size_bytes)
        except OSError:
            # A part of it may have been taken.
            os.ftruncate(descriptor, 0)
            raise
        finally:
            os.close(descriptor)

    def cut(self, file: Path, size_bytes: int) -> None:
        """Cut a file off, and free its room."""
        os.truncate(file, size_bytes)

    def lengthen(self, file: Path, count_bytes: int) -> int:
        """Write zeros behind the end of a file; return how long it is now.

        They are written 64 KB at a time. Written at one go they would stand in the kernel's memory
        as one piece, all of which it walks through for each small write of SQLite's into it: a
        commit of 200 pages took 2.5 ms of the processor, and takes 1.1 ms so.
        """
        zeros = bytes(_PIECE_BYTES)
        with file.open("r+b", buffering=0) as output:
            end = output.seek(0, os.SEEK_END)
            for start in range(0, count_bytes, _PIECE_BYTES):
                end += output.write(zeros[: count_bytes - start])
            return end

    def sync(self, file: Path) -> None:
        """Bring what was written to a file to the disk."""
        _sync(file, os.O_RDWR)

    def sync_open(self, descriptor: int) -> None:
        """Bring what was written to a file that stays open to the disk, by whomever it was."""
        os.fdatasync(descriptor)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
