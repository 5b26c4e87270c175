"""Many threads, everything mixed: each message is got exactly once and the books prove it."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import GetRequest, Session
from mayfly.lifetime.life import KIND_BALANCE, KIND_LIFE, LEDGER_COLUMNS
from mayfly.mqi import constants as c
from mayfly.mqi.errors import NoMessage
from mayfly.runtime.clocks import SystemClock
from mayfly.verbs.contracts.ledger import PositionTrimmed
from mayfly.verbs.contracts.outcomes import unpack_counts
from tests.spec.scene import BROWSE, INPUT, JOIN_SECONDS, REPLIES, Running, bodies, local

PLACE = {name: n for n, name in enumerate(LEDGER_COLUMNS)}
QUEUES = ("Q1", "Q2")


class Load:
    """Threads that put, get, back out and lock at random; what they put and got for good."""

    def __init__(self, qm: QueueManager, seed: int, operation_count: int) -> None:
        self.qm = qm
        self.seed = seed
        self.operation_count = operation_count
        self.put: list[list[bytes]] = []
        self.got: list[list[bytes]] = []

    def run(self, *kinds: Callable[[random.Random, list[bytes], list[bytes]], None]) -> None:
        threads = []
        for place, kind in enumerate(kinds):
            put: list[bytes] = []
            got: list[bytes] = []
            self.put.append(put)
            self.got.append(got)
            chance = random.Random(f"{self.seed} {place}")
            threads.append(Running(partial(kind, chance, put, got)))
        for thread in threads:
            thread.finish()
            assert thread.error is None, thread.error

    def alone(self, chance: random.Random, put: list[bytes], got: list[bytes]) -> None:
        """Puts and gets that are final at once."""
        with self.qm.session() as session:
            for n in range(self.operation_count):
                if chance.random() < 0.5:
                    put.append(self._put(session, chance, n))
                else:
                    message = session.get(chance.choice(QUEUES), wait_ms=chance.choice((0, 1)))
                    if message is not None:
                        got.append(message.body)

    def units(self, chance: random.Random, put: list[bytes], got: list[bytes]) -> None:
        """Units of work of a few operations; a third is backed out."""
        with self.qm.session(transacted=True) as session:
            for n in range(self.operation_count // 5):
                new, taken = [], []
                for m in range(chance.randrange(6)):
                    if chance.random() < 0.5:
                        new.append(self._put(session, chance, n * 10 + m))
                    else:
                        message = session.get(chance.choice(QUEUES))
                        if message is not None:
                            taken.append(message.body)
                if chance.random() < 0.33:
                    session.backout()
                else:
                    session.commit()
                    put.extend(new)
                    got.extend(taken)

    def browse(self, chance: random.Random, _put: list[bytes], got: list[bytes]) -> None:
        """Browses with a lock; some of what is locked is taken, the rest unlocked."""
        with self.qm.session() as session:
            for _ in range(self.operation_count // 5):
                handle = session.open(chance.choice(QUEUES), BROWSE | INPUT)
                try:
                    for _ in range(chance.randrange(1, 6)):
                        handle.get(GetRequest(), c.MQGMO_BROWSE_NEXT | c.MQGMO_LOCK)
                        if chance.random() < 0.4:
                            taken = handle.get(GetRequest(), c.MQGMO_MSG_UNDER_CURSOR)
                            got.append(taken.message.body)
                        elif chance.random() < 0.4:
                            handle.unlock()
                except NoMessage:
                    continue
                finally:
                    handle.close()

    def verify(self, _chance: random.Random, _put: list[bytes], _got: list[bytes]) -> None:
        """Recounts beside all others."""
        for _ in range(10):
            found = self.qm.verify()
            assert found.ok, found.problems

    def mixed(self, chance: random.Random, _put: list[bytes], _got: list[bytes]) -> None:
        """Messages that expire, are delayed, and ask for reports; nobody counts them."""
        with self.qm.session() as session:
            for n in range(self.operation_count):
                session.put(
                    "DYING",
                    b"%d" % n,
                    time_to_live_ms=chance.choice((4, 5, 8, None)),
                    delay_ms=chance.choice((0, 0, 1, 3)),
                    persistent=chance.random() < 0.3,
                    report=chance.choice((0, c.MQRO_EXPIRATION, c.MQRO_COA, c.MQRO_COD)),
                    reply_to_q=REPLIES,
                )
                if chance.random() < 0.4:
                    session.get("DYING")

    def _put(self, session: Session, chance: random.Random, n: int) -> bytes:
        body = f"{threading.get_ident()} {n} {chance.random()}".encode()
        session.put(
            chance.choice(QUEUES),
            body,
            priority=chance.randrange(10),
            persistent=chance.random() < 0.5,
            delay_ms=chance.choice((0, 0, 0, 1)),
        )
        return body


def prepared(qm: QueueManager) -> None:
    for name in (*QUEUES, "DYING", REPLIES):
        local(qm, name)


def late(qm: QueueManager) -> list[bytes]:
    """Get all that is left, also what is still on its way from the staging queue."""
    found = []
    with qm.session() as session:
        for name in QUEUES:
            while qm.counts(name).staged:
                message = session.get(name, wait_ms=20)
                found += [] if message is None else [message.body]
            found += bodies(session, name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2))])
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "folder"])
def test_every_message_is_got_exactly_once(tmp_path: Path, on_disk: bool, seed: int) -> None:
    with QueueManager("QM1", tmp_path if on_disk else None, SystemClock()) as qm:
        prepared(qm)
        load = Load(qm, seed, 150)
        load.run(
            load.alone, load.alone, load.units, load.units, load.browse, load.verify, load.mixed
        )
        got = Counter(late(qm))
        for part in load.got:
            got.update(part)
        put = Counter(body for part in load.put for body in part)
        assert put - got == Counter(), "a live message was skipped for ever"
        assert got - put == Counter(), "a message was got twice"
        for name in QUEUES:
            assert qm.counts(name) == (0, 0, 0, 0, 0)
        queue = [qm.engine.registry.queue(name) for name in QUEUES]
        assert [q.present for q in queue] == [[0, 0], [0, 0]]
        # The delay processor may still be at work for a queue that nobody reads.
        until = time.perf_counter() + JOIN_SECONDS
        while qm.engine.hidden:
            assert time.perf_counter() < until, "hidden for ever"
        found = qm.verify()
        assert found.ok, found.problems


def recount(rows: list[tuple[object, ...]]) -> int:
    """Compare each balance row with the lives before it; return how many there were."""
    ended: dict[object, Counter[str]] = {}
    count = 0
    for row in rows:
        queue = row[PLACE["queue"]]
        if row[PLACE["kind"]] == KIND_LIFE:
            ended.setdefault(queue, Counter())[str(row[PLACE["outcome"]])] += 1
            continue
        assert row[PLACE["kind"]] == KIND_BALANCE
        claimed = unpack_counts(str(row[PLACE["ended"]]))
        assert claimed == ended.get(queue, Counter()), f"{queue} at {row[0]}"
        puts, present = row[PLACE["puts"]], row[PLACE["present"]]
        assert isinstance(puts, int)
        assert isinstance(present, int)
        assert puts == sum(claimed.values()) + present, f"{queue} at {row[0]}"
        count += 1
    return count


@pytest.mark.slow
def test_every_balance_row_agrees_with_the_lives_before_it(tmp_path: Path) -> None:
    over = threading.Event()

    def balance(qm: QueueManager) -> None:
        while not over.is_set():
            qm.engine.store.write_balances()

    with QueueManager("QM1", tmp_path, SystemClock()) as qm:
        prepared(qm)
        balancing = Running(lambda: balance(qm))
        load = Load(qm, 1, 150)
        kinds: list[object] = []
        while kinds.count(KIND_BALANCE) <= 100:
            load.run(load.alone, load.alone, load.units, load.mixed, load.mixed, load.browse)
            kinds = [row[PLACE["kind"]] for row in qm.ledger.page(0, 1_000_000)]
        over.set()
        balancing.finish()
        assert balancing.error is None
        for name in (*QUEUES, "DYING", REPLIES):
            bodies(qm.session(), name)
    with QueueManager("QM1", tmp_path, SystemClock()) as again:
        rows = again.ledger.page(0, 1_000_000)
        assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
        assert recount(rows) > 100
        assert again.verify().ok


@pytest.mark.slow
def test_a_reader_beside_writers_and_retention_sees_no_gap_but_where_it_is_told(
    tmp_path: Path,
) -> None:
    with QueueManager(
        "QM1", tmp_path, SystemClock(), settings={"ledger.retention_count": 200}
    ) as qm:
        prepared(qm)
        over = threading.Event()
        gaps: list[tuple[int, int, int]] = []

        def read(after: int) -> None:
            while not over.is_set():
                try:
                    rows = qm.ledger.page(after, 7)
                except PositionTrimmed as gone:
                    gaps.append((after, gone.after_position, gone.first_position))
                    after = gone.first_position - 1
                    continue
                assert [row[0] for row in rows] == list(range(after + 1, after + 1 + len(rows)))
                after += len(rows)

        def trim() -> None:
            while not over.is_set():
                qm.engine.store.retention.trim(qm.engine.settings.ledger_retention_count)

        threads = [Running(lambda: read(0)), Running(trim)]
        load = Load(qm, 2, 250)
        load.run(load.alone, load.units, load.mixed)
        over.set()
        for thread in threads:
            thread.finish()
            assert thread.error is None
        assert all(after == told < first - 1 for after, told, first in gaps)
        assert qm.ledger.last_position() - qm.ledger.first_position() < 200 + 5_000


def test_a_live_message_behind_hidden_ones_is_found_when_they_come_back(
    tmp_path: Path,
) -> None:
    """The hint where to start reading goes back with each message that is revealed."""
    with QueueManager("QM1", tmp_path, SystemClock()) as qm:
        prepared(qm)
        plain, one, two = qm.session(), qm.session(transacted=True), qm.session(transacted=True)
        for n in range(6):
            plain.put("Q1", b"%d" % n, persistent=bool(n % 2), priority=9 - n)
        taken = [one.get("Q1"), two.get("Q1"), one.get("Q1"), two.get("Q1")]
        assert all(message is not None for message in taken)
        two.backout()
        assert bodies(plain, "Q1") == [b"1", b"3", b"4", b"5"]
        one.backout()
        assert bodies(plain, "Q1") == [b"0", b"2"]
        one.close()
        two.close()
