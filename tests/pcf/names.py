"""The commands of PCF with the meaning of an MQSC command."""

from __future__ import annotations

from mayfly.admin.pcf.commands import COMMANDS
from mayfly.admin.pcf.objects import QUEUE_TYPES
from mayfly.pymqi import CMQCFC

#: The commands of MQSC, and those of PCF with the same meaning.
SAME_AS_MQSC = {
    "DEFINE": "CREATE",
    "ALTER": "CHANGE",
    "DISPLAY": "INQUIRE",
    "DELETE": "DELETE",
    "SET": "SET",
    "REFRESH": "REFRESH",
    "CLEAR": "CLEAR",
    "PING": "PING",
    "START": "START",
    "STOP": "STOP",
    "RESET": "RESET",
    "RESOLVE": "RESOLVE",
    "MOVE": "MOVE",
}
NAMES = {
    **dict.fromkeys((*QUEUE_TYPES, "QUEUE"), ("Q",)),
    "APSTATUS": ("APPL_STATUS",),
    "AUTHINFO": ("AUTH_INFO",),
    "AUTHREC": ("AUTH_REC", "AUTH_RECS"),
    "AUTHSERV": ("AUTH_SERVICE",),
    "CHLAUTH": ("CHLAUTH_REC", "CHLAUTH_RECS"),
    "CHSTATUS": ("CHANNEL_STATUS",),
    "CLUSQMGR": ("CLUSTER_Q_MGR",),
    "COMMINFO": ("COMM_INFO",),
    "CONN": ("CONNECTION",),
    "ENTAUTH": ("ENTITY_AUTH",),
    "GROUP": ("QSG",),
    "LISTENER": ("LISTENER", "CHANNEL_LISTENER"),
    "POLICY": ("PROT_POLICY",),
    "PUBSUB": ("PUBSUB_STATUS",),
    # Queues of MQQT_CLUSTER, topics of MQTOPT_CLUSTER.
    "QCLUSTER": ("Q",),
    "TCLUSTER": ("TOPIC",),
    "QMGR": ("Q_MGR",),
    "QMSTATUS": ("Q_MGR_STATUS",),
    "QSTATUS": ("Q_STATUS",),
    "STGCLASS": ("STG_CLASS",),
    "LSSTATUS": ("LISTENER_STATUS",),
    "SVSTATUS": ("SERVICE_STATUS",),
    "SBSTATUS": ("SUB_STATUS",),
    "QSTATS": ("Q_STATS",),
    "SUB": ("SUBSCRIPTION",),
    "TOPICSTR": ("TOPIC_STRING",),
    "TPSTATUS": ("TOPIC_STATUS",),
}
#: Types of object of MQSC without a command of PCF, each with the reason.
WITHOUT_NUMBER = {"SETTING": "settings are Mayfly's own, and no command of IBM MQ has a number"}
#: ALTER of a policy and DEFINE of one are SET in PCF.
SET_INSTEAD = {("ALTER", "POLICY")}


def numbers_of(verb: str, kind: str) -> set[int]:
    """Return the numbers of the commands of PCF that do what ``verb kind(...)`` does in MQSC."""
    if kind in WITHOUT_NUMBER or (verb, kind) in SET_INSTEAD:
        return set()
    names = [f"MQCMD_{SAME_AS_MQSC[verb]}_{name}" for name in NAMES.get(kind, (kind,))]
    return {getattr(CMQCFC, name, -1) for name in names} & COMMANDS.keys()
