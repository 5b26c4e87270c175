"""Message selectors of consumers and browsers, in both APIs."""

from __future__ import annotations

import pytest

from mayfly import QueueManager, jms
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.facts import wait_until
from tests.jms.scene import START_MS, Receiver, on_queue, refused, text_of

RED = "colour = 'red'"


def send(context: jms.JMSContext, colour: str, text: str, **properties: int) -> None:
    """Send a text with a colour to Q1."""
    producer = context.create_producer().set_property("colour", colour)
    for name, value in properties.items():
        producer.set_property(name, value)
    producer.send(context.create_queue("Q1"), text)


def texts(browser: jms.JMSBrowser | jms.QueueBrowser) -> list[str | None]:
    """Return the texts of all messages that a browser shows."""
    return [message.text for message in browser if isinstance(message, jms.TextMessage)]


def wait_for(manager: QueueManager, receiver: Receiver) -> None:
    """Return when a receive waits until some time."""

    def is_waiting() -> bool:
        with manager.engine.engine_lock:
            return manager.engine.waits.next_end_ms() is not None

    wait_until(is_waiting)


def test_a_consumer_receives_what_its_selector_takes(
    context: jms.JMSContext, manager: QueueManager, q1: jms.Queue
) -> None:
    for colour, text in (("blue", "1"), ("red", "2"), ("blue", "3"), ("red", "4")):
        send(context, colour, text)
    consumer = context.create_consumer(q1, selector=RED)
    assert consumer.message_selector == RED
    assert [text_of(consumer), text_of(consumer)] == ["2", "4"]
    assert consumer.receive_no_wait() is None
    assert manager.curdepth("Q1") == 2
    rest = context.create_consumer(q1, "NOT (colour = 'red')")
    assert rest.receive_body_no_wait(str) == "1"
    assert text_of(rest) == "3"


def test_a_consumer_of_the_classic_api(
    session: jms.Session, context: jms.JMSContext, manager: QueueManager
) -> None:
    send(context, "blue", "1")
    send(context, "red", "2")
    consumer = session.create_consumer(session.create_queue("Q1"), RED)
    assert consumer.message_selector == RED
    assert text_of(consumer) == "2"
    browser = session.create_browser(session.create_queue("Q1"), "colour = 'blue'")
    assert browser.message_selector == "colour = 'blue'"
    assert texts(browser) == ["1"]
    assert manager.curdepth("Q1") == 1


def test_each_iteration_of_a_browser_shows_what_its_selector_takes(
    context: jms.JMSContext, q1: jms.Queue
) -> None:
    browser = context.create_browser(q1, "n BETWEEN 2 AND 4")
    assert browser.message_selector == "n BETWEEN 2 AND 4"
    for number in range(4):
        send(context, "red", f"{number}", n=number)
    assert texts(browser) == ["2", "3"]
    send(context, "red", "4", n=4)
    assert texts(browser) == ["2", "3", "4"]


@pytest.mark.parametrize("blank", [None, "", "  "])
def test_without_a_selector_everything_is_received(
    context: jms.JMSContext, session: jms.Session, q1: jms.Queue, blank: str | None
) -> None:
    send(context, "blue", "1")
    send(context, "red", "2")
    browser = context.create_browser(q1, blank)
    assert browser.message_selector is None
    assert texts(browser) == ["1", "2"]
    consumer = context.create_consumer(q1, blank)
    assert consumer.message_selector is None
    assert text_of(consumer) == "1"
    assert text_of(session.create_consumer(q1, blank)) == "2"


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        ("colour = ", rc.MQRC_SELECTOR_SYNTAX_ERROR),
        ("JMSReplyTo = 'x'", rc.MQRC_SELECTOR_SYNTAX_ERROR),
        ("a" * 10_241, rc.MQRC_SELECTION_STRING_ERROR),
        ("1 = 2", rc.MQRC_SELECTOR_ALWAYS_FALSE),
        (5, rc.MQRC_SELECTION_STRING_ERROR),
    ],
)
def test_a_wrong_selector_is_refused_where_it_is_given(
    context: jms.JMSContext,
    session: jms.Session,
    manager: QueueManager,
    selector: str,
    reason: int,
) -> None:
    queue = session.create_queue("Q1")
    with refused(jms.InvalidSelectorRuntimeException, reason):
        context.create_consumer(queue, selector=selector)
    with refused(jms.InvalidSelectorRuntimeException, reason):
        context.create_browser(queue, selector)
    with refused(jms.InvalidSelectorException, reason):
        session.create_consumer(queue, selector)
    with refused(jms.InvalidSelectorException, reason):
        session.create_browser(queue, selector)
    assert not manager.engine.registry.queue("Q1").is_open


def test_the_error_says_where_the_selector_is_wrong(
    session: jms.Session,
) -> None:
    with pytest.raises(jms.InvalidSelectorException, match="position 10") as caught:
        session.create_consumer(session.create_queue("Q1"), "colour = AND")
    assert caught.value.error_code == "MQRC_SELECTOR_SYNTAX_ERROR"


