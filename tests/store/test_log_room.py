"""The write-ahead log is made longer ahead of its writer; a crash finds nothing in that room."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from mayfly.store.database import DATABASE_FILE
from mayfly.store.store import Store
from tests.store.scene import held, new_row, opened, put_unit

WAIT_SECONDS = 60
FRAME_BYTES = 4_096 + 24


def log_bytes(folder: Path) -> int:
    return (folder / f"{DATABASE_FILE}-wal").stat().st_size


def put_until_there_is_room(store: Store, folder: Path) -> list[bytes]:
    """Put messages of a page each until the log is longer than what is in it; return their ids."""
    ids = []
    for _ in range(WAIT_SECONDS * 100):
        row = new_row(store, bytes(FRAME_BYTES))
        store.commit([put_unit(store, row)])
        ids.append(row.msg_id)
        # The size rises while the room is written: 1,024 frames, some of which may be used by now.
        if log_bytes(folder) > store.wal_pages * FRAME_BYTES + 900 * FRAME_BYTES:
            return ids
        threading.Event().wait(0.01)
    raise AssertionError(f"no room after {len(ids)} puts")


def test_a_log_of_few_commits_has_no_room(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.commit([put_unit(store, new_row(store, b"x"))])
    assert log_bytes(tmp_path) == 32 + store.wal_pages * FRAME_BYTES
    store.close()


def test_room_is_made_once_a_queue_manager_works(tmp_path: Path) -> None:
    store = opened(tmp_path)
    ids = put_until_there_is_room(store, tmp_path)
    size = log_bytes(tmp_path)
    for _ in range(20):
        row = new_row(store, b"x")
        store.commit([put_unit(store, row)])
        ids.append(row.msg_id)
    assert log_bytes(tmp_path) == size
    store.close()
    assert not (tmp_path / f"{DATABASE_FILE}-wal").exists()
    again = opened(tmp_path)
    assert held(again) == ids
    again.close()


def test_a_crash_finds_every_message_and_nothing_in_the_room(tmp_path: Path) -> None:
    """The files as a crash leaves them: the log with its room, not yet in the database."""
    store = opened(tmp_path / "alive")
    ids = put_until_there_is_room(store, tmp_path / "alive")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    files = [tmp_path / "alive" / name for name in (DATABASE_FILE, f"{DATABASE_FILE}-wal")]
    # Not by this process: whoever closes a file gives up all locks that its process has on it.
    subprocess.run(["cp", *files, crashed], check=True)
    again = opened(crashed)
    assert held(again) == ids
    assert again.check() == []
    # It goes on in the same log.
    row = new_row(again, b"after")
    again.commit([put_unit(again, row)])
    assert held(again) == [*ids, row.msg_id]
    again.close()
    store.close()


#: No file may grow beyond 3 MB, which is less than the room; what fits is taken as ever.
SMALL_DISK = """
import resource, sys
from pathlib import Path
from tests.store.scene import held, new_row, opened, put_unit

store = opened(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
for _ in range(150):
    store.commit([put_unit(store, new_row(store, b"x"))])
print(store.wal_pages, len(held(store)), store.group.is_broken)
"""


def test_a_disk_without_room_takes_what_fits(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, tmp_path], capture_output=True, text=True, check=True
    )
    pages, count, is_broken = ran.stdout.split()
    assert (count, is_broken) == ("150", "False")
    assert int(pages) > 64
    again = opened(tmp_path)
    assert len(held(again)) == 150
    again.close()
