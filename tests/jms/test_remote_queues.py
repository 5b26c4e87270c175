"""Queues of other queue managers, as JMS names them: sent to, never read."""

from __future__ import annotations

import pytest

from mayfly import QueueManager, jms
from mayfly.mqi import reasons as rc
from tests.spec.remote_scene import embedded, inner_expiry, network


@pytest.fixture
def context(queue_manager: QueueManager) -> jms.JMSContext:
    """A context of a queue manager with a way to QM2."""
    network(queue_manager)
    return jms.ConnectionFactory(queue_manager).create_context()


@pytest.mark.parametrize("name", ["queue://QM2/Q.REMOTE", "queue:///ORDERS", "ORDERS"])
def test_C2_E23_a_send_leads_to_the_transmission_queue(
    queue_manager: QueueManager, context: jms.JMSContext, name: str
) -> None:
    producer = context.create_producer().set_time_to_live(60_000)
    producer.send(context.create_queue(name), "text")
    with queue_manager.session() as session:
        message = session.get("QM2")
    inside = embedded(message)
    assert inside.remote == ("Q.REMOTE", "QM2")
    assert inside.body.endswith(b"text")
    assert inner_expiry(message) == 600


def test_C2_no_way_is_an_invalid_destination(context: jms.JMSContext) -> None:
    with pytest.raises(jms.InvalidDestinationRuntimeException) as refused:
        context.create_producer().send(context.create_queue("queue://QM9/Q1"), "text")
    assert refused.value.reason == rc.MQRC_UNKNOWN_REMOTE_Q_MGR


def test_C3_a_consumer_cannot_be_elsewhere(context: jms.JMSContext) -> None:
    with pytest.raises(jms.JMSRuntimeException) as refused:
        context.create_consumer(context.create_queue("queue://QM2/Q.REMOTE"))
    assert refused.value.reason == rc.MQRC_OPTION_NOT_VALID_FOR_TYPE
