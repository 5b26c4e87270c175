"""kill -9 of a port with eight sessions: what was committed is answered once, the rest is there."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.listener.port_load import SESSIONS
from tests.store.kills import run_and_kill

#: So many at least, and until enough has happened; a slow machine takes more.
ROUNDS, ROUNDS_MAX, ENOUGH = 6, 120, 100


class Journaled:
    """What the threads of all rounds so far say they have done."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.put: set[str] = set()
        self.kept: set[str] = set()
        self.seen: set[str] = set()
        #: Whose transaction has ended with a commit: its thread went on to the next.
        self.committed: set[str] = set()
        #: Those in the transactions under way at the last kill.
        self.in_doubt: set[str] = set()

    def read(self, journals: list[Path]) -> None:
        """Read those of one round, one a thread."""
        self.in_doubt = set()
        for journal in journals:
            lines = [line.split() for line in journal.read_text().splitlines()]
            for (word, label), following in zip(lines, [*lines[1:], None], strict=True):
                if word == "put":
                    self.put.add(label)
                elif word == "kept":
                    self.kept.add(label)
                elif word == "seen":
                    self._seen(label, following)

    def _seen(self, label: str, following: list[str] | None) -> None:
        self.seen.add(label)
        if following is None:
            self.in_doubt.add(label)
        elif following[0] == "seen":
            self.committed.add(label)


def texts(manager: QueueManager, name: str) -> Counter[str]:
    """Return how often each text is on a queue."""
    with manager.session() as session:
        return Counter(message.data.decode() for message in session.browse(name))


@pytest.mark.slow
def test_kill_9_of_eight_sessions_loses_nothing_and_answers_nothing_twice(tmp_path: Path) -> None:
    seed = int(os.environ.get("MAYFLY_KILL_SEED") or Random().randrange(10**6))
    random, journaled = Random(seed), Journaled()
    answers: Counter[str] = Counter()
    for number in itertools.count():
        if number >= ROUNDS and min(len(answers), len(journaled.committed)) > ENOUGH:
            break
        assert number < ROUNDS_MAX, f"too little happens; MAYFLY_KILL_SEED={seed}"
        run, folder = f"{seed}.{number}", tmp_path / "folder"
        run_and_kill("tests.listener.port_load", folder, tmp_path, run, random.uniform(0.1, 0.8))
        journaled.read(sorted(tmp_path.glob(f"{run}.*")))
        story = f"round {number}; again with MAYFLY_KILL_SEED={seed}"
        with QueueManager("QM1", folder, VirtualClock(0)) as manager:
            assert manager.verify().ok, story
            waiting, answers = texts(manager, "Q1"), texts(manager, "ANSWERS")
        assert {*waiting.values(), *answers.values()} <= {1}, story
        assert not waiting.keys() & answers.keys(), story
        there = waiting.keys() | answers.keys()
        assert journaled.kept <= there <= journaled.put, story
        assert journaled.committed <= answers.keys() <= journaled.seen, story
        # Of what was worked on, only the transactions under way can come again.
        assert len(journaled.in_doubt) <= SESSIONS, story
