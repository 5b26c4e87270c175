"""Due work of an engine: when it is next due, how it runs, housekeeping in the store, and restart.

Restart is the data that a start recovers from the store, and that a close writes for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from mayfly.engine import queue_state
from mayfly.engine.attributes import QLOCAL, QueueDefinition
from mayfly.engine.claims.claims import ConsumerClaims
from mayfly.engine.core import Core
from mayfly.engine.delay.delay_processor import DelayProcessor
from mayfly.engine.delay.redelivery import redeliver_due, resume_delays
from mayfly.engine.expiry import ExpiryScan
from mayfly.engine.membership import Membership
from mayfly.engine.pubsub.administration import end_expired
from mayfly.engine.queues import VOLATILE, LocalQueue
from mayfly.engine.state import BROKEN
from mayfly.engine.transaction import Transaction
from mayfly.engine.triggering import triggering_of
from mayfly.lifetime.times import SECOND_MS, STORED_TIME_IDLE_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQQA_BACKOUT_HARDENED, MQQSGD_SHARED
from mayfly.mqi.errors import MQError, ResourceError
from mayfly.store.keys import queue_number_of
from mayfly.store.units import Unit

_LOG = logging.getLogger("mayfly")
#: Once at most: behind the first time the count is another one.
_COUNT = "UPDATE message SET backout_count = backout_count + 1 WHERE k = ? AND backout_count = ?"
_BATCH = 5_000


def recover_totals(core: Core) -> None:
    """Load the counters of all queues; record as lost the messages that a crash has ended.

    These are the non-persistent messages. Deleted queues are loaded, too, while delayed messages
    are for them.
    """
    transaction = core.store.ledger_writer.recovery()
    if transaction.deltas or transaction.statements:
        transaction.wants_balances = True
        core.store.group.commit(transaction)
        core.store.ledger_writer.totals.forget_strangers({q.number for q in core.registry.queues()})
    for number, totals in core.store.ledger_writer.totals.items():
        if number < 0 and totals.present and core.registry.by_number(-number) is None:
            gone = LocalQueue(QueueDefinition(QLOCAL, totals.queue), -number, core)
            queue_state.load(gone, 0, totals.present)
            core.registry.deleted_with_delayed[gone.number] = gone
    for queue in core.registry.queues():
        totals = core.store.ledger_writer.totals[queue.number]
        # The totals of number 0 count what is on the staging queue, for others to come to.
        staged = core.store.ledger_writer.totals[-queue.number].present if queue.number else 0
        queue_state.load(queue, totals.present, staged)


def count_interrupted(core: Core) -> None:
    """Raise by 1 the backout counts of messages that were in open units of work at a kill.

    On z/OS, private queues with NOHARDENBO are left out; on other platforms the attribute has no
    effect (HardenGetBackout). On a full disk the counts stay, and a line is logged. Messages on a
    queue with a BODELAY whose backout is counted are delayed from now on (D32). Call it before any
    get.
    """
    held = core.store.held_gets
    unit = Unit()
    leftovers = held.leftovers()
    for get in leftovers:
        queue = core.registry.by_number(queue_number_of(get.key))
        if queue is None:
            continue
        is_shared = queue.definition.qsgdisp == MQQSGD_SHARED
        is_hardened = queue.definition.hardenbo == MQQA_BACKOUT_HARDENED
        if core.platform != "zos" or is_shared or is_hardened:
            unit.statements.append((_COUNT, get))
    try:
        core.store.commit([unit])
    except ResourceError as error:
        # On a full disk they stay as they are, like those of a backout.
        _LOG.error("backout counts on %s stay as they were: %s", core.name, error)
    held.delete_leftovers()
    resume_delays(core, leftovers)


def end_non_persistent(core: Core) -> None:
    """Remove all non-persistent messages and record them as lost in the ledger.

    Nothing in memory.
    """
    if core.store.folder is None:
        return
    for queue in core.registry.queues():
        while queue.present[VOLATILE] and _end_batch(core, queue):
            pass


def _end_batch(core: Core, queue: LocalQueue) -> bool:
    """Remove up to 5,000 non-persistent messages of a queue; return False when none was left."""
    with core.engine_lock:
        transaction, now_ms = Transaction(), core.now_ms()
        rows = core.store.volatile.in_order(queue.low, queue.high, _BATCH)
        for row in rows:
            queue_state.end_at_close(core, transaction, (queue, row, VOLATILE), now_ms)
    core.committer.run(transaction)
    return bool(rows)


#: After a full disk, work that is due is tried again after this.
POSTPONE_MS = SECOND_MS
_SURVIVED = (rc.MQRC_STORAGE_MEDIUM_FULL, rc.MQRC_CONNECTION_BROKEN)
#: Lives of non-persistent messages and balance rows are written at the latest after this, and rows
#: of the ledger beyond its retention begin to go.
SETTLE_MS = SECOND_MS


class DueWork:
    """The work of one engine that falls due by time, without a call; the clock runs it."""

    def __init__(
        self,
        core: Core,
        processor: DelayProcessor,
        claims: ConsumerClaims,
        membership: Membership[Any],
    ) -> None:
        """Begin without a clock: the engine loads its store first, then calls :meth:`begin`.

        ``processor`` releases delayed messages, ``claims`` are the messages that pipelines reserve,
        and ``membership`` is that of a queue-sharing group.
        """
        self.core, self.processor, self.claims = core, processor, claims
        self.housekeeping = Housekeeping(core)
        self._scan, self._triggering = ExpiryScan(core), triggering_of(core)
        self._membership = membership
        #: Held while due work is done.
        self.lock = core.runtime.reentrant_lock("due")
        #: Whether its engine is closed, or about to be.
        self.is_ended = False
        self._is_running = False
        #: Until then nothing that needs the disk is tried again, after the disk was full.
        self._postponed_to_ms = 0
        #: An error of one message, claim or other item, not of the store.
        self._mistake: Exception | None = None

    def begin(self) -> None:
        """Attach to the clock, which from now on calls :meth:`run_due` when work is due."""
        core = self.core
        core.do_due = self.run_due
        core.on_wake.append(partial(core.clock.wake, self))
        core.clock.attach(self)
        core.wake()

    def end(self) -> None:
        """Detach from the clock; another thread may still be inside :meth:`run_due`."""
        self.is_ended = True
        self.core.clock.detach(self)

    def next_due_ms(self) -> int | None:
        """Return the clock time of the next due work, in ms.

        Returns None when nothing is planned or after a stop.
        """
        core = self.core
        with core.engine_lock:
            if core.is_stopped:
                return None
            moments = [
                self.housekeeping.next_due_ms(),
                self.processor.next_due_ms(),
                core.redeliveries.next_due_ms(),
                self._scan.next_due_ms(),
                core.registry.subscriptions.next_end_ms(),
                self._triggering.next_due_ms(),
                core.performance.next_due_ms(),
                self.claims.next_lease_end_ms(),
            ]
            if self._membership.has_unfinished:
                moments.append(self._postponed_to_ms)
            work_ms = [max(m, self._postponed_to_ms) for m in moments if m is not None]
            ends = (self._next_end_ms(), core.marks.next_lease_end_ms(core.waits.is_waited_on))
        due_ms = min([*work_ms, *(m for m in ends if m is not None)], default=None)
        return None if due_ms is None else due_ms - core.ahead_ms

    def run_due(self) -> None:
        """Do all work that is due now: releases, redeliveries, scan, ends of waits, housekeeping.

        Waits end last, so a message that becomes available at the very end of a wait is still got.
        An error in one kind of work is raised after the others are done, and that kind is tried
        again a second later. If the store fails or waits cannot end, the queue manager stops. Does
        nothing after a stop, or inside another run.
        """
        core = self.core
        with self.lock:
            if core.is_stopped or self._is_running:
                return
            self._is_running = True
            is_done = False
            try:
                while self.run_pass() and not (self.is_ended or core.is_stopped):
                    pass
                is_done = True
            except KeyboardInterrupt:
                is_done = True
                raise
            finally:
                self._is_running = False
                if not is_done:
                    # A stopped queue manager is better than one whose waits never end.
                    with core.engine_lock:
                        core.stop_now("its due work has failed")
            mistake, self._mistake = self._mistake, None
            if mistake is not None:
                raise mistake

    def run_pass(self) -> bool:
        """Do a bounded part of the due work; return True if delayed messages are still due.

        After a full disk, which is logged, the work is tried again a second later. Raises any other
        MQError.
        """
        core = self.core
        if self._postponed_to_ms <= core.now_ms():
            self._try(self._membership.finish)
        if self._postponed_to_ms <= core.now_ms():
            self._try(partial(end_expired, core))
            self._try(self.claims.end_expired_leases)
            self._try(self.processor.run)
            self._try(partial(redeliver_due, core))
            self._try(partial(self._scan.run, self._is_release_due))
            self._try(self._triggering.run)
            self._try(core.performance.run)
        self._end_waits()
        if self._postponed_to_ms <= core.now_ms():
            self._try(partial(self.housekeeping.run, self._is_release_due))
        self._membership.end_waits()
        return self._is_release_due()

    def _is_release_due(self) -> bool:
        """Return True if a delayed message is due for release now; takes the engine lock."""
        with self.core.engine_lock:
            due_ms = self.release_due_ms()
        return due_ms is not None and due_ms <= self.core.now_ms()

    def release_due_ms(self) -> int | None:
        """Return when the next delayed message will be released, in ms; None without one.

        During the pause of a second after a full disk, it is not before the end of the pause. Needs
        the engine lock.
        """
        assert self.core.engine_lock.is_held()
        due_ms = self.processor.next_due_ms()
        return None if due_ms is None else max(due_ms, self._postponed_to_ms)

    def __repr__(self) -> str:
        return f"<DueWork of {self.core.name}>"

    def _try(self, work: Callable[[], None]) -> None:
        """Do one kind of work; after a full disk or an error, all such work pauses for a second.

        A full disk is logged; an error of one item is kept for :meth:`run_due` to raise. Raises
        other MQErrors, which stop the queue manager.
        """
        core = self.core
        try:
            work()
        except MQError as error:
            # A failed store has stopped the queue manager; one that closes needs no such work.
            if error.reason not in _SURVIVED and not core.is_closing:
                raise
            self._postponed_to_ms = core.now_ms() + POSTPONE_MS
            _LOG.error("due work of %s postponed: %s", core.name, error)
        except BROKEN:
            raise
        except Exception as error:  # noqa: BLE001 - one item is not all the others' due work
            self._postponed_to_ms = core.now_ms() + POSTPONE_MS
            self._mistake = error

    def _next_end_ms(self) -> int | None:
        """Return when the next wait of a get ends, in ms of the clock.

        Returns None without one, or if the queue-sharing group ends that wait.
        """
        end_ms = self.core.waits.next_end_ms()
        is_open = end_ms is None or self._membership.may_bring(end_ms)
        return None if is_open else end_ms

    def _end_waits(self) -> None:
        """End browse marks whose MARKINT is over, and gets whose WaitInterval is over."""
        core = self.core
        with core.engine_lock:
            core.marks.end_expired_leases(core.now_ms(), core.waits.offer)
            core.waits.end_due(core.now_ms(), self._is_decided)
        core.committer.run_deferred()

    def _is_decided(self, queue_number: int, end_ms: int) -> bool:
        """Return True if a get that waits until ``end_ms`` may end without a message.

        False means that a release, here or by a group member, may still bring it a message in time.
        """
        if self._membership.may_bring(end_ms):
            return False
        due_ms, queue = self.release_due_ms(), self.core.registry.by_number(queue_number)
        return due_ms is None or queue is None or not queue.staged_for or end_ms < due_ms


class Housekeeping:
    """Regular work in the store: balance rows, ledger retention, index of ids, stored time."""

    def __init__(self, core: Core) -> None:
        """Begin with no piece of work due."""
        self._core = core
        #: When a search for deadlines and delays in the store was last made.
        self._looked_ms = 0
        #: Since when the ledger has more rows than its retention; None while it has not.
        self._surplus_since_ms: int | None = None
        #: Since when ids of ended lives are not indexed; None while all are.
        self._unindexed_since_ms: int | None = None
        #: The index of the piece to do next.
        self._next_piece = 0

    def next_due_ms(self) -> int | None:
        """Return when the next piece of housekeeping is due, in ms; None when nothing is to do.

        The pieces write counters to the ledger of ended messages, trim it, index its ids, and store
        the time. Needs the engine lock.
        """
        assert self._core.engine_lock.is_held()
        self._check_ledger()
        since = (
            self._core.store.unsettled_since_ms,
            self._surplus_since_ms,
            self._unindexed_since_ms,
        )
        moments = [since_ms + SETTLE_MS for since_ms in since if since_ms is not None]
        noting_ms = self._time_due_ms()
        if noting_ms is not None:
            moments.append(noting_ms)
        return min(moments, default=None)

    def run(self, should_yield: Callable[[], bool]) -> None:
        """Do the pieces of housekeeping that are due; of a long piece only a part.

        While ``should_yield`` returns True, it does one piece, so that a release waits for one
        transaction only. Raises MQRC_STORAGE_MEDIUM_FULL, MQRC_CONNECTION_BROKEN.
        """
        core, store = self._core, self._core.store
        retention_count = core.settings.ledger_retention_count
        # Each is asked at its turn: balance rows store the time as well.
        pieces: tuple[tuple[Callable[[], bool], Callable[[], object]], ...] = (
            (lambda: self._is_due(store.unsettled_since_ms), store.write_balances),
            (
                lambda: self._is_due(self._surplus_since_ms),
                partial(store.retention.trim, retention_count),
            ),
            (lambda: self._time_due_ms() is not None, self._note_time),
            (lambda: self._is_due(self._unindexed_since_ms), store.ids.write_next),
        )
        for _ in pieces:
            is_due, work = pieces[self._next_piece]
            # A full disk that refuses this piece does not keep the others from being done.
            self._next_piece = (self._next_piece + 1) % len(pieces)
            if is_due():
                work()
                if should_yield():
                    break
        with core.engine_lock:
            self._check_ledger()

    def _is_due(self, since_ms: int | None) -> bool:
        """Return True if a second has passed since ``since_ms``; False for None."""
        return since_ms is not None and since_ms + SETTLE_MS <= self._core.now_ms()

    def _check_ledger(self) -> None:
        """Record since when the ledger has more rows than its retention, and ids are not indexed.

        The ledger is the record of ended messages. The moment is None while nothing is to do.
        """
        core = self._core
        if core.store.retention.surplus(core.settings.ledger_retention_count) <= 0:
            self._surplus_since_ms = None
        elif self._surplus_since_ms is None:
            self._surplus_since_ms = core.now_ms()
        # On a full disk that waits.
        if not core.store.ids.is_behind() or core.store.is_full:
            self._unindexed_since_ms = None
        elif self._unindexed_since_ms is None:
            self._unindexed_since_ms = core.now_ms()

    def _time_due_ms(self) -> int | None:
        """Return a past moment when the time should be stored now.

        Returns None if not, or without a folder.
        A restart continues from the stored time. Without it a message that expired while nothing
        was written would live again under a slow clock (E4). A moment in the future is never
        returned: a virtual clock would stop there every ten seconds.
        """
        core = self._core
        if core.store.folder is None:
            return None
        due_ms = max(core.store.ledger_writer.high_water_ms, self._looked_ms) + STORED_TIME_IDLE_MS
        return due_ms if due_ms <= core.now_ms() else None

    def _note_time(self) -> None:
        """Store the time if any message or subscription has a deadline or delay."""
        core = self._core
        with core.engine_lock:
            is_needed = (
                core.registry.subscriptions.next_end_ms() is not None
                or core.store.persistent.has_times()
            )
            self._looked_ms = core.now_ms()
        if is_needed:
            self.write_time()

    def write_time(self) -> None:
        """Store the present time; does nothing if it is stored already, or without a folder."""
        store = self._core.store
        if store.folder is not None and self._core.now_ms() > store.ledger_writer.high_water_ms:
            unit = Unit()
            unit.notes_time = True
            store.group.commit(unit)
