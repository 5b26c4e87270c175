"""Changes of one delayed message: in units of work, by time and order, and what is refused."""

from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt, ScheduleFilter
from tests.over import NewSession
from tests.spec.authority_scene import ALICE, connect, grant
from tests.spec.scene import (
    BROWSE,
    STAGING,
    START_MS,
    End,
    alter_manager,
    bodies,
    ends,
    lives,
    local,
    refused,
    take,
)

R = Receipt
ALL_CHANGES = ("cancel", "reschedule", "release")


def change(session: Session, action: str, msg_id: bytes) -> Receipt:
    """Ask for one change."""
    if action == "cancel":
        return session.schedule.cancel(msg_id)
    if action == "release":
        return session.schedule.release(msg_id)
    return session.schedule.reschedule(msg_id, delay_ms=9_000)


def asked(session: Session, msg_id: bytes) -> set[Receipt]:
    """Ask for every change, twice; nothing may change any more."""
    return {change(session, action, msg_id) for action in ALL_CHANGES * 2}


@pytest.mark.parametrize("how", ["got", "cancelled", "rescheduled", "browse-locked"])
def test_locked_while_another_unit_of_work_or_a_browse_has_it(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    how: str,
    new_session: NewSession,
) -> None:
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        sent = session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
        if how == "got":
            unit.get(STAGING, correl_id=sent)
        elif how == "browse-locked":
            take(unit.open(STAGING, BROWSE), c.MQGMO_BROWSE_FIRST | c.MQGMO_LOCK)
        else:
            change(unit, how.removesuffix("led") if how == "cancelled" else "reschedule", sent)
        assert asked(session, sent) == {R.LOCKED}
        assert session.schedule.show(sent) is None
        assert session.schedule.list() == []
        unit.close(commit=False)
        assert session.schedule.show(sent) is not None
        assert session.schedule.cancel(sent) is R.CANCELLED


@pytest.mark.parametrize("ends_by", ["commit", "backout"])
def test_cancel_and_put_are_one_unit_of_work(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    ends_by: str,
    new_session: NewSession,
) -> None:
    """The new order replaces the old one: both or neither; the own cancel is known inside."""
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        old = session.put("Q1", b"old", delay_ms=1_000, persistent=persistent)
        assert unit.schedule.cancel(old) is R.CANCELLED
        new = unit.put("Q1", b"new", delay_ms=1_000, persistent=persistent)
        assert unit.schedule.cancel(old) is R.CANCELLED
        assert unit.schedule.cancel(new) is R.UNKNOWN
        getattr(unit, ends_by)()
        clock.advance(1_000)
        is_new = ends_by == "commit"
        assert bodies(session, "Q1") == [b"new" if is_new else b"old"]
        assert session.schedule.cancel(old) is (R.CANCELLED if is_new else R.ALREADY_RELEASED)
        assert session.schedule.cancel(new) is (R.ALREADY_RELEASED if is_new else R.UNKNOWN)


