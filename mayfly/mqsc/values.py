"""A command's keywords held against the attribute table: which are allowed, and their values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from mayfly.engine.attributes import ATTRIBUTES, attributes_of
from mayfly.engine.attributes.attribute import QLOCAL, QMGR, QUEUE_KINDS, SUB, Attribute, Value
from mayfly.engine.objects.registry import check_name
from mayfly.mqi.errors import MQError
from mayfly.mqsc.grammar import MqscSyntaxError, Parameter, fold

#: What DISPLAY QUEUE and DISPLAY QMGR also show; nobody can set it.
SHOWN_ONLY: dict[str, tuple[str, ...]] = {
    QLOCAL: ("CURDEPTH", "IPPROCS", "OPPROCS", "DEFTYPE"),
    SUB: ("SUBTYPE", "DURABLE"),
    QMGR: ("CMDLEVEL", "PLATFORM"),
}
FLAGS = frozenset(a.keyword for a in ATTRIBUTES if a.is_flag)
GENERIC = "*"

_FLAG_WORDS = {word: a.keyword for a in ATTRIBUTES if a.is_flag for word, _ in a.words}
_SYNONYMS = {
    "TARGQ": "TARGET",
    "QTYPE": "TYPE",
    "NOREPLACE": "REPLACE",
    "NOPURGE": "PURGE",
    **_FLAG_WORDS,
}
_NAME_LENGTH = 48
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_CUSTOM_PAIR = re.compile(r"([A-Za-z0-9]+)\(([^()]*)\)")


def distinct(parameters: Iterable[Parameter]) -> dict[str, Parameter]:
    """Return parameters by keyword, synonyms and NO… forms under the one keyword they share."""
    given: dict[str, Parameter] = {}
    for parameter in parameters:
        keyword = _SYNONYMS.get(parameter.keyword, parameter.keyword)
        if keyword in given:
            earlier = given[keyword].keyword
            said = "is given twice" if earlier == parameter.keyword else f"contradicts {earlier}"
            raise parameter.wrong(f"{parameter.keyword} {said}")
        given[keyword] = parameter
    return given


def switch(given: dict[str, Parameter], keyword: str) -> bool:
    """Take KEYWORD or NOKEYWORD out of the parameters; return whether it is on."""
    parameter = given.pop(keyword, None)
    if parameter is None:
        return False
    no_value(parameter)
    return parameter.keyword == keyword


def unknown(parameter: Parameter, kind: str, candidates: Iterable[str]) -> MqscSyntaxError:
    """Return the error for a keyword that does not belong here, with the nearest that does."""
    keyword = _SYNONYMS.get(parameter.keyword, parameter.keyword)
    if keyword in SHOWN_ONLY.get(kind, ()):
        return parameter.wrong(f"{keyword} can be displayed, not set")
    owners = [k for k in (*QUEUE_KINDS, QMGR) if keyword in attributes_of(k)]
    if owners:
        return parameter.wrong(f"{keyword} is not a keyword of {kind}, but of {', '.join(owners)}")
    said = f"{parameter.keyword} is not a keyword of {kind}"
    return parameter.wrong(said + nearest(parameter.keyword, candidates))


def nearest(word: str, candidates: Iterable[str]) -> str:
    """Return the question whether the most similar word was meant, or nothing."""
    found = difflib.get_close_matches(word, sorted(candidates), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def settings(given: dict[str, Parameter], kind: str) -> dict[str, Value]:
    """Return the attributes a command gives, as the engine holds them."""
    known = attributes_of(kind)
    values: dict[str, Value] = {}
    for keyword, parameter in given.items():
        if keyword not in known:
            raise unknown(parameter, kind, known)
        values[keyword] = attribute_value(known[keyword], parameter)
    return values


def attribute_value(attribute: Attribute, parameter: Parameter) -> Value:
    """Return the value of one attribute; raises MqscSyntaxError with what would be right."""
    if attribute.is_flag:
        no_value(parameter)
        return dict(attribute.words)[parameter.keyword]
    text = one_value(parameter)
    if attribute.is_text:
        return _text(attribute, parameter, text)
    return _number(attribute, parameter, text)


def no_value(parameter: Parameter) -> None:
    """Refuse a value in parentheses."""
    if parameter.values is not None:
        raise parameter.wrong(f"{parameter.keyword} takes no value")


def one_value(parameter: Parameter) -> str:
    """Return the one value a keyword has."""
    if not parameter.values:
        raise parameter.wrong(f"{parameter.keyword} needs a value in parentheses")
    if len(parameter.values) > 1:
        raise parameter.wrong(
            f"{parameter.keyword} takes one value; quote it if blanks or commas belong to it"
        )
    return parameter.values[0].text


def object_name(parameter: Parameter, *, generic: bool = False) -> str:
    """Return the name of an object, a generic one with its ``*`` where that is allowed."""
    name = one_value(parameter)
    if generic and name == GENERIC:
        return name
    _check_name(parameter, name.removesuffix(GENERIC) if generic else name)
    return name


def matches(name: str, pattern: str) -> bool:
    """Return whether a text equals a pattern, or begins with it when the pattern ends in ``*``."""
    if pattern.endswith(GENERIC):
        return name.startswith(pattern[:-1])
    return name == pattern


def word_of(attribute: Attribute, value: Value) -> Value:
    """Return a value as MQSC shows it: the word that stands for a number, or itself."""
    return next((word for word, number in attribute.words if number == value), value)


def allowed(attribute: Attribute) -> str:
    """Return in words what a numeric attribute can be."""
    choices = [word for word, _ in attribute.words]
    if attribute.low <= attribute.high:
        choices.append(f"a number from {attribute.low} to {attribute.high}")
    return " or ".join(choices)


def number_of(attribute: Attribute, text: str) -> int | None:
    """Return the number a text means for an attribute, None when it is not allowed."""
    words = dict(attribute.words)
    if fold(text) in words:
        return words[fold(text)]
    if _NUMBER.fullmatch(text) and attribute.low <= int(text) <= attribute.high:
        return int(text)
    return None


def _number(attribute: Attribute, parameter: Parameter, text: str) -> int:
    number = number_of(attribute, text)
    if number is None:
        raise parameter.wrong(f"{parameter} is not right: it must be {allowed(attribute)}")
    return number


def _text(attribute: Attribute, parameter: Parameter, text: str) -> str:
    # Character attributes are blank padded in MQ: blanks at the end mean nothing.
    value = text.rstrip(" ")
    if not value.isprintable():
        raise parameter.wrong(f"{parameter.keyword} holds a character that cannot be printed")
    if attribute.length == _NAME_LENGTH:
        if value:
            _check_name(parameter, value)
        return value
    length_bytes = len(value.encode())
    if length_bytes > attribute.length:
        raise parameter.wrong(
            f"{parameter.keyword} is {length_bytes} bytes long; it may have {attribute.length}"
        )
    if attribute.keyword == "CUSTOM":
        _check_custom(parameter, value)
    return value


def _check_name(parameter: Parameter, name: str) -> None:
    try:
        check_name(name)
    except MQError as error:
        raise parameter.wrong(f"{parameter.keyword}: {error.detail}") from error


def _check_custom(parameter: Parameter, value: str) -> None:
    """CUSTOM holds NAME(VALUE) pairs with blanks between; CAPEXPRY is the only name known (X2)."""
    cap = attributes_of(QLOCAL)["CAPEXPRY"]
    pairs = [_CUSTOM_PAIR.fullmatch(pair) for pair in value.split()]
    for pair in pairs:
        if pair is None or fold(pair[1]) != cap.keyword or number_of(cap, pair[2]) is None:
            raise parameter.wrong(
                f"{parameter} is not right: it must be '' or"
                f" 'CAPEXPRY(n)' where n is {allowed(cap)}"
            )
    if len(pairs) > 1:
        raise parameter.wrong(f"{parameter} gives CAPEXPRY twice")
