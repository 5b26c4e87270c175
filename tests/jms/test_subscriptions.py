"""Consumers of topics: durable and shared subscriptions, noLocal, client ids."""

from __future__ import annotations

import gc
import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager, jms
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DLH
from mayfly.testing import VirtualClock
from tests.facts import PATIENCE_SECONDS
from tests.jms.scene import (
    DEFINITIONS,
    START_MS,
    Receiver,
    alter,
    number_of,
    on_queue,
    received,
    refused,
    text_of,
)

IN_USE, EXISTS = rc.MQRC_SUBSCRIPTION_IN_USE, rc.MQRC_SUB_ALREADY_EXISTS
MODELS = """
DEFINE QMODEL(D.MODEL) DEFTYPE(PERMDYN) BOTHRESH(2) BOQNAME({boqname})
DEFINE QMODEL(N.MODEL) DEFTYPE(PERMDYN) BOTHRESH(2) BOQNAME({boqname})
DEFINE TOPIC(T) TOPICSTR('a') MDURMDL(D.MODEL) MNDURMDL(N.MODEL)
"""


@pytest.fixture
def anna(factory: jms.ConnectionFactory) -> Iterator[jms.JMSContext]:
    """A context of the client ``anna``."""
    with factory.create_context() as opened:
        opened.set_client_id("anna")
        yield opened


@pytest.fixture
def a(context: jms.JMSContext) -> jms.Topic:
    """The topic ``a``."""
    return context.create_topic("a")


def send(context: jms.JMSContext, *texts: str, topic: str = "a") -> None:
    """Publish texts."""
    producer = context.create_producer()
    for text in texts:
        producer.send(context.create_topic(topic), text)


def texts_of(consumer: jms.JMSConsumer | jms.MessageConsumer) -> list[str | None]:
    """Receive all that is there."""
    texts = []
    while (message := consumer.receive_no_wait()) is not None:
        assert isinstance(message, jms.TextMessage)
        texts.append(message.text)
    return texts


def names(manager: QueueManager) -> list[str]:
    """Return the names of all subscriptions."""
    return [subscription.name for subscription in manager.engine.registry.subscriptions.all()]


def managed_queue(manager: QueueManager) -> str:
    """Return the queue of the one subscription there is."""
    (subscription,) = manager.engine.registry.subscriptions.all()
    return subscription.destination


# Subscriptions of a consumer's own


def test_a_subscription_without_a_name_lasts_as_long_as_its_consumer(
    context: jms.JMSContext, a: jms.Topic, manager: QueueManager
) -> None:
    queues = len(manager.engine.registry.queues())
    consumer = context.create_consumer(a)
    send(context, "1")
    consumer.close()
    consumer.close()
    assert (names(manager), len(manager.engine.registry.queues())) == ([], queues)
    assert texts_of(context.create_consumer(a)) == []


@pytest.mark.parametrize("mode", [jms.CLIENT_ACKNOWLEDGE, jms.SESSION_TRANSACTED])
def test_what_is_not_acknowledged_of_a_closed_subscription_goes_with_it(
    factory: jms.ConnectionFactory, context: jms.JMSContext, manager: QueueManager, mode: int
) -> None:
    queues = len(manager.engine.registry.queues())
    with factory.create_context(mode) as other:
        consumer = other.create_consumer(other.create_topic("a"))
        send(context, "1")
        assert text_of(consumer) == "1"
        consumer.close()
        assert names(manager) == []
    context.create_consumer(context.create_queue("Q1"))
    assert len(manager.engine.registry.queues()) == queues


@pytest.mark.parametrize("mode", [jms.CLIENT_ACKNOWLEDGE, jms.SESSION_TRANSACTED])
def test_a_publication_comes_again_until_it_is_acknowledged(
    factory: jms.ConnectionFactory, context: jms.JMSContext, mode: int
) -> None:
    with factory.create_context(mode) as other:
        consumer = other.create_consumer(other.create_topic("a"))
        send(context, "1", "2")
        assert texts_of(consumer) == ["1", "2"]
        if mode == jms.CLIENT_ACKNOWLEDGE:
            other.recover()
        else:
            other.rollback()
        again = received(consumer, jms.TextMessage)
        assert (again.text, again.jms_redelivered) == ("1", True)
        assert again.get_int_property("JMSXDeliveryCount") == 2
        if mode == jms.CLIENT_ACKNOWLEDGE:
            again.acknowledge()
            other.recover()
        else:
            other.commit()
            other.rollback()
        assert texts_of(consumer) == ["2"]


