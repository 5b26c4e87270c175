"""The grammar of selectors, and the texts of its errors."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import lru_cache

from lark import Lark, Token, UnexpectedCharacters, UnexpectedToken

from mayfly.mqi.errors import MQError
from mayfly.properties.selectors.builder import Builder
from mayfly.properties.selectors.errors import syntax_error
from mayfly.properties.selectors.names import RESERVED
from mayfly.properties.selectors.nodes import Node, condition

#: Words are found as NAME first, since their case does not matter; a leading underscore keeps them
#: out of what a rule is handed.
_GRAMMAR = r"""
?whole: either

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
    """Return the whole of a selector; raises MQRC_SELECTOR_SYNTAX_ERROR with the position."""
    try:
        whole: Node = _parser().parse(text)  # type: ignore[assignment]  # what the Builder makes
    except UnexpectedCharacters as error:
        index = error.pos_in_stream
        raise _unknown_characters(text, index) from None  # type: ignore[arg-type]  # always an int
    except UnexpectedToken as error:
        raise _unexpected(text, error.token, error.accepts or set()) from None
    return condition(whole)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(
        _GRAMMAR,
        start="whole",
        parser="lalr",
        lexer="basic",
        transformer=Builder(),
        lexer_callbacks={"NAME": _word},
    )


def _word(token: Token) -> Token:
    word = token.upper()
    if word in RESERVED:
        return token.update(type=word if word in ("TRUE", "FALSE") else f"_{word}")
    return token


def _unknown_characters(text: str, index: int) -> MQError:
    char = text[index]
    if char == "'":
        return syntax_error(index, "a text that ends with a quote", "none")
    if char == '"':
        return syntax_error(index, 'a byte string such as "0x0AFC"', "something else")
    if char.isascii() and char.isdigit():
        return syntax_error(index, "a number", repr(text[index : index + 20].split()[0]))
    return syntax_error(index, "a word, a number, a quote or an operator", repr(char))


def _unexpected(text: str, token: Token, accepted: AbstractSet[str]) -> MQError:
    expected = _expected(set(accepted))
    if token.type == "$END":
        return syntax_error(len(text.rstrip()), expected, "the end")
    if token.type == "LOWEST":
        expected = "a number of 64 bits"
    return syntax_error(token.start_pos or 0, expected, repr(str(token)))


def _expected(accepted: set[str]) -> str:
    """Return words for the terminals that may come next."""
    words = []
    for phrase, sign, covered in _EXPECTED:
        if sign in accepted:
            words.append(phrase)
            accepted = accepted.difference(covered.split())
    return " or ".join([*words, *sorted(name.strip("_") for name in accepted)])
