"""What is written outside of units of work goes to the log as well: openings, and a compaction."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from mayfly import QueueManager
from mayfly.runtime import Runtime
from mayfly.store import database
from mayfly.store.damage import is_available as has_checksums
from mayfly.store.database import DATABASE_FILE, SCHEMA_VERSION
from mayfly.store.replica.follower import Follower
from mayfly.store.replica.log import PostgresLog
from mayfly.store.replica.owner import opened_replica
from mayfly.store.restoring import compact_replicated
from mayfly.store.write_ahead_log import PAGE_BYTES
from tests.facts import wait_until
from tests.postgres import connect
from tests.replica.test_replica import LONG_LEASE_MS, bodies, followed, opened, put
from tests.replica.test_standby import command

BODY_BYTES = 2**17


def rows_of(folder: Path, sql: str) -> list[tuple[object, ...]]:
    """Read the database of a folder that nobody has open."""
    file = apsw.Connection(str(folder / DATABASE_FILE), flags=apsw.SQLITE_OPEN_READONLY)
    with closing(file):
        return list(file.execute(sql))


def test_what_an_opening_and_a_reservation_of_numbers_write_is_in_the_log(
    url: str, tmp_path: Path
) -> None:
    with opened(url, tmp_path / "QM1") as qm:
        store, sql = qm.engine.store, "SELECT name, value FROM meta ORDER BY name"
        for _ in range(2):
            followed(url, tmp_path / "other")
            meta = store.database.rows(store.database.writer, sql)
            assert rows_of(tmp_path / "other", sql) == meta
            assert {"instance_id", "manager", "sequence"} <= {name for name, _ in meta}
            store.sequence.extend()


def test_a_migration_is_in_the_log_when_its_opening_returns(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(url, tmp_path / "QM1").close()
    later = SCHEMA_VERSION + 1
    monkeypatch.setattr(database, "SCHEMA_VERSION", later)
    monkeypatch.setitem(
        database.MIGRATIONS, later, lambda writer: writer.execute("CREATE TABLE later(a)")
    )
    with QueueManager("QM1", tmp_path / "QM1", replica=url):
        followed(url, tmp_path / "other")
        assert rows_of(tmp_path / "other", "PRAGMA user_version") == [(later,)]
        assert rows_of(tmp_path / "other", "SELECT * FROM later") == []


def test_a_compacted_database_comes_whole_to_one_that_follows_meanwhile(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayfly.store.replica.owner.PART_PAGES", 50)
    folder, other = tmp_path / "QM1", tmp_path / "other"
    with opened(url, folder) as qm:
        for number in range(9):
            put(qm, bytes([number]) + os.urandom(BODY_BYTES))
        with qm.session() as session:
            for _ in range(4):
                assert session.get("Q1") is not None
    sizes = set[int]()
    with (
        ThreadPoolExecutor() as threads,
        closing(Follower(url, "QM1", other, Runtime())) as follower,
    ):
        replica = opened_replica(url, "QM1", Runtime(), LONG_LEASE_MS)
        compaction = threads.submit(compact_replicated, folder, "QM1", replica)

        def follow() -> bool:
            is_over = compaction.done()
            follower.catch_up()
            assert rows_of(other, "PRAGMA quick_check") == [("ok",)]
            sizes.add((other / DATABASE_FILE).stat().st_size)
            return is_over

        wait_until(follow)
    before, after, is_protected = compaction.result()
    assert before - after >= 4 * BODY_BYTES
    assert is_protected == has_checksums()
    whole = (folder / DATABASE_FILE).read_bytes()
    assert len(whole) == after
    assert (other / DATABASE_FILE).read_bytes() == whole
    assert sizes <= {before, after}
    with opened(url, folder) as qm:
        assert [body[0] for body in bodies(qm)] == [4, 5, 6, 7, 8]
        assert qm.verify().ok
    with closing(PostgresLog(url, "QM1", Runtime())) as log:
        while log.merge(1_000):
            pass
    with connect(url) as connection:
        last = connection.execute("SELECT max(page) FROM mayfly.replica_page").fetchone()
    # The image has no page that the database has no longer.
    assert last == (after // PAGE_BYTES,)
    whole = (folder / DATABASE_FILE).read_bytes()
    assert followed(url, tmp_path / "late") == whole


def test_a_database_with_a_replica_is_compacted_by_a_command_that_names_it(
    url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "QM1"
    opened(url, folder).close()
    words = ("compact", "QM1", "--path", folder)
    compacted = json.loads(command(*words, "--json", "--replica", url).stdout)
    assert compacted["bytes_after"] == (folder / DATABASE_FILE).stat().st_size
    # An owner is known as such once it renews its lease.
    with opened(url, tmp_path / "other", 16_000):
        refused = command(*words, "--replica", url)
        assert "is owned by" in refused.stderr
        assert "Traceback" not in refused.stderr
