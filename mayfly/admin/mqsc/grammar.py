"""Grammar of MQSC: parses scripts into statements, commands, keywords with values, attributes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mayfly.admin import (
    DEFINABLE,
    QMGR,
    QUEUE_KINDS,
    Attribute,
    Value,
    WrongValue,
    allowed,
    check_name,
    checked,
    fold,
    list_text,
    number_of,
    object_type,
)
from mayfly.mqi.errors import MQError

_TOKEN = re.compile(
    r"(?P<blank>[\s,]+)|(?P<open>\()|(?P<close>\))|(?P<end>;)"
    r"|(?P<quoted>'(?:[^']|'')*')|(?P<word>[^\s,()';]+)|(?P<quote>')"
)
_PLAIN = re.compile(r"[^\s,()';a-z]+")
_CONTINUED = ("+", "-")
_COMMENT = "*"
_BEFORE_OBJECT = ("REPLACE", "NOREPLACE")
_ROWS = [row for kind in DEFINABLE for row in object_type(kind).attributes.values()]
#: Attributes that are written without a value, as KEYWORD or NOKEYWORD.
FLAGS = frozenset(a.keyword for a in _ROWS if a.is_flag)
GENERIC = "*"
_FLAG_WORDS = {word: a.keyword for a in _ROWS if a.is_flag for word, _ in a.words}
_SYNONYMS = {
    "TARGQ": "TARGET",
    "QTYPE": "TYPE",
    "NOREPLACE": "REPLACE",
    "NOPURGE": "PURGE",
    **_FLAG_WORDS,
}


class MqscSyntaxError(Exception):
    """A command is wrong; ``start`` and ``end`` delimit the wrong part of the statement's text."""

    def __init__(self, message: str, start: int, end: int) -> None:
        """Store the message; ``start`` and ``end`` are offsets in the statement's text."""
        super().__init__(message)
        self.start = start
        self.end = end


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a script: a command of one or more lines, or a comment or blank line.

    ``text`` is the command with its lines joined, empty for a comment or blank line. ``parts`` has
    a tuple for each joined line: its offset in the text, its line number, its first column.
    ``is_unfinished`` is True if the last line ends in ``+`` or ``-``.
    """

    lines: tuple[str, ...]
    text: str
    parts: tuple[tuple[int, int, int], ...] = ()
    is_unfinished: bool = False

    @property
    def is_command(self) -> bool:
        """Whether the statement is a command, no comment or blank line."""
        return bool(self.parts)

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column in the script, both from 1, of an offset in ``text``."""
        begin, line, column = next(p for p in reversed(self.parts) if p[0] <= offset or not p[0])
        return line, column + offset - begin


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a statement; ``text`` is in upper case unless it was quoted.

    ``typed`` is the text as it was typed, which user names need.
    """

    kind: str
    text: str
    start: int
    end: int
    typed: str = ""

    @property
    def is_value(self) -> bool:
        """Whether the token is a word or a quoted text, and so can be a value."""
        return self.kind in ("word", "quoted")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parsed KEYWORD or KEYWORD(value …); ``values`` is None without parentheses.

    ``start`` and ``end`` delimit it in the statement's text.
    """

    keyword: str
    values: tuple[Token, ...] | None
    start: int
    end: int

    def __str__(self) -> str:
        """Return the parameter as MQSC text, with quotes where needed: ``DESCR('a b')``."""
        if self.values is None:
            return self.keyword
        return f"{self.keyword}({' '.join(format_value(value.text) for value in self.values)})"

    def wrong(self, message: str) -> MqscSyntaxError:
        """Return a MqscSyntaxError with ``message`` that points at this parameter."""
        return MqscSyntaxError(message, self.start, self.end)


@dataclass(frozen=True, slots=True)
class Command:
    """A parsed command: its verb, its object with the name, and the other parameters.

    Example: ``DEFINE``, ``QLOCAL(A)``, then ``(MAXDEPTH(5), REPLACE)``.
    """

    verb: Parameter
    object: Parameter
    parameters: tuple[Parameter, ...]


def format_value(value: int | str) -> str:
    """Return a value in MQSC, quoted if needed, so that it is read back unchanged."""
    text = str(value)
    if _PLAIN.fullmatch(text):
        return text
    return "'" + text.replace("'", "''") + "'"


@dataclass(slots=True)
class _Joining:
    """A statement while its lines are joined; ``sign`` is the last ``+`` or ``-``, or empty."""

    lines: list[str] = field(default_factory=list)
    text: str = ""
    parts: list[tuple[int, int, int]] = field(default_factory=list)
    sign: str = ""

    def add(self, number: int, line: str) -> None:
        """Append a line of the script, without its ``+`` or ``-`` at the end, to the text.

        ``number`` is the line number from 1. The line must be neither comment nor blank.
        """
        content = line.rstrip()
        column = 1
        if self.sign != "-":
            column += len(content) - len(content.lstrip())
        self.parts.append((len(self.text), number, column))
        self.sign = content[-1] if content.endswith(_CONTINUED) else ""
        self.text += content[column - 1 : len(content) - len(self.sign)]

    def statement(self) -> Statement:
        """Return the statement of the lines so far.

        It is marked as unfinished if the last line ends in ``+`` or ``-``.
        """
        return Statement(tuple(self.lines), self.text, tuple(self.parts), bool(self.sign))


