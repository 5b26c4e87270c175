"""Disk space kept for work that adds no messages: gets, discards, releases, definitions.

SQLite needs space also to delete messages: the log grows, and the ledger. So a file of zeros, the
ballast, is kept for the time when the disk is full. It is then cut to nothing, and transactions
that add messages are refused until the disk has space for it again.

The invariant: when a put is accepted, the disk has space to write the whole log back, and for the
ballast. A put that would break it is refused, and the ballast is given up. A transaction that ends
messages then has at least half of the ballast for its frames of the log. The committing thread
itself checks the space: another thread may come too late on a busy machine.
"""

from __future__ import annotations

import logging
from pathlib import Path

import apsw

from mayfly.mqi.errors import mq_error
from mayfly.mqi.reasons import MQRC_STORAGE_MEDIUM_FULL
from mayfly.runtime import Files
from mayfly.store.units import Unit
from mayfly.store.write_ahead_log import FRAME_BYTES, PAGE_BYTES, WriteAheadLog

BALLAST_FILE = "ballast"
BALLAST_BYTES = 16 * 2**20
#: The part of a small disk that it takes instead.
_PART_OF_DISK = 8
#: Read at once; it fits into the cache of a processor.
_PART_BYTES = 2**16
_LOG = logging.getLogger("mayfly.store")


