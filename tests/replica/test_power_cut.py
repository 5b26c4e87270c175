"""Power cuts of a folder whose commits are not synced: what is missing is fetched from the log."""

from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.runtime import Files, Runtime
from mayfly.store.database import DATABASE_FILE, REPLICA_FILE
from mayfly.store.replica.follower import Follower
from mayfly.store.store import Checkpointer
from mayfly.testing import VirtualClock
from tests.replica.test_gate import caught_up
from tests.replica.test_replica import LONG_LEASE_MS, NOW_MS, put
from tests.store.cuts import Change, CutDisk, cut, cut_disk
from tests.store.test_log_cuts import write


class OneStart(Files):
    """Files of one start of a machine, whose syncs a disk remembers."""

    def __init__(self, boot_id: str, disk: CutDisk | None = None) -> None:
        self._boot_id, self._disk = boot_id, disk

    def boot_id(self) -> str:
        return self._boot_id

    def sync(self, file: Path) -> None:
        super().sync(file)
        if self._disk is not None:
            self._disk.note(Change(file.name, "sync"))


def notes_of_puts(
    url: str, folder: Path, disk: CutDisk, chance: Random, count: int
) -> list[tuple[int, bytes]]:
    """Put messages; return after each how many changes the disk has seen, and the folder's note."""
    notes = [(0, b"")]
    runtime = Runtime(files=OneStart("first", disk))
    clock = VirtualClock(NOW_MS)
    with QueueManager(
        "QM1", folder, clock, runtime=runtime, replica=url, replica_lease_ms=LONG_LEASE_MS
    ) as qm:
        qm.define_queue("Q1")
        for _ in range(count):
            put(qm, chance.randbytes(chance.choice((20, 3_000, 20_000))))
            notes.append((len(disk.changes), (folder / REPLICA_FILE).read_bytes()))
    return [*notes, (len(disk.changes), (folder / REPLICA_FILE).read_bytes())]


def check_cuts(url: str, tmp_path: Path, seed: int, put_count: int, cut_count: int) -> None:
    """Cut the power after random changes; the folder is then made that of the log's end."""
    chance = Random(seed)
    with cut_disk(tmp_path / "QM1") as disk:
        notes = notes_of_puts(url, tmp_path / "QM1", disk, chance, put_count)
    whole = caught_up(url, tmp_path / "whole")
    for number in range(cut_count):
        point = chance.randrange(len(disk.changes) + 1)
        folder = tmp_path / str(number)
        write(folder, cut({}, disk.changes[:point], chance))
        # No note is synced, so any of those that were written may be there.
        note = chance.choice([note for count, note in notes if count <= point][-5:])
        (folder / REPLICA_FILE).write_bytes(note)
        follower = Follower(url, "QM1", folder, Runtime(files=OneStart("second")))
        follower.catch_up()
        follower.close()
        assert (folder / DATABASE_FILE).read_bytes() == whole


@pytest.mark.parametrize("checkpoint_pages", [40, 16_000])
def test_a_power_cut_of_a_folder_is_mended_from_the_log(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint_pages: int
) -> None:
    monkeypatch.setattr(Checkpointer, "PAGES_BEFORE_CHECKPOINT", checkpoint_pages)
    check_cuts(url, tmp_path, checkpoint_pages, put_count=40, cut_count=15)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_300_power_cuts_of_a_folder_are_mended_from_the_log(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(Checkpointer, "PAGES_BEFORE_CHECKPOINT", 40)
    check_cuts(url, tmp_path, seed, put_count=150, cut_count=30)
