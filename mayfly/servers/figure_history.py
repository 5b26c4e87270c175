"""Figures of the last hour, day and week, kept in ``figures.db`` in the folder of a queue manager.

Three rings of rows have a fixed size: steps of 10 s for an hour, of 2 min for a day, of 15 min for
a week. A sample each 10 s adds to one step of each ring, and a step that comes round again replaces
the one before. The database is apart from that of the messages: a sample never waits for a disk or
makes a put wait for it, and a damaged or deleted file is made anew.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import apsw

from mayfly.engine import Engine, manager_folder
from mayfly.engine.api.operating import (
    NO_LATENESS,
    PUT,
    LatenessCounts,
    LatenessSum,
    LiveFigures,
    QueueFigures,
    Watch,
)
from mayfly.lifetime.life import State
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.errors import MQError
from mayfly.queue_manager import QueueManager
from mayfly.runtime.files import Files

FIGURES_FILE: Final = "figures.db"
SAMPLE_MS: Final = 10 * SECOND_MS
#: Queues with steps of their own, in each step; the others are added up as OTHERS.
MAX_QUEUES: Final = 100
#: The names under which steps of the whole queue manager, and of all other queues, are kept.
ALL, OTHERS = "", "(others)"
#: Queues that a sample looks at one by one.
_MOST_LOOKED_AT: Final = 10_000
_VERSION: Final = 1
#: Errors of a file that is of no use; a full disk, or a file of another user, may mend.
_DAMAGED: Final = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)
_LOG = logging.getLogger("mayfly.figures")


class Ring(NamedTuple):
    """The steps of one span of time: how long each is, in ms, and how many there are."""

    step_ms: int
    step_count: int

    @property
    def span_ms(self) -> int:
        """How long all steps of the ring last together."""
        return self.step_ms * self.step_count


#: The rings by the name of their span.
RINGS: Final[Mapping[str, Ring]] = {
    "hour": Ring(SAMPLE_MS, 360),
    "day": Ring(120 * SECOND_MS, 720),
    "week": Ring(900 * SECOND_MS, 672),
}


class RingStep(NamedTuple):
    """Figures of one queue, or of a queue manager, in one step of time.

    ``start_ms`` is when the step begins. ``covered_ms`` is how long the server looked in it, so a
    rate is a count by ``covered_ms``. Counts are of messages: put, got, expired, and ``ended`` by
    any outcome but the release from the staging queue. ``depth`` (CURDEPTH), ``delayed`` and
    ``oldest_age_ms`` are the highest of the samples. ``released_count`` messages were released for
    the queue, ``discarded_count`` expired ones were discarded on it; each with the sum of how late.
    """

    start_ms: int
    covered_ms: int
    put_count: int
    got_count: int
    expired_count: int
    ended_count: int
    depth: int
    delayed: int
    oldest_age_ms: int
    released_count: int = 0
    release_lateness_ms: int = 0
    discarded_count: int = 0
    discard_lateness_ms: int = 0


_COLUMNS: Final = RingStep._fields[1:]
#: Columns that hold the highest value of the samples; the others hold sums.
_HIGHEST: Final = frozenset(("depth", "delayed", "oldest_age_ms"))
_SCHEMA: Final = (
    "CREATE TABLE figure (step_ms INTEGER, slot INTEGER, queue TEXT, start_ms INTEGER, "
    f"{', '.join(f'{column} INTEGER' for column in _COLUMNS)}, "
    "PRIMARY KEY (step_ms, slot, queue)) WITHOUT ROWID; "
    f"PRAGMA user_version = {_VERSION}"
)
_MERGED: Final = ", ".join(
    f"{one} = max({one}, excluded.{one})" if one in _HIGHEST else f"{one} = {one} + excluded.{one}"
    for one in _COLUMNS
)
_ADD: Final = (
    f"INSERT INTO figure VALUES (?, ?, ?, {', '.join('?' * len(RingStep._fields))}) "
    f"ON CONFLICT DO UPDATE SET {_MERGED}"
)
#: One search for each slot: a scan would read the steps of all other queues.
_OF_QUEUE: Final = (
    "WITH RECURSIVE slots(n) AS (VALUES(0) UNION ALL SELECT n + 1 FROM slots WHERE n < ? - 1) "
    f"SELECT {', '.join(RingStep._fields)} FROM slots CROSS JOIN figure "
    "ON step_ms = ? AND slot = n AND queue = ? WHERE start_ms > ? AND start_ms <= ? "
    "ORDER BY start_ms"
)
_TOTALS: Final = ", ".join(
    f"max({one}) AS {one}" if one in _HIGHEST else f"sum({one}) AS {one}" for one in _COLUMNS
)
_BY_QUEUE: Final = (
    f"SELECT queue, min(start_ms) AS start_ms, {_TOTALS} FROM figure "
    "WHERE step_ms = ? AND start_ms > ? AND start_ms <= ? AND queue <> '' GROUP BY queue "
    "ORDER BY expired_count DESC, ended_count DESC, queue LIMIT ?"
)


class FiguresTable:
    """The database of the steps: ``figures.db`` in a folder, or in memory. Any thread may use it.

    No method raises an error of the database: it is logged, the file is made anew if it is damaged
    or gone, and until then answers are empty.
    """

    def __init__(self, folder: Path | None, manager: str) -> None:
        """Open the database, made when missing; ``folder`` None keeps it in memory.

        ``manager`` is the name that log lines have.
        """
        self._file = None if folder is None else folder / FIGURES_FILE
        self._manager = manager
        self._lock = threading.Lock()
        #: The last error that was logged: a full disk is logged once.
        self._told = ""
        self._connection: apsw.Connection | None = None
        with self._lock:
            self._open()

    def add(self, start_ms: int, steps: Mapping[str, RingStep]) -> None:
        """Add a sample to the step of each ring that contains ``start_ms``.

        ``steps`` has the sample of each queue by name, that of ALL included; those with the most
        messages come first. Beyond MAX_QUEUES in one step, queues are added up as OTHERS.
        """
        with self._lock:
            if self._file is not None and not self._file.exists():
                self._make_anew("it was deleted")
            if self._connection is None:
                self._open()
            try:
                if self._connection is not None:
                    with self._connection:
                        for ring in RINGS.values():
                            _add_to(self._connection, ring, start_ms, steps)
                    self._told = ""
            except apsw.Error as error:
                self._fail(error)

    def steps(self, queue: str, ring: Ring, now_ms: int) -> list[RingStep]:
        """Return the steps of a queue, the oldest first; at most ``ring.step_count``.

        ALL is the queue manager. A step in which the server did not run is missing; a queue without
        messages, puts and ends has zeros.
        """
        since_ms = now_ms - ring.span_ms
        place = (ring.step_count, ring.step_ms)
        of_all = [RingStep(*row) for row in self._rows(_OF_QUEUE, (*place, ALL, since_ms, now_ms))]
        if queue == ALL:
            return of_all
        rows = self._rows(_OF_QUEUE, (*place, queue, since_ms, now_ms))
        found = {step.start_ms: step for step in (RingStep(*row) for row in rows)}
        # A queue has a row for the samples alone in which it had something to tell.
        return [
            found.get(one.start_ms, _nothing_at(one.start_ms))._replace(covered_ms=one.covered_ms)
            for one in of_all
        ]

    def totals(self, ring: Ring, now_ms: int, limit: int) -> dict[str, RingStep]:
        """Return the sum of the steps of each queue, those that lost most by expiry first.

        ``start_ms`` is that of its first step. At most ``limit`` queues are returned.
        """
        asked = (ring.step_ms, now_ms - ring.span_ms, now_ms, limit)
        return {row[0]: RingStep(*row[1:]) for row in self._rows(_BY_QUEUE, asked)}

    def close(self) -> None:
        """Close the database; a second call does nothing."""
        with self._lock:
            self._close()

    def _rows(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Return the rows of a query, [] after an error."""
        with self._lock:
            if self._connection is None:
                return []
            try:
                return list(self._connection.execute(sql, tuple(values)))
            except apsw.Error as error:
                self._fail(error)
                return []

    def _open(self) -> None:
        """Open the database; one that is damaged, or of another version, is made anew."""
        try:
            self._connection = self._connected()
        except (apsw.Error, OSError) as error:
            self._fail(error)

    def _connected(self) -> apsw.Connection:
        """Return a connection to the checked database; raises apsw.Error."""
        if self._file is None:
            connection = apsw.Connection(":memory:")
            connection.execute(_SCHEMA)
            return connection
        Files().make(self._file)
        connection = apsw.Connection(str(self._file))
        try:
            # No other process has it open, so the log needs no index in shared memory. A sample
            # that a power cut takes away is worth no sync.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            version = connection.pragma("user_version")
            if connection.pragma("quick_check") != "ok" or version not in (0, _VERSION):
                raise apsw.CorruptError(f"version {version}, or pages that do not fit together")
            if not version:
                connection.execute(f"BEGIN IMMEDIATE; {_SCHEMA}; COMMIT")
                _LOG.info("made %s of %s", FIGURES_FILE, self._manager)
        except BaseException:
            connection.close()
            raise
        return connection

    def _fail(self, error: apsw.Error | OSError) -> None:
        """Log an error of the database once; make a damaged file anew."""
        if isinstance(error, _DAMAGED):
            self._make_anew(f"it is damaged: {error}")
        elif repr(error) != self._told:
            self._told = repr(error)
            _LOG.warning("%s of %s keeps no figures: %s", FIGURES_FILE, self._manager, error)

    def _make_anew(self, why: str) -> None:
        """Replace the file by an empty one, with a line in the log that says why."""
        _LOG.warning("%s of %s is made anew: %s", FIGURES_FILE, self._manager, why)
        self._close()
        try:
            if self._file is not None:
                for suffix in ("", "-wal", "-shm"):
                    self._file.with_name(self._file.name + suffix).unlink(missing_ok=True)
            self._connection = self._connected()
        except (apsw.Error, OSError) as error:
            # The next sample tries again.
            self._told = repr(error)
            _LOG.warning("%s of %s keeps no figures: %s", FIGURES_FILE, self._manager, error)

    def _close(self) -> None:
        """Close the connection, if any."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _nothing_at(start_ms: int) -> RingStep:
    """Return the step of a queue in which nothing was or happened."""
    return RingStep(start_ms, *[0] * len(_COLUMNS))


def _add_to(
    connection: apsw.Connection, ring: Ring, moment_ms: int, steps: Mapping[str, RingStep]
) -> None:
    """Add samples to the step of one ring that contains ``moment_ms``."""
    slot = moment_ms // ring.step_ms % ring.step_count
    start_ms = moment_ms - moment_ms % ring.step_ms
    place = (ring.step_ms, slot)
    # The slot may have the step of one turn of the ring before.
    connection.execute(
        "DELETE FROM figure WHERE step_ms = ? AND slot = ? AND start_ms <> ?", (*place, start_ms)
    )
    names = {
        name
        for (name,) in connection.execute(
            "SELECT queue FROM figure WHERE step_ms = ? AND slot = ?", place
        )
    }
    for queue, step in steps.items():
        name = queue
        if name not in names and name not in (ALL, OTHERS):
            name = name if len(names - {ALL, OTHERS}) < MAX_QUEUES else OTHERS
        names.add(name)
        connection.execute(_ADD, (*place, name, start_ms, *step[1:]))


class FigureHistory:
    """Takes the samples of one queue manager; its clock calls it. Any thread may read its table."""

    def __init__(self, manager: QueueManager) -> None:
        """Open ``figures.db`` in the folder of an open queue manager, and begin to sample.

        A queue manager in memory has its figures in memory.
        """
        self._engine: Engine = manager.engine
        self.table = FiguresTable(manager_folder(self._engine), manager.name)
        self._watch = Watch(self._engine, _MOST_LOOKED_AT)
        self._before = self._watch.look()
        self._due_ms = _next_sample_ms(self._before.now_ms)
        self._engine.clock.attach(self)

    def next_due_ms(self) -> int | None:
        """Return when a sample is due, in ms of the clock, if that time has come; None before.

        So a history never stops a virtual clock; an hour that passes in one step is one sample.
        """
        return self._engine.clock.now_ms() if self._due_ms <= self._engine.now_ms() else None

    def run_due(self) -> None:
        """Take a sample if one is due; it belongs to the step of 10 s that has ended last."""
        if self._due_ms <= self._engine.now_ms():
            now_ms = self._sample(behind_ms=SAMPLE_MS)
            self._due_ms = _next_sample_ms(now_ms)

    def close(self) -> None:
        """Take the last sample, of the step that has begun, and close the table."""
        self._engine.clock.detach(self)
        self._sample(behind_ms=0)
        self.table.close()

    def __enter__(self) -> Self:
        """Return the history."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the history."""
        self.close()

    def _sample(self, behind_ms: int) -> int:
        """Add a sample to the step ``behind_ms`` ago; return the time of the queue manager.

        A queue manager that has stopped adds nothing.
        """
        try:
            now = self._watch.look()
        except MQError:
            return self._engine.now_ms()
        start_ms = now.now_ms - now.now_ms % SAMPLE_MS - behind_ms
        self.table.add(start_ms, _steps_between(self._before, now, start_ms))
        self._before = now
        return now.now_ms