def test_what_a_message_shows_is_what_selects_it(context: jms.JMSContext, q1: jms.Queue) -> None:
    """Also where the CorrelId has no text: JMSCorrelationID is null for both."""
    first = context.create_text_message("x")
    first.set_jms_correlation_id("order-7")
    first.set_jms_type("invoice")
    context.create_producer().set_priority(7).send(q1, first)
    for selector in (
        "JMSCorrelationID = 'order-7'",
        "JMSType = 'invoice' AND JMSPriority = 7",
        "JMSDeliveryMode = 'PERSISTENT'",
        f"JMSMessageID = '{first.jms_message_id}'",
        f"JMSTimestamp = {START_MS}",
        "JMSXDeliveryCount = 1",
    ):
        assert texts(context.create_browser(q1, selector)) == ["x"], selector
    empty = context.create_consumer(q1).receive_no_wait()
    assert empty is not None
    context.create_producer().send(q1, "none")
    assert texts(context.create_browser(q1, "JMSCorrelationID IS NULL")) == ["none"]


def test_a_receive_waits_for_what_its_selector_takes(
    context: jms.JMSContext,
    factory: jms.ConnectionFactory,
    manager: QueueManager,
    clock: VirtualClock,
) -> None:
    with factory.create_context() as other:
        consumer = other.create_consumer(other.create_queue("Q1"), RED)
        receiver = Receiver(lambda: consumer.receive(timeout_ms=1_000))
        wait_for(manager, receiver)
        send(context, "blue", "no")
        clock.advance(999)
        send(context, "red", "yes")
        message = receiver.result()
        assert isinstance(message, jms.TextMessage)
        assert message.text == "yes"
        receiver = Receiver(lambda: consumer.receive(timeout_ms=1_000))
        wait_for(manager, receiver)
        send(context, "blue", "no")
        clock.advance(1_000)
        assert receiver.result() is None
    assert manager.curdepth("Q1") == 2


def test_a_stopped_connection_holds_back_what_the_selector_takes(
    connection: jms.Connection,
    session: jms.Session,
    context: jms.JMSContext,
    manager: QueueManager,
    clock: VirtualClock,
) -> None:
    """The queue is opened again after the stop, with the same selector."""
    consumer = session.create_consumer(session.create_queue("Q1"), RED)
    receiver = Receiver(lambda: consumer.receive(timeout_ms=5_000))
    wait_for(manager, receiver)
    connection.stop()
    send(context, "blue", "no")
    send(context, "red", "yes")
    connection.start()
    message = receiver.result()
    assert isinstance(message, jms.TextMessage)
    assert message.text == "yes"


def test_the_delivery_count_is_that_of_the_delivery_to_come(
    transacted: jms.JMSContext, context: jms.JMSContext, q1: jms.Queue
) -> None:
    send(context, "red", "x")
    again = transacted.create_consumer(q1, "JMSXDeliveryCount = 2")
    first = transacted.create_consumer(q1, "JMSXDeliveryCount = 1")
    assert again.receive_no_wait() is None
    assert text_of(first) == "x"
    transacted.rollback()
    assert first.receive_no_wait() is None
    message = again.receive_no_wait()
    assert message is not None
    assert message.get_property("JMSXDeliveryCount") == 2
    transacted.commit()


def test_a_poisonous_message_is_moved_only_by_who_selects_it(
    transacted: jms.JMSContext, context: jms.JMSContext, manager: QueueManager, q1: jms.Queue
) -> None:
    send(context, "red", "poison")
    send(context, "red", "good")
    blue = transacted.create_consumer(q1, "colour = 'blue'")
    red = transacted.create_consumer(q1, RED)
    for _ in range(2):
        assert text_of(red) == "poison"
        transacted.rollback()
    assert blue.receive_no_wait() is None
    assert manager.curdepth("BACKOUTS") == 0
    assert text_of(red) == "good"
    transacted.commit()
    assert manager.curdepth("BACKOUTS") == 1
    assert on_queue(manager, "BACKOUTS").backout_count == 0


def test_an_expired_message_is_not_received_and_one_of_another_colour_stays(
    context: jms.JMSContext, manager: QueueManager, clock: VirtualClock, q1: jms.Queue
) -> None:
    producer = context.create_producer().set_time_to_live(1_000)
    for colour in ("blue", "red"):
        producer.set_property("colour", colour).send(q1, colour)
    consumer = context.create_consumer(q1, RED)
    clock.advance(1_000)
    assert manager.curdepth("Q1") == 2
    assert consumer.receive_no_wait() is None
    assert manager.curdepth("Q1") == 1


def test_own_uncommitted_messages_are_received_by_their_selector(
    transacted: jms.JMSContext, q1: jms.Queue
) -> None:
    send(transacted, "blue", "1")
    send(transacted, "red", "2")
    assert text_of(transacted.create_consumer(q1, RED)) == "2"
    assert transacted.create_consumer(q1, RED).receive_no_wait() is None
    transacted.commit()
    assert texts(transacted.create_browser(q1)) == ["1"]


def test_a_delayed_message_is_selected_when_it_is_due(
    context: jms.JMSContext, clock: VirtualClock, q1: jms.Queue
) -> None:
    producer = context.create_producer().set_delivery_delay(5_000).set_property("colour", "red")
    producer.send(q1, "later")
    consumer = context.create_consumer(q1, RED)
    clock.advance(4_999)
    assert consumer.receive_no_wait() is None
    clock.advance(1)
    assert text_of(consumer) == "later"
