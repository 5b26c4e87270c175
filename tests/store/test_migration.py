"""A folder that schema version 1 has written is opened; its delayed messages go on as before."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from mayfly import QueueManager
from mayfly.engine.face.bulk import ClaimLimit as Limit
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS
from mayfly.mqi import constants as c
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.structures import DDH
from mayfly.store.database import DATABASE_FILE
from mayfly.store.migrations import SCHEMA_VERSION
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt

FIXTURE = Path(__file__).parent / "fixtures" / "version_1"
#: When its messages were put, and when it was closed.
PUT_MS, CLOSED_MS = 1_700_000_000_000, 1_700_000_001_000
FIRST, SECOND, THIRD, MINE = (
    name.ljust(24, b"\0") for name in (b"first", b"second", b"third", b"mine")
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the folder."""
    return Path(shutil.copytree(FIXTURE, tmp_path / "OLD"))


@pytest.fixture
def clock() -> VirtualClock:
    """The clock as it stood when the folder was closed."""
    return VirtualClock(CLOSED_MS)


@pytest.fixture
def old(folder: Path, clock: VirtualClock) -> Iterator[QueueManager]:
    """The queue manager of the folder, opened by this version."""
    with QueueManager("OLD", folder, clock=clock) as manager:
        yield manager
        found = manager.verify()
        assert found.ok, found.problems


def version_of(folder: Path) -> int:
    """Return the schema version on the disk."""
    connection = apsw.Connection(str(folder / DATABASE_FILE), flags=apsw.SQLITE_OPEN_READONLY)
    version = int(connection.pragma("user_version"))
    connection.close()
    return version


def names(folder: Path) -> set[str]:
    """Return the names of tables and indexes on the disk."""
    connection = apsw.Connection(str(folder / DATABASE_FILE), flags=apsw.SQLITE_OPEN_READONLY)
    found = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    return found


def columns(folder: Path) -> dict[str, list[str]]:
    """Return the columns of each table on the disk."""
    connection = apsw.Connection(str(folder / DATABASE_FILE), flags=apsw.SQLITE_OPEN_READONLY)
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    found = {
        str(table): [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]
        for (table,) in tables
    }
    connection.close()
    return found


def test_store_is_brought_to_the_present_schema_once(
    folder: Path, clock: VirtualClock, tmp_path: Path
) -> None:
    assert version_of(folder) == 1
    with QueueManager("OLD", folder, clock=clock) as manager:
        instance_id = manager.ledger.instance_id
        assert manager.verify().ok
    assert version_of(folder) == SCHEMA_VERSION
    QueueManager("NEW", tmp_path / "NEW", clock=clock).close()
    assert names(folder) == names(tmp_path / "NEW")
    with QueueManager("OLD", folder, clock=clock) as manager:
        assert manager.ledger.instance_id == instance_id
        assert manager.counts("Q1").staged == 3
        assert manager.verify().ok


def test_staged_messages_are_shown_as_they_were(old: QueueManager) -> None:
    with old.session() as session:
        staged = list(session.browse(STAGING_QUEUE))
    assert [m.correl_id for m in staged] == [FIRST, THIRD, SECOND]
    header = DDH.unpack(staged[0].body)
    assert header["TargetQName"] == "Q1"
    assert header["DueTime"] == PUT_MS + 60_000
    assert (header["OriginalMsgId"], header["OriginalCorrelId"]) == (FIRST, MINE)
    assert header["Format"] == "MQSTR"
    assert [m.body[208:] for m in staged] == [b"delayed", b"expires", b"through the alias"]
    assert {m.descriptor.format for m in staged} == {"MQHDDLY"}
    assert not {m.msg_id for m in staged} & {FIRST, SECOND, THIRD}


def test_staged_bodies_are_those_of_version_1_to_the_byte(
    folder: Path, clock: VirtualClock
) -> None:
    connection = apsw.Connection(str(folder / DATABASE_FILE))
    sql = "SELECT body FROM message WHERE k < 0 ORDER BY k"
    bodies = [body for (body,) in connection.execute(sql)]
    connection.close()
    assert len(bodies) == 3
    with QueueManager("OLD", folder, clock=clock) as manager, manager.session() as session:
        assert [m.body for m in session.browse(STAGING_QUEUE)] == bodies


