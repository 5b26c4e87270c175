"""Real delay lines: stopped and started, and killed with kill -9, they send everything out once."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from mayfly.pipeline.spark.delay_line import DUE, NOW_COLUMN, PACKED, due_shards, packer
from tests.spark.delay_line_input import check_ended, commit_count, delay_line, ended, write_file
from tests.spark.killing import kill_tree

pytestmark = [pytest.mark.spark, pytest.mark.slow]
NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
#: Generous: a cold batch on a busy machine takes as long as a hundred warm ones.
DEADLINE_TICKS = 12_000
DEADLINE_SECONDS = 600


def run_until(query: StreamingQuery, folder: Path, row_count: int) -> None:
    """Let a query run until so many rows have come out of it, then stop it."""
    try:
        for _ in range(DEADLINE_SECONDS * 10):
            assert not query.awaitTermination(0.1)  # type: ignore[arg-type]  # takes a float
            if ended(folder).num_rows >= row_count:
                return
        pytest.fail(f"{ended(folder).num_rows} of {row_count} rows came out")
    finally:
        query.stop()


@contextmanager
def driver(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A driver in a process group of its own; whatever is left of it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.drive_delay_line", *arguments],
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


def run_for(process: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        pytest.fail(f"the driver ended by itself: {process.wait(seconds)}")


@pytest.mark.long
def test_held_messages_survive_a_restart_with_other_slots_and_shards(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What is due or refused leaves in its own batch; the rest waits through the restart."""
    session = spark.newSession()
    write_file(tmp_path / "in", 0, 50, delay_ms=2_000)
    # A batch for the file there is, and the end; with timers Spark would go on and on.
    session.conf.set(NO_DATA_BATCHES, "false")
    delay_line(session, tmp_path).trigger(availableNow=True).start().awaitTermination()
    session.conf.set(NO_DATA_BATCHES, "true")
    at_once = ended(tmp_path)
    assert at_once["ended_ms"].to_pylist() == at_once["put_ms"].to_pylist()
    assert sorted(n % 10 for n in at_once["id"].to_pylist()) == sorted([0, 1, 2, 3, 9] * 5)
    write_file(tmp_path / "in", 1, 50, delay_ms=100)
    again = delay_line(session, tmp_path, slot_ms=250, shards=5)
    run_until(again.start(), tmp_path, 100)
    check_ended(ended(tmp_path), 100)


@pytest.mark.parametrize("tasks", [2, 4])
def test_rows_that_are_due_keep_every_task_busy(spark: SparkSession, tasks: int) -> None:
    """Shards taken in order all go to one task of two; what is held goes to the shards allowed."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", tasks)
    rows = session.range(6_000, numPartitions=1).select(
        f.expr("cast(repeat('x', 1024) as binary)").alias("payload"),
        f.expr("if(id % 10 = 0, 1001, 1000)").cast("bigint").alias("deliver_at_ms"),
        f.lit(None).cast("bigint").alias("expire_at_ms"),
        f.lit(0).alias("reason"),
        f.lit("1000").alias(NOW_COLUMN),
    )
    packed = rows.mapInArrow(packer(250, 1, due_shards(session)), from_arrow_schema(PACKED))
    sent = packed.repartition(tasks, "shard", "slot").select("*", f.spark_partition_id())
    blobs = sent.drop("blob").collect()
    due_by_task = Counter(task for _, slot, task in blobs if slot == DUE)
    assert sorted(due_by_task) == list(range(tasks))
    assert max(due_by_task.values()) - min(due_by_task.values()) <= 1
    assert {(shard, slot) for shard, slot, _ in blobs if slot != DUE} == {(0, 1_250)}


@pytest.mark.soak
def test_three_kills_lose_and_double_nothing(spark: SparkSession, tmp_path: Path) -> None:
    files, rows_per_file = 0, 200
    for seed in (1, 2, 3):
        rng = random.Random(seed)
        for _ in range(4):
            write_file(tmp_path / "in", files, rows_per_file, delay_ms=1_500)
            files += 1
        wanted = commit_count(tmp_path) + rng.randint(1, 5)
        with driver(str(tmp_path), str(tmp_path / "warehouse")) as process:
            for _ in range(DEADLINE_TICKS):
                if commit_count(tmp_path) >= wanted:
                    break
                run_for(process, 0.05)
            # Anywhere in a batch: reading, holding, writing, committing.
            run_for(process, rng.uniform(0, 0.8))
        assert wanted <= commit_count(tmp_path)
    write_file(tmp_path / "in", files, rows_per_file, delay_ms=1_500)
    row_count = (files + 1) * rows_per_file
    assert ended(tmp_path).num_rows < row_count
    run_until(delay_line(spark.newSession(), tmp_path).start(), tmp_path, row_count)
    check_ended(ended(tmp_path), row_count)
