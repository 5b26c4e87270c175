"""kill -9 of executors, which hold messages in their state, and of the driver, on a cluster."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from mayfly.pipeline.spark.cluster import Cluster, cluster
from tests.spark.delay_line_input import check_ended, commit_count, ended, write_file
from tests.spark.transfer import Child, executors_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]
ROWS_PER_FILE = 100
KILLS = 20
#: A driver takes longest to come back.
DRIVER_DIES_EVERY = 5


def kill_an_executor(driver: Child, running: Cluster, random: Random) -> None:
    """Kill one anywhere in a batch: reading, holding, releasing, writing."""
    driver.wait_until(lambda: bool(executors_of(running)), "an executor")
    with suppress(ProcessLookupError):
        os.kill(random.choice(sorted(executors_of(running))), signal.SIGKILL)


def wait_for_batches(driver: Child, folder: Path, count: int) -> None:
    wanted = commit_count(folder) + count
    driver.wait_until(lambda: commit_count(folder) >= wanted, f"{wanted} batches")


def test_kills_of_executors_and_driver_release_each_message_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("MAYFLY_KILL_SEED", "1"))
    random = Random(seed)
    write_file(tmp_path / "in", 0, ROWS_PER_FILE, delay_ms=1_500)
    with cluster(tmp_path / "cluster", master_port=0) as running:
        arguments = (str(tmp_path), str(tmp_path / "warehouse"), running.master_url)
        driver = Child(tmp_path / "driver.log", "tests.spark.drive_delay_line", *arguments)
        driver.start()
        try:
            for number in range(1, KILLS + 1):
                wait_for_batches(driver, tmp_path, random.randint(1, 3))
                write_file(tmp_path / "in", number, ROWS_PER_FILE, delay_ms=1_500)
                kill_an_executor(driver, running, random)
                if number % DRIVER_DIES_EVERY == 0:
                    driver.kill()
                    driver.start()
            row_count = (KILLS + 1) * ROWS_PER_FILE
            driver.wait_until(lambda: ended(tmp_path).num_rows >= row_count, "the last row")
        finally:
            driver.kill()
    check_ended(ended(tmp_path), row_count)
