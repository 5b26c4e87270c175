"""From the grammar to closures: a method for each rule, which combines the parts of the rule."""

from __future__ import annotations

import math
from typing import Any

from lark import Token, Transformer

from mayfly.mqi.properties import Value, single
from mayfly.properties.selectors import conditions
from mayfly.properties.selectors.errors import syntax_error
from mayfly.properties.selectors.identifiers import id_bytes, sent_id_text
from mayfly.properties.selectors.names import MESSAGE_ID
from mayfly.properties.selectors.nodes import Kind, Node, constant, literal, named, sent_message_id
from mayfly.properties.selectors.patterns import Pattern
from mayfly.properties.selectors.values import wrapped

_HIGHEST_DECIMAL = 2**63 - 1
_HIGHEST_BITS = 2**64 - 1
_MOST_DIGITS = len(str(_HIGHEST_DECIMAL))
#: Characters of a number that an error shows.
_SHOWN = 40
#: Nodes and tokens, in the order of the rule.
_Parts = list[Any]


class Conditions(Transformer[Token, Node]):
    """A method for each rule that combines parts; all raise MQRC_SELECTOR_SYNTAX_ERROR."""

    def either(self, parts: _Parts) -> Node:
        """``a OR b``."""
        return conditions.any_of(parts)

    def both(self, parts: _Parts) -> Node:
        """``a AND b``."""
        return conditions.all_of(parts)

    def opposite(self, parts: _Parts) -> Node:
        """``NOT a``."""
        return conditions.none_of(parts[0])

    def comparison(self, parts: _Parts) -> Node:
        """``a = b``."""
        left, symbol, right = parts
        left, right = _with_sent_id(left, right)
        right, left = _with_sent_id(right, left)
        return conditions.comparison(left, str(symbol), right)

    def between(self, parts: _Parts) -> Node:
        """``a BETWEEN b AND c``."""
        return conditions.between(*parts, is_inside=True)

    def not_between(self, parts: _Parts) -> Node:
        """``a NOT BETWEEN b AND c``."""
        return conditions.between(*parts, is_inside=False)

    def member(self, parts: _Parts) -> Node:
        """``a IN ('b', 'c')``."""
        return _member(parts, is_inside=True)

    def not_member(self, parts: _Parts) -> Node:
        """``a NOT IN ('b', 'c')``."""
        return _member(parts, is_inside=False)

    def like(self, parts: _Parts) -> Node:
        """``a LIKE 'b' ESCAPE 'c'``."""
        node = _like(parts, is_like=True)
        sent = _of_sent_id(parts)
        return node if sent is None else conditions.any_of([node, _like(sent, is_like=True)])

    def not_like(self, parts: _Parts) -> Node:
        """``a NOT LIKE 'b' ESCAPE 'c'``."""
        node = _like(parts, is_like=False)
        sent = _of_sent_id(parts)
        return node if sent is None else conditions.all_of([node, _like(sent, is_like=False)])

    def null(self, parts: _Parts) -> Node:
        """``a IS NULL``."""
        return conditions.null(parts[0], is_null=True)

    def not_null(self, parts: _Parts) -> Node:
        """``a IS NOT NULL``."""
        return conditions.null(parts[0], is_null=False)


