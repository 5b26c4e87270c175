"""Delivery delay through JMS: rules D1 to D31 as far as the client has a part in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import MQError, QueueManager, jms
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQCEX_NOLIMIT
from mayfly.mqi.descriptor import Descriptor
from mayfly.testing import VirtualClock
from tests.jms.scene import (
    STAGING,
    START_MS,
    alter,
    on_queue,
    put_native,
    received,
    refused,
    text_of,
)

EXPIRY, OPTIONS = rc.MQRC_EXPIRY_ERROR, rc.MQRC_OPTIONS_ERROR
CENTURY_MS = 100 * 366 * 86_400_000


def test_D01_a_message_comes_with_its_delivery_time_and_not_a_millisecond_before(
    context: jms.JMSContext, q1: jms.Queue, clock: VirtualClock
) -> None:
    consumer = context.create_consumer(q1)
    context.create_producer().set_delivery_delay(5_000).send(q1, "later")
    clock.advance(4_999)
    assert consumer.receive_no_wait() is None
    clock.advance(1)
    message = received(consumer, jms.TextMessage)
    assert message.text == "later"
    assert message.jms_timestamp == START_MS
    assert message.jms_delivery_time == START_MS + 5_000


def test_D01_without_a_delay_the_delivery_time_is_the_timestamp(
    context: jms.JMSContext, q1: jms.Queue
) -> None:
    sent = context.create_text_message("now")
    context.create_producer().send(q1, sent)
    assert sent.jms_delivery_time == sent.jms_timestamp == START_MS
    got = received(context.create_consumer(q1), jms.TextMessage)
    assert got.jms_delivery_time == got.jms_timestamp == START_MS


def test_D02_D03_it_waits_on_the_staging_queue_and_keeps_its_ids(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager, clock: VirtualClock
) -> None:
    sent = context.create_text_message("later")
    sent.set_jms_correlation_id_as_bytes(b"C")
    context.create_producer().set_delivery_delay(1_000).send(q1, sent)
    assert (manager.curdepth("Q1"), manager.curdepth(STAGING)) == (0, 1)
    clock.advance(1_000)
    got = received(context.create_consumer(q1), jms.TextMessage)
    assert got.jms_message_id == sent.jms_message_id
    assert got.jms_correlation_id == "ID:" + b"C".ljust(24, b"\0").hex()


@pytest.fixture
def old(clock: VirtualClock) -> Iterator[jms.ConnectionFactory]:
    """A queue manager before delivery delay; it is closed, or traces of later tests ask it."""
    with QueueManager("OLD", clock=clock, command_level=750) as manager:
        alter(manager, "DEFINE QLOCAL(Q1)")
        yield jms.ConnectionFactory(manager)


@pytest.mark.parametrize("delay_ms", [1, -1, 10**18])
def test_D05_an_old_queue_manager_knows_no_delay(old: jms.ConnectionFactory, delay_ms: int) -> None:
    simplified = old.create_context().create_producer()
    with refused(jms.JMSRuntimeException, rc.MQRC_FUNCTION_NOT_SUPPORTED):
        simplified.set_delivery_delay(delay_ms)
    classic = old.create_connection().create_session().create_producer()
    with refused(jms.JMSException, rc.MQRC_FUNCTION_NOT_SUPPORTED):
        classic.set_delivery_delay(delay_ms)
    assert simplified.delivery_delay == classic.delivery_delay == 0


def test_D05_a_delay_of_zero_is_always_allowed(old: jms.ConnectionFactory) -> None:
    context = old.create_context()
    q1 = context.create_queue("Q1")
    context.create_producer().set_delivery_delay(0).send(q1, "x")
    assert text_of(context.create_consumer(q1)) == "x"


def test_D05_command_level_800_knows_delay(clock: VirtualClock) -> None:
    with QueueManager("NEW", clock=clock, command_level=800) as manager:
        producer = jms.ConnectionFactory(manager).create_context().create_producer()
        assert producer.set_delivery_delay(1).delivery_delay == 1


@pytest.fixture(params=["classic", "simplified"])
def producer(
    request: pytest.FixtureRequest, context: jms.JMSContext, session: jms.Session
) -> jms.JMSProducer | jms.MessageProducer:
    """A producer of either API."""
    if request.param == "classic":
        return session.create_producer(session.create_queue("Q1"))
    return context.create_producer()


Producer = jms.JMSProducer | jms.MessageProducer


def error_of(producer: Producer) -> type[Exception]:
    """D10: which error the API of a producer raises."""
    return jms.JMSException if type(producer) is jms.MessageProducer else jms.JMSRuntimeException


def test_D07_D10_the_life_set_second_completes_the_bad_pair(producer: Producer) -> None:
    producer.set_delivery_delay(5_000)
    with refused(error_of(producer), EXPIRY):
        producer.set_time_to_live(4_999)
    assert (producer.time_to_live, producer.delivery_delay) == (0, 5_000)


def test_D07_D10_the_delay_set_second_completes_the_bad_pair(producer: Producer) -> None:
    producer.set_time_to_live(4_999)
    with refused(error_of(producer), EXPIRY):
        producer.set_delivery_delay(5_000)
    assert (producer.time_to_live, producer.delivery_delay) == (4_999, 0)


def test_D07_equal_is_allowed_and_no_life_is_for_ever(producer: Producer) -> None:
    producer.set_time_to_live(5_000)
    producer.set_delivery_delay(5_000)
    producer.set_time_to_live(0)
    producer.set_delivery_delay(50_000)
    producer.set_delivery_delay(0)
    producer.set_time_to_live(1)
    assert (producer.time_to_live, producer.delivery_delay) == (1, 0)


def test_D07_a_send_with_its_own_life_checks_again(
    session: jms.Session, manager: QueueManager, clock: VirtualClock
) -> None:
    queue = session.create_queue("Q1")
    producer = session.create_producer(queue)
    producer.set_delivery_delay(5_000)
    message = session.create_text_message("x")
    with refused(jms.JMSException, EXPIRY):
        producer.send(message, jms.PERSISTENT, 4, 4_999)
    assert manager.curdepth(STAGING) == 0
    assert message.jms_message_id is None
    producer.send(message, jms.PERSISTENT, 4, 5_001)
    clock.advance(5_000)
    got = received(session.create_consumer(queue), jms.TextMessage)
    assert got.jms_expiration == START_MS + 5_001
    assert producer.time_to_live == 0


def test_D07_a_destination_with_a_life_completes_the_pair_at_the_send(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    producer = context.create_producer().set_delivery_delay(5_000)
    with refused(jms.JMSRuntimeException, EXPIRY):
        producer.send(context.create_queue("queue:///Q1?expiry=4999"), "x")
    assert manager.curdepth(STAGING) == 0
    producer.send(context.create_queue("queue:///Q1?expiry=5000"), "x")
    assert manager.curdepth(STAGING) == 1


def test_D07_the_pair_is_free_where_the_life_begins_at_the_release(
    session: jms.Session, manager: QueueManager, clock: VirtualClock
) -> None:
    alter(manager, "ALTER QLOCAL(Q1) TTLFROM(RELEASE)")
    queue = session.create_queue("Q1")
    producer = session.create_producer(queue)
    producer.set_delivery_delay(5_000)
    producer.set_time_to_live(1_000)
    sent = session.create_text_message("x")
    producer.send(sent)
    producer.send(session.create_text_message("y"), time_to_live=2_000)
    assert sent.jms_expiration == START_MS + 6_000
    clock.advance(5_000)
    assert f"<Exp>{START_MS + 6_000}</Exp>".encode() in on_queue(manager).body
    clock.advance(1_000)
    assert text_of(session.create_consumer(queue)) == "y"


@pytest.mark.parametrize("comes_second", ["life", "delay"])
def test_D07_a_producer_of_any_destination_is_checked_at_the_send_where_lives_begin_at_the_release(
    context: jms.JMSContext, manager: QueueManager, clock: VirtualClock, comes_second: str
) -> None:
    """A JMSProducer has no queue when its setters are called; seed 002: or at the send."""
    alter(manager, "ALTER QLOCAL(Q1) TTLFROM(RELEASE)")
    producer = context.create_producer()
    if comes_second == "life":
        producer.set_delivery_delay(5_000).set_time_to_live(1_000)
    else:
        producer.set_time_to_live(1_000).set_delivery_delay(5_000)
    q1, q2 = context.create_queue("Q1"), context.create_queue("Q2")
    with refused(jms.JMSRuntimeException, EXPIRY):
        producer.send(q2, "lives from the put")
    with refused(jms.JMSRuntimeException, EXPIRY):
        producer.send(context.create_topic("a"), "lives from the publication")
    assert manager.curdepth(STAGING) == 0
    sent = context.create_text_message("x")
    producer.send(q1, sent)
    assert sent.jms_expiration == START_MS + 6_000
    consumer = context.create_consumer(q1)
    clock.advance(4_999)
    assert consumer.receive_no_wait() is None
    clock.advance(1_000)
    assert text_of(consumer) == "x"
    producer.send(q1, "y")
    clock.advance(6_000)
    assert consumer.receive_no_wait() is None


def test_D07_a_classic_producer_without_a_queue_is_checked_like_a_JMSProducer(
    session: jms.Session, manager: QueueManager
) -> None:
    producer = session.create_producer(None)
    producer.set_delivery_delay(5_000)
    with refused(jms.JMSException, EXPIRY):
        producer.set_time_to_live(4_999)
    alter(manager, "ALTER QLOCAL(Q1) TTLFROM(RELEASE)")
    producer.set_time_to_live(4_999)
    message = session.create_text_message("x")
    with refused(jms.JMSException, EXPIRY):
        producer.send(session.create_queue("Q2"), message)
    with refused(jms.JMSException, EXPIRY):
        producer.send(session.create_queue("Q2"), message, time_to_live=4_998)
    producer.send(session.create_queue("Q1"), message, time_to_live=4_998)
    assert message.jms_expiration == START_MS + 5_000 + 4_998
    assert manager.curdepth(STAGING) == 1


def test_D06_a_clustered_destination_bound_at_the_open_is_not_delayed(
    session: jms.Session, manager: QueueManager
) -> None:
    alter(manager, "ALTER QLOCAL(Q1) CLUSTER(C1)")
    producer = session.create_producer(session.create_queue("Q1"))
    producer.send(session.create_text_message("now"))
    producer.set_delivery_delay(1)
    with refused(jms.JMSException, OPTIONS):
        producer.send(session.create_text_message("x"))
    alter(manager, "ALTER QLOCAL(Q1) DEFBIND(NOTFIXED)")
    producer.send(session.create_text_message("x"))
    assert (manager.curdepth("Q1"), manager.curdepth(STAGING)) == (1, 1)


def test_D08_a_retained_publication_is_not_delayed(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    message = context.create_text_message("x")
    message.set_property("JMS_IBM_Retain", jms.RETAIN_PUBLICATION)
    producer = context.create_producer()
    producer.send(q1, message)
    producer.set_delivery_delay(1)
    with refused(jms.JMSRuntimeException, OPTIONS):
        producer.send(q1, message)
    with refused(jms.JMSRuntimeException, OPTIONS):
        context.create_producer().set_property("JMS_IBM_Retain", 1).set_delivery_delay(1).send(
            q1, "x"
        )
    message.set_property("JMS_IBM_Retain", 0)
    producer.send(q1, message)
    assert (manager.curdepth("Q1"), manager.curdepth(STAGING)) == (1, 1)


@pytest.mark.parametrize(
    ("name", "value"), [("JMSXGroupID", "G"), ("JMS_IBM_Last_Msg_In_Group", True)]
)
def test_D09_a_group_is_not_delayed(
    session: jms.Session, manager: QueueManager, name: str, value: object
) -> None:
    producer = session.create_producer(session.create_queue("Q1"))
    message = session.create_text_message("x")
    message.set_property(name, value)
    producer.send(message)
    producer.set_delivery_delay(1)
    with refused(jms.JMSException, OPTIONS):
        producer.send(message)
    assert (manager.curdepth("Q1"), manager.curdepth(STAGING)) == (1, 0)


def test_D11_a_full_staging_queue_surfaces_at_the_send(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    alter(manager, f"ALTER QLOCAL({STAGING}) MAXDEPTH(1)")
    producer = context.create_producer().set_delivery_delay(1)
    producer.send(q1, "1")
    with refused(jms.ResourceAllocationRuntimeException, rc.MQRC_Q_FULL):
        producer.send(q1, "2")


def test_D11_an_error_of_target_and_staging_queue_names_both(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    """Seed 002: the error may apply to the target, the staging queue, or both."""
    producer = context.create_producer().set_delivery_delay(1)
    alter(manager, "ALTER QLOCAL(Q1) MAXDEPTH(0)")
    with pytest.raises(jms.ResourceAllocationRuntimeException) as one:
        producer.send(q1, "x")
    assert "Q1" in str(one.value)
    assert STAGING not in str(one.value)
    alter(manager, f"ALTER QLOCAL({STAGING}) PUT(DISABLED)")
    with pytest.raises(jms.ResourceAllocationRuntimeException) as both:
        producer.send(q1, "x")
    assert both.value.reason == rc.MQRC_Q_FULL
    assert "Q1 holds MAXDEPTH(0)" in str(both.value)
    assert f"MQRC_PUT_INHIBITED (2051): PUT(DISABLED) on {STAGING}" in str(both.value)


def test_D12_in_a_unit_of_work_it_is_staged_at_the_commit(
    transacted: jms.JMSContext, q1: jms.Queue, manager: QueueManager, clock: VirtualClock
) -> None:
    consumer = transacted.create_consumer(q1)
    transacted.create_producer().set_delivery_delay(1_000).send(q1, "x")
    assert manager.curdepth(STAGING) == 0
    clock.advance(2_000)
    assert consumer.receive_no_wait() is None
    transacted.commit()
    assert text_of(consumer) == "x"
    transacted.commit()
    transacted.create_producer().set_delivery_delay(1_000).send(q1, "y")
    transacted.rollback()
    clock.advance(1_000)
    assert consumer.receive_no_wait() is None


def test_D16_priority_and_persistence_as_the_queue_are_fixed_at_the_send(
    context: jms.JMSContext, manager: QueueManager, clock: VirtualClock
) -> None:
    queue = context.create_queue("queue:///A1?priority=-1&persistence=-1")
    sent = context.create_text_message("x")
    context.create_producer().set_delivery_delay(1_000).send(queue, sent)
    assert (sent.jms_priority, sent.jms_delivery_mode) == (7, jms.PERSISTENT)
    alter(manager, "ALTER QALIAS(A1) DEFPRTY(2) DEFPSIST(NO)")
    clock.advance(1_000)
    got = received(context.create_consumer(queue), jms.TextMessage)
    assert (got.jms_priority, got.jms_delivery_mode) == (7, jms.PERSISTENT)


def test_D17_the_life_runs_from_the_send(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager, clock: VirtualClock
) -> None:
    context.create_producer().set_delivery_delay(5_000).set_time_to_live(20_000).send(q1, "x")
    clock.advance(15_000)
    assert on_queue(manager).remaining_tenths == 50
    message = received(context.create_consumer(q1), jms.TextMessage)
    assert message.jms_expiration == START_MS + 20_000


def test_D18_equal_life_and_delay_is_never_received(
    context: jms.JMSContext, q1: jms.Queue, clock: VirtualClock
) -> None:
    consumer = context.create_consumer(q1)
    context.create_producer().set_delivery_delay(1_000).set_time_to_live(1_000).send(q1, "x")
    clock.advance(1_000)
    assert consumer.receive_no_wait() is None


def test_D19_an_inhibited_target_refuses_at_the_send(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    alter(manager, "ALTER QLOCAL(Q1) PUT(DISABLED)")
    with refused(jms.JMSRuntimeException, rc.MQRC_PUT_INHIBITED):
        context.create_producer().set_delivery_delay(1_000).send(q1, "x")


def test_D31_a_delay_longer_than_the_capped_life_is_refused_at_the_send(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    alter(manager, "ALTER QLOCAL(Q1) CAPEXPRY(20)")
    producer = context.create_producer().set_delivery_delay(2_001)
    with refused(jms.JMSRuntimeException, EXPIRY):
        producer.send(q1, "x")
    with pytest.raises(jms.JMSRuntimeException, match=r"CAPEXPRY\(20\) of QLOCAL\(Q1\)"):
        producer.send(q1, "x")
    producer.set_delivery_delay(2_000).send(q1, "x")
    assert manager.curdepth(STAGING) == 1
    assert manager.engine.registry.resolve("Q2").queue.definition.capexpry == MQCEX_NOLIMIT


ABSURD = [-1, True, 1.5, "5", None, 10**18, 2**63, CENTURY_MS]


@pytest.mark.parametrize("delay_ms", ABSURD)
def test_a_delay_that_is_none_is_refused_by_the_setter(producer: Producer, delay_ms: int) -> None:
    producer.set_delivery_delay(7)
    with refused(error_of(producer), OPTIONS):
        producer.set_delivery_delay(delay_ms)
    assert producer.delivery_delay == 7


@pytest.mark.parametrize("time_to_live_ms", [-1, True, 1.5, "5", None, 10**18, 2**63])
def test_a_life_that_is_none_is_refused_by_setter_and_send(
    producer: Producer, session: jms.Session, time_to_live_ms: int
) -> None:
    producer.set_time_to_live(7)
    with refused(error_of(producer), EXPIRY):
        producer.set_time_to_live(time_to_live_ms)
    assert producer.time_to_live == 7
    own = session.create_producer(session.create_queue("Q1"))
    with refused(jms.JMSException, EXPIRY):
        own.send(session.create_message(), time_to_live=time_to_live_ms)


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_E03_every_producer_keeps_to_the_maximum_of_its_queue_manager(
    clock: VirtualClock, kind: str
) -> None:
    max_ms = 99_999_999_900
    manager = QueueManager("STRICT", clock=clock, settings={"expiry.max_check": "always"})
    with manager, jms.ConnectionFactory(manager).create_context() as context:
        alter(manager, "DEFINE QLOCAL(Q1)")
        alter(manager, "DEFINE SUB('S') TOPICSTR('a') DEST(Q1)")
        queue, topic = context.create_queue("Q1"), context.create_topic("a")
        target: jms.Queue | jms.Topic = queue if kind == "queue" else topic
        producer = context.create_producer().set_time_to_live(max_ms + 1)
        with refused(jms.JMSRuntimeException, EXPIRY):
            producer.send(target, "x")
        with jms.ConnectionFactory(manager).create_connection() as connection:
            session = connection.create_session(jms.AUTO_ACKNOWLEDGE)
            own = session.create_producer(target)
            with refused(jms.JMSException, EXPIRY):
                own.send(session.create_message(), time_to_live=max_ms + 1)
            own.send(session.create_message(), time_to_live=max_ms)
        uri = context.create_queue(f"queue:///Q1?expiry={max_ms + 1}")
        with refused(jms.JMSRuntimeException, EXPIRY):
            context.create_producer().send(uri, "x")
        assert manager.curdepth("Q1") == 1


def test_the_latest_delay_ends_in_2109(context: jms.JMSContext, q1: jms.Queue) -> None:
    latest_ms = 2**42 - 1 - START_MS
    producer = context.create_producer().set_delivery_delay(latest_ms)
    producer.send(q1, "far")
    with refused(jms.JMSRuntimeException, OPTIONS):
        producer.set_delivery_delay(latest_ms + 1)


def test_a_delay_that_has_become_too_long_is_refused_at_the_send(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager, clock: VirtualClock
) -> None:
    producer = context.create_producer().set_delivery_delay(2**42 - 1 - START_MS)
    clock.advance(1)
    with refused(jms.JMSRuntimeException, OPTIONS):
        producer.send(q1, "too far")
    assert manager.curdepth(STAGING) == 0


def test_D10_the_reason_is_linked(producer: Producer) -> None:
    with pytest.raises(error_of(producer)) as caught:
        producer.set_time_to_live(-1)
    cause = caught.value.__cause__
    assert isinstance(cause, MQError)
    assert (cause.reason, getattr(caught.value, "error_code", "")) == (
        EXPIRY,
        "MQRC_EXPIRY_ERROR",
    )


def taken(context: jms.JMSContext, sent: jms.Message) -> jms.Message:
    """Take a delayed message from the staging queue by its correlation id, as seed 002 says."""
    selector = f"JMSCorrelationID = '{sent.jms_message_id}'"
    staging = context.create_queue(STAGING)
    (browsed,) = context.create_browser(staging, selector)
    message = context.create_consumer(staging, selector).receive_no_wait()
    assert message is not None
    assert type(browsed) is type(message)
    assert browsed.property_names() == message.property_names()
    return message


def test_D03_a_message_taken_from_the_staging_queue_is_what_it_was(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    sent = context.create_text_message("by mistake")
    sent.set_property("colour", "red")
    sent.set_jms_correlation_id("order 17")
    sent.set_jms_reply_to(context.create_queue("REPLIES"))
    sent.set_jms_type("order")
    context.create_producer().set_delivery_delay(5_000).set_time_to_live(20_000).send(q1, sent)
    message = taken(context, sent)
    assert isinstance(message, jms.TextMessage)
    assert message.text == "by mistake"
    assert message.get_property(jms.JMS_MAYFLY_DELAYED) is True
    assert message.get_property("colour") == "red"
    assert message.jms_type == "order"
    assert str(message.jms_destination) == str(q1)
    assert str(message.jms_reply_to) == str(context.create_queue("REPLIES"))
    assert (message.jms_timestamp, message.jms_delivery_time) == (START_MS, START_MS + 5_000)
    assert message.jms_expiration == START_MS + 20_000
    assert message.get_property(jms.JMS_IBM_FORMAT) == "MQSTR   "
    # Seed 002: a new MsgId, and the original one as CorrelId.
    assert message.jms_message_id not in (None, sent.jms_message_id)
    assert message.jms_correlation_id == sent.jms_message_id
    assert manager.curdepth(STAGING) == 0


def test_D03_a_map_and_a_native_message_come_from_the_staging_queue_as_what_they_were(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    sent = context.create_map_message()
    sent.set_object("seat", "12A")
    context.create_producer().set_delivery_delay(5_000).send(q1, sent)
    message = taken(context, sent)
    assert isinstance(message, jms.MapMessage)
    assert message.get_object("seat") == "12A"
    with manager.session() as native:
        native.put("Q1", b"plain", delay_ms=5_000, format_name="MQSTR")
    got = received(context.create_consumer(context.create_queue(STAGING)), jms.TextMessage)
    assert got.text == "plain"
    assert str(got.jms_destination) == str(q1)
    assert got.get_property(jms.JMS_MAYFLY_DELAYED) is True


def test_D03_D25_a_delayed_publication_on_the_staging_queue_says_its_topic(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    alter(manager, "DEFINE TOPIC(T) TOPICSTR('a') PMSGDLV(ALLAVAIL)")
    alter(manager, "DEFINE SUB(S) TOPICSTR('a') DEST(Q1)")
    topic = context.create_topic("a")
    context.create_producer().set_delivery_delay(5_000).send(topic, "news")
    staging = context.create_consumer(context.create_queue(STAGING))
    got = received(staging, jms.TextMessage)
    assert (got.text, str(got.jms_destination)) == ("news", str(topic))
    assert got.get_property(jms.JMS_MAYFLY_DELAYED) is True


def test_D03_a_selector_on_the_staging_queue_sees_what_the_message_shows(
    context: jms.JMSContext, q1: jms.Queue
) -> None:
    producer = context.create_producer().set_delivery_delay(5_000)
    for colour in ("red", "blue"):
        producer.set_property("colour", colour).send(q1, colour)
    staging = context.create_queue(STAGING)
    for selector in (
        "colour = 'blue'",
        "colour LIKE 'b%' AND JMS_Mayfly_Delayed = TRUE AND JMS_IBM_Format = 'MQSTR'",
    ):
        (found,) = context.create_browser(staging, selector)
        assert isinstance(found, jms.TextMessage)
        assert found.text == "blue"
    assert not list(context.create_browser(staging, "JMS_Mayfly_Delayed IS NULL"))


def test_D03_after_the_delivery_time_nothing_says_that_it_was_delayed(
    context: jms.JMSContext, q1: jms.Queue, clock: VirtualClock
) -> None:
    context.create_producer().set_delivery_delay(5_000).send(q1, "x")
    clock.advance(5_000)
    message = received(context.create_consumer(q1), jms.TextMessage)
    assert not message.property_exists(jms.JMS_MAYFLY_DELAYED)


def test_D14_a_damaged_delay_header_is_received_as_bytes(
    context: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    body = b"DDH " + bytes(300)
    put_native(manager, body, Descriptor(format="MQHDDLY"))
    message = received(context.create_consumer(q1), jms.BytesMessage)
    assert message.get_body(bytes) == body
    assert not message.property_exists(jms.JMS_MAYFLY_DELAYED)
