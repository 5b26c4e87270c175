"""kill -9 of a pipeline that meets messages it cannot use: each message is in one place, once.

A process is killed; the session of the tests ends its work, from the same checkpoint.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from mayfly import QueueManager
from mayfly.mqi.structures import DLH
from mayfly.pipeline.build import Readers, start
from mayfly.pipeline.config import AVAILABLE_NOW, PipelineConfig
from mayfly.pipeline.progress import Progress
from mayfly.pipeline.supervise import RestartLimits, Stops, Supervisor, Termination
from tests.pipeline.test_bad_rows import BETWEEN_QUEUES, ROUTE
from tests.pipeline.test_build import Scene, scene, session, taken, written
from tests.pipeline.test_run import QUICK
from tests.spark.killing import kill_tree
from tests.spec.scene import DEAD

__all__ = ["session"]

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
#: Every so many messages one is no UTF-8, and one is too long for its queue.
EVERY, MESSAGES = 20, 20
LIMIT_SECONDS = 600


def body(number: int) -> bytes:
    if number % EVERY == 3:
        return b"%d \xff" % number
    return b"%d " % number + b"x" * (200 if number % EVERY == 9 else 0)


def feed(manager: QueueManager, first: int) -> int:
    with manager.session() as session:
        for number in range(first, first + MESSAGES):
            session.put("IN", body(number), persistent=True)
    return first + MESSAGES


def batches(s: Scene) -> int:
    return len([*(s.folder / "cp" / "commits").glob("[0-9]*")])


class Running:
    """`mayfly pipeline run` as a process that can be killed, Java and all."""

    def __init__(self, s: Scene) -> None:
        self._log = (s.folder / "log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mayfly", "pipeline", "run", s.folder / "pipeline.toml"],
            cwd=ROOT,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def wait(self, seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            pytest.fail(f"it ended by itself: {self.process.wait(seconds)}")

    def wait_for(self, s: Scene, batch_count: int) -> None:
        for _ in range(LIMIT_SECONDS * 10):
            if batches(s) >= batch_count:
                return
            self.wait(0.1)
        pytest.fail((s.folder / "log").read_text(errors="replace")[-3_000:])

    def kill(self) -> None:
        kill_tree(self.process.pid)
        self.process.wait()
        self._log.close()


class Restarts:
    """Looks on while batches that meet bad messages are restarted without them."""

    def started(self, progress: Progress) -> None:
        """Nothing to do."""

    def batch(self, progress: Progress) -> None:
        """Nothing to do."""

    def restarting(self, progress: Progress, failure: str, wait_ms: int) -> None:
        assert "messages that fail alone are backed out" in failure


def finish(config: PipelineConfig, spark: SparkSession) -> None:
    """Run a pipeline until nothing is left, with as many restarts as that takes."""
    config = replace(config, trigger=AVAILABLE_NOW)
    readers = Readers(config.checkpoint, spark, pytest.fail)
    supervisor = Supervisor(
        lambda: start(config, spark, readers),
        Stops(),
        Restarts(),
        Progress("calls"),
        RestartLimits(wait_ms=10, wait_ms_max=10, failures_max=100),
        claims=readers,
    )
    assert supervisor.run().end is Termination.DONE


@pytest.mark.soak
@pytest.mark.parametrize("kills", [20])
def test_kills_lose_and_double_nothing_of_batches_with_bad_messages(
    session: SparkSession, tmp_path: Path, kills: int
) -> None:
    random = Random(int(os.environ.get("MAYFLY_KILL_SEED", kills)))
    with scene(tmp_path) as s:
        assert s.a.mqsc("DEFINE QLOCAL(BAD)\nALTER QLOCAL(IN) BOTHRESH(2) BOQNAME(BAD)").ok
        assert s.a.mqsc(f"ALTER QMGR DEADQ({DEAD})").ok
        assert s.b.mqsc("ALTER QLOCAL(OUT) MAXMSGL(100)\nALTER QMGR DEADQ(' ')").ok
        text = (BETWEEN_QUEUES + ROUTE).replace(
            'trigger = "available now"', 'trigger = "0 seconds"'
        )
        text = text.replace("rows_per_batch = 100", "rows_per_batch = 10")
        config = written(s, text + QUICK)
        count = 0
        for _ in range(kills):
            count = feed(s.a, count)
            running = Running(s)
            try:
                running.wait_for(s, batches(s) + 1)
                running.wait(random.uniform(0, 4))
            finally:
                running.kill()
        finish(config, session)
        found = Counter(message.body for message in taken(s.b, "OUT"))
        found.update(message.body for message in taken(s.a, "BAD"))
        found.update(m.body[DLH.length(1) :] for m in taken(s.a, DEAD))
        wanted = Counter(map(body, range(count)))
        assert (found - wanted, wanted - found) == ({}, {})
        assert s.a.verify().ok
        assert s.b.verify().ok
