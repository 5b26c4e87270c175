"""kill -9 of listeners: what was committed is done once, the rest is there and was counted."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.listener.poison_load import BACKOUTS, QUEUE
from tests.listener.port_load import SESSIONS
from tests.store.kills import ROOT, run_and_kill

#: A slow machine takes no more rounds than these until enough has happened.
ROUNDS_MAX = 120
SOAK = pytest.mark.soak


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
            # A thread may be killed before its first line.
            for line, following in itertools.pairwise([*lines, None]):
                assert line is not None
                word, label = line
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
@pytest.mark.parametrize(("rounds", "enough"), [(2, 30), pytest.param(6, 100, marks=SOAK)])
def test_kill_9_of_eight_sessions_loses_nothing_and_answers_nothing_twice(
    tmp_path: Path, rounds: int, enough: int
) -> None:
    """So many rounds at least, and until enough is answered and committed."""
    seed = int(os.environ.get("MAYFLY_KILL_SEED") or Random().randrange(10**6))
    random, journaled = Random(seed), Journaled()
    answers: Counter[str] = Counter()
    for number in itertools.count():
        if number >= rounds and min(len(answers), len(journaled.committed)) > enough:
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


def died(folder: Path, mode: str) -> str:
    """Run a program whose handler kills it; return what it has said, and kill it if it has not."""
    command = [sys.executable, "-m", "tests.listener.poison_load", str(folder), mode]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    said = process.stdout.readline().decode().strip()
    if said == "idle":
        process.kill()
    complaint = process.communicate()[1].decode()
    assert (process.returncode, complaint) == (-9, "")
    return said


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode",
    ["asf", "jms", *(pytest.param(mode, marks=SOAK) for mode in ("non-asf", "receive"))],
)
def test_G8_a_message_whose_handler_kills_the_process_is_backed_out_each_time(
    tmp_path: Path, mode: str
) -> None:
    """Otherwise it would kill each process that is started again, for ever."""
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder) as manager:
        manager.mqsc(f"DEFINE QLOCAL({BACKOUTS})")
        manager.mqsc(f"DEFINE QLOCAL({QUEUE}) BOTHRESH(2) BOQNAME({BACKOUTS})")
        with manager.session() as session:
            session.put(QUEUE, b"bad", format_name="MQSTR", persistent=True)
    said = [died(folder, mode) for _ in range(3)]
    assert said == ["bad 1 False", "bad 2 True", "idle"]
    with QueueManager("QM1", folder) as manager, manager.session() as session:
        assert manager.curdepth(QUEUE) == 0
        [message] = session.browse(BACKOUTS)
        assert (message.body, message.persistent) == (b"bad", True)
        assert manager.verify().ok


@pytest.mark.slow
def test_G8_what_is_not_poison_is_delivered_after_the_kills_of_another(tmp_path: Path) -> None:
    """BOTHRESH(0): it is delivered for ever, and says how often it was."""
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder) as manager, manager.session() as session:
        manager.mqsc(f"DEFINE QLOCAL({QUEUE})\nDEFINE QLOCAL({BACKOUTS})")
        for text in (b"bad", b"good"):
            session.put(QUEUE, text, format_name="MQSTR", persistent=True)
    assert [died(folder, "non-asf") for _ in range(2)] == ["bad 1 False", "bad 2 True"]
    with QueueManager("QM1", folder) as manager, manager.session() as session:
        assert [m.backout_count for m in session.browse(QUEUE)] == [2, 0]