def _next_sample_ms(now_ms: int) -> int:
    """Return the next whole multiple of SAMPLE_MS after a time."""
    return now_ms - now_ms % SAMPLE_MS + SAMPLE_MS


def _steps_between(before: LiveFigures, now: LiveFigures, start_ms: int) -> dict[str, RingStep]:
    """Return the sample of each queue in which something was or happened, and that of ALL.

    The busiest queues come first.
    """
    # A queue that was not there has begun at zero; one that was among the others has not.
    has_others = before.queue_count > len(before.queues)
    found = {
        name: _step_of(before.queues.get(name, one if has_others else None), one, now, start_ms)
        for name, one in now.queues.items()
    }
    others = _step_of(before.others, now.others, now, start_ms)
    eventful = {name: step for name, step in found.items() if _is_eventful(step)}
    ordered = sorted(eventful, key=lambda name: (-_weight(eventful[name]), name))
    oldest_age_ms = max(
        (step.oldest_age_ms for name, step in found.items() if name != STAGING_QUEUE), default=0
    )
    steps = {ALL: _step_of_all(before, now, start_ms, oldest_age_ms)}
    steps |= {name: eventful[name] for name in ordered}
    return steps | ({OTHERS: others} if _is_eventful(others) else {})


def _step_of(
    before: QueueFigures | None,
    one: QueueFigures,
    now: LiveFigures,
    start_ms: int,
) -> RingStep:
    """Return the sample of one queue, or of several; ``before`` None is a queue that is new.

    ``covered_ms`` is 0: it is that of ALL.
    """
    puts, ended, released, discarded = 0, dict[str, int](), NO_LATENESS, NO_LATENESS
    # Fewer puts: it was deleted and defined again.
    if before is not None and before.puts <= one.puts:
        puts, ended = before.puts, dict(before.ended)
        released, discarded = before.release_lateness, before.expiry_lateness
    count = {outcome: max(0, n - ended.get(outcome, 0)) for outcome, n in one.ended.items()}
    oldest_ms = now.now_ms if one.oldest_put_ms is None else one.oldest_put_ms
    return RingStep(
        start_ms,
        0,
        one.puts - puts,
        count.get(State.GOT, 0),
        count.get(State.EXPIRED, 0),
        sum(count.values()) - count.get(State.RELEASED, 0),
        one.depth,
        0 if one.present is None else one.present.staged,
        max(0, now.now_ms - oldest_ms),
        *_sum_between(released, one.release_lateness),
        *_sum_between(discarded, one.expiry_lateness),
    )


