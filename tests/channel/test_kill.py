"""kill -9 of the process that runs both ends, again and again: each message is there once (E29)."""

import itertools
import json
import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.channel.load import IN_DOUBT
from tests.channel.scene import CHANNEL, XMITQ, bodies, standing
from tests.facts import PATIENCE_SECONDS
from tests.store.kills import run_and_kill


def journalled(journals: Path) -> tuple[set[str], set[str]]:
    """Return the labels that were committed, and those of which nobody knows."""
    done: set[str] = set()
    begun: set[str] = set()
    for journal in journals.glob("*"):
        for line in journal.read_text().splitlines():
            is_done, labels = json.loads(line)
            (done if is_done else begun).update(labels)
    return done, begun - done


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, pytest.param(100, marks=pytest.mark.soak)])
def test_killed_at_any_moment_every_persistent_message_arrives_exactly_once(
    tmp_path: Path, rounds: int
) -> None:
    seed = int(os.environ.get("MAYFLY_KILL_SEED") or Random().randrange(10**6))
    random, journals = Random(seed), tmp_path / "journals"
    journals.mkdir()
    with_seed = f"again with MAYFLY_KILL_SEED={seed}"
    in_doubt_count = 0
    for number in itertools.count():
        # For all of this to mean something; a slow machine is hardly ever in doubt by chance.
        must_doubt = number >= rounds
        if must_doubt and in_doubt_count > rounds // 6:
            break
        assert number < 3 + 2 * rounds, f"hardly ever in doubt; {with_seed}"
        after_seconds = PATIENCE_SECONDS if must_doubt else random.uniform(0.05, 0.3)
        run = f"{seed}.{number}{IN_DOUBT if must_doubt else ''}"
        run_and_kill("tests.channel.load", tmp_path, journals, run, after_seconds)
        clock = VirtualClock(0)
        # Alone, the sender shows what it holds in doubt; then its partner is there.
        one = QueueManager("QM1", tmp_path / "1", clock)
        in_doubt_count += standing(one).is_in_doubt
        with one, QueueManager("QM2", tmp_path / "2", clock) as two:
            one.channels.start(CHANNEL)
            assert (one.curdepth(XMITQ), standing(one).is_in_doubt) == (0, False), with_seed
            check(two, journals, with_seed)
            for manager in (one, two):
                found = manager.verify()
                assert found.ok, f"{found.problems}; {with_seed}"


def check(two: QueueManager, journals: Path, with_seed: str) -> None:
    committed, unknown = journalled(journals)
    arrived = Counter(body.decode() for body in bodies(two))
    assert not {label for label, count in arrived.items() if count > 1}, f"doubled; {with_seed}"
    assert not committed - arrived.keys(), f"lost; {with_seed}"
    assert not arrived.keys() - committed - unknown, f"out of nowhere; {with_seed}"
