"""Pipelines at work: a source that fails on the way, and the command as a process that is ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly import QueueManager
from mayfly.cli.outcomes import ExitCode
from mayfly.cli.pipeline import statuses
from mayfly.pipeline.build import Readers, start
from mayfly.pipeline.config import AVAILABLE_NOW, load
from mayfly.pipeline.progress import KeptProgress, Progress
from mayfly.pipeline.supervise import RestartLimits, RunResult, Stops, Supervisor, Termination
from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN
from tests.bulk.lives import queue_manager
from tests.cli.conftest import COMMAND, environment, run_process
from tests.facts import wait_until
from tests.ports import held_port
from tests.spark.killing import descendants, kill_tree

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: Settings with which a session does its first jobs sooner.
QUICK = """
[spark]
"spark.sql.shuffle.partitions" = "1"
"spark.sql.codegen.wholeStage" = "false"
"spark.sql.codegen.factoryMode" = "NO_CODEGEN"
"spark.sql.adaptive.enabled" = "false"
"spark.driver.memory" = "1g"
"""
#: A pipeline into files.
PIPELINE = """
name = "calls"
checkpoint = "checkpoint"
trigger = "100 milliseconds"
dead_letter = "out"
[[sink]]
name = "out"
kind = "files"
format = "parquet"
path = "out"
"""
FROM_FILES = """
[[source]]
kind = "files"
format = "json"
path = "in"
schema = "n bigint, delay bigint"
files_per_batch = 1
[source.columns]
queue = "'CALLS'"
put_ms = "unix_millis(current_timestamp())"
payload = "cast(cast(n as string) as binary)"
delay_ms = "delay"
"""


def from_queue(url: str, token_file: Path) -> str:
    """Return the source of a pipeline that reads Q1."""
    return f"""
