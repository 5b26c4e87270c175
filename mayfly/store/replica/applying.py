"""Makes the database of a folder that of the end of the log, and knows up to where a folder is.

The file ``replica`` in the folder says which row of the log its database has. It is written after
each append, without a sync, as SQLite's own commits are. After a kill it is right, or names an
earlier row. After a power cut anything that was not synced may be missing: the file also names the
start of the machine in which it was written, and the last row before which everything is on the
disk. In another start of the machine the folder counts as being at that row.

So the database may be *ahead* of the row, by commits that were not noted, not appended, or fenced,
and behind the log, when another owner has appended meanwhile. Both ends are mended alike: pages
that SQLite's log holds beyond the row, and pages that were written later than it, are fetched from
the log. They are written over the database file, then SQLite's log is removed, then the file
``replica`` names the end. A kill in between is mended by doing it again.
"""

from __future__ import annotations

import os
import struct
import zlib
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from mayfly.mqi.errors import StoreDamaged, StoreError
from mayfly.runtime import Files, Runtime
from mayfly.runtime.files import FILE_MODE
from mayfly.store.changes import PageWriter, check_page_bytes, read_change
from mayfly.store.damage import IDENTITY_FILE, read_identity
from mayfly.store.database import DATABASE_FILE, REPLICA_FILE
from mayfly.store.followers import NO_LOG, Followers, LogPosition
from mayfly.store.replica.log import LogRow, LogSnapshot, PostgresLog, ReplicaError
from mayfly.store.write_ahead_log import PAGE_BYTES, last_commit, salts_of

#: Instance id; number, epoch, salts and frames of SQLite's log, twice; start of the machine, the
#: epoch in which this folder was the owner's, and the CRC-32 of these.
_STATE: Final = struct.Struct(">32sQQ8sQQQ8sQ32sQI")
_ALL_FRAMES: Final = 2**63
_MAGIC: Final = b"SQLite format 3\0"


class FolderState(NamedTuple):
    """Which row of the log a folder has, and the position of SQLite's log that it ends at.

    ``instance`` is that of its database; empty in a folder that has nothing of the log. ``synced``
    and ``synced_end`` are a row and a position up to which all is on the disk. The others are those
    of the start of the machine that ``boot_id`` names. ``owned_epoch`` is the last epoch whose
    owner had this folder open, with the files of the log; 0 for none.
    """

    instance: str
    position: LogRow
    end: LogPosition
    synced: LogRow
    synced_end: LogPosition
    boot_id: str
    owned_epoch: int = 0

    def as_left(self, boot_id: str) -> FolderState:
        """Return what is certain in a start of the machine."""
        if boot_id and boot_id == self.boot_id:
            return self
        return self._replace(position=self.synced, end=self.synced_end)


_START: Final = LogRow(0, 0)
NOTHING: Final = FolderState("", _START, NO_LOG, _START, NO_LOG, "")


def noted_position(folder: Path) -> LogRow | None:
    """Return the row of the log that a folder has by its file ``replica``; None without a replica.

    None also while another process writes it. Raises OSError.
    """
    if not (folder / REPLICA_FILE).exists():
        return None
    file = StateFile(folder)
    try:
        return file.read().position
    except StoreDamaged:
        return None
    finally:
        file.close()


class StateFile:
    """The file ``replica`` of a folder; an owner keeps it open, and writes it at each append."""

    def __init__(self, folder: Path) -> None:
        """Open the file, which is made if needed; raises OSError."""
        flags = os.O_RDWR | os.O_CREAT
        self._descriptor = os.open(folder / REPLICA_FILE, flags, FILE_MODE)
        self._file = folder / REPLICA_FILE

    def read(self) -> FolderState:
        """Return what the file says, NOTHING for a new one; raises StoreDamaged, OSError."""
        content = os.pread(self._descriptor, _STATE.size + 1, 0)
        if not content:
            return NOTHING
        if len(content) == _STATE.size and zlib.crc32(content[:-4]) == _STATE.unpack(content)[-1]:
            instance, *places, boot_id, owned_epoch, _sum = _STATE.unpack(content)
            return FolderState(
                instance.decode(),
                LogRow(*places[:2]),
                _log_position(*places[2:4]),
                LogRow(*places[4:6]),
                _log_position(*places[6:]),
                boot_id.rstrip(b"\0").decode(),
                owned_epoch,
            )
        text = f"{self._file} is damaged: remove it, and the folder is fetched from the log again"
        raise StoreDamaged(text, self._file)

    def write(self, state: FolderState, *, syncs: bool = False) -> None:
        """Replace what the file says; ``syncs`` waits until it is on the disk. Raises OSError."""
        fields = _STATE.pack(
            state.instance.encode(),
            *state.position,
            *state.end,
            *state.synced,
            *state.synced_end,
            state.boot_id.encode(),
            state.owned_epoch,
            0,
        )
        content = fields[:-4] + struct.pack(">I", zlib.crc32(fields[:-4]))
        os.pwrite(self._descriptor, content, 0)
        if syncs:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file, which stays."""
        os.close(self._descriptor)


class AppliedRows(NamedTuple):
    """The result of applying a log to a folder: its row of the log now, and the pages written.

    ``discarded_pages`` of them replaced pages of commits that the log does not have.
    """

    position: LogRow
    page_count: int
    discarded_pages: int


def bring_to_end(folder: Path, log: PostgresLog, files: Files) -> AppliedRows:
    """Make the database of a folder that of the end of the log, whatever it has.

    Call it with the folder locked and its database closed. ``files`` are those of the runtime. All
    of it is on the disk on return. Raises ReplicaError for a folder with
    another database, and when the log ends before what the folder has; StoreDamaged, OSError.
    """
    file = StateFile(folder)
    try:
        with log.snapshot() as snapshot:
            state = file.read()
            if state == NOTHING:
                _check_same(folder, snapshot.instance, files)
            elif state.instance != snapshot.instance:
                raise _other_instance(folder, state.instance, snapshot.instance)
            else:
                snapshot.check_holds(state.position)
            return _apply(folder, snapshot, file, state, files)
    except apsw.Error as error:
        raise StoreError(f"{folder / DATABASE_FILE}: {error}", folder) from error
    finally:
        file.close()


def _log_position(salts: bytes, frames: int) -> LogPosition:
    """Return a position in SQLite's log as the file ``replica`` has it."""
    return LogPosition(salts, frames) if frames else NO_LOG


