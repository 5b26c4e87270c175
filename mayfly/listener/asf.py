"""ASF mode: one dispatcher finds messages and hands each to a session, which has a thread for it.

A session gets a thread when a message is found for it, and keeps it until it was unused for some
time (the pool properties) or the port stops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from mayfly.engine import Message as QueueMessage
from mayfly.engine import Signal
from mayfly.engine.face.jms import LOOK_YOURSELF, Wait
from mayfly.listener.runs import FAILURES, Recovery, Run
from mayfly.listener.server_session import ServerSession
from mayfly.listener.settings import Settings
from mayfly.listener.statistics import Tally
from mayfly.listener.thread_pool import ThreadPool
from mayfly.queue_manager import QueueManager


class _Found(NamedTuple):
    """A message for a worker, or what has failed in one."""

    worker: _Worker | None = None
    message: QueueMessage | None = None
    failure: Exception | None = None


class ASF(Run):
    """A dispatcher and its workers; their shared state changes between takes."""

    def __init__(
        self, manager: QueueManager, settings: Settings, tally: Tally, pool: ThreadPool
    ) -> None:
        """Begin without a session."""
        super().__init__(manager, settings, tally, pool)
        #: Those that have a session.
        self._workers: list[_Worker] = []
        #: Those without a message: with a thread that waits, or without one.
        self._free: list[_Worker] = []
        #: Sent when the dispatcher is to look again.
        self._signal = Signal(manager.engine)
        self._queue_number = self._signal.number
        #: The worker on whose session a message was looked for last.
        self._asked: _Worker | None = None
        self._failure: Exception | None = None
        #: Whether nothing will be handed over any more.
        self.is_over = False
        self._wait = Wait(manager.engine)
        self.recovery = Recovery(self, self._wait)
        #: Sessions are looked at in intervals from here on.
        self.begun_ms = manager.now_ms()

    def start(self) -> None:
        """Open the first session, and start the dispatcher."""
        self.begin()
        try:
            self._open_worker()
            self.between_takes(partial(self.pool.add, self))
            self.spawn(self._dispatch, is_session=False)
        except BaseException:
            self.between_takes(partial(self.pool.remove, self))
            self.give_up([worker.session for worker in self._workers])
            raise
        self._wait.begun.wait()

    @property
    def thread_count(self) -> int:
        """How many sessions have a thread; the dispatcher is none of them."""
        return sum(worker.has_thread for worker in self._workers)

    @property
    def receiving_count(self) -> int:
        """How many wait with a thread for a message; the dispatcher waits for the others."""
        return sum(worker.wait.is_waiting for worker in self._workers)

    def interrupt(self) -> None:
        """End the wait of the dispatcher, which ends those of the workers."""
        self._wait.interrupt()

    def release(self, worker: _Worker) -> bool:
        """Let a worker have the next message; False when its thread is to end.

        One whose session was closed is forgotten: another is opened for the next message. Where
        another port waits for a thread of the pool it has this one: the session stays without.
        """
        return self.between_takes(partial(self._release, worker))

    def _release(self, worker: _Worker) -> bool:
        is_free = not self.is_over and worker.session.is_open
        if is_free:
            self._free.append(worker)
            worker.has_thread = not self.pool.is_wanted_beside(self)
            self._signal.send()
        else:
            self.forget(worker)
        return is_free and worker.has_thread

    def wake(self) -> None:
        """Let the dispatcher look for a message again."""
        self._signal.send()

    def give_up_idle(self) -> bool:
        """Let the thread of a free worker end, between takes; False when none has one."""
        for worker in self._free:
            if worker.has_thread and not worker.is_unwanted:
                worker.let_thread_end()
                return True
        return False

    def leave(self, worker: _Worker) -> bool:
        """Let the thread of an unused worker end, between takes; False when it is to work.

        Its session stays if there is no other for the next message to be found.
        """
        if worker in self._workers:
            if worker not in self._free:
                # It is being handed a message.
                return False
            if any(not free.has_thread for free in self._free):
                self.forget(worker)
        worker.has_thread = False
        return True

    def forget(self, worker: _Worker, failure: Exception | None = None) -> None:
        """Forget a worker whose session closes, between takes; after a failure all pause."""
        for workers in (self._workers, self._free):
            if worker in workers:
                workers.remove(worker)
        if failure is not None:
            self._failure = failure
        self._signal.send()

    def is_forgotten(self, worker: _Worker) -> bool:
        """Return True if the dispatcher has given a worker up."""
        return self.between_takes(lambda: worker not in self._workers)

    def _dispatch(self) -> None:
        try:
            while not self.is_stopping:
                try:
                    self._next()
                except FAILURES as failure:
                    self._close_free()
                    if not self.recovery.pause(failure):
                        break
                    # All have paused: a failure of a session in work counts with this one.
                    self._failure = None
        finally:
            self._wait.begun.set()
            self.between_takes(self._end)
            self._close_free()

    def _next(self) -> None:
        if not self._free and len(self._workers) < self.settings.max_sessions:
            self._open_worker()
        found = self._wait.until(self._take, (self._signal.number, self._queue_number), None)
        if found is LOOK_YOURSELF and self._asked is not None:
            self._asked.session.go_on()
        elif isinstance(found, _Found):
            if found.failure is not None:
                raise found.failure
            if found.worker is not None:
                found.worker.hand_over(found.message, self.spawn)

    def _take(self, is_own_thread: bool) -> object:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            return _Found(failure=failure)
        if not self._free:
            return _Found() if len(self._workers) < self.settings.max_sessions else None
        # A free session that has a thread comes first.
        self._asked = worker = max(self._free, key=lambda free: free.has_thread)
        if not worker.has_thread and not self.pool.has_room():
            # The message stays on its queue, where it may expire and others may get it.
            if worker.session.may_find:
                self.pool.ask(self)
            return None
        message = worker.session.take(is_own_thread)
        if not isinstance(message, QueueMessage):
            return message
        self._free.remove(worker)
        if not worker.has_thread:
            self.pool.take()
            self._reserved_count += 1
        return _Found(worker, message)

    def _open_worker(self) -> None:
        worker = _Worker(self, self.open_session())
        self._queue_number = worker.session.number
        self.between_takes(partial(self._enter_worker, worker))

    def _enter_worker(self, worker: _Worker) -> None:
        self._workers.append(worker)
        self._free.append(worker)

    def _close_free(self) -> None:
        """Close the sessions without a message; after a failure they are opened anew."""
        for worker in self.between_takes(self._forget_free):
            worker.session.close()

    def _forget_free(self) -> list[_Worker]:
        """Forget the workers without a message; return those that have no thread to end them."""
        free = list(self._free)
        without_thread = [worker for worker in free if not worker.has_thread]
        for worker in free:
            self.forget(worker)
            worker.wait.interrupt()
        return without_thread

    def _end(self) -> None:
        self.is_over = True
        self.pool.remove(self)


class _Worker:
    """A session, and while it is needed its thread."""

    def __init__(self, run: ASF, session: ServerSession) -> None:
        self._run = run
        self.session = session
        self.has_thread = False
        self.wait = Wait(run.manager.engine)
        #: Sent when it has a message, or is to end.
        self._signal = Signal(run.manager.engine)
        self._message: QueueMessage | None = None
        #: Whether its thread is to end, for another port; the session stays.
        self.is_unwanted = False

    def let_thread_end(self) -> None:
        """Let its thread end instead of waiting for a message, between takes."""
        self.is_unwanted = True
        self._signal.send()

    def hand_over(
        self, message: QueueMessage | None, spawn: Callable[[Callable[[], None]], None]
    ) -> None:
        """Let its thread have a message; one is started if it has none.

        Raises JMSException when there can be none; the message is on its queue again then.
        """
        if self._run.between_takes(partial(self._has_thread_for, message)):
            return
        try:
            spawn(self._work)
        except BaseException:
            self._run.between_takes(partial(self._run.forget, self))
            self.session.close()
            raise

    def _has_thread_for(self, message: QueueMessage | None) -> bool:
        """Take a message; tell whether its thread was there before."""
        self._message = message
        self._signal.send()
        had_thread, self.has_thread = self.has_thread, True
        return had_thread

    def _work(self) -> None:
        try:
            while (message := self._next()) is not None:
                # Behind the hand-over: in ASF the time of waiting is not the transaction's.
                transaction = self._run.transactions.begin(self.session.session)
                if not self.session.deliver(transaction, message):
                    self._run.request_stop()
                self._run.recovery.succeed()
                if not self._run.release(self):
                    break
        except FAILURES as failure:
            self._run.between_takes(partial(self._run.forget, self, failure))
        finally:
            self._end()

    def _next(self) -> QueueMessage | None:
        """Wait for a message that is handed over; None when unused for too long, or at the end."""
        run = self._run
        until_ms = run.settings.reap_ms(run.begun_ms, run.manager.now_ms())
        while True:
            self.wait.until(self._come, (self._signal.number,), until_ms)
            message, has_left = run.between_takes(self._take)
            if message is not None or has_left:
                return message
            until_ms = None

    def _take(self) -> tuple[QueueMessage | None, bool]:
        """Return what has been handed over, and whether its thread is to end without anything."""
        message, self._message = self._message, None
        self.is_unwanted = False
        return message, message is None and self._run.leave(self)

    def _come(self, _is_own_thread: bool) -> object:
        return self._message or self.is_unwanted or None

    def _end(self) -> None:
        # A worker that was not given up may have a message, and another thread, by now.
        if self._run.is_forgotten(self):
            self.session.close()
