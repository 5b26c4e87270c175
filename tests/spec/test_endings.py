"""The records of lives: what met an expired message, and who ended a life."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.bulk import ClaimLimit
from mayfly.lifetime.life import LifeRecord
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from mayfly.verbs.contracts.outcomes import DetectedBy
from mayfly.verbs.schedule import ScheduleFilter
from tests.over import NewSession
from tests.spec.pubsub_scene import admin_sub
from tests.spec.scene import (
    BROWSE,
    INPUT,
    REPLIES,
    STAGING,
    alter_manager,
    lives,
    local,
    take,
)

LIFE_MS = 1_000
FACTS = "outcome detected_by ended_by ended_program".split()


def facts(life: LifeRecord) -> tuple[object, ...]:
    """Return how a life ended, what met it, and the user and program that ended it."""
    return tuple(getattr(life, name) for name in FACTS)


def ended(qm: QueueManager, queue: str = "Q1") -> list[tuple[object, ...]]:
    return [facts(life) for life in lives(qm, queue)]


def get(session: Session) -> None:
    session.get("Q1")


def get_by_handle(session: Session) -> None:
    handle = session.open("Q1", INPUT)
    with pytest.raises(MQError, match="NO_MSG_AVAILABLE"):
        take(handle, c.MQGMO_NO_WAIT)


def get_a_whole_message(session: Session) -> None:
    handle = session.open("Q1", INPUT)
    with pytest.raises(MQError, match="NO_MSG_AVAILABLE"):
        take(handle, c.MQGMO_COMPLETE_MSG)


def browse(session: Session) -> None:
    assert list(session.browse("Q1")) == []


def browse_a_whole_message(session: Session) -> None:
    handle = session.open("Q1", INPUT | BROWSE)
    with pytest.raises(MQError, match="NO_MSG_AVAILABLE"):
        take(handle, c.MQGMO_BROWSE_FIRST | c.MQGMO_COMPLETE_MSG)


@pytest.mark.parametrize(
    ("meet", "detected_by"),
    [
        (get, DetectedBy.GET),
        (get_by_handle, DetectedBy.GET),
        (get_a_whole_message, DetectedBy.GET),
        (browse, DetectedBy.BROWSE),
        (browse_a_whole_message, DetectedBy.BROWSE),
    ],
)
def test_E8_E9_the_record_of_an_expired_message_names_the_get_or_browse_that_met_it(
    any_manager: QueueManager,
    clock: VirtualClock,
    new_session: NewSession,
    persistent: bool,
    meet: Callable[[Session], None],
    detected_by: DetectedBy,
) -> None:
    """A millisecond before the deadline nothing is met; at it, and after it, the same is told."""
    local(any_manager)
    with new_session(any_manager, "anna") as putter, new_session(any_manager, "app") as other:
        for late_ms in (-1, 0, 1):
            putter.put("Q1", b"x", time_to_live_ms=LIFE_MS, persistent=persistent)
            clock.advance(LIFE_MS + late_ms)
            if late_ms < 0:
                assert [m.body for m in other.browse("Q1")] == [b"x"]
                assert ended(any_manager) == []
                clock.advance(1)
            meet(other)
    assert ended(any_manager) == [("expired", detected_by.value, "app", "mayfly")] * 3


@pytest.mark.parametrize("options", [c.MQGMO_MSG_UNDER_CURSOR, c.MQGMO_BROWSE_MSG_UNDER_CURSOR])
def test_E16_a_message_that_expired_under_the_cursor_is_detected_by_the_call_that_asks_for_it(
    any_manager: QueueManager, clock: VirtualClock, new_session: NewSession, options: int
) -> None:
    local(any_manager)
    with new_session(any_manager, "app") as session:
        session.put("Q1", b"x", time_to_live_ms=LIFE_MS)
        handle = session.open("Q1", INPUT | BROWSE)
        take(handle, c.MQGMO_BROWSE_FIRST)
        clock.advance(LIFE_MS)
        with pytest.raises(MQError, match="UNDER_CURSOR"):
            take(handle, options)
    detected_by = "get" if options == c.MQGMO_MSG_UNDER_CURSOR else "browse"
    assert ended(any_manager) == [("expired", detected_by, "app", "mayfly")]


def test_X9_the_scan_is_named_and_no_user(
    any_manager: QueueManager, clock: VirtualClock, new_session: NewSession, persistent: bool
) -> None:
    local(any_manager)
    alter_manager(any_manager, EXPRYINT=2)
    with new_session(any_manager, "anna") as session:
        session.put("Q1", b"x", time_to_live_ms=1_999, persistent=persistent)
        clock.advance(1_999)
        assert ended(any_manager) == []
        clock.advance(1)
    assert ended(any_manager) == [("expired", "scan", None, None)]


def test_E17_a_put_that_expires_before_its_commit_is_detected_by_the_commit(
    any_manager: QueueManager, clock: VirtualClock, new_session: NewSession, persistent: bool
) -> None:
    local(any_manager)
    with new_session(any_manager, "anna", transacted=True) as unit:
        for late_ms in (-1, 0, 1):
            unit.put("Q1", b"x", time_to_live_ms=LIFE_MS, persistent=persistent)
            clock.advance(LIFE_MS + late_ms)
            unit.commit()
            assert any_manager.curdepth("Q1") == (1 if late_ms < 0 else 0)
            assert unit.get("Q1") is None or late_ms < 0
            unit.commit()
    assert ended(any_manager) == [
        ("got", None, "anna", "mayfly"),
        *[("expired", "commit", "anna", "mayfly")] * 2,
    ]


def test_D18_a_delayed_message_that_expires_when_it_is_due_is_detected_by_the_release(
    any_manager: QueueManager, clock: VirtualClock, new_session: NewSession, persistent: bool
) -> None:
    local(any_manager)
    with new_session(any_manager, "anna") as session:
        for delay_ms in (LIFE_MS - 1, LIFE_MS):
            session.put(
                "Q1", b"x", time_to_live_ms=LIFE_MS, delay_ms=delay_ms, persistent=persistent
            )
        clock.advance(LIFE_MS - 1)
        assert ended(any_manager, STAGING) == [("released", None, None, None)]
        clock.advance(1)
    assert ended(any_manager, STAGING)[1:] == [("expired", "release", None, None)]


def test_E9_a_claim_of_a_pipeline_that_meets_an_expired_message_is_named(
    queue_manager: QueueManager, clock: VirtualClock, persistent: bool
) -> None:
    local(queue_manager)
    with queue_manager.session("anna") as session:
        session.put("Q1", b"x", time_to_live_ms=LIFE_MS, persistent=persistent)
        clock.advance(LIFE_MS)
    epoch = queue_manager.claims.attach("reader", "Q1").epoch
    queue_manager.claims.claim("reader", epoch, 0, ClaimLimit(10, 2**20))
    assert ended(queue_manager) == [("expired", "claim", None, "reader")]


def test_G9_claimed_messages_are_got_by_their_consumer(
    queue_manager: QueueManager, persistent: bool
) -> None:
    """Few descriptors and many are recorded by two statements."""
    local(queue_manager)
    with queue_manager.session("anna") as session:
        for number in range(40):
            reply_to = REPLIES if number < 20 else f"REPLIES.{number}"
            session.put("Q1", b"x", persistent=persistent, reply_to_q=reply_to)
    claims = queue_manager.claims
    epoch = claims.attach("reader", "Q1").epoch
    for after in (0, 1):
        claims.claim("reader", epoch, after, ClaimLimit(20, 2**20))
        claims.end("reader", epoch, after + 1)
    assert ended(queue_manager) == [("got", None, None, "reader")] * 40


def test_T5_a_retained_publication_that_a_new_subscriber_meets_expired(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    local(queue_manager)
    with queue_manager.session("anna") as session:
        session.publish("news", b"x", retain=True, time_to_live_ms=LIFE_MS)
        clock.advance(LIFE_MS)
        admin_sub(queue_manager, "ONE", "news", "Q1")
    queue = "SYSTEM.RETAINED.PUB.QUEUE"
    assert ended(queue_manager, queue) == [("expired", "topic", None, None)]


@pytest.mark.parametrize("transacted", [False, True])
def test_G1_the_record_of_a_get_names_user_and_program(
    any_manager: QueueManager, new_session: NewSession, persistent: bool, transacted: bool
) -> None:
    local(any_manager)
    with (
        new_session(any_manager, "anna") as putter,
        new_session(any_manager, "app", transacted=transacted) as getter,
        new_session(any_manager, "other", transacted=True) as other,
    ):
        putter.put("Q1", b"x", persistent=persistent)
        assert other.get("Q1") is not None
        other.backout()
        assert getter.get("Q1") is not None
    assert ended(any_manager) == [("got", None, "app", "mayfly")]


def test_P9_what_a_unit_of_work_puts_and_gets_is_its_own(
    any_manager: QueueManager, new_session: NewSession, persistent: bool
) -> None:
    local(any_manager)
    with new_session(any_manager, "app", transacted=True) as unit:
        unit.put("Q1", b"x", persistent=persistent)
        assert unit.get("Q1") is not None
    assert ended(any_manager) == [("got", None, "app", "mayfly")]


@pytest.mark.parametrize(
    ("user", "program", "ended_by", "ended_program"),
    [
        (None, "a" * 40, None, "a" * 28),
        ("u" * 20, "", "u" * 12, None),
        ("\ud800", "\ud800\0b", "?", "?"),
    ],
)
def test_P6_user_and_program_of_a_get_are_cut_as_those_of_a_put(
    queue_manager: QueueManager,
    user: str | None,
    program: str,
    ended_by: str | None,
    ended_program: str | None,
) -> None:
    local(queue_manager)
    with queue_manager.session(user, program=program) as session:
        session.put("Q1", b"x")
        message = session.get("Q1")
        assert message is not None
        assert message.descriptor.user_identifier.strip() == (ended_by or "")
    assert ended(queue_manager) == [("got", None, ended_by, ended_program)]


@pytest.mark.parametrize("transacted", [False, True])
def test_D3_who_cancels_and_who_releases_early_is_recorded(
    any_manager: QueueManager,
    clock: VirtualClock,
    new_session: NewSession,
    persistent: bool,
    transacted: bool,
) -> None:
    local(any_manager)
    with (
        new_session(any_manager, "anna") as putter,
        new_session(any_manager, "boss", transacted=transacted) as boss,
    ):
        sent = [putter.put("Q1", b"x", delay_ms=LIFE_MS, persistent=persistent) for _ in range(4)]
        boss.schedule.cancel(sent[0])
        boss.schedule.release(sent[1])
        if transacted:
            boss.commit()
        clock.advance(0)
        by_boss = [("cancelled", None, "boss", "mayfly"), ("released", None, "boss", None)]
        assert ended(any_manager, STAGING) == by_boss
        clock.advance(LIFE_MS)
    assert ended(any_manager, STAGING)[2:] == [("released", None, None, None)] * 2


def test_D3_who_releases_all_that_a_filter_finds_is_recorded(
    any_manager: QueueManager, new_session: NewSession, clock: VirtualClock, persistent: bool
) -> None:
    """In bulk and one by one: the second has been backed out, so that it moves alone."""
    local(any_manager)
    with (
        new_session(any_manager, "anna", transacted=True) as unit,
        new_session(any_manager, "boss") as boss,
    ):
        for _ in range(3):
            unit.put("Q1", b"x", delay_ms=LIFE_MS, persistent=persistent)
        unit.commit()
        assert unit.get(STAGING) is not None
        unit.backout()
        assert list(boss.schedule.release_all(ScheduleFilter("Q1")))[-1] == 3
        clock.advance(0)
    assert ended(any_manager, STAGING) == [("released", None, "boss", None)] * 3
    assert any_manager.curdepth("Q1") == 3


@pytest.mark.parametrize("ends_session", [False, True])
def test_C9_messages_that_go_with_a_temporary_queue_are_cleared_by_its_creator(
    any_manager: QueueManager, new_session: NewSession, ends_session: bool
) -> None:
    any_manager.mqsc("DEFINE QMODEL(MODEL)")
    with new_session(any_manager, "app") as creator, new_session(any_manager, "anna") as other:
        handle = creator.open("MODEL", INPUT, dynamic_name="TEMP")
        other.put("TEMP", b"x")
        if ends_session:
            creator.close()
        else:
            handle.close()
    assert ended(any_manager, "TEMP") == [("cleared", None, "app", "mayfly")]


def test_what_a_command_clears_has_nobody(queue_manager: QueueManager) -> None:
    local(queue_manager)
    with queue_manager.session("anna") as session:
        session.put("Q1", b"x")
    assert queue_manager.mqsc("CLEAR QLOCAL(Q1)").ok
    assert ended(queue_manager) == [("cleared", None, None, None)]
