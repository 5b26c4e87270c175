"""Meanings of attributes, one line each for forms, and the kinds of the objects that they name.

The attributes that operators set most are here; the others have their keyword alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: By MQSC keyword; a line fits every kind that has the attribute.
MEANINGS: Final[Mapping[str, str]] = {
    "BODELAY": "how long a message that was backed out waits before it can be got again",
    "BODELMAX": "the longest such wait: BODELAY doubles with each backout up to it",
    "BOQNAME": "where programs and pipelines put what was backed out too often",
    "BOTHRESH": "how many backouts are too many; 0 for no bound",
    "CAPEXPRY": "the longest life of messages on this path, counted from the put",
    "CERTLABL": "the certificate that is shown to the other side",
    "CHLAUTH": "whether rules for channels are obeyed",
    "CONNAME": "where the other side listens, as host(port)",
    "CONNAUTH": "the record that says how passwords are checked",
    "DEADQ": "where messages go that cannot be delivered",
    "DEFBIND": "when the target of an open queue is chosen",
    "DEFPRTY": "the priority of messages that name none",
    "DEFPSIST": "whether messages that do not say so survive a restart",
    "DEFXMITQ": "the transmission queue of queue managers that have none of their own",
    "DESCR": "a text for people",
    "DEST": "the queue that gets the publications",
    "DISCINT": "how long an idle channel stays connected; 0 for ever",
    "EXPIRY": "the longest life of publications of this subscription",
    "EXPQ": "where expired messages go instead of being discarded",
    "EXPRYINT": "how often expired messages that nobody has met are looked for",
    "GET": "whether programs may get messages",
    "HBINT": "how often an idle connection is tried",
    "INITQ": "where trigger messages go",
    "MAXDEPTH": "how many messages fit on the queue",
    "MAXINST": "how many connections a channel may have",
    "MAXMSGL": "the longest message",
    "MCAUSER": "the user in whose name the channel acts",
    "MONQ": "whether statistics of queues are kept",
    "MSGDLVSQ": "whether gets take messages by priority or in the order of puts",
    "NAMES": "the names in the list",
    "PROCESS": "the process that a trigger message names",
    "PUB": "whether programs may publish",
    "PUT": "whether programs may put messages",
    "QDEPTHHI": "at this share of MAXDEPTH the depth is called high, in percent",
    "QDEPTHLO": "at this share of MAXDEPTH the depth is called low, in percent",
    "RNAME": "the name of the queue at its queue manager",
    "RQMNAME": "the queue manager that has the queue",
    "SELECTOR": "a condition on properties that publications must meet",
    "SHARE": "whether several programs may have the queue open for input",
    "SSLCAUTH": "whether the other side must show a certificate",
    "SSLCIPH": "how the connection is encrypted; blank for not at all",
    "SSLPEER": "the distinguished name that the certificate of the other side must have",
    "SUB": "whether programs may subscribe",
    "TARGET": "the queue or topic that the alias stands for",
    "TOPICOBJ": "the topic below which the topic string begins",
    "TOPICSTR": "the topic string",
    "TRIGDPTH": "with TRIGTYPE(DEPTH): at how many messages a trigger message is made",
    "TRIGGER": "whether trigger messages are made",
    "TRIGTYPE": "what makes a trigger message: the first message, each, or a depth",
    "TTLFROM": "whether the life of a delayed message begins at its put or at its release",
    "USAGE": "an ordinary queue, or one for messages to other queue managers",
    "XMITQ": "the transmission queue on which messages wait for the channel",
}

_QUEUES: Final = ("QLOCAL", "QALIAS", "QREMOTE")
#: By MQSC keyword: the kinds of the objects that can be named there; USER is no object of MQSC.
NAMED_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "BOQNAME": _QUEUES,
    "CONNAUTH": ("AUTHINFO",),
    "DEADQ": _QUEUES,
    "DEFXMITQ": ("QLOCAL",),
    "DEST": _QUEUES,
    "EXPQ": _QUEUES,
    "INITQ": ("QLOCAL",),
    "MCAUSER": ("USER",),
    "MNDURMDL": ("QMODEL",),
    "MDURMDL": ("QMODEL",),
    "PROCESS": ("PROCESS",),
    "STREAMQ": _QUEUES,
    "SUBUSER": ("USER",),
    "TARGET": (*_QUEUES, "TOPIC"),
    "TOPICOBJ": ("TOPIC",),
    "TRIGDATA": ("CHANNEL",),
    "XMITQ": ("QLOCAL",),
}
