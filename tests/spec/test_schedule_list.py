"""The list of delayed messages and its filters, how many there are, and who changed them."""

from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import AuditEntry, Receipt, Scheduled, ScheduleFilter
from tests.over import NewSession
from tests.spec.scene import (
    STAGING,
    START_MS,
    ZERO_ID,
    alias,
    local,
    refused,
)
from tests.spec.schedule_scene import EVERYTHING, MANY, pages, put_many, put_rfh2, with_properties


def test_list_tells_everything_of_a_message(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    alias(any_manager, "A1", "Q1")
    clock.advance(50)
    with new_session(any_manager, "carl") as session:
        sent = session.put(
            "A1",
            b"12345",
            delay_ms=1_000,
            time_to_live_ms=9_000,
            correl_id=b"mine",
            priority=7,
            persistent=persistent,
        )
        session.put("Q1", b"", delay_ms=2_000, persistent=persistent)
        first, second = session.schedule.list()
        assert session.schedule.show(sent) == first
    put_ms = START_MS + 50
    assert first == Scheduled(
        first.position,
        sent,
        b"mine".ljust(24, b"\0"),
        "A1",
        put_ms,
        put_ms + 1_000,
        put_ms + 9_000,
        7,
        persistent,
        5,
        "carl",
    )
    assert (second.target, second.correl_id, second.expire_at_ms) == ("Q1", ZERO_ID, None)
    assert first.position < second.position < 0


@pytest.mark.parametrize(
    ("count", "limits"), [(90, [1, 7, 20]), (MANY, [999, 1_000, 1_001, 5_000])]
)
def test_list_pages_over_both_sides_in_due_then_put_order(
    queue_manager: QueueManager, session: Session, count: int, limits: list[int]
) -> None:
    """Also around the number of rows that one step looks at."""
    local(queue_manager)
    put_many(session, count, spread_ms=3)
    expected = sorted(range(count), key=lambda n: (n % 3, n))
    texts = [m.body[208:] for m in session.browse(STAGING)]
    assert texts == [b"%d" % n for n in expected]
    for limit in limits:
        found = pages(session.schedule, limit)
        assert [m.deliver_at_ms - START_MS - 10_000 for m in found] == [n % 3 for n in expected]
        assert [m.persistent for m in found] == [n % 5 == 0 for n in expected]
        assert len({m.msg_id for m in found}) == session.schedule.count() == count


def test_list_page_goes_on_where_it_was_whatever_happens_meanwhile(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    put_many(session, 10, spread_ms=10)
    first = session.schedule.list(limit=4)
    session.schedule.cancel(first[-1].msg_id)
    session.put("Q1", b"early", delay_ms=1)
    second = session.schedule.list(limit=100, after=first[-1].position)
    assert [m.deliver_at_ms - START_MS - 10_000 for m in second] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("limit", [0, -1, 2**63 - 1, 10**30, "5", 1.0, True])
def test_list_and_audit_want_a_limit(session: Session, limit: Any) -> None:
    with refused(rc.MQRC_OPTIONS_ERROR):
        session.schedule.list(limit=limit)
    with refused(rc.MQRC_OPTIONS_ERROR):
        session.schedule.audit(limit)


@pytest.mark.parametrize("after", [2**63 - 1, -(2**63), 10**30, "1", b"id"])
def test_list_wants_a_position_that_can_be_one(session: Session, after: Any) -> None:
    with refused(rc.MQRC_OPTIONS_ERROR):
        session.schedule.list(after=after)


FILTERS: list[tuple[ScheduleFilter, list[bytes]]] = [
    (EVERYTHING, [b"1", b"2", b"3", b"4"]),
    (ScheduleFilter(queue="Q1"), [b"1", b"3"]),
    (ScheduleFilter(queue="A1"), [b"4"]),
    (ScheduleFilter(queue="q1"), []),
    (ScheduleFilter(sender="anna"), [b"1", b"2"]),
    (ScheduleFilter(sender=""), []),
    (ScheduleFilter(sender="bert", queue="Q1"), [b"3"]),
    (ScheduleFilter(due_from_ms=START_MS + 2_000), [b"2", b"3", b"4"]),
    (ScheduleFilter(due_from_ms=START_MS + 2_001), [b"3", b"4"]),
    (ScheduleFilter(due_before_ms=START_MS + 3_000), [b"1", b"2"]),
    (ScheduleFilter(due_before_ms=START_MS + 3_001), [b"1", b"2", b"3"]),
    (ScheduleFilter(due_from_ms=START_MS + 2_000, due_before_ms=START_MS + 2_001), [b"2"]),
    (ScheduleFilter(due_from_ms=START_MS + 2_000, due_before_ms=START_MS + 2_000), []),
    (ScheduleFilter(due_from_ms=START_MS + 4_000, due_before_ms=START_MS), []),
    (ScheduleFilter(due_from_ms=-5, due_before_ms=10**18), [b"1", b"2", b"3", b"4"]),
    (ScheduleFilter(due_from_ms=10**18), []),
    (ScheduleFilter(due_before_ms=-1), []),
]


@pytest.mark.parametrize(("where", "expected"), FILTERS)
def test_filters_of_queue_sender_and_delivery_time(
    any_manager: QueueManager,
    persistent: bool,
    where: ScheduleFilter,
    expected: list[bytes],
    new_session: NewSession,
) -> None:
    """The queue is the one named at the put; the range is half-open. All changes mean the same."""
    local(any_manager)
    local(any_manager, "Q2")
    alias(any_manager, "A1", "Q1")
    ids = {}
    senders = [("anna", "Q1"), ("anna", "Q2"), ("bert", "Q1"), ("bert", "A1")]
    for n, (user, queue) in enumerate(senders, 1):
        with new_session(any_manager, user) as session:
            name = b"%d" % n
            sent = session.put(queue, name, delay_ms=n * 1_000, persistent=persistent)
            ids[sent] = name
    with new_session(any_manager) as admin:
        assert [ids[m.msg_id] for m in admin.schedule.list(where)] == expected
        assert list(admin.schedule.cancel_all(where)) == [len(expected)]
        left = [name for name in ids.values() if name not in expected]
        assert [ids[m.msg_id] for m in admin.schedule.list()] == left


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ((("color", "red"),), [0, 1]),
        ((("color", "red"), ("size", "5")), [1]),
        ((("ok", "true"),), [2]),
        ((("ok", "True"),), []),
        ((("color", ""),), []),
        ((("shape", "red"),), []),
        ((("size", "5"),), [1]),
    ],
)
def test_filter_by_message_properties_compares_text(
    queue_manager: QueueManager,
    session: Session,
    persistent: bool,
    properties: tuple[tuple[str, str], ...],
    expected: list[int],
) -> None:
    """Messages without properties, or with a damaged MQRFH2, have none and disturb nobody."""
    local(queue_manager)
    sent = [
        put_rfh2(session, with_properties(usr), persistent)
        for usr in (
            "<color>red</color>",
            "<color>red</color><size dt='i4'>5</size>",
            "<ok dt='boolean'>1</ok>",
        )
    ]
    session.put("Q1", b"color red", delay_ms=1_000)
    session.put("Q1", with_properties("<color>red</color>")[:50], delay_ms=1, format_name="MQHRF2")
    found = session.schedule.list(ScheduleFilter(properties=properties))
    assert [sent.index(m.msg_id) for m in found] == expected


