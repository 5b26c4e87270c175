"""The selector language: its grammar, the part for each rule, and the texts of its errors.

This module loads the parser's library, which is slow: import it where a selector is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken

from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import Value, single
from mayfly.verbs.properties.selectors import conditions
from mayfly.verbs.properties.selectors.conditions import (
    Kind,
    Node,
    Pattern,
    condition,
    constant,
    literal,
    named,
    sent_message_id,
    wrapped,
)
from mayfly.verbs.properties.selectors.names import (
    MESSAGE_ID,
    RESERVED,
    id_bytes,
    sent_id_text,
    syntax_error,
)

_HIGHEST_DECIMAL = 2**63 - 1
_HIGHEST_BITS = 2**64 - 1
_MAX_DIGITS = len(str(_HIGHEST_DECIMAL))
#: Characters of a number that an error shows.
_SHOWN = 40
#: Nodes and tokens, in the order of the rule.
_Parts = list[Any]


class Builder(Transformer[Token, Node]):
    """Builds the part of a selector for each rule of the grammar, by a method with the rule's name.

    ``parts`` are the rule's nodes and tokens, in order. All methods raise
    MQRC_SELECTOR_SYNTAX_ERROR for a part of the wrong kind or an invalid literal.
    """

    def either(self, parts: _Parts) -> Node:
        """Return the condition ``a OR b``, with any number of parts.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return conditions.any_of(parts)

    def both(self, parts: _Parts) -> Node:
        """Return the condition ``a AND b``, with any number of parts.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return conditions.all_of(parts)

    def opposite(self, parts: _Parts) -> Node:
        """Return the condition ``NOT a``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return conditions.none_of(parts[0])

    def comparison(self, parts: _Parts) -> Node:
        """Return the condition ``a = b``, or with ``<>``, ``<``, ``<=``, ``>`` or ``>=``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        left, symbol, right = parts
        left, right = _with_sent_id(left, right)
        right, left = _with_sent_id(right, left)
        return conditions.comparison(left, str(symbol), right)

    def between(self, parts: _Parts) -> Node:
        """Return the condition ``a BETWEEN b AND c``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return conditions.between(*parts, is_inside=True)

    def not_between(self, parts: _Parts) -> Node:
        """Return the condition ``a NOT BETWEEN b AND c``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return conditions.between(*parts, is_inside=False)

    def member(self, parts: _Parts) -> Node:
        """Return the condition ``a IN ('b', 'c')``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return _member(parts, is_inside=True)

    def not_member(self, parts: _Parts) -> Node:
        """Return the condition ``a NOT IN ('b', 'c')``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return _member(parts, is_inside=False)

    def like(self, parts: _Parts) -> Node:
        """Return the condition ``a LIKE 'b' ESCAPE 'c'``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        node = _like(parts, is_like=True)
        sent = _of_sent_id(parts)
        return node if sent is None else conditions.any_of([node, _like(sent, is_like=True)])

    def not_like(self, parts: _Parts) -> Node:
        """Return the condition ``a NOT LIKE 'b' ESCAPE 'c'``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        node = _like(parts, is_like=False)
        sent = _of_sent_id(parts)
        return node if sent is None else conditions.all_of([node, _like(sent, is_like=False)])

    def null(self, parts: _Parts) -> Node:
        """Return the condition ``a IS NULL``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return conditions.null(parts[0], is_null=True)

    def not_null(self, parts: _Parts) -> Node:
        """Return the condition ``a IS NOT NULL``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return conditions.null(parts[0], is_null=False)

    def calculation(self, parts: _Parts) -> Node:
        """Return a part that computes the number ``a + b - c`` or ``a * b / c``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        symbols = [str(part) for part in parts[1::2]]
        return conditions.calculation(parts[0], list(zip(symbols, parts[2::2], strict=True)))

    def signed(self, parts: _Parts) -> Node:
        """Return a part that computes the number ``-a`` or ``+a``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return conditions.signed(str(parts[0]), parts[1])

    def lowest(self, parts: _Parts) -> Node:
        """Return a constant part for ``-9223372036854775808``; with a plus it is a syntax error.

        Its digits alone, without the minus, would exceed 64 bits. ``parts`` are the nodes and
        tokens of the grammar rule, in order.
        """
        sign, digits = parts
        if sign == "+":
            raise _out_of_range(digits)
        return _literal("number", wrapped(_HIGHEST_DECIMAL + 1), sign)

    def name(self, parts: _Parts) -> Node:
        """Return a part that reads the value of a name.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return named(str(parts[0]), _index(parts[0]))

    def string(self, parts: _Parts) -> Node:
        """Return a constant part for the text ``'a text'``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return _literal("text", _text(parts[0]), parts[0])

    def integer(self, parts: _Parts) -> Node:
        """Return a constant part for the number ``57``, ``0x39`` or ``071``.

        An L at the end changes nothing (IBM MQ). A decimal number above 2**63 - 1, or another one
        above 2**64 - 1, is a syntax error. ``parts`` are the nodes and tokens of the grammar rule,
        in order.
        """
        token = parts[0]
        digits = token.rstrip("lL")
        if digits[:2] in ("0x", "0X"):
            value, highest = int(digits, 16), _HIGHEST_BITS
        elif digits[0] == "0":
            value, highest = int(digits, 8), _HIGHEST_BITS
        elif len(digits) > _MAX_DIGITS:
            # Python converts no more than 4,300 decimal digits.
            raise _out_of_range(token)
        else:
            value, highest = int(digits), _HIGHEST_DECIMAL
        if value > highest:
            raise _out_of_range(token)
        return _literal("number", wrapped(value), token)

    def float(self, parts: _Parts) -> Node:
        """Return a constant part for the number ``7.``, ``57.9E2`` or another Java float.

        One that is too large is a syntax error. ``parts`` are the nodes and tokens of the grammar
        rule, in order.
        """
        token = parts[0]
        try:
            value = _float(token.lower())
        except OverflowError:
            raise _out_of_range(token) from None
        if math.isinf(value):
            raise _out_of_range(token)
        return _literal("number", value, token)

    def bytes(self, parts: _Parts) -> Node:
        """Return a constant part for the byte string ``"0x2F1C"`` of IBM MQ.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return _literal("bytes", bytes.fromhex(parts[0][3:-1]), parts[0])

    def true(self, parts: _Parts) -> Node:
        """Return a constant part for the condition ``TRUE``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return _literal("condition", True, parts[0])

    def false(self, parts: _Parts) -> Node:
        """Return a constant part for the condition ``FALSE``.

        ``parts`` are the nodes and tokens of the grammar rule, in order.
        """
        return _literal("condition", False, parts[0])


def _literal(kind: Kind, value: Value, token: Token) -> Node:
    """Return a selector part with a constant value at the position of a token."""
    return literal(kind, value, _index(token))


def _index(token: Token) -> int:
    """Return the position of a token in the selector text, from 0."""
    assert token.start_pos is not None
    return token.start_pos


def _text(token: Token) -> str:
    """Return the text of a quoted token: ``'it''s'`` -> ``it's``."""
    return token[1:-1].replace("''", "'")


