"""The kinds of objects, and what each shows: attributes that can be set, and how it stands.

Codecs ask here for names, types, ranges and MQIA_/MQCA_ numbers. Attributes that can be set are the
rows of the engine's tables (``engine/attributes``): a new row there is known to every codec.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from mayfly.channel import Status
from mayfly.engine.face.administration import (
    CHANNEL,
    PROCESS,
    QLOCAL,
    QMGR,
    SECONDS,
    SUB,
    TOPIC,
    TOPIC_VALUES,
    Attribute,
    attributes_of,
)
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.verbs.facts import Value

#: Kinds of status, which are no objects.
QSTATUS: Final = "QSTATUS"
TPSTATUS: Final = "TPSTATUS"
CHSTATUS: Final = "CHSTATUS"
#: The running queue manager as a whole.
QMSTATUS: Final = "QMSTATUS"
#: Connections, and what each has open.
CONN: Final = "CONN"
HANDLE: Final = "HANDLE"
ENTAUTH: Final = "ENTAUTH"
PUBSUB: Final = "PUBSUB"
GROUP_STATUS: Final = "GROUP"
#: Mayfly's own: settings, which the folder keeps beside objects.
SETTING: Final = "SETTING"

NO, YES = 0, 1
_NO_YES: Final = (("NO", NO), ("YES", YES))
#: MQSUBTYPE_*, by the word that a subscription is stored with.
SUBSCRIPTION_TYPES: Final = {"API": 1, "ADMIN": 2, "PROXY": 3}
#: MQSUB_DURABLE_*.
_DURABLE: Final = (("YES", YES), ("NO", 2))
DURABLE_YES, DURABLE_NO = YES, 2
#: MQCHS_*.
CHANNEL_STATUS: Final = {
    Status.INACTIVE: 0,
    Status.STARTING: 2,
    Status.RUNNING: 3,
    Status.STOPPING: 4,
    Status.RETRYING: 5,
    Status.STOPPED: 6,
    Status.PAUSED: 8,
}
#: Mayfly's own: how the delay processor stands.
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
#: MQUOWST_*.
UNIT_OF_WORK_STATES: Final = {"NONE": 0, "ACTIVE": 1}
PLATFORMS: Final = {"distributed": c.MQPL_UNIX, "ibmi": c.MQPL_OS400, "zos": c.MQPL_ZOS}
_LONGEST_TEXT: Final = 10_240


class ObjectType(NamedTuple):
    """One kind of object: attributes that can be set, and status, both by MQSC keyword."""

    kind: str
    attributes: Mapping[str, Attribute]
    shown: Mapping[str, Attribute]

    def row(self, keyword: str) -> Attribute | None:
        """Return an attribute of either sort, None when there is none."""
        return self.attributes.get(keyword) or self.shown.get(keyword)


class Record(NamedTuple):
    """One object as it stands: values by keyword; a word is the number that it stands for."""

    kind: str
    name: str
    values: Mapping[str, Value]


@cache
def object_type(kind: str) -> ObjectType:
    """Return a kind of object; one that is not known has no attributes."""
    rows = {row.keyword: row for row in _SHOWN.get(kind, ())}
    return ObjectType(kind, attributes_of(kind), MappingProxyType(rows))


def displayed(kinds: Iterable[str]) -> Mapping[str, Attribute]:
    """Return everything that objects of some kinds show, in order, by keyword."""
    rows: dict[str, Attribute] = {}
    for kind in kinds:
        found = object_type(kind)
        for keyword, row in (*found.attributes.items(), *found.shown.items()):
            rows.setdefault(keyword, row)
    return rows


def _number(keyword: str, selector: int | None = None, unit: str = "") -> Attribute:
    return Attribute(keyword, "", (), 0, selector, -(2**63), 2**63 - 1, (), 0, unit)


def _word(keyword: str, words: Iterable[tuple[str, int]], selector: int | None = None) -> Attribute:
    return Attribute(keyword, "", (), 0, selector, 0, -1, tuple(words), 0)


def _text(keyword: str, selector: int | None = None) -> Attribute:
    return Attribute(keyword, "", (), "", selector, 0, -1, (), _LONGEST_TEXT)


_COUNTS = (
    _number("CURDEPTH", c.MQIA_CURRENT_Q_DEPTH),
    _number("IPPROCS", c.MQIA_OPEN_INPUT_COUNT),
    _number("OPPROCS", c.MQIA_OPEN_OUTPUT_COUNT),
)
_DEFINITION_TYPE = _word(
    "DEFTYPE",
    (
        ("PREDEFINED", c.MQQDT_PREDEFINED),
        ("PERMDYN", c.MQQDT_PERMANENT_DYNAMIC),
        ("TEMPDYN", c.MQQDT_TEMPORARY_DYNAMIC),
    ),
    c.MQIA_DEFINITION_TYPE,
)
_TYPE_OF_CHANNEL = attributes_of(CHANNEL)["CHLTYPE"]
_SHOWN: dict[str, tuple[Attribute, ...]] = {
    QLOCAL: (*_COUNTS, _DEFINITION_TYPE),
    SUB: (
        _word("SUBTYPE", SUBSCRIPTION_TYPES.items(), k.MQIACF_SUB_TYPE),
        _word("DURABLE", _DURABLE, k.MQIACF_DURABLE_SUBSCRIPTION),
    ),
    QMGR: (
        _number("CMDLEVEL", c.MQIA_COMMAND_LEVEL),
        _word(
            "PLATFORM",
            (("UNIX", c.MQPL_UNIX), ("OS400", c.MQPL_OS400), ("MVS", c.MQPL_ZOS)),
            c.MQIA_PLATFORM,
        ),
    ),
    QSTATUS: (
        *_COUNTS,
        _word("UNCOM", _NO_YES, k.MQIACF_UNCOMMITTED_MSGS),
        # Of the oldest message.
        _number("MSGAGE", k.MQIACF_OLDEST_MSG_AGE, SECONDS),
        # Mayfly's own: staged for this queue, alive, expired and still there.
        _number("STAGED"),
        _number("LIVE"),
        _number("EXPIRED"),
        _word("DDELAY", PROCESSOR_STATUS.items()),
    ),
    QMSTATUS: (
        _word("STATUS", MANAGER_STATUS.items(), k.MQIACF_Q_MGR_STATUS),
        _number("CONNS", k.MQIACF_CONNECTION_COUNT),
        # Mayfly's own: whether puts are refused for want of room; how releases go.
        _word("DISK", DISK_STATUS.items()),
        _word("DDELAY", PROCESSOR_STATUS.items()),
    ),
    SETTING: (_text("VALUE"), _text("DEFAULT")),
    TPSTATUS: (
        _text("ADMIN", c.MQCA_ADMIN_TOPIC_NAME),
        *(attributes_of(TOPIC)[keyword] for keyword in TOPIC_VALUES),
        _word("RETAINED", _NO_YES, k.MQIACF_RETAINED_PUBLICATION),
        _number("SUBCOUNT", c.MQIA_SUB_COUNT),
    ),
    CHSTATUS: (
        _TYPE_OF_CHANNEL,
        _word(
            "STATUS",
            ((str(status), number) for status, number in CHANNEL_STATUS.items()),
            k.MQIACH_CHANNEL_STATUS,
        ),
        _text("CONNAME", k.MQCACH_CONNECTION_NAME),
        _text("RQMNAME", c.MQCA_REMOTE_Q_MGR_NAME),
        _text("XMITQ", k.MQCACH_XMIT_Q_NAME),
        _number("MSGS", k.MQIACH_MSGS),
        _number("BATCHES", k.MQIACH_BATCHES),
        _number("BYTSSENT", k.MQIACH_BYTES_SENT),
        _number("BYTSRCVD", k.MQIACH_BYTES_RECEIVED),
        _number("HBINT", k.MQIACH_HB_INTERVAL, unit=SECONDS),
        _number("CURSEQNO", k.MQIACH_CURRENT_SEQUENCE_NUMBER),
        _number("LSTSEQNO", k.MQIACH_LAST_SEQUENCE_NUMBER),
        _text("CURLUWID", k.MQCACH_CURRENT_LUWID),
        _text("LSTLUWID", k.MQCACH_LAST_LUWID),
        _word("INDOUBT", _NO_YES, k.MQIACH_INDOUBT_STATUS),
        _number("SHORTRTS", k.MQIACH_SHORT_RETRIES_LEFT),
        _number("LONGRTS", k.MQIACH_LONG_RETRIES_LEFT),
        # Mayfly's own: why it retries or has stopped.
        _text("FAILURE"),
        # Of a channel of clients.
        _text("MCAUSER", k.MQCACH_MCA_USER_ID),
        _text("RAPPLTAG", k.MQCACH_REMOTE_APPL_TAG),
        _number("CURSHCNV", k.MQIACH_CURRENT_SHARING_CONVS),
        _text("CHSTADA", k.MQCACH_CHANNEL_START_DATE),
        _text("CHSTATI", k.MQCACH_CHANNEL_START_TIME),
    ),
    CONN: (
        _text("APPLTAG", k.MQCACF_APPL_TAG),
        _text("USERID", k.MQCACF_USER_IDENTIFIER),
        _text("CHANNEL", k.MQCACH_CHANNEL_NAME),
        _text("CONNAME", k.MQCACH_CONNECTION_NAME),
        # Mayfly's own: how many are open.
        _number("HANDLES"),
        _word("UOWSTATE", UNIT_OF_WORK_STATES.items(), k.MQIACF_UOW_STATE),
        _text("UOWSTDA", k.MQCACF_UOW_START_DATE),
        _text("UOWSTTI", k.MQCACF_UOW_START_TIME),
        # Mayfly's own.
        _number("UOWAGE", unit=SECONDS),
    ),
    HANDLE: (
        _text("OBJNAME", k.MQCACF_OBJECT_NAME),
        _word("OBJTYPE", HANDLE_TYPES.items(), k.MQIACF_OBJECT_TYPE),
        # The names of MQOO options.
        _text("OPENOPTS"),
        _text("APPLTAG", k.MQCACF_APPL_TAG),
        _text("USERID", k.MQCACF_USER_IDENTIFIER),
    ),
}
