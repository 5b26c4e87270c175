"""The lock and the privacy of a queue manager's folder, which is created when missing.

It contains message data, tokens and names, so only its owner may read it. Modes are set when a file
or folder is created; the umask of the process, which other threads use, is never changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import weakref
from pathlib import Path

from mayfly.mqi.errors import FolderInUse, StoreError
from mayfly.runtime.compiling import weakly_held
from mayfly.runtime.files import FOLDER_MODE

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LOG = logging.getLogger("mayfly.store")


def tighten(folder: Path, descriptor: int, file_prefix: str) -> None:
    """Remove the rights of group and others from an open folder, and from its files with a prefix.

    Each change is logged as a warning. A folder with the sticky bit, such as /tmp, is shared by
    users: only its files are changed. Files of another user stay as they are.
    """
    found = os.fstat(descriptor)
    if found.st_mode & _OTHERS and not found.st_mode & stat.S_ISVTX:
        _remove_rights_of_others(folder, found)
    for name in os.listdir(descriptor):
        if name.startswith(file_prefix):
            # By name: to open the database and close it again would drop the locks of SQLite.
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) and found.st_mode & _OTHERS:
                _remove_rights_of_others(folder / name, found)


def _remove_rights_of_others(path: Path, found: os.stat_result) -> None:
    """Remove the rights of group and others from a file or folder.

    The change is logged, or a warning if it is not permitted.
    """
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


@weakly_held
class FolderLock:
    """The exclusive lock of a folder, held by this process but not by its forked children."""

    def __init__(self, folder: Path) -> None:
        """Create the folder with mode 0700 unless it exists, and lock it.

        Raises FolderInUse when another queue manager holds the lock, StoreError when the path is no
        folder or cannot be created or read.
        """
        try:
            folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise StoreError(f"{folder} is not a folder", folder) from None
        except OSError as error:
            raise StoreError(f"{folder} cannot be made: {error.strerror}", folder) from error
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise StoreError(f"{folder} cannot be read: {error.strerror}", folder) from error
        # The folder itself is locked: the kernel frees it when its holder dies, and a symbolic
        # link leads to the same folder. The database file is never opened beside SQLite, for
        # closing it would drop SQLite's own locks.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise FolderInUse(f"{folder} is in use by another queue manager", folder) from None
        self._folder = folder
        self._descriptor: int | None = descriptor
        _HELD.add(self)

    def make_private(self, file_prefix: str) -> None:
        """Remove the rights of group and others from the folder and its files with a prefix."""
        assert self._descriptor is not None
        tighten(self._folder, self._descriptor, file_prefix)

    def is_of(self, folder: Path) -> bool:
        """Return True if the lock is held, and is that of ``folder``."""
        if self._descriptor is None or not folder.exists():
            return False
        return os.path.samestat(os.fstat(self._descriptor), folder.stat())

    def release(self) -> None:
        """Release the lock; a second call does nothing.

        A forked child only closes the shared descriptor, and the parent keeps the lock.
        """
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def holder_of(folder: Path) -> int | None:
    """Return the id of the process that holds the lock of a folder.

    Returns None when no process holds it, or when the operating system does not say; Linux does.
    """
    try:
        place, listed = str(folder.stat().st_ino), Path("/proc/locks").read_text("ascii")
    except OSError:
        return None
    for line in listed.splitlines():
        # "12: FLOCK  ADVISORY  WRITE 4711 fd:01:1048580 0 EOF"
        _number, kind, _mode, _access, process, where, *_range = line.split()
        if kind == "FLOCK" and where.rpartition(":")[2] == place:
            return int(process)
    return None


def is_held_here(folder: Path) -> bool:
    """Return True if this process holds the lock of a folder."""
    return any(lock.is_of(folder) for lock in list(_HELD))


_HELD: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """Close the descriptors of all folder locks in a forked child; the parent keeps the locks."""
    for lock in list(_HELD):
        with contextlib.suppress(OSError):
            lock.release()


os.register_at_fork(after_in_child=_after_fork_in_child)
