"""Connections that are made again: sessions, consumers, listeners and what they have in work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mayfly import QueueManager, jms
from mayfly.client.connection.endpoint import Reconnect
from tests.connection.cut import Cut
from tests.connection.serving import HOST
from tests.facts import wait_until
from tests.jms.scene import Receiver, alter, refused


@pytest.fixture
def cut(manager: QueueManager) -> Iterator[Cut]:
    alter(manager, "DEFINE QLOCAL(KEPT) DEFPSIST(YES)")
    it = Cut(manager)
    yield it
    it.stop()


def factory_of(
    cut: Cut, reconnect: Reconnect = Reconnect.YES, client_id: str | None = None
) -> jms.ConnectionFactory:
    uri = f"mq://{HOST}:{cut.port}/QM1?channel=CH"
    return jms.ConnectionFactory.from_uri(
        uri, user="operator", reconnect=reconnect, client_id=client_id
    )


class Heard:
    """An exception listener."""

    def __init__(self) -> None:
        self.reasons: list[int] = []

    def __call__(self, error: jms.JMSException) -> None:
        self.reasons.append(error.reason)


@contextmanager
def connected(
    cut: Cut, reconnect: Reconnect = Reconnect.YES, client_id: str | None = None
) -> Iterator[jms.Connection]:
    with factory_of(cut, reconnect, client_id).create_connection() as connection:
        connection.start()
        yield connection


def send(cut: Cut, *texts: str, queue: str = "KEPT") -> None:
    with jms.ConnectionFactory(cut.manager).create_context() as context:
        for text in texts:
            context.create_producer().send(context.create_queue(queue), text)


def texts_on(cut: Cut, queue: str = "KEPT") -> list[str]:
    with jms.ConnectionFactory(cut.manager).create_context() as context:
        browser = context.create_browser(context.create_queue(queue))
        return [str(each.text) for each in browser if isinstance(each, jms.TextMessage)]


def running(cut: Cut, count: int) -> bool:
    """Tell whether so many conversations wait."""
    assert cut.server is not None
    return sum(each.is_running for each in cut.server.connections()) == count


def test_producers_and_consumers_go_on_and_the_exception_listener_is_told(cut: Cut) -> None:
    heard = Heard()
    with connected(cut) as connection:
        connection.set_exception_listener(heard)
        session = connection.create_session()
        queue = session.create_queue("KEPT")
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        for text in ("one", "two"):
            cut.again()
            producer.send(session.create_text_message(text))
            message = consumer.receive(timeout_ms=60_000)
            assert isinstance(message, jms.TextMessage)
            assert message.text == text
    assert heard.reasons == [2544, 2545] * 2


def test_a_receive_that_waits_goes_on_waiting(cut: Cut) -> None:
    with connected(cut) as connection:
        consumer = connection.create_session().create_consumer(jms.Queue("KEPT"))
        receiver = Receiver(consumer.receive)
        wait_until(lambda: running(cut, 1))
        cut.again()
        wait_until(lambda: running(cut, 1))
        send(cut, "late")
        message = receiver.result()
        assert isinstance(message, jms.TextMessage)
        assert message.text == "late"


def test_a_unit_of_work_is_rolled_back_and_its_commit_says_so(cut: Cut) -> None:
    send(cut, "got")
    with connected(cut) as connection:
        session = connection.create_session(jms.SESSION_TRANSACTED)
        queue = session.create_queue("KEPT")
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        assert consumer.receive_no_wait() is not None
        producer.send(session.create_text_message("lost"))
        cut.again()
        with refused(jms.TransactionRolledBackException, 2003):
            producer.send(session.create_text_message("lost as well"))
        with refused(jms.TransactionRolledBackException, 2003):
            session.commit()
        message = consumer.receive(timeout_ms=60_000)
        assert isinstance(message, jms.TextMessage)
        assert (message.text, message.get_property("JMSXDeliveryCount")) == ("got", 2)
        producer.send(session.create_text_message("kept"))
        session.commit()
    assert texts_on(cut) == ["kept"]


def test_what_was_not_acknowledged_comes_again(cut: Cut) -> None:
    send(cut, "one")
    with connected(cut) as connection:
        session = connection.create_session(jms.CLIENT_ACKNOWLEDGE)
        consumer = session.create_consumer(session.create_queue("KEPT"))
        message = consumer.receive(timeout_ms=60_000)
        assert message is not None
        cut.again()
        with refused(jms.TransactionRolledBackException, 2003):
            message.acknowledge()
        message = consumer.receive(timeout_ms=60_000)
        assert message is not None
        message.acknowledge()
    assert texts_on(cut) == []


def test_a_listener_goes_on_and_has_the_message_of_the_break_again(cut: Cut) -> None:
    """The connection breaks while the listener is at work with a message."""
    heard, counts = Heard(), list[tuple[str, int]]()
    at_work, go_on = threading.Event(), threading.Event()

    def on_message(message: jms.Message) -> None:
        assert isinstance(message, jms.TextMessage)
        counts.append((str(message.text), int(str(message.get_property("JMSXDeliveryCount")))))
        if len(counts) == 1:
            at_work.set()
            go_on.wait()

    with connected(cut) as connection:
        connection.set_exception_listener(heard)
        session = connection.create_session()
        session.create_consumer(jms.Queue("KEPT")).set_message_listener(on_message)
        send(cut, "one")
        at_work.wait()
        cut.again()
        go_on.set()
        wait_until(lambda: counts == [("one", 1), ("one", 2)])
        send(cut, "two")
        wait_until(lambda: counts[2:] == [("two", 1)])
    assert heard.reasons == [2544, 2545, 2003]
    assert texts_on(cut) == []


def test_a_listener_of_a_transacted_session_begins_its_unit_of_work_anew(cut: Cut) -> None:
    heard, texts = Heard(), list[str]()

    with connected(cut) as connection:
        connection.set_exception_listener(heard)
        session = connection.create_session(jms.SESSION_TRANSACTED)
        reply = session.create_producer(session.create_queue("Q1"))

        def on_message(message: jms.Message) -> None:
            assert isinstance(message, jms.TextMessage)
            texts.append(str(message.text))
            reply.send(session.create_text_message(f"{message.text} done"))
            if message.text == "last":
                session.commit()

        session.create_consumer(jms.Queue("KEPT")).set_message_listener(on_message)
        send(cut, "first")
        wait_until(lambda: texts == ["first"])
        wait_until(lambda: running(cut, 1))
        cut.again()
        wait_until(lambda: texts == ["first", "first"])
        send(cut, "last")
        wait_until(lambda: texts_on(cut, "Q1") == ["first done", "last done"])
    assert heard.reasons == [2544, 2545, 2003]
    assert texts_on(cut) == []


def test_a_durable_subscription_goes_on_with_the_client_id(cut: Cut) -> None:
    with connected(cut, Reconnect.QUEUE_MANAGER, client_id="gates") as connection:
        session = connection.create_session()
        topic = session.create_topic("news")
        consumer = session.create_durable_consumer(topic, "late", no_local=True)
        for text in ("one", "two"):
            cut.stop()
            with jms.ConnectionFactory(cut.manager).create_context() as context:
                context.create_producer().send(topic, text)
            cut.serve()
            session.create_producer(topic).send(session.create_text_message("my own"))
            message = consumer.receive(timeout_ms=60_000)
            assert isinstance(message, jms.TextMessage)
            assert message.text == text
            assert consumer.receive_no_wait() is None
        with (
            refused(jms.InvalidClientIDException, 0),
            factory_of(cut, client_id="gates").create_connection(),
        ):
            pass


def test_a_durable_subscription_needs_the_same_queue_manager(cut: Cut) -> None:
    with connected(cut, client_id="gates") as connection:
        session = connection.create_session()
        with refused(jms.JMSException, 2555):
            session.create_durable_consumer(session.create_topic("news"), "late")


def test_temporary_queues_and_consumers_of_topics_are_made_again(cut: Cut) -> None:
    with connected(cut) as connection:
        session = connection.create_session()
        queue = session.create_temporary_queue()
        consumer = session.create_consumer(queue)
        topic = session.create_topic("news/today")
        subscriber = session.create_consumer(session.create_topic("news/#"))
        shared = session.create_shared_consumer(topic, "both")
        connection.stop()
        connection.start()
        for _ in range(2):
            cut.again()
            # Also after a stop, which has closed the queue of the subscription.
            assert consumer.receive_no_wait() is None
            session.create_producer(queue).send(session.create_text_message("private"))
            session.create_producer(topic).send(session.create_text_message("news"))
            received = [each.receive(timeout_ms=60_000) for each in (consumer, subscriber, shared)]
            assert [getattr(each, "text", None) for each in received] == ["private", "news", "news"]
        consumer.close()
        queue.delete()


def test_a_temporary_topic_stays_that_of_its_connection(cut: Cut) -> None:
    with connected(cut) as connection:
        session = connection.create_session()
        topic = session.create_temporary_topic()
        consumer = session.create_consumer(topic)
        cut.again()
        session.create_producer(topic).send(session.create_text_message("x"))
        assert consumer.receive(timeout_ms=60_000) is not None
        consumer.close()
        topic.delete()


def test_a_close_ends_the_attempts(cut: Cut) -> None:
    heard = Heard()
    connection = factory_of(cut).create_connection()
    connection.set_exception_listener(heard)
    connection.start()
    session = connection.create_session()
    session.create_consumer(jms.Queue("KEPT")).set_message_listener(print)
    other = connection.create_session()
    consumer = other.create_consumer(jms.Queue("Q1"))
    receiver = Receiver(consumer.receive)
    wait_until(lambda: running(cut, 2))
    cut.stop()
    wait_until(lambda: 2544 in heard.reasons)
    connection.close()
    assert receiver.result() is None
    assert heard.reasons == [2544]


def test_without_reconnect_a_break_is_2009(cut: Cut) -> None:
    heard = Heard()
    with connected(cut, Reconnect.DISABLED) as connection:
        connection.set_exception_listener(heard)
        session = connection.create_session()
        session.create_consumer(jms.Queue("KEPT")).set_message_listener(print)
        cut.again()
        wait_until(lambda: heard.reasons)
    assert heard.reasons[0] in (2009, 2162)
