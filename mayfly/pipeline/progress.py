"""The progress of a pipeline and of a ledger run: snapshots, updated after each batch or commit.

The counts are metrics that the pipeline observes in each batch: ``observedMetrics`` of
a StreamingQueryProgress. Each source has one metric: IN_PREFIX and the number of its table in the
file, from 1, as ``mayfly_in_1``. OUT counts rows that left the delay line. This module does not
import Spark.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from mayfly.lifetime.times import SECOND_MS
from mayfly.verbs.contracts.config_files import local_path

#: Name of a source's metric, up to its number; the only field is ROWS.
IN_PREFIX = "mayfly_in_"
ROWS = "rows"
#: Name of the metric in front of the sinks, and its fields.
OUT = "mayfly_out"
RELEASED = "released"
EXPIRED = "expired"
DEAD_LETTERED = "dead_lettered"
REPORTS = "reports"
#: Released rows that their own queue manager releases when the batch is done.
LET_GO = "let_go"
#: Released rows of queues whose deadline has passed: the receiving queue manager discards them.
OVERDUE = "overdue"
#: The longest time, in ms, for which a row could have left before it did; null without rows.
LATE_MS_MAX = "late_ms_max"

#: Outcomes of rows that leave a pipeline: names in Spark's event and fields of a snapshot.
OUTCOMES = (RELEASED, EXPIRED, DEAD_LETTERED)

#: Batch number of a snapshot before the first batch.
NO_BATCH = -1

#: The file in a checkpoint that says how many rows were held after which batch.
_KEPT_FILE = "_mayfly_progress.json"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Progress(NamedTuple):
    """The state of a pipeline after a batch; all counts are since the program began.

    ``batch`` is the number of the last finished batch, NO_BATCH before the first; ``at`` is its
    start (ISO 8601, UTC), ``batch_ended_ms`` its end in ms since 1970, None before the first.
    ``batch_rows`` is the larger of its rows in and rows out, and ``rows_per_second`` their speed.
    ``held`` is the number of rows in the delay line. It is None while unknown: the program before
    was killed, and rows have been held ever since. ``lag_ms`` is the largest lateness of a row in
    that batch, None when no row was due. ``overdue`` are released rows whose deadline had passed;
    the receiving queue manager discards them. ``releasing`` are delayed messages of finished
    batches that their queue manager has not released yet; then they become ``released``.
    ``restarts`` is the number of restarts of the query.
    """

    pipeline: str
    batch: int = NO_BATCH
    at: str = ""
    batch_ended_ms: int | None = None
    batch_rows: int = 0
    batches: int = 0
    rows_in: int = 0
    held: int | None = 0
    released: int = 0
    expired: int = 0
    dead_lettered: int = 0
    overdue: int = 0
    reports: int = 0
    releasing: int = 0
    lag_ms: int | None = None
    rows_per_second: float = 0.0
    restarts: int = 0

    @property
    def rows_out(self) -> int:
        """Rows that have left the pipeline, without reports."""
        return self.released + self.releasing + self.expired + self.dead_lettered

    def with_batch(self, event: Mapping[str, Any]) -> Progress:
        """Return the state after one more batch; ``event`` is Spark's progress event as a dict.

        Spark sends the event when a batch is committed, so a repeated batch is counted once.
        """
        observed = {name: row.asDict() for name, row in event["observedMetrics"].items()}
        left = observed.get(OUT, {})
        rows_in = sum(
            _count(came, ROWS) for name, came in observed.items() if name.startswith(IN_PREFIX)
        )
        ended = {name: _count(left, name) for name in OUTCOMES}
        rows_out = sum(ended.values())
        let_go = _count(left, LET_GO)
        ended[RELEASED] -= let_go
        batch_rows = max(rows_in, rows_out)
        duration_ms = event["durationMs"].get("triggerExecution", 0)
        return self._replace(
            batch=event["batchId"],
            at=event["timestamp"],
            batch_ended_ms=_ended_ms(event["timestamp"], duration_ms),
            batch_rows=batch_rows,
            batches=self.batches + 1,
            rows_in=self.rows_in + rows_in,
            held=self._held_after(event, rows_in - rows_out),
            overdue=self.overdue + _count(left, OVERDUE),
            reports=self.reports + _count(left, REPORTS),
            releasing=self.releasing + let_go,
            lag_ms=left.get(LATE_MS_MAX),
            rows_per_second=_rate(batch_rows, duration_ms),
            **{name: getattr(self, name) + count for name, count in ended.items()},
        )

    def all_released(self) -> Progress:
        """Return the state after claims were ended: all ``releasing`` messages are ``released``.

        ``releasing`` are delayed messages of finished batches that their queue manager still held.
        """
        return self._replace(released=self.released + self.releasing, releasing=0)

    def _held_after(self, event: Mapping[str, Any], more: int) -> int | None:
        """Return the number of rows in the delay line after the event's batch, None if unknown.

        ``more`` is the number of rows in minus rows out. The number is unknown if the count before
        this batch is, or if a batch in between was missed.
        """
        if not any(operator["numRowsTotal"] for operator in event["stateOperators"]):
            return 0
        batch = event["batchId"]
        before = 0 if batch == 0 else self.held if batch == self.batch + 1 else None
        return None if before is None else before + more

    def has_moved_since(self, before: Progress) -> bool:
        """Return True if a row has arrived or left since an earlier snapshot."""
        return (self.rows_in, self.rows_out) != (before.rows_in, before.rows_out)


class KeptProgress:
    """The file in a checkpoint with batch number and ``held``, from which the next run continues.

    Without a valid file only ``held`` is unknown for a while. So a file that is missing, damaged or
    of an earlier batch does no harm. A checkpoint on another machine gets no file.
    """

    def __init__(self, checkpoint: str) -> None:
        """Keep the place of the checkpoint, a path or URL for Spark; nothing is read yet."""
        folder = path_here(checkpoint)
        self._file = None if folder is None else folder / _KEPT_FILE

    def load(self, pipeline: str) -> Progress:
        """Return the snapshot to continue from, for the pipeline with this name.

        It has the batch number and the number of rows in the delay line. If the file is missing or
        damaged, it has zeros and NO_BATCH.
        """
        kept: dict[str, Any] = {}
        # A folder that is not there yet, or a file that was cut off.
        with contextlib.suppress(OSError, ValueError):
            kept = {} if self._file is None else json.loads(self._file.read_text("utf-8"))
        match kept:
            case {"batch": int(batch), "held": int(held)}:
                return Progress(pipeline, batch=batch, held=held)
        return Progress(pipeline)

    def save(self, progress: Progress) -> None:
        """Write batch number and number of rows in the delay line to the file; raises OSError.

        Does nothing if the checkpoint is on another machine.
        """
        if self._file is None:
            return
        text = json.dumps({"batch": progress.batch, "held": progress.held})
        write_whole(self._file, text)


def path_here(place: str) -> Path | None:
    """Return the path of a folder on this machine, None for a URL of another file system."""
    try:
        return local_path(place)
    except ValueError:
        return None


def write_whole(file: Path, text: str) -> None:
    """Replace a file atomically: a reader finds the old text or the new one; raises OSError.

    The file is not synced: a power failure may lose the new text.
    """
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        error.filename = str(file)
        raise


def _count(metrics: Mapping[str, Any], name: str) -> int:
    """Return the metric ``name`` as a number, 0 if Spark has it as null or not at all."""
    value = metrics.get(name)
    return 0 if value is None else int(value)


def _rate(rows: int, duration_ms: int) -> float:
    """Return rows per second with one decimal, 0.0 for a duration of 0 ms."""
    return round(rows * SECOND_MS / duration_ms, 1) if duration_ms else 0.0


def _ended_ms(started: str, duration_ms: int) -> int:
    """Return the end of a batch in ms since 1970; ``started`` is its start in ISO 8601."""
    since_epoch = datetime.fromisoformat(started) - _EPOCH
    return since_epoch // timedelta(milliseconds=1) + duration_ms


# The progress of a run that copies a ledger into a lake: a snapshot after each commit


class LedgerProgress(NamedTuple):
    """The state of a ledger run; the counts are since the program began.

    ``manager`` is the queue manager whose ledger is copied into ``lake``, a folder or a URL.
    ``position`` is the last position of the ledger that the lake contains, ``end_position`` the
    last one that the ledger has; each is None until it is known. ``committed_ms`` is the time of
    the last commit with rows, in ms since 1970, None before the first.
    """

    manager: str
    lake: str
    position: int | None = None
    end_position: int | None = None
    commits: int = 0
    rows: int = 0
    committed_ms: int | None = None

    @property
    def lag_rows(self) -> int | None:
        """Rows of the ledger that the lake lacks, None while one of the positions is unknown."""
        if self.position is None or self.end_position is None:
            return None
        return max(self.end_position - self.position, 0)

    def with_commit(self, position: int, row_count: int, now_ms: int) -> LedgerProgress:
        """Return the state after a commit of ``row_count`` rows that end at ``position``."""
        return self._replace(
            position=position,
            end_position=max(position, self.end_position or 0),
            commits=self.commits + 1,
            rows=self.rows + row_count,
            committed_ms=now_ms,
        )
