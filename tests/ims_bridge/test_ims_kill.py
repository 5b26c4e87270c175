"""kill -9 of a bridge at work: each request is on its queue, or answered once."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.ims_bridge import ImsBridge
from mayfly.mqi.constants import MQIIH_PASS_EXPIRATION, MQPER_PERSISTENT, MQPMO_SYNCPOINT
from mayfly.pymqi import IIH
from tests.ims_bridge.request_load import ANYWHERE, IN_TRANSACTION
from tests.ims_bridge.scene import DEAD, DEFINITIONS, IMS, REPLIES, asking
from tests.spec.scene import put_md

ROOT = Path(__file__).parents[2]
REQUEST_COUNT = 200
LIFE_MS = 3_600_000


def ask_all(folder: Path) -> list[bytes]:
    """Put persistent requests that pass their life on, and return their MsgIds."""
    with QueueManager("QM1", folder) as manager:
        assert manager.mqsc(DEFINITIONS).ok
        with manager.session(transacted=True) as unit:
            return [
                put_md(
                    unit,
                    IMS,
                    IIH(Flags=MQIIH_PASS_EXPIRATION).pack() + b"question",
                    asking(persistence=MQPER_PERSISTENT),
                    life_ms=LIFE_MS,
                    options=MQPMO_SYNCPOINT,
                ).msg_id
                for _ in range(REQUEST_COUNT)
            ]


def answer_and_die(folder: Path, count: int, place: str) -> None:
    """Let a bridge answer in a process of its own, which is killed."""
    command = [sys.executable, "-m", "tests.ims_bridge.request_load", str(folder), str(count)]
    died = subprocess.run([*command, place], cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert (died.returncode, died.stderr) == (-9, b""), died


def check(manager: QueueManager, asked: list[bytes]) -> int:
    """Check that each request is in one place and return how many are answered."""
    found = manager.verify()
    assert found.ok, found.problems
    with manager.session() as session:
        waiting = [message.msg_id for message in session.browse(IMS)]
        replies = list(session.browse(REPLIES))
        assert list(session.browse(DEAD)) == []
    answered = [reply.correl_id for reply in replies]
    assert Counter(waiting + answered) == Counter(asked)
    assert all(LIFE_MS // 2 < (reply.remaining_ms or 0) <= LIFE_MS for reply in replies)
    return len(answered)


@pytest.mark.slow
@pytest.mark.parametrize("place", [IN_TRANSACTION, pytest.param(ANYWHERE, marks=pytest.mark.long)])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_E30_a_kill_between_request_and_reply_loses_and_doubles_none(
    tmp_path: Path, seed: int, place: str
) -> None:
    random, folder = Random(seed), tmp_path / "folder"
    asked = ask_all(folder)
    for _ in range(2):
        answer_and_die(folder, random.randrange(2, 60), place)
        with QueueManager("QM1", folder) as manager:
            done = check(manager, asked)
    assert 0 < done < REQUEST_COUNT
    with QueueManager("QM1", folder) as manager:
        bridge = ImsBridge(manager, queue=IMS, transaction=lambda request, _iih: request.upper())
        assert bridge.run_once() == REQUEST_COUNT - done
        assert check(manager, asked) == REQUEST_COUNT
