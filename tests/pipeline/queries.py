"""Queries that go by a timetable, and the hand of a clock they go by: no Spark, no waiting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import Row

from mayfly.pipeline.progress import Progress
from mayfly.pipeline.supervise import Stops


def event(
    batch: int, came: int = 0, *, state_rows: int = 0, duration_ms: int = 1000, **left: int
) -> dict[str, Any]:
    """Spark's event of a batch, as far as a pipeline reads it."""
    return {
        "batchId": batch,
        "timestamp": f"2026-11-20T12:00:{batch:02d}.000Z",
        "durationMs": {"triggerExecution": duration_ms},
        "stateOperators": [{"numRowsTotal": state_rows}],
        "observedMetrics": {
            "mayfly_in_1": Row(rows=came),
            "mayfly_out": Row(**{"released": 0, **left}),
        },
    }


class Hand(Stops):
    """The hand of a clock, moved by waiting; the end is asked for at given times."""

    def __init__(self, *ask_at_ms: int) -> None:
        super().__init__()
        self.time_ms = 0
        self._ask_at_ms = list(ask_at_ms)

    def now_ms(self) -> int:
        return self.time_ms

    def wait(self, duration_ms: int) -> None:
        end_ms = self.time_ms + duration_ms
        if self._ask_at_ms and self._ask_at_ms[0] <= end_ms:
            end_ms = max(self._ask_at_ms.pop(0), self.time_ms)
            self.ask()
        self.time_ms = end_ms


class Work(NamedTuple):
    """A batch in a timetable, times from the start of its query."""

    batch: int
    from_ms: int
    to_ms: int
    rows: int = 1
    let_go: int = 0


class Timetable:
    """A query that does its work by the clock, then fails, ends or waits for more."""

    def __init__(
        self,
        hand: Hand,
        *works: Work,
        ends_ms: int | None = None,
        error: Exception | None = None,
    ) -> None:
        self._hand = hand
        self._works = works
        self._begun_ms = hand.time_ms
        self._ends_ms = ends_ms
        self._error = error
        self.stopped_ms: int | None = None

    @property
    def isActive(self) -> bool:
        return self.stopped_ms is None and not self._is_over()

    @property
    def status(self) -> Mapping[str, Any]:
        at_ms = self._at_ms()
        is_busy = any(work.from_ms <= at_ms < work.to_ms for work in self._works)
        return {"isTriggerActive": is_busy and self.isActive}

    @property
    def lastProgress(self) -> Mapping[str, Any] | None:
        return self.recentProgress[-1] if self.recentProgress else None

    @property
    def recentProgress(self) -> Sequence[Mapping[str, Any]]:
        at_ms = self._at_ms()
        done = [work for work in self._works if work.to_ms <= at_ms]
        return [
            event(work.batch, work.rows, released=work.rows, let_go=work.let_go) for work in done
        ]

    def exception(self) -> BaseException | None:
        return self._error if self._is_over() else None

    def stop(self) -> None:
        if self.stopped_ms is None:
            self.stopped_ms = self._at_ms()

    def _at_ms(self) -> int:
        at_ms = self._hand.time_ms - self._begun_ms
        return at_ms if self.stopped_ms is None else self.stopped_ms

    def _is_over(self) -> bool:
        return self._ends_ms is not None and self._at_ms() >= self._ends_ms


class Seen:
    """Writes down what a supervisor says, with the time."""

    def __init__(self, hand: Hand) -> None:
        self._hand = hand
        self.starts_ms: list[int] = []
        self.batches: list[int] = []
        self.progress: list[Progress] = []
        self.restarts: list[tuple[str, int]] = []

    def started(self, progress: Progress) -> None:
        self.starts_ms.append(self._hand.time_ms)

    def batch(self, progress: Progress) -> None:
        self.batches.append(progress.batch)
        self.progress.append(progress)

    def restarting(self, progress: Progress, failure: str, wait_ms: int) -> None:
        assert progress.restarts == len(self.restarts) + 1
        self.restarts.append((failure, wait_ms))


Start = Callable[[], Timetable]
