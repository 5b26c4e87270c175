"""Supervises a pipeline's query: watches it, restarts it after failures, stops it when asked to.

This module does not import Spark: its caller passes a function that starts a query, and a clock.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol

from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.failures import RAISED, QueryFailure, failure_of
from mayfly.pipeline.progress import NO_BATCH, Progress


class Query(Protocol):
    """A Spark streaming query, reduced to the members that the supervisor uses; Spark's names."""

    @property
    def isActive(self) -> bool:  # noqa: N802  # Spark's name
        """Whether the query is running."""

    @property
    def status(self) -> Mapping[str, Any]:
        """The state of the query: ``isTriggerActive`` is True while a batch runs."""

    @property
    def lastProgress(self) -> Mapping[str, Any] | None:  # noqa: N802  # Spark's name
        """The progress event of the last batch, None before the first."""

    @property
    def recentProgress(self) -> Sequence[Mapping[str, Any]]:  # noqa: N802  # Spark's name
        """The progress events of the last batches, oldest first."""

    def exception(self) -> BaseException | None:
        """Return the error with which the query ended, None if it did not fail."""

    def stop(self) -> None:
        """Stop the query now, even within a batch."""


class ProgressListener(Protocol):
    """Receives a snapshot of the pipeline at each event."""

    def started(self, progress: Progress) -> None:
        """Called when the query was started, or restarted."""

    def batch(self, progress: Progress) -> None:
        """Called when a batch was finished."""

    def restarting(self, progress: Progress, failure: str, wait_ms: int) -> None:
        """Called when the query has failed, ``wait_ms`` before its restart.

        ``failure`` is the reason in one line.
        """


class SourceClaims(Protocol):
    """The claims of a query: messages that queue managers reserve for its consumers."""

    def end_written(self) -> bool:
        """End the claims (reserved messages) whose batches the checkpoint records as written.

        Returns True if all are ended, False if a server could not be reached.
        """

    def quiesce(self) -> None:
        """Reserve no more messages, so that the running batch is the last one."""

    def give_back(self) -> None:
        """Return reserved messages that are in no batch to their queues; for the end of a run."""


@dataclass(frozen=True)
class RestartLimits:
    """When a batch counts as hanging, and after how many failures the supervisor gives up.

    All times are in milliseconds. A batch that takes longer than ``batch_ms`` hangs. The first
    batch after a start has ``first_batch_ms``, because a cold session or a long backlog must not
    cause restart after restart. After each restart for a hanging batch that limit doubles.
    ``failures_max`` failures in a row, without a finished batch between them, end the run. The wait
    before a restart is ``wait_ms`` at first and doubles up to ``wait_ms_max``. ``poll_ms`` is the
    interval at which the query is checked.
    """

    poll_ms: int = 200
    first_batch_ms: int = 1_800_000
    batch_ms: int = 900_000
    failures_max: int = 5
    wait_ms: int = 1_000
    wait_ms_max: int = 60_000


DEFAULT_LIMITS = RestartLimits()


class Termination(Enum):
    """How a run has ended.

    DONE: nothing is left to do. STOPPED: after the running batch. INTERRUPTED: within a batch, by a
    second request. FAILED: by an error.
    """

    DONE = "done"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class RunResult(NamedTuple):
    """How a run has ended, and its last snapshot; ``text`` says why it failed, or is ""."""

    end: Termination
    progress: Progress
    text: str = ""


#: Interval of the looks for the end of the running batch, after a request for the end.
_STOP_POLL_MS = 20


