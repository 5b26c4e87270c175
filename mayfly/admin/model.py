"""The model of administration: object types, attributes, values with errors, conditions.

Codecs such as MQSC find here names, types, ranges and MQIA_/MQCA_ numbers. Attributes that can be
set are the rows of the engine's tables (``engine/attributes``); a row added there is available to
every codec.
"""

from __future__ import annotations

import csv
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from io import StringIO
from types import MappingProxyType
from typing import Final, NamedTuple

from mayfly.channel import ChannelState
from mayfly.engine.api.administration import (
    CHANNEL,
    NAMELIST,
    PROCESS,
    QLOCAL,
    QMGR,
    SECONDS,
    SUB,
    TOPIC,
    TOPIC_VALUES,
    TYPED_BY,
    Attribute,
    Definition,
    attributes_of,
    has_attribute,
    kept_attributes_of,
    matches,
)
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import event_constants as e
from mayfly.mqi import reasons as rc
from mayfly.mqi.command_constants import (
    MQRCCF_ATTR_VALUE_ERROR,
    MQRCCF_ATTR_VALUE_FIXED,
    MQRCCF_LIKE_OBJECT_WRONG_TYPE,
    MQRCCF_PARM_CONFLICT,
    MQRCCF_PARM_MISSING,
)
from mayfly.mqi.errors import MQError, ObjectError, OptionsError
from mayfly.verbs.checks import check_name
from mayfly.verbs.facts import Value

#: Types of status records, which are no objects.
QSTATUS: Final = "QSTATUS"
TPSTATUS: Final = "TPSTATUS"
CHSTATUS: Final = "CHSTATUS"
#: Status of the queue manager.
QMSTATUS: Final = "QMSTATUS"
#: Connections, and what each has open.
CONN: Final = "CONN"
HANDLE: Final = "HANDLE"
ENTAUTH: Final = "ENTAUTH"
PUBSUB: Final = "PUBSUB"
GROUP_STATUS: Final = "GROUP"
#: Status of subscriptions, of programs by name, and statistics of queues.
SBSTATUS: Final = "SBSTATUS"
APSTATUS: Final = "APSTATUS"
#: Programs with open queues; subscriptions at topic strings, and programs that publish to them.
QSTATUS_HANDLE: Final = "QSTATUS TYPE(HANDLE)"
TPSTATUS_SUB: Final = "TPSTATUS TYPE(SUB)"
TPSTATUS_PUB: Final = "TPSTATUS TYPE(PUB)"
#: Programs by name at this queue manager, and connections of programs one by one.
APSTATUS_QMGR: Final = "APSTATUS TYPE(QMGR)"
APSTATUS_LOCAL: Final = "APSTATUS TYPE(LOCAL)"
QSTATS: Final = "QSTATS"
#: How the queue manager checks users, on distributed platforms.
SECURITY: Final = "SECURITY"
#: The authorization service: Mayfly itself, which has no installable services.
AUTHSERV: Final = "AUTHSERV"
#: Mayfly's own: settings, which the folder keeps beside objects.
SETTING: Final = "SETTING"

