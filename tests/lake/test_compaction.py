"""Compaction: fewer files, the same rows, for every reader, wherever it is cut off."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from mayfly.pipeline.errors import LakeError
from mayfly.pipeline.lake.answers import ledger_report
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.lake.compaction import (
    FILES_LEFT_MAX,
    LakeBusy,
    LakeCompaction,
    compact_beside,
    compact_lake,
)
from mayfly.pipeline.lake.files import Lease, Manifest, held_alone
from tests.bulk.books import life
from tests.lake.knife import CutOffError, Knife
from tests.spark.lakes import balance, write_lake

DATES = ("2023-11-14", "2023-11-15")


def fill(lake: Path, batch_count: int, first: int = 1) -> int:
    """Write batches of four lives in turn on two dates; return the position after the last."""
    for batch in range(batch_count):
        queues = ("Q2", "Q1", "Q2", "Q1")
        lives = [life(first + n, queue) for n, queue in enumerate(queues)]
        write_lake(lake, lives, first, date=DATES[batch % 2])
        first += len(lives)
    return first


def positions(lake: Path) -> list[int]:
    """Return every position our reader sees; it leaves no lease behind."""
    lease = Lease(lake)
    found = positions_in(lease)
    lease.close()
    return found


def positions_in(lease: Lease) -> list[int]:
    """Return every position in the files that a lease keeps."""
    columns = (pq.ParquetFile(file.path).read(["position"]) for file in lease.snapshot.files)
    return sorted(position for column in columns for position in column[0].to_pylist())


def seen_by_others(lake: Path) -> list[int]:
    """Return every position that a reader sees who knows of Parquet and dates only."""
    table = ds.dataset(lake, format="parquet", partitioning="hive").to_table(columns=["position"])
    return sorted(table.column("position").to_pylist())


def files(lake: Path) -> list[str]:
    return sorted(str(path.relative_to(lake)) for path in lake.glob("date=*/*.parquet"))


def left_over(lake: Path) -> list[Path]:
    """Return what a finished compaction has no use for."""
    folders = ("_staging", "_runs")
    return [path for name in folders for path in (lake / name).rglob("*") if path.is_file()]


def test_one_file_a_date_sorted_by_queue_and_position(tmp_path: Path) -> None:
    end = fill(tmp_path, 6)
    assert compact_lake(tmp_path) == LakeCompaction(dates=2, files_before=6, files_after=2)
    assert len(files(tmp_path)) == 2
    for file in files(tmp_path):
        rows = pq.ParquetFile(tmp_path / file).read(["queue", "position"]).to_pylist()
        order = [(row["queue"], row["position"]) for row in rows]
        assert len(order) == 12
        assert order == sorted(order)
    assert positions(tmp_path) == seen_by_others(tmp_path) == list(range(1, end))
    assert left_over(tmp_path) == []


def test_compacting_again_changes_nothing(tmp_path: Path) -> None:
    fill(tmp_path, 4)
    compact_lake(tmp_path)
    before = files(tmp_path), Manifest.load(tmp_path)
    assert compact_lake(tmp_path) == LakeCompaction(0, 0, 0)
    assert (files(tmp_path), Manifest.load(tmp_path)) == before


def test_a_date_with_one_file_is_left_as_it_is(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    assert compact_lake(tmp_path) == LakeCompaction(0, 0, 0)
    assert all("batch-" in name for name in files(tmp_path))


def test_new_batches_join_the_run_there_is(tmp_path: Path) -> None:
    end = fill(tmp_path, 4)
    compact_lake(tmp_path)
    end = fill(tmp_path, 3, end)
    assert compact_lake(tmp_path) == LakeCompaction(dates=2, files_before=5, files_after=2)
    assert positions(tmp_path) == seen_by_others(tmp_path) == list(range(1, end))
    assert len(files(tmp_path)) == 2


@pytest.mark.soak
def test_beside_a_stream_few_files_wait_and_runs_stay_few(tmp_path: Path) -> None:
    end = fill(tmp_path, 2 * FILES_LEFT_MAX)
    compact_beside(tmp_path)
    assert len(files(tmp_path)) == 2 * FILES_LEFT_MAX
    for _ in range(6):
        end = fill(tmp_path, 2 * FILES_LEFT_MAX + 2, end)
        compact_beside(tmp_path)
    assert len(files(tmp_path)) <= 2 * 4
    assert positions(tmp_path) == seen_by_others(tmp_path) == list(range(1, end))


def test_a_reader_that_began_before_finds_its_files(tmp_path: Path) -> None:
    end = fill(tmp_path, 4)
    compact_lake(tmp_path)
    end = fill(tmp_path, 4, end)
    lease = Lease(tmp_path)
    before = files(tmp_path)
    compact_lake(tmp_path)
    # It has read nothing yet; who comes now reads the run that lies beside the lake.
    assert files(tmp_path) == before
    assert positions(tmp_path) == seen_by_others(tmp_path) == list(range(1, end))
    assert positions_in(lease) == list(range(1, end))
    hidden = Lease(tmp_path)
    lease.close()
    compact_lake(tmp_path)
    assert len(files(tmp_path)) == 2
    assert positions_in(hidden) == list(range(1, end))
    hidden.close()
    compact_lake(tmp_path)
    assert left_over(tmp_path) == []
    assert positions(tmp_path) == seen_by_others(tmp_path) == list(range(1, end))


@pytest.mark.soak
def test_cut_off_at_any_change_of_a_file_nobody_sees_a_row_twice_or_misses_one(
    tmp_path: Path, knife: Knife
) -> None:
    original = tmp_path / "original"
    end = fill(original, 4)
    compact_lake(original)
    end = fill(original, 2, end)
    wanted = list(range(1, end))
    cuts, is_done = 0, False
    while not is_done:
        lake = tmp_path / f"cut-{cuts}"
        shutil.copytree(original, lake)
        with knife.cut_at(lake, cuts):
            try:
                compact_lake(lake)
                is_done = True
            except CutOffError:
                cuts += 1
        assert positions(lake) == wanted, f"cut {cuts}"
        if cuts % 4 == 0 and not is_done:
            # The next one finishes what it finds.
            compact_lake(lake)
            assert len(files(lake)) == 2
            assert seen_by_others(lake) == wanted
            assert left_over(lake) == []
            assert sum(report.lives for report in ledger_report(lake)) == end - 1
        shutil.rmtree(lake)
    assert cuts > 20


def test_a_batch_that_comes_again_after_it_was_compacted_is_not_read(tmp_path: Path) -> None:
    end = fill(tmp_path, 4)
    compact_lake(tmp_path)
    fill(tmp_path, 4)
    assert positions(tmp_path) == list(range(1, end))
    assert sum(report.lives for report in ledger_report(tmp_path)) == end - 1
    compact_lake(tmp_path)
    assert seen_by_others(tmp_path) == list(range(1, end))


def test_only_one_compacts_at_a_time(tmp_path: Path) -> None:
    fill(tmp_path, 4)
    with held_alone(tmp_path, "maintenance") as is_ours:
        assert is_ours
        with pytest.raises(LakeBusy, match="being maintained by another process"):
            compact_lake(tmp_path)
        compact_beside(tmp_path)
    assert len(files(tmp_path)) == 4
    assert compact_lake(tmp_path).dates == 2


def test_a_lost_run_is_named_and_not_passed_over(tmp_path: Path) -> None:
    write_lake(tmp_path, [life(1), balance("Q1", 1, got=1)])
    write_lake(tmp_path, [life(2), balance("Q1", 2, got=2)], first=3)
    compact_lake(tmp_path)
    assert check_lake(tmp_path).texts == []
    [name] = files(tmp_path)
    (tmp_path / name).unlink()
    assert check_lake(tmp_path).texts == [f"{tmp_path / name} is missing"]
    with pytest.raises(LakeError, match=f"{name} is missing"):
        ledger_report(tmp_path)


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    fill(tmp_path, 4)
    compact_lake(tmp_path)
    manifest = tmp_path / "_mayfly" / "manifest.json"
    for text in ("{", '{"version": 1}', '{"version": 2, "dates": {}, "novelty": 1}'):
        manifest.write_text(text)
        with pytest.raises(LakeError, match=r"manifest\.json is"):
            ledger_report(tmp_path)


def test_a_copy_of_the_dates_alone_is_a_lake(tmp_path: Path) -> None:
    lake, copy = tmp_path / "lake", tmp_path / "copy"
    end = fill(lake, 4)
    compact_lake(lake)
    fill(lake, 1, end)
    for folder in lake.glob("date=*"):
        shutil.copytree(folder, copy / folder.name)
    assert positions(copy) == list(range(1, end + 4))
    compact_lake(copy)
    assert positions(copy) == seen_by_others(copy) == list(range(1, end + 4))
