"""What two threads do at the worst moment, replayed step by step on one."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import apsw
import pytest

from mayfly import QueueManager
from mayfly.engine import GetRequest, PutRequest
from mayfly.engine.api.administration import QLOCAL
from mayfly.engine.delay import staging_state
from mayfly.engine.get import Getter
from mayfly.engine.objects import administration
from mayfly.engine.put import put
from mayfly.engine.requester import Requester
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.life import KIND_BALANCE, LEDGER_COLUMNS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.store.units import Unit
from mayfly.testing import VirtualClock
from tests.spec.scene import (
    DEAD,
    JOIN_SECONDS,
    Running,
    alter,
    alter_manager,
    bodies,
    local,
    refused,
    waiting,
)
from tests.store.scene import NUMBER, Gate, gate, get_unit, new_row, opened, put_unit, statement

PLACE = {name: n for n, name in enumerate(LEDGER_COLUMNS)}


def delete(qm: QueueManager, name: str) -> None:
    administration.delete(qm.engine, QLOCAL, name, purge=True)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_put_whose_queue_is_deleted_after_its_name_was_resolved_is_refused(
    queue_manager: QueueManager, persistent: bool
) -> None:
    """Its message would lie under a number that the next queue takes."""
    qm = queue_manager
    path = qm.engine.registry.resolve(local(qm))
    delete(qm, "Q1")
    local(qm, "Q2")
    session = qm.session()
    with refused(rc.MQRC_Q_DELETED):
        put(
            qm.engine,
            path,
            b"late",
            PutRequest(Descriptor(persistence=int(persistent))),
            context=session.context,
            unit_of_work=None,
        )
    assert bodies(session, "Q2") == []
    session.put("Q2", b"x", persistent=True)
    assert qm.counts("Q2").live == 1


def test_a_name_resolved_while_its_definition_changes_is_resolved_again(
    queue_manager: QueueManager,
) -> None:
    qm = queue_manager
    registry = qm.engine.registry
    before = registry._resolve(local(qm))
    alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    # The other thread stores what it had read before the change.
    registry._paths["Q1"] = before
    with refused(rc.MQRC_PUT_INHIBITED):
        qm.session().put("Q1", b"x")


@pytest.mark.parametrize("persistent", [False, True])
def test_a_delete_waits_for_a_get_that_is_on_its_way_to_the_disk(
    tmp_path: Path, persistent: bool
) -> None:
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        local(qm)
        session = qm.session()
        session.put("Q1", b"taken", persistent=persistent)
        with qm.engine.engine_lock:
            outcome = Getter(
                qm.engine,
                qm.engine.registry.resolve("Q1"),
                GetRequest(),
                None,
                Requester(qm.engine),
            ).take()
        assert outcome is not None
        assert isinstance(outcome[1], Transaction)
        deleting = Running(lambda: delete(qm, "Q1"))
        deleting.thread.join(0.05)
        qm.engine.committer.run(outcome[1])
        deleting.finish()
        assert deleting.error is None
        local(qm, "Q2")
        session.put("Q2", b"x", persistent=True)
        found = qm.verify()
        assert found.ok, found.problems


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("reopened", [False, True])
def test_D15_messages_staged_for_a_deleted_queue_are_not_counted_for_its_successor(
    tmp_path: Path, persistent: bool, reopened: bool
) -> None:
    clock = VirtualClock()
    qm = QueueManager("QM1", tmp_path, clock)
    alter_manager(qm, DEADQ=DEAD)
    local(qm)
    qm.session().put("Q1", b"delayed", delay_ms=1_000, persistent=persistent)
    assert qm.counts("Q1").staged == 1
    delete(qm, "Q1")
    staged = 1
    if reopened:
        qm.close()
        qm = QueueManager("QM1", tmp_path, clock)
        staged = int(persistent)
    local(qm, "Q2")
    assert qm.counts("Q2").staged == 0
    local(qm, "Q1")
    assert qm.counts("Q1").staged == staged
    delete(qm, "Q1")
    clock.advance(1_000)
    assert qm.counts("Q2") == (0, 0, 0, 0, 0)
    assert qm.curdepth(DEAD) == staged
    local(qm, "Q3")
    assert qm.counts("Q3").staged == 0
    found = qm.verify()
    assert found.ok, found.problems
    qm.close()


def test_a_queue_defined_while_balance_rows_are_written_fails_nobody(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(2, 4_000):
        store.ledger_writer.totals.open_queue(number, f"Q{number}")
    over = threading.Event()

    def define() -> None:
        number = 10_000
        while not over.is_set():
            store.ledger_writer.totals.open_queue(number, "NEW")
            store.ledger_writer.totals.forget_queue(number - 100)
            number += 1

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    defining = Running(define)
    try:
        for _ in range(5):
            store.write_balances()
            store.commit([put_unit(store)])
    finally:
        over.set()
        defining.finish()
        sys.setswitchinterval(interval)
    assert store.ledger_writer.totals[NUMBER].puts == 5
    store.close()


def test_balance_rows_asked_for_at_the_end_of_a_transaction_come_with_the_next(
    tmp_path: Path,
) -> None:
    """The wish must not be forgotten with the transaction that is just being accepted."""
    store = opened(tmp_path)
    store.write_balances()
    store.commit([put_unit(store)])
    last = store.ledger.last_position()
    asking: list[Running] = []

    def committed(_connection: apsw.Connection, _name: str, _pages: int) -> int:
        if not asking:
            asking.append(Running(store.write_balances))
            while not store.group.waiting:
                assert asking[0].is_under_way
        return apsw.SQLITE_OK

    store.database.writer.set_wal_hook(committed)
    store.commit([put_unit(store)])
    asking[0].finish()
    rows = store.ledger.page(last, 10)
    assert [(r[PLACE["kind"]], r[PLACE["puts"]]) for r in rows] == [(KIND_BALANCE, 2)]
    store.close()


def test_totals_of_a_queue_deleted_during_a_transaction_stay_forgotten(tmp_path: Path) -> None:
    with gate() as opening:
        store = opened(tmp_path)
    leader = Running(lambda: store.commit([put_unit(store), statement("SELECT gate()")]))
    assert opening.reached.wait(JOIN_SECONDS)
    store.ledger_writer.totals.forget_queue(NUMBER)
    opening.opened.set()
    leader.finish()
    assert NUMBER not in store.ledger_writer.totals
    store.close()


def test_a_reader_at_the_end_of_the_ledger_takes_nothing_new_for_trimmed(tmp_path: Path) -> None:
    """The leader accepts a transaction between the reader's read and its look at the end."""
    store = opened(tmp_path)
    rows = [new_row(store) for _ in range(2)]
    store.commit([put_unit(store, *rows)])
    store.commit([get_unit(rows[0])])
    last = store.ledger.last_position()
    guard = store.ledger._reader._guard

    class After:
        """Commits one more life when the read is over."""

        def __enter__(self) -> None:
            guard.__enter__()

        def __exit__(self, *_: object) -> None:
            guard.__exit__(None, None, None)
            store.ledger._reader._guard = guard
            store.commit([get_unit(rows[1])])

    store.ledger._reader._guard = After()
    assert store.ledger.page(last, 10) == []
    assert [row[0] for row in store.ledger.page(last, 10)] == [last + 1]
    store.close()