class Supervisor:
    """Runs one pipeline to its end, with a restart after each error that a restart may cure.

    After the first stop request the running batch is finished. A batch that begins after the
    request is broken off, and repeated at the next start. A second stop request breaks off at once.
    """

    def __init__(
        self,
        start: Callable[[], Query],
        stops: Stops,
        watcher: ProgressListener,
        progress: Progress,
        limits: RestartLimits = DEFAULT_LIMITS,
        *,
        claims: SourceClaims | None = None,
    ) -> None:
        """Prepare a run without starting it; the counts continue from ``progress``.

        ``start`` starts the query from its checkpoint. ``stops`` has the stop requests and the
        clock. ``watcher`` is called at each start, batch and restart. ``limits`` say when to give
        up.
        ``claims`` None means that the query reserves no messages, or ends its claims itself.
        """
        self._claims = claims
        self._start = start
        self._stops = stops
        self._watcher = watcher
        self._progress = progress
        self._limits = limits
        #: Failures in a row, without a finished batch between them.
        self._failures = 0
        self._has_started = False
        #: The last counted batch of the running query; Spark reports committed batches only.
        self._batch = NO_BATCH

    def run(self) -> RunResult:
        """Run the query until it is done, a stop is requested, or restarts are used up.

        Returns how it ended. Errors of the query do not leave this method: the result is
        Termination.FAILED with a text.
        """
        while True:
            if self._stops.stop_request_count:
                return self._result(self._requested_termination())
            ended = self._attempt()
            if isinstance(ended, Termination):
                return self._result(ended)
            self._failures += 1
            if self._is_terminal(ended):
                return self._result(Termination.FAILED, self._failure_text(ended))
            wait_ms = min(
                self._limits.wait_ms << (self._failures - 1),
                self._limits.wait_ms_max,
            )
            self._progress = self._progress._replace(restarts=self._progress.restarts + 1)
            self._watcher.restarting(self._progress, ended.text, wait_ms)
            self._stops.wait(wait_ms)

    def _result(self, end: Termination, text: str = "") -> RunResult:
        """End the claims of written batches, and return the result of the run.

        A claim is a set of reserved messages. Unless the run failed, messages that are in no batch
        go back to their queues.
        """
        self._end_written()
        if self._claims is not None and self._has_started and end is not Termination.FAILED:
            self._claims.give_back()
        return RunResult(end, self._progress, text)

    def _requested_termination(self) -> Termination:
        """Return STOPPED after one stop request, INTERRUPTED after two or more."""
        is_first = self._stops.stop_request_count == 1
        return Termination.STOPPED if is_first else Termination.INTERRUPTED

    def _is_terminal(self, failure: QueryFailure) -> bool:
        """Return True if this failure ends the run, False if the query is restarted.

        True for a final failure, a query that never started, or too many failures in a row.
        """
        # A query that never started is not tried again: a name or an address is wrong.
        return (
            failure.is_final or not self._has_started or self._failures >= self._limits.failures_max
        )

    def _failure_text(self, failure: QueryFailure) -> str:
        """Return the text of the last failure, followed by the number of failures if several."""
        if self._failures < 2:
            return failure.text
        return f"{failure.text} ({self._failures} failures without a finished batch)"

    def _attempt(self) -> Termination | QueryFailure:
        """Start the query and watch it until it ends; return its Termination, or the failure."""
        try:
            query = self._start()
            self._has_started, self._batch = True, NO_BATCH
            self._watcher.started(self._progress)
            return self._watch(query)
        except RAISED as error:
            return failure_of(error)

    def _watch(self, query: Query) -> Termination | QueryFailure:
        """Watch a running query until it ends, hangs or a stop is requested.

        Returns its Termination, or the failure. A query that hangs is stopped.
        """
        watch = _BatchWatch(self._limits, self._stops, self._failures)
        while True:
            # Read before its progress: otherwise a batch finished in between would be missed.
            is_active = query.isActive
            if self._take(query):
                watch.batch_finished()
            if not is_active:
                error = query.exception()
                return Termination.DONE if error is None else failure_of(error)
            if self._stops.stop_request_count:
                return self._stop(query)
            late = watch.look(is_busy=query.status["isTriggerActive"])
            if late is not None:
                query.stop()
                return late
            self._stops.wait(self._limits.poll_ms)

    def _take(self, query: Query) -> bool:
        """Count the batches finished since the last call; return False if none is new.

        Otherwise ends the claims of these batches, reports each to the watcher and forgets earlier
        failures.
        """
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
        """End the claims of written batches; if that succeeds, count their messages as released."""
        if self._claims is None or self._claims.end_written():
            self._progress = self._progress.all_released()

    def _stop(self, query: Query) -> Termination | QueryFailure:
        """Stop the query after the running batch, or at once after a second stop request.

        Returns STOPPED or INTERRUPTED; if the query fails meanwhile, a failure that is final.
        """
        if self._claims is not None:
            self._claims.quiesce()
        # Nothing is claimed any more: claimed messages are in the running batch, or in one that
        # was finished a moment ago.
        self._take(query)
        batch = self._batch
        while (
            self._stops.stop_request_count == 1
            and query.isActive
            and query.status["isTriggerActive"]
            and self._batch == batch
        ):
            self._stops.wait(_STOP_POLL_MS)
            self._take(query)
        error = query.exception()
        if error is not None:
            return failure_of(error)._replace(is_final=True)
        query.stop()
        self._take(query)
        return self._requested_termination()


