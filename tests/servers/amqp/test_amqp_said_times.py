"""Moments come back as their sender has said them, wherever life and delay are counted from.

Names of tests begin with the section of AMQP that has the field.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from proton import Data, Delivery

from mayfly import QueueManager, jms, pymqi
from mayfly.engine import PutRequest
from mayfly.lifetime.moments import Until
from mayfly.mqi import constants as c
from mayfly.servers.amqp import codec
from mayfly.servers.amqp.codec import Scalar, Section, Value, symbol, text
from mayfly.servers.amqp.incoming import MessageReader
from mayfly.testing import VirtualClock
from tests.servers.amqp.test_amqp_types import New, put, received, sections

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
TIME, DELAY = symbol("x-opt-delivery-time"), symbol("x-opt-delivery-delay")


class Said(NamedTuple):
    """The moments of a message, epoch ms."""

    expiry_ms: int | None = None
    created_ms: int | None = None
    delivery_ms: int | None = None


def saying(
    said: Said, *, ttl_ms: int | None = None, reply_to: str | None = None, report: int = 0
) -> bytes:
    """Return a message that says moments by the clock of its sender."""
    expiry_ms, created_ms, delivery_ms = said
    annotations: dict[Value, Value] = {}
    if delivery_ms is not None:
        annotations[TIME] = Scalar(Data.LONG, delivery_ms)
    if report:
        annotations[symbol("x-opt-mq-report")] = Scalar(Data.INT, report)
    moments: list[Value] = [
        None if moment is None else Scalar(Data.TIMESTAMP, moment)
        for moment in (expiry_ms, created_ms)
    ]
    reply: Value = None if reply_to is None else text(reply_to)
    fields: list[Value] = [*[None] * 4, reply, *[None] * 3, *moments]
    header: Value = [None, None, None if ttl_ms is None else Scalar(Data.UINT, ttl_ms)]
    return codec.encoded(
        [
            Section(codec.HEADER, header),
            Section(codec.MESSAGE_ANNOTATIONS, annotations),
            Section(codec.PROPERTIES, fields),
            Section(codec.VALUE, text("x")),
        ]
    )


def shown(found: dict[int, Value]) -> Said:
    """Return the moments of a message that has come."""
    fields: Any = found[codec.PROPERTIES]
    annotations: Any = found[codec.MESSAGE_ANNOTATIONS]
    moments = (fields[8], fields[9], annotations.get(TIME))
    return Said(*(None if moment is None else moment.value for moment in moments))


#: The client's clock is 17 ms behind, or an hour ahead.
CLOCKS = pytest.mark.parametrize("base_ms", [NOW_MS - 17, NOW_MS + HOUR_MS])


@CLOCKS
@pytest.mark.parametrize("ttl_ms", [60_000, None])
def test_3_2_4_accepted_absolute_expiry_time_and_creation_time_come_back_as_they_were_said(
    qm: QueueManager, clock: VirtualClock, client: New, base_ms: int, ttl_ms: int | None
) -> None:
    one = client()
    said = Said(base_ms + 60_000, base_ms)
    assert put(one, saying(said, ttl_ms=ttl_ms)).remote_state == Delivery.ACCEPTED
    clock.advance(12_345)
    with qm.session() as session:
        [message] = session.browse("Q1")
    # The life that counts runs from the arrival.
    assert message.expire_at_ms == NOW_MS + 60_000
    found = sections(one)
    assert shown(found) == said
    header: Any = found[codec.HEADER]
    assert header[2].value == 60_000 - 12_345


@CLOCKS
def test_3_2_3_accepted_a_delivery_time_comes_back_as_it_was_said(
    qm: QueueManager, clock: VirtualClock, client: New, base_ms: int
) -> None:
    one = client()
    said = Said(None, base_ms, base_ms + 5_000)
    put(one, saying(said))
    clock.advance(4_999)
    assert qm.counts("Q1").live == 0
    clock.advance(1)
    assert shown(sections(one)) == said


def test_D1_3_2_3_accepted_a_delivery_time_without_a_creation_time_is_that_moment(
    clock: VirtualClock,
) -> None:
    """Time goes on between the reading of a message and its put; no property is made of it."""
    with QueueManager("QM2", clock=clock) as manager, manager.session() as session:
        assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
        read = MessageReader().read(saying(Said(None, None, NOW_MS + 5_000)), clock.now_ms())
        assert [found.name for found in read.properties] == []
        assert read.until_ms == NOW_MS + 5_000
        clock.advance(3)
        queue = session.open("Q1", c.MQOO_OUTPUT)
        queue.put(read.body, PutRequest(read.descriptor, delay_ms=Until(read.until_ms)))
        clock.advance(4_997)
        [message] = session.browse("Q1")
    assert message.deliver_at_ms == NOW_MS + 5_000


@CLOCKS
def test_3_2_3_accepted_a_delivery_time_that_delays_nothing_comes_back_as_it_was_said(
    client: New, base_ms: int
) -> None:
    """Qpid JMS sends one, that of the send, with each message."""
    one = client()
    said = Said(None, base_ms, base_ms)
    put(one, saying(said))
    assert shown(sections(one)) == said


@CLOCKS
def test_a_program_of_JMS_sees_the_moments_of_a_client_of_AMQP(
    qm: QueueManager, clock: VirtualClock, client: New, base_ms: int
) -> None:
    one = client()
    put(one, saying(Said(base_ms + 60_000, base_ms, base_ms + 1_000)))
    clock.advance(1_000)
    message = received(qm)
    assert message.jms_expiration == base_ms + 60_000
    assert message.jms_delivery_time == base_ms + 1_000
    assert message.jms_timestamp == base_ms


@CLOCKS
def test_a_selector_on_JMSTimestamp_sees_the_creation_time_that_was_said(
    client: New, base_ms: int
) -> None:
    one = client()
    put(one, saying(Said(None, base_ms)))
    selected = one.receiver("Q1", selector=f"JMSTimestamp = {base_ms}", credit=1)
    assert one.receive(selected)[0].body == "x"


def test_a_program_of_the_MQI_gets_the_data_of_a_message_whose_moments_were_said(
    qm: QueueManager, client: New
) -> None:
    put(client(), saying(Said(NOW_MS + 60_000, NOW_MS, NOW_MS)))
    queue = pymqi.Queue(pymqi.connect("QM1"), "Q1")
    assert queue.get() == b"x"


def test_a_client_of_AMQP_sees_the_moments_of_a_program_of_JMS(
    qm: QueueManager, clock: VirtualClock, client: New
) -> None:
    with jms.ConnectionFactory(qm).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_queue("Q1"))
        producer.set_time_to_live(60_000)
        producer.set_delivery_delay(1_000)
        sent = session.create_text_message("x")
        producer.send(sent)
    clock.advance(1_000)
    moments = sent.jms_expiration, sent.jms_timestamp, sent.jms_delivery_time
    assert shown(sections(client())) == moments


def test_X1_a_life_that_a_cap_has_shortened_ends_when_it_ends(
    qm: QueueManager, client: New
) -> None:
    assert qm.mqsc("ALTER QLOCAL(Q1) CAPEXPRY(100)").ok
    one = client()
    put(one, saying(Said(NOW_MS + 60_000 - 17, NOW_MS - 17), ttl_ms=60_000))
    assert shown(sections(one)).expiry_ms == NOW_MS + 10_000


def test_a_message_that_an_operator_has_delivered_earlier_says_when(
    qm: QueueManager, client: New
) -> None:
    one = client()
    put(one, saying(Said(None, NOW_MS - 17, NOW_MS + 50_000 - 17)))
    with qm.session() as session:
        [entry] = session.schedule.list()
        session.schedule.reschedule(entry.msg_id, delay_ms=0)
    assert shown(sections(one)).delivery_ms == NOW_MS


def test_R1_a_report_has_its_own_moments(
    qm: QueueManager, clock: VirtualClock, client: New
) -> None:
    assert qm.mqsc("DEFINE QLOCAL(REPLIES)").ok
    one = client()
    full = c.MQRO_EXPIRATION_WITH_FULL_DATA
    put(one, saying(Said(None, NOW_MS - 17), ttl_ms=1_000, reply_to="REPLIES", report=full))
    clock.advance(1_000)
    assert one.drained(one.receiver("Q1"), 1) == 0
    receiver = one.receiver("REPLIES", credit=1)
    one.until(lambda: (found := receiver.current) is not None and found.readable)
    raw = bytes(receiver.recv(100_000) or b"")
    found = {section.code: section.value for section in codec.decoded(raw)}
    assert shown(found) == Said(None, NOW_MS + 1_000)


def test_a_dead_letter_has_the_moments_of_its_sender(qm: QueueManager, client: New) -> None:
    one = client()
    said = Said(NOW_MS + 60_000 - 17, NOW_MS - 17)
    put(one, saying(said, ttl_ms=60_000))
    receiver = one.receiver("Q1", credit=1)
    _message, delivery = one.receive(receiver)
    one.settle(delivery, Delivery.REJECTED)
    dead = one.receiver("DEAD", credit=1)
    one.until(lambda: (found := dead.current) is not None and found.readable)
    raw = bytes(dead.recv(100_000) or b"")
    found = {section.code: section.value for section in codec.decoded(raw)}
    assert shown(found) == said


@pytest.mark.parametrize(
    "kept", ["", "x", "/", "1/x", "9" * 30 + "/1", f"{NOW_MS + 60_000}", 5, b"\1"]
)
def test_a_moment_that_another_program_has_written_is_the_one_that_counts(
    qm: QueueManager, client: New, kept: object
) -> None:
    properties = dict.fromkeys(("amqp.ExpiryTime", "amqp.DeliveryTime"), kept)
    properties["amqp.CreationTime"] = "9" * 19
    with qm.session() as session:
        session.put("Q1", b"x", time_to_live_ms=60_000, properties=properties)
    assert shown(sections(client())) == Said(NOW_MS + 60_000, NOW_MS, NOW_MS)
