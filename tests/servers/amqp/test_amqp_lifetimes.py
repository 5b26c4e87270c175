"""Lifetimes over AMQP 1.0: ttl, absolute-expiry-time, delivery time and delay, reports, fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from proton import (
    Data,
    Delivery,
    Message,
    byte,
    int32,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)

from mayfly import QueueManager, jms
from mayfly.client.connection import connect
from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.mqi import constants as c
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.servers.amqp import codec
from mayfly.servers.amqp.codec import Scalar, Section, Value
from mayfly.servers.amqp.codec import symbol as amqp_symbol
from mayfly.servers.amqp.connection import AmqpServer
from mayfly.testing import VirtualClock
from tests.servers.amqp.client import Client
from tests.servers.amqp.conftest import OneUser

New = Callable[..., Client]
TIME, DELAY = symbol("x-opt-delivery-time"), symbol("x-opt-delivery-delay")
NOW_MS = 1_700_000_000_000
LONGEST_MS = LATEST_DUE_MS - NOW_MS


def header(ttl: object) -> bytes:
    """Return a message whose ttl stands there even when it is 0."""
    value = None if ttl is None else Scalar(Data.UINT, ttl)
    body = Section(codec.VALUE, codec.text("x"))
    return codec.encoded([Section(codec.HEADER, [None, None, value]), body])


def with_expiry(at_ms: int, *, ttl: int | None = None, created_ms: int | None = None) -> bytes:
    created = None if created_ms is None else Scalar(Data.TIMESTAMP, created_ms)
    fields: list[Value] = [*[None] * 8, Scalar(Data.TIMESTAMP, at_ms), created]
    sections = [Section(codec.PROPERTIES, fields), Section(codec.VALUE, codec.text("x"))]
    if ttl is not None:
        sections.insert(0, Section(codec.HEADER, [None, None, Scalar(Data.UINT, ttl)]))
    return codec.encoded(sections)


def put(one: Client, message: Message | bytes) -> Delivery:
    return one.send(one.sender("Q1"), message)


def refused(delivery: Delivery) -> tuple[str, str]:
    assert delivery.remote_state == Delivery.REJECTED
    condition = delivery.remote.condition
    assert condition is not None
    return condition.name, condition.description or ""


def remaining(qm: QueueManager) -> int | None:
    with qm.session() as session:
        message = next(iter(session.browse("Q1")))
    return message.remaining_ms


@pytest.mark.parametrize(("late_ms", "live"), [(-1, 1), (0, 0), (1, 0)])
def test_E9_a_message_with_ttl_is_not_handed_out_from_its_deadline_on(
    qm: QueueManager, clock: VirtualClock, client: New, late_ms: int, live: int
) -> None:
    one = client()
    put(one, header(1_000))
    clock.advance(1_000 + late_ms)
    assert one.drained(one.receiver("Q1"), 1) == live


def test_E5_the_rest_of_a_life_goes_out_as_ttl(clock: VirtualClock, client: New) -> None:
    one = client()
    put(one, header(60_000))
    clock.advance(12_345)
    message, _delivery = one.receive(one.receiver("Q1", credit=1))
    assert message.ttl == 47.655
    assert message.expiry_time == (NOW_MS + 60_000) / 1000
    assert message.creation_time == NOW_MS / 1000


@pytest.mark.parametrize("ttl", [None, 2**32 - 1])
def test_E1_a_message_of_unlimited_life_leaves_without_ttl(
    qm: QueueManager, client: New, ttl: int | None
) -> None:
    one = client()
    put(one, header(ttl))
    assert remaining(qm) is None
    receiver = one.receiver("Q1", credit=1)
    one.until(lambda: (d := receiver.current) is not None and d.readable)
    raw = receiver.recv(10_000)
    sections = {s.code: s.value for s in codec.decoded(bytes(raw or b""))}
    assert codec.plain(sections[codec.HEADER])[2] is None
    assert codec.plain(sections[codec.PROPERTIES])[8] is None


def test_E2_a_ttl_of_0_is_rejected(qm: QueueManager, client: New) -> None:
    one = client()
    name, said = refused(put(one, header(0)))
    assert name == "amqp:invalid-field"
    assert said == (
        "MQRC_EXPIRY_ERROR (2013): ttl: a life of 0 ms has ended before the message came"
    )
    assert qm.curdepth("Q1") == 0


def test_absolute_expiry_time_counts_where_there_is_no_ttl(qm: QueueManager, client: New) -> None:
    put(client(), with_expiry(NOW_MS + 30_000))
    assert remaining(qm) == 30_000


def test_ttl_wins_over_absolute_expiry_time(qm: QueueManager, client: New) -> None:
    put(client(), with_expiry(NOW_MS + 30_000, ttl=5_000))
    assert remaining(qm) == 5_000


def test_absolute_expiry_time_is_in_relation_to_creation_time(
    qm: QueueManager, client: New
) -> None:
    """The clock of the client is an hour ahead."""
    hour_ms = 3_600_000
    put(client(), with_expiry(NOW_MS + hour_ms + 7_000, created_ms=NOW_MS + hour_ms))
    assert remaining(qm) == 7_000


def test_an_absolute_expiry_time_that_is_past_is_rejected(client: New) -> None:
    name, said = refused(put(client(), with_expiry(NOW_MS - 1)))
    assert name == "amqp:invalid-field"
    assert said.startswith("MQRC_EXPIRY_ERROR (2013): absolute-expiry-time: ")


def test_D2_D3_on_the_staging_queue_a_message_is_what_was_sent(
    qm: QueueManager, client: New
) -> None:
    one = client()
    put(
        one,
        Message(
            id="mine",
            body="later",
            correlation_id="order 17",
            properties={"colour": "red"},
            annotations={DELAY: ulong(5_000)},
        ),
    )
    with qm.session() as session:
        staged = next(session.browse(STAGING_QUEUE))
    message, delivery = one.receive(one.receiver(STAGING_QUEUE, credit=1))
    assert (message.body, message.address) == ("later", "Q1")
    assert message.properties == {"colour": "red", "JMS_Mayfly_Delayed": True}
    assert message.annotations[TIME] == NOW_MS + 5_000
    # The ids are those that it has there: a new MsgId, and the one of the send as CorrelId.
    assert message.id == f"ID:{staged.msg_id.hex()}"
    assert message.correlation_id == f"ID:{staged.correl_id.hex()}"
    one.settle(delivery, Delivery.ACCEPTED)
    assert qm.curdepth(STAGING_QUEUE) == 0


@pytest.mark.parametrize("group", [{"group_id": "G"}, {"properties": {"JMSXGroupID": "G"}}])
@pytest.mark.parametrize("late", [{DELAY: ulong(1)}, {TIME: timestamp(NOW_MS + 1)}])
def test_D9_a_message_with_a_group_is_not_delayed(
    qm: QueueManager, client: New, group: dict[str, Any], late: dict[symbol, Any]
) -> None:
    """Neither by group-id nor by the application property."""
    one = client()
    name, said = refused(put(one, Message(body="x", annotations=late, **group)))
    assert (name, said.partition(":")[0]) == ("amqp:not-allowed", "MQRC_OPTIONS_ERROR (2046)")
    assert put(one, Message(body="x", **group)).remote_state == Delivery.ACCEPTED
    assert (qm.curdepth("Q1"), qm.curdepth(STAGING_QUEUE)) == (1, 0)


def test_D19_a_message_too_long_for_its_queue_is_beyond_a_limit(
    qm: QueueManager, client: New
) -> None:
    assert qm.mqsc("ALTER QLOCAL(Q1) MAXMSGL(10)").ok
    delayed = Message(body="too long for it", annotations={DELAY: ulong(1)})
    name, said = refused(put(client(), delayed))
    assert name == "amqp:resource-limit-exceeded"
    assert said.startswith("MQRC_MSG_TOO_BIG_FOR_Q (2030)")


@pytest.mark.parametrize(
    "value", [ulong(5_000), uint(5_000), int32(5_000), 5_000, ushort(5_000), 5_000.0]
)
def test_D1_a_delay_of_every_integer_type(
    qm: QueueManager, clock: VirtualClock, client: New, value: object
) -> None:
    one = client()
    put(one, Message(body="x", annotations={DELAY: value}))
    assert (qm.counts("Q1").live, qm.counts("Q1").staged) == (0, 1)
    clock.advance(4_999)
    assert qm.counts("Q1").live == 0
    clock.advance(1)
    assert qm.counts("Q1").live == 1


@pytest.mark.parametrize("value", [ubyte(50), byte(50)])
def test_D1_a_short_delay(clock: VirtualClock, qm: QueueManager, client: New, value: int) -> None:
    put(client(), Message(body="x", annotations={DELAY: value}))
    clock.advance(49)
    assert qm.counts("Q1").live == 0
    clock.advance(1)
    assert qm.counts("Q1").live == 1


@pytest.mark.parametrize("kind", [timestamp, ulong, int])
def test_D1_a_delivery_time(
    qm: QueueManager, clock: VirtualClock, client: New, kind: Callable[[int], object]
) -> None:
    one = client()
    put(one, Message(body="x", annotations={TIME: kind(NOW_MS + 2_000), DELAY: 9_000}))
    clock.advance(1_999)
    assert qm.counts("Q1").live == 0
    clock.advance(1)
    message, _delivery = one.receive(one.receiver("Q1", credit=1))
    assert message.annotations[TIME] == NOW_MS + 2_000


def test_a_delivery_time_is_in_relation_to_creation_time(
    qm: QueueManager, clock: VirtualClock, client: New
) -> None:
    message = Message(body="x", annotations={TIME: NOW_MS + 3_600_000 + 500})
    message.creation_time = (NOW_MS + 3_600_000) / 1000
    put(client(), message)
    clock.advance(499)
    assert qm.counts("Q1").live == 0
    clock.advance(1)
    assert qm.counts("Q1").live == 1


def test_a_delivery_time_that_is_past_delays_nothing(qm: QueueManager, client: New) -> None:
    put(client(), Message(body="x", annotations={TIME: NOW_MS - 1}))
    assert qm.counts("Q1").live == 1


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({DELAY: -1}, f"x-opt-delivery-delay: a delay of -1 ms is not within 0 .. {LONGEST_MS}"),
        (
            {DELAY: LONGEST_MS + 1},
            f"x-opt-delivery-delay: a delay of {LONGEST_MS + 1} ms is not within 0 .. {LONGEST_MS}",
        ),
        (
            {TIME: LATEST_DUE_MS + 1},
            f"x-opt-delivery-time: a delay of {LONGEST_MS + 1} ms is not within 0 .. {LONGEST_MS}",
        ),
        ({DELAY: "soon"}, "x-opt-delivery-delay 'soon' is no integer"),
        ({TIME: 1.5}, "x-opt-delivery-time 1.5 is no integer"),
    ],
)
def test_D2_a_wrong_delay_is_rejected(
    qm: QueueManager, client: New, annotations: dict[symbol, object], said: str
) -> None:
    name, description = refused(put(client(), Message(body="x", annotations=annotations)))
    assert (name, description) == ("amqp:invalid-field", f"MQRC_OPTIONS_ERROR (2046): {said}")
    assert (qm.counts("Q1").live, qm.counts("Q1").staged) == (0, 0)


def test_the_longest_delay_ends_in_the_year_2109(qm: QueueManager, client: New) -> None:
    put(client(), Message(body="x", annotations={DELAY: LONGEST_MS}))
    assert qm.counts("Q1").staged == 1


@pytest.mark.parametrize(
    ("value", "said"),
    [(2**40, "1099511627776 is more than 32 bits"), ("all", "'all' is no integer")],
)
def test_P2_wrong_report_options_are_rejected_by_their_reason(
    client: New, value: object, said: str
) -> None:
    message = Message(body="x", annotations={symbol("x-opt-mq-report"): value})
    condition, description = refused(put(client(), message))
    assert condition == "amqp:invalid-field"
    assert description.startswith(f"MQRC_REPORT_OPTIONS_ERROR (2061): x-opt-mq-report {said}")


def test_D5_a_queue_manager_that_knows_no_delay_offers_none(admission: OneUser) -> None:
    """Qpid JMS then refuses a delivery delay by itself."""
    offered = {}
    for level in (750, 800):
        with QueueManager("QM1", clock=VirtualClock(NOW_MS), command_level=level) as old:
            assert old.mqsc("DEFINE QLOCAL(Q1)").ok
            server = AmqpServer(["QM1"], admission, lambda name, *_who: connect(name))
            one = Client(server.listen_tcp("127.0.0.1", 0))
            offered[level] = {str(each) for each in one.connection.remote_offered_capabilities}
            refusal = put(one, Message(body="x", annotations={DELAY: 5}))
            if level < 800:
                assert refused(refusal)[1].startswith("MQRC_FUNCTION_NOT_SUPPORTED (2298): ")
            one.cut()
            server.close()
    assert offered[800] - offered[750] == {"DELAYED_DELIVERY"}
    assert offered[750] == {"ANONYMOUS-RELAY", "SHARED-SUBS"}


@pytest.mark.parametrize(("ttl_ms", "state"), [(4_999, "rejected"), (5_000, "staged")])
def test_D7_a_life_shorter_than_the_delay_is_rejected(
    qm: QueueManager, client: New, ttl_ms: int, state: str
) -> None:
    message = Message(body="x", ttl=ttl_ms / 1000, annotations={DELAY: 5_000})
    outcome = put(client(), message)
    if state == "rejected":
        name, said = refused(outcome)
        assert name == "amqp:invalid-field"
        assert said.startswith("MQRC_EXPIRY_ERROR (2013)")
    assert qm.counts("Q1").staged == (state == "staged")


def test_E20_an_expired_message_is_reported_to_its_sender(
    qm: QueueManager, clock: VirtualClock, client: New
) -> None:
    """The report option comes by an annotation; the report's feedback goes out by one."""
    assert qm.mqsc("DEFINE QLOCAL(REPLIES)").ok
    one = client()
    report = {symbol("x-opt-mq-report"): c.MQRO_EXPIRATION_WITH_FULL_DATA}
    put(one, Message(body="x", ttl=1, reply_to="REPLIES", annotations=report))
    clock.advance(1_000)
    assert one.drained(one.receiver("Q1"), 1) == 0
    message, _delivery = one.receive(one.receiver("REPLIES", credit=1))
    assert message.annotations[symbol("x-opt-mq-feedback")] == c.MQFB_EXPIRATION
    assert message.annotations[symbol("x-opt-mq-message-type")] == c.MQMT_REPORT
    assert message.body == "x"


