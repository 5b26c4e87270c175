"""From queue manager to queue manager: a remote queue, a channel, and one lifetime all the way."""

import pymqi
from pymqi import CMQC

hub = pymqi.connect("HUB", "APP.SVRCONN", "localhost(1415)")
spoke = pymqi.connect("SPOKE", "APP.SVRCONN", "localhost(1414)")

md = pymqi.MD(Format=CMQC.MQFMT_STRING, Expiry=600, Persistence=CMQC.MQPER_PERSISTENT)
pmo = pymqi.PMO()
transfers = pymqi.Queue(spoke, "TRANSFERS", CMQC.MQOO_OUTPUT)
transfers.put("OS87 skis, from A1 to B7", md, pmo)
print("put to", pmo.ResolvedQName.decode().strip(), "of", pmo.ResolvedQMgrName.decode().strip())

gmo = pymqi.GMO(Options=CMQC.MQGMO_WAIT + CMQC.MQGMO_NO_SYNCPOINT, WaitInterval=60_000)
arrived = pymqi.MD()
text = pymqi.Queue(hub, "TRANSFERS.IN").get(None, arrived, gmo)
print(text.decode())
print("the same message:", arrived.MsgId == md.MsgId, "- what is left:", arrived.Expiry <= 600)

# By its name alone, without a definition of it here; the transmission queue is named like HUB.
direct = pymqi.OD(ObjectName=b"TRANSFERS.IN", ObjectQMgrName=b"HUB")
spoke.put1(direct, "LH400 pram", pymqi.MD(Format=CMQC.MQFMT_STRING, Expiry=600))
print(pymqi.Queue(hub, "TRANSFERS.IN").get(None, pymqi.MD(), gmo).decode())
spoke.disconnect()
hub.disconnect()
