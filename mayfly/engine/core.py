"""What all verbs share: lock, store, definitions, and how a transaction becomes effective."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from mayfly.engine.browsing.marks import Marks
from mayfly.engine.callbacks import Background, Callbacks
from mayfly.engine.delay.staging_state import StagingState
from mayfly.engine.holding import effect
from mayfly.engine.left_behind import LeftBehind
from mayfly.engine.objects.registry import Registry
from mayfly.engine.queues import Found, LocalQueue, QueueOwner
from mayfly.engine.settings import Settings
from mayfly.engine.transaction import Transaction
from mayfly.engine.waiting import Waits
from mayfly.lifetime.times import Clock
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.runtime import EngineLock, Runtime

_LOG = logging.getLogger("mayfly")


class OnArrival(Protocol):
    """What looks at messages that can be seen from now on before anybody gets them: triggers."""

    #: What was noted and is still to be looked at, by queue.
    arrived: dict[LocalQueue, list[int]]

    def note(self, queue: LocalQueue, keys: Iterable[int]) -> None:
        """Note messages of a queue that have arrived, or come back."""

    def look_at_arrivals(self) -> None:
        """Look at what was noted."""


class Core(QueueOwner):
    """The state of a queue manager; all but the clock and the store's files is under ``lock``."""

    #: Whether it has, or is, a queue-sharing group: a transaction may change several stores.
    is_sharing = False
    #: Its queue-sharing group, for a member of one.
    group: Core | None = None
    #: Made by the queue manager before anything can happen.
    on_arrival: OnArrival
    platform: str
    command_level: int
    settings: Settings

    def __init__(self, name: str, clock: Clock, runtime: Runtime) -> None:
        """Begin without a store; the queue manager opens it."""
        super().__init__(name, self._new_lock(runtime), clock, runtime)
        #: Held while definitions change, so that they do so one after the other.
        self.definitions_lock = runtime.reentrant_lock("administration")
        self.registry = Registry(self)
        self.staging = StagingState(self, self.registry.staging)
        self.target, self.note_due = self.registry.target, self.staging.note_due
        #: What browsing handles have marked as seen.
        self.marks = Marks()
        #: Works found under the lock that somebody must run after leaving it.
        self.deferred: list[Transaction] = []
        #: What programs have dropped without closing it.
        self.left_behind = LeftBehind()
        #: Works on their way to the disk, or settled there and not here.
        self.under_way: set[Transaction] = set()
        self.is_stopped = self.is_closing = False
        #: The thread that closes the queue manager; once set, it alone may still run works.
        self.closer: int | None = None
        self.waits = Waits()
        #: What is told to callers that do not wait, and what is done for them.
        self.callbacks = Callbacks(runtime.lock("callbacks"))
        self.background = Background(self.callbacks, self.run, runtime)
        #: Tells the clock that work may fall due earlier than it knows; the queue manager sets it.
        self.wake: Callable[[], None] = lambda: None
        #: Does what is due now, without the clock; the queue manager sets it.
        self.do_due: Callable[[], None] = lambda: None
        #: How far the store's time was ahead of the clock when it was opened; own time runs on.
        self.ahead_ms = 0
        self._running, self._pausing = 0, False

    def now_ms(self) -> int:
        """Return the queue manager's time, which never falls behind what its store has seen."""
        return self.clock.now_ms() + self.ahead_ms

    def check_running(self) -> None:
        """Raise MQRC_CONNECTION_BROKEN once stopped, MQRC_Q_MGR_STOPPING while closing."""
        if self.store.group.is_broken and not self.is_stopped:
            # Damage was read since.
            with self.engine_lock:
                self._break("damage was read")
        if self.is_stopped:
            raise mq_error(rc.MQRC_CONNECTION_BROKEN, f"queue manager {self.name} has stopped")
        if self.is_closing:
            raise mq_error(rc.MQRC_Q_MGR_STOPPING, f"queue manager {self.name} is closing")

    def run(self, *transactions: Transaction) -> None:
        """Make transactions effective and return when they are durable; call it without the lock.

        Raises MQRC_STORAGE_MEDIUM_FULL (nothing changed), MQRC_CONNECTION_BROKEN (outcome unknown,
        the queue manager stops) or MQRC_Q_MGR_STOPPING (nothing changed).
        """
        if self.is_sharing and self._run_across(transactions):
            return
        with self.engine_lock:
            self._enter(transactions)
        try:
            self.store.commit([transaction.unit for transaction in transactions])
        except BaseException:
            # Of several some may have taken effect; somebody runs what these lead to.
            with self.engine_lock:
                self.deferred += self._settle(transactions)
            self.callbacks.call()
            raise
        led_to = self._settle(transactions)
        if led_to:
            try:
                self.run(*led_to)
            except MQError as error:
                self._survive_a_full_disk(error)
        self.run_deferred()

    def run_at_once(self, transaction: Transaction) -> bool:
        """Make a transaction effective under the lock if it is that alone; tell whether it was.

        Non-persistent messages take this short way; the caller runs what is deferred afterwards.
        """
        if transaction.unit.is_durable() or transaction.effects or transaction.elsewhere:
            return False
        offered: dict[int, LocalQueue] = {}
        self._take_effect(transaction, offered)
        if self.on_arrival.arrived:
            self.on_arrival.look_at_arrivals()
        for queue in offered.values():
            self.waits.offer(queue.number)
        return True

    def run_deferred(self) -> None:
        """Run the transactions found under the lock and those they lead to; then wake the clock.

        Everybody calls it who may have left something to do, once the lock is free again.
        """
        try:
            self._catch_up()
        except MQError as error:
            self._survive_a_full_disk(error)
        if self.must_wake:
            self.must_wake = False
            self.wake()
        if self.callbacks.waiting:
            self.callbacks.call()

    def pause(self) -> None:
        """Hold new works back and wait until none is under way, nor a flush."""
        assert self.engine_lock.is_held()
        self._pausing = True
        self.engine_lock.wait_while(lambda: self._running or self.store.settled_totals() is None)

    def resume(self) -> None:
        """Let works run again after :meth:`pause`."""
        self._pausing = False
        self.engine_lock.tell()

    def offer(self, returned: Sequence[Found]) -> None:
        """Let triggers look at messages that can be seen again, then give them to who waits."""
        for queue, row, _side in returned:
            self.on_arrival.note(queue, [row.k])
        self.on_arrival.look_at_arrivals()
        for number in {queue.number for queue, _row, _side in returned}:
            self.waits.offer(number)

    def take_back(self, transaction: Transaction) -> None:
        """Undo a transaction that will not be run."""
        assert self.engine_lock.is_held()
        offered: dict[int, LocalQueue] = {}
        self._take_back(transaction, offered)
        self.on_arrival.look_at_arrivals()
        for queue in offered.values():
            self.waits.offer(queue.number)
        for home, part in transaction.elsewhere.items():
            assert isinstance(home, Core)
            home.take_back(part)
        self.engine_lock.tell()

    def stop_in_child(self) -> None:
        """Stop for good in a forked child, where other threads' locks stay locked for ever."""
        self.is_stopped = True
        self.engine_lock = self.runtime.engine_lock()
        self.definitions_lock = self.runtime.reentrant_lock("administration")
        self.store.stop_in_child(self.engine_lock)

    def _new_lock(self, runtime: Runtime) -> EngineLock:
        return runtime.engine_lock()

    def _run_across(self, _works: Sequence[Transaction]) -> bool:
        """Run works that change several stores; False when these are none. Of a group's members."""
        return False

    def _enter(self, transactions: Iterable[Transaction]) -> None:
        """Begin to run works; what refuses it takes them back."""
        assert self.engine_lock.is_held()
        if self._pausing:
            self.engine_lock.wait_while(lambda: self._pausing)
        if self.is_stopped or self.closer not in (None, self.runtime.thread_id()):
            for transaction in transactions:
                self.take_back(transaction)
            self.check_running()
        self._running += 1
        self.under_way.update(transactions)

    def _survive_a_full_disk(self, error: MQError) -> None:
        # All of it is as it was and is tried again later. The caller's own put or get is another
        # matter, which it must not take for failed; nor when the queue manager was closed since.
        if error.reason != rc.MQRC_STORAGE_MEDIUM_FULL and not self.is_closing:
            raise error
        _LOG.error("discards of %s postponed: %s", self.name, error)

    def _catch_up(self) -> None:
        if self.left_behind.sessions:
            self.left_behind.end_sessions()
        while self.deferred:
            with self.engine_lock:
                transactions, self.deferred = self.deferred, []
            if transactions:
                self.run(*transactions)
        if self.store.must_flush():
            self.store.flush()
        if self.store.sequence.is_low():
            self.store.sequence.extend()

    def _settle(self, transactions: Iterable[Transaction]) -> list[Transaction]:
        led_to: list[Transaction] = []
        with self.engine_lock:
            self._running -= 1
            self.under_way.difference_update(transactions)
            offered: dict[int, LocalQueue] = {}
            for transaction in transactions:
                if transaction.unit.is_safe or not transaction.unit.is_durable():
                    self._take_effect(transaction, offered)
                    led_to += [
                        next_ for effect in transaction.effects if (next_ := effect()) is not None
                    ]
                else:
                    self._take_back(transaction, offered)
            # Before a get that waits takes away what counts.
            self.on_arrival.look_at_arrivals()
            for queue in offered.values():
                self.waits.offer(queue.number)
            if self.store.group.is_broken and not self.is_stopped:
                self._break("its store has failed")
            self.engine_lock.tell()
        return led_to

    def _take_effect(self, transaction: Transaction, offered: dict[int, LocalQueue]) -> None:
        if self.store.unsettled_since_ms is None:
            self.must_wake = True
        self.store.apply(transaction.unit)
        effect.take_effect(self, transaction)
        if self.marks.marked:
            self.marks.forget(row.k for _queue, row, _side in transaction.departures)
        for moving in transaction.moves:
            self.on_arrival.note(moving.target, moving.new_keys)
            if self.waits.is_waited_on(moving.target.number):
                offered[moving.target.number] = moving.target
        for unclaiming in transaction.ended_claims:
            self.on_arrival.note(unclaiming.queue, unclaiming.keys)
            if any(count for count, _key in unclaiming.returned):
                offered[unclaiming.queue.number] = unclaiming.queue
        for queue, row, _side in transaction.arrivals:
            if queue.trigger is not None:
                self.on_arrival.note(queue, [row.k])
            if not queue.is_staging and self.waits.is_waited_on(queue.number):
                offered[queue.number] = queue

    def _take_back(self, transaction: Transaction, offered: dict[int, LocalQueue]) -> None:
        for queue, row, _side in effect.take_back(self, transaction):
            self.on_arrival.note(queue, [row.k])
            offered[queue.number] = queue
        for queue, keys, _volatile_count in transaction.claims:
            self.on_arrival.note(queue, keys)
            offered[queue.number] = queue

    def _break(self, why: str) -> None:
        self.is_stopped = True
        _LOG.critical("queue manager %s stops: %s", self.name, why)
        self.waits.fail(mq_error(rc.MQRC_CONNECTION_BROKEN, f"{self.name} has stopped: {why}"))
        self.engine_lock.tell()