NO, YES = 0, 1
_NO_YES: Final = (("NO", NO), ("YES", YES))
#: MQMON_*.
MONITORED: Final = {"OFF": 0, "LOW": 17, "MEDIUM": 33, "HIGH": 65}
#: Attributes of Mayfly's own, which DISPLAY shows when they are named, or without keywords, and not
#: with ALL: tools that read all attributes know those of IBM MQ only.
OWN_ATTRIBUTES: Final = frozenset(
    "AUTHCHK BODELAY BODELMAX DDELAY DISK EXPIRED EXPQ FAILURE HANDLES LIVE STAGED TOKENFILE"
    " TTLFROM UOWAGE".split()
)
#: MQSUBTYPE_*, by the word that a subscription is stored with.
SUBSCRIPTION_TYPES: Final = {"API": 1, "ADMIN": 2, "PROXY": 3}
#: MQSUB_DURABLE_*.
_DURABLE: Final = (("YES", YES), ("NO", 2))
DURABLE_YES, DURABLE_NO = YES, 2
#: MQCHS_*.
CHANNEL_STATUS: Final = {
    ChannelState.INACTIVE: 0,
    ChannelState.STARTING: 2,
    ChannelState.RUNNING: 3,
    ChannelState.STOPPING: 4,
    ChannelState.RETRYING: 5,
    ChannelState.STOPPED: 6,
    ChannelState.PAUSED: 8,
}
#: Mayfly's own: status of the delay processor.
PROCESSOR_STATUS: Final = {"STOPPED": 0, "RUNNING": 1, "SPARK": 2}
#: MQQMSTA_*; a queue manager that answers runs.
MANAGER_STATUS: Final = {"RUNNING": 2}
DISK_STATUS: Final = {"OK": 0, "FULL": 1}
#: MQOT_*.
HANDLE_TYPES: Final = {
    "QUEUE": c.MQOT_Q,
    PROCESS: c.MQOT_PROCESS,
    QMGR: c.MQOT_Q_MGR,
    TOPIC: c.MQOT_TOPIC,
}
#: MQAT_*; all that connect are programs.
APPLICATION_TYPES: Final = {"USER": c.MQAT_USER}
#: MQPSST_* and MQPS_STATUS_*.
RELATIONS: Final = {"LOCAL": k.MQPSST_LOCAL, "PARENT": k.MQPSST_PARENT, "CHILD": k.MQPSST_CHILD}
PUBSUB_STATUS: Final = {
    "INACTIVE": k.MQPS_STATUS_INACTIVE,
    "STARTING": k.MQPS_STATUS_STARTING,
    "STOPPING": k.MQPS_STATUS_STOPPING,
    "ACTIVE": k.MQPS_STATUS_ACTIVE,
    "COMPAT": k.MQPS_STATUS_COMPAT,
    "ERROR": k.MQPS_STATUS_ERROR,
}
#: MQBALANCED_*, MQBALSTATE_* and MQIMMREASON_*: no program is moved to another queue manager.
BALANCED: Final = {"NOTAPPLIC": 2}
BALANCE_STATE: Final = {"NOTAPPLIC": 0}
IMMOVABLE: Final = {"NOTCLIENT": 1, "NOTRECONN": 2}
#: MQUOWST_*.
UNIT_OF_WORK_STATES: Final = {"NONE": 0, "ACTIVE": 1}
#: MQQSO_*.
INPUT_TYPES: Final = {"NO": k.MQQSO_NO, "SHARED": k.MQQSO_SHARED, "EXCL": k.MQQSO_EXCLUSIVE}
_LONGEST_TEXT: Final = 10_240
#: MQ_DATE_LENGTH and MQ_TIME_LENGTH, of dates and times in status.
_DATE_BYTES: Final = 12
_TIME_BYTES: Final = 8
_TYPE_OF_CHANNEL = attributes_of(CHANNEL)["CHLTYPE"]
_NAMES: Final = {
    MQRCCF_ATTR_VALUE_ERROR: "MQRCCF_ATTR_VALUE_ERROR",
    MQRCCF_ATTR_VALUE_FIXED: "MQRCCF_ATTR_VALUE_FIXED",
    MQRCCF_LIKE_OBJECT_WRONG_TYPE: "MQRCCF_LIKE_OBJECT_WRONG_TYPE",
    MQRCCF_PARM_CONFLICT: "MQRCCF_PARM_CONFLICT",
    MQRCCF_PARM_MISSING: "MQRCCF_PARM_MISSING",
}
_NAME_LENGTH = 48
_QUOTE = "'"
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_CUSTOM_PAIR = re.compile(r"([A-Za-z0-9]+)\(([^()]*)\)")
_ORDERINGS: dict[str, Callable[[Value, Value], bool]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "EQ": operator.eq,
    "NE": operator.ne,
    "GE": operator.ge,
    "GT": operator.gt,
}
#: The operators by which numbers and texts are compared, those of words, and those of patterns.
ORDERINGS: Final = tuple(_ORDERINGS)
UNORDERED: Final = ("EQ", "NE")
LIKE, NOT_LIKE = "LK", "NL"


class ObjectType(NamedTuple):
    """An object type such as QLOCAL: its attributes by MQSC keyword.

    ``attributes`` are those that can be set, ``shown`` those that are displayed only. ``kept`` are
    those of ``attributes`` that nothing here obeys.
    """

    kind: str
    attributes: Mapping[str, Attribute]
    shown: Mapping[str, Attribute]
    kept: Mapping[str, Attribute]

    def row(self, keyword: str) -> Attribute | None:
        """Return the attribute with a keyword, whether it can be set or is only displayed.

        Returns None for an unknown keyword.
        """
        return self.attributes.get(keyword) or self.shown.get(keyword)


class Record(NamedTuple):
    """One inquired object or status: its type, its name, its values by MQSC keyword.

    A value that MQSC shows as a word (``YES``) is the number of that word here (``1``).
    """

    kind: str
    name: str
    values: Mapping[str, Value]


