"""A rule table from its text: which keywords there are and which values they take."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from mayfly.admin.mqsc.grammar import statements
from mayfly.lifetime.times import ms_of_seconds
from mayfly.mqi import constants, reasons
from mayfly.mqi.constants import MQWI_UNLIMITED
from mayfly.mqi.errors import MQError
from mayfly.services.dead_letter.errors import RuleTableError
from mayfly.services.dead_letter.grammar import Parameter, parse_entry
from mayfly.services.dead_letter.rules import NUMBERS, TEXTS, Action, Pattern, Rule, RuleTable
from mayfly.verbs.checks import check_name

Value = TypeVar("Value")
#: Keyword -> prefixes of the constants by which its number may be named.
_NAMES = {
    "APPLTYPE": ("MQAT_",),
    "FEEDBACK": ("MQFB_", "MQRC_"),
    "MSGTYPE": ("MQMT_",),
    "PERSIST": ("MQPER_",),
    "REASON": ("MQRC_", "MQFB_"),
}
#: The characters of the fields that texts are compared with.
_LENGTHS = {
    "APPLIDAT": 32,
    "APPLNAME": 28,
    "DESTQ": 48,
    "DESTQM": 48,
    "FORMAT": 8,
    "REPLYQ": 48,
    "REPLYQM": 48,
    "USERID": 12,
}
_CONTROLS = ("INPUTQ", "INPUTQM", "RETRYINT", "WAIT")
_FORWARDS = ("FWDQ", "FWDQM", "HEADER")
_ACTIONS = ("ACTION", *_FORWARDS, "PUTAUT", "RETRY")
_ANY = "*"
_WILDCARDS = ("*", "?")
_LARGEST = 999_999_999
_FORMAT_NAMES = "MQFMT_"


def parse_rules(text: str) -> RuleTable:
    """Return the rule table a text holds.

    The first entry may be control data: INPUTQ, INPUTQM, RETRYINT (seconds), WAIT; each other is a
    rule of pattern and action keywords. Entries take lines as MQSC does: ``+`` and ``-`` go on, a
    line that begins with ``*`` is a comment. Raises RuleTableError with line and column, keyword
    and value.
    """
    entries = [parse_entry(statement) for statement in statements(text) if statement.is_command]
    controls: dict[str, Parameter] = {}
    if entries and any(parameter.keyword in _CONTROLS for parameter in entries[0]):
        controls = _by_keyword(entries.pop(0), _CONTROLS, "a keyword of control data")
    if not entries:
        raise RuleTableError("there is no rule", max(text.count("\n"), 1), 1)
    table = RuleTable(tuple(map(_rule, entries)))
    readers: dict[str, tuple[str, Callable[[Parameter], object]]] = {
        "INPUTQ": ("queue", lambda parameter: _name(parameter, ("",))),
        "INPUTQM": ("manager", lambda parameter: _name(parameter, ("",))),
        "RETRYINT": ("retry_interval_ms", lambda parameter: ms_of_seconds(_number(parameter, 1))),
        "WAIT": ("wait_ms", _wait_ms),
    }
    given = {readers[keyword][0]: readers[keyword][1](p) for keyword, p in controls.items()}
    return table._replace(**given)  # type: ignore[arg-type]  # each reader returns its field's type


def parse_patterns(text: str) -> tuple[Pattern, ...]:
    """Return what the patterns of one rule ask for, none for a blank text.

    Raises RuleTableError for anything else than pattern keywords, as :func:`parse_rules`.
    """
    entries = [parse_entry(statement) for statement in statements(text) if statement.is_command]
    if len(entries) > 1:
        raise RuleTableError("patterns are one entry, on one line", entries[1][0].line, 1)
    known = sorted([*TEXTS, *NUMBERS])
    given = _by_keyword(entries[0] if entries else (), known, "a pattern keyword")
    return _patterns(given)


def _by_keyword(
    entry: Iterable[Parameter], known: Iterable[str], what: str
) -> dict[str, Parameter]:
    found: dict[str, Parameter] = {}
    for parameter in entry:
        if parameter.keyword not in known:
            raise parameter.wrong(f"is not {what}: {', '.join(known)}")
        if parameter.keyword in found:
            raise parameter.wrong("stands here for the second time")
        if parameter.typed in (None, "''"):
            raise parameter.wrong("needs a value; a blank one is written as ' '")
        found[parameter.keyword] = parameter
    return found


def _rule(entry: list[Parameter]) -> Rule:
    known = (*sorted([*TEXTS, *NUMBERS]), *_ACTIONS)
    given = _by_keyword(entry, known, "a keyword of a rule")
    first = entry[0]
    if "ACTION" not in given:
        raise RuleTableError("this rule has no ACTION", first.line, first.column)
    action = _choice(given["ACTION"], {action.value: action for action in Action})
    if action is not Action.FORWARD:
        for keyword in given.keys() & _FORWARDS:
            raise given[keyword].wrong(f"needs ACTION(FWD), not ACTION({action})")
    elif "FWDQ" not in given:
        raise given["ACTION"].wrong("needs FWDQ: where to?")
    header, putaut, retry = (given.get(keyword) for keyword in ("HEADER", "PUTAUT", "RETRY"))
    return Rule(
        action,
        _patterns({k: p for k, p in given.items() if k not in _ACTIONS}),
        "" if action is not Action.FORWARD else _name(given["FWDQ"], ("&DESTQ", "&REPLYQ")),
        "" if "FWDQM" not in given else _name(given["FWDQM"], ("&DESTQM", "&REPLYQM", "")),
        header is None or _choice(header, {"YES": True, "NO": False}),
        putaut is not None and _choice(putaut, {"DEF": False, "CTX": True}),
        1 if retry is None else _number(retry, 1),
        first.line,
    )


def _patterns(given: dict[str, Parameter]) -> tuple[Pattern, ...]:
    found = map(_pattern, given.values())
    return tuple(pattern for pattern in found if pattern is not None)


def _pattern(parameter: Parameter) -> Pattern | None:
    """Return what a parameter asks for, None for ``*``: everything."""
    keyword, value = parameter.keyword, parameter.value
    if value == _ANY:
        return None
    if keyword in NUMBERS:
        return Pattern(keyword, _named_number(parameter))
    if keyword == "FORMAT" and value.startswith(_FORMAT_NAMES):
        value = _constant(parameter, constants, bytes).decode().rstrip()
    if len(value.replace(_ANY, "")) > _LENGTHS[keyword]:
        raise parameter.wrong(f"is longer than the {_LENGTHS[keyword]} characters of its field")
    # Only * and ? stand for others; fnmatch has a third sign.
    return Pattern(keyword, re.compile(fnmatch.translate(value.replace("[", "[[]"))))


def _named_number(parameter: Parameter) -> int:
    value = parameter.value
    if re.fullmatch(r"[+-]?[0-9]{1,10}", value):
        return int(value)
    names = _NAMES[parameter.keyword]
    if any(sign in value for sign in _WILDCARDS):
        raise parameter.wrong("is a number or its name; only * alone stands for others")
    if not value.startswith(names):
        raise parameter.wrong(f"is neither a number nor a name in {' or '.join(names)}")
    module = reasons if value.startswith("MQRC_") else constants
    return _constant(parameter, module, int)


def _constant(parameter: Parameter, module: object, kind: type[Value]) -> Value:
    found = getattr(module, parameter.value, None)
    if not isinstance(found, kind):
        raise parameter.wrong(f"names no {parameter.value.partition('_')[0]}_* there is")
    return found


def _choice(parameter: Parameter, choices: dict[str, Value]) -> Value:
    if parameter.value not in choices:
        raise parameter.wrong(f"is none of {', '.join(choices)}")
    return choices[parameter.value]


def _name(parameter: Parameter, special: tuple[str, ...]) -> str:
    name = parameter.value.strip()
    if name in special:
        return name
    try:
        check_name(name)
    except MQError as error:
        words = [word or "' '" for word in special]
        why = f"is neither one name nor {', '.join(words)}"
        raise parameter.wrong(why) from error
    return name


def _number(parameter: Parameter, lowest: int) -> int:
    value = parameter.value
    if not (re.fullmatch(r"[0-9]{1,9}", value) and lowest <= int(value)):
        raise parameter.wrong(f"is no whole number from {lowest} to {_LARGEST}")
    return int(value)


def _wait_ms(parameter: Parameter) -> int:
    words = {"YES": MQWI_UNLIMITED, "NO": 0}
    if parameter.value in words:
        return words[parameter.value]
    if not parameter.value.isdecimal():
        raise parameter.wrong("is neither YES, NO nor a number of seconds")
    return ms_of_seconds(_number(parameter, 0))
