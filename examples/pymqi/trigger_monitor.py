"""A trigger monitor: it waits for trigger messages and starts what they name."""

import pymqi
from pymqi import CMQC


def print_tags(tm):
    """The program that is started: it gets all there is, until nothing comes any more."""
    queue = pymqi.Queue(qmgr, tm.QName.strip(b"\0 "), CMQC.MQOO_INPUT_SHARED)
    try:
        while True:
            print("tag:", queue.get(None, pymqi.MD()).decode(), tm.UserData.decode().strip())
    except pymqi.MQMIError as error:
        if error.reason != CMQC.MQRC_NO_MSG_AVAILABLE:
            raise
    queue.close()


qmgr = pymqi.connect("AIRPORT")
starts = pymqi.Queue(qmgr, "START.QUEUE", CMQC.MQOO_INPUT_SHARED)
tags = pymqi.Queue(qmgr, "TAGS", CMQC.MQOO_OUTPUT)
for bag in ("LH400 pram", "OS87 skis"):
    tags.put(bag, pymqi.MD(Expiry=600))

programs = {"print_tags": print_tags}
gmo = pymqi.GMO(Options=CMQC.MQGMO_WAIT + CMQC.MQGMO_NO_SYNCPOINT, WaitInterval=200)
try:
    while True:
        md, started = pymqi.MD(), pymqi.TM()
        started.unpack(starts.get(None, md, gmo))
        name = started.ApplId.decode().strip()
        print(name, "for", started.QName.decode().strip(), md.Expiry)
        programs[name](started)
except pymqi.MQMIError as error:
    print(error.errorAsString())
starts.close()
qmgr.disconnect()
