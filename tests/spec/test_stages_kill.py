"""kill -9 of the queue manager between any two steps of writing, and in the midst of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.lifetime.life import State
from mayfly.runtime.clocks import SystemClock
from tests.spec.scene import bodies
from tests.spec.stage_load import QUERY, ROWS_PER_BATCH
from tests.spec.stage_scene import staged_rows_left, stages_left

ROOT = Path(__file__).parents[2]
#: Two blobs for each of two partitions, the name of the batch, four transactions of rows.
STEPS_OF_A_BATCH = 9
KILLS = 5


def run(folder: Path, batches: int, kill_at: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spec.stage_load", str(folder), str(batches), str(kill_at)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], expected: int) -> None:
    complaint = process.communicate()[1]
    assert not complaint, complaint
    assert process.returncode == expected


def batches_done(log: Path) -> int:
    return int(log.read_text()) if log.exists() else 0


def wait_for_a_batch(process: subprocess.Popen[str], log: Path, done: int) -> None:
    """Return when a run has done more than the runs before it."""
    while process.poll() is None and batches_done(log) == done:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.01)


def check(folder: Path, batches: int) -> None:
    """Every row was put once: it is on the queue or, past its deadline, its life is recorded."""
    with QueueManager("QM1", folder / "QM1", SystemClock()) as manager:
        assert manager.verify().ok, manager.verify().problems
        assert staged_rows_left(manager) == stages_left(manager) == 0
        state = manager.stages.state(QUERY)
        assert state is not None
        assert (state.batch, state.is_done) == (batches - 1, True)
        with manager.session(transacted=True) as session:
            session.core.registry.queue_manager.maxumsgs = 1_000_000
            found = Counter(int(body) for body in bodies(session, "Q1"))
            session.backout()
        expected = {n for n in range(batches * ROWS_PER_BATCH) if n % 100}
        assert found == dict.fromkeys(expected, 1)
        [balance] = [b for b in manager.engine.store.ledger_writer.balances() if b.queue == "Q1"]
        expired = balance.ended[State.EXPIRED]
        assert (balance.present, expired) == (len(expected), batches * ROWS_PER_BATCH // 100)
        assert balance.puts == batches * ROWS_PER_BATCH


@pytest.mark.interpreted
@pytest.mark.slow
def test_a_kill_after_any_step_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """The first run dies after its first durable step, the next after its second, and so on."""
    batches, runs = 2, 0
    while True:
        runs += 1
        process = run(tmp_path, batches, runs)
        with suppress(subprocess.TimeoutExpired):
            process.wait(120)
        if process.returncode == 0:
            finish(process, 0)
            break
        finish(process, -9)
    assert runs > STEPS_OF_A_BATCH, "not every step of a batch was the last one of a run"
    check(tmp_path, batches)


@pytest.mark.interpreted
@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_kills_at_any_moment_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    random = Random(int(os.environ.get("MAYFLY_KILL_SEED", seed)))
    # More than all runs come to, on whatever machine.
    batches, log = 2_000, tmp_path / "log"
    for _ in range(KILLS):
        process = run(tmp_path, batches)
        wait_for_a_batch(process, log, batches_done(log))
        with suppress(subprocess.TimeoutExpired):
            process.wait(random.uniform(0, 0.5))
        process.kill()
        finish(process, -9)
    done = batches_done(log)
    assert done >= KILLS
    # What is left to do after the kills need not be all of it.
    batches = done + 2
    finish(run(tmp_path, batches), 0)
    check(tmp_path, batches)
