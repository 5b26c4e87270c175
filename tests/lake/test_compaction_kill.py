"""kill -9 of a compaction: the lake is exact, and the next one finishes it."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mayfly.pipeline.lake.answers import ledger_report
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.lake.compaction import compact_lake
from mayfly.pipeline.lake.files import Lease, Manifest

pytestmark = pytest.mark.slow
_DEADLINE_TICKS = 2_400
_ROWS = 30


def row_count(lake: Path) -> int:
    lease = Lease(lake)
    count: int = sum(pq.ParquetFile(file.path).metadata.num_rows for file in lease.snapshot.files)
    lease.close()
    return count


def kill_after(seed: int, lake: Path, first: int) -> None:
    """Let a process compact until it has published often enough, and kill it a moment later."""
    rng = random.Random(seed)
    begun = Manifest.load(lake).generation
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.lake.drive_compaction", lake, str(first)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(_DEADLINE_TICKS):
            if Manifest.load(lake).generation >= begun + rng.randint(6, 12):
                break
            wait_for(process, 0.05)
        wait_for(process, rng.uniform(0, 0.5))
    finally:
        process.kill()
        process.wait()


def wait_for(process: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        pytest.fail(f"it ended by itself: {process.wait(seconds)}")


@pytest.mark.long
@pytest.mark.parametrize("kill_count", [2, pytest.param(40, marks=pytest.mark.soak)])
def test_kills_leave_an_exact_lake_that_the_next_compaction_finishes(
    tmp_path: Path, kill_count: int
) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    count = 0
    for seed in range(1, kill_count + 1):
        kill_after(seed, lake, count + 1)
        count = row_count(lake)
        assert count > 0
        assert count % _ROWS == 0
        assert check_lake(lake).texts == []
    compact_lake(lake)
    assert row_count(lake) == count
    assert len(list(lake.glob("date=*/*.parquet"))) == 2
    assert sum(report.lives for report in ledger_report(lake)) == count
    assert not list((lake / "_runs").rglob("*.parquet"))
