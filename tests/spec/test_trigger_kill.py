"""kill -9 of a queue manager whose queues trigger: they do again for what is still there (T2)."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from mayfly import QueueManager
from tests.over import NewSession
from tests.spec.scene import alter
from tests.spec.trigger_load import THRESHOLD
from tests.spec.trigger_scene import INITQ, OFF, ON, Monitor, control

ROOT = Path(__file__).parents[2]


def put_until_killed(folder: Path, after_seconds: float) -> None:
    command = [sys.executable, "-m", "tests.spec.trigger_load", str(folder)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    with suppress(subprocess.TimeoutExpired):
        process.wait(after_seconds)
    process.kill()
    complaint = process.communicate()[1]
    assert (process.returncode, complaint) == (-9, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, 30))]
)
def test_T2_T4_after_a_crash_a_monitor_finds_what_is_there(
    tmp_path: Path, seed: int, new_session: NewSession
) -> None:
    """Its trigger messages were not persistent: nor is that DEPTH has switched itself off."""
    put_until_killed(tmp_path / "QM1", after_seconds=seed * 0.013)
    with QueueManager("QM1", tmp_path / "QM1") as manager, new_session(manager) as session:
        assert manager.verify().ok
        assert manager.curdepth(INITQ) == 0
        assert (control(manager, "DEPTH"), control(manager, "AGAIN")) == (ON, ON)
        again = ["AGAIN"] if manager.curdepth("AGAIN") >= THRESHOLD else []
        monitor = Monitor(session)
        assert monitor.read() == ["FIRST", "EVERY", "DEPTH", *again]
        assert control(manager, "DEPTH") == OFF
        alter(manager, "DEPTH", TRIGGER=ON)
        assert monitor.read() == ["DEPTH"]
