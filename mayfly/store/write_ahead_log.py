"""The write-ahead log of SQLite: damage, length, and the disk space it takes.

SQLite ends its reading of the log at the first frame that is not valid, whatever follows. That is
right for a transaction of which only a part has reached the disk. After damage in the middle it
would drop acknowledged transactions. Each commit is synced before the next one begins. So at most
one transaction is incomplete after a crash, and at most one frame behind the first invalid one
commits. Two of them prove damage. tests/store/test_log_cuts.py proves the rule by power cuts.

A frame takes space on the disk twice: in the log when its transaction is committed, and in the
database when the frame is written back. Until then the disk has to keep the second space free.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import apsw

from mayfly.mqi.errors import StoreDamaged
from mayfly.runtime import Files, Runtime
from mayfly.store.followers import Followers, LogPosition

_HEADER = struct.Struct(">8I")
#: Page number, database size in pages for a commit or 0, salts, checksums.
_FRAME_HEAD = struct.Struct(">6I")
#: The lowest bit says in which byte order checksums were computed.
_MAGIC = 0x377F0682
_FORMAT = 3_007_000
_WORD = 2**32 - 1
#: One commit behind the first invalid frame may belong to the transaction that a crash interrupted.
_COMMITS_OF_DAMAGE = 2
_Sums = tuple[int, int]


class _LogHeader(NamedTuple):
    """The header of a log file; ``sums`` is its checksum, with which the first frame begins."""

    byte_order: str
    page_bytes: int
    salts: tuple[int, int]
    sums: _Sums

    @property
    def frame_bytes(self) -> int:
        """The length of one frame of the log in bytes: its head and one page."""
        return _FRAME_HEAD.size + self.page_bytes


def check_header(log: Path, files: Files) -> None:
    """Raise StoreDamaged for a log with frames whose header is invalid.

    The header is synced before the first frame is written, so a longer log has a valid header. Call
    it before SQLite opens the database, because SQLite would delete such a log. Raises OSError.
    """
    if (files.size_bytes(log) or 0) > _HEADER.size:
        with files.open(log) as file:
            _read_header(file, log)


def check_end(log: Path, files: Files, valid_frames: int) -> None:
    """Raise StoreDamaged if committed transactions follow the last frame that SQLite has read.

    ``valid_frames`` is the number of frames that SQLite has read. One commit after them is no
    damage: it may belong to the transaction that a crash interrupted. Raises OSError.
    """
    if (files.size_bytes(log) or 0) <= _HEADER.size:
        return
    with files.open(log) as file:
        header = _read_header(file, log)
        for count, _place in enumerate(_commits_after(file, header, valid_frames), 1):
            if count == _COMMITS_OF_DAMAGE:
                raise StoreDamaged(
                    f"{log} is damaged behind frame {valid_frames}: committed transactions follow",
                    log.parent,
                )


def check_frames(log: Path, files: Files, frame_count: int) -> None:
    """Raise StoreDamaged unless the checksums of a log's first ``frame_count`` frames are right.

    Raises OSError when the log cannot be read.
    """
    if not frame_count:
        return
    with files.open(log) as file:
        header = _read_header(file, log)
        sums = header.sums
        for number in range(1, frame_count + 1):
            packed = file.read(header.frame_bytes)
            if len(packed) == header.frame_bytes:
                fields = _FRAME_HEAD.unpack_from(packed)
                found = sums_of(packed[: 2 * 4], header.byte_order, sums)
                sums = sums_of(packed[_FRAME_HEAD.size :], header.byte_order, found)
                if (fields[2], fields[3]) == header.salts and (fields[4], fields[5]) == sums:
                    continue
            text = f"{log} is damaged: frame {number} of {frame_count} is not as it was written"
            raise StoreDamaged(text, log.parent)


def last_commit(log: Path, files: Files) -> int:
    """Return the number of frames of a log up to its last valid commit, by all checksums.

    0 for an empty log. It takes a second for 10,000 frames; SQLite's index of the log knows it
    without. Raises StoreDamaged for a damaged header, OSError.
    """
    if (files.size_bytes(log) or 0) <= _HEADER.size:
        return 0
    committed = count = 0
    with files.open(log) as file:
        header = _read_header(file, log)
        sums = header.sums
        while len(packed := file.read(header.frame_bytes)) == header.frame_bytes:
            fields = _FRAME_HEAD.unpack_from(packed)
            found = sums_of(packed[: 2 * 4], header.byte_order, sums)
            sums = sums_of(packed[_FRAME_HEAD.size :], header.byte_order, found)
            if (fields[2], fields[3]) != header.salts or (fields[4], fields[5]) != sums:
                break
            count += 1
            if fields[1]:
                committed = count
    return committed


def salts_of(log: Path, files: Files) -> bytes:
    """Return the salts of a log, random bytes that change when SQLite begins it anew.

    Empty for an empty or missing log. Raises OSError.
    """
    if not files.size_bytes(log):
        return b""
    with files.open(log) as file:
        return file.read(_HEADER.size)[4 * 4 : 6 * 4]


def _read_header(file: BinaryIO, log: Path) -> _LogHeader:
    """Read and return the header of a log.

    Raises StoreDamaged if its checksum or format is wrong.
    """
    packed = file.read(_HEADER.size)
    magic, version, page_bytes, _number, *rest = _HEADER.unpack(packed)
    byte_order = ">" if magic & 1 else "<"
    sums = rest[2], rest[3]
    if (
        magic & ~1 != _MAGIC
        or version != _FORMAT
        or sums_of(packed[: -2 * 4], byte_order, (0, 0)) != sums
    ):
        raise StoreDamaged(f"{log} is damaged: its header is none", log.parent)
    return _LogHeader(byte_order, page_bytes, (rest[0], rest[1]), sums)


def _commits_after(file: BinaryIO, header: _LogHeader, frame_count: int) -> Iterator[int]:
    """Yield the file offset of each valid commit frame after the first ``frame_count`` frames.

    A commit frame is the last one of a transaction. ``header`` is the header of the log.
    """
    place = _HEADER.size + frame_count * header.frame_bytes
    before = header.sums
    if frame_count:
        file.seek(place - header.frame_bytes)
        *_fields, first, second = _FRAME_HEAD.unpack(file.read(_FRAME_HEAD.size))
        before = first, second
    while True:
        file.seek(place)
        packed = file.read(_FRAME_HEAD.size)
        if len(packed) < _FRAME_HEAD.size:
            return
        _page, database_pages, *rest = _FRAME_HEAD.unpack(packed)
        salts, sums = (rest[0], rest[1]), (rest[2], rest[3])
        # Frames of an earlier round of the log have other salts; space made ahead has none.
        if database_pages and salts == header.salts:
            body = file.read(header.page_bytes)
            if len(body) == header.page_bytes:
                found = sums_of(packed[: 2 * 4], header.byte_order, before)
                if sums_of(body, header.byte_order, found) == sums:
                    yield place
        before = sums
        place += header.frame_bytes


def sums_of(data: bytes, byte_order: str, before: _Sums) -> _Sums:
    """Return SQLite's log checksum over data, as two 32-bit words.

    ``byte_order`` is that of ``struct``. ``before`` is the checksum of the bytes
    before the data.
    """
    first, second = before
    words = iter(struct.unpack(f"{byte_order}{len(data) // 4}I", data))
    for even, odd in zip(words, words, strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second


# Its length, and its space on the disk


PAGE_BYTES = 4_096
FRAME_BYTES = PAGE_BYTES + 24
HEADER_BYTES = 32
#: Writers are held back for 1 to 2 ms, once in some 300 commits.
_LENGTHEN_PAGES = 1_024
#: Some 80 commits are done while the log is lengthened.
_SPARE_PAGES = 256
#: A queue manager with few commits needs no longer log.
_FIRST_LENGTHEN_PAGES = 64
#: How often a log is checked again because SQLite has reset it meanwhile.
_CHECKS = 3


class WriteAheadLog:
    """The log of a database on disk: its length, the disk space it needs, and writing it back.

    ``guard`` is held during each transaction of the writer. Methods that need it held say so.
    """

    def __init__(
        self,
        writer: apsw.Connection,
        guard: AbstractContextManager[object],
        followers: Followers,
        runtime: Runtime,
    ) -> None:
        """Count the frames of the log of ``writer``, and follow its commits from now on.

        ``guard`` is the lock of that connection, ``followers`` are the readers of the log in other
        processes. ``runtime`` has the files.
        """
        self.followers = followers
        self.guard = guard
        self._writer = writer
        #: Frames in the log after the last commit. A full disk may have left some of a crash.
        self.pages = max(self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0], 0)
        #: The length in frames from which on :meth:`lengthen` should be called. The tables of a new
        #: database are in its log when this is opened.
        self.lengthen_at_pages = self.pages + _FIRST_LENGTHEN_PAGES
        #: Called after each commit that leaves ``notify_at_pages`` frames or more in the log.
        self.on_length: Callable[[], None] = lambda: None
        self.notify_at_pages = 0
        self._database_file = Path(self._writer.filename)
        self.file = Path(f"{self._writer.filename}-wal")
        #: SQLite refuses a checkpoint while another one runs. Taken after the guard.
        self.files = runtime.files
        self._checkpointing = runtime.lock("checkpoint")
        self._writer.set_wal_hook(self._committed)

    def free_bytes(self) -> int:
        """Return the free space of the disk in bytes."""
        return self.files.free_bytes(self.file.parent)

    def owed_bytes(self) -> int:
        """Return by how many bytes the database file grows when the log is written back.

        Call it with the guard held and outside of a transaction.
        """
        pages = int(self._writer.pragma("page_count"))
        return max(pages * PAGE_BYTES - (self.files.size_bytes(self._database_file) or 0), 0)

    def spare_bytes(self) -> int:
        """Return the bytes left free on the disk once the log is written back; negative: too few.

        The end of the log file, which holds no frames, counts as free. Call it with the guard held.
        """
        return self.free_bytes() + self._unused_bytes() - self.owed_bytes()

    def end(self) -> LogPosition:
        """Return the end of the log; call it with the guard held. Raises OSError."""
        return LogPosition(salts_of(self.file, self.files), self.pages)

    def write_back_beside_writers(self, connection: apsw.Connection) -> int:
        """Write committed frames back into the database without delaying writers.

        Returns how many frames of the log are written back, earlier ones included. ``connection``
        is not the writer's.
        """
        with self._checkpointing:
            return connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)[1]

    def write_back(self) -> bool:
        """Write all frames back, so that the next commit begins the log anew.

        A follower that has not read them has lost its place.

        Returns False if the disk is full. Call it with the guard held and outside of a transaction.
        It waits for reads of this process. Raises apsw.BusyError while another process reads the
        database.
        """
        if self.owed_bytes() > self.free_bytes():
            self._cut()
            if self.owed_bytes() > self.free_bytes():
                # It would fail half done, and take from the log what is left for it.
                return False
        self.followers.let_go(self.end())
        try:
            with self._checkpointing:
                self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
        except apsw.FullError:
            return False
        self.pages = 0
        return True

    def damage(self) -> str | None:
        """Return a text if a frame of the log is damaged, None if all are right; raises OSError.

        SQLite itself verifies the checksums of the log only after a crash.
        """
        for _ in range(_CHECKS):
            with self.guard:
                pages, salts = self.pages, salts_of(self.file, self.files)
            try:
                check_frames(self.file, self.files, pages)
            except StoreDamaged as damage:
                with self.guard:
                    # Begun anew meanwhile, it has other frames.
                    is_same = salts == salts_of(self.file, self.files)
                if is_same:
                    return str(damage)
            else:
                return None
        return None

    def lengthen(self) -> None:
        """Lengthen the log file by zeros, which SQLite reads as the end of the log.

        Call it without the guard. Raises OSError, as when the disk is full; the log stays usable.
        """
        try:
            with self.guard:
                end = self.files.append_zeros(self.file, _LENGTHEN_PAGES * FRAME_BYTES)
                self.lengthen_at_pages = end // FRAME_BYTES - _SPARE_PAGES
            self.files.sync(self.file)
        except OSError:
            self.postpone_lengthening()
            raise

    def postpone_lengthening(self) -> None:
        """Ask for :meth:`lengthen` only after 1,024 more frames, which SQLite appends itself."""
        self.lengthen_at_pages = self.pages + _LENGTHEN_PAGES

    def _unused_bytes(self) -> int:
        """Return the length in bytes of the end of the log file that holds no frames."""
        # Before the first commit there is no file.
        return max((self.files.size_bytes(self.file) or 0) - self._used_bytes(), 0)

    def _used_bytes(self) -> int:
        """Return the length in bytes of the header and all frames of the log."""
        return HEADER_BYTES + self.pages * FRAME_BYTES

    def _cut(self) -> None:
        """Cut off the end of the log file that holds no frames; raises OSError."""
        if self._unused_bytes():
            self.files.truncate(self.file, self._used_bytes())
            self.postpone_lengthening()

    def _committed(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        """Record the new length of the log: the hook that SQLite calls after each commit.

        ``pages`` is that length in pages. Returns SQLITE_OK, as SQLite demands.
        """
        self.pages = pages
        if pages >= self.notify_at_pages:
            self.on_length()
        return apsw.SQLITE_OK
