"""The attributes of queues: one row an attribute; MQSC, MQINQ and MQSET follow from it."""

from __future__ import annotations

import re
from typing import ClassVar, Final

from mayfly.engine.attributes.attribute import (
    BYTES,
    LARGEST,
    LONGEST_MESSAGE_BYTES,
    PERCENT,
    QALIAS,
    QLOCAL,
    QMODEL,
    QREMOTE,
    QUEUE_KINDS,
    TENTHS,
    YES_NO,
    attribute,
)
from mayfly.engine.attributes.definition import Definition, table
from mayfly.lifetime.life import Cap
from mayfly.mqi import constants as c

#: A life runs from the put, delay or not; otherwise that of a delayed message from its release.
TTL_FROM_SEND: Final = 0
_ENABLED_PUT = (("ENABLED", c.MQQA_PUT_ALLOWED), ("DISABLED", c.MQQA_PUT_INHIBITED))
_ENABLED_GET = (("ENABLED", c.MQQA_GET_ALLOWED), ("DISABLED", c.MQQA_GET_INHIBITED))
#: MQEVR_*: whether an event message is made.
EVENT_DISABLED, EVENT_ENABLED = 0, 1
_ENABLED_EVENT = (("ENABLED", EVENT_ENABLED), ("DISABLED", EVENT_DISABLED))
_CUSTOM_CAP = re.compile(r"\bCAPEXPRY\((NOLIMIT|\d+)\)", re.IGNORECASE)
#: Local queues, and model queues, from which local queues are made.
_HOLDERS = (QLOCAL, QMODEL)
_GETTABLE = (QLOCAL, QALIAS, QMODEL)


