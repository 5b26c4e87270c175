"""Discards, rules E8-E14, E19 and E21: what removes an expired message, and who hears of it."""

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQMDS_FIFO
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.scene import (
    DEAD,
    INPUT,
    REPLIES,
    START_MS,
    End,
    alter,
    alter_manager,
    bodies,
    body,
    ends,
    lives,
    local,
    refused,
    take,
)

EXPIRATION = c.MQRO_EXPIRATION


def test_E8_E12_expired_message_stays_and_counts_until_met(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        session.put("Q1", b"x", time_to_live_ms=1_000, persistent=persistent)
        clock.advance(999)
        assert any_manager.counts("Q1")._asdict() == {
            "staged": 0,
            "live": 1,
            "uncommitted": 0,
            "locked": 0,
            "expired_present": 0,
        }
        clock.advance(1)
        assert any_manager.counts("Q1")._asdict() == {
            "staged": 0,
            "live": 0,
            "uncommitted": 0,
            "locked": 0,
            "expired_present": 1,
        }
        clock.advance(86_400_000)
        assert any_manager.curdepth("Q1") == 1
        assert ends(any_manager, "Q1") == []
        assert session.get("Q1") is None
    assert any_manager.curdepth("Q1") == 0
    assert ends(any_manager, "Q1") == [End("expired", 86_401_000)]


def test_E12_expired_messages_fill_the_queue(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager, MAXDEPTH=2)
    session.put("Q1", b"1", time_to_live_ms=1_000)
    session.put("Q1", b"2", time_to_live_ms=1_000)
    clock.advance(1_000)
    with refused(rc.MQRC_Q_FULL):
        session.put("Q1", b"3")
    assert session.get("Q1") is None
    session.put("Q1", b"3")
    assert queue_manager.curdepth("Q1") == 1


@pytest.mark.parametrize("verb", ["get", "browse"])
def test_E9_fifo_discards_all_expired_ones_ahead_of_the_first_live_one(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    verb: str,
    new_session: NewSession,
) -> None:
    """The expired one behind it stays, whatever its priority."""
    local(any_manager, MSGDLVSQ=MQMDS_FIFO)
    with new_session(any_manager) as session:
        for priority in (1, 9, 5):
            session.put(
                "Q1", b"dead", time_to_live_ms=500, priority=priority, persistent=persistent
            )
        session.put("Q1", b"live", persistent=persistent)
        session.put("Q1", b"late", time_to_live_ms=500, priority=9, persistent=persistent)
        clock.advance(500)
        assert any_manager.curdepth("Q1") == 5
        if verb == "get":
            assert body(session.get("Q1")) == b"live"
        else:
            assert next(session.browse("Q1")).body == b"live"
        assert any_manager.curdepth("Q1") == (1 if verb == "get" else 2)
        assert [end.outcome for end in ends(any_manager, "Q1")].count("expired") == 3
        bodies(session, "Q1")


@pytest.mark.parametrize("verb", ["get", "browse"])
def test_E10_priority_queue_keeps_later_and_lower_expired_ones(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    verb: str,
    new_session: NewSession,
) -> None:
    """Expired p9, expired p5, live p5, expired p5, expired p1: the later p5 and the p1 stay."""
    local(any_manager)
    with new_session(any_manager) as session:

        def put(name: bytes, priority: int, life_ms: int | None) -> None:
            session.put(
                "Q1", name, priority=priority, time_to_live_ms=life_ms, persistent=persistent
            )

        put(b"p1", 1, 100)
        put(b"first p5", 5, 100)
        put(b"live p5", 5, None)
        put(b"later p5", 5, 100)
        put(b"p9", 9, 100)
        clock.advance(100)
        if verb == "get":
            assert body(session.get("Q1")) == b"live p5"
        else:
            assert next(session.browse("Q1")).body == b"live p5"
        gone = [len(r.msg_id) for r in lives(any_manager, "Q1") if r.outcome == "expired"]
        assert len(gone) == 2
        assert any_manager.counts("Q1").expired_present == 2
        assert any_manager.curdepth("Q1") == (2 if verb == "get" else 3)
        bodies(session, "Q1")
    priorities = [r.priority for r in lives(any_manager, "Q1")]
    assert sorted(priorities[:2]) == [5, 9]


def test_E11_only_messages_that_match_are_discarded(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        other = session.put("Q1", b"other", time_to_live_ms=100, persistent=persistent)
        wanted = session.put(
            "Q1", b"wanted", time_to_live_ms=100, correl_id=b"C", persistent=persistent
        )
        clock.advance(100)
        assert session.get("Q1", correl_id=b"C") is None
        assert [r.msg_id for r in lives(any_manager, "Q1")] == [wanted]
        assert any_manager.curdepth("Q1") == 1
        assert session.get("Q1", msg_id=other) is None
        assert [r.msg_id for r in lives(any_manager, "Q1")] == [wanted, other]


def test_E13_report_comes_at_the_discard_and_only_if_asked_for(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    local(any_manager, REPLIES)
    with new_session(any_manager) as session:
        quiet = session.put("Q1", b"quiet", time_to_live_ms=100, persistent=persistent)
        asked = session.put(
            "Q1",
            b"asked",
            time_to_live_ms=100,
            report=EXPIRATION,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        clock.advance(60_000)
        assert any_manager.curdepth(REPLIES) == 0
        assert session.get("Q1") is None
        assert any_manager.curdepth(REPLIES) == 1
        report = session.get(REPLIES)
    assert report is not None
    assert report.correl_id == asked
    assert report.put_ms == START_MS + 60_000
    assert report.persistent == persistent
    assert {r.msg_id for r in lives(any_manager, "Q1")} == {quiet, asked}


def test_E14_discard_and_report_are_in_nobodys_unit_of_work(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """Backing out brings the live message back, not the dead one, and retracts no report."""
    local(any_manager)
    local(any_manager, REPLIES)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        session.put(
            "Q1",
            b"dead",
            time_to_live_ms=100,
            report=EXPIRATION,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        session.put("Q1", b"live", persistent=persistent)
        clock.advance(100)
        assert body(unit.get("Q1")) == b"live"
        assert any_manager.curdepth(REPLIES) == 1
        assert session.get(REPLIES) is not None
        unit.backout()
        assert any_manager.curdepth("Q1") == 1
        assert any_manager.curdepth(REPLIES) == 0
        assert ends(any_manager, "Q1") == [End("expired", 100)]


def test_E19_delay_processor_sends_the_report_of_what_it_discards(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    local(any_manager, REPLIES)
    with new_session(any_manager) as session:
        sent = session.put(
            "Q1",
            b"x",
            time_to_live_ms=1_000,
            delay_ms=1_000,
            report=EXPIRATION,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        clock.advance(1_000)
        report = session.get(REPLIES)
    assert report is not None
    assert (report.correl_id, report.descriptor.feedback) == (sent, c.MQFB_EXPIRATION)


def test_E21_dead_letter_keeps_the_deadline_and_expires_on_its_queue(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    local(any_manager, REPLIES)
    alter_manager(any_manager, DEADQ=DEAD)
    with new_session(any_manager) as session:
        sent = session.put(
            "Q1",
            b"x",
            time_to_live_ms=5_000,
            delay_ms=1_000,
            report=EXPIRATION,
            reply_to_q=REPLIES,
            persistent=persistent,
        )
        session.put("Q1", b"live")
        handle = session.open("Q1", INPUT)
        alter(any_manager, "Q1", PUT=c.MQQA_PUT_INHIBITED)
        clock.advance(4_999)
        dead = next(session.browse(DEAD))
        assert (dead.msg_id, dead.remaining_ms) == (sent, 1)
        clock.advance(1)
        assert session.get(DEAD) is None
        report = session.get(REPLIES)
        assert report is not None
        assert report.correl_id == sent
        assert ends(any_manager, DEAD) == [End("expired", 5_000)]
        assert take(handle).message.body == b"live"
