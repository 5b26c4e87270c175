"""What a connection says about itself, and what it refuses clearly."""

from __future__ import annotations

import mayfly
from mayfly import jms
from mayfly.mqi import reasons as rc
from tests.jms.scene import received, refused


def test_metadata_of_connection_and_context(
    context: jms.JMSContext, connection: jms.Connection
) -> None:
    for data in (context.get_metadata(), connection.get_metadata()):
        assert isinstance(data, jms.ConnectionMetaData)
        assert data.jms_version == "2.0"
        assert (data.jms_major_version, data.jms_minor_version) == (2, 0)
        assert data.jms_provider_name == "Mayfly"
        assert data.provider_version == mayfly.__version__
        numbers = (data.provider_major_version, data.provider_minor_version)
        assert data.provider_version.startswith(f"{numbers[0]}.{numbers[1]}")


def test_the_jmsx_properties_named_are_those_of_a_received_message(
    context: jms.JMSContext, q1: jms.Queue
) -> None:
    producer = context.create_producer()
    producer.set_property("JMSXGroupID", "g").set_property("JMSXGroupSeq", 1).send(q1, "x")
    message = received(context.create_consumer(q1), jms.TextMessage)
    there = {name for name in message.property_names() if name.startswith("JMSX")}
    assert there == set(context.get_metadata().jmsx_property_names)


def test_connection_consumers_are_refused(connection: jms.Connection) -> None:
    session = connection.create_session()
    with refused(jms.JMSException, rc.MQRC_FUNCTION_NOT_SUPPORTED):
        connection.create_connection_consumer(session.create_queue("Q1"))
