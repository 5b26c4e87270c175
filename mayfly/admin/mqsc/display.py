"""Display of MQSC: the output of DISPLAY commands, and the reply messages of runmqsc."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from mayfly.admin import (
    APSTATUS,
    APSTATUS_LOCAL,
    APSTATUS_QMGR,
    AUTHINFO,
    AUTHREC,
    AUTHSERV,
    CHANNEL,
    CHLAUTH,
    CHSTATUS,
    CLNTCONN,
    CONN,
    ENTAUTH,
    GROUP_STATUS,
    HANDLE,
    INQUIRABLE,
    KEPT_KINDS,
    LIKE,
    NOT_LIKE,
    ORDERINGS,
    OWN_ATTRIBUTES,
    PROCESS,
    PUBSUB,
    QMGR,
    QMSTATUS,
    QSTATUS,
    QSTATUS_HANDLE,
    QUEUE_KINDS,
    SBSTATUS,
    SECURITY,
    SETTING,
    SUB,
    TOPIC,
    TPSTATUS,
    TPSTATUS_PUB,
    TPSTATUS_SUB,
    UNORDERED,
    Attribute,
    Filter,
    Record,
    Value,
    displayed,
    fold,
    named,
    number_of,
    object_type,
)
from mayfly.admin.mqsc.grammar import (
    FLAGS,
    Command,
    MqscSyntaxError,
    Parameter,
    nearest,
    no_value,
    unknown,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.mqi.event_constants import MQRCCF_EVENTS_DISABLED
from mayfly.verbs.facts import MqscMessage

#: The attributes that one keyword shows, by kind; none for a keyword that changes nothing here.
_GROUPS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    QMGR: {
        "SYSTEM": tuple(
            (
                "ACCTCONO ACCTINT ACCTMQI ACCTQ ACTIVREC ACTVCONO ACTVTRC ADVCAP AMQPCAP CCSID"
                " CFCONLOS CMDLEVEL COMMANDQ CONNAUTH CUSTOM DEADQ DESCR DISTL EXPRYINT GROUPUR"
                " IMGINTVL IMGLOGLN IMGRCOVO IMGRCOVQ IMGSCHED INITKEY MARKINT MAXHANDS MAXMSGL"
                " MAXPROPL MAXPRTY MAXUMSGS MONQ PLATFORM ROUTEREC SCMDSERV SCYCASE SPLCAP"
                " SQQMNAME STATINT STATMQI STATQ SYNCPT TRIGINT VERSION XRCAP"
            ).split()
        ),
        "CHINIT": tuple(
            (
                "ACTCHL ADOPTCHK ADOPTMCA CERTLABL CERTQSGL CERTVPOL CHAD CHADEV CHADEXIT"
                " CHIADAPS CHIDISPS CHISERVP CHLAUTH CHLEV DEADQ DEFXMITQ DNSGROUP DNSWLM IGQ"
                " IGQAUT IGQUSER IPADDRV KEYRPWD LSTRTMR LU62ARM LU62CHL LUGROUP LUNAME MAXCHL"
                " MONACLS MONCHL OPORTMAX OPORTMIN RCVTIME RCVTMIN RCVTTYPE REVDNS SCHINIT"
                " SSLCRLNL SSLCRYP SSLEV SSLFIPS SSLKEYR SSLRKEYC SSLTASKS STATACLS STATCHL"
                " SUITEB TCPCHL TCPKEEP TCPNAME TCPSTACK TRAXSTR TRAXTBL"
            ).split()
        ),
        "EVENT": tuple(
            "AUTHOREV BRIDGEEV CHADEV CHLEV CMDEV CONFIGEV INHIBTEV LOCALEV LOGGEREV PERFMEV"
            " REMOTEEV SSLEV STRSTPEV".split()
        ),
        "PUBSUB": tuple("PARENT PSCLUS PSMODE PSNPMSG PSNPRES PSRTYCNT PSSYNCPT TREELIFE".split()),
        "CLUSTER": tuple(
            "CLWLDATA CLWLEXIT CLWLLEN CLWLMRUC CLWLUSEQ DEFCLXQ MONACLS REPOS REPOSNL".split()
        ),
    },
    QSTATUS: {
        "MONITOR": ("LGETDATE", "LGETTIME", "LPUTDATE", "LPUTTIME", "MONQ", "MSGAGE", "QTIME")
    },
    CHSTATUS: {"CURRENT": (), "SAVED": (), "MONITOR": ()},
    SUB: {"SUMMARY": ()},
}
_ALTERED: Final = "ALTDATE ALTTIME"
_MADE: Final = "CRDATE CRTIME"
_OF_CLUSTER: Final = "CLUSDATE CLUSQMGR CLUSTIME QMID"
#: Attributes of IBM MQ on distributed platforms that nothing here has, by kind.
_BLANK: Final[Mapping[str, frozenset[str]]] = {
    kind: frozenset(words.split())
    for kind, words in (
        (QMGR, f"{_ALTERED} {_MADE} AUTHEVSC CPILEVEL"),
        *((kind, f"{_ALTERED} {_MADE} {_OF_CLUSTER} CLUSQT") for kind in QUEUE_KINDS),
        *((kind, _ALTERED) for kind in (CHANNEL, CLNTCONN)),
        (TOPIC, f"{_ALTERED} {_OF_CLUSTER} CLSTATE"),
        (SUB, f"{_ALTERED} {_MADE}"),
        (APSTATUS_LOCAL, "BALOPTS BALTMOUT BALTYPE"),
        (AUTHSERV, "IFVER"),
        *((kind, "MCASTREL") for kind in (SBSTATUS, TPSTATUS_SUB)),
        (TPSTATUS, "CLROUTE LPUBDATE LPUBTIME MCASTREL NUMPUBS PUBCOUNT"),
        (QSTATUS, "CURFSIZE CURMAXFS MEDIALOG"),
        (QSTATUS_HANDLE, "APPLDESC ASTATE HSTATE PID QMURID TID URID URTYPE"),
        (
            QMSTATUS,
            (
                "ARCHLOG ARCHSZ AUTOCLUS CHINIT CHKPTCNT CHKPTOPS CHKPTSZ CMDSERV CURRLOG"
                " DATFSSZ DATFSUSE DATPATH DISKLSN GRPLSN GRPNAME GRPROLE HOSTNAME INSTANCE"
                " INSTDESC INSTNAME INSTPATH LDAPCONN LOG LOGEXTSZ LOGFSSZ LOGFSUSE LOGINUSE"
                " LOGPATH LOGPRIM LOGSEC LOGSTRDA LOGSTRL LOGSTRTI LOGTYPE LOGUTIL MEDIALOG"
                " MEDIASZ NHATYPE QMFSENC QMFSSZ QMFSUSE QUORUM RECLOG RECSZ REUSESZ STANDBY"
                " STARTDA STARTTI UNICLUS"
            ),
        ),
        (
            CHSTATUS,
            (
                "AMQPKA BATCHSZ BUFSRCVD BUFSSENT COMPHDR COMPMSG COMPRATE COMPTIME CURMSGS"
                " EXITTIME JOBNAME KAINT LOCLADDR LSTMSGDA LSTMSGTI MAXMSGL MAXSHCNV MCASTAT"
                " MONCHL NETTIME NPMSPEED PORT QMNAME RPRODUCT RVERSION SECPROT SSLCERTI"
                " SSLCERTU SSLCIPH SSLKEYDA SSLKEYTI SSLPEER SSLRKEYS STATCHL STOPREQ SUBSTATE"
                " TPROOT USECLTID XBATCHSZ XQMSGSA XQTIME"
            ),
        ),
        (
            CONN,
            (
                "APPLDESC ASTATE CLIENTID CONNOPTS CONNTAG EXTCONN EXTURID PID TID UOWLOG"
                " UOWLOGDA UOWLOGTI URTYPE"
            ),
        ),
        (HANDLE, "ASTATE DEST DESTQMGR HSTATE READA SUBID SUBNAME TOPICSTR"),
    )
}


def group_of(kinds: Iterable[str], keyword: str) -> tuple[str, ...] | None:
    """Return the attributes of some kinds that a keyword such as EVENT stands for.

    Returns () for a keyword that says nothing here, as CURRENT, and None for one that is no group.
    """
    found = (_GROUPS[kind].get(keyword) for kind in kinds if kind in _GROUPS)
    return next((group for group in found if group is not None), None)


def is_blank(kinds: Iterable[str], keyword: str) -> bool:
    """Return True for an attribute of IBM MQ of which nothing here has a value, as PID of CONN."""
    return any(keyword in _BLANK.get(kind, ()) for kind in kinds)


_INDENT = "   "
_COLUMN_WIDTH = 40
_TYPE: Final = "TYPE"
#: The attributes with which a row always begins, by kind, the name first; other kinds begin as a
#: queue does.
_ALWAYS: dict[str, tuple[str, ...]] = {
    QMGR: ("QMNAME",),
    TOPIC: ("TOPIC", _TYPE),
    TPSTATUS: ("TPSTATUS",),
    **dict.fromkeys((TPSTATUS_SUB, TPSTATUS_PUB), ("TPSTATUS", _TYPE)),
    SUB: ("SUB", "SUBID"),
    PROCESS: (PROCESS,),
    CHANNEL: (CHANNEL, "CHLTYPE"),
    CLNTCONN: (CHANNEL, "CHLTYPE"),
    AUTHINFO: (AUTHINFO, "AUTHTYPE"),
    **{kind: (kind,) for kind in KEPT_KINDS},
    CHSTATUS: (CHANNEL, "CHLTYPE"),
    QMSTATUS: ("QMNAME",),
    CONN: (CONN, _TYPE),
    HANDLE: (CONN, _TYPE),
    PUBSUB: ("QMNAME",),
    GROUP_STATUS: ("QMNAME",),
    SBSTATUS: (SUB, "SUBID"),
    **dict.fromkeys((APSTATUS, APSTATUS_QMGR, APSTATUS_LOCAL), ("APPLNAME", _TYPE)),
    SECURITY: ("QMNAME",),
    SETTING: (SETTING,),
    AUTHREC: (),
    AUTHSERV: (),
    CHLAUTH: (
        CHLAUTH,
        _TYPE,
        "SSLPEER",
        "SSLCERTI",
        "CLNTUSER",
        "QMNAME",
        "ADDRESS",
        "ADDRLIST",
        "USERLIST",
        "USERSRC",
        "MCAUSER",
    ),
    ENTAUTH: (),
}
_QUEUE_ALWAYS = ("QUEUE", _TYPE)
#: TYPE of what is of one type only; a queue says its own.
_ONE_TYPE = {
    TOPIC: "LOCAL",
    QSTATUS: "QUEUE",
    QSTATUS_HANDLE: "HANDLE",
    TPSTATUS_SUB: "SUB",
    TPSTATUS_PUB: "PUB",
    APSTATUS: "APPL",
    APSTATUS_QMGR: "QMGR",
    APSTATUS_LOCAL: "LOCAL",
}
#: Words that are shown and never set: any word may be asked for.
_SHOWN_WORDS = frozenset(
    row.keyword
    for kind in INQUIRABLE
    for row in object_type(kind).shown.values()
    if row.words and not row.field
)
_NOT_FOUND = ("AMQ8147E", "IBM MQ object {name} not found.")
_EXISTS = ("AMQ8150E", "IBM MQ object {name} already exists.")
_IN_USE = ("AMQ8148E", "IBM MQ object {name} in use.")
_NOT_AVAILABLE = ("AMQ8146E", "IBM MQ queue manager not available.")
#: Reason code -> message of runmqsc; any other is AMQ8101S.
_FAILURES: dict[int, tuple[str, str]] = {
    rc.MQRC_UNKNOWN_OBJECT_NAME: _NOT_FOUND,
    # There is a queue of that name, but of another kind.
    rc.MQRC_OBJECT_TYPE_ERROR: _NOT_FOUND,
    rc.MQRC_NO_SUBSCRIPTION: _NOT_FOUND,
    rc.MQRC_OBJECT_ALREADY_EXISTS: _EXISTS,
    rc.MQRC_SUB_ALREADY_EXISTS: _EXISTS,
    rc.MQRC_OBJECT_IN_USE: _IN_USE,
    rc.MQRC_SUBSCRIPTION_IN_USE: _IN_USE,
    MQRCCF_EVENTS_DISABLED: (
        "MFY1010E",
        "Performance events are off: ALTER QMGR PERFMEV(ENABLED).",
    ),
    rc.MQRC_Q_NOT_EMPTY: ("AMQ8143E", "IBM MQ queue {name} not empty."),
    rc.MQRC_NOT_AUTHORIZED: ("AMQ8135E", "Not authorized."),
    rc.MQRC_CONNECTION_BROKEN: _NOT_AVAILABLE,
    rc.MQRC_Q_MGR_NOT_AVAILABLE: _NOT_AVAILABLE,
}
#: Reasons that may be about another object than the one of the command; how an error names it.
_ABOUT_OTHERS = (rc.MQRC_UNKNOWN_OBJECT_NAME, rc.MQRC_OBJECT_TYPE_ERROR)
_NAME_IN_DETAIL = re.compile(r"'([^']+)'")


def row_of(record: Record) -> dict[str, Value]:
    """Return an object as DISPLAY shows it: its name first, then attributes by keyword.

    SUBID comes before the name of a subscription. Numbers that have a word are shown as that word.
    """
    rows = object_type(record.kind)
    shown = {k: named(rows.row(k), value) for k, value in record.values.items()}
    always = _ALWAYS.get(record.kind, _QUEUE_ALWAYS)
    if record.kind == SUB:
        # Its id comes even before its name.
        return {"SUBID": shown.pop("SUBID"), "SUB": record.name, **shown}
    head: dict[str, Value] = dict.fromkeys(always[:1], record.name)
    if _TYPE in always:
        head[_TYPE] = _ONE_TYPE.get(record.kind, record.kind)
    return {**head, **shown}


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection of one DISPLAY command: keywords to show, and a filter.

    ``keywords`` None means all; with ``hides_kept`` those without effect are left out, unless the
    whole object has none. Those of ``hides`` are left out as well. Those of ``blanks`` are shown
    blank: they are of IBM MQ, and have no value here.
    """

    keywords: frozenset[str] | None
    filter: Filter | None
    hides_kept: bool = False
    hides: frozenset[str] = frozenset()
    blanks: tuple[str, ...] = ()

    def of(self, record: Record) -> dict[str, Value] | None:
        """Return the selected values of an object by keyword, None if the filter excludes it."""
        if self.filter is not None and not self.filter.passes(record):
            return None
        row = row_of(record)
        if self.keywords is None:
            hidden = set(object_type(record.kind).kept) if self.hides_kept else set()
            if record.kind in KEPT_KINDS:
                hidden = set()
            hidden |= self.hides
            always = _ALWAYS.get(record.kind, _QUEUE_ALWAYS)
            return {k: v for k, v in row.items() if k not in hidden or k in always}
        blank = dict.fromkeys(self.blanks, "")
        return {k: v for k, v in row.items() if k in self.keywords} | blank


