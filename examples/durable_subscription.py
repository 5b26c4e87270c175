"""A durable subscription in pymqi: it collects while its program is not running, and has a life."""

import mayfly
from mayfly import pymqi
from mayfly.pymqi import CMQC
from mayfly.testing import VirtualClock

clock = VirtualClock()


def watch(connection: pymqi.QueueManager) -> None:
    """Create the subscription, or resume it, and say what has come."""
    sd = pymqi.SD(Options=CMQC.MQSO_CREATE | CMQC.MQSO_RESUME | CMQC.MQSO_DURABLE)
    sd.Options |= CMQC.MQSO_MANAGED
    sd.SubExpiry = 600  # tenths: a minute
    sd.set_vs("SubName", "gate watcher")
    sd.set_vs("ObjectString", "gates/#")
    with pymqi.Subscription(connection, sd) as subscription:
        try:
            while True:
                md = pymqi.MD()
                print(subscription.get(None, md).decode(), f"with {md.Expiry} tenths to live")
        except pymqi.MQMIError as error:
            print(error.errorAsString())


with mayfly.QueueManager("QM1", clock=clock):
    connection = pymqi.connect("QM1")
    topic = pymqi.Topic(connection, topic_string="gates/A1")
    watch(connection)
    topic.pub("LH400", pymqi.MD(Expiry=300))
    topic.pub("LH401", pymqi.MD(Expiry=50))
    clock.advance(5_000)
    watch(connection)
    clock.advance(55_000)
    watched = pymqi.PMO(Options=CMQC.MQPMO_WARN_IF_NO_SUBS_MATCHED)
    try:
        topic.pub("LH402", pymqi.MD(), watched)
    except pymqi.MQMIError as error:
        print("after a minute:", error.errorAsString())
