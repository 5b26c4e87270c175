"""kill -9 under load, again and again on one folder: nothing acknowledged is lost or doubled."""

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.engine.queues import PERSISTENT, VOLATILE
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS, State
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.store.units import StoredMessage
from mayfly.testing import VirtualClock
from tests.store.kills import run_and_kill
from tests.store.load import label_of

#: So much a run does on average, however slow the machine: enough to mean something.
LINES_A_ROUND = 500
PLACE = {name: n for n, name in enumerate(LEDGER_COLUMNS)}


@dataclass
class Fate:
    """What the journals say of one message: was it put, was it got? None: in doubt."""

    persistent: bool
    was_put: bool | None = None
    was_got: bool | None = False
    #: Outcomes by ledger of its life on an ordinary queue, or on staging when it ended there.
    ends: list[str] = field(default_factory=list)


class Auditor:
    """Compares what the journals say with what a folder holds, after each kill."""

    def __init__(self) -> None:
        self.fates: dict[str, Fate] = {}
        self.position = 0

    def read_journals(self, journals: list[Path]) -> None:
        calls = [call for journal in journals for call in calls_of(journal)]
        for puts, _, answer in calls:
            for label, persistent in puts:
                self.fates[label] = Fate(persistent, None if answer is None else True)
        for _, gets, answer in calls:
            for label in gets:
                fate = self.fates[label]
                if answer is None:
                    fate.was_got = fate.was_got or None
                elif label in answer:
                    fate.was_got = True

    def read_ledger(self, manager: QueueManager) -> None:
        for row in manager.ledger.page(self.position, 10_000_000):
            self.position = row[0]
            if row[PLACE["kind"]] != KIND_LIFE:
                continue
            is_staged = row[PLACE["queue"]] == STAGING_QUEUE
            label = label_of(row[PLACE["correl_id" if is_staged else "msg_id"]])
            assert label in self.fates, f"{label} was never committed"
            if row[PLACE["outcome"]] != State.RELEASED.value:
                self.fates[label].ends.append(row[PLACE["outcome"]])

    def check(self, manager: QueueManager) -> None:
        self.read_ledger(manager)
        present = Counter(labels(manager))
        assert not present.keys() - self.fates.keys(), "came out of nowhere"
        assert set(present.values()) <= {1}, "doubled"
        for label, fate in self.fates.items():
            self.check_one(label, fate, present=label in present)

    def check_one(self, label: str, fate: Fate, *, present: bool) -> None:
        story = f"{label}: {fate}, present {present}"
        assert len(fate.ends) + present <= 1, story
        if not fate.persistent:
            assert not present, story
            return
        if fate.was_put:
            assert len(fate.ends) + present == 1, story
        if fate.was_got:
            assert fate.ends == [State.GOT.value], story
        elif fate.was_got is False:
            assert fate.ends in ([], [State.EXPIRED.value]), story
        # What was in doubt is now settled, and stays as it is.
        fate.was_put = fate.was_put or bool(fate.ends) or present
        fate.was_got = fate.ends == [State.GOT.value]


def calls_of(journal: Path) -> list[tuple[list[tuple[str, bool]], list[str], list[str] | None]]:
    """Return what each call was about to put and get, and what it got; None: it never returned."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    # One that has just begun has none.
    answers = [*lines[1:], [True, [], None]][: len(lines)]
    return [
        (line[1], line[2], answer[2])
        for line, answer in zip(lines, answers, strict=True)
        if not line[0]
    ]


def labels(manager: QueueManager) -> list[str]:
    """Return the labels of all messages, wherever they are."""
    found: list[str] = []
    with manager.engine.engine_lock:
        for queue in manager.engine.registry.queues():
            rows: list[StoredMessage] = []
            for side in (VOLATILE, PERSISTENT):
                rows += manager.engine.messages(side).in_order(queue.low, queue.high, 10_000_000)
            found += [label_of(row.msg_id) for row in rows]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.soak)])
def test_nothing_acknowledged_is_lost_or_doubled_by_kill_9(tmp_path: Path, rounds: int) -> None:
    seed = int(os.environ.get("MAYFLY_KILL_SEED") or Random().randrange(10**6))
    random, auditor = Random(seed), Auditor()
    lost, ended = 0, Counter[str]()
    with_seed = f"again with MAYFLY_KILL_SEED={seed}"
    for number in range(rounds):
        run = f"{seed}.{number}"
        after_seconds = random.uniform(0.1, 1.2)
        line_count = LINES_A_ROUND * rounds if number == rounds - 1 else 0
        run_and_kill(
            "tests.store.load", tmp_path / "folder", tmp_path, run, after_seconds, line_count
        )
        auditor.read_journals(sorted(tmp_path.glob(f"{run}.*")))
        # Its time is the high-water mark in the folder: nothing falls due while we look.
        with QueueManager("QM1", tmp_path / "folder", VirtualClock(0)) as manager:
            verification = manager.verify()
            assert verification.ok, f"{verification.problems}; {with_seed}"
            try:
                auditor.check(manager)
            except AssertionError as failure:
                raise AssertionError(f"round {number}: {failure}; {with_seed}") from failure
            totals = manager.engine.store.ledger_writer.totals
            lost = sum(t.ended.get(State.LOST_AT_RESTART, 0) for _, t in totals.items())
            assert all(
                balance.is_balanced() for balance in manager.engine.store.ledger_writer.balances()
            )
    for fate in auditor.fates.values():
        ended.update(fate.ends)
    # Enough has happened for all of this to mean something.
    assert lost > 0, with_seed
    assert ended[State.GOT.value] > 5 * rounds, with_seed
    assert ended[State.EXPIRED.value] > 0, with_seed
    assert sum(fate.persistent for fate in auditor.fates.values()) > 25 * rounds, with_seed