class _BatchWatch:
    """Detects a batch that takes longer than its limit; waiting for the next batch has no limit."""

    def __init__(self, limits: RestartLimits, stops: Stops, failures: int) -> None:
        """Start the time of the first batch; its limit doubles with each of ``failures``.

        These are the failures in a row before it.
        """
        self._limits = limits
        self._stops = stops
        self._limit_ms = limits.first_batch_ms << failures
        self._since_ms = stops.now_ms()

    def batch_finished(self) -> None:
        """Restart the time limit, now for the next batch."""
        self._limit_ms = self._limits.batch_ms
        self._since_ms = self._stops.now_ms()

    def look(self, *, is_busy: bool) -> QueryFailure | None:
        """Return the failure if the running batch has exceeded its limit, else None.

        ``is_busy`` False restarts the time: no batch runs.
        """
        now_ms = self._stops.now_ms()
        if not is_busy:
            self._since_ms = now_ms
        if now_ms - self._since_ms < self._limit_ms:
            return None
        seconds = self._limit_ms // SECOND_MS
        return QueryFailure(f"a batch was not finished within {seconds} seconds", is_final=False)


# Stop requests for a pipeline, by SIGINT or SIGTERM, with a clock and waits that end at them


_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_STEP_MS = 100
#: A signal that comes so soon after another is the same request: ``timeout`` sends one to its child
#: and one to the group of its child.
_SAME_REQUEST_MS = 500


class Stops:
    """Counts stop requests: the first lets a batch finish, the second breaks it off."""

    def __init__(self) -> None:
        """Begin without a request."""
        self._stop_request_count = 0
        self._signalled_ms: int | None = None
        self._never = threading.Event()

    @property
    def stop_request_count(self) -> int:
        """The number of stop requests."""
        return self._stop_request_count

    def ask(self) -> None:
        """Add one stop request; safe in a signal handler."""
        # No lock: a signal handler may come while the thread it interrupts holds it.
        self._stop_request_count += 1

    def signalled(self) -> None:
        """Add one stop request because of a signal.

        A signal within half a second of another is the same request and adds nothing.
        """
        now_ms, before_ms = self.now_ms(), self._signalled_ms
        self._signalled_ms = now_ms
        if before_ms is None or now_ms - before_ms >= _SAME_REQUEST_MS:
            self.ask()

    def now_ms(self) -> int:
        """Return milliseconds of a monotonic clock with an arbitrary start."""
        return int(time.perf_counter() * SECOND_MS)

    def wait(self, duration_ms: int) -> None:
        """Wait for ``duration_ms`` milliseconds, or until about 100 ms after a new stop request."""
        count_before, end_ms = self._stop_request_count, self.now_ms() + duration_ms
        while self._stop_request_count == count_before and (left_ms := end_ms - self.now_ms()) > 0:
            self._never.wait(min(left_ms, _STEP_MS) / SECOND_MS)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Return a context in which SIGINT and SIGTERM are stop requests.

        At its end the handlers from before are restored.
        """
        before = [
            signal.signal(number, lambda _number, _frame: self.signalled()) for number in _NUMBERS
        ]
        try:
            yield
        finally:
            for number, handler in zip(_NUMBERS, before, strict=True):
                signal.signal(number, handler)
