"""Times that a session takes: ms, a timedelta, a datetime, as a native client does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from mayfly import MQError, QueueManager
from mayfly.engine import Session
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import ScheduleFilter

#: The time of the clock at the start.
NOW = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def session(clock: VirtualClock) -> Iterator[Session]:
    with QueueManager("QM1", clock=clock) as qm, qm.session() as session:
        qm.define_queue("Q1")
        yield session


def due_ms(session: Session, clock: VirtualClock) -> list[int]:
    """Return how long each delayed message has to wait, in ms."""
    return [each.deliver_at_ms - clock.now_ms() for each in session.schedule.list()]


@pytest.mark.parametrize(
    ("delay", "delay_ms"),
    [
        (timedelta(seconds=1.5), 1_500),
        (timedelta(microseconds=1), 1),
        (NOW + timedelta(hours=1), 3_600_000),
        (NOW - timedelta(days=1), 1),
        (datetime(1970, 1, 1, tzinfo=UTC), 1),
    ],
)
def test_a_delay_is_a_timedelta_or_the_moment_of_delivery(
    session: Session, clock: VirtualClock, delay: timedelta | datetime, delay_ms: int
) -> None:
    session.subscribe("tea/green", queue="Q1")
    session.put("Q1", b"x", delay_ms=delay)
    session.put("Q1", b"x", delay_ms=delay, key="k")
    session.publish("tea/green", b"x", delay_ms=delay)
    assert due_ms(session, clock) == [delay_ms, delay_ms, delay_ms]
    clock.advance(timedelta(milliseconds=delay_ms))
    assert len(session.get_many("Q1", 9, wait_ms=timedelta(0))) == 3


def test_a_time_to_live_is_a_timedelta(session: Session, clock: VirtualClock) -> None:
    minute = timedelta(minutes=1)
    subscription = session.subscribe("tea/green", time_to_live_ms=2 * minute)
    assert subscription.expire_at_ms == clock.now_ms() + 120_000
    session.put("Q1", b"x", time_to_live_ms=minute)
    session.publish("tea/green", b"x", time_to_live_ms=minute)
    for message in (
        session.get("Q1", wait_ms=minute),
        subscription.get(wait_ms=minute),
    ):
        assert message is not None
        assert message.remaining_ms == 60_000


def test_a_datetime_without_a_time_zone_is_refused(session: Session) -> None:
    naive = NOW.replace(tzinfo=None)
    with pytest.raises(ValueError, match=r"delay_ms datetime.datetime\(.* has no time zone"):
        session.put("Q1", b"x", delay_ms=naive)
    with pytest.raises(ValueError, match=r"deliver_at_ms .* has no time zone"):
        session.schedule.reschedule("0a", deliver_at_ms=naive)
    assert session.schedule.list("Q1") == []


def test_E2_a_timedelta_of_nothing_is_no_time_to_live_and_a_negative_one_no_delay(
    session: Session,
) -> None:
    with pytest.raises(MQError) as caught:
        session.put("Q1", b"x", time_to_live_ms=timedelta(0))
    assert caught.value.reason == rc.MQRC_EXPIRY_ERROR
    with pytest.raises(MQError) as caught:
        session.put("Q1", b"x", delay_ms=timedelta(seconds=-1))
    assert caught.value.reason == rc.MQRC_OPTIONS_ERROR


def test_the_schedule_takes_them_too(session: Session, clock: VirtualClock) -> None:
    msg_id, schedule = session.put("Q1", b"x", delay_ms=1_000), session.schedule
    assert schedule.reschedule(msg_id, delay_ms=timedelta(minutes=1)) == "rescheduled"
    assert due_ms(session, clock) == [60_000]
    assert schedule.reschedule(msg_id, deliver_at_ms=NOW + timedelta(hours=1)) == "rescheduled"
    assert due_ms(session, clock) == [3_600_000]
    assert list(schedule.reschedule_all(ScheduleFilter("Q1"), by_ms=timedelta(hours=1))) == [1]
    assert due_ms(session, clock) == [7_200_000]
