"""A disk that is small by both of its seams, SQLite's files and ours: filled, and drained whole."""

import errno
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from mayfly.mqi.errors import MQError
from mayfly.runtime import Files, Runtime
from mayfly.store.disk_space import BALLAST_FILE
from mayfly.store.store import Store
from mayfly.store.units import StoredMessage
from tests.facts import wait_until
from tests.store.scene import (
    DISK,
    forget_checksum_vfs,
    get_unit,
    held,
    new_row,
    opened,
    put_unit,
)

CAPACITY_BYTES = 16 * 2**20
BODY_BYTES = 40_000


class SmallFiles(Files):
    """The files of one folder; nothing may become longer than what is left of the capacity."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def disk_bytes(self, _folder: Path) -> int:
        return CAPACITY_BYTES

    def free_bytes(self, _folder: Path) -> int:
        # The index of the log is made whole at the opening.
        sizes = [f.stat().st_size for f in self._folder.iterdir() if f.suffix != ".db-shm"]
        return CAPACITY_BYTES - sum(sizes)

    def check(self, more_bytes: int) -> None:
        if more_bytes > 0 and more_bytes > self.free_bytes(self._folder):
            raise OSError(errno.ENOSPC, "no room")

    def allocate(self, file: Path, size_bytes: int) -> None:
        self.check(size_bytes)
        super().allocate(file, size_bytes)

    def append_zeros(self, file: Path, count_bytes: int) -> int:
        self.check(count_bytes)
        return super().append_zeros(file, count_bytes)


class SmallDisk(apsw.VFS):
    """What SQLite writes to the same folder."""

    def __init__(self, files: SmallFiles) -> None:
        self.files = files
        super().__init__(DISK, "unix")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return SmallDiskFile(self.files, name, flags)


class SmallDiskFile(apsw.VFSFile):
    """One file; a write that finds no room fails as on a full disk."""

    def __init__(
        self, files: SmallFiles, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        self._files = files
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        try:
            self._files.check(offset + len(data) - self.xFileSize())
        except OSError as error:
            raise apsw.FullError(str(error)) from error
        super().xWrite(data, offset)


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    forget_checksum_vfs()
    files = SmallFiles(tmp_path)
    disk = SmallDisk(files)
    yield Runtime(vfs=DISK, files=files)
    disk.unregister()
    forget_checksum_vfs()


def fill(store: Store) -> list[StoredMessage]:
    """Put until that is refused; return what there is."""
    rows = list[StoredMessage]()

    def put_for_ever() -> None:
        while True:
            row = new_row(store, bytes(BODY_BYTES))
            store.commit([put_unit(store, row)])
            rows.append(row)

    with pytest.raises(MQError, match="MQRC_STORAGE_MEDIUM_FULL"):
        put_for_ever()
    return rows


@pytest.mark.slow
def test_small_disk_is_drained_and_filled_again_and_gives_its_ballast_up(
    tmp_path: Path, runtime: Runtime
) -> None:
    store = opened(tmp_path, runtime=runtime)
    ballast = tmp_path / BALLAST_FILE
    while not ballast.exists():
        row = new_row(store)
        store.commit([put_unit(store, row)])
        store.commit([get_unit(row)])
    wait_until(lambda: ballast.stat().st_size == CAPACITY_BYTES // 8)
    counts = []
    for _ in range(3):
        rows = fill(store)
        assert ballast.stat().st_size == 0
        counts.append(len(rows))
        # What adds no messages always finds room.
        for row in rows:
            store.commit([get_unit(row)])
        assert held(store) == []
    assert counts[0] > CAPACITY_BYTES * 6 // 10 // BODY_BYTES
    assert min(counts[1:]) > counts[0] // 4
    assert list(store.check()) == []
    store.close()
    again = opened(tmp_path, runtime=runtime)
    assert held(again) == []
    again.close()
