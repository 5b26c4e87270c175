"""The store of a queue manager: one database on disk and one in memory, and the group commit.

Persistent messages, the ledger, counters and definitions are in the durable database;
non-persistent messages are in a second one in memory. A unit of work changes the durable database
first; memory follows when that change is safe. A queue manager without a folder has both in memory.

A thread writes the write-ahead log back into the database, and lengthens the file of the log ahead
of writers. A log file that grows with each commit makes each sync write its new length as well,
which takes two thirds of a sync more than overwriting. SQLite overwrites its log once it has begun
it anew; until then the thread lengthens the file for many commits at a time (docs/PERFORMANCE.md).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

import apsw

from mayfly.mqi.errors import MQError, StoreError, mq_error
from mayfly.mqi.reasons import MQRC_CONNECTION_BROKEN
from mayfly.runtime import EngineLock, Lock, Loop, Runtime
from mayfly.store.claimed_messages import ClaimedMessages
from mayfly.store.damage import check_identity, damaged, identity_of, is_damage, read_identity
from mayfly.store.database import DATABASE_FILE, Database, Reader, write_value
from mayfly.store.disk_space import Ballast, DiskSpace
from mayfly.store.followers import MAX_KEPT_PAGES, Followers
from mayfly.store.group_commit import GroupCommit
from mayfly.store.held_gets import HeldGets
from mayfly.store.ledger import Ledger, LedgerErasure, LedgerIds, Retention
from mayfly.store.ledger_writer import LedgerWriter, Totals
from mayfly.store.messages import Messages
from mayfly.store.replica.owner import Replica
from mayfly.store.stage_table import StageTable, insert_bulk
from mayfly.store.units import Unit
from mayfly.store.write_ahead_log import FRAME_BYTES, WriteAheadLog

#: Numbers are reserved in blocks, so that none is given again after a crash.
_SEQUENCE_BLOCK = 2**24
_SEQUENCE_LOW = 2**20
_LOG = logging.getLogger("mayfly.store")
#: Pages to write back while writers are held back: about 10 ms.
_FEW_PAGES = 500
#: Each pass leaves what was written meanwhile, less each time unless the disk cannot keep up.
_MAX_PASSES = 10
#: A log that is written back at this length stays at 4 MB.
_PAGES_ON_A_FULL_DISK = 1_000
#: A follower reads 100 MB a second, and looks for more every 20 ms. While the last few pages are
#: waited for, writers wait as well.
_NEARLY_READ_SECONDS = 1.0
_READ_SECONDS = 0.06
#: How much longer a log gets before it is looked at again whether it is read.
_MORE_KEPT_PAGES = 4_000


class Sequence:
    """Gives ascending numbers, never one twice, also after a crash.

    Numbers come from a reserved block whose end is stored durably before the first of them is used.
    ``instance`` is a random number of 16 bits for this opening of the store; with it, ids of two
    queue managers of one name differ.
    """

    def __init__(self, reserved: int, commit: Callable[[Unit], None], runtime: Runtime) -> None:
        """Continue after the number ``reserved``.

        Reserve the first block of numbers by ``commit``.
        """
        self.instance = int.from_bytes(runtime.random_bytes(2))
        self._last = self._low_from = reserved
        #: Whether :meth:`extend` is needed before many more numbers are given.
        self.is_low = False
        self._commit = commit
        self.extend()

    def next(self) -> int:
        """Return a new number; the queue manager's lock is held."""
        self._last = number = self._last + 1
        if number > self._low_from:
            self.is_low = True
        return number

    def next_range(self, count: int) -> int:
        """Return the first of ``count`` new consecutive numbers; the queue manager's lock is held.

        ``count`` must be less than 2**20, the part of a block that is left when the next is
        reserved.
        """
        assert count < _SEQUENCE_LOW
        first = self._last + 1
        self._last += count
        if self._last > self._low_from:
            self.is_low = True
        return first

    def extend(self) -> None:
        """Reserve the next block of numbers durably; to be called when ``is_low`` is True.

        Call it without the queue manager's lock. Raises MQRC_STORAGE_MEDIUM_FULL,
        MQRC_CONNECTION_BROKEN.
        """
        reserved = self._last + _SEQUENCE_BLOCK
        unit = Unit()
        unit.statements.append(write_value("sequence", reserved))
        self._commit(unit)
        self._low_from = reserved - _SEQUENCE_LOW
        self.is_low = self._last > self._low_from


