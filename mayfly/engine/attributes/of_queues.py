"""The attributes of queues: one row an attribute; MQSC, MQINQ and MQSET follow from it."""

from __future__ import annotations

from typing import Final

from mayfly.engine.attributes.attribute import (
    LARGEST,
    LONGEST_MESSAGE_BYTES,
    QALIAS,
    QLOCAL,
    QMODEL,
    QREMOTE,
    QUEUE_KINDS,
    YES_NO,
    Attribute,
)
from mayfly.mqi import constants as c
from mayfly.mqi import selectors as s

#: A life runs from the put, delay or not; otherwise that of a delayed message from its release.
TTL_FROM_SEND: Final = 0
_ENABLED_PUT = (("ENABLED", c.MQQA_PUT_ALLOWED), ("DISABLED", c.MQQA_PUT_INHIBITED))
_ENABLED_GET = (("ENABLED", c.MQQA_GET_ALLOWED), ("DISABLED", c.MQQA_GET_INHIBITED))
#: MQEVR_*: whether an event message is made.
EVENT_DISABLED, EVENT_ENABLED = 0, 1
_ENABLED_EVENT = (("ENABLED", EVENT_ENABLED), ("DISABLED", EVENT_DISABLED))
#: What holds messages, or becomes what does.
_HOLDERS = (QLOCAL, QMODEL)
_GETTABLE = (QLOCAL, QALIAS, QMODEL)

