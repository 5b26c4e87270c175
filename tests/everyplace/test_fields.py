"""Messages: typed fields, their limits, identity and copies."""

from __future__ import annotations

import pytest

from mayfly.everyplace import MSG_EXPIRE_TIME, MSG_PRIORITY, MessageFields
from mayfly.lifetime.everyplace import INT_RANGE, LONG_RANGE, ExpireTime
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.everyplace.scene import START_MS, refused

VALUES = [
    ("ascii", "text"),
    ("unicode", "né à Łódź"),
    ("boolean", True),
    ("byte", -128),
    ("short", 32_767),
    ("int", INT_RANGE[0]),
    ("int", INT_RANGE[1]),
    ("long", LONG_RANGE[0]),
    ("long", LONG_RANGE[1]),
    ("double", 0.5),
    ("array_of_byte", b"\0\xff"),
]


@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_a_field_comes_back_as_it_was_put(clock: VirtualClock, kind: str, value: object) -> None:
    message = MessageFields(clock=clock)
    getattr(message, f"put_{kind}")("F", value)
    assert getattr(message, f"get_{kind}")("F") == value
    assert type(getattr(message, f"get_{kind}")("F")) is type(value)
    assert message.contains("F")
    message.delete("F")
    message.delete("F")
    assert not message.contains("F")
    refused(rc.MQRC_PROPERTY_NOT_AVAILABLE, lambda: getattr(message, f"get_{kind}")("F"))


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("ascii", "né", rc.MQRC_PROPERTY_TYPE_ERROR),
        ("ascii", b"x", rc.MQRC_PROPERTY_TYPE_ERROR),
        ("unicode", 1, rc.MQRC_PROPERTY_TYPE_ERROR),
        ("boolean", 1, rc.MQRC_PROPERTY_TYPE_ERROR),
        ("byte", 128, rc.MQRC_PROP_NUMBER_FORMAT_ERROR),
        ("short", -32_769, rc.MQRC_PROP_NUMBER_FORMAT_ERROR),
        ("int", True, rc.MQRC_PROP_NUMBER_FORMAT_ERROR),
        ("int", 1.0, rc.MQRC_PROP_NUMBER_FORMAT_ERROR),
        ("int", INT_RANGE[1] + 1, rc.MQRC_PROP_NUMBER_FORMAT_ERROR),
        ("long", LONG_RANGE[1] + 1, rc.MQRC_PROP_NUMBER_FORMAT_ERROR),
        ("double", 1, rc.MQRC_PROPERTY_TYPE_ERROR),
        ("array_of_byte", "x", rc.MQRC_PROPERTY_TYPE_ERROR),
    ],
)
def test_a_wrong_value_is_named_and_leaves_the_field_as_it_was(
    clock: VirtualClock, kind: str, value: object, reason: int
) -> None:
    message = MessageFields(clock=clock)
    message.put_int("F", 7)
    said = refused(reason, lambda: getattr(message, f"put_{kind}")("F", value))
    assert repr(value) in said
    assert message.get_int("F") == 7


def test_fields_that_queues_read_have_their_types(clock: VirtualClock) -> None:
    message = MessageFields(clock=clock)
    refused(rc.MQRC_PROPERTY_TYPE_ERROR, lambda: message.put_int(MSG_PRIORITY, 4))
    refused(rc.MQRC_PROP_NUMBER_FORMAT_ERROR, lambda: message.put_byte(MSG_PRIORITY, 10))
    refused(rc.MQRC_PROPERTY_TYPE_ERROR, lambda: message.put_short(MSG_EXPIRE_TIME, 10))
    refused(rc.MQRC_PROPERTY_NAME_ERROR, lambda: message.put_int("", 4))
    message.put_int("F", 1)
    assert "long" in refused(rc.MQRC_PROPERTY_TYPE_ERROR, lambda: message.get_long("F"))
    assert list(message.fields()) == ["F"]


def test_M4_the_type_decides_what_the_expire_time_means(clock: VirtualClock) -> None:
    assert MessageFields(clock=clock).expire_time is None
    message = MessageFields(clock=clock)
    message.put_int(MSG_EXPIRE_TIME, 60_000)
    assert message.expire_time == ExpireTime(60_000, is_absolute=False)
    message.put_long(MSG_EXPIRE_TIME, 60_000)
    assert message.expire_time == ExpireTime(60_000, is_absolute=True)


def test_messages_of_one_millisecond_are_told_apart(clock: VirtualClock) -> None:
    messages = [MessageFields(clock=clock) for _ in range(100)]
    assert len({message.uid for message in messages}) == 100
    assert {message.created_ms for message in messages} == {START_MS}


def test_a_copy_is_the_same_message_with_fields_of_its_own(clock: VirtualClock) -> None:
    message = MessageFields(clock=clock)
    message.put_int("F", 1)
    clock.advance(5)
    twin = message.copy()
    twin.put_int("F", 2)
    assert (message.get_int("F"), twin.get_int("F")) == (1, 2)
    assert (twin.uid, twin.created_ms) == (message.uid, START_MS)


def test_without_a_clock_it_is_created_by_the_machines() -> None:
    assert MessageFields().created_ms > START_MS