@cache
def object_type(kind: str) -> ObjectType:
    """Return an object type with its attributes; it has none for an unknown type."""
    if kind == TPSTATUS_SUB:
        subscription = {"SUB": _text_row("SUB", k.MQCACF_SUB_NAME), **object_type(SBSTATUS).shown}
        return ObjectType(kind, MappingProxyType({}), MappingProxyType(subscription), {})
    rows = {row.keyword: row for row in _SHOWN.get(kind, ())}
    kept = kept_attributes_of(kind)
    every = MappingProxyType({**attributes_of(kind), **kept})
    return ObjectType(kind, every, MappingProxyType(rows), kept)


def displayed(kinds: Iterable[str]) -> Mapping[str, Attribute]:
    """Return all attributes that objects of some types display, by keyword, in display order.

    A keyword of several types has the attribute of the first of them.
    """
    rows: dict[str, Attribute] = {}
    for kind in kinds:
        found = object_type(kind)
        for keyword, row in (*found.attributes.items(), *found.shown.items()):
            rows.setdefault(keyword, row)
    return rows


def _number_row(keyword: str, selector: int | None = None, unit: str = "") -> Attribute:
    """Return an attribute that is displayed as a number, and cannot be set.

    ``selector`` is its MQIA_* number, None for a Mayfly attribute; ``unit`` is a unit such as
    seconds.
    """
    return Attribute(keyword, "", (), 0, selector, -(2**63), 2**63 - 1, (), 0, unit)


def _word_row(
    keyword: str, words: Iterable[tuple[str, int]], selector: int | None = None
) -> Attribute:
    """Return an attribute that is stored as a number and displayed as a word, and cannot be set.

    ``words`` are pairs of word and number. ``selector`` is the MQIA_* number, None for a Mayfly
    attribute.
    """
    return Attribute(keyword, "", (), 0, selector, 0, -1, tuple(words), 0)


def _text_row(
    keyword: str, selector: int | None = None, length_bytes: int = _LONGEST_TEXT
) -> Attribute:
    """Return an attribute that is displayed as text, and cannot be set.

    ``selector`` is its MQCA_* number, None for a Mayfly attribute.
    """
    return Attribute(keyword, "", (), "", selector, 0, -1, (), length_bytes)


