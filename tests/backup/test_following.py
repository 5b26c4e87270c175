"""A backup that follows: equal page by page, however often anybody is killed; the loss is shown."""

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.runtime import SystemClock
from mayfly.store import store
from mayfly.store.backup.restoring import plan_of, restore, write_database
from mayfly.store.changes import log_end
from mayfly.store.database import DATABASE_FILE, Database
from mayfly.store.followers import MAX_KEPT_PAGES, NO_LOG, FollowerFile, followers_of
from mayfly.store.store import Checkpointer
from mayfly.store.write_ahead_log import FRAME_BYTES
from mayfly.testing import VirtualClock
from tests.facts import wait_until
from tests.store.kills import kill, lines_in, run_and_kill, started


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
    # A commit that a kill has left half done is there from the next opening on, or never.
    whole = written_back(folder)
    assert copied(folder, place, tmp_path / "copy.db") == whole


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
        [units] = started(("tests.backup.units", folder, journals, "1"))
        # Some of it is safe, whatever the machine; what came last need not be.
        wait_until(lambda: lines_in(journals) > 50)
        written_ms = SystemClock().now_ms()
        wait_until(lambda: any(each.safe_at_ms > written_ms for each in followers_of(folder)))
        kill(units, 0.0)
        # The machine is gone with both.
        process.kill()
    [shown] = followers_of(folder)
    assert not shown.is_running
    lines = [line.split() for line in (journals / "1").read_text().splitlines()]
    whole = [line for line in lines if len(line) == 2]
    kept = {msg_id for msg_id, at_ms in whole[:-1] if int(at_ms) < shown.safe_at_ms}
    assert len(kept) >= 50
    plan = plan_of(str(place), None)
    restored = tmp_path / "restored"
    restore(
        str(place),
        plan,
        restored,
        is_new_instance=True,
        passphrase=None,
        say=lambda _done, _all: None,
    )
    assert plan.until_ms >= shown.safe_at_ms
    with QueueManager("QM1", restored, VirtualClock(plan.until_ms)) as qm:
        assert qm.verify().ok
    database = Database(restored)
    rows = database.writer.execute("SELECT msg_id FROM message UNION SELECT msg_id FROM ledger")
    assert kept <= {bytes(msg_id).hex() for (msg_id,) in rows if msg_id is not None}
    database.close()


def test_a_server_waits_for_no_follower_that_has_stopped(tmp_path: Path) -> None:
    folder, place, journals = tmp_path / "QM1", tmp_path / "place", tmp_path / "journals"
    journals.mkdir()
    Database(folder).close()
    with following(folder, place) as process:
        process.send_signal(signal.SIGSTOP)
        run_and_kill("tests.backup.units", folder, journals, "1", 0.0, 400)
        log_bytes = (folder / f"{DATABASE_FILE}-wal").stat().st_size
        process.send_signal(signal.SIGCONT)
        process.terminate()
        assert process.wait(60) == 0, process.communicate()
    # It was kept, and not written over.
    assert log_bytes > 2 * 300 * FRAME_BYTES
    assert not [state for state in followers_of(folder) if state.is_running]


@pytest.mark.interpreted
def test_the_log_is_kept_for_a_reader_that_does_not_read_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_KEPT_PAGES == 64_000
    # The same with a smaller bound, which 6 MB reach.
    monkeypatch.setattr("mayfly.store.store.MAX_KEPT_PAGES", 1_500)
    monkeypatch.setattr(store, "_MORE_KEPT_PAGES", 200)
    monkeypatch.setattr(store, "_NEARLY_READ_SECONDS", 0.05)
    monkeypatch.setattr(Checkpointer, "PAGES_BEFORE_CHECKPOINT", 400)
    folder = tmp_path / "QM1"
    Database(folder).close()
    follower = FollowerFile(folder, "place")
    follower.begin()
    try:
        with QueueManager("QM1", folder) as qm, qm.session() as session:
            qm.define_queue("Q1")
            at = log_end(folder)
            assert at is not None
            follower.write(at, 0)
            end = at
            while end.frames < 1_300:
                session.put("Q1", os.urandom(100_000), persistent=True)
                found = log_end(folder)
                assert found is not None
                assert found.salts == at.salts, "the log was begun anew below the bound"
                end = found
            assert follower.ended() == NO_LOG

            def is_let_go() -> bool:
                """Put one more message; return whether the reader is told that it has lost it."""
                session.put("Q1", os.urandom(100_000), persistent=True)
                return follower.ended() not in (NO_LOG, at)

            wait_until(is_let_go)
    finally:
        follower.close()
