"""Delays in the words of other brokers: the message is late, or is refused."""

from __future__ import annotations

import pytest
from proton import Data, Delivery

from mayfly import QueueManager
from mayfly.servers.amqp import codec
from mayfly.servers.amqp.codec import Scalar, Section, Value, symbol, text
from mayfly.testing import VirtualClock
from tests.servers.amqp.test_amqp_types import New, put, sections

NOW_MS = 1_700_000_000_000
TIME, DELAY = "x-opt-delivery-time", "x-opt-delivery-delay"
#: Names with the value that stands for a delay of 5 s at NOW_MS.
WORDS = {
    "x-opt-scheduled-enqueue-time": NOW_MS + 5_000,
    "_AMQ_SCHED_DELIVERY": NOW_MS + 5_000,
    "AMQ_SCHEDULED_DELAY": 5_000,
    "x-delay": 5_000,
}
MOMENTS = ("x-opt-scheduled-enqueue-time", "_AMQ_SCHED_DELIVERY")
PLACES = ("annotation", "property")
words = pytest.mark.parametrize(("name", "value"), WORDS.items(), ids=WORDS)
places = pytest.mark.parametrize("place", PLACES)


def long(value: int) -> Scalar:
    return Scalar(Data.LONG, value)


def asking(
    annotations: dict[str, Value] | None = None,
    application: dict[str, Value] | None = None,
    *,
    created_ms: int | None = None,
    group: str | None = None,
) -> bytes:
    """Return a message with annotations and application properties by name."""
    created: Value = None if created_ms is None else Scalar(Data.TIMESTAMP, created_ms)
    fields: list[Value] = [*[None] * 9, created, None if group is None else text(group)]
    return codec.encoded(
        [
            Section(
                codec.MESSAGE_ANNOTATIONS,
                {symbol(name): value for name, value in (annotations or {}).items()},
            ),
            Section(codec.PROPERTIES, fields),
            Section(
                codec.APPLICATION_PROPERTIES,
                {text(name): value for name, value in (application or {}).items()},
            ),
            Section(codec.VALUE, text("x")),
        ]
    )


def with_word(place: str, name: str, value: Value) -> bytes:
    given: dict[str, Value] = {name: value}
    return asking(given) if place == "annotation" else asking(None, given)


def said_of(delivery: Delivery) -> str:
    """Return why a message is rejected, with amqp:invalid-field."""
    assert delivery.remote_state == Delivery.REJECTED
    condition = delivery.remote.condition
    assert condition is not None
    assert condition.name == "amqp:invalid-field"
    return str(condition.description)


def is_late(qm: QueueManager, clock: VirtualClock, delay_ms: int) -> bool:
    """Return True if the message on its way to Q1 comes after a delay, and not a ms before."""
    if qm.counts("Q1").staged != 1:
        return False
    clock.advance(delay_ms - 1)
    before = qm.counts("Q1").live
    clock.advance(1)
    return (before, qm.counts("Q1").live) == (0, 1)


@words
@places
def test_D1_accepted_a_message_is_late_in_the_words_of_other_brokers(
    qm: QueueManager, clock: VirtualClock, client: New, place: str, name: str, value: int
) -> None:
    outcome = put(client(), with_word(place, name, long(value)))
    assert outcome.remote_state == Delivery.ACCEPTED
    assert is_late(qm, clock, 5_000)


@pytest.mark.parametrize(
    "kind", [Data.INT, Data.UINT, Data.ULONG, Data.DOUBLE, Data.STRING], ids=str
)
def test_D1_accepted_the_delay_is_of_any_type_of_number_or_digits(
    qm: QueueManager, clock: VirtualClock, client: New, kind: int
) -> None:
    value = {Data.STRING: "5000", Data.DOUBLE: 5_000.0}.get(kind, 5_000)
    put(client(), with_word("property", "AMQ_SCHEDULED_DELAY", Scalar(kind, value)))
    assert is_late(qm, clock, 5_000)


def test_D1_accepted_the_enqueue_time_of_service_bus_is_a_timestamp(
    qm: QueueManager, clock: VirtualClock, client: New
) -> None:
    value = Scalar(Data.TIMESTAMP, NOW_MS + 5_000)
    put(client(), with_word("annotation", "x-opt-scheduled-enqueue-time", value))
    assert is_late(qm, clock, 5_000)


@pytest.mark.parametrize("name", MOMENTS)
@places
def test_D1_accepted_a_moment_is_in_relation_to_creation_time(
    qm: QueueManager, clock: VirtualClock, client: New, place: str, name: str
) -> None:
    ahead_ms = 3_600_000
    given: dict[str, Value] = {name: long(NOW_MS + ahead_ms + 5_000)}
    created_ms = NOW_MS + ahead_ms
    if place == "annotation":
        put(client(), asking(given, created_ms=created_ms))
    else:
        put(client(), asking(None, given, created_ms=created_ms))
    assert is_late(qm, clock, 5_000)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, long(NOW_MS - 1)) for name in MOMENTS),
        *((name, long(0)) for name in WORDS),
        *((name, None) for name in WORDS),
    ],
)
@places
def test_D1_accepted_a_word_that_delays_nothing_delays_nothing(
    qm: QueueManager, client: New, place: str, name: str, value: Value
) -> None:
    assert put(client(), with_word(place, name, value)).remote_state == Delivery.ACCEPTED
    assert qm.counts("Q1").live == 1