def test_E15_a_copy_received_in_time_and_rolled_back_after_its_end_does_not_come_again(
    transacted: jms.JMSContext, context: jms.JMSContext, clock: VirtualClock
) -> None:
    topic = transacted.create_topic("a")
    consumer = transacted.create_consumer(topic)
    context.create_producer().set_time_to_live(1_000).send(topic, "x")
    clock.advance(999)
    assert text_of(consumer) == "x"
    clock.advance(1)
    transacted.rollback()
    assert consumer.receive_no_wait() is None


def test_a_selector_chooses_when_something_is_published(
    context: jms.JMSContext, a: jms.Topic, manager: QueueManager
) -> None:
    consumer = context.create_consumer(a, "size > 40")
    for size in (40, 41):
        context.create_producer().set_property("size", size).send(a, str(size))
    assert consumer.message_selector == "size > 40"
    assert manager.curdepth(managed_queue(manager)) == 1
    assert texts_of(consumer) == ["41"]


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        ("size >", rc.MQRC_SELECTOR_SYNTAX_ERROR),
        (7, rc.MQRC_SELECTION_STRING_ERROR),
        ("1 = 2", rc.MQRC_SELECTOR_ALWAYS_FALSE),
    ],
)
def test_a_wrong_selector_makes_no_subscription(
    anna: jms.JMSContext, a: jms.Topic, manager: QueueManager, selector: str, reason: int
) -> None:
    creates: tuple[Callable[[], object], ...] = (
        lambda: anna.create_consumer(a, selector),
        lambda: anna.create_durable_consumer(a, "d", selector),
        lambda: anna.create_shared_consumer(a, "s", selector),
        lambda: anna.create_shared_durable_consumer(a, "e", selector),
    )
    for create in creates:
        with refused(jms.InvalidSelectorRuntimeException, reason):
            create()
    assert names(manager) == []


def test_a_receive_waits_for_a_publication_and_ends_at_its_moment(
    context: jms.JMSContext, a: jms.Topic, manager: QueueManager, clock: VirtualClock
) -> None:
    consumer = context.create_consumer(a)
    number = number_of(manager, managed_queue(manager))
    waits = Receiver(lambda: consumer.receive(1_000))
    waits.wait_until_waiting(manager, number)
    clock.advance(999)
    assert manager.engine.waits.is_waited_on(number)
    clock.advance(1)
    assert waits.result() is None
    waits = Receiver(consumer.receive)
    waits.wait_until_waiting(manager, number)
    with manager.session() as native:
        native.publish("a", b"x", format_name="MQSTR")
    got = waits.result()
    assert isinstance(got, jms.TextMessage)
    assert got.text == "x"


def test_a_stopped_connection_holds_publications_back(connection: jms.Connection) -> None:
    session = connection.create_session()
    topic = session.create_topic("a")
    consumer = session.create_consumer(topic)
    session.create_producer(topic).send(session.create_text_message("x"))
    connection.stop()
    assert consumer.receive_no_wait() is None
    connection.start()
    assert text_of(consumer) == "x"


def test_a_receive_that_waits_ends_with_its_consumer(
    context: jms.JMSContext, a: jms.Topic, manager: QueueManager
) -> None:
    consumer = context.create_consumer(a)
    waits = Receiver(consumer.receive)
    waits.wait_until_waiting(manager, number_of(manager, managed_queue(manager)))
    consumer.close()
    assert waits.result() is None
    assert names(manager) == []


def test_a_subscription_that_somebody_has_ended_is_told(
    context: jms.JMSContext, anna: jms.JMSContext, manager: QueueManager, clock: VirtualClock
) -> None:
    consumer = anna.create_durable_consumer(anna.create_topic("a"), "s")
    alter(manager, "ALTER SUB('JMS:QM1:anna:s') EXPIRY(10)")
    send(context, "x")
    clock.advance(1_000)
    anna.stop()
    anna.start()
    with refused(jms.InvalidDestinationRuntimeException, rc.MQRC_NO_SUBSCRIPTION):
        consumer.receive_no_wait()


def test_SUB_DISABLED_refuses_a_consumer(
    context: jms.JMSContext, a: jms.Topic, manager: QueueManager
) -> None:
    alter(manager, "DEFINE TOPIC(T) TOPICSTR('a') SUB(DISABLED)")
    with refused(jms.JMSRuntimeException, rc.MQRC_SUB_INHIBITED):
        context.create_consumer(a)


@pytest.mark.parametrize("kind", ["consumer", "durable", "shared"])
def test_a_queue_is_no_topic_for_a_subscription(anna: jms.JMSContext, kind: str) -> None:
    queue = anna.create_queue("Q1")
    with refused(jms.InvalidDestinationRuntimeException, rc.MQRC_OBJECT_TYPE_ERROR):
        if kind == "durable":
            anna.create_durable_consumer(queue, "s")  # type: ignore[arg-type]  # a mistake
        elif kind == "shared":
            anna.create_shared_consumer(queue, "s")  # type: ignore[arg-type]  # a mistake
        else:
            anna.create_shared_durable_consumer(queue, "s")  # type: ignore[arg-type]  # a mistake


