"""kill -9 of a publisher, again and again on one folder: each subscriber has each copy once."""

import json
import os
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.engine.pubsub.publish import RETAINED_QUEUE
from mayfly.engine.queues import PERSISTENT
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS, State
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.testing import VirtualClock
from tests.store.kills import run_and_kill
from tests.store.load import label_of
from tests.store.publish_load import (
    CLEAR,
    DEFINED,
    DELAYED,
    LONG_MS,
    MANAGED,
    RETAIN,
    URGENT,
    Publication,
)
from tests.store.scene import contents

PLACE = {name: n for n, name in enumerate(LEDGER_COLUMNS)}
#: So much a run does on average, however slow the machine: enough to mean something.
LINES_A_ROUND = 400
#: How often each subscription has a copy, wherever that is.
Copies = Counter[str]


@dataclass
class Fate:
    """What the journals say of one publication."""

    publication: Publication
    #: What was asked for by one call or commit has one number.
    call: int
    #: None: nobody knows whether it was published.
    is_published: bool | None

    def wanted(self) -> Copies:
        """Return what its subscribers shall have."""
        names, topic = ["ALL", "TOO", "AND"], self.publication.topic
        if topic.endswith("first"):
            names.append("FIRST")
        if topic.endswith("second"):
            names.append(MANAGED)
        if self.publication.priority >= URGENT:
            names.append("URGENT")
        return Counter(names)


class Auditor:
    """Compares what the journals say with what a folder holds, after each kill."""

    def __init__(self) -> None:
        self.fates: dict[str, Fate] = {}
        self.position = 0
        self.calls = 0
        #: Topic -> labels of what may be retained now; "" for nothing.
        self.retained: dict[str, set[str]] = defaultdict(lambda: {""})
        self.got: dict[str, Copies] = defaultdict(Counter)
        self.released = self.contents = self.retentions = 0

    def read_journal(self, journal: Path) -> None:
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        for n in range(0, len(lines), 2):
            self.calls += 1
            is_done = n + 1 < len(lines)
            publications = [Publication(*said) for said in lines[n]]
            for publication in publications:
                if publication.kind != CLEAR:
                    fate = Fate(publication, self.calls, True if is_done else None)
                    self.fates[publication.label] = fate
            self.read_retained(publications, is_done=is_done)

    def read_retained(self, publications: list[Publication], *, is_done: bool) -> None:
        after: dict[str, list[str]] = defaultdict(list)
        for label, persistent, topic, _priority, kind in publications:
            if kind == RETAIN:
                # One that is not persistent is gone after a kill, and what it replaced as well.
                after[topic].append(label if persistent else "")
            elif kind in (CLEAR, "empty"):
                after[topic].append("")
        for topic, kept in after.items():
            # In doubt the unit of work may have come to any of them.
            self.retained[topic] = {kept[-1]} if is_done else {*self.retained[topic], *kept}

    def check(self, manager: QueueManager) -> None:
        self.contents += len(contents(manager.engine.store))
        self.read_ledger(manager)
        copies = self.copies(manager)
        assert not copies.keys() - self.fates.keys(), "came out of nowhere"
        published: dict[int, set[bool]] = defaultdict(set)
        for label, fate in self.fates.items():
            story = f"{label}: {fate}, copies {copies[label]}"
            if not fate.publication.persistent:
                assert copies[label] <= fate.wanted(), story
                continue
            if fate.is_published is None:
                fate.is_published = bool(copies[label])
            assert copies[label] == (fate.wanted() if fate.is_published else Counter()), story
            published[fate.call].add(fate.is_published)
        assert all(len(said) == 1 for said in published.values()), "half a unit of work"
        self.check_retained(manager)

    def read_ledger(self, manager: QueueManager) -> None:
        names = queues_of(manager)
        for row in manager.ledger.page(self.position, 10_000_000):
            self.position = row[0]
            queue, outcome = row[PLACE["queue"]], row[PLACE["outcome"]]
            if row[PLACE["kind"]] != KIND_LIFE:
                continue
            if queue == STAGING_QUEUE:
                assert outcome == State.RELEASED.value, row
                self.released += 1
            elif queue in names:
                assert outcome == State.GOT.value, row
                self.got[label_of(row[PLACE["msg_id"]])][names[queue]] += 1

    def copies(self, manager: QueueManager) -> dict[str, Copies]:
        """Return who has, or will have, which publications; what has been got included."""
        names, found = queues_of(manager), defaultdict[str, Copies](Counter)
        for label, got in self.got.items():
            found[label] += got
        with manager.engine.engine_lock:
            by_id = {s.sub_id.hex(): s.name for s in manager.engine.registry.subscriptions.all()}
            for queue in manager.engine.registry.queues():
                for row in manager.engine.messages(PERSISTENT).in_order(
                    queue.low, queue.high, 10_000_000
                ):
                    label = label_of(row.msg_id)
                    if queue.is_staging:
                        assert row.sub_id is not None
                        found[label][by_id[row.sub_id.hex()]] += 1
                    elif queue.name in names:
                        found[label][names[queue.name]] += 1
                    else:
                        continue
                    assert row.topic == self.fates[label].publication.topic, label
        return found

    def check_retained(self, manager: QueueManager) -> None:
        """The last one that was acknowledged is there for who subscribes now, or one in doubt."""
        found: dict[str, str] = {}
        with manager.session() as session:
            subscription = session.subscribe("kill/#")
            while (message := subscription.get()) is not None:
                assert message.topic not in found, "two are retained"
                found[str(message.topic)] = label_of(message.msg_id)
        assert manager.curdepth(RETAINED_QUEUE) == len(found)
        self.retentions += len(found)
        for topic in self.retained.keys() | found.keys():
            label = found.get(topic, "")
            assert label in self.retained[topic], f"{topic}: {label}, not {self.retained[topic]}"
            assert not label or self.fates[label].is_published, f"{label} is retained alone"
            self.retained[topic] = {label}


