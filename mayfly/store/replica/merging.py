"""The merge of a log behind its owner, a little at a time, so that appends hardly notice it.

A thread looks each second how long the log is. It merges what is too much in small steps, through a
connection of its own, and pauses after each step for several times as long as that took. A log that
grows faster than that is merged with shorter pauses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ClassVar, Final

from mayfly.mqi.errors import StoreError
from mayfly.runtime import Loop, Runtime, elapsed_ms
from mayfly.store.replica.log import LogUnreachable, PostgresLog

#: An answer of the database is waited for so long, also by the end of the owner.
MERGE_PATIENCE_MS: Final = 3_000
_LOOK_SECONDS: Final = 1.0
_FAILED_SECONDS: Final = 60.0
#: Rows that are merged between two looks, and in one step; the pause after a step in times of it.
_MOST_ROWS, _STEP_ROWS = 2_000, 200
_PAUSE_FACTOR, _PAUSE_FACTOR_BEHIND = 4.0, 0.5
#: The merger is behind when the log has this many rows or bytes.
_ROWS_BEHIND: Final = 10_000
_BYTES_BEHIND: Final = 256 * 2**20
_LOG = logging.getLogger("mayfly.store")


class LogMerger:
    """A thread that keeps the log of one owner short, from :meth:`start` until it is closed."""

    #: Rows that stay in the log, and the least that are merged: the same pages are in many of them.
    LEFT_ROWS: ClassVar = 1_000
    LEAST_MERGED_ROWS: ClassVar = 500
    #: Bytes of pages above which only the last row stays.
    MOST_BYTES: ClassVar = 64 * 2**20

    def __init__(self, connect: Callable[[], PostgresLog], runtime: Runtime) -> None:
        """Do nothing yet; ``connect`` is called in the thread, once there is something to do."""
        self._connect, self._runtime = connect, runtime
        self._log: PostgresLog | None = None
        self._stopped = runtime.event()
        self._worker: Loop | None = None
        #: How long the next turn waits; the rows that are still to be merged, and those that stay.
        self._pause_seconds = _LOOK_SECONDS
        self._due_rows, self._left_rows, self._factor = 0, 1, _PAUSE_FACTOR
        self._failure = ""

    def start(self) -> None:
        """Begin to look after the log, whose owner this process is."""
        self._worker = Loop(self._runtime, self._turn, "mayfly-merge")
        self._worker.start()

    def close(self) -> None:
        """End the thread after the step under way, and close its connection."""
        self._stopped.set()
        if self._worker is not None:
            self._worker.join()
        if self._log is not None:
            self._log.close()

    def _turn(self) -> bool:
        """Wait, then look how long the log is, or merge a step of it."""
        if self._stopped.wait(self._pause_seconds):
            return False
        self._pause_seconds = _LOOK_SECONDS
        try:
            if self._log is None:
                self._log = self._connect()
            if self._due_rows:
                self._merge(self._log)
            else:
                self._look(self._log)
        except LogUnreachable:
            # Appends and the lease say so.
            self._due_rows = 0
        except StoreError as error:
            self._due_rows, self._pause_seconds = 0, _FAILED_SECONDS
            if self._failure != error.message:
                _LOG.error("the log of the replica is not merged: %s", error.message)
            self._failure = error.message
        return True

    def _look(self, log: PostgresLog) -> None:
        """Find out what is to be merged."""
        rows, size_bytes = log.length(_ROWS_BEHIND)
        self._left_rows = 1 if size_bytes >= self.MOST_BYTES else self.LEFT_ROWS
        if rows >= self._left_rows + self.LEAST_MERGED_ROWS or size_bytes >= self.MOST_BYTES:
            self._due_rows = min(rows - self._left_rows, _MOST_ROWS)
            self._pause_seconds = 0.0
        is_behind = rows >= _ROWS_BEHIND or size_bytes >= _BYTES_BEHIND
        self._factor = _PAUSE_FACTOR_BEHIND if is_behind else _PAUSE_FACTOR

    def _merge(self, log: PostgresLog) -> None:
        """Merge one step, and pause in proportion to it."""
        began_ms = elapsed_ms()
        count = log.merge(min(_STEP_ROWS, self._due_rows), self._left_rows)
        if not count:
            # Another merges it, or all that is left belongs to the last row.
            self._due_rows = 0
            return
        self._due_rows = max(self._due_rows - count, 0)
        self._pause_seconds = (elapsed_ms() - began_ms) * self._factor / 1_000
