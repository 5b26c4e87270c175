"""Browse, lock, decide: an urgent bag is taken off the queue, the others stay in their places."""

import pymqi
from pymqi import CMQC

qmgr = pymqi.connect("AIRPORT")
belt = pymqi.Queue(qmgr, "BAGGAGE")
for bag in ("LH400 suitcase", "OS87 skis", "LH400 pram"):
    belt.put(bag, pymqi.MD(Format=CMQC.MQFMT_STRING, Expiry=600))

reader = pymqi.Queue(qmgr, "BAGGAGE", CMQC.MQOO_BROWSE + CMQC.MQOO_INPUT_SHARED)
gmo = pymqi.GMO(Options=CMQC.MQGMO_BROWSE_FIRST + CMQC.MQGMO_LOCK)
take = pymqi.GMO(Options=CMQC.MQGMO_MSG_UNDER_CURSOR + CMQC.MQGMO_NO_SYNCPOINT)
try:
    while True:
        seen = reader.get(None, pymqi.MD(), gmo).decode()
        if seen.endswith("skis"):
            print("taken:", reader.get(None, pymqi.MD(), take).decode())
        else:
            print("left: ", seen)
        gmo.Options = CMQC.MQGMO_BROWSE_NEXT + CMQC.MQGMO_LOCK
except pymqi.MQMIError as error:
    if error.reason != CMQC.MQRC_NO_MSG_AVAILABLE:
        raise
reader.close()
print(pymqi.Queue(qmgr, "BAGGAGE").inquire(CMQC.MQIA_CURRENT_Q_DEPTH), "on the belt")
qmgr.disconnect()