_COUNTS = (
    _number_row("CURDEPTH", c.MQIA_CURRENT_Q_DEPTH),
    _number_row("IPPROCS", c.MQIA_OPEN_INPUT_COUNT),
    _number_row("OPPROCS", c.MQIA_OPEN_OUTPUT_COUNT),
)
_DEFINITION_TYPE = _word_row(
    "DEFTYPE",
    (
        ("PREDEFINED", c.MQQDT_PREDEFINED),
        ("PERMDYN", c.MQQDT_PERMANENT_DYNAMIC),
        ("TEMPDYN", c.MQQDT_TEMPORARY_DYNAMIC),
    ),
    c.MQIA_DEFINITION_TYPE,
)
_SHOWN: dict[str, tuple[Attribute, ...]] = {
    QLOCAL: (*_COUNTS, _DEFINITION_TYPE),
    SUB: (
        _word_row("SUBTYPE", SUBSCRIPTION_TYPES.items(), k.MQIACF_SUB_TYPE),
        _word_row("DURABLE", _DURABLE, k.MQIACF_DURABLE_SUBSCRIPTION),
    ),
    QMGR: (
        _number_row("CMDLEVEL", c.MQIA_COMMAND_LEVEL),
        _word_row(
            "PLATFORM",
            (("UNIX", c.MQPL_UNIX), ("OS400", c.MQPL_OS400), ("MVS", c.MQPL_ZOS)),
            c.MQIA_PLATFORM,
        ),
        _text_row("VERSION", c.MQCA_VERSION, 8),
        _text_row("QMID", c.MQCA_Q_MGR_IDENTIFIER, c.MQ_Q_MGR_IDENTIFIER_LENGTH),
        _text_row("COMMANDQ", c.MQCA_COMMAND_INPUT_Q_NAME, _NAME_LENGTH),
        _number_row("MAXPRTY", c.MQIA_MAX_PRIORITY),
        _word_row("SYNCPT", (("AVAILABLE", c.MQSP_AVAILABLE),), c.MQIA_SYNCPOINT),
        _word_row("DISTL", _NO_YES, c.MQIA_DIST_LISTS),
        _word_row("ADVCAP", _NO_YES, c.MQIA_ADVANCED_CAPABILITY),
        _word_row("AMQPCAP", _NO_YES, c.MQIA_AMQP_CAPABILITY),
        _word_row("SPLCAP", _NO_YES, c.MQIA_PROT_POLICY_CAPABILITY),
        _word_row("XRCAP", _NO_YES, c.MQIA_XR_CAPABILITY),
    ),
    QSTATUS: (
        *_COUNTS,
        _word_row("UNCOM", _NO_YES, k.MQIACF_UNCOMMITTED_MSGS),
        # Of the oldest message.
        _number_row("MSGAGE", k.MQIACF_OLDEST_MSG_AGE, SECONDS),
        # Of MONQ, blank without it: the last put and get in UTC, and for how long got messages have
        # been on the queue, in microseconds, short-term and long-term.
        _word_row("MONQ", MONITORED.items(), c.MQIA_MONITORING_Q),
        _text_row("LPUTDATE", e.MQCACF_LAST_PUT_DATE, _DATE_BYTES),
        _text_row("LPUTTIME", e.MQCACF_LAST_PUT_TIME, _TIME_BYTES),
        _text_row("LGETDATE", e.MQCACF_LAST_GET_DATE, _DATE_BYTES),
        _text_row("LGETTIME", e.MQCACF_LAST_GET_TIME, _TIME_BYTES),
        _text_row("QTIME", e.MQIACF_Q_TIME_INDICATOR),
        # Mayfly's own: staged for this queue, alive, expired and still there.
        _number_row("STAGED"),
        _number_row("LIVE"),
        _number_row("EXPIRED"),
        _word_row("DDELAY", PROCESSOR_STATUS.items()),
    ),
    QMSTATUS: (
        _word_row("STATUS", MANAGER_STATUS.items(), k.MQIACF_Q_MGR_STATUS),
        _number_row("CONNS", k.MQIACF_CONNECTION_COUNT),
        # Mayfly's own: whether the disk is too full for puts; the status of releases.
        _word_row("DISK", DISK_STATUS.items()),
        _word_row("DDELAY", PROCESSOR_STATUS.items()),
    ),
    NAMELIST: (_number_row("NAMCOUNT", c.MQIA_NAME_COUNT),),
    SETTING: (_text_row("VALUE"), _text_row("DEFAULT")),
    TPSTATUS: (
        _text_row("ADMIN", c.MQCA_ADMIN_TOPIC_NAME),
        *(attributes_of(TOPIC)[keyword] for keyword in TOPIC_VALUES),
        _word_row("RETAINED", _NO_YES, k.MQIACF_RETAINED_PUBLICATION),
        _number_row("SUBCOUNT", c.MQIA_SUB_COUNT),
    ),
    CHSTATUS: (
        _TYPE_OF_CHANNEL,
        _word_row(
            "STATUS",
            ((str(status), number) for status, number in CHANNEL_STATUS.items()),
            k.MQIACH_CHANNEL_STATUS,
        ),
        _text_row("CONNAME", k.MQCACH_CONNECTION_NAME),
        _text_row("RQMNAME", c.MQCA_REMOTE_Q_MGR_NAME),
        _text_row("XMITQ", k.MQCACH_XMIT_Q_NAME),
        _number_row("MSGS", k.MQIACH_MSGS),
        _number_row("BATCHES", k.MQIACH_BATCHES),
        _number_row("BYTSSENT", k.MQIACH_BYTES_SENT),
        _number_row("BYTSRCVD", k.MQIACH_BYTES_RECEIVED),
        _number_row("HBINT", k.MQIACH_HB_INTERVAL, unit=SECONDS),
        _number_row("CURSEQNO", k.MQIACH_CURRENT_SEQUENCE_NUMBER),
        _number_row("LSTSEQNO", k.MQIACH_LAST_SEQUENCE_NUMBER),
        _text_row("CURLUWID", k.MQCACH_CURRENT_LUWID),
        _text_row("LSTLUWID", k.MQCACH_LAST_LUWID),
        _word_row("INDOUBT", _NO_YES, k.MQIACH_INDOUBT_STATUS),
        _number_row("SHORTRTS", k.MQIACH_SHORT_RETRIES_LEFT),
        _number_row("LONGRTS", k.MQIACH_LONG_RETRIES_LEFT),
        # Mayfly's own: why it retries or has stopped.
        _text_row("FAILURE"),
        # Of a channel of clients.
        _text_row("MCAUSER", k.MQCACH_MCA_USER_ID),
        _text_row("RAPPLTAG", k.MQCACH_REMOTE_APPL_TAG),
        _number_row("CURSHCNV", k.MQIACH_CURRENT_SHARING_CONVS),
        _text_row("CHSTADA", k.MQCACH_CHANNEL_START_DATE),
        _text_row("CHSTATI", k.MQCACH_CHANNEL_START_TIME),
    ),
    CONN: (
        _text_row("APPLTAG", k.MQCACF_APPL_TAG),
        _word_row("APPLTYPE", APPLICATION_TYPES.items(), c.MQIA_APPL_TYPE),
        _text_row("USERID", k.MQCACF_USER_IDENTIFIER),
        _text_row("CHANNEL", k.MQCACH_CHANNEL_NAME),
        _text_row("CONNAME", k.MQCACH_CONNECTION_NAME),
        # Mayfly's own: how many are open.
        _number_row("HANDLES"),
        _word_row("UOWSTATE", UNIT_OF_WORK_STATES.items(), k.MQIACF_UOW_STATE),
        _text_row("UOWSTDA", k.MQCACF_UOW_START_DATE),
        _text_row("UOWSTTI", k.MQCACF_UOW_START_TIME),
        # Mayfly's own.
        _number_row("UOWAGE", unit=SECONDS),
    ),
    SBSTATUS: (
        _text_row("SUBID"),
        _text_row("SUBUSER", k.MQCACF_SUB_USER_ID),
        _word_row("SUBTYPE", SUBSCRIPTION_TYPES.items(), k.MQIACF_SUB_TYPE),
        _word_row("DURABLE", _DURABLE, k.MQIACF_DURABLE_SUBSCRIPTION),
        _text_row("TOPICSTR", c.MQCA_TOPIC_STRING),
        _number_row("NUMMSGS", e.MQIACF_MESSAGE_COUNT),
        _text_row("LMSGDATE", e.MQCACF_LAST_MSG_DATE, _DATE_BYTES),
        _text_row("LMSGTIME", e.MQCACF_LAST_MSG_TIME, _TIME_BYTES),
        _text_row("RESMDATE", e.MQCA_RESUME_DATE, _DATE_BYTES),
        _text_row("RESMTIME", e.MQCA_RESUME_TIME, _TIME_BYTES),
        # CONN of a connection that has it open, blank for none; PCF has it in another form.
        _text_row("ACTCONN"),
    ),
    PUBSUB: (
        _word_row("TYPE", RELATIONS.items(), k.MQIACF_PS_STATUS_TYPE),
        _word_row("STATUS", PUBSUB_STATUS.items(), k.MQIACF_PUBSUB_STATUS),
        # Of the queue manager itself.
        _number_row("SUBCOUNT", c.MQIA_SUB_COUNT),
        _number_row("TPCOUNT", c.MQIA_TOPIC_NODE_COUNT),
    ),
    APSTATUS: (
        _text_row("CLUSTER", c.MQCA_CLUSTER_NAME),
        _number_row("COUNT", e.MQIACF_APPL_COUNT),
        _number_row("MOVCOUNT", e.MQIACF_MOVABLE_APPL_COUNT),
        _word_row("BALANCED", BALANCED.items(), e.MQIACF_BALANCED),
    ),
    APSTATUS_QMGR: (
        _word_row("ACTIVE", _NO_YES, e.MQIACF_REMOTE_QMGR_ACTIVE),
        _number_row("COUNT", e.MQIACF_APPL_COUNT),
        _number_row("MOVCOUNT", e.MQIACF_MOVABLE_APPL_COUNT),
        _word_row("BALSTATE", BALANCE_STATE.items(), e.MQIACF_BALSTATE),
        _text_row("LMSGDATE", e.MQCACF_LAST_MSG_DATE, _DATE_BYTES),
        _text_row("LMSGTIME", e.MQCACF_LAST_MSG_TIME, _TIME_BYTES),
        _text_row("QMNAME", c.MQCA_Q_MGR_NAME, _NAME_LENGTH),
        _text_row("QMID", c.MQCA_Q_MGR_IDENTIFIER, c.MQ_Q_MGR_IDENTIFIER_LENGTH),
    ),
    APSTATUS_LOCAL: (
        # Bytes in PCF.
        _text_row("CONNTAG"),
        _number_row("CONNS", k.MQIACF_CONNECTION_COUNT),
        _word_row("MOVABLE", _NO_YES, e.MQIACF_APPL_MOVABLE),
        _word_row("IMMREASN", IMMOVABLE.items(), e.MQIACF_APPL_IMMOVABLE_REASON),
        _number_row("IMMCOUNT", e.MQIACF_APPL_IMMOVABLE_COUNT),
        _text_row("IMMDATE", e.MQCACF_APPL_IMMOVABLE_DATE, _DATE_BYTES),
        _text_row("IMMTIME", e.MQCACF_APPL_IMMOVABLE_TIME, _TIME_BYTES),
    ),
    QSTATS: (
        _number_row("HIQDEPTH", e.MQIA_HIGH_Q_DEPTH),
        _number_row("MSGSIN", e.MQIA_MSG_ENQ_COUNT),
        _number_row("MSGSOUT", e.MQIA_MSG_DEQ_COUNT),
        _number_row("RESETINT", e.MQIA_TIME_SINCE_RESET, SECONDS),
    ),
    SECURITY: (
        *(attributes_of(QMGR)[keyword] for keyword in ("CHLAUTH", "CONNAUTH", "REVDNS")),
        attributes_of(QMGR)["AUTHCHK"],
    ),
    AUTHSERV: (_word_row("UIDSUPP", _NO_YES, k.MQIACF_USER_ID_SUPPORT),),
    QSTATUS_HANDLE: (
        _text_row("APPLTAG", k.MQCACF_APPL_TAG),
        _word_row("APPLTYPE", APPLICATION_TYPES.items(), c.MQIA_APPL_TYPE),
        _word_row("BROWSE", _NO_YES, k.MQIACF_OPEN_BROWSE),
        _word_row("INQUIRE", _NO_YES, k.MQIACF_OPEN_INQUIRE),
        _word_row("OUTPUT", _NO_YES, k.MQIACF_OPEN_OUTPUT),
        _word_row("SET", _NO_YES, k.MQIACF_OPEN_SET),
        _word_row("INPUT", INPUT_TYPES.items(), k.MQIACF_OPEN_INPUT_TYPE),
        _text_row("CHANNEL", k.MQCACH_CHANNEL_NAME),
        _text_row("CONNAME", k.MQCACH_CONNECTION_NAME),
        _text_row("CONN"),
        _text_row("USERID", k.MQCACF_USER_IDENTIFIER),
    ),
    TPSTATUS_PUB: (_text_row("ACTCONN"), _text_row("USERID", k.MQCACF_USER_IDENTIFIER)),
    HANDLE: (
        _text_row("OBJNAME", k.MQCACF_OBJECT_NAME),
        _word_row("OBJTYPE", HANDLE_TYPES.items(), k.MQIACF_OBJECT_TYPE),
        # The names of MQOO options.
        _text_row("OPENOPTS"),
        _text_row("APPLTAG", k.MQCACF_APPL_TAG),
        _text_row("USERID", k.MQCACF_USER_IDENTIFIER),
    ),
}


