"""Distinguishes a damaged write-ahead log from one whose last transaction a crash has cut off.

SQLite ends its reading of the log at the first frame that is not valid, whatever follows. That is
right for a transaction that never reached the disk as a whole. After damage in the middle it would
drop acknowledged transactions. Each commit is synced before the next one begins. So at most one
transaction is incomplete after a crash, and at most one frame behind the first invalid one commits.
Two of them prove damage. tests/store/test_log_cuts.py proves the rule by power cuts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mayfly.mqi.errors import StoreDamaged
from mayfly.runtime import Files

_HEADER = struct.Struct(">8I")
#: Page number, database size in pages for a commit or 0, salts, checksums.
_FRAME = struct.Struct(">6I")
#: The lowest bit says in which byte order checksums were computed.
_MAGIC = 0x377F0682
_FORMAT = 3_007_000
_WORD = 2**32 - 1
#: One may be that of the transaction that a crash has cut off.
_COMMITS_OF_DAMAGE = 2
_Sums = tuple[int, int]


class _LogHeader(NamedTuple):
    byte_order: str
    page_bytes: int
    salts: tuple[int, int]
    sums: _Sums

    @property
    def frame_bytes(self) -> int:
        return _FRAME.size + self.page_bytes


def check_header(log: Path, files: Files) -> None:
    """Raise StoreDamaged for a log that SQLite would take for an empty one; raises OSError.

    The header is synced before the first frame is written, so a log that is longer has a good one.
    Call it before SQLite opens the database: it would delete such a log.
    """
    if (files.size_bytes(log) or 0) > _HEADER.size:
        with files.open(log) as file:
            _read_header(file, log)


def check_end(log: Path, files: Files, valid_frames: int) -> None:
    """Raise StoreDamaged where acknowledged transactions follow the frames that SQLite has read.

    ``valid_frames`` is how many those are. Raises OSError.
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
    """Raise StoreDamaged unless so many frames follow validly on each other; raises OSError."""
    if not frame_count:
        return
    with files.open(log) as file:
        header = _read_header(file, log)
        sums = header.sums
        for number in range(1, frame_count + 1):
            packed = file.read(header.frame_bytes)
            if len(packed) == header.frame_bytes:
                fields = _FRAME.unpack_from(packed)
                found = _sums_of(packed[: 2 * 4], header.byte_order, sums)
                sums = _sums_of(packed[_FRAME.size :], header.byte_order, found)
                if (fields[2], fields[3]) == header.salts and (fields[4], fields[5]) == sums:
                    continue
            said = f"{log} is damaged: frame {number} of {frame_count} is not as it was written"
            raise StoreDamaged(said, log.parent)


def salts_of(log: Path, files: Files) -> bytes:
    """Return the numbers that a log has from its beginning to the next one; raises OSError."""
    if not files.size_bytes(log):
        return b""
    with files.open(log) as file:
        return file.read(_HEADER.size)[4 * 4 : 6 * 4]


def _read_header(file: BinaryIO, log: Path) -> _LogHeader:
    packed = file.read(_HEADER.size)
    magic, version, page_bytes, _number, *rest = _HEADER.unpack(packed)
    byte_order = ">" if magic & 1 else "<"
    sums = rest[2], rest[3]
    if (
        magic & ~1 != _MAGIC
        or version != _FORMAT
        or _sums_of(packed[: -2 * 4], byte_order, (0, 0)) != sums
    ):
        raise StoreDamaged(f"{log} is damaged: its header is none", log.parent)
    return _LogHeader(byte_order, page_bytes, (rest[0], rest[1]), sums)


def _commits_after(file: BinaryIO, header: _LogHeader, frame_count: int) -> Iterator[int]:
    """Yield the places of committing frames of this log that follow validly on the one before."""
    place = _HEADER.size + frame_count * header.frame_bytes
    before = header.sums
    if frame_count:
        file.seek(place - header.frame_bytes)
        *_fields, first, second = _FRAME.unpack(file.read(_FRAME.size))
        before = first, second
    while True:
        file.seek(place)
        packed = file.read(_FRAME.size)
        if len(packed) < _FRAME.size:
            return
        _page, database_pages, *rest = _FRAME.unpack(packed)
        salts, sums = (rest[0], rest[1]), (rest[2], rest[3])
        # Frames of an earlier round of the log have other salts; room made ahead has none.
        if database_pages and salts == header.salts:
            body = file.read(header.page_bytes)
            if len(body) == header.page_bytes:
                found = _sums_of(packed[: 2 * 4], header.byte_order, before)
                if _sums_of(body, header.byte_order, found) == sums:
                    yield place
        before = sums
        place += header.frame_bytes


def _sums_of(data: bytes, byte_order: str, before: _Sums) -> _Sums:
    """Return SQLite's checksum of the log over data, which goes on from that of what precedes."""
    first, second = before
    words = iter(struct.unpack(f"{byte_order}{len(data) // 4}I", data))
    for even, odd in zip(words, words, strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second
