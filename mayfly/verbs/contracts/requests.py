"""Requests and answers that travel as JSON objects: NamedTuples whose fields are the keys.

A value is a text, a whole number of 64 bits, a flag, a list, or null where the field may be None.
A request may say ``protocol``, the version of the contract that its sender speaks.
"""

from __future__ import annotations

from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

#: The key of the contract's version, in a request.
PROTOCOL = "protocol"


@cache
def kinds_of(row: type) -> dict[str, tuple[type, ...]]:
    """Return which types the values of a request may have, by field."""
    return {name: _kinds(hint) for name, hint in get_type_hints(row).items()}


def _kinds(hint: Any) -> tuple[type, ...]:
    kinds = [get_origin(kind) or kind for kind in get_args(hint) or (hint,)]
    if get_origin(hint) is list:
        kinds = [list]
    assert all(kind in (str, int, bool, bytes, list, NoneType) for kind in kinds), hint
    return tuple(kinds)
