"""The commit before and today's: one goes on with what the other has begun, and they talk.

The commit is HEAD~1, or the one that MAYFLY_UPGRADE_FROM names: a branch, a tag, a number.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN
from tests.bulk.lives import queue_manager
from tests.cli.conftest import COMMAND, ROOT, environment
from tests.facts import wait_until
from tests.pipeline.test_run import (
    FROM_FILES,
    Process,
    bodies,
    from_queue,
    lay,
    put,
    write_pipeline,
)
from tests.spark.killing import kill_tree

pytestmark = [pytest.mark.soak, pytest.mark.spark]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the commit before."""
    commit = os.environ.get("MAYFLY_UPGRADE_FROM", "HEAD~1")
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("the commit before is only in a clone")
    tree = tmp_path_factory.mktemp("before")
    packed = subprocess.run([git, "archive", commit], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(tree)], input=packed.stdout, check=True)
    return tree


@contextmanager
def command(tree: Path, home: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command of the Mayfly of a tree until the end of the block, which kills it."""
    process = subprocess.Popen(
        [*COMMAND, *words],
        env={**environment(home), "PYTHONPATH": str(tree)},
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill_tree(process.pid)
        process.communicate()


def run(file: Path) -> tuple[str, ...]:
    """Return the words that run a pipeline."""
    return ("pipeline", "run", str(file), "--master", "local[1]", "--json")


def test_the_tree_before_is_what_is_run(before: Path, tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import mayfly; print(mayfly.__file__)"]
    env = {**environment(tmp_path), "PYTHONPATH": str(before)}
    said = subprocess.check_output(program, env=env, cwd=before, text=True)
    assert Path(said.strip()).is_relative_to(before)


def test_a_checkpoint_of_the_commit_before_goes_on_after_a_kill_with_held_rows(
    before: Path, tmp_path: Path, token_file: Path
) -> None:
    """It reads a queue of today's server, and files whose rows are not due at the kill."""
    (tmp_path / "in").mkdir()
    with (
        queue_manager(tmp_path / "QM1") as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
    ):
        put(manager, *range(1_000, 1_300))
        file = write_pipeline(tmp_path, from_queue(server.url, token_file) + FROM_FILES)
        lay(tmp_path, 0, delay_ms=30_000)
        with command(before, tmp_path, *run(file)) as old:
            told = Process(old).until("rows_in", 110)
        assert told["held"] >= 10
        written = bodies(tmp_path / "out").total()
        assert 0 < written < 310
        lay(tmp_path, 10, delay_ms=0)
        with command(ROOT, tmp_path, *run(file)) as new:
            # Spark has started: the rows that were held are due half a minute after they came.
            Process(new).until("batch", 0)
            wait_until(lambda: bodies(tmp_path / "out").total() >= 320)
            code, wrong, _said = Process(new).end()
        assert (code, wrong) == (0, "")
        numbers = [*range(20), *range(1_000, 1_300)]
        assert bodies(tmp_path / "out") == dict.fromkeys(numbers, 1)
        assert manager.verify().ok
        assert [s.message_count for s in manager.claims.consistent_states()] == [0]


def test_a_pipeline_of_today_reads_a_queue_of_the_commit_before(
    before: Path, tmp_path: Path
) -> None:
    """And today's queue manager opens the folder afterwards: every message is got once."""
    serve = ("serve", "QM1", "--flight", "127.0.0.1:0", "--json")
    define = ("mqsc", "QM1", "-c", "DEFINE QLOCAL(Q1) DEFPSIST(YES)")
    for words in (define, *(("put", "QM1", "Q1", str(number)) for number in range(5))):
        with command(before, tmp_path, *words) as done:
            assert done.wait(600) == 0
    with command(before, tmp_path, *serve) as server:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        source = from_queue(ready["flight"], Path(ready["token_file"]))
        file = write_pipeline(tmp_path, source)
        with command(ROOT, tmp_path, *run(file), "--once") as new:
            _said, wrong = new.communicate(timeout=600)
            assert (new.returncode, wrong) == (0, "")
    assert bodies(tmp_path / "out") == dict.fromkeys(range(5), 1)
    with queue_manager(tmp_path / "QM1") as manager:
        assert (manager.curdepth("Q1"), manager.verify().ok) == (0, True)