def test_EXPQ_is_an_expiry_address(clock: VirtualClock, qm: QueueManager, client: New) -> None:
    assert qm.mqsc("DEFINE QLOCAL(LATE)\nALTER QLOCAL(Q1) EXPQ(LATE)").ok
    one = client()
    one.send(one.sender("Q1"), Message(body="x", ttl=5, id="7", properties={"n": 1}))
    expired_at_ms = clock.now_ms() + 5_000
    clock.advance(5_000)
    assert one.drained(one.receiver("Q1"), 1) == 0
    message, _delivery = one.receive(one.receiver("LATE", credit=1))
    assert (message.body, message.id, message.ttl, message.expiry_time) == ("x", "7", 0, 0)
    told = {"reason": "expired", "original-queue": "Q1", "expired-at": expired_at_ms}
    found = {str(name): value for name, value in message.annotations.items()}
    assert {name: found[f"x-opt-mayfly-{name}"] for name in told} == told
    properties = ("MayflyReason", "MayflyOriginalQueue", "MayflyExpiredAt")
    assert message.properties == {"n": 1, **dict(zip(properties, told.values(), strict=True))}


@pytest.mark.parametrize("given", ["text-7", ulong(7), UUID(int=7), b"\1\2"])
def test_message_and_correlation_ids_come_back_as_they_were(client: New, given: object) -> None:
    one = client()
    put(one, Message(body="x", id=given, correlation_id=given))
    message, _delivery = one.receive(one.receiver("Q1", credit=1))
    assert (message.id, message.correlation_id) == (given, given)


