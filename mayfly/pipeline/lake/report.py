"""The report of a lake: one row for each queue, the same from Spark and from DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mayfly.lifetime.life import State
from mayfly.lifetime.reports import Cause
from mayfly.pipeline.lake.queries import RANKS
from mayfly.verbs.contracts.outcomes import OTHER_OUTCOMES, OUTCOME_CODES


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
