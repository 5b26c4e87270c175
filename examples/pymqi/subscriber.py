"""A durable subscriber: it collects while it is away, and each message goes on with its life."""

import pymqi
from pymqi import CMQC

qmgr = pymqi.connect("AIRPORT", "APP.SVRCONN", "localhost(1414)")
sd = pymqi.SD(Options=CMQC.MQSO_CREATE + CMQC.MQSO_RESUME + CMQC.MQSO_DURABLE + CMQC.MQSO_MANAGED)
sd.set_vs("SubName", "gate watcher")
sd.set_vs("ObjectString", "gates/#")


def subscribe():
    """Create the subscription, or resume it."""
    sub = pymqi.Subscription(qmgr)
    sub.sub(sub_desc=sd)
    return sub


subscribe().close(sub_close_options=CMQC.MQCO_KEEP_SUB, close_sub_queue=True)

topic = pymqi.Topic(qmgr, topic_string="gates/A1")
topic.open(open_opts=CMQC.MQOO_OUTPUT)
for flight, life in (("LH400", 600), ("OS87", CMQC.MQEI_UNLIMITED)):
    topic.pub(flight + " boards", pymqi.MD(Expiry=life, Format=CMQC.MQFMT_STRING))
topic.close()

sub = subscribe()
gmo = pymqi.GMO(Options=CMQC.MQGMO_NO_SYNCPOINT + CMQC.MQGMO_FAIL_IF_QUIESCING)
try:
    while True:
        md = pymqi.MD()
        text = sub.get(None, md, gmo).decode()
        print(text, "- for ever" if md.Expiry == CMQC.MQEI_UNLIMITED else "- for a minute")
except pymqi.MQMIError as error:
    print(error.errorAsString())
sub.close(sub_close_options=CMQC.MQCO_REMOVE_SUB, close_sub_queue=True)
qmgr.disconnect()
