"""The attributes of the queue manager itself."""

from __future__ import annotations

from typing import Final

from mayfly.engine.attributes.attribute import LARGEST, LONGEST_MESSAGE_BYTES, QMGR, Attribute
from mayfly.mqi import constants as c
from mayfly.mqi import selectors as s

#: Who releases delayed messages: the queue manager itself, or a pipeline on Spark.
DDELAY_EMBEDDED: Final = 0
DDELAY_SPARK: Final = 1
#: PSMODE, MQPSM_*: whether publications may come from, and go to, other queue managers.
PUBSUB_HERE, PUBSUB_EVERYWHERE = 1, 2
#: When authority is asked for: never, at connect, open and send, or at the release as well.
AUTHCHK_NONE, AUTHCHK_SEND, AUTHCHK_RELEASE = 0, 1, 2

MANAGER_ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute("DESCR", (QMGR,), "", s.MQCA_Q_MGR_DESC, length=64),
    Attribute("DEADQ", (QMGR,), "", s.MQCA_DEAD_LETTER_Q_NAME, length=48),
    Attribute("PARENT", (QMGR,), "", s.MQCA_PARENT, length=48),
    Attribute(
        "PSMODE",
        (QMGR,),
        PUBSUB_HERE,
        s.MQIA_PUBSUB_MODE,
        words=(("COMPAT", PUBSUB_HERE), ("ENABLED", PUBSUB_EVERYWHERE)),
    ),
    Attribute("DEFXMITQ", (QMGR,), "", s.MQCA_DEF_XMIT_Q_NAME, length=48),
    Attribute("MAXMSGL", (QMGR,), 4_194_304, s.MQIA_MAX_MSG_LENGTH, 32_768, LONGEST_MESSAGE_BYTES),
    Attribute(
        "MAXPROPL",
        (QMGR,),
        s.MQPROP_UNRESTRICTED_LENGTH,
        s.MQIA_MAX_PROPERTIES_LENGTH,
        0,
        LONGEST_MESSAGE_BYTES,
        (("NOLIMIT", s.MQPROP_UNRESTRICTED_LENGTH),),
    ),
    Attribute("MAXHANDS", (QMGR,), 256, s.MQIA_MAX_HANDLES, 1, LARGEST),
    Attribute("MAXUMSGS", (QMGR,), 10_000, s.MQIA_MAX_UNCOMMITTED_MSGS, 1, LARGEST),
    Attribute("TRIGINT", (QMGR,), LARGEST, s.MQIA_TRIGGER_INTERVAL, 0, LARGEST),
    Attribute(
        "MARKINT",
        (QMGR,),
        5_000,
        s.MQIA_MSG_MARK_BROWSE_INTERVAL,
        0,
        LARGEST,
        (("NOLIMIT", s.MQMMBI_UNLIMITED),),
    ),
    Attribute(
        "EXPRYINT",
        (QMGR,),
        c.MQEXPI_OFF,
        s.MQIA_EXPIRY_INTERVAL,
        1,
        99_999_999,
        (("OFF", c.MQEXPI_OFF),),
    ),
    # Mayfly's own: who releases delayed messages (docs/SCHEDULE.md).
    Attribute(
        "DDELAY",
        (QMGR,),
        DDELAY_EMBEDDED,
        words=(("EMBEDDED", DDELAY_EMBEDDED), ("SPARK", DDELAY_SPARK)),
    ),
    # Mayfly's own: when authority is asked for (docs/AUTHORITY.md).
    Attribute(
        "AUTHCHK",
        (QMGR,),
        AUTHCHK_NONE,
        words=(("NONE", AUTHCHK_NONE), ("SEND", AUTHCHK_SEND), ("RELEASE", AUTHCHK_RELEASE)),
    ),
)