def test_schedule_tells_what_waits(old: QueueManager) -> None:
    with old.session() as session:
        found = session.schedule.list()
    assert [
        (m.msg_id, m.target, m.deliver_at_ms - PUT_MS, m.expire_at_ms, m.priority, m.persistent)
        for m in found
    ] == [
        (FIRST, "Q1", 60_000, None, 7, True),
        (THIRD, "Q1", 90_000, PUT_MS + 90_000, 0, True),
        (SECOND, "A1", 120_000, PUT_MS + 200_000, 0, True),
    ]
    assert {m.user_identifier for m in found} == {"alice"}
    assert found[0].correl_id == MINE


def test_everything_is_delivered_expired_and_reported_as_if_nothing_had_happened(
    old: QueueManager, clock: VirtualClock
) -> None:
    with old.session() as session:
        gone = session.get("Q1")
        assert gone is not None
        assert (gone.body, gone.put_ms) == (b"gone", PUT_MS)
        clock.advance(58_999)
        assert old.curdepth("Q1") == 0
        clock.advance(1)
        first = session.get("Q1")
        assert first is not None
        assert (first.msg_id, first.correl_id, first.body) == (FIRST, MINE, b"delayed")
        assert (first.descriptor.format, first.priority, first.persistent) == ("MQSTR", 7, True)
        assert (first.put_ms, first.deliver_at_ms) == (PUT_MS, PUT_MS + 60_000)
        clock.advance(29_999)
        assert old.curdepth("REPLIES") == 0
        clock.advance(1)
        report = session.get("REPLIES")
        assert report is not None
        assert report.descriptor.feedback == c.MQFB_EXPIRATION
        assert (report.correl_id, report.body) == (THIRD, b"")
        clock.advance(30_000)
        second = session.get("Q1")
        assert second is not None
        assert (second.msg_id, second.body) == (SECOND, b"through the alias")
        assert second.remaining_tenths == 800
        assert session.get("Q1") is None
        assert old.counts("Q1").staged == old.curdepth(STAGING_QUEUE) == 0
        assert [session.schedule.cancel(i) for i in (FIRST, SECOND, THIRD)] == [
            Receipt.ALREADY_RELEASED,
            Receipt.ALREADY_RELEASED,
            Receipt.EXPIRED,
        ]
    rows = [dict(zip(LEDGER_COLUMNS, row, strict=True)) for row in old.ledger.page(0, 1_000)]
    staged = [row for row in rows if row["kind"] == KIND_LIFE and row["queue"] == STAGING_QUEUE]
    assert [(r["correl_id"], r["outcome"], r["ended_ms"] - PUT_MS) for r in staged] == [
        (FIRST, "released", 60_000),
        (THIRD, "expired", 90_000),
        (SECOND, "released", 120_000),
    ]
    on_target = {r["msg_id"]: r["origin_id"] for r in rows if r["queue"] == "Q1" and r["msg_id"]}
    assert on_target[FIRST] == staged[0]["msg_id"]


@pytest.mark.parametrize("late_ms", [58_999, 59_000, 10**7])
def test_what_fell_due_while_it_was_closed_is_there_when_it_is_open(
    folder: Path, late_ms: int
) -> None:
    with QueueManager("OLD", folder, clock=VirtualClock(CLOSED_MS + late_ms)) as manager:
        assert manager.curdepth("Q1") == {58_999: 1, 59_000: 2}.get(late_ms, 2)
        assert manager.curdepth("REPLIES") == int(late_ms == 10**7)
        assert manager.verify().ok