def own_attributes(kind: str) -> str:
    """Return the attributes of a kind that are Mayfly's own, which DISPLAY ALL does not mean.

    They are keywords in the order of their table, with spaces between; "" for a kind without any.
    """
    return " ".join(each for each in object_type(kind).attributes if each in OWN_ATTRIBUTES)


def selection(
    parameters: Mapping[str, Parameter], kinds: tuple[str, ...], *, generic: bool
) -> Selection:
    """Return the selection in the parameters of a DISPLAY.

    ``kinds`` are the object types to display. ``generic`` is True if the name has an asterisk.
    Without keywords DISPLAY shows only the names for a generic name. For a full name it shows all
    attributes that have an effect in Mayfly. With ALL it shows all attributes of IBM MQ, also those
    that are stored without effect, and those of Mayfly's own that are named beside it. One of IBM
    MQ without a value here is blank where it is named. Raises MqscSyntaxError for an unknown
    keyword, or a keyword with a value.
    """
    known = displayed(kinds)
    always = _ALWAYS.get(kinds[0], _QUEUE_ALWAYS)
    wanted: set[str] = set()
    blanks: list[str] = []
    for keyword, parameter in parameters.items():
        if keyword == "WHERE":
            continue
        no_value(parameter)
        if keyword in FLAGS and keyword != parameter.keyword:
            raise parameter.wrong(f"DISPLAY takes {keyword}, not {parameter.keyword}")
        group = group_of(kinds, keyword)
        if group is not None:
            wanted.update(group)
            continue
        if keyword not in known and keyword not in (*always, "ALL"):
            if not is_blank(kinds, keyword):
                several = "QUEUE" if kinds[0] in QUEUE_KINDS else kinds[0]
                raise unknown(parameter, kinds[0] if len(kinds) == 1 else several, known)
            blanks.append(keyword)
        wanted.add(keyword)
    where = filter_of(parameters["WHERE"], kinds) if "WHERE" in parameters else None
    if "ALL" in wanted:
        return Selection(None, where, hides=OWN_ATTRIBUTES - wanted)
    if not (wanted or generic):
        return Selection(None, where, hides_kept=True)
    if where is not None:
        wanted.add(where.keyword)
    return Selection(frozenset(wanted.union(always)), where, blanks=tuple(blanks))