# Poison


@pytest.mark.parametrize("durable", [True, False])
def test_BOTHRESH_of_the_managed_queue_moves_a_poisonous_publication(
    factory: jms.ConnectionFactory,
    context: jms.JMSContext,
    manager: QueueManager,
    *,
    durable: bool,
) -> None:
    alter(manager, MODELS.format(boqname="BACKOUTS"))
    with factory.create_context(jms.SESSION_TRANSACTED) as other:
        other.set_client_id("anna")
        topic = other.create_topic("a")
        consumer = (
            other.create_durable_consumer(topic, "s") if durable else other.create_consumer(topic)
        )
        context.create_producer().set_time_to_live(9_000).send(topic, "poison")
        for _ in range(2):
            assert text_of(consumer) == "poison"
            other.rollback()
        assert consumer.receive_no_wait() is None
        assert manager.counts("BACKOUTS").uncommitted == 1
        other.commit()
    moved = received(context.create_consumer(context.create_queue("BACKOUTS")), jms.TextMessage)
    assert (moved.text, moved.jms_destination) == ("poison", topic)
    assert moved.jms_expiration == START_MS + 9_000


def test_without_BOQNAME_a_poisonous_publication_is_dead_lettered(
    transacted: jms.JMSContext, context: jms.JMSContext, manager: QueueManager
) -> None:
    alter(manager, MODELS.format(boqname="''"))
    consumer = transacted.create_consumer(transacted.create_topic("a"))
    send(context, "poison")
    for _ in range(2):
        assert text_of(consumer) == "poison"
        transacted.rollback()
    assert consumer.receive_no_wait() is None
    transacted.commit()
    header = DLH.unpack(on_queue(manager, "DEAD").body)
    assert header["Reason"] == rc.MQRC_BACKOUT_THRESHOLD_REACHED
    assert header["DestQName"] == managed_queue(manager)


# Durable


def test_a_durable_subscription_collects_while_it_has_no_consumer(
    anna: jms.JMSContext, context: jms.JMSContext, a: jms.Topic, manager: QueueManager
) -> None:
    anna.create_durable_consumer(a, "s").close()
    send(context, "1", "2")
    assert names(manager) == ["JMS:QM1:anna:s"]
    assert texts_of(anna.create_durable_consumer(a, "s")) == ["1", "2"]


def test_what_a_durable_subscription_collects_lives_no_longer_than_it_should(
    anna: jms.JMSContext, context: jms.JMSContext, a: jms.Topic, clock: VirtualClock
) -> None:
    anna.create_durable_consumer(a, "s").close()
    context.create_producer().set_time_to_live(1_000).send(a, "1").send(a, "2")
    clock.advance(999)
    consumer = anna.create_durable_consumer(a, "s")
    assert text_of(consumer) == "1"
    clock.advance(1)
    assert texts_of(consumer) == []


def test_a_durable_subscription_survives_a_restart(tmp_path: Path, clock: VirtualClock) -> None:
    def connected(manager: QueueManager) -> jms.JMSContext:
        return jms.ConnectionFactory(manager, client_id="anna").create_context()

    with QueueManager("QM1", tmp_path, clock=clock) as manager, connected(manager) as context:
        topic = context.create_topic("a")
        context.create_durable_consumer(topic, "s", "size > 1", True).close()
        context.create_producer().set_property("size", 2).send(topic, "own")
        with jms.ConnectionFactory(manager).create_context() as other:
            other.create_producer().set_property("size", 2).send(topic, "x")
    with QueueManager("QM1", tmp_path, clock=clock) as manager, connected(manager) as context:
        # Nobody has it open, and still it leaves out what its client publishes.
        context.create_producer().set_property("size", 2).send(topic, "own")
        with jms.ConnectionFactory(manager).create_context() as other:
            other.create_producer().set_property("size", 2).send(topic, "y")
        consumer = context.create_durable_consumer(topic, "s", "size > 1", True)
        assert texts_of(consumer) == ["x", "y"]


def test_a_durable_consumer_needs_a_client_id(
    context: jms.JMSContext, session: jms.Session, a: jms.Topic
) -> None:
    with refused(jms.IllegalStateRuntimeException, 0):
        context.create_durable_consumer(a, "s")
    with refused(jms.IllegalStateException, 0):
        session.create_durable_subscriber(a, "s")


