"""Times that a native client takes: ms, a timedelta, a datetime."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

import mayfly
from mayfly import MQError
from mayfly.client import Client
from mayfly.client.connection.endpoint import Reconnect
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from mayfly.verbs.schedule import ScheduleFilter
from tests.client.conftest import MakeClient

#: The time of the clock at the start.
NOW = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def due_ms(client: Client, clock: VirtualClock) -> list[int]:
    """Return how long each delayed message has to wait, in ms."""
    return [each.deliver_at_ms - clock.now_ms() for each in client.schedule.list("Q1")]


@pytest.mark.parametrize(
    ("delay", "delay_ms"),
    [
        (1_500, 1_500),
        (timedelta(seconds=1.5), 1_500),
        (timedelta(microseconds=1), 1),
        (NOW + timedelta(hours=1), 3_600_000),
        (datetime(2023, 11, 15, 0, 13, 20, tzinfo=timezone(timedelta(hours=1))), 3_600_000),
        (NOW - timedelta(days=1), 1),
    ],
)
def test_a_delay_is_ms_a_timedelta_or_the_moment_of_delivery(
    client: Client, clock: VirtualClock, delay: int | timedelta | datetime, delay_ms: int
) -> None:
    client.put("Q1", b"x", delay_ms=delay)
    client.put_many("Q1", [b"y"], delay_ms=delay)
    assert due_ms(client, clock) == [delay_ms, delay_ms]


def test_a_time_to_live_is_ms_or_a_timedelta(client: Client) -> None:
    client.put("Q1", b"x", time_to_live_ms=timedelta(minutes=1))
    client.put_many("Q1", [b"y"], time_to_live_ms=timedelta(minutes=2))
    assert [message.remaining_ms for message in client.browse("Q1")] == [60_000, 120_000]


def test_a_wait_and_the_life_of_a_subscription_are_ms_or_a_timedelta(client: Client) -> None:
    subscription = client.subscribe("tea/green", time_to_live_ms=timedelta(minutes=1))
    assert subscription.facts.expiry_tenths == 600
    client.publish("tea/green", b"x")
    client.put("Q1", b"1")
    client.put("Q1", b"2")
    second = timedelta(seconds=1)
    first = client.get("Q1", wait_ms=second)
    assert first is not None
    assert first.body == b"1"
    assert [message.body for message in client.get_many("Q1", 2, wait_ms=second)] == [b"2"]
    assert subscription.get(wait_ms=second) is not None
    assert client.get("Q1", wait_ms=timedelta(0)) is None


def test_a_datetime_without_a_time_zone_is_refused(client: Client) -> None:
    delay = NOW.replace(tzinfo=None)
    with pytest.raises(ValueError, match=r"delay_ms datetime.datetime\(.* has no time zone"):
        client.put("Q1", b"x", delay_ms=delay)
    with pytest.raises(ValueError, match=r"deliver_at_ms .* has no time zone"):
        client.schedule.reschedule("0a", deliver_at_ms=delay)
    assert client.schedule.list("Q1") == []


def test_E2_a_timedelta_of_nothing_is_no_time_to_live_and_a_negative_one_no_delay(
    client: Client,
) -> None:
    with pytest.raises(MQError) as caught:
        client.put("Q1", b"x", time_to_live_ms=timedelta(0))
    assert caught.value.reason == rc.MQRC_EXPIRY_ERROR
    with pytest.raises(MQError) as caught:
        client.put("Q1", b"x", delay_ms=timedelta(seconds=-1))
    assert caught.value.reason == rc.MQRC_OPTIONS_ERROR


def test_the_schedule_takes_them_too(client: Client, clock: VirtualClock) -> None:
    msg_id = client.put("Q1", b"x", delay_ms=1_000)
    schedule = client.schedule
    assert schedule.reschedule(msg_id, delay_ms=timedelta(minutes=1)) == "rescheduled"
    assert due_ms(client, clock) == [60_000]
    assert schedule.reschedule(msg_id, deliver_at_ms=NOW + timedelta(hours=1)) == "rescheduled"
    assert due_ms(client, clock) == [3_600_000]
    assert list(schedule.reschedule_all(ScheduleFilter("Q1"), by_ms=timedelta(hours=1))) == [1]
    assert due_ms(client, clock) == [7_200_000]


def test_the_schedule_lists_the_messages_for_one_queue(make_client: MakeClient) -> None:
    client = make_client()
    assert client.mqsc("DEFINE QLOCAL(Q2)").ok
    for queue in ("Q1", "Q2", "Q1"):
        client.put(queue, b"x", delay_ms=1_000)
    assert [each.target for each in client.schedule.list("Q2")] == ["Q2"]
    assert len(client.schedule.list("Q1")) == 2
    assert len(client.schedule.list()) == 3


def test_what_a_program_needs_is_exported() -> None:
    assert (mayfly.Client, mayfly.Message, mayfly.Reconnect) == (Client, Message, Reconnect)
