"""Files that only the user of the queue manager may read: tightened where need be.

Message bodies, tokens and names stand in the folder of a queue manager. Modes are given when a file
or folder is made; the umask of the process, which other threads use, is never changed.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LOG = logging.getLogger("mayfly.store")


def tighten(folder: Path, descriptor: int, file_prefix: str) -> None:
    """Take the rights of group and others from an open folder, and from files that begin so.

    Each change is logged as a warning. A folder with the sticky bit, as /tmp, is shared by users:
    it stays as it is, and only its files are tightened. Files of another user stay as they are.
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
