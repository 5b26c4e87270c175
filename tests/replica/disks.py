"""Disks without room."""

import os
from pathlib import Path


def filled(disk: Path) -> Path:
    """Take all room of a file system by one file, and return it."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        found = os.statvfs(disk)
        step_bytes, size_bytes = found.f_blocks * found.f_frsize, 0
        # Others write meanwhile, so nobody knows how much there is.
        while step_bytes >= found.f_frsize:
            try:
                os.posix_fallocate(file.fileno(), size_bytes, step_bytes)
            except OSError:
                step_bytes //= 2
            else:
                size_bytes += step_bytes
    return filler
