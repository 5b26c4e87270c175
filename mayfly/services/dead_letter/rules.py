"""The rule table of a dead-letter handler: its classes, and the parser of its text."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, TypeVar

from lark import Lark, Token, UnexpectedCharacters, UnexpectedToken

from mayfly.admin import fold
from mayfly.admin.mqsc.grammar import Statement, statements
from mayfly.lifetime.times import ms_of_seconds
from mayfly.mqi import constants, reasons
from mayfly.mqi.constants import MQWI_UNLIMITED
from mayfly.mqi.errors import MQError
from mayfly.services.dead_letter.dead_letters import DeadLetter
from mayfly.verbs.checks import check_name


class RuleTableError(ValueError):
    """A rule table has a mistake; ``line`` and ``column`` of it count from 1."""

    def __init__(self, problem: str, line: int, column: int) -> None:
        """Take line and column of the mistake, and a text about it.

        The text, ``problem``, names keyword and value.
        """
        super().__init__(f"line {line}, column {column}: {problem}")
        self.line = line
        self.column = column


DEFAULT_RETRY_INTERVAL_MS = ms_of_seconds(60)


class Action(StrEnum):
    """The action of a rule on a letter."""

    DISCARD = "DISCARD"
    IGNORE = "IGNORE"
    RETRY = "RETRY"
    FORWARD = "FWD"


#: The pattern keywords that match text, and what they look at.
TEXTS: dict[str, Callable[[DeadLetter], str]] = {
    "APPLIDAT": lambda letter: letter.original.appl_identity_data,
    "APPLNAME": lambda letter: letter.original.put_appl_name,
    "DESTQ": lambda letter: letter.target,
    "DESTQM": lambda letter: letter.target_manager,
    "FORMAT": lambda letter: letter.original.format,
    "REPLYQ": lambda letter: letter.original.reply_to_q,
    "REPLYQM": lambda letter: letter.original.reply_to_q_mgr,
    "USERID": lambda letter: letter.original.user_identifier,
}
#: The pattern keywords that match a number, and what they look at.
NUMBERS: dict[str, Callable[[DeadLetter], int]] = {
    "APPLTYPE": lambda letter: letter.original.put_appl_type,
    "FEEDBACK": lambda letter: letter.original.feedback,
    "MSGTYPE": lambda letter: letter.original.msg_type,
    "PERSIST": lambda letter: letter.original.persistence,
    "REASON": lambda letter: letter.reason,
}


class LetterPattern(NamedTuple):
    """A condition on one field of a letter: a number, or a text with wildcards ``*`` and ``?``."""

    keyword: str
    wanted: int | re.Pattern[str]

    def matches(self, letter: DeadLetter) -> bool:
        """Return True if the field of a letter matches; trailing blanks of a text are ignored."""
        if isinstance(self.wanted, int):
            return NUMBERS[self.keyword](letter) == self.wanted
        return self.wanted.fullmatch(TEXTS[self.keyword](letter).rstrip()) is not None


class Rule(NamedTuple):
    """One rule; ``attempt_count`` is how often its action is tried before the next matching rule.

    If ``queue`` or ``manager`` begins with ``&``, it is taken from the letter. A blank manager is
    the queue manager of the letter. ``line`` is the line of the rule in its table.
    """

    action: Action
    patterns: tuple[LetterPattern, ...] = ()
    queue: str = ""
    manager: str = ""
    keeps_header: bool = True
    puts_as_user: bool = False
    attempt_count: int = 1
    line: int = 1

    def matches(self, letter: DeadLetter) -> bool:
        """Return True if a letter matches all patterns of the rule."""
        return all(pattern.matches(letter) for pattern in self.patterns)

    def destination(self, letter: DeadLetter) -> tuple[str, str]:
        """Return queue and queue manager to which RETRY or FWD puts a letter.

        "" means none is named.
        """
        if self.action is Action.RETRY:
            return letter.target, letter.target_manager
        reply_to = letter.original
        queues = {"&DESTQ": letter.target, "&REPLYQ": reply_to.reply_to_q}
        managers = {"&DESTQM": letter.target_manager, "&REPLYQM": reply_to.reply_to_q_mgr}
        return (
            queues.get(self.queue, self.queue).strip(),
            managers.get(self.manager, self.manager).strip(),
        )


class RuleTable(NamedTuple):
    """The control data and the rules of a table.

    A blank ``queue`` is the DEADQ, a blank ``manager`` the connected queue manager. ``wait_ms`` is
    how long to wait for more letters when nothing is left to do; MQWI_UNLIMITED (-1) is for ever.
    """

    rules: tuple[Rule, ...]
    queue: str = ""
    manager: str = ""
    retry_interval_ms: int = DEFAULT_RETRY_INTERVAL_MS
    wait_ms: int = MQWI_UNLIMITED


# The text of a table: entries of keywords, each with one value in parentheses


_GRAMMAR = r"""
entry: parameter+
parameter: WORD _LEFT [QUOTED | WORD] _RIGHT
QUOTED: /'(?:[^']|'')*'/
WORD: /[^\s,()']+/
_LEFT: "("
_RIGHT: ")"
%ignore /[\s,]+/
"""


class RuleParameter(NamedTuple):
    """KEYWORD(value): the keyword in upper case; so is the value if it is not quoted.

    ``value`` has no quotes and no trailing blanks. ``typed`` is the value as typed, None for
    parentheses without a value.
    """

    keyword: str
    value: str
    typed: str | None
    line: int
    column: int

    def wrong(self, why: str) -> RuleTableError:
        """Return the error for this parameter, with its line and column.

        ``why`` says the mistake.
        """
        return RuleTableError(f"{self.keyword}({self.typed or ''}) {why}", self.line, self.column)


def parse_entry(statement: Statement) -> list[RuleParameter]:
    """Return the parameters of one entry; ``REASON(2030) ACTION(RETRY)`` gives two.

    Raises RuleTableError with line and column of a syntax error.
    """
    text = statement.text
    if statement.is_unfinished:
        raise RuleTableError("the table ends where this line goes on", *statement.place(len(text)))
    try:
        tree = _parser().parse(text)
    except UnexpectedCharacters as error:
        place = statement.place(error.pos_in_stream)  # type: ignore[arg-type]  # always an int
        raise RuleTableError("this quote is never closed", *place) from None
    except UnexpectedToken as error:
        raise _unexpected(statement, error.token, error.accepts or set()) from None
    return [_parameter(statement, *child.children) for child in tree.children]  # type: ignore[union-attr]  # trees of two tokens


@lru_cache(maxsize=1)
def _parser() -> Lark:
    """Return the parser of entries; it is made once."""
    return Lark(_GRAMMAR, start="entry", parser="lalr", lexer="basic", maybe_placeholders=True)


def _parameter(statement: Statement, keyword: Token, value: Token | None) -> RuleParameter:
    """Return the parameter of a keyword and its value, with its place in the table."""
    place = statement.place(keyword.start_pos or 0)
    if value is None:
        return RuleParameter(fold(keyword), "", None, *place)
    plain = value[1:-1].replace("''", "'") if value.type == "QUOTED" else fold(value)
    return RuleParameter(fold(keyword), plain.rstrip(), str(value), *place)


def _unexpected(statement: Statement, token: Token, accepted: set[str]) -> RuleTableError:
    """Return the error for a token that is not allowed here; ``accepted`` are the allowed ones."""
    is_end = token.type == "$END"
    offset = len(statement.text) if is_end else token.start_pos or 0
    if "_LEFT" in accepted:
        expected = "'(' after the keyword"
    elif "QUOTED" in accepted:
        expected = "a value or ')'"
    elif "_RIGHT" in accepted:
        expected = "')'; a value with blanks needs quotes around it"
    else:
        expected = "a keyword"
    found = "the end" if is_end else repr(str(token))
    return RuleTableError(f"found {found}, expected {expected}", *statement.place(offset))


# The values that each keyword takes


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
    """Parse the text of a rule table.

    The first entry may be control data: INPUTQ, INPUTQM, RETRYINT (seconds), WAIT. Each other entry
    is a rule of pattern and action keywords. As in MQSC, ``+`` or ``-`` at the end of a line
    continues the entry, and a line that begins with ``*`` is a comment. Raises RuleTableError for a
    wrong entry or a table without a rule.
    """
    entries = [parse_entry(statement) for statement in statements(text) if statement.is_command]
    controls: dict[str, RuleParameter] = {}
    if entries and any(parameter.keyword in _CONTROLS for parameter in entries[0]):
        controls = _by_keyword(entries.pop(0), _CONTROLS, "a keyword of control data")
    if not entries:
        raise RuleTableError("there is no rule", max(text.count("\n"), 1), 1)
    table = RuleTable(tuple(map(_rule, entries)))
    readers: dict[str, tuple[str, Callable[[RuleParameter], object]]] = {
        "INPUTQ": ("queue", lambda parameter: _name(parameter, ("",))),
        "INPUTQM": ("manager", lambda parameter: _name(parameter, ("",))),
        "RETRYINT": ("retry_interval_ms", lambda parameter: ms_of_seconds(_number(parameter, 1))),
        "WAIT": ("wait_ms", _wait_ms),
    }
    given = {readers[keyword][0]: readers[keyword][1](p) for keyword, p in controls.items()}
    return table._replace(**given)  # type: ignore[arg-type]  # each reader returns its field's type


def parse_patterns(text: str) -> tuple[LetterPattern, ...]:
    """Parse the patterns of one rule, such as ``REASON(2030) DESTQ(A*)``; () for a blank text.

    Raises RuleTableError for other keywords, wrong values, or more than one entry.
    """
    entries = [parse_entry(statement) for statement in statements(text) if statement.is_command]
    if len(entries) > 1:
        raise RuleTableError("patterns are one entry, on one line", entries[1][0].line, 1)
    known = sorted([*TEXTS, *NUMBERS])
    given = _by_keyword(entries[0] if entries else (), known, "a pattern keyword")
    return _patterns(given)


def _by_keyword(
    entry: Iterable[RuleParameter], known: Iterable[str], what: str
) -> dict[str, RuleParameter]:
    """Return parameters by keyword; ``what`` describes the known keywords in errors.

    Raises RuleTableError for an unknown or repeated keyword, or a missing value.
    """
    found: dict[str, RuleParameter] = {}
    for parameter in entry:
        if parameter.keyword not in known:
            raise parameter.wrong(f"is not {what}: {', '.join(known)}")
        if parameter.keyword in found:
            raise parameter.wrong("stands here for the second time")
        if parameter.typed in (None, "''"):
            raise parameter.wrong("needs a value; a blank one is written as ' '")
        found[parameter.keyword] = parameter
    return found


def _rule(entry: list[RuleParameter]) -> Rule:
    """Return the rule in an entry; raises RuleTableError for keywords that do not fit together."""
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


def _patterns(given: dict[str, RuleParameter]) -> tuple[LetterPattern, ...]:
    """Return the patterns of parameters, without those that match everything."""
    found = map(_pattern, given.values())
    return tuple(pattern for pattern in found if pattern is not None)


def _pattern(parameter: RuleParameter) -> LetterPattern | None:
    """Return the pattern of a parameter; None for ``*``, which matches everything.

    Raises RuleTableError for a wrong value.
    """
    keyword, value = parameter.keyword, parameter.value
    if value == _ANY:
        return None
    if keyword in NUMBERS:
        return LetterPattern(keyword, _named_number(parameter))
    if keyword == "FORMAT" and value.startswith(_FORMAT_NAMES):
        value = _constant(parameter, constants, bytes).decode().rstrip()
    if len(value.replace(_ANY, "")) > _LENGTHS[keyword]:
        raise parameter.wrong(f"is longer than the {_LENGTHS[keyword]} characters of its field")
    # Only * and ? stand for others; fnmatch has a third sign.
    return LetterPattern(keyword, re.compile(fnmatch.translate(value.replace("[", "[[]"))))


def _named_number(parameter: RuleParameter) -> int:
    """Return the number in a value: ``'2030'``, or the MQ constant ``'MQRC_MSG_TOO_BIG_FOR_Q'``.

    Raises RuleTableError for another value.
    """
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


def _constant(parameter: RuleParameter, module: object, kind: type[Value]) -> Value:
    """Return the value of the MQ constant that a parameter names.

    Raises RuleTableError if unknown.
    """
    found = getattr(module, parameter.value, None)
    if not isinstance(found, kind):
        raise parameter.wrong(f"names no {parameter.value.partition('_')[0]}_* there is")
    return found


def _choice(parameter: RuleParameter, choices: dict[str, Value]) -> Value:
    """Return the choice that a value names; raises RuleTableError if it names none."""
    if parameter.value not in choices:
        raise parameter.wrong(f"is none of {', '.join(choices)}")
    return choices[parameter.value]


def _name(parameter: RuleParameter, special: tuple[str, ...]) -> str:
    """Return a value that is an MQ object name, or one of ``special``; raises RuleTableError."""
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


def _number(parameter: RuleParameter, lowest: int) -> int:
    """Return a whole number from ``lowest`` to 999,999,999; raises RuleTableError."""
    value = parameter.value
    if not (re.fullmatch(r"[0-9]{1,9}", value) and lowest <= int(value)):
        raise parameter.wrong(f"is no whole number from {lowest} to {_LARGEST}")
    return int(value)


def _wait_ms(parameter: RuleParameter) -> int:
    """Return the value of WAIT in ms: 0 for NO, MQWI_UNLIMITED for YES.

    Raises RuleTableError for another word.
    """
    words = {"YES": MQWI_UNLIMITED, "NO": 0}
    if parameter.value in words:
        return words[parameter.value]
    if not parameter.value.isdecimal():
        raise parameter.wrong("is neither YES, NO nor a number of seconds")
    return ms_of_seconds(_number(parameter, 0))
