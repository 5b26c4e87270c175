"""Keywords and values of a command as attributes: which are allowed, and what they mean."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

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
    number_of,
    object_type,
)
from mayfly.admin.mqsc.grammar import MqscSyntaxError, Parameter
from mayfly.mqi.errors import MQError

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
    if keyword in object_type(kind).shown:
        return parameter.wrong(f"{keyword} can be displayed, not set")
    owners = [k for k in (*QUEUE_KINDS, QMGR) if keyword in object_type(k).attributes]
    if owners:
        return parameter.wrong(f"{keyword} is not a keyword of {kind}, but of {', '.join(owners)}")
    said = f"{parameter.keyword} is not a keyword of {kind}"
    return parameter.wrong(said + nearest(parameter.keyword, candidates))


def nearest(word: str, candidates: Iterable[str]) -> str:
    """Return the question whether the most similar word was meant, or nothing."""
    found = difflib.get_close_matches(word, sorted(candidates), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def settings(given: dict[str, Parameter], kind: str) -> dict[str, Value]:
    """Return the attributes a command gives, as the model holds them."""
    known = object_type(kind).attributes
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
    if not attribute.is_text:
        return _number(attribute, parameter, text)
    try:
        return checked(attribute, text)
    except WrongValue as error:
        subject = str(parameter) if error.shows_value else parameter.keyword
        raise parameter.wrong(f"{subject}{error.complaint}") from error


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


def _number(attribute: Attribute, parameter: Parameter, text: str) -> int:
    number = number_of(attribute, text)
    if number is None:
        raise parameter.wrong(f"{parameter} is not right: it must be {allowed(attribute)}")
    return number


def _check_name(parameter: Parameter, name: str) -> None:
    try:
        check_name(name)
    except MQError as error:
        raise parameter.wrong(f"{parameter.keyword}: {error.detail}") from error
