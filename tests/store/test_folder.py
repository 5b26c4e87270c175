"""Who may open a folder, and what becomes of one that is damaged, newer, or no folder at all."""

import logging
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.mqi.errors import ConnectionBroken, FolderInUse, NewerSchema, StoreDamaged, StoreError
from mayfly.store.database import DATABASE_FILE, SCHEMA_VERSION
from tests.store.scene import held, new_row, opened, put_unit, raw

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
    with raw(tmp_path) as connection:
        connection.pragma("user_version", SCHEMA_VERSION + 1)
    connection.close()
    with pytest.raises(NewerSchema) as refused:
        opened(tmp_path)
    assert f"schema {SCHEMA_VERSION + 1}" in str(refused.value)
    connection = raw(tmp_path)
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


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set the umask of this process for a block; nobody may have changed it meanwhile."""
    before = os.umask(mask)
    try:
        yield
        assert os.umask(mask) == mask
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Return the modes of a folder and of what is in it, in octal digits."""
    paths = (folder, *folder.iterdir())
    return {path.name: f"{stat.S_IMODE(path.stat().st_mode):04o}" for path in paths}


def warnings_in(log: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in log.records if r.levelno == logging.WARNING]


def test_folder_and_files_are_private_from_their_creation_whatever_the_umask(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "above" / "QM1"
    with umask(0):
        with QueueManager("QM1", folder) as manager:
            manager.mqsc("DEFINE QLOCAL(Q1)")
            assert modes(folder) == {
                "QM1": "0700",
                "mayfly.db": "0600",
                "mayfly.db-wal": "0600",
                "mayfly.db-shm": "0600",
                "identity.json": "0600",
            }
        with QueueManager("QM1", folder) as manager:
            assert set(modes(folder).values()) == {"0700", "0600"}
    assert warnings_in(caplog) == []


def test_folder_open_to_others_is_tightened_with_a_warning_and_files_of_others_are_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "QM1"
    opened(folder).close()
    mine, elsewhere = folder / "notes", tmp_path / "elsewhere"
    for path, mode in ((folder, 0o2775), (folder / DATABASE_FILE, 0o664), (mine, 0o644)):
        path.touch()
        path.chmod(mode)
    elsewhere.touch(0o644)
    (folder / f"{DATABASE_FILE}-link").symlink_to(elsewhere)
    opened(folder).close()
    found = modes(folder)
    assert (found["QM1"], found[DATABASE_FILE], found["notes"]) == ("2700", "0600", "0644")
    assert modes(tmp_path)["elsewhere"] == "0644"
    assert warnings_in(caplog) == [
        f"{folder} had mode 2775, open to others; now it has 2700",
        f"{folder / DATABASE_FILE} had mode 0664, open to others; now it has 0600",
    ]
    opened(folder).close()
    assert len(warnings_in(caplog)) == 2


def test_log_left_by_a_kill_is_tightened_before_its_messages_are_read(tmp_path: Path) -> None:
    process = holder(tmp_path, 'database.writer.execute("CREATE TABLE t (x)")')
    process.kill()
    end(process)
    names = [DATABASE_FILE + suffix for suffix in ("", "-wal", "-shm")]
    for name in names:
        (tmp_path / name).chmod(0o666)
    store = opened(tmp_path)
    assert [modes(tmp_path)[name] for name in names] == ["0600"] * 3
    store.close()


def test_folder_that_is_everybodys_stays_so_and_its_database_is_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with umask(0):
        store = opened(tmp_path)
    found = modes(tmp_path)
    assert found.pop(tmp_path.name) == "1777"
    assert set(found.values()) == {"0600"}
    store.close()


#: Everything is imported first: another user may not read the sources.
AS_NOBODY = """
import logging, os, sys
from pathlib import Path
from mayfly.store.folder_lock import FolderLock
logging.basicConfig(format="%(message)s")
os.setuid(65_534)
lock = FolderLock(Path(sys.argv[1]))
lock.make_private("mayfly.db")
lock.release()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="root alone may become another user")
def test_folder_of_another_user_is_used_as_it_is_with_a_warning() -> None:
    # The folders of tests are closed to other users.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / DATABASE_FILE).touch(0o600)
        answer = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, name],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[2],
        )
        assert answer.returncode == 0, answer.stderr
        assert answer.stderr == (
            f"{name} has mode 0777 and belongs to user 0: others may read it, "
            "and it cannot be changed\n"
        )
        assert modes(folder) == {folder.name: "0777", DATABASE_FILE: "0600"}


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
