"""Types shared by the contracts of the bulk plane (Arrow Flight): columns, JSON request types.

Columns are described without Arrow, for modules without pyarrow;
`mayfly.pipeline.bulk.schema.schema_of` makes an Arrow schema of them.

Requests and answers are NamedTuples whose fields are the keys of a JSON object. A value is a text,
a whole number of 64 bits, a flag, a list, or null where the field may be None. A request may
contain ``protocol``, the version of the contract that its sender speaks.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints


class Kind(StrEnum):
    """The type of a column, by the name of its Arrow type."""

    TEXT = "string"
    BYTES = "binary"
    INT8 = "int8"
    INT32 = "int32"
    INT64 = "int64"
    FLAG = "bool"
    #: How often lives ended: a field of int64 for each outcome, and one for all others.
    COUNTS = "struct"


class Column(NamedTuple):
    """A column of a table: its name and type; with ``is_nullable`` False every row has a value."""

    name: str
    kind: Kind
    is_nullable: bool = True


def not_null(name: str, kind: Kind) -> Column:
    """Return the definition of a column in which every row must have a value."""
    return Column(name, kind, is_nullable=False)


def column_names(columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the names of columns, in order."""
    return tuple(column.name for column in columns)


#: The key of the contract's version, in a request.
PROTOCOL = "protocol"


@cache
def field_types(row: type) -> dict[str, tuple[type, ...]]:
    """Return the Python types that each field of a NamedTuple request allows, by field name.

    Example: ``until: int | None`` -> ``{"until": (int, NoneType)}``.
    """
    return {name: _types(hint) for name, hint in get_type_hints(row).items()}


def _types(hint: Any) -> tuple[type, ...]:
    """Return the Python types that a type hint allows: ``int | None`` -> ``(int, NoneType)``.

    ``list[int]`` becomes ``(list,)``. Raises AssertionError for a type that JSON requests cannot
    have.
    """
    kinds = [get_origin(kind) or kind for kind in get_args(hint) or (hint,)]
    if get_origin(hint) is list:
        kinds = [list]
    assert all(kind in (str, int, bool, bytes, list, NoneType) for kind in kinds), hint
    return tuple(kinds)
