"""Keep a pipeline's query going: watch it, start it again when it fails, stop it between batches.

This module knows no Spark: a function that starts a query, and a source of time, are handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol

from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.failures import RAISED, Failure, failure_of
from mayfly.pipeline.progress import NO_BATCH, Progress


class Query(Protocol):
    """A streaming query, as far as the supervisor uses it; the names are Spark's."""

    @property
    def isActive(self) -> bool:  # noqa: N802  # Spark's name
        """Whether it has not ended."""

    @property
    def status(self) -> Mapping[str, Any]:
        """Its state: ``isTriggerActive`` is True while a batch is in work."""

    @property
    def lastProgress(self) -> Mapping[str, Any] | None:  # noqa: N802  # Spark's name
        """The event of the last batch, None before the first."""

    @property
    def recentProgress(self) -> Sequence[Mapping[str, Any]]:  # noqa: N802  # Spark's name
        """The events of the last batches, oldest first."""

    def exception(self) -> BaseException | None:
        """Return why it has failed."""

    def stop(self) -> None:
        """End it now, in the middle of a batch if there is one."""


class Pace(Protocol):
    """Time and requests for the end, and waits for either."""

    @property
    def asked_count(self) -> int:
        """How often the end was asked for."""

    def now_ms(self) -> int:
        """Return milliseconds that only ever grow."""

    def wait(self, duration_ms: int) -> None:
        """Return after that time, or soon after the end was asked for meanwhile."""


class Watcher(Protocol):
    """Takes snapshots of the pipeline."""

    def started(self, progress: Progress) -> None:
        """The query was started, or started again."""

    def batch(self, progress: Progress) -> None:
        """A batch was finished."""

    def restarting(self, progress: Progress, failure: str, wait_ms: int) -> None:
        """The query has failed and will be started again after ``wait_ms``."""


class Claims(Protocol):
    """The claims of the query on queues, and the operations on them."""

    def end_written(self) -> bool:
        """End claims that the checkpoint says are written; return True if all are ended."""

    def quiesce(self) -> None:
        """Have nothing more claimed, so that the batch in work is the last one."""

    def give_back(self) -> None:
        """Give back messages that are in no batch; the query has ended."""


class NoClaims:
    """A query without claims, or one that ends its claims itself."""

    def end_written(self) -> bool:
        """Return True: there is nothing to end."""
        return True

    def quiesce(self) -> None:
        """Nothing is claimed."""

    def give_back(self) -> None:
        """Nothing is claimed."""


@dataclass(frozen=True)
class Limits:
    """Limits after which a batch hangs, and after which the query is given up.

    A batch that takes longer than ``batch_ms`` hangs. The first after a start has
    ``first_batch_ms``, since a cold session or a long backlog must not lead to restart after
    restart. After each restart for a hanging batch the limit doubles. ``failures_max`` failures in
    a row, without a finished batch between them, end the query. The wait before a restart begins
    with ``wait_ms`` and doubles up to ``wait_ms_max``.
    """

    poll_ms: int = 200
    first_batch_ms: int = 1_800_000
    batch_ms: int = 900_000
    failures_max: int = 5
    wait_ms: int = 1_000
    wait_ms_max: int = 60_000


DEFAULT_LIMITS = Limits()


class End(Enum):
    """The ways in which a run of a pipeline ends."""

    DONE = "done"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class Ending(NamedTuple):
    """The end of a run with its last snapshot; ``text`` is the reason of a failure."""

    end: End
    progress: Progress
    text: str = ""


#: Interval of the looks for the end of the batch in work, after a request for the end.
_STOP_POLL_MS = 20


