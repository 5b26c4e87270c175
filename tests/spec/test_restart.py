"""Restart: what a folder keeps, with which deadlines, and what fell due while it was closed."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from mayfly import MQError, QueueManager
from mayfly.engine.api.administration import QLOCAL
from mayfly.engine.api.bulk import ClaimLimit as Limit
from mayfly.engine.objects import administration
from mayfly.lifetime.life import KIND_BALANCE, LEDGER_COLUMNS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.runtime.clocks import SystemClock
from mayfly.testing import VirtualClock
from tests.facts import wait_until
from tests.over import NewSession
from tests.snapshots import on_a_snapshot
from tests.spec.scene import (
    DEAD,
    REPLIES,
    STAGING,
    START_MS,
    End,
    alter,
    alter_manager,
    bodies,
    body,
    ends,
    lives,
    local,
    waiting,
)
from tests.store.scene import failing_disk, raw


def reopened(path: Path, clock: VirtualClock) -> QueueManager:
    return QueueManager("QM1", path, clock=clock, runtime=on_a_snapshot())


@pytest.mark.parametrize(
    ("closed_ms", "tenths"), [(0, 100), (4_000, 60), (9_999, 1), (10_000, None)]
)
def test_E17_deadline_runs_on_while_the_manager_is_closed(
    clock: VirtualClock, tmp_path: Path, closed_ms: int, tenths: int | None, new_session: NewSession
) -> None:
    """What expired meanwhile is present until it is met, and then reported on."""
    with reopened(tmp_path, clock) as qm:
        local(qm)
        local(qm, REPLIES)
        with new_session(qm) as session:
            session.put(
                "Q1",
                b"x",
                persistent=True,
                time_to_live_ms=10_000,
                report=c.MQRO_EXPIRATION,
                reply_to_q=REPLIES,
            )
    clock.advance(closed_ms)
    with reopened(tmp_path, clock) as qm, new_session(qm) as session:
        assert qm.curdepth("Q1") == 1
        message = session.get("Q1")
        assert (None if message is None else message.remaining_tenths) == tenths
        assert qm.curdepth(REPLIES) == int(tenths is None)
        assert qm.verify().ok


def test_restart_keeps_order_ids_backout_counts_and_definitions(
    clock: VirtualClock, tmp_path: Path, new_session: NewSession
) -> None:
    with reopened(tmp_path, clock) as qm:
        local(qm, CAPEXPRY=77, DEFPRTY=3)
        alter_manager(qm, DEADQ=DEAD)
        with new_session(qm) as session, new_session(qm, transacted=True) as unit:
            for name, priority in ((b"1", 1), (b"9", 9), (b"5", 5)):
                session.put("Q1", name, priority=priority, persistent=True, correl_id=name)
            unit.get("Q1")
            unit.backout()
            unit.get("Q1")
            clock.advance(10)
            qm.close()
    with reopened(tmp_path, clock) as qm, new_session(qm) as session:
        found = [(m.body, m.backout_count, m.remaining_tenths) for m in session.browse("Q1")]
        assert found == [(b"9", 2, 77), (b"5", 0, 77), (b"1", 0, 77)]
        assert body(session.get("Q1", correl_id=b"5")) == b"5"
        session.put("Q1", b"new")
        assert [m.body for m in session.browse("Q1")] == [b"9", b"new", b"1"]
        assert qm.engine.registry.queue_manager.deadq == DEAD
        assert qm.verify().ok


@pytest.mark.parametrize(("closed_ms", "comes"), [(3_999, False), (4_000, True), (60_000, True)])
def test_D17_due_while_closed_is_due_at_once(
    clock: VirtualClock, tmp_path: Path, closed_ms: int, comes: bool, new_session: NewSession
) -> None:
    with reopened(tmp_path, clock) as qm:
        local(qm)
        with new_session(qm) as session:
            session.put("Q1", b"b", delay_ms=5_000, persistent=True)
            session.put("Q1", b"a", delay_ms=4_500, persistent=True)
            session.put("Q1", b"lost", delay_ms=4_500)
        clock.advance(1_000)
    clock.advance(closed_ms)
    with reopened(tmp_path, clock) as qm, new_session(qm) as session:
        assert qm.curdepth(STAGING) == (0 if comes else 1)
        assert bodies(session, "Q1") == ([b"a", b"b"] if comes else [b"a"])
        clock.advance(1)
        assert bodies(session, "Q1") == ([] if comes else [b"b"])
        assert [end.outcome for end in ends(qm, STAGING)] == [
            "lost_at_restart",
            "released",
            "released",
        ]
        assert qm.verify().ok


def test_D18_expired_on_staging_while_closed_is_discarded_with_its_report(
    clock: VirtualClock, tmp_path: Path, new_session: NewSession
) -> None:
    with reopened(tmp_path, clock) as qm:
        local(qm)
        local(qm, REPLIES)
        with new_session(qm) as session:
            sent = session.put(
                "Q1",
                b"x",
                delay_ms=1_000,
                time_to_live_ms=2_000,
                persistent=True,
                report=c.MQRO_EXPIRATION,
                reply_to_q=REPLIES,
            )
    clock.advance(2_000)
    with reopened(tmp_path, clock) as qm, new_session(qm) as session:
        assert ends(qm, STAGING) == [End("expired", 2_000)]
        report = session.get(REPLIES)
        assert report is not None
        assert report.correl_id == sent
        assert session.get("Q1") is None
        assert qm.verify().ok


def test_D21_stuck_message_survives_and_is_tried_at_the_start(
    clock: VirtualClock, tmp_path: Path, new_session: NewSession
) -> None:
    with reopened(tmp_path, clock) as qm:
        local(qm)
        with new_session(qm) as session:
            session.put("Q1", b"x", delay_ms=1_000, persistent=True)
        alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
        clock.advance(1_000)
        alter(qm, "Q1", PUT=c.MQQA_PUT_ALLOWED)
    with reopened(tmp_path, clock) as qm, new_session(qm) as session:
        assert body(session.get("Q1")) == b"x"


def test_restart_after_a_crash(
    clock: VirtualClock, tmp_path: Path, new_session: NewSession
) -> None:
    """A copy of the folder taken in full flight: committed persistent work and nothing else.

    What a unit of work had got is there again, and that counts as a backout (G8).
    """
    folder, copy = tmp_path / "one", tmp_path / "two"
    with reopened(folder, clock) as qm:
        local(qm)
        session, unit = new_session(qm), new_session(qm, transacted=True)
        kept = session.put("Q1", b"kept", persistent=True, time_to_live_ms=60_000)
        session.put("Q1", b"volatile")
        session.put("Q1", b"delayed", persistent=True, delay_ms=5_000)
        session.put("Q1", b"delayed volatile", delay_ms=5_000)
        unit.put("Q1", b"uncommitted", persistent=True)
        assert unit.get("Q1", msg_id=kept) is not None
        clock.advance(1_000)
        shutil.copytree(folder, copy)
    with reopened(copy, clock) as qm, new_session(qm) as session:
        assert qm.counts("Q1").staged == 1
        message = session.get("Q1")
        assert message is not None
        assert (message.msg_id, message.backout_count, message.remaining_tenths) == (kept, 1, 590)
        assert session.get("Q1") is None
        clock.advance(4_000)
        assert body(session.get("Q1")) == b"delayed"
        assert qm.verify().ok
        clock.advance(1_000)
        balances = [
            row
            for page_row in qm.ledger.page(0, 1_000)
            if (row := dict(zip(LEDGER_COLUMNS, page_row, strict=True)))["kind"] == KIND_BALANCE
        ]
        last = {row["queue"]: row for row in balances}
        assert (last["Q1"]["puts"], last["Q1"]["present"]) == (3, 0)
        assert (last[STAGING]["puts"], last[STAGING]["present"]) == (2, 0)
        assert [r.outcome for r in lives(qm, "Q1")] == ["got", "got"]


def test_restart_on_a_machine_whose_clock_stepped_back(
    tmp_path: Path, new_session: NewSession
) -> None:
    """Time goes on from what the store has seen: nothing comes back to life."""
    with reopened(tmp_path, VirtualClock(START_MS + 100_000)) as qm:
        local(qm)
        with new_session(qm) as session:
            session.put("Q1", b"x", persistent=True, time_to_live_ms=1_000)
        clock = qm.clock
        assert isinstance(clock, VirtualClock)
        clock.advance(5_000)
        with new_session(qm) as session:
            session.put("Q1", b"mark", persistent=True)
    behind = VirtualClock(START_MS)
    with reopened(tmp_path, behind) as qm, new_session(qm) as session:
        assert qm.now_ms() >= START_MS + 105_000
        assert bodies(session, "Q1") == [b"mark"]


@pytest.mark.parametrize(("idle_ms", "tenths"), [(9_999, 1), (10_000, None), (10_001, None)])
def test_E4_what_expired_before_the_close_stays_expired_under_an_earlier_clock(
    clock: VirtualClock, tmp_path: Path, idle_ms: int, tenths: int | None, new_session: NewSession
) -> None:
    """Nothing is written between the put and the close."""
    start_ms = clock.now_ms()
    with reopened(tmp_path, clock) as qm, new_session(qm) as session:
        local(qm)
        session.put("Q1", b"x", persistent=True, time_to_live_ms=10_000)
        clock.advance(idle_ms)
    with reopened(tmp_path, VirtualClock(start_ms - 3_600_000)) as qm, new_session(qm) as session:
        assert qm.now_ms() == start_ms + idle_ms
        message = session.get("Q1")
        assert (None if message is None else message.remaining_tenths) == tenths
        assert qm.verify().ok


def crashed(folder: Path, copy: Path) -> QueueManager:
    """Open, under a clock that is behind, what a kill would leave of a folder in use."""
    # Not by this process: whoever closes a file gives up all locks that its process has on it.
    subprocess.run(["cp", "-r", folder, copy], check=True)
    return reopened(copy, VirtualClock(0))


def put_with_a_deadline(qm: QueueManager) -> None:
    qm.session().put("Q1", b"x", persistent=True, time_to_live_ms=60_000)


def put_with_a_delay(qm: QueueManager) -> None:
    qm.session().put("Q1", b"x", persistent=True, delay_ms=60_000)


def claim_with_a_deadline(qm: QueueManager) -> None:
    put_with_a_deadline(qm)
    epoch = qm.claims.attach("reader", "Q1").epoch
    assert qm.claims.claim("reader", epoch, 0, Limit(1, 100)).messages == 1


def subscribe_for_a_minute(qm: QueueManager) -> None:
    qm.session().subscribe("a", name="S", durable=True, time_to_live_ms=60_000)


@pytest.mark.parametrize(
    "begin",
    [put_with_a_deadline, put_with_a_delay, claim_with_a_deadline, subscribe_for_a_minute],
    ids=lambda begin: begin.__name__,
)
def test_E4_idle_queue_manager_notes_the_time_every_ten_seconds(
    clock: VirtualClock, tmp_path: Path, begin: Callable[[QueueManager], None]
) -> None:
    """While anything has a deadline or a delay, a kill costs at most so much of the time."""
    with reopened(tmp_path / "alive", clock) as qm:
        local(qm)
        clock.advance(1_000)
        begin(qm)
        # The balance row of what was begun is written a second later.
        clock.advance(1_000)
        noted_ms = qm.engine.store.ledger_writer.high_water_ms
        assert noted_ms >= clock.now_ms() - 1_000
        commits = qm.engine.store.group.batch_count
        clock.advance(noted_ms + 9_999 - clock.now_ms())
        assert qm.engine.store.group.batch_count == commits
        with crashed(tmp_path / "alive", tmp_path / "early") as early:
            assert early.now_ms() == noted_ms
        clock.advance(1)
        assert qm.engine.store.group.batch_count == commits + 1
        with crashed(tmp_path / "alive", tmp_path / "late") as late:
            assert late.now_ms() == noted_ms + 10_000


def test_E4_time_is_noted_once_at_the_end_of_a_long_advance(
    clock: VirtualClock, tmp_path: Path, new_session: NewSession
) -> None:
    with reopened(tmp_path / "alive", clock) as qm:
        local(qm)
        new_session(qm).put("Q1", b"x", persistent=True, time_to_live_ms=1_000)
        clock.advance(1_000)
        commits = qm.engine.store.group.batch_count
        clock.advance(10**11)
        assert qm.engine.store.group.batch_count == commits + 1
        with crashed(tmp_path / "alive", tmp_path / "late") as late:
            assert late.now_ms() == clock.now_ms()
            assert new_session(late).get("Q1") is None


def test_E4_idle_queue_manager_without_deadlines_and_delays_writes_nothing(
    clock: VirtualClock, tmp_path: Path, new_session: NewSession
) -> None:
    with reopened(tmp_path, clock) as qm:
        local(qm)
        new_session(qm).put("Q1", b"for ever", persistent=True)
        new_session(qm).put("Q1", b"in memory", time_to_live_ms=10_000_000, persistent=False)
        clock.advance(1_000)
        commits = qm.engine.store.group.batch_count
        for _ in range(20):
            clock.advance(10_000)
        assert qm.engine.store.group.batch_count == commits


def test_E4_time_is_noted_by_the_thread_of_the_clock_of_the_machine(tmp_path: Path) -> None:
    elapsed_ms = [0]
    clock = SystemClock(
        wall_ns=lambda: (START_MS + elapsed_ms[0]) * 1_000_000,
        elapsed_ns=lambda: elapsed_ms[0] * 1_000_000,
    )
    with QueueManager("QM1", tmp_path, clock) as qm:
        local(qm)
        put_with_a_deadline(qm)
        elapsed_ms[0] = 59_000
        # Nobody wakes it: it looks by itself, at least every second.
        wait_until(lambda: qm.engine.store.ledger_writer.high_water_ms == START_MS + 59_000)


def test_E4_time_that_a_full_disk_refused_is_noted_with_the_next_transaction(
    clock: VirtualClock, tmp_path: Path
) -> None:
    with failing_disk() as disk, reopened(tmp_path / "alive", clock) as qm:
        local(qm)
        put_with_a_deadline(qm)
        clock.advance(5_000)
        disk.error, disk.failing = apsw.FullError, "write .db-wal"
        with pytest.raises(MQError) as full:
            put_with_a_deadline(qm)
        assert full.value.reason == rc.MQRC_STORAGE_MEDIUM_FULL
        disk.failing = ""
        put_with_a_deadline(qm)
        with crashed(tmp_path / "alive", tmp_path / "late") as late:
            assert late.now_ms() == clock.now_ms()


@pytest.mark.parametrize("is_killed", [True, False])
def test_D19_staged_counts_are_right_after_the_target_was_deleted_and_a_restart(
    clock: VirtualClock, tmp_path: Path, is_killed: bool, new_session: NewSession
) -> None:
    """What is staged for a queue that is gone is staged for no other one, whatever its number."""
    qm = reopened(tmp_path / "alive", clock)
    alter_manager(qm, DEADQ=DEAD)
    for name in ("Q1", "Q2"):
        local(qm, name)
    with new_session(qm) as session:
        for name in ("Q1", "Q2", "Q1"):
            session.put(name, name.encode(), persistent=True, delay_ms=10_000)
        # A kill takes it, and the totals are gone over for that.
        session.put("Q2", b"lost", persistent=False)
    number = qm.engine.registry.queue("Q1").number
    administration.delete(qm.engine, QLOCAL, "Q1")
    if is_killed:
        subprocess.run(["cp", "-r", tmp_path / "alive", tmp_path / "copy"], check=True)
    qm.close()
    folder = tmp_path / ("copy" if is_killed else "alive")
    for is_second in (False, True):
        with reopened(folder, clock) as qm, new_session(qm) as session:
            assert qm.curdepth(STAGING) == 3
            deleted = qm.engine.registry.deleted_with_delayed
            assert (qm.counts("Q2").staged, deleted[number].staged_for) == (
                1,
                2,
            )
            assert session.schedule.count("Q2") == 1
            if not is_second:
                local(qm, "Q3")
                assert qm.engine.registry.queue("Q3").number != number
            assert qm.counts("Q3").staged == 0
            assert qm.verify().ok
    with reopened(folder, clock) as qm, new_session(qm) as session:
        clock.advance(10_000)
        assert bodies(session, "Q2") == [b"Q2"]
        assert qm.curdepth(DEAD) == 2
        assert (qm.curdepth(STAGING), qm.curdepth("Q3")) == (0, 0)
        deleted = qm.engine.registry.deleted_with_delayed
        assert number not in {n for n, q in deleted.items() if q.staged_for}
        assert qm.verify().ok


def test_D2_nothing_is_staged_for_the_staging_queue_after_a_restart(
    clock: VirtualClock, tmp_path: Path, new_session: NewSession
) -> None:
    """What waits there is on it, and staged for its targets; before and after a restart alike."""
    with reopened(tmp_path, clock) as qm, new_session(qm) as session:
        local(qm)
        session.put("Q1", b"x", persistent=True, delay_ms=10_000)
        before = qm.counts(STAGING)
    assert (before.staged, before.live) == (0, 1)
    with reopened(tmp_path, clock) as qm:
        assert qm.counts(STAGING) == before
        assert qm.counts("Q1").staged == 1
        clock.advance(10_000)
        assert qm.counts(STAGING) == (0, 0, 0, 0, 0)


def test_restart_in_the_same_process_shares_its_clock(
    clock: VirtualClock, tmp_path: Path, new_session: NewSession
) -> None:
    """The closed one is no longer driven."""
    first = reopened(tmp_path, clock)
    local(first)
    first.close()
    clock.advance(10_000)
    assert first.engine.due_work.next_due_ms() is None
    with reopened(tmp_path, clock) as qm, new_session(qm) as session:
        session.put("Q1", b"x", delay_ms=10)
        clock.advance(10)
        assert body(session.get("Q1")) == b"x"


def test_D21_full_disk_postpones_the_release_and_nothing_is_lost(
    clock: VirtualClock, tmp_path: Path, new_session: NewSession
) -> None:
    """The clock goes on, waits end at their moment, and a second after there is room it is done."""
    with reopened(tmp_path, clock) as qm, new_session(qm) as session:
        local(qm)
        local(qm, "Q2")
        for _ in range(60):
            session.put("Q1", b"x" * 20_000, delay_ms=1_000, persistent=True)
        writer = qm.engine.store.database.writer
        pages = writer.execute("PRAGMA page_count").fetchall()[0][0]
        writer.execute(f"PRAGMA max_page_count = {pages}").fetchall()
        with new_session(qm) as getter:
            call = waiting(qm, "Q2", lambda: getter.get("Q2", wait_ms=1_500))
            clock.advance(1_499)
            assert call.is_under_way
            clock.advance(1)
            assert call.finish() is None
        clock.advance(10_000)
        assert qm.counts("Q1").staged == 60
        assert ends(qm, STAGING) == []
        writer.execute("PRAGMA max_page_count = 1000000").fetchall()
        clock.advance(1_000)
        assert qm.counts("Q1")._asdict() == {
            "staged": 0,
            "live": 60,
            "uncommitted": 0,
            "locked": 0,
            "expired_present": 0,
        }
        assert qm.verify().ok


def test_a_first_start_that_was_cut_off_is_finished_by_the_next(tmp_path: Path) -> None:
    with QueueManager("QM1", tmp_path):
        pass
    connection = raw(tmp_path)
    connection.execute("DELETE FROM object WHERE kind = 'QMGR' OR name LIKE 'SYSTEM.D%.QUEUE'")
    connection.close()
    with QueueManager("QM1", tmp_path) as manager:
        assert manager.curdepth("SYSTEM.DDELAY.LOCAL.QUEUE") == 0
        assert manager.mqsc("DELETE QMODEL(SYSTEM.DEFAULT.MODEL.QUEUE)").ok
        assert manager.verify().ok
    with QueueManager("QM1", tmp_path) as manager:
        assert not manager.mqsc("DISPLAY QMODEL(SYSTEM.DEFAULT.MODEL.QUEUE)").ok


def test_P9_a_persistent_message_got_where_it_was_put_is_in_the_ledger_after_a_crash(
    tmp_path: Path,
    new_session: NewSession,
) -> None:
    """The commit has said so: its life is on the disk although the message never was."""
    with QueueManager("QM1", tmp_path / "QM1") as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
        with new_session(manager, transacted=True) as session:
            msg_id = session.put("Q1", b"through", persistent=True)
            assert session.get("Q1") is not None
            session.commit()
            shutil.copytree(tmp_path / "QM1", tmp_path / "crashed")
    with QueueManager("QM1", tmp_path / "crashed", runtime=on_a_snapshot()) as manager:
        rows = [dict(zip(LEDGER_COLUMNS, r, strict=True)) for r in manager.ledger.page(0, 1_000)]
        assert [row["outcome"] for row in rows if row["msg_id"] == msg_id] == ["got"]
        assert manager.verify().ok
