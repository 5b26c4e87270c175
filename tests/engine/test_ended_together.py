"""Records of lives that end together are read off their messages: the same as made one by one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from mayfly import QueueManager, QueueSharingGroup
from mayfly.engine import Session
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.store.prepare_records import pack_unit, unpack_unit
from mayfly.store.units import EndedMessages, Unit
from mayfly.testing import VirtualClock
from tests.examples import first_of
from tests.snapshots import on_a_snapshot
from tests.spec.scene import REPLIES, local, refused
from tests.store.cuts import cut, cut_disk, files_of
from tests.store.scene import failing_disk

#: So many alike ones beside each other are recorded together.
MIN = 8
Ends = Callable[[Session, int], None]


def by_one_unit(session: Session, count: int) -> None:
    for _ in range(count):
        assert session.get("Q1") is not None
    session.commit()


def by_get_many(session: Session, count: int) -> None:
    assert len(session.get_many("Q1", count)) == count
    session.commit()


def by_small_units(session: Session, count: int) -> None:
    """Each too small for records that are made together."""
    for n in range(count):
        assert session.get("Q1") is not None
        if n % (MIN - 1) == MIN - 2:
            session.commit()
    session.commit()


def put_mixed(session: Session, seed: int, count: int) -> None:
    """Put messages that differ in all that a record has; others come between their keys."""
    chance = random.Random(seed)
    for n in range(count):
        if n == 0 or chance.random() < 0.05:
            kind = chance.randrange(4)
        session.put(
            "CAPPED" if kind == 3 else "Q1",
            bytes(chance.randrange(300)),
            msg_id=b"%d" % n,
            correl_id=chance.choice((b"", b"c%d" % n)),
            priority=9 if kind == 1 else 4,
            persistent=kind != 2,
            time_to_live_ms=chance.choice((None, 700_000)),
            delay_ms=chance.choice((0, 0, 1)),
            report=c.MQRO_COD if kind == 1 else 0,
            reply_to_q=REPLIES if kind == 1 else "",
        )
        if chance.random() < 0.1:
            session.put("OTHER", b"between")


def ledger_after(folder: Path | None, fill: Callable[[Session], None], ends: Ends) -> list[object]:
    """Return the records of the lives on Q1 after all messages were got, without positions."""
    clock = VirtualClock()
    with QueueManager("QM1", folder, clock) as qm:
        for name in ("Q1", "OTHER", REPLIES):
            local(qm, name)
        qm.mqsc("DEFINE QALIAS(CAPPED) TARGET(Q1) CAPEXPRY(6000)")
        with qm.session("ann") as putter:
            fill(putter)
            clock.advance(5)
        with qm.session("bob", program="till", transacted=True) as unit:
            ends(unit, qm.curdepth("Q1"))
        rows = [dict(zip(LEDGER_COLUMNS, row, strict=True)) for row in qm.ledger.page(0, 9_999)]
        assert [row["position"] for row in rows] == [*range(1, len(rows) + 1)]
        found = [row for row in rows if row["kind"] == KIND_LIFE and row["queue"] == "Q1"]
        assert qm.verify().ok
    return [{name: value for name, value in row.items() if name != "position"} for row in found]


@pytest.mark.parametrize("ends", [by_one_unit, by_get_many])
@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("seed", first_of(2, *range(6)))
def test_records_are_the_same_and_in_the_same_order(
    tmp_path: Path, ends: Ends, on_disk: bool, seed: int
) -> None:
    def fill(session: Session) -> None:
        put_mixed(session, seed, 120)

    folder = tmp_path if on_disk else None
    expected = ledger_after(None, fill, by_small_units)
    assert len(expected) == 120
    assert len({tuple(row.items()) for row in expected if isinstance(row, dict)}) == 120
    assert ledger_after(folder, fill, ends) == expected


@contextmanager
def statements(qm: QueueManager) -> Iterator[list[str]]:
    """Yield how the store writes lives: of values, or as read off the messages."""
    found: list[str] = []

    def note(_cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
        if "INSERT INTO ledger" in sql:
            found.append("messages" if "message m" in sql else "values")
        return True

    writer = qm.engine.store.database.writer
    writer.exec_trace = note
    yield found
    writer.exec_trace = None


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("count", [MIN - 1, MIN, 100])
def test_as_many_as_pay_are_recorded_by_one_statement(
    tmp_path: Path, count: int, gap: bool
) -> None:
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        local(qm)
        local(qm, "OTHER")
        with qm.session() as putter, qm.session(transacted=True) as unit:
            for _ in range(count):
                putter.put("Q1", b"x", persistent=True)
                if gap:
                    putter.put("OTHER", b"x", persistent=True)
            with statements(qm) as told:
                for _ in range(count):
                    unit.get("Q1")
                unit.commit()
            assert told == ["values" if count < MIN else "messages"]
            assert qm.counts("Q1").locked == 0
        assert qm.verify().ok


def test_a_commit_that_fails_leaves_messages_and_records_as_they_were(tmp_path: Path) -> None:
    with failing_disk() as disk, QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        disk.error = apsw.FullError
        local(qm)
        with qm.session() as putter, qm.session(transacted=True) as unit:
            ids = [putter.put("Q1", b"x", persistent=True) for _ in range(2 * MIN)]
            last = qm.ledger.last_position()
            for _ in range(2 * MIN):
                unit.get("Q1")
            disk.failing = "write"
            with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
                unit.commit()
            disk.failing = ""
            assert (qm.curdepth("Q1"), qm.ledger.last_position()) == (2 * MIN, last)
            by_one_unit(unit, 2 * MIN)
            lived = [row[LEDGER_COLUMNS.index("msg_id")] for row in qm.ledger.page(last, 99)]
            assert lived[: 2 * MIN] == ids
        assert qm.verify().ok


def test_a_power_cut_leaves_all_messages_or_all_records(tmp_path: Path) -> None:
    folder, clock = tmp_path / "WHOLE", VirtualClock()
    with QueueManager("QM1", folder, clock) as qm, qm.session() as putter:
        local(qm)
        for _ in range(3 * MIN):
            putter.put("Q1", b"x", persistent=True)
    before = files_of(folder)
    with (
        cut_disk(folder) as disk,
        QueueManager("QM1", folder, clock) as qm,
        qm.session(transacted=True) as unit,
    ):
        by_one_unit(unit, 3 * MIN)
    random_, seen = random.Random(1), set()
    for moment in range(len(disk.changes) + 1):
        left = tmp_path / f"LEFT{moment}"
        left.mkdir(0o700)
        for name, content in cut(before, disk.changes[:moment], random_).items():
            (left / name).write_bytes(content)
        with QueueManager("QM1", left, clock, runtime=on_a_snapshot()) as qm:
            lived = [row for row in qm.ledger.page(0, 99) if row[1] == KIND_LIFE]
            seen.add((qm.curdepth("Q1"), len(lived)))
            assert qm.verify().ok
    assert seen == {(3 * MIN, 0), (0, 3 * MIN)}


def test_an_intent_keeps_records_that_are_made_together() -> None:
    together = EndedMessages([5, 7], "Q1", 9, "got", 4, 0, "", "ann", None, "bob", None)
    unit = Unit()
    unit.end_all(1, [], [(5,), (7,)], [together])
    assert unit.delta(1).present == -2
    assert unit.delta(1).ended == {"got": 2}
    again = unpack_unit(pack_unit(unit))
    assert again.lives == [together]
    assert again.deletes == [(5,), (7,)]


def test_lives_of_a_shared_queue_end_together_in_the_store_of_the_group(tmp_path: Path) -> None:
    """A unit of work that gets from both queues changes both stores."""
    clock = VirtualClock()
    group = QueueSharingGroup("QSG1", tmp_path / "QSG1", clock)
    with QueueManager("QM1", tmp_path / "QM1", clock, sharing_group=group) as qm:
        qm.mqsc("DEFINE QLOCAL(S1) QSGDISP(SHARED)")
        local(qm)
        with qm.session() as putter, qm.session("bob", transacted=True) as unit:
            for _ in range(MIN):
                for name in ("S1", "Q1"):
                    putter.put(name, b"x", persistent=True)
            for name in ("S1", "Q1"):
                for _ in range(MIN):
                    assert unit.get(name) is not None
            unit.commit()
        for ledger, name in ((group.engine.store.ledger, "S1"), (qm.ledger, "Q1")):
            rows = [dict(zip(LEDGER_COLUMNS, row, strict=True)) for row in ledger.page(0, 99)]
            got = [row for row in rows if row["outcome"] == "got" and row["queue"] == name]
            assert [row["ended_by"] for row in got] == ["bob"] * MIN
        assert qm.verify().ok
        assert group.verify().ok
    group.close()
