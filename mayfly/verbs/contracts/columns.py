"""Columns of record batches in plain words, for modules that have no pyarrow.

`mayfly.pipeline.bulk.schema.schema_of` makes an Arrow schema of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


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
    """One column; ``is_nullable`` False promises a value in each row."""

    name: str
    kind: Kind
    is_nullable: bool = True


def always(name: str, kind: Kind) -> Column:
    """Return a column that has a value in each row."""
    return Column(name, kind, is_nullable=False)


def names_of(columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the names of columns, in order."""
    return tuple(column.name for column in columns)
