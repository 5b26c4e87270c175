"""Followers: readers of the log in other processes, and how far the log is kept for them.

A follower has a file in the sub-folder ``followers``, which it keeps locked while it runs. The file
has two halves, each written by one side alone:

* the follower writes how far it has read, and up to when everything is where it copies to;
* the queue manager writes the end of the last log, when the follower had read it to there. If the
  follower had not, it writes that the follower has lost its place.

So a follower that finds another log knows whether that is the next one. The queue manager keeps the
log for followers that run, up to MAX_KEPT_PAGES and never on a full disk; then it goes on without
them, and they begin anew with all pages. Without the sub-folder nobody follows.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from mayfly.mqi.errors import StoreError
from mayfly.runtime import Runtime
from mayfly.runtime.files import FOLDER_MODE, is_locked, locked_file

FOLLOWERS_FOLDER: Final = "followers"
#: A log of 256 MB, four times as many pages as are written back else.
MAX_KEPT_PAGES: Final = 64_000
_SUFFIX: Final = ".follower"
#: Salts, frames, two moments, and the CRC-32 of these.
_HALF: Final = struct.Struct(">8sQQQI")
_OUR_HALF_AT, _NAME_AT = 64, 128
_NAME_BYTES: Final = 4_096
_LOOK_SECONDS: Final = 0.003
_LOG = logging.getLogger("mayfly.store")


class LogPosition(NamedTuple):
    """A place in a log: its salts, which change when it is begun anew, and the frames before it.

    The salts are empty for a log without frames.
    """

    salts: bytes
    frames: int


NO_LOG: Final = LogPosition(b"", 0)
#: No follower has it: a log has salts, or no frames.
_LOST: Final = LogPosition(b"", 2**63)


class FollowerState(NamedTuple):
    """The known facts of a follower.

    ``target`` is the place that it copies to. Commits before ``safe_at_ms`` (epoch ms; 0: none yet)
    are there; later ones would be lost with this folder.
    ``read`` is its position in the log; ``is_running`` says whether its process lives.
    """

    target: str
    is_running: bool
    safe_at_ms: int
    read: LogPosition


class FollowerFile:
    """The file of one follower, as the follower itself uses it; locked until :meth:`close`."""

    def __init__(self, folder: Path, target: str) -> None:
        """Lock the file of the follower of ``folder`` that copies to ``target``; create it.

        Raises StoreError when another process has it locked, OSError.
        """
        (folder / FOLLOWERS_FOLDER).mkdir(FOLDER_MODE, exist_ok=True)
        name = hashlib.sha256(target.encode()).hexdigest()[:16]
        self.file = folder / FOLLOWERS_FOLDER / f"{name}{_SUFFIX}"
        try:
            self._descriptor = locked_file(self.file, empties=False)
        except BlockingIOError:
            raise StoreError(f"{folder} is copied to {target} by another process", folder) from None
        os.pwrite(self._descriptor, json.dumps(target).encode(), _NAME_AT)

    def begin(self) -> None:
        """Say that nothing is read: then look for the log, which may not be there yet."""
        os.pwrite(self._descriptor, _packed(NO_LOG), _OUR_HALF_AT)
        self.write(NO_LOG, 0)

    def write(self, read: LogPosition, safe_at_ms: int) -> None:
        """Say how far the log is read, and before which moment all commits are copied."""
        os.pwrite(self._descriptor, _packed(read, safe_at_ms), 0)

    def ended(self) -> LogPosition:
        """Return the end of the last log, if it was read to there; else no position of a log."""
        return _half_of(os.pread(self._descriptor, _HALF.size, _OUR_HALF_AT))[0]

    def close(self, *, forget: bool = False) -> None:
        """Release the file, which stays unless ``forget``: then nobody follows any more."""
        if forget:
            self.file.unlink(missing_ok=True)
        os.close(self._descriptor)


def followers_of(folder: Path) -> list[FollowerState]:
    """Return the followers of a folder, sorted by target; raises OSError."""
    found = []
    for file in _files_of(folder):
        read, safe_at_ms = _read_half(file, 0)
        try:
            target = str(json.loads(_bytes_at(file, _NAME_AT, _NAME_BYTES)))
            found.append(FollowerState(target, is_locked(file), safe_at_ms, read))
        except (FileNotFoundError, ValueError):
            # One that ends, or is being made.
            continue
    return sorted(found)


class Followers:
    """The followers of a folder, as the queue manager that has the folder open sees them."""

    def __init__(self, folder: Path, runtime: Runtime) -> None:
        """Look at nothing yet; ``runtime`` waits."""
        self._folder, self._pause = folder, runtime.event()

    def exist(self) -> bool:
        """Return True if there are followers, whether they run or not; raises OSError."""
        return bool(_files_of(self._folder))

    def wait_until_read(self, end: Callable[[], LogPosition], pages: int, seconds: float) -> bool:
        """Wait until all running followers have read the log but for its last ``pages`` frames.

        ``end`` returns the end of the log. Returns False after ``seconds``; True at once when no
        follower runs. Raises OSError.
        """
        for _ in range(max(round(seconds / _LOOK_SECONDS), 1)):
            salts, frames = end()
            reads = [_read_half(f, 0)[0] for f in _files_of(self._folder) if is_locked(f)]
            if all(read.salts == salts and read.frames >= frames - pages for read in reads):
                return True
            self._pause.wait(_LOOK_SECONDS)
        return False

    def let_go(self, end: LogPosition) -> None:
        """Note the end of a log that is about to be begun anew, for each follower.

        One that has not read it to there has lost its place, which is logged if it runs. An error
        is logged only: the followers then begin anew.
        """
        if not end.frames:
            # The end of the one before is noted already.
            return
        try:
            for file in _files_of(self._folder):
                is_read = _read_half(file, 0)[0] == end
                if not is_read and is_locked(file):
                    _LOG.warning(
                        "a backup did not read the log in time, and begins anew: %s", file.name
                    )
                _write_ended(file, end if is_read else _LOST)
        except OSError as error:
            _LOG.error("%s: %s", error.filename, error.strerror)

    def lose_all(self) -> None:
        """Make all followers begin anew: the database is another one. Raises OSError."""
        for file in _files_of(self._folder):
            _write_ended(file, _LOST)


def _files_of(folder: Path) -> list[Path]:
    """Return the files of the followers of a folder; empty without any."""
    return list((folder / FOLLOWERS_FOLDER).glob(f"*{_SUFFIX}"))


def _write_ended(file: Path, end: LogPosition) -> None:
    """Write the queue manager's half of the file of a follower."""
    try:
        descriptor = os.open(file, os.O_WRONLY)
    except FileNotFoundError:
        return
    try:
        os.pwrite(descriptor, _packed(end), _OUR_HALF_AT)
    finally:
        os.close(descriptor)


def _packed(at: LogPosition, moment_ms: int = 0) -> bytes:
    """Return one half of a file: position ``at`` and a moment in ms, with their checksum."""
    fields = _HALF.pack(at.salts, at.frames, moment_ms, bool(at.salts), 0)[:-4]
    return fields + struct.pack(">I", zlib.crc32(fields))


def _half_of(packed: bytes) -> tuple[LogPosition, int]:
    """Return (position, moment in ms) of one half; a position of no log for one without sense."""
    if len(packed) == _HALF.size:
        salts, frames, moment_ms, has_salts, checksum = _HALF.unpack(packed)
        if zlib.crc32(packed[:-4]) == checksum:
            return LogPosition(salts if has_salts else b"", frames), moment_ms
    return _LOST, 0


def _read_half(file: Path, place: int) -> tuple[LogPosition, int]:
    """Return (position, moment in ms) in the half at an offset in a file, which may be missing."""
    return _half_of(_bytes_at(file, place, _HALF.size))


def _bytes_at(file: Path, place: int, count: int) -> bytes:
    """Return up to ``count`` bytes of a file from an offset on; empty without the file."""
    try:
        with file.open("rb") as opened:
            opened.seek(place)
            return opened.read(count)
    except FileNotFoundError:
        return b""
