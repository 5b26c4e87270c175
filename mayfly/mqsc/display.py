"""What DISPLAY shows: the values of an object, which of them are asked for, and how they print."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mayfly.engine.attributes import attributes_of
from mayfly.engine.attributes.attribute import (
    CHANNEL,
    PROCESS,
    QLOCAL,
    QMGR,
    SUB,
    TOPIC,
    Attribute,
    Value,
)
from mayfly.engine.objects.administration import queue_status
from mayfly.engine.objects.registry import STAGING_QUEUE
from mayfly.engine.pubsub.subscriptions import Subscription
from mayfly.engine.pubsub.topics import BASE_VALUES
from mayfly.mqi.constants import (
    MQQDT_PERMANENT_DYNAMIC,
    MQQDT_PREDEFINED,
    MQQDT_TEMPORARY_DYNAMIC,
)
from mayfly.mqsc.grammar import MqscSyntaxError, Parameter, fold
from mayfly.mqsc.values import (
    FLAGS,
    SHOWN_ONLY,
    matches,
    nearest,
    no_value,
    number_of,
    unknown,
    word_of,
)

if TYPE_CHECKING:
    from mayfly.engine.attributes.definition import Definition
    from mayfly.engine.manager import Manager

STATUS_KEYWORDS: Final = (
    "CURDEPTH",
    "IPPROCS",
    "OPPROCS",
    "UNCOM",
    "MSGAGE",
    "STAGED",
    "LIVE",
    "EXPIRED",
    "DDELAY",
)
QSTATUS: Final = "QSTATUS"
TPSTATUS: Final = "TPSTATUS"
CHSTATUS: Final = "CHSTATUS"
#: What DISPLAY TPSTATUS shows beside the values that apply to the topic string.
TOPIC_STATUS_KEYWORDS: Final = ("ADMIN", *BASE_VALUES, "RETAINED", "SUBCOUNT")
CHANNEL_STATUS_KEYWORDS: Final = (
    "CHLTYPE",
    "STATUS",
    "CONNAME",
    "RQMNAME",
    "XMITQ",
    "MSGS",
    "BATCHES",
    "CURSEQNO",
    "LSTSEQNO",
    "CURLUWID",
    "LSTLUWID",
    "INDOUBT",
    "SHORTRTS",
    "LONGRTS",
    # Mayfly's own: why it retries or has stopped.
    "FAILURE",
)
#: Shown as words that no row of the attribute table lists in full.
_SHOWN_WORDS: Final = (
    "UNCOM",
    "DEFTYPE",
    "DDELAY",
    "SUBTYPE",
    "DURABLE",
    "RETAINED",
    "STATUS",
    "INDOUBT",
)
_INDENT = "   "
_COLUMN_WIDTH = 40
_DEFTYPES = {
    MQQDT_PREDEFINED: "PREDEFINED",
    MQQDT_PERMANENT_DYNAMIC: "PERMDYN",
    MQQDT_TEMPORARY_DYNAMIC: "TEMPDYN",
}
_PLATFORMS = {"distributed": "UNIX", "ibmi": "OS400", "zos": "MVS"}
_ORDERINGS: dict[str, Callable[[Value, Value], bool]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "EQ": operator.eq,
    "NE": operator.ne,
    "GE": operator.ge,
    "GT": operator.gt,
}
_LIKE, _NOT_LIKE = "LK", "NL"
_UNORDERED = ("EQ", "NE")
#: What a row always begins with, by the kind of object; else with what a queue's does.
_ALWAYS: dict[str, tuple[str, ...]] = {
    QMGR: ("QMNAME",),
    TOPIC: ("TOPIC", "TYPE"),
    TPSTATUS: ("TPSTATUS",),
    SUB: ("SUBID", "SUB"),
    PROCESS: (PROCESS,),
    CHANNEL: (CHANNEL, "CHLTYPE"),
    CHSTATUS: (CHANNEL, "CHLTYPE"),
}
_QUEUE_ALWAYS = ("QUEUE", "TYPE")


@dataclass(frozen=True, slots=True)
class Filter:
    """WHERE(keyword operator value); an object without the keyword never passes."""

    keyword: str
    operator: str
    value: Value

    def passes(self, row: Mapping[str, Value]) -> bool:
        """Return whether an object is shown."""
        found = row.get(self.keyword)
        if found is None:
            return False
        if self.operator in (_LIKE, _NOT_LIKE):
            return matches(str(found), str(self.value)) == (self.operator == _LIKE)
        if isinstance(found, str) != isinstance(self.value, str):
            # A word such as NOLIMIT is neither less nor more than a number.
            return self.operator == "NE"
        return _ORDERINGS[self.operator](found, self.value)


def queue_row(queue_manager: Manager, definition: Definition) -> dict[str, Value]:
    """Return all that DISPLAY QUEUE knows of a queue; call it with the latch held."""
    known = attributes_of(definition.kind)
    row: dict[str, Value] = {"QUEUE": definition.name, "TYPE": definition.kind}
    row |= {k: word_of(a, definition.value(a)) for k, a in known.items()}
    if definition.kind == QLOCAL:
        queue = queue_manager.registry.queue(definition.name)
        row["CURDEPTH"] = queue.depth
        row["IPPROCS"] = queue.input_count
        row["OPPROCS"] = queue.output_count
        row["DEFTYPE"] = _DEFTYPES[definition.definition_type]
    return row


def status_row(queue_manager: Manager, name: str) -> dict[str, Value]:
    """Return what DISPLAY QSTATUS knows of a local queue; raises MQRC_UNKNOWN_OBJECT_NAME."""
    row: dict[str, Value] = {"QUEUE": name, "TYPE": "QUEUE", **queue_status(queue_manager, name)}
    if name == STAGING_QUEUE:
        # Whether the delivery delay processor runs (D28).
        row["DDELAY"] = queue_manager.delay_processor_status().partition(":")[0].upper()
    return row


def manager_row(queue_manager: Manager) -> dict[str, Value]:
    """Return what DISPLAY QMGR knows; call it with the latch held."""
    values = queue_manager.registry.queue_manager.attributes
    return {
        "QMNAME": queue_manager.name,
        **{k: word_of(a, values[k]) for k, a in attributes_of(QMGR).items()},
        "CMDLEVEL": queue_manager.command_level,
        "PLATFORM": _PLATFORMS[queue_manager.platform],
    }


def topic_row(definition: Definition) -> dict[str, Value]:
    """Return all that DISPLAY TOPIC knows of a topic object."""
    row: dict[str, Value] = {"TOPIC": definition.name, "TYPE": "LOCAL"}
    return row | _words(TOPIC, definition.attributes)


def topic_status_row(queue_manager: Manager, topic: str) -> dict[str, Value]:
    """Return what applies to a topic string; call it with the latch held."""
    registry = queue_manager.registry
    admin = registry.topics.at(topic)
    return {
        "TPSTATUS": topic,
        "ADMIN": "" if admin is None else admin.name,
        **_words(TOPIC, registry.topics.effective(topic)),
        "RETAINED": "YES" if topic in registry.retained else "NO",
        "SUBCOUNT": len(registry.subscriptions.matching(topic)),
    }


def subscription_row(subscription: Subscription) -> dict[str, Value]:
    """Return all that DISPLAY SUB knows of a subscription."""
    definition = subscription.definition
    return {
        "SUBID": definition.sub_id.upper(),
        "SUB": subscription.name,
        **_words(SUB, definition.attributes),
        "SUBTYPE": definition.made_by,
        "DURABLE": "YES" if subscription.is_durable else "NO",
    }


def _words(kind: str, values: Mapping[str, Value]) -> dict[str, Value]:
    return {k: word_of(a, values[k]) for k, a in attributes_of(kind).items() if k in values}


def shown_keywords(kinds: Iterable[str]) -> list[str]:
    """Return the keywords DISPLAY can show of these kinds of object, in order."""
    shown: dict[str, None] = {}
    for kind in kinds:
        if kind == QSTATUS:
            return list(STATUS_KEYWORDS)
        if kind == TPSTATUS:
            return list(TOPIC_STATUS_KEYWORDS)
        if kind == CHSTATUS:
            return list(CHANNEL_STATUS_KEYWORDS)
        shown |= dict.fromkeys((*attributes_of(kind), *SHOWN_ONLY.get(kind, ())))
    return list(shown)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a DISPLAY asks for: which objects, and which keywords of them (None: all)."""

    keywords: frozenset[str] | None
    filter: Filter | None

    def of(self, row: Mapping[str, Value]) -> dict[str, Value] | None:
        """Return what is shown of an object, None when its filter leaves it out."""
        if self.filter is not None and not self.filter.passes(row):
            return None
        if self.keywords is None:
            return dict(row)
        return {k: v for k, v in row.items() if k in self.keywords}


