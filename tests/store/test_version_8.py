"""Schema 8: outcomes are stored by code, and each column of a message holds one thing."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import apsw
import pytest

from mayfly import QueueManager, QueueSharingGroup
from mayfly.engine.face.bulk import ClaimLimit as Limit
from mayfly.lifetime.life import KIND_BALANCE, LifeRecord, State
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.errors import StoreError
from mayfly.store.ballast import BALLAST_BYTES, BALLAST_FILE
from mayfly.store.book import INSERT_LIFE
from mayfly.store.database import DATABASE_FILE
from mayfly.store.migrations import SCHEMA_VERSION
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt
from tests.store.cuts import cut, cut_disk, files_of
from tests.store.kills import ROOT
from tests.store.scene import raw

FIXTURES = Path(__file__).parent / "fixtures"
PUT_MS, CLOSED_MS = 1_700_000_000_000, 1_700_000_001_000
GIVEN = b"given".ljust(24, b"\0")
GONE = b"gone".ljust(24, b"\0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a folder that schema 7 has written."""
    return Path(shutil.copytree(FIXTURES / "version_7", tmp_path / "OLD"))


def opened(folder: Path, at_ms: int = CLOSED_MS) -> QueueManager:
    return QueueManager("OLD", folder, clock=VirtualClock(at_ms))


def version_of(folder: Path) -> int:
    connection = raw(folder)
    version = int(connection.pragma("user_version"))
    connection.close()
    return version


def rows_of(folder: Path, sql: str) -> list[tuple[object, ...]]:
    connection = raw(folder)
    found = connection.execute(sql).fetchall()
    connection.close()
    return list(found)


