"""Queries of a lake: hours and queues, SQL for Spark and DuckDB, rows of answers, exports.

Only percentiles differ: each engine has its own function for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from mayfly.lifetime.life import KIND_BALANCE, KIND_LIFE, State
from mayfly.lifetime.reports import Cause
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.errors import ExportError, PartError
from mayfly.pipeline.lake.files import LakeFile
from mayfly.verbs.contracts.outcomes import OTHER_OUTCOMES, OUTCOME_CODES

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


# The measures of a lake, counts and durations of messages, as SQL for both Spark and DuckDB
#
# Each text is an expression over the columns of the ledger (bulk/schema.py); null is not counted.


#: By default, a message that waited longer than a minute for its get is late.
LATE_AFTER_MS = 60_000
OWED_NAMES: tuple[str, ...] = tuple(f"owed_{cause.name.lower()}" for cause in Cause)
COUNT_NAMES = ("lives", *OUTCOME_CODES, "late", *OWED_NAMES)

IS_LIFE = f"kind = {KIND_LIFE}"
IS_BALANCE = f"kind = {KIND_BALANCE}"
#: In ms. ``waited``: delivery time to get; ``left``: get to the end of the life, of those that have
#: one; ``released_late``: delivery time to release from the staging queue.
DURATIONS: dict[str, str] = {
    "waited": f"CASE WHEN outcome = '{State.GOT}' THEN ended_ms - deliver_at_ms END",
    "left": f"CASE WHEN outcome = '{State.GOT}' THEN expire_at_ms - ended_ms END",
    "released_late": f"CASE WHEN outcome = '{State.RELEASED}' THEN ended_ms - deliver_at_ms END",
}
#: Ranks of each duration: the long waits and latenesses, and the short lives left.
RANKS: dict[str, tuple[float, ...]] = {
    "waited": (0.5, 0.95, 0.99),
    "left": (0.5, 0.05, 0.01),
    "released_late": (0.5, 0.95, 0.99),
}
#: COA is owed on the first queue that a message can be got from. COD is owed by a get, but not by
#: one from a queue that the message was moved to, such as a dead-letter queue.
_IS_FIRST = "(origin_id IS NULL OR deliver_at_ms > put_ms)"
_OWING = {
    Cause.EXCEPTION: f"outcome IN ('{State.DEAD_LETTERED}', '{State.DISCARDED}')",
    Cause.EXPIRATION: f"outcome = '{State.EXPIRED}'",
    Cause.COA: (f"{_IS_FIRST} AND queue <> '{STAGING_QUEUE}' AND outcome <> '{State.TRANSMITTED}'"),
    Cause.COD: f"{_IS_FIRST} AND outcome = '{State.GOT}'",
}


def ended_in() -> str:
    """Return SQL for the number of ended messages in a balance row, over all outcomes.

    A count in the column ``ended`` is null in files of a version that did not know the outcome.
    """
    names = (*OUTCOME_CODES, OTHER_OUTCOMES)
    return " + ".join(f"coalesce(ended.{name}, 0)" for name in names)


def conditions(late_after_ms: int = LATE_AFTER_MS) -> dict[str, str]:
    """Return for each of COUNT_NAMES the SQL condition of the ledger rows that it counts.

    ``late`` are messages got more than ``late_after_ms`` after their delivery time. ``owed_*`` are
    messages that owed a report of the kind in the name, as far as the ledger shows.
    """
    return {
        "lives": IS_LIFE,
        **{name: f"outcome = '{name}'" for name in OUTCOME_CODES},
        "late": f"{DURATIONS['waited']} > {late_after_ms}",
        **{
            name: f"(coalesce(report, 0) & {cause.value}) <> 0 AND {_OWING[cause]}"
            for name, cause in zip(OWED_NAMES, Cause, strict=True)
        },
    }


# Queries


#: Return in SQL the exact percentiles of an expression at some ranks, null where it has no value.
Percentiles = Callable[[str, Sequence[float]], str]

_BOOKS = f"""
SELECT manager, queue, max(at_ms) AS at_ms, sum(put) AS put, sum(ended) AS ended,
    sum(present) AS present
FROM (
    SELECT manager, instance_id, queue, max_by(ended_ms, position) AS at_ms,
        max_by(puts, position) AS put, max_by({ended_in()}, position) AS ended,
        max_by(present, position) AS present
    FROM {{ledger}} WHERE {IS_BALANCE} GROUP BY manager, instance_id, queue) AS newest
