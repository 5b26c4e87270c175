"""Schema 9: lives say which cap shortened them, who ended them, and what met them when expired."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager, QueueSharingGroup
from mayfly.engine.face.bulk import ClaimLimit as Limit
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.store.migrations import SCHEMA_VERSION
from mayfly.testing import VirtualClock
from tests.spec.scene import lives
from tests.store.cuts import cut, cut_disk, files_of
from tests.store.scene import raw

FIXTURES = Path(__file__).parent / "fixtures"
PUT_MS, CLOSED_MS = 1_700_000_000_000, 1_700_000_001_000
FACTS = ("capped_by", "met_by", "ended_by", "ended_program")
OF_ALIAS = "CAPEXPRY(600) of QALIAS(A1)"
NOTHING = (None, None, None, None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a folder that schema 8 has written."""
    return Path(shutil.copytree(FIXTURES / "version_8", tmp_path / "OLD"))


def opened(folder: Path, clock: VirtualClock | None = None) -> QueueManager:
    return QueueManager("OLD", folder, clock=clock or VirtualClock(CLOSED_MS))


def table(folder: Path, name: str) -> list[tuple[object, ...]]:
    """Return the rows of a table without the columns that schema 8 did not have."""
    connection = raw(folder)
    known = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({name})")]
    kept = ", ".join(column for column in known if column not in (*FACTS, "released_by", "content"))
    found = list(connection.execute(f"SELECT {kept} FROM {name} ORDER BY 1"))
    connection.close()
    return found


def version_of(folder: Path) -> int:
    connection = raw(folder)
    version = int(connection.pragma("user_version"))
    connection.close()
    return version


def everything_in(folder: Path) -> list[object]:
    tables = ("message", "claimed", "ledger", "consumer", "claim", "object", "intent")
    return [version_of(folder), *(table(folder, name) for name in tables)]


def test_a_folder_of_version_8_keeps_all_that_it_holds(folder: Path) -> None:
    before = [table(folder, name) for name in ("message", "claimed", "ledger")]
    assert version_of(folder) == 8
    opened(folder).close()
    assert version_of(folder) == SCHEMA_VERSION
    after = [table(folder, name) for name in ("message", "claimed", "ledger")]
    assert after[:2] == before[:2]
    assert after[2][: len(before[2])] == before[2]


def test_a_folder_of_version_8_is_opened_and_goes_on(folder: Path) -> None:
    """What was put before says of no cap; lives that end now say who ended them."""
    clock = VirtualClock(CLOSED_MS)
    with opened(folder, clock) as qm:
        with qm.session("bob", program="till") as session:
            old = lives(qm, "Q1") + lives(qm, STAGING_QUEUE)
            assert len(old) == 4
            assert {tuple(getattr(life, name) for name in FACTS) for life in old} == {NOTHING}
            assert qm.claims.release("reader") == 3
            clock.advance(65_000)
            bodies = []
            while (message := session.get("Q1")) is not None:
                bodies.append(message.body)
            assert bodies == [b"soon", b"given"]
            session.put("A1", b"new")
            clock.advance(60_000)
            assert session.get("Q1") is None
        ended = [(x.outcome, *(getattr(x, name) for name in FACTS)) for x in lives(qm, "Q1")]
        assert ended.count(("got", None, None, "bob", "till")) == 2
        assert ended.count(("expired", None, "get", "bob", "till")) == 7
        assert ended[-1] == ("expired", OF_ALIAS, "get", "bob", "till")
        assert qm.verify().ok


def test_a_member_carries_out_what_its_group_has_written_down_under_schema_8(
    tmp_path: Path,
) -> None:
    folder = Path(shutil.copytree(FIXTURES / "version_8_group", tmp_path / "GROUP"))
    clock = VirtualClock(CLOSED_MS)
    group = QueueSharingGroup("QSG1", folder / "QSG1", clock)
    with QueueManager("QM1", folder / "QM1", sharing_group=group) as qm, qm.session() as session:
        assert [m.body for m in session.browse("SHARED.Q")] == [b"decided"]
        assert [len(m.body) for m in session.browse("PRIVATE.Q")] == [30_000]
        assert [m.target for m in session.schedule.list()] == ["PRIVATE.Q"]
        [life] = lives(qm, "PRIVATE.Q")
        assert (life.outcome, *(getattr(life, name) for name in FACTS)) == ("got", *NOTHING)
        assert qm.verify().ok
        assert group.verify().ok
    group.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_power_cut_in_the_migration_leaves_the_old_or_the_new_folder(
    folder: Path, tmp_path: Path, seed: int
) -> None:
    before = files_of(folder)
    with cut_disk(folder) as disk:
        opened(folder).close()
    expected = everything_in(folder)
    random = Random(seed)
    for number in range(4):
        moment = random.randrange(len(disk.changes) + 1)
        left = tmp_path / f"LEFT{number}"
        left.mkdir(0o700)
        for name, content in cut(before, disk.changes[:moment], random).items():
            (left / name).write_bytes(content)
        opened(left).close()
        assert everything_in(left) == expected


