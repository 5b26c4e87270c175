"""What is too large for one row, one transaction or one step comes whole, or is begun again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.runtime import Runtime
from mayfly.store.database import DATABASE_FILE
from mayfly.store.replica.log import LogRow, PostgresLog, ReplicaError
from mayfly.store.replica.merging import LogMerger
from mayfly.store.write_ahead_log import PAGE_BYTES
from tests.facts import wait_until
from tests.postgres import connect
from tests.replica.test_replica import bodies, followed, opened, put, rows_of

PART_PAGES = 64
#: Two parts, and what goes with the row.
LARGE_PAGES = PART_PAGES * 2 + PART_PAGES // 2
MESSAGE_BYTES = 2**16
#: An owner that commits a large transaction when it is told to.
OWNER = """
import sys
from pathlib import Path
from mayfly.store.replica import owner
from tests.replica.test_long_log import PART_PAGES, put_large
from tests.replica.test_replica import opened
owner.PART_PAGES = PART_PAGES
with opened(sys.argv[1], Path(sys.argv[2])) as qm:
    print("ready", flush=True)
    sys.stdin.readline()
    put_large(qm)
"""
WAITS_FOR_LOCK = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def put_large(qm: QueueManager) -> None:
    """Put messages of ``LARGE_PAGES`` pages in one unit of work."""
    with qm.session(transacted=True) as session:
        for _ in range(LARGE_PAGES * PAGE_BYTES // MESSAGE_BYTES):
            session.put("Q1", os.urandom(MESSAGE_BYTES), persistent=True)
        session.commit()


def parts_of(url: str) -> list[int]:
    """Return the numbers of all parts."""
    with connect(url) as connection:
        rows = connection.execute("SELECT part FROM mayfly.replica_part ORDER BY 1").fetchall()
    return [part for (part,) in rows]


def test_a_large_transaction_is_in_the_log_whole_or_not_at_all(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.store.replica.owner.PART_PAGES", PART_PAGES)
    folder = tmp_path / "QM1"
    with opened(url, folder) as qm:
        put(qm, b"first")
        instance = qm.engine.store.database.instance_id
    before = followed(url, tmp_path / "early")
    command = [sys.executable, "-c", OWNER, url, str(folder)]
    owner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert owner.stdin is not None
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"ready\n"
    opened_at = followed(url, tmp_path / "early")
    number, epoch = rows_of(url)[-1]
    with connect(url) as connection, connect(url) as other:
        # The second part waits for this one.
        connection.execute("BEGIN")
        part = "INSERT INTO mayfly.replica_part VALUES (%s, %s, 2, %s, '')"
        connection.execute(part, (instance, number + 1, epoch))
        owner.stdin.write(b"\n")
        owner.stdin.flush()
        wait_until(lambda: other.execute(WAITS_FOR_LOCK).fetchall())
        os.kill(owner.pid, signal.SIGKILL)
        owner.communicate()
        # The database has not noticed that it is gone.
        for (waiting,) in other.execute(WAITS_FOR_LOCK).fetchall():
            other.execute("SELECT pg_terminate_backend(%s, 10000)", (waiting,))
        connection.execute("ROLLBACK")
    assert parts_of(url) == [1]
    assert followed(url, tmp_path / "early") == opened_at != before
    with opened(url, folder) as qm:
        assert bodies(qm) == [b"first"]
        assert parts_of(url) == []
        put_large(qm)
        assert parts_of(url) == [1, 2]
        assert qm.verify().ok
    whole = (folder / DATABASE_FILE).read_bytes()
    assert followed(url, tmp_path / "early") == whole
    with closing(PostgresLog(url, "QM1", Runtime())) as log:
        # Some parts of the row are moved before others.
        while parts_of(url) == [1, 2]:
            assert log.merge(1_000, most_pages=10)
        assert parts_of(url) == [2]
        assert followed(url, tmp_path / "between") == whole
        while log.merge(1_000):
            pass
    assert parts_of(url) == []
    assert followed(url, tmp_path / "late") == whole


def test_a_first_copy_that_was_interrupted_is_no_log_and_goes_on(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.store.replica.log._COPIED_PAGES", 4)
    pages = {number: bytes([number]) * PAGE_BYTES for number in range(1, 11)}

    def interrupted() -> Iterator[tuple[int, bytes]]:
        yield from list(pages.items())[:9]
        raise InterruptedError

    def versions() -> dict[int, str]:
        with connect(url) as connection:
            sql = "SELECT page, xmin::text FROM mayfly.replica_page"
            return dict(connection.execute(sql).fetchall())

    with closing(PostgresLog(url, "QM1", Runtime())) as log:
        with pytest.raises(InterruptedError):
            log.register("I1", "one", interrupted(), 10)
        first = versions()
        assert sorted(first) == [*range(1, 9)]
        assert log.registered() is None
        with pytest.raises(ReplicaError, match="is not in this database"), log.snapshot():
            pass
        # The database was changed, and is shorter.
        changed = {number: pages[number] for number in range(1, 7)} | {2: bytes(PAGE_BYTES)}
        assert log.register("I1", "two", changed.items(), 6) == LogRow(1, 1)
        again = versions()
        assert [number for number in again if again[number] == first[number]] == [1, 3, 4, 5, 6]
        with log.snapshot() as snapshot:
            assert dict(snapshot.pages_since(0, ())) == changed


def test_an_owner_merges_its_log_by_rows_and_by_bytes(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogMerger, "LEFT_ROWS", 5)
    monkeypatch.setattr(LogMerger, "LEAST_MERGED_ROWS", 5)
    folder = tmp_path / "QM1"
    with opened(url, folder) as qm, closing(PostgresLog(url, "QM1", Runtime())) as log:
        for number in range(20):
            put(qm, b"%d" % number)
        wait_until(lambda: log.length(100).rows < 10)
        assert log.length(100).rows >= 5
        monkeypatch.setattr(LogMerger, "MOST_BYTES", 100_000)
        put(qm, os.urandom(100_000))
        wait_until(lambda: log.length(100).rows == 1)
        put(qm, b"last")
    assert followed(url, tmp_path / "other") == (folder / DATABASE_FILE).read_bytes()
