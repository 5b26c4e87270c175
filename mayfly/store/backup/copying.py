"""Copies a queue manager to a place while it works: once, or on and on.

A thread reads the log every 20 ms and keeps what it has read in memory, one image a page. So the
queue manager need not keep the log for a place that is slow. The caller's thread reads the image
and writes objects. When the log was begun anew before it was read, an epoch cannot be whole, and
another begins.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final, NamedTuple

from mayfly.mqi.errors import StoreDamaged, StoreError
from mayfly.runtime import Files, Loop, Runtime, SystemClock
from mayfly.runtime.runtime import Event
from mayfly.store.backup.objects import (
    FORMAT,
    BackupPlace,
    ChangeName,
    Epoch,
    EpochContents,
    FileStamp,
    NoRoom,
    PageFacts,
    Secrets,
    chain,
    check_same_manager,
    databases_left_out,
    digest_of,
    files_path,
    packed_pages,
    piece_path,
    place_of,
    read_epoch,
    stamps_of,
    unpacked_pages,
    write_epoch,
    write_files,
)
from mayfly.store.changes import (
    LogLost,
    PageCheck,
    check_not_here,
    check_page_bytes,
    log_end,
    read_change,
)
from mayfly.store.damage import is_protected_page, read_identity
from mayfly.store.database import DATABASE_FILE
from mayfly.store.followers import NO_LOG, FollowerFile, LogPosition
from mayfly.store.write_ahead_log import PAGE_BYTES

PIECE_PAGES: Final = 1_024
#: Pages of one change, and of the changes in memory, which wait for a place that is slow.
_CHANGE_PAGES: Final = 8_192
_WAITING_PAGES: Final = 65_536
_READ_SECONDS: Final = 0.02
_WRITE_SECONDS: Final = 0.2
#: How long an opening or a restart may leave the end of the log unknown.
_PATIENCE_SECONDS: Final = 60.0
_TRIES: Final = 5
#: A page that is read while it is written is read again.
_PAGE_TRIES: Final = 10
#: Changes are kept one by one so long; then those of a minute become one.
_MERGE_AFTER_MS: Final = 10 * 60_000
#: So long the changes of such a minute stay beside it, for a restore that has their names.
_MERGED_KEPT_MS: Final = 10 * 60_000
_MINUTE_MS: Final = 60_000
#: An epoch ends when its changes are longer than its image, but not before this length.
_EPOCH_BYTES: Final = 256 * 2**20
_KEPT_MS: Final = 7 * 24 * 3_600_000
_LOG = logging.getLogger("mayfly.store.backup")


class Copied(NamedTuple):
    """A backup that is whole.

    It holds all that was committed before ``safe_at_ms`` (epoch ms). ``object_bytes`` were written;
    ``reused_pieces`` were there from a backup that was broken off. ``left_out`` names files that
    are not in it.
    """

    began_ms: int
    safe_at_ms: int
    page_count: int
    change_count: int
    object_bytes: int
    reused_pieces: int
    left_out: list[str]


class _Read(NamedTuple):
    """The pages that the tail has read since the last call, up to a moment and a position."""

    pages: dict[int, bytes]
    page_count: int
    commit_count: int
    end: LogPosition
    until_ms: int


class _Tail:
    """Reads the log of a folder in a thread, from a position on."""

    def __init__(self, folder: Path, follower: FollowerFile, start: LogPosition | None) -> None:
        """Begin at a position, or with None at the beginning of the present log.

        ``follower`` records the position that is read. Raises StoreError when the end of the log
        stays unknown, StoreDamaged, OSError.
        """
        self._folder, self._log = folder, folder / f"{DATABASE_FILE}-wal"
        self._follower, self._clock = follower, SystemClock()
        runtime = Runtime()
        self._lock, self._stopped = runtime.lock("tail"), runtime.event()
        self._pause = runtime.event()
        self._error: Exception | None = None
        self._safe_at_ms = 0
        if start is None:
            follower.begin()
            start = LogPosition(self._wait_for_end().salts, 0)
        self._at = start
        self._pages: dict[int, bytes] = {}
        self._page_count = self._commit_count = 0
        self._until_ms = 0
        follower.write(start, 0)
        self._loop = Loop(runtime, self._turn, "mayfly-tail", survives_errors=False)
        self._loop.start()

    def stop(self) -> None:
        """End the thread; returns when it has ended."""
        self._stopped.set()
        self._loop.join()

    def take(self, least_pages: int = 0) -> _Read | None:
        """Return what was read since the last call; None if it has fewer than ``least_pages``.

        Raises LogLost, or another error that has ended the reading.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._loop.is_dead:
                raise StoreError(f"{self._log} is read no longer", self._folder)
            if len(self._pages) < least_pages:
                return None
            found = _Read(
                self._pages, self._page_count, self._commit_count, self._at, self._until_ms
            )
            self._pages, self._commit_count = {}, 0
            return found

    def note_safe(self, until_ms: int) -> None:
        """Note that the place has all commits before ``until_ms``, in ms since 1970.

        The owner reads this from the follower file.
        """
        with self._lock:
            self._safe_at_ms = until_ms
            self._follower.write(self._at, until_ms)

    def _wait_for_end(self) -> LogPosition:
        """Return the end of the log, which is unknown while a queue manager opens the folder.

        Raises StoreError if it stays unknown for some seconds.
        """
        for _ in range(round(_PATIENCE_SECONDS / _READ_SECONDS)):
            end = log_end(self._folder)
            if end is not None:
                return end
            self._pause.wait(_READ_SECONDS)
        raise _unknown_end(self._folder)

    def _turn(self) -> bool:
        """Read new commits from the log, then pause; return False if stopped, or after an error."""
        try:
            while self._read_more():
                pass
        except (StoreError, OSError) as error:
            with self._lock:
                self._error = error
            return False
        return not self._stopped.wait(_READ_SECONDS)

    def _read_more(self) -> bool:
        """Read some of what is new; return True if there is more to be read at once.

        Raises LogLost if the log was begun anew before all of it was read.
        """
        now_ms, end = self._clock.now_ms(), log_end(self._folder)
        if end is None or len(self._pages) > _WAITING_PAGES:
            return False
        at = self._at
        if end.salts != at.salts:
            if self._follower.ended() != at:
                raise LogLost(f"{self._log} was begun anew before it was read", self._folder)
            at = LogPosition(end.salts, 0) if end != NO_LOG else at
        change = None
        if end.frames > at.frames and end != NO_LOG:
            change = read_change(self._log, at, end, _CHANGE_PAGES)
        with self._lock:
            if change is None:
                self._until_ms = now_ms
                return False
            self._pages.update(change.pages)
            self._page_count = change.page_count
            self._commit_count += change.commit_count
            self._at = change.end
            self._follower.write(change.end, self._safe_at_ms)
            if change.end == end:
                self._until_ms = now_ms
            return change.end != end


