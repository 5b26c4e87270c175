"""The owner's side of the replica: each group commit is appended to the log.

The order is SQLite's commit, then the append, then callers are told. While an append is under way
no other commit begins, so at most one transaction is ahead of the log. When an append fails, the
store stops; the next opening discards that transaction (applying.py). An append waits for the
database as long as the owner counts on its lease (lease.py), and the store stops as well when that
is over.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from mayfly.mqi.errors import StoreError
from mayfly.runtime import Runtime, elapsed_through_suspend_ms
from mayfly.store.changes import OpenLog, Piece
from mayfly.store.followers import NO_LOG, LogPosition
from mayfly.store.replica.applying import NOTHING, FolderState, StateFile, bring_to_end
from mayfly.store.replica.files import SharedFiles, write_files
from mayfly.store.replica.lease import LEASE_MS, LEAST_LEASE_MS, OwnerLease, own_lease_ms
from mayfly.store.replica.log import LogEntry, LogRow, Owned, PostgresLog, Registered
from mayfly.store.replica.merging import MERGE_PATIENCE_MS, LogMerger
from mayfly.store.replica.pages import packed
from mayfly.store.write_ahead_log import PAGE_BYTES, WriteAheadLog

_PAGES_AT_ONCE: Final = 256
_ALL_FRAMES: Final = 2**63
#: Pages in one part of an append: a longer one goes to the log in several parts of 4 MB.
PART_PAGES: Final = 1_024
#: The pause between two looks at the lease of another owner.
_LOOK_SECONDS: Final = 0.02
_LOG = logging.getLogger("mayfly.store")


class StandbyLag(NamedTuple):
    """How far a standby is behind its owner: by rows of the log, and by time.

    ``lag_ms`` is 0 while it lacks no row; else it may lack the commits of the last ``lag_ms``.
    ``seen_ms`` is how long ago it was seen, ``addresses`` where it listens, by the names of
    listeners.
    """

    name: str
    addresses: Mapping[str, str]
    lag_rows: int
    lag_ms: int
    seen_ms: int


class Replica:
    """The replica of one queue manager, while this process has its folder open."""

    def __init__(
        self, url: str, manager_name: str, owner: str, runtime: Runtime, lease_ms: int = LEASE_MS
    ) -> None:
        """Connect to the log in a database; ``owner`` names this process to other owners.

        Another owner has to wait for ``lease_ms`` ms from the last time that this one was heard
        of. Raises ValueError for less than a second, and as :class:`PostgresLog`.
        """
        if lease_ms < LEAST_LEASE_MS:
            raise ValueError(f"replica_lease_ms: {lease_ms} is less than {LEAST_LEASE_MS}")
        self._runtime, self._lease_ms = runtime, lease_ms
        self._log = PostgresLog(url, manager_name, runtime, own_lease_ms(lease_ms))
        try:
            lease_log = PostgresLog(url, manager_name, runtime, lease_ms // 4)
        except BaseException:
            self._log.close()
            raise
        #: The lease, which tells who follows, and whether one of these is wanted as the owner.
        self.lease = OwnerLease(lease_log, lease_ms, self._lose, runtime)
        connect = partial(PostgresLog, url, manager_name, runtime, MERGE_PATIENCE_MS)
        self._merger = LogMerger(connect, runtime)
        self._owner, self._instance = owner, ""
        self._state: StateFile | None = None
        self._at, self._read = LogRow(0, 0), NO_LOG
        #: A row, and the end of SQLite's log then, before which all is on the disk.
        self._synced, self._synced_end = self._at, NO_LOG
        self._boot_id = runtime.files.boot_id()
        self._file = Path()
        #: SQLite's log, open from the first append on.
        self._opened: OpenLog | None = None
        #: Why the lease is lost; empty while it is not.
        self.loss = ""
        #: Called with the reason when the lease is lost; the store must stop.
        self.on_lost: Callable[[str], None] = lambda _reason: None

    @property
    def position(self) -> LogRow:
        """The last row of the log that this owner has appended, or found when it opened."""
        return self._at

    def standbys(self) -> list[StandbyLag]:
        """Return the standbys as of the last renewal of the lease, by name; [] if none follows."""
        last = self._at.number
        return [
            StandbyLag(
                each.name,
                each.addresses,
                max(last - each.number, 0),
                each.lag_ms if each.number < last else 0,
                each.age_ms,
            )
            for each in self.lease.standbys
        ]

    def prepare(self, folder: Path) -> None:
        """Take the queue manager, and make a folder's database and files those of the log's end.

        The lease of an owner that has ended is waited for. Without a log nothing is done:
        :meth:`begin` makes one. Call it with the folder locked and its database closed. Raises
        Owned for an owner that goes on, ReplicaError, StoreDamaged, OSError.
        """
        self._state = StateFile(folder)
        state = self._state.read()
        registered = self._found()
        if registered is None:
            if state != NOTHING:
                raise self._log.gone(folder)
            self.lease.files = SharedFiles(folder, {})
            return
        self._instance = registered.instance
        # First the epoch: from here on nobody else appends, so the end stays the end.
        own_epoch = state.owned_epoch if state.instance == registered.instance else 0
        taken = self._take(own_epoch)
        was_last = own_epoch == taken.epoch - 1
        if was_last:
            self._state.write(state._replace(owned_epoch=taken.epoch))
        applied = bring_to_end(folder, self._log, self._runtime.files)
        if applied.page_count:
            _LOG.warning(
                "%s: %d pages were fetched from the log, of which %d had been written by commits "
                "that it does not have",
                folder,
                applied.page_count,
                applied.discarded_pages,
            )
        self._at = LogRow(applied.position.number, taken.epoch)
        self._log.discard_parts(self._instance, taken.epoch)
        shared = self._log.files_since(0)
        if not was_last:
            write_files(folder, shared, self._runtime.files)
        state = self._state.read()
        self._state.write(state._replace(owned_epoch=taken.epoch))
        self.lease.files = SharedFiles(folder, shared.contents)
        self._synced, self._synced_end = state.synced, state.synced_end

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
                first = self._log.register(instance, self._owner, _images(file, count), count)
                # The copy may have taken longer than a lease.
                self._at = self._take(first.epoch)
                # SQLite has synced the database when it wrote the log back.
                self._synced, self._read = self._at, log.end()
            else:
                self._read = LogPosition(log.end().salts, 0)
                self.append(log)
            self._note()

    def append(self, log: WriteAheadLog) -> None:
        """Append what was committed since the last append, and return when PostgreSQL has it.

        Call it with the guard of SQLite's log held. Raises Fenced, LogUnreachable, ReplicaError;
        the store must then stop.
        """
        if not log.pages:
            return
        if self._opened is None:
            self._opened = OpenLog(self._file)
        end = LogPosition(self._opened.salts(), log.pages)
        # SQLite begins its log anew only when all of it is written back, so it was appended.
        start = self._read if self._read.salts == end.salts else LogPosition(end.salts, 0)
        at = LogRow(self._at.number + 1, self._at.epoch)
        if end.frames - start.frames > PART_PAGES:
            self._append_in_parts(self._opened, at, start, end)
            self._at, self._read = at, end
            self._note()
            return
        change = self._opened.read_change(start, end, _ALL_FRAMES)
        if change is None:
            return
        self._log.append(self._instance, LogEntry(at, change.page_count, packed(change.pages)))
        self._at, self._read = at, end
        self._note()

    def _append_in_parts(
        self, log: OpenLog, at: LogRow, start: LogPosition, end: LogPosition
    ) -> None:
        """Append what was committed between two positions, of which no more than a part is held."""
        part, last = 0, Piece(0, {})
        for piece in log.read_pieces(start, end, PART_PAGES):
            if part:
                self._log.write_part(self._instance, at, part, packed(last.pages))
            part, last = part + 1, piece
        # With this row all of them count.
        self._log.append(self._instance, LogEntry(at, last.page_count, packed(last.pages)))

    def sync(self, log: WriteAheadLog) -> None:
        """Sync SQLite's log beside commits, which do not, and note that its rows are on the disk.

        When that fails, the folder counts from now on as it was at the sync before. Raises OSError.
        """
        with log.guard:
            at, end = self._at, self._read
        try:
            if end.frames:
                log.files.sync(log.file)
        except OSError:
            with log.guard:
                self._boot_id = ""
                self._note()
            raise
        with log.guard:
            self._synced, self._synced_end = at, end
            self._note()

    def _found(self) -> Registered | None:
        """Return what the log says, None if it is to be begun here: another's beginning is over."""
        pause = self._runtime.event()
        while (registered := self._log.registered()) is None and not self._log.is_first():
            pause.wait(_LOOK_SECONDS)
        # One that had the right to begin it may have done so between the two questions.
        return registered or self._log.registered()

    def _take(self, own_epoch: int) -> LogRow:
        """Take the queue manager when it is free, and begin to renew the lease.

        A lease that is not renewed is waited for. The owner of ``own_epoch`` had this folder, so it
        has ended. Raises Owned when another owner renews its lease.
        """
        pause, seen = self._runtime.event(), None
        while True:
            began_ms = elapsed_through_suspend_ms()
            try:
                taken = self._log.take(self._instance, self._owner, self._lease_ms, own_epoch)
            except Owned as error:
                if seen not in (None, error.standing.lease_end):
                    raise
                seen = error.standing.lease_end
                pause.wait(_LOOK_SECONDS)
            else:
                self.lease.begin(self._instance, taken.epoch, began_ms)
                self._merger.start()
                return taken

    def _lose(self, reason: str) -> None:
        """Record in ``loss`` why the lease is lost, and call ``on_lost``, which stops the store."""
        self.loss = reason
        self.on_lost(reason)

    def close(self) -> None:
        """Give the lease up, and close the connections and the file ``replica``."""
        self._merger.close()
        self.lease.close()
        self._log.close()
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        if self._state is not None:
            self._state.close()
            self._state = None

    def _note(self) -> None:
        """Write into the folder which row of the log it has."""
        assert self._state is not None
        self._state.write(
            FolderState(
                self._instance,
                self._at,
                self._read,
                self._synced,
                self._synced_end,
                self._boot_id,
                self._at.epoch,
            )
        )


def opened_replica(url: str, manager_name: str, runtime: Runtime, lease_ms: int) -> Replica:
    """Return the replica of a queue manager, with this process as its owner.

    Raises as :class:`Replica`.
    """
    return Replica(url, manager_name, process_name(), runtime, lease_ms)


def process_name() -> str:
    """Return machine and process, by which owners and standbys know each other."""
    return f"{os.uname().nodename}, process {os.getpid()}"


def _images(file: int, page_count: int) -> Iterator[tuple[int, bytes]]:
    """Yield (number, image) of all pages of a database file; ``file`` is its descriptor."""
    for first in range(0, page_count, _PAGES_AT_ONCE):
        content = os.pread(file, _PAGES_AT_ONCE * PAGE_BYTES, first * PAGE_BYTES)
        for at in range(0, min(len(content), (page_count - first) * PAGE_BYTES), PAGE_BYTES):
            yield first + at // PAGE_BYTES + 1, content[at : at + PAGE_BYTES]
