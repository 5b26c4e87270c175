"""Who may open a folder, and what becomes of one that is damaged, newer, or no folder at all."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from mayfly import QueueManager
from mayfly.mqi.errors import ConnectionBroken, FolderInUse, NewerSchema, StoreDamaged, StoreError
from mayfly.store.database import DATABASE_FILE
from mayfly.store.migrations import SCHEMA_VERSION
from tests.store.scene import held, new_row, opened, put_unit

HOLDER = """
import os, sys
from pathlib import Path
from mayfly.store.database import Database
database = Database(Path(sys.argv[1]))
exec(sys.argv[2])
print("open", flush=True)
sys.stdin.read()
"""


def holder(folder: Path, *statements: str) -> subprocess.Popen[str]:
    """Start a process that opens the folder, runs statements, and ends with its input."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", HOLDER, str(folder), "\n".join(statements)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.communicate()


def test_a_folder_is_open_once_in_a_process(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(FolderInUse) as refused:
        opened(tmp_path)
    assert refused.value.path == tmp_path
    store.commit([put_unit(store)])
    store.close()
    again = opened(tmp_path)
    assert len(held(again)) == 1
    again.close()


def test_a_symbolic_link_leads_to_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = opened(tmp_path / "real")
    with pytest.raises(FolderInUse):
        opened(tmp_path / "link")
    store.close()


@pytest.mark.slow
def test_a_folder_is_open_once_among_processes_and_free_after_kill_9(tmp_path: Path) -> None:
    process = holder(tmp_path)
    with pytest.raises(FolderInUse):
        opened(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    end(process)
    store = opened(tmp_path)
    store.close()


@pytest.mark.slow
def test_a_folder_is_free_when_its_owner_is_dead_and_a_forked_child_lives_on(
    tmp_path: Path,
) -> None:
    process = holder(tmp_path, "child = os.fork()", "if child: os._exit(0)", "database.close()")
    process.wait()
    store = opened(tmp_path)
    store.commit([put_unit(store)])
    assert len(held(store)) == 1
    store.close()
    end(process)


@pytest.mark.slow
def test_a_forked_child_that_ends_leaves_its_parent_the_folder(tmp_path: Path) -> None:
    process = holder(tmp_path, "child = os.fork()", "if not child: os._exit(0)", "os.wait()")
    with pytest.raises(FolderInUse):
        opened(tmp_path)
    end(process)
    opened(tmp_path).close()


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with apsw.Connection(str(tmp_path / DATABASE_FILE)) as connection:
        connection.pragma("user_version", SCHEMA_VERSION + 1)
    connection.close()
    with pytest.raises(NewerSchema) as refused:
        opened(tmp_path)
    assert f"schema {SCHEMA_VERSION + 1}" in str(refused.value)
    connection = apsw.Connection(str(tmp_path / DATABASE_FILE))
    assert connection.pragma("user_version") == SCHEMA_VERSION + 1
    connection.close()


@pytest.mark.parametrize("offset", [0, 20, 100])
def test_a_damaged_header_is_said_and_nothing_overwritten(tmp_path: Path, offset: int) -> None:
    store = opened(tmp_path)
    store.commit([put_unit(store, *(new_row(store, bytes(500)) for _ in range(200)))])
    store.close()
    file = tmp_path / DATABASE_FILE
    whole = file.read_bytes()
    damaged = whole[:offset] + bytes(b ^ 0xFF for b in whole[offset : offset + 16])
    damaged += whole[offset + 16 :]
    file.write_bytes(damaged)
    with pytest.raises(StoreDamaged) as refused:
        opened(tmp_path)
    assert refused.value.path == tmp_path
    assert file.read_bytes() == damaged
    file.write_bytes(whole)
    again = opened(tmp_path)
    assert len(held(again)) == 200
    again.close()


def test_damage_in_the_middle_is_found_by_check_and_read_and_not_written_over(
    tmp_path: Path,
) -> None:
    store = opened(tmp_path)
    store.commit([put_unit(store, *(new_row(store, bytes(500)) for _ in range(400)))])
    store.close()
    file = tmp_path / DATABASE_FILE
    whole = bytearray(file.read_bytes())
    middle = len(whole) // 8192 * 4096
    whole[middle : middle + 64] = bytes(64)
    file.write_bytes(whole)
    again = opened(tmp_path)
    assert again.check()
    with pytest.raises(StoreDamaged):
        held(again)
    again.close()
    assert file.read_bytes()[middle : middle + 64] == bytes(64)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for path in (file, file / "below"):
        with pytest.raises(StoreError) as refused:
            opened(path)
        assert refused.value.path == path
    assert file.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    for path in (tmp_path, tmp_path / "below"):
        with pytest.raises(StoreError):
            opened(path)
    tmp_path.chmod(0o700)


def test_a_folder_that_cannot_be_made_is_said() -> None:
    with pytest.raises(StoreError) as refused:
        opened(Path("/proc/mayfly"))
    assert refused.value.path == Path("/proc/mayfly")


def test_a_folder_belongs_to_the_queue_manager_that_made_it(tmp_path: Path) -> None:
    with QueueManager("QM1", tmp_path):
        pass
    with pytest.raises(StoreError, match="folder of queue manager QM1"):
        QueueManager("QM2", tmp_path)
    with QueueManager("QM1", tmp_path) as again:
        assert again.verify().ok


def test_damage_that_a_browse_reads_stops_the_queue_manager(tmp_path: Path) -> None:
    with QueueManager("QM1", tmp_path) as manager, manager.session(transacted=True) as session:
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)")
        for _ in range(2_000):
            session.put("Q1", bytes(1_000), persistent=True)
    file = tmp_path / DATABASE_FILE
    whole = bytearray(file.read_bytes())
    for offset in range(200_000, len(whole) - 100_000, 4_096):
        whole[offset : offset + 16] = b"\xff" * 16
    file.write_bytes(whole)
    manager = QueueManager("QM1", tmp_path)
    with manager.session() as session:
        with pytest.raises(StoreDamaged):
            list(session.browse("Q1"))
        with pytest.raises(ConnectionBroken):
            session.put("Q1", b"more")
    manager.close()
