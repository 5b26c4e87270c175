"""Arithmetic and comparison of values, as Java promotes numbers and SQL treats NULL.

A value is bool, int, float, str, bytes or None, which is NULL; exactly of these types. Integers
are of 64 bits and wrap around like Java's long; bool is no number.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from mayfly.mqi.properties import Value

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
    """Return whether a comparison holds: False for unlike types, unknown when a side is NULL.

    Only numbers are ordered; an integer compared with a float becomes a float (JMS, "Message
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
    """Return an integer as it fits in 64 bits."""
    return ((number + _TOP) & ((1 << _BITS) - 1)) - _TOP


def negative(value: Value) -> Value:
    """Return the number with the other sign; NULL for a value that is no number."""
    if type(value) is int:
        return wrapped(-value)
    return -value if type(value) is float else None


def positive(value: Value) -> Value:
    """Return a number as it is; NULL for a value that is no number."""
    return value if type(value) in (int, float) else None


def calculated(symbol: str, left: Value, right: Value) -> Value:
    """Return the result of + - * or /, NULL when a side is no number.

    Integers divide towards zero, by zero to NULL: such a message is not selected. Floats divide by
    zero to infinity or NaN.
    """
    if type(left) is int and type(right) is int:
        return _of_integers(symbol, left, right)
    if type(left) in (int, float) and type(right) in (int, float):
        assert left is not None
        assert right is not None
        return _of_floats(symbol, float(left), float(right))
    return None


def _of_integers(symbol: str, left: int, right: int) -> int | None:
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
