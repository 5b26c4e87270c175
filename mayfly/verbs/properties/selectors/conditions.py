"""The parts of a selector as closures: values, arithmetic, comparisons, LIKE patterns.

A value is bool, int, float, str, bytes or None, which is NULL; exactly of these types. Numbers are
promoted as in Java: integers are of 64 bits and wrap around; bool is no number. NULL is treated as
in SQL: each condition is true, false or, through NULL, unknown.

Each part is a closure over the closures of its parts, so that testing a message needs no tree. A
part without names is evaluated at once.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from mayfly.mqi.properties import Value
from mayfly.verbs.properties.selectors.names import (
    SENT_MESSAGE_ID,
    check_name,
    comparable,
    syntax_error,
)

#: True, False or None, which is unknown.
Truth: TypeAlias = bool | None
Compare: TypeAlias = Callable[[Any, Any], bool]

COMPARISONS: dict[str, Compare] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ORDERINGS = frozenset({"<", "<=", ">", ">="})
#: The same comparison with its sides exchanged.
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BITS = 64
_TOP = 1 << (_BITS - 1)


def compared(symbol: str, left: Value, right: Value) -> Truth:
    """Return the result of a comparison by its symbol, such as ``<=``.

    It is None (unknown) when a side is NULL, and False for unlike types. Only numbers are ordered:
    ``<`` of two texts is False. An integer compared with a float becomes a float (JMS, "Message
    Selector Syntax").
    """
    if left is None or right is None:
        return None
    kind, other = type(left), type(right)
    if kind is other:
        if symbol in ORDERINGS and kind is not int and kind is not float:
            return False
        return COMPARISONS[symbol](left, right)
    if (kind is int or kind is float) and (other is int or other is float):
        return COMPARISONS[symbol](float(left), float(right))
    return False


def wrapped(number: int) -> int:
    """Return an integer wrapped around to 64 bits, as in Java."""
    return ((number + _TOP) & ((1 << _BITS) - 1)) - _TOP


def negative(value: Value) -> Value:
    """Return the negated number, None (NULL) for a value that is no number."""
    if type(value) is int:
        return wrapped(-value)
    return -value if type(value) is float else None


def positive(value: Value) -> Value:
    """Return the number unchanged, None (NULL) for a value that is no number."""
    return value if type(value) in (int, float) else None


def calculated(symbol: str, left: Value, right: Value) -> Value:
    """Return the result of + - * or /, None (NULL) when a side is no number.

    Integers divide towards zero; division of an integer by zero is NULL. Floats divide by zero to
    infinity or NaN.
    """
    if type(left) is int and type(right) is int:
        return _of_integers(symbol, left, right)
    if type(left) in (int, float) and type(right) in (int, float):
        assert left is not None
        assert right is not None
        return _of_floats(symbol, float(left), float(right))
    return None


def _of_integers(symbol: str, left: int, right: int) -> int | None:
    """Return the result of + - * or / on integers, wrapped to 64 bits.

    Division rounds towards zero; None (NULL) for division by zero.
    """
    if symbol == "+":
        return wrapped(left + right)
    if symbol == "-":
        return wrapped(left - right)
    if symbol == "*":
        return wrapped(left * right)
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return wrapped(quotient if (left < 0) == (right < 0) else -quotient)


def _of_floats(symbol: str, left: float, right: float) -> float:
    """Return the result of + - * or / on floats; division by zero gives infinity or NaN."""
    if symbol == "+":
        return left + right
    if symbol == "-":
        return left - right
    if symbol == "*":
        return left * right
    if right == 0:
        if left == 0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1, right)
    return left / right


#: Returns the value of a name for a message, None without one.
Resolve: TypeAlias = Callable[[str], Value]
Evaluate: TypeAlias = Callable[[Resolve], Value]
#: The kind of a part's value, as far as the text determines it; the value of a name is of any kind.
Kind: TypeAlias = Literal["condition", "number", "text", "bytes", "any"]

#: Parts within parts; each level costs two calls for each message.
DEPTH_LIMIT = 100
#: Reading a property searches for its folder, its start and its end.
_READ_WORK = 4
_FOUND: dict[Kind, str] = {
    "condition": "a condition",
    "number": "a number",
    "text": "a text",
    "bytes": "a byte string",
    "any": "a name",
}


def _no_value(name: str) -> Value:
    """Raise AssertionError always: the name resolver for parts without names."""
    raise AssertionError(f"{name} in a part without names")


@dataclass(frozen=True, slots=True)
class Node:
    """One part of a selector; ``index`` is the position in the text where it begins, from 0.

    ``names`` are the names it reads; ``name`` is set if it is a single name. ``equal_to`` maps
    names to the value that every message has for which this condition is true. ``reads`` is how
    often it reads a name. ``work`` estimates how often it reads each character of a message.
    """

    kind: Kind
    evaluate: Evaluate
    index: int
    names: frozenset[str] = frozenset()
    depth: int = 0
    name: str | None = None
    equal_to: Mapping[str, Value] = field(default_factory=dict)
    reads: int = 0
    work: int = 0


def literal(kind: Kind, value: Value, index: int) -> Node:
    """Return a selector part with a constant value of this kind; ``index`` is its position."""
    return Node(kind, lambda resolve: value, index)  # noqa: ARG005  # called like all others


def named(name: str, index: int) -> Node:
    """Return a selector part that reads the value of a name at position ``index``.

    Raises MQRC_SELECTOR_SYNTAX_ERROR for a name that a selector may not use.
    """
    check_name(name, index)
    return _reading(name, index)


def sent_message_id(index: int) -> Node:
    """Return a selector part that reads the id set by an AMQP client, or else the MsgId.

    ``index`` is the position of the name in the selector.
    """
    return _reading(SENT_MESSAGE_ID, index)


def _reading(name: str, index: int) -> Node:
    """Return a selector part that reads the value of a name; the name is not checked."""
    names = frozenset({name})
    return Node(
        "any", lambda resolve: resolve(name), index, names, name=name, reads=1, work=_READ_WORK
    )


def joined(kind: Kind, evaluate: Evaluate, *parts: Node) -> Node:
    """Return a selector part that combines ``parts``; without names it becomes a constant.

    ``kind`` is the type of its value. ``evaluate`` computes that value. Raises
    MQRC_SELECTOR_SYNTAX_ERROR beyond 100 levels of nesting.
    """
    first = parts[0]
    names = frozenset[str]().union(*(part.names for part in parts))
    if not names:
        return literal(kind, evaluate(_no_value), first.index)
    depth = 1 + max(part.depth for part in parts)
    if depth > DEPTH_LIMIT:
        raise syntax_error(first.index, f"at most {DEPTH_LIMIT} levels of nesting", "more")
    reads, work = sum(part.reads for part in parts), sum(part.work for part in parts)
    return Node(kind, evaluate, first.index, names, depth, reads=reads, work=work)


def constant(node: Node) -> Value:
    """Return the value of a selector part that reads no names.

    Raises AssertionError for a part that reads a name.
    """
    return node.evaluate(_no_value)


def number_part(node: Node) -> Node:
    """Return a selector part unchanged if its value may be a number.

    Raises MQRC_SELECTOR_SYNTAX_ERROR if it is a condition, text or byte string.
    """
    if node.kind not in ("number", "any"):
        raise _misplaced(node, "a number")
    return node


def condition(node: Node) -> Node:
    """Return a selector part as a condition; a name alone means ``name = TRUE``.

    Raises MQRC_SELECTOR_SYNTAX_ERROR for a number, text or byte string.
    """
    if node.kind == "condition":
        return node
    if node.kind != "any":
        raise _misplaced(node, "a condition")
    value_of = node.evaluate

    def evaluate(resolve: Resolve) -> Truth:
        value = value_of(resolve)
        return value if value is None or value is True else False

    return replace(node, kind="condition", evaluate=evaluate, name=None)


def name_of(node: Node) -> str:
    """Return the name that a selector part reads.

    Raises MQRC_SELECTOR_SYNTAX_ERROR if the part is not a single name.
    """
    if node.name is None:
        raise _misplaced(node, "the name of a property")
    return node.name


def _misplaced(node: Node, expected: str) -> Exception:
    """Return (not raise) MQRC_SELECTOR_SYNTAX_ERROR for a part of another kind than expected."""
    return syntax_error(node.index, expected, _FOUND[node.kind])


def all_of(parts: Sequence[Node]) -> Node:
    """Return the condition a AND b AND …: false when one is false, else unknown if one is.

    Raises MQRC_SELECTOR_SYNTAX_ERROR for a part that cannot be a condition.
    """
    conditions = [condition(part) for part in parts]
    equal_to = {name: value for part in conditions for name, value in part.equal_to.items()}
    evaluate = _chained([part.evaluate for part in conditions], ends=False)
    return replace(joined("condition", evaluate, *conditions), equal_to=equal_to)


def any_of(parts: Sequence[Node]) -> Node:
    """Return the condition a OR b OR …: true when one is true, else unknown if one is.

    Raises MQRC_SELECTOR_SYNTAX_ERROR for a part that cannot be a condition.
    """
    conditions = [condition(part) for part in parts]
    return joined(
        "condition", _chained([part.evaluate for part in conditions], ends=True), *conditions
    )


def none_of(part: Node) -> Node:
    """Return the condition NOT a; NOT unknown is unknown.

    Raises MQRC_SELECTOR_SYNTAX_ERROR for a part that cannot be a condition.
    """
    part = condition(part)
    return joined("condition", _opposite(part.evaluate), part)


def comparison(left: Node, symbol: str, right: Node) -> Node:
    """Return the condition that compares two parts by a symbol such as ``<=``.

    Raises MQRC_SELECTOR_SYNTAX_ERROR if < <= > or >= gets a part that is no number.
    """
    if symbol in ORDERINGS:
        number_part(left)
        number_part(right)
    if right.name is not None and not left.names:
        left, symbol, right = right, MIRRORED[symbol], left
    if left.name is not None and not right.names:
        return _with_literal(left, symbol, constant(right), right)
    one, other = left.evaluate, right.evaluate
    return joined(
        "condition", lambda resolve: compared(symbol, one(resolve), other(resolve)), left, right
    )


def between(part: Node, low: Node, high: Node, *, is_inside: bool) -> Node:
    """Return the condition part BETWEEN low AND high, with bounds included.

    It is NOT BETWEEN if ``is_inside`` is False. ``part`` is evaluated once. Raises
    MQRC_SELECTOR_SYNTAX_ERROR for a part that is no number.
    """
    parts = [number_part(node) for node in (part, low, high)]
    value_of, low_of, high_of = (node.evaluate for node in parts)
    first, second = (">=", "<=") if is_inside else ("<", ">")
    decisive = not is_inside

    def evaluate(resolve: Resolve) -> Truth:
        value = value_of(resolve)
        one = compared(first, value, low_of(resolve))
        if one is decisive:
            return one
        other = compared(second, value, high_of(resolve))
        return other if one is not None or other is decisive else None

    return joined("condition", evaluate, *parts)


def member(part: Node, texts: Sequence[str], *, is_inside: bool) -> Node:
    """Return the condition name IN (texts), or NOT IN if ``is_inside`` is False.

    It is unknown when the name has no value. Raises MQRC_SELECTOR_SYNTAX_ERROR if ``part`` is not a
    single name.
    """
    name = name_of(part)
    allowed = frozenset(comparable(name, text) for text in texts)

    def evaluate(resolve: Resolve) -> Truth:
        value = resolve(name)
        return None if value is None else value in allowed

    if not is_inside:
        return joined("condition", _opposite(evaluate), part)
    equal_to = dict.fromkeys([name], *allowed) if len(allowed) == 1 else {}
    return replace(joined("condition", evaluate, part), equal_to=equal_to)


def like(part: Node, pattern: Pattern, *, is_like: bool) -> Node:
    """Return the condition name LIKE pattern, or NOT LIKE if ``is_like`` is False.

    It is unknown when the name has no value. A value that is no text is not LIKE any pattern.
    Raises MQRC_SELECTOR_SYNTAX_ERROR if ``part`` is not a single name.
    """
    name, matches = name_of(part), pattern.matches

    def evaluate(resolve: Resolve) -> Truth:
        value = resolve(name)
        if value is None:
            return None
        return matches(value) if type(value) is str else False

    node = joined("condition", evaluate if is_like else _opposite(evaluate), part)
    return replace(node, work=node.work + pattern.work)


def null(part: Node, *, is_null: bool) -> Node:
    """Return the condition name IS NULL, or IS NOT NULL if ``is_null`` is False.

    It is never unknown. Raises MQRC_SELECTOR_SYNTAX_ERROR if ``part`` is not a single name.
    """
    name = name_of(part)
    if is_null:
        return joined("condition", lambda resolve: resolve(name) is None, part)
    return joined("condition", lambda resolve: resolve(name) is not None, part)


def signed(sign: str, part: Node) -> Node:
    """Return the number ``-part`` or ``+part``.

    Raises MQRC_SELECTOR_SYNTAX_ERROR for a part that is no number.
    """
    value_of = number_part(part).evaluate
    apply = negative if sign == "-" else positive
    return joined("number", lambda resolve: apply(value_of(resolve)), part)


def calculation(first: Node, rest: Sequence[tuple[str, Node]]) -> Node:
    """Return a part that computes numbers joined by operators of one precedence, left to right.

    Each item of ``rest`` is an operator and the part after it. Raises MQRC_SELECTOR_SYNTAX_ERROR
    for a part that is no number.
    """
    parts = [number_part(node) for node in (first, *(node for _, node in rest))]
    start = first.evaluate
    steps = [(symbol, node.evaluate) for symbol, node in rest]

    def evaluate(resolve: Resolve) -> Value:
        result = start(resolve)
        for symbol, value_of in steps:
            result = calculated(symbol, result, value_of(resolve))
        return result

    return joined("number", evaluate, *parts)


def _with_literal(part: Node, symbol: str, value: Value, other: Node) -> Node:
    """Return the condition that compares a name with a constant, in its fastest form.

    ``part`` is the name, ``other`` the constant with its ``value``, ``symbol`` the comparison.
    """
    name = name_of(part)
    if isinstance(value, str):
        value = comparable(name, value)
    if type(value) is int or type(value) is float:
        evaluate = _number_test(name, symbol, value)
    elif symbol == "=" and isinstance(value, bool | str | bytes):
        evaluate = _equality_test(name, value)
    else:
        evaluate = lambda resolve: compared(symbol, resolve(name), value)  # noqa: E731  # one of three
    equal_to = {name: value} if symbol == "=" else {}
    return replace(joined("condition", evaluate, part, other), equal_to=equal_to)


def _number_test(name: str, symbol: str, wanted: int | float) -> Evaluate:
    """Return a test of a name's value against the number ``wanted``.

    ``symbol`` is the comparison, such as ``<=``. Results equal those of ``compared``; it is a
    faster form of the most frequent case.
    """
    compare = COMPARISONS[symbol]
    as_float = float(wanted)
    of_integers = wanted if type(wanted) is int else None

    def evaluate(resolve: Resolve) -> Truth:
        value = resolve(name)
        kind = type(value)
        if kind is int:
            if of_integers is not None:
                return compare(value, of_integers)
            return compare(float(value), as_float)  # type: ignore[arg-type]  # an int by its kind
        if kind is float:
            return compare(value, as_float)
        return None if value is None else False

    return evaluate


def _equality_test(name: str, wanted: str | bytes | bool) -> Evaluate:
    """Return a test whether a name equals a text, byte string or boolean; TRUE differs from 1.

    The result is unknown when the name has no value.
    """
    kind = type(wanted)

    def evaluate(resolve: Resolve) -> Truth:
        value = resolve(name)
        if type(value) is kind:
            return value == wanted
        return None if value is None else False

    return evaluate


def _opposite(test: Evaluate) -> Evaluate:
    """Return a test with the opposite result; unknown (None) stays unknown."""

    def evaluate(resolve: Resolve) -> Truth:
        truth = test(resolve)
        return None if truth is None else not truth

    return evaluate


def _chained(tests: Sequence[Evaluate], *, ends: bool) -> Evaluate:
    """Return one test that combines several: AND with ``ends`` False, OR with ``ends`` True.

    Its result is ``ends`` if that of one test is, else unknown if one is, else the opposite of
    ``ends``.
    """
    if len(tests) == 2:
        return _paired(tests[0], tests[1], ends=ends)

    def evaluate(resolve: Resolve) -> Truth:
        result: Truth = not ends
        for test in tests:
            truth = test(resolve)
            if truth is ends:
                return ends
            if truth is None:
                result = None
        return result

    return evaluate


def _paired(left: Evaluate, right: Evaluate, *, ends: bool) -> Evaluate:
    """Return one test that combines two: AND with ``ends`` False, OR with ``ends`` True.

    Its results are those of :func:`_chained`, but it is faster.
    """

    def evaluate(resolve: Resolve) -> Value:
        one = left(resolve)
        if one is ends:
            return ends
        other = right(resolve)
        return other if one is not None or other is ends else None

    return evaluate


# LIKE patterns: _ stands for any one character, % for any number of characters


#: If a search compares more characters than this for each position, :meth:`Gapped._walk` takes
#: over; the second number is not counted, for short texts.
PATIENCE = 16
FREE = 1_024
#: CPython's ``str.find`` compares each character this often at the most: it searches long texts in
#: linear time; in a short text it may compare as often as the needle is long.
_FIND_LIMIT = 100
#: Steps of one character in :meth:`Gapped._walk`, in comparisons of ``str.find``.
_WALK = 200


class Gapped:
    """A part of a pattern between percent signs that contains ``_``; it has a fixed length.

    ``pieces`` are the texts in it, each with its offset: ``a_bc`` -> ``(0, "a"), (2, "bc")``.
    """

    __slots__ = ("_anchor", "_anchor_offset", "length", "pieces")

    def __init__(self, length: int, pieces: tuple[tuple[int, str], ...]) -> None:
        """Create a part of ``length`` characters, with the texts in it and their offsets."""
        self.length = length
        self.pieces = pieces
        #: The longest piece is the one that is searched.
        self._anchor_offset, self._anchor = max(
            pieces, key=lambda piece: len(piece[1]), default=(0, "")
        )

    def is_at(self, text: str, start: int) -> bool:
        """Return True if the part matches at this position of a text."""
        return start + self.length <= len(text) and all(
            text.startswith(piece, start + offset) for offset, piece in self.pieces
        )

    def find(self, text: str, start: int, end: int) -> int:
        """Return the first position of a match in text[start:end], -1 without a match."""
        if end - start < self.length:
            return -1
        anchor, before = self._anchor, self._anchor_offset
        # The pieces behind the anchor must fit too. Without any piece the anchor is empty, and
        # found where the complete part fits.
        anchor_end = end - (self.length - before - len(anchor))
        if len(self.pieces) <= 1:
            found = text.find(anchor, start + before, anchor_end)
            return found - before if found >= 0 else -1
        at, compared = start, 0
        while (found := text.find(anchor, at + before, anchor_end)) >= 0:
            at = found - before
            compared += len(anchor)
            for offset, piece in self.pieces:
                compared += len(piece)
                if not text.startswith(piece, at + offset):
                    break
            else:
                return at
            at += 1
            if compared > FREE + PATIENCE * (at - start):
                return self._walk(text, at, end)
        return -1

    def _walk(self, text: str, start: int, end: int) -> int:
        """Return the first match like :meth:`find`, in one step for each character of the text.

        It is used when :meth:`find` compares too often. Bit n of ``state`` says that the last n + 1
        characters match the first n + 1 of this part (Baeza-Yates and Gonnet, "A new approach to
        text searching", 1992).
        """
        gaps = (1 << self.length) - 1
        of_char: dict[str, int] = {}
        for offset, piece in self.pieces:
            for place, char in enumerate(piece, offset):
                of_char[char] = of_char.get(char, 0) | 1 << place
            gaps ^= ((1 << len(piece)) - 1) << offset
        of_char = {char: places | gaps for char, places in of_char.items()}
        last, state = 1 << (self.length - 1), 0
        for at in range(start, end):
            state = (state << 1 | 1) & of_char.get(text[at], gaps)
            if state & last:
                return at + 1 - self.length
        return -1


#: One part between percent signs.
Part: TypeAlias = str | Gapped


class Pattern:
    """A compiled LIKE pattern.

    ``work`` is how often it compares each character of a text at most. A match takes time linear in
    the length of the text: the first position of each part is the right one, as it leaves most text
    for the later parts. So no part is searched twice.
    """

    __slots__ = ("_first", "_last", "_middle", "work")

    def __init__(self, pattern: str, escape: str | None) -> None:
        """Compile a pattern; a character after the escape character is taken literally.

        ``escape`` None means no escape character. Raises ValueError when the pattern ends with the
        escape character.
        """
        parts = _parts(pattern, escape)
        self._first: Part = parts[0]
        #: None without a percent sign.
        self._last: Part | None = parts[-1] if len(parts) > 1 else None
        self._middle: list[Part] = [part for part in parts[1:-1] if part != ""]
        self.work = max(map(_work_of, self._middle), default=1)

    def matches(self, text: str) -> bool:
        """Return True if the complete text matches the pattern."""
        first, last = self._first, self._last
        at = _length_of(first)
        if last is None:
            return len(text) == at and _is_at(first, text, 0)
        end = len(text) - _length_of(last)
        if end < at or not _is_at(first, text, 0) or not _is_at(last, text, end):
            return False
        for part in self._middle:
            found = _find(part, text, at, end)
            if found < 0:
                return False
            at = found + _length_of(part)
        return True


def _find(part: Part, text: str, start: int, end: int) -> int:
    """Return the first position of a part in text[start:end], -1 without a match."""
    return text.find(part, start, end) if isinstance(part, str) else part.find(text, start, end)


def _is_at(part: Part, text: str, start: int) -> bool:
    """Return True if a part matches at position ``start`` of a text."""
    return text.startswith(part, start) if isinstance(part, str) else part.is_at(text, start)


def _length_of(part: Part) -> int:
    """Return how many characters a part matches."""
    return len(part) if isinstance(part, str) else part.length


def _work_of(part: Part) -> int:
    """Return how often the search for a part compares each character of a text at most."""
    if isinstance(part, str):
        return min(len(part), _FIND_LIMIT)
    if len(part.pieces) <= 1:
        return min(part.length, _FIND_LIMIT)
    return _WALK + part.length // 8


def _parts(pattern: str, escape: str | None) -> list[Part]:
    """Split a pattern at its percent signs: ``a%b_c`` -> ``"a"`` and a Gapped part.

    Equal parts are one object. Raises ValueError when the pattern ends with the escape character.
    """
    parts: list[Part] = []
    known: dict[object, Part] = {}
    length, pieces = 0, list[tuple[int, str]]()
    piece: list[str] = []

    def end_piece() -> None:
        """Move the collected characters to the pieces of the present part."""
        if piece:
            pieces.append((length - len(piece), "".join(piece)))
            piece.clear()

    def end_part() -> None:
        """Add the present part to the result, and begin a new one."""
        nonlocal length
        end_piece()
        key = length, tuple(pieces)
        is_plain = sum(len(text) for _, text in pieces) == length
        if key not in known:
            known[key] = "".join(text for _, text in pieces) if is_plain else Gapped(*key)
        parts.append(known[key])
        length = 0
        pieces.clear()

    chars = iter(pattern)
    for char in chars:
        if char == escape:
            escaped = next(chars, None)
            if escaped is None:
                raise ValueError(pattern)
            piece.append(escaped)
        elif char == "%":
            end_part()
            continue
        elif char == "_":
            end_piece()
        else:
            piece.append(char)
        length += 1
    end_part()
    return parts