def test_an_MsgId_of_MQ_is_the_MsgId(qm: QueueManager, client: New) -> None:
    wanted = bytes(range(24))
    put(client(), Message(body="x", id=f"ID:{wanted.hex()}", correlation_id=wanted))
    with qm.session() as session:
        message = session.get("Q1")
    assert message is not None
    assert (message.msg_id, message.correl_id) == (wanted, wanted)


@pytest.mark.parametrize(
    "body", ["text", b"bytes", {"k": [1, 2]}, [1, "two"], 5, True, UUID(int=1)]
)
def test_bodies_come_back_as_they_were(client: New, body: Any) -> None:
    one = client()
    put(one, Message(body=body, inferred=isinstance(body, bytes)))
    message, _delivery = one.receive(one.receiver("Q1", credit=1))
    got: Any = message.body
    assert (bytes(got) if isinstance(got, memoryview) else got) == body


def test_properties_come_back_as_they_were(client: New) -> None:
    one = client()
    given = {
        "colour": "red",
        "x-odd name": "kept",
        "count": int32(5),
        "long": 2**40,
        "ratio": 1.5,
        "on": True,
        "none": None,
    }
    sent = Message(body="x", properties=given, subject="s", content_type="text/plain", priority=7)
    sent.group_id, sent.group_sequence, sent.reply_to_group_id = "g", 3, "rg"
    put(one, sent)
    message, _delivery = one.receive(one.receiver("Q1", credit=1))
    assert message.properties == given
    assert (message.subject, message.content_type, message.priority) == ("s", "text/plain", 7)
    assert (message.group_id, message.group_sequence, message.reply_to_group_id) == ("g", 3, "rg")


