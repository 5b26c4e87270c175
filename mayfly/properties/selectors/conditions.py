"""Conditions and other parts of a selector as closures: values, arithmetic, comparisons.

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
from mayfly.properties.selectors.names import SENT_MESSAGE_ID, check_name, comparable, syntax_error
from mayfly.properties.selectors.patterns import Pattern

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
