"""The parts of a transfer that tests kill: a served queue manager, its feeder, and the driver."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import NamedTuple

import pyarrow as pa

from mayfly import QueueManager
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS, State
from mayfly.pipeline.bulk.errors import BulkError
from mayfly.pipeline.bulk.queue_client import STAGED, Filters, QueueClient, StageClient
from mayfly.pipeline.spark import keeper
from mayfly.pipeline.spark.cluster import Cluster
from tests.bulk.books import TOKEN
from tests.ports import held_port
from tests.spark.drive_transfer import ROWS_PER_BATCH
from tests.spark.killing import descendants, kill_tree
from tests.spec.stage_scene import stages_left

ROOT = Path(__file__).parents[2]
ROWS_PER_FEED = 40
#: Every so many messages one is long over when it is put; others live no longer than it may take
#: them to get to Q2, or to be taken from there.
OVER_EVERY, SHORT_EVERY, SHORT_MS = 20, 3, 30_000
FEED_PAUSE_SECONDS, SLOW_FEED_PAUSE_SECONDS, FEED_AHEAD_BATCHES = 0.1, 2.0, 4
#: A look goes through all processes of the machine.
TICK_SECONDS = 0.1
#: Generous: a driver and two executors that start cold on a busy machine.
LIMIT_SECONDS = 300
KIND, QUEUE, MSG_ID, OUTCOME, PUTS, PRESENT = (
    LEDGER_COLUMNS.index(n) for n in ("kind", "queue", "msg_id", "outcome", "puts", "present")
)


class Process(NamedTuple):
    """A process of this machine, by id, with its parent and the group it belongs to."""

    pid: int
    parent: int
    group: int


class Child:
    """A process in a group of its own that can be killed and started again; it logs to a file.

    It has a keeper, so that it does not outlive these tests either.
    """

    def __init__(self, log: Path, *command: str) -> None:
        self._log = log
        self._command = [sys.executable, "-I", keeper.__file__, sys.executable, "-m", *command]
        self.process: subprocess.Popen[bytes] | None = None
        #: The groups of the keeper and of the command, which the keeper gives a session of its own.
        self._groups: set[int] = set()

    @property
    def group(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.wait_until(lambda: bool(descendants(self.group)), "the command of the keeper")
        self._groups = {self.group, *descendants(self.group)[:1]}

    def kill(self) -> None:
        """Kill it and what it has begun, if it was started; none of it is left."""
        if self.process is not None:
            kill_tree(self.group)
            self._wait_for_end()

    def wait_until(self, is_reached: Callable[[], bool], what: str) -> None:
        """Return when something has come about while this runs."""
        assert self.process is not None
        for _ in range(round(LIMIT_SECONDS / TICK_SECONDS)):
            if is_reached():
                return
            with suppress(subprocess.TimeoutExpired):
                code = self.process.wait(TICK_SECONDS)
                raise AssertionError(f"{self._command[5]} ended by itself ({code}): {self.tail()}")
        raise AssertionError(f"waited {LIMIT_SECONDS} s for {what}: {self.tail()}")

    def wait_for_kill(self, what: str) -> None:
        """Return when somebody has killed it."""
        assert self.process is not None
        try:
            code = self.process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"nobody killed it: {what}: {self.tail()}") from None
        assert code == -signal.SIGKILL, f"{what}: ended with {code}: {self.tail()}"
        self._wait_for_end()

    def _wait_for_end(self) -> None:
        """Return when nothing of keeper and command is left; only the keeper is a child of ours.

        A process that is killed frees its files, and the lock of a folder, some time later.
        """
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        for _ in range(round(LIMIT_SECONDS / TICK_SECONDS)):
            if not any(process.group in self._groups for process in processes()):
                return
            Event().wait(TICK_SECONDS)
        raise AssertionError(f"groups {self._groups} have not ended after {LIMIT_SECONDS} s")

    def tail(self) -> str:
        return self._log.read_text(errors="replace")[-3_000:]


class Feeder(Thread):
    """Puts numbered messages on Q1 in batches, each again until it is acknowledged.

    Goes slowly while it is far ahead of the batches that Spark has committed.
    """

    def __init__(self, url: str, random: Random, last_batch: Callable[[], int]) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._random = random
        self._last_batch = last_batch
        self._stopped = Event()
        self.batch_count = 0
        self.repeat_count = 0

    @property
    def numbers(self) -> range:
        """All messages that are acknowledged."""
        return range(self.batch_count * ROWS_PER_FEED)

    def run(self) -> None:
        while not self._stopped.wait(self._pause_seconds()):
            rows = self._rows()
            while not self._is_acknowledged(rows):
                self.repeat_count += 1
                self._stopped.wait(FEED_PAUSE_SECONDS)
            self.batch_count += 1

    def stop(self) -> None:
        """Return when the last batch is acknowledged."""
        self._stopped.set()
        self.join()

    def _pause_seconds(self) -> float:
        is_ahead = len(self.numbers) > ROWS_PER_BATCH * (self._last_batch() + FEED_AHEAD_BATCHES)
        return SLOW_FEED_PAUSE_SECONDS if is_ahead else FEED_PAUSE_SECONDS

    def _rows(self) -> pa.RecordBatch:
        first = self.batch_count * ROWS_PER_FEED
        rows = []
        for n in range(first, first + ROWS_PER_FEED):
            row = {"queue": "Q1", "payload": b"%d" % n, "msg_id": b"%024d" % n, "persistence": 1}
            if n % OVER_EVERY == 0:
                row["expire_at_ms"] = 1
            elif n % SHORT_EVERY == 0:
                row["time_to_live_ms"] = self._random.randint(1, SHORT_MS)
            rows.append(row)
        return pa.RecordBatch.from_pylist(rows, schema=STAGED)

    def _is_acknowledged(self, rows: pa.RecordBatch) -> bool:
        stage = (0, secrets.token_hex(8))
        try:
            with StageClient(self._url, token=TOKEN) as client:
                client.stage("feeder", self.batch_count, *stage, [rows])
                client.commit("feeder", self.batch_count, [stage])
        except BulkError:
            return False
        return True


class Transfer:
    """From Q1 to Q2 of one queue manager, through Spark on a cluster."""

    def __init__(self, folder: Path, cluster: Cluster, seed: int) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.checkpoint = folder / "checkpoint"
        self._folder = folder
        self._store = folder / "QM1"
        self._cluster = cluster
        self._end = ExitStack()
        with QueueManager("QM1", self._store) as manager:
            for queue in ("Q1", "Q2"):
                manager.mqsc(f"DEFINE QLOCAL({queue}) MAXDEPTH(1000000)")
        token_file = folder / "token"
        token_file.write_text(TOKEN)
        port = self._end.enter_context(held_port())
        self._url = f"grpc://127.0.0.1:{port}"
        listens = ("--flight", f"127.0.0.1:{port}")
        at = (*listens, "--path", str(self._store), "--token-file", str(token_file))
        self.server = Child(
            folder / "server.log", "mayfly", "serve", "QM1", *at, "--expiry-interval", "1"
        )
        self.driver = Child(
            folder / "driver.log",
            "tests.spark.drive_transfer",
            *(cluster.master_url, self._url, str(token_file), str(folder)),
        )
        self.feeder = Feeder(self._url, Random(seed), lambda: self.last_batch)

    def __enter__(self) -> Transfer:
        self._end.callback(self.server.kill)
        self._end.callback(self.driver.kill)
        self.server.start()
        self.driver.start()
        self.feeder.start()
        self.wait_for_batches(2)
        return self

    def __exit__(self, *_error: object) -> None:
        self._end.close()

    @property
    def last_batch(self) -> int:
        """The last batch that Spark has committed, -1 before the first."""
        numbers = (int(file.name) for file in self.checkpoint.glob("commits/[0-9]*"))
        return max(numbers, default=-1)

    def wait_for_batches(self, count: int = 1) -> None:
        """Return when so many more batches are committed."""
        wanted = self.last_batch + count
        self.driver.wait_until(lambda: self.last_batch >= wanted, f"batch {wanted}")

    def order(self, moment: str, victim: str, group: int = 0, after_seconds: float = 0) -> Path:
        """Tell the driver whom to kill when; see drive_transfer.py."""
        order = self._folder / moment
        beside = order.with_suffix(".new")
        beside.write_text(
            json.dumps({"victim": victim, "group": group, "after_seconds": after_seconds})
        )
        return beside.rename(order)

    def executors(self) -> set[int]:
        """The executors that are there now."""
        return executors_of(self._cluster)

    def drain(self) -> None:
        """Let all that was acknowledged come through, then kill everything."""
        self.feeder.stop()
        self.driver.wait_until(self._is_through, "the last messages")
        self.driver.kill()
        self.server.kill()

    def _is_through(self) -> bool:
        """Whether Q1 is empty and then, as messages go that way, nothing of it is claimed."""
        with QueueClient(self._url, token=TOKEN) as client:
            on_queue = sum(
                batch.num_rows
                for within in client.ranges("Q1", 1)
                for batch in client.browse("Q1", *within, Filters())
            )
            return not on_queue and not any(s.message_count for s in client.standings())

    def check(self) -> Counter[tuple[str, str]]:
        """Every acknowledged message came out once or expired once; return how many did which.

        The keys are (queue, outcome of the life on it).
        """
        with QueueManager("QM1", self._store) as manager:
            manager.run_due()
            assert manager.verify().ok, manager.verify().problems
            assert stages_left(manager) == 0
            assert not list(take_all(manager, "Q1")), "it has not come to its end"
            got = Counter(take_all(manager, "Q2"))
            left = [tuple(manager.counts(queue)) for queue in ("Q1", "Q2")]
            assert left == [(0, 0, 0, 0, 0)] * 2
            lives: dict[tuple[str, int], list[str]] = defaultdict(list)
            for row in ledger(manager):
                msg_id = row[MSG_ID]
                if row[KIND] == KIND_LIFE and isinstance(msg_id, bytes):
                    lives[str(row[QUEUE]), int(msg_id)].append(str(row[OUTCOME]))
            self._compare(got, lives)
            balances = {b.queue: b for b in manager.engine.store.ledger_writer.balances()}
            assert balances["Q1"].puts == len(self.feeder.numbers)
            assert balances["Q2"].puts == sum(queue == "Q2" for queue, _ in lives)
            assert manager.verify().ok, manager.verify().problems
        return Counter((queue, outcome) for (queue, _), [outcome] in lives.items())

    def _compare(self, got: Counter[int], lives: dict[tuple[str, int], list[str]]) -> None:
        twice = {life: ends for life, ends in lives.items() if len(ends) > 1}
        assert not twice, "lives that ended more than once"
        known = set(self.feeder.numbers)
        for queue in ("Q1", "Q2"):
            assert {n for at, n in lives if at == queue} <= known, "nobody put it"
        lost = [n for n in known if ("Q1", n) not in lives]
        assert not lost, "acknowledged and gone"
        went = {n for n in known if lives["Q1", n] == [State.GOT.value]}
        came = {n for at, n in lives if at == "Q2"}
        assert went == came, (len(went - came), len(came - went))
        out = {n for n in came if lives["Q2", n] == [State.GOT.value]}
        assert got == dict.fromkeys(out, 1)
        assert not {n for n in went if n % OVER_EVERY == 0}, "went on after its end"
        expired = known - out
        assert not {n for n in expired if n % OVER_EVERY and n % SHORT_EVERY}, "expired without end"


def take_all(manager: QueueManager, queue: str) -> Iterator[int]:
    """Get all there is, in one unit of work."""
    manager.mqsc("ALTER QMGR MAXUMSGS(1000000)")
    with manager.session(transacted=True) as session:
        while (message := session.get(queue)) is not None:
            yield int(message.body)


def ledger(manager: QueueManager) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the ledger."""
    yield from manager.ledger.page(0, manager.ledger.last_position())


def executors_of(cluster: Cluster) -> set[int]:
    """The processes of executors: children of the workers, which are children of keepers."""
    keepers = {worker.daemon.keeper.pid for worker in cluster.workers}
    parents = {process.pid: process.parent for process in processes()}
    return {
        pid
        for pid, parent in parents.items()
        if parents.get(parent) in keepers and is_executor(pid)
    }


def processes() -> Iterator[Process]:
    """Yield the processes of this machine that run; zombies do not."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            # The first thread of a process may have ended before the others.
            if fields[0] != "Z" or len(list((folder / "task").iterdir())) > 1:
                yield Process(int(folder.name), int(fields[1]), int(fields[2]))


def is_executor(pid: int) -> bool:
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