def _check_same(folder: Path, instance: str, files: Files) -> None:
    """Raise ReplicaError if a folder without a file ``replica`` has another database."""
    identity = read_identity(folder, files)
    if identity is not None and identity.instance != instance:
        raise _other_instance(folder, identity.instance, instance)


def _other_instance(folder: Path, found: str, expected: str) -> ReplicaError:
    """Return the error for a folder that has not the database of the log."""
    text = f"has instance {found} of the queue manager, and the log instance {expected}"
    return ReplicaError(f"{folder} {text}", folder)


def _apply(
    folder: Path, snapshot: LogSnapshot, file: StateFile, noted: FolderState, files: Files
) -> AppliedRows:
    """Write what a folder lacks over its database, and remove what it has beyond the log."""
    database, log = folder / DATABASE_FILE, folder / f"{DATABASE_FILE}-wal"
    boot_id = files.boot_id()
    state = noted.as_left(boot_id)
    first = _first_page(database)
    ours, beyond = _pages_in_log(log, state, files) if first else ({}, set())
    # After a power cut SQLite's log may end in pieces, which look like damage.
    is_whole = first and noted.boot_id == boot_id
    if is_whole and snapshot.end == state.position and not beyond:
        return AppliedRows(state.position, 0, 0)
    page_count = snapshot.page_count()
    pages = snapshot.pages_since(state.position.number if first else 0, beyond)
    if not first:
        # The image of a whole database begins with it.
        _number, first = next(pages)
    # Written first, for it says whether pages have checksums.
    check_page_bytes(first, folder)
    writer = PageWriter(database, first, replaces=database.exists())
    written: set[int] = set()
    for number, page in chain(ours.items(), pages):
        if number <= page_count:
            writer.write(number, page)
            written.add(number)
    writer.finish(page_count)
    # Backups that follow have not seen these pages in SQLite's log.
    Followers(folder, Runtime()).lose_all()
    for name in (log, folder / f"{DATABASE_FILE}-shm", folder / IDENTITY_FILE):
        # identity.json may tell of a commit that is gone; the opening writes it again.
        files.remove(name)
    end = snapshot.end
    file.write(
        FolderState(snapshot.instance, end, NO_LOG, end, NO_LOG, boot_id, state.owned_epoch),
        syncs=True,
    )
    return AppliedRows(snapshot.end, len(written), len(beyond - ours.keys()))


def _pages_in_log(log: Path, state: FolderState, files: Files) -> tuple[dict[int, bytes], set[int]]:
    """Return the pages in SQLite's log up to the row that a folder has, and the numbers of others.

    The others were written by later commits. When the log was begun anew behind that row, all are.
    """
    frames = last_commit(log, files)
    if not frames:
        return {}, set()
    end = LogPosition(salts_of(log, files), frames)
    known = state.end if state.end.salts == end.salts else LogPosition(end.salts, 0)
    if known.frames > end.frames:
        text = f"{log} has {end.frames} frames, and {known.frames} were on the disk: remove the"
        raise StoreDamaged(f"{text} folder, and it is fetched from the log again", log.parent)
    ours = read_change(log, LogPosition(end.salts, 0), known, _ALL_FRAMES)
    later = read_change(log, known, end, _ALL_FRAMES)
    return {} if ours is None else ours.pages, set() if later is None else {*later.pages}


def _first_page(database: Path) -> bytes:
    """Return page 1 of a database file; empty for a missing one, and one without its beginning."""
    try:
        with database.open("rb") as file:
            page = file.read(PAGE_BYTES)
    except FileNotFoundError:
        return b""
    return page if len(page) == PAGE_BYTES and page.startswith(_MAGIC) else b""
