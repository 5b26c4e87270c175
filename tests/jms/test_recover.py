"""recover(): what was received and not acknowledged comes again, or is disposed of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager, jms
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.jms.scene import on_queue, received, refused, text_of


@pytest.fixture
def client(factory: jms.ConnectionFactory) -> Iterator[jms.JMSContext]:
    """A context whose client acknowledges."""
    with factory.create_context(jms.CLIENT_ACKNOWLEDGE) as opened:
        yield opened


def test_all_come_again_in_their_order_before_what_was_not_received(
    client: jms.JMSContext, q1: jms.Queue
) -> None:
    producer, consumer = client.create_producer(), client.create_consumer(q1)
    for text in ("1", "2", "3"):
        producer.send(q1, text)
    assert [text_of(consumer), text_of(consumer)] == ["1", "2"]
    client.recover()
    again = [received(consumer, jms.TextMessage) for _ in range(3)]
    assert [(m.text, m.jms_redelivered) for m in again] == [("1", True), ("2", True), ("3", False)]
    assert [m.get_property("JMSXDeliveryCount") for m in again] == [2, 2, 1]


def test_it_is_for_all_consumers_of_the_session_and_no_other(
    factory: jms.ConnectionFactory, client: jms.JMSContext, manager: QueueManager
) -> None:
    q1, q2 = client.create_queue("Q1"), client.create_queue("Q2")
    client.create_producer().send(q1, "1").send(q2, "2").send(q2, "3")
    with client.create_context(jms.CLIENT_ACKNOWLEDGE) as other:
        consumers = client.create_consumer(q1), client.create_consumer(q2)
        assert [text_of(consumer) for consumer in consumers] == ["1", "2"]
        assert text_of(other.create_consumer(q2)) == "3"
        client.recover()
        assert (manager.counts("Q1").live, manager.counts("Q2").live) == (1, 1)
        assert manager.counts("Q2").locked == 1
        assert [text_of(consumer) for consumer in consumers] == ["1", "2"]


def test_what_was_acknowledged_does_not_come_again(
    client: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    client.create_producer().send(q1, "1").send(q1, "2")
    consumer = client.create_consumer(q1)
    received(consumer, jms.TextMessage).acknowledge()
    assert text_of(consumer) == "2"
    client.recover()
    assert text_of(consumer) == "2"
    client.recover()
    assert manager.curdepth("Q1") == 1


def test_an_old_message_acknowledges_what_its_session_has_received_since(
    client: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    client.create_producer().send(q1, "1").send(q1, "2")
    consumer = client.create_consumer(q1)
    first = received(consumer, jms.TextMessage)
    client.recover()
    first.acknowledge()
    assert manager.curdepth("Q1") == 2
    assert [text_of(consumer), text_of(consumer)] == ["1", "2"]
    first.acknowledge()
    assert manager.curdepth("Q1") == 0


@pytest.mark.parametrize(("passes_ms", "comes"), [(999, True), (1_000, False)])
def test_E15_past_its_deadline_it_is_discarded_with_its_report(
    client: jms.JMSContext,
    q1: jms.Queue,
    manager: QueueManager,
    clock: VirtualClock,
    passes_ms: int,
    comes: bool,
) -> None:
    message = client.create_text_message("x")
    message.set_property("JMS_IBM_Report_Expiration", c.MQRO_EXPIRATION)
    message.set_jms_reply_to(client.create_queue("REPLIES"))
    client.create_producer().set_time_to_live(1_000).send(q1, message)
    consumer = client.create_consumer(q1)
    assert text_of(consumer) == "x"
    clock.advance(passes_ms)
    client.recover()
    again = consumer.receive_no_wait()
    assert (again is not None) == comes
    assert manager.counts("REPLIES").live == (not comes)


def test_recovered_as_often_as_the_queue_allows_it_goes_to_boqname(
    client: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    client.create_producer().send(q1, "poison").send(q1, "good")
    consumer = client.create_consumer(q1)
    for _ in range(2):
        assert text_of(consumer) == "poison"
        client.recover()
    assert text_of(consumer) == "good"
    client.acknowledge()
    assert manager.curdepth("Q1") == 0
    assert on_queue(manager, "BACKOUTS").backout_count == 0


def test_what_a_session_has_sent_is_not_taken_back(
    client: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    client.create_producer().send(q1, "x")
    client.recover()
    assert manager.counts("Q1").live == 1


@pytest.mark.parametrize("mode", [jms.AUTO_ACKNOWLEDGE, jms.DUPS_OK_ACKNOWLEDGE])
def test_automatic_there_is_nothing_to_recover(
    factory: jms.ConnectionFactory, manager: QueueManager, mode: int
) -> None:
    with factory.create_context(mode) as context:
        q1 = context.create_queue("Q1")
        context.create_producer().send(q1, "1").send(q1, "2")
        consumer = context.create_consumer(q1)
        assert text_of(consumer) == "1"
        context.recover()
        assert text_of(consumer) == "2"
    assert manager.curdepth("Q1") == 0


def test_a_stopped_session_recovers_and_receives_after_the_start(
    client: jms.JMSContext, q1: jms.Queue, clock: VirtualClock
) -> None:
    client.create_producer().send(q1, "x")
    consumer = client.create_consumer(q1)
    assert text_of(consumer) == "x"
    client.stop()
    client.recover()
    assert consumer.receive_no_wait() is None
    client.start()
    assert received(consumer, jms.TextMessage).jms_redelivered


def test_transacted_and_closed_sessions_refuse(connection: jms.Connection) -> None:
    transacted = connection.create_session(jms.SESSION_TRANSACTED)
    with refused(jms.IllegalStateException, 0):
        transacted.recover()
    closed = connection.create_session(jms.CLIENT_ACKNOWLEDGE)
    closed.close()
    with refused(jms.IllegalStateException, rc.MQRC_HCONN_ERROR):
        closed.recover()


def test_D32_a_recovered_message_comes_again_after_BODELAY(
    client: jms.JMSContext, q1: jms.Queue, manager: QueueManager, clock: VirtualClock
) -> None:
    assert manager.mqsc("ALTER QLOCAL(Q1) BODELAY(5)").ok
    client.create_producer().send(q1, "1").send(q1, "2")
    consumer = client.create_consumer(q1)
    assert text_of(consumer) == "1"
    client.recover()
    assert text_of(consumer) == "2"
    clock.advance(4_999)
    assert consumer.receive_no_wait() is None
    clock.advance(1)
    assert text_of(consumer) == "1"
