"""Keeps the write-ahead log short, and room in it ahead of the writer.

A log that grows with each commit makes each sync write the file's new length as well, which takes
two thirds of a sync more than overwriting. SQLite overwrites its log once it has begun it anew;
until then room is made here, for many commits at a time (docs/PERFORMANCE.md).
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import apsw

from mayfly.store.database import Database

_LOG = logging.getLogger("mayfly.store")
#: What is written back while writers are held back takes about 10 ms.
_FEW_PAGES = 500
#: Each pass leaves what was written meanwhile, less each time unless the disk cannot keep up.
_MOST_PASSES = 10
#: A queue manager that commits little needs no room.
_FIRST_ROOM_AT_PAGES = 64
#: Writers are held back for 1 to 2 ms, once in some 300 commits.
_ROOM_PAGES = 1_024
#: Some 80 commits are done while the room is made.
_SPARE_PAGES = 256
_FRAME_BYTES = 4_096 + 24
#: A log that is written back so often grows no more: 4 MB of it are used again and again.
_PAGES_ON_A_FULL_DISK = 1_000


class LogKeeper:
    """Moves the write-ahead log into the database, and lengthens it, beside the commit path.

    A checkpoint beside writers leaves the frames written meanwhile, so the log would grow for ever;
    a second, short one while they are held back lets the next commit begin the log anew.
    """

    #: Pages that staged messages and ids dirty at random places are written back once for many
    #: changes: with 4,000 instead of 16,000 such puts take half as long again.
    PAGES_BEFORE_CHECKPOINT = 16_000

    def __init__(self, database: Database, guard: AbstractContextManager[object]) -> None:
        """Watch the log of the database's writer, whose transactions all run inside ``guard``.

        The checkpoints use a connection of their own.
        """
        writer = database.writer
        self.wal_pages = 0
        self._file = Path(f"{writer.filename}-wal")
        self._wants_room_at_pages = _FIRST_ROOM_AT_PAGES
        self._guard = guard
        self._needed = threading.Event()
        self._stopped = False
        #: The present limit; less than PAGES_BEFORE_CHECKPOINT on a disk with little room.
        self._checkpoint_at_pages = self.PAGES_BEFORE_CHECKPOINT
        self._database = database
        assert database.ballast is not None
        self._ballast = database.ballast
        writer.set_wal_hook(self._committed)
        self._thread = threading.Thread(target=self._run, name="mayfly-log", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the work under way and end the thread."""
        self._stopped = True
        self._needed.set()
        self._thread.join()

    def _committed(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.wal_pages = pages
        if pages >= min(self._wants_room_at_pages, self._checkpoint_at_pages) or (
            pages >= _PAGES_ON_A_FULL_DISK and self._ballast.is_given_up
        ):
            self._needed.set()
        return apsw.SQLITE_OK

    def _run(self) -> None:
        connection = self._database.connect()
        # Before its first read a connection does not know of the log, and checkpoints do nothing.
        connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
        while True:
            self._needed.wait()
            self._needed.clear()
            if self._stopped:
                connection.close()
                return
            with self._guard:
                self._ballast.lay_in()
            self._checkpoint_at_pages = self._limit_pages()
            if self.wal_pages >= self._checkpoint_at_pages:
                self._checkpoint(connection)
            elif self.wal_pages >= self._wants_room_at_pages:
                self._make_room()

    def _limit_pages(self) -> int:
        """Return how long the log may become: the database must have room for what is in it."""
        if self._ballast.is_given_up:
            return _PAGES_ON_A_FULL_DISK
        disk = os.statvfs(self._file.parent)
        half_pages = disk.f_bavail * disk.f_frsize // (2 * _FRAME_BYTES)
        return min(self.PAGES_BEFORE_CHECKPOINT, max(half_pages, _PAGES_ON_A_FULL_DISK))

    def _checkpoint(self, connection: apsw.Connection) -> None:
        try:
            self._write_back(connection)
        except apsw.FullError as error:
            # The log may still have room for puts, and the database will have none for them.
            with self._guard:
                is_given_up = self._ballast.give_up()
            if is_given_up:
                self._checkpoint(connection)
            else:
                _LOG.error("checkpoint failed: %s", error)
        except (apsw.BusyError, apsw.LockedError) as error:
            _LOG.info("checkpoint postponed: %s", error)
        except apsw.Error as error:
            # The log keeps what the database could not take; commits go on or fail alone.
            _LOG.error("checkpoint failed: %s", error)

    def _write_back(self, connection: apsw.Connection) -> None:
        self._catch_up(connection)
        with self._guard:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._database.write_identity(connection)

    def _catch_up(self, connection: apsw.Connection) -> None:
        """Write back beside the writers until little is left for when they are held back."""
        for _ in range(_MOST_PASSES):
            _pages, written_back = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            if self.wal_pages - written_back <= _FEW_PAGES:
                return

    def _make_room(self) -> None:
        """Lengthen the log by zeros, which SQLite reads as the end of what was written."""
        if self._ballast.is_given_up:
            self._wants_room_at_pages = self.wal_pages + _ROOM_PAGES
            return
        try:
            with self._file.open("r+b", buffering=0) as log:
                with self._guard:
                    end = log.seek(0, os.SEEK_END)
                    end += log.write(bytes(_ROOM_PAGES * _FRAME_BYTES))
                    self._wants_room_at_pages = end // _FRAME_BYTES - _SPARE_PAGES
                os.fdatasync(log)
        except OSError as error:
            # What the disk cannot take the next commit will tell, to whom it concerns.
            self._wants_room_at_pages = self.wal_pages + _ROOM_PAGES
            _LOG.info("no room made in the log: %s", error)
