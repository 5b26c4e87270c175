"""A disk that remembers each write and sync, and gives a state that a power cut could leave.

Synced data are there. Of data that were written since, each 512-byte sector may be there or not,
independent of the order of the writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import apsw

from mayfly.store.database import DATABASE_FILE
from tests.store.scene import forget_checksum_vfs

LOG_FILE = f"{DATABASE_FILE}-wal"
_SECTOR_BYTES = 512


class Change(NamedTuple):
    """A call that changed a file: ``write``, ``sync``, ``cut`` to ``place``, or ``delete``."""

    file: str
    call: str
    place: int = 0
    data: bytes = b""


class CutDisk(apsw.VFS):
    """A real file system layer that writes down what SQLite does to database and log."""

    def __init__(self, folder: Path) -> None:
        self.changes: list[Change] = []
        self._folder = folder
        self._sizes = {name: _size(folder / name) for name in (DATABASE_FILE, LOG_FILE)}
        super().__init__("mayfly-cuts", "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return CutFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.note(Change(Path(filename).name, "delete"))
        super().xDelete(filename, syncdir)

    def note(self, change: Change) -> None:
        """Remember a change, before it is made."""
        name = change.file
        if name not in self._sizes:
            return
        known, size = self._sizes[name], _size(self._folder / name)
        if size > known:
            # Room that was made in the log without SQLite.
            self.changes.append(Change(name, "write", known, bytes(size - known)))
        self.changes.append(change)
        if change.call == "write":
            self._sizes[name] = max(size, change.place + len(change.data))
        elif change.call in ("cut", "delete"):
            self._sizes[name] = change.place


class CutFile(apsw.VFSFile):
    """A file of the disk; SQLite calls its methods."""

    def __init__(
        self, disk: CutDisk, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._disk, self._name = disk, Path(path).name
        super().__init__("unix", name, flags)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._disk.note(Change(self._name, "sync"))

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.note(Change(self._name, "write", offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._disk.note(Change(self._name, "cut", newsize))
        super().xTruncate(newsize)


@contextmanager
def cut_disk(folder: Path) -> Iterator[CutDisk]:
    """Put a disk that remembers under all databases opened meanwhile."""
    forget_checksum_vfs()
    disk = CutDisk(folder)
    try:
        yield disk
    finally:
        disk.unregister()
        forget_checksum_vfs()


def files_of(folder: Path) -> dict[str, bytes]:
    """Return database and log of a folder that nobody has open."""
    return {
        name: (folder / name).read_bytes()
        for name in (DATABASE_FILE, LOG_FILE)
        if (folder / name).exists()
    }


def cut(before: dict[str, bytes], changes: list[Change], random: Random) -> dict[str, bytes]:
    """Return files that a power cut right after some changes could leave."""
    files = {name: bytearray(content) for name, content in before.items()}
    unsynced: dict[str, list[Change]] = {DATABASE_FILE: [], LOG_FILE: []}
    for change in changes:
        waiting = unsynced[change.file]
        if change.call == "write":
            waiting.append(change)
            continue
        # A file that is cut or deleted is so for all later calls.
        for written in waiting:
            _write(files, written, lambda: True)
        waiting.clear()
        if change.call == "delete":
            files.pop(change.file, None)
        elif change.call == "cut":
            del files.setdefault(change.file, bytearray())[change.place :]
    share = random.choice((0.0, 0.5, 0.9, 1.0))
    for waiting in unsynced.values():
        for written in waiting:
            _write(files, written, lambda: random.random() < share)
    return {name: bytes(content) for name, content in files.items()}


def _write(files: dict[str, bytearray], written: Change, is_there: Callable[[], bool]) -> None:
    content = files.setdefault(written.file, bytearray())
    for start in range(0, len(written.data), _SECTOR_BYTES):
        piece, place = written.data[start : start + _SECTOR_BYTES], written.place + start
        if is_there():
            content.extend(bytes(max(0, place - len(content))))
            content[place : place + len(piece)] = piece


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