def statements(script: str) -> Iterator[Statement]:
    """Yield the statements of a script in order, comments and blank lines included.

    A line that ends in ``+`` or ``-`` continues with the next line that is neither a comment nor
    blank: after ``+`` at its first non-blank, after ``-`` at its column 1.
    """
    joining = _Joining()
    lines = script.split("\n")
    if not lines[-1]:
        lines.pop()
    for number, ended in enumerate(lines, 1):
        line = ended.removesuffix("\r")
        joining.lines.append(line)
        if line.startswith(_COMMENT) or not line.strip():
            if not joining.parts:
                yield Statement((line,), "")
                joining = _Joining()
            continue
        joining.add(number, line)
        if not joining.sign:
            yield joining.statement()
            joining = _Joining()
    if joining.parts:
        yield joining.statement()


def parse(statement: Statement) -> Command:
    """Return the command in a statement.

    REPLACE or NOREPLACE may stand before the object, as CSQUTIL MAKEDEF of z/OS writes it. Raises
    MqscSyntaxError for an unfinished or malformed command, or one without object.
    """
    text = statement.text
    if statement.is_unfinished:
        raise MqscSyntaxError("the script ends where the command is to go on", 0, len(text))
    verb, *rest = _parameters(_tokens(text), len(text))
    if verb.values is not None:
        raise verb.wrong(f"{verb} is not a command")
    if not rest:
        raise MqscSyntaxError(f"{verb} needs an object", verb.start, len(text))
    if len(rest) > 1 and rest[0].keyword in _BEFORE_OBJECT:
        rest[:2] = rest[1], rest[0]
    return Command(verb, rest[0], tuple(rest[1:]))


def _tokens(text: str) -> list[Token]:
    """Return the tokens of a command without blanks and commas.

    Raises MqscSyntaxError for an open quote, a quote inside a word, or text after ``;``.
    """
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        token = _token(match)
        if token.kind == "quote":
            raise MqscSyntaxError("this quote is never closed", token.start, len(text))
        last = tokens[-1] if tokens else None
        if last is not None and last.is_value and token.is_value and last.end == token.start:
            raise MqscSyntaxError(
                "a value with a quote in it needs quotes around it, and two for one inside",
                last.start,
                token.end,
            )
        if last is not None and last.kind == "end" and token.kind != "blank":
            raise MqscSyntaxError("a command ends at its semicolon", token.start, token.end)
        if token.kind != "blank":
            tokens.append(token)
    return tokens


def _token(match: re.Match[str]) -> Token:
    """Return the token of a ``_TOKEN`` match: words in upper case, quoted text without quotes."""
    kind, typed = match.lastgroup, match[0]
    assert kind is not None
    if kind == "quoted":
        typed = typed[1:-1].replace("''", "'")
    text = fold(typed) if kind == "word" else typed
    return Token(kind, text, match.start(), match.end(), typed)


def _parameters(tokens: list[Token], length: int) -> Iterator[Parameter]:
    """Yield the parameters in tokens; ``length`` is the length of the command's text.

    Raises MqscSyntaxError for a missing keyword or an open parenthesis.
    """
    position = 0
    end = Token("end", "", length, length)
    if not tokens or tokens[-1].kind != "end":
        tokens = [*tokens, end]
    while tokens[position].kind != "end" or not position:
        keyword = tokens[position]
        if keyword.kind != "word":
            raise MqscSyntaxError("a keyword is missing here", keyword.start, keyword.end)
        position += 1
        if tokens[position].kind != "open":
            yield Parameter(keyword.text, None, keyword.start, keyword.end)
            continue
        first = position = position + 1
        while tokens[position].is_value:
            position += 1
        closing = tokens[position]
        if closing.kind != "close":
            raise MqscSyntaxError(
                f"the parenthesis of {keyword.text} is not closed", keyword.start, closing.end
            )
        values = tuple(tokens[first:position])
        yield Parameter(keyword.text, values, keyword.start, closing.end)
        position += 1


def distinct(parameters: Iterable[Parameter]) -> dict[str, Parameter]:
    """Return parameters by keyword; synonyms are under the main keyword.

    Example: NOREPLACE is under REPLACE, TARGQ under TARGET. Raises MqscSyntaxError for a keyword
    that is repeated or contradicted.
    """
    given: dict[str, Parameter] = {}
    for parameter in parameters:
        keyword = _SYNONYMS.get(parameter.keyword, parameter.keyword)
        if keyword in given:
            earlier = given[keyword].keyword
            text = "is given twice" if earlier == parameter.keyword else f"contradicts {earlier}"
            raise parameter.wrong(f"{parameter.keyword} {text}")
        given[keyword] = parameter
    return given


