"""Whole transcripts: each golden file holds a script, a line of dashes, and what it must print."""

from pathlib import Path

import pytest

import mayfly

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.txt"))
DASHES = "----\n"


def test_there_are_golden_files() -> None:
    assert len(GOLDEN) >= 6


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_transcript_is_exactly_as_written(qm: mayfly.QueueManager, path: Path) -> None:
    script, expected = path.read_text("utf-8").split(DASHES)
    assert qm.mqsc(script).text == expected


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_line_ends_of_other_systems_change_nothing(qm: mayfly.QueueManager, path: Path) -> None:
    script, expected = path.read_text("utf-8").split(DASHES)
    assert qm.mqsc(script.replace("\n", "\r\n")).text == expected
