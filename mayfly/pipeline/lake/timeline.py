"""The timeline of a lake: how many messages ended in which time step, for a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mayfly.lifetime.life import State
from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.errors import PlotError
from mayfly.pipeline.lake.queries import DAY_MS, HOUR_MS
from mayfly.verbs.contracts.outcomes import OUTCOME_CODES

#: Percentiles of the wait that are drawn, by name.
PLOT_RANKS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
#: More steps than this are hard to tell apart in a picture: a longer time has longer steps.
_STEPS_MAX = 120
_MINUTE_MS = 60 * SECOND_MS
#: Lengths of a step: only familiar ones, from a second to a day.
STEPS_MS = (
    *(n * SECOND_MS for n in (1, 5, 15, 30)),
    *(n * _MINUTE_MS for n in (1, 5, 15, 30)),
    *(n * HOUR_MS for n in (1, 6)),
    DAY_MS,
)

Floats = npt.NDArray[np.float64]


class QueueShare(NamedTuple):
    """A queue with the number of its ended messages, and how many of these expired."""

    queue: str
    lives: int
    expired: int

    @property
    def expired_percent(self) -> float:
        """The share of expired messages in percent."""
        return 100 * self.expired / self.lives


@dataclass(frozen=True)
class LakeTimeline:
    """How many messages ended in each time step, and the queues with the largest share of expiries.

    ``starts`` are the starts of the steps in UTC; ``waited_s`` are seconds, NaN in a step without
    gets. ``staged`` counts the messages that waited on the staging queue, by outcome. No other
    number here includes them, because a delayed message is there first, and then on its queue.
    """

    step_ms: int
    starts: npt.NDArray[np.datetime64]
    ended: dict[str, Floats]
    waited_s: dict[str, Floats]
    queues: tuple[QueueShare, ...]
    staged: dict[str, int]


Rows = Sequence[Mapping[str, Any]]


def step_between(
    lake_path: str | Path, span: Mapping[str, Any] | None, least_ms: int = SECOND_MS
) -> int:
    """Return the length of a time step in ms: the shortest that gives at most _STEPS_MAX steps.

    If none does, it is a day. ``span`` has ``first_ms`` and ``last_ms``, when the first and last
    message ended. The step is at least ``least_ms``. Raises PlotError, which names ``lake_path``,
    if no messages have ended.
    """
    if span is None or span["first_ms"] is None:
        raise PlotError(f"no lives in {lake_path}")
    length_ms = span["last_ms"] - span["first_ms"]
    fitting = (ms for ms in STEPS_MS if ms >= least_ms and length_ms // ms < _STEPS_MAX)
    return next(fitting, DAY_MS)


def course_from(step_ms: int, steps: Rows, queues: Rows, staged: Rows) -> LakeTimeline:
    """Return a timeline made of query rows.

    ``steps`` has a row for each time step of ``step_ms``, ``queues`` one for each queue. ``staged``
    has for each outcome the number of messages on the staging queue.
    """
    counts = ("lives", State.GOT.value, State.EXPIRED.value)
    table = np.array([[row[name] for name in counts] for row in steps], dtype=np.float64).T
    lives, got, expired = table
    none = [float("nan")] * len(PLOT_RANKS)
    seconds = np.array([row["waited"] or none for row in steps], dtype=np.float64).T / SECOND_MS
    by_outcome = {row["outcome"]: int(row["lives"]) for row in staged}
    # Outcomes that this version does not know come last.
    codes = dict.fromkeys((*OUTCOME_CODES, *by_outcome))
    return LakeTimeline(
        step_ms,
        np.array([row["start_ms"] for row in steps], dtype="datetime64[ms]"),
        {"got": got, "expired": expired, "other": lives - got - expired},
        dict(zip(PLOT_RANKS, seconds, strict=True)),
        tuple(QueueShare(r["queue"], int(r["lives"]), int(r["expired"])) for r in queues),
        {code: by_outcome[code] for code in codes if by_outcome.get(code)},
    )