def _member(parts: _Parts, *, is_inside: bool) -> Node:
    """Return the condition name IN (texts), or NOT IN with ``is_inside`` False.

    For JMSMessageID, a text that is no MQ id is compared with the id that an AMQP client has set.
    ``parts`` are the nodes and tokens of the grammar rule, in order.
    """
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
    """Return the two parts of a comparison, adapted for JMSMessageID and a text that is no MQ id.

    Then the id that an AMQP client has set is compared. Other parts come back unchanged.
    """
    if part.name != MESSAGE_ID or other.kind != "text":
        return part, other
    text = str(constant(other))
    if not _is_sent(text):
        return part, other
    return sent_message_id(part.index), literal("text", sent_id_text(text), other.index)


def _of_sent_id(parts: _Parts) -> _Parts | None:
    """Return the parts of a LIKE, with JMSMessageID replaced by the id an AMQP client has set.

    Returns None when the name is not JMSMessageID.
    """
    part = parts[0]
    return [sent_message_id(part.index), *parts[1:]] if part.name == MESSAGE_ID else None


def _is_sent(text: str) -> bool:
    """Return True if a text is no MQ id (``ID:`` and hexadecimal): an AMQP client has set it."""
    return id_bytes(text) is None


def _like(parts: _Parts, *, is_like: bool) -> Node:
    """Return the condition name LIKE pattern ESCAPE character, or NOT LIKE with ``is_like`` False.

    ``parts`` are the nodes and tokens of the grammar rule, in order. Raises
    MQRC_SELECTOR_SYNTAX_ERROR for an ESCAPE of more or less than one character, or at the end of
    the pattern.
    """
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
    """Parse a Java float in lower case: ``1e3``, ``7.f``, ``0x1p3``.

    Raises OverflowError for one that is too large.
    """
    if text.startswith("0x"):
        # In front of the exponent sign "p", the letters f and d are hexadecimal digits.
        mantissa, _, exponent = text.partition("p")
        value = float.fromhex(f"{mantissa}p{exponent.rstrip('fd')}")
    else:
        value = float(text.rstrip("fd"))
    return single(value) if text.endswith("f") else value


