"""Power cuts at any write: what was acknowledged is there, and no cut is taken for damage.

This proves the rule by which damage of the log is told from a crash (write_ahead_log.py).
"""

from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from mayfly.store.store import Checkpointer, Store
from mayfly.store.units import Unit
from tests.examples import first_of
from tests.store.cuts import CutDisk, cut, cut_disk, files_of
from tests.store.scene import NUMBER, held, life, new_copies, new_row, opened

#: Of one seed: how often the power is cut, each time after what the time before has left, and how
#: many other outcomes of each such run are looked at.
CUTS, PROBES = 3, 3


class Told(NamedTuple):
    """What is on the queue after so many changes on the disk; whether the commit has returned."""

    change_count: int
    ids: list[bytes]
    is_acknowledged: bool


def work(store: Store, random: Random, disk: CutDisk) -> list[Told]:
    """Put, publish and get in transactions of all sizes, of one page to a hundred."""
    rows = store.persistent.in_order(0, 2**62, 100_000)
    told = [Told(len(disk.changes), [row.msg_id for row in rows], is_acknowledged=True)]
    for _ in range(random.randrange(5, 60)):
        unit, gone = Unit(), rows[: random.choice((0, 0, 1, 1, 6))]
        new = [
            new_row(store, random.randbytes(random.choice((20, 300, 3_000, 20_000))))
            for _ in range(random.choice((0, 1, 1, 1, 3, 12)))
        ]
        if random.random() < 0.4:
            new += new_copies(store, random.randbytes(random.choice((20, 9_000))))
        for row in new:
            unit.put(NUMBER, row, persistent=True)
        for row in gone:
            unit.end(NUMBER, row.k, life(row.msg_id, persistent=True))
        rows = [*rows[len(gone) :], *new]
        ids = [row.msg_id for row in rows]
        told.append(Told(len(disk.changes), ids, is_acknowledged=False))
        store.commit([unit])
        told.append(Told(len(disk.changes), ids, is_acknowledged=True))
    return told


def may_be_there(told: list[Told], change_count: int) -> list[list[bytes]]:
    """Return what a store may hold after so many changes: the last acknowledged, or the next."""
    past = [moment for moment in told if moment.change_count <= change_count]
    last = max(n for n, moment in enumerate(past) if moment.is_acknowledged)
    return [moment.ids for moment in past[last:]]


def write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(0o700)
    for name, content in files.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)


def check(folder: Path, allowed: list[list[bytes]]) -> None:
    """Open what a cut has left: no StoreDamaged, nothing lost, nothing else found."""
    store = opened(folder)
    assert held(store) in allowed
    assert store.check() == []
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint_pages", [120, 16_000])
@pytest.mark.parametrize("seed", first_of(1, *range(40)))
def test_log_that_a_power_cut_leaves_is_never_taken_for_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, checkpoint_pages: int
) -> None:
    monkeypatch.setattr(Checkpointer, "PAGES_BEFORE_CHECKPOINT", checkpoint_pages)
    random = Random(seed)
    opened(tmp_path / "0").close()
    before = files_of(tmp_path / "0")
    for number in range(CUTS):
        folder = tmp_path / str(number)
        with cut_disk(folder) as disk:
            store = opened(folder)
            told = work(store, random, disk)
            change_count = len(disk.changes)
            store.close()
        for probe in range(PROBES):
            point = random.randrange(told[0].change_count, change_count + 1)
            files = cut(before, disk.changes[:point], random)
            write(tmp_path / f"{number}-{probe}", files)
            check(tmp_path / f"{number}-{probe}", may_be_there(told, point))
        # The next run begins with what the last of them has left.
        write(tmp_path / str(number + 1), files)
        before = files