def selection(
    given: Mapping[str, Parameter], kinds: tuple[str, ...], *, generic: bool
) -> Selection:
    """Return what the keywords of a DISPLAY ask for; raises MqscSyntaxError.

    Without ALL and without a list all is shown of one object, only the name of generic ones.
    """
    known = shown_keywords(kinds)
    always = _ALWAYS.get(kinds[0], _QUEUE_ALWAYS)
    wanted: set[str] = set()
    for keyword, parameter in given.items():
        if keyword == "WHERE":
            continue
        no_value(parameter)
        if keyword in FLAGS and keyword != parameter.keyword:
            raise parameter.wrong(f"DISPLAY takes {keyword}, not {parameter.keyword}")
        if keyword not in known and keyword not in (*always, "ALL"):
            raise unknown(parameter, kinds[0] if len(kinds) == 1 else "QUEUE", known)
        wanted.add(keyword)
    where = filter_of(given["WHERE"], kinds) if "WHERE" in given else None
    if "ALL" in wanted or not (wanted or generic):
        return Selection(None, where)
    if where is not None:
        wanted.add(where.keyword)
    return Selection(frozenset(wanted.union(always)), where)


def filter_of(parameter: Parameter, kinds: tuple[str, ...]) -> Filter:
    """Return the filter WHERE(keyword operator value) gives."""
    if parameter.values is None or len(parameter.values) != 3:
        raise parameter.wrong("WHERE needs (keyword operator value), as in WHERE(CURDEPTH GT 0)")
    keyword, sign, value = parameter.values
    known = shown_keywords(kinds)
    if keyword.text not in known:
        said = f"WHERE: {keyword.text} is not displayed here" + nearest(keyword.text, known)
        raise MqscSyntaxError(said, keyword.start, keyword.end)
    attribute = _attribute(keyword.text, kinds)
    compared, possible = _compared(keyword.text, attribute, value.text)
    if sign.text not in possible:
        said = f"WHERE: {keyword.text} is compared by {', '.join(possible)}, not {sign.text}"
        raise MqscSyntaxError(said, sign.start, sign.end)
    if compared is None:
        said = f"WHERE: {value.text} is no value of {keyword.text}"
        raise MqscSyntaxError(said, value.start, value.end)
    return Filter(keyword.text, sign.text, compared)