#: The most lives of non-persistent messages that wait for the next commit.
_PENDING_LIVES = 10_000


class Store:
    """The two databases of a queue manager; makes units of work durable.

    ``engine_lock`` is the queue manager's lock: it guards the database in memory and everything
    that readers of the engine use. :meth:`commit` must be called without it.
    """

    def __init__(
        self,
        folder: Path | None,
        engine_lock: EngineLock,
        now_ms: Callable[[], int],
        runtime: Runtime,
        replica: Replica | None = None,
    ) -> None:
        """Open the store of a folder, created when missing; None keeps everything in memory.

        ``engine_lock`` is the queue manager's lock, ``now_ms`` returns ms since 1970. Commits are
        appended to the log of ``replica``, which the store closes. Raises StoreDamaged,
        FolderInUse, NewerSchema or StoreError, and ReplicaError, which is one.
        """
        self.engine_lock, self._runtime, self._replica = engine_lock, runtime, replica
        prepare = None if replica is None else replica.prepare
        try:
            self.database = Database(folder, runtime, prepare=prepare)
        except BaseException:
            if replica is not None:
                replica.close()
            raise
        self._readers: list[Reader] = []
        try:
            self._open(now_ms)
        except BaseException as error:
            for reader in self._readers:
                reader.stop()
            # Commits that the replica's log lacks stay in the write-ahead log, to be discarded.
            self.database.close(keeps_log=replica is not None)
            if replica is not None:
                replica.close()
            if folder is not None and isinstance(error, apsw.Error) and is_damage(error):
                raise damaged(folder / DATABASE_FILE, error) from error
            raise

    def _open(self, now_ms: Callable[[], int]) -> None:
        """Create the databases, the readers and writers, and the threads of the store."""
        self._memory = Database(None, self._runtime)
        self.high_water_ms = self.database.read_meta("high_water_ms", 0)
        self.database.on_damage = self._stop
        #: Why the store has stopped by itself, and what is called then.
        self.stop_reason, self.on_stop = "damage was read", _nothing
        guard = self._guard("transaction")
        writer, lock = self.database.writer, self.engine_lock
        self.persistent = Messages(writer, self.database.reader, lock, self._stop)
        self.volatile = Messages(self._memory.writer, self._memory.reader, lock)
        self.held_gets = HeldGets(self.database.folder, self.database.instance_id)
        self.stages = StageTable(self.persistent)
        self.ledger_writer = LedgerWriter(
            writer,
            self.persistent.contents,
            now_ms,
            self._runtime,
            high_water_ms=self.high_water_ms,
        )
        ballast = self.database.ballast
        self._log = None
        if self.database.folder is not None:
            followers = Followers(self.database.folder, self._runtime)
            self._log = WriteAheadLog(writer, guard, followers, self._runtime)
        space = None
        if self._log is not None and ballast is not None:
            space = DiskSpace(writer, self._log, ballast)
        self.group = GroupCommit(
            writer,
            self._apply,
            self.ledger_writer,
            guard,
            space,
            runtime=self._runtime,
            append=self._begin_replica(),
        )
        self.retention = Retention(writer, self.ledger_writer, self.group)
        ledger_reader = self._reader("ledger")
        self.ids = LedgerIds(ledger_reader, self.retention, self.group)
        instance_id = self.database.instance_id
        self.ledger = Ledger(instance_id, ledger_reader, self.ids, self.flush, self.settle)
        self.erasure = LedgerErasure(
            ledger_reader, self.ids, self.group, self.settle, self._runtime
        )
        self.claimed = ClaimedMessages(self._reader("claims"))
        #: For statistics and monitoring, whose reads must not delay the other readers.
        self.statistics_reader = self._reader("statistics")
        self._pending = Unit()
        #: Whether enough lives wait for a commit that the next caller should call :meth:`flush`.
        self.must_flush = False
        #: Flushes under way: their changes are neither in ``_pending`` nor in the stored totals.
        self._flushing = 0
        self._now_ms = now_ms
        #: The moment (epoch ms) of the first change since the last balance rows; None: no change.
        self.unsettled_since_ms: int | None = None
        reserved = self.database.read_meta("sequence", 0)
        self.sequence = Sequence(reserved, self.group.commit, self._runtime)
        self._log_keeper: Checkpointer | None = None
        if self._replica is not None:
            self._replica.on_lost = self._lose
            if self._replica.loss:
                raise StoreError(self._replica.loss, self.database.folder or Path())
        if self._log is not None and ballast is not None:
            self.database.write_first_identity()
            sync = None if self._replica is None else partial(self._replica.sync, self._log)
            self._log_keeper = Checkpointer(self.database, self._log, ballast, self._runtime, sync)

    def _begin_replica(self) -> Callable[[], None] | None:
        """Append what the opening has written; return what appends later commits, None without."""
        replica, log, database = self._replica, self._log, self.database
        if replica is None or log is None:
            return None

        def page_count() -> int:
            return int(database.writer.pragma("page_count"))

        replica.begin(database.instance_id, log, database.file, page_count)
        # From here on the log of the replica makes commits durable.
        database.writer.execute("PRAGMA synchronous = NORMAL")
        return partial(replica.append, log)

    def _guard(self, name: str) -> Lock:
        """Return the lock of a connection: on disk a new one, in memory the engine lock."""
        return self._runtime.lock(name) if self.database.is_durable else self.engine_lock

    def _is_appended(self) -> bool:
        """Append what was written outside of units; return False if the replica lacks it."""
        if self._replica is None or self._log is None or self.group.is_broken:
            return True
        try:
            with self._log.guard:
                self._replica.append(self._log)
        except (StoreError, OSError) as error:
            _LOG.critical("the last commit is not in the log of the replica: %s", error)
            return False
        return True

    def _begin_replicated_read(self, connection: apsw.Connection) -> None:
        """Begin a read of what the log of the replica has, waiting for an append under way.

        Raises MQRC_CONNECTION_BROKEN once the store has stopped: it may have stopped because a
        commit is in no log.
        """
        assert self._log is not None
        with self._log.guard:
            if self.group.is_broken:
                raise mq_error(MQRC_CONNECTION_BROKEN, "the store has stopped")
            connection.execute("BEGIN")
            connection.execute("SELECT 1 FROM sqlite_schema").fetchall()

    def _reader(self, name: str) -> Reader:
        """Return a new reader of the durable database, with its own lock."""
        database = self.database
        begin = None if self._replica is None else self._begin_replicated_read
        reader = Reader(database.connect_beside, self._guard(name), self._stop, begin)
        self._readers.append(reader)
        return reader

    @property
    def is_full(self) -> bool:
        """Whether puts are refused because the disk is full and still lacks free space."""
        ballast = self.database.ballast
        return ballast is not None and ballast.is_given_up and not ballast.has_capacity(0)

    @property
    def folder(self) -> Path | None:
        """The folder of the durable database; None for a store in memory."""
        return self.database.folder

    @property
    def wal_pages(self) -> int:
        """Pages in the write-ahead log after the last commit; 0 in memory."""
        return self._log.pages if self._log else 0

    def bind_to_manager(self, manager_name: str) -> None:
        """Write the queue manager's name into a new store.

        Raises StoreError if the store belongs to a queue manager of another name.
        """
        self.database.bind_to_manager(manager_name)

    def objects(self) -> list[tuple[str, str, int, str]]:
        """Return all stored definitions as (kind, name, number, attributes as JSON)."""
        sql = "SELECT kind, name, id, attributes FROM object"
        rows = self.database.rows(self.database.writer, sql)
        return [(kind, name, number, attributes) for kind, name, number, attributes in rows]

    def commit(self, units: Iterable[Unit]) -> None:
        """Make the durable part of units safe on disk; units without one are skipped.

        Call it without the queue manager's lock, then call :meth:`apply` for each. Sets
        ``unit.error`` and raises the first error: MQRC_STORAGE_MEDIUM_FULL with nothing kept, or
        MQRC_CONNECTION_BROKEN with the outcome unknown and the store stopped.
        """
        durable = [unit for unit in units if unit.is_durable()]
        if not durable:
            return
        pending = None
        if self._pending.deltas:
            with self.engine_lock:
                pending = self._take_pending()
        if pending is None:
            self.group.commit(*durable)
        else:
            self._commit_with(pending, durable)

    def apply(self, unit: Unit) -> None:
        """Make the changes of a unit to non-persistent messages, after :meth:`commit`.

        The ledger records and counters of a unit without a durable part wait for the next commit.
        The queue manager's lock is held.
        """
        messages = self.volatile
        if unit.volatile_deletes:
            messages.delete(unit.volatile_deletes)
        if unit.volatile_inserts:
            messages.insert(unit.volatile_inserts)
        if unit.volatile_backouts:
            messages.count_backouts(unit.volatile_backouts)
        if not unit.is_safe:
            # Its lives and totals wait for the next commit.
            pending = self._pending
            pending.lives += unit.lives
            if len(pending.lives) >= _PENDING_LIVES:
                self.must_flush = True
            for number, delta in unit.deltas.items():
                (pending.deltas.get(number) or pending.delta(number)).add(delta)
        if self.unsettled_since_ms is None and unit.deltas:
            self.unsettled_since_ms = self._now_ms()

    def flush(self) -> None:
        """Write the ledger records of non-persistent messages that wait for the next commit.

        Does nothing when none wait. Call it without the queue manager's lock. Raises
        MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN.
        """
        with self.engine_lock:
            pending = self._take_pending()
        if pending is not None:
            self._commit_with(pending, [])

    def settle(self) -> None:
        """Write all waiting ledger records, and wait for those that other threads are writing.

        Then every ended message is in the ledger. Call it without the queue manager's lock. Raises
        MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN.
        """
        self.flush()
        while self._flushing:
            # Commits are in order: after this one the other flush has written its lives, or failed.
            self.group.commit(Unit())
            self.flush()

    def write_balances(self) -> None:
        """Write a balance row for every queue that has changed since its last one.

        A balance row is a ledger row with the counters of one queue. Waiting records are written
        first. Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN.
        """
        with self.engine_lock:
            since_ms, self.unsettled_since_ms = self.unsettled_since_ms, None
            pending = self._take_pending()
            if pending is None and self.ledger_writer.has_unbalanced():
                pending = Unit()
                self._flushing += 1
        if pending is not None:
            pending.wants_balances = True
            try:
                self._commit_with(pending, [])
            except MQError:
                self.unsettled_since_ms = since_ms
                raise

    def settled_totals(self) -> dict[int, Totals] | None:
        """Return the message counters by queue number, including records that wait for a commit.

        None while another thread writes such records: they may or may not be counted yet. The queue
        manager's lock is held.
        """
        assert self.engine_lock.is_held()
        if self._flushing:
            return None
        totals = dict(self.ledger_writer.totals.items())
        for number, delta in self._pending.deltas.items():
            totals[number] = totals[number].plus(delta)
        return totals

    def check(self) -> list[str]:
        """Return a text for each problem of the two databases and the file of held gets.

        Empty for none.
        """
        with self.engine_lock:
            return [*self.persistent.check(), *self.volatile.check(), *self.held_gets.check()]

    def check_files(self) -> list[str]:
        """Return a text for each problem of the log, identity.json and ballast; empty for none.

        Call it without the queue manager's lock: a long log takes seconds. Raises OSError.
        """
        folder, database = self.database.folder, self.database
        if folder is None or self._log is None or database.ballast is None:
            return []
        found = [self._log.damage(), database.ballast.damage()]
        try:
            expected = read_identity(folder, self._runtime.files)
            if expected is not None:
                with contextlib.closing(database.connect()) as connection:
                    check_identity(folder, expected, identity_of(connection))
        except StoreError as error:
            found.append(str(error))
        return [each for each in found if each]

    def close(self) -> None:
        """Close both databases and all files; call :meth:`flush` before, or records are lost."""
        if self._log_keeper is not None:
            self._log_keeper.stop()
        is_broken = self.group.is_broken or not self._is_appended()
        self.group.stop()
        for reader in self._readers:
            reader.stop()
        if self._replica is not None and self._log is not None and not is_broken:
            with contextlib.suppress(OSError):
                self._replica.sync(self._log)
        with self.engine_lock:
            self.held_gets.close()
            if self.database.is_durable and not is_broken:
                self.database.write_identity(self.database.writer)
            self.database.close(keeps_log=is_broken)
            self._memory.close()
        if self._replica is not None:
            # Without the lock, for which a thread of the lease may wait.
            self._replica.close()

    def stop_in_child(self, engine_lock: EngineLock) -> None:
        """Stop the store in a forked child, whose files and threads belong to its parent.

        ``engine_lock`` replaces the old lock, which a thread of the parent may hold.
        """
        self.engine_lock = engine_lock
        self.group.is_broken = True
        self.held_gets.stop_in_child()
        for reader in self._readers:
            reader.stop_in_child()

    def _stop(self) -> None:
        """Refuse all later commits, because damage was read; the queue manager then stops."""
        self.group.is_broken = True

    def _lose(self, reason: str) -> None:
        """Stop, because another may own the queue manager from now on; ``reason`` says why."""
        self.stop_reason = reason
        self.group.is_broken = True
        self.on_stop()

    def _apply(self, unit: Unit) -> None:
        """Write messages and SQL statements of a unit to disk, inside the caller's transaction."""
        messages = self.persistent
        if unit.deletes:
            messages.delete(unit.deletes)
        if unit.inserts:
            messages.insert(unit.inserts)
        if unit.backouts:
            messages.count_backouts(unit.backouts)
        for move in unit.moves:
            messages.move(move)
        for bulk in unit.bulks:
            insert_bulk(self.database.writer, bulk)
        for sql, bindings in unit.statements:
            self.database.writer.execute(sql, bindings)

    def _commit_with(self, pending: Unit, durable: list[Unit]) -> None:
        """Commit waiting ledger records together with other units.

        ``pending`` has the records, ``durable`` are the other units. If that fails, the records
        wait again.
        """
        try:
            self.group.commit(pending, *durable)
        finally:
            with self.engine_lock:
                self._flushing -= 1
                if not pending.is_safe and not self.group.is_broken:
                    self._put_back(pending)
                self.engine_lock.notify_all()

    def _take_pending(self) -> Unit | None:
        """Take out and return the waiting ledger records and counters; None when none wait.

        The queue manager's lock is held.
        """
        if not self._pending.deltas:
            return None
        pending, self._pending = self._pending, Unit()
        self.must_flush = False
        self._flushing += 1
        return pending

    def _put_back(self, pending: Unit) -> None:
        """Let the records and counters of a failed commit wait again, before newer ones."""
        lives = pending.lives
        lives.extend(self._pending.lives)
        newer, self._pending = self._pending, pending
        self.must_flush = len(lives) >= _PENDING_LIVES
        for number, delta in newer.deltas.items():
            pending.delta(number).add(delta)
        pending.error = None


