"""kill -9 of a compaction, Java and all: the lake is exact, and the next one finishes it."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.lake.files import Lease, Manifest
from mayfly.pipeline.spark.compaction import compact_lake
from mayfly.pipeline.spark.lake import rows_of
from mayfly.pipeline.spark.report import ledger_report
from tests.spark.killing import kill_tree

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]
_DEADLINE_TICKS = 2_400
_ROWS = 30


def row_count(spark: SparkSession, lake: Path) -> int:
    lease = Lease(lake)
    count = rows_of(spark, lease.snapshot.files).count()
    lease.close()
    return count


def kill_after(seed: int, lake: Path, warehouse: Path, first: int) -> None:
    """Let a process compact until it has published often enough, and kill it a moment later."""
    rng = random.Random(seed)
    begun = Manifest.load(lake).generation
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.drive_compaction", lake, warehouse, str(first)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        for _ in range(_DEADLINE_TICKS):
            if Manifest.load(lake).generation >= begun + rng.randint(6, 12):
                break
            wait_for(process, 0.05)
        wait_for(process, rng.uniform(0, 0.5))
    finally:
        kill_tree(process.pid)
        process.wait()


def wait_for(process: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        pytest.fail(f"it ended by itself: {process.wait(seconds)}")


def test_kills_leave_an_exact_lake_that_the_next_compaction_finishes(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    count = 0
    for seed in (1, 2):
        kill_after(seed, lake, tmp_path / "warehouse", count + 1)
        count = row_count(spark, lake)
        assert count > 0
        assert count % _ROWS == 0
        assert check_lake(lake).texts == []
    compact_lake(spark, lake)
    assert row_count(spark, lake) == count
    assert len(list(lake.glob("date=*/*.parquet"))) == 2
    assert sum(report.lives for report in ledger_report(spark, lake)) == count
    assert not list((lake / "_runs").rglob("*.parquet"))
