"""Dead letters: read why they are there, and put them where they can go, in one unit of work."""

import pymqi
from pymqi import CMQC

qmgr = pymqi.connect("AIRPORT")

# A message nobody could deliver, as a program leaves it: reason and destination before its data.
dlh = pymqi.DLH(Reason=CMQC.MQRC_Q_FULL, DestQName=b"BAGGAGE", Format=CMQC.MQFMT_STRING)
dlh.Encoding, dlh.CodedCharSetId = CMQC.MQENC_NATIVE, 1208
md = pymqi.MD(Format=CMQC.MQFMT_DEAD_LETTER_HEADER, Expiry=600)
pymqi.Queue(qmgr, "SYSTEM.DEAD.LETTER.QUEUE").put(dlh.pack() + b"OS87 skis", md)

letters = pymqi.Queue(qmgr, "SYSTEM.DEAD.LETTER.QUEUE", CMQC.MQOO_INPUT_SHARED)
gmo = pymqi.GMO(Options=CMQC.MQGMO_SYNCPOINT)
while True:
    md = pymqi.MD()
    try:
        letter = letters.get(None, md, gmo)
    except pymqi.MQMIError as error:
        if error.reason == CMQC.MQRC_NO_MSG_AVAILABLE:
            break
        raise
    dlh = pymqi.DLH()
    size = len(dlh.pack())
    dlh.unpack(letter[:size])
    md.Format, md.Encoding, md.CodedCharSetId = dlh.Format, dlh.Encoding, dlh.CodedCharSetId
    target = dlh.DestQName.decode().strip("\0 ") + ".LATER"
    qmgr.put1(target, letter[size:], md, pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    print(target, letter[size:].decode(), dlh.Reason == CMQC.MQRC_Q_FULL, md.Expiry > 0)
qmgr.commit()
qmgr.disconnect()
