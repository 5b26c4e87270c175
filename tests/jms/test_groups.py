"""JMSXGroupID, JMSXGroupSeq and JMS_IBM_Last_Msg_In_Group are the fields of a group."""

from __future__ import annotations

import pytest

from mayfly import QueueManager, jms
from mayfly.engine import GetRequest, Handle
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc

WHOLE = c.MQGMO_LOGICAL_ORDER | c.MQGMO_ALL_MSGS_AVAILABLE
GROUP = "ID:" + (b"G" * 24).hex()


def send(context: jms.JMSContext, text: str, number: int, *, is_last: bool) -> None:
    producer = context.create_producer()
    producer.set_property("JMSXGroupID", GROUP).set_property("JMSXGroupSeq", number)
    producer.set_property("JMS_IBM_Last_Msg_In_Group", is_last)
    producer.send(context.create_queue("Q1"), text)


@pytest.fixture
def context(queue_manager: QueueManager) -> jms.JMSContext:
    """A context of a queue manager that has Q1."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    return jms.ConnectionFactory(queue_manager).create_context()


def test_members_sent_out_of_order_are_got_as_a_group(
    queue_manager: QueueManager, context: jms.JMSContext
) -> None:
    with queue_manager.session() as session:
        handle: Handle = session.open("Q1", c.MQOO_INPUT_SHARED)
        send(context, "two", 2, is_last=True)
        with pytest.raises(Exception, match="MQRC_NO_MSG_AVAILABLE"):
            handle.get(GetRequest(), WHOLE)
        send(context, "one", 1, is_last=False)
        got = [handle.get(GetRequest(), WHOLE).message for _ in "12"]
    assert [m.data for m in got] == [b"one", b"two"]
    assert [m.descriptor.msg_seq_number for m in got] == [1, 2]
    assert {m.descriptor.group_id for m in got} == {b"G" * 24}
    in_group = c.MQMF_MSG_IN_GROUP
    assert [m.descriptor.msg_flags for m in got] == [in_group, in_group | c.MQMF_LAST_MSG_IN_GROUP]
    context.close()


@pytest.mark.parametrize(
    ("name", "value"), [("JMSXGroupID", "G"), ("JMS_IBM_Last_Msg_In_Group", True)]
)
def test_2417_a_member_of_a_group_is_not_published(
    context: jms.JMSContext, name: str, value: object
) -> None:
    producer = context.create_producer().set_property(name, value)
    with pytest.raises(jms.JMSRuntimeException) as caught:
        producer.send(context.create_topic("news"), "x")
    assert caught.value.reason == rc.MQRC_MSG_NOT_ALLOWED_IN_GROUP
    context.close()


def test_a_receiver_sees_the_properties(context: jms.JMSContext) -> None:
    send(context, "two", 2, is_last=True)
    message = context.create_consumer(context.create_queue("Q1")).receive_no_wait()
    assert message is not None
    assert message.get_property("JMSXGroupID") == GROUP
    assert message.get_property("JMSXGroupSeq") == 2
    assert message.get_property("JMS_IBM_Last_Msg_In_Group") is True
    context.close()


def test_a_member_without_a_group_id_is_given_one(context: jms.JMSContext) -> None:
    producer = context.create_producer().set_property("JMS_IBM_Last_Msg_In_Group", True)
    queue = context.create_queue("Q1")
    producer.send(queue, "a").send(queue, "b")
    consumer = context.create_consumer(queue)
    messages = [m for m in (consumer.receive_no_wait() for _ in "ab") if m is not None]
    given = [message.get_property("JMSXGroupID") for message in messages]
    assert len(set(given)) == 2
    assert all(str(group_id).startswith("ID:414d5120") for group_id in given)
    context.close()


def test_D9_a_member_is_not_delayed(queue_manager: QueueManager, context: jms.JMSContext) -> None:
    producer = context.create_producer().set_property("JMSXGroupID", GROUP)
    producer.set_delivery_delay(1_000)
    with pytest.raises(jms.JMSRuntimeException) as caught:
        producer.send(context.create_queue("Q1"), "x")
    assert caught.value.reason == rc.MQRC_OPTIONS_ERROR
    assert queue_manager.counts("Q1").staged == 0
    context.close()
