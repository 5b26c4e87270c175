"""Checkpoints: writes the log back into the database, and lengthens the log file ahead of writers.

A log file that grows with each commit makes each sync write the file's new length as well, which
takes two thirds of a sync more than overwriting. SQLite overwrites its log once it has begun it
anew; until then this module lengthens the file for many commits at a time (docs/PERFORMANCE.md).
"""

from __future__ import annotations

import logging
from typing import ClassVar

import apsw

from mayfly.runtime import Loop, Runtime
from mayfly.store.database import Database
from mayfly.store.disk_space import Ballast
from mayfly.store.write_ahead_log import FRAME_BYTES, WriteAheadLog

_LOG = logging.getLogger("mayfly.store")
#: Pages to write back while writers are held back: about 10 ms.
_FEW_PAGES = 500
#: Each pass leaves what was written meanwhile, less each time unless the disk cannot keep up.
_MAX_PASSES = 10
#: A log that is written back at this length stays at 4 MB.
_PAGES_ON_A_FULL_DISK = 1_000


class Checkpointer:
    """A thread that writes the log back, and lengthens its file, beside the commit path.

    A checkpoint beside writers leaves the frames that they write meanwhile: the log would grow for
    ever. A second, short checkpoint makes the writers wait; the next commit then begins the log
    anew.
    """

    #: Pages that staged messages and ids dirty at random places are written back once for many
    #: changes: with 4,000 instead of 16,000 such puts take half as long again.
    PAGES_BEFORE_CHECKPOINT: ClassVar = 16_000

    def __init__(
        self, database: Database, log: WriteAheadLog, ballast: Ballast, runtime: Runtime
    ) -> None:
        """Start the thread, which opens another connection to the database.

        ``log`` is the write-ahead log of the database, ``ballast`` the file that reserves disk
        space. ``runtime`` makes the thread.
        """
        self._database, self._log, self._ballast = database, log, ballast
        self._needed = runtime.event()
        self._stopped = False
        #: The present limit; less than PAGES_BEFORE_CHECKPOINT on a disk with little space.
        self._checkpoint_at_pages = self.PAGES_BEFORE_CHECKPOINT
        log.on_length = self._needed.set
        self._set_notification()
        self._connection: apsw.Connection | None = None
        self._worker = Loop(runtime, self._turn, "mayfly-log")
        self._worker.start()

    def stop(self) -> None:
        """Finish the work under way and end the thread; returns when it has ended."""
        self._stopped = True
        self._needed.set()
        self._worker.join()

    def _turn(self) -> bool:
        """Wait until the log is long, then write it back or lengthen its file.

        This is one round of the thread. Returns False once stopped.
        """
        if self._connection is None and not self._stopped:
            made = self._database.connect()
            # Before its first read a connection does not know of the log: checkpoints do nothing.
            made.execute("SELECT 1 FROM sqlite_schema").fetchall()
            self._connection = made
        self._needed.wait()
        self._needed.clear()
        connection = self._connection
        if self._stopped:
            if connection is not None:
                connection.close()
            return False
        assert connection is not None
        with self._log.guard:
            self._ballast.create(self._log.owed_bytes())
            self._checkpoint_at_pages = self._limit_pages()
            self._set_notification()
        if self._log.pages >= self._checkpoint_at_pages:
            self._checkpoint(connection)
        elif self._log.pages >= self._log.lengthen_at_pages:
            self._lengthen_log()
            self._set_notification()
        return True

    def _set_notification(self) -> None:
        """Set the length of the log, in pages, at which a commit wakes the thread."""
        log = self._log
        log.notify_at_pages = min(log.lengthen_at_pages, self._checkpoint_at_pages)

    def _limit_pages(self) -> int:
        """Return the length in pages at which the log is written back.

        Less on a nearly full disk.
        """
        if self._ballast.is_given_up:
            return _PAGES_ON_A_FULL_DISK
        half_pages = self._log.free_bytes() // (2 * FRAME_BYTES)
        return min(self.PAGES_BEFORE_CHECKPOINT, max(half_pages, _PAGES_ON_A_FULL_DISK))

    def _checkpoint(self, connection: apsw.Connection) -> None:
        """Write the log back into the database, and sync the database.

        An error is logged, and the log keeps its frames. ``connection`` is the thread's own, not
        the writer's.
        """
        try:
            self._catch_up(connection)
            with self._log.guard:
                self._log.write_back_beside_writers(connection)
            self._database.write_identity(connection)
        except apsw.FullError as error:
            # The log may still have space for puts, but the database will have none.
            with self._log.guard:
                is_done = self._log.write_back() or (
                    self._ballast.give_up() and self._log.write_back()
                )
            if not is_done:
                _LOG.error("checkpoint failed: %s", error)
        except (apsw.BusyError, apsw.LockedError) as error:
            _LOG.info("checkpoint postponed: %s", error)
        except (apsw.Error, OSError) as error:
            # The frames stay in the log, and commits continue or fail by themselves. SQLite gets an
            # error of our sync too, at its next sync: it has the file open itself.
            _LOG.error("checkpoint failed: %s", error)

    def _catch_up(self, connection: apsw.Connection) -> None:
        """Write the log back beside writers until few frames are left to write while they wait.

        The pages of each pass are synced here: SQLite syncs the database when a checkpoint has come
        to the end of the log, and with writers none does before they wait. Writers would then wait
        for the sync of 64 MB, 90 ms. ``connection`` is the thread's own, not the writer's.
        """
        for _ in range(_MAX_PASSES):
            written_back = self._log.write_back_beside_writers(connection)
            self._database.sync()
            if self._log.pages - written_back <= _FEW_PAGES:
                return

    def _lengthen_log(self) -> None:
        """Lengthen the log file, or postpone that on a full disk; an error is logged only."""
        if self._ballast.is_given_up:
            self._log.postpone_lengthening()
            return
        try:
            self._log.lengthen()
        except OSError as error:
            # If the disk is full, the next commit fails with the error for its callers.
            _LOG.info("no room made in the log: %s", error)
