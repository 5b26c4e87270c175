"""kill -9 while several stores change together: all of a transaction is there, or nothing of it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from mayfly import QueueManager
from tests.examples import first_of
from tests.sharing.dying import CHANNEL, DELAY_MS, MOVED
from tests.sharing.scene import PRIVATE, SHARED, Sharing
from tests.spec.scene import STAGING, bodies

ROUNDS = 3
ROOT = Path(__file__).parents[2]
BODIES = [b"%d" % n for n in range(2 * MOVED)]


def work_and_die(folder: Path, who: str, number: int, work: str) -> bool:
    """Let a process work until a commit kills it; tell whether one did."""
    command = [sys.executable, "-m", "tests.sharing.dying", str(folder), who, str(number), work]
    died = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=120)
    assert (died.returncode in (-9, 0), died.stderr) == (True, b""), died
    return died.returncode == -9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "number"),
    # A member commits once, so its second commit kills nobody.
    first_of(4, ("QSG1", 1), ("QSG1", 2), ("QM1", 1), ("QM2", 1), ("QM1", 2), ("QM2", 2)),
)
def test_a_unit_over_private_and_shared_queues_is_whole_or_nothing(
    tmp_path: Path, who: str, number: int
) -> None:
    sharing = Sharing(tmp_path)
    with sharing.qm1.session() as one:
        for body in BODIES:
            one.put(PRIVATE, body, persistent=True)
    sharing.group.close()
    is_killed = work_and_die(tmp_path, who, number, "unit")
    assert is_killed or (who, number) in (("QM2", 2), ("QM1", 2))
    sharing.open()
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        at_one, at_two, shared = bodies(one, PRIVATE), bodies(two, PRIVATE), bodies(one, SHARED)
    copies = [body.removesuffix(b" copy") for body in at_one if body.endswith(b" copy")]
    originals = [body for body in at_one if not body.endswith(b" copy")]
    assert sorted(originals + at_two + shared) == BODIES
    assert sorted(copies) == sorted(at_two)
    # The first unit is decided by the first commit of the group, the second by its second.
    decided = {("QSG1", 1): (6, 0), ("QSG1", 2): (3, 0)}.get((who, number))
    if decided is not None:
        assert (len(originals), len(at_two)) == decided
    elif (who, number) == ("QM1", 1):
        assert (len(originals), len(shared), len(at_two)) == (3, 3, 0)
    elif is_killed:
        assert (len(originals), len(shared), len(at_two)) == (3, 0, 3)
    sharing.end()


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, pytest.param(3, marks=pytest.mark.soak)])
@pytest.mark.parametrize("who", ["QSG1", "QM1", "QM9"])
def test_a_channel_brings_a_batch_for_private_and_shared_queues_exactly_once(
    tmp_path: Path, who: str, number: int
) -> None:
    """What the receiver knows of the batch is in the member's store, what is shared in another."""
    sharing = Sharing(tmp_path)
    assert sharing.qm1.mqsc(f"DEFINE CHANNEL({CHANNEL}) CHLTYPE(RCVR)").ok
    with QueueManager("QM9", tmp_path / "QM9", sharing.clock) as stranger:
        script = f"""
            DEFINE QLOCAL(QM1) USAGE(XMITQ)
            DEFINE CHANNEL({CHANNEL}) CHLTYPE(SDR) CONNAME(QM1) XMITQ(QM1)"""
        assert stranger.mqsc(script).ok
        with stranger.session() as session:
            for n, body in enumerate(BODIES):
                session.put(f"{(SHARED, PRIVATE)[n % 2]}@QM1", body, persistent=True)
    sharing.group.close()
    is_killed = work_and_die(tmp_path, who, number, "move")
    assert is_killed or (number > 1 and who != "QM9")
    sharing.open()
    with QueueManager("QM9", tmp_path / "QM9", sharing.clock) as stranger:
        stranger.channels.start(CHANNEL)
        sharing.clock.advance(60_000)
        assert stranger.curdepth("QM1") == 0
        [standing] = stranger.channels.status(CHANNEL)
        assert (standing.is_in_doubt, standing.sequence) == (False, len(BODIES))
        with sharing.qm1.session() as one, sharing.qm2.session() as two:
            assert bodies(two, SHARED) == BODIES[::2]
            assert bodies(one, PRIVATE) == BODIES[1::2]
        assert stranger.verify().ok
    sharing.end()


@pytest.mark.slow
@pytest.mark.parametrize(("who", "is_released"), [("QSG1", False), ("QM1", True)])
def test_D29_a_release_to_a_shared_queue_happens_once(
    tmp_path: Path, who: str, is_released: bool
) -> None:
    sharing = Sharing(tmp_path)
    with sharing.qm1.session() as one:
        for body in BODIES:
            one.put(SHARED, body, delay_ms=DELAY_MS, persistent=True)
    sharing.group.close()
    assert work_and_die(tmp_path, who, 1, "release")
    sharing.open()
    # What the group has decided is done as the member is opened; else the messages are not due.
    assert sharing.qm1.curdepth(STAGING) == (0 if is_released else len(BODIES))
    sharing.clock.advance(DELAY_MS)
    with sharing.qm2.session() as two:
        assert bodies(two, SHARED) == BODIES
    assert sharing.qm1.curdepth(STAGING) == 0
    sharing.end()


@pytest.mark.slow
@pytest.mark.soak
def test_D29_kills_at_any_time_lose_and_double_nothing(tmp_path: Path) -> None:
    sharing = Sharing(tmp_path)
    sharing.group.close()
    command = [sys.executable, "-m", "tests.sharing.moving", str(tmp_path)]
    acknowledged: Counter[bytes] = Counter()
    for round_ in range(ROUNDS):
        died = subprocess.run(
            [*command, str(round_)], cwd=ROOT, capture_output=True, check=False, timeout=120
        )
        assert died.returncode == -9, died
        acknowledged.update(died.stdout.split())
        sharing.open()
        found = sharing.qm1.verify(), sharing.qm2.verify(), sharing.group.verify()
        assert all(each.ok for each in found), found
        # Where the process stood still: moments later all is released.
        sharing.clock.advance(60_000 + sharing.qm1.now_ms())
        with sharing.qm1.session() as one, sharing.qm2.session() as two:
            pairs_here = [m.body for m in one.browse(PRIVATE)]
            shared = [m.body for m in two.browse(SHARED)]
        assert sorted(b for b in shared if b.startswith(b"pair")) == sorted(pairs_here)
        counted = Counter(shared)
        assert max(counted.values()) == 1
        assert not acknowledged.keys() - counted.keys()
        sharing.group.close()
    assert len(acknowledged) > 30 * ROUNDS