class AdminError(OptionsError):
    """The value of an attribute is wrong: MQSC keyword, value, and a text about the error.

    The reason code is one of MQRCCF_*, or MQRC_SELECTOR_ERROR for an unknown attribute.
    """

    def __init__(self, reason: int, attribute: str, value: Value, detail: str) -> None:
        """Store a reason code (MQRCCF_* or MQRC_*), MQSC keyword, value, and error text."""
        super().__init__(reason, detail)
        self.attribute = attribute
        self.value = value

    @property
    def reason_name(self) -> str:
        """The name of the reason code, as ``MQRCCF_PARM_MISSING``."""
        return _NAMES.get(self.reason) or rc.reason_name(self.reason)

    def __str__(self) -> str:
        """Return name and number of the reason code, and the text: ``NAME (3012): text``."""
        return f"{self.reason_name} ({self.reason}): {self.detail}"


class WrongValue(AdminError):
    """A value is outside the range, type or length of its attribute (MQRCCF_ATTR_VALUE_ERROR).

    The text is the keyword with the value, followed by ``complaint``. ``shows_value`` tells a codec
    to put the value behind the keyword in its text.
    """

    def __init__(
        self, attribute: Attribute, value: Value, complaint: str, *, shows_value: bool = False
    ) -> None:
        """Make the error text from keyword, value and ``complaint``: ``MAXDEPTH(-1) is not …``.

        With ``shows_value`` an error text of MQSC begins with keyword and value, otherwise with the
        keyword alone. The reason code is MQRCCF_ATTR_VALUE_ERROR.
        """
        text = f"{attribute.keyword}({value}){complaint}"
        super().__init__(MQRCCF_ATTR_VALUE_ERROR, attribute.keyword, value, text)
        self.complaint = complaint
        self.shows_value = shows_value


