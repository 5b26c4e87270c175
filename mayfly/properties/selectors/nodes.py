"""Parts of a selector while it is put together: their kinds, and the checks of kinds.

A part is a closure over the closures of its parts; no tree is left when messages are tested. A part
without names is worked out at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from mayfly.mqi.properties import Value
from mayfly.properties.selectors.errors import syntax_error
from mayfly.properties.selectors.names import SENT_MESSAGE_ID, check_name
from mayfly.properties.selectors.values import Truth

#: Gives the value of a name for the message at hand; None when it has none.
Resolve: TypeAlias = Callable[[str], Value]
Evaluate: TypeAlias = Callable[[Resolve], Value]
Test: TypeAlias = Callable[[Resolve], Truth]
#: The kind of a part's value as far as its text tells; the value of a name may be of any kind.
Kind: TypeAlias = Literal["condition", "number", "text", "bytes", "any"]

#: Parts within parts; each level costs two calls for each message.
DEPTH_LIMIT = 100
#: To read a property is to look for its folder, its start and its end.
_READ_WORK = 4
_FOUND: dict[Kind, str] = {
    "condition": "a condition",
    "number": "a number",
    "text": "a text",
    "bytes": "a byte string",
    "any": "a name",
}


def _no_value(name: str) -> Value:
    raise AssertionError(f"{name} in a part without names")


@dataclass(frozen=True, slots=True)
class Node:
    """One part; ``index`` is where it begins in the text, from 0.

    ``equal_to`` holds names with their values: each message for which the part, as a condition, is
    true has these. ``reads`` is how often it reads a name, ``work`` how often it looks at each
    character of a message for that, at the most.
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
    """Return a part that is always this value."""
    return Node(kind, lambda resolve: value, index)  # noqa: ARG005  # called like all others


def named(name: str, index: int) -> Node:
    """Return a part that is the value of a name; raises MQRC_SELECTOR_SYNTAX_ERROR."""
    check_name(name, index)
    names = frozenset({name})
    return Node(
        "any", lambda resolve: resolve(name), index, names, name=name, reads=1, work=_READ_WORK
    )


def sent_message_id(index: int) -> Node:
    """Return a part that is the id which a client of AMQP has given, else the MsgId."""
    name = SENT_MESSAGE_ID
    names = frozenset({name})
    return Node(
        "any", lambda resolve: resolve(name), index, names, name=name, reads=1, work=_READ_WORK
    )


def joined(kind: Kind, evaluate: Evaluate, *parts: Node) -> Node:
    """Return a part made of parts; raises MQRC_SELECTOR_SYNTAX_ERROR when it is too deep."""
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
    """Return the value of a part that has no names."""
    return node.evaluate(_no_value)


def number(node: Node) -> Node:
    """Return a part that may be a number; raises MQRC_SELECTOR_SYNTAX_ERROR for another."""
    if node.kind not in ("number", "any"):
        raise _misplaced(node, "a number")
    return node


def condition(node: Node) -> Node:
    """Return a part as a condition: a name alone stands for ``name = TRUE``.

    Raises MQRC_SELECTOR_SYNTAX_ERROR for a part that can be none.
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
    """Return the name that a part is; raises MQRC_SELECTOR_SYNTAX_ERROR when it is none."""
    if node.name is None:
        raise _misplaced(node, "the name of a property")
    return node.name


def _misplaced(node: Node, expected: str) -> Exception:
    return syntax_error(node.index, expected, _FOUND[node.kind])
