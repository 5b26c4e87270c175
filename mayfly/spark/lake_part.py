"""Which part of a lake is asked about: some hours, some queues."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from mayfly.spark.errors import PipelineError
from mayfly.spark.lake_files import LakeFile

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EVERY = "*"


class PartError(PipelineError, ValueError):
    """A part of a lake cannot be what was named."""


class LakePart(NamedTuple):
    """Lives that ended in ``[from_ms, until_ms)`` on queues of these names; None is no bound.

    A name may end in ``*``; no name is every queue.
    """

    from_ms: int | None = None
    until_ms: int | None = None
    queues: tuple[str, ...] = ()

    @property
    def is_of_whole_hours(self) -> bool:
        """Tell whether sketches, which are by the hour, can answer."""
        bounds_ms = (self.from_ms, self.until_ms)
        return all(bound_ms is None or bound_ms % HOUR_MS == 0 for bound_ms in bounds_ms)

    def files(self, files: Iterable[LakeFile]) -> list[LakeFile]:
        """Return the files that may hold rows of this part."""
        first = "" if self.from_ms is None else _date(self.from_ms)
        last = "9999" if self.until_ms is None else _date(self.until_ms - 1)
        return [file for file in files if first <= file.date <= last]

    def rows(self, rows: DataFrame) -> DataFrame:
        """Return the rows of this part of a ledger."""
        return self._between(self._named(rows), f.col("ended_ms"))

    def cells(self, cells: DataFrame) -> DataFrame:
        """Return the sketches of this part; its bounds have to be whole hours."""
        hour_ms = f.unix_date("date").cast("long") * DAY_MS + f.col("hour") * HOUR_MS
        dates = cells
        # Said in dates too, so that Parquet can pass over what is not wanted.
        if self.from_ms is not None:
            dates = dates.where(f.col("date") >= f.lit(_date(self.from_ms)).cast("date"))
        if self.until_ms is not None:
            dates = dates.where(f.col("date") <= f.lit(_date(self.until_ms - 1)).cast("date"))
        return self._between(self._named(dates), hour_ms)

    def _between(self, rows: DataFrame, at_ms: Column) -> DataFrame:
        if self.from_ms is not None:
            rows = rows.where(at_ms >= self.from_ms)
        if self.until_ms is not None:
            rows = rows.where(at_ms < self.until_ms)
        return rows

    def _named(self, rows: DataFrame) -> DataFrame:
        if not self.queues:
            return rows
        return rows.where(reduce(lambda one, other: one | other, map(_is_named, self.queues)))


EVERYTHING = LakePart()


def part_between(first: str | None, last: str | None, queues: Iterable[str] = ()) -> LakePart:
    """Return the part from one date, hour or moment to another, all of the last one included.

    Written 2026-11-20, 2026-11-20T14, 2026-11-20T14:30 or 2026-11-20T14:30:15, UTC. Raises
    PartError for anything else.
    """
    from_ms = None if first is None else _moment_and_length_ms(first)[0]
    until_ms = None if last is None else sum(_moment_and_length_ms(last))
    if from_ms is not None and until_ms is not None and until_ms <= from_ms:
        raise PartError(f"{last} is before {first}")
    return LakePart(from_ms, until_ms, tuple(queues))


_FORMS = (
    ("%Y-%m-%d", DAY_MS),
    ("%Y-%m-%dT%H", HOUR_MS),
    ("%Y-%m-%dT%H:%M", 60_000),
    ("%Y-%m-%dT%H:%M:%S", 1000),
)


def _moment_and_length_ms(text: str) -> tuple[int, int]:
    for form, length_ms in _FORMS:
        try:
            moment = datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return (moment - _EPOCH) // timedelta(milliseconds=1), length_ms
    raise PartError(f"{text!r} is not a moment such as 2026-11-20 or 2026-11-20T14:30")


def _date(at_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=at_ms)).date().isoformat()


def _is_named(name: str) -> Column:
    if name.endswith(_EVERY):
        return f.startswith(f.col("queue"), f.lit(name.removesuffix(_EVERY)))
    return f.col("queue") == name