@pytest.mark.parametrize("name", ["", " ", None, 7])
def test_2440_a_subscription_needs_a_name(anna: jms.JMSContext, a: jms.Topic, name: str) -> None:
    for create in (
        anna.create_durable_consumer,
        anna.create_shared_consumer,
        anna.create_shared_durable_consumer,
    ):
        with refused(jms.JMSRuntimeException, rc.MQRC_SUB_NAME_ERROR):
            create(a, name)
    with refused(jms.JMSRuntimeException, rc.MQRC_SUB_NAME_ERROR):
        anna.unsubscribe(name)


def test_2429_a_durable_subscription_has_one_consumer(
    anna: jms.JMSContext, context: jms.JMSContext, a: jms.Topic
) -> None:
    first = anna.create_durable_consumer(a, "s")
    with refused(jms.IllegalStateRuntimeException, IN_USE):
        anna.create_durable_consumer(a, "s")
    with refused(jms.IllegalStateRuntimeException, IN_USE):
        anna.create_durable_consumer(context.create_topic("b"), "s")
    with anna.create_context() as other, refused(jms.IllegalStateRuntimeException, IN_USE):
        other.create_durable_consumer(a, "s")
    send(context, "x")
    assert texts_of(first) == ["x"]


@pytest.mark.parametrize(
    ("topic", "selector", "no_local"),
    [("b", None, False), ("a", "size > 1", False), ("a", None, True)],
)
def test_a_durable_subscription_that_asks_for_something_else_is_made_anew(
    anna: jms.JMSContext,
    context: jms.JMSContext,
    manager: QueueManager,
    *,
    topic: str,
    selector: str | None,
    no_local: bool,
) -> None:
    queues = len(manager.engine.registry.queues())
    anna.create_durable_consumer(anna.create_topic("a"), "s").close()
    send(context, "gone")
    consumer = anna.create_durable_consumer(anna.create_topic(topic), "s", selector, no_local)
    producer = context.create_producer().set_property("size", 2)
    producer.send(context.create_topic(topic), "x")
    send(anna, "own", topic=topic)
    own = [] if selector or no_local else ["own"]
    assert texts_of(consumer) == ["x", *own]
    assert names(manager) == ["JMS:QM1:anna:s"]
    assert len(manager.engine.registry.queues()) == queues + 1


def test_a_change_survives_a_restart(tmp_path: Path, clock: VirtualClock) -> None:
    with QueueManager("QM1", tmp_path, clock=clock) as manager:
        context = jms.ConnectionFactory(manager, client_id="anna").create_context()
        for topic in ("a", "b"):
            context.create_durable_consumer(context.create_topic(topic), "s").close()
        context.close()
    with QueueManager("QM1", tmp_path, clock=clock) as manager:
        assert [s.topic for s in manager.engine.registry.subscriptions.all()] == ["b"]
        assert (
            sum(q.name.startswith("SYSTEM.MANAGED") for q in manager.engine.registry.queues()) == 1
        )


@pytest.mark.parametrize(
    "command",
    [
        "DEFINE TOPIC(T) TOPICSTR('b') SUB(DISABLED)",
        "DEFINE TOPIC(T) TOPICSTR('b') DURSUB(NO)",
        "DEFINE TOPIC(T) TOPICSTR('b') MDURMDL(NONE)",
    ],
)
def test_a_change_that_fails_leaves_the_subscription_as_it_was(
    anna: jms.JMSContext, context: jms.JMSContext, manager: QueueManager, command: str
) -> None:
    anna.create_durable_consumer(anna.create_topic("a"), "s").close()
    send(context, "1")
    alter(manager, command)
    with pytest.raises(jms.JMSRuntimeException):
        anna.create_durable_consumer(anna.create_topic("b"), "s")
    send(context, "2")
    assert texts_of(anna.create_durable_consumer(anna.create_topic("a"), "s")) == ["1", "2"]


def test_a_change_that_cannot_take_what_is_retained_leaves_the_subscription_as_it_was(
    anna: jms.JMSContext, context: jms.JMSContext, manager: QueueManager
) -> None:
    anna.create_durable_consumer(anna.create_topic("a"), "s").close()
    send(context, "1")
    context.create_producer().set_property("JMS_IBM_Retain", 1).send(jms.Topic("b"), "kept")
    alter(manager, "DEFINE QMODEL(TINY) DEFTYPE(PERMDYN) MAXMSGL(10)")
    alter(manager, "DEFINE TOPIC(T) TOPICSTR('b') MDURMDL(TINY)")
    with refused(jms.ResourceAllocationRuntimeException, rc.MQRC_MSG_TOO_BIG_FOR_Q):
        anna.create_durable_consumer(anna.create_topic("b"), "s")
    send(context, "2")
    assert texts_of(anna.create_durable_consumer(anna.create_topic("a"), "s")) == ["1", "2"]
    assert sum(q.name.startswith("SYSTEM.MANAGED") for q in manager.engine.registry.queues()) == 1


