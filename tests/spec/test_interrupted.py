"""Rule G8 across kill -9: what a unit of work had got is there again, backed out once more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.store.held_gets import HELD_GETS_FILE
from tests.over import NewSession
from tests.spec.interrupted_load import QUEUES

ROOT = Path(__file__).parents[2]


def made(folder: Path, platform: str) -> None:
    """Make a queue manager with five messages on each queue."""
    with QueueManager("QM1", folder, platform=platform) as manager, manager.session() as session:
        assert manager.mqsc("DEFINE QLOCAL(HARD) HARDENBO\nDEFINE QLOCAL(SOFT) NOHARDENBO").ok
        for name in QUEUES:
            for number in range(1, 6):
                session.put(name, b"%d" % number, persistent=True)


def killed(folder: Path) -> None:
    """Run the program that gets, and kill it when it has."""
    command = [sys.executable, "-m", "tests.spec.interrupted_load", str(folder)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    process.kill()
    assert (said, process.communicate()[1]) == ("ready\n", "")


def backouts(folder: Path) -> dict[str, dict[bytes, int]]:
    """Open the queue manager; return the backout counts on each queue, by body."""
    with QueueManager("QM1", folder) as manager, manager.session() as session:
        assert manager.verify().ok
        return {
            name: {message.body: message.backout_count for message in session.browse(name)}
            for name in QUEUES
        }


@pytest.mark.slow
@pytest.mark.parametrize(("platform", "soft"), [("distributed", 1), ("zos", 0)])
def test_G8_what_was_got_under_syncpoint_counts_as_backed_out_after_a_kill(
    tmp_path: Path, platform: str, soft: int
) -> None:
    """HARDENBO says something on z/OS only; elsewhere the count is always exact."""
    folder, noted = tmp_path / "QM1", tmp_path / "QM1" / HELD_GETS_FILE
    made(folder, platform)
    assert not noted.exists()
    killed(folder)
    old = noted.read_bytes()
    expected = {
        "HARD": {b"2": 2, b"3": 1, b"5": 0},
        "SOFT": {b"2": 1 + soft, b"3": soft, b"5": 0},
    }
    assert backouts(folder) == expected
    # Counted once, also when a power cut brings the old file back; nothing is held any more.
    assert not noted.exists()
    noted.write_bytes(old)
    noted.chmod(0o600)
    assert backouts(folder) == expected
    assert not noted.exists()


@pytest.mark.parametrize("ends", ["commit", "backout", "close"])
def test_G8_what_ends_in_order_is_counted_by_its_end_alone(
    tmp_path: Path, ends: str, new_session: NewSession
) -> None:
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        unit = new_session(manager, transacted=True)
        for number in range(3):
            unit.put("Q1", b"%d" % number, persistent=True)
        unit.commit()
        for _ in range(3):
            unit.get("Q1")
        assert (folder / HELD_GETS_FILE).exists()
        if ends != "close":
            getattr(unit, ends)()
    assert not (folder / HELD_GETS_FILE).exists()
    with QueueManager("QM1", folder) as manager, new_session(manager) as session:
        counts = [message.backout_count for message in session.browse("Q1")]
    assert counts == ([] if ends == "commit" else [1, 1, 1])


def test_G8_a_unit_of_work_of_any_size_is_noted(tmp_path: Path, new_session: NewSession) -> None:
    """The file grows with it, and what it has given up is used again."""
    folder, count = tmp_path / "QM1", 4_097
    with QueueManager("QM1", folder) as manager, new_session(manager, transacted=True) as unit:
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999)")
        for _ in range(count):
            unit.put("Q1", b"x", persistent=True)
        unit.commit()
        held = manager.engine.store.held_gets
        for _ in range(2):
            for _ in range(count):
                unit.get("Q1")
            assert len(held.leftovers()) == count
            unit.backout()
            assert held.leftovers() == []
        assert (folder / HELD_GETS_FILE).stat().st_size == 2 * 65_536


def test_G8_without_a_folder_nothing_is_noted(new_session: NewSession) -> None:
    with QueueManager("QM1") as manager, new_session(manager, transacted=True) as unit:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        unit.put("Q1", b"x", persistent=True)
        unit.commit()
        assert unit.get("Q1") is not None
        assert manager.engine.store.held_gets.leftovers() == []
