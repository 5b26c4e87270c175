"""The replica: one owner at a time, what is not in the log is never served, refusals name why."""

import itertools
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lz4.block
import pytest

from mayfly import QueueManager
from mayfly.mqi.errors import ConnectionBroken, LostAnswer, StoreDamaged, StoreError
from mayfly.runtime import Runtime
from mayfly.store.database import DATABASE_FILE, REPLICA_FILE
from mayfly.store.replica.follower import Follower
from mayfly.store.replica.log import (
    Fenced,
    LogEntry,
    LogRow,
    Owned,
    PostgresLog,
    ReplicaError,
    StandbyNote,
)
from mayfly.store.replica.pages import packed, unpacked
from mayfly.store.write_ahead_log import PAGE_BYTES
from mayfly.testing import VirtualClock
from tests.facts import wait_until
from tests.postgres import Postgres, connect

#: Nothing is committed but by the test.
NOW_MS = 1_700_000_000_000


#: No thread of an owner with it does anything while a test runs.
LONG_LEASE_MS = 3_600_000


def opened(url: str, folder: Path, lease_ms: int = LONG_LEASE_MS) -> QueueManager:
    qm = QueueManager("QM1", folder, VirtualClock(NOW_MS), replica=url, replica_lease_ms=lease_ms)
    qm.define_queue("Q1", replace=True)
    return qm


def put(qm: QueueManager, body: bytes) -> None:
    with qm.session() as session:
        session.put("Q1", body, persistent=True)


def bodies(qm: QueueManager) -> list[bytes]:
    with qm.session() as session:
        return [message.body for message in session.browse("Q1")]


def take(url: str, qm: QueueManager) -> None:
    """Let another owner take a queue manager, which has not renewed its lease."""
    log = PostgresLog(url, "QM1", Runtime())
    end_lease(url)
    log.take(qm.engine.store.database.instance_id, "another", 0)
    log.close()


def end_lease(url: str) -> None:
    with connect(url) as connection:
        connection.execute("UPDATE mayfly.replica SET lease_end = 'epoch'")


def followed(url: str, folder: Path) -> bytes:
    follower = Follower(url, "QM1", folder, Runtime())
    follower.catch_up()
    follower.close()
    return (folder / DATABASE_FILE).read_bytes()


def rows_of(url: str) -> list[tuple[int, int]]:
    """Return (number, epoch) of all rows of the log."""
    with connect(url) as connection:
        rows: list[tuple[int, int]] = connection.execute(
            "SELECT number, epoch FROM mayfly.replica_log ORDER BY number"
        ).fetchall()
    return rows


def test_an_old_owner_cannot_acknowledge_and_its_folder_gives_up_what_the_log_lacks(
    url: str, tmp_path: Path
) -> None:
    old = opened(url, tmp_path / "old")
    put(old, b"first")
    followed(url, tmp_path / "new")
    end_lease(url)
    with opened(url, tmp_path / "new") as new:
        assert bodies(new) == [b"first"]
        with pytest.raises(LostAnswer, match=r"is owned by .* since epoch 3; epoch 2 is over"):
            put(old, b"never acknowledged")
        with pytest.raises(ConnectionBroken, match="queue manager QM1 has stopped"):
            put(old, b"nor later")
        old.close()
        put(new, b"second")
    # The old owner's SQLite had committed the message.
    with opened(url, tmp_path / "old") as again:
        assert bodies(again) == [b"first", b"second"]
        assert again.verify().ok
    assert followed(url, tmp_path / "third") == (tmp_path / "old" / DATABASE_FILE).read_bytes()