def test_a_property_beyond_64_bits_is_rejected_by_name(client: New) -> None:
    name, said = refused(put(client(), Message(body="x", properties={"big": ulong(2**63)})))
    assert name == "amqp:invalid-field"
    assert said.startswith("property big: ")


def test_jms_reads_what_amqp_sends_and_the_other_way_round(qm: QueueManager, client: New) -> None:
    one = client()
    kind = {symbol("x-opt-jms-msg-type"): byte(5)}
    put(one, Message(body="to jms", subject="type", properties={"n": int32(3)}, annotations=kind))
    context = jms.ConnectionFactory(qm).create_context(jms.AUTO_ACKNOWLEDGE)
    queue = context.create_queue("Q1")
    got = context.create_consumer(queue).receive_no_wait()
    assert isinstance(got, jms.TextMessage)
    assert (got.text, got.jms_type, got.get_property("n")) == ("to jms", "type", 3)
    sent = context.create_text_message("to amqp")
    sent.set_property("m", 4)
    sent.set_jms_correlation_id("c-1")
    context.create_producer().set_time_to_live(9_000).send(queue, sent)
    context.close()
    message, _delivery = one.receive(one.receiver("Q1", credit=1))
    assert (message.body, message.properties, message.ttl) == ("to amqp", {"m": 4}, 9.0)
    assert message.correlation_id == "c-1"


