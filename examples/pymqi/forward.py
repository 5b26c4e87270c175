"""Forwarding: a message that is passed on keeps its sender and the rest of its life."""

import pymqi
from pymqi import CMQC

qmgr = pymqi.connect("AIRPORT")
sent = pymqi.MD(Format=CMQC.MQFMT_STRING, Expiry=600, UserIdentifier=b"carla")
pmo = pymqi.PMO(Options=CMQC.MQPMO_SET_IDENTITY_CONTEXT)
out = pymqi.Queue(qmgr, "BOARDING", CMQC.MQOO_OUTPUT + CMQC.MQOO_SET_IDENTITY_CONTEXT)
out.put("LH400 boards at gate A1", sent, pmo)

source = pymqi.Queue(qmgr, "BOARDING", CMQC.MQOO_INPUT_SHARED + CMQC.MQOO_SAVE_ALL_CONTEXT)
target = pymqi.Queue(qmgr, "AUDIT", CMQC.MQOO_OUTPUT + CMQC.MQOO_PASS_ALL_CONTEXT)
gmo = pymqi.GMO(Options=CMQC.MQGMO_SYNCPOINT)
pmo = pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT + CMQC.MQPMO_PASS_ALL_CONTEXT)
pmo.Context = source.get_handle()
md = pymqi.MD()
text = source.get(None, md, gmo)
target.put(text, md, pmo)
qmgr.commit()

kept = pymqi.MD()
print(pymqi.Queue(qmgr, "AUDIT").get(None, kept).decode())
print(kept.UserIdentifier.decode().strip(), 0 < kept.Expiry <= sent.Expiry)
print("the same moment of the put:", kept.PutTime == sent.PutTime)
qmgr.disconnect()