def test_what_is_retained_comes_to_a_new_durable_subscription_once(
    anna: jms.JMSContext, context: jms.JMSContext, a: jms.Topic
) -> None:
    context.create_producer().set_property("JMS_IBM_Retain", 1).send(a, "kept")
    first = anna.create_durable_consumer(a, "s")
    assert texts_of(first) == ["kept"]
    first.close()
    assert texts_of(anna.create_durable_consumer(a, "s")) == []


def test_a_subscription_of_an_administrator_is_consumed_by_its_full_name(
    anna: jms.JMSContext, context: jms.JMSContext, a: jms.Topic, manager: QueueManager
) -> None:
    alter(manager, "DEFINE SUB('JMS:QM1:anna:s') TOPICSTR('a') DEST(Q2)")
    send(context, "x")
    assert texts_of(anna.create_durable_consumer(a, "s")) == ["x"]


@pytest.mark.parametrize("mode", [jms.AUTO_ACKNOWLEDGE, jms.SESSION_TRANSACTED])
def test_a_subscription_whose_queue_cannot_be_opened_is_left(
    factory: jms.ConnectionFactory, a: jms.Topic, manager: QueueManager, mode: int
) -> None:
    alter(manager, "DEFINE SUB('JMS:QM1:anna:s') TOPICSTR('a') DEST(Q2)")
    with factory.create_context(mode) as anna, manager.session() as native:
        anna.set_client_id("anna")
        handle = native.open("Q2", c.MQOO_INPUT_EXCLUSIVE)
        with refused(jms.JMSRuntimeException, rc.MQRC_OBJECT_IN_USE):
            anna.create_durable_consumer(a, "s")
        handle.close()
        assert texts_of(anna.create_durable_consumer(a, "s")) == []


def test_DURSUB_NO_refuses_durable_consumers_alone(
    anna: jms.JMSContext, a: jms.Topic, manager: QueueManager
) -> None:
    alter(manager, "DEFINE TOPIC(T) TOPICSTR('a') DURSUB(NO)")
    with pytest.raises(jms.JMSRuntimeException):
        anna.create_durable_consumer(a, "s")
    anna.create_shared_consumer(a, "s").close()