def test_cancel_backed_out_counts_as_a_backout_on_staging_only(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        sent = session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
        unit.schedule.cancel(sent)
        unit.backout()
        assert next(session.browse(STAGING)).backout_count == 1
        clock.advance(1_000)
        message = session.get("Q1")
        assert message is not None
        assert message.backout_count == 0
    assert [r.backout_count for r in lives(any_manager, STAGING)] == [1]
    assert [r.backout_count for r in lives(any_manager, "Q1")] == [0]


@pytest.mark.parametrize("held_ms", [0, 5_000])
def test_reschedule_backed_out_keeps_time_place_and_backout_count(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    held_ms: int,
    new_session: NewSession,
) -> None:
    """Due meanwhile it is released at once, between its neighbours of the same time."""
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        names = (b"a", b"b", b"c")
        sent = [session.put("Q1", n, delay_ms=1_000, persistent=persistent) for n in names]
        before = session.schedule.list()
        assert unit.schedule.reschedule(sent[1], delay_ms=60_000) is R.RESCHEDULED
        assert len(session.schedule.list()) == 2
        if held_ms:
            clock.advance(held_ms)
            assert any_manager.curdepth("Q1") == 2
        unit.backout()
        if held_ms:
            assert bodies(session, "Q1") == [b"a", b"c", b"b"]
            assert ends(any_manager, STAGING)[-1] == End("released", 5_000)
        else:
            assert session.schedule.list() == before
            assert [m.backout_count for m in session.browse(STAGING)] == [0, 0, 0]
            clock.advance(1_000)
            assert bodies(session, "Q1") == [b"a", b"b", b"c"]
        assert session.schedule.audit() == []


@pytest.mark.parametrize("ends_by", ["backout", "commit", "close"])
def test_reschedule_in_a_unit_of_work_leaves_nothing_counted_as_uncommitted(
    any_manager: QueueManager, persistent: bool, ends_by: str, new_session: NewSession
) -> None:
    """Neither the queue nor the order of its keys, whose memory is forgotten only at zero."""
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        sent = [session.put("Q1", b"x", delay_ms=1_000, persistent=persistent) for _ in range(3)]
        for msg_id in sent:
            assert unit.schedule.reschedule(msg_id, delay_ms=60_000) is R.RESCHEDULED
        assert any_manager.engine.registry.queue(STAGING).uncommitted_staged == 3
        (status,) = any_manager.mqsc(f"DISPLAY QSTATUS({STAGING}) UNCOM").rows
        assert status["UNCOM"] == "YES"
        if ends_by == "close":
            unit.close(commit=False)
        else:
            getattr(unit, ends_by)()
        assert any_manager.engine.registry.queue(STAGING).uncommitted_staged == 0
        (status,) = any_manager.mqsc(f"DISPLAY QSTATUS({STAGING}) UNCOM").rows
        assert status["UNCOM"] == "NO"
        counts = any_manager.counts(STAGING)
        assert (counts.uncommitted, counts.locked, any_manager.curdepth(STAGING)) == (0, 0, 3)
        assert any_manager.verify().ok


@pytest.mark.parametrize("late_ms", [0, 1, 60_000])
def test_reschedule_is_effective_at_the_commit(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    late_ms: int,
    new_session: NewSession,
) -> None:
    """Its old time is passed unheard; committed after the new one it is released at once."""
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        sent = session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
        unit.schedule.reschedule(sent, delay_ms=3_000)
        clock.advance(3_000 + late_ms)
        assert any_manager.curdepth("Q1") == 0
        unit.commit()
        assert bodies(session, "Q1") == [b"x"]
        assert ends(any_manager, STAGING) == [End("released", 3_000 + late_ms)]
        assert any_manager.counts("Q1").staged == 0


@pytest.mark.parametrize("by", ["delay_ms", "deliver_at_ms"])
@pytest.mark.parametrize("new_ms", [1, 500, 1_000, 90_000])
def test_reschedule_moves_the_delivery_time_earlier_or_later(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    new_ms: int,
    by: str,
    new_session: NewSession,
) -> None:
    """A delay runs from now, not from the put; visible at T, not at T-1."""
    local(any_manager)
    with new_session(any_manager) as session:
        sent = session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
        clock.advance(300)
        value = new_ms if by == "delay_ms" else START_MS + 300 + new_ms
        for _ in range(3):
            assert session.schedule.reschedule(sent, **{by: value}) is R.RESCHEDULED
        shown = session.schedule.show(sent)
        assert shown is not None
        assert (shown.put_ms, shown.deliver_at_ms) == (START_MS, START_MS + 300 + new_ms)
        clock.advance(new_ms - 1)
        assert session.get("Q1") is None
        clock.advance(1)
        assert bodies(session, "Q1") == [b"x"]


@pytest.mark.parametrize("moment_ms", [0, START_MS - 1, START_MS, START_MS + 400])
def test_reschedule_to_the_past_or_now_releases_at_once(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    moment_ms: int,
    new_session: NewSession,
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        sent = session.put("Q1", b"x", delay_ms=1_000, persistent=persistent)
        clock.advance(400)
        assert session.schedule.reschedule(sent, deliver_at_ms=moment_ms) is R.RESCHEDULED
        assert bodies(session, "Q1") == [b"x"]
        assert asked(session, sent) == {R.ALREADY_RELEASED}


@pytest.mark.parametrize(("delay_ms", "is_taken"), [(3_999, True), (4_000, True), (4_001, False)])
def test_D7_reschedule_beyond_the_expiry_is_refused_and_changes_nothing(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    delay_ms: int,
    is_taken: bool,
    new_session: NewSession,
) -> None:
    """Equal is allowed, as at the put."""
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        sent = session.put("Q1", b"x", delay_ms=2_000, time_to_live_ms=5_000, persistent=persistent)
        clock.advance(1_000)
        before = session.schedule.show(sent)
        if is_taken:
            assert session.schedule.reschedule(sent, delay_ms=delay_ms) is R.RESCHEDULED
            return
        for schedule in (session.schedule, unit.schedule):
            with refused(rc.MQRC_EXPIRY_ERROR):
                schedule.reschedule(sent, delay_ms=delay_ms)
            with refused(rc.MQRC_EXPIRY_ERROR):
                schedule.reschedule(sent, deliver_at_ms=START_MS + 1_000 + delay_ms)
        unit.commit()
        assert session.schedule.show(sent) == before
        assert session.schedule.audit() == []


NO_NUMBERS: list[Any] = [-1, 1.5, 0.0, True, False, "5", b"", 10**18, -(10**18), float("nan")]


@pytest.mark.parametrize("by", ["delay_ms", "deliver_at_ms"])
def test_reschedule_to_no_moment_is_an_options_error(
    queue_manager: QueueManager, session: Session, by: str
) -> None:
    local(queue_manager)
    sent = session.put("Q1", b"x", delay_ms=1_000)
    before = session.schedule.list()
    for value in NO_NUMBERS:
        with refused(rc.MQRC_OPTIONS_ERROR):
            session.schedule.reschedule(sent, **{by: value})
        assert (session.schedule.list(), session.schedule.audit()) == (before, []), value


def test_reschedule_wants_exactly_one_moment(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager)
    sent = session.put("Q1", b"x", delay_ms=1_000)
    with refused(rc.MQRC_OPTIONS_ERROR):
        session.schedule.reschedule(sent)
    with refused(rc.MQRC_OPTIONS_ERROR):
        session.schedule.reschedule(sent, delay_ms=1, deliver_at_ms=START_MS)
    assert session.schedule.reschedule(sent, deliver_at_ms=LATEST_DUE_MS) is R.RESCHEDULED
    with refused(rc.MQRC_OPTIONS_ERROR):
        session.schedule.reschedule(sent, deliver_at_ms=LATEST_DUE_MS + 1)


def test_rescheduled_ones_stand_behind_those_of_the_same_time_in_the_order_they_were_moved(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        a, b, d = (
            session.put("Q1", name, delay_ms=delay_ms, persistent=persistent)
            for name, delay_ms in ((b"a", 10), (b"b", 20), (b"d", 30))
        )
        session.put("Q1", b"at 25", delay_ms=25, persistent=persistent)
        for msg_id in (d, a, b, a):
            session.schedule.reschedule(msg_id, deliver_at_ms=START_MS + 25)
        session.put("Q1", b"last", delay_ms=25, persistent=not persistent)
        clock.advance(25)
        assert bodies(session, "Q1") == [b"at 25", b"d", b"b", b"a", b"last"]


def test_session_that_is_closed_has_no_schedule(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    session = new_session(queue_manager)
    schedule = session.schedule
    session.close()
    for call in (schedule.list, schedule.count, schedule.audit):
        with refused(rc.MQRC_HCONN_ERROR):
            call()
    for call_with_id in (schedule.show, schedule.cancel, schedule.release):
        with refused(rc.MQRC_HCONN_ERROR):
            call_with_id(b"M")


def test_unit_of_work_holds_no_more_changes_than_maxumsgs(
    queue_manager: QueueManager, session: Session, unit: Session
) -> None:
    local(queue_manager)
    alter_manager(queue_manager, MAXUMSGS=2)
    sent = [session.put("Q1", b"x", delay_ms=1_000) for _ in range(3)]
    assert unit.schedule.cancel(sent[0]) is R.CANCELLED
    assert unit.schedule.reschedule(sent[1], delay_ms=5_000) is R.RESCHEDULED
    for action in ALL_CHANGES:
        with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
            change(unit, action, sent[2])
    assert session.schedule.show(sent[2]) is not None
    unit.commit()
    assert [m.deliver_at_ms - START_MS for m in session.schedule.list()] == [1_000, 5_000]


DONE = {"cancel": R.CANCELLED, "reschedule": R.RESCHEDULED, "release": R.RELEASED}
OWN = b"M" * 24


def put_two(session: Session, **second: Any) -> None:
    """Put two messages of one MsgId, the persistent one for another queue."""
    session.put("Q1", b"first", delay_ms=1_000, msg_id=OWN)
    session.put("Q2", b"second", delay_ms=2_000, msg_id=OWN, persistent=True, **second)


@pytest.mark.parametrize("transacted", [False, True])
@pytest.mark.parametrize("action", ALL_CHANGES)
def test_D3_a_change_by_id_is_of_all_messages_of_that_id_and_says_how_many(
    any_manager: QueueManager,
    clock: VirtualClock,
    new_session: NewSession,
    action: str,
    transacted: bool,
) -> None:
    """The second time it has changed nothing more, and the audit has the number."""
    for name in ("Q1", "Q2"):
        local(any_manager, name)
    with new_session(any_manager) as session, new_session(any_manager, None, transacted) as unit:
        put_two(session)
        other = session.put("Q1", b"other", delay_ms=1_000)
        receipt = change(unit, action, OWN)
        assert (receipt, receipt.message_count) == (DONE[action], 2)
        if transacted:
            assert change(session, action, OWN) is R.LOCKED
            unit.commit()
        assert any_manager.counts("Q1").staged == (2 if action == "reschedule" else 1)
        assert any_manager.counts("Q2").staged == (1 if action == "reschedule" else 0)
        [entry] = [e for e in session.schedule.audit() if e.receipt == DONE[action]]
        assert (entry.msg_id, entry.message_count) == (OWN, 2)
        assert session.schedule.cancel(other) is R.CANCELLED
        clock.advance(2_000)
        arrived = [b"first", b"second"] if action == "release" else []
        assert bodies(session, "Q1") + bodies(session, "Q2") == arrived
        clock.advance(7_000)
        late = [b"first", b"second"] if action == "reschedule" else []
        assert bodies(session, "Q1") + bodies(session, "Q2") == late
        assert any_manager.verify().ok


@pytest.mark.parametrize("action", ALL_CHANGES)
def test_D3_one_message_of_an_id_that_is_locked_holds_up_the_others(
    any_manager: QueueManager, new_session: NewSession, action: str
) -> None:
    """Cancelled would mean that none of them is delivered."""
    for name in ("Q1", "Q2"):
        local(any_manager, name)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        put_two(session)
        taken = unit.get(STAGING, correl_id=OWN)
        assert taken is not None
        assert change(session, action, OWN) is R.LOCKED
        assert [m.deliver_at_ms - START_MS for m in session.schedule.list()] == [2_000]
        unit.backout()
        assert change(session, action, OWN).message_count == 2


def test_D7_one_message_of_an_id_that_cannot_have_the_time_refuses_it_for_all(
    any_manager: QueueManager, new_session: NewSession
) -> None:
    for name in ("Q1", "Q2"):
        local(any_manager, name)
    with new_session(any_manager) as session:
        put_two(session, time_to_live_ms=3_000)
        with refused(rc.MQRC_EXPIRY_ERROR):
            session.schedule.reschedule(OWN, delay_ms=3_001)
        assert [m.deliver_at_ms - START_MS for m in session.schedule.list()] == [1_000, 2_000]
        assert session.schedule.reschedule(OWN, delay_ms=3_000).message_count == 2


def test_D18_one_message_of_an_id_that_has_expired_is_not_counted(
    any_manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    for name in ("Q1", "Q2"):
        local(any_manager, name)
    with new_session(any_manager) as session:
        put_two(session, time_to_live_ms=2_000)
        session.schedule.reschedule(OWN, delay_ms=2_000)
        session.put("Q1", b"third", delay_ms=9_000, msg_id=OWN)
        clock.advance(2_000)
        assert session.schedule.cancel(OWN) is R.CANCELLED
        assert session.schedule.count() == 0
        assert bodies(session, "Q1") == [b"first"]


@pytest.mark.in_process
def test_D3_a_position_means_one_message_of_an_id(any_manager: QueueManager) -> None:
    """That of another message of the id has changed nothing."""
    for name in ("Q1", "Q2"):
        local(any_manager, name)
    with any_manager.session() as session:
        put_two(session)
        first, second = session.schedule.list()
        assert session.schedule.show(OWN) == first
        assert session.schedule.at(second.position).cancel(OWN) is R.CANCELLED
        assert session.schedule.list() == [first]
        with refused(rc.MQRC_OBJECT_CHANGED):
            session.schedule.at(second.position).cancel(OWN)


@pytest.mark.parametrize("action", ALL_CHANGES)
def test_D3_a_change_by_id_leaves_the_messages_of_other_senders_alone(
    any_manager: QueueManager, new_session: NewSession, action: str
) -> None:
    """They are changed with GET on the staging queue; without it nobody's id keeps others out."""
    for name in ("Q1", "Q2"):
        local(any_manager, name)
        grant(any_manager, "PUT", name, group="nobody")
    with connect(any_manager) as alice, connect(any_manager, "bob") as bob:
        bob.put("Q2", b"bob's", delay_ms=500, msg_id=OWN)
        put_two(alice)
        assert alice.schedule.list(ScheduleFilter(sender=ALICE))[0] == alice.schedule.show(OWN)
        assert change(alice, action, OWN).message_count == 2
        assert bob.schedule.show(OWN) is not None
        with connect(any_manager, "carl") as carl, refused(rc.MQRC_NOT_AUTHORIZED):
            change(carl, action, OWN)
        assert change(bob, action, OWN).message_count == 1
        put_two(alice)
        bob.put("Q2", b"bob's", delay_ms=500, msg_id=OWN)
        grant(any_manager, "GET", STAGING, to="carl")
        with connect(any_manager, "carl") as carl:
            expected = 6 if action == "reschedule" else 3
            assert change(carl, action, OWN).message_count == expected