def filter_of(parameter: Parameter, kinds: tuple[str, ...]) -> Filter:
    """Return the filter in WHERE(keyword operator value), as WHERE(CURDEPTH GT 0).

    Raises MqscSyntaxError for another form, an unknown keyword, or a wrong operator or value.
    """
    if parameter.values is None or len(parameter.values) != 3:
        raise parameter.wrong("WHERE needs (keyword operator value), as in WHERE(CURDEPTH GT 0)")
    keyword, sign, value = parameter.values
    known = displayed(kinds)
    if keyword.text not in known:
        text = f"WHERE: {keyword.text} is not displayed here" + nearest(keyword.text, known)
        raise MqscSyntaxError(text, keyword.start, keyword.end)
    compared, possible = _compared(known[keyword.text], value.text)
    if sign.text not in possible:
        text = f"WHERE: {keyword.text} is compared by {', '.join(possible)}, not {sign.text}"
        raise MqscSyntaxError(text, sign.start, sign.end)
    if compared is None:
        text = f"WHERE: {value.text} is no value of {keyword.text}"
        raise MqscSyntaxError(text, value.start, value.end)
    return Filter(keyword.text, sign.text, compared)


def _compared(row: Attribute, text: str) -> tuple[Value | None, tuple[str, ...]]:
    """Return (the value in WHERE as its attribute needs it, the operators that are allowed).

    The value is a number for numeric attributes, otherwise text. It is None if it is not valid for
    the attribute.
    """
    if row.is_text:
        return text, (*ORDERINGS, LIKE, NOT_LIKE)
    if row.keyword in _SHOWN_WORDS:
        return fold(text), UNORDERED
    if row.low > row.high:
        return number_of(row, text), UNORDERED
    if fold(text) in dict(row.words):
        return fold(text), UNORDERED
    is_number = text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 19
    return int(text) if is_number else None, ORDERINGS