def test_a_commit_is_in_the_log_when_its_answer_was_lost_and_is_appended_once(
    server: Postgres, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(url, tmp_path / "QM1") as qm, server.connect() as operator:
        before, done, numbers = rows_of(url)[-1][0], threading.Event(), itertools.count()

        def put_on() -> None:
            while not done.is_set():
                put(qm, b"%d" % next(numbers))

        thread = threading.Thread(target=put_on)
        # Each commit waits for a standby that never comes, after it was made.
        operator.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        operator.execute("SELECT pg_reload_conf()")
        try:
            thread.start()
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            ended += "WHERE wait_event = 'SyncRep'"
            wait_until(lambda: operator.execute(ended).fetchall() == [(True,)])
        finally:
            done.set()
            operator.execute("ALTER SYSTEM RESET synchronous_standby_names")
            operator.execute("SELECT pg_reload_conf()")
            thread.join()
        count = next(numbers)
        assert bodies(qm) == [b"%d" % number for number in range(count)]
        assert rows_of(url)[-1][0] == before + count
    assert any("commits wait" in record.getMessage() for record in caplog.records)


def test_a_folder_ahead_of_the_log_is_brought_back_even_from_pages_that_were_written_back(
    url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "QM1"
    qm = opened(url, folder)
    for number in range(20):
        put(qm, bytes([number]) * 2_000)
    take(url, qm)
    with pytest.raises(LostAnswer):
        put(qm, b"ahead" * 3_000)
    # The checkpoint beside writers has come this far.
    store = qm.engine.store
    assert store._log is not None
    connection = store.database.connect()
    connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
    assert store._log.write_back_beside_writers(connection) == store._log.pages
    connection.close()
    qm.close()
    assert b"aheadahead" in (folder / DATABASE_FILE).read_bytes()
    with opened(url, folder) as again:
        assert [body[:1] for body in bodies(again)] == [bytes([n]) for n in range(20)]
        assert again.verify().ok
    assert followed(url, tmp_path / "other") == (folder / DATABASE_FILE).read_bytes()


def test_a_kill_while_pages_are_written_is_mended_by_the_next_try(url: str, tmp_path: Path) -> None:
    folder, other = tmp_path / "QM1", tmp_path / "other"
    with opened(url, folder) as qm:
        put(qm, b"first")
        followed(url, other)
        for number in range(50):
            put(qm, bytes([number]) * 3_000)
    # One that was killed before its first page.
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / DATABASE_FILE).touch()
    half = (folder / DATABASE_FILE).read_bytes()
    with (other / DATABASE_FILE).open("r+b") as file:
        file.write(half[: 5 * PAGE_BYTES])
    assert followed(url, other) == half
    assert followed(url, tmp_path / "empty") == half


def test_a_power_cut_that_takes_the_folder_s_note_of_its_row_loses_nothing(
    url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "QM1"
    with opened(url, folder) as qm:
        put(qm, b"first")
        note = (folder / REPLICA_FILE).read_bytes()
        for _ in range(30):
            put(qm, bytes(3_000))
    for earlier in (note, b""):
        (folder / REPLICA_FILE).write_bytes(earlier)
        with opened(url, folder) as qm:
            assert len(bodies(qm)) == 31
            assert qm.verify().ok
        assert followed(url, tmp_path / "other") == (folder / DATABASE_FILE).read_bytes()
    (folder / REPLICA_FILE).write_bytes(note[:-1] + b"?")
    with pytest.raises(StoreDamaged, match="replica is damaged: remove it"):
        opened(url, folder)


def test_readers_beside_the_engine_see_nothing_that_the_log_lacks(url: str, tmp_path: Path) -> None:
    qm = opened(url, tmp_path / "QM1")
    put(qm, b"first")
    with qm.session() as session:
        assert session.get("Q1") is not None
    qm.engine.store.flush()
    assert qm.engine.store.ledger.page(0, 10)
    take(url, qm)
    with pytest.raises(LostAnswer):
        put(qm, b"second")
    with pytest.raises(Exception, match="2009"):
        qm.engine.store.ledger.page(0, 10)
    qm.close()


def test_a_merge_leaves_one_image_of_each_page_and_the_last_row(url: str, tmp_path: Path) -> None:
    with opened(url, tmp_path / "QM1") as qm:
        for _ in range(10):
            put(qm, b"body")
        followed(url, tmp_path / "early")
        log = PostgresLog(url, "QM1", Runtime())
        count = len(rows_of(url))
        assert log.merge(5) == 5
        # The first row, and that of the first epoch, have no pages, and stay.
        assert log.merge(1_000, leaves_rows=3) == count - 2 - 8
        assert log.merge(1_000) == 2
        assert log.merge(1_000) == 0
        assert [number for number, _ in rows_of(url)] == [1, 2, count]
        log.close()
        put(qm, b"more")
    whole = (tmp_path / "QM1" / DATABASE_FILE).read_bytes()
    assert followed(url, tmp_path / "late") == whole
    assert followed(url, tmp_path / "early") == whole


def test_a_folder_with_a_replica_is_not_opened_without(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "QM1"
    opened(url, folder).close()
    with pytest.raises(StoreError, match="has a replica: open it with that; to part from it"):
        QueueManager("QM1", folder)
    (folder / REPLICA_FILE).unlink()
    QueueManager("QM1", folder).close()


def test_a_queue_manager_that_had_no_replica_gets_one(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder) as qm:
        qm.define_queue("Q1")
        put(qm, b"before")
    with opened(url, folder) as qm:
        put(qm, b"behind")
    assert followed(url, tmp_path / "other") == (folder / DATABASE_FILE).read_bytes()
    with opened(url, tmp_path / "other") as qm:
        assert bodies(qm) == [b"before", b"behind"]


def test_the_folder_of_another_queue_manager_of_that_name_is_refused(
    url: str, tmp_path: Path
) -> None:
    opened(url, tmp_path / "QM1").close()
    QueueManager("QM1", tmp_path / "other").close()
    with pytest.raises(ReplicaError, match=r"has instance .*, and the log instance"):
        opened(url, tmp_path / "other")


def test_a_database_that_has_lost_commits_is_refused(url: str, tmp_path: Path) -> None:
    with opened(url, tmp_path / "QM1") as qm:
        put(qm, b"first")
    with connect(url) as connection:
        connection.execute(
            "DELETE FROM mayfly.replica_log "
            "WHERE number = (SELECT max(number) FROM mayfly.replica_log)"
        )
    with pytest.raises(ReplicaError, match="which the folder has: its database has lost commits"):
        opened(url, tmp_path / "QM1")
    with connect(url) as connection:
        connection.execute("DELETE FROM mayfly.replica")
    with pytest.raises(ReplicaError, match="is not in this database"):
        opened(url, tmp_path / "QM1")


def test_tables_of_another_version_are_refused_and_stay_as_they_are(
    url: str, tmp_path: Path
) -> None:
    opened(url, tmp_path / "QM1").close()
    before = rows_of(url)
    for comment in ("'Mayfly replica 1'", "NULL"):
        with connect(url) as connection:
            connection.execute(f"COMMENT ON TABLE mayfly.replica IS {comment}")
        with pytest.raises(ReplicaError, match="the tables in the schema mayfly are of another"):
            opened(url, tmp_path / "QM1")
    assert rows_of(url) == before


def test_a_database_that_acknowledges_before_it_syncs_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ReplicaError, match="synchronous_commit is off"):
        opened(f"{url}&options=-c%20synchronous_commit%3Doff", tmp_path / "QM1")
    assert not (tmp_path / "QM1" / DATABASE_FILE).exists()


def test_a_database_that_is_not_there_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(ReplicaError, match="the log of QM1: "):
        opened(f"postgresql://x@/postgres?host={tmp_path}", tmp_path / "QM1")
    assert not (tmp_path / "QM1" / DATABASE_FILE).exists()


HOLD_UP = """
    CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_lock(1), pg_advisory_unlock(1); RETURN NEW; END';
    CREATE TRIGGER hold_up BEFORE INSERT ON mayfly.replica_log
    FOR EACH ROW WHEN (NEW.epoch = 1) EXECUTE FUNCTION hold_up()"""
IS_HELD_UP = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def entry(number: int, epoch: int) -> LogEntry:
    return LogEntry(LogRow(number, epoch), 1, packed({1: bytes(PAGE_BYTES)}))


def test_an_append_has_the_next_number_and_the_epoch_of_its_owner(url: str, tmp_path: Path) -> None:
    log = PostgresLog(url, "QM1", Runtime())
    page = bytes(PAGE_BYTES)
    assert log.register("I1", "one", [(1, page)], 1) == LogRow(1, 1)
    with pytest.raises(ReplicaError, match="has no instance I2"):
        log.take("I2", "two", 1_000)
    log.append("I1", entry(2, 1))
    # What is there already is taken for the answer that was lost.
    log.append("I1", entry(2, 1))
    with pytest.raises(ReplicaError, match="ends at 2, and 3 was acknowledged"):
        log.append("I1", entry(4, 1))
    assert log.take("I1", "two", 60_000) == LogRow(3, 2)
    with pytest.raises(Fenced, match="QM1 is owned by two since epoch 2; epoch 1 is over"):
        log.append("I1", entry(3, 1))
    with pytest.raises(Fenced, match="epoch 1 is over"):
        log.append("I1", entry(4, 1))
    log.append("I1", entry(4, 2))
    with pytest.raises(Owned, match=r"is owned by two, whose lease runs for another .* seconds"):
        log.take("I1", "three", 60_000)
    assert log.take("I1", "two again", 60_000, own_epoch=2) == LogRow(5, 3)
    with pytest.raises(Fenced, match="epoch 2 is over"):
        log.renew("I1", 2, 60_000, {})
    log.want(3, is_wanted=True)
    assert log.renew("I1", 3, 60_000, {"mq": "a:1"})
    standing = log.standing()
    assert standing is not None
    assert (standing.owner, standing.addresses) == ("two again", {"mq": "a:1"})
    log.follow("I1", StandbyNote("four", 2, standing.now_ms - 60_000, {"mq": "b:1"}))
    [found] = log.standbys("I1")
    assert (found.name, found.number, found.addresses) == ("four", 2, {"mq": "b:1"})
    assert found.age_ms < 60_000 <= found.lag_ms
    log.stop_following("I1", "four")
    assert log.standbys("I1") == []
    log.release("I1", 3)
    assert log.take("I1", "three", 60_000) == LogRow(6, 4)
    assert rows_of(url) == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 4)]
    log.close()