def test_map_and_stream_messages_of_jms(qm: QueueManager, client: New) -> None:
    one = client()
    for number, body in ((2, {"a": int32(1), "b": "two"}), (4, [int32(1), "two"])):
        put(one, Message(body=body, annotations={symbol("x-opt-jms-msg-type"): byte(number)}))
    context = jms.ConnectionFactory(qm).create_context(jms.AUTO_ACKNOWLEDGE)
    consumer = context.create_consumer(context.create_queue("Q1"))
    mapped, streamed = consumer.receive_no_wait(), consumer.receive_no_wait()
    context.close()
    assert isinstance(mapped, jms.MapMessage)
    assert (mapped.get_int("a"), mapped.get_string("b")) == (1, "two")
    assert isinstance(streamed, jms.StreamMessage)
    assert (streamed.read_object(), streamed.read_string()) == (1, "two")


def test_a_value_in_a_value_is_decoded_to_a_depth(client: New) -> None:
    value: Any = "x"
    for _ in range(40):
        value = [value]
    name, said = refused(put(client(), Message(body=value)))
    assert (name, said) == ("amqp:decode-error", "values are nested more than 32 deep")


def test_codec_reads_what_it_writes() -> None:
    value = codec.Described(
        Scalar(Data.ULONG, 5), [codec.text("é"), {amqp_symbol("k"): [None, Scalar(Data.INT, -1)]}]
    )
    assert codec.decoded_value(codec.encoded_value(value)) == value