def _step_of_all(
    before: LiveFigures, now: LiveFigures, start_ms: int, oldest_age_ms: int
) -> RingStep:
    """Return the sample of the queue manager, whose oldest message has ``oldest_age_ms``.

    A message that is released or dead-lettered moves on and counts as one put. Delayed messages are
    no part of the depth, and of no age.
    """
    flow = {word: n - before.flow.get(word, 0) for word, n in now.flow.items()}
    depth = sum(one.depth for one in now.queues.values()) + now.others.depth
    staging = now.queues.get(STAGING_QUEUE)
    ended = sum(n for word, n in flow.items() if word not in (PUT, State.RELEASED))
    return RingStep(
        start_ms,
        now.now_ms - before.now_ms,
        flow.get(PUT, 0),
        flow.get(State.GOT, 0),
        flow.get(State.EXPIRED, 0),
        ended,
        depth - (0 if staging is None else staging.depth),
        now.present.staged,
        oldest_age_ms,
        *_lateness_between(before.release_lateness, now.release_lateness),
        *_lateness_between(before.expiry_lateness, now.expiry_lateness),
    )


def _lateness_between(before: LatenessCounts, now: LatenessCounts) -> tuple[int, int]:
    """Return how many messages were handled between two samples, and the sum of latenesses, ms."""
    return sum(now.counts) - sum(before.counts), now.sum_ms - before.sum_ms


def _sum_between(before: LatenessSum, now: LatenessSum) -> tuple[int, int]:
    """Return how many messages of a queue were handled between two samples, and how late, in ms.

    (0, 0) when the queue was deleted and defined again, so that it had more before.
    """
    if before.message_count > now.message_count:
        return 0, 0
    return now.message_count - before.message_count, now.sum_ms - before.sum_ms


def _is_eventful(step: RingStep) -> bool:
    """Return True if a queue had messages, puts, releases or ends in a step."""
    happened = step.put_count, step.ended_count, step.released_count, step.discarded_count
    return any((*happened, step.depth, step.delayed))


def _weight(step: RingStep) -> int:
    """Return a measure of a queue's work: its puts, ended, present and delayed messages."""
    return step.put_count + step.ended_count + step.depth + step.delayed
