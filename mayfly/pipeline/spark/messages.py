"""The message schema as Spark types, and the options of ``format("mayfly")``.

The message columns themselves are defined once, for Arrow. This module adds the intervals that a
row may have instead of moments, and the report owed for a message. Names of options are taken in
any case; unknown options are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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

from mayfly.pipeline.bulk.client import check_url
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


class OptionReader:
    """The options that Spark passes; an option that was read is removed from the rest."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Keep all options as unread; names match in any case."""
        self._left = {name.lower(): (name, value) for name, value in options.items()}

    def optional(self, name: str) -> str | None:
        """Return the value of an option, None if it is missing or was read before."""
        return self._left.pop(name.lower(), (name, None))[1]

    def text(self, name: str, default: str) -> str:
        """Return the value of an option, or the default if it is missing."""
        value = self.optional(name)
        return default if value is None else value

    def required(self, name: str) -> str:
        """Return the value of an option; raises OptionError if it is missing or empty."""
        value = self.optional(name)
        if not value:
            raise OptionError(f"option {name} is missing")
        return value

    def url(self) -> str:
        """Return the option ``url``; raises OptionError unless it is the url of a Flight server."""
        try:
            return check_url(self.required("url"))
        except ValueError as error:
            if isinstance(error, OptionError):
                raise
            raise OptionError(f"option {error}") from error

    def number(self, name: str, default: int) -> int:
        """Return an option as a whole number above 0, the default if it is missing.

        Raises OptionError for another text.
        """
        value = self.text(name, str(default))
        if not value.isdecimal() or int(value) < 1:
            raise OptionError(f"option {name}: {value!r} is not a whole number above 0")
        return int(value)

    def task_bytes(self) -> int:
        """Return option maxBytesPerTask, by default 64 MiB; raises OptionError for another text."""
        return self.number("maxBytesPerTask", 64 * 2**20)

    def optional_number(self, name: str) -> int | None:
        """Return an option as a whole number above 0, None if it is missing.

        Raises OptionError for another text.
        """
        return self.number(name, 1) if name.lower() in self._left else None

    def flag(self, name: str) -> bool:
        """Return True for "true"; False for "false" or a missing option.

        Raises OptionError for another text.
        """
        value = self.text(name, "false").lower()
        if value not in ("true", "false"):
            raise OptionError(f"option {name}: {value!r} is neither true nor false")
        return value == "true"

    def refuse_unknown_keys(self) -> None:
        """Raise OptionError for the first option that was not read, because it is unknown."""
        if self._left:
            name, value = next(iter(self._left.values()))
            raise OptionError(f"option {name} ({value!r}) is not one of this source")
