"""kill -9 while messages are delayed, cancelled, rescheduled and released: every receipt holds."""

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.engine.delay.schedule import receipt_from_ledger
from mayfly.engine.queues import PERSISTENT
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt
from tests.store.delay_load import CANCELLED_IN_BULK, LONG_MS, QUEUES, STEP, THREADS
from tests.store.kills import run_and_kill
from tests.store.load import id_of, label_of

#: So much a run does on average, however slow the machine: enough to mean something.
LINES_A_ROUND = 1_500
PLACE = {name: n for n, name in enumerate(LEDGER_COLUMNS)}
RECEIPTS_ASKED = 300


@dataclass
class Fate:
    """What the journals and the folder say of one message."""

    persistent: bool = True
    was_put: bool | None = None
    #: None: asked for, and nobody knows.
    was_cancelled: bool | None = False
    was_got: bool | None = False
    #: The last that was asked and answered is that it waits for long.
    is_postponed: bool = False
    receipts: list[str] = field(default_factory=list)
    staged_ends: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)


class Auditor:
    """Compares what the journals say with what a folder holds, after each kill."""

    def __init__(self) -> None:
        self.fates: dict[str, Fate] = {}
        self.position = 0
        #: Messages whose bulk cancel was acknowledged, by batches.
        self.cancelled_in_bulk = 0
        self.in_bulk: set[str] = set()

    def read_journals(self, journals: list[Path]) -> None:
        calls = [call for journal in journals for call in calls_of(journal)]
        for asked, labels, _answer, is_done in calls:
            kind, _, queue = asked.partition(" ")
            puts = labels[: labels.index("|")] if kind == "unit" else labels
            if kind in ("put", "unit", "burst"):
                for label in puts:
                    self.fates[label] = Fate(queue != "volatile", True if is_done else None)
            if queue == CANCELLED_IN_BULK:
                self.in_bulk.update(labels)
        for asked, labels, answer, is_done in calls:
            self.read_answer(asked, labels, answer, is_done=is_done)

    def read_answer(self, asked: str, labels: list[str], answer: object, *, is_done: bool) -> None:
        if asked == "cancel_all" and isinstance(answer, int):
            self.cancelled_in_bulk += answer
        if asked == "unit":
            for label in labels[labels.index("|") + 1 :]:
                fate = self.fates[label]
                fate.was_cancelled = True if is_done else fate.was_cancelled or None
        for label in labels if asked in ("cancel", "release", "hasten", "postpone") else ():
            fate = self.fates[label]
            fate.is_postponed = asked == "postpone" and answer == Receipt.RESCHEDULED.value
            fate.receipts += [str(answer)] if is_done else []
            if answer == Receipt.CANCELLED.value:
                fate.was_cancelled = True
            elif asked == "cancel" and not is_done:
                fate.was_cancelled = fate.was_cancelled or None
        for label in labels if asked == "get" else ():
            fate = self.fates[label]
            fate.was_got = True if is_done else fate.was_got or None

    def read_ledger(self, manager: QueueManager) -> None:
        for row in manager.ledger.page(self.position, 10_000_000):
            self.position = row[0]
            if row[PLACE["kind"]] != KIND_LIFE:
                continue
            is_staged = row[PLACE["queue"]] == STAGING_QUEUE
            label = label_of(row[PLACE["correl_id" if is_staged else "msg_id"]])
            assert label in self.fates, f"{label} was never committed"
            fate = self.fates[label]
            (fate.staged_ends if is_staged else fate.ends).append(row[PLACE["outcome"]])

    def check(self, manager: QueueManager) -> None:
        self.read_ledger(manager)
        staged, present = present_labels(manager)
        assert not (staged + present).keys() - self.fates.keys(), "came out of nowhere"
        for label, fate in self.fates.items():
            story = f"{label}: {fate}, staged {staged[label]}, present {present[label]}"
            self.check_one(label, fate, staged[label], present[label], story)
        cancelled = sum(self.fates[label].staged_ends == ["cancelled"] for label in self.in_bulk)
        assert cancelled >= self.cancelled_in_bulk, "a batch that was counted is not cancelled"
        audited = sum(
            entry.message_count
            for entry in manager.session().schedule.audit(100_000)
            if entry.action == "cancel" and not entry.msg_id
        )
        assert cancelled == audited, "the audit of the bulk tells another number"

    def check_one(self, label: str, fate: Fate, staged: int, present: int, story: str) -> None:
        assert len(fate.staged_ends) + staged <= 1, story
        assert len(fate.ends) + present <= 1, story
        if not fate.persistent:
            assert staged == present == 0, story
            return
        if fate.was_put:
            assert len(fate.staged_ends) + staged == 1, story
        is_released = fate.staged_ends == ["released"]
        assert len(fate.ends) + present == is_released, story
        if fate.was_cancelled:
            assert fate.staged_ends == ["cancelled"], story
        elif fate.was_cancelled is False and label not in self.in_bulk:
            assert fate.staged_ends in ([], ["released"]), story
        if fate.is_postponed and fate.was_cancelled is False:
            assert staged == 1, story
        if Receipt.ALREADY_RELEASED.value in fate.receipts:
            assert is_released, story
        if fate.was_got:
            assert fate.ends == ["got"], story
        elif fate.was_got is False:
            assert not fate.ends, story
        # What was in doubt is now settled, and stays as it is.
        fate.was_put = fate.was_put or bool(staged or fate.staged_ends)
        fate.was_got = fate.ends == ["got"]
        if label not in self.in_bulk:
            fate.was_cancelled = fate.staged_ends == ["cancelled"]


