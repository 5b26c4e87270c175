"""A screen that stays on: it shows announcements, and goes on when its server has started again."""

import sys

import pymqi
from pymqi import CMQC

wait_seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
qmgr = pymqi.QueueManager(None)
# A client looks for the server for half an hour, and then has its queue open again.
qmgr.connect_with_options("AIRPORT", opts=CMQC.MQCNO_RECONNECT)
qmgr.put1("ANNOUNCEMENTS", "LH400 boards", pymqi.MD(Expiry=600, Format=CMQC.MQFMT_STRING))

screen = pymqi.Queue(qmgr, "ANNOUNCEMENTS", CMQC.MQOO_INPUT_SHARED)
gmo = pymqi.GMO(Options=CMQC.MQGMO_WAIT + CMQC.MQGMO_SYNCPOINT, WaitInterval=1000 * wait_seconds)
text = ""
while text != "closed":
    try:
        text = screen.get(None, pymqi.MD(), gmo).decode()
        qmgr.commit()
        print(text, flush=True)
    except pymqi.MQMIError as error:
        print(error.errorAsString(), flush=True)
        if error.reason not in (CMQC.MQRC_BACKED_OUT, CMQC.MQRC_CALL_INTERRUPTED):
            break
        # The server has gone between get and commit: the message comes once more, or is done.
        qmgr.backout()
screen.close()
qmgr.disconnect()