class Supervisor:
    """Runs one pipeline to its end; every error that a restart may mend leads to one.

    A first request for the end lets the batch in work finish; one that has begun since then is
    broken off and comes again at the next start. A second request breaks off at once.
    """

    def __init__(
        self,
        start: Callable[[], Query],
        pace: Pace,
        watcher: Watcher,
        progress: Progress,
        limits: Limits = DEFAULT_LIMITS,
        *,
        claims: Claims | None = None,
    ) -> None:
        """Count on from ``progress``; ``start`` starts the query from its checkpoint."""
        self._claims = NoClaims() if claims is None else claims
        self._start = start
        self._pace = pace
        self._watcher = watcher
        self._progress = progress
        self._limits = limits
        #: Failures in a row, without a finished batch between them.
        self._failures = 0
        self._has_started = False
        #: The last batch counted of the query that runs; Spark tells of committed ones alone.
        self._batch = NO_BATCH

    def run(self) -> Ending:
        """Run until there is nothing left to do, the end is asked for, or nothing helps."""
        while True:
            if self._pace.asked_count:
                return self._ending(self._asked_end())
            ended = self._attempt()
            if isinstance(ended, End):
                return self._ending(ended)
            self._failures += 1
            if self._is_last(ended):
                return self._ending(End.FAILED, self._told(ended))
            wait_ms = min(
                self._limits.wait_ms << (self._failures - 1),
                self._limits.wait_ms_max,
            )
            self._progress = self._progress._replace(restarts=self._progress.restarts + 1)
            self._watcher.restarting(self._progress, ended.text, wait_ms)
            self._pace.wait(wait_ms)

    def _ending(self, end: End, text: str = "") -> Ending:
        self._end_written()
        if self._has_started and end is not End.FAILED:
            self._claims.give_back()
        return Ending(end, self._progress, text)

    def _asked_end(self) -> End:
        return End.STOPPED if self._pace.asked_count == 1 else End.INTERRUPTED

    def _is_last(self, failure: Failure) -> bool:
        # A query that never started is not tried again: a name or an address is wrong.
        return (
            failure.is_final or not self._has_started or self._failures >= self._limits.failures_max
        )

    def _told(self, failure: Failure) -> str:
        if self._failures < 2:
            return failure.text
        return f"{failure.text} ({self._failures} failures without a finished batch)"

    def _attempt(self) -> End | Failure:
        """Start the query and watch it to its end."""
        try:
            query = self._start()
            self._has_started, self._batch = True, NO_BATCH
            self._watcher.started(self._progress)
            return self._watch(query)
        except RAISED as error:
            return failure_of(error)

    def _watch(self, query: Query) -> End | Failure:
        watch = _BatchWatch(self._limits, self._pace, self._failures)
        while True:
            # Read before its progress: otherwise a batch finished in between would be missed.
            is_active = query.isActive
            if self._take(query):
                watch.batch_finished()
            if not is_active:
                error = query.exception()
                return End.DONE if error is None else failure_of(error)
            if self._pace.asked_count:
                return self._stop(query)
            late = watch.look(is_busy=query.status["isTriggerActive"])
            if late is not None:
                query.stop()
                return late
            self._pace.wait(self._limits.poll_ms)

    def _take(self, query: Query) -> bool:
        """Count the batches finished since the last look; return whether there are any."""
        last = query.lastProgress
        if last is None or last["batchId"] == self._batch:
            return False
        # Usually only the last batch is new, and the list of them is expensive to get.
        is_next = last["batchId"] == self._batch + 1
        events = [last] if is_next else query.recentProgress
        new = [event for event in events if event["batchId"] > self._batch]
        for event in new:
            self._batch = event["batchId"]
            self._progress = self._progress.with_batch(event)
            if event is new[-1]:
                self._end_written()
            self._watcher.batch(self._progress)
        self._failures = 0
        return True

    def _end_written(self) -> None:
        """End written claims; their delayed messages have gone to their queues then."""
        if self._claims.end_written():
            self._progress = self._progress.all_let_go()

    def _stop(self, query: Query) -> End | Failure:
        """Stop between two batches, or at once when that is asked for."""
        self._claims.quiesce()
        # Nothing is claimed any more: claimed messages are in the batch in work, or in one that
        # was finished a moment ago.
        self._take(query)
        batch = self._batch
        while (
            self._pace.asked_count == 1
            and query.isActive
            and query.status["isTriggerActive"]
            and self._batch == batch
        ):
            self._pace.wait(_STOP_POLL_MS)
            self._take(query)
        error = query.exception()
        if error is not None:
            return failure_of(error)._replace(is_final=True)
        query.stop()
        self._take(query)
        return self._asked_end()


class _BatchWatch:
    """Tells when a batch takes too long; a query that waits for its next batch has no limit."""

    def __init__(self, limits: Limits, pace: Pace, failures: int) -> None:
        self._limits = limits
        self._pace = pace
        self._limit_ms = limits.first_batch_ms << failures
        self._since_ms = pace.now_ms()

    def batch_finished(self) -> None:
        self._limit_ms = self._limits.batch_ms
        self._since_ms = self._pace.now_ms()

    def look(self, *, is_busy: bool) -> Failure | None:
        """Return a text when a batch hangs, else None."""
        now_ms = self._pace.now_ms()
        if not is_busy:
            self._since_ms = now_ms
        if now_ms - self._since_ms < self._limit_ms:
            return None
        seconds = self._limit_ms // SECOND_MS
        return Failure(f"a batch was not finished within {seconds} seconds", is_final=False)
