"""The core of a queue manager: its state, and the committer of its transactions.

The functions of the engine take a Core. The committer makes transactions durable, then effective in
memory, and runs the transactions that follow from them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from mayfly.engine import queue_state
from mayfly.engine.attributes import Definition
from mayfly.engine.callbacks import Background
from mayfly.engine.queues import LocalQueue, QueueOwner
from mayfly.engine.state import EngineState, end_all
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.times import Clock
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.runtime import EngineLock, Runtime
from mayfly.runtime.compiling import mypyc_attr
from mayfly.verbs.facts import Value

_LOG = logging.getLogger("mayfly")


@mypyc_attr(allow_interpreted_subclasses=True)
class Core(EngineState):
    """The state of a queue manager, with its committer and its background thread."""

    def __init__(self, name: str, engine_lock: EngineLock, clock: Clock, runtime: Runtime) -> None:
        """Begin without a store and without a group; the engine opens the store.

        ``name`` is that of the queue manager. ``runtime`` makes threads, locks and files.
        """
        super().__init__(name, engine_lock, clock, runtime)
        #: Which queues have statistics for events.
        self.performance: QueueWatch
        #: Its queue-sharing group, for a member of one.
        self.group: Core | None = None
        self.committer = Committer(self)
        #: Work for callers that do not wait.
        self.background = Background(self.callbacks, self.committer.run, runtime)


class QueueWatch(Protocol):
    """Knows which queues have statistics for events; its methods need the engine lock."""

    def watch(self, queue: LocalQueue) -> None:
        """Give a queue statistics, or take them away, as definitions say now."""

    def forget(self, queue: LocalQueue) -> None:
        """Forget a queue that was deleted."""

    def changed(self, definition: Definition, before: Mapping[str, Value]) -> None:
        """Follow a changed definition; ``before`` has the old values by keyword."""

    def next_due_ms(self) -> int | None:
        """Return when the next event by time is due, in ms since 1970; None for none."""

    def run(self) -> None:
        """Make the events that are due; takes the engine lock itself."""


class ArrivalHook(Protocol):
    """The triggering of a queue manager: it sees new messages before a get can take them."""

    #: Keys of messages that were noted and are still to be looked at, by queue.
    arrived: dict[LocalQueue, list[int]]

    def note(self, queue: LocalQueue, keys: Iterable[int]) -> None:
        """Record the keys of messages that have arrived on a queue, or returned to it."""

    def look_at_arrivals(self) -> None:
        """Put the trigger messages for the recorded arrivals, and forget these arrivals."""


class MultiStoreCommitter(Protocol):
    """Runs transactions that change the stores of several members of a queue-sharing group."""

    def run(self, transactions: Sequence[Transaction]) -> None:
        """Run transactions, also those that change one store only.

        Same errors as ``Committer.run``.
        """

    def take_back(self, queue_owner: QueueOwner, part: Transaction) -> None:
        """Undo ``part`` of a transaction: the changes for the store of ``queue_owner``."""


class Committer:
    """Runs the transactions of one queue manager; its fields are protected by the engine lock."""

    #: Made by the queue manager before anything can happen.
    arrival_hook: ArrivalHook

    def __init__(self, state: EngineState) -> None:
        """Begin with no transaction running, for the queue manager with this state."""
        self._state = state
        #: Only in a queue-sharing group.
        self.multi_store: MultiStoreCommitter | None = None
        #: Transactions found under the lock, to be run after it is released.
        self.deferred: list[Transaction] = []
        #: Transactions that are being written, or are durable and not effective yet.
        self.under_way: set[Transaction] = set()
        #: The thread that closes the queue manager; once set, no other may run transactions.
        self.closer: int | None = None
        #: Committers of a group's members: their deferred transactions are run with the own ones.
        self.followers: list[Committer] = []
        self._running, self._pausing = 0, False

    def run(self, *transactions: Transaction) -> None:
        """Make transactions durable and effective; call it without the lock.

        Raises MQRC_STORAGE_MEDIUM_FULL or MQRC_Q_MGR_STOPPING when nothing changed, and
        MQRC_CONNECTION_BROKEN when the outcome is unknown and the queue manager stops.
        """
        if self.multi_store is not None and any(transaction.parts for transaction in transactions):
            self.multi_store.run(transactions)
            return
        state = self._state
        with state.engine_lock:
            try:
                self.enter(transactions)
            except MQError:
                for transaction in transactions:
                    self.take_back(transaction)
                raise
        try:
            state.store.commit([transaction.unit for transaction in transactions])
        except BaseException:
            # Of several some may have taken effect; their follow-ups are deferred.
            with state.engine_lock:
                self.deferred += self.settle(transactions)
            state.callbacks.call()
            raise
        follow_ups = self.settle(transactions)
        if follow_ups:
            self.run_follow_ups(follow_ups)
        self.run_deferred()

    def run_at_once(self, transaction: Transaction) -> bool:
        """Make a transaction effective under the engine lock, without a sync; return True.

        Returns False, and changes nothing, if the transaction must be durable, has effects that
        return further transactions, or changes another store; the caller then calls :meth:`run`.
        Non-persistent messages take this short way. The caller calls :meth:`run_deferred`
        afterwards.
        """
        if transaction.unit.is_durable() or transaction.effects or transaction.parts:
            return False
        offered: dict[int, LocalQueue] = {}
        self._take_effect(transaction, offered)
        if self.arrival_hook.arrived:
            self.arrival_hook.look_at_arrivals()
        for queue in offered.values():
            self._state.waits.offer(queue.number)
        return True

    def run_deferred(self) -> None:
        """Run the transactions that others have left in ``deferred``, and call waiting callbacks.

        Code that holds the engine lock leaves a transaction there, such as the discard of expired
        messages. A verb calls this after it has released that lock. The clock is woken if needed. A
        full disk is logged, not raised: the work is tried again later. Raises
        MQRC_CONNECTION_BROKEN when the store fails.
        """
        state = self._state
        try:
            if state.left_behind.sessions:
                end_all(state.left_behind.sessions)
            while self.deferred:
                with state.engine_lock:
                    transactions, self.deferred = self.deferred, []
                if transactions:
                    self.run(*transactions)
            store = state.store
            if store.must_flush:
                store.flush()
            if store.sequence.is_low:
                store.sequence.extend()
        except MQError as error:
            self._survive_a_full_disk(error)
        if state.must_wake:
            state.must_wake = False
            state.wake()
        if state.callbacks.waiting:
            state.callbacks.call()
        if self.followers:
            for follower in list(self.followers):
                follower.run_remaining()

    def run_remaining(self) -> None:
        """Call :meth:`run_deferred` if work or callbacks wait for it; after a stop do nothing."""
        if (self.deferred or self._state.callbacks.waiting) and not self._state.is_stopped:
            self.run_deferred()

    def pause(self) -> None:
        """Make new transactions wait, until :meth:`resume`.

        Returns when no transaction is running and the ledger of ended messages is flushed. Needs
        the engine lock, and releases it while it waits.
        """
        state = self._state
        assert state.engine_lock.is_held()
        self._pausing = True
        state.engine_lock.wait_while(lambda: self._running or state.store.settled_totals() is None)

    def resume(self) -> None:
        """Admit transactions again after :meth:`pause`; needs the engine lock."""
        self._pausing = False
        self._state.engine_lock.notify_all()

    def offer(self, returned: Sequence[tuple[LocalQueue, int]]) -> None:
        """Let triggering, then waiting gets, see messages that are visible on their queues again.

        Each item of ``returned`` is the queue and the key of a message. Needs the engine lock.
        """
        for queue, key in returned:
            self.arrival_hook.note(queue, [key])
        self.arrival_hook.look_at_arrivals()
        for number in {queue.number for queue, _key in returned}:
            self._state.waits.offer(number)

    def take_back(self, transaction: Transaction) -> None:
        """Undo the effects in memory of a transaction that will not be run; needs the engine lock.

        The messages that it was to remove are visible again, and waiting gets may try to take them.
        Those that it was to put never appear.
        """
        assert self._state.engine_lock.is_held()
        offered: dict[int, LocalQueue] = {}
        self._take_back(transaction, offered)
        self.arrival_hook.look_at_arrivals()
        for queue in offered.values():
            self._state.waits.offer(queue.number)
        for queue_owner, part in transaction.parts.items():
            assert self.multi_store is not None
            self.multi_store.take_back(queue_owner, part)
        self._state.engine_lock.notify_all()

    def enter(self, transactions: Collection[Transaction]) -> None:
        """Begin to run transactions; waits during a :meth:`pause`.

        The caller then calls :meth:`settle` or :meth:`leave`. Needs the engine lock. Raises
        MQRC_CONNECTION_BROKEN and MQRC_Q_MGR_STOPPING, and leaves the transactions unchanged then.
        """
        state = self._state
        assert state.engine_lock.is_held()
        if self._pausing:
            state.engine_lock.wait_while(lambda: self._pausing)
        if state.is_stopped or self.closer not in (None, state.runtime.thread_id()):
            state.check_running()
        self._running += 1
        self.under_way.update(transactions)
        for transaction in transactions:
            queue_state.hide_arrivals(state, transaction)

    def leave(self, transactions: Collection[Transaction]) -> None:
        """End the run of transactions of which nobody knows whether the disk has them.

        They are neither made effective nor undone here. Takes the engine lock.
        """
        state = self._state
        with state.engine_lock:
            self.under_way.difference_update(transactions)
            for transaction in transactions:
                queue_state.show_arrivals(state, transaction)
        self.settle(())

    def settle(self, transactions: Collection[Transaction]) -> list[Transaction]:
        """Make transactions effective in memory, but undo those that could not be stored.

        Takes the engine lock. Returns the transactions that follow from them, for
        :meth:`run_follow_ups`. Stops the queue manager if its store has failed.
        """
        state = self._state
        follow_ups: list[Transaction] = []
        with state.engine_lock:
            self._running -= 1
            self.under_way.difference_update(transactions)
            offered: dict[int, LocalQueue] = {}
            for transaction in transactions:
                if transaction.unit.is_safe or not transaction.unit.is_durable():
                    self._take_effect(transaction, offered)
                    follow_ups += [
                        next_ for effect in transaction.effects if (next_ := effect()) is not None
                    ]
                else:
                    self._take_back(transaction, offered)
            # Before a waiting get takes messages that triggers count.
            self.arrival_hook.look_at_arrivals()
            for queue in offered.values():
                state.waits.offer(queue.number)
            if state.store.group.is_broken and not state.is_stopped:
                state.stop_now("its store has failed")
            state.engine_lock.notify_all()
        return follow_ups

    def run_follow_ups(self, follow_ups: Sequence[Transaction]) -> None:
        """Run transactions that follow from others; on a full disk they are tried again later."""
        try:
            self.run(*follow_ups)
        except MQError as error:
            self._survive_a_full_disk(error)

    def _survive_a_full_disk(self, error: MQError) -> None:
        # Nothing changed, and it is tried again later. It must not make the caller's own put or get
        # look as if that had failed.
        """Log MQRC_STORAGE_MEDIUM_FULL, or any error during a close; raise every other error."""
        if error.reason != rc.MQRC_STORAGE_MEDIUM_FULL and not self._state.is_closing:
            raise error
        _LOG.error("discards of %s postponed: %s", self._state.name, error)

    def _take_effect(self, transaction: Transaction, offered: dict[int, LocalQueue]) -> None:
        """Make one transaction effective; add queues that waiting gets may try to ``offered``.

        ``offered`` is by queue number. Triggering only records the arrivals. Needs the engine lock.
        """
        state, waits = self._state, self._state.waits
        if state.store.unsettled_since_ms is None:
            state.must_wake = True
        state.store.apply(transaction.unit)
        queue_state.take_effect(state, transaction)
        for notify in state.on_effect:
            notify(transaction)
        if state.on_departure:
            state.note_departure([row.k for _queue, row, _persistence in transaction.departures])
        for moving in transaction.moves:
            self.arrival_hook.note(moving.target, moving.new_keys)
            if waits.is_waited_on(moving.target.number):
                offered[moving.target.number] = moving.target
        for unclaiming in transaction.ended_claims:
            self.arrival_hook.note(unclaiming.queue, unclaiming.keys)
            if any(count for count, _key in unclaiming.returned):
                offered[unclaiming.queue.number] = unclaiming.queue
        for queue, row, _persistence in transaction.arrivals:
            if queue.trigger is not None:
                self.arrival_hook.note(queue, [row.k])
            if waits.is_waited_on(queue.number):
                offered[queue.number] = queue

    def _take_back(self, transaction: Transaction, offered: dict[int, LocalQueue]) -> None:
        """Undo one transaction, and add queues that waiting gets may try to ``offered``.

        ``offered`` is by queue number. Needs the engine lock.
        """
        for queue, row, _persistence in queue_state.take_back(self._state, transaction):
            self.arrival_hook.note(queue, [row.k])
            offered[queue.number] = queue
        for queue, keys, _volatile_count in transaction.claims:
            self.arrival_hook.note(queue, keys)
            offered[queue.number] = queue
