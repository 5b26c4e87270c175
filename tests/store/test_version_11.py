"""Schema 11: copies of one publication share their content; those of before have each their own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.lifetime.life import State
from mayfly.store.migrations import SCHEMA_VERSION
from mayfly.store.units import StoredMessage
from mayfly.testing import VirtualClock
from tests.spec.pubsub_scene import drained
from tests.spec.scene import lives
from tests.store.scene import contents, raw

FIXTURE = Path(__file__).parent / "fixtures" / "version_10"
CLOSED_MS = 1_700_000_001_000
#: What each of four subscriptions has, from the first publication to the last.
OLD = [("old/a", b"first"), ("old/b", b"second"), ("old/a", b"kept")]
QUEUES = ("Q1", "Q2", "Q3", "Q4")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a folder that schema 10 has written."""
    return Path(shutil.copytree(FIXTURE, tmp_path / "OLD"))


def opened(folder: Path, now_ms: int = CLOSED_MS) -> QueueManager:
    return QueueManager("OLD", folder, clock=VirtualClock(now_ms))


def rows_of(folder: Path) -> tuple[int, list[tuple[object, ...]]]:
    """Return the version on the disk, and the messages that it holds."""
    connection = raw(folder)
    version = int(connection.pragma("user_version"))
    columns = ", ".join(StoredMessage._fields)
    rows = list(connection.execute(f"SELECT {columns} FROM message ORDER BY k"))
    connection.close()
    return version, rows


def test_a_folder_of_version_10_keeps_all_that_it_holds(folder: Path) -> None:
    version, before = rows_of(folder)
    assert (version, len(before)) == (10, 16)
    opened(folder).close()
    assert rows_of(folder) == (SCHEMA_VERSION, before)


def test_copies_of_version_10_and_new_ones_are_got_alike(folder: Path) -> None:
    """Two messages of Q4 are claimed; one publication is delayed."""
    with opened(folder) as qm, qm.session() as session:
        session.publish("old/c", b"new", persistent=True)
        assert contents(qm.engine.store) == [b"new"]
        assert qm.claims.release("reader") == 2
        assert drained(session, "Q1") == [*OLD, (None, b"put"), ("old/c", b"new")]
        for queue in QUEUES[1:]:
            assert drained(session, queue) == [*OLD, ("old/c", b"new")]
        assert contents(qm.engine.store) == []
        assert qm.verify().ok


def test_what_version_10_has_delayed_and_given_a_life_ends_as_it_said(folder: Path) -> None:
    with opened(folder, CLOSED_MS + 100_000) as qm, qm.session() as session:
        qm.run_due()
        assert drained(session, "Q2") == [OLD[0], OLD[2], ("old/c", b"delayed")]
        [expired] = [life for life in lives(qm, "Q2") if life.outcome == State.EXPIRED.value]
        assert expired.body_bytes == len(b"second")
        assert qm.verify().ok
