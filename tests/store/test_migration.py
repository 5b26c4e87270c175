"""A folder of the schema before is brought up to date; one that is older is refused.

Schema 11: copies of one publication share their content; those of before have each their own.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.lifetime.life import State
from mayfly.mqi.errors import StoreError
from mayfly.store.database import DATABASE_FILE, OLDEST_VERSION, SCHEMA_VERSION
from mayfly.store.disk_space import BALLAST_BYTES, BALLAST_FILE
from mayfly.store.units import StoredMessage
from mayfly.testing import VirtualClock
from tests.examples import first_of
from tests.snapshots import on_a_snapshot
from tests.spec.pubsub_scene import drained
from tests.spec.scene import lives
from tests.store.cuts import cut, cut_disk, files_of
from tests.store.kills import ROOT
from tests.store.scene import contents, raw

FIXTURE = Path(__file__).parent / "fixtures" / "version_10"
CLOSED_MS = 1_700_000_001_000
#: What each of four subscriptions has, from the first publication to the last.
OLD = [("old/a", b"first"), ("old/b", b"second"), ("old/a", b"kept")]
QUEUES = ("Q1", "Q2", "Q3", "Q4")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a folder that schema 10 has written."""
    return Path(shutil.copytree(FIXTURE, tmp_path / "OLD"))


def opened(folder: Path, now_ms: int = CLOSED_MS) -> QueueManager:
    return QueueManager("OLD", folder, clock=VirtualClock(now_ms), runtime=on_a_snapshot())


def version_of(folder: Path) -> int:
    return rows_of(folder)[0]


def columns(folder: Path) -> dict[str, list[str]]:
    """Return the tables, indexes and views on the disk, with their columns."""
    connection = raw(folder)
    names = connection.execute("SELECT name FROM sqlite_schema").fetchall()
    found = {
        str(name): [str(row[1]) for row in connection.execute(f"PRAGMA table_info({name})")]
        for (name,) in names
    }
    connection.close()
    return found


