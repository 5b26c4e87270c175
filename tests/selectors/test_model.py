"""Selectors against a second, slow evaluator that knows nothing of the first.

Truth is a number here: 0 false, 1/2 unknown, 1 true; AND is the least, OR the greatest.
"""

from __future__ import annotations

import ctypes
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly.mqi.properties import Value
from mayfly.verbs.properties.selectors.selector import compile_selector
from tests.examples import examples

UNKNOWN = Fraction(1, 2)
TRUTHS: dict[Fraction, bool | None] = {Fraction(0): False, UNKNOWN: None, Fraction(1): True}
#: An expression: an operator and its operands, which are expressions, names or literals.
Tree = tuple[Any, ...]

names = st.sampled_from(["a", "b", "c", "d"])
name_trees = names.map(lambda name: ("name", name))
small = st.integers(-3, 3)
integers = st.one_of(small, st.integers(-(2**63), 2**63 - 1))
floats = st.one_of(small.map(float), st.floats(allow_nan=False, allow_infinity=False))
texts = st.text(alphabet="ab_%'!", max_size=4)
values = st.one_of(
    st.none(),
    st.booleans(),
    integers,
    st.floats(),
    small.map(float),
    texts,
    st.binary(max_size=2),
)
numbers = st.recursive(
    st.one_of(name_trees, st.one_of(integers, floats).map(lambda n: ("literal", n))),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-*/"), inner, inner),
        st.tuples(st.just("minus"), inner),
    ),
    max_leaves=4,
)
operands = st.one_of(
    numbers,
    st.one_of(texts, st.booleans(), st.binary(min_size=1, max_size=2)).map(
        lambda literal: ("literal", literal)
    ),
)
simple = st.one_of(
    name_trees,
    st.booleans().map(lambda literal: ("literal", literal)),
    st.tuples(st.sampled_from(["=", "<>"]), operands, operands),
    st.tuples(st.sampled_from(["<", "<=", ">", ">="]), numbers, numbers),
    st.tuples(st.sampled_from(["BETWEEN", "NOT BETWEEN"]), numbers, numbers, numbers),
    st.tuples(
        st.sampled_from(["IN", "NOT IN"]), name_trees, st.lists(texts, min_size=1, max_size=3)
    ),
    st.tuples(
        st.sampled_from(["LIKE", "NOT LIKE"]), name_trees, texts.filter(lambda t: "!" not in t)
    ),
    st.tuples(st.sampled_from(["IS NULL", "IS NOT NULL"]), name_trees),
)
conditions = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["AND", "OR"]), inner, inner),
        st.tuples(st.just("NOT"), inner),
        st.tuples(st.sampled_from(["=", "<>"]), inner, inner),
    ),
    max_leaves=6,
)

RANKS = {"OR": 1, "AND": 2, "NOT": 3, "+": 5, "-": 5, "*": 6, "/": 6, "minus": 7, "name": 8}


def rank(tree: Tree) -> int:
    if tree[0] == "literal":
        return 7 if isinstance(tree[1], int | float) and str(tree[1])[0] == "-" else 8
    return RANKS.get(tree[0], 4)


def written(tree: Tree, least_rank: int = 0) -> str:
    """Return the text of a tree with no more parentheses than it needs."""
    text = bare(tree)
    return text if rank(tree) >= least_rank else f"({text})"


def bare(tree: Tree) -> str:
    sign, *parts = tree
    if sign == "name":
        return str(parts[0])
    if sign == "literal":
        return literal(parts[0])
    if sign == "NOT":
        return f"NOT {written(parts[0], 3)}"
    if sign == "minus":
        return f"- {written(parts[0], 7)}"
    if sign in ("IS NULL", "IS NOT NULL"):
        return f"{parts[0][1]} {sign}"
    if sign.endswith("IN"):
        return f"{parts[0][1]} {sign} ({', '.join(map(literal, parts[1]))})"
    if sign.endswith("LIKE"):
        return f"{parts[0][1]} {sign} {literal(parts[1])}"
    if sign.endswith("BETWEEN"):
        return f"{written(parts[0], 5)} {sign} {written(parts[1], 5)} AND {written(parts[2], 5)}"
    own = rank(tree)
    left, right = (own, own + 1) if own != 4 else (5, 5)
    return f"{written(parts[0], left)} {sign} {written(parts[1], right)}"


def literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, bytes):
        return f'"0x{value.hex()}"'
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def value_of(tree: Tree, message: dict[str, Value]) -> Value:
    sign, *parts = tree
    if sign == "name":
        return message.get(parts[0])
    if sign == "literal":
        found: Value = parts[0]
        return found
    if sign == "minus":
        # As 0 - x, but for the sign of zero.
        value = value_of(parts[0], message)
        return -value if isinstance(value, float) else arithmetic("-", 0, value)
    if sign in "+-*/":
        return arithmetic(sign, value_of(parts[0], message), value_of(parts[1], message))
    return TRUTHS[truth(tree, message)]


def arithmetic(sign: str, left: Any, right: Any) -> Value:
    for side in (left, right):
        if isinstance(side, bool) or not isinstance(side, int | float):
            return None
    if isinstance(left, int) and isinstance(right, int):
        if sign == "/":
            return long(math.trunc(Fraction(left, right))) if right else None
        return long({"+": left + right, "-": left - right, "*": left * right}[sign])
    one, other = ctypes.c_double(left).value, ctypes.c_double(right).value
    if sign != "/":
        return {"+": one + other, "-": one - other, "*": one * other}[sign]
    if other != 0:
        return one / other
    same_sign = math.copysign(1, one) == math.copysign(1, other)
    return math.nan if one == 0 or one != one else math.inf if same_sign else -math.inf


def long(number: int) -> int:
    return ctypes.c_int64(number).value


def compare(sign: str, left: Any, right: Any) -> Fraction:
    if left is None or right is None:
        return UNKNOWN
    are_numbers = all(
        isinstance(side, int | float) and not isinstance(side, bool) for side in (left, right)
    )
    if are_numbers and type(left) is not type(right):
        left, right = ctypes.c_double(left).value, ctypes.c_double(right).value
    if type(left) is not type(right) or not (are_numbers or sign in ("=", "<>")):
        return Fraction(0)
    holds = {
        "=": lambda: left == right,
        "<>": lambda: left != right,
        "<": lambda: left < right,
        "<=": lambda: left <= right,
        ">": lambda: left > right,
        ">=": lambda: left >= right,
    }
    return Fraction(holds[sign]())


def truth(tree: Tree, message: dict[str, Value]) -> Fraction:
    sign, *parts = tree
    if sign in ("name", "literal"):
        return compare("=", value_of(tree, message), True)
    if sign == "AND":
        return min(truth(part, message) for part in parts)
    if sign == "OR":
        return max(truth(part, message) for part in parts)
    if sign == "NOT":
        return 1 - truth(parts[0], message)
    if sign == "IS NULL":
        return Fraction(value_of(parts[0], message) is None)
    if sign == "IS NOT NULL":
        return Fraction(value_of(parts[0], message) is not None)
    value = value_of(parts[0], message)
    if sign in ("BETWEEN", "NOT BETWEEN"):
        low, high = value_of(parts[1], message), value_of(parts[2], message)
        if sign == "BETWEEN":
            return min(compare(">=", value, low), compare("<=", value, high))
        return max(compare("<", value, low), compare(">", value, high))
    if sign.startswith("NOT "):
        return 1 - truth((sign.removeprefix("NOT "), *parts), message)
    if sign == "IN":
        return max(compare("=", value, text) for text in parts[1])
    if sign == "LIKE":
        if value is None:
            return UNKNOWN
        return Fraction(isinstance(value, str) and is_like(value, parts[1]))
    return compare(sign, value, value_of(parts[1], message))


def is_like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(is_like(text[skipped:], pattern[1:]) for skipped in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and is_like(text[1:], pattern[1:])


@pytest.mark.slow
@settings(max_examples=examples(600))
@given(tree=conditions, message=st.dictionaries(names, values))
def test_a_selector_is_what_the_slow_evaluator_says(tree: Tree, message: dict[str, Value]) -> None:
    # The first part keeps it from being refused as always false, and is always true.
    text = f"z IS NULL AND ({written(tree)})"
    expected = min(Fraction(1), truth(tree, message))
    assert compile_selector(text).evaluate(message.get) is TRUTHS[expected], text


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(tree=conditions, message=st.dictionaries(names, values))
def test_parentheses_that_are_not_needed_change_nothing(
    tree: Tree, message: dict[str, Value]
) -> None:
    few, many = f"z OR {written(tree, 2)}", f"z OR ({written(tree)})"
    assert compile_selector(few).evaluate(message.get) is compile_selector(many).evaluate(
        message.get
    )


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(
    text=st.text(alphabet="ab", max_size=8),
    pattern=st.text(alphabet="ab_%", max_size=6),
    message_name=names,
)
def test_like_is_what_the_slow_matcher_says(text: str, pattern: str, message_name: str) -> None:
    selector = compile_selector(f"{message_name} LIKE '{pattern}'")
    assert selector.matches({message_name: text}.get) is is_like(text, pattern)
