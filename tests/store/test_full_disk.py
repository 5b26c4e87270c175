"""A full disk can be drained: messages are got and discarded, and puts are taken again after it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from mayfly import MQError
from mayfly.mqi import reasons as rc
from mayfly.store.disk_space import BALLAST_BYTES, BALLAST_FILE, Ballast
from mayfly.store.store import Checkpointer, Store
from mayfly.store.units import Unit
from tests.facts import wait_until
from tests.store.scene import (
    NUMBER,
    Disk,
    forget_checksum_vfs,
    gate,
    get_unit,
    held,
    new_row,
    opened,
    put_unit,
)

ROOT = Path(__file__).parents[2]
TAKEN_OR_FULL = (None, rc.MQRC_STORAGE_MEDIUM_FULL)
#: In a namespace of its own, so that nobody else sees the disk, and it is gone afterwards.
MOUNT = 'mount -t tmpfs -o size="$1" none "$2" && exec "$3" -W ignore "$4" "$2/QM1" "$5"'


def on_a_disk(folder: Path, size: str, keeper: str) -> dict[str, object]:
    """Run small_disk.py where the disk is so small; return what it has found."""
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        subprocess.run([*alone, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine lets nobody mount a disk of their own")
    script = Path(__file__).with_name("small_disk.py")
    ran = subprocess.run(
        [*alone, "sh", "-c", MOUNT, "sh", size, folder, sys.executable, script, keeper],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def count_of(found: dict[str, object], what: str) -> int:
    """Return how many messages a small disk has taken until MQRC_STORAGE_MEDIUM_FULL."""
    answer = found[what]
    assert isinstance(answer, list)
    count, reason = answer
    assert reason == rc.MQRC_STORAGE_MEDIUM_FULL
    return int(count)


@pytest.mark.slow
@pytest.mark.long
# On a busy machine the thread that writes the log back may come too late: here it never comes.
@pytest.mark.parametrize("keeper", ["late", pytest.param("prompt", marks=pytest.mark.soak)])
@pytest.mark.parametrize("size", ["40m", pytest.param("120m", marks=pytest.mark.soak)])
def test_full_disk_is_drained_to_the_last_message_and_takes_new_ones(
    tmp_path: Path, size: str, keeper: str
) -> None:
    found = on_a_disk(tmp_path, size, keeper)
    # With less to spare it would come and go with each message.
    assert found["comes back"] == [False, True]
    filled, again = count_of(found, "filled"), count_of(found, "filled again")
    assert filled > 300
    assert (found["ballast"], found["got some"], found["refused"]) == (0, 50, [0, 2192])
    assert found["got all"] == filled - 50
    assert again > filled // 4
    assert (found["depth"], found["got expired"]) == (again, 0)
    assert found["got later"] == count_of(found, "filled later") > filled // 4
    assert found["problems"] == found["problems later"] == []
    # It would have fitted into the log, and later not into the database.
    assert found["large unit"] == rc.MQRC_STORAGE_MEDIUM_FULL
    assert found["got after it"] == count_of(found, "filled after it") > filled // 4


class TightDisk(Disk):
    """A disk that has room for a file only while the ballast takes none."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.ballast = folder / BALLAST_FILE
        self.is_tight, self.tight_file = False, ".db-wal"

    def check(self, call: str, name: str) -> None:
        is_refused = self.is_tight and (call, name) == ("write", self.tight_file)
        if is_refused and self.ballast.stat().st_size:
            raise apsw.FullError("no room")
        super().check(call, name)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[TightDisk]:
    """The disk under the stores of a test."""
    forget_checksum_vfs()
    disk = TightDisk(tmp_path)
    yield disk
    disk.unregister()
    forget_checksum_vfs()


def with_ballast(folder: Path) -> Store:
    """Return an empty store that has worked so much that its ballast is there."""
    store = opened(folder)
    file = folder / BALLAST_FILE
    while not file.exists():
        row = new_row(store)
        store.commit([put_unit(store, row)])
        store.commit([get_unit(row)])
    wait_until(lambda: file.stat().st_size == BALLAST_BYTES)
    return store


def outcome_of(store: Store, unit: Unit) -> int | None:
    """Return the reason code with which a unit fails, None when it does not."""
    try:
        store.commit([unit])
    except MQError as error:
        return error.reason
    return None