def everything_in(folder: Path) -> list[object]:
    connection = raw(folder)
    tables = ("message", "claimed", "ledger", "object", "consumer", "claim", "content")
    found = [list(connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2")) for table in tables]
    connection.close()
    return [columns(folder), rows_of(folder), *found]


def rows_of(folder: Path) -> tuple[int, list[tuple[object, ...]]]:
    """Return the version on the disk, and its messages by the columns that version 10 has."""
    connection = raw(folder)
    version = int(connection.pragma("user_version"))
    names = ", ".join(name for name in columns(FIXTURE)["message"] if name in StoredMessage._fields)
    rows = list(connection.execute(f"SELECT {names} FROM message ORDER BY k"))
    connection.close()
    return version, rows


def test_a_folder_of_version_10_keeps_all_that_it_holds(folder: Path) -> None:
    version, before = rows_of(folder)
    assert (version, len(before)) == (10, 16)
    opened(folder).close()
    assert rows_of(folder) == (SCHEMA_VERSION, before)


def test_copies_of_version_10_and_new_ones_are_got_alike(folder: Path) -> None:
    """Two messages of Q4 are claimed; one publication is delayed."""
    with opened(folder) as qm, qm.session() as session:
        session.publish("old/c", b"new", persistent=True)
        assert contents(qm.engine.store) == [b"new"]
        assert qm.claims.release("reader") == 2
        assert drained(session, "Q1") == [*OLD, (None, b"put"), ("old/c", b"new")]
        for queue in QUEUES[1:]:
            assert drained(session, queue) == [*OLD, ("old/c", b"new")]
        assert contents(qm.engine.store) == []
        assert qm.verify().ok


def test_what_version_10_has_delayed_and_given_a_life_ends_as_it_said(folder: Path) -> None:
    with opened(folder, CLOSED_MS + 100_000) as qm, qm.session() as session:
        qm.run_due()
        assert drained(session, "Q2") == [OLD[0], OLD[2], ("old/c", b"delayed")]
        [expired] = [life for life in lives(qm, "Q2") if life.outcome == State.EXPIRED.value]
        assert expired.body_bytes == len(b"second")
        assert qm.verify().ok


def test_a_folder_of_version_10_ends_with_the_tables_of_a_new_one(
    folder: Path, tmp_path: Path
) -> None:
    opened(folder).close()
    QueueManager("NEW", tmp_path / "NEW", clock=VirtualClock(CLOSED_MS)).close()
    assert columns(folder) == columns(tmp_path / "NEW")


# A migration that is cut off, or has no room


@pytest.mark.parametrize("seed", first_of(2, *range(6)))
def test_a_power_cut_in_the_migration_leaves_the_old_or_the_new_folder(
    folder: Path, tmp_path: Path, seed: int
) -> None:
    before = files_of(folder)
    with cut_disk(folder) as disk:
        opened(folder).close()
    expected = everything_in(folder)
    random = Random(seed)
    for number in range(6):
        moment = random.randrange(len(disk.changes) + 1)
        left = tmp_path / f"LEFT{number}"
        left.mkdir(0o700)
        for name, content in cut(before, disk.changes[:moment], random).items():
            (left / name).write_bytes(content)
        opened(left).close()
        assert everything_in(left) == expected


KILLED_AT = """
import os, signal, sys
from pathlib import Path
import apsw
from mayfly import QueueManager
from mayfly.testing import VirtualClock

folder, at_ms, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
count = 0
def trace(connection):
    def executed(event):
        global count
        count += "ALTER" in event["sql"] or "CREATE" in event["sql"]
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, executed)
apsw.connection_hooks.append(trace)
QueueManager("OLD", folder, clock=VirtualClock(at_ms))
"""


@pytest.mark.parametrize("statement", first_of(2, 1, 5, 2, 3, 4))
def test_a_migration_that_is_killed_has_changed_nothing(folder: Path, statement: int) -> None:
    whole = Path(shutil.copytree(folder, folder.with_name("WHOLE")))
    opened(whole).close()
    command = [sys.executable, "-W", "ignore", "-c", KILLED_AT, str(folder), str(CLOSED_MS)]
    ran = subprocess.run([*command, str(statement)], cwd=ROOT, capture_output=True, check=False)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    assert version_of(folder) == 10
    opened(folder).close()
    assert everything_in(folder) == everything_in(whole)


def test_a_migration_asks_for_room_before_it_begins(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (folder / DATABASE_FILE).read_bytes()
    room = os.statvfs(folder)
    almost_full = os.statvfs_result((*room[:3], 1, 1, *room[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _folder: almost_full)
    said = (
        rf"{DATABASE_FILE} is of schema 10: to bring it to schema {SCHEMA_VERSION} takes up to "
        rf"\d+ bytes, and only {room.f_frsize} are free; nothing has changed"
    )
    with pytest.raises(StoreError, match=said):
        opened(folder)
    assert (folder / DATABASE_FILE).read_bytes() == whole
    monkeypatch.undo()
    opened(folder).close()
    assert version_of(folder) == SCHEMA_VERSION


def test_the_ballast_makes_room_for_a_migration_that_fits_into_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ballast = folder / BALLAST_FILE
    ballast.write_bytes(b"")
    os.truncate(ballast, BALLAST_BYTES)
    room = os.statvfs(folder)

    def statvfs(_folder: object) -> os.statvfs_result:
        free = 1 if ballast.stat().st_size else BALLAST_BYTES // room.f_frsize
        return os.statvfs_result((*room[:3], free, free, *room[5:]))

    monkeypatch.setattr(os, "statvfs", statvfs)
    opened(folder).close()
    assert version_of(folder) == SCHEMA_VERSION
    assert ballast.stat().st_size == 0


# A folder that is too old


def test_a_folder_of_an_older_schema_is_refused_and_left_alone(folder: Path) -> None:
    older = OLDEST_VERSION - 1
    connection = raw(folder)
    connection.pragma("user_version", older)
    connection.close()
    before = (folder / DATABASE_FILE).read_bytes()
    said = (
        f"{folder} was written by an older Mayfly: schema {older}, wanted {SCHEMA_VERSION}, "
        f"brought up to date from {OLDEST_VERSION} on; get its messages with the Mayfly that has "
        "written it, and begin with a new folder"
    )
    with pytest.raises(StoreError) as refused:
        opened(folder)
    assert str(refused.value) == said
    assert (folder / DATABASE_FILE).read_bytes() == before
