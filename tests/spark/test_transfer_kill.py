"""kill -9 of driver, executors and queue manager, anywhere in a transfer on a real cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mayfly.lifetime.life import State
from mayfly.pipeline.spark.cluster import Cluster, cluster
from tests.spark.transfer import Transfer

# In make test a driver ends between two steps in tests/pipeline/test_bad_rows.py, and a server is
# killed under its reader in tests/spark/test_queue_source_kill.py.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]
#: Between the tasks' write and the commit; in the midst of the promotion; and between the end of
#: the promotion and Spark's own log. A time is how far behind the moment it may be.
WINDOWS = (("written", 0.0), ("promoting", 0.03), ("promoted", 0.0))


@pytest.fixture
def running(tmp_path: Path, worker_count: int) -> Iterator[Cluster]:
    """A cluster of its own: what is killed here is nobody else's."""
    with cluster(tmp_path / "cluster", master_port=0, worker_count=worker_count) as running:
        yield running


def kill_an_executor(transfer: Transfer, kill_number: int) -> None:
    """Once anywhere, once when a task has filled its stage and nobody knows yet."""
    before = transfer.executors()
    if kill_number % 2:
        transfer.driver.wait_until(lambda: bool(transfer.executors()), "executors")
        with suppress(ProcessLookupError):
            os.kill(transfer.random.choice(sorted(transfer.executors())), signal.SIGKILL)
    else:
        order = transfer.order("staged", "executor")
        transfer.driver.wait_until(lambda: not order.exists(), "a filled stage")
    transfer.driver.wait_until(lambda: bool(before - transfer.executors()), "an executor's end")
    transfer.wait_for_batches()


def kill_the_queue_manager(transfer: Transfer, kill_number: int) -> None:
    moment, late_seconds = WINDOWS[kill_number % 3]
    after_seconds = transfer.random.uniform(0, late_seconds)
    transfer.order(moment, "server", transfer.server.group, after_seconds)
    transfer.server.wait_for_kill(f"queue manager, {moment} + {after_seconds} s")
    if not kill_number:
        # It may rest for longer than a start takes.
        transfer.driver.wait_until(
            lambda: bool(transfer.feeder.repeat_count), "a feeder that fails"
        )
    transfer.server.start()
    transfer.wait_for_batches()


def kill_the_driver(transfer: Transfer, kill_number: int) -> None:
    moment, late_seconds = WINDOWS[kill_number % 3]
    after_seconds = transfer.random.uniform(0, late_seconds)
    transfer.order(moment, "driver", transfer.driver.group, after_seconds)
    transfer.driver.wait_for_kill(f"driver, {moment} + {after_seconds} s")
    transfer.driver.kill()
    transfer.driver.start()
    transfer.wait_for_batches()


# With one worker nothing is left when its executor is killed; with two the other one goes on.
@pytest.mark.parametrize(("kill_count", "worker_count"), [(1, 1), (20, 2)])
def test_kills_of_each_kind_lose_and_double_nothing(
    running: Cluster, tmp_path: Path, kill_count: int
) -> None:
    seed = int(os.environ.get("MAYFLY_KILL_SEED", kill_count))
    with Transfer(tmp_path, running, seed) as transfer:
        for kill_number in range(kill_count):
            kill_an_executor(transfer, kill_number)
            kill_the_queue_manager(transfer, kill_number)
            kill_the_driver(transfer, kill_number)
        transfer.drain()
        ends = transfer.check()
    # Enough has happened for this to mean something.
    assert transfer.feeder.repeat_count > 0
    for queue in ("Q1", "Q2"):
        assert ends[queue, State.GOT.value] > 0
        assert ends[queue, State.EXPIRED.value] > 0