def test_words_of_a_later_version_are_told_as_they_are(folder: Path) -> None:
    clock = VirtualClock(CLOSED_MS)
    with opened(folder, clock) as qm, qm.session("bob") as session:
        msg_id = session.put("Q1", b"x", time_to_live_ms=1_000)
        assert qm.why(msg_id).stays[0].met_by == ""
        clock.advance(1_000)
        assert session.get("Q1", msg_id=msg_id) is None
    connection = raw(folder)
    later = "UPDATE ledger SET met_by = 'sunrise', capped_by = 'the moon' WHERE msg_id = ?"
    connection.execute(later, (msg_id,))
    connection.close()
    with opened(folder, VirtualClock(CLOSED_MS + 1_000)) as qm:
        found = qm.why(msg_id)
        assert "because the moon shortened its life; " in found.sentence
        assert found.steps[-1].text.endswith(", met by sunrise")


# What is written now survives


#: By MsgId as its sender gave it: the cap, and how its lives end in the scene below.
CAPPED = {b"got": OF_ALIAS, b"met": OF_ALIAS, b"late": OF_ALIAS, b"free": None, b"soon": OF_ALIAS}


def facts_of(qm: QueueManager) -> dict[tuple[bytes, str], tuple[object, ...]]:
    """Return the facts of each ended life, by MsgId that its sender gave, and queue."""
    rows = [dict(zip(LEDGER_COLUMNS, row, strict=True)) for row in qm.ledger.page(0, 1_000)]
    found = {}
    for row in rows:
        if row["kind"] == KIND_LIFE:
            msg_id = row["correl_id" if row["queue"] == STAGING_QUEUE else "msg_id"]
            facts = tuple(row[name] for name in ("outcome", *FACTS))
            found[msg_id.rstrip(b"\0"), row["queue"]] = facts
    return found


def scene(qm: QueueManager, clock: VirtualClock) -> None:
    """Put through the alias, get, expire, claim, release early: five units of work and more."""
    with qm.session("app", program="till") as session:
        for msg_id, capped_by in CAPPED.items():
            session.put(
                "A1" if capped_by else "Q1",
                b"x",
                msg_id=msg_id,
                persistent=True,
                delay_ms=1_000_000 if msg_id == b"free" else 5_000 if msg_id == b"soon" else 0,
                time_to_live_ms=None if msg_id != b"met" else 600_000,
            )
        session.schedule.release(b"free")
        clock.advance(0)
        session.get("Q1", msg_id=b"got")
        epoch = qm.claims.attach("reader", "Q1").epoch
        claimed = qm.claims.claim("reader", epoch, 0, Limit(1, 2**20))
        assert claimed.message_count == 1
        qm.claims.release("reader")
        clock.advance(5_000)
        clock.advance(55_000)
        assert session.get("Q1", msg_id=b"met") is None
        session.get("Q1", msg_id=b"free")


def test_after_a_power_cut_at_any_write_lives_have_the_facts_that_they_had(tmp_path: Path) -> None:
    """An ended life is as it was; a message that is still there keeps its cap for its end."""
    folder, clock = tmp_path / "WHOLE", VirtualClock(PUT_MS)
    with opened(folder, clock) as qm:
        qm.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QALIAS(A1) TARGET(Q1) CAPEXPRY(600)")
    before_all = files_of(folder)
    with cut_disk(folder) as disk, opened(folder, clock) as qm:
        scene(qm, clock)
        whole = facts_of(qm)
    assert whole == {
        (b"free", STAGING_QUEUE): ("released", None, None, "app", None),
        (b"soon", STAGING_QUEUE): ("released", OF_ALIAS, None, None, None),
        (b"got", "Q1"): ("got", OF_ALIAS, None, "app", "till"),
        (b"met", "Q1"): ("expired", OF_ALIAS, "get", "app", "till"),
        (b"free", "Q1"): ("got", None, None, "app", "till"),
    }
    random, seen, cut_count = Random(1), set(), 24
    for number in range(cut_count + 1):
        moment = len(disk.changes) * number // cut_count
        left, later = tmp_path / f"LEFT{number}", VirtualClock(PUT_MS + 61_000)
        left.mkdir(0o700)
        for name, content in cut(before_all, disk.changes[:moment], random).items():
            (left / name).write_bytes(content)
        with opened(left, later) as qm, qm.session("heir") as heir:
            before = facts_of(qm)
            assert before.items() <= whole.items() | {
                # It was still to be released when the cut came.
                ((b"soon", STAGING_QUEUE), ("expired", OF_ALIAS, "release", None, None))
            }
            seen.add(frozenset(before))
            if qm.claims.standings():
                qm.claims.release("reader")
            while heir.get("Q1") is not None:
                pass
            after = {place: facts for place, facts in facts_of(qm).items() if place not in before}
            for (msg_id, _queue), (_outcome, capped_by, *_rest) in after.items():
                assert capped_by == CAPPED[msg_id]
            assert qm.verify().ok
    # From the first write, before which nothing has ended, to the last.
    assert frozenset(whole) in seen
    assert len(seen) >= 3
