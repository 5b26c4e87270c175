"""kill -9 of either end of a channel over the network: each message is there once (E29)."""

import os
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.channel.network_scene import TOKEN, lead_to, served
from tests.channel.scene import CHANNEL, XMITQ, standing
from tests.channel.test_kill import check
from tests.ports import held_port
from tests.store.kills import kill, started

ROLES = ("receives", "sends")


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, pytest.param(60, marks=pytest.mark.soak)])
def test_either_end_killed_at_any_moment_every_persistent_message_arrives_exactly_once(
    tmp_path: Path, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAYFLY_TOKEN", TOKEN)
    seed = int(os.environ.get("MAYFLY_KILL_SEED") or Random().randrange(10**6))
    random, journals = Random(seed), tmp_path / "journals"
    journals.mkdir()
    with held_port() as port:
        for number in range(rounds):
            more = tmp_path, port, journals, f"{seed}.{number}"
            ends = started(*(("tests.channel.network_load", role, *more) for role in ROLES))
            for process in random.sample(ends, 2):
                # That the other one is gone is said in a line.
                assert "Traceback" not in kill(process, random.uniform(0.05, 0.4))
    check_all(tmp_path, journals, f"again with MAYFLY_KILL_SEED={seed}")


def check_all(folder: Path, journals: Path, with_seed: str) -> None:
    """Let the rest travel, under a clock that does all of it at once, and count."""
    with (
        QueueManager("QM2", folder / "2") as two,
        served(two) as server,
        QueueManager("QM1", folder / "1", VirtualClock(0)) as one,
    ):
        lead_to(one, server.port)
        one.channels.start(CHANNEL)
        assert (one.curdepth(XMITQ), standing(one).is_in_doubt) == (0, False), with_seed
        assert standing(one).sequence > 0, with_seed
        check(two, journals, with_seed)
        for manager in (one, two):
            found = manager.verify()
            assert found.ok, f"{found.problems}; {with_seed}"
