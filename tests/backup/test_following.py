"""A backup that follows: equal page by page, however often anybody is killed; the loss is shown."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mayfly.backup.restoring import plan_of, write_database
from mayfly.store.database import DATABASE_FILE, Database
from mayfly.store.followers import followers_of
from tests.facts import wait_until
from tests.store.kills import lines_in, run_and_kill, started


@contextmanager
def following(folder: Path, place: Path) -> "Iterator[subprocess.Popen[str]]":
    """A process that copies a folder on and on, for a block, from when a backup is whole."""
    [process] = started(("tests.backup.follow", folder, place))
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "whole\n", process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate()


def written_back(folder: Path) -> bytes:
    """Open and close a folder, and return its database, which has all that was committed."""
    Database(folder).close()
    return (folder / DATABASE_FILE).read_bytes()


def copied(folder: Path, place: Path, file: Path) -> bytes:
    """Copy once more what was committed, and return the database that the backup holds."""
    with following(folder, place) as process:
        process.terminate()
        assert process.wait(60) == 0, process.communicate()
    write_database(str(place), plan_of(str(place), None), file)
    return file.read_bytes()


def follow_and_kill(tmp_path: Path, round_count: int, unit_count: int, seed: int) -> None:
    """Commit random units under a follower, and kill either process again and again."""
    folder, place, journals = tmp_path / "QM1", tmp_path / "place", tmp_path / "journals"
    journals.mkdir()
    Database(folder).close()
    chance = random.Random(seed)
    for number in range(round_count):
        lines = lines_in(journals) + unit_count // round_count
        with following(folder, place) as process:
            if chance.random() < 0.3:
                process.kill()
            run_and_kill("tests.backup.units", folder, journals, f"{seed}-{number}", 0.0, lines)
        if chance.random() < 0.3:
            written_back(folder)
    assert copied(folder, place, tmp_path / "copy.db") == written_back(folder)


def test_a_follower_has_each_page_after_300_units_and_kills_of_both(tmp_path: Path) -> None:
    follow_and_kill(tmp_path, round_count=3, unit_count=300, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_a_follower_has_each_page_after_10_000_units(tmp_path: Path, seed: int) -> None:
    follow_and_kill(tmp_path, round_count=20, unit_count=1_000, seed=seed)


def test_a_loss_is_no_more_than_was_shown(tmp_path: Path) -> None:
    folder, place, journals = tmp_path / "QM1", tmp_path / "place", tmp_path / "journals"
    journals.mkdir()
    Database(folder).close()
    with following(folder, place) as process:
        run_and_kill("tests.backup.units", folder, journals, "1", 0.0, 100)
        # The machine is gone with both.
        process.kill()
    [shown] = followers_of(folder)
    assert not shown.is_running
    assert shown.safe_at_ms
