"""The attribute table: one row an attribute; MQSC, MQINQ and MQSET follow from it."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from mayfly.mqi import constants as c
from mayfly.mqi import selectors as s

QLOCAL: Final = "QLOCAL"
QALIAS: Final = "QALIAS"
QMODEL: Final = "QMODEL"
QMGR: Final = "QMGR"
TOPIC: Final = "TOPIC"
SUB: Final = "SUB"
QUEUE_KINDS: Final = (QLOCAL, QALIAS, QMODEL)

Value: TypeAlias = int | str
#: A life runs from the put, delay or not; otherwise that of a delayed message from its release.
TTL_FROM_SEND: Final = 0
#: Who releases delayed messages: the queue manager itself, or a pipeline on Spark.
DDELAY_EMBEDDED: Final = 0
DDELAY_SPARK: Final = 1
#: When authority is asked for: never, at connect, open and send, or at the release as well.
AUTHCHK_NONE, AUTHCHK_SEND, AUTHCHK_RELEASE = 0, 1, 2


class Attribute(NamedTuple):
    """One attribute: its MQSC keyword, the objects that have it, its values and its selector.

    A number lies within ``low`` .. ``high`` or is one of ``words``, which stand for numbers; an
    attribute with words and no range takes only those. A text is at most ``length`` long; with
    ``length`` 48 it is an object name. ``selector`` is the MQIA_/MQCA_ value for MQINQ.
    """

    keyword: str
    objects: tuple[str, ...]
    default: Value
    selector: int | None = None
    low: int = 0
    high: int = -1
    words: tuple[tuple[str, int], ...] = ()
    length: int = 0

    @property
    def is_text(self) -> bool:
        """Whether the value is text."""
        return self.length > 0

    @property
    def is_flag(self) -> bool:
        """Whether MQSC writes it without a value, as KEYWORD or NOKEYWORD."""
        return self.keyword in _FLAGS


_FLAGS = ("SHARE", "HARDENBO")
_ENABLED_PUT = (("ENABLED", c.MQQA_PUT_ALLOWED), ("DISABLED", c.MQQA_PUT_INHIBITED))
_ENABLED_GET = (("ENABLED", c.MQQA_GET_ALLOWED), ("DISABLED", c.MQQA_GET_INHIBITED))
_YES_NO = (("NO", c.MQPER_NOT_PERSISTENT), ("YES", c.MQPER_PERSISTENT))
_HOLDERS = (QLOCAL, QMODEL)
_LARGEST = 999_999_999
_LONGEST_MESSAGE_BYTES = 104_857_600

ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute("DESCR", QUEUE_KINDS, "", s.MQCA_Q_DESC, length=64),
    Attribute("TARGET", (QALIAS,), "", s.MQCA_BASE_OBJECT_NAME, length=48),
    Attribute("PUT", QUEUE_KINDS, c.MQQA_PUT_ALLOWED, s.MQIA_INHIBIT_PUT, words=_ENABLED_PUT),
    Attribute("GET", QUEUE_KINDS, c.MQQA_GET_ALLOWED, s.MQIA_INHIBIT_GET, words=_ENABLED_GET),
    Attribute("DEFPRTY", QUEUE_KINDS, 0, s.MQIA_DEF_PRIORITY, 0, 9),
    Attribute(
        "DEFPSIST", QUEUE_KINDS, c.MQPER_NOT_PERSISTENT, s.MQIA_DEF_PERSISTENCE, words=_YES_NO
    ),
    Attribute("MAXDEPTH", _HOLDERS, 5_000, s.MQIA_MAX_Q_DEPTH, 0, _LARGEST),
    Attribute("MAXMSGL", _HOLDERS, 4_194_304, s.MQIA_MAX_MSG_LENGTH, 0, _LONGEST_MESSAGE_BYTES),
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
    Attribute("BOTHRESH", _HOLDERS, 0, s.MQIA_BACKOUT_THRESHOLD, 0, _LARGEST),
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
        _LARGEST,
        (("NOLIMIT", c.MQCEX_NOLIMIT),),
    ),
    Attribute("CLUSTER", (QLOCAL, QALIAS), "", s.MQCA_CLUSTER_NAME, length=48),
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
    # Mayfly's own: where the life of a delayed message begins.
    Attribute("TTLFROM", _HOLDERS, TTL_FROM_SEND, words=(("SEND", TTL_FROM_SEND), ("RELEASE", 1))),
    Attribute(
        "PROPCTL",
        QUEUE_KINDS,
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
    Attribute("DESCR", (QMGR,), "", s.MQCA_Q_MGR_DESC, length=64),
    Attribute("DEADQ", (QMGR,), "", s.MQCA_DEAD_LETTER_Q_NAME, length=48),
    Attribute("MAXMSGL", (QMGR,), 4_194_304, s.MQIA_MAX_MSG_LENGTH, 32_768, _LONGEST_MESSAGE_BYTES),
    Attribute(
        "MAXPROPL",
        (QMGR,),
        s.MQPROP_UNRESTRICTED_LENGTH,
        s.MQIA_MAX_PROPERTIES_LENGTH,
        0,
        _LONGEST_MESSAGE_BYTES,
        (("NOLIMIT", s.MQPROP_UNRESTRICTED_LENGTH),),
    ),
    Attribute("MAXHANDS", (QMGR,), 256, s.MQIA_MAX_HANDLES, 1, _LARGEST),
    Attribute("MAXUMSGS", (QMGR,), 10_000, s.MQIA_MAX_UNCOMMITTED_MSGS, 1, _LARGEST),
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


#: A topic takes what it does not say itself from the nearest topic object above it.
_AS_PARENT: Final = "ASPARENT"
_DELIVERY = (
    (_AS_PARENT, s.MQDLV_AS_PARENT),
    ("ALL", s.MQDLV_ALL),
    ("ALLDUR", s.MQDLV_ALL_DUR),
    ("ALLAVAIL", s.MQDLV_ALL_AVAIL),
)
#: MQTA_PUB_* and MQTA_SUB_*, which have the same values.
PUBSUB_AS_PARENT, PUBSUB_DISABLED, PUBSUB_ENABLED = 0, 1, 2
_PUBSUB = (
    (_AS_PARENT, PUBSUB_AS_PARENT),
    ("DISABLED", PUBSUB_DISABLED),
    ("ENABLED", PUBSUB_ENABLED),
)
#: MQUSEDLQ_*.
DEAD_LETTERS_AS_PARENT, DEAD_LETTERS_NO, DEAD_LETTERS_YES = 0, 1, 2
TOPIC_STRING_BYTES: Final = 10_240
#: Destination classes of a subscription, MQDC_*.
MANAGED_DESTINATION, PROVIDED_DESTINATION = 1, 2
#: Who may resume a subscription, MQVU_*: anybody, or SUBUSER alone.
FIXED_USER, ANY_USER = 1, 2
#: PUBPRTY: the copy has the priority of its queue, or of the publication.
PRIORITY_AS_QUEUE, PRIORITY_AS_PUBLISHED = -1, c.MQPRI_PRIORITY_AS_PUBLISHED

TOPIC_ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute("TOPICSTR", (TOPIC, SUB), "", length=TOPIC_STRING_BYTES),
    Attribute("DESCR", (TOPIC,), "", length=64),
    Attribute(
        "DEFPRTY",
        (TOPIC,),
        c.MQPRI_PRIORITY_AS_PARENT,
        None,
        0,
        9,
        ((_AS_PARENT, c.MQPRI_PRIORITY_AS_PARENT),),
    ),
    Attribute(
        "DEFPSIST",
        (TOPIC,),
        c.MQPER_PERSISTENCE_AS_PARENT,
        words=((_AS_PARENT, c.MQPER_PERSISTENCE_AS_PARENT), *_YES_NO),
    ),
    Attribute("PMSGDLV", (TOPIC,), s.MQDLV_AS_PARENT, words=_DELIVERY),
    Attribute("NPMSGDLV", (TOPIC,), s.MQDLV_AS_PARENT, words=_DELIVERY),
    Attribute("PUB", (TOPIC,), PUBSUB_AS_PARENT, words=_PUBSUB),
    Attribute("SUB", (TOPIC,), PUBSUB_AS_PARENT, words=_PUBSUB),
    Attribute(
        "DURSUB",
        (TOPIC,),
        s.MQSUB_DURABLE_AS_PARENT,
        words=(
            (_AS_PARENT, s.MQSUB_DURABLE_AS_PARENT),
            ("YES", s.MQSUB_DURABLE_ALLOWED),
            ("NO", s.MQSUB_DURABLE_INHIBITED),
        ),
    ),
    Attribute(
        "CAPEXPRY",
        (TOPIC,),
        s.MQCEX_AS_PARENT,
        None,
        1,
        _LARGEST,
        (("NOLIMIT", c.MQCEX_NOLIMIT), (_AS_PARENT, s.MQCEX_AS_PARENT)),
    ),
    Attribute(
        "USEDLQ",
        (TOPIC,),
        DEAD_LETTERS_AS_PARENT,
        words=(
            (_AS_PARENT, DEAD_LETTERS_AS_PARENT),
            ("NO", DEAD_LETTERS_NO),
            ("YES", DEAD_LETTERS_YES),
        ),
    ),
    Attribute("MDURMDL", (TOPIC,), "", length=48),
    Attribute("MNDURMDL", (TOPIC,), "", length=48),
    Attribute("TOPICOBJ", (SUB,), "", length=48),
    Attribute("DEST", (SUB,), "", length=48),
    Attribute(
        "DESTCLAS",
        (SUB,),
        PROVIDED_DESTINATION,
        words=(("PROVIDED", PROVIDED_DESTINATION), ("MANAGED", MANAGED_DESTINATION)),
    ),
    Attribute("DESTCORL", (SUB,), "", length=48),
    Attribute(
        "EXPIRY", (SUB,), c.MQEI_UNLIMITED, None, 1, _LARGEST, (("UNLIMITED", c.MQEI_UNLIMITED),)
    ),
    Attribute(
        "PUBPRTY",
        (SUB,),
        PRIORITY_AS_PUBLISHED,
        None,
        0,
        9,
        (("ASPUB", PRIORITY_AS_PUBLISHED), ("ASQDEF", PRIORITY_AS_QUEUE)),
    ),
    # Copies only of what is retained, and only on request (MQSUBRQ).
    Attribute("REQONLY", (SUB,), 0, words=(("NO", 0), ("YES", 1))),
    Attribute("SELECTOR", (SUB,), "", length=TOPIC_STRING_BYTES),
    Attribute("SUBUSER", (SUB,), "", length=12),
    Attribute("USERDATA", (SUB,), "", length=TOPIC_STRING_BYTES),
    Attribute("VARUSER", (SUB,), ANY_USER, words=(("ANY", ANY_USER), ("FIXED", FIXED_USER))),
)


def attributes_of(kind: str) -> dict[str, Attribute]:
    """Return the attributes an object kind has, by keyword, in display order."""
    return {a.keyword: a for a in (*ATTRIBUTES, *TOPIC_ATTRIBUTES) if kind in a.objects}


def defaults_of(kind: str) -> dict[str, Value]:
    """Return the values a new object has."""
    return {keyword: a.default for keyword, a in attributes_of(kind).items()}