class Builder(Conditions):
    """A method for each rule of the grammar; all raise MQRC_SELECTOR_SYNTAX_ERROR."""

    def calculation(self, parts: _Parts) -> Node:
        """``a + b - c`` or ``a * b / c``."""
        symbols = [str(part) for part in parts[1::2]]
        return conditions.calculation(parts[0], list(zip(symbols, parts[2::2], strict=True)))

    def signed(self, parts: _Parts) -> Node:
        """``-a``."""
        return conditions.signed(str(parts[0]), parts[1])

    def lowest(self, parts: _Parts) -> Node:
        """``-9223372036854775808``, whose digits alone would be too high."""
        sign, digits = parts
        if sign == "+":
            raise _out_of_range(digits)
        return _literal("number", wrapped(_HIGHEST_DECIMAL + 1), sign)

    def name(self, parts: _Parts) -> Node:
        """A name."""
        return named(str(parts[0]), _index(parts[0]))

    def string(self, parts: _Parts) -> Node:
        """``'a text'``."""
        return _literal("text", _text(parts[0]), parts[0])

    def integer(self, parts: _Parts) -> Node:
        """``57``, ``0x39`` or ``071``, an L behind it changing nothing (IBM MQ)."""
        token = parts[0]
        digits = token.rstrip("lL")
        if digits[:2] in ("0x", "0X"):
            value, highest = int(digits, 16), _HIGHEST_BITS
        elif digits[0] == "0":
            value, highest = int(digits, 8), _HIGHEST_BITS
        elif len(digits) > _MOST_DIGITS:
            # Python converts no more than 4,300 decimal digits.
            raise _out_of_range(token)
        else:
            value, highest = int(digits), _HIGHEST_DECIMAL
        if value > highest:
            raise _out_of_range(token)
        return _literal("number", wrapped(value), token)

    def float(self, parts: _Parts) -> Node:
        """``7.``, ``-57.9E2`` or any other float of Java."""
        token = parts[0]
        try:
            value = _float(token.lower())
        except OverflowError:
            raise _out_of_range(token) from None
        if math.isinf(value):
            raise _out_of_range(token)
        return _literal("number", value, token)

    def bytes(self, parts: _Parts) -> Node:
        """``"0x2F1C"``, the byte string of IBM MQ."""
        return _literal("bytes", bytes.fromhex(parts[0][3:-1]), parts[0])

    def true(self, parts: _Parts) -> Node:
        """``TRUE``."""
        return _literal("condition", True, parts[0])

    def false(self, parts: _Parts) -> Node:
        """``FALSE``."""
        return _literal("condition", False, parts[0])


def _literal(kind: Kind, value: Value, token: Token) -> Node:
    return literal(kind, value, _index(token))


def _index(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos


def _text(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _member(parts: _Parts, *, is_inside: bool) -> Node:
    """Return name IN (texts), or its opposite; of ids the sent ones are looked for as such."""
    part, texts = parts[0], [_text(part) for part in parts[1:]]
    sent = [sent_id_text(text) for text in texts if part.name == MESSAGE_ID and _is_sent(text)]
    if not sent:
        return conditions.member(part, texts, is_inside=is_inside)
    node = conditions.member(sent_message_id(part.index), sent, is_inside=is_inside)
    others = [text for text in texts if not _is_sent(text)]
    if not others:
        return node
    join = conditions.any_of if is_inside else conditions.all_of
    return join([conditions.member(part, others, is_inside=is_inside), node])


def _with_sent_id(part: Node, other: Node) -> tuple[Node, Node]:
    """Return the parts of a comparison; JMSMessageID and a sent id are compared as it was sent."""
    if part.name != MESSAGE_ID or other.kind != "text":
        return part, other
    text = str(constant(other))
    if not _is_sent(text):
        return part, other
    return sent_message_id(part.index), literal("text", sent_id_text(text), other.index)


def _of_sent_id(parts: _Parts) -> _Parts | None:
    """Return the parts of a LIKE for the id that was sent, None for another name."""
    part = parts[0]
    return [sent_message_id(part.index), *parts[1:]] if part.name == MESSAGE_ID else None


def _is_sent(text: str) -> bool:
    """Return True for an id that is none of MQ: a client of AMQP has given it."""
    return id_bytes(text) is None


def _like(parts: _Parts, *, is_like: bool) -> Node:
    part, pattern, escape = parts
    escape_char = None if escape is None else _text(escape)
    if escape_char is not None and len(escape_char) != 1:
        raise syntax_error(_index(escape), "one character in quotes", str(escape))
    try:
        compiled = Pattern(_text(pattern), escape_char)
    except ValueError:
        raise syntax_error(
            _index(pattern), "a character after the escape character", "the end of the pattern"
        ) from None
    return conditions.like(part, compiled, is_like=is_like)


def _float(text: str) -> float:
    """Return the value of a float of Java; raises OverflowError for one that is too large."""
    if text.startswith("0x"):
        # In front of the exponent sign "p", the letters f and d are hexadecimal digits.
        mantissa, _, exponent = text.partition("p")
        value = float.fromhex(f"{mantissa}p{exponent.rstrip('fd')}")
    else:
        value = float(text.rstrip("fd"))
    return single(value) if text.endswith("f") else value


def _out_of_range(token: Token) -> Exception:
    shown = str(token) if len(token) <= _SHOWN else f"{token[:_SHOWN]}..."
    return syntax_error(_index(token), "a number of 64 bits", shown)
