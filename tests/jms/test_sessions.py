"""Acknowledging, transactions, states, and messages that are backed out too often."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager, jms
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DLH
from mayfly.testing import VirtualClock
from tests.jms.scene import START_MS, alter, on_queue, received, refused, text_of


def count_of(message: jms.Message) -> int:
    return message.get_int_property("JMSXDeliveryCount")


@pytest.mark.parametrize("mode", [jms.AUTO_ACKNOWLEDGE, jms.DUPS_OK_ACKNOWLEDGE])
def test_automatic_a_message_received_is_gone(
    factory: jms.ConnectionFactory, manager: QueueManager, mode: int
) -> None:
    with factory.create_context(mode) as context:
        q1 = context.create_queue("Q1")
        context.create_producer().send(q1, "x")
        message = received(context.create_consumer(q1), jms.TextMessage)
        assert manager.counts("Q1").locked == manager.curdepth("Q1") == 0
        message.acknowledge()
        context.recover()
        assert manager.curdepth("Q1") == 0


def test_client_all_that_was_received_is_acknowledged_together(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    with factory.create_context(jms.CLIENT_ACKNOWLEDGE) as context:
        q1, q2 = context.create_queue("Q1"), context.create_queue("Q2")
        producer = context.create_producer()
        for queue, text in ((q1, "1"), (q1, "2"), (q2, "3")):
            producer.send(queue, text)
        consumer, other = context.create_consumer(q1), context.create_consumer(q2)
        first = received(consumer, jms.TextMessage)
        received(other, jms.TextMessage)
        first.acknowledge()
        received(consumer, jms.TextMessage)
    assert (manager.curdepth("Q1"), manager.curdepth("Q2")) == (1, 0)


def test_client_recover_brings_them_again(factory: jms.ConnectionFactory) -> None:
    with factory.create_context(jms.CLIENT_ACKNOWLEDGE) as context:
        q1 = context.create_queue("Q1")
        context.create_producer().send(q1, "1").send(q1, "2")
        consumer = context.create_consumer(q1)
        first = received(consumer, jms.TextMessage)
        assert (first.jms_redelivered, count_of(first)) == (False, 1)
        context.recover()
        again = received(consumer, jms.TextMessage)
        assert (again.text, again.jms_redelivered, count_of(again)) == ("1", True, 2)
        context.acknowledge()
        assert text_of(consumer) == "2"


def test_client_sends_are_no_part_of_the_acknowledged_unit(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    with factory.create_context(jms.CLIENT_ACKNOWLEDGE) as context:
        q1, q2 = context.create_queue("Q1"), context.create_queue("Q2")
        context.create_producer().send(q1, "request")
        received(context.create_consumer(q1), jms.TextMessage)
        context.create_producer().send(q2, "answer")
        assert manager.counts("Q2").live == 1
        context.recover()
    assert (manager.curdepth("Q1"), manager.curdepth("Q2")) == (1, 1)


def test_transacted_commit_and_rollback(transacted: jms.JMSContext, manager: QueueManager) -> None:
    q1, q2 = transacted.create_queue("Q1"), transacted.create_queue("Q2")
    producer, consumer = transacted.create_producer(), transacted.create_consumer(q1)
    producer.send(q1, "1")
    assert manager.counts("Q1").live == 0
    transacted.commit()
    assert manager.counts("Q1").live == 1
    message = received(consumer, jms.TextMessage)
    producer.send(q2, message)
    transacted.rollback()
    assert (manager.counts("Q1").live, manager.curdepth("Q2")) == (1, 0)
    again = received(consumer, jms.TextMessage)
    assert (again.jms_redelivered, count_of(again)) == (True, 2)
    producer.send(q2, again)
    transacted.commit()
    assert (manager.curdepth("Q1"), manager.curdepth("Q2")) == (0, 1)


def test_what_a_session_has_not_committed_its_close_rolls_back(
    factory: jms.ConnectionFactory, manager: QueueManager
) -> None:
    with factory.create_context(jms.SESSION_TRANSACTED) as context:
        q1 = context.create_queue("Q1")
        context.create_producer().send(q1, "kept")
        context.commit()
        context.create_producer().send(q1, "lost")
        assert text_of(context.create_consumer(q1)) == "kept"
    assert manager.curdepth("Q1") == 1
    assert on_queue(manager).backout_count == 1


def test_own_uncommitted_sends_can_be_received(transacted: jms.JMSContext) -> None:
    q1 = transacted.create_queue("Q1")
    transacted.create_producer().send(q1, "own")
    assert text_of(transacted.create_consumer(q1)) == "own"


def test_persistent_messages_survive_a_restart(tmp_path: Path, clock: VirtualClock) -> None:
    for sends in (True, False):
        with QueueManager("QM1", tmp_path / "QM1", clock) as manager:
            manager.mqsc("DEFINE QLOCAL(Q1)")
            with jms.ConnectionFactory(manager).create_context() as context:
                q1 = context.create_queue("Q1")
                if sends:
                    producer = context.create_producer()
                    producer.set_property("p", 1).send(q1, {"a": 1.5})
                    producer.set_delivery_mode(jms.NON_PERSISTENT).send(q1, "lost")
                    producer.set_delivery_mode(jms.PERSISTENT)
                    producer.set_delivery_delay(1_000).send(q1, "delayed")
                else:
                    clock.advance(1_000)
                    consumer = context.create_consumer(q1)
                    assert received(consumer, jms.MapMessage).get_double("a") == 1.5
                    assert text_of(consumer) == "delayed"
                    assert consumer.receive_no_wait() is None


def test_a_full_disk_is_no_matter_but_a_limit_is(
    transacted: jms.JMSContext, manager: QueueManager
) -> None:
    alter(manager, "ALTER QMGR MAXUMSGS(1)")
    q1 = transacted.create_queue("Q1")
    transacted.create_producer().send(q1, "1")
    with refused(jms.ResourceAllocationRuntimeException, rc.MQRC_SYNCPOINT_LIMIT_REACHED):
        transacted.create_producer().send(q1, "2")
    transacted.commit()
    assert manager.curdepth("Q1") == 1


# States


def test_calls_that_do_not_fit_the_mode(
    context: jms.JMSContext, transacted: jms.JMSContext, session: jms.Session
) -> None:
    for call in (context.commit, context.rollback, transacted.recover):
        with refused(jms.IllegalStateRuntimeException, 0):
            call()
    for commit in (session.commit, session.rollback):
        with refused(jms.IllegalStateException, 0):
            commit()
    transacted.acknowledge()
    context.acknowledge()


def test_everything_of_a_closed_context_is_refused(
    factory: jms.ConnectionFactory, q1: jms.Queue
) -> None:
    context = factory.create_context(jms.CLIENT_ACKNOWLEDGE)
    producer, consumer = context.create_producer(), context.create_consumer(q1)
    browser = context.create_browser(q1)
    producer.send(q1, "x")
    message = consumer.receive_no_wait()
    assert message is not None
    context.close()
    context.close()
    for call in (
        context.create_text_message,
        context.create_producer,
        context.create_temporary_queue,
        context.create_context,
        context.acknowledge,
        context.recover,
        context.start,
        context.stop,
        consumer.receive,
        consumer.receive_no_wait,
        lambda: producer.send(q1, "x"),
        lambda: context.create_consumer(q1),
        lambda: list(browser),
    ):
        with refused(jms.IllegalStateRuntimeException, rc.MQRC_HCONN_ERROR):
            call()
    with refused(jms.IllegalStateException, rc.MQRC_HCONN_ERROR):
        message.acknowledge()
    consumer.close()
    browser.close()


def test_everything_closed_of_the_classic_api_is_refused(
    factory: jms.ConnectionFactory,
) -> None:
    connection = factory.create_connection()
    session = connection.create_session()
    queue = session.create_queue("Q1")
    producer, consumer = session.create_producer(queue), session.create_consumer(queue)
    message = session.create_message()
    for thing in (producer, consumer):
        thing.close()
        thing.close()
    with refused(jms.IllegalStateException, rc.MQRC_HOBJ_ERROR):
        producer.send(message)
    with refused(jms.IllegalStateException, rc.MQRC_HOBJ_ERROR):
        producer.set_priority(1)
    with refused(jms.IllegalStateException, rc.MQRC_HOBJ_ERROR):
        consumer.receive(1)
    connection.close()
    connection.close()
    for call in (connection.create_session, connection.start, session.create_message):
        with refused(jms.IllegalStateException, rc.MQRC_HCONN_ERROR):
            call()


def test_a_context_of_a_context_shares_the_connection(
    factory: jms.ConnectionFactory, q1: jms.Queue
) -> None:
    first = factory.create_context()
    second = first.create_context(jms.SESSION_TRANSACTED)
    assert (second.session_mode, second.transacted) == (0, True)
    own = first.create_temporary_queue()
    first.close()
    second.create_producer().send(own, "x")
    assert text_of(second.create_consumer(own)) == "x"
    second.commit()
    second.close()
    with refused(jms.IllegalStateRuntimeException, rc.MQRC_HCONN_ERROR):
        second.create_context()


def test_session_modes_that_are_none(factory: jms.ConnectionFactory) -> None:
    with refused(jms.JMSRuntimeException, rc.MQRC_OPTIONS_ERROR):
        factory.create_context(4)
    for mode in (-1, False):
        with factory.create_connection() as connection, refused(jms.JMSException, 2046):
            connection.create_session(mode)


def test_producers_of_the_classic_api_and_their_arguments(
    session: jms.Session, manager: QueueManager
) -> None:
    queue, message = session.create_queue("Q1"), session.create_text_message("x")
    own, free = session.create_producer(queue), session.create_producer()
    own.send(message)
    own.send(message, jms.NON_PERSISTENT, 8, 9_000)
    assert (message.jms_delivery_mode, message.jms_priority) == (jms.NON_PERSISTENT, 8)
    assert message.jms_expiration == START_MS + 9_000
    own.send(message, priority=2)
    assert (message.jms_delivery_mode, message.jms_priority) == (jms.PERSISTENT, 2)
    free.send(queue, message, time_to_live=5)
    assert (own.destination, free.destination) == (queue, None)
    assert manager.curdepth("Q1") == 4
    with refused(jms.InvalidDestinationException, rc.MQRC_UNKNOWN_OBJECT_NAME):
        free.send(message)
    with refused(jms.IllegalStateException, 0):
        own.send(queue, message)
    with refused(jms.MessageFormatException, 0):
        own.send("text")
    for arguments in ((message, 1, 2, 3, 4), (message, 2, 4)):
        if len(arguments) > 4:
            with pytest.raises(TypeError):
                own.send(*arguments)
    with pytest.raises(TypeError):
        own.send(message, 1, delivery_mode=2)
    for terms, reason in (
        ({"delivery_mode": 3}, rc.MQRC_PERSISTENCE_ERROR),
        ({"priority": 10}, rc.MQRC_PRIORITY_ERROR),
        ({"priority": True}, rc.MQRC_PRIORITY_ERROR),
    ):
        with refused(jms.JMSException, reason):
            own.send(message, **terms)
    assert manager.curdepth("Q1") == 4


def test_a_queue_manager_that_ends_breaks_its_connections(clock: VirtualClock) -> None:
    manager = QueueManager("QM2", clock=clock)
    alter(manager, "DEFINE QLOCAL(Q1)")
    context = jms.ConnectionFactory(manager).create_context()
    q1 = context.create_queue("Q1")
    consumer = context.create_consumer(q1)
    manager.close()
    with pytest.raises(jms.JMSRuntimeException):
        consumer.receive(1_000)
    with pytest.raises(jms.JMSRuntimeException):
        context.create_producer().send(q1, "x")
    context.close()
    with refused(jms.JMSRuntimeException, rc.MQRC_CONNECTION_BROKEN):
        jms.ConnectionFactory(manager).create_context()


# Backed out too often


def back_out(context: jms.JMSContext, consumer: jms.JMSConsumer, times: int) -> None:
    for _ in range(times):
        assert consumer.receive_no_wait() is not None
        context.rollback()


def test_at_the_threshold_it_goes_to_the_backout_queue_as_it_is(
    transacted: jms.JMSContext, manager: QueueManager, q1: jms.Queue, clock: VirtualClock
) -> None:
    sent = transacted.create_text_message("poison")
    sent.set_property("p", 1)
    sent.set_jms_correlation_id("c")
    transacted.create_producer().set_time_to_live(60_000).send(q1, sent)
    transacted.create_producer().send(q1, "good")
    transacted.commit()
    consumer = transacted.create_consumer(q1)
    back_out(transacted, consumer, 1)
    clock.advance(10_000)
    assert count_of(received(consumer, jms.TextMessage)) == 2
    transacted.rollback()
    assert text_of(consumer) == "good"
    assert manager.counts("BACKOUTS").live == 0
    transacted.commit()
    moved = on_queue(manager, "BACKOUTS")
    assert moved.expire_at_ms == START_MS + 60_000
    assert (moved.put_date, moved.put_time) == ("20231114", "22132000")
    assert manager.curdepth("Q1") == 0
    got = received(transacted.create_consumer(transacted.create_queue("BACKOUTS")), jms.TextMessage)
    assert (got.text, got.get_property("p")) == ("poison", 1)
    assert (got.jms_message_id, got.jms_correlation_id) == (sent.jms_message_id, "c")
    assert got.jms_expiration == START_MS + 60_000


def test_it_is_moved_in_the_unit_of_work_that_received_it(
    transacted: jms.JMSContext, manager: QueueManager, q1: jms.Queue
) -> None:
    transacted.create_producer().send(q1, "poison")
    transacted.commit()
    consumer = transacted.create_consumer(q1)
    back_out(transacted, consumer, 2)
    assert consumer.receive_no_wait() is None
    transacted.rollback()
    assert (manager.curdepth("Q1"), manager.curdepth("BACKOUTS")) == (1, 0)
    assert consumer.receive_no_wait() is None
    transacted.commit()
    assert (manager.curdepth("Q1"), manager.curdepth("BACKOUTS")) == (0, 1)


def test_an_automatic_consumer_moves_it_at_once(
    context: jms.JMSContext, transacted: jms.JMSContext, manager: QueueManager, q1: jms.Queue
) -> None:
    context.create_producer().send(q1, "poison").send(q1, "good")
    back_out(transacted, transacted.create_consumer(q1), 2)
    assert text_of(context.create_consumer(q1)) == "good"
    assert (manager.curdepth("Q1"), manager.counts("BACKOUTS").live) == (0, 1)


def test_without_a_backout_queue_it_is_dead_lettered(
    context: jms.JMSContext, transacted: jms.JMSContext, manager: QueueManager, q1: jms.Queue
) -> None:
    alter(manager, "ALTER QLOCAL(BACKOUTS) PUT(DISABLED)")
    context.create_producer().set_time_to_live(60_000).send(q1, "poison")
    stored = on_queue(manager)
    back_out(transacted, transacted.create_consumer(q1), 2)
    assert context.create_consumer(q1).receive_no_wait() is None
    dead = on_queue(manager, "DEAD")
    header = DLH.unpack(dead.body)
    assert (dead.descriptor.format, header["Format"]) == ("MQDEAD", "MQHRF2")
    assert (header["Reason"], header["DestQName"]) == (rc.MQRC_BACKOUT_THRESHOLD_REACHED, "Q1")
    assert (header["Encoding"], header["CodedCharSetId"]) == (273, 1208)
    assert dead.body[172:] == stored.body
    assert (dead.msg_id, dead.expire_at_ms) == (stored.msg_id, START_MS + 60_000)


def test_one_that_may_be_discarded_is_not_dead_lettered(
    context: jms.JMSContext, transacted: jms.JMSContext, manager: QueueManager, q1: jms.Queue
) -> None:
    alter(manager, "ALTER QLOCAL(Q1) BOQNAME('')")
    producer = context.create_producer()
    producer.set_property("JMS_IBM_Report_Discard_Msg", c.MQRO_DISCARD_MSG).send(q1, "poison")
    back_out(transacted, transacted.create_consumer(q1), 2)
    assert context.create_consumer(q1).receive_no_wait() is None
    assert (manager.curdepth("Q1"), manager.curdepth("DEAD")) == (0, 0)


def test_one_that_nobody_takes_stays_and_is_an_error(
    context: jms.JMSContext, transacted: jms.JMSContext, manager: QueueManager, q1: jms.Queue
) -> None:
    alter(manager, "ALTER QLOCAL(Q1) BOQNAME(NONE)\nALTER QMGR DEADQ('')")
    context.create_producer().send(q1, "poison")
    consumer = transacted.create_consumer(q1)
    back_out(transacted, consumer, 2)
    with refused(jms.JMSRuntimeException, rc.MQRC_BACKOUT_THRESHOLD_REACHED):
        context.create_consumer(q1).receive_no_wait()
    assert manager.counts("Q1").live == 1
    with refused(jms.JMSRuntimeException, rc.MQRC_BACKOUT_THRESHOLD_REACHED):
        consumer.receive_no_wait()
    # It was received by nobody: a commit would lose it.
    with refused(jms.TransactionRolledBackRuntimeException, rc.MQRC_BACKOUT_THRESHOLD_REACHED):
        transacted.commit()
    assert manager.counts("Q1").live == 1
    transacted.commit()


def test_a_threshold_of_zero_is_none(
    context: jms.JMSContext, transacted: jms.JMSContext, q1: jms.Queue, manager: QueueManager
) -> None:
    alter(manager, "ALTER QLOCAL(Q1) BOTHRESH(0)")
    context.create_producer().send(q1, "x")
    consumer = transacted.create_consumer(q1)
    back_out(transacted, consumer, 5)
    assert count_of(received(consumer, jms.TextMessage)) == 6


def test_the_threshold_is_that_of_the_queue_behind_an_alias(
    context: jms.JMSContext, transacted: jms.JMSContext, manager: QueueManager
) -> None:
    a1 = context.create_queue("A1")
    context.create_producer().send(a1, "poison")
    back_out(transacted, transacted.create_consumer(a1), 2)
    assert context.create_consumer(a1).receive_no_wait() is None
    assert manager.curdepth("BACKOUTS") == 1