def _out_of_range(token: Token) -> Exception:
    """Return (not raise) MQRC_SELECTOR_SYNTAX_ERROR for a number beyond 64 bits."""
    shown = str(token) if len(token) <= _SHOWN else f"{token[:_SHOWN]}..."
    return syntax_error(_index(token), "a number of 64 bits", shown)


#: Words are found as NAME first, since their case does not matter; a leading underscore keeps them
#: out of what a rule is handed.
_GRAMMAR = r"""
?selector: either

?either: both (_OR both)*
?both: negation (_AND negation)*
?negation: _NOT negation -> opposite
    | predicate

?predicate: sum
    | sum COMPARISON sum -> comparison
    | sum _BETWEEN sum _AND sum -> between
    | sum _NOT _BETWEEN sum _AND sum -> not_between
    | sum _IN _LEFT _strings _RIGHT -> member
    | sum _NOT _IN _LEFT _strings _RIGHT -> not_member
    | sum _LIKE STRING [_ESCAPE STRING] -> like
    | sum _NOT _LIKE STRING [_ESCAPE STRING] -> not_like
    | sum _IS _NULL -> null
    | sum _IS _NOT _NULL -> not_null
_strings: STRING (_COMMA STRING)*

?sum: product
    | product (SIGN product)+ -> calculation
?product: signed
    | signed (FACTOR signed)+ -> calculation
?signed: SIGN signed -> signed
    | SIGN LOWEST -> lowest
    | atom
?atom: _LEFT either _RIGHT
    | NAME -> name
    | STRING -> string
    | INTEGER -> integer
    | FLOAT -> float
    | BYTES -> bytes
    | TRUE -> true
    | FALSE -> false

%declare _OR _AND _NOT _BETWEEN _IN _LIKE _ESCAPE _IS _NULL TRUE FALSE

NAME: /[A-Za-z_$\x80-\U0010ffff][\w$.\x80-\U0010ffff]*/
STRING: /'(?:[^']|'')*'/
BYTES: /"0[xX](?:[0-9a-fA-F]{2})+"/
LOWEST.2: /9223372036854775808[lL]?(?![\w$.])/
INTEGER: /(?:0[xX][0-9a-fA-F]+|0[0-7]+|[1-9][0-9]*|0)[lL]?(?![\w$.])/
FLOAT: /(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?(?![\w$.])/
    | /[0-9]+(?:[eE][+-]?[0-9]+[fFdD]?|[fFdD])(?![\w$.])/
    | /0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?(?![\w$.])/
COMPARISON: "=" | "<>" | "<=" | ">=" | "<" | ">"
SIGN: "+" | "-"
FACTOR: "*" | "/"
_LEFT: "("
_RIGHT: ")"
_COMMA: ","
WHITE_SPACE: /[ \t\f\r\n]+/
%ignore WHITE_SPACE
"""
#: Words for terminals that may come next: (words, terminal that calls for them, terminals covered).
_EXPECTED = (
    (
        "a value",
        "NAME",
        "NAME STRING INTEGER FLOAT LOWEST BYTES TRUE FALSE SIGN _LEFT _NOT",
    ),
    ("an operator", "FACTOR", "FACTOR SIGN COMPARISON _OR _AND _NOT _IN _LIKE _IS _BETWEEN"),
    ("AND or OR", "_OR", "_OR _AND"),
    ("a text in quotes", "STRING", "STRING"),
    ("'('", "_LEFT", "_LEFT"),
    ("','", "_COMMA", "_COMMA"),
    ("')'", "_RIGHT", "_RIGHT"),
    ("the end", "$END", "$END"),
)