def test_a_unit_that_no_column_takes_fails_alone(tmp_path: Path) -> None:
    with gate() as opening:
        store = opened(tmp_path)
    good, bad = put_unit(store), put_unit(store, new_row(store)._replace(expire_at_ms=2**70))
    stranger = put_unit(store)
    stranger.delta(4711).puts += 1
    units = [good, bad, stranger, put_unit(store)]

    def commit(unit: Unit) -> None:
        with suppress(OverflowError, KeyError):
            store.commit([unit])

    leader = Running(lambda: store.commit([statement("SELECT gate()")]))
    assert opening.reached.wait(JOIN_SECONDS)
    committing = [Running(partial(commit, unit)) for unit in units]
    while len(store.group.waiting) < len(units):
        assert leader.is_under_way
    opening.opened.set()
    for running in (leader, *committing):
        running.finish()
    assert [type(unit.error) for unit in units] == [
        type(None),
        OverflowError,
        KeyError,
        type(None),
    ]
    assert store.ledger_writer.totals[NUMBER].puts == 2
    store.close()


def again(opening: Gate) -> None:
    opening.reached.clear()
    opening.opened.clear()


def test_lives_kept_back_after_a_full_disk_do_not_take_the_lead_with_them(tmp_path: Path) -> None:
    """A unit that failed as a follower comes again; nobody waits for it there any more."""
    with gate() as opening:
        store = opened(tmp_path)
    row = new_row(store)
    for unit in (put_unit(store, row, persistent=False), get_unit(row, persistent=False)):
        with store.engine_lock:
            store.apply(unit)
    pages = "PRAGMA max_page_count = {}"
    store.commit([statement("SELECT 1")])
    with store.engine_lock:
        store.apply(put_unit(store, *(new_row(store) for _ in range(1)), persistent=False))
    store.commit([statement(pages.format(1))])
    # A follower's flush fails on the full disk …
    with store.engine_lock:
        many = [new_row(store) for _ in range(2_000)]
        store.apply(put_unit(store, *many, persistent=False))
        store.apply(get_unit(*many, persistent=False))
    pending = store._pending
    leader = Running(lambda: store.group.commit(statement("SELECT gate()")))
    assert opening.reached.wait(JOIN_SECONDS)
    flushing = Running(store.flush)
    while not store.group.waiting:
        assert flushing.is_under_way
    opening.opened.set()
    leader.finish()
    flushing.finish()
    assert flushing.error is not None
    assert flushing.error.reason == rc.MQRC_STORAGE_MEDIUM_FULL
    assert store._pending is pending
    # … and its lives come with the next commit, as the first unit of a follower's.
    store.group.commit(statement(pages.format(1_000_000)))
    again(opening)
    leader = Running(lambda: store.group.commit(statement("SELECT gate()")))
    assert opening.reached.wait(JOIN_SECONDS)
    follower = Running(lambda: store.commit([put_unit(store)]))
    while not store.group.waiting:
        assert follower.is_under_way
    opening.opened.set()
    leader.finish()
    follower.finish()
    assert follower.error is None
    after = Running(lambda: store.commit([put_unit(store)]))
    after.finish()
    assert store.ledger_writer.totals[NUMBER].puts == 2_004
    store.close()