GROUP BY manager, queue"""


def report_of_queues(percentiles: Percentiles, late_after_ms: int) -> str:
    """Return the SQL query for a lake's report: for each queue counts, percentiles and balance.

    A message got more than ``late_after_ms`` after its delivery time counts as late. A queue that
    was defined again has the sum of the newest balances of all its stores. ``percentiles`` makes
    the engine's SQL for percentiles. ``{ledger}`` in the text is the table's name.
    """
    measured = [
        *(f"{_count(text)} AS {name}" for name, text in conditions(late_after_ms).items()),
        *(f"{percentiles(DURATIONS[name], ranks)} AS {name}_ms" for name, ranks in RANKS.items()),
    ]
    return f"""
WITH measured AS (
    SELECT manager, queue, {", ".join(measured)} FROM {{ledger}} GROUP BY manager, queue),
books AS ({_BOOKS})
SELECT m.*, b.at_ms, b.put, b.ended, b.present
FROM measured m LEFT JOIN books b ON b.manager = m.manager AND b.queue = m.queue
WHERE m.lives > 0 OR b.put > 0"""


def _count(condition: str) -> str:
    """Return SQL that counts the rows for which the condition is true; 0 if there are none."""
    # count_if of DuckDB is null where the condition is null for all rows.
    return f"count(CASE WHEN {condition} THEN 1 END)"


_EXPIRED = _count(conditions()[State.EXPIRED])
#: Queues that a picture has room for.
QUEUES_MAX = 12
_OF_QUEUES = f"{IS_LIFE} AND queue <> '{STAGING_QUEUE}'"
#: When the first and the last of the drawn lives ended, null without lives.
SPAN = (
    f"SELECT min(ended_ms) AS first_ms, max(ended_ms) AS last_ms FROM {{ledger}} WHERE {_OF_QUEUES}"
)
#: The queues that lost the largest share of their lives, that one first.
WORST_QUEUES = f"""
SELECT queue, count(*) AS lives, {_EXPIRED} AS expired
FROM {{ledger}} WHERE {_OF_QUEUES} GROUP BY queue
ORDER BY {_EXPIRED} / count(*) DESC, count(*) DESC, queue
LIMIT {QUEUES_MAX}"""
#: The lives on the staging queue, by outcome.
STAGED = f"""
SELECT outcome, count(*) AS lives
FROM {{ledger}} WHERE {IS_LIFE} AND queue = '{STAGING_QUEUE}' GROUP BY outcome"""


def ends_by_step(from_ms: int, step_ms: int) -> str:
    """Return the SQL query for the ended messages of each step that begins at or after ``from_ms``.

    A step is a number from 0 on, of ``step_ms`` each. An expired message counts in the step of its
    deadline, another one in the step of its end; a release is no end. The query has two parameters:
    a queue manager, and a queue or null for all.
    """
    return f"""
SELECT CAST(floor((at_ms - {from_ms}) / {step_ms}) AS BIGINT) AS step, count(*) AS ended,
    count(CASE WHEN outcome = '{State.EXPIRED}' THEN 1 END) AS expired
FROM (
    SELECT outcome,
        CASE WHEN outcome = '{State.EXPIRED}' THEN expire_at_ms ELSE ended_ms END AS at_ms
    FROM {{ledger}}
    WHERE {IS_LIFE} AND outcome <> '{State.RELEASED}' AND manager = $1
        AND ($2 IS NULL OR queue = $2)) AS ends
WHERE at_ms >= {from_ms} GROUP BY 1"""


def course_of_lives(percentiles: Percentiles, step_ms: int, ranks: Sequence[float]) -> str:
    """Return the SQL query for each time step's ended messages and waits, in order of time.

    ``step_ms`` is the length of a step. ``ranks``, from 0 to 1, are the percentiles of the waits.
    Steps without a message have no row. ``percentiles`` makes the engine's SQL for percentiles.
    ``{ledger}`` in the text is the table's name.
    """
    start = f"ended_ms - ended_ms % {step_ms}"
    outcomes = (State.GOT, State.EXPIRED)
    ends = [f"{_count(conditions()[name])} AS {name}" for name in outcomes]
    return f"""
SELECT {start} AS start_ms, count(*) AS lives, {", ".join(ends)},
    {percentiles(DURATIONS["waited"], ranks)} AS waited
