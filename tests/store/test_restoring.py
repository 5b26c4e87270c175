"""``compact``: the same content in a smaller database, with checksums; or nothing has changed."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from mayfly import QueueManager
from mayfly.mqi.errors import FolderInUse, StoreDamaged, StoreError
from mayfly.runtime import Files
from mayfly.store.damage import IDENTITY_FILE, is_protected
from mayfly.store.database import DATABASE_FILE, SCHEMA_VERSION, schema
from mayfly.store.restoring import accept_restored, compact
from mayfly.testing import VirtualClock
from tests.spec.scene import local
from tests.store.scene import held, new_row, opened, put_unit, statement

CLOSED_MS = 1_700_000_001_000


def old_folder(tmp_path: Path) -> Path:
    """Return the folder of a queue manager whose pages have no checksums."""
    folder = tmp_path / "OLD"
    with QueueManager("OLD", folder, VirtualClock(CLOSED_MS)) as qm, qm.session() as session:
        local(qm)
        for number in (2, 3, 4):
            session.put("Q1", b"body %d" % number, persistent=True)
        session.put("Q1", b"delayed", persistent=True, delay_ms=60_000)
    file, without = folder / DATABASE_FILE, tmp_path / "without"
    connection = apsw.Connection(str(without), vfs="unix")
    connection.execute(schema())
    connection.execute("ATTACH ? AS whole", (str(file),))
    tables = connection.execute("SELECT name FROM main.sqlite_schema WHERE type = 'table'")
    for (table,) in tables.fetchall():
        connection.execute(f"INSERT INTO main.{table} SELECT * FROM whole.{table}")
    connection.execute("DELETE FROM main.meta WHERE name = 'file'")
    connection.pragma("user_version", SCHEMA_VERSION)
    connection.close()
    without.replace(file)
    (folder / IDENTITY_FILE).unlink()
    return folder


def bodies_of(folder: Path) -> list[bytes]:
    with QueueManager("OLD", folder, VirtualClock(CLOSED_MS)) as qm, qm.session() as session:
        assert qm.verify().ok
        assert qm.counts("Q1").staged == 1
        return [message.body for message in session.browse("Q1")]


def test_store_without_checksums_is_used_as_it_is_until_it_is_compacted(tmp_path: Path) -> None:
    folder = old_folder(tmp_path)
    before = bodies_of(folder)
    assert before == [b"body 2", b"body 3", b"body 4"]
    assert not is_protected(folder / DATABASE_FILE, Files())
    assert compact(folder, "OLD").is_protected
    assert is_protected(folder / DATABASE_FILE, Files())
    assert bodies_of(folder) == before
    whole = bytearray((folder / DATABASE_FILE).read_bytes())
    whole[whole.index(b"body 3")] ^= 1
    (folder / DATABASE_FILE).write_bytes(whole)
    with pytest.raises(StoreDamaged):
        bodies_of(folder)


def test_compacting_gives_back_what_is_free_and_keeps_the_mode(tmp_path: Path) -> None:
    store = opened(tmp_path)
    rows = [new_row(store, os.urandom(3_000)) for _ in range(500)]
    store.commit([put_unit(store, *rows)])
    store.commit([statement("DELETE FROM message WHERE k > ?", rows[9].k)])
    store.close()
    found = compact(tmp_path, "QM1")
    file = tmp_path / DATABASE_FILE
    assert found.bytes_before > 1_500_000 > 200_000 > found.bytes_after == file.stat().st_size
    assert file.stat().st_mode & 0o777 == 0o600
    assert [f.name for f in tmp_path.iterdir() if f.name.startswith(DATABASE_FILE)] == [
        DATABASE_FILE
    ]
    again = opened(tmp_path)
    assert held(again) == [row.msg_id for row in rows[:10]]
    assert again.check() == []
    again.close()


def test_compacting_is_refused_while_somebody_has_the_folder_open(tmp_path: Path) -> None:
    with QueueManager("QM1", tmp_path) as qm:
        local(qm)
        for refused in (compact, accept_restored):
            with pytest.raises(FolderInUse):
                refused(tmp_path, "QM1")
        assert qm.verify().ok
    with pytest.raises(StoreError, match="folder of queue manager QM1"):
        compact(tmp_path, "QM2")


#: No file may grow beyond the given size, as on a disk that has no more room.
ON_A_SMALL_DISK = """
import resource, signal, sys
from pathlib import Path
from mayfly.mqi.errors import StoreError
from mayfly.store.database import SCHEMA_VERSION, schema
from mayfly.store.restoring import compact
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
try:
    compact(Path(sys.argv[1]), "OLD")
except StoreError as error:
    print(error.message)
"""


def test_compacting_that_finds_no_room_changes_nothing(tmp_path: Path) -> None:
    folder = old_folder(tmp_path)
    before = bodies_of(folder)
    whole = (folder / DATABASE_FILE).read_bytes()
    assert len(whole) > 60_000
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ON_A_SMALL_DISK, folder],
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(folder) in ran.stdout, ran.stderr
    assert (folder / DATABASE_FILE).read_bytes() == whole
    assert [f.name for f in folder.iterdir() if "compact" in f.name] == []
    assert bodies_of(folder) == before
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 60_000


def test_compacting_asks_for_room_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = old_folder(tmp_path)
    room = os.statvfs(folder)
    almost_full = os.statvfs_result((*room[:3], 1, 1, *room[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _folder: almost_full)
    with pytest.raises(StoreError, match=r"has \d+ bytes, and only \d+ are free for its copy"):
        compact(folder, "OLD")
    assert not is_protected(folder / DATABASE_FILE, Files())


def test_what_a_killed_compacting_has_left_is_removed_by_the_next(tmp_path: Path) -> None:
    folder = old_folder(tmp_path)
    (folder / f"{DATABASE_FILE}.compact").write_bytes(b"half of it")
    assert bodies_of(folder)
    compact(folder, "OLD")
    assert [f.name for f in folder.iterdir() if "compact" in f.name] == []
    assert bodies_of(folder)


def test_compacting_a_damaged_store_says_so_and_leaves_it(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.commit([put_unit(store, *(new_row(store, bytes(3_000)) for _ in range(100)))])
    store.close()
    file = tmp_path / DATABASE_FILE
    whole = bytearray(file.read_bytes())
    for place in range(len(whole) // 2, len(whole), 4_096):
        whole[place] ^= 1
    file.write_bytes(whole)
    with pytest.raises(StoreDamaged):
        compact(tmp_path, "QM1")
    after = file.read_bytes()
    assert after[len(whole) // 2 :] == bytes(whole[len(whole) // 2 :])
    assert [f.name for f in tmp_path.iterdir() if "compact" in f.name] == []


def test_there_is_nothing_to_accept_in_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nothing to accept"):
        accept_restored(tmp_path, "QM1")
    assert list(tmp_path.iterdir()) == []