def test_cancel_and_reschedule_work_on_it_and_last(folder: Path, clock: VirtualClock) -> None:
    with QueueManager("OLD", folder, clock=clock) as manager, manager.session() as session:
        assert session.get(STAGING_QUEUE, correl_id=FIRST) is not None
        assert session.schedule.cancel(THIRD) is Receipt.CANCELLED
        assert session.schedule.reschedule(SECOND, delay_ms=5_000) is Receipt.RESCHEDULED
        assert manager.verify().ok
    clock.advance(4_999)
    with QueueManager("OLD", folder, clock=clock) as manager, manager.session() as session:
        assert session.schedule.count("Q1") == 1
        assert [session.schedule.cancel(i) for i in (FIRST, THIRD)] == [Receipt.CANCELLED] * 2
        assert [m.body for m in session.browse("Q1")] == [b"gone"]
        clock.advance(1)
        assert [m.body for m in session.browse("Q1")] == [b"gone", b"through the alias"]
        assert [e.action for e in session.schedule.audit()] == ["reschedule", "cancel"]
        assert manager.verify().ok


def test_definitions_have_the_new_attributes_at_their_defaults(
    old: QueueManager, clock: VirtualClock
) -> None:
    result = old.mqsc("DISPLAY QLOCAL(Q1) CLUSTER DEFBIND TTLFROM\nDISPLAY QALIAS(A1) CLUSTER")
    assert result.ok, result.text
    assert [result.rows[0][k] for k in ("CLUSTER", "DEFBIND", "TTLFROM")] == ["", "OPEN", "SEND"]
    assert old.mqsc("ALTER QLOCAL(Q1) TTLFROM(RELEASE)").ok
    with old.session() as session:
        # What was put before keeps the rule of its put.
        session.schedule.reschedule(SECOND, delay_ms=150_000)
        found = session.schedule.show(SECOND)
        assert found is not None
        assert found.expire_at_ms == PUT_MS + 200_000
        session.put("Q1", b"new", delay_ms=60_000, time_to_live_ms=5)
    clock.advance(60_000)
    assert old.curdepth("Q1") == 3


def test_a_folder_of_version_2_is_opened_with_its_claims_and_goes_on(tmp_path: Path) -> None:
    """Its claims of ordinary queues are as they were, and a pipeline may claim what is due."""
    folder = Path(shutil.copytree(FIXTURE.with_name("version_2"), tmp_path / "OLD"))
    assert version_of(folder) == 2
    clock = VirtualClock(CLOSED_MS)
    with QueueManager("OLD", folder, clock=clock) as manager, manager.session() as session:
        assert version_of(folder) == SCHEMA_VERSION
        [reader] = manager.claims.standings()
        assert (reader.consumer, reader.last, reader.message_count) == ("reader", 1, 1)
        assert manager.claims.release("reader") == 1
        assert [m.body for m in session.browse("Q2")] == [b"claimed", b"free"]
        assert manager.mqsc("ALTER QMGR DDELAY(SPARK)").ok
        clock.advance(60_000)
        assert manager.curdepth("Q1") == 0
        epoch = manager.claims.attach("releaser", STAGING_QUEUE).epoch
        until, count = manager.claims.claim("releaser", epoch, 0, Limit(10, 2**20))
        assert (count, manager.claims.end("releaser", epoch, until)) == (2, 2)
        assert [m.body for m in session.browse("Q1")] == [b"staged", b"staged 2"]
        assert manager.verify().ok


def test_a_folder_of_version_3_is_opened_and_what_is_claimed_from_now_on_keeps_its_topic(
    tmp_path: Path,
) -> None:
    """It holds publications: claimed, free, retained and delayed for the subscription ONE."""
    folder = Path(shutil.copytree(FIXTURE.with_name("version_3"), tmp_path / "OLD"))
    assert version_of(folder) == 3
    clock = VirtualClock(CLOSED_MS)
    with QueueManager("OLD", folder, clock=clock) as manager, manager.session() as session:
        assert version_of(folder) == SCHEMA_VERSION
        # What an older version has claimed, it did not know the topic of.
        assert manager.claims.release("reader") == 1
        first = manager.claims.attach("later", "Q1").epoch
        assert manager.claims.claim("later", first, 0, Limit(10, 2**20)).message_count == 3
        assert manager.claims.release("later") == 3
        assert [(m.body, m.topic) for m in session.browse("Q1")] == [
            (b"claimed", None),
            (b"free", "news/b"),
            (b"retained", "news/kept"),
        ]
        kept = session.subscribe("news/kept").get()
        assert kept is not None
        assert kept.body == b"retained"
        clock.advance(58_999)
        assert manager.curdepth("Q1") == 3
        clock.advance(1)
        assert [m.topic for m in session.browse("Q1")][3:] == ["news/later"]
        assert manager.verify().ok


