"""Callbacks of verbs that do not wait: a function is called with their outcome, without locks.

A callback must not block. Until it returns, no other callback of the queue manager is called, and a
commit may wait for its thread. It may call verbs; their callbacks come after it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from mayfly.engine.transaction import Transaction
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.runtime import Lock, Loop, Runtime

_LOG = logging.getLogger("mayfly")
#: Time that the background thread of a queue manager waits for more to do before it ends.
_LINGER_SECONDS = 1.0
#: Time that it waits for one more caller that is likely to share a sync.
GATHER_SECONDS = 0.000_5
#: The most syncs that begin without a wait, after waits that brought no other caller.
_LONGEST_PAUSE = 63
#: The most puts on their way to the disk; one more is refused.
MAX_PUTS_UNDER_WAY = 10_000

#: Takes the end of a verb: None, or the error with which it has failed.
OnEnd: TypeAlias = Callable[[MQError | None], object]


class Callbacks:
    """The waiting callbacks of a queue manager, in the order of their verbs.

    One is called at a time.
    They are added with or without the engine lock. The next ``Committer.run_deferred`` calls them.
    """

    __slots__ = ("_is_calling", "_lock", "waiting")

    def __init__(self, lock: Lock) -> None:
        """Begin without callbacks; ``lock`` ensures that only one thread calls them."""
        self.waiting: deque[Callable[[], object]] = deque()
        self._lock = lock
        self._is_calling = False

    def call(self) -> None:
        """Call all waiting callbacks, in order; return at once if another thread is calling them.

        Call it without the engine lock. An exception of a callback is logged, not raised.
        """
        while True:
            with self._lock:
                if self._is_calling or not self.waiting:
                    return
                self._is_calling = True
            try:
                while self.waiting:
                    _call(self.waiting.popleft())
            finally:
                self._is_calling = False


class Completion:
    """The part of a verb that is left for later: a transaction, then a step in memory.

    ``finish`` is that step; it receives the error of the transaction or None. ``job`` is a function
    in place of a transaction; it may block and does not fail.
    """

    __slots__ = ("finish", "job", "transaction")

    def __init__(self) -> None:
        """Begin with nothing left to do: the verb adds a transaction or a job."""
        self.transaction: Transaction | None = None
        self.finish: OnEnd | None = None
        #: In place of a transaction: a function that may block, and does not fail.
        self.job: Callable[[], None] | None = None

    @property
    def is_empty(self) -> bool:
        """True when the verb has left nothing to do."""
        return self.transaction is None and self.job is None and self.finish is None


class Gathering:
    """Decides whether a disk sync waits for the callers that shared the last sync.

    Programs that put one message after another return together once they are answered, and a sync
    costs as much as several of their puts. After a wait without a new caller, some syncs do not
    wait.
    """

    __slots__ = ("_pause", "_pause_left", "expected")

    def __init__(self) -> None:
        """Expect one caller, so the first sync does not wait."""
        #: How many were there, or came, during the last sync.
        self.expected = 1
        self._pause = self._pause_left = 0

    def is_due(self, count: int) -> bool:
        """Return True if a sync with ``count`` callers should wait for more of them.

        Call it once before each sync.
        """
        if count >= self.expected:
            return False
        self._pause_left, is_paused = max(self._pause_left - 1, 0), self._pause_left > 0
        return not is_paused

    def note_wait(self, *, has_gained: bool) -> None:
        """Record whether a wait for other callers was worth it.

        ``has_gained`` is True if another caller came. If not, the next syncs do not wait.
        """
        self._pause = 0 if has_gained else min(2 * self._pause + 1, _LONGEST_PAUSE)
        self._pause_left = self._pause


class Background:
    """The background thread of a queue manager, which commits callback verbs in order.

    Transactions that arrive while it works share one sync. The thread ends when none arrives for a
    second; the next one starts a new thread.
    """

    def __init__(self, callbacks: Callbacks, run: Callable[..., None], runtime: Runtime) -> None:
        """Begin without a thread; ``run`` runs transactions like ``Committer.run``.

        ``callbacks`` receives the functions to call at the end of verbs. ``runtime`` makes threads
        and locks.
        """
        self._callbacks, self._run = callbacks, run
        self._runtime = runtime
        self._ready = runtime.condition()
        self._jobs: list[tuple[Transaction | None, OnEnd]] = []
        self._has_thread = False
        self._thread_id = 0
        self._gathering = Gathering()
        #: The number of jobs that wakes the thread.
        self._wanted_count = 1

    def check_capacity(self) -> None:
        """Raise MQRC_RESOURCE_PROBLEM when MAX_PUTS_UNDER_WAY puts wait for the disk."""
        if len(self._jobs) >= MAX_PUTS_UNDER_WAY:
            text = f"{MAX_PUTS_UNDER_WAY} puts are on their way to the disk"
            raise mq_error(rc.MQRC_RESOURCE_PROBLEM, text)

    def end_with(self, completion: Completion, on_end: OnEnd) -> None:
        """Complete a verb, then call ``on_end`` with None or the MQError of its transaction.

        ``completion`` has what the verb has left to do. A durable transaction or a job goes to the
        background thread, and is not waited for; all else is done before this returns. An exception
        of ``on_end`` is logged. Call it without the engine lock.
        """
        transaction = completion.transaction
        report = partial(self._report_end, completion.finish, on_end)
        if completion.job is not None:
            self.do(completion.job)
            self._hand_over(None, report)
        elif transaction is None:
            report(None)
        elif transaction.unit.is_durable() or transaction.parts:
            self._hand_over(transaction, report)
        else:
            # Nothing of it syncs.
            try:
                self._run(transaction)
            except MQError as error:
                report(error)
            else:
                report(None)
        self._callbacks.call()

    def do(self, job: Callable[[], None]) -> None:
        """Have the background thread run ``job``, which would block the caller; return at once.

        An exception of ``job`` is only logged.
        """
        self._hand_over(None, lambda _error: job())

    def settle(self) -> None:
        """Wait until all that was handed over before has ended; call it without a lock.

        In a callback on the background thread itself it returns at once.
        """
        if self._thread_id == self._runtime.thread_id():
            return
        over = self._runtime.signal()
        self.do(over.set)
        over.wait()

    def _report_end(self, finish: OnEnd | None, on_end: OnEnd, error: MQError | None) -> None:
        """Call ``finish``, if any, and queue the call of ``on_end``, both with ``error``.

        ``error`` is None after success.
        """
        if finish is not None:
            finish(error)
        self._callbacks.waiting.append(partial(on_end, error))

    def _hand_over(self, transaction: Transaction | None, end: OnEnd) -> None:
        """Add a transaction or job to the list of the thread, and start the thread if none runs.

        ``end`` is called on the thread with the error or None. If the thread cannot start, its
        error is raised.
        """
        with self._ready:
            self._jobs.append((transaction, end))
            is_new, self._has_thread = not self._has_thread, True
            if len(self._jobs) >= self._wanted_count:
                self._ready.notify_all()
        if is_new:
            try:
                Loop(self._runtime, self._turn, "mayfly-background").start()
            except BaseException:
                # The next one tries again.
                self._has_thread = False
                raise

    def _turn(self) -> bool:
        """Run all that was handed over.

        Returns False, which ends the thread, after a second without any.
        """
        self._thread_id = self._runtime.thread_id()
        with self._ready:
            if not self._jobs:
                self._ready.wait(_LINGER_SECONDS)
            if not self._jobs:
                # Another thread may get its number.
                self._has_thread, self._thread_id = False, 0
                return False
            self._gather()
            jobs, self._jobs = self._jobs, []
        try:
            self._end(jobs)
        finally:
            self._gathering.expected = len(jobs) + len(self._jobs)
            self._callbacks.call()
        return True

    def _gather(self) -> None:
        """Wait while more callers arrive, in steps of 0.5 ms, if Gathering decides for a wait."""
        first_count = count = len(self._jobs)
        if not self._gathering.is_due(count):
            return
        self._wanted_count = self._gathering.expected
        is_growing = True
        while is_growing and count < self._wanted_count:
            self._ready.wait(GATHER_SECONDS)
            is_growing, count = len(self._jobs) > count, len(self._jobs)
        self._wanted_count = 1
        self._gathering.note_wait(has_gained=count > first_count)

    def _end(self, jobs: list[tuple[Transaction | None, OnEnd]]) -> None:
        """Run the transactions with one sync, then call each job's function with its error or None.

        An exception of such a function is logged.
        """
        transactions = [transaction for transaction, _end in jobs if transaction is not None]
        failure: MQError | None = None
        try:
            if transactions:
                self._run(*transactions)
        except MQError as error:
            failure = error
        except BaseException:
            failure = mq_error(rc.MQRC_CONNECTION_BROKEN, "the thread that commits has failed")
            raise
        finally:
            for transaction, end in jobs:
                try:
                    end(
                        None
                        if transaction is None or failure is None
                        else _failure_of(transaction, failure)
                    )
                except Exception:  # noqa: BLE001 - the others of this sync still get their outcome
                    _LOG.exception("the end of a verb cannot be told")


def _failure_of(transaction: Transaction, failure: MQError) -> MQError | None:
    """Return the error of one of several transactions; None when it has taken effect.

    ``failure`` is the error of all of them together, for a transaction without its own.
    """
    unit = transaction.unit
    if unit.is_safe:
        return None
    return unit.error if isinstance(unit.error, MQError) else failure


def _call(callback: Callable[[], object]) -> None:
    """Call a callback; log an exception of it, since no caller would see the exception."""
    try:
        callback()
    except (Exception, SystemExit):  # noqa: BLE001 - the program's own error, which no caller sees
        _LOG.exception("a callback has failed")