class WrongObject(AdminError):
    """The attributes make no valid object: one is missing, or two contradict each other."""


class UnknownLikeObject(ObjectError):
    """The object named by LIKE does not exist; the reason code is MQRC_UNKNOWN_OBJECT_NAME."""

    def __init__(self, kind: str, name: str) -> None:
        """Make the error for the object type and name that LIKE names."""
        super().__init__(rc.MQRC_UNKNOWN_OBJECT_NAME, f"{kind} {name} is not defined")
        self.name = name


def unknown_attribute(kind: str, keyword: str, value: Value) -> AdminError:
    """Return the AdminError (MQRC_SELECTOR_ERROR) for a keyword that an object type lacks."""
    text = f"{keyword} is no attribute of {kind}"
    return AdminError(rc.MQRC_SELECTOR_ERROR, keyword, value, text)


def fixed_attribute(keyword: str, value: Value) -> AdminError:
    """Return the AdminError (MQRCCF_ATTR_VALUE_FIXED) for an attribute that ALTER cannot change."""
    return AdminError(MQRCCF_ATTR_VALUE_FIXED, keyword, value, f"{keyword} cannot be changed")


def missing_attribute(keyword: str, why: str = "") -> WrongObject:
    """Return the WrongObject (MQRCCF_PARM_MISSING) for a required attribute that is missing.

    ``why`` is added to its text; empty adds nothing.
    """
    text = f"{keyword} is missing" + (f": {why}" if why else "")
    return WrongObject(MQRCCF_PARM_MISSING, keyword, "", text)


