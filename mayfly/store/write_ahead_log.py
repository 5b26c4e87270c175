"""The write-ahead log of a store: how long it is, and what it takes from the disk.

A frame of the log takes room twice: in the log when its transaction is committed, and in the
database when the frame is written back. Until then the disk has to keep the second room free.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import apsw

from mayfly.mqi.errors import StoreDamaged
from mayfly.runtime import Runtime
from mayfly.store.log_check import check_frames, salts_of

PAGE_BYTES = 4_096
FRAME_BYTES = PAGE_BYTES + 24
_HEADER_BYTES = 32
#: Writers are held back for 1 to 2 ms, once in some 300 commits.
_ROOM_PAGES = 1_024
#: Some 80 commits are done while the room is made.
_SPARE_PAGES = 256
#: A queue manager that commits little needs no room.
_FIRST_ROOM_AT_PAGES = 64
#: A log that is begun anew while it is looked at is looked at again.
_LOOKS = 3


class WriteAheadLog:
    """The log of a database on disk, as its writer sees it.

    ``guard`` is held by each transaction of the writer. Methods that say so need it held.
    """

    def __init__(
        self,
        writer: apsw.Connection,
        guard: AbstractContextManager[object],
        runtime: Runtime,
    ) -> None:
        """Follow the commits of a writer."""
        self.guard = guard
        self._writer = writer
        #: Frames in the log after the last commit. A full disk may have left some of a crash.
        self.pages = max(self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0], 0)
        #: The length at which :meth:`lengthen` is worth its while.
        self.wants_room_at_pages = _FIRST_ROOM_AT_PAGES
        #: Called after a commit that has made the log so long.
        self.on_length: Callable[[], None] = lambda: None
        self.tell_at_pages = 0
        self._database_file = Path(self._writer.filename)
        self._file = Path(f"{self._writer.filename}-wal")
        #: SQLite refuses a checkpoint while another one runs. Taken after the guard.
        self._files = runtime.files
        self._checkpointing = runtime.lock("checkpoint")
        self._writer.set_wal_hook(self._committed)

    def free_bytes(self) -> int:
        """Return how much the disk has free."""
        return self._files.free_bytes(self._file.parent)

    def owed_bytes(self) -> int:
        """Return by how much the database becomes longer when the log is written back.

        Needs the guard, and no transaction.
        """
        pages = int(self._writer.pragma("page_count"))
        return max(pages * PAGE_BYTES - (self._files.size_bytes(self._database_file) or 0), 0)

    def spare_bytes(self) -> int:
        """Return the room that is left when the log is written back; less than 0: too little.

        The end of the log, which holds no frames, counts as room. Needs the guard.
        """
        return self.free_bytes() + self._unused_bytes() - self.owed_bytes()

    def write_back_beside_writers(self, connection: apsw.Connection) -> int:
        """Write back what is committed by now; return how many frames are in the database."""
        with self._checkpointing:
            return connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)[1]

    def write_back(self) -> bool:
        """Write everything back, so that the next commit begins the log anew.

        Returns False when the disk has no room for it. Another read of this process is waited for.
        Needs the guard, and no transaction. Raises apsw.BusyError while a stranger reads.
        """
        if self.owed_bytes() > self.free_bytes():
            self._cut()
            if self.owed_bytes() > self.free_bytes():
                # It would fail half done, and take from the log what is left for it.
                return False
        try:
            with self._checkpointing:
                self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
        except apsw.FullError:
            return False
        self.pages = 0
        return True

    def damage(self) -> str | None:
        """Return what is wrong in the frames of the log, None for nothing; raises OSError.

        SQLite reads them by their places, and looks at their checksums after a crash alone.
        """
        for _ in range(_LOOKS):
            with self.guard:
                pages, salts = self.pages, salts_of(self._file, self._files)
            try:
                check_frames(self._file, self._files, pages)
            except StoreDamaged as damage:
                with self.guard:
                    # Begun anew meanwhile, it has other frames.
                    is_same = salts == salts_of(self._file, self._files)
                if is_same:
                    return str(damage)
            else:
                return None
        return None

    def lengthen(self) -> None:
        """Lengthen the log by zeros, which SQLite reads as the end of what was written.

        Needs the guard to be free. A disk without room is no error: the next commit tells of it.
        """
        try:
            with self.guard:
                end = self._files.lengthen(self._file, _ROOM_PAGES * FRAME_BYTES)
                self.wants_room_at_pages = end // FRAME_BYTES - _SPARE_PAGES
            self._files.sync(self._file)
        except OSError:
            self.postpone_room()
            raise

    def postpone_room(self) -> None:
        """Let the log become longer by itself for a while."""
        self.wants_room_at_pages = self.pages + _ROOM_PAGES

    def _unused_bytes(self) -> int:
        # Before the first commit there is none.
        return max((self._files.size_bytes(self._file) or 0) - self._used_bytes(), 0)

    def _used_bytes(self) -> int:
        return _HEADER_BYTES + self.pages * FRAME_BYTES

    def _cut(self) -> None:
        """Give the disk the end of the log that holds no frames."""
        if self._unused_bytes():
            self._files.cut(self._file, self._used_bytes())
            self.postpone_room()

    def _committed(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.pages = pages
        if pages >= self.tell_at_pages:
            self.on_length()
        return apsw.SQLITE_OK