def test_an_append_that_began_before_the_next_owner_took_over_is_refused(
    url: str, tmp_path: Path
) -> None:
    log = PostgresLog(url, "QM1", Runtime())
    log.register("I1", "one", [(1, bytes(PAGE_BYTES))], 1)
    log.append("I1", entry(2, 1))
    old = PostgresLog(url, "QM1", Runtime())
    with connect(url) as connection, ThreadPoolExecutor() as threads:
        # The database holds the append up when it has looked for the row before it.
        connection.execute(HOLD_UP)
        connection.execute("SELECT pg_advisory_lock(1)")
        held = threads.submit(old.append, "I1", entry(3, 1))
        wait_until(lambda: connection.execute(IS_HELD_UP).fetchone() == (1,))
        assert log.take("I1", "two", 60_000) == LogRow(3, 2)
        for number in range(4, 9):
            log.append("I1", entry(number, 2))
        # All rows that a merge may take are gone, among them the one before the append.
        assert log.merge(1_000) == 5
        connection.execute("SELECT pg_advisory_unlock(1)")
        with pytest.raises(Fenced, match="QM1 is owned by two since epoch 2; epoch 1 is over"):
            held.result()
    assert rows_of(url) == [(1, 1), (3, 2), (8, 2)]
    log.close()
    old.close()


