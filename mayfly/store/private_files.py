"""Files that only the user of the queue manager may read: made so, and tightened where need be.

Message bodies, tokens and names stand in the folder of a queue manager. Modes are given when a file
or folder is made; the umask of the process, which other threads use, is never changed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from pathlib import Path

FILE_MODE, FOLDER_MODE = 0o600, 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LOG = logging.getLogger("mayfly.store")


def make_file(file: Path) -> None:
    """Make an empty file of mode 0600 unless there is one; raises OSError.

    SQLite gives the write-ahead log and its index the mode of the database.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))


def write_whole(file: Path, text: str) -> None:
    """Put a file of mode 0600 in the place of another; a reader finds the old or the new one.

    It is on the disk when the call returns. Raises OSError; the old file then stays.
    """
    new = file.with_name(f"{file.name}.new")
    # One that a kill has left may have another mode.
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE), "wb") as output:
        output.write(text.encode())
    put_in_place(new, file)


def free_bytes(folder: Path) -> int:
    """Return how many bytes the disk of a folder has free for its user."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def put_in_place(new: Path, file: Path) -> None:
    """Let a whole new file take the place of another at once, on the disk; raises OSError."""
    _sync(new, os.O_RDONLY)
    new.replace(file)
    _sync(file.parent, os.O_RDONLY | os.O_DIRECTORY)


def tighten(folder: Path, descriptor: int, file_prefix: str) -> None:
    """Take the rights of group and others from an open folder, and from files that begin so.

    Each change is logged as a warning. A folder with the sticky bit, as /tmp, belongs to everybody:
    it stays as it is, and its files alone are tightened. What belongs to another user stays too.
    """
    found = os.fstat(descriptor)
    if found.st_mode & _OTHERS and not found.st_mode & stat.S_ISVTX:
        _take(folder, found)
    for name in os.listdir(descriptor):
        if name.startswith(file_prefix):
            # By name: to open the database and close it again would drop the locks of SQLite.
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) and found.st_mode & _OTHERS:
                _take(folder / name, found)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take(path: Path, found: os.stat_result) -> None:
    old_mode = stat.S_IMODE(found.st_mode)
    mode = old_mode & ~_OTHERS
    try:
        path.chmod(mode)
    except PermissionError:
        _LOG.warning(
            "%s has mode %04o and belongs to user %d: others may read it, and it cannot be changed",
            path,
            old_mode,
            found.st_uid,
        )
    else:
        _LOG.warning("%s had mode %04o, open to others; now it has %04o", path, old_mode, mode)
