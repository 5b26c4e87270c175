"""How an entry of a rule table is written: keywords, each with one value in parentheses."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from lark import Lark, Token, UnexpectedCharacters, UnexpectedToken

from mayfly.admin.mqsc.grammar import Statement, fold
from mayfly.services.dead_letter.errors import RuleTableError

_GRAMMAR = r"""
entry: parameter+
parameter: WORD _LEFT [QUOTED | WORD] _RIGHT
QUOTED: /'(?:[^']|'')*'/
WORD: /[^\s,()']+/
_LEFT: "("
_RIGHT: ")"
%ignore /[\s,]+/
"""


class Parameter(NamedTuple):
    """KEYWORD(value): the keyword and what is not quoted in upper case; blanks at the end gone.

    ``typed`` is the value as it was typed, quotes included; None without any.
    """

    keyword: str
    value: str
    typed: str | None
    line: int
    column: int

    @property
    def is_quoted(self) -> bool:
        """Whether the value stands in quotes."""
        return self.typed is not None and self.typed.startswith("'")

    def wrong(self, why: str) -> RuleTableError:
        """Return the error that names this parameter."""
        return RuleTableError(f"{self.keyword}({self.typed or ''}) {why}", self.line, self.column)


def parse_entry(statement: Statement) -> list[Parameter]:
    """Return the parameters of an entry; raises RuleTableError with the place of the mistake."""
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
    return Lark(_GRAMMAR, start="entry", parser="lalr", lexer="basic", maybe_placeholders=True)


def _parameter(statement: Statement, keyword: Token, value: Token | None) -> Parameter:
    place = statement.place(keyword.start_pos or 0)
    if value is None:
        return Parameter(fold(keyword), "", None, *place)
    plain = value[1:-1].replace("''", "'") if value.type == "QUOTED" else fold(value)
    return Parameter(fold(keyword), plain.rstrip(), str(value), *place)


def _unexpected(statement: Statement, token: Token, accepted: set[str]) -> RuleTableError:
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