FROM {{ledger}} WHERE {_OF_QUEUES} GROUP BY {start} ORDER BY 1"""


# The report of a lake: one row for each queue, the same from Spark and from DuckDB


class QueueBalance(NamedTuple):
    """The newest balance of a queue at ``at_ms`` (epoch ms), counted from its definition."""

    at_ms: int
    put: int
    ended: int
    present: int

    @property
    def is_balanced(self) -> bool:
        """Whether every message put is either ended or present."""
        return self.put == self.ended + self.present


@dataclass(frozen=True)
class QueueReport:
    """How the messages of one queue ended, in numbers.

    ``lives`` is the number of ended messages, each stay on the queue counted once. ``waited_*_ms``
    are percentiles of the time from delivery time to get. ``left_*_ms`` are those of the lifetime
    left at the get, for messages with a deadline. ``released_late_*_ms`` are those of the time from
    delivery time to release, on a staging queue. None means that no such messages exist. ``late``
    counts messages that waited longer than ``late_after_ms``, ``owed`` the owed reports by cause.
    ``balance`` is None before the first balance. ``outcomes`` has ``other`` if messages ended in a
    way that this version does not know.
    """

    manager: str
    queue: str
    lives: int
    outcomes: dict[str, int]
    expired_share: float
    waited_p50_ms: float | None
    waited_p95_ms: float | None
    waited_p99_ms: float | None
    late: int
    left_p50_ms: float | None = None
    left_p5_ms: float | None = None
    left_p1_ms: float | None = None
    released_late_p50_ms: float | None = None
    released_late_p95_ms: float | None = None
    released_late_p99_ms: float | None = None
    owed: dict[str, int] = field(default_factory=dict)
    balance: QueueBalance | None = None


def reports_of(rows: Iterable[Mapping[str, Any]]) -> list[QueueReport]:
    """Return the reports made of ``queries.report_of_queues`` rows, by queue manager and name."""
    return sorted(map(_queue_report, rows), key=lambda report: (report.manager, report.queue))


def _queue_report(row: Mapping[str, Any]) -> QueueReport:
    """Return the report of one queue, made of a row of ``queries.report_of_queues``."""
    lives = row["lives"]
    measured = {
        f"{name}_p{_percent(rank)}_ms": value
        for name in RANKS
        for rank, value in zip(RANKS[name], row[f"{name}_ms"] or (None,) * 3, strict=True)
    }
    at_ms, *counted = row["at_ms"], row["put"], row["ended"], row["present"]
    return QueueReport(
        manager=row["manager"],
        queue=row["queue"],
        lives=lives,
        outcomes=_outcomes(row),
        expired_share=row[State.EXPIRED.value] / lives if lives else 0.0,
        late=row["late"],
        owed={cause.name.lower(): row[f"owed_{cause.name.lower()}"] for cause in Cause},
        balance=None if at_ms is None else QueueBalance(at_ms, *counted),
        **measured,
    )


def _outcomes(row: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of ended messages by outcome; unknown outcomes are summed as ``other``."""
    known = {code: row[code] for code in OUTCOME_CODES}
    other_count = row["lives"] - sum(known.values())
    return known | ({OTHER_OUTCOMES: other_count} if other_count else {})


def _percent(rank: float) -> int:
    """Return a rank as a whole percent: 0.95 -> 95."""
    return round(rank * 100)


# The file formats and filters of an export of ended messages, for Spark and DuckDB alike


#: Formats by the ending of a file's name.
FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json", ".json": "json"}
#: Columns that CSV and JSON have in hexadecimal.
ID_NAMES = ("msg_id", "correl_id", "origin_id")


def export_condition(part: LakePart, outcomes: Sequence[str], late_after_ms: int | None) -> str:
    """Return the filters as one SQL condition over ledger rows, ``true`` without any.

    ``outcomes`` must have passed :func:`check_export`; empty allows all. ``late_after_ms`` selects
    messages got more than this many ms after their delivery time; None selects all.
    """
    filters = [part.condition()]
    if outcomes:
        names = ", ".join(f"'{name}'" for name in outcomes)
        filters.append(f"outcome IN ({names})")
    if late_after_ms is not None:
        filters.append(f"{DURATIONS['waited']} > {late_after_ms}")
    return " AND ".join(filters)


def check_export(file: Path, outcomes: Sequence[str]) -> None:
    """Raise ExportError for a wrong suffix or outcome, a file that exists, or a missing folder."""
    if file.suffix not in FORMATS:
        raise ExportError(f"{file} ends in none of {', '.join(FORMATS)}")
    if file.exists():
        raise ExportError(f"{file} exists already")
    if not file.absolute().parent.is_dir():
        raise ExportError(f"there is no folder {file.absolute().parent}")
    for name in outcomes:
        if name not in OUTCOME_CODES:
            raise ExportError(f"outcome {name!r} is not one of {', '.join(OUTCOME_CODES)}")
