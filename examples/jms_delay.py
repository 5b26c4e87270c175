"""JMS delivery delay: a message that nobody receives before its time, and the pairs refused."""

import mayfly
from mayfly import jms
from mayfly.testing import VirtualClock

clock = VirtualClock()
with mayfly.QueueManager("QM1", clock=clock) as manager:
    manager.mqsc("DEFINE QLOCAL(ORDERS)")
    with jms.ConnectionFactory(manager).create_context() as context:
        orders = context.create_queue("ORDERS")
        producer = context.create_producer().set_delivery_delay(5_000).set_time_to_live(20_000)
        producer.set_property("customer", "anna").send(orders, "two tickets")
        consumer = context.create_consumer(orders)

        clock.advance(4_999)
        print(f"a millisecond before: {consumer.receive_no_wait()}")
        clock.advance(1)
        message = consumer.receive()
        assert isinstance(message, jms.TextMessage)
        print(f"on time: {message.text!r} for {message.get_property('customer')}")
        waited_ms = message.jms_delivery_time - message.jms_timestamp
        print(f"held back {waited_ms} ms of {message.jms_expiration - message.jms_timestamp} ms")

        try:
            producer.set_time_to_live(1_000)
        except jms.JMSRuntimeException as error:
            print(f"refused: {error}")
