"""From the grammar to closures: a method for each rule, which combines the parts of the rule."""

from __future__ import annotations

import math
from typing import Any

from lark import Token, Transformer

from mayfly.mqi.properties import Value, single
from mayfly.selectors import conditions
from mayfly.selectors.errors import syntax_error
from mayfly.selectors.nodes import Kind, Node, literal, named
from mayfly.selectors.patterns import compile_pattern
from mayfly.selectors.values import wrapped

_HIGHEST_DECIMAL = 2**63 - 1
_HIGHEST_BITS = 2**64 - 1
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
        return conditions.comparison(left, str(symbol), right)

    def between(self, parts: _Parts) -> Node:
        """``a BETWEEN b AND c``."""
        return conditions.between(*parts, is_inside=True)

    def not_between(self, parts: _Parts) -> Node:
        """``a NOT BETWEEN b AND c``."""
        return conditions.between(*parts, is_inside=False)

    def member(self, parts: _Parts) -> Node:
        """``a IN ('b', 'c')``."""
        return conditions.member(parts[0], [_text(part) for part in parts[1:]], is_inside=True)

    def not_member(self, parts: _Parts) -> Node:
        """``a NOT IN ('b', 'c')``."""
        return conditions.member(parts[0], [_text(part) for part in parts[1:]], is_inside=False)

    def like(self, parts: _Parts) -> Node:
        """``a LIKE 'b' ESCAPE 'c'``."""
        return _like(parts, is_like=True)

    def not_like(self, parts: _Parts) -> Node:
        """``a NOT LIKE 'b' ESCAPE 'c'``."""
        return _like(parts, is_like=False)

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


def _like(parts: _Parts, *, is_like: bool) -> Node:
    part, pattern, escape = parts
    escape_char = None if escape is None else _text(escape)
    if escape_char is not None and len(escape_char) != 1:
        raise syntax_error(_index(escape), "one character in quotes", str(escape))
    try:
        matches = compile_pattern(_text(pattern), escape_char)
    except ValueError:
        raise syntax_error(
            _index(pattern), "a character after the escape character", "the end of the pattern"
        ) from None
    return conditions.like(part, matches, is_like=is_like)


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
    return syntax_error(_index(token), "a number of 64 bits", str(token))