def test_a_page_with_a_wrong_checksum_is_named() -> None:
    pages = {7: b"\1" * PAGE_BYTES, 9: bytes(PAGE_BYTES)}
    assert dict(unpacked(packed(pages), "row 1")) == pages
    body = bytearray(lz4.block.decompress(packed(pages)))
    body[100] ^= 1
    with pytest.raises(StoreDamaged, match="row 1 is damaged: the checksum of page 7 is wrong"):
        list(unpacked(lz4.block.compress(bytes(body)), "row 1"))
    with pytest.raises(StoreDamaged, match="row 1 is damaged"):
        list(unpacked(packed(pages)[:-3], "row 1"))
    with pytest.raises(StoreDamaged, match="row 1 is damaged: its length is wrong"):
        list(unpacked(b"\xff" * 40, "row 1"))
    with pytest.raises(StoreDamaged, match="row 1 is damaged"):
        list(unpacked(b"\0", "row 1"))


def test_the_page_opens_a_queue_manager_and_finds_its_message_elsewhere(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "REPLICA.md").read_text("utf-8")
    program = "".join(re.findall(r"```python\n(.+?)```", page, re.DOTALL))
    monkeypatch.chdir(tmp_path)
    exec(program.replace("postgresql://mayfly@db.example/queues", url), {})
    assert capsys.readouterr().out == "one order\n"