class Copier:
    """Copies the folder of one queue manager to one place; only one at a time does."""

    def __init__(
        self, folder: Path, manager_name: str, target: str, secrets: Secrets, version: str
    ) -> None:
        """Lock the copy of ``folder`` to ``target``, a folder or a URL.

        ``version`` is that of Mayfly, which the backup names. Raises StoreError when another
        process copies there, or it holds the backup of another queue manager; ModuleNotFoundError
        for a URL without pyarrow, OSError.
        """
        check_not_here(folder)
        self.folder, self.manager_name, self.version = folder, manager_name, version
        self.place: BackupPlace = place_of(target)
        self.clock = SystemClock()
        self._secrets, self._stopped = secrets, Runtime().event()
        for began_ms in EpochContents(self.place).whole[-1:]:
            check_same_manager(read_epoch(self.place, began_ms), manager_name, target)
        self.follower = FollowerFile(folder, target)
        self._stamps: list[FileStamp] | None = None
        #: Files with secrets that the last copy of the files lacks.
        self.left_out: list[str] = []

    def stop(self) -> None:
        """Ask :meth:`follow` to end; it writes what is read, and returns."""
        self._stopped.set()

    def back_up(self, say: Callable[[int, int], None]) -> Copied:
        """Make one backup and return when it is whole.

        ``say`` is called with the pages that are copied and their number. Raises NoRoom when the
        disk of the place has too little room, and nothing of the backup stays there; StoreDamaged
        for a page with a wrong checksum, StoreError, OSError.
        """
        try:
            for attempt in range(_TRIES):
                try:
                    with _EpochCopy(self, None) as epoch:
                        epoch.copy_image(say)
                        return epoch.finish()
                except LogLost as lost:
                    if attempt == _TRIES - 1:
                        raise
                    _LOG.info("the backup begins anew: %s", lost)
            raise AssertionError
        finally:
            self.follower.close(forget=True)

    def follow(self, say: Callable[[int, int], None], whole: Callable[[Copied], None]) -> None:
        """Copy commits continuously, until :meth:`stop`; raises the errors of :meth:`back_up`.

        ``say`` is called as by :meth:`back_up`, ``whole`` when an epoch has a complete image.
        """
        resumed = self._resumable()
        try:
            while not self._stopped.is_set():
                try:
                    with _EpochCopy(self, resumed) as epoch:
                        if resumed is None:
                            epoch.copy_image(say)
                        whole(epoch.finish())
                        epoch.go_on(self._stopped)
                except LogLost as lost:
                    _LOG.warning("the backup begins anew with all pages: %s", lost)
                resumed = None
        finally:
            self.follower.close()

    def _resumable(self) -> Epoch | None:
        """Return the last epoch if it is of this database and has changes; None for none."""
        contents = EpochContents(self.place)
        if not contents.whole or not contents.changes_of(contents.whole[-1]):
            return None
        epoch = read_epoch(self.place, contents.whole[-1])
        identity = read_identity(self.folder, Files())
        is_same = identity is not None and identity.instance == epoch.instance
        return epoch if is_same else None

    def write_files(self) -> None:
        """Copy the small files beside the database to the place, if one has changed since.

        Without a passphrase those with secrets are not copied; ``left_out`` then names them. Raises
        OSError, NoRoom if the disk of the place has too little room, and ModuleNotFoundError if
        there are secrets, but no package ``cryptography``.
        """
        stamps = stamps_of(self.folder)
        if stamps != self._stamps:
            self.left_out = write_files(self.place, self.folder, self._secrets, self.clock.now_ms())
            self._stamps = stamps