def test_a_staging_key_on_its_way_to_the_disk_is_not_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging_state, "KEPT", 1)
    with gate() as opening, QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        local(qm)
        session = qm.session()
        for delay_ms in (5, 6, 7):
            session.put("Q1", b"x", delay_ms=delay_ms, persistent=False)
        leader = Running(lambda: qm.engine.store.commit([statement("SELECT gate()")]))
        assert opening.reached.wait(JOIN_SECONDS)
        first = Running(lambda: qm.session().put("Q1", b"1", delay_ms=100, persistent=True))
        while len(qm.engine.store.group.waiting) < 1:
            assert first.is_under_way
        session.put("Q1", b"x", delay_ms=8, persistent=False)
        session.put("Q1", b"x", delay_ms=9, persistent=False)
        second = Running(lambda: qm.session().put("Q1", b"2", delay_ms=100, persistent=True))
        while len(qm.engine.store.group.waiting) < 2:
            assert second.is_under_way
        opening.opened.set()
        for running in (leader, first, second):
            running.finish()
            assert running.error is None
        assert isinstance(first.result, bytes)
        assert isinstance(second.result, bytes)
        assert qm.counts("Q1").staged == 7


@pytest.mark.parametrize("persistent", [False, True])
def test_a_delivery_time_that_is_used_again_later_gets_no_staging_key_twice(
    persistent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last order is forgotten in between; the store is asked for it."""
    monkeypatch.setattr(staging_state, "KEPT", 1)
    clock = VirtualClock()
    with QueueManager("QM1", clock=clock) as qm, qm.session() as session:
        local(qm)
        for delay_ms in (5, 6, 7) * 3:
            session.put("Q1", b"%d" % delay_ms, delay_ms=delay_ms, persistent=persistent)
        assert qm.counts("Q1").staged == 9
        clock.advance(7)
        came = [message.body for message in session.browse("Q1")]
        assert came == [b"5"] * 3 + [b"6"] * 3 + [b"7"] * 3


def test_the_end_of_a_unit_of_work_and_that_of_its_queue_manager_do_not_both_end_it(
    tmp_path: Path,
) -> None:
    """A session's own commit is on its way when the end backs its session out."""
    with gate() as opening:
        qm = QueueManager("QM1", tmp_path, VirtualClock())
    local(qm)
    with qm.session() as plain:
        for n in range(3):
            plain.put("Q1", b"%d" % n, persistent=True)
    unit = qm.session(transacted=True)
    assert unit.get("Q1") is not None
    leader = Running(lambda: qm.engine.store.commit([statement("SELECT gate()")]))
    assert opening.reached.wait(JOIN_SECONDS)
    committing = Running(unit.commit)
    while not qm.engine.store.group.waiting:
        assert committing.is_under_way
    closing = Running(qm.close)
    closing.thread.join(0.05)
    opening.opened.set()
    for running in (leader, committing, closing):
        running.finish()
    assert committing.error is None
    with QueueManager("QM1", tmp_path, VirtualClock()) as reopened:
        found = reopened.verify()
        assert found.ok, found.problems
        assert bodies(reopened.session(), "Q1") == [b"1", b"2"]


def test_get_inhibited_ends_every_wait_on_every_path(queue_manager: QueueManager) -> None:
    qm = queue_manager
    local(qm)
    administration.define(qm.engine, "QALIAS", "A1", {"TARGET": "Q1"})
    first = waiting(qm, "Q1", lambda: qm.session().get("A1", wait_ms=-1))
    others = [Running(partial(qm.session().get, name, wait_ms=-1)) for name in ("Q1", "A1")]
    number = qm.engine.registry.queue("Q1").number
    while len(qm.engine.waits.by_queue.get(number, ())) < 3:
        assert all(other.is_under_way for other in others)
    alter(qm, "Q1", GET=c.MQQA_GET_INHIBITED)
    for running in (first, *others):
        running.finish()
        assert running.error is not None
        assert running.error.reason == rc.MQRC_GET_INHIBITED


def test_deleting_a_queue_ends_its_waits(queue_manager: QueueManager) -> None:
    qm = queue_manager
    local(qm)
    getter = waiting(qm, "Q1", lambda: qm.session().get("Q1", wait_ms=-1))
    delete(qm, "Q1")
    getter.finish()
    assert getter.error is not None
    assert getter.error.reason == rc.MQRC_Q_DELETED