class Ballast:
    """The ballast file of one folder: zeros that occupy disk space, freed when the disk is full.

    Call it while no transaction runs. ``is_there`` is True while it can be given up. A file that is
    shorter than it should be has been given up, by this opening of the store or an earlier one.
    """

    def __init__(self, folder: Path, files: Files) -> None:
        """Look for the ballast file, without creating it.

        A folder to which little was ever written has none.
        """
        self._file, self._files = folder / BALLAST_FILE, files
        self.size_bytes = min(BALLAST_BYTES, files.disk_bytes(folder) // _PART_OF_DISK)
        size = files.size_bytes(self._file)
        #: Whether there is something to give up.
        self.is_there = size is not None and size >= self.size_bytes
        self.is_given_up = size is not None and not self.is_there

    def damage(self) -> str | None:
        """Return a text if a byte of the ballast file is not zero.

        None if all is well or without a file. Raises OSError.
        """
        if not self.is_there:
            return None
        # Stripping the zeros would take twenty times as long.
        zeros = bytes(_PART_BYTES)
        with self._files.open(self._file) as ballast:
            while part := ballast.read(_PART_BYTES):
                if part != zeros[: len(part)]:
                    return f"{self._file} is damaged: remove it, and it is made anew"
        return None

    def create(self, owed_bytes: int) -> None:
        """Create the ballast file, zeros that reserve disk space, unless it exists or was given up.

        A disk without space for it gets none. ``owed_bytes`` more must stay free, for the database
        when the log is written back.
        """
        if not self.is_there and not self.is_given_up:
            self.is_there = self._allocate(owed_bytes)

    def give_up(self) -> bool:
        """Cut the ballast file to nothing, which frees its disk space.

        Returns False if nothing could be freed.
        """
        if not self.is_there:
            return False
        try:
            self._files.truncate(self._file, 0)
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

    def restore(self, owed_bytes: int) -> bool:
        """Create the ballast file again after it was given up.

        Returns False if the disk has no space for it. ``owed_bytes`` more must stay free, for the
        database when the log is written back.
        """
        if not self._allocate(owed_bytes):
            return False
        self.is_there, self.is_given_up = True, False
        _LOG.warning("the disk of %s has room again: puts are taken", self._file.parent)
        return True

    def has_capacity(self, owed_bytes: int) -> bool:
        """Return True if the disk has twice the size of the ballast free, beyond ``owed_bytes``.

        The ballast is a file that reserves disk space. ``owed_bytes`` are for the database when the
        log is written back. With less, every few messages would create the file and give it up
        again.
        """
        return self._files.free_bytes(self._file.parent) - owed_bytes >= 2 * self.size_bytes

    def _allocate(self, owed_bytes: int) -> bool:
        """Write the ballast file; return False if the disk has no space for it.

        ``owed_bytes`` more must stay free, for the database when the log is written back.
        """
        if not self.has_capacity(owed_bytes):
            return False
        try:
            self._files.allocate(self._file, self.size_bytes)
        except OSError as error:
            _LOG.info("no ballast: %s", error)
            return False
        return True


# Puts are refused on a disk that is nearly full


#: A put is accepted while the disk has this space to spare: 256 frames, in log and database.
_LEAST_BYTES = 2 * 256 * FRAME_BYTES
#: Further pages in the log after which free space is read again: other programs use the disk.
_LOOK_EVERY_PAGES = 1_024
#: No transaction adds more than half of this: its data would not fit into memory.
_WIDE_BYTES = 2**33


class DiskSpace:
    """Refuses puts on a disk that is nearly full.

    Only the committing thread uses it, with its guard held.
    """

    def __init__(self, writer: apsw.Connection, log: WriteAheadLog, ballast: Ballast) -> None:
        """Read the free space at the first transaction that adds messages, through ``log``.

        ``writer`` is the connection that commits. ``ballast`` is the file that reserves disk space.
        """
        self._writer, self._log, self._ballast = writer, log, ballast
        self._last_pages = self._look_at_pages = 0
        #: How many pages the database may have after a transaction that adds messages; None: any
        #: number.
        self.max_pages: int | None = None

    def refuse_growth(self, batch: list[Unit]) -> list[Unit]:
        """Fail the units that add messages if the disk has no space for them; return the others.

        The failed units have MQRC_STORAGE_MEDIUM_FULL as their error. With enough space all units
        are returned. Call it before the transaction begins.
        """
        pages, last_pages, ballast = self._log.pages, self._last_pages, self._ballast
        self._last_pages = pages
        if ballast.is_there:
            is_known = last_pages <= pages < self._look_at_pages
        else:
            # Without a ballast gets have no guarantee, so the disk may become full.
            is_known = not ballast.is_given_up
        if is_known or not any(unit.is_growing() for unit in batch) or self._has_capacity():
            return batch
        self._look_at_pages = 0
        return without_growth(batch)

    def check_size(self, batch: list[Unit]) -> None:
        """Raise apsw.FullError if puts make the database larger than ``max_pages``.

        Call it before COMMIT. Such puts would fit into the log, but not into the database when the
        log is written back.
        """
        is_larger = int(self._writer.pragma("page_count")) > (self.max_pages or 0)
        if is_larger and any(unit.is_growing() for unit in batch):
            raise apsw.FullError("no room for the transaction in the database")

    def units_to_retry(self, batch: list[Unit]) -> list[Unit]:
        """Return the units to run again after :meth:`free_space`.

        If the ballast file, which reserves disk space, was given up, units that add messages fail
        with MQRC_STORAGE_MEDIUM_FULL instead.
        """
        return without_growth(batch) if self._ballast.is_given_up else batch

    def free_space(self) -> bool:
        """Give up the ballast file and write the log back; return False if neither has freed space.

        Call it after a transaction that found the disk full was rolled back.
        """
        self._look_at_pages, self.max_pages = 0, None
        # The thread that writes the log back has to read the free space again.
        self._log.notify_at_pages = 0
        is_given_up = self._ballast.give_up()
        return self._write_back() or is_given_up

    def _has_capacity(self) -> bool:
        """Return True if the disk has space for puts.

        Else give up the ballast file, which reserves disk space, so that gets have some.
        """
        ballast = self._ballast
        if not (
            not ballast.is_given_up
            or ballast.restore(self._log.owed_bytes())
            or self._has_free_pages(ballast.size_bytes)
        ):
            return False
        least_bytes = _LEAST_BYTES + (ballast.size_bytes // 2 if ballast.is_given_up else 0)
        spare_bytes = self._log.spare_bytes()
        if spare_bytes < least_bytes and self._write_back():
            spare_bytes = self._log.spare_bytes()
        if spare_bytes < least_bytes:
            self.free_space()
            return False
        self._plan_next_look(spare_bytes)
        return True

    def _plan_next_look(self, spare_bytes: int) -> None:
        """Set the number of log pages at which the free disk space is read again.

        ``spare_bytes`` are free once the log is written back. Each further page takes space in the
        log and in the database.
        """
        more_pages = max(spare_bytes // (2 * FRAME_BYTES), 0)
        self._last_pages = self._log.pages
        self._look_at_pages = self._log.pages + min(more_pages, _LOOK_EVERY_PAGES)
        is_wide = spare_bytes >= _WIDE_BYTES
        present_pages = int(self._writer.pragma("page_count"))
        self.max_pages = None if is_wide else present_pages + more_pages

    def _has_free_pages(self, size_bytes: int) -> bool:
        """Return True if the free pages of the database file have at least ``size_bytes``."""
        return int(self._writer.pragma("freelist_count")) * PAGE_BYTES >= size_bytes

    def _write_back(self) -> bool:
        """Write the log back into the database.

        Returns False if the disk is full or another process reads the database.
        """
        try:
            return self._log.write_back()
        except apsw.BusyError as error:
            _LOG.info("checkpoint postponed: %s", error)
            return False


def without_growth(batch: list[Unit]) -> list[Unit]:
    """Fail the units that add messages with MQRC_STORAGE_MEDIUM_FULL; return the other units."""
    growing = [unit for unit in batch if unit.is_growing()]
    for unit in growing:
        unit.error = mq_error(MQRC_STORAGE_MEDIUM_FULL, "the disk is full: no puts for now")
    return [unit for unit in batch if unit not in growing]
