"""Co-operating readers: each browses what the other has not marked, and takes it in the end."""

import pymqi
from pymqi import CMQC

qmgr = pymqi.connect("AIRPORT")
belt = pymqi.Queue(qmgr, "BAGGAGE.LATER")
for bag in ("suitcase", "skis", "pram"):
    belt.put(bag, pymqi.MD(Format=CMQC.MQFMT_STRING, Expiry=600))

options = CMQC.MQOO_BROWSE + CMQC.MQOO_INPUT_SHARED + CMQC.MQOO_CO_OP
readers = [pymqi.Queue(qmgr, "BAGGAGE.LATER", options) for _ in range(2)]
held = []
for number in (0, 1, 0):
    gmo = pymqi.GMO(Version=CMQC.MQGMO_VERSION_3, Options=CMQC.MQGMO_BROWSE_CO_OP)
    bag = readers[number].get(None, pymqi.MD(), gmo).decode()
    print("reader", number, "sees", bag)
    held.append((number, gmo.MsgToken))

for number, token in held:
    gmo = pymqi.GMO(Version=CMQC.MQGMO_VERSION_3, MatchOptions=CMQC.MQMO_MATCH_MSG_TOKEN)
    gmo.MsgToken = token
    print("reader", number, "takes", readers[number].get(None, pymqi.MD(), gmo).decode())
belt.close()
print(pymqi.Queue(qmgr, "BAGGAGE.LATER").inquire(CMQC.MQIA_CURRENT_Q_DEPTH), "left")
qmgr.disconnect()
