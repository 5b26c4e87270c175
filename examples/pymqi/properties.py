"""Message properties: a selector gets the red bags, and each message shows its properties."""

import pymqi
from pymqi import CMQC

qmgr = pymqi.connect("AIRPORT")
belt = pymqi.Queue(qmgr, "ANNOUNCEMENTS", CMQC.MQOO_OUTPUT)
for colour, weight in (("red", 12), ("blue", 30), ("red", 23)):
    cmho = pymqi.CMHO()
    handle = pymqi.MessageHandle(qmgr, cmho)
    handle.properties.set("colour", colour)
    handle.properties.set("weight", weight, property_type=CMQC.MQTYPE_INT32, value_length=4)
    pmo = pymqi.PMO(Version=CMQC.MQPMO_VERSION_3)
    pmo.OriginalMsgHandle = handle.msg_handle
    belt.put(f"a {colour} bag", pymqi.MD(Expiry=600, Format=CMQC.MQFMT_STRING), pmo)

od = pymqi.OD(Version=CMQC.MQOD_VERSION_4, ObjectName=b"ANNOUNCEMENTS")
od.set_vs("SelectionString", b"colour = 'red' AND weight > 20")
heavy = pymqi.Queue(qmgr, od, CMQC.MQOO_INPUT_SHARED)
handle = pymqi.MessageHandle(qmgr)
gmo = pymqi.GMO(Version=CMQC.MQGMO_VERSION_4, Options=CMQC.MQGMO_PROPERTIES_IN_HANDLE)
gmo.MsgHandle = handle.msg_handle
print(heavy.get(None, pymqi.MD(), gmo).decode(), handle.properties.get("weight"), "kg")
try:
    heavy.get(None, pymqi.MD(), gmo)
except pymqi.MQMIError as error:
    print(error.errorAsString())
heavy.close()
print(pymqi.Queue(qmgr, "ANNOUNCEMENTS").inquire(CMQC.MQIA_CURRENT_Q_DEPTH), "left")
qmgr.disconnect()
