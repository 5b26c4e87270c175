"""``mayfly clock``: shows own time beside the wall clock, and lets them meet again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mayfly import QueueManager, SystemClock
from mayfly.cli.clock import lines_of_clock
from mayfly.cli.outcomes import ExitCode
from mayfly.testing import VirtualClock
from mayfly.verbs.facts import OwnTime
from tests.cli.conftest import Invoke
from tests.cli.test_processes import serving
from tests.pages import part

GLITCH_MS = 3_590_000


@pytest.fixture
def ahead(home: Path) -> Path:
    """A home whose QM1 has seen a time 59 min 50 s ahead, with a message that has expired by it."""
    clock = VirtualClock(SystemClock().now_ms() + GLITCH_MS)
    with QueueManager("QM1", home / "QM1", clock) as qm, qm.session() as session:
        qm.mqsc("DEFINE QLOCAL(Q1)")
        session.put("Q1", b"gone", time_to_live_ms=1_000, persistent=True)
        session.put("Q1", b"alive", time_to_live_ms=86_400_000, persistent=True)
        session.put("Q1", b"delayed", delay_ms=86_400_000, persistent=True)
        clock.advance(5_000)
    return home


def test_clock_show_of_a_queue_manager_with_the_time_of_its_machine(queue: Invoke) -> None:
    answer = queue("clock", "show", "QM1")
    assert answer.exit_code == 0
    assert answer.stdout.splitlines()[-1] == "QM1 has the time of the wall clock"
    accepted = queue("clock", "accept", "QM1", "--yes")
    assert accepted.exit_code == ExitCode.NOTHING
    assert accepted.stderr.startswith("mayfly: nothing to accept")


def test_clock_show_says_what_accepting_does(ahead: Path, mayfly: Invoke) -> None:
    answer = mayfly("clock", "show", "QM1")
    assert answer.exit_code == 0
    shown = answer.stdout
    assert re.search(r"^QM1 is 59 min 5\d s ahead of the wall clock$", shown, re.MULTILINE)
    assert "  1 expired messages are discarded first" in shown
    assert "  2 messages that were put later than the wall clock says are moved back" in shown
    assert re.search(r"come 59 min 5\d s later; 2 messages have one", shown)
    found = json.loads(mayfly("clock", "show", "QM1", "--json").stdout)
    assert found["difference_ms"] == found["wall_ms"] - found["own_ms"] < -GLITCH_MS + 60_000
    assert found["expired_count"] == 1


def test_clock_accept_asks_before_it_does_anything(ahead: Path, mayfly: Invoke) -> None:
    answer = mayfly("clock", "accept", "QM1")
    assert answer.exit_code == ExitCode.USAGE
    assert answer.stderr.splitlines()[-1] == "mayfly: nothing was done: add --yes to accept it"
    assert "  1 expired messages are discarded first" in answer.stderr
    assert "ahead of the wall clock" in mayfly("clock", "show", "QM1").stdout


def test_clock_accept_brings_a_queue_manager_back(ahead: Path, mayfly: Invoke) -> None:
    answer = mayfly("clock", "accept", "QM1", "--yes")
    assert (answer.exit_code, answer.stdout) == (0, "QM1 has the time of the wall clock\n")
    shown = mayfly("clock", "show", "QM1").stdout.splitlines()
    assert shown[-1] == "QM1 has the time of the wall clock"
    assert mayfly("verify", "QM1").exit_code == 0
    assert mayfly("get", "QM1", "Q1").stdout == "alive\n"
    assert mayfly("get", "QM1", "Q1").exit_code == ExitCode.NOTHING
    assert mayfly("schedule", "count", "QM1").stdout.split()[0] == "1"


def test_the_documentation_shows_what_is_printed() -> None:
    text = part("SERVING.md", "Own time and the wall clock")
    [shown] = re.findall(r"^\$ mayfly clock show QM1\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    own_ms = 1_795_371_127_000
    found = OwnTime(own_ms, own_ms - GLITCH_MS, 2, 0, 0, 3, 12, 40)
    assert shown.splitlines() == list(lines_of_clock("QM1", found))


@pytest.mark.slow
def test_clock_of_a_served_queue_manager_does_not_go_back(ahead: Path, mayfly: Invoke) -> None:
    with serving(ahead, "QM1"):
        assert "ahead of the wall clock" in mayfly("clock", "show", "QM1").stdout
        answer = mayfly("clock", "accept", "QM1", "--yes")
        assert answer.exit_code == ExitCode.USAGE
        assert "end mayfly serve, accept, serve again" in answer.stderr
    assert mayfly("clock", "accept", "QM1", "--yes").exit_code == 0
    with serving(ahead, "QM1"):
        shown = mayfly("clock", "show", "QM1").stdout
        assert shown.splitlines()[-1] == "QM1 has the time of the wall clock"
