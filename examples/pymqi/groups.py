"""A group: the bags of one passenger are put in order, and nobody gets one before all are there."""

import pymqi
from pymqi import CMQC

qmgr = pymqi.connect("AIRPORT")
belt = pymqi.Queue(qmgr, "BAGGAGE.LATER", CMQC.MQOO_OUTPUT)
pmo = pymqi.PMO(Options=CMQC.MQPMO_LOGICAL_ORDER + CMQC.MQPMO_SYNCPOINT)
bags = ("suitcase", "skis", "pram")
reader = pymqi.Queue(qmgr, "BAGGAGE.LATER", CMQC.MQOO_INPUT_SHARED)
gmo = pymqi.GMO(Version=CMQC.MQGMO_VERSION_2, MatchOptions=CMQC.MQMO_NONE)
gmo.Options = CMQC.MQGMO_LOGICAL_ORDER + CMQC.MQGMO_ALL_MSGS_AVAILABLE + CMQC.MQGMO_SYNCPOINT


def next_bag():
    """Return the next bag of a whole group, or why there is none."""
    md = pymqi.MD(Version=CMQC.MQMD_VERSION_2)
    try:
        bag = reader.get(None, md, gmo).decode()
        return md.MsgSeqNumber, bag
    except pymqi.MQMIError as error:
        return error.errorAsString()


for number, bag in enumerate(bags, 1):
    md = pymqi.MD(Version=CMQC.MQMD_VERSION_2, Format=CMQC.MQFMT_STRING, Expiry=600)
    is_last = number == len(bags)
    md.MsgFlags = CMQC.MQMF_LAST_MSG_IN_GROUP if is_last else CMQC.MQMF_MSG_IN_GROUP
    belt.put(bag, md, pmo)
    qmgr.commit()
    print("after", number, "of 3:", next_bag())
print([next_bag() for _ in bags[1:]])
qmgr.commit()
qmgr.disconnect()
