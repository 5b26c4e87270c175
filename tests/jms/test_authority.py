"""Authority in JMS: MQRC_NOT_AUTHORIZED is the security exception of either API."""

from __future__ import annotations

import pytest

from mayfly import QueueManager, jms
from mayfly.mqi import reasons as rc

CONNECT = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('anna') AUTHADD(CONNECT)\n"
MODEL = (
    "SET AUTHREC PROFILE(SYSTEM.DEFAULT.MODEL.QUEUE) OBJTYPE(QUEUE) PRINCIPAL('anna')"
    " AUTHADD(DSP,INQ)\n"
)


def on_q1(words: str) -> str:
    return f"SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('anna') AUTHADD({words})\n"


@pytest.fixture
def factory(queue_manager: QueueManager) -> jms.ConnectionFactory:
    """A factory for a queue manager with one queue, on which nobody has authority."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)\n" + on_q1("NONE")).ok
    return jms.ConnectionFactory(queue_manager)


def test_C7_connect(queue_manager: QueueManager, factory: jms.ConnectionFactory) -> None:
    queue_manager.mqsc(CONNECT.replace("anna", "bob"))
    with pytest.raises(jms.JMSSecurityRuntimeException) as simplified:
        factory.create_context(user_name="anna", password="-")
    assert simplified.value.reason == rc.MQRC_NOT_AUTHORIZED
    with pytest.raises(jms.JMSSecurityException) as classic:
        factory.create_connection("anna", "-")
    assert classic.value.error_code == "MQRC_NOT_AUTHORIZED"


def test_C7_send_receive_and_browse(
    queue_manager: QueueManager, factory: jms.ConnectionFactory
) -> None:
    queue_manager.mqsc(CONNECT)
    with factory.create_context(user_name="anna") as context:
        queue = context.create_queue("Q1")
        with pytest.raises(jms.JMSSecurityRuntimeException):
            context.create_producer().send(queue, "x")
        with pytest.raises(jms.JMSSecurityRuntimeException):
            context.create_producer().set_delivery_delay(100).send(queue, "x")
        assert queue_manager.curdepth("Q1") == 0
        assert queue_manager.mqsc(on_q1("PUT")).ok
        context.create_producer().send(queue, "x")
        with pytest.raises(jms.JMSSecurityRuntimeException):
            context.create_consumer(queue)
        assert queue_manager.mqsc(on_q1("GET,INQ,BROWSE")).ok
        assert context.create_consumer(queue).receive_body(str) == "x"


def test_C7_a_poison_message_is_moved_by_the_authority_of_the_queue_manager(
    queue_manager: QueueManager, factory: jms.ConnectionFactory
) -> None:
    script = "DEFINE QLOCAL(BACK)\nALTER QLOCAL(Q1) BOTHRESH(1) BOQNAME(BACK)\n"
    assert queue_manager.mqsc(script + CONNECT + on_q1("PUT,GET,INQ")).ok
    with factory.create_context(jms.SESSION_TRANSACTED, user_name="anna") as context:
        queue = context.create_queue("Q1")
        context.create_producer().send(queue, "poison")
        context.commit()
        consumer = context.create_consumer(queue)
        assert consumer.receive_body(str) == "poison"
        context.rollback()
        assert consumer.receive_no_wait() is None
        context.commit()
    assert (queue_manager.curdepth("Q1"), queue_manager.curdepth("BACK")) == (0, 1)


def test_a_temporary_queue_is_its_makers(
    queue_manager: QueueManager, factory: jms.ConnectionFactory
) -> None:
    queue_manager.mqsc(CONNECT)
    with factory.create_context(user_name="anna") as context:
        with pytest.raises(jms.JMSSecurityRuntimeException):
            context.create_temporary_queue()
        assert queue_manager.mqsc(MODEL).ok
        replies = context.create_temporary_queue()
        context.create_producer().send(replies, "x")
        assert context.create_consumer(replies).receive_body(str) == "x"


def test_C7_a_temporary_topic_is_its_makers(
    queue_manager: QueueManager, factory: jms.ConnectionFactory
) -> None:
    """Its maker needs no record for it, anybody else does; and nobody has it when it is deleted."""
    assert queue_manager.mqsc(CONNECT + CONNECT.replace("anna", "bob") + MODEL).ok
    with (
        factory.create_context(user_name="anna") as anna,
        factory.create_context(user_name="bob") as bob,
    ):
        topic = anna.create_temporary_topic()
        consumer = anna.create_consumer(topic)
        anna.create_producer().send(topic, "x")
        assert consumer.receive_body(str) == "x"
        with pytest.raises(jms.JMSSecurityRuntimeException) as refused:
            bob.create_producer().send(bob.create_topic(topic.topic_name), "y")
        assert refused.value.reason == rc.MQRC_NOT_AUTHORIZED
        consumer.close()
        topic.delete()
        with pytest.raises(jms.JMSSecurityRuntimeException):
            anna.create_producer().send(anna.create_topic(topic.topic_name), "z")


def test_C7_a_durable_subscription_is_not_another_users_who_knows_client_id_and_name(
    queue_manager: QueueManager, factory: jms.ConnectionFactory
) -> None:
    """Asked for with another topic it would be made anew, and what it has would be gone."""
    for user, topic in (("anna", "sec"), ("bob", "own")):
        assert queue_manager.mqsc(
            f"DEFINE TOPIC({topic.upper()}) TOPICSTR('{topic}')\n"
            + CONNECT.replace("anna", user)
            + f"SET AUTHREC PROFILE({topic.upper()}) OBJTYPE(TOPIC) PRINCIPAL('{user}')"
            " AUTHADD(PUB,SUB,RESUME)\n"
        ).ok
    with factory.create_context(user_name="anna") as anna:
        anna.set_client_id("app")
        sec = anna.create_topic("sec")
        anna.create_durable_consumer(sec, "ORDERS").close()
        anna.create_shared_durable_consumer(sec, "SHARED").close()
        anna.create_producer().send(sec, "secret")
    with factory.create_context(user_name="bob") as bob:
        bob.set_client_id("app")
        for asked in (bob.create_topic("own"), bob.create_topic("sec")):
            with pytest.raises(jms.JMSSecurityRuntimeException):
                bob.create_durable_consumer(asked, "ORDERS")
            with pytest.raises(jms.JMSSecurityRuntimeException):
                bob.create_shared_durable_consumer(asked, "SHARED")
        for name in ("ORDERS", "SHARED"):
            with pytest.raises(jms.JMSSecurityRuntimeException):
                bob.unsubscribe(name)
    with factory.create_context(user_name="anna") as anna:
        anna.set_client_id("app")
        consumers = [
            anna.create_durable_consumer(sec, "ORDERS"),
            anna.create_shared_durable_consumer(sec, "SHARED"),
        ]
        assert [consumer.receive_body(str) for consumer in consumers] == ["secret", "secret"]
