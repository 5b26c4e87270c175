"""The core of a queue manager, which verbs take: its state, and the committer of its transactions.

The committer says how engine transactions become durable, then effective, and what follows them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from mayfly.engine import queue_state
from mayfly.engine.callbacks import Background
from mayfly.engine.queues import Found, LocalQueue, QueueOwner
from mayfly.engine.state import EngineState, end_all
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.times import Clock
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.runtime import EngineLock, Runtime
from mayfly.runtime.compiling import mypyc_attr

_LOG = logging.getLogger("mayfly")


@mypyc_attr(allow_interpreted_subclasses=True)
class Core(EngineState):
    """The state of a queue manager with its committer."""

    def __init__(self, name: str, engine_lock: EngineLock, clock: Clock, runtime: Runtime) -> None:
        """Begin without a store; the queue manager opens it."""
        super().__init__(name, engine_lock, clock, runtime)
        #: Its queue-sharing group, for a member of one.
        self.group: Core | None = None
        self.committer = Committer(self)
        #: Work for callers that do not wait.
        self.background = Background(self.callbacks, self.committer.run, runtime)


class ArrivalHook(Protocol):
    """Looks at messages that have just become visible before anybody gets them: triggering."""

    #: Keys of messages that were noted and are still to be looked at, by queue.
    arrived: dict[LocalQueue, list[int]]

    def note(self, queue: LocalQueue, keys: Iterable[int]) -> None:
        """Note messages of a queue that have arrived, or come back."""

    def look_at_arrivals(self) -> None:
        """Look at what was noted."""


class MultiStoreCommitter(Protocol):
    """Runs transactions that change several stores: a queue-sharing group."""

    def run(self, transactions: Sequence[Transaction]) -> None:
        """Run transactions, those that change one store too; raises as ``Committer.run``."""

    def take_back(self, queue_owner: QueueOwner, part: Transaction) -> None:
        """Undo the part of a transaction that was to change another store."""


class Committer:
    """Runs the engine transactions of one queue manager; the lock guards what it keeps."""

    #: Made by the queue manager before anything can happen.
    arrival_hook: ArrivalHook

    def __init__(self, state: EngineState) -> None:
        self._state = state
        #: Of a queue-sharing group and its members only.
        self.multi_store: MultiStoreCommitter | None = None
        #: Transactions found under the lock that somebody must run after leaving it.
        self.deferred: list[Transaction] = []
        #: Transactions on their way to the disk, or settled there and not here.
        self.under_way: set[Transaction] = set()
        #: The thread that closes the queue manager; once set, no other may run transactions.
        self.closer: int | None = None
        #: Committers of a group's members: their deferred transactions are run with the own ones.
        self.followers: list[Committer] = []
        self._running, self._pausing = 0, False

    def run(self, *transactions: Transaction) -> None:
        """Make transactions effective and return when they are durable; call it without the lock.

        Raises MQRC_STORAGE_MEDIUM_FULL (nothing changed), MQRC_CONNECTION_BROKEN (outcome unknown,
        the queue manager stops) or MQRC_Q_MGR_STOPPING (nothing changed).
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
            # Of several some may have taken effect; somebody runs what these lead to.
            with state.engine_lock:
                self.deferred += self.settle(transactions)
            state.callbacks.call()
            raise
        follow_ups = self.settle(transactions)
        if follow_ups:
            self.run_follow_ups(follow_ups)
        self.run_deferred()

    def run_at_once(self, transaction: Transaction) -> bool:
        """Make a transaction effective at once if nothing in it is durable; else return False.

        Non-persistent messages take this short way; the caller runs what is deferred afterwards.
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
        """Run the transactions found under the lock and those they lead to; then wake the clock.

        Each verb that may have left something to do calls it, once the lock is free again.
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
        """Do as ``run_deferred`` if anything is left to do and the queue manager still runs."""
        if (self.deferred or self._state.callbacks.waiting) and not self._state.is_stopped:
            self.run_deferred()

    def pause(self) -> None:
        """Hold new transactions back and wait until none is under way, nor a flush."""
        state = self._state
        assert state.engine_lock.is_held()
        self._pausing = True
        state.engine_lock.wait_while(lambda: self._running or state.store.settled_totals() is None)

    def resume(self) -> None:
        """Let transactions run again after :meth:`pause`."""
        self._pausing = False
        self._state.engine_lock.tell()

    def offer(self, returned: Sequence[Found]) -> None:
        """Let triggers look at messages that can be seen again, then offer them to waiting gets."""
        for queue, row, _side in returned:
            self.arrival_hook.note(queue, [row.k])
        self.arrival_hook.look_at_arrivals()
        for number in {queue.number for queue, _row, _side in returned}:
            self._state.waits.offer(number)

    def take_back(self, transaction: Transaction) -> None:
        """Undo a transaction that will not be run."""
        assert self._state.engine_lock.is_held()
        offered: dict[int, LocalQueue] = {}
        self._take_back(transaction, offered)
        self.arrival_hook.look_at_arrivals()
        for queue in offered.values():
            self._state.waits.offer(queue.number)
        for queue_owner, part in transaction.parts.items():
            assert self.multi_store is not None
            self.multi_store.take_back(queue_owner, part)
        self._state.engine_lock.tell()

    def enter(self, transactions: Collection[Transaction]) -> None:
        """Begin to run transactions; the caller settles each of them, or calls ``leave``.

        Raises MQRC_CONNECTION_BROKEN and MQRC_Q_MGR_STOPPING; the transactions stay as they are
        then.
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
        """End to run transactions whose effect is left open."""
        state = self._state
        with state.engine_lock:
            self.under_way.difference_update(transactions)
            for transaction in transactions:
                queue_state.show_arrivals(state, transaction)
        self.settle(())

    def settle(self, transactions: Collection[Transaction]) -> list[Transaction]:
        """Let those that are durable take effect, and take the others back.

        Returns the transactions that this leads to; see :meth:`run_follow_ups`.
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
            # Before a get that waits takes away what counts.
            self.arrival_hook.look_at_arrivals()
            for queue in offered.values():
                state.waits.offer(queue.number)
            if state.store.group.is_broken and not state.is_stopped:
                state.break_off("its store has failed")
            state.engine_lock.tell()
        return follow_ups

    def run_follow_ups(self, follow_ups: Sequence[Transaction]) -> None:
        """Run what settled transactions have led to; on a full disk it is tried again later."""
        try:
            self.run(*follow_ups)
        except MQError as error:
            self._survive_a_full_disk(error)

    def _survive_a_full_disk(self, error: MQError) -> None:
        # All of it is as it was and is tried again later. The caller's own put or get is another
        # matter, which it must not take for failed; nor when the queue manager was closed since.
        if error.reason != rc.MQRC_STORAGE_MEDIUM_FULL and not self._state.is_closing:
            raise error
        _LOG.error("discards of %s postponed: %s", self._state.name, error)

    def _take_effect(self, transaction: Transaction, offered: dict[int, LocalQueue]) -> None:
        state, waits = self._state, self._state.waits
        if state.store.unsettled_since_ms is None:
            state.must_wake = True
        state.store.apply(transaction.unit)
        queue_state.take_effect(state, transaction)
        for notify in state.on_effect:
            notify(transaction)
        if state.on_departure:
            state.note_departure([row.k for _queue, row, _side in transaction.departures])
        for moving in transaction.moves:
            self.arrival_hook.note(moving.target, moving.new_keys)
            if waits.is_waited_on(moving.target.number):
                offered[moving.target.number] = moving.target
        for unclaiming in transaction.ended_claims:
            self.arrival_hook.note(unclaiming.queue, unclaiming.keys)
            if any(count for count, _key in unclaiming.returned):
                offered[unclaiming.queue.number] = unclaiming.queue
        for queue, row, _side in transaction.arrivals:
            if queue.trigger is not None:
                self.arrival_hook.note(queue, [row.k])
            if waits.is_waited_on(queue.number):
                offered[queue.number] = queue

    def _take_back(self, transaction: Transaction, offered: dict[int, LocalQueue]) -> None:
        for queue, row, _side in queue_state.take_back(self._state, transaction):
            self.arrival_hook.note(queue, [row.k])
            offered[queue.number] = queue
        for queue, keys, _volatile_count in transaction.claims:
            self.arrival_hook.note(queue, keys)
            offered[queue.number] = queue
