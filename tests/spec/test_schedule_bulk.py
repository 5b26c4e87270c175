"""Changes of many delayed messages: each met once, order kept, in units of work, refused."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.delay import staging_queries
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import ScheduleFilter
from tests.over import NewSession
from tests.spec.scene import (
    STAGING,
    START_MS,
    End,
    alter,
    alter_manager,
    bodies,
    ends,
    local,
    refused,
)
from tests.spec.schedule_scene import (
    EVERYTHING,
    MANY,
    AnySchedule,
    due,
    order,
    pages,
    put_many,
)

#: Steps that are a fiftieth as long, and more messages than two of them. Tests that do not take
#: them do the same with the steps as they are. One message in five is persistent, so that a step
#: meets a quarter more messages than non-persistent ones.
SHORT, SOME = 20, 65
TURN = SHORT + SHORT // 4


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_queries, "STEP", SHORT)


BULK: dict[str, tuple[Callable[[AnySchedule], Iterator[int]], list[int]]] = {
    "later by": (lambda s: s.reschedule_all(EVERYTHING, by_ms=5_000), [15_000, 15_001, 15_002]),
    "later by less than the spread": (
        lambda s: s.reschedule_all(EVERYTHING, by_ms=1),
        [10_001, 10_002, 10_003],
    ),
    "earlier by": (lambda s: s.reschedule_all(EVERYTHING, by_ms=-4_000), [6_000, 6_001, 6_002]),
    "by nothing": (lambda s: s.reschedule_all(EVERYTHING, by_ms=0), [10_000, 10_001, 10_002]),
    "delay": (lambda s: s.reschedule_all(EVERYTHING, delay_ms=500), [500]),
    "to its last time": (lambda s: s.reschedule_all(EVERYTHING, delay_ms=10_002), [10_002]),
    "to its first time": (lambda s: s.reschedule_all(EVERYTHING, delay_ms=10_000), [10_000]),
    "to a time between": (lambda s: s.reschedule_all(EVERYTHING, delay_ms=10_001), [10_001]),
    "moment": (lambda s: s.reschedule_all(EVERYTHING, deliver_at_ms=START_MS + 70_000), [70_000]),
}


@pytest.mark.parametrize(
    ("way", "spread_ms"),
    [*((way, 3) for way in BULK), ("later by", 1), ("by nothing", 1), ("to its first time", 1)],
)
def test_bulk_reschedule_moves_each_once_and_keeps_their_order(
    queue_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    short_steps: None,
    way: str,
    spread_ms: int,
) -> None:
    """More messages than a batch; none is met twice, none is forgotten."""
    local(queue_manager)
    alter(queue_manager, "Q1", MAXDEPTH=SOME)
    put_many(session, SOME, spread_ms)
    call, times = BULK[way]
    before = order(session.schedule)
    done = list(islice(call(session.schedule), 10))
    assert done[-1] == SOME
    assert done == sorted(set(done))
    assert len(done) >= 3
    found = pages(session.schedule, 1_000)
    assert len(found) == SOME
    moments = sorted({m.deliver_at_ms - START_MS for m in found})
    assert moments == (times if spread_ms == 3 else times[:1])
    assert [m.msg_id for m in found] == before
    assert session.schedule.count("Q1") == SOME
    assert session.schedule.audit(1)[0].message_count <= TURN
    assert sum(e.message_count for e in session.schedule.audit(100)) == SOME


def test_bulk_reschedule_of_overdue_messages_ends_though_time_goes_on(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """Stuck on staging, each batch gets another moment; none is met twice (D21)."""
    local(queue_manager)
    put_many(session)
    alter(queue_manager, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    alter(queue_manager, STAGING, GET=c.MQQA_GET_INHIBITED)
    clock.advance(60_000)
    done = []
    for count in islice(session.schedule.reschedule_all(EVERYTHING, deliver_at_ms=START_MS), 10):
        done.append(count)
        clock.advance(1)
    assert done == [1_000, 2_000, MANY]


def test_bulk_release_and_cancel(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager, MAXDEPTH=MANY)
    put_many(session, MANY, spread_ms=7)
    clock.advance(1_000)
    fifth = ScheduleFilter(due_from_ms=START_MS + 10_005)
    cancelled = list(session.schedule.cancel_all(fifth))[-1]
    assert cancelled == len([n for n in range(MANY) if n % 7 >= 5])
    assert list(session.schedule.release_all(EVERYTHING))[-1] == MANY - cancelled
    expected = [b"%d" % n for n in sorted(range(MANY), key=lambda n: (n % 7, n)) if n % 7 < 5]
    assert bodies(session, "Q1") == expected
    assert set(ends(queue_manager, STAGING)) == {End("cancelled", 1_000), End("released", 1_000)}
    assert list(session.schedule.release_all(EVERYTHING)) == [0]
    assert session.schedule.count() == session.schedule.count("Q1") == 0


def test_bulk_does_nothing_until_it_is_iterated_and_no_more_than_that(
    queue_manager: QueueManager, session: Session
) -> None:
    """Each batch is done when it is counted."""
    local(queue_manager)
    put_many(session)
    running = session.schedule.cancel_all(EVERYTHING)
    assert session.schedule.count() == MANY
    assert next(running) == 1_000
    assert session.schedule.count() == MANY - 1_000


def test_bulk_reschedule_by_stops_at_now(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        for delay_ms in (3_000, 1_000, 2_000):
            session.put("Q1", b"%d" % delay_ms, delay_ms=delay_ms, persistent=persistent)
        clock.advance(500)
        assert list(session.schedule.reschedule_all(EVERYTHING, by_ms=-1_500)) == [3]
        assert bodies(session, "Q1") == [b"1000", b"2000"]
        assert due(session.schedule) == [1_500]


@pytest.mark.parametrize(("by_ms", "is_taken"), [(3_000, True), (3_001, False)])
def test_D7_bulk_reschedule_beyond_one_expiry_changes_nothing(
    any_manager: QueueManager, persistent: bool, by_ms: int, is_taken: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        session.put("Q1", b"free", delay_ms=1_000, persistent=persistent)
        session.put("Q1", b"bound", delay_ms=2_000, time_to_live_ms=5_000, persistent=persistent)
        if is_taken:
            assert list(session.schedule.reschedule_all(EVERYTHING, by_ms=by_ms)) == [2]
            assert due(session.schedule) == [1_000 + by_ms, 2_000 + by_ms]
        else:
            with refused(rc.MQRC_EXPIRY_ERROR):
                list(session.schedule.reschedule_all(EVERYTHING, by_ms=by_ms))
            assert due(session.schedule) == [1_000, 2_000]
            assert session.schedule.audit() == []


def test_D7_what_has_expired_on_staging_hinders_no_bulk_change(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """It is left to its discard."""
    local(queue_manager)
    session.put("Q1", b"over", delay_ms=1_000, time_to_live_ms=2_000)
    session.put("Q1", b"alive", delay_ms=60_000)
    alter(queue_manager, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    clock.advance(3_000)
    for by in ({"by_ms": 1_000}, {"delay_ms": 90_000}):
        assert list(session.schedule.reschedule_all(EVERYTHING, **by)) == [1]
    assert list(session.schedule.cancel_all(EVERYTHING)) == [1]
    clock.advance(60_000)
    assert [e.outcome for e in ends(queue_manager, STAGING)] == ["cancelled", "expired"]


NO_NUMBERS: list[Any] = [1.5, 0.0, True, "5", b"", 10**18, -(10**18), float("nan")]


@pytest.mark.parametrize("by", ["by_ms", "delay_ms", "deliver_at_ms"])
def test_bulk_reschedule_by_no_number_is_an_options_error(
    queue_manager: QueueManager, session: Session, by: str
) -> None:
    local(queue_manager)
    session.put("Q1", b"x", delay_ms=1_000)
    for value in NO_NUMBERS:
        with refused(rc.MQRC_OPTIONS_ERROR):
            list(session.schedule.reschedule_all(EVERYTHING, **{by: value}))
        assert due(session.schedule) == [1_000], value
    with refused(rc.MQRC_OPTIONS_ERROR):
        list(
            session.schedule.reschedule_all(
                EVERYTHING, by_ms=1, **{by: 1} if by != "by_ms" else {"delay_ms": 1}
            )
        )
    with refused(rc.MQRC_OPTIONS_ERROR):
        list(session.schedule.reschedule_all(EVERYTHING))
    assert due(session.schedule) == [1_000]


def test_bulk_reschedule_beyond_2109_is_an_options_error(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    session.put("Q1", b"x", delay_ms=1_000)
    with refused(rc.MQRC_OPTIONS_ERROR):
        list(session.schedule.reschedule_all(EVERYTHING, by_ms=2**42 - START_MS - 1_000))
    assert list(session.schedule.reschedule_all(EVERYTHING, by_ms=2**42 - START_MS - 1_001)) == [1]


@pytest.mark.parametrize("ends_by", ["commit", "backout"])
@pytest.mark.parametrize("action", ["cancel_all", "release_all", "reschedule_all"])
def test_bulk_change_in_a_unit_of_work_is_one_with_its_audit(
    queue_manager: QueueManager,
    session: Session,
    unit: Session,
    clock: VirtualClock,
    short_steps: None,
    action: str,
    ends_by: str,
) -> None:
    local(queue_manager, MAXDEPTH=SOME)
    put_many(session, SOME)
    more = {"by_ms": 5_000} if action == "reschedule_all" else {}
    before = order(session.schedule)
    texts = [b"%d" % n for n in range(SOME)]
    done = list(islice(getattr(unit.schedule, action)(EVERYTHING, **more), 10))
    assert done == [TURN, 2 * TURN, SOME]
    assert session.schedule.list() == []
    assert session.schedule.audit() == []
    getattr(unit, ends_by)()
    if ends_by == "backout":
        assert session.schedule.audit() == []
        assert order(session.schedule) == before
        clock.advance(10_000)
        assert bodies(session, "Q1") == texts
        return
    assert sum(e.message_count for e in session.schedule.audit()) == SOME
    if action == "reschedule_all":
        clock.advance(14_999)
        assert queue_manager.curdepth("Q1") == 0
        clock.advance(1)
    assert bodies(session, "Q1") == ([] if action == "cancel_all" else texts)


def test_bulk_change_that_fills_its_unit_of_work_is_audited_as_far_as_it_came(
    queue_manager: QueueManager, session: Session, unit: Session
) -> None:
    local(queue_manager)
    alter_manager(queue_manager, MAXUMSGS=3)
    put_many(session, 5)
    with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
        list(unit.schedule.cancel_all(EVERYTHING))
    unit.commit()
    assert session.schedule.count() == 2
    assert [e.message_count for e in session.schedule.audit()] == [3]