def fold(text: str) -> str:
    """Return a text in upper case; only ASCII letters change (``'Größe'`` -> ``'GRößE'``)."""
    return text.translate(_UPPER)


def named(attribute: Attribute | None, value: Value) -> Value:
    """Return the word of an attribute for a number, as ``'YES'`` for 1.

    A value without a word, and any value for ``attribute`` None, is returned unchanged.
    """
    words = () if attribute is None else attribute.words
    return next((word for word, number in words if number == value), value)


def number_of(attribute: Attribute, text: str) -> int | None:
    """Return the number for a word or for digits of an attribute: ``'yes'`` -> 1, ``'25'`` -> 25.

    Returns None for an unknown word, and for a number outside the range.
    """
    words = dict(attribute.words)
    if fold(text) in words:
        return words[fold(text)]
    if _NUMBER.fullmatch(text) and attribute.low <= int(text) <= attribute.high:
        return int(text)
    return None


def with_numbers(kind: str, attributes: Mapping[str, Value]) -> dict[str, Value]:
    """Return a copy of attributes, with words replaced by their numbers (``'YES'`` -> 1).

    An unknown word or keyword stays as it is; :func:`checked_all` refuses it later.
    """
    known = object_type(kind).attributes
    given = dict(attributes)
    for keyword, value in attributes.items():
        attribute = known.get(keyword)
        if attribute is not None and not attribute.is_text and isinstance(value, str):
            number = number_of(attribute, value)
            given[keyword] = value if number is None else number
    return given


def allowed(attribute: Attribute) -> str:
    """Return the allowed values of a numeric attribute as text, for error messages.

    Example: ``'NOLIMIT or a number from 1 to 10'``.
    """
    choices = [word for word, _ in attribute.words]
    if attribute.low <= attribute.high:
        choices.append(f"a number from {attribute.low} to {attribute.high}")
    return " or ".join(choices)


def checked(attribute: Attribute, value: Value) -> Value:
    """Return a value as it is stored: a number unchanged, a text without blanks at its end.

    In MQ, blanks pad character attributes. Raises WrongValue for a wrong type, a number that is not
    allowed, or a text that is too long, not printable, or no object name.
    """
    if isinstance(value, bool) or isinstance(value, str) != attribute.is_text:
        raise WrongValue(attribute, value, f" takes {'text' if attribute.is_text else 'a number'}")
    if isinstance(value, str):
        return _checked_text(attribute, value.rstrip(" "))
    if not attribute.low <= value <= attribute.high and value not in dict(attribute.words).values():
        text = f" is not right: it must be {allowed(attribute)}"
        raise WrongValue(attribute, value, text, shows_value=True)
    return value


def checked_all(kind: str, attributes: Mapping[str, Value]) -> dict[str, Value]:
    """Return the attributes of an object type as they are stored, by keyword.

    Raises AdminError for an unknown keyword, WrongValue for an invalid value.
    """
    known = object_type(kind).attributes
    values: dict[str, Value] = {}
    for keyword, value in attributes.items():
        if keyword not in known:
            raise unknown_attribute(kind, keyword, value)
        values[keyword] = checked(known[keyword], value)
    return values


