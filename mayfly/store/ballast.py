"""Ballast: room on the disk that is kept for the time when it is full.

SQLite needs room also to remove messages: the log grows, and the ledger. On a full disk the ballast
is given up, so that messages can be got and discarded. Transactions that add messages are refused
until the disk has room for it again.
"""

from __future__ import annotations

import logging
from pathlib import Path

from mayfly.runtime import Files

BALLAST_FILE = "ballast"
BALLAST_BYTES = 16 * 2**20
#: The part of a small disk that it takes instead.
_PART_OF_DISK = 8
_PART_BYTES = 2**20
_LOG = logging.getLogger("mayfly.store")


class Ballast:
    """The ballast of one folder; changed while no transaction runs.

    A file that is shorter than it should be has been given up, also by an earlier opening.
    """

    def __init__(self, folder: Path, files: Files) -> None:
        """Look at what is there; a folder in which little was ever written has none yet."""
        self._file, self._files = folder / BALLAST_FILE, files
        self.size_bytes = min(BALLAST_BYTES, files.disk_bytes(folder) // _PART_OF_DISK)
        size = files.size_bytes(self._file)
        #: Whether there is something to give up.
        self.is_there = size is not None and size >= self.size_bytes
        self.is_given_up = size is not None and not self.is_there

    def damage(self) -> str | None:
        """Return what is wrong with the file, None for nothing; raises OSError.

        It holds nothing but zeros.
        """
        if not self.is_there:
            return None
        with self._files.open(self._file) as ballast:
            while part := ballast.read(_PART_BYTES):
                if part.strip(b"\0"):
                    return f"{self._file} is damaged: remove it, and it is made anew"
        return None

    def lay_in(self, owed_bytes: int) -> None:
        """Make the ballast unless it is there or given up; a disk without room for it has none.

        ``owed_bytes`` is what the disk must keep free besides.
        """
        if not self.is_there and not self.is_given_up:
            self.is_there = self._allocate(owed_bytes)

    def give_up(self) -> bool:
        """Free its room; False when there is none to free."""
        if not self.is_there:
            return False
        try:
            self._files.cut(self._file, 0)
        except OSError as error:
            _LOG.error("%s cannot be given up: %s", self._file, error.strerror)
            return False
        self.is_there, self.is_given_up = False, True
        _LOG.critical(
            "the disk of %s is full: messages can be got and discarded, and puts are refused until "
            "the disk has %d bytes free or the database %d",
            self._file.parent,
            2 * self.size_bytes,
            self.size_bytes,
        )
        return True

    def comes_back(self, owed_bytes: int) -> bool:
        """Make the ballast again if there is room besides what is owed; True if it is there."""
        if not self._allocate(owed_bytes):
            return False
        self.is_there, self.is_given_up = True, False
        _LOG.warning("the disk of %s has room again: puts are taken", self._file.parent)
        return True

    def has_room(self, owed_bytes: int) -> bool:
        """Return True if it could be made: with less to spare it would come and go by messages."""
        return self._files.free_bytes(self._file.parent) - owed_bytes >= 2 * self.size_bytes

    def _allocate(self, owed_bytes: int) -> bool:
        if not self.has_room(owed_bytes):
            return False
        try:
            self._files.allocate(self._file, self.size_bytes)
        except OSError as error:
            _LOG.info("no ballast: %s", error)
            return False
        return True
