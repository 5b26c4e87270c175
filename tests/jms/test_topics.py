"""Topics: their names and URIs, what is published to them, and what is shown of it."""

from __future__ import annotations

import pytest

from mayfly import QueueManager, jms
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message as QueueMessage
from tests.jms.scene import (
    STAGING,
    START_MS,
    Receiver,
    alter,
    number_of,
    received,
    refused,
    text_of,
)

ALL_AVAILABLE = "DEFINE TOPIC(T) TOPICSTR('a') PMSGDLV(ALLAVAIL)"


@pytest.fixture
def a(context: jms.JMSContext) -> jms.Topic:
    """The topic ``a``."""
    return context.create_topic("a")


def copies_queue(manager: QueueManager) -> str:
    """Return the managed queue of the one subscription there is."""
    (subscription,) = manager.engine.registry.subscriptions.all()
    return subscription.destination


def copies(manager: QueueManager) -> list[QueueMessage]:
    """Return the copies on that queue."""
    with manager.session() as native:
        return list(native.browse(copies_queue(manager)))


# Names and URIs


@pytest.mark.parametrize(
    ("given", "name", "uri"),
    [
        ("a/b", "a/b", "topic://a/b"),
        ("topic://a/b", "a/b", "topic://a/b"),
        ("topic:///a/b", "a/b", "topic://a/b"),
        ("/a", "/a", "topic:////a"),
        ("topic:////a", "/a", "topic:////a"),
        ("a/+/#", "a/+/#", "topic://a/+/#"),
        ("what?", "what?", "topic://what%3F"),
        ("100%", "100%", "topic://100%25"),
        ("topic://100%", "100%", "topic://100%25"),
        ("Zürich//x", "Zürich//x", "topic://Zürich//x"),
        (
            "topic:///a?priority=3&persistence=1",
            "a",
            "topic://a?persistence=1&priority=3",
        ),
        ("topic://a?expiry=0&targetClient=1", "a", "topic://a?expiry=0&targetClient=1"),
    ],
)
def test_topics_by_topic_string_and_uri(
    context: jms.JMSContext, given: str, name: str, uri: str
) -> None:
    topic = context.create_topic(given)
    assert (topic.topic_name, topic.uri, str(topic)) == (name, uri, uri)
    again = context.create_topic(uri)
    assert again == topic
    assert hash(again) == hash(topic)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", rc.MQRC_TOPIC_STRING_ERROR),
        ("topic://", rc.MQRC_TOPIC_STRING_ERROR),
        ("topic:///", rc.MQRC_TOPIC_STRING_ERROR),
        ("a\0", rc.MQRC_TOPIC_STRING_ERROR),
        ("\ud800", rc.MQRC_TOPIC_STRING_ERROR),
        ("x" * 10_241, rc.MQRC_TOPIC_STRING_ERROR),
        ("topic://a%FF", rc.MQRC_OBJECT_NAME_ERROR),
        ("topic://a?priority=10", rc.MQRC_OBJECT_NAME_ERROR),
        ("topic://a?persistence=0", rc.MQRC_OBJECT_NAME_ERROR),
        ("topic://a?color=red", rc.MQRC_OBJECT_NAME_ERROR),
        (7, rc.MQRC_OBJECT_NAME_ERROR),
    ],
)
def test_names_that_are_no_topic(
    context: jms.JMSContext, session: jms.Session, name: str, reason: int
) -> None:
    with refused(jms.InvalidDestinationRuntimeException, reason):
        context.create_topic(name)
    with refused(jms.InvalidDestinationException, reason):
        session.create_topic(name)


def test_destinations_are_equal_when_their_uris_are(context: jms.JMSContext) -> None:
    assert context.create_topic("Q1") != context.create_queue("Q1")
    assert context.create_topic("a") != context.create_topic("topic://a?priority=3")
    own = context.create_temporary_topic()
    assert own == jms.Topic(own.topic_name)


# Publishing


