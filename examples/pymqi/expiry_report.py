"""A message that nobody gets in time: its sender, who has asked for it, gets a report."""

import pymqi
from pymqi import CMQC


def try_to_get(name, gmo):
    """Return the next message and its descriptor, or say why there is none."""
    md = pymqi.MD()
    try:
        return pymqi.Queue(qmgr, name).get(None, md, gmo).decode(), md
    except pymqi.MQMIError as error:
        return error.errorAsString(), md


qmgr = pymqi.connect("AIRPORT")
md = pymqi.MD(Format=CMQC.MQFMT_STRING, Expiry=1, ReplyToQ=b"GATE.REPORTS")
md.Report = CMQC.MQRO_EXPIRATION_WITH_FULL_DATA
pymqi.Queue(qmgr, "BOARDING").put("LH400 boards at gate A1", md)

# It lives for a tenth of a second. No report comes as long as nobody looks for the message.
wait = pymqi.GMO(Options=CMQC.MQGMO_WAIT + CMQC.MQGMO_NO_SYNCPOINT, WaitInterval=200)
print("report:", try_to_get("GATE.REPORTS", wait)[0])
print("message:", try_to_get("BOARDING", pymqi.GMO())[0])

text, report = try_to_get("GATE.REPORTS", pymqi.GMO())
print("report:", text)
print(report.Feedback == CMQC.MQFB_EXPIRATION, report.CorrelId == md.MsgId)
qmgr.disconnect()
