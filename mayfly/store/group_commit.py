"""Group commit: many units of work, one transaction, one sync.

The first caller to arrive leads. It takes the units that others have queued meanwhile into one
transaction. Then it wakes their callers, and hands the lead to the first that came after. A leader
that shared its last transaction waits up to 0.5 ms for the same callers, unless a release waits:
one sync then serves all of them. A unit that fails alone is undone alone. A full disk fails the
whole batch and nothing of it is kept; with a ballast to give up, only units that add messages fail.
Damage that a transaction reads undoes it, and the store stops. An I/O error at COMMIT leaves its
outcome unknown, so the store stops and the commit is never tried again.

Which commits share a transaction: due before new. Messages that are released, got or discarded go
with the next transaction always. New messages share it in the order of their commits, up to its
capacity. A release that comes while it runs waits for that one transaction, which is soon over.
Beside a release the capacity is small, because the release waits for everything that its
transaction writes. New messages that waited for a release do not wait for the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import apsw

from mayfly.mqi.errors import LostAnswer, StoreError, mq_error
from mayfly.mqi.reasons import (
    MQRC_CONNECTION_BROKEN,
    MQRC_RESOURCE_PROBLEM,
    MQRC_STORAGE_MEDIUM_FULL,
    MQRC_UNEXPECTED_ERROR,
)
from mayfly.runtime import Runtime, Signal
from mayfly.store.damage import damaged, is_damage
from mayfly.store.disk_space import DiskSpace
from mayfly.store.ledger_writer import LedgerWriter
from mayfly.store.units import Unit, merged_unit

#: New messages of one transaction: some 10 ms of statements, of which a sync is a small part.
MAX_NEW_MESSAGES = 500
#: New messages beside a release: less than 1 ms.
MAX_NEW_BESIDE_RELEASE = 20


class Commit:
    """The units of one caller, which share a transaction, and the signal that caller waits for.

    A unit is a set of changes to the store that become durable together.
    """

    __slots__ = ("done", "is_next", "leads", "shared", "units", "woken")

    def __init__(self, units: tuple[Unit, ...], done: Signal) -> None:
        """Queue ``units`` as not yet written; ``done`` wakes their caller."""
        self.units = units
        #: Set when the units are written, or have failed, or when the caller is to lead.
        self.done = done
        self.leads = False
        #: Whether it has waited for a release, and so shares the next transaction in any case.
        self.is_next = False
        #: While it leads: the commits of the transaction that it runs; then those to be notified.
        self.shared: list[Commit] = []
        self.woken: list[Commit] = []

    def is_over(self) -> bool:
        """Return True if the caller may return: its units are written or have failed.

        False also while the caller still has to lead, which is to run the transaction of others.
        """
        return self.units[-1].is_decided() and not (self.leads or self.woken)

    def is_release(self) -> bool:
        """Return True if a unit moves delayed messages to their queues."""
        return any(unit.moves for unit in self.units)

    def new_count(self) -> int:
        """Return how many messages the units add; a unit that ends as many as it adds counts 0."""
        return sum([unit.new_count() for unit in self.units])


def next_transaction(waiting: Sequence[Commit]) -> tuple[list[Commit], list[Commit]]:
    """Split waiting commits into those of the next transaction and those that wait.

    Both keep the order. A commit that adds no message shares the next transaction always. New
    messages share it up to MAX_NEW_MESSAGES, or MAX_NEW_BESIDE_RELEASE if one of the commits is a
    release of delayed messages. Without a release the first commit with new messages is never too
    large.
    """
    if len(waiting) == 1:
        return [waiting[0]], []
    capacity = MAX_NEW_BESIDE_RELEASE if holds_release(waiting) else MAX_NEW_MESSAGES
    now: list[Commit] = []
    later: list[Commit] = []
    for commit in waiting:
        count = commit.new_count()
        fits = count <= capacity or capacity == MAX_NEW_MESSAGES or commit.is_next
        if count and (later or not fits):
            later.append(commit)
        else:
            capacity -= count
            now.append(commit)
    if later:
        later[0].is_next = True
    return now, later


def holds_release(waiting: Sequence[Commit]) -> bool:
    """Return True if one of the commits releases delayed messages."""
    return any(commit.is_release() for commit in waiting)


# The leader


#: How long a leader waits for as many callers as came the last time: two syncs of a good disk.
GATHER_SECONDS = 0.000_5
_LOG = logging.getLogger("mayfly.store")
#: The unit itself is wrong; its neighbours in the batch are not.
_WRONG_UNIT = (
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
    # A value that no column takes, or totals of a queue that is no more.
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
)


class GroupCommit:
    """Commits units of several callers in one transaction of the writer connection.

    One of the waiting callers at a time leads: it runs the transaction for all. ``is_broken`` is
    True once the store has stopped; every later commit then fails.
    """

    def __init__(
        self,
        writer: apsw.Connection,
        apply: Callable[[Unit], None],
        ledger_writer: LedgerWriter,
        guard: AbstractContextManager[object],
        disk_space: DiskSpace | None,
        *,
        runtime: Runtime,
        append: Callable[[], None] | None = None,
    ) -> None:
        """Write units with ``apply``, each transaction inside ``guard``.

        ``append`` is called after each COMMIT and before it counts: it appends the transaction to
        the log of a replica. Any error of it leaves the outcome unknown, and the store stops.

        ``writer`` is the connection that commits. ``ledger_writer`` adds the records of ended
        messages to each transaction. ``disk_space`` refuses puts on a full disk; None for a
        database in memory.
        """
        self._writer = writer
        self._apply = apply
        self._ledger_writer = ledger_writer
        self._guard = guard
        self._disk_space = disk_space
        self._lock = runtime.lock("waiting units")
        self._new_signal = runtime.signal
        self._append = append
        self.waiting: list[Commit] = []
        self._is_led = False
        #: How many callers are likely to commit at the same time; the event: all have come.
        self._expected = 1
        self._gathered = runtime.event()
        self.is_broken = False
        self._is_committing = False
        #: Set from COMMIT on until the replica has the transaction. An error stops the store then.
        self._is_appending = False
        #: Transactions since the store was opened, and the units of work in them.
        self.batch_count = self.unit_count = 0

    def commit(self, *units: Unit) -> None:
        """Make the units of one caller durable, in one transaction, and return when they are.

        Call it without the queue manager's lock. Raises the error of the first unit that failed.
        After MQRC_STORAGE_MEDIUM_FULL (the disk is full) and MQRC_RESOURCE_PROBLEM (another process
        holds the database) nothing of that unit is kept. After LostAnswer with
        MQRC_CONNECTION_BROKEN the outcome is unknown and the store has stopped.
        """
        commit, is_queued = Commit(units, self._new_signal()), False
        is_urgent = commit.is_release()
        try:
            with self._lock:
                leads, queue = not self._is_led, [*self.waiting, commit]
                # The statement calls nothing, so an interrupt comes before or after it.
                commit.leads, self._is_led, self.waiting, is_queued = leads, True, queue, True
                # Under the lock: set later, it would keep a later leader from gathering.
                if not leads and (is_urgent or len(queue) >= self._expected):
                    self._gathered.set()
            if commit.leads:
                self._lead(commit)
            else:
                commit.done.wait()
        finally:
            if is_queued and not commit.is_over():
                self._see_through(commit)
        for unit in units:
            if unit.error is not None:
                raise unit.error

    def stop(self) -> None:
        """Wait for the transaction under way, and stop.

        Later commits fail with MQRC_CONNECTION_BROKEN.
        """
        with self._guard:
            self.is_broken = True

    def _see_through(self, commit: Commit) -> None:
        """Wait, or run the transaction of others, until a commit is over, despite interrupts.

        An abandoned commit might later be made the leader, and all others would wait for it.
        """
        while not commit.is_over():
            try:
                if commit.leads or commit.woken:
                    self._lead(commit)
                else:
                    commit.done.wait()
            except BaseException:
                self._see_through(commit)
                raise

    def _lead(self, leader: Commit) -> None:
        """Run the next transaction for all waiting callers, wake them, and choose the next leader.

        After an interrupt it continues where it stopped. No step may be left out, or the other
        callers would wait for ever; each step may be done twice.
        """
        if not leader.woken:
            if not leader.shared:
                self._gather(leader)
            self._run_undecided(leader.shared)
            self._hand_over(leader)
        for commit in leader.woken:
            if commit is not leader:
                commit.done.set()
        leader.woken = []

    def _gather(self, leader: Commit) -> None:
        """Wait up to 0.5 ms for further callers, then choose the commits of the transaction."""
        waiting = self.waiting
        if len(waiting) < self._expected and not holds_release(waiting):
            self._gathered.wait(GATHER_SECONDS)
        with self._lock:
            now, later = next_transaction(self.waiting)
            # The statement calls nothing, so an interrupt comes before or after it.
            leader.shared, self.waiting = now, later

    def _run_undecided(self, commits: list[Commit]) -> None:
        """Run those units that are neither durable nor failed yet, in one transaction.

        A unit that an interrupt has kept from being tried fails with MQRC_UNEXPECTED_ERROR.
        """
        batch = [unit for commit in commits for unit in commit.units if not unit.is_decided()]
        if not batch:
            return
        try:
            self._run(batch)
        finally:
            for unit in batch:
                if not unit.is_decided():
                    # Interrupted before anything was begun.
                    unit.error = mq_error(MQRC_UNEXPECTED_ERROR, "commit given up")

    def _hand_over(self, leader: Commit) -> None:
        """Make the first waiting commit the leader, which runs the next transaction.

        ``leader`` leads no longer. Without a waiting commit nobody leads. The next leader may be
        this commit again, if the transaction has left it out.
        """
        with self._lock:
            shared, waiting = leader.shared, self.waiting
            self._expected = expected = len(shared) + len(waiting)
            # The event was set by one of these callers, beside the leader, or not at all.
            if expected > 1:
                self._gathered.clear()
            # Each is one statement without a call, as above.
            if waiting:
                next_, woken = waiting[0], [waiting[0], *shared]
                leader.leads, next_.leads, leader.woken, leader.shared = False, True, woken, []
            else:
                leader.leads, self._is_led, leader.woken, leader.shared = False, False, shared, []

    def _run(self, batch: list[Unit]) -> None:
        """Run a batch of units in one transaction; each is durable or has its ``error`` on return.

        An interrupt is raised again.
        """
        with self._guard:
            # Of this batch; an interrupt from now on must not find that of the one before.
            self._is_committing = self._is_appending = False
            if self.is_broken:
                _fail(batch, mq_error(MQRC_CONNECTION_BROKEN, "the store has stopped"))
                return
            try:
                self._transact_with_retry(batch)
            except apsw.FullError:
                self._roll_back()
                _fail(batch, mq_error(MQRC_STORAGE_MEDIUM_FULL, "the disk is full; nothing kept"))
            except _WRONG_UNIT as error:
                self._roll_back()
                _fail(batch, error)
            except apsw.BusyError as error:
                # A stranger holds the database file; nothing was begun.
                self._roll_back()
                _fail(batch, mq_error(MQRC_RESOURCE_PROBLEM, f"the database is busy: {error}"))
            except apsw.Error as error:
                self.is_broken = True
                if is_damage(error) and not self._is_committing:
                    _LOG.critical("damage was read, nothing is kept; the store stops: %s", error)
                    self._roll_back()
                    _fail(batch, damaged(Path(self._writer.filename), error))
                    return
                _LOG.critical("commit failed, outcome unknown; the store stops: %s", error)
                self._roll_back()
                _fail(batch, LostAnswer(MQRC_CONNECTION_BROKEN, f"commit failed: {error}"))
            except BaseException as error:
                if self._is_appending and not self._writer.in_transaction:
                    self._stop_behind(batch, error)
                    if isinstance(error, StoreError | OSError):
                        return
                    raise
                # A bug of ours, or an interrupt. An interrupt of the sync comes when it is over.
                if self._is_committing and not self._writer.in_transaction:
                    self._accept(batch)
                else:
                    # Nobody in the batch may take it for success.
                    self._roll_back()
                    _fail(batch, mq_error(MQRC_UNEXPECTED_ERROR, f"commit given up: {error!r}"))
                raise
        self.batch_count += 1
        self.unit_count += len(batch)

    def _stop_behind(self, batch: list[Unit], error: BaseException) -> None:
        """Stop the store: its database has a transaction that the log of the replica may lack."""
        self.is_broken = True
        _LOG.critical("a commit is not in the log of the replica; the store stops: %s", error)
        self._roll_back()
        _fail(batch, LostAnswer(MQRC_CONNECTION_BROKEN, f"not in the replica: {error}"))

    def _transact_with_retry(self, batch: list[Unit]) -> None:
        """Run a transaction.

        On a full disk free space and run it again without units that add messages. Raises
        apsw.FullError when no space can be freed, and other apsw.Error.
        """
        space = self._disk_space
        try:
            self._transact(batch if space is None else space.refuse_growth(batch))
        except apsw.FullError:
            self._is_committing = False
            self._roll_back()
            if space is None or not space.free_space():
                raise
            self._transact(space.units_to_retry(batch))

    def _transact(self, batch: list[Unit]) -> None:
        """Write units in one transaction and commit it; does nothing without units.

        Raises apsw.Error.
        """
        writer, ledger_writer = self._writer, self._ledger_writer
        if not batch:
            return
        writer.execute("BEGIN IMMEDIATE")
        self._write_all(batch)
        ledger_writer.finish()
        if self._disk_space is not None and self._disk_space.max_pages is not None:
            self._disk_space.check_size(batch)
        # Before COMMIT: an interrupt may come as soon as that is over.
        self._is_appending = self._append is not None
        self._is_committing = True
        writer.execute("COMMIT")
        if self._append is not None:
            self._append()
            self._is_appending = False
        self._accept(batch)

    def _accept(self, batch: list[Unit]) -> None:
        """Mark all units of a committed transaction as durable, except failed ones."""
        self._ledger_writer.accept()
        for unit in batch:
            unit.is_safe = unit.error is None

    def _write_all(self, batch: list[Unit]) -> None:
        """Write the units of a transaction, merged into one where their order allows it.

        Each statement delays all callers of the transaction. A unit that SQLite refuses gets the
        error in ``unit.error``.
        """
        if len(batch) == 1:
            self._write(batch[0])
            return
        merged = merged_unit(batch)
        if merged is None:
            self._write_mixed(batch)
        elif not self._write_first(merged):
            for unit in batch:
                unit.error = self._try(unit)

    def _write_first(self, merged: Unit) -> bool:
        """Write a merged unit at the beginning of a transaction.

        When SQLite refuses it, the transaction is begun anew and False is returned.
        """
        try:
            self._write(merged)
        except _WRONG_UNIT:
            # Units are seldom wrong: a savepoint would be two statements of each transaction.
            self._roll_back()
            self._writer.execute("BEGIN IMMEDIATE")
            return False
        return True

    def _write_mixed(self, batch: list[Unit]) -> None:
        """Write units in their order, neighbouring ones merged where that changes nothing.

        A unit that SQLite refuses gets the error in ``unit.error``.
        """
        plain: list[Unit] = []
        for unit in batch:
            if unit.is_plain():
                plain.append(unit)
                continue
            self._write_plain(plain)
            plain = []
            unit.error = self._try(unit)
        self._write_plain(plain)

    def _write_plain(self, units: list[Unit]) -> None:
        """Write units that only put, end and back out messages, merged where their order allows it.

        A unit that SQLite refuses gets the error in ``unit.error``.
        """
        merged = merged_unit(units) if len(units) > 1 else None
        if merged is None or self._try(merged) is not None:
            for unit in units:
                unit.error = self._try(unit)

    def _write(self, unit: Unit) -> None:
        """Write all changes of a unit to SQLite: ledger records, messages, queue counters."""
        if unit.lives:
            self._ledger_writer.write_lives(unit)
        self._apply(unit)
        self._ledger_writer.write(unit)

    def _try(self, unit: Unit) -> Exception | None:
        """Write a unit inside a savepoint; return None on success.

        When SQLite refuses the unit, it is undone alone and the error is returned. Other errors of
        SQLite are raised.
        """
        writer, wrong = self._writer, None
        mark = self._ledger_writer.mark()
        writer.execute("SAVEPOINT unit")
        try:
            self._write(unit)
        except _WRONG_UNIT as error:
            writer.execute("ROLLBACK TO unit")
            self._ledger_writer.roll_back_to(mark)
            wrong = error
        writer.execute("RELEASE unit")
        return wrong

    def _roll_back(self) -> None:
        """Roll the transaction back; if that fails, the store stops."""
        self._ledger_writer.roll_back_to(None)
        if self._writer.in_transaction:
            try:
                self._writer.execute("ROLLBACK")
            except apsw.Error as error:
                self.is_broken = True
                _LOG.critical("rollback failed; the store stops: %s", error)


def _fail(batch: list[Unit], error: BaseException) -> None:
    """Set the same error in all units of a transaction."""
    for unit in batch:
        unit.error = error