def test_each_subscriber_gets_a_copy_and_the_topic_as_its_destination(
    context: jms.JMSContext, session: jms.Session
) -> None:
    topic = context.create_topic("flight/LH400/gate")
    first = context.create_consumer(context.create_topic("flight/+/gate"))
    second = session.create_consumer(topic)
    other = context.create_consumer(context.create_topic("train/#"))
    sent = context.create_text_message("B42")
    context.create_producer().send(topic, sent)
    for consumer in (first, second):
        copy = received(consumer, jms.TextMessage)
        assert (copy.text, copy.jms_destination) == ("B42", topic)
        assert copy.jms_message_id == sent.jms_message_id
    assert other.receive_no_wait() is None
    assert (sent.jms_destination, sent.jms_timestamp) == (topic, START_MS)


def test_published_by_a_native_program_it_has_the_topic_as_its_destination_too(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    consumer = context.create_consumer(context.create_topic("#"))
    with manager.session() as native:
        native.publish("a/b", b"text", format_name="MQSTR")
    copy = received(consumer, jms.TextMessage)
    assert (copy.text, copy.jms_destination) == ("text", jms.Topic("a/b"))


def test_nobody_subscribes_and_that_is_no_error(context: jms.JMSContext, a: jms.Topic) -> None:
    context.create_producer().send(a, "x")
    assert context.create_consumer(a).receive_no_wait() is None


def test_a_producer_of_the_classic_api_publishes(session: jms.Session) -> None:
    topic = session.create_topic("a")
    consumer, producer = session.create_consumer(topic), session.create_producer(topic)
    free, message = session.create_producer(), session.create_text_message("x")
    producer.send(message, jms.NON_PERSISTENT, 8, 9_000)
    assert (message.jms_delivery_mode, message.jms_priority) == (jms.NON_PERSISTENT, 8)
    assert message.jms_expiration == START_MS + 9_000
    free.send(topic, message)
    assert (producer.destination, free.destination) == (topic, None)
    copy = received(consumer, jms.TextMessage)
    assert (copy.jms_priority, copy.jms_expiration) == (8, START_MS + 9_000)
    assert received(consumer, jms.TextMessage).jms_priority == 4


def test_what_is_sent_to_the_alias_of_a_topic_is_published(
    context: jms.JMSContext, session: jms.Session, manager: QueueManager
) -> None:
    alter(manager, "DEFINE TOPIC(T) TOPICSTR('a')")
    alter(manager, "DEFINE QALIAS(TO.A) TARGET(T) TARGTYPE(TOPIC) CAPEXPRY(10)")
    alias, consumer = context.create_queue("TO.A"), context.create_consumer(jms.Topic("a"))
    sent = context.create_text_message("1")
    context.create_producer().send(alias, sent)
    session.create_producer(alias).send(session.create_text_message("2"))
    first = received(consumer, jms.TextMessage)
    assert (first.text, first.jms_destination) == ("1", alias)
    assert first.jms_expiration == sent.jms_expiration == START_MS + 1_000
    assert text_of(consumer) == "2"
    with refused(jms.InvalidDestinationRuntimeException, rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        context.create_consumer(alias)


def test_nothing_is_published_to_wildcards(context: jms.JMSContext, session: jms.Session) -> None:
    topic = context.create_topic("a/#")
    with refused(jms.InvalidDestinationRuntimeException, rc.MQRC_TOPIC_STRING_ERROR):
        context.create_producer().send(topic, "x")
    with refused(jms.InvalidDestinationException, rc.MQRC_TOPIC_STRING_ERROR):
        session.create_producer(topic)


def test_PUB_DISABLED_refuses_a_publication(
    context: jms.JMSContext, a: jms.Topic, manager: QueueManager
) -> None:
    alter(manager, "DEFINE TOPIC(T) TOPICSTR('a') PUB(DISABLED)")
    with refused(jms.JMSRuntimeException, rc.MQRC_PUT_INHIBITED):
        context.create_producer().send(a, "x")


def test_a_topic_wins_over_its_producer_and_may_leave_it_to_the_definition(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    alter(manager, "DEFINE TOPIC(T) TOPICSTR('a') DEFPRTY(7) DEFPSIST(NO)")
    consumer = context.create_consumer(context.create_topic("a"))
    producer = context.create_producer().set_priority(9).set_time_to_live(1)
    for options, priority, mode in (
        ("priority=1&persistence=1&expiry=5000", 1, jms.NON_PERSISTENT),
        ("priority=-1&persistence=-1&expiry=5000", 7, jms.NON_PERSISTENT),
    ):
        sent = context.create_text_message("x")
        producer.send(context.create_topic(f"topic:///a?{options}"), sent)
        copy = received(consumer, jms.TextMessage)
        for message in (sent, copy):
            assert (message.jms_priority, message.jms_delivery_mode) == (priority, mode)
            assert message.jms_expiration == START_MS + 5_000


def test_targetClient_1_publishes_without_an_MQRFH2(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    consumer = context.create_consumer(context.create_topic("a"))
    context.create_producer().send(context.create_topic("topic://a?targetClient=1"), "plain")
    (copy,) = copies(manager)
    assert (copy.body, copy.descriptor.format.strip()) == (b"plain", "MQSTR")
    got = received(consumer, jms.TextMessage)
    assert (got.text, got.jms_destination) == ("plain", jms.Topic("a"))


def test_copies_expire_at_their_moment_while_the_subscriber_waits_for_nothing(
    context: jms.JMSContext, a: jms.Topic, manager: QueueManager, clock: VirtualClock
) -> None:
    consumer = context.create_consumer(a)
    producer = context.create_producer().set_time_to_live(1_000)
    producer.send(a, "1").send(a, "2")
    clock.advance(999)
    assert text_of(consumer) == "1"
    clock.advance(1)
    assert consumer.receive_no_wait() is None
    assert not copies(manager)


def test_X1_CAPEXPRY_of_a_topic_shortens_the_life_of_its_publications(
    context: jms.JMSContext, a: jms.Topic, manager: QueueManager, clock: VirtualClock
) -> None:
    alter(manager, "DEFINE TOPIC(T) TOPICSTR('a') CAPEXPRY(10)")
    consumer, sent = context.create_consumer(a), context.create_text_message("x")
    context.create_producer().send(a, sent).send(a, "y")
    assert sent.jms_expiration == START_MS + 1_000
    clock.advance(999)
    assert received(consumer, jms.TextMessage).jms_expiration == START_MS + 1_000
    clock.advance(1)
    assert consumer.receive_no_wait() is None


def test_X3_each_copy_has_a_life_of_its_own(
    context: jms.JMSContext, a: jms.Topic, manager: QueueManager, clock: VirtualClock
) -> None:
    alter(manager, "DEFINE QMODEL(SHORT) DEFTYPE(PERMDYN) CAPEXPRY(10)")
    alter(manager, "DEFINE TOPIC(T) TOPICSTR('a') MNDURMDL(SHORT)")
    capped = context.create_consumer(a)
    alter(manager, "ALTER TOPIC(T) MNDURMDL('')")
    free = context.create_consumer(context.create_topic("+"))
    context.create_producer().set_time_to_live(2_000).send(a, "1").send(a, "2")
    clock.advance(999)
    assert received(capped, jms.TextMessage).jms_expiration == START_MS + 1_000
    clock.advance(1)
    assert capped.receive_no_wait() is None
    assert received(free, jms.TextMessage).jms_expiration == START_MS + 2_000
    clock.advance(999)
    assert text_of(free) == "2"


def test_each_expired_copy_owes_the_report_its_publisher_asks_for(
    context: jms.JMSContext, a: jms.Topic, manager: QueueManager, clock: VirtualClock
) -> None:
    consumers = [context.create_consumer(a), context.create_consumer(a)]
    message = context.create_text_message("x")
    message.set_property("JMS_IBM_Report_Expiration", c.MQRO_EXPIRATION)
    message.set_jms_reply_to(context.create_queue("REPLIES"))
    context.create_producer().set_time_to_live(1_000).send(a, message)
    clock.advance(1_000)
    for number, consumer in enumerate(consumers):
        assert manager.curdepth("REPLIES") == number
        assert consumer.receive_no_wait() is None
    reports = context.create_consumer(context.create_queue("REPLIES"))
    for _ in consumers:
        report = reports.receive_no_wait()
        assert report is not None
        assert report.jms_correlation_id == message.jms_message_id
        assert report.get_int_property("JMS_IBM_Feedback") == c.MQFB_EXPIRATION


# Delay


def test_D26_by_default_a_persistent_delayed_publication_is_refused(
    context: jms.JMSContext, session: jms.Session, a: jms.Topic, manager: QueueManager
) -> None:
    consumer = context.create_consumer(a)
    producer = context.create_producer().set_delivery_delay(5_000)
    with refused(jms.JMSRuntimeException, rc.MQRC_PUBLICATION_FAILURE):
        producer.send(a, "x")
    classic = session.create_producer(a)
    classic.set_delivery_delay(5_000)
    with refused(jms.JMSException, rc.MQRC_PUBLICATION_FAILURE):
        classic.send(session.create_text_message("x"))
    assert manager.curdepth(STAGING) == 0
    producer.set_delivery_mode(jms.NON_PERSISTENT).send(a, "y")
    assert manager.curdepth(STAGING) == 1
    assert consumer.receive_no_wait() is None


def test_D25_who_subscribes_at_the_send_gets_it_when_the_delay_is_over(
    context: jms.JMSContext, a: jms.Topic, manager: QueueManager, clock: VirtualClock
) -> None:
    alter(manager, ALL_AVAILABLE)
    early = context.create_consumer(a)
    sent = context.create_text_message("x")
    context.create_producer().set_delivery_delay(5_000).send(a, sent)
    late = context.create_consumer(a)
    assert sent.jms_delivery_time == START_MS + 5_000
    clock.advance(4_999)
    assert early.receive_no_wait() is None
    clock.advance(1)
    got = received(early, jms.TextMessage)
    assert (got.jms_timestamp, got.jms_delivery_time) == (START_MS, START_MS + 5_000)
    assert (got.jms_destination, got.jms_message_id) == (a, sent.jms_message_id)
    assert late.receive_no_wait() is None


def test_a_receive_that_waits_gets_a_delayed_publication_at_its_moment_if_it_lives_then(
    context: jms.JMSContext, a: jms.Topic, manager: QueueManager, clock: VirtualClock
) -> None:
    alter(manager, ALL_AVAILABLE)
    consumer = context.create_consumer(a)
    producer = context.create_producer().set_delivery_mode(jms.NON_PERSISTENT)
    producer.set_time_to_live(1_000).set_delivery_delay(1_000).send(a, "expired on arrival")
    producer.set_time_to_live(2_001).set_delivery_delay(2_000).send(a, "1 ms")
    number = number_of(manager, copies_queue(manager))
    waits = Receiver(lambda: consumer.receive(5_000))
    waits.wait_until_waiting(manager, number)
    clock.advance(1_999)
    assert manager.engine.waits.is_waited_on(number)
    clock.advance(1)
    got = waits.result()
    assert isinstance(got, jms.TextMessage)
    assert (got.text, got.jms_expiration) == ("1 ms", START_MS + 2_001)


def test_D23_who_is_gone_at_the_release_gets_nothing(
    context: jms.JMSContext, a: jms.Topic, manager: QueueManager, clock: VirtualClock
) -> None:
    alter(manager, ALL_AVAILABLE)
    first = context.create_consumer(a)
    context.create_producer().set_delivery_delay(5_000).send(a, "x")
    first.close()
    again = context.create_consumer(a)
    clock.advance(5_000)
    assert manager.curdepth(STAGING) == 0
    assert again.receive_no_wait() is None
    assert manager.curdepth("DEAD") == 0


def test_D7_a_life_of_a_publication_shorter_than_its_delay(session: jms.Session) -> None:
    producer = session.create_producer(session.create_topic("a"))
    producer.set_delivery_delay(5_000)
    with refused(jms.JMSException, rc.MQRC_EXPIRY_ERROR):
        producer.set_time_to_live(4_999)
    producer.set_time_to_live(5_000)


def test_D12_in_a_transaction_the_copy_is_staged_at_the_commit(
    transacted: jms.JMSContext, context: jms.JMSContext, manager: QueueManager, clock: VirtualClock
) -> None:
    alter(manager, ALL_AVAILABLE)
    topic = transacted.create_topic("a")
    consumer = context.create_consumer(topic)
    transacted.create_producer().set_delivery_delay(5_000).send(topic, "x")
    assert manager.counts(STAGING).live == 0
    transacted.commit()
    assert manager.counts(STAGING).live == 1
    clock.advance(4_999)
    assert consumer.receive_no_wait() is None
    clock.advance(1)
    assert text_of(consumer) == "x"


# Retained


def test_a_retained_publication_waits_for_who_subscribes_later(
    context: jms.JMSContext, a: jms.Topic, clock: VirtualClock
) -> None:
    producer = context.create_producer().set_property("JMS_IBM_Retain", jms.RETAIN_PUBLICATION)
    producer.set_time_to_live(1_000).send(a, "old").send(a, "new")
    clock.advance(999)
    copy = received(context.create_consumer(a), jms.TextMessage)
    assert (copy.text, copy.jms_expiration) == ("new", START_MS + 1_000)
    clock.advance(1)
    assert context.create_consumer(a).receive_no_wait() is None


def test_D08_a_retained_publication_is_not_delayed(
    context: jms.JMSContext, a: jms.Topic, manager: QueueManager
) -> None:
    alter(manager, ALL_AVAILABLE)
    message = context.create_text_message("x")
    message.set_property("JMS_IBM_Retain", 1)
    with refused(jms.JMSRuntimeException, rc.MQRC_OPTIONS_ERROR):
        context.create_producer().set_delivery_delay(5_000).send(a, message)
    assert context.create_consumer(a).receive_no_wait() is None


# Transactions


def test_publications_of_a_transaction_come_with_its_commit_or_never(
    transacted: jms.JMSContext, context: jms.JMSContext
) -> None:
    topic = transacted.create_topic("a")
    consumer, producer = context.create_consumer(topic), transacted.create_producer()
    producer.send(topic, "undone")
    transacted.rollback()
    producer.send(topic, "x")
    assert consumer.receive_no_wait() is None
    transacted.commit()
    assert text_of(consumer) == "x"
    assert consumer.receive_no_wait() is None


# Request and reply


def test_request_and_reply_over_topics(context: jms.JMSContext, session: jms.Session) -> None:
    requests = context.create_topic("requests")
    server = session.create_consumer(requests)
    answers = context.create_temporary_topic()
    client = context.create_consumer(answers)
    request = context.create_text_message("?")
    request.set_jms_reply_to(answers)
    context.create_producer().send(requests, request)
    question = received(server, jms.TextMessage)
    assert question.jms_reply_to == answers
    answer = session.create_text_message("!")
    answer.set_jms_correlation_id(question.jms_message_id)
    session.create_producer().send(question.jms_reply_to, answer)
    reply = received(client, jms.TextMessage)
    assert (reply.text, reply.jms_correlation_id) == ("!", request.jms_message_id)
    assert (reply.jms_destination, reply.jms_reply_to) == (answers, None)


@pytest.mark.parametrize(
    "uri", ["topic://a/b", "topic://a?expiry=5000&priority=3", "queue:///REPLIES", "topic:////a"]
)
def test_JMSReplyTo_comes_as_it_was_set(context: jms.JMSContext, uri: str) -> None:
    is_topic = uri.startswith("topic")
    reply_to = context.create_topic(uri) if is_topic else context.create_queue(uri)
    topic = context.create_topic("requests")
    consumer = context.create_consumer(topic)
    context.create_producer().set_jms_reply_to(reply_to).send(topic, "?")
    got = received(consumer, jms.TextMessage)
    assert got.jms_reply_to == reply_to
    assert type(got.jms_reply_to) is type(reply_to)


@pytest.mark.parametrize("is_topic", [True, False])
@pytest.mark.parametrize(
    ("given", "shown", "raw"),
    [
        ("order 4711", "order 4711", b"order 4711".ljust(24, b"\0")),
        ("x" * 40, "x" * 40, b"x" * 24),
        ("Zürich", "Zürich", "Zürich".encode().ljust(24, b"\0")),
        ("ID:00ff", "ID:00ff" + "00" * 22, b"\x00\xff".ljust(24, b"\0")),
        ("ID:" + "AB" * 24, "ID:" + "ab" * 24, b"\xab" * 24),
        (b"\x01\x02", "ID:0102" + "00" * 22, b"\x01\x02".ljust(24, b"\0")),
    ],
    ids=["text", "longer", "not ASCII", "short id", "id", "bytes"],
)
def test_JMSCorrelationID_as_text_as_an_id_and_as_bytes(
    context: jms.JMSContext, given: str | bytes, shown: str, raw: bytes, *, is_topic: bool
) -> None:
    destination = context.create_topic("a") if is_topic else context.create_queue("Q1")
    consumer, message = context.create_consumer(destination), context.create_text_message("x")
    if isinstance(given, bytes):
        message.set_jms_correlation_id_as_bytes(given)
    else:
        message.set_jms_correlation_id(given)
    context.create_producer().send(destination, message)
    got = received(consumer, jms.TextMessage)
    assert (got.jms_correlation_id, got.jms_correlation_id_as_bytes) == (shown, raw)


# Temporary topics


def test_only_its_connection_subscribes_to_a_temporary_topic(
    context: jms.JMSContext, session: jms.Session
) -> None:
    own = context.create_temporary_topic()
    assert own.topic_name.startswith("TEMP/")
    assert own != context.create_temporary_topic()
    with refused(jms.InvalidDestinationException, rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        session.create_consumer(jms.Topic(own.topic_name))
    with context.create_context() as second:
        consumer = second.create_consumer(own)
        session.create_producer().send(own, session.create_text_message("x"))
        assert text_of(consumer) == "x"


def test_other_topics_below_TEMP_are_anybodys(
    context: jms.JMSContext, session: jms.Session
) -> None:
    consumer = session.create_consumer(session.create_topic("TEMP/kitchen"))
    context.create_producer().send(context.create_topic("TEMP/kitchen"), "21")
    assert text_of(consumer) == "21"


def test_a_temporary_topic_is_deleted_when_nobody_subscribes(
    context: jms.JMSContext, connection: jms.Connection
) -> None:
    own = context.create_temporary_topic()
    consumer = context.create_consumer(own)
    with refused(jms.JMSException, rc.MQRC_OBJECT_IN_USE):
        own.delete()
    consumer.close()
    own.delete()
    with refused(jms.InvalidDestinationRuntimeException, rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        context.create_consumer(own)
    with refused(jms.InvalidDestinationException, rc.MQRC_UNKNOWN_OBJECT_NAME):
        own.delete()


def test_nothing_retained_stays_of_a_temporary_topic(
    factory: jms.ConnectionFactory, context: jms.JMSContext, manager: QueueManager
) -> None:
    with factory.create_context() as other:
        for own in (other.create_temporary_topic(), context.create_temporary_topic()):
            other.create_producer().set_property("JMS_IBM_Retain", 1).send(own, "x")
        assert len(manager.engine.registry.retained) == 2
    own.delete()
    assert not manager.engine.registry.retained


# What is no topic, and what topics are not for


def test_a_topic_is_not_browsed(context: jms.JMSContext, session: jms.Session) -> None:
    topic = jms.Topic("a")
    with refused(jms.InvalidDestinationRuntimeException, rc.MQRC_OBJECT_TYPE_ERROR):
        context.create_browser(topic)  # type: ignore[arg-type]  # what a program may do
    with refused(jms.InvalidDestinationException, rc.MQRC_OBJECT_TYPE_ERROR):
        session.create_browser(topic)  # type: ignore[arg-type]  # what a program may do


# Authority


def test_2035_users_publish_and_subscribe_as_they_are_allowed(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    denied = rc.MQRC_NOT_AUTHORIZED
    alter(manager, "SET AUTHREC PROFILE(SELF) OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT)")
    allow = "SET AUTHREC PROFILE(SYSTEM.BASE.TOPIC) OBJTYPE(TOPIC) PRINCIPAL('alice') AUTHADD({})"
    with factory.create_context(user_name="alice") as alice:
        topic = alice.create_topic("a")
        with refused(jms.JMSSecurityRuntimeException, denied):
            alice.create_consumer(topic)
        alter(manager, allow.format("SUB"))
        consumer = alice.create_consumer(topic)
        with refused(jms.JMSSecurityRuntimeException, denied):
            alice.create_producer().send(topic, "x")
        alter(manager, allow.format("PUB"))
        alice.create_producer().send(topic, "x")
        alice.stop()
        alice.start()
        assert text_of(consumer) == "x"
        alice.create_temporary_topic().delete()