def queues_of(manager: QueueManager) -> dict[str, str]:
    """Return the subscriptions by their queues."""
    managed = manager.engine.registry.subscriptions.named(MANAGED).destination
    return {managed: MANAGED, **{name: name for name in DEFINED}}


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.soak)])
def test_each_subscriber_has_each_acknowledged_publication_once(
    tmp_path: Path, rounds: int
) -> None:
    seed = int(os.environ.get("MAYFLY_KILL_SEED") or Random().randrange(10**6))
    random, auditor, clock = Random(seed), Auditor(), VirtualClock(0)
    for number in range(rounds):
        run = f"{seed}.{number}"
        after_seconds, folder = random.uniform(0.1, 1.5), tmp_path / "folder"
        line_count = LINES_A_ROUND * rounds if number == rounds - 1 else 0
        run_and_kill("tests.store.publish_load", folder, tmp_path, run, after_seconds, line_count)
        for journal in sorted(tmp_path.glob(f"{run}.*")):
            auditor.read_journal(journal)
        # Its time is the high-water mark in the folder: nothing falls due while we look.
        with QueueManager("QM1", tmp_path / "folder", clock) as manager:
            try:
                verification = manager.verify()
                assert verification.ok, verification.problems
                auditor.check(manager)
                if number == rounds - 1:
                    clock.advance(2 * LONG_MS)
                    auditor.check(manager)
                    assert manager.curdepth(STAGING_QUEUE) == 0
            except AssertionError as failure:
                again = f"again with MAYFLY_KILL_SEED={seed}"
                raise AssertionError(f"round {number}: {failure}; {again}") from failure
    # Enough has happened for all of this to mean something.
    fates = [f for f in auditor.fates.values() if f.publication.persistent and f.is_published]
    assert len(fates) > 50 * rounds, seed
    assert sum(fate.publication.kind == DELAYED for fate in fates) > 10 * rounds, seed
    assert auditor.released > 10 * rounds, seed
    assert auditor.contents > rounds, seed
    assert sum(map(Counter.total, auditor.got.values())) > 10 * rounds, seed
    assert sum(fate.publication.kind == RETAIN for fate in fates) > 10 * rounds, seed
    # After one kill of a hundred all nine topics have been emptied last.
    assert rounds == 1 or auditor.retentions > rounds, seed
