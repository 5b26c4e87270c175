"""Runs a pipeline: a Spark session, a supervised query, and listeners for its progress."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mayfly.pipeline.build import Readers, session_settings, start
from mayfly.pipeline.check import ConfigProblem, check
from mayfly.pipeline.config import AVAILABLE_NOW, PipelineConfig
from mayfly.pipeline.failures import JAVA_ENDED
from mayfly.pipeline.progress import KeptProgress, Progress
from mayfly.pipeline.spark.session import create_session
from mayfly.pipeline.supervise import (
    DEFAULT_LIMITS,
    ProgressListener,
    RestartLimits,
    RunResult,
    Stops,
    Supervisor,
)

#: Longest wait for a query to stop; after it, the end of the session ends the query.
_STOP_LIMIT = {"spark.sql.streaming.stopTimeout": "60s"}


class SnapshotTarget(Protocol):
    """A file or a server that shows snapshots outside of this process."""

    def show(self, progress: Progress, *, is_up: bool, failure: str = "") -> None:
        """Show a snapshot; ``is_up`` is True while the query runs.

        ``failure`` is why it waits for a restart, "" if it does not. An OSError that this
        raises becomes a text for the user and does not stop the pipeline.
        """


class RunListener(ProgressListener, Protocol):
    """A progress listener that also gets texts about failures to show or save a snapshot."""

    def say(self, text: str) -> None:
        """Receive a text: a snapshot could not be shown or saved, or claims are left over."""


def problems_before(config: PipelineConfig) -> list[ConfigProblem]:
    """Return the problems, but no warnings, that prevent a run and can be found without Java."""
    return [problem for problem in check(config, None) if not problem.is_warning]


def run(
    config: PipelineConfig,
    listener: RunListener,
    *,
    master: str = "local[*]",
    is_once: bool = False,
    shown: Sequence[SnapshotTarget] = (),
    limits: RestartLimits = DEFAULT_LIMITS,
) -> RunResult:
    """Run a pipeline until it is done, SIGINT or SIGTERM arrives, or restarts are used up.

    ``listener`` is called at each start, batch and restart. ``master`` is the Spark master.
    ``is_once`` ends the run after the rows that were present at its start. Each target in ``shown``
    gets every snapshot. ``limits`` say after how many failures it gives up, how long it waits
    before a restart, and when a batch hangs. A failed query is a result, not an exception. Raises
    JavaNotFound or PySparkException if the Spark session does not start.
    """
    if is_once:
        config = replace(config, trigger=AVAILABLE_NOW)
    stops = Stops()
    kept = KeptProgress(config.checkpoint)
    watchers = _Watchers(listener, shown, kept)
    # Listening twice: a Spark session installs a handler of its own for SIGINT when it begins.
    with stops.listening(), _session(config, master) as spark, stops.listening():
        begun = kept.load(config.name)
        readers = Readers(config.checkpoint, spark, listener.say)

        def start_query() -> StreamingQuery:
            """Start the pipeline's query; called for the first start and each restart."""
            return start(config, spark, readers)

        supervisor = Supervisor(start_query, stops, watchers, begun, limits, claims=readers)
        result = supervisor.run()
    watchers.show(result.progress, is_up=False)
    return result


@contextlib.contextmanager
def _session(config: PipelineConfig, master: str) -> Iterator[SparkSession]:
    """Return a context with a new Spark session for a pipeline; it is stopped at the end."""
    settings = {**_STOP_LIMIT, **session_settings(config)}
    spark = create_session(master, f"mayfly {config.name}", settings)
    try:
        yield spark
    finally:
        # The stop fails when Spark's Java has failed; there is nothing left to stop then.
        with contextlib.suppress(*JAVA_ENDED):
            spark.stop()


class _Watchers:
    """Passes the supervisor's events to the listener, the snapshot targets and the progress file.

    An OSError of a target or of the file becomes a text for the listener and stops nothing.
    """

    def __init__(
        self, listener: RunListener, targets: Sequence[SnapshotTarget], kept: KeptProgress
    ) -> None:
        """Keep the listener, the targets that show snapshots, and the file for the next run."""
        self._listener = listener
        self._targets = targets
        self._kept = kept
        self._warned: set[str] = set()

    def started(self, progress: Progress) -> None:
        """Show a snapshot of a running query to all targets, then call the listener."""
        self.show(progress, is_up=True)
        self._listener.started(progress)

    def batch(self, progress: Progress) -> None:
        """Save the progress file, then show the snapshot to all targets and to the listener."""
        with self._warning():
            self._kept.save(progress)
        # Metrics first: a program that reads the line about a batch finds the batch there.
        self.show(progress, is_up=True)
        self._listener.batch(progress)

    def restarting(self, progress: Progress, failure: str, wait_ms: int) -> None:
        """Show a snapshot of a query that is down to all targets, then call the listener."""
        self.show(progress, is_up=False, failure=failure)
        self._listener.restarting(progress, failure, wait_ms)

    def show(self, progress: Progress, *, is_up: bool, failure: str = "") -> None:
        """Show a snapshot to all targets, without the listener.

        ``is_up`` and ``failure`` are those of ``SnapshotTarget.show``.
        """
        for target in self._targets:
            with self._warning():
                target.show(progress, is_up=is_up, failure=failure)

    @contextlib.contextmanager
    def _warning(self) -> Iterator[None]:
        """Return a context that swallows an OSError and says each text once to the listener."""
        try:
            yield
        except OSError as error:
            text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            if text not in self._warned:
                self._warned.add(text)
                self._listener.say(text)