[[source]]
kind = "queue"
url = "{url}"
token_file = "{token_file}"
queue = "Q1"
consumer = "billing"
rows_per_batch = 100
"""


def write_pipeline(folder: Path, source: str) -> Path:
    """Write a pipeline down and return its file."""
    file = folder / "calls.toml"
    file.write_text(PIPELINE + source + QUICK)
    return file


def put(manager: QueueManager, *numbers: int) -> None:
    """Put messages with these numbers as bodies on Q1."""
    with manager.session(transacted=True) as session:
        for number in numbers:
            session.put("Q1", b"%d" % number, persistent=True)
        session.commit()


def bodies(out: Path) -> Counter[int]:
    """Return how often each number is among the payloads in a folder of batches."""
    files = out.glob("b=*/*.parquet")
    rows = (row for file in files for row in pq.read_table(file)["payload"].to_pylist())
    return Counter(int(row) for row in rows)


class Outage:
    """Looks on at a queue manager whose server goes away after the first batch, and comes back."""

    def __init__(self, manager: QueueManager, stack: ExitStack, stops: Stops) -> None:
        self._manager = manager
        self._stack = stack
        self._stops = stops
        self._port = stack.enter_context(held_port())
        self._server = self._served()
        self.url = self._server.url
        self.said: list[str] = []

    def _served(self) -> FlightServer:
        server = FlightServer(self._manager, port=self._port, token=TOKEN)
        return self._stack.enter_context(server)

    def started(self, progress: Progress) -> None:
        """Nothing to do."""

    def batch(self, progress: Progress) -> None:
        if progress.batches == 1:
            self._server.stop()
            put(self._manager, *range(250, 300))
        if progress.rows_in >= 300:
            self._stops.ask()

    def restarting(self, progress: Progress, failure: str, wait_ms: int) -> None:
        self.said.append(failure)
        if len(self.said) == 2:
            self._served()


@pytest.mark.long
def test_a_source_that_fails_is_read_on_from_the_checkpoint(
    spark: SparkSession, tmp_path: Path, token_file: Path
) -> None:
    """The server is gone for the first restart and back for the second."""
    stops = Stops()
    with ExitStack() as stack:
        manager = stack.enter_context(queue_manager(tmp_path / "QM1"))
        outage = Outage(manager, stack, stops)
        put(manager, *range(250))
        config = load(write_pipeline(tmp_path, from_queue(outage.url, token_file)))
        limits = RestartLimits(wait_ms=100, failures_max=4)
        begun = Progress("calls")
        ended = Supervisor(lambda: start(config, spark), stops, outage, begun, limits).run()
        assert (ended.end, ended.text) == (Termination.STOPPED, "")
        assert (ended.progress.rows_in, ended.progress.released) == (300, 300)
        assert (ended.progress.restarts, ended.progress.held) == (2, 0)
        assert len(outage.said) == 2
        assert all(f"no Mayfly server answers at {outage.url}" in said for said in outage.said)
        assert bodies(tmp_path / "out") == dict.fromkeys(range(300), 1)
        assert manager.verify().ok


FROM_STAGING = """
[[source]]
kind = "staging"
url = "{url}"
token_file = "{token_file}"
consumer = "releaser"
rows_per_batch = 100
"""


class Stop:
    """Asks for the end of a pipeline in the midst of a backlog, and notes what is on Q1 then."""

    def __init__(self, manager: QueueManager, stops: Stops) -> None:
        self._manager = manager
        self._stops = stops
        self.released_and_there: list[tuple[int, int]] = []
        self.said: list[str] = []

    def started(self, progress: Progress) -> None:
        """Nothing to do."""

    def batch(self, progress: Progress) -> None:
        self.released_and_there.append((progress.released, self._manager.curdepth("Q1")))
        if progress.rows_in >= 200 and not self._stops.stop_request_count:
            self._stops.ask()

    def restarting(self, progress: Progress, failure: str, wait_ms: int) -> None:
        raise AssertionError(failure)

    def run(self, file: Path, spark: SparkSession) -> RunResult:
        config, begun = load(file), Progress("calls")
        readers = Readers(config.checkpoint, spark, self.said.append)
        supervisor = Supervisor(
            lambda: start(config, spark, readers), self._stops, self, begun, claims=readers
        )
        return supervisor.run()


def test_a_pipeline_that_is_stopped_leaves_nothing_claimed_that_is_written(
    spark: SparkSession, tmp_path: Path, token_file: Path
) -> None:
    """Nor anything else: what a release could put back is at the sink or on its queue, once."""
    with (
        queue_manager(tmp_path / "QM1") as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
    ):
        put(manager, *range(1_000))
        file = write_pipeline(tmp_path, from_queue(server.url, token_file))
        stop = Stop(manager, Stops())
        ended = stop.run(file, spark)
        assert (ended.end, stop.said) == (Termination.STOPPED, [])
        [standing] = manager.claims.consistent_states()
        assert (standing.message_count, manager.counts("Q1").locked) == (0, 0)
        assert manager.claims.release("billing") == 0
        assert manager.curdepth("Q1") == 1_000 - ended.progress.rows_in
        written = bodies(tmp_path / "out")
        assert (written.total(), len(written)) == (ended.progress.rows_in,) * 2
        again = Stop(manager, Stops())
        assert again.run(file, spark).end is Termination.STOPPED
        assert set(bodies(tmp_path / "out").values()) == {1}
        assert bodies(tmp_path / "out").total() + manager.curdepth("Q1") == 1_000
        assert manager.verify().ok


@pytest.mark.long
def test_DDELAY_released_is_counted_when_the_messages_are_on_their_queues(
    spark: SparkSession, tmp_path: Path, token_file: Path
) -> None:
    """After the stop a second pipeline, with a name of its own, takes over what is left."""
    with (
        queue_manager(tmp_path / "QM1") as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
    ):
        assert manager.mqsc("ALTER QMGR DDELAY(SPARK)").ok
        with manager.session(transacted=True) as session:
            # More than the first one releases before it stops, or the second would wait for ever.
            for number in range(2_000):
                session.put("Q1", b"%d" % number, delay_ms=1, persistent=True)
            session.commit()
        source = FROM_STAGING.format(url=server.url, token_file=token_file)
        stop = Stop(manager, Stops())
        ended = stop.run(write_pipeline(tmp_path, source), spark)
        assert (ended.end, stop.said) == (Termination.STOPPED, [])
        # Spark may have finished one more batch meanwhile, which is on Q1 before it is counted.
        assert all(released <= there for released, there in stop.released_and_there)
        assert stop.released_and_there[-1][0] > 0
        released = ended.progress.released
        assert (released, ended.progress.releasing) == (manager.curdepth("Q1"), 0)
        assert [s.message_count for s in manager.claims.consistent_states()] == [0]
        (tmp_path / "other").mkdir()
        other = source.replace("releaser", "other")
        stop = Stop(manager, Stops())
        ended = stop.run(write_pipeline(tmp_path / "other", other), spark)
        assert manager.curdepth("Q1") == released + ended.progress.released
        assert manager.verify().ok


class Quiet:
    """Looks on and says nothing."""

    def started(self, progress: Progress) -> None:
        """Nothing to do."""

    def batch(self, progress: Progress) -> None:
        """Nothing to do."""

    def restarting(self, progress: Progress, failure: str, wait_ms: int) -> None:
        raise AssertionError(failure)


class Process:
    """``mayfly pipeline run --json`` as a process; what it says is read line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def metrics_url(self) -> str:
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert line.startswith("mayfly: metrics at http://127.0.0.1:"), line
        return line.split()[-1]

    def until(self, name: str, count: int) -> dict[str, Any]:
        """Read on until a count is reached."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told: dict[str, Any] = json.loads(line)
            if told[name] >= count:
                return told
        pytest.fail(f"it ended before {name} {count}: {self.process.communicate()[1]}")

    def end(self) -> tuple[int, str, list[dict[str, Any]]]:
        """Terminate it; return exit code, stderr and what it said until then."""
        self.process.send_signal(signal.SIGTERM)
        said, wrong = self.process.communicate(timeout=600)
        return self.process.returncode, wrong, [json.loads(line) for line in said.splitlines()]


@contextmanager
def running(file: Path, *options: str) -> Iterator[Process]:
    process = subprocess.Popen(
        [*COMMAND, "pipeline", "run", str(file), "--master", "local[1]", "--json", *options],
        env=environment(file.parent),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield Process(process)
    finally:
        kill_tree(process.pid)
        process.communicate()


def metrics(text: str) -> dict[str, float]:
    """Return the values of metrics whose only label is the pipeline."""
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    label = '{pipeline="calls"}'
    return {
        name.removesuffix(label).removeprefix("mayfly_pipeline_"): float(value)
        for name, value in lines
        if name.endswith(label)
    }


@pytest.mark.soak
def test_sigterm_ends_a_run_between_two_batches_and_the_next_goes_on(
    spark: SparkSession, tmp_path: Path, token_file: Path
) -> None:
    """Four batches wait when it is ended after the first; metrics and lines tell the same."""
    with (
        queue_manager(tmp_path / "QM1") as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
    ):
        put(manager, *range(500))
        file = write_pipeline(tmp_path, from_queue(server.url, token_file))
        metrics_file = tmp_path / "calls.prom"
        options = ("--metrics-file", str(metrics_file), "--metrics-listen", "127.0.0.1:0")
        with running(file, *options) as process:
            url = process.metrics_url()
            told = process.until("rows_in", 100)
            with urllib.request.urlopen(url) as answer:
                served = metrics(answer.read().decode())
            assert served["up"] == 1
            assert served["rows_in_total"] in range(told["rows_in"], 501, 100)
            code, wrong, said = process.end()
        assert (code, wrong) == (0, "")
        last = [told, *said][-1]
        kept = metrics(metrics_file.read_text())
        assert (kept["up"], kept["rows_in_total"]) == (0, last["rows_in"])
        assert kept["last_batch"] == last["batch"]
        # What was begun is committed, but for a batch that had only just begun.
        folders = [tmp_path / "checkpoint" / name for name in ("offsets", "commits")]
        begun, done = (len(list(folder.glob("[0-9]*"))) for folder in folders)
        assert done == last["batch"] + 1
        assert begun in (done, done + 1)

        config = replace(load(file), trigger=AVAILABLE_NOW)
        pace, seen = Stops(), Quiet()
        begun_with = KeptProgress(config.checkpoint).load(config.name)
        ended = Supervisor(lambda: start(config, spark), pace, seen, begun_with).run()
        assert ended.end is Termination.DONE
        assert ended.progress.batch > last["batch"]
        assert last["rows_in"] + ended.progress.rows_in == 500
        assert bodies(tmp_path / "out") == dict.fromkeys(range(500), 1)
        assert manager.verify().ok


def is_alive(pid: int) -> bool:
    """Tell whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def state_of(file: Path) -> tuple[str, int | None, tuple[str, ...]]:
    """Return state, last batch and problems of a pipeline, as its status says."""
    [status] = statuses([str(file)])
    assert status.batches is not None
    return status.note.state.value, status.batches.committed, status.problems


