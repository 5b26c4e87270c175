"""The message schema as Spark types, and the check that a DataFrame of messages has it.

The message columns themselves are defined once, for Arrow. This module adds the intervals that a
row may have instead of moments, and the report owed for a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    DataType,
    IntegralType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mayfly.pipeline.bulk.schema import MESSAGE
from mayfly.pipeline.errors import OptionError

#: One message with its lifetime, as Spark types.
MESSAGE_TYPE: StructType = from_arrow_schema(MESSAGE)

#: Columns that every message must have.
REQUIRED_COLUMNS = tuple(field.name for field in MESSAGE if not field.nullable)

#: Intervals, in ms, that a row may have in place of deliver_at_ms and expire_at_ms; null is none.
ASKED_COLUMNS = ("life_ms", "delay_ms", "cap_ms")

#: Moments by their names as TIMESTAMP columns: a timestamp has no unit in its name.
MOMENTS = {"deliver_at": "deliver_at_ms", "expire_at": "expire_at_ms"}

#: Columns of ms since 1970 that may be TIMESTAMP columns instead.
MOMENTS_MS = ("put_ms", *MOMENTS.values())
#: May be text, which becomes UTF-8.
PAYLOAD = "payload"

#: A report as a message to be put, on ``queue`` of ``manager``. A null ``msg_id`` asks for a new
#: one; ``put_ms`` is the moment at which the report became owed.
REPORT = pa.schema(
    [
        *(field.with_nullable(True) for field in MESSAGE),
        pa.field("feedback", pa.int32()),
        pa.field("original_length", pa.int32()),
        pa.field("put_appl_type", pa.int32()),
        pa.field("put_appl_name", pa.string()),
    ]
)
REPORT_TYPE: StructType = from_arrow_schema(REPORT)

_KNOWN_TYPES: dict[str, DataType] = {
    **{field.name: field.dataType for field in REPORT_TYPE},
    **{name: LongType() for name in ASKED_COLUMNS},
}


def as_messages(rows: DataFrame, added: Iterable[str]) -> DataFrame:
    """Return the rows with their message columns cast to the types of the message schema.

    Whole numbers are widened, a text becomes a payload in UTF-8, and a TIMESTAMP the moment in ms.
    deliver_at and expire_at, as TIMESTAMP, become deliver_at_ms and expire_at_ms.
    Other columns do not change. Raises OptionError, which names the column, if a column is missing,
    occurs twice or has another type. OptionError is also raised for a column named like one of
    ``added``, which the caller will add, and for a name that Spark cannot pass to Python.
    """
    rows = _with_moments_in_ms(rows)
    names = [name.lower() for name in rows.columns]
    for name in REQUIRED_COLUMNS:
        if name not in names:
            raise OptionError(f"column {name} is missing: a message has {', '.join(names)}")
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"column {name} is there {names.count(name)} times")
        if name in added:
            raise OptionError(f"column {name} is what the delay line adds: rename it before")
        if "." in name or "`" in name:
            raise OptionError(
                f"column {name}: Spark hands no such name to Python, rename it before"
            )
    known = [field.name for field in rows.schema if field.name.lower() in _KNOWN_TYPES]
    return rows.withColumns(
        {name.lower(): _cast(name, rows.schema[name].dataType) for name in known}
    )


def _with_moments_in_ms(rows: DataFrame) -> DataFrame:
    """Return rows in which deliver_at and expire_at have become deliver_at_ms and expire_at_ms.

    Raises OptionError for one that is no TIMESTAMP, or that stands beside the moment in ms.
    """
    names = [name.lower() for name in rows.columns]
    for field in rows.schema:
        name_ms = MOMENTS.get(field.name.lower())
        if name_ms is None:
            continue
        check_moment(field, names)
        rows = rows.withColumnRenamed(field.name, name_ms)
    return rows


def check_moment(field: StructField, names: Sequence[str]) -> None:
    """Raise OptionError unless a column deliver_at or expire_at is a TIMESTAMP, and the only one.

    ``names`` are all columns of the row, in lower case.
    """
    name_ms = MOMENTS[field.name.lower()]
    if name_ms in names:
        raise OptionError(f"columns {field.name} and {name_ms} say the same: drop one of them")
    if not isinstance(field.dataType, TimestampType | NullType):
        raise OptionError(
            f"column {field.name} is {field.dataType.simpleString()}; it must be timestamp, "
            f"ms since 1970 are {name_ms}"
        )


def _cast(name: str, found: DataType) -> Column:
    """Return a message column in its type; raises OptionError if values could be lost."""
    wanted = _KNOWN_TYPES[name.lower()]
    if isinstance(found, TimestampType) and name.lower() in MOMENTS_MS:
        return f.unix_millis(name)
    widens = isinstance(wanted, IntegralType) and isinstance(found, IntegralType)
    widens = widens and _WIDTHS[found.typeName()] <= _WIDTHS[wanted.typeName()]
    is_text = name.lower() == PAYLOAD and isinstance(found, StringType)
    if not (found == wanted or widens or is_text or isinstance(found, NullType)):
        other = {PAYLOAD: " or string"} | dict.fromkeys(MOMENTS_MS, " or timestamp")
        raise OptionError(
            f"column {name} is {found.simpleString()}; it must be {wanted.simpleString()}"
            f"{other.get(name.lower(), '')}"
        )
    return f.col(name).cast(wanted)


_WIDTHS = {"byte": 1, "short": 2, "integer": 4, "long": 8}
