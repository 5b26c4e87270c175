"""kill -9 of the queue manager and of the Spark driver: each message comes out exactly once."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer

import pytest
from pyspark.sql import SparkSession

from mayfly import QueueManager
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS
from mayfly.pipeline.bulk.errors import ServerFailed, ServerNotReachable
from mayfly.pipeline.bulk.queue_client import QueueClient
from mayfly.pipeline.spark.messages import MESSAGE_TYPE
from mayfly.servers.flight import FlightServer
from mayfly.verbs.contracts.claims import Attached
from tests.bulk.books import TOKEN
from tests.bulk.lives import queue_manager
from tests.spark.drive_queue_source import COMMIT_MESSAGES
from tests.spark.killing import kill_tree

pytestmark = pytest.mark.slow
DEADLINE_TICKS = 12_000
#: So many at least, and until enough has happened; a slow machine takes more.
ROUNDS_MAX = 120
BATCH_ROWS = 150
KIND, QUEUE, OUTCOME = (LEDGER_COLUMNS.index(n) for n in ("kind", "queue", "outcome"))


@contextmanager
def process(
    *arguments: str, module: str = "tests.spark.drive_queue_source"
) -> Iterator[subprocess.Popen[str]]:
    """A process in a group of its own; whatever is left of it is killed at the end."""
    child = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield child
    finally:
        kill_tree(child.pid)
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


class Reader:
    """What Spark does, in a few lines: a log of batches, written before and after each is done.

    One batch in four is written and not committed, as if the reader had died there: it comes again.
    """

    consumer, queue = "billing", "Q1"

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.committed = 0
        #: Where the batch ends that was begun and is not committed.
        self.planned: int | None = None
        #: What each batch has brought, by where it begins.
        self.output: dict[int, list[int]] = {}
        self.repeated = 0

    @property
    def count(self) -> int:
        """How many messages have come out."""
        return sum(map(len, self.output.values()))

    def run(self, client: QueueClient) -> None:
        """Read on and on, beginning with the batch that was under way."""
        consumer = client.attach(self.consumer, self.queue)
        while True:
            self.run_batch(client, consumer)

    def run_batch(self, client: QueueClient, consumer: Attached) -> int:
        """Do one batch; return how many messages it had."""
        if self.planned is None:
            client.end(consumer, self.committed)
            until, count = client.claim(
                consumer, self.committed, max_rows=BATCH_ROWS, max_bytes=2**30
            )
            if not count:
                return 0
            self.planned = until
        found = []
        for rows in client.rows(consumer, self.committed, self.planned):
            within = rows.after, rows.until
            batches = client.claimed(consumer.consumer, consumer.epoch, *within)
            found += [int(b) for batch in batches for b in batch.column("payload").to_pylist()]
        before = self.output.setdefault(self.committed, found)
        self.repeated += before is not found
        self.check_repeat(before, found)
        if self._rng.random() < 0.25:
            return len(found)
        self.committed, self.planned = self.planned, None
        return len(found)

    def check_repeat(self, before: list[int], found: list[int]) -> None:
        """Compare what a batch has brought at first and now."""
        assert before == found, "a repeated batch has other messages"


def read_until_killed(url: str, reader: Reader, child: subprocess.Popen[str], after: float) -> None:
    """Kill the queue manager some time later, while the reader reads."""
    timer = Timer(after, child.kill)
    timer.start()
    try:
        with QueueClient(url, token=TOKEN) as client:
            reader.run(client)
    except (ServerNotReachable, ServerFailed):
        assert child.wait() == -signal.SIGKILL
    finally:
        timer.cancel()


class Journal:
    """What the putter has noted: which commits it began, and which it saw through."""

    def __init__(self, file: Path) -> None:
        lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        self.begun = {int(line[1]) for line in lines if line[0] == "-" and len(line) == 2}
        self.done = {int(line[1]) for line in lines if line[0] == "+" and len(line) == 2}

    @property
    def next_number(self) -> int:
        return max(self.begun, default=-COMMIT_MESSAGES) + COMMIT_MESSAGES

    def check(self, out: Counter[int]) -> None:
        """Compare with what has come out."""
        assert set(out.values()) <= {1}, "came twice"
        assert all(number // COMMIT_MESSAGES * COMMIT_MESSAGES in self.begun for number in out)
        for first in self.begun:
            persistent = range(first, first + COMMIT_MESSAGES // 2)
            found = sum(number in out for number in persistent)
            assert found in ((0, len(persistent)) if first not in self.done else (len(persistent),))


@pytest.mark.parametrize("rounds", [1, pytest.param(6, marks=pytest.mark.soak)])
def test_a_claimed_message_comes_out_once_whenever_the_queue_manager_is_killed(
    tmp_path: Path, rounds: int
) -> None:
    seed = int(os.environ.get("MAYFLY_KILL_SEED") or random.randrange(10**6))
    rng = random.Random(seed)
    reader = Reader(rng)
    folder, notes = tmp_path / "QM1", tmp_path / "journal"
    for number in itertools.count():
        # For this to mean something.
        has_enough = len(reader.output) > rounds and reader.repeated and reader.count > 150 * rounds
        if number >= rounds and has_enough:
            break
        assert number < ROUNDS_MAX, f"too little happens; MAYFLY_KILL_SEED={seed}"
        with process("serve", str(folder), str(notes), str(Journal(notes).next_number)) as child:
            assert child.stdout is not None
            read_until_killed(child.stdout.readline().strip(), reader, child, rng.uniform(0.3, 1.5))
        with QueueManager("QM1", folder) as manager:
            assert manager.verify().ok, f"{manager.verify().problems}; MAYFLY_KILL_SEED={seed}"
    with QueueManager("QM1", folder) as manager:
        with (
            FlightServer(manager, port=0, token=TOKEN) as server,
            QueueClient(server.url, token=TOKEN) as client,
        ):
            consumer = client.attach("billing", "Q1")
            while reader.run_batch(client, consumer):
                pass
        out = Counter(number for batch in reader.output.values() for number in batch)
        with_seed = f"again with MAYFLY_KILL_SEED={seed}"
        Journal(notes).check(out)
        assert manager.counts("Q1") == (0, 0, 0, 0, 0), with_seed
        assert manager.verify().ok, with_seed
        ended = Counter(row[OUTCOME] for row in lives(manager))
        assert ended["got"] == len(out), with_seed


def lives(manager: QueueManager) -> list[tuple[object, ...]]:
    """Return the records of the lives on Q1."""
    rows = manager.ledger.page(0, 10_000_000)
    return [row for row in rows if row[KIND] == KIND_LIFE and row[QUEUE] == "Q1"]


# The driver


def run_until(child: subprocess.Popen[str], commits: Path, commit_count: int) -> None:
    """Let the driver run until its checkpoint holds so many commits."""
    for _ in range(DEADLINE_TICKS):
        if len(list(commits.glob("[0-9]*"))) >= commit_count:
            return
        run_for(child, 0.05)
    pytest.fail(f"no {commit_count} commits in {commits}")


def run_for(child: subprocess.Popen[str], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        pytest.fail(f"the driver ended by itself: {child.wait(seconds)}")


def put(manager: QueueManager, numbers: range) -> None:
    """Put numbered messages, every third one persistent."""
    with manager.session(transacted=True) as session:
        for number in numbers:
            session.put("Q1", b"%d" % number, persistent=number % 3 == 0)


@pytest.mark.spark
@pytest.mark.soak
def test_three_kills_of_the_driver_lose_and_double_nothing(
    spark: SparkSession, token_file: Path, tmp_path: Path
) -> None:
    out, commits = tmp_path / "out", tmp_path / "out" / "checkpoint" / "commits"
    with (
        queue_manager(tmp_path / "QM1") as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
    ):
        arguments = ["drive", server.url, str(token_file), str(out), str(tmp_path / "warehouse")]
        batches = total = 0
        for seed in (1, 2, 3):
            rng = random.Random(seed)
            put(manager, range(total, total + 1_500))
            total += 1_500
            batches += rng.randint(1, 3)
            with process(*arguments) as child:
                run_until(child, commits, batches)
                # Anywhere in a batch: claiming, reading, writing, committing.
                run_for(child, rng.uniform(0, 0.6))
            batches = len(list(commits.glob("[0-9]*")))
        given = {"url": server.url, "tokenFile": str(token_file), "queue": "Q1"}
        rows = spark.readStream.format("mayfly").options(consumer="billing", **given).load()
        rows.writeStream.format("parquet").option("path", str(out / "rows")).option(
            "checkpointLocation", str(out / "checkpoint")
        ).trigger(availableNow=True).start().awaitTermination()
        found = spark.read.schema(MESSAGE_TYPE).parquet(str(out / "rows")).select("payload")
        assert sorted(int(row["payload"]) for row in found.collect()) == list(range(total))
        assert manager.counts("Q1") == (0, 0, 0, 0, 0)
        assert [row[OUTCOME] for row in lives(manager)] == ["got"] * total
        assert manager.verify().ok
        [standing] = manager.claims.consistent_states()
        # The driver's first start, three more of its heirs, or fewer where one did not get so far.
        assert standing.epoch >= 4