@pytest.mark.soak
def test_sigterm_to_the_process_group_ends_a_run_in_good_order(
    tmp_path: Path, token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``timeout`` sends it: to its child and to the group. The status says so before and after.

    While it works a second run of the same file is refused.
    """
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    with (
        queue_manager(tmp_path / "QM1") as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
    ):
        put(manager, *range(5_000))
        file = write_pipeline(tmp_path, from_queue(server.url, token_file))
        with running(file) as process:
            told = process.until("rows_in", 100)
            started = descendants(process.process.pid)
            state, batch, problems = state_of(file)
            assert (state, problems, (batch or 0) >= told["batch"]) == ("running", (), True)
            second = run_process(tmp_path, "pipeline", "run", str(file))
            assert (second.returncode, second.stdout) == (ExitCode.PIPELINE, "")
            said_so = f"mayfly: another process runs {file}: mayfly pipeline status\n"
            assert second.stderr == said_so
            os.killpg(process.process.pid, signal.SIGTERM)
            code, wrong, said = process.end()
        assert (code, wrong) == (0, "")
        assert all(line["restarts"] == 0 for line in said)
        last = [told, *said][-1]
        assert state_of(file) == ("stopped", last["batch"], ())
        wait_until(lambda: not any(map(is_alive, started)))
        begun, done = (
            {file.name for file in (tmp_path / "checkpoint" / name).glob("[0-9]*")}
            for name in ("offsets", "commits")
        )
        assert begun == done
        assert [standing.message_count for standing in manager.claims.consistent_states()] == [0]
        written = bodies(tmp_path / "out")
        assert set(written.values()) == {1}
        assert 0 < written.total() == 5_000 - manager.curdepth("Q1")
        assert manager.verify().ok


@pytest.mark.soak
def test_java_ends_with_its_driver_also_when_that_is_killed(
    tmp_path: Path, token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    with (
        queue_manager(tmp_path / "QM1") as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
    ):
        put(manager, *range(100))
        file = write_pipeline(tmp_path, from_queue(server.url, token_file))
        with running(file) as process:
            process.until("rows_in", 100)
            started = descendants(process.process.pid)
            assert started
            assert process.process.pid not in map(os.getpgid, started)
            process.process.kill()
            wait_until(lambda: not any(map(is_alive, started)))
            process.process.wait()
            assert state_of(file)[0] == "killed"


def lay(folder: Path, first: int, *, delay_ms: int) -> None:
    """Lay down a file of ten rows."""
    lines = [json.dumps({"n": n, "delay": delay_ms}) for n in range(first, first + 10)]
    (folder / "in" / f"{first:03}.json").write_text("\n".join(lines))


@pytest.mark.soak
def test_rows_wait_in_the_delay_line_while_a_run_ends_and_the_next_one_knows(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    file = write_pipeline(tmp_path, FROM_FILES)
    lay(tmp_path, 0, delay_ms=1_000)
    for first in (10, 20, 30):
        lay(tmp_path, first, delay_ms=40_000)
    with running(file) as process:
        told = process.until("rows_in", 20)
        code, wrong, said = process.end()
    assert (code, wrong) == (0, "")
    last = [told, *said][-1]
    assert last["held"] == last["rows_in"] - last["released"]
    lay(tmp_path, 40, delay_ms=0)
    with running(file) as process:
        then = process.until("released", 50 - last["released"])
        code, wrong, _ = process.end()
    assert (code, wrong) == (0, "")
    assert last["rows_in"] + then["rows_in"] == 50
    assert (then["held"], then["expired"], then["restarts"]) == (0, 0, 0)
    assert bodies(tmp_path / "out") == dict.fromkeys(range(50), 1)
    with running(file, "--once") as process:
        told_nothing, wrong = process.process.communicate(timeout=600)
        assert (process.process.returncode, told_nothing, wrong) == (0, "", "")
