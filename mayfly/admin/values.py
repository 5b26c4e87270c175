"""Values of attributes: whether one is right, the word that stands for a number, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mayfly.admin.errors import WrongValue, unknown_attribute
from mayfly.engine.face.administration import QLOCAL, Attribute, attributes_of
from mayfly.mqi.errors import MQError
from mayfly.verbs.checks import check_name
from mayfly.verbs.facts import Value

_NAME_LENGTH = 48
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_CUSTOM_PAIR = re.compile(r"([A-Za-z0-9]+)\(([^()]*)\)")


def fold(text: str) -> str:
    """Return a word in upper case: only ASCII letters fold, words and names have no others."""
    return text.translate(_UPPER)


def named(attribute: Attribute | None, value: Value) -> Value:
    """Return the word that stands for a number, or the value itself."""
    words = () if attribute is None else attribute.words
    return next((word for word, number in words if number == value), value)


def number_of(attribute: Attribute, text: str) -> int | None:
    """Return the number that a text, a word or digits, means; None when it is not allowed."""
    words = dict(attribute.words)
    if fold(text) in words:
        return words[fold(text)]
    if _NUMBER.fullmatch(text) and attribute.low <= int(text) <= attribute.high:
        return int(text)
    return None


def with_numbers(kind: str, attributes: Mapping[str, Value]) -> dict[str, Value]:
    """Return attributes with the numbers that words mean; a word that is none stays for a check."""
    known = attributes_of(kind)
    given = dict(attributes)
    for keyword, value in attributes.items():
        attribute = known.get(keyword)
        if attribute is not None and not attribute.is_text and isinstance(value, str):
            number = number_of(attribute, value)
            given[keyword] = value if number is None else number
    return given


def allowed(attribute: Attribute) -> str:
    """Return in words what a numeric attribute can be."""
    choices = [word for word, _ in attribute.words]
    if attribute.low <= attribute.high:
        choices.append(f"a number from {attribute.low} to {attribute.high}")
    return " or ".join(choices)


def checked(attribute: Attribute, value: Value) -> Value:
    """Return a value as it is kept: a text without the blanks at its end; raises WrongValue.

    Character attributes are blank padded in MQ: blanks at the end mean nothing.
    """
    if isinstance(value, bool) or isinstance(value, str) != attribute.is_text:
        raise WrongValue(attribute, value, f" takes {'text' if attribute.is_text else 'a number'}")
    if isinstance(value, str):
        return _text(attribute, value.rstrip(" "))
    if not attribute.low <= value <= attribute.high and value not in dict(attribute.words).values():
        said = f" is not right: it must be {allowed(attribute)}"
        raise WrongValue(attribute, value, said, shows_value=True)
    return value


def checked_all(kind: str, attributes: Mapping[str, Value]) -> dict[str, Value]:
    """Return attributes of a kind of object, by keyword, as they are kept; raises AdminError."""
    known = attributes_of(kind)
    values: dict[str, Value] = {}
    for keyword, value in attributes.items():
        if keyword not in known:
            raise unknown_attribute(kind, keyword, value)
        values[keyword] = checked(known[keyword], value)
    return values


def _text(attribute: Attribute, value: str) -> str:
    if not value.isprintable():
        raise WrongValue(attribute, value, " holds a character that cannot be printed")
    if attribute.length == _NAME_LENGTH:
        if value:
            _check_name(attribute, value)
        return value
    length_bytes = len(value.encode())
    if length_bytes > attribute.length:
        said = f" is {length_bytes} bytes long; it may have {attribute.length}"
        raise WrongValue(attribute, value, said)
    if attribute.keyword == "CUSTOM":
        _check_custom(attribute, value)
    return value


def _check_name(attribute: Attribute, name: str) -> None:
    try:
        check_name(name)
    except MQError as error:
        raise WrongValue(attribute, name, f": {error.detail}") from error


def _check_custom(attribute: Attribute, value: str) -> None:
    """CUSTOM holds NAME(VALUE) pairs with blanks between; CAPEXPRY is the only name known (X2)."""
    cap = attributes_of(QLOCAL)["CAPEXPRY"]
    pairs = [_CUSTOM_PAIR.fullmatch(pair) for pair in value.split()]
    for pair in pairs:
        if pair is None or fold(pair[1]) != cap.keyword or number_of(cap, pair[2]) is None:
            choice = f"it must be '' or 'CAPEXPRY(n)' where n is {allowed(cap)}"
            said = f" is not right: {choice}"
            raise WrongValue(attribute, value, said, shows_value=True)
    if len(pairs) > 1:
        raise WrongValue(attribute, value, " gives CAPEXPRY twice", shows_value=True)