def switch(remaining: dict[str, Parameter], keyword: str) -> bool:
    """Remove KEYWORD or NOKEYWORD from ``remaining``; return True for KEYWORD, False otherwise.

    Raises MqscSyntaxError if it has a value.
    """
    parameter = remaining.pop(keyword, None)
    if parameter is None:
        return False
    no_value(parameter)
    return parameter.keyword == keyword


def unknown(parameter: Parameter, kind: str, candidates: Iterable[str]) -> MqscSyntaxError:
    """Return the MqscSyntaxError for a keyword that an object type does not have.

    Its text names the types that have the keyword, or suggests the most similar of ``candidates``.
    """
    keyword = _SYNONYMS.get(parameter.keyword, parameter.keyword)
    if keyword in object_type(kind).shown:
        return parameter.wrong(f"{keyword} can be displayed, not set")
    owners = [k for k in (*QUEUE_KINDS, QMGR) if keyword in object_type(k).attributes]
    if owners:
        return parameter.wrong(f"{keyword} is not a keyword of {kind}, but of {', '.join(owners)}")
    text = f"{parameter.keyword} is not a keyword of {kind}"
    return parameter.wrong(text + nearest(parameter.keyword, candidates))


def nearest(word: str, candidates: Iterable[str]) -> str:
    """Return ``'; did you mean X?'`` with the candidate most similar to ``word``; "" for none."""
    found = difflib.get_close_matches(word, sorted(candidates), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def settings(parameters: dict[str, Parameter], kind: str) -> dict[str, Value]:
    """Return the attributes in ``parameters`` by keyword, as they are stored.

    Raises MqscSyntaxError for an unknown keyword or a wrong value.
    """
    known = object_type(kind).attributes
    values: dict[str, Value] = {}
    for keyword, parameter in parameters.items():
        if keyword not in known:
            raise unknown(parameter, kind, known)
        values[keyword] = attribute_value(known[keyword], parameter)
    return values


def attribute_value(attribute: Attribute, parameter: Parameter) -> Value:
    """Return the value of an attribute in a parameter, as it is stored: text or number.

    Raises MqscSyntaxError, with the allowed values, for a wrong one.
    """
    if attribute.is_flag:
        no_value(parameter)
        return dict(attribute.words)[parameter.keyword]
    text = _list_of(parameter) if attribute.is_list else one_value(parameter)
    if not attribute.is_text:
        return _number(attribute, parameter, text)
    try:
        return checked(attribute, text)
    except WrongValue as error:
        subject = str(parameter) if error.shows_value else parameter.keyword
        raise parameter.wrong(f"{subject}{error.complaint}") from error


def no_value(parameter: Parameter) -> None:
    """Raise MqscSyntaxError if a parameter has a value."""
    if parameter.values is not None:
        raise parameter.wrong(f"{parameter.keyword} takes no value")


def one_value(parameter: Parameter) -> str:
    """Return the only value of a parameter, in upper case unless quoted.

    Raises MqscSyntaxError for no value or several.
    """
    if not parameter.values:
        raise parameter.wrong(f"{parameter.keyword} needs a value in parentheses")
    if len(parameter.values) > 1:
        raise parameter.wrong(
            f"{parameter.keyword} takes one value; quote it if blanks or commas belong to it"
        )
    return parameter.values[0].text


def _list_of(parameter: Parameter) -> str:
    """Return the values of a parameter as one list; empty for KEYWORD().

    Raises MqscSyntaxError without parentheses.
    """
    if parameter.values is None:
        raise parameter.wrong(f"{parameter.keyword} needs values in parentheses")
    return list_text(token.text for token in parameter.values)


def word_of(parameter: Parameter | None, words: Sequence[str]) -> str:
    """Return the word in a parameter, in upper case; the first of ``words`` for None.

    Raises MqscSyntaxError for a word not in ``words``.
    """
    if parameter is None:
        return words[0]
    word = fold(one_value(parameter))
    if word not in words:
        raise parameter.wrong(f"{parameter} is not right: it must be {' or '.join(words)}")
    return word


def object_name(parameter: Parameter, *, generic: bool = False) -> str:
    """Return the object name in a parameter; ``generic`` allows a ``*`` at its end, or alone.

    Raises MqscSyntaxError for no name, several, or an invalid name.
    """
    name = one_value(parameter)
    if generic and name == GENERIC:
        return name
    plain = name.removesuffix(GENERIC) if generic else name
    checked_by(parameter, lambda: check_name(plain))
    return name


def _number(attribute: Attribute, parameter: Parameter, text: str) -> int:
    """Return the number for a word or digits of an attribute.

    Raises MqscSyntaxError, with the allowed values, for a wrong one.
    """
    number = number_of(attribute, text)
    if number is None:
        raise parameter.wrong(f"{parameter} is not right: it must be {allowed(attribute)}")
    return number


def checked_by(parameter: Parameter, check: Callable[[], object]) -> None:
    """Call ``check``; turn the MQError that it raises into a MqscSyntaxError at the parameter."""
    try:
        check()
    except MQError as error:
        raise parameter.wrong(f"{parameter.keyword}: {error.detail}") from error
