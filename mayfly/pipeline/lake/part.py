"""The part of a lake that a query is about: some hours, some queues."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from mayfly.pipeline.errors import PartError
from mayfly.pipeline.lake.files import LakeFile

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The name of a queue, which may end in an asterisk.
_NAME = re.compile(r"([A-Za-z0-9._/%]{0,48})(\*?)")


class LakePart(NamedTuple):
    """A part of a lake: the messages that ended in ``[from_ms, until_ms)`` on some queues.

    Bounds are epoch ms; None is no bound. A queue name may end in ``*``; no name means every queue.
    """

    from_ms: int | None = None
    until_ms: int | None = None
    queues: tuple[str, ...] = ()

    def files(self, files: Iterable[LakeFile]) -> list[LakeFile]:
        """Return those of the files whose date may contain rows of this part."""
        first = "" if self.from_ms is None else _date(self.from_ms)
        last = "9999" if self.until_ms is None else _date(self.until_ms - 1)
        return [file for file in files if first <= file.date <= last]

    def dates(self, column: str) -> list[tuple[str, str, str]]:
        """Return the bounds of this part as filters of a Delta table: (column, operator, date).

        ``column`` is the table's column of dates. The dates are texts, in UTC. The list is empty
        without bounds.
        """
        filters = []
        if self.from_ms is not None:
            filters.append((column, ">=", _date(self.from_ms)))
        if self.until_ms is not None:
            filters.append((column, "<=", _date(self.until_ms - 1)))
        return filters

    def condition(self, at_ms: str = "ended_ms") -> str:
        """Return the SQL condition for ledger rows of this part, ``true`` if it is everything.

        ``at_ms`` is the column compared with the bounds.
        """
        bounds = []
        if self.from_ms is not None:
            bounds.append(f"{at_ms} >= {self.from_ms}")
        if self.until_ms is not None:
            bounds.append(f"{at_ms} < {self.until_ms}")
        if self.queues:
            bounds.append(f"({' OR '.join(map(_named, self.queues))})")
        return " AND ".join(bounds) or "true"


EVERYTHING = LakePart()


def part_between(first: str | None, last: str | None, queues: Sequence[str] = ()) -> LakePart:
    """Return the part of a lake from one date, hour or moment to another.

    The last one is included completely. They are written as 2026-11-20, 2026-11-20T14,
    2026-11-20T14:30 or 2026-11-20T14:30:15, in UTC; None is no bound. Raises PartError for other
    texts, for a wrong queue name, and if the end is before the begin.
    """
    for queue in queues:
        _named(queue)
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
    """Return the epoch ms of a date, hour or moment, and its length in ms.

    Example: ``2026-11-20T14`` has a length of 3,600,000 ms. Raises PartError for another text.
    """
    for form, length_ms in _FORMS:
        try:
            moment = datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return (moment - _EPOCH) // timedelta(milliseconds=1), length_ms
    raise PartError(f"{text!r} is not a moment such as 2026-11-20 or 2026-11-20T14:30")


def _date(at_ms: int) -> str:
    """Return the UTC date of an epoch ms, as ``2026-11-20``."""
    return (_EPOCH + timedelta(milliseconds=at_ms)).date().isoformat()


def _named(name: str) -> str:
    """Return the SQL condition for a queue name, or for a prefix with ``*`` at the end.

    Raises PartError for a text that is not a queue name.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise PartError(f"{name!r} is not the name of a queue, nor one that ends in *")
    known, is_beginning = found.groups()
    return f"left(queue, {len(known)}) = '{known}'" if is_beginning else f"queue = '{known}'"