def _checked_text(attribute: Attribute, value: str) -> str:
    """Return a text unchanged if it is valid for its attribute.

    Words are returned in upper case; a list is checked text by text. Raises WrongValue if it is not
    printable, too long (UTF-8 bytes), no object name (attributes of 48 bytes), no word that is
    possible, or an invalid CUSTOM.
    """
    if attribute.is_list:
        one = attribute._replace(is_list=False)
        return list_text(_checked_text(one, each.strip(" ")) for each in entries_of(value))
    if not value.isprintable():
        raise WrongValue(attribute, value, " holds a character that cannot be printed")
    if attribute.choices:
        if fold(value) not in attribute.choices:
            text = f" is not right: it must be {' or '.join(attribute.choices)}"
            raise WrongValue(attribute, value, text, shows_value=True)
        return fold(value)
    if attribute.length == _NAME_LENGTH and not attribute.takes_any_text:
        if value:
            _check_name(attribute, value)
        return value
    length_bytes = len(value.encode())
    if length_bytes > attribute.length:
        text = f" is {length_bytes} bytes long; it may have {attribute.length}"
        raise WrongValue(attribute, value, text)
    if attribute.keyword == "CUSTOM":
        _check_custom(attribute, value)
    return value


def entries_of(text: str) -> list[str]:
    """Return the texts in a list, ``"A,'b,c'"`` -> ``['A', 'b,c']``; [] for an empty text."""
    return next(csv.reader([text], quotechar=_QUOTE, skipinitialspace=True), [])


def list_text(entries: Iterable[str]) -> str:
    """Return texts as one list, a line of CSV with ``'`` as quote; empty texts are left out.

    ``['A', 'b,c']`` -> ``"A,'b,c'"``.
    """
    line = StringIO()
    csv.writer(line, quotechar=_QUOTE, lineterminator="").writerow(filter(None, entries))
    return line.getvalue()


def type_of(kind: str, attributes: Mapping[str, Value]) -> str:
    """Return the word in CHLTYPE or AUTHTYPE of an object, empty for a kind without types."""
    keyword = TYPED_BY.get(kind)
    return "" if keyword is None else str(named(attributes_of(kind)[keyword], attributes[keyword]))


def check_type(kind: str, object_type: str, given: Mapping[str, Value]) -> None:
    """Raise AdminError (MQRCCF_PARM_CONFLICT) for an attribute that objects of a type do not have.

    ``given`` are the attributes to check. ``object_type`` is the word in CHLTYPE or AUTHTYPE.
    """
    for keyword, value in given.items():
        if not has_attribute(kind, object_type, keyword):
            text = f"{keyword} is not a keyword of {kind} {TYPED_BY[kind]}({object_type})"
            raise AdminError(MQRCCF_PARM_CONFLICT, keyword, value, text)


def shown_values(definition: Definition) -> dict[str, Value]:
    """Return the values of an object by keyword: those of the attributes that its type has.

    Attributes without effect in Mayfly are included.
    """
    values = definition.every_attribute
    object_type = type_of(definition.kind, values)
    return {k: v for k, v in values.items() if has_attribute(definition.kind, object_type, k)}


def _check_name(attribute: Attribute, name: str) -> None:
    """Raise WrongValue unless a text is a valid MQ object name (1 to 48 characters)."""
    try:
        check_name(name)
    except MQError as error:
        raise WrongValue(attribute, name, f": {error.detail}") from error


def _check_custom(attribute: Attribute, value: str) -> None:
    """Raise WrongValue unless CUSTOM is empty or ``CAPEXPRY(n)``, with a valid n."""
    cap = attributes_of(QLOCAL)["CAPEXPRY"]
    pairs = [_CUSTOM_PAIR.fullmatch(pair) for pair in value.split()]
    for pair in pairs:
        if pair is None or fold(pair[1]) != cap.keyword or number_of(cap, pair[2]) is None:
            choice = f"it must be '' or 'CAPEXPRY(n)' where n is {allowed(cap)}"
            text = f" is not right: {choice}"
            raise WrongValue(attribute, value, text, shows_value=True)
    if len(pairs) > 1:
        raise WrongValue(attribute, value, " gives CAPEXPRY twice", shows_value=True)


class Filter(NamedTuple):
    """A WHERE condition: keyword, operator (``LT`` … ``GT``, ``LK``, ``NL``) and value.

    An object without the keyword does not pass. A number with a word, such as NOLIMIT, is neither
    less nor greater than other numbers. For EQ and NE ``value`` is the number or its word.
    """

    keyword: str
    operator: str
    value: Value

    def passes(self, record: Record) -> bool:
        """Return True if an object fulfils the condition; False if it lacks the keyword."""
        found = record.values.get(self.keyword)
        if found is None:
            return False
        row = object_type(record.kind).row(self.keyword)
        found = named(row, found)
        wanted = named(row, self.value) if self.operator in UNORDERED else self.value
        if self.operator in (LIKE, NOT_LIKE):
            return matches(str(found), str(wanted)) == (self.operator == LIKE)
        if isinstance(found, str) != isinstance(wanted, str):
            return self.operator == "NE"
        return _ORDERINGS[self.operator](found, wanted)