def _unknown_end(folder: Path) -> StoreError:
    """Return the error for a queue manager whose start takes too long: its log has no end yet."""
    text = f"the end of the log has been unknown for {_PATIENCE_SECONDS:.0f} seconds"
    return StoreError(f"{folder}: {text}", folder)


class _EpochCopy:
    """The copy of one epoch: its image, then its changes. Use it in a ``with`` block."""

    def __init__(self, copier: Copier, resumed: Epoch | None) -> None:
        """Begin an epoch, or go on with ``resumed``, which is whole and has changes.

        An epoch that was broken off is begun again: pieces that have not changed are not written
        again.
        """
        self._copier, self._place, self._folder = copier, copier.place, copier.folder
        self._bytes = self._image_bytes = self._change_bytes = 0
        self._page_count = self._reused = 0
        #: Pages that had a wrong checksum in the file, and those that the log has.
        self._wrong_pages, self._log_pages = set[int](), set[int]()
        self._pieces: list[str] = []
        self._changes: list[ChangeName] = []
        #: Changes that a longer one holds, with the moments at which they are removed.
        self._merged: list[tuple[int, ChangeName]] = []
        self._safe_at_ms = 0
        self._epoch = resumed
        contents, start = EpochContents(self._place), None
        if resumed is not None:
            self._began_ms = resumed.began_ms
            known = contents.changes_of(self._began_ms)
            self._changes = chain(known, None)
            self._keep_merged(set(known) - {*self._changes})
            last = self._changes[-1].path(self._began_ms)
            start = unpacked_pages(last, self._place.read(last))[0].end
        elif contents.unfinished > contents.whole[-1:]:
            self._began_ms = contents.unfinished[-1]
            for change in contents.changes_of(self._began_ms):
                self._place.remove(change.path(self._began_ms))
        else:
            self._began_ms = max([copier.clock.now_ms(), *(at + 1 for at in contents.whole)])
        self._found = set(contents.names_of(self._began_ms))
        self._tail = _Tail(self._folder, copier.follower, start)

    def __enter__(self) -> _EpochCopy:
        """Return the copy itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """End the thread; after NoRoom remove what is not whole."""
        self._tail.stop()
        if kind is not None and issubclass(kind, NoRoom) and self._epoch is None:
            for name in EpochContents(self._place).names_of(self._began_ms):
                self._place.remove(name)

    def copy_image(self, say: Callable[[int, int], None]) -> None:
        """Read the database file and write its pieces; raises StoreDamaged, NoRoom, OSError."""
        with (self._folder / DATABASE_FILE).open("rb") as file:
            descriptor = file.fileno()
            total = os.fstat(descriptor).st_size // PAGE_BYTES
            first = os.pread(descriptor, PAGE_BYTES, 0)
            if total:
                check_page_bytes(first, self._folder)
            check = PageCheck(self._folder) if is_protected_page(first) else None
            for start in range(0, total, PIECE_PAGES):
                count = min(PIECE_PAGES, total - start)
                self._write_piece(start + 1, dict(_pages(descriptor, start, count, check)))
                self._write_change(self._tail.take(_CHANGE_PAGES))
                say(start + count, total)
        self._page_count = total

    def finish(self) -> Copied:
        """Write what was committed up to now, and the files; the epoch is whole then.

        Raises StoreDamaged for a page of the database with a wrong checksum.
        """
        self._catch_up()
        copier = self._copier
        copier.write_files()
        if self._epoch is None:
            wrong = self._wrong_pages - self._log_pages
            if wrong:
                raise StoreDamaged(
                    f"{self._folder / DATABASE_FILE} is damaged: the checksum of page {min(wrong)} "
                    "is wrong",
                    self._folder,
                )
            identity = read_identity(self._folder, Files())
            self._epoch = Epoch(
                FORMAT,
                copier.version,
                copier.manager_name,
                "" if identity is None else identity.instance,
                0 if identity is None else identity.schema,
                self._began_ms,
                self._changes[-1].last if self._changes else 0,
                self._safe_at_ms,
                self._pieces,
                [*copier.left_out, *databases_left_out(self._folder, DATABASE_FILE)],
            )
            write_epoch(self._place, self._epoch)
            for name in self._found - {*self._pieces}:
                self._place.remove(name)
            self._prune()
        self._tail.note_safe(self._safe_at_ms)
        return Copied(
            self._began_ms,
            self._safe_at_ms,
            self._page_count,
            len(self._changes),
            self._bytes,
            self._reused,
            list(self._epoch.left_out),
        )

    def go_on(self, stopped: Event) -> None:
        """Write changes as they come, until ``stopped`` or until a new image is shorter."""
        while not stopped.wait(_WRITE_SECONDS):
            self._write_change(self._tail.take())
            self._copier.write_files()
            self._tail.note_safe(self._safe_at_ms)
            self._merge_old()
            self._remove_merged()
            if self._change_bytes > max(_EPOCH_BYTES, self._image_bytes):
                return
        self._catch_up()
        self._tail.note_safe(self._safe_at_ms)

    def _catch_up(self) -> None:
        """Write all that was committed before this call; raises as :meth:`_Tail.take`.

        Only then an image is whole: its pages may be those of the last commits.
        """
        now_ms, pause = self._copier.clock.now_ms(), Runtime().event()
        for _ in range(round(_PATIENCE_SECONDS / _READ_SECONDS)):
            self._write_change(self._tail.take())
            if self._safe_at_ms > now_ms:
                return
            pause.wait(_READ_SECONDS)
        raise _unknown_end(self._folder)

    def _write_piece(self, first_page: int, read: Mapping[int, _PageRead]) -> None:
        """Write a piece of the image to the place, unless the place has the same piece already.

        ``read`` has its pages by number; the first is ``first_page``.
        """
        self._wrong_pages.update(number for number, page in read.items() if not page.is_right)
        pages = {number: page.content for number, page in read.items()}
        name = piece_path(self._began_ms, first_page, digest_of(b"".join(pages.values())))
        self._pieces.append(name)
        if name in self._found:
            self._reused += 1
            return
        self._image_bytes += self._write(name, packed_pages(PageFacts(), pages))

    def _write_change(self, read: _Read | None) -> None:
        """Write the pages that were read from the log as one change; nothing without a commit."""
        if read is None:
            return
        if read.pages:
            first = self._changes[-1].last + 1 if self._changes else 1
            name = ChangeName(first, first, read.until_ms)
            facts = PageFacts(
                read.page_count, read.commit_count, read.end.salts.hex(), read.end.frames
            )
            packed = packed_pages(facts, read.pages)
            self._change_bytes += self._write(name.path(self._began_ms), packed)
            self._changes.append(name)
            if self._epoch is None:
                self._log_pages.update(read.pages)
        self._safe_at_ms = read.until_ms

    def _merge_old(self) -> None:
        """Merge the changes of one minute into one: the first old minute with several changes."""
        assert self._epoch is not None
        before_ms = self._copier.clock.now_ms() - _MERGE_AFTER_MS
        # Those of the image stay: else no moment in the rest of its minute could be restored.
        first = self._epoch.first_whole
        later = [change for change in self._changes if change.first > first]
        by_minute = groupby(later, key=lambda change: change.until_ms // _MINUTE_MS)
        for minute, group in by_minute:
            parts = list(group)
            if (minute + 1) * _MINUTE_MS > before_ms:
                return
            if len(parts) > 1:
                self._merge(parts)
                return

    def _merge(self, parts: Sequence[ChangeName]) -> None:
        """Write several changes as one, which takes their place."""
        pages: dict[int, bytes] = {}
        commit_count, facts = 0, PageFacts()
        for part in parts:
            name = part.path(self._began_ms)
            facts, more = unpacked_pages(name, self._place.read(name))
            commit_count += facts.commit_count
            pages |= more
        merged = ChangeName(parts[0].first, parts[-1].last, parts[-1].until_ms)
        packed = packed_pages(facts._replace(commit_count=commit_count), pages)
        self._write(merged.path(self._began_ms), packed)
        at = self._changes.index(parts[0])
        self._changes[at : at + len(parts)] = [merged]
        self._keep_merged(parts)

    def _keep_merged(self, parts: Iterable[ChangeName]) -> None:
        """Note changes that were merged into a longer one; :meth:`_remove_merged` removes them."""
        until_ms = self._copier.clock.now_ms() + _MERGED_KEPT_MS
        self._merged += [(until_ms, part) for part in parts]

    def _remove_merged(self) -> None:
        """Remove the changes that a longer one has held for long enough."""
        now_ms = self._copier.clock.now_ms()
        while self._merged and self._merged[0][0] <= now_ms:
            _until_ms, part = self._merged[0]
            self._place.remove(part.path(self._began_ms))
            del self._merged[0]

    def _prune(self) -> None:
        """Remove epochs and changes that no moment of the last seven days needs."""
        contents = EpochContents(self._place)
        oldest_ms = self._copier.clock.now_ms() - _KEPT_MS
        whole = contents.whole
        gone = [at for at, next_one in pairwise(whole) if next_one < oldest_ms]
        gone += [at for at in contents.unfinished if at != self._began_ms]
        for began_ms in gone:
            for name in contents.names_of(began_ms):
                self._place.remove(name)
        for at_ms, next_one in pairwise(sorted(contents.files)):
            if next_one < min([oldest_ms, *(at for at in whole if at not in gone)]):
                self._place.remove(files_path(at_ms))

    def _write(self, name: str, packed: bytes) -> int:
        """Write an object; return its length in bytes."""
        self._place.write(name, packed)
        self._bytes += len(packed)
        return len(packed)


class _PageRead(NamedTuple):
    """A page of the database file, and whether its checksum is right."""

    content: bytes
    is_right: bool


def _pages(
    descriptor: int, start: int, count: int, check: PageCheck | None
) -> Iterator[tuple[int, _PageRead]]:
    """Yield (number, page) of ``count`` pages of a file behind the first ``start`` ones.

    A page with a wrong checksum is read again: the queue manager may be writing it. ``check`` is
    None for a database without checksums.
    """
    pause = Runtime().event()
    packed = os.pread(descriptor, count * PAGE_BYTES, start * PAGE_BYTES)
    for at in range(0, len(packed), PAGE_BYTES):
        number, page = start + at // PAGE_BYTES + 1, packed[at : at + PAGE_BYTES]
        is_right = check is None or check.is_right(page)
        for _ in range(_PAGE_TRIES):
            if check is None or is_right:
                break
            pause.wait(_READ_SECONDS)
            page = os.pread(descriptor, PAGE_BYTES, (number - 1) * PAGE_BYTES)
            is_right = check.is_right(page)
        yield number, _PageRead(page, is_right)
