"""Every way a life can end leaves one row in the ledger; one that never began leaves none."""

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.administration import QLOCAL
from mayfly.engine.objects import administration
from mayfly.lifetime.life import KIND_BALANCE, LEDGER_COLUMNS, LifeRecord
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.contracts.outcomes import unpack_counts
from tests.over import NewSession
from tests.spec.scene import (
    BROWSE,
    DEAD,
    INPUT,
    REPLIES,
    STAGING,
    START_MS,
    ZERO_ID,
    End,
    alter,
    alter_manager,
    body,
    ends,
    lives,
    local,
    take,
)


def test_life_got_has_all_it_was(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    local(any_manager, REPLIES)
    with (
        new_session(any_manager, "anna") as session,
        new_session(any_manager, transacted=True) as unit,
    ):
        sent = session.put(
            "Q1",
            b"12345",
            time_to_live_ms=60_000,
            priority=6,
            persistent=persistent,
            correl_id=b"C",
            report=c.MQRO_EXPIRATION,
            reply_to_q=REPLIES,
        )
        unit.get("Q1")
        unit.backout()
        clock.advance(1_500)
        unit.get("Q1")
        clock.advance(500)
        unit.commit()
    assert lives(any_manager, "Q1") == [
        LifeRecord(
            queue="Q1",
            msg_id=sent,
            correl_id=b"C".ljust(24, b"\0"),
            origin_id=None,
            put_ms=START_MS,
            deliver_at_ms=START_MS,
            expire_at_ms=START_MS + 60_000,
            ended_ms=START_MS + 2_000,
            outcome="got",
            reason=0,
            priority=6,
            persistent=int(persistent),
            body_bytes=5,
            report=c.MQRO_EXPIRATION,
            reply_to_q=REPLIES,
            backout_count=1,
            user_identifier="anna",
            ended_program="mayfly",
        )
    ]


@pytest.mark.parametrize("way", ["get", "browse", "under cursor", "scan"])
def test_life_expired_by_whoever_meets_it(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    way: str,
    new_session: NewSession,
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        handle = session.open("Q1", INPUT | BROWSE)
        session.put("Q1", b"x", time_to_live_ms=1_000, persistent=persistent)
        take(handle, c.MQGMO_BROWSE_FIRST)
        if way == "scan":
            alter_manager(any_manager, EXPRYINT=2)
        clock.advance(2_000)
        if way == "get":
            session.get("Q1")
        elif way == "browse":
            assert list(session.browse("Q1")) == []
        elif way == "under cursor":
            with pytest.raises(Exception, match="UNDER_CURSOR"):
                take(handle, c.MQGMO_MSG_UNDER_CURSOR)
    life = lives(any_manager, "Q1")[0]
    assert (life.outcome, life.expire_at_ms, life.ended_ms) == (
        "expired",
        START_MS + 1_000,
        START_MS + 2_000,
    )


def test_life_released_then_got_is_one_chain(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """Staging, then target: the second names the first as its origin; one window for both."""
    local(any_manager)
    with new_session(any_manager) as session:
        sent = session.put("Q1", b"x", delay_ms=2_000, time_to_live_ms=9_000, persistent=persistent)
        clock.advance(3_000)
        session.get("Q1")
    staged, delivered = lives(any_manager, STAGING)[0], lives(any_manager, "Q1")[0]
    assert (staged.outcome, staged.ended_ms - START_MS) == ("released", 2_000)
    assert (staged.correl_id, staged.origin_id) == (sent, None)
    assert (delivered.outcome, delivered.ended_ms - START_MS) == ("got", 3_000)
    assert (delivered.msg_id, delivered.origin_id) == (sent, staged.msg_id)
    for life in (staged, delivered):
        assert life.put_ms == START_MS
        assert life.deliver_at_ms == START_MS + 2_000
        assert life.expire_at_ms == START_MS + 9_000


def test_life_dead_lettered_then_got_is_one_chain(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    alter_manager(any_manager, DEADQ=DEAD)
    with new_session(any_manager) as session:
        sent = session.put("Q1", b"x", delay_ms=2_000, persistent=persistent)
        alter(any_manager, "Q1", PUT=c.MQQA_PUT_INHIBITED)
        clock.advance(5_000)
        session.get(DEAD)
    staged, dead = lives(any_manager, STAGING)[0], lives(any_manager, DEAD)[0]
    assert (staged.outcome, staged.reason) == ("dead_lettered", rc.MQRC_PUT_INHIBITED)
    assert staged.ended_ms == START_MS + 2_000
    assert (dead.outcome, dead.reason, dead.msg_id) == ("got", 0, sent)
    assert dead.origin_id == staged.msg_id
    assert dead.body_bytes == 173


@pytest.mark.in_process
def test_life_discarded_names_its_reason(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        session.put("Q1", b"x", delay_ms=1_000, report=c.MQRO_DISCARD_MSG, persistent=persistent)
        administration.delete(any_manager.engine, QLOCAL, "Q1")
        clock.advance(1_000)
    assert ends(any_manager, STAGING) == [End("discarded", 1_000, rc.MQRC_UNKNOWN_OBJECT_NAME)]


@pytest.mark.in_process
@pytest.mark.parametrize("way", ["clear", "delete", "temporary"])
def test_life_cleared(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    way: str,
    new_session: NewSession,
) -> None:
    """Expired ones, too, and without reports."""
    local(any_manager, REPLIES)
    with new_session(any_manager) as session:
        if way == "temporary":
            if persistent:
                pytest.skip("a temporary queue takes none")
            handle = session.open("SYSTEM.DEFAULT.MODEL.QUEUE", INPUT)
            name = handle.queue_name
        else:
            name = local(any_manager)
        for life_ms in (None, 1):
            session.put(
                name,
                b"x",
                time_to_live_ms=life_ms,
                report=c.MQRO_EXPIRATION,
                reply_to_q=REPLIES,
                persistent=persistent,
            )
        clock.advance(500)
        if way == "clear":
            assert administration.clear(any_manager.engine, name) == 2
        elif way == "delete":
            administration.delete(any_manager.engine, QLOCAL, name, purge=True)
        else:
            handle.close()
    assert ends(any_manager, name) == [End("cleared", 500)] * 2
    assert any_manager.curdepth(REPLIES) == 0


def test_life_cleared_on_staging_is_no_longer_awaited(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
        assert administration.clear(any_manager.engine, STAGING) == 1
        assert any_manager.counts("Q1").staged == 0
        clock.advance(1_000)
        assert session.get("Q1") is None
    assert ends(any_manager, STAGING) == [End("cleared", 0)]


def test_life_cancelled_ends_at_the_get_or_its_commit(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        first = session.put("Q1", b"x", delay_ms=9_000, persistent=persistent)
        second = session.put("Q1", b"x", delay_ms=9_000, persistent=persistent)
        clock.advance(100)
        session.get(STAGING, correl_id=first)
        unit.get(STAGING, correl_id=second)
        clock.advance(100)
        unit.commit()
    assert ends(any_manager, STAGING) == [End("cancelled", 100), End("cancelled", 200)]
    assert [r.correl_id for r in lives(any_manager, STAGING)] == [first, second]


def test_life_lost_at_restart_is_recorded_at_a_clean_close(
    clock: VirtualClock, tmp_path: Path, new_session: NewSession
) -> None:
    """Non-persistent ones, delayed and expired ones among them, and what a unit of work held."""
    with QueueManager("QM1", tmp_path, clock=clock) as qm:
        local(qm)
        session, unit = new_session(qm), new_session(qm, transacted=True)
        taken = session.put("Q1", b"taken")
        assert body(unit.get("Q1")) == b"taken"
        session.put("Q1", b"x", time_to_live_ms=1)
        session.put("Q1", b"delayed", delay_ms=9_000)
        session.put("Q1", b"kept", persistent=True)
        unit.put("Q1", b"withdrawn")
        clock.advance(100)
    with QueueManager("QM1", tmp_path, clock=clock) as qm:
        assert ends(qm, "Q1") == [End("lost_at_restart", 100)] * 2
        assert ends(qm, STAGING) == [End("lost_at_restart", 100)]
        assert taken in [r.msg_id for r in lives(qm, "Q1")]
        assert qm.curdepth("Q1") == 1
        assert qm.counts("Q1").staged == 0
        assert qm.verify().ok


def test_life_withdrawn_leaves_no_row(queue_manager: QueueManager, unit: Session) -> None:
    local(queue_manager)
    unit.put("Q1", b"x")
    unit.put("Q1", b"delayed", delay_ms=1)
    unit.get("Q1")
    unit.backout()
    assert lives(queue_manager, "Q1") == lives(queue_manager, STAGING) == []


def test_life_of_a_message_that_its_own_unit_of_work_got(
    queue_manager: QueueManager, unit: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    unit.put("Q1", b"x")
    clock.advance(10)
    unit.get("Q1")
    clock.advance(10)
    unit.commit()
    assert ends(queue_manager, "Q1") == [End("got", 20)]
    assert lives(queue_manager, "Q1")[0].put_ms == START_MS


def test_life_of_a_report_and_of_an_id_that_is_all_zero(
    queue_manager: QueueManager, session: Session
) -> None:
    """A report is a message like any other; a missing CorrelId is empty or zeros."""
    local(queue_manager)
    local(queue_manager, REPLIES)
    sent = session.put("Q1", b"x", report=c.MQRO_COD, reply_to_q=REPLIES)
    session.get("Q1")
    session.get(REPLIES)
    assert lives(queue_manager, "Q1")[0].correl_id.ljust(24, b"\0") == ZERO_ID
    assert lives(queue_manager, REPLIES)[0].correl_id == sent


def test_balance_rows_prove_put_equals_ended_plus_present(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """Written within a second of the change."""
    local(any_manager)
    with new_session(any_manager) as session:
        for _ in range(5):
            session.put("Q1", b"x", time_to_live_ms=1_000, persistent=persistent)
        session.get("Q1")
        clock.advance(999)
        session.get("Q1")
        clock.advance(1)
        rows = [
            row
            for page_row in any_manager.ledger.page(0, 100)
            if (row := dict(zip(LEDGER_COLUMNS, page_row, strict=True)))["kind"] == KIND_BALANCE
            and row["queue"] == "Q1"
        ]
        ended = unpack_counts(rows[-1]["ended"])
        assert rows[-1]["puts"] == 5
        assert rows[-1]["present"] == 3
        assert rows[-1]["ended_ms"] == START_MS + 1_000
        assert ended == {"got": 2}
        session.get("Q1")
        assert (
            sorted(end.outcome for end in ends(any_manager, "Q1")) == ["expired"] * 3 + ["got"] * 2
        )


def test_positions_are_dense_and_pages_repeat(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        for _ in range(10):
            session.put("Q1", b"x", persistent=persistent)
            session.get("Q1")
        clock.advance(1_000)
    rows = any_manager.ledger.page(0, 1_000)
    assert [row[0] for row in rows] == list(range(1, any_manager.ledger.last_position() + 1))
    assert any_manager.ledger.page(3, 4) == rows[3:7]
