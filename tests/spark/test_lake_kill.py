"""kill -9 of driver and Java in mid-stream: the lake ends exact all the same."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from mayfly import QueueManager
from mayfly.lifetime.life import LEDGER_COLUMNS
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.spark.lake import ledger_to_lake
from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN
from tests.bulk.lives import live, queue_manager
from tests.spark.killing import kill_tree

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COMPARED = ["position", "kind", "queue", "msg_id", "ended_ms", "outcome", "puts", "present"]
DEADLINE_TICKS = 2_000


@contextmanager
def driver(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A driver in a process group of its own; whatever is left of it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.drive_lake", *arguments],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill_tree(process.pid)
        process.wait()


def run_until(process: subprocess.Popen[bytes], commits: Path, commit_count: int) -> None:
    """Let the driver run until its checkpoint holds so many commits."""
    for _ in range(DEADLINE_TICKS):
        if len(list(commits.glob("[0-9]*"))) >= commit_count:
            return
        run_for(process, 0.05)
    pytest.fail(f"no {commit_count} commits in {commits}")


def run_for(process: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        pytest.fail(f"the driver ended by itself: {process.wait(seconds)}")


def lake_rows(lake: Path) -> list[tuple[object, ...]]:
    """Return the rows of a lake as any reader of Parquet sees them, by position."""
    table = ds.dataset(lake, format="parquet", partitioning="hive").to_table(columns=COMPARED)
    return sorted(zip(*(table.column(name).to_pylist() for name in COMPARED), strict=True))


def ledger_rows(manager: QueueManager) -> list[tuple[object, ...]]:
    """Return the rows of the ledger itself."""
    columns = [LEDGER_COLUMNS.index(name) for name in COMPARED]
    rows = manager.ledger.page(0, manager.ledger.last_position())
    return [tuple(row[column] for column in columns) for row in rows]


@pytest.mark.parametrize("kill_count", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_kills_lose_and_double_nothing(
    spark: SparkSession, token_file: Path, tmp_path: Path, kill_count: int
) -> None:
    lake = tmp_path / "lake"
    with (
        queue_manager(tmp_path / "QM1") as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
    ):
        commits = lake / "_checkpoint" / manager.ledger.instance_id / "commits"
        arguments = [server.url, str(token_file), str(lake), str(tmp_path / "warehouse")]
        batches = 0
        for seed in range(1, kill_count + 1):
            rng = random.Random(seed)
            live(manager, 6_000)
            batches += rng.randint(1, 3)
            with driver(*arguments) as process:
                run_until(process, commits, batches)
                # Anywhere in a batch: reading, writing, moving files in, committing.
                run_for(process, rng.uniform(0, 0.6))
            batches = len(list(commits.glob("[0-9]*")))
            assert len(lake_rows(lake)) < manager.ledger.last_position()
        ledger_to_lake(spark, server.url, token_file, lake, available_now=True).awaitTermination()
        rows = ledger_rows(manager)
        assert len(rows) > 6_000 * kill_count
        assert lake_rows(lake)[: len(rows)] == rows
        assert check_lake(lake).texts == []