def test_a_temporary_topic_has_no_durable_subscription(anna: jms.JMSContext) -> None:
    topic = anna.create_temporary_topic()
    for create in (anna.create_durable_consumer, anna.create_shared_durable_consumer):
        with refused(jms.InvalidDestinationRuntimeException, rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
            create(topic, "s")


# Unsubscribing


def test_unsubscribe_removes_a_durable_subscription_with_what_it_has(
    anna: jms.JMSContext, context: jms.JMSContext, a: jms.Topic, manager: QueueManager
) -> None:
    queues = len(manager.engine.registry.queues())
    consumer = anna.create_durable_consumer(a, "s")
    send(context, "x")
    with refused(jms.IllegalStateRuntimeException, IN_USE):
        anna.unsubscribe("s")
    consumer.close()
    anna.unsubscribe("s")
    assert (names(manager), len(manager.engine.registry.queues())) == ([], queues)
    with refused(jms.InvalidDestinationRuntimeException, rc.MQRC_NO_SUBSCRIPTION):
        anna.unsubscribe("s")


@pytest.mark.parametrize("mode", [jms.CLIENT_ACKNOWLEDGE, jms.SESSION_TRANSACTED])
def test_2429_messages_not_acknowledged_keep_a_durable_subscription(
    factory: jms.ConnectionFactory, context: jms.JMSContext, a: jms.Topic, mode: int
) -> None:
    with factory.create_context(mode) as other:
        other.set_client_id("anna")
        consumer = other.create_durable_consumer(a, "s")
        send(context, "x")
        assert text_of(consumer) == "x"
        consumer.close()
        with refused(jms.IllegalStateRuntimeException, IN_USE):
            other.unsubscribe("s")
        with refused(jms.IllegalStateRuntimeException, IN_USE):
            other.create_durable_consumer(context.create_topic("b"), "s")
        if mode == jms.CLIENT_ACKNOWLEDGE:
            other.acknowledge()
        else:
            other.commit()
        other.unsubscribe("s")


def test_each_client_has_names_of_its_own(
    anna: jms.JMSContext, factory: jms.ConnectionFactory, context: jms.JMSContext, a: jms.Topic
) -> None:
    with factory.create_context() as bert:
        bert.set_client_id("bert:x")
        consumers = [
            anna.create_durable_consumer(a, "s"),
            bert.create_durable_consumer(a, "s"),
            context.create_shared_durable_consumer(a, "x:s"),
        ]
        send(context, "1")
        assert [texts_of(consumer) for consumer in consumers] == [["1"]] * 3
        with refused(jms.InvalidDestinationRuntimeException, rc.MQRC_NO_SUBSCRIPTION):
            context.unsubscribe("s")


# Shared


@pytest.mark.parametrize("durable", [True, False])
def test_each_message_goes_to_one_of_those_who_share(
    factory: jms.ConnectionFactory, session: jms.Session, context: jms.JMSContext, *, durable: bool
) -> None:
    topic = context.create_topic("a")
    with factory.create_context() as other:
        consumers: list[jms.JMSConsumer | jms.MessageConsumer] = [
            (member.create_shared_durable_consumer if durable else member.create_shared_consumer)(
                topic, "s"
            )
            for member in (context, other, session)
        ]
        send(context, *"123456")
        got = [text_of(consumer) for consumer in consumers * 2]
        assert got == list("123456")
        assert [texts_of(consumer) for consumer in consumers] == [[], [], []]


def test_a_shared_subscription_ends_with_the_last_who_shares_it(
    session: jms.Session, context: jms.JMSContext, a: jms.Topic, manager: QueueManager
) -> None:
    first, last = context.create_shared_consumer(a, "s"), session.create_shared_consumer(a, "s")
    assert names(manager) == ["JMS.ND:QM1::s"]
    first.close()
    send(context, "x")
    assert texts_of(last) == ["x"]
    last.close()
    assert names(manager) == []
    assert texts_of(context.create_shared_consumer(a, "s")) == []


def test_a_shared_durable_subscription_needs_no_client_id_and_stays(
    context: jms.JMSContext, session: jms.Session, a: jms.Topic
) -> None:
    context.create_shared_durable_consumer(a, "s").close()
    send(context, "1")
    first = session.create_shared_durable_consumer(a, "s")
    second = context.create_shared_durable_consumer(a, "s")
    with refused(jms.IllegalStateException, IN_USE):
        session.unsubscribe("s")
    assert texts_of(second) == ["1"]
    first.close()
    second.close()
    session.unsubscribe("s")


def test_who_rolls_back_lets_another_have_it(
    transacted: jms.JMSContext, context: jms.JMSContext, a: jms.Topic
) -> None:
    first = transacted.create_shared_consumer(a, "s")
    second = context.create_shared_consumer(a, "s")
    send(context, "x")
    assert texts_of(first) == ["x"]
    assert texts_of(second) == []
    transacted.rollback()
    assert received(second, jms.TextMessage).jms_redelivered


def test_2432_who_shares_asks_for_the_same(
    context: jms.JMSContext, session: jms.Session, a: jms.Topic
) -> None:
    other = context.create_topic("b")
    context.create_shared_consumer(a, "s")
    for topic, selector in ((other, None), (a, "size > 1")):
        with refused(jms.JMSException, EXISTS):
            session.create_shared_consumer(topic, "s", selector)
    context.create_shared_durable_consumer(a, "s")
    for topic, selector in ((other, None), (a, "size > 1")):
        with refused(jms.IllegalStateException, IN_USE):
            session.create_shared_durable_consumer(topic, "s", selector)


def test_a_shared_durable_subscription_that_nobody_has_open_changes(
    context: jms.JMSContext, session: jms.Session, a: jms.Topic
) -> None:
    context.create_shared_durable_consumer(a, "s").close()
    send(context, "gone")
    consumer = session.create_shared_durable_consumer(context.create_topic("b"), "s")
    send(context, "x", topic="b")
    assert texts_of(consumer) == ["x"]


def test_2432_a_name_is_shared_or_not(anna: jms.JMSContext, a: jms.Topic) -> None:
    anna.create_durable_consumer(a, "own").close()
    anna.create_shared_durable_consumer(a, "shared").close()
    with refused(jms.JMSRuntimeException, EXISTS):
        anna.create_shared_durable_consumer(a, "own")
    with refused(jms.JMSRuntimeException, EXISTS):
        anna.create_durable_consumer(a, "shared")


def test_durable_and_other_shared_subscriptions_have_names_of_their_own(
    anna: jms.JMSContext, context: jms.JMSContext, a: jms.Topic
) -> None:
    consumers = [anna.create_shared_consumer(a, "s"), anna.create_durable_consumer(a, "s")]
    send(context, "x")
    assert [texts_of(consumer) for consumer in consumers] == [["x"], ["x"]]


def test_clients_share_only_among_themselves(
    anna: jms.JMSContext, context: jms.JMSContext, a: jms.Topic
) -> None:
    consumers = [member.create_shared_consumer(a, "s") for member in (anna, context)]
    send(context, "x")
    assert [texts_of(consumer) for consumer in consumers] == [["x"], ["x"]]


# noLocal


@pytest.mark.parametrize("mode", [jms.AUTO_ACKNOWLEDGE, jms.SESSION_TRANSACTED])
def test_no_local_leaves_out_what_any_session_of_the_connection_publishes(
    factory: jms.ConnectionFactory, context: jms.JMSContext, a: jms.Topic, mode: int
) -> None:
    with factory.create_connection() as connection:
        connection.start()
        sessions = connection.create_session(mode), connection.create_session()
        consumer = sessions[0].create_consumer(a, None, True)
        hears_all = sessions[0].create_consumer(a)
        assert (consumer.no_local, hears_all.no_local) == (True, False)
        for session in sessions:
            session.create_producer(a).send(session.create_text_message("own"))
        if mode == jms.SESSION_TRANSACTED:
            sessions[0].commit()
        send(context, "x")
        assert texts_of(consumer) == ["x"]
        assert texts_of(hears_all) == ["own", "own", "x"]


def test_no_local_of_a_durable_subscription_is_of_the_client_id(
    factory: jms.ConnectionFactory, context: jms.JMSContext, a: jms.Topic
) -> None:
    for _ in range(2):
        with factory.create_context() as anna:
            anna.set_client_id("anna")
            consumer = anna.create_durable_consumer(a, "s", no_local=True)
            send(anna, "open")
            assert texts_of(consumer) == []
            consumer.close()
            # Also on a connection that has not opened it, and while nobody has.
            send(anna, "closed")
    with factory.create_context() as bert:
        bert.set_client_id("bert")
        send(bert, "x")
    send(context, "y")
    with factory.create_context() as anna:
        anna.set_client_id("anna")
        send(anna, "before")
        assert texts_of(anna.create_durable_consumer(a, "s", no_local=True)) == ["x", "y"]


def test_no_local_of_a_client_id_given_after_the_session_was_made(
    factory: jms.ConnectionFactory, a: jms.Topic
) -> None:
    with factory.create_context(jms.SESSION_TRANSACTED) as anna:
        anna.set_client_id("anna")
        consumer = anna.create_consumer(a, no_local=True)
        with anna.create_context() as second:
            send(second, "own")
        send(anna, "own")
        anna.commit()
        assert texts_of(consumer) == []


def test_no_local_says_nothing_of_a_queue(context: jms.JMSContext, q1: jms.Queue) -> None:
    consumer = context.create_consumer(q1, None, True)
    context.create_producer().send(q1, "own")
    assert texts_of(consumer) == ["own"]


# Client ids


def test_client_ids(factory: jms.ConnectionFactory) -> None:
    with factory.create_connection() as connection:
        for wrong in ("", " ", None, 7):
            with refused(jms.InvalidClientIDException, 0):
                connection.set_client_id(wrong)  # type: ignore[arg-type]  # what a program may do
        connection.set_client_id("me")
        with refused(jms.IllegalStateException, 0):
            connection.set_client_id("you")
        assert connection.client_id == "me"


@pytest.mark.parametrize(
    "use",
    [
        lambda connection: connection.create_session().close(),
        lambda connection: connection.start(),
        lambda connection: connection.stop(),
        lambda connection: connection.create_temporary_queue(),
        lambda connection: connection.create_temporary_topic(),
    ],
    ids=["session", "start", "stop", "temporary queue", "temporary topic"],
)
def test_a_client_id_comes_first(factory: jms.ConnectionFactory, use: object) -> None:
    with factory.create_connection() as connection:
        assert callable(use)
        use(connection)
        with refused(jms.IllegalStateException, 0):
            connection.set_client_id("late")


@pytest.mark.parametrize(
    "use",
    [
        lambda context: context.create_producer(),
        lambda context: context.create_consumer(jms.Queue("Q1")),
        lambda context: context.create_browser(jms.Queue("Q1")),
        lambda context: context.create_shared_consumer(jms.Topic("a"), "s"),
        lambda context: context.create_context(),
        lambda context: context.start(),
        lambda context: context.create_temporary_topic(),
    ],
    ids=["producer", "consumer", "browser", "shared", "context", "start", "temporary topic"],
)
def test_a_client_id_of_a_context_comes_first(factory: jms.ConnectionFactory, use: object) -> None:
    with factory.create_context() as context:
        assert callable(use)
        use(context)
        with refused(jms.IllegalStateRuntimeException, 0):
            context.set_client_id("late")
    with factory.create_context() as context:
        # What is only made, and not yet sent anywhere, is no use of the connection.
        context.create_text_message("x")
        context.create_topic("a")
        context.set_client_id("in time")
        assert context.client_id == "in time"


def test_a_client_id_has_one_connection_at_a_time(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    with factory.create_context() as first, factory.create_connection() as second:
        first.set_client_id("anna")
        with refused(jms.InvalidClientIDException, 0):
            second.set_client_id("anna")
        with (
            jms.ConnectionFactory(manager).create_context() as third,
            refused(jms.InvalidClientIDRuntimeException, 0),
        ):
            third.set_client_id("anna")
        with first.create_context() as fourth:
            assert fourth.client_id == "anna"
        second.set_client_id("bert")
    with factory.create_context() as again:
        again.set_client_id("anna")


def test_a_client_id_is_of_one_queue_manager(
    anna: jms.JMSContext, factory: jms.ConnectionFactory, clock: VirtualClock
) -> None:
    with QueueManager("QM2", clock=clock) as other:
        context = jms.ConnectionFactory(other, client_id="anna").create_context()
        assert context.client_id == "anna"
        context.close()


def test_a_factory_may_say_who_the_client_is(manager: QueueManager) -> None:
    factory = jms.ConnectionFactory(manager, client_id="anna")
    with factory.create_context() as context:
        assert context.client_id == "anna"
        with refused(jms.IllegalStateRuntimeException, 0):
            context.set_client_id("bert")
        with refused(jms.InvalidClientIDException, 0):
            factory.create_connection()
        with refused(jms.InvalidClientIDRuntimeException, 0):
            factory.create_context()
    with factory.create_connection() as connection:
        assert connection.client_id == "anna"


def test_a_connection_that_was_dropped_leaves_its_client_id(
    factory: jms.ConnectionFactory,
) -> None:
    dropped = factory.create_connection()
    dropped.set_client_id("anna")
    del dropped
    gc.collect()
    with factory.create_connection() as connection:
        connection.set_client_id("anna")


# Over a socket that others share, a server learns of the drop with the next verb of another one.
@pytest.mark.in_process
def test_a_durable_consumer_whose_connection_was_dropped_is_free_again(
    factory: jms.ConnectionFactory, a: jms.Topic, context: jms.JMSContext
) -> None:
    dropped = factory.create_context()
    dropped.set_client_id("anna")
    dropped.create_durable_consumer(a, "s")
    del dropped
    gc.collect()
    send(context, "x")
    with factory.create_context() as again:
        again.set_client_id("anna")
        assert texts_of(again.create_durable_consumer(a, "s")) == ["x"]


def test_the_end_of_a_queue_manager_frees_its_clients(tmp_path: Path, clock: VirtualClock) -> None:
    with QueueManager("QM1", tmp_path, clock=clock) as manager:
        alter(manager, DEFINITIONS.strip().splitlines()[0])
        context = jms.ConnectionFactory(manager, client_id="anna").create_context()
        context.create_durable_consumer(context.create_topic("a"), "s")
    context.close()
    with QueueManager("QM1", tmp_path, clock=clock) as manager:
        again = jms.ConnectionFactory(manager, client_id="anna").create_context()
        again.create_durable_consumer(again.create_topic("a"), "s")
        again.close()


# Message listeners


@pytest.mark.parametrize("mode", [jms.AUTO_ACKNOWLEDGE, jms.SESSION_TRANSACTED])
def test_message_listeners_hear_what_is_published_until_their_consumer_closes(
    factory: jms.ConnectionFactory, context: jms.JMSContext, manager: QueueManager, mode: int
) -> None:
    heard: queue.Queue[tuple[str, str | None]] = queue.Queue()

    def listener(name: str) -> Callable[[jms.Message], object]:
        return lambda message: heard.put((name, message.get_body(str)))

    with factory.create_context(mode) as other:
        topics = {name: other.create_topic(name) for name in ("a", "b")}
        consumers = {name: other.create_consumer(topic) for name, topic in topics.items()}
        for name, consumer in consumers.items():
            consumer.set_message_listener(listener(name))
        send(context, "1", topic="a")
        assert heard.get(timeout=PATIENCE_SECONDS) == ("a", "1")
        consumers["a"].close()
        assert [s.topic for s in manager.engine.registry.subscriptions.all()] == ["b"]
        send(context, "2", topic="a")
        send(context, "3", topic="b")
        assert heard.get(timeout=PATIENCE_SECONDS) == ("b", "3")
    assert heard.empty()
    assert names(manager) == []


def test_message_listeners_share_a_subscription(
    factory: jms.ConnectionFactory, context: jms.JMSContext
) -> None:
    heard: queue.Queue[str | None] = queue.Queue()
    with factory.create_context() as first, factory.create_context() as second:
        for member in (first, second):
            consumer = member.create_shared_consumer(member.create_topic("a"), "s")
            consumer.set_message_listener(lambda message: heard.put(message.get_body(str)))
        send(context, *"123456")
        got = [heard.get(timeout=PATIENCE_SECONDS) for _ in range(6)]
    assert sorted(text or "" for text in got) == list("123456")
    assert heard.empty()
