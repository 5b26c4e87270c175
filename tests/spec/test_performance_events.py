"""Performance events: depth, service interval and statistics (V1-V8)."""

from __future__ import annotations

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.mqi import constants as c
from mayfly.mqi import event_constants as e
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from tests.spec.event_scene import PERFORMANCE, SeenEvent, reasons, seen, turned_on
from tests.spec.scene import START_MS, alter

HIGH, LOW = e.MQRC_Q_DEPTH_HIGH, e.MQRC_Q_DEPTH_LOW
FULL, SLOW, GOOD = rc.MQRC_Q_FULL, e.MQRC_Q_SERVICE_INTERVAL_HIGH, e.MQRC_Q_SERVICE_INTERVAL_OK
STATISTICS = (
    e.MQIA_TIME_SINCE_RESET,
    e.MQIA_HIGH_Q_DEPTH,
    e.MQIA_MSG_ENQ_COUNT,
    e.MQIA_MSG_DEQ_COUNT,
)


@pytest.fixture
def watched(manager: QueueManager) -> QueueManager:
    """The queue manager with performance events, and Q1 of ten messages with Queue Depth High."""
    script = "ALTER QMGR PERFMEV(ENABLED)\nALTER QLOCAL(Q1) MAXDEPTH(10) QDPHIEV(ENABLED)"
    turned_on(manager, f"{script} QDPMAXEV(DISABLED)")
    return manager


def put(session: Session, count: int = 1) -> None:
    for _ in range(count):
        session.put("Q1", b"x")


def get(session: Session, count: int = 1) -> None:
    for _ in range(count):
        assert session.get("Q1") is not None


def statistics(event: SeenEvent) -> list[object]:
    return [event.value(each) for each in STATISTICS]


def test_V1_an_event_is_a_datagram_of_format_mqevent_with_its_parameters_in_order(
    watched: QueueManager, session: Session
) -> None:
    put(session, 8)
    (event,) = seen(session)
    descriptor = event.message.descriptor
    assert (descriptor.msg_type, descriptor.format) == (c.MQMT_DATAGRAM, "MQEVENT")
    assert event.message.remaining_ms is None
    assert (descriptor.put_appl_type, descriptor.put_appl_name) == (c.MQAT_QMGR, watched.name)
    assert descriptor.persistence == c.MQPER_NOT_PERSISTENT
    header = event.content.header
    assert (header.type, header.command, header.version) == (
        e.MQCFT_EVENT,
        e.MQCMD_PERFM_EVENT,
        1,
    )
    assert (header.comp, header.reason) == (c.MQCC_WARNING, HIGH)
    assert event.parameters == [c.MQCA_Q_MGR_NAME, e.MQCA_BASE_Q_NAME, *STATISTICS]
    assert event.content.structures[1].value == b"Q1".ljust(48)


def test_V1_an_event_has_the_default_persistence_of_its_queue_and_no_unit_of_work(
    watched: QueueManager, session: Session, unit: Session
) -> None:
    alter(watched, PERFORMANCE, DEFPSIST=c.MQPER_PERSISTENT)
    for _ in range(8):
        unit.put("Q1", b"x")
    unit.backout()
    (event,) = seen(session)
    assert event.message.descriptor.persistence == c.MQPER_PERSISTENT


@pytest.mark.parametrize("trouble", ["DELETE QLOCAL({})", "ALTER QLOCAL({}) PUT(DISABLED)"])
def test_V2_an_event_whose_queue_is_missing_or_refuses_it_is_lost_and_nothing_else(
    watched: QueueManager, session: Session, trouble: str
) -> None:
    turned_on(watched, trouble.format(PERFORMANCE))
    put(session, 10)
    assert watched.curdepth("Q1") == 10
    with pytest.raises(MQError) as raised:
        put(session)
    assert raised.value.reason == FULL
    assert watched.curdepth("SYSTEM.DEAD.LETTER.QUEUE") == 0


def test_V2_a_full_event_queue_loses_the_event(watched: QueueManager, session: Session) -> None:
    alter(watched, PERFORMANCE, MAXDEPTH=1)
    put(session, 8)
    get(session, 6)
    assert reasons(session) == [HIGH]


def test_V3_depth_high_comes_at_the_limit_and_enables_low_and_full_in_its_place(
    watched: QueueManager, session: Session
) -> None:
    put(session, 7)
    assert reasons(session) == []
    put(session)
    assert reasons(session) == [HIGH]
    get(session)
    put(session)
    assert reasons(session) == []
    shown = watched.mqsc("DISPLAY QLOCAL(Q1) QDPHIEV QDPLOEV QDPMAXEV").rows[0]
    assert (shown["QDPHIEV"], shown["QDPLOEV"], shown["QDPMAXEV"]) == (
        "DISABLED",
        "ENABLED",
        "ENABLED",
    )


def test_V4_depth_low_comes_at_its_limit_from_above_and_enables_high_and_full(
    watched: QueueManager, session: Session
) -> None:
    put(session, 8)
    get(session, 5)
    assert reasons(session) == [HIGH]
    get(session)
    assert reasons(session) == [LOW]
    get(session)
    put(session, 7)
    assert reasons(session) == [HIGH]


def test_V5_full_comes_when_a_put_is_refused_and_enables_low_alone(
    watched: QueueManager, session: Session
) -> None:
    put(session, 10)
    assert reasons(session) == [HIGH]
    for _ in range(2):
        with pytest.raises(MQError):
            put(session)
    assert reasons(session) == [FULL]
    get(session, 8)
    assert reasons(session) == [LOW]


