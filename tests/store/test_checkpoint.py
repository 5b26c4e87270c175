"""A checkpoint holds writers back for little: what it has written before is on the disk by then."""

from __future__ import annotations

import errno
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mayfly.runtime import Files, Runtime
from mayfly.store.database import DATABASE_FILE
from mayfly.store.store import Checkpointer, Store
from tests.facts import wait_until
from tests.store.scene import Disk, forget_checksum_vfs, held, new_row, opened, put_unit

PAGES = 200
LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("locked")
    except BlockingIOError:
        print("refused")
"""
OURS, SQLITES, WRITE = "our sync", "sync .db", "write .db"


class NotingFiles(Files):
    """Files that note each sync of the database among the calls of a disk, and may refuse it."""

    def __init__(self, disk: Disk) -> None:
        self.disk, self.is_failing = disk, False

    def sync_descriptor(self, descriptor: int) -> None:
        self.disk.calls.append(OURS)
        if self.is_failing:
            raise OSError(errno.EIO, "the sync fails")
        super().sync_descriptor(descriptor)


class BusyDisk(Disk):
    """A disk beside whose first write to the database something is done."""

    def __init__(self) -> None:
        self.beside: Callable[[], None] | None = None
        super().__init__()

    def check(self, call: str, name: str) -> None:
        super().check(call, name)
        if f"{call} {name}" == WRITE and self.beside is not None:
            beside, self.beside = self.beside, None
            beside()


@pytest.fixture
def disk() -> Iterator[BusyDisk]:
    forget_checksum_vfs()
    made = BusyDisk()
    yield made
    made.unregister()
    forget_checksum_vfs()


@pytest.fixture(autouse=True)
def _short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Checkpointer, "PAGES_BEFORE_CHECKPOINT", PAGES)


def put_pages(store: Store, count: int) -> None:
    store.commit([put_unit(store, new_row(store, bytes(count * 4_096)))])


def test_what_is_written_back_beside_writers_is_synced_before_they_are_held_back(
    tmp_path: Path, disk: BusyDisk
) -> None:
    store = opened(tmp_path, runtime=Runtime(files=NotingFiles(disk)))
    disk.calls.clear()
    # With a commit meanwhile the checkpoint does not come to the end of the log.
    disk.beside = lambda: put_pages(store, 1)
    put_pages(store, PAGES)
    wait_until(lambda: SQLITES in disk.calls)
    calls = disk.calls[: disk.calls.index(SQLITES)]
    assert calls.count(WRITE) >= PAGES
    assert OURS in calls
    behind = calls[len(calls) - calls[::-1].index(OURS) :]
    assert behind.count(WRITE) <= 20
    store.close()


def test_sync_of_a_checkpoint_that_fails_leaves_the_log_to_the_next_one(
    tmp_path: Path, disk: BusyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    files = NotingFiles(disk)
    store = opened(tmp_path, runtime=Runtime(files=files))
    disk.calls.clear()
    files.is_failing, disk.beside = True, lambda: put_pages(store, 1)
    with caplog.at_level(logging.ERROR, "mayfly.store"):
        put_pages(store, PAGES)
        wait_until(lambda: "checkpoint failed" in caplog.text)
    files.is_failing = False
    disk.calls.clear()
    put_pages(store, PAGES)
    wait_until(lambda: SQLITES in disk.calls)
    ids = held(store)
    assert len(ids) == 3
    store.close()
    again = opened(tmp_path)
    assert held(again) == ids
    assert again.check() == []
    again.close()


def test_the_database_stays_locked_against_other_processes_when_it_was_synced(
    tmp_path: Path, disk: BusyDisk
) -> None:
    """A file that is closed takes all locks with it that its process has on it."""
    store = opened(tmp_path, runtime=Runtime(files=NotingFiles(disk)))
    disk.calls.clear()
    put_pages(store, PAGES)
    wait_until(lambda: OURS in disk.calls and SQLITES in disk.calls)
    assert others_get(tmp_path / DATABASE_FILE) == "refused"
    store.close()
    assert others_get(tmp_path / DATABASE_FILE) == "locked"


def others_get(file: Path) -> str:
    """Let another process lock a whole file; return what came of it."""
    run = subprocess.run(
        [sys.executable, "-c", LOCK, file], check=True, capture_output=True, text=True
    )
    return run.stdout.strip()
