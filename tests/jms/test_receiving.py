"""Waiting for messages: times, other threads, stopped connections; temporary queues; browsers."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pytest

from mayfly import QueueManager, jms
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.facts import PATIENCE_SECONDS, wait_until
from tests.jms.scene import Receiver, alter, number_of, received, refused, text_of


def waiting(
    manager: QueueManager, consumer: jms.JMSConsumer, timeout_ms: int | None = None
) -> Receiver:
    """Return a receive that waits on Q1."""
    receiver = Receiver(lambda: consumer.receive(timeout_ms))
    receiver.wait_until_waiting(manager, number_of(manager))
    return receiver


def text_in(receiver: Receiver) -> str | None:
    message = receiver.result()
    assert type(message) is jms.TextMessage
    return message.text


@pytest.fixture
def consumer(context: jms.JMSContext, q1: jms.Queue) -> jms.JMSConsumer:
    """A consumer of Q1."""
    return context.create_consumer(q1)


def test_receive_without_a_message_in_time_is_none(
    consumer: jms.JMSConsumer, manager: QueueManager, clock: VirtualClock
) -> None:
    receiver = waiting(manager, consumer, 5_000)
    clock.advance(5_000)
    assert receiver.result() is None


def test_a_message_there_when_the_wait_ends_wins(
    consumer: jms.JMSConsumer,
    factory: jms.ConnectionFactory,
    q1: jms.Queue,
    manager: QueueManager,
    clock: VirtualClock,
) -> None:
    with factory.create_context() as other:
        other.create_producer().set_delivery_delay(5_000).send(q1, "just in time")
    receiver = waiting(manager, consumer, 5_000)
    clock.advance(5_000)
    assert text_in(receiver) == "just in time"


@pytest.mark.parametrize("timeout_ms", [None, 0])
def test_none_and_zero_wait_for_ever(
    consumer: jms.JMSConsumer,
    factory: jms.ConnectionFactory,
    q1: jms.Queue,
    manager: QueueManager,
    clock: VirtualClock,
    timeout_ms: int | None,
) -> None:
    receiver = waiting(manager, consumer, timeout_ms)
    clock.advance(100 * 86_400_000)
    with factory.create_context() as other:
        other.create_producer().send(q1, "at last")
    assert text_in(receiver) == "at last"


def test_a_negative_wait_is_refused(consumer: jms.JMSConsumer) -> None:
    with refused(jms.JMSRuntimeException, rc.MQRC_WAIT_INTERVAL_ERROR):
        consumer.receive(-1)


def test_an_inhibited_queue_is_an_error(consumer: jms.JMSConsumer, manager: QueueManager) -> None:
    receiver = waiting(manager, consumer)
    alter(manager, "ALTER QLOCAL(Q1) GET(DISABLED)")
    with refused(jms.JMSRuntimeException, rc.MQRC_GET_INHIBITED):
        receiver.result()


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("what", ["context", "consumer"])
def test_a_close_of_another_thread_ends_the_wait(
    factory: jms.ConnectionFactory, manager: QueueManager, mode: int, what: str
) -> None:
    context = factory.create_context(mode)
    consumer = context.create_consumer(context.create_queue("Q1"))
    receiver = waiting(manager, consumer)
    (context if what == "context" else consumer).close()
    assert receiver.result() is None
    context.close()


def test_a_close_of_the_connection_ends_the_waits_of_all_sessions(
    connection: jms.Connection, manager: QueueManager
) -> None:
    receivers = []
    for count, mode in enumerate((0, 1, 2), 1):
        session = connection.create_session(mode)
        consumer = session.create_consumer(session.create_queue("Q1"))
        receivers.append(Receiver(consumer.receive))
        receivers[-1].wait_until_waiting(manager, number_of(manager), count)
    connection.close()
    assert [receiver.result() for receiver in receivers] == [None, None, None]


def test_the_end_of_the_queue_manager_ends_the_wait_with_an_error(clock: VirtualClock) -> None:
    manager = QueueManager("QM2", clock=clock)
    alter(manager, "DEFINE QLOCAL(Q1)")
    context = jms.ConnectionFactory(manager).create_context()
    receiver = waiting(manager, context.create_consumer(context.create_queue("Q1")))
    manager.close()
    with refused(jms.JMSRuntimeException, rc.MQRC_Q_MGR_STOPPING):
        receiver.result()


@pytest.mark.parametrize("mode", [jms.SESSION_TRANSACTED, jms.AUTO_ACKNOWLEDGE])
def test_closes_amid_receives_lose_and_double_nothing(
    factory: jms.ConnectionFactory, transacted: jms.JMSContext, manager: QueueManager, mode: int
) -> None:
    alter(manager, "ALTER QLOCAL(Q1) BOTHRESH(0)")
    texts: list[str] = []

    def run(context: jms.JMSContext, consumer: jms.JMSConsumer) -> None:
        # A commit, or the next receive, may find the context closed: then nothing was received.
        with suppress(jms.IllegalStateRuntimeException):
            while (message := consumer.receive()) is not None:
                if context.transacted:
                    context.commit()
                texts.append(message.get_body(str))
                received_one.release()

    q1, sent = transacted.create_queue("Q1"), 0
    for _ in range(4):
        received_one = threading.Semaphore(0)
        for number in range(sent, sent + 50):
            transacted.create_producer().set_delivery_mode(1 + number % 2).send(q1, str(number))
        sent += 50
        transacted.commit()
        contexts = [factory.create_context(mode) for _ in range(3)]
        threads = [
            threading.Thread(target=run, args=(context, context.create_consumer(q1)))
            for context in contexts
        ]
        for thread in threads:
            thread.start()
        for _ in range(5):
            assert received_one.acquire(timeout=PATIENCE_SECONDS)
        for context in contexts:
            context.close()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()
    with factory.create_context() as rest:
        consumer = rest.create_consumer(q1)
        while (message := consumer.receive_no_wait()) is not None:
            texts.append(message.get_body(str))
    assert sorted(texts, key=int) == [str(number) for number in range(sent)]


def test_receive_waits_in_real_time(tmp_path: Path) -> None:
    with QueueManager("QM3", tmp_path / "QM3") as manager:
        alter(manager, "DEFINE QLOCAL(Q1)")
        with jms.ConnectionFactory(manager).create_context() as context:
            consumer = context.create_consumer(context.create_queue("Q1"))
            assert consumer.receive(2) is None
            context.stop()
            assert consumer.receive(2) is None
            context.start()
            context.create_producer().set_delivery_delay(5).send(context.create_queue("Q1"), "x")
            assert consumer.receive(30_000) is not None


# Stopped connections


def test_a_classic_connection_begins_stopped(
    factory: jms.ConnectionFactory, clock: VirtualClock
) -> None:
    with factory.create_connection() as connection:
        session = connection.create_session()
        queue = session.create_queue("Q1")
        consumer = session.create_consumer(queue)
        session.create_producer(queue).send(session.create_text_message("x"))
        assert consumer.receive_no_wait() is None
        connection.start()
        assert text_of(consumer) == "x"


def test_nothing_comes_while_stopped_and_the_wait_ends_in_its_time(
    context: jms.JMSContext,
    consumer: jms.JMSConsumer,
    q1: jms.Queue,
    manager: QueueManager,
    clock: VirtualClock,
) -> None:
    receiver = waiting(manager, consumer, 5_000)
    context.stop()
    wait_until_stopped(context)
    context.create_producer().send(q1, "x")
    clock.advance(4_999)
    wait_until_stopped(context)
    clock.advance(1)
    assert receiver.result() is None
    assert consumer.receive_no_wait() is None
    context.start()
    assert text_of(consumer) == "x"


def test_a_receive_goes_on_when_started_again(
    context: jms.JMSContext, consumer: jms.JMSConsumer, q1: jms.Queue, manager: QueueManager
) -> None:
    receiver = waiting(manager, consumer)
    context.stop()
    wait_until_stopped(context)
    context.create_producer().send(q1, "x")
    context.start()
    assert text_in(receiver) == "x"


def test_a_close_ends_the_wait_of_a_stopped_connection(
    context: jms.JMSContext, consumer: jms.JMSConsumer, manager: QueueManager
) -> None:
    context.stop()
    receiver = Receiver(consumer.receive)
    wait_until_stopped(context)
    context.close()
    assert receiver.result() is None


def test_without_auto_start_a_context_begins_stopped(
    context: jms.JMSContext, q1: jms.Queue
) -> None:
    context.set_auto_start(False)
    consumer = context.create_consumer(q1)
    context.create_producer().send(q1, "x")
    assert consumer.receive_no_wait() is None
    context.start()
    assert text_of(consumer) == "x"


def wait_until_stopped(context: jms.JMSContext) -> None:
    """Return when a receive of a stopped connection waits for its start."""
    wait_until(lambda: context._connection.waiting_count)


# Bodies


def test_receive_body(context: jms.JMSContext, consumer: jms.JMSConsumer, q1: jms.Queue) -> None:
    context.create_producer().send(q1, "x").send(q1, b"y").send(q1, {"z": 1})
    assert consumer.receive_body(str, 1) == "x"
    assert consumer.receive_body_no_wait(bytes) == b"y"
    assert consumer.receive_body_no_wait(dict) == {"z": 1}
    assert consumer.receive_body_no_wait(str) is None


def test_a_body_of_another_type_is_received_again(
    context: jms.JMSContext, consumer: jms.JMSConsumer, q1: jms.Queue, manager: QueueManager
) -> None:
    context.create_producer().send(q1, "x").send(q1, "y")
    for _ in range(3):
        with refused(jms.MessageFormatRuntimeException, 0):
            consumer.receive_body_no_wait(bytes)
    with context.create_context() as other:
        assert text_of(other.create_consumer(q1)) == "y"
    message = received(consumer, jms.TextMessage)
    assert (message.text, message.jms_redelivered) == ("x", False)
    assert manager.curdepth("Q1") == 0


def test_a_body_of_another_type_in_a_transaction_counts_as_received(
    transacted: jms.JMSContext, manager: QueueManager
) -> None:
    q1 = transacted.create_queue("Q1")
    transacted.create_producer().send(q1, None)
    transacted.commit()
    consumer = transacted.create_consumer(q1)
    with refused(jms.MessageFormatRuntimeException, 0):
        consumer.receive_body_no_wait(str)
    assert consumer.receive_no_wait() is None
    transacted.commit()
    assert manager.curdepth("Q1") == 0


# Temporary queues


def test_a_temporary_queue_answers_a_request(
    context: jms.JMSContext, factory: jms.ConnectionFactory, q1: jms.Queue, manager: QueueManager
) -> None:
    own = context.create_temporary_queue()
    context.create_producer().set_jms_reply_to(own).send(q1, "ask")
    with factory.create_context() as other:
        request = received(other.create_consumer(q1), jms.TextMessage)
        assert request.jms_reply_to is not None
        answer = other.create_text_message("tell")
        answer.set_jms_correlation_id(request.jms_message_id)
        # Persistent as JMS has it; a temporary queue holds none.
        other.create_producer().send(request.jms_reply_to, answer)
        with refused(jms.InvalidDestinationRuntimeException, rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
            other.create_consumer(request.jms_reply_to)
        with refused(jms.InvalidDestinationRuntimeException, rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
            other.create_consumer(own)
    got = received(context.create_consumer(own), jms.TextMessage)
    assert (got.text, got.jms_delivery_mode) == ("tell", jms.NON_PERSISTENT)
    assert got.jms_correlation_id == request.jms_message_id
    assert manager.engine.registry.find(own.queue_name) is not None
    context.close()
    assert manager.engine.registry.find(own.queue_name) is None


def test_a_temporary_queue_is_deleted_unless_a_consumer_has_it(
    session: jms.Session, manager: QueueManager
) -> None:
    own = session.create_temporary_queue()
    producer = session.create_producer(own)
    producer.send(session.create_text_message("x"))
    consumer = session.create_consumer(own)
    with refused(jms.JMSException, rc.MQRC_OBJECT_IN_USE):
        own.delete()
    consumer.close()
    own.delete()
    assert manager.engine.registry.find(own.queue_name) is None
    with refused(jms.InvalidDestinationException, rc.MQRC_Q_DELETED):
        producer.send(session.create_message())
    with refused(jms.InvalidDestinationException, rc.MQRC_UNKNOWN_OBJECT_NAME):
        own.delete()


# Browsers


def test_a_browser_shows_everything_and_takes_nothing(
    context: jms.JMSContext, session: jms.Session, q1: jms.Queue, manager: QueueManager
) -> None:
    context.create_producer().send(q1, "1").set_priority(9).send(q1, "2")
    for browser in (context.create_browser(q1), session.create_browser(q1)):
        for _ in range(2):
            shown = [m.text for m in browser if isinstance(m, jms.TextMessage)]
            assert shown == ["2", "1"]
        assert browser.queue == q1
        browser.close()
    assert manager.curdepth("Q1") == 2
    assert text_of(context.create_consumer(q1)) == "2"


def test_two_iterations_of_a_browser_do_not_disturb_each_other(
    session: jms.Session, manager: QueueManager
) -> None:
    queue = session.create_queue("Q1")
    producer = session.create_producer(queue)
    for text in ("1", "2"):
        producer.send(session.create_text_message(text))
    browser = session.create_browser(queue)
    one, other = iter(browser), iter(browser)
    producer.close()
    texts = [next(m).get_body(str) for m in (one, other, one, other)]
    assert texts == ["1", "1", "2", "2"]
    browser.close()
    with refused(jms.IllegalStateException, rc.MQRC_HOBJ_ERROR):
        next(one)
    alter(manager, "CLEAR QLOCAL(Q1)")


def test_a_queue_that_nobody_holds_open_can_be_deleted(
    context: jms.JMSContext, manager: QueueManager
) -> None:
    q2 = context.create_queue("Q2")
    producer = context.create_producer().send(q2, "x")
    list(context.create_browser(q2))
    context.create_consumer(q2).close()
    alter(manager, "DELETE QLOCAL(Q2) PURGE\nDEFINE QLOCAL(Q2)")
    producer.send(q2, "y")
    assert text_of(context.create_consumer(q2)) == "y"