def _nothing() -> None:
    """Do nothing: the default callback of a store."""


class Checkpointer:
    """A thread that writes the log back, and lengthens its file, beside the commit path.

    A checkpoint beside writers leaves the frames that they write meanwhile: the log would grow for
    ever. A second, short checkpoint makes the writers wait; the next commit then begins the log
    anew.
    """

    #: Pages that staged messages and ids dirty at random places are written back once for many
    #: changes: with 4,000 instead of 16,000 such puts take half as long again.
    PAGES_BEFORE_CHECKPOINT: ClassVar = 16_000

    def __init__(
        self,
        database: Database,
        log: WriteAheadLog,
        ballast: Ballast,
        runtime: Runtime,
        sync: Callable[[], None] | None,
    ) -> None:
        """Start the thread, which opens another connection to the database.

        ``log`` is the write-ahead log of the database, ``ballast`` the file that reserves disk
        space. ``runtime`` makes the thread. ``sync`` syncs the log after a checkpoint, for a
        database whose commits do not; it may raise OSError.
        """
        self._sync = sync
        self._database, self._log, self._ballast = database, log, ballast
        self._needed = runtime.event()
        self._stopped = False
        #: The present limit; less than PAGES_BEFORE_CHECKPOINT on a disk with little space.
        self._checkpoint_at_pages = self.PAGES_BEFORE_CHECKPOINT
        #: The length at which a log is looked at again that a follower had not read; 0: none.
        self._kept_until_pages = 0
        #: A connection whose read keeps the log from being begun anew; None most of the time.
        self._keeper: apsw.Connection | None = None
        log.on_length = self._needed.set
        self._set_notification()
        self._connection: apsw.Connection | None = None
        self._worker = Loop(runtime, self._turn, "mayfly-log")
        self._worker.start()

    def stop(self) -> None:
        """Finish the work under way and end the thread; returns when it has ended."""
        self._stopped = True
        self._needed.set()
        self._worker.join()

    def _turn(self) -> bool:
        """Wait until the log is long, then write it back or lengthen its file.

        This is one round of the thread. Returns False once stopped.
        """
        if self._connection is None and not self._stopped:
            made = self._database.connect()
            # Before its first read a connection does not know of the log: checkpoints do nothing.
            made.execute("SELECT 1 FROM sqlite_schema").fetchall()
            self._connection = made
        self._needed.wait()
        self._needed.clear()
        connection = self._connection
        if self._stopped:
            self._close_keeper()
            if connection is not None:
                connection.close()
            return False
        assert connection is not None
        with self._log.guard:
            self._ballast.create(self._log.owed_bytes())
            self._checkpoint_at_pages = max(self._limit_pages(), self._kept_until_pages)
            self._set_notification()
        if self._log.pages >= self._checkpoint_at_pages:
            self._checkpoint(connection)
        elif self._log.pages >= self._log.lengthen_at_pages:
            self._lengthen_log()
            self._set_notification()
        return True

    def _set_notification(self) -> None:
        """Set the length of the log, in pages, at which a commit wakes the thread."""
        log = self._log
        log.notify_at_pages = min(log.lengthen_at_pages, self._checkpoint_at_pages)

    def _limit_pages(self) -> int:
        """Return the length in pages at which the log is written back.

        Less on a nearly full disk.
        """
        if self._ballast.is_given_up:
            return _PAGES_ON_A_FULL_DISK
        half_pages = self._log.free_bytes() // (2 * FRAME_BYTES)
        return min(self.PAGES_BEFORE_CHECKPOINT, max(half_pages, _PAGES_ON_A_FULL_DISK))

    def _checkpoint(self, connection: apsw.Connection) -> None:
        """Write the log back into the database, and sync the database.

        An error is logged, and the log keeps its frames. ``connection`` is the thread's own, not
        the writer's.
        """
        try:
            if self._log.followers.exist():
                self._write_back_what_is_read(connection)
            else:
                self._catch_up(connection)
                with self._log.guard:
                    self._close_keeper()
                    self._log.write_back_beside_writers(connection)
            if self._sync is not None:
                self._sync()
            self._database.write_identity(connection)
        except apsw.FullError as error:
            # The log may still have space for puts, but the database will have none.
            with self._log.guard:
                is_done = self._log.write_back() or (
                    self._ballast.give_up() and self._log.write_back()
                )
            if not is_done:
                _LOG.error("checkpoint failed: %s", error)
        except (apsw.BusyError, apsw.LockedError) as error:
            _LOG.info("checkpoint postponed: %s", error)
        except (apsw.Error, OSError) as error:
            # The frames stay in the log, and commits continue or fail by themselves. SQLite gets an
            # error of our sync too, at its next sync: it has the file open itself.
            _LOG.error("checkpoint failed: %s", error)

    def _catch_up(self, connection: apsw.Connection) -> None:
        """Write the log back beside writers until few frames are left to write while they wait.

        The pages of each pass are synced here: SQLite syncs the database when a checkpoint has come
        to the end of the log, and with writers none does before they wait. Writers would then wait
        for the sync of 64 MB, 90 ms. ``connection`` is the thread's own, not the writer's.
        """
        for _ in range(_MAX_PASSES):
            written_back = self._log.write_back_beside_writers(connection)
            self._database.sync()
            if self._log.pages - written_back <= _FEW_PAGES:
                return

    def _write_back_what_is_read(self, connection: apsw.Connection) -> None:
        """Write the log back once the followers have read it; else keep it until it is longer.

        At MAX_KEPT_PAGES, or where the disk has no room for more, it is written back all the same.
        ``connection`` is the thread's own, not the writer's. Raises apsw.Error, OSError.
        """
        log, followers = self._log, self._log.followers
        is_read = followers.wait_until_read(log.end, _FEW_PAGES, _NEARLY_READ_SECONDS)
        if not is_read and self._may_keep_log():
            self._kept_until_pages = log.pages + _MORE_KEPT_PAGES
            return
        if self._keeper is None:
            # While it reads, the log is not begun anew, even when all of it is written back.
            self._keeper = self._database.connect()
            self._keeper.execute("BEGIN")
            self._keeper.execute("SELECT 1 FROM sqlite_schema").fetchall()
        self._catch_up(connection)
        with log.guard:
            is_read = followers.wait_until_read(log.end, 0, _READ_SECONDS)
            if not is_read and self._may_keep_log():
                self._kept_until_pages = log.pages + _FEW_PAGES
                return
            followers.let_go(log.end())
            self._close_keeper()
            log.write_back_beside_writers(connection)

    def _close_keeper(self) -> None:
        """Let the log be begun anew when all of it is written back."""
        keeper, self._keeper, self._kept_until_pages = self._keeper, None, 0
        if keeper is not None:
            keeper.close()

    def _may_keep_log(self) -> bool:
        """Return True if the log may become longer, for followers that have not read it."""
        is_small = self._ballast.is_given_up or self._limit_pages() < self.PAGES_BEFORE_CHECKPOINT
        return self._log.pages < MAX_KEPT_PAGES and not is_small

    def _lengthen_log(self) -> None:
        """Lengthen the log file, or postpone that on a full disk; an error is logged only."""
        if self._ballast.is_given_up:
            self._log.postpone_lengthening()
            return
        try:
            self._log.lengthen()
        except OSError as error:
            # If the disk is full, the next commit fails with the error for its callers.
            _LOG.info("no room made in the log: %s", error)