@words
@places
def test_D1_accepted_words_that_agree_are_one_delay(
    qm: QueueManager, clock: VirtualClock, client: New, place: str, name: str, value: int
) -> None:
    own: dict[str, Value] = {TIME: long(NOW_MS + 5_000)}
    if place == "annotation":
        put(client(), asking({**own, name: long(value)}))
    else:
        put(client(), asking(own, {name: long(value)}))
    assert is_late(qm, clock, 5_000)


@words
def test_D1_accepted_a_delivery_time_of_now_contradicts_nothing(
    qm: QueueManager, clock: VirtualClock, client: New, name: str, value: int
) -> None:
    """Qpid JMS sends one with each message, whatever its program has written beside."""
    one = client()
    put(one, asking({TIME: long(NOW_MS - 17)}, {name: long(value)}))
    assert is_late(qm, clock, 5_000)
    annotations = sections(one)[codec.MESSAGE_ANNOTATIONS]
    assert isinstance(annotations, dict)
    assert annotations[symbol(TIME)] == long(NOW_MS + 5_000)


@pytest.mark.parametrize(
    "value",
    [text("soon"), Scalar(Data.DOUBLE, 1.5), Scalar(Data.BOOL, True), text("9" * 40), [long(1)]],
    ids=["text", "fraction", "boolean", "digits", "list"],
)
@pytest.mark.parametrize("name", WORDS)
def test_D2_rejected_invalid_field_a_word_that_is_no_number_of_ms(
    qm: QueueManager, client: New, name: str, value: Value
) -> None:
    said = said_of(put(client(), with_word("annotation", name, value)))
    assert name in said
    assert TIME in said
    assert (qm.counts("Q1").live, qm.counts("Q1").staged) == (0, 0)


@pytest.mark.parametrize("name", ["AMQ_SCHEDULED_DELAY", "x-delay"])
@places
def test_D2_rejected_invalid_field_a_delay_below_0(client: New, place: str, name: str) -> None:
    said = said_of(put(client(), with_word(place, name, long(-1))))
    assert said.endswith(f"{name} -1 is below 0: say the delivery time in {TIME} alone")


@pytest.mark.parametrize(
    ("annotations", "application", "told"),
    [
        ({TIME: NOW_MS + 4_000}, {"x-delay": 5_000}, f"x-delay asks for 5000 ms, {TIME} asks"),
        ({DELAY: 4_000}, {"x-delay": 5_000}, f"x-delay asks for 5000 ms, {DELAY} asks for 4000"),
        ({}, {"x-delay": 4_000, "AMQ_SCHEDULED_DELAY": 5_000}, "asks for 5000 ms, x-delay asks"),
        ({"x-delay": 4_000}, {"x-delay": 5_000}, "its other x-delay asks for 4000 ms"),
    ],
)
def test_D2_rejected_invalid_field_words_that_contradict_each_other(
    qm: QueueManager,
    client: New,
    annotations: dict[str, int],
    application: dict[str, int],
    told: str,
) -> None:
    raw = asking(
        {name: long(value) for name, value in annotations.items()},
        {name: long(value) for name, value in application.items()},
    )
    said = said_of(put(client(), raw))
    assert told in said
    assert TIME in said
    assert (qm.counts("Q1").live, qm.counts("Q1").staged) == (0, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AMQ_SCHEDULED_CRON", text("0 * * * *")),
        ("AMQ_SCHEDULED_PERIOD", long(1_000)),
        ("AMQ_SCHEDULED_REPEAT", Scalar(Data.INT, 3)),
    ],
)
@places
def test_D2_rejected_invalid_field_a_plan_of_several_deliveries(
    client: New, place: str, name: str, value: Value
) -> None:
    said = said_of(put(client(), with_word(place, name, value)))
    assert name in said
    assert TIME in said


def test_D9_rejected_a_message_of_a_group_in_whatever_words(client: New) -> None:
    outcome = put(client(), asking(None, {"x-delay": long(5_000)}, group="G"))
    assert outcome.remote_state == Delivery.REJECTED
    assert outcome.remote.condition is not None
    assert outcome.remote.condition.description is not None
    assert outcome.remote.condition.description.startswith("MQRC_OPTIONS_ERROR (2046)")


def test_messages_alike_are_late_by_the_moment_that_each_says(
    qm: QueueManager, clock: VirtualClock, client: New
) -> None:
    """A link reads sections that messages have alike once; the rest of a delay is not one."""
    one = client()
    sender = one.sender("Q1")
    raw = with_word("property", "_AMQ_SCHED_DELIVERY", long(NOW_MS + 5_000))
    for _ in range(3):
        assert one.send(sender, raw).remote_state == Delivery.ACCEPTED
        clock.advance(1_000)
    assert (qm.counts("Q1").staged, qm.counts("Q1").live) == (3, 0)
    clock.advance(1_999)
    assert qm.counts("Q1").live == 0
    clock.advance(1)
    assert qm.counts("Q1").live == 3


def test_a_property_of_such_a_name_is_a_property_to_a_program_of_the_MQI(
    qm: QueueManager,
) -> None:
    with qm.session() as session:
        session.put("Q1", b"x", properties={"AMQ_SCHEDULED_DELAY": 5_000})
    assert qm.counts("Q1").live == 1