def body(row: Mapping[str, Value]) -> str:
    """Return an object as DISPLAY prints it: lines with three blanks, then one or two items.

    Two items of less than 40 columns share a line: ``QUEUE(A)`` and ``TYPE(QLOCAL)``.
    """
    items = deque(_item(keyword, value) for keyword, value in row.items())
    lines: list[str] = []
    while items:
        line = items.popleft()
        if items and max(len(line), len(items[0])) < _COLUMN_WIDTH:
            line = f"{line:<{_COLUMN_WIDTH}}{items.popleft()}"
        lines.append(_INDENT + line)
    return "\n".join(lines)


def _item(keyword: str, value: Value) -> str:
    """Return an attribute as ``KEYWORD(value)``, or the word alone for a flag such as NOTRIGGER.

    Characters that cannot be printed become ``.``; an empty value becomes a blank.
    """
    if keyword in FLAGS:
        return str(value)
    # A text set by a program can hold anything; a display line stays one line.
    text = "".join(c if c.isprintable() else "." for c in str(value))
    return f"{keyword}({text or ' '})"


class WithoutEffect(NamedTuple):
    """Attributes that a command has defined and nothing obeys: ``NPMCLASS(HIGH)`` of an object.

    ``text`` is the kind for a whole object that is only kept.
    """

    kind: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to a command: messages, the objects that it shows, what of it has no effect."""

    messages: tuple[MqscMessage, ...]
    rows: tuple[dict[str, Value], ...] = ()
    without_effect: tuple[WithoutEffect, ...] = ()


def failure(error: MQError, about: Parameter) -> MqscMessage:
    """Return the message of runmqsc for an error of the engine, AMQ8101S for most reasons.

    ``about`` is the command's object, whose name is in the message. An error about another object,
    such as the queue in DEST of a subscription, has the name of that one, and the error as body.
    """
    name = about.values[0].text if about.values else about.keyword
    code, text = _FAILURES.get(error.reason, ("AMQ8101S", f"IBM MQ error has occurred: {error}"))
    body = ""
    if error.reason in _ABOUT_OTHERS and error.detail and name not in error.detail:
        other = _NAME_IN_DETAIL.search(error.detail)
        name, body = other[1] if other else name, error.detail
    return MqscMessage(code, text.replace("{name}", name), body, error.reason)


def done(code: str, text: str) -> Reply:
    """Return the reply to a successful command: one message, no objects."""
    return Reply((MqscMessage(code, text),))


def not_found(name: str) -> Reply:
    """Return the reply AMQ8147E to a command about an object that does not exist."""
    code, text = _NOT_FOUND
    message = MqscMessage(code, text.format(name=name), reason=rc.MQRC_UNKNOWN_OBJECT_NAME)
    return Reply((message,))


def shown(
    records: Iterable[Record], wanted: Selection, pattern: str, code: str, text: str
) -> Reply:
    """Return the reply to a DISPLAY: a message for each object that ``wanted`` selects.

    The reply is AMQ8147E with ``pattern`` if no object is selected. ``code`` and ``text`` are
    those of each message.
    """
    found = [row for row in map(wanted.of, records) if row is not None]
    if not found:
        return not_found(pattern)
    return Reply(tuple(MqscMessage(code, text, body(row)) for row in found), tuple(found))


def nothing_else(command: Command, kind: str, remaining: dict[str, Parameter]) -> None:
    """Raise MqscSyntaxError if a parameter remains, which the command does not know."""
    for parameter in remaining.values():
        raise parameter.wrong(f"{parameter.keyword} is not a keyword of {command.verb} {kind}")
