"""Whole transcripts: each golden file holds a script, a line of dashes, and what it must print.

``python -m tests.mqsc.test_golden`` writes what the scripts print now: read the difference.
"""

import re
from pathlib import Path

import pytest

import mayfly
from mayfly.testing import VirtualClock

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.txt"))
DASHES = "----\n"


def transcript(manager: mayfly.QueueManager, script: str) -> str:
    """Return what a script prints, with N for the number in QMID, which each store has anew."""
    return re.sub(r"QMID\(QM1_\w+\)", "QMID(QM1_N)", manager.mqsc(script).text)


def test_there_are_golden_files() -> None:
    assert len(GOLDEN) >= 6


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_transcript_is_exactly_as_written(qm: mayfly.QueueManager, path: Path) -> None:
    script, expected = path.read_text("utf-8").split(DASHES)
    assert transcript(qm, script) == expected


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_line_ends_of_other_systems_change_nothing(qm: mayfly.QueueManager, path: Path) -> None:
    script, expected = path.read_text("utf-8").split(DASHES)
    assert transcript(qm, script.replace("\n", "\r\n")) == expected


if __name__ == "__main__":
    for each in GOLDEN:
        script = each.read_text("utf-8").split(DASHES)[0]
        with mayfly.QueueManager("QM1", clock=VirtualClock()) as manager:
            each.write_text(script + DASHES + transcript(manager, script), "utf-8")
