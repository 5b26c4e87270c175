"""A copied folder is noticed where it is opened; the folder itself may be moved and restarted."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.mqi.errors import StoreCopied
from mayfly.runtime import Files
from mayfly.store.database import DATABASE_FILE
from mayfly.store.restoring import accept_restored, compact
from tests.snapshots import SnapshotFiles, on_a_snapshot

TEMPORARY_FOLDERS = [None, *(Path(place) for place in ("/dev/shm",) if Path(place).is_dir())]


@pytest.fixture(params=TEMPORARY_FOLDERS, ids=str)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """An empty folder of the disk of tests, and one of a disk in memory."""
    if request.param is None:
        yield tmp_path
        return
    found = Path(request.param) / f"mayfly-{os.getpid()}-{tmp_path.name}"
    found.mkdir()
    yield found
    shutil.rmtree(found)


@pytest.fixture
def folder(home: Path) -> Path:
    """The folder of a queue manager with one message."""
    folder = home / "QM1"
    with QueueManager("QM1", folder) as qm:
        qm.define_queue("Q1")
        qm.session().put("Q1", b"x", persistent=True)
    if Files().birth_of(folder / DATABASE_FILE) is None:
        pytest.skip("this file system keeps no birth times")
    return folder


def bodies(folder: Path) -> list[bytes]:
    with QueueManager("QM1", folder) as qm:
        assert qm.verify().ok
        return [message.body for message in qm.session().browse("Q1")]


def test_a_copy_is_refused_until_it_is_accepted(folder: Path) -> None:
    copy = Path(shutil.copytree(folder, folder.with_name("COPY")))
    before = {file.name: file.read_bytes() for file in copy.iterdir()}
    with pytest.raises(StoreCopied, match=r"NOT_AVAILABLE \(2059\): .* --accept-restored"):
        QueueManager("QM1", copy)
    after = {file.name: file.read_bytes() for file in copy.iterdir()}
    assert {n: c for n, c in after.items() if not n.endswith(("-shm", "-wal"))} == before
    accept_restored(copy, "QM1")
    assert bodies(copy) == bodies(folder) == [b"x"]


def test_a_database_that_was_put_back_is_refused_though_nothing_was_done_since(
    folder: Path,
) -> None:
    file = folder / DATABASE_FILE
    shutil.copy2(file, folder.with_name("backup.db"))
    # The same name, and on ext4 the same inode.
    file.unlink()
    shutil.copy2(folder.with_name("backup.db"), file)
    with pytest.raises(StoreCopied):
        QueueManager("QM1", folder)


def test_a_folder_is_no_copy_after_a_move_a_restart_and_a_compaction(folder: Path) -> None:
    moved = folder.rename(folder.with_name("MOVED"))
    assert bodies(moved) == [b"x"]
    compact(moved, "QM1")
    assert bodies(moved) == [b"x"]
    assert bodies(moved) == [b"x"]


def test_a_file_system_without_birth_times_has_no_copies(folder: Path) -> None:
    assert SnapshotFiles().birth_of(folder) is None
    copy = Path(shutil.copytree(folder, folder.with_name("COPY")))
    QueueManager("QM1", copy, runtime=on_a_snapshot()).close()