def everything_in(folder: Path) -> list[object]:
    tables = ("message", "claimed", "ledger", "object", "consumer", "claim", "intent")
    counters = "SELECT queue, puts, present, ended FROM counter ORDER BY queue_id"
    found = [rows_of(folder, f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]
    return [version_of(folder), rows_of(folder, counters), *found]


def test_each_column_of_a_message_of_schema_7_holds_one_thing(folder: Path) -> None:
    opened(folder).close()
    assert version_of(folder) == SCHEMA_VERSION
    staged = rows_of(
        folder,
        "SELECT body, target, target_number, hex(sub_id), topic, ttl_from_release, origin_id, "
        "shown_id IS NOT NULL FROM message WHERE k < 0 ORDER BY k",
    )
    one, capped = (f"414D51204F4C442020202020202020206FB360000000000{n}" for n in (1, 2))
    assert staged == [
        (b"damaged header", None, None, "", None, None, None, 1),
        (b"delayed", "Q1", 3, "", None, None, None, 1),
        (b"given id", "A1", 3, "", None, None, None, 1),
        (b"lives from release", "Q3", 5, "", None, 1, None, 1),
        (b"later", "Q1", 3, one, "news/later", None, None, 1),
        (b"later", "Q2", 4, capped, "news/later", 0, None, 1),
    ]
    others = rows_of(
        folder,
        "SELECT body, topic, only_here, target, target_number, shown_id FROM message "
        "WHERE k >= 0 AND topic IS NOT NULL ORDER BY k",
    )
    assert others == [
        (b"free", "news/b", None, None, None, None),
        (b"retained", "news/kept", None, None, None, None),
        (b"retained here", "news/here", None, None, None, None),
        (b"retained", "news/kept", None, None, None, None),
        (b"retained here", "news/here", 1, None, None, None),
    ]
    assert rows_of(folder, "SELECT body, topic FROM claimed") == [(b"claimed", "news/a")]


def test_a_folder_of_version_7_is_opened_and_goes_on(folder: Path) -> None:
    """Publications reach their subscribers, ids are found, what is claimed has its topic."""
    clock = VirtualClock(CLOSED_MS)
    with QueueManager("OLD", folder, clock=clock) as qm, qm.session() as session:
        shown = {m.body[208:]: m for m in session.browse(STAGING_QUEUE)}
        assert session.schedule.show(GIVEN) is not None
        assert shown[b"given id"].correl_id == GIVEN
        [found] = session.browse(STAGING_QUEUE, msg_id=shown[b"given id"].msg_id)
        assert found.body[208:] == b"given id"
        assert shown[b"later"].topic is None
        assert qm.claims.release("reader") == 1
        assert [m.topic for m in session.browse("Q1")][:2] == ["news/a", "news/b"]
        assert session.schedule.cancel(GONE) is Receipt.CANCELLED
        clock.advance(63_001)
        bodies = [m.body for m in session.browse("Q1")]
        assert (bodies[0], bodies[-2:]) == (b"delayed", [b"given id", b"later"])
        assert [m.topic for m in session.browse("Q1")][-1] == "news/later"
        assert [m.body for m in session.browse("Q3")] == [b"lives from release"]
        # Its queue leaves it no life at its delivery time.
        assert (qm.curdepth("Q2"), qm.curdepth(STAGING_QUEUE)) == (0, 1)
        assert qm.verify().ok


def test_balances_of_schema_7_and_of_now_say_the_same(folder: Path) -> None:
    with opened(folder) as qm, qm.session() as session:
        before = {balance.queue: balance for balance in qm.engine.store.book.balances()}
        assert before["Q1"].ended == {"got": 4, "expired": 1}
        assert before[STAGING_QUEUE].ended == {"cancelled": 1, "lost_at_restart": 1}
        assert all(balance.is_balanced() for balance in before.values())
        assert session.get("Q1") is not None
    with opened(folder) as qm:
        page = qm.ledger.page(0, 1_000)
        stored = [row[-1] for row in page if row[1:3] == (KIND_BALANCE, "Q1")]
        assert stored[-2:] == ["[4, 1, 0, 0, 0, 0, 0, 0, 0]", '{"got": 5, "expired": 1}']


def test_a_member_carries_out_what_its_group_has_written_down_under_schema_7(
    tmp_path: Path,
) -> None:
    folder = Path(shutil.copytree(FIXTURES / "version_7_group", tmp_path / "GROUP"))
    clock = VirtualClock(CLOSED_MS)
    group = QueueSharingGroup("QSG1", folder / "QSG1", clock)
    with QueueManager("QM1", folder / "QM1", sharing_group=group) as qm, qm.session() as session:
        assert [m.body for m in session.browse("SHARED.Q")] == [b"decided"]
        assert [len(m.body) for m in session.browse("PRIVATE.Q")] == [30_000]
        assert [m.target for m in session.schedule.list()] == ["PRIVATE.Q"]
        books = {balance.queue: balance for balance in qm.engine.store.book.balances()}
        assert books["PRIVATE.Q"].ended == {"got": 1}
        clock.advance(60_000)
        assert [m.body for m in session.browse("PRIVATE.Q")][1:] == [b"delayed"]
        assert qm.verify().ok
        assert group.verify().ok
    group.close()


@pytest.mark.parametrize("has_totals", [True, False])
def test_an_outcome_of_a_later_version_is_kept_and_shown(folder: Path, has_totals: bool) -> None:
    """Its life is in the ledger, and counted in the totals or after them."""
    unheard_of = b"unheard_of".ljust(24, b"\0")
    opened(folder).close()
    connection = raw(folder)
    [(last,)] = connection.execute("SELECT max(position) FROM ledger").fetchall()
    life = LifeRecord(
        *("Q1", unheard_of, b"", None, PUT_MS, PUT_MS, None, CLOSED_MS, "unheard_of"),
        *(0, 4, 1, 5, 0, "", 0, "alice"),
    )
    connection.execute(INSERT_LIFE, (int(str(last)) + 1, *life))
    changes = "present = present + 1"
    if has_totals:
        changes = "position = position + 1000, ended = json_set(ended, '$.unheard_of', 1)"
    connection.execute(f"UPDATE counter SET puts = puts + 1, {changes} WHERE queue = 'Q1'")
    connection.close()
    for _ in range(2):
        with opened(folder) as qm, qm.session() as session:
            [balance] = [b for b in qm.engine.store.book.balances() if b.queue == "Q1"]
            assert balance.ended["unheard_of"] == 1
            assert balance.is_balanced()
            answer = qm.why(unheard_of)
            assert "ended at" in answer.sentence
            assert answer.sentence.endswith(": unheard-of.")
            assert answer.stays[0].state == "unheard_of"
            session.put("Q1", b"new", persistent=True)
            assert qm.verify().ok
    with opened(folder) as qm:
        rows = [row for row in qm.ledger.page(0, 1_000) if row[1:3] == (KIND_BALANCE, "Q1")]
        assert '"unheard_of": 1' in rows[-1][-1]


def test_every_code_is_stored_for_ever() -> None:
    """Codes may be added; whoever changes one makes the ledgers there are unreadable."""
    assert {
        "got",
        "expired",
        "dead_lettered",
        "discarded",
        "transmitted",
        "released",
        "cleared",
        "cancelled",
        "lost_at_restart",
    } <= {state.value for state in State}


# A migration that is cut off, or has no room


@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_in_the_migration_leaves_the_old_or_the_new_folder(
    folder: Path, tmp_path: Path, seed: int
) -> None:
    before = files_of(folder)
    with cut_disk(folder) as disk:
        opened(folder).close()
    expected = everything_in(folder)
    random = Random(seed)
    for number in range(6):
        moment = random.randrange(len(disk.changes) + 1)
        left = tmp_path / f"LEFT{number}"
        left.mkdir(0o700)
        for name, content in cut(before, disk.changes[:moment], random).items():
            (left / name).write_bytes(content)
        opened(left).close()
        assert everything_in(left) == expected


KILLED_AT = """
import os, signal, sys
from pathlib import Path
import apsw
from mayfly import QueueManager
from mayfly.testing import VirtualClock

folder, at_ms, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
count = 0
def trace(connection):
    def executed(event):
        global count
        count += "ALTER" in event["sql"] or event["sql"].lstrip().startswith("UPDATE")
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, executed)
apsw.connection_hooks.append(trace)
QueueManager("OLD", folder, clock=VirtualClock(at_ms))
"""


@pytest.mark.parametrize("statement", [1, 4, 8, 9, 10, 20])
def test_a_migration_that_is_killed_has_changed_nothing(folder: Path, statement: int) -> None:
    whole = Path(shutil.copytree(folder, folder.with_name("WHOLE")))
    opened(whole).close()
    command = [sys.executable, "-W", "ignore", "-c", KILLED_AT, str(folder), str(CLOSED_MS)]
    ran = subprocess.run([*command, str(statement)], cwd=ROOT, capture_output=True, check=False)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    assert version_of(folder) == 7
    opened(folder).close()
    assert everything_in(folder) == everything_in(whole)


def test_a_migration_asks_for_room_before_it_begins(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (folder / DATABASE_FILE).read_bytes()
    room = os.statvfs(folder)
    almost_full = os.statvfs_result((*room[:3], 1, 1, *room[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _folder: almost_full)
    said = (
        rf"{DATABASE_FILE} is of schema 7: to bring it to schema {SCHEMA_VERSION} takes up to "
        rf"\d+ bytes, and only {room.f_frsize} are free; nothing has changed"
    )
    with pytest.raises(StoreError, match=said):
        opened(folder)
    assert (folder / DATABASE_FILE).read_bytes() == whole
    monkeypatch.undo()
    opened(folder).close()
    assert version_of(folder) == SCHEMA_VERSION


def test_the_ballast_makes_room_for_a_migration_that_fits_into_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ballast = folder / BALLAST_FILE
    ballast.write_bytes(b"")
    os.truncate(ballast, BALLAST_BYTES)
    room = os.statvfs(folder)

    def statvfs(_folder: object) -> os.statvfs_result:
        free = 1 if ballast.stat().st_size else BALLAST_BYTES // room.f_frsize
        return os.statvfs_result((*room[:3], free, free, *room[5:]))

    monkeypatch.setattr(os, "statvfs", statvfs)
    opened(folder).close()
    assert version_of(folder) == SCHEMA_VERSION
    assert ballast.stat().st_size == 0


def test_what_is_claimed_from_a_migrated_folder_is_whole(folder: Path) -> None:
    """The columns of claimed messages are those of the queue, topic string included."""
    with opened(folder) as qm, qm.session() as session:
        epoch = qm.claims.attach("later", "Q1").epoch
        assert qm.claims.claim("later", epoch, 0, Limit(10, 2**20)).message_count == 3
        assert qm.claims.release("later") == 3
        topics = [m.topic for m in session.browse("Q1")]
        assert topics == ["news/b", "news/kept", "news/here"]
        assert qm.verify().ok


def test_a_database_of_a_later_schema_is_left_alone(folder: Path) -> None:
    opened(folder).close()
    connection = apsw.Connection(str(folder / DATABASE_FILE))
    connection.close()
    later = raw(folder)
    later.pragma("user_version", SCHEMA_VERSION + 1)
    later.close()
    with pytest.raises(StoreError, match=f"schema {SCHEMA_VERSION + 1}, known {SCHEMA_VERSION}"):
        opened(folder)