@table
class QueueDefinition(Definition):
    """A queue of any type; ``objects`` of a row are the types that have the attribute."""

    kinds: ClassVar = QUEUE_KINDS

    descr: str = attribute("", c.MQCA_Q_DESC, length=64, objects=QUEUE_KINDS)
    target: str = attribute("", c.MQCA_BASE_OBJECT_NAME, length=48, objects=(QALIAS,))
    rname: str = attribute("", c.MQCA_REMOTE_Q_NAME, length=48, objects=(QREMOTE,))
    rqmname: str = attribute("", c.MQCA_REMOTE_Q_MGR_NAME, length=48, objects=(QREMOTE,))
    xmitq: str = attribute("", c.MQCA_XMIT_Q_NAME, length=48, objects=(QREMOTE,))
    put: int = attribute(
        c.MQQA_PUT_ALLOWED, c.MQIA_INHIBIT_PUT, words=_ENABLED_PUT, objects=QUEUE_KINDS
    )
    get: int = attribute(
        c.MQQA_GET_ALLOWED, c.MQIA_INHIBIT_GET, words=_ENABLED_GET, objects=_GETTABLE
    )
    defprty: int = attribute(0, c.MQIA_DEF_PRIORITY, low=0, high=9, objects=QUEUE_KINDS)
    defpsist: int = attribute(
        c.MQPER_NOT_PERSISTENT, c.MQIA_DEF_PERSISTENCE, words=YES_NO, objects=QUEUE_KINDS
    )
    maxdepth: int = attribute(5_000, c.MQIA_MAX_Q_DEPTH, low=0, high=LARGEST, objects=_HOLDERS)
    # When a queue is full, nearly full or nearly empty again, in percent of MAXDEPTH; expired
    # messages that are still there count. The event messages are not made yet.
    qdepthhi: int = attribute(
        80, c.MQIA_Q_DEPTH_HIGH_LIMIT, low=0, high=100, objects=_HOLDERS, unit=PERCENT
    )
    qdepthlo: int = attribute(
        20, c.MQIA_Q_DEPTH_LOW_LIMIT, low=0, high=100, objects=_HOLDERS, unit=PERCENT
    )
    qdpmaxev: int = attribute(
        EVENT_ENABLED, c.MQIA_Q_DEPTH_MAX_EVENT, words=_ENABLED_EVENT, objects=_HOLDERS
    )
    qdphiev: int = attribute(
        EVENT_DISABLED, c.MQIA_Q_DEPTH_HIGH_EVENT, words=_ENABLED_EVENT, objects=_HOLDERS
    )
    qdploev: int = attribute(
        EVENT_DISABLED, c.MQIA_Q_DEPTH_LOW_EVENT, words=_ENABLED_EVENT, objects=_HOLDERS
    )
    maxmsgl: int = attribute(
        4_194_304,
        c.MQIA_MAX_MSG_LENGTH,
        low=0,
        high=LONGEST_MESSAGE_BYTES,
        objects=_HOLDERS,
        unit=BYTES,
    )
    msgdlvsq: int = attribute(
        c.MQMDS_PRIORITY,
        c.MQIA_MSG_DELIVERY_SEQUENCE,
        words=(("PRIORITY", c.MQMDS_PRIORITY), ("FIFO", c.MQMDS_FIFO)),
        objects=_HOLDERS,
    )
    share: int = attribute(
        c.MQQA_SHAREABLE,
        c.MQIA_SHAREABILITY,
        words=(("SHARE", c.MQQA_SHAREABLE), ("NOSHARE", c.MQQA_NOT_SHAREABLE)),
        objects=_HOLDERS,
    )
    defsopt: int = attribute(
        c.MQOO_INPUT_SHARED,
        c.MQIA_DEF_INPUT_OPEN_OPTION,
        words=(("SHARED", c.MQOO_INPUT_SHARED), ("EXCL", c.MQOO_INPUT_EXCLUSIVE)),
        objects=_HOLDERS,
    )
    usage: int = attribute(
        c.MQUS_NORMAL,
        c.MQIA_USAGE,
        words=(("NORMAL", c.MQUS_NORMAL), ("XMITQ", c.MQUS_TRANSMISSION)),
        objects=_HOLDERS,
    )
    bothresh: int = attribute(0, c.MQIA_BACKOUT_THRESHOLD, low=0, high=LARGEST, objects=_HOLDERS)
    boqname: str = attribute("", c.MQCA_BACKOUT_REQ_Q_NAME, length=48, objects=_HOLDERS)
    hardenbo: int = attribute(
        c.MQQA_BACKOUT_HARDENED,
        c.MQIA_HARDEN_GET_BACKOUT,
        words=(
            ("HARDENBO", c.MQQA_BACKOUT_HARDENED),
            ("NOHARDENBO", c.MQQA_BACKOUT_NOT_HARDENED),
        ),
        objects=_HOLDERS,
    )
    capexpry: int = attribute(
        c.MQCEX_NOLIMIT,
        c.MQIA_CAP_EXPIRY,
        low=1,
        high=LARGEST,
        words=(("NOLIMIT", c.MQCEX_NOLIMIT),),
        objects=QUEUE_KINDS,
        unit=TENTHS,
    )
    # Where expired messages go, "" for nowhere; an attribute of Mayfly's own.
    expq: str = attribute("", None, length=48, objects=_HOLDERS)
    cluster: str = attribute("", c.MQCA_CLUSTER_NAME, length=48, objects=(QLOCAL, QALIAS, QREMOTE))
    defbind: int = attribute(
        c.MQBND_BIND_ON_OPEN,
        c.MQIA_DEF_BIND,
        words=(
            ("OPEN", c.MQBND_BIND_ON_OPEN),
            ("NOTFIXED", c.MQBND_BIND_NOT_FIXED),
            ("GROUP", c.MQBND_BIND_ON_GROUP),
        ),
        objects=QUEUE_KINDS,
    )
    indxtype: int = attribute(
        c.MQIT_NONE,
        c.MQIA_INDEX_TYPE,
        words=(
            ("NONE", c.MQIT_NONE),
            ("MSGID", c.MQIT_MSG_ID),
            ("CORRELID", c.MQIT_CORREL_ID),
            ("MSGTOKEN", c.MQIT_MSG_TOKEN),
            ("GROUPID", c.MQIT_GROUP_ID),
        ),
        objects=_HOLDERS,
    )
    # Which page set of z/OS holds the messages; here a name that is kept and shown.
    stgclass: str = attribute("DEFAULT", c.MQCA_STORAGE_CLASS, length=8, objects=_HOLDERS)
    qsgdisp: int = attribute(
        c.MQQSGD_Q_MGR,
        c.MQIA_QSG_DISP,
        words=(("QMGR", c.MQQSGD_Q_MGR), ("SHARED", c.MQQSGD_SHARED)),
        objects=(QLOCAL,),
    )
    # Mayfly's own: where the life of a delayed message begins.
    ttlfrom: int = attribute(
        TTL_FROM_SEND, words=(("SEND", TTL_FROM_SEND), ("RELEASE", 1)), objects=_HOLDERS
    )
    propctl: int = attribute(
        c.MQPROP_COMPATIBILITY,
        c.MQIA_PROPERTY_CONTROL,
        words=(
            ("COMPAT", c.MQPROP_COMPATIBILITY),
            ("NONE", c.MQPROP_NONE),
            ("ALL", c.MQPROP_ALL),
            ("FORCE", c.MQPROP_FORCE_MQRFH2),
            ("V6COMPAT", c.MQPROP_V6COMPAT),
        ),
        objects=_GETTABLE,
    )
    trigger: int = attribute(
        c.MQTC_OFF,
        c.MQIA_TRIGGER_CONTROL,
        words=(("TRIGGER", c.MQTC_ON), ("NOTRIGGER", c.MQTC_OFF)),
        objects=_HOLDERS,
    )
    trigtype: int = attribute(
        c.MQTT_FIRST,
        c.MQIA_TRIGGER_TYPE,
        words=(
            ("NONE", c.MQTT_NONE),
            ("FIRST", c.MQTT_FIRST),
            ("EVERY", c.MQTT_EVERY),
            ("DEPTH", c.MQTT_DEPTH),
        ),
        objects=_HOLDERS,
    )
    trigdpth: int = attribute(1, c.MQIA_TRIGGER_DEPTH, low=1, high=LARGEST, objects=_HOLDERS)
    trigmpri: int = attribute(0, c.MQIA_TRIGGER_MSG_PRIORITY, low=0, high=9, objects=_HOLDERS)
    trigdata: str = attribute("", c.MQCA_TRIGGER_DATA, length=64, objects=_HOLDERS)
    initq: str = attribute("", c.MQCA_INITIATION_Q_NAME, length=48, objects=_HOLDERS)
    process: str = attribute("", c.MQCA_PROCESS_NAME, length=48, objects=_HOLDERS)
    custom: str = attribute("", c.MQCA_CUSTOM, length=128, objects=QUEUE_KINDS)
    targtype: int = attribute(
        c.MQOT_Q,
        c.MQIA_BASE_TYPE,
        words=(("QUEUE", c.MQOT_Q), ("TOPIC", c.MQOT_TOPIC)),
        objects=(QALIAS,),
    )
    deftype: int = attribute(
        c.MQQDT_TEMPORARY_DYNAMIC,
        c.MQIA_DEFINITION_TYPE,
        words=(
            ("TEMPDYN", c.MQQDT_TEMPORARY_DYNAMIC),
            ("PERMDYN", c.MQQDT_PERMANENT_DYNAMIC),
        ),
        objects=(QMODEL,),
    )

    @property
    def cap_tenths(self) -> int:
        """CAPEXPRY in tenths, or MQCEX_NOLIMIT; CUSTOM('CAPEXPRY(n)') wins when both stand (X2)."""
        custom = _CUSTOM_CAP.search(self.custom)
        if custom is None:
            return self.capexpry
        return c.MQCEX_NOLIMIT if custom[1].upper() == "NOLIMIT" else int(custom[1])

    @property
    def cap_text(self) -> str:
        """The cap with its object, as errors name it."""
        return Cap(self.cap_tenths, self.kind, self.name).text