def test_store_in_which_little_was_written_takes_no_room_for_a_ballast(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.commit([put_unit(store)])
    store.close()
    assert not (tmp_path / BALLAST_FILE).exists()
    with_ballast(tmp_path).close()
    file = (tmp_path / BALLAST_FILE).stat()
    assert (file.st_size, file.st_mode & 0o777) == (BALLAST_BYTES, 0o600)
    assert file.st_blocks * 512 >= BALLAST_BYTES


def test_put_is_refused_on_a_full_disk_and_a_get_is_not(
    tmp_path: Path, disk: TightDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = with_ballast(tmp_path)
    rows = [new_row(store) for _ in range(4)]
    store.commit([put_unit(store, *rows[:3])])
    disk.is_tight = True
    # There is no room for it meanwhile.
    monkeypatch.setattr(Ballast, "restore", lambda _self, _owed_bytes: False)
    assert outcome_of(store, put_unit(store, rows[3])) == rc.MQRC_STORAGE_MEDIUM_FULL
    assert (tmp_path / BALLAST_FILE).stat().st_size == 0
    assert outcome_of(store, get_unit(rows[0])) is None
    # As many as it ends it may add: a report for what was discarded, an answer for a request.
    both = get_unit(rows[1])
    both.put(NUMBER, new_row(store), persistent=True)
    assert outcome_of(store, both) is None
    both = get_unit(rows[2])
    for _ in range(2):
        both.put(NUMBER, new_row(store), persistent=True)
    assert outcome_of(store, both) == rc.MQRC_STORAGE_MEDIUM_FULL
    assert len(held(store)) == 2
    monkeypatch.undo()
    disk.is_tight = False
    assert outcome_of(store, put_unit(store, rows[3])) is None
    assert (tmp_path / BALLAST_FILE).stat().st_size == BALLAST_BYTES
    assert len(held(store)) == 3
    store.close()


def test_batch_that_finds_the_disk_full_keeps_its_gets(
    tmp_path: Path, disk: TightDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gate() as opening:
        store = with_ballast(tmp_path)
    there = [new_row(store) for _ in range(2)]
    store.commit([put_unit(store, *there)])
    monkeypatch.setattr(Ballast, "restore", lambda _self, _owed_bytes: False)
    disk.is_tight = True
    # The gate's own transaction is written as well, and gives the ballast up.
    units = [get_unit(there[0]), put_unit(store), get_unit(there[1]), put_unit(store)]
    outcomes = opening.batch(store, *units)
    assert [getattr(outcome, "reason", None) for outcome in outcomes] == [
        None,
        rc.MQRC_STORAGE_MEDIUM_FULL,
        None,
        rc.MQRC_STORAGE_MEDIUM_FULL,
    ]
    assert held(store) == []
    assert store.ledger_writer.totals[NUMBER].present == 0
    store.close()


def test_ballast_that_was_given_up_stays_so_over_a_restart(
    tmp_path: Path, disk: TightDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = with_ballast(tmp_path)
    row = new_row(store)
    store.commit([put_unit(store, row)])
    monkeypatch.setattr(Ballast, "restore", lambda _self, _owed_bytes: False)
    disk.is_tight = True
    assert outcome_of(store, put_unit(store)) == rc.MQRC_STORAGE_MEDIUM_FULL
    store.close()
    again = opened(tmp_path)
    assert outcome_of(again, put_unit(again)) == rc.MQRC_STORAGE_MEDIUM_FULL
    assert outcome_of(again, get_unit(row)) is None
    monkeypatch.undo()
    disk.is_tight = False
    assert outcome_of(again, put_unit(again)) is None
    again.close()


def test_disk_that_is_full_at_the_opening_is_no_reason_to_refuse_it(
    tmp_path: Path, disk: TightDisk
) -> None:
    store = with_ballast(tmp_path)
    row = new_row(store)
    store.commit([put_unit(store, row)])
    store.close()
    disk.is_tight = True
    again = opened(tmp_path)
    assert outcome_of(again, get_unit(row)) is None
    again.close()


def test_checkpoint_that_finds_the_disk_full_gives_the_ballast_up(
    tmp_path: Path, disk: TightDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has room, and what is in it would find none in the database."""
    monkeypatch.setattr(Checkpointer, "PAGES_BEFORE_CHECKPOINT", 200)
    store = with_ballast(tmp_path)
    # There is no room for it meanwhile.
    monkeypatch.setattr(Ballast, "restore", lambda _self, _owed_bytes: False)
    disk.tight_file, disk.is_tight = ".db", True
    while (tmp_path / BALLAST_FILE).stat().st_size:
        assert outcome_of(store, put_unit(store, new_row(store, bytes(10_000)))) in TAKEN_OR_FULL
    assert store.check() == []
    store.close()
