"""kill -9 of the driver between a task's write, the commit and the end of the promotion."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.lifetime.life import State
from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN
from tests.bulk.lives import queue_manager
from tests.spark.killing import kill_tree
from tests.spec.scene import bodies
from tests.spec.stage_scene import stages_left

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]
ROWS_PER_FILE = 10_000
FILES = 4
#: Every so many rows one is past its deadline when it arrives.
EXPIRED_EVERY = 500
TICK_SECONDS = 0.002
DEADLINE_TICKS = 300_000


@contextmanager
def driver(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A driver in a process group of its own; whatever is left of it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.drive_sink", *arguments],
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


def feed(folder: Path) -> None:
    """Lay the input down: each file becomes a batch."""
    (folder / "in").mkdir()
    for number in range(FILES):
        first = number * ROWS_PER_FILE
        lines = [
            json.dumps({"n": n, "expire_at_ms": 1} if n % EXPIRED_EVERY == 0 else {"n": n})
            for n in range(first, first + ROWS_PER_FILE)
        ]
        (folder / "in" / f"part{number}.json").write_text("\n".join(lines))


def run_until(process: subprocess.Popen[bytes], is_reached: Callable[[], bool]) -> None:
    for _ in range(DEADLINE_TICKS):
        if is_reached():
            return
        run_for(process, TICK_SECONDS)
    pytest.fail("the moment to kill never came")


def run_for(process: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        pytest.fail(f"the driver ended by itself: {process.wait(seconds)}")


class Watch:
    """Sees from the queue manager how far the driver has come."""

    def __init__(self, manager: QueueManager, folder: Path) -> None:
        self._manager = manager
        self._commits = folder / "checkpoint" / "commits"

    def has_staged(self) -> bool:
        """Whether a task has written and no commit has named its stage."""
        sql = "SELECT 1 FROM stage WHERE place IS NULL AND row_count IS NOT NULL"
        return bool(self._rows(sql))

    def is_promoting(self) -> bool:
        """Whether a batch is named and some of its rows are not put."""
        return bool(self._rows("SELECT 1 FROM stage_query WHERE NOT is_done AND put_count > 0"))

    def has_promoted(self) -> bool:
        """Whether a batch is done and Spark's log does not say so yet."""
        for (batch,) in self._rows("SELECT batch FROM stage_query WHERE is_done"):
            return not (self._commits / str(batch)).exists()
        return False

    def _rows(self, sql: str) -> list[tuple[int, ...]]:
        with self._manager.engine.engine_lock:
            return self._manager.engine.store.persistent.fetch(sql, ())


def test_three_kills_lose_and_double_nothing(token_file: Path, tmp_path: Path) -> None:
    """One seed for each of the windows; the driver dies up to some ms after it has opened."""
    feed(tmp_path)
    with (
        queue_manager(tmp_path / "QM1") as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
    ):
        manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(1000000)")
        arguments = [server.url, str(token_file), str(tmp_path)]
        watch = Watch(manager, tmp_path)
        windows = (watch.has_staged, watch.is_promoting, watch.has_promoted)
        for seed, window in enumerate(windows, 1):
            with driver(*arguments, "false") as process:
                run_until(process, window)
                run_for(process, Random(seed).uniform(0, 0.01))
            assert manager.verify().ok
        with driver(*arguments, "true") as process:
            assert process.wait(600) == 0
        check(manager)


def check(manager: QueueManager) -> None:
    """Rows in = messages on the queue and lives that ended on arrival; none is there twice."""
    total = FILES * ROWS_PER_FILE
    with manager.session(transacted=True) as session:
        manager.mqsc("ALTER QMGR MAXUMSGS(1000000)")
        found = Counter(int(body) for body in bodies(session, "Q1"))
        session.backout()
    assert found == dict.fromkeys((n for n in range(total) if n % EXPIRED_EVERY), 1)
    assert list(found) == sorted(found)
    [balance] = [b for b in manager.engine.store.ledger_writer.balances() if b.queue == "Q1"]
    assert balance.ended[State.EXPIRED] == total // EXPIRED_EVERY
    assert stages_left(manager) == 0
    verification = manager.verify()
    assert verification.ok, verification.problems
