"""kill -9 of either end of a channel over the network: each message is there once (E29)."""

import os
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.channel.load import THREADS
from tests.channel.network_scene import TOKEN, lead_to, served
from tests.channel.scene import CHANNEL, XMITQ, standing
from tests.channel.test_kill import check
from tests.facts import PATIENCE_SECONDS, wait_until
from tests.ports import held_port
from tests.store.kills import kill, lines_in, started

ROLES = ("receives", "sends")
KILLS = 60


@pytest.mark.soak
def test_either_end_killed_at_any_moment_every_persistent_message_arrives_exactly_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAYFLY_TOKEN", TOKEN)
    seed = int(os.environ.get("MAYFLY_KILL_SEED") or Random().randrange(10**6))
    random, journals = Random(seed), tmp_path / "journals"
    journals.mkdir()
    with held_port() as port:
        for number in range(KILLS):
            more = tmp_path, port, journals, f"{seed}.{number}"
            before = lines_in(journals)
            ends = started(*(("tests.channel.network_load", role, *more) for role in ROLES))
            # More lines than threads: one of them has committed.
            wait_until(lambda: lines_in(journals) > before + THREADS)  # noqa: B023 - called at once
            for process in random.sample(ends, 2):
                # That the other one is gone is said in a line.
                assert "Traceback" not in kill(process, random.uniform(0.05, 0.4))
    check_all(tmp_path, journals, f"again with MAYFLY_KILL_SEED={seed}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "step", "is_in_doubt"),
    [
        ("sends", "before confirm", True),
        ("receives", "before confirm", True),
        *(
            pytest.param(*values, marks=pytest.mark.soak)
            for values in (
                ("sends", "behind send", False),
                ("sends", "behind confirm", True),
                ("receives", "behind send", None),
                ("receives", "behind confirm", None),
            )
        ),
    ],
)
def test_an_end_killed_at_a_step_of_its_batch_leaves_it_there_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    victim: str,
    step: str,
    is_in_doubt: bool | None,
) -> None:
    """None for is_in_doubt: the sender may have gone on before it was killed as well."""
    monkeypatch.setenv("MAYFLY_TOKEN", TOKEN)
    journals = tmp_path / "journals"
    journals.mkdir()
    with held_port() as port:
        more = tmp_path, port, journals, "steps"
        [receiver] = started(("tests.channel.network_load", "receives", *more))
        pid = receiver.pid if victim == "receives" else 0
        [sender] = started(("tests.channel.network_load", "sends", *more, step, pid))
        (sender if victim == "sends" else receiver).wait(PATIENCE_SECONDS)
        for process in (sender, receiver):
            assert "Traceback" not in kill(process, 0)
    with QueueManager("QM1", tmp_path / "1", VirtualClock(0)) as one:
        assert is_in_doubt is None or standing(one).is_in_doubt is is_in_doubt
    check_all(tmp_path, journals, f"{victim} {step}")


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
