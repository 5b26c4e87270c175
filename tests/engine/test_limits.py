"""Limits: MAXUMSGS, a full disk under a unit of work, many waits, large units of work."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine.get import Getter
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UncommittedPut
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import GetResult
from tests.spec.scene import (
    REPLIES,
    Running,
    alter_manager,
    bodies,
    body,
    local,
    refused,
    waiting,
)
from tests.store.scene import statement

FULL, ROOMY = 1, 1_000_000


def pages(qm: QueueManager, limit: int) -> None:
    qm.engine.store.commit([statement(f"PRAGMA max_page_count = {limit}")])


def test_MAXUMSGS_counts_puts_and_gets_and_leaves_nothing_behind(
    queue_manager: QueueManager,
) -> None:
    qm = queue_manager
    local(qm)
    alter_manager(qm, MAXUMSGS=3)
    with qm.session() as plain:
        plain.put("Q1", b"there")
    unit = qm.session(transacted=True)
    unit.put("Q1", b"1")
    unit.put("Q1", b"delayed", delay_ms=10)
    assert body(unit.get("Q1")) == b"there"
    for call in (
        lambda: unit.put("Q1", b"4"),
        lambda: unit.put("Q1", b"4", delay_ms=1),
        lambda: unit.get("Q1"),
        lambda: unit.get("Q1", wait_ms=-1),
    ):
        with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
            call()
    assert qm.counts("Q1") == (0, 0, 1, 1, 0)
    unit.commit()
    assert qm.counts("Q1") == (1, 1, 0, 0, 0)
    unit.put("Q1", b"next unit")
    unit.backout()
    unit.close()


@pytest.mark.parametrize("persistent", [False, True])
def test_a_full_disk_under_a_commit_takes_everything_back(tmp_path: Path, persistent: bool) -> None:
    """Puts, delayed puts, gets, cancelled delays, reports and messages put and got again."""
    clock = VirtualClock()
    with QueueManager("QM1", tmp_path, clock) as qm:
        local(qm)
        local(qm, REPLIES)
        plain, unit = qm.session(), qm.session(transacted=True)
        plain.put("Q1", b"cod", persistent=persistent, report=c.MQRO_COD, reply_to_q=REPLIES)
        plain.put("Q1", b"other", persistent=True)
        plain.put("Q1", b"later", delay_ms=100, persistent=persistent)
        before = [qm.counts(name) for name in ("Q1", REPLIES)]
        pages(qm, FULL)
        assert body(unit.get("Q1")) == b"cod"
        assert body(unit.get("Q1")) == b"other"
        assert unit.get("SYSTEM.DDELAY.LOCAL.QUEUE") is not None
        unit.put("Q1", b"y" * 200_000, persistent=True)
        unit.put("Q1", b"staged", delay_ms=50, persistent=persistent)
        unit.put("Q1", b"coa", persistent=persistent, report=c.MQRO_COA, reply_to_q=REPLIES)
        assert body(unit.get("Q1")) == b"y" * 200_000
        unit.put("Q1", b"z" * 200_000, persistent=True)
        with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
            unit.commit()
        assert [qm.counts(name) for name in ("Q1", REPLIES)] == before
        assert qm.engine.registry.queue("SYSTEM.DDELAY.LOCAL.QUEUE").uncommitted_staged == 0
        found = qm.verify()
        assert found.ok, found.problems
        pages(qm, ROOMY)
        clock.advance(100)
        assert bodies(plain, "Q1") == [b"cod", b"other", b"later"]
        assert [m.body for m in plain.browse(REPLIES)] == [b""]
        unit.close()


def test_a_message_wakes_one_of_many_waits_and_asks_no_more(
    queue_manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    qm = queue_manager
    number = qm.engine.registry.queue(local(qm)).number
    asked: list[Getter] = []
    take = Getter.take

    def counted(
        getter: Getter, *, in_parts: bool = False
    ) -> tuple[GetResult, Transaction | None] | None:
        asked.append(getter)
        return take(getter, in_parts=in_parts)

    monkeypatch.setattr(Getter, "take", counted)
    getters = [waiting(qm, "Q1", lambda: qm.session().get("Q1", wait_ms=-1))]
    getters += [Running(lambda: qm.session().get("Q1", wait_ms=-1)) for _ in range(50)]
    while len(qm.engine.waits.by_queue.get(number, ())) < len(getters):
        assert all(getter.is_under_way for getter in getters)
    asked.clear()
    session = qm.session()
    session.put("Q1", b"for the first")
    assert len(asked) <= 2
    for _ in getters[1:]:
        session.put("Q1", b"for the others")
    for getter in getters:
        getter.finish()
        assert getter.error is None
    assert qm.curdepth("Q1") == 0


def test_waits_for_one_message_do_not_stand_in_the_way_of_others(
    queue_manager: QueueManager,
) -> None:
    qm = queue_manager
    number = qm.engine.registry.queue(local(qm)).number
    picky = waiting(qm, "Q1", lambda: qm.session().get("Q1", wait_ms=-1, correl_id=b"mine"))
    free = Running(lambda: qm.session().get("Q1", wait_ms=-1))
    while len(qm.engine.waits.by_queue.get(number, ())) < 2:
        assert free.is_under_way
    other = Running(lambda: qm.session().get("Q1", wait_ms=-1, correl_id=b"his"))
    while len(qm.engine.waits.by_queue.get(number, ())) < 3:
        assert other.is_under_way
    session = qm.session()
    for correl_id in (b"any", b"his", b"mine"):
        session.put("Q1", correl_id, correl_id=correl_id)
    for running, expected in ((free, b"any"), (other, b"his"), (picky, b"mine")):
        message = running.finish()
        assert body(message) == expected  # type: ignore[arg-type]  # Running returns object


def test_P9_a_get_does_not_look_at_all_puts_of_its_unit_of_work(
    queue_manager: QueueManager,
) -> None:
    """Own messages come in key order, and only the first one is looked at."""
    qm = queue_manager
    queue = qm.engine.registry.queue(local(qm))
    unit = qm.session(transacted=True)
    for n in range(2_000):
        unit.put("Q1", b"%d" % n, priority=n % 10)
    own = unit.unit_of_work.own_puts(queue)
    first = next(iter(own))
    assert isinstance(first, UncommittedPut)
    assert first.row.body == b"9"
    assert [unit.unit_of_work._puts[p.row.k] for p in own] == [
        unit.unit_of_work._puts[k] for k in sorted(unit.unit_of_work._puts)[1:]
    ]
    got = [body(unit.get("Q1")) for _ in range(2_000)]
    assert got == sorted((b"%d" % n for n in range(2_000)), key=lambda b: (-(int(b) % 10), int(b)))
    unit.commit()
    unit.close()
    assert qm.counts("Q1") == (0, 0, 0, 0, 0)


RETAINED = 200


def ledger_rows(qm: QueueManager) -> int:
    return qm.ledger.last_position() - qm.ledger.first_position() + 1


@pytest.mark.parametrize("in_folder", [True, False])
def test_retention_holds_while_queues_are_deleted_twice_a_second(
    tmp_path: Path, clock: VirtualClock, in_folder: bool
) -> None:
    """A deleted queue writes all balance rows, and nothing of that is left to do for the clock."""
    path = tmp_path if in_folder else None
    with QueueManager("QM1", path, clock, settings={"ledger.retention_count": RETAINED}) as qm:
        local(qm)
        with qm.session() as session:
            for n in range(60):
                for _ in range(10):
                    session.put("Q1", b"x", persistent=bool(n % 2))
                    session.get("Q1")
                session.open("SYSTEM.DEFAULT.MODEL.QUEUE", c.MQOO_OUTPUT).close()
                clock.advance(500)
                # Beyond retention there is what ended in the last two seconds, with its balances.
                assert ledger_rows(qm) <= RETAINED + 4 * 30
        assert qm.ledger.last_position() > 3 * RETAINED
        clock.advance(1_000)
        clock.advance(1_000)
        assert ledger_rows(qm) == RETAINED


def test_retention_trims_at_its_second_and_a_flood_in_parts(clock: VirtualClock) -> None:
    settings: dict[str, str | int | bool] = {"ledger.retention_count": RETAINED}
    with QueueManager("QM1", None, clock, settings=settings) as qm:
        with qm.session() as session:
            local(qm)
            for _ in range(12_000):
                session.put("Q1", b"x")
                session.get("Q1")
        qm.engine.store.flush()
        # The clock looks at the ledger; what it sees then may stay for a second.
        qm.engine.wake()
        clock.advance(999)
        assert ledger_rows(qm) > 12_000
        commits = qm.engine.store.group.batch_count
        clock.advance(1)
        assert ledger_rows(qm) == RETAINED
        assert qm.engine.store.group.batch_count >= commits + 3
        assert qm.verify().ok


def test_retention_of_a_ledger_that_was_longer_before_holds_from_the_opening_on(
    tmp_path: Path, clock: VirtualClock
) -> None:
    with QueueManager("QM1", tmp_path, clock) as qm, qm.session(transacted=True) as session:
        local(qm)
        for _ in range(2 * RETAINED):
            session.put("Q1", b"x", persistent=True)
            session.get("Q1")
        session.commit()
    settings: dict[str, str | int | bool] = {"ledger.retention_count": RETAINED}
    with QueueManager("QM1", tmp_path, clock, settings=settings) as qm:
        assert ledger_rows(qm) > 2 * RETAINED
        clock.advance(1_000)
        assert ledger_rows(qm) == RETAINED
