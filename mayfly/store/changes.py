"""Changes: the pages that commits have written, read from the write-ahead log.

A commit appends frames to the log; a frame is a page as it is after the commit. The database at the
beginning of a log and the last frame of each page together are the database as it is now. A reader
remembers its position, and reads the frames behind it. It needs no connection to the database, and
no writer waits for it.

A log ends when it is written back into the database; SQLite then overwrites it, under new salts. A
reader that had not read it to its end has lost its place (:class:`LogLost`) and begins anew with
all pages. The queue manager keeps the log for readers that it knows of: see followers.py.

The frames of a page lack its checksum (damage.py), which is computed when the page is written into
a database: :func:`write_pages`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from mayfly.mqi.errors import StoreDamaged, StoreError
from mayfly.runtime import Files
from mayfly.store.damage import checksum_vfs, is_protected_page
from mayfly.store.database import DATABASE_FILE
from mayfly.store.folder_lock import holder_of, is_held_here
from mayfly.store.followers import NO_LOG, LogPosition
from mayfly.store.write_ahead_log import (
    FRAME_BYTES,
    HEADER_BYTES,
    PAGE_BYTES,
    last_commit,
    salts_of,
    sums_of,
)

#: Of the index of the log (the -shm file): two fields that we do not read, bytes that say whether
#: it is complete and of which byte order, page size, frames, pages of the database, the checksum of
#: the last frame, the salts of the log, and a checksum (https://sqlite.org/walformat.html).
_INDEX: Final = struct.Struct("=3I2BHII2I8s2I")
_INDEX_CHECKED_BYTES: Final = 40
#: Page, pages of the database after a commit or 0, salts, checksum.
_FRAME_HEAD: Final = struct.Struct(">2I8s8s")
#: Where the header of the log has its salts.
_SALTS_AT: Final = 16
_SALTS_BYTES: Final = 8
#: One megabyte.
_FRAMES_AT_ONCE: Final = 256


class Change(NamedTuple):
    """The pages that consecutive commits have written: the last image of each, by its number.

    ``end`` is the position behind them, ``page_count`` the pages of the database after the last of
    them. Pages behind ``page_count`` are no longer part of the database.
    """

    end: LogPosition
    commit_count: int
    page_count: int
    pages: dict[int, bytes]


class Piece(NamedTuple):
    """Frames that follow each other: the last image of each page, by its number.

    ``page_count`` is the pages of the database after the last frame, 0 if no commit ends there.
    """

    page_count: int
    pages: dict[int, bytes]


class LogLost(StoreError):
    """The log was begun anew before it was read to its end: begin with all pages."""


def check_not_here(folder: Path) -> None:
    """Raise StoreError if this process has a folder open.

    To close a file of the database drops the locks that SQLite has on it for the same process.
    """
    if is_held_here(folder):
        raise StoreError(f"{folder} is open in this process: read it from another one", folder)


def log_end(folder: Path) -> LogPosition | None:
    """Return the end of what is committed in the log of a folder.

    The frames are 0 when the log is empty, or all of it is written back and it is begun anew. None
    when that is not known at the moment, as while a queue manager opens the folder: ask again. The
    folder may not be open in this process (:func:`check_not_here`). Raises StoreDamaged, OSError.
    """
    file = folder / DATABASE_FILE
    log, files = Path(f"{file}-wal"), Files()
    indexed = _indexed_end(Path(f"{file}-shm"))
    salts = salts_of(log, files)
    if not salts or (indexed is not None and not indexed.frames):
        return NO_LOG
    if indexed is not None and indexed.salts == salts:
        return indexed
    if holder_of(folder) is not None:
        return None
    # A power cut has left it without an index.
    frames = last_commit(log, files)
    return LogPosition(salts, frames) if frames else NO_LOG


def _indexed_end(index: Path) -> LogPosition | None:
    """Return the end of the log by its index; None without one, or while it is written."""
    try:
        with index.open("rb") as file:
            first, second = file.read(_INDEX.size), file.read(_INDEX.size)
    except FileNotFoundError:
        return None
    if first != second or len(first) < _INDEX.size:
        return None
    *_version, is_complete, _order, _size, frames, _pages, _a, _b, salts, one, two = _INDEX.unpack(
        first
    )
    if not is_complete or sums_of(first[:_INDEX_CHECKED_BYTES], "=", (0, 0)) != (one, two):
        return None
    return LogPosition(bytes(salts), int(frames))


def read_change(log: Path, start: LogPosition, end: LogPosition, max_frames: int) -> Change | None:
    """Return what the commits between two positions of one log have written; None for nothing.

    As :meth:`OpenLog.read_change`, for a reader that does not keep the log open.
    """
    try:
        opened = OpenLog(log)
    except FileNotFoundError:
        raise LogLost(f"{log} was begun anew before it was read", log.parent) from None
    try:
        return opened.read_change(start, end, max_frames)
    finally:
        opened.close()


class OpenLog:
    """The log of a database, kept open by a reader; SQLite begins it anew in the same file."""

    def __init__(self, log: Path) -> None:
        """Open the log; raises OSError."""
        self._log = log
        self._descriptor = os.open(log, os.O_RDONLY)

    def salts(self) -> bytes:
        """Return the salts of the log, empty for an empty one; raises OSError."""
        return os.pread(self._descriptor, _SALTS_BYTES, _SALTS_AT)

    def read_change(self, start: LogPosition, end: LogPosition, max_frames: int) -> Change | None:
        """Return what the commits between two positions have written; None for nothing.

        The process that has the folder open may call it too, for the log has no locks of SQLite. At
        most about ``max_frames`` are read, and the rest of the commit that they end in. Both
        positions have the same salts, and a commit ends at ``end``. Raises LogLost when the log was
        begun anew meanwhile, OSError.
        """
        pages: dict[int, bytes] = {}
        waiting: dict[int, bytes] = {}
        commit_count = page_count = 0
        frames = place = start.frames
        lost = LogLost(f"{self._log} was begun anew before it was read", self._log.parent)
        while place < end.frames and frames - start.frames < max_frames:
            found = self._frames(place, min(_FRAMES_AT_ONCE, end.frames - place))
            if not found:
                raise lost
            for head, page in found:
                number, pages_after, salts, _sums = _FRAME_HEAD.unpack(head)
                if salts != end.salts:
                    raise lost
                waiting[number] = page
                place += 1
                if pages_after:
                    pages.update(waiting)
                    waiting.clear()
                    commit_count += 1
                    page_count, frames = pages_after, place
        # The header of a new log is written before the first frame of the old one is overwritten.
        if self.salts() != end.salts:
            raise lost
        if not commit_count:
            return None
        return Change(LogPosition(end.salts, frames), commit_count, page_count, pages)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def read_pieces(self, start: LogPosition, end: LogPosition, max_frames: int) -> Iterator[Piece]:
        """Yield what the commits between two positions have written, in their order.

        A piece has at most ``max_frames`` frames, and ends anywhere in a commit. The positions are
        those of :meth:`read_change`, so the last piece ends with a commit. Raises LogLost when the
        log was begun anew meanwhile, OSError.
        """
        lost = LogLost(f"{self._log} was begun anew before it was read", self._log.parent)
        for place in range(start.frames, end.frames, max_frames):
            pages, page_count = dict[int, bytes](), 0
            wanted = min(max_frames, end.frames - place)
            found = self._frames(place, wanted)
            for head, page in found:
                number, page_count, salts, _sums = _FRAME_HEAD.unpack(head)
                if salts != end.salts:
                    raise lost
                pages[number] = page
            if len(found) < wanted or self.salts() != end.salts:
                raise lost
            yield Piece(page_count, pages)

    def _frames(self, place: int, count: int) -> list[tuple[bytes, bytes]]:
        """Return (head, page) of ``count`` frames behind the first ``place``; fewer at the end."""
        at_byte = HEADER_BYTES + place * FRAME_BYTES
        packed = os.pread(self._descriptor, count * FRAME_BYTES, at_byte)
        head_bytes = _FRAME_HEAD.size
        return [
            (packed[at : at + head_bytes], packed[at + head_bytes : at + FRAME_BYTES])
            for at in range(0, len(packed) - FRAME_BYTES + 1, FRAME_BYTES)
        ]


class PageWriter:
    """Writes pages into a database file; the checksum of each is computed if it has them."""

    def __init__(self, file: Path, first_page: bytes, *, replaces: bool = False) -> None:
        """Create the file, readable by its owner alone; raises OSError if it exists.

        With ``replaces`` it exists, is open nowhere, and pages that are not written stay.
        ``first_page`` is page 1, which says whether pages have checksums; it is written again by
        :meth:`write`. Raises StoreError when they have, and this apsw can make none.
        """
        if not replaces:
            file.touch(mode=0o600, exist_ok=False)
        vfs = checksum_vfs(None, file.parent) if is_protected_page(first_page) else ""
        flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE
        self._file = apsw.VFSFile(vfs, str(file), [flags, 0])
        self._file.xWrite(first_page, 0)

    def write(self, number: int, page: bytes) -> None:
        """Write the page with this number, from 1 on; raises apsw.Error."""
        self._file.xWrite(page, (number - 1) * PAGE_BYTES)

    def finish(self, page_count: int) -> None:
        """Cut the file to ``page_count`` pages, sync and close it; raises apsw.Error."""
        self._file.xTruncate(page_count * PAGE_BYTES)
        self._file.xSync(apsw.SQLITE_SYNC_FULL)
        self._file.xClose()


class PageCheck:
    """Checks the checksums of pages, as SQLite does when it reads them."""

    def __init__(self, folder: Path) -> None:
        """Load SQLite's checksums; raises StoreError when this apsw has none."""
        self._connection = apsw.Connection(":memory:", vfs=checksum_vfs(None, folder))

    def is_right(self, page: bytes) -> bool:
        """Return True if the checksum in the last 8 bytes of a page is that of the page."""
        [(is_right,)] = self._connection.execute("SELECT verify_checksum(?)", (page,))
        return bool(is_right)


def check_page_bytes(first_page: bytes, folder: Path) -> None:
    """Raise StoreDamaged unless page 1 is that of a database with pages of 4,096 bytes."""
    if first_page[:16] != b"SQLite format 3\0" or first_page[16:18] != b"\x10\0":
        raise StoreDamaged(f"{folder / DATABASE_FILE} is damaged: its header is none", folder)
