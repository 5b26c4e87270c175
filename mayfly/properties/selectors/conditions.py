"""The conditions of a selector as closures: each is true, false or, through NULL, unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mayfly.mqi.properties import Value
from mayfly.properties.selectors.names import comparable
from mayfly.properties.selectors.nodes import (
    Evaluate,
    Node,
    Resolve,
    condition,
    constant,
    joined,
    name_of,
)
from mayfly.properties.selectors.nodes import number as number_part
from mayfly.properties.selectors.patterns import Pattern
from mayfly.properties.selectors.values import (
    COMPARISONS,
    MIRRORED,
    ORDERINGS,
    Truth,
    calculated,
    compared,
    negative,
    positive,
)


def all_of(parts: Sequence[Node]) -> Node:
    """Return a AND b AND ...: false when one is false, else unknown when one is."""
    conditions = [condition(part) for part in parts]
    equal_to = {name: value for part in conditions for name, value in part.equal_to.items()}
    evaluate = _chained([part.evaluate for part in conditions], ends=False)
    return replace(joined("condition", evaluate, *conditions), equal_to=equal_to)


def any_of(parts: Sequence[Node]) -> Node:
    """Return a OR b OR ...: true when one is true, else unknown when one is."""
    conditions = [condition(part) for part in parts]
    return joined(
        "condition", _chained([part.evaluate for part in conditions], ends=True), *conditions
    )


def none_of(part: Node) -> Node:
    """Return NOT a; the opposite of unknown is unknown."""
    part = condition(part)
    return joined("condition", _opposite(part.evaluate), part)


def comparison(left: Node, symbol: str, right: Node) -> Node:
    """Return a comparison; raises MQRC_SELECTOR_SYNTAX_ERROR for < or > between unordered kinds."""
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
    """Return part BETWEEN low AND high, or its opposite, as two comparisons with one value."""
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
    """Return name IN (texts), or its opposite."""
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
    """Return name LIKE a pattern, or its opposite."""
    name, matches = name_of(part), pattern.matches

    def evaluate(resolve: Resolve) -> Truth:
        value = resolve(name)
        if value is None:
            return None
        return matches(value) if type(value) is str else False

    node = joined("condition", evaluate if is_like else _opposite(evaluate), part)
    return replace(node, work=node.work + pattern.work)


def null(part: Node, *, is_null: bool) -> Node:
    """Return name IS NULL, or its opposite; never unknown."""
    name = name_of(part)
    if is_null:
        return joined("condition", lambda resolve: resolve(name) is None, part)
    return joined("condition", lambda resolve: resolve(name) is not None, part)


def signed(sign: str, part: Node) -> Node:
    """Return a number with its sign."""
    value_of = number_part(part).evaluate
    apply = negative if sign == "-" else positive
    return joined("number", lambda resolve: apply(value_of(resolve)), part)


def calculation(first: Node, rest: Sequence[tuple[str, Node]]) -> Node:
    """Return numbers joined by operators of one rank, worked out from left to right."""
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
    """Return name compared with a number; the same as ``compared``, for the most frequent case."""
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
    """Return name = a text, byte string or boolean; TRUE is not 1."""
    kind = type(wanted)

    def evaluate(resolve: Resolve) -> Truth:
        value = resolve(name)
        if type(value) is kind:
            return value == wanted
        return None if value is None else False

    return evaluate


def _opposite(test: Evaluate) -> Evaluate:
    def evaluate(resolve: Resolve) -> Truth:
        truth = test(resolve)
        return None if truth is None else not truth

    return evaluate


def _chained(tests: Sequence[Evaluate], *, ends: bool) -> Evaluate:
    """Return tests as one: a result ``ends`` decides, else an unknown, else it is not ``ends``."""
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
    def evaluate(resolve: Resolve) -> Value:
        one = left(resolve)
        if one is ends:
            return ends
        other = right(resolve)
        return other if one is not None or other is ends else None

    return evaluate
