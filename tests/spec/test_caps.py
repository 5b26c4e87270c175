"""Expiry caps and the scan, rules X1-X4, X9, the maximum, E3, and the switches of K1, K2, K7."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mayfly import MQError, QueueManager
from mayfly.engine import PutRequest, Session, forward, put_dead_letter
from mayfly.engine.api.administration import QALIAS
from mayfly.engine.expiry import ExpiryScan
from mayfly.engine.objects import administration
from mayfly.engine.pubsub.publish import RETAINED_QUEUE
from mayfly.engine.queues import LocalQueue
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.pubsub_scene import admin_sub, available_only, topic
from tests.spec.scene import (
    BROWSE,
    DEAD,
    INPUT,
    REPLIES,
    STAGING,
    V2,
    End,
    alias,
    alter,
    alter_manager,
    body,
    ends,
    local,
    put_expiry,
    put_md,
    refused,
    take,
)

NO_LIMIT = c.MQCEX_NOLIMIT
#: The longest life under E3: 999,999,999 tenths.
MAX_MS = 99_999_999_900
DAY_MS = 86_400_000


def shown_tenths(session: Session, queue: str) -> int:
    """Return the Expiry of the first message at the moment of its put."""
    return next(session.browse(queue)).remaining_tenths


@pytest.mark.in_process
@pytest.mark.parametrize(("asked", "given"), [(-1, 50), (51, 50), (50, 50), (49, 49), (1, 1)])
def test_X1_X3_cap_lowers_silently_and_unlimited_counts_as_above(
    queue_manager: QueueManager, session: Session, asked: int, given: int
) -> None:
    local(queue_manager, CAPEXPRY=50)
    assert put_expiry(session, "Q1", asked).warning == 0
    assert shown_tenths(session, "Q1") == given


def test_X1_capped_message_expires_at_the_cap(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager, CAPEXPRY=10)
    with new_session(any_manager) as session:
        for late_ms in (-1, 0):
            session.put("Q1", b"x", persistent=persistent)
            clock.advance(1_000 + late_ms)
            assert (session.get("Q1") is not None) == (late_ms < 0)


@pytest.mark.parametrize(
    ("queue_cap", "alias_cap", "tenths"),
    [(50, NO_LIMIT, 50), (NO_LIMIT, 30, 30), (50, 30, 30), (30, 50, 30), (NO_LIMIT, NO_LIMIT, -1)],
)
def test_X3_lowest_cap_on_the_path_wins(
    queue_manager: QueueManager,
    session: Session,
    queue_cap: int,
    alias_cap: int,
    tenths: int,
) -> None:
    local(queue_manager, CAPEXPRY=queue_cap)
    alias(queue_manager, "A1", "Q1", CAPEXPRY=alias_cap)
    session.put("A1", b"x")
    assert shown_tenths(session, "Q1") == tenths


@pytest.mark.parametrize(
    ("custom", "tenths"),
    [("CAPEXPRY(20)", 20), ("CAPEXPRY(90)", 90), ("capexpry(20)", 20), ("CAPEXPRY(NOLIMIT)", -1)],
)
def test_X2_custom_form_wins_over_the_attribute(
    queue_manager: QueueManager, session: Session, custom: str, tenths: int
) -> None:
    local(queue_manager, CAPEXPRY=50, CUSTOM=custom)
    session.put("Q1", b"x")
    assert shown_tenths(session, "Q1") == tenths


def test_X2_migrated_in_one_step(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager, CUSTOM="CAPEXPRY(20)")
    alter(queue_manager, "Q1", CAPEXPRY=1_000, CUSTOM="")
    session.put("Q1", b"x")
    assert shown_tenths(session, "Q1") == 1_000


@pytest.mark.in_process
def test_X4_change_acts_on_later_puts_only(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    alias(queue_manager, "A1", "Q1")
    handle = session.open("A1", c.MQOO_OUTPUT)
    session.put("A1", b"before")
    administration.alter(queue_manager.engine, QALIAS, "A1", {"CAPEXPRY": 10})
    assert handle.path.cap_ms == 1_000
    session.put("A1", b"after")
    administration.alter(queue_manager.engine, QALIAS, "A1", {"CAPEXPRY": NO_LIMIT})
    assert [m.remaining_tenths for m in session.browse("Q1")] == [-1, 10]
    clock.advance(1_000)
    assert [m.body for m in session.browse("Q1")] == [b"before"]


def test_X4_D31_cap_set_during_the_delay_does_not_touch_a_staged_message(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    session.put("Q1", b"x", delay_ms=5_000)
    alter(queue_manager, "Q1", CAPEXPRY=10)
    clock.advance(5_000)
    assert shown_tenths(session, "Q1") == c.MQEI_UNLIMITED


def _fail_to_release(qm: QueueManager, session: Session, life_ms: int | None) -> None:
    session.put("Q1", b"x", delay_ms=1_000, time_to_live_ms=life_ms)
    alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)


def _fail_to_report(qm: QueueManager, session: Session, life_ms: int | None) -> None:
    """Report the arrival with the life that the message has."""
    report = c.MQRO_COA | c.MQRO_PASS_DISCARD_AND_EXPIRY
    session.put("Q1", b"x", report=report, reply_to_q="NOBODY", time_to_live_ms=life_ms)


def _fail_to_publish(qm: QueueManager, session: Session, life_ms: int | None) -> None:
    alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    admin_sub(qm, "S", "a", "Q1")
    session.publish("a", b"x", time_to_live_ms=life_ms)


def _fail_to_publish_later(qm: QueueManager, session: Session, life_ms: int | None) -> None:
    available_only(qm)
    alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    admin_sub(qm, "S", "a", "Q1")
    session.publish("a", b"x", delay_ms=1_000, time_to_live_ms=life_ms)


def _bury(qm: QueueManager, session: Session, life_ms: int | None) -> None:
    session.put("Q1", b"x", time_to_live_ms=life_ms)
    with qm.session(transacted=True) as other:
        message = other.get("Q1")
        assert message is not None
        put_dead_letter(qm.engine, other, message, rc.MQRC_BACKOUT_THRESHOLD_REACHED)


#: What dead-letters a message, and how long after its put.
WAYS_TO_FAIL = (
    (_fail_to_release, 1_000),
    (_fail_to_report, 0),
    (_fail_to_publish, 0),
    (_fail_to_publish_later, 1_000),
    (_bury, 0),
)


@pytest.mark.parametrize(
    ("fail", "after_ms"), WAYS_TO_FAIL, ids=[fail.__name__ for fail, _after_ms in WAYS_TO_FAIL]
)
@pytest.mark.parametrize("by_alias", [False, True], ids=["queue", "alias"])
@pytest.mark.parametrize("life_ms", [None, 60_000, 6_000, 5_999, 1_001])
def test_X1_X3_the_cap_of_the_dead_letter_queue_counts_from_the_put_there_whoever_puts(
    queue_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    fail: Callable[[QueueManager, Session, int | None], None],
    after_ms: int,
    by_alias: bool,
    life_ms: int | None,
) -> None:
    """A dead letter keeps its deadline (E21) unless the cap comes before it."""
    local(queue_manager)
    alter(queue_manager, DEAD, CAPEXPRY=-1 if by_alias else 50)
    alias(queue_manager, "DEAD.ALIAS", DEAD, CAPEXPRY=50)
    alter_manager(queue_manager, DEADQ="DEAD.ALIAS" if by_alias else DEAD)
    fail(queue_manager, session, life_ms)
    clock.advance(after_ms)
    [letter] = session.browse(DEAD)
    own_ms = 5_000 if life_ms is None else life_ms - after_ms
    left_ms = min(own_ms, 5_000)
    assert letter.remaining_ms == left_ms
    clock.advance(left_ms - 1)
    assert next(session.browse(DEAD)).remaining_ms == 1
    clock.advance(1)
    assert session.get(DEAD) is None


def test_X3_a_retained_publication_obeys_the_cap_of_its_queue(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    session.publish("a", b"first", retain=True)
    alter(queue_manager, RETAINED_QUEUE, CAPEXPRY=50)
    assert shown_tenths(session, RETAINED_QUEUE) == c.MQEI_UNLIMITED
    session.publish("a", b"second", retain=True)
    clock.advance(4_999)
    message = session.subscribe("a").get()
    assert message is not None
    assert (message.body, message.remaining_ms) == (b"second", 1)
    clock.advance(1)
    assert session.subscribe("a").get() is None


def test_X9_no_scan_by_default(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    session.put("Q1", b"x", time_to_live_ms=1)
    clock.advance(10 * 86_400_000)
    assert queue_manager.curdepth("Q1") == 1
    assert ends(queue_manager, "Q1") == []


def test_X9_scan_discards_at_its_interval_with_reports(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """First one interval after EXPRYINT is set; what expires at that very moment goes, too."""
    local(any_manager)
    local(any_manager, REPLIES)
    alter_manager(any_manager, EXPRYINT=5)
    with new_session(any_manager) as session:
        for life_ms in (1, 5_000, 5_001):
            session.put(
                "Q1",
                b"x",
                time_to_live_ms=life_ms,
                report=c.MQRO_EXPIRATION,
                reply_to_q=REPLIES,
                persistent=persistent,
            )
        clock.advance(4_999)
        assert (any_manager.curdepth("Q1"), any_manager.curdepth(REPLIES)) == (3, 0)
        clock.advance(1)
        assert (any_manager.curdepth("Q1"), any_manager.curdepth(REPLIES)) == (1, 2)
        clock.advance(4_999)
        assert any_manager.curdepth("Q1") == 1
        clock.advance(1)
        assert (any_manager.curdepth("Q1"), any_manager.curdepth(REPLIES)) == (0, 3)
    assert ends(any_manager, "Q1") == [
        End("expired", 5_000),
        End("expired", 5_000),
        End("expired", 10_000),
    ]


def test_X9_scan_leaves_locked_uncommitted_and_taken_messages(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    alter_manager(any_manager, EXPRYINT=1)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        handle = session.open("Q1", INPUT | BROWSE)
        for name in (b"locked", b"taken"):
            session.put("Q1", name, time_to_live_ms=500, persistent=persistent)
        take(handle, c.MQGMO_BROWSE_FIRST | c.MQGMO_LOCK)
        assert body(unit.get("Q1")) == b"taken"
        unit.put("Q1", b"uncommitted", time_to_live_ms=500, persistent=persistent)
        clock.advance(3_000)
        assert ends(any_manager, "Q1") == []
        unit.backout()
        handle.close()
        clock.advance(1_000)
        assert ends(any_manager, "Q1") == [End("expired", 4_000), End("expired", 4_000)]
    assert any_manager.curdepth("Q1") == 0


def test_X9_scans_that_can_find_nothing_are_passed_over(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """The interval goes on from where it was; a day without a deadline is one step."""
    local(any_manager)
    alter_manager(any_manager, EXPRYINT=5)
    with new_session(any_manager) as session:
        session.put("Q1", b"for ever", persistent=persistent)
        start_ms = clock.now_ms()
        clock.advance(3_600_000 + 2_000)
        assert any_manager.engine.due_work.next_due_ms() is None
        for life_ms in (7_999, 8_000, 8_001):
            session.put("Q1", b"x", time_to_live_ms=life_ms, persistent=persistent)
        clock.advance(2_000)
        # Scans are at 5, 10, 15 s: the one at 5 s finds nothing, that at 10 s the first two.
        assert any_manager.engine.due_work.next_due_ms() == start_ms + 3_600_000 + 10_000
        clock.advance(5_999)
        assert any_manager.curdepth("Q1") == 4
        clock.advance(1)
        assert any_manager.curdepth("Q1") == 2
        clock.advance(4_999)
        assert any_manager.curdepth("Q1") == 2
        clock.advance(1)
    assert ends(any_manager, "Q1") == [
        End("expired", 3_610_000),
        End("expired", 3_610_000),
        End("expired", 3_615_000),
    ]


def test_X9_scans_that_would_meet_locked_messages_only_are_passed_over(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """What is behind them is found at its time, and they are once they are given back."""
    local(any_manager)
    alter_manager(any_manager, EXPRYINT=5)
    start_ms = clock.now_ms()
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        for _ in range(3):
            session.put("Q1", b"x", time_to_live_ms=1_000, persistent=persistent)
            assert unit.get("Q1") is not None
        clock.advance(7_000)
        assert any_manager.engine.due_work.next_due_ms() is None
        session.put("Q1", b"y", time_to_live_ms=4_000, persistent=persistent)
        clock.advance(7_999)
        # What the put has led to is done; the scan at 10 s would have met locked ones only.
        assert any_manager.engine.due_work.next_due_ms() == start_ms + 15_000
        assert ends(any_manager, "Q1") == []
        clock.advance(1)
        assert ends(any_manager, "Q1") == [End("expired", 15_000)]
        clock.advance(DAY_MS)
        assert any_manager.engine.due_work.next_due_ms() is None
        unit.backout()
        assert any_manager.engine.due_work.next_due_ms() == start_ms + DAY_MS + 20_000
        clock.advance(4_999)
        assert any_manager.curdepth("Q1") == 3
        clock.advance(1)
        assert any_manager.curdepth("Q1") == 0


def test_X9_many_locked_messages_hide_none_that_is_not(
    queue_manager: QueueManager, session: Session, clock: VirtualClock, new_session: NewSession
) -> None:
    local(queue_manager)
    alter_manager(queue_manager, EXPRYINT=5)
    with new_session(queue_manager, transacted=True) as unit:
        for _ in range(101):
            session.put("Q1", b"x", time_to_live_ms=1_000)
            assert unit.get("Q1") is not None
        session.put("Q1", b"y", time_to_live_ms=2_000)
        clock.advance(5_000)
        assert len(ends(queue_manager, "Q1")) == 1
        unit.backout()
        clock.advance(5_000)
        assert queue_manager.curdepth("Q1") == 0


def test_X9_what_expired_while_it_was_taken_waits_for_the_next_scan(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    alter_manager(any_manager, EXPRYINT=5)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        session.put("Q1", b"x", time_to_live_ms=1_000, persistent=persistent)
        assert body(unit.get("Q1")) == b"x"
        clock.advance(12_000)
        unit.backout()
        assert any_manager.curdepth("Q1") == 1
        clock.advance(2_999)
        assert any_manager.curdepth("Q1") == 1
        clock.advance(1)
    assert ends(any_manager, "Q1") == [End("expired", 15_000)]


def test_X9_scan_switched_off_again(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    alter_manager(queue_manager, EXPRYINT=1)
    alter_manager(queue_manager, EXPRYINT=c.MQEXPI_OFF)
    session.put("Q1", b"x", time_to_live_ms=1)
    clock.advance(60_000)
    assert queue_manager.curdepth("Q1") == 1


def test_X9_many_expired_messages_in_one_scan(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """More than one batch of 1000, on both sides and several queues."""
    local(queue_manager)
    local(queue_manager, "Q2")
    for n in range(2_100):
        session.put(f"Q{n % 2 + 1}", b"x", time_to_live_ms=1 + n % 3, persistent=n % 5 == 0)
    alter_manager(queue_manager, EXPRYINT=1)
    clock.advance(1_000)
    assert queue_manager.curdepth("Q1") == queue_manager.curdepth("Q2") == 0
    assert len(ends(queue_manager, "Q1")) == len(ends(queue_manager, "Q2")) == 1_050


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("choice", "is_set", "fails"),
    [
        ("env", False, False),
        ("env", True, True),
        ("always", False, True),
        ("always", True, True),
        ("never", False, False),
        ("never", True, False),
    ],
)
def test_K1_switch_of_the_maximum(
    monkeypatch: pytest.MonkeyPatch,
    clock: VirtualClock,
    choice: str,
    is_set: bool,
    fails: bool,
    new_session: NewSession,
) -> None:
    if is_set:
        monkeypatch.setenv("AMQ_ENFORCE_MAX_EXPIRY_ERROR", "")
    qm = QueueManager("QM1", clock=clock, settings={"expiry.max_check": choice})
    with qm, new_session(qm) as session:
        local(qm)
        if fails:
            with refused(rc.MQRC_EXPIRY_ERROR):
                put_expiry(session, "Q1", 1_000_000_000)
        else:
            put_expiry(session, "Q1", 1_000_000_000)
        put_expiry(session, "Q1", 999_999_999)
        assert qm.curdepth("Q1") == 2 - fails


def _put(session: Session, life_ms: int) -> object:
    return session.put("Q1", b"x", time_to_live_ms=life_ms)


def _put_delayed(session: Session, life_ms: int) -> object:
    return session.put("Q1", b"x", time_to_live_ms=life_ms, delay_ms=1)


def _put_through_a_cap(session: Session, life_ms: int) -> object:
    """What is asked for counts, not what a cap would make of it."""
    return session.put("CAPPED", b"x", time_to_live_ms=life_ms)


def _put_by_handle(session: Session, life_ms: int) -> object:
    return put_md(session, "Q1", b"x", V2, life_ms=life_ms)


def _put_in_segments(session: Session, life_ms: int) -> object:
    cut = V2._replace(msg_flags=c.MQMF_SEGMENTATION_ALLOWED)
    return put_md(session, "SHORT", b"x" * 100, cut, life_ms=life_ms)


def _publish(session: Session, life_ms: int) -> object:
    return session.publish("a", b"x", time_to_live_ms=life_ms)


def _publish_by_alias(session: Session, life_ms: int) -> object:
    return session.put("TOPIC.ALIAS", b"x", time_to_live_ms=life_ms)


def _retain(session: Session, life_ms: int) -> object:
    return session.publish("a", b"x", time_to_live_ms=life_ms, retain=True)


WAYS_TO_PUT = (
    _put,
    _put_delayed,
    _put_through_a_cap,
    _put_by_handle,
    _put_in_segments,
    _publish,
    _publish_by_alias,
    _retain,
)


@pytest.mark.parametrize("put", WAYS_TO_PUT, ids=lambda way: way.__name__)
@pytest.mark.parametrize("choice", ["always", "never"])
@pytest.mark.parametrize("transacted", [False, True])
def test_E3_the_maximum_holds_for_whoever_puts(
    clock: VirtualClock,
    put: Callable[[Session, int], object],
    choice: str,
    transacted: bool,
    new_session: NewSession,
) -> None:
    """999,999,999 tenths to the millisecond; one more would show as 1,000,000,000."""
    qm = QueueManager("QM1", clock=clock, settings={"expiry.max_check": choice})
    queues = (local(qm), local(qm, "SHORT", MAXMSGL=48), local(qm, "CAPPED", CAPEXPRY=600))
    admin_sub(qm, "S", "#", "Q1")
    topic(qm, "A", "a")
    alias(qm, "TOPIC.ALIAS", "A", TARGTYPE=c.MQOT_TOPIC)

    def depth() -> int:
        return sum(qm.curdepth(name) for name in (*queues, STAGING))

    with qm, new_session(qm, transacted=transacted) as session:
        if choice == "always":
            with refused(rc.MQRC_EXPIRY_ERROR):
                put(session, MAX_MS + 1)
            session.commit()
            assert depth() == 0
            assert session.subscribe("a").get() is None
        else:
            put(session, MAX_MS + 1)
            session.commit()
            assert depth() > 0
        before = depth()
        put(session, MAX_MS)
        session.commit()
        assert depth() > before


def test_E3_the_error_names_the_life_and_the_maximum(
    clock: VirtualClock, new_session: NewSession
) -> None:
    qm = QueueManager("QM1", clock=clock, settings={"expiry.max_check": "always"})
    with qm, new_session(qm) as session:
        local(qm)
        said = "100000000000 ms, Expiry 1000000000, is above 999999999"
        with pytest.raises(MQError, match=said):
            session.put("Q1", b"x", time_to_live_ms=100_000_000_000)


def test_E3_what_is_there_already_keeps_its_life_and_is_put_on_for_as_long_as_it_may(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    """The rule is one of puts; E21 has a message that is put on go on, as far as a put can."""
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        local(qm)
        local(qm, "Q2")
        session.put("Q1", b"x", time_to_live_ms=MAX_MS + 60_000, persistent=True)
    strict = {"expiry.max_check": "always"}
    with QueueManager("QM1", tmp_path / "QM1", clock=clock, settings=strict) as qm:
        with new_session(qm, transacted=True) as session:
            message = session.get("Q1")
            assert message is not None
            assert message.remaining_ms == MAX_MS + 60_000
            forward(qm.engine, session, "Q2", message)
        with new_session(qm) as session:
            moved = session.get("Q2")
        assert moved is not None
        assert moved.remaining_ms == MAX_MS


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("choice", "is_set", "fails"),
    [("always", False, True), ("always", True, True), ("env", False, False), ("env", True, True)],
)
def test_K2_switch_of_zero(
    monkeypatch: pytest.MonkeyPatch,
    clock: VirtualClock,
    choice: str,
    is_set: bool,
    fails: bool,
    new_session: NewSession,
) -> None:
    """Where zero is accepted the message has expired at once."""
    if is_set:
        monkeypatch.setenv("AMQ_ENFORCE_MAX_EXPIRY_ERROR", "False")
    qm = QueueManager("QM1", clock=clock, settings={"expiry.zero_check": choice})
    with qm, new_session(qm) as session:
        local(qm)
        if fails:
            with refused(rc.MQRC_EXPIRY_ERROR):
                put_expiry(session, "Q1", 0)
        else:
            put_expiry(session, "Q1", 0)
            assert qm.counts("Q1").expired_present == 1
        assert session.get("Q1") is None
        assert ends(qm, "Q1") == ([] if fails else [End("expired", 0)])
        with refused(rc.MQRC_EXPIRY_ERROR):
            put_expiry(session, "Q1", -2)


@pytest.mark.parametrize("verb", ["get", "browse"])
@pytest.mark.parametrize("discards", [True, False])
def test_K7_switch_of_the_discard_by_a_call_that_finds_nothing(
    clock: VirtualClock, verb: str, discards: bool, new_session: NewSession
) -> None:
    """False: an expired message goes only on the way to a live one."""
    qm = QueueManager("QM1", clock=clock, settings={"expiry.discard_on_empty": discards})
    with qm, new_session(qm) as session:
        local(qm)
        session.put("Q1", b"x", time_to_live_ms=1)
        clock.advance(1)
        for _ in range(2):
            found = session.get("Q1") if verb == "get" else next(session.browse("Q1"), None)
            assert found is None
        assert qm.curdepth("Q1") == (0 if discards else 1)
        session.put("Q1", b"live")
        assert body(session.get("Q1")) == b"live"
        assert qm.curdepth("Q1") == 0
        assert sorted(end.outcome for end in ends(qm, "Q1")) == ["expired", "got"]
        assert qm.verify().ok


@pytest.mark.parametrize("by_id", [False, True], ids=["any", "CorrelId"])
@pytest.mark.parametrize("discards", [True, False])
def test_K7_an_own_uncommitted_put_is_a_live_one_and_what_is_ahead_of_it_goes(
    clock: VirtualClock, discards: bool, by_id: bool, new_session: NewSession
) -> None:
    """What stands behind it, and an own one that has expired itself, are left alone (E9, E17)."""
    qm = QueueManager("QM1", clock=clock, settings={"expiry.discard_on_empty": discards})
    wanted = b"C" if by_id else None
    with qm, new_session(qm) as session, new_session(qm, transacted=True) as unit:
        local(qm)
        session.put("Q1", b"ahead", correl_id=b"C", time_to_live_ms=1)
        unit.put("Q1", b"own, expired", correl_id=b"C", time_to_live_ms=1)
        unit.put("Q1", b"own", correl_id=b"C")
        session.put("Q1", b"behind", correl_id=b"C", time_to_live_ms=1)
        clock.advance(1)
        assert qm.curdepth("Q1") == 4
        assert body(unit.get("Q1", correl_id=wanted)) == b"own"
        assert qm.curdepth("Q1") == 2
        assert ends(qm, "Q1") == [End("expired", 1)]
        # Nothing alive is left: now the setting decides.
        assert unit.get("Q1", correl_id=wanted) is None
        assert qm.curdepth("Q1") == (1 if discards else 2)
        unit.backout()
        assert qm.curdepth("Q1") == (0 if discards else 1)
        assert ends(qm, "Q1") == [End("expired", 1)] * (1 + discards)
        assert qm.verify().ok


def test_K_unknown_setting_or_value_is_refused(clock: VirtualClock) -> None:
    for settings in (
        {"expiry.maximum": "env"},
        {"expiry.max_check": "sometimes"},
        {"ledger.retention_count": 0},
        {"ledger.retention_count": True},
        {"xqh.enforce_format": 0},
    ):
        with pytest.raises(ValueError, match=next(iter(settings))):
            QueueManager("QM1", clock=clock, settings=settings)


def test_X9_scan_meets_what_is_late_on_staging(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """Stuck on staging and expired there: the scan discards it as it would anywhere."""
    local(queue_manager)
    session.put("Q1", b"x", delay_ms=1_000, time_to_live_ms=1_500)
    alter(queue_manager, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    alter_manager(queue_manager, EXPRYINT=2)
    clock.advance(2_000)
    assert ends(queue_manager, STAGING) == [End("expired", 2_000)]
    assert queue_manager.counts("Q1").staged == 0


class SlowScan(ExpiryScan):
    """A scan that takes its time."""

    def __init__(self, qm: QueueManager, clock: VirtualClock, takes_ms: int) -> None:
        super().__init__(qm.engine)
        self._clock, self._takes_ms = clock, takes_ms
        self.began_ms: list[int] = []

    def discard_all(
        self,
        should_yield: Callable[[], bool] = lambda: False,
        is_wanted: Callable[[LocalQueue], bool] | None = None,
    ) -> bool:
        self.began_ms.append(self._clock.now_ms())
        self._clock.advance(self._takes_ms)
        return super().discard_all(should_yield, is_wanted)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("takes_ms", "pause_ms"),
    # One that takes longer than half of the interval ends when its turn is over.
    [(0, 1_000), (40, 960), (400, 600), (900, 1_500)],
)
def test_X9_a_scan_ends_an_interval_after_the_last_one_began(takes_ms: int, pause_ms: int) -> None:
    clock = VirtualClock()
    with QueueManager("QM1", clock=clock) as qm:
        assert qm.mqsc("DEFINE QLOCAL(Q1)\nALTER QMGR EXPRYINT(1)").ok
        # Nobody scans but the scan of this test.
        qm.engine.due_work.end()
        with qm.session() as session:
            queue = session.open("Q1", c.MQOO_OUTPUT)
            for life_ms in (*range(1, 4_000, 100), 3_600_000):
                queue.put(b"x", PutRequest(Descriptor(), life_ms=life_ms))
        scan = SlowScan(qm, clock, takes_ms)
        with qm.engine.engine_lock:
            assert scan.next_due_ms() == clock.now_ms() + 1_000
        while len(scan.began_ms) < 3:
            clock.advance(1)
            scan.run(lambda: False)
        first, second, third = scan.began_ms
        assert (second - first, third - second) == (pause_ms, pause_ms)
