"""A file system that is handed in under SQLite: what it refuses, the store tells as documented."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from mayfly import QueueManager
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, StoreError
from mayfly.runtime import Files, Runtime
from mayfly.store.damage import is_protected
from mayfly.store.database import DATABASE_FILE
from mayfly.testing import VirtualClock
from tests.store.scene import DISK, Disk, forget_checksum_vfs, held, new_row, opened, put_unit

#: More than the writes and syncs of one commit.
MAX_CALLS = 100


class RefusingDisk(Disk):
    """A disk that refuses every write and sync from one on, by its number since it was told."""

    def __init__(self) -> None:
        super().__init__(is_default=False)
        self.refused_number: int | None = None

    def refuse(self, number: int, error: type[apsw.Error]) -> None:
        self.calls.clear()
        self.refused_number, self.error = number, error

    def check(self, call: str, name: str) -> None:
        super().check(call, name)
        if self.refused_number is not None and len(self.calls) >= self.refused_number:
            raise self.error(f"{call} {name} is refused")


@pytest.fixture
def disk() -> Iterator[RefusingDisk]:
    forget_checksum_vfs()
    disk = RefusingDisk()
    yield disk
    disk.unregister()
    forget_checksum_vfs()


@pytest.fixture
def runtime(disk: RefusingDisk) -> Runtime:
    return Runtime(vfs=DISK)


def test_queue_manager_keeps_its_messages_on_the_file_system_it_was_given(
    tmp_path: Path, disk: RefusingDisk, runtime: Runtime
) -> None:
    default = apsw.vfs_names()[0]
    with QueueManager("QM1", tmp_path, VirtualClock(), runtime=runtime) as qm:
        qm.mqsc("DEFINE QLOCAL(Q1)")
        disk.calls.clear()
        with qm.session() as session:
            session.put("Q1", b"body", persistent=True)
        assert disk.calls[-1] == "sync .db-wal"
        call_count = len(disk.calls)
        with qm.session() as session:
            session.put("Q1", b"in memory, which is not on it")
        assert len(disk.calls) == call_count
    assert "write .db" in disk.calls
    assert apsw.vfs_names()[0] == default != DISK
    # The checksums lie over it.
    assert is_protected(tmp_path / DATABASE_FILE, Files())


@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError])
def test_from_whichever_write_or_sync_on_a_disk_refuses_a_commit_is_whole_or_not_there(
    tmp_path: Path, disk: RefusingDisk, runtime: Runtime, error: type[apsw.Error]
) -> None:
    reasons, kept = set[int | None](), set[int]()
    for number in range(1, MAX_CALLS):
        folder = tmp_path / str(number)
        store = opened(folder, runtime=runtime)
        store.commit([put_unit(store)])
        disk.refuse(number, error)
        reason = None
        try:
            store.commit([put_unit(store, *(new_row(store, bytes(5_000)) for _ in range(3)))])
        except MQError as refusal:
            reason = refusal.reason
        is_refused = len(disk.calls) >= number
        # A full disk is told and outlived; after anything else nobody knows, and the store stops.
        assert reason == _expected(error) if is_refused else reason is None
        assert store.group.is_broken == (reason == rc.MQRC_CONNECTION_BROKEN)
        disk.refused_number = None
        if not store.group.is_broken:
            store.commit([put_unit(store)])
        store.close()
        again = opened(folder, runtime=runtime)
        count = len(held(again))
        assert again.check() == []
        again.close()
        if reason == rc.MQRC_CONNECTION_BROKEN:
            kept.add(count)
        else:
            assert count == (5 if reason is None else 2)
        reasons.add(reason)
        if not is_refused:
            break
    assert reasons == {None, _expected(error)}
    # Without its sync a transaction may be in the log all the same.
    assert kept <= {1, 4}


def _expected(error: type[apsw.Error]) -> int:
    return {
        apsw.FullError: rc.MQRC_STORAGE_MEDIUM_FULL,
        apsw.IOError: rc.MQRC_CONNECTION_BROKEN,
    }[error]


def test_second_file_system_in_a_process_is_refused_by_name(
    tmp_path: Path, disk: RefusingDisk, runtime: Runtime
) -> None:
    opened(tmp_path / "given", runtime=runtime).close()
    with pytest.raises(StoreError, match=r"through the file system 'mayfly-disk'.*'unix'"):
        opened(tmp_path / "other")
    # It is free again.
    opened(tmp_path / "other", runtime=runtime).close()


def test_file_system_that_sqlite_does_not_know_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="SQLite knows no file system 'nowhere'") as refusal:
        QueueManager("QM1", tmp_path, VirtualClock(), runtime=Runtime(vfs="nowhere"))
    assert refusal.value.path == tmp_path
