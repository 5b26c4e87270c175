"""kill -9 of a handler at work: each letter is in one place, and dies when it always would."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.runtime.clocks import SystemClock
from mayfly.services.dead_letter import dead_letter_of, parse_rules
from mayfly.services.dead_letter.handler import DeadLetterHandler
from mayfly.testing import VirtualClock
from tests.dead_letter.letter_load import RULES
from tests.dead_letter.scene import bury_in
from tests.spec.scene import DEAD, alter_manager, lives, local

ROOT = Path(__file__).parents[2]
KINDS = ("Q1", "PARKED", "GONE", "KEPT", "NOWHERE")
LETTER_COUNT = 500
LIFE_MS = 3_600_000
#: How old the letters are when the handlers come.
AGE_MS = 1_800_000
#: A handler's wall clock moves between its look at the letter and its put.
DRIFT_MS = 600_000
KILLS = 2


def id_of(number: int) -> bytes:
    return f"letter {number}".encode().ljust(24, b".")


def bury_all(folder: Path) -> dict[bytes, int]:
    """Fill the dead-letter queue and return the deadline of each letter by its id."""
    with QueueManager("QM1", folder, VirtualClock(SystemClock().now_ms() - AGE_MS)) as manager:
        for name in ("Q1", "PARKED"):
            local(manager, name, MAXDEPTH=10_000)
        alter_manager(manager, DEADQ=DEAD)
        descriptor = Descriptor(persistence=c.MQPER_PERSISTENT, format="MQSTR")
        options = c.MQPMO_SYNCPOINT | c.MQPMO_SET_ALL_CONTEXT
        with manager.session(transacted=True) as unit:
            for number in range(LETTER_COUNT):
                more = {"life_ms": LIFE_MS, "msg_id": id_of(number), "options": options}
                target = KINDS[number % len(KINDS)]
                bury_in(manager, unit, descriptor, b"x", target=target, **more)
        with manager.session() as session:
            return {m.msg_id: m.expire_at_ms or 0 for m in session.browse(DEAD)}


def work_and_die(folder: Path, done_count: int) -> None:
    """Let a handler work in a process of its own that is killed when it has done so much."""
    command = [sys.executable, "-m", "tests.dead_letter.letter_load", str(folder), str(done_count)]
    died = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=120)
    assert (died.returncode, died.stderr) == (-9, b""), died


def check(manager: QueueManager, deadlines: dict[bytes, int]) -> Counter[str]:
    """Check that each letter is in one place and return how many are where."""
    found = manager.verify()
    assert found.ok, found.problems
    places: dict[bytes, list[str]] = {msg_id: [] for msg_id in deadlines}
    with manager.session() as session:
        for queue in (DEAD, "Q1", "PARKED"):
            for message in session.browse(queue):
                places[message.msg_id].append(queue)
                late_ms = (message.expire_at_ms or 0) - deadlines[message.msg_id]
                assert 0 <= late_ms < DRIFT_MS, (message, late_ms)
                assert (dead_letter_of(message) is None) == (queue == "Q1")
    ended = Counter(life.msg_id for life in lives(manager, DEAD))
    for number in range(LETTER_COUNT):
        msg_id, kind = id_of(number), KINDS[number % len(KINDS)]
        if places[msg_id] == [DEAD]:
            assert not ended[msg_id], (kind, "it has ended and is there")
        else:
            assert ended[msg_id] == 1, (kind, places[msg_id])
            assert places[msg_id] == ([] if kind == "GONE" else [kind]), kind
    return Counter(place for where in places.values() for place in where)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in (2, 3))])
def test_Q2_kills_at_any_moment_lose_and_double_no_letter(tmp_path: Path, seed: int) -> None:
    random = Random(int(os.environ.get("MAYFLY_KILL_SEED") or seed))
    folder, progress = tmp_path / "folder", set[int]()
    deadlines = bury_all(folder)
    for _ in range(KILLS):
        work_and_die(folder, random.randrange(1, 40))
        with QueueManager("QM1", folder) as manager:
            progress.add(check(manager, deadlines)[DEAD])
    left = LETTER_COUNT * 2 // len(KINDS)
    assert any(left < count < LETTER_COUNT for count in progress), (
        f"never in the middle: {progress}"
    )
    with QueueManager("QM1", folder) as manager:
        with DeadLetterHandler(manager, parse_rules(RULES)) as handler:
            handler.run_once()
        assert check(manager, deadlines) == {DEAD: left, "Q1": 100, "PARKED": 100}