def test_a_folder_of_version_4_is_opened_and_may_have_channels(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FIXTURE.with_name("version_4"), tmp_path / "OLD"))
    assert version_of(folder) == 4
    with QueueManager("OLD", folder, clock=VirtualClock(CLOSED_MS)) as manager:
        assert version_of(folder) == SCHEMA_VERSION
        assert manager.claims.release("reader") == 1
        with manager.session() as session:
            assert [m.body for m in session.browse("Q1")] == [b"claimed", b"free"]
        assert manager.engine.shipments.states() == []
        script = "DEFINE CHANNEL(C) CHLTYPE(SDR) CONNAME(QM2) XMITQ(QM2)\nSTART CHANNEL(C)"
        assert manager.mqsc(script).ok
        assert manager.verify().ok
    with QueueManager("OLD", folder, clock=VirtualClock(CLOSED_MS)) as manager:
        [standing] = manager.channels.status("C")
        assert standing.status == "RETRYING"


def test_a_folder_of_version_5_keeps_its_totals(tmp_path: Path) -> None:
    """Three of five are left on Q1; the non-persistent message of Q2 was lost at its end."""
    folder = Path(shutil.copytree(FIXTURE.with_name("version_5"), tmp_path / "OLD"))
    assert version_of(folder) == 5
    for left in (3, 2):
        with QueueManager("OLD", folder, clock=VirtualClock(CLOSED_MS)) as manager:
            assert version_of(folder) == SCHEMA_VERSION
            totals = manager.engine.store.book.totals[manager.engine.registry.queue("Q1").number]
            assert (totals.puts, totals.present, sum(totals.ended.values())) == (5, left, 5 - left)
            assert manager.curdepth("Q2") == 0
            with manager.session() as session:
                assert session.get("Q1") is not None
            assert manager.verify().ok


def test_a_folder_of_version_6_is_opened_and_no_older_version_opens_it_any_more(
    tmp_path: Path,
) -> None:
    """Its pages have no checksums, and none until it is compacted (test_restoring.py)."""
    folder = Path(shutil.copytree(FIXTURE.with_name("version_6"), tmp_path / "OLD"))
    assert version_of(folder) == 6
    clock = VirtualClock(CLOSED_MS)
    with QueueManager("OLD", folder, clock=clock) as manager, manager.session() as session:
        assert version_of(folder) == SCHEMA_VERSION
        assert [m.body for m in session.browse("Q1")] == [b"body 2", b"body 3", b"body 4"]
        clock.advance(59_000)
        assert [m.body for m in session.browse("Q1")][3:] == [b"delayed"]
        clock.advance(40_000)
        assert [m.body for m in session.browse("Q1")] == [b"body 2", b"body 3", b"delayed"]
        assert manager.verify().ok


@pytest.mark.parametrize("version", [f"version_{number}" for number in range(1, SCHEMA_VERSION)])
def test_every_older_folder_ends_with_the_tables_of_a_new_one(tmp_path: Path, version: str) -> None:
    folder = Path(shutil.copytree(FIXTURE.with_name(version), tmp_path / "OLD"))
    QueueManager("OLD", folder, clock=VirtualClock(CLOSED_MS)).close()
    QueueManager("NEW", tmp_path / "NEW", clock=VirtualClock(CLOSED_MS)).close()
    assert columns(folder) == columns(tmp_path / "NEW")
