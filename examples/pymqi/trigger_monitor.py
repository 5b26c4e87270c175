"""A trigger monitor: it waits for trigger messages and starts what they name."""

import pymqi
from pymqi import CMQC


def print_tags(tmc):
    """The program that is started: it gets all there is, until nothing comes any more."""
    queue = pymqi.Queue(qmgr, tmc.QName.strip(b"\0 "), CMQC.MQOO_INPUT_SHARED)
    try:
        while True:
            print("tag:", queue.get(None, pymqi.MD()).decode(), tmc.UserData.decode().strip())
    except pymqi.MQMIError as error:
        if error.reason != CMQC.MQRC_NO_MSG_AVAILABLE:
            raise
    queue.close()


qmgr = pymqi.connect("AIRPORT")
starts = pymqi.Queue(qmgr, "START.QUEUE", CMQC.MQOO_INPUT_SHARED)
tags = pymqi.Queue(qmgr, "TAGS", CMQC.MQOO_OUTPUT)
for bag in ("LH400 pram", "OS87 skis"):
    tags.put(bag, pymqi.MD(Expiry=600))

gmo = pymqi.GMO(Options=CMQC.MQGMO_WAIT + CMQC.MQGMO_NO_SYNCPOINT, WaitInterval=1_000)
md = pymqi.MD()
tm = pymqi.TM()
tm.unpack(starts.get(None, md, gmo))
print(tm.ApplId.decode().strip(), "for", tm.QName.decode().strip(), md.Expiry)
{"print_tags": print_tags}[tm.ApplId.decode().strip()](tm)
starts.close()
qmgr.disconnect()
