"""The owner's side of the replica: what each group commit has written is appended to the log.

The order is SQLite's commit, then the append, then callers are told. While an append is under way
no other commit begins, so at most one transaction is ahead of the log. When an append fails, the
store stops; the next opening discards that transaction (applying.py).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from mayfly.mqi.errors import StoreError
from mayfly.runtime import Runtime
from mayfly.store.changes import read_change
from mayfly.store.followers import NO_LOG, LogPosition
from mayfly.store.replica.applying import NOTHING, FolderState, StateFile, bring_to_end
from mayfly.store.replica.log import Entry, Position, PostgresLog
from mayfly.store.replica.pages import packed
from mayfly.store.write_ahead_log import PAGE_BYTES, WriteAheadLog

_PAGES_AT_ONCE: Final = 256
_ALL_FRAMES: Final = 2**63
_LOG = logging.getLogger("mayfly.store")


class Replica:
    """The replica of one queue manager, while this process has its folder open."""

    def __init__(self, url: str, manager_name: str, owner: str, runtime: Runtime) -> None:
        """Connect to the log in a database; ``owner`` names this process to other owners.

        Raises as :class:`PostgresLog`.
        """
        self._log = PostgresLog(url, manager_name, runtime)
        self._owner, self._instance = owner, ""
        self._state: StateFile | None = None
        self._at, self._read = Position(0, 0), NO_LOG
        self._file = Path()

    @property
    def position(self) -> Position:
        """The last row of the log that this owner has appended, or found when it opened."""
        return self._at

    def prepare(self, folder: Path) -> None:
        """Take the queue manager, and make the database of a folder that of the log's end.

        Without a log nothing is done: :meth:`begin` makes one. Call it with the folder locked and
        its database closed. Raises ReplicaError, StoreDamaged, OSError.
        """
        self._state = StateFile(folder)
        registered = self._log.registered()
        if registered is None:
            if self._state.read() != NOTHING:
                raise self._log.gone(folder)
            return
        self._instance = registered.instance
        # First the epoch: from here on nobody else appends, so the end stays the end.
        taken = self._log.take(self._instance, self._owner)
        applied = bring_to_end(folder, self._log)
        if applied.page_count:
            _LOG.warning(
                "%s: %d pages were fetched from the log, of which %d had been written by commits "
                "that it does not have",
                folder,
                applied.page_count,
                applied.discarded_pages,
            )
        self._at = Position(applied.position.number, taken.epoch)

    def begin(
        self, instance: str, log: WriteAheadLog, file: int, page_count: Callable[[], int]
    ) -> None:
        """Append what the opening of the database has written; begin a log that is not there.

        ``log`` is SQLite's log, ``file`` a descriptor of the database file. ``page_count`` returns
        the pages of the database. Raises ReplicaError.
        """
        assert self._state is not None
        self._file = log.file
        with log.guard:
            if not self._instance:
                self._instance = instance
                if not log.write_back():
                    raise StoreError(f"{self._file.parent}: the disk is full", self._file.parent)
                count = page_count()
                self._at = self._log.register(instance, self._owner, _images(file, count), count)
                self._read = log.end()
                self._note()
            else:
                self._read = LogPosition(log.end().salts, 0)
                self.append(log)

    def append(self, log: WriteAheadLog) -> None:
        """Append what was committed since the last append, and return when PostgreSQL has it.

        Call it with the guard of SQLite's log held. Raises Fenced, LogUnreachable, ReplicaError;
        the store must then stop.
        """
        end = log.end()
        # SQLite begins its log anew only when all of it is written back, so it was appended.
        start = self._read if self._read.salts == end.salts else LogPosition(end.salts, 0)
        change = read_change(self._file, start, end, _ALL_FRAMES) if end.frames else None
        if change is None:
            return
        at = Position(self._at.number + 1, self._at.epoch)
        self._log.append(self._instance, Entry(at, change.page_count, packed(change.pages)))
        self._at, self._read = at, end
        self._note()

    def close(self) -> None:
        """Close the connection and the file ``replica``; nothing is given up."""
        self._log.close()
        if self._state is not None:
            self._state.close()
            self._state = None

    def _note(self) -> None:
        """Write into the folder which row of the log it has."""
        assert self._state is not None
        self._state.write(FolderState(self._instance, self._at, self._read))


def opened_replica(url: str, manager_name: str, runtime: Runtime) -> Replica:
    """Return the replica of a queue manager; machine and process are the name of its owner."""
    return Replica(url, manager_name, f"{os.uname().nodename}, process {os.getpid()}", runtime)


def _images(file: int, page_count: int) -> Iterator[tuple[int, bytes]]:
    """Yield (number, image) of all pages of a database file; ``file`` is its descriptor."""
    for first in range(0, page_count, _PAGES_AT_ONCE):
        content = os.pread(file, _PAGES_AT_ONCE * PAGE_BYTES, first * PAGE_BYTES)
        for at in range(0, min(len(content), (page_count - first) * PAGE_BYTES), PAGE_BYTES):
            yield first + at // PAGE_BYTES + 1, content[at : at + PAGE_BYTES]
