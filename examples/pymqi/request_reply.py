"""Request and reply: the reply inherits what is left of the request, and nobody waits for ever."""

import pymqi
from pymqi import CMQC

qmgr = pymqi.connect("AIRPORT", "APP.SVRCONN", "localhost(1414)")

# The requester: half a minute for the whole conversation, and a reply queue of its own.
od = pymqi.OD(ObjectName=b"REPLY.MODEL", DynamicQName=b"GATE.REPLY.*")
replies = pymqi.Queue(qmgr, od, CMQC.MQOO_INPUT_EXCLUSIVE)
request = pymqi.MD(MsgType=CMQC.MQMT_REQUEST, Format=CMQC.MQFMT_STRING, Expiry=300)
request.ReplyToQ = od.ObjectName
requests = pymqi.Queue(qmgr, "GATE.REQUESTS")
requests.put("LH400: which gate?", request)

# The responder: it copies Expiry, CorrelId and priority, as the request is all it knows.
asked = pymqi.MD()
question = pymqi.Queue(qmgr, "GATE.REQUESTS").get(None, asked)
answer = pymqi.MD(MsgType=CMQC.MQMT_REPLY, CorrelId=asked.MsgId, Expiry=asked.Expiry)
answer_od = pymqi.OD(ObjectName=asked.ReplyToQ, ObjectQMgrName=asked.ReplyToQMgr)
qmgr.put1(answer_od, question.decode().split(":")[0] + ": gate A1", answer)

# The requester again: its reply and no other.
gmo = pymqi.GMO(Version=CMQC.MQGMO_VERSION_2, MatchOptions=CMQC.MQMO_MATCH_CORREL_ID)
gmo.Options = CMQC.MQGMO_WAIT + CMQC.MQGMO_FAIL_IF_QUIESCING
gmo.WaitInterval = 30_000
md = pymqi.MD(CorrelId=request.MsgId)
print(replies.get(None, md, gmo).decode(), "- in time:", 0 < md.Expiry <= asked.Expiry)
replies.close()
qmgr.disconnect()