def parse(text: str) -> Node:
    """Parse a selector text into its condition.

    Raises MQRC_SELECTOR_SYNTAX_ERROR with the position and what was expected there.
    """
    try:
        root: Node = _parser().parse(text)  # type: ignore[assignment]  # what the Builder makes
    except UnexpectedCharacters as error:
        index = error.pos_in_stream
        raise _unknown_characters(text, index) from None  # type: ignore[arg-type]  # always an int
    except UnexpectedToken as error:
        raise _unexpected(text, error.token, error.accepts or set()) from None
    return condition(root)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    """Return the parser of the selector grammar, made at the first call."""
    return Lark(
        _GRAMMAR,
        start="selector",
        parser="lalr",
        lexer="basic",
        transformer=Builder(),
        lexer_callbacks={"NAME": _word},
    )


def _word(token: Token) -> Token:
    """Turn a NAME token into a keyword token if it is a reserved word, in upper or lower case.

    Any other token comes back unchanged.
    """
    word = token.upper()
    if word in RESERVED:
        return token.update(type=word if word in ("TRUE", "FALSE") else f"_{word}")
    return token


def _unknown_characters(text: str, index: int) -> MQError:
    """Return (not raise) the syntax error for characters at ``index`` that begin no token."""
    char = text[index]
    if char == "'":
        return syntax_error(index, "a text that ends with a quote", "none")
    if char == '"':
        return syntax_error(index, 'a byte string such as "0x0AFC"', "something else")
    if char.isascii() and char.isdigit():
        return syntax_error(index, "a number", repr(text[index : index + 20].split()[0]))
    return syntax_error(index, "a word, a number, a quote or an operator", repr(char))


def _unexpected(text: str, token: Token, accepted: AbstractSet[str]) -> MQError:
    """Return (not raise) the syntax error for a token that is not allowed at its place.

    ``accepted`` are the names of the terminals that would be allowed.
    """
    expected = _expected(set(accepted))
    if token.type == "$END":
        return syntax_error(len(text.rstrip()), expected, "the end")
    if token.type == "LOWEST":
        expected = "a number of 64 bits"
    return syntax_error(token.start_pos or 0, expected, repr(str(token)))


def _expected(accepted: set[str]) -> str:
    """Return error text on the terminals that may come next: ``a value or AND or OR``."""
    words = []
    for phrase, sign, covered in _EXPECTED:
        if sign in accepted:
            words.append(phrase)
            accepted = accepted.difference(covered.split())
    return " or ".join([*words, *sorted(name.strip("_") for name in accepted)])