def test_count_is_of_the_queue_the_target_led_to(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    local(any_manager, "Q2")
    alias(any_manager, "A1", "Q1")
    with new_session(any_manager) as session:
        for queue, delay_ms in (("Q1", 10), ("A1", 20), ("Q2", 30)):
            session.put(queue, b"x", delay_ms=delay_ms, persistent=persistent)
        schedule = session.schedule
        assert [schedule.count(q) for q in (None, "Q1", "A1", "Q2")] == [3, 2, 2, 1]
        with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
            schedule.count("NOBODY")
        clock.advance(10)
        assert [schedule.count(q) for q in (None, "Q1", "A1", "Q2")] == [2, 1, 1, 1]


def test_audit_says_who_did_what_when_to_which_message_newest_first(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager, "carl") as session:
        one, two, three = (
            session.put("Q1", b"x", delay_ms=60_000, persistent=persistent) for _ in range(3)
        )
        session.schedule.cancel(one)
        clock.advance(5)
        session.schedule.reschedule(two, delay_ms=500)
        session.schedule.release(two)
        session.schedule.cancel(two)
        session.schedule.cancel(b"nobody")
        list(session.schedule.cancel_all(ScheduleFilter(queue="Q1")))
        # Asked again nothing changes, and nothing is noted.
        session.schedule.cancel(one)
        session.schedule.show(three)
        found = session.schedule.audit()
        assert session.schedule.audit(2) == found[:2]
    now_ms = START_MS + 5
    nobody = b"nobody".ljust(24, b"\0")
    assert found[::-1] == [
        AuditEntry(START_MS, "carl", "cancel", one, "", "cancelled", 1),
        AuditEntry(now_ms, "carl", "reschedule", two, f"to {now_ms + 500}", "rescheduled", 1),
        AuditEntry(now_ms, "carl", "release", two, "", "released", 1),
        AuditEntry(now_ms, "carl", "cancel", two, "", "already-released", 0),
        AuditEntry(now_ms, "carl", "cancel", nobody, "", "unknown", 0),
        AuditEntry(now_ms, "carl", "cancel", b"", "queue=Q1", "cancelled", 1),
    ]


def test_audit_is_in_the_unit_of_work_of_the_change(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with (
        new_session(any_manager) as session,
        new_session(any_manager, "carl", transacted=True) as unit,
    ):
        sent = session.put("Q1", b"x", delay_ms=60_000, persistent=persistent)
        for end in (unit.backout, unit.commit):
            assert unit.schedule.reschedule(sent, delay_ms=500) is Receipt.RESCHEDULED
            assert unit.schedule.cancel(b"nobody") is Receipt.UNKNOWN
            assert session.schedule.audit() == []
            end()
        assert [(e.user, e.action) for e in session.schedule.audit()] == [
            ("carl", "cancel"),
            ("carl", "reschedule"),
        ]