QUEUE_ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute("DESCR", QUEUE_KINDS, "", s.MQCA_Q_DESC, length=64),
    Attribute("TARGET", (QALIAS,), "", s.MQCA_BASE_OBJECT_NAME, length=48),
    Attribute("RNAME", (QREMOTE,), "", s.MQCA_REMOTE_Q_NAME, length=48),
    Attribute("RQMNAME", (QREMOTE,), "", s.MQCA_REMOTE_Q_MGR_NAME, length=48),
    Attribute("XMITQ", (QREMOTE,), "", s.MQCA_XMIT_Q_NAME, length=48),
    Attribute("PUT", QUEUE_KINDS, c.MQQA_PUT_ALLOWED, s.MQIA_INHIBIT_PUT, words=_ENABLED_PUT),
    Attribute("GET", _GETTABLE, c.MQQA_GET_ALLOWED, s.MQIA_INHIBIT_GET, words=_ENABLED_GET),
    Attribute("DEFPRTY", QUEUE_KINDS, 0, s.MQIA_DEF_PRIORITY, 0, 9),
    Attribute(
        "DEFPSIST", QUEUE_KINDS, c.MQPER_NOT_PERSISTENT, s.MQIA_DEF_PERSISTENCE, words=YES_NO
    ),
    Attribute("MAXDEPTH", _HOLDERS, 5_000, s.MQIA_MAX_Q_DEPTH, 0, LARGEST),
    # When a queue is full, nearly full or nearly empty again, in percent of MAXDEPTH; expired
    # messages that are still there count. The event messages are not made yet.
    Attribute("QDEPTHHI", _HOLDERS, 80, s.MQIA_Q_DEPTH_HIGH_LIMIT, 0, 100),
    Attribute("QDEPTHLO", _HOLDERS, 20, s.MQIA_Q_DEPTH_LOW_LIMIT, 0, 100),
    Attribute("QDPMAXEV", _HOLDERS, EVENT_ENABLED, s.MQIA_Q_DEPTH_MAX_EVENT, words=_ENABLED_EVENT),
    Attribute("QDPHIEV", _HOLDERS, EVENT_DISABLED, s.MQIA_Q_DEPTH_HIGH_EVENT, words=_ENABLED_EVENT),
    Attribute("QDPLOEV", _HOLDERS, EVENT_DISABLED, s.MQIA_Q_DEPTH_LOW_EVENT, words=_ENABLED_EVENT),
    Attribute("MAXMSGL", _HOLDERS, 4_194_304, s.MQIA_MAX_MSG_LENGTH, 0, LONGEST_MESSAGE_BYTES),
    Attribute(
        "MSGDLVSQ",
        _HOLDERS,
        c.MQMDS_PRIORITY,
        s.MQIA_MSG_DELIVERY_SEQUENCE,
        words=(("PRIORITY", c.MQMDS_PRIORITY), ("FIFO", c.MQMDS_FIFO)),
    ),
    Attribute(
        "SHARE",
        _HOLDERS,
        c.MQQA_SHAREABLE,
        s.MQIA_SHAREABILITY,
        words=(("SHARE", c.MQQA_SHAREABLE), ("NOSHARE", c.MQQA_NOT_SHAREABLE)),
    ),
    Attribute(
        "DEFSOPT",
        _HOLDERS,
        c.MQOO_INPUT_SHARED,
        s.MQIA_DEF_INPUT_OPEN_OPTION,
        words=(("SHARED", c.MQOO_INPUT_SHARED), ("EXCL", c.MQOO_INPUT_EXCLUSIVE)),
    ),
    Attribute(
        "USAGE",
        _HOLDERS,
        s.MQUS_NORMAL,
        s.MQIA_USAGE,
        words=(("NORMAL", s.MQUS_NORMAL), ("XMITQ", s.MQUS_TRANSMISSION)),
    ),
    Attribute("BOTHRESH", _HOLDERS, 0, s.MQIA_BACKOUT_THRESHOLD, 0, LARGEST),
    Attribute("BOQNAME", _HOLDERS, "", s.MQCA_BACKOUT_REQ_Q_NAME, length=48),
    Attribute(
        "HARDENBO",
        _HOLDERS,
        c.MQQA_BACKOUT_HARDENED,
        s.MQIA_HARDEN_GET_BACKOUT,
        words=(
            ("HARDENBO", c.MQQA_BACKOUT_HARDENED),
            ("NOHARDENBO", c.MQQA_BACKOUT_NOT_HARDENED),
        ),
    ),
    Attribute(
        "CAPEXPRY",
        QUEUE_KINDS,
        c.MQCEX_NOLIMIT,
        s.MQIA_CAP_EXPIRY,
        1,
        LARGEST,
        (("NOLIMIT", c.MQCEX_NOLIMIT),),
    ),
    Attribute("CLUSTER", (QLOCAL, QALIAS, QREMOTE), "", s.MQCA_CLUSTER_NAME, length=48),
    Attribute(
        "DEFBIND",
        QUEUE_KINDS,
        s.MQBND_BIND_ON_OPEN,
        s.MQIA_DEF_BIND,
        words=(
            ("OPEN", s.MQBND_BIND_ON_OPEN),
            ("NOTFIXED", s.MQBND_BIND_NOT_FIXED),
            ("GROUP", s.MQBND_BIND_ON_GROUP),
        ),
    ),
    Attribute(
        "INDXTYPE",
        _HOLDERS,
        s.MQIT_NONE,
        s.MQIA_INDEX_TYPE,
        words=(
            ("NONE", s.MQIT_NONE),
            ("MSGID", s.MQIT_MSG_ID),
            ("CORRELID", s.MQIT_CORREL_ID),
            ("MSGTOKEN", s.MQIT_MSG_TOKEN),
            ("GROUPID", s.MQIT_GROUP_ID),
        ),
    ),
    # Which page set of z/OS holds the messages; here a name that is kept and shown.
    Attribute("STGCLASS", _HOLDERS, "DEFAULT", s.MQCA_STORAGE_CLASS, length=8),
    Attribute(
        "QSGDISP",
        (QLOCAL,),
        s.MQQSGD_Q_MGR,
        s.MQIA_QSG_DISP,
        words=(("QMGR", s.MQQSGD_Q_MGR), ("SHARED", s.MQQSGD_SHARED)),
    ),
    # Mayfly's own: where the life of a delayed message begins.
    Attribute("TTLFROM", _HOLDERS, TTL_FROM_SEND, words=(("SEND", TTL_FROM_SEND), ("RELEASE", 1))),
    Attribute(
        "PROPCTL",
        _GETTABLE,
        s.MQPROP_COMPATIBILITY,
        s.MQIA_PROPERTY_CONTROL,
        words=(
            ("COMPAT", s.MQPROP_COMPATIBILITY),
            ("NONE", s.MQPROP_NONE),
            ("ALL", s.MQPROP_ALL),
            ("FORCE", s.MQPROP_FORCE_MQRFH2),
            ("V6COMPAT", s.MQPROP_V6COMPAT),
        ),
    ),
    Attribute(
        "TRIGGER",
        _HOLDERS,
        s.MQTC_OFF,
        s.MQIA_TRIGGER_CONTROL,
        words=(("TRIGGER", s.MQTC_ON), ("NOTRIGGER", s.MQTC_OFF)),
    ),
    Attribute(
        "TRIGTYPE",
        _HOLDERS,
        s.MQTT_FIRST,
        s.MQIA_TRIGGER_TYPE,
        words=(
            ("NONE", s.MQTT_NONE),
            ("FIRST", s.MQTT_FIRST),
            ("EVERY", s.MQTT_EVERY),
            ("DEPTH", s.MQTT_DEPTH),
        ),
    ),
    Attribute("TRIGDPTH", _HOLDERS, 1, s.MQIA_TRIGGER_DEPTH, 1, LARGEST),
    Attribute("TRIGMPRI", _HOLDERS, 0, s.MQIA_TRIGGER_MSG_PRIORITY, 0, 9),
    Attribute("TRIGDATA", _HOLDERS, "", s.MQCA_TRIGGER_DATA, length=64),
    Attribute("INITQ", _HOLDERS, "", s.MQCA_INITIATION_Q_NAME, length=48),
    Attribute("PROCESS", _HOLDERS, "", s.MQCA_PROCESS_NAME, length=48),
    Attribute("CUSTOM", QUEUE_KINDS, "", s.MQCA_CUSTOM, length=128),
    Attribute(
        "TARGTYPE",
        (QALIAS,),
        s.MQOT_Q,
        s.MQIA_BASE_TYPE,
        words=(("QUEUE", s.MQOT_Q), ("TOPIC", s.MQOT_TOPIC)),
    ),
    Attribute(
        "DEFTYPE",
        (QMODEL,),
        c.MQQDT_TEMPORARY_DYNAMIC,
        s.MQIA_DEFINITION_TYPE,
        words=(
            ("TEMPDYN", c.MQQDT_TEMPORARY_DYNAMIC),
            ("PERMDYN", c.MQQDT_PERMANENT_DYNAMIC),
        ),
    ),
)