def calls_of(journal: Path) -> list[tuple[str, list[str], object, bool]]:
    """Return what each call was asked, what it answered, and whether it did."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    pairs = [(lines[n], lines[n + 1 : n + 2]) for n in range(0, len(lines), 2)]
    return [
        (asked, labels, answer[0] if answer else None, bool(answer))
        for (asked, labels), answer in pairs
    ]


def present_labels(manager: QueueManager) -> tuple[Counter[str], Counter[str]]:
    """Return the labels of all messages that survived: staged, and on other queues."""
    staged, present = Counter[str](), Counter[str]()
    targets = Counter[str]()
    with manager.engine.engine_lock:
        for queue in manager.engine.registry.queues():
            for row in manager.engine.messages(PERSISTENT).in_order(
                queue.low, queue.high, 10_000_000
            ):
                (staged if queue.is_staging else present)[label_of(row.msg_id)] += 1
                targets.update([row.target] if queue.is_staging and row.target else [])
    for name in QUEUES:
        assert manager.counts(name).staged == targets[name], name
    return staged, present


def check_receipts(manager: QueueManager, fates: dict[str, Fate], random: Random) -> None:
    """Ask again for what was told before: it still holds."""
    told = [label for label, fate in fates.items() if fate.persistent and fate.staged_ends]
    for label in random.sample(told, min(RECEIPTS_ASKED, len(told))):
        receipt, _sender = receipt_from_ledger(manager.engine, id_of(label))
        is_released = fates[label].staged_ends == ["released"]
        assert receipt == (Receipt.ALREADY_RELEASED if is_released else Receipt.CANCELLED), label


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [2, pytest.param(4, marks=pytest.mark.soak)])
def test_every_receipt_holds_over_kill_9(tmp_path: Path, rounds: int) -> None:
    seed = int(os.environ.get("MAYFLY_KILL_SEED") or Random().randrange(10**6))
    random, auditor, clock = Random(seed), Auditor(), VirtualClock(0)
    for number in range(rounds):
        run = f"{seed}.{number}"
        after_seconds = random.uniform(0.6, 2.6)
        line_count = LINES_A_ROUND * rounds if number == rounds - 1 else 0
        run_and_kill(
            "tests.store.delay_load", tmp_path / "folder", tmp_path, run, after_seconds, line_count
        )
        auditor.read_journals(sorted(tmp_path.glob(f"{run}.*")))
        # Its time is the high-water mark in the folder: nothing falls due while we look.
        with QueueManager("QM1", tmp_path / "folder", clock) as manager:
            try:
                verification = manager.verify()
                assert verification.ok, verification.problems
                auditor.check(manager)
                check_receipts(manager, auditor.fates, random)
                if number == rounds - 1:
                    for fate in auditor.fates.values():
                        fate.is_postponed = False
                    clock.advance(2 * LONG_MS)
                    auditor.check(manager)
                    assert manager.curdepth(STAGING_QUEUE) == 0
            except AssertionError as failure:
                again = f"again with MAYFLY_KILL_SEED={seed}"
                raise AssertionError(f"round {number}: {failure}; {again}") from failure
    fates = auditor.fates.values()
    # Enough has happened for all of this to mean something.
    assert sum(fate.staged_ends == ["released"] for fate in fates) > 50 * rounds, seed
    assert sum(fate.was_cancelled is True for fate in fates) > 5 * rounds, seed
    assert sum(fate.was_got is True for fate in fates) > 25 * rounds, seed
    assert auditor.cancelled_in_bulk > STEP, seed
    assert len(auditor.in_bulk) > THREADS, seed