def test_V3_puts_of_a_unit_of_work_count_when_they_are_made(
    watched: QueueManager, session: Session, unit: Session
) -> None:
    for _ in range(8):
        unit.put("Q1", b"x")
    assert reasons(session) == [HIGH]
    for _ in range(6):
        assert unit.get("Q1") is not None
    assert reasons(session) == [LOW]
    unit.backout()
    assert watched.curdepth("Q1") == 0


def test_V7_statistics_are_those_since_the_last_event_or_reset(
    watched: QueueManager, session: Session, clock: VirtualClock
) -> None:
    put(session, 3)
    get(session, 2)
    clock.advance(2_500)
    put(session, 7)
    (event,) = seen(session)
    assert statistics(event) == [2, 8, 10, 2]
    put(session)
    clock.advance(999)
    get(session, 7)
    (event,) = seen(session)
    assert statistics(event) == [0, 9, 1, 7]
    clock.advance(1_000)
    put(session)
    result = watched.mqsc("RESET QSTATS(Q1)")
    assert result.ok
    assert {k: result.rows[0][k] for k in ("MSGSIN", "MSGSOUT", "HIQDEPTH", "RESETINT")} == {
        "MSGSIN": 1,
        "MSGSOUT": 0,
        "HIQDEPTH": 3,
        "RESETINT": 1,
    }
    assert watched.mqsc("RESET QSTATS(Q1)").rows[0]["MSGSIN"] == 0


def test_V7_without_performance_events_there_are_no_statistics(
    manager: QueueManager, session: Session
) -> None:
    result = manager.mqsc("RESET QSTATS(Q1)")
    assert not result.ok
    assert result.commands[0].messages[0].reason == e.MQRCCF_EVENTS_DISABLED


def test_V8_an_expired_message_counts_until_its_discard_which_is_a_removal(
    watched: QueueManager, session: Session, clock: VirtualClock
) -> None:
    for _ in range(6):
        session.put("Q1", b"x", time_to_live_ms=1_000)
    clock.advance(2_000)
    put(session, 2)
    (event,) = seen(session)
    assert (event.reason, statistics(event)) == (HIGH, [2, 8, 8, 0])
    # This get passes six expired messages: their discards lower the depth to one.
    get(session)
    (event,) = seen(session)
    assert (event.reason, statistics(event)) == (LOW, [0, 8, 0, 6])


def test_V8_a_scan_that_discards_makes_the_queue_low(
    watched: QueueManager, session: Session, clock: VirtualClock
) -> None:
    turned_on(watched, "ALTER QMGR EXPRYINT(5)")
    for _ in range(8):
        session.put("Q1", b"x", time_to_live_ms=1_000)
    clock.advance(10_000)
    assert reasons(session) == [HIGH, LOW]


@pytest.fixture
def serviced(watched: QueueManager) -> QueueManager:
    """The same with a service interval of one second, of which High may come first."""
    turned_on(watched, "ALTER QLOCAL(Q1) QDPHIEV(DISABLED) QSVCINT(1000) QSVCIEV(HIGH)")
    return watched


@pytest.mark.parametrize(("wait_ms", "expected"), [(999, []), (1_000, []), (1_001, [SLOW])])
def test_V6_high_comes_when_more_than_the_interval_has_passed_without_a_get(
    serviced: QueueManager, session: Session, clock: VirtualClock, wait_ms: int, expected: list[int]
) -> None:
    put(session)
    clock.advance(wait_ms)
    assert reasons(session) == expected


@pytest.mark.parametrize(("wait_ms", "expected"), [(999, [GOOD]), (1_000, [GOOD]), (1_001, [])])
def test_V6_ok_comes_with_a_get_within_the_interval(
    serviced: QueueManager, session: Session, clock: VirtualClock, wait_ms: int, expected: list[int]
) -> None:
    turned_on(serviced, "ALTER QLOCAL(Q1) QSVCIEV(OK)")
    put(session)
    clock.advance(wait_ms)
    get(session)
    assert reasons(session) == expected


def test_V6_high_and_ok_take_turns(
    serviced: QueueManager, session: Session, clock: VirtualClock
) -> None:
    put(session, 2)
    clock.advance(5_000)
    assert reasons(session) == [SLOW]
    # The get after the interval starts the timer again, for a message is left.
    get(session)
    clock.advance(1_000)
    get(session)
    assert reasons(session) == [GOOD]
    clock.advance(60_000)
    assert reasons(session) == []
    put(session)
    clock.advance(1_001)
    assert reasons(session) == [SLOW]


def test_V6_the_timer_of_a_queue_with_messages_starts_with_the_queue_manager() -> None:
    clock = VirtualClock(START_MS)
    with QueueManager("QM1", clock=clock) as manager, manager.session() as session:
        turned_on(manager, "DEFINE QLOCAL(Q1) QSVCINT(1000) QSVCIEV(HIGH)")
        put(session)
        clock.advance(5_000)
        turned_on(manager, "ALTER QMGR PERFMEV(ENABLED)")
        clock.advance(1_000)
        assert reasons(session) == []
        clock.advance(1)
        assert reasons(session) == [SLOW]
        turned_on(manager, "ALTER QMGR PERFMEV(DISABLED)")
        assert manager.engine.registry.queue("Q1").statistics is None