def _attribute(keyword: str, kinds: tuple[str, ...]) -> Attribute | None:
    return next((attributes_of(k)[keyword] for k in kinds if keyword in attributes_of(k)), None)


def _compared(
    keyword: str, attribute: Attribute | None, text: str
) -> tuple[Value | None, tuple[str, ...]]:
    """Return the value to compare with, None when it is not one, and the operators that fit."""
    if attribute is not None and attribute.is_text:
        return text, (*_ORDERINGS, _LIKE, _NOT_LIKE)
    if keyword in _SHOWN_WORDS:
        return fold(text), _UNORDERED
    if attribute is not None and attribute.low > attribute.high:
        number = number_of(attribute, text)
        return None if number is None else word_of(attribute, number), _UNORDERED
    if attribute is not None and fold(text) in dict(attribute.words):
        return fold(text), _UNORDERED
    is_number = text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 19
    return int(text) if is_number else None, tuple(_ORDERINGS)


def body(row: Mapping[str, Value]) -> str:
    """Return an object as DISPLAY prints it: three blanks, then two columns where they fit."""
    items = deque(_item(keyword, value) for keyword, value in row.items())
    lines: list[str] = []
    while items:
        line = items.popleft()
        if items and max(len(line), len(items[0])) < _COLUMN_WIDTH:
            line = f"{line:<{_COLUMN_WIDTH}}{items.popleft()}"
        lines.append(_INDENT + line)
    return "\n".join(lines)


def _item(keyword: str, value: Value) -> str:
    if keyword in FLAGS:
        return str(value)
    # A text set by a program can hold anything; a display line stays one line.
    text = "".join(c if c.isprintable() else "." for c in str(value))
    return f"{keyword}({text or ' '})"
