"""The threads of a port from its start to its stop, in non-ASF and in ASF mode, and their pool.

In non-ASF mode each session has a thread. In ASF mode a session gets one when the dispatcher has
found a message for it. With its thread the session takes its next messages itself, and keeps the
thread until it was unused for some time (the pool properties) or the port stops. The dispatcher
looks for messages only while no session waits with a thread.

A pool bounds the threads that the sessions of several ports have together. A message is taken off
its queue only when its session has a thread for it. A dispatcher therefore holds a permit for one
thread while its get stands, and gives the permit up when another port needs the thread. A thread
that becomes free goes to the port that has waited longest.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from mayfly.client.connection.interface import OnDone, UnderWay
from mayfly.client.connection.waits import Wait
from mayfly.jms.connections import Connection
from mayfly.jms.errors import JMSException
from mayfly.jms.factory import ConnectionFactory
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, StoreError
from mayfly.runtime import Runtime, Thread
from mayfly.services.listener.sessions import Conversations, ServerSession, Tally
from mayfly.services.listener.settings import Settings
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery


class ThreadPool:
    """Counts threads and permits; a limit of None is none.

    Its methods, and those of runs that it calls, run with ``changed`` held; so does all that
    runs change in their own state. No verb is called and no other wait begun with it held.
    """

    def __init__(self, runtime: Runtime, max_threads: int | None = None) -> None:
        self.changed = runtime.condition()
        self.max_threads = max_threads
        self.used_count = 0
        self._runs: list[ASF] = []
        #: Those that may start one thread each.
        self._permitted: list[ASF] = []
        #: Those that have found no thread free, longest waiting first.
        self._waiting: list[ASF] = []

    @property
    def free_count(self) -> int | None:
        """How many threads are free, permits not looked at; None without a limit."""
        return None if self.max_threads is None else self.max_threads - self.used_count

    def take(self, count: int) -> bool:
        """Take threads; False when fewer are free. Permits that are not used are given up for them.

        Waits until they are, with ``changed`` free meanwhile.
        """
        if self._lacks(count):
            return False
        self.used_count += count
        while self._permitted and self._lacks(len(self._permitted)):
            for run in self._permitted:
                run.give_up_permit()
            self.changed.wait()
            if self._lacks(0):
                # A message has come first.
                self.give_back(count)
                return False
        return True

    def give_back(self, count: int = 1) -> None:
        """Give threads back that have ended."""
        self.used_count -= count
        self._hand_on()

    def permit(self, run: ASF) -> bool:
        """Give a permit to a run that has none; False when no thread is free."""
        if self._lacks(len(self._permitted) + 1):
            return False
        self._permitted.append(run)
        return True

    def use_permit(self, run: ASF) -> None:
        """Take the thread that a run has the permit for."""
        self._permitted.remove(run)
        self.used_count += 1
        # A run may be waiting until this permit is given up: another one is asked back for it.
        self._hand_on()

    def return_permit(self, run: ASF) -> None:
        """Have the permit of a run back."""
        self._permitted.remove(run)
        self._hand_on()

    def ask(self, run: ASF) -> None:
        """Let a run wait for a permit, which it may have at once; idle ones are given up for it."""
        self._waiting.append(run)
        self._hand_on()

    def withdraw(self, run: ASF) -> None:
        """Let a run wait no more."""
        if run in self._waiting:
            self._waiting.remove(run)

    def is_wanted_beside(self, run: ASF) -> bool:
        """Return True if another run waits for a thread."""
        return any(waiting is not run for waiting in self._waiting)

    def add(self, run: ASF) -> None:
        """Enter a run in ASF mode that begins."""
        self._runs.append(run)

    def remove(self, run: ASF) -> None:
        """Forget a run that ends."""
        if run in self._runs:
            self._runs.remove(run)
        self.withdraw(run)
        if run in self._permitted:
            self.return_permit(run)

    def _lacks(self, count: int) -> bool:
        """Return True if ``count`` more threads would be more than the pool may have."""
        return self.max_threads is not None and self.used_count + count > self.max_threads

    def _hand_on(self) -> None:
        """Let those have permits that have waited longest."""
        while self._waiting and not self._lacks(len(self._permitted) + 1):
            run = self._waiting.pop(0)
            self._permitted.append(run)
            run.grant()
        if self._waiting:
            self._reclaim()
        self.changed.notify_all()

    def _reclaim(self) -> None:
        """Let permits be given up that nobody uses, or else a thread without a message."""
        for run in self._permitted:
            run.give_up_permit()
        if not self._permitted:
            any(self.is_wanted_beside(one) and one.give_up_idle() for one in self._runs)


# A run, from the start of a port to its stop


_LOG = logging.getLogger("mayfly.listener")
#: Errors of the queue manager, the connection to it and its sessions.
FAILURES = (MQError, JMSException, StoreError)


class PortRun(ABC):
    """The threads of a port; the last of them that ends closes what they shared."""

    def __init__(
        self, factory: ConnectionFactory, settings: Settings, tally: Tally, pool: ThreadPool
    ) -> None:
        """Take what there is to do; nothing is opened yet."""
        self.factory, self.settings, self.tally = factory, settings, tally
        #: Where its sessions have their threads from.
        self.pool = pool
        self._conversations = Conversations(factory, settings)
        #: Whether its threads are to end.
        self.is_stopping = False
        #: Whether they have ended their gets: no message is taken any more.
        self.has_stopped_taking = False
        #: Those that have not ended, as of the last start of one. All that follows changes with
        #: ``pool.changed`` held. Each change makes a new list, so that it can be read at any time.
        self._threads: list[Thread] = []
        self._running_count = 0
        #: Threads taken from the pool that are not started yet.
        self._reserved_count = 0
        #: Those of all threads that may take messages or pause.
        self._waits: list[Wait] = []

    @property
    def connection_count(self) -> int:
        """How many connections its sessions share."""
        return self._conversations.connection_count

    @property
    def is_own_thread(self) -> bool:
        """Whether the present thread is one of its own: inside of on_message."""
        own = self.factory.runtime.thread_id()
        # The machine gives the number of a thread that has ended to another one.
        return any(thread.ident == own and thread.is_alive() for thread in self._threads)

    @property
    @abstractmethod
    def thread_count(self) -> int:
        """How many sessions have a thread; read with ``pool.changed`` held, as the next."""

    @property
    @abstractmethod
    def receiving_count(self) -> int:
        """How many sessions wait for a message."""

    @abstractmethod
    def start(self) -> None:
        """Open the sessions and start threads; raises JMSException, nothing is left open then."""

    def open_session(self) -> ServerSession:
        """Open a server session; raises JMSException."""
        return ServerSession(self._conversations, self.settings, self.tally)

    def new_wait(self) -> Wait:
        """Return the waits of another thread, which a stop ends; with ``pool.changed`` held."""
        wait = Wait(self.factory.runtime)
        if self.is_stopping:
            wait.end()
        self._waits = [*self._waits, wait]
        return wait

    def forget_wait(self, wait: Wait) -> None:
        """Forget the waits of a thread that ends; with ``pool.changed`` held."""
        self._waits = [one for one in self._waits if one is not wait]

    def reserve_threads(self, count: int) -> None:
        """Take threads from the pool for sessions that :meth:`spawn` is about to start.

        Raises JMSException with MQRC_RESOURCE_PROBLEM when it has fewer left.
        """
        with self.pool.changed:
            if self.pool.take(count):
                self._reserved_count += count
                return
        said = (
            f"{self.settings.title} needs {count} threads for its sessions; "
            f"{self.pool.free_count} of {self.pool.max_threads} are free"
        )
        raise JMSException(said, rc.MQRC_RESOURCE_PROBLEM)

    def spawn(self, work: Callable[[], None], *, is_session: bool = True) -> None:
        """Start a thread, for a session one that is reserved; the run ends when all have ended.

        Raises JMSException with MQRC_RESOURCE_PROBLEM when the machine has none left.
        """
        work_of_run = partial(self._run, work, is_session)
        thread = self.factory.runtime.thread(work_of_run, "mayfly-listener")
        with self.pool.changed:
            self._enter(thread, is_session=is_session)
        try:
            thread.start()
        except RuntimeError as error:
            with self.pool.changed:
                self._threads = [one for one in self._threads if one is not thread]
                self._leave(is_session=is_session)
            reason = rc.MQRC_RESOURCE_PROBLEM
            raise JMSException(f"a session has no thread: {error}", reason) from error

    def give_up(self, sessions: Iterable[ServerSession]) -> None:
        """End what a start that has failed had begun, and its sessions."""
        self.request_stop()
        self.join()
        for session in sessions:
            session.close()
        with self.pool.changed:
            count, self._reserved_count = self._reserved_count, 0
            self.pool.give_back(count)

    def request_stop(self) -> None:
        """Let its threads end when the message each has in work is done.

        Returns when no get is under way any more: no message is taken that is put after
        ``has_stopped_taking`` was seen. Any thread may call it.
        """
        with self.pool.changed:
            self.is_stopping = True
            waits = self._waits
        for wait in waits:
            wait.end()
        for wait in waits:
            wait.join()
        self.has_stopped_taking = True

    def join(self) -> None:
        """Wait until it has ended; not from one of its own threads."""
        while alive := [thread for thread in self._threads if thread.is_alive()]:
            for thread in alive:
                thread.join()

    def _enter(self, thread: Thread, *, is_session: bool) -> None:
        if is_session:
            self._reserved_count -= 1
        alive = [one for one in self._threads if one.is_alive() or not one.ident]
        self._threads = [*alive, thread]
        self._running_count += 1

    def _leave(self, *, is_session: bool) -> bool:
        """Count a thread that has ended; return True if it was the last."""
        self._running_count -= 1
        if is_session:
            self.pool.give_back()
        return not self._running_count

    def _run(self, work: Callable[[], None], is_session: bool) -> None:
        try:
            work()
        finally:
            with self.pool.changed:
                if self._leave(is_session=is_session):
                    self.is_stopping = self.has_stopped_taking = True


class Recovery:
    """Tries again after a failure, some times in a row and with time in between."""

    def __init__(self, run: PortRun) -> None:
        """Recover for a thread of a run; with ``pool.changed`` held."""
        self._run = run
        #: Of its own: nothing but a stop ends a pause.
        self._wait = run.new_wait()
        self._retry_count = 0

    def succeed(self) -> None:
        """Begin to count anew: something has worked."""
        self._retry_count = 0

    def pause(self, failure: Exception) -> bool:
        """Wait for the next try; False when there is none: the run is stopped then."""
        run, title = self._run, self._run.settings.title
        interval_ms = run.settings.retry_interval_ms
        mistake = None if isinstance(failure, FAILURES) else failure
        if not self._may_retry():
            if not run.is_stopping:
                _LOG.error("%s stops: %s", title, failure, exc_info=mistake)
                run.request_stop()
            return False
        _LOG.warning("%s tries again in %d ms: %s", title, interval_ms, failure, exc_info=mistake)
        self._retry_count += 1
        try:
            self._wait_by_its_clock(interval_ms)
        except Exception as error:  # noqa: BLE001 - as the failure itself
            if run.factory.has_ended:
                return self.pause(error)
            # Nobody tells the time of a queue manager that cannot be reached.
            self._wait.for_change(interval_ms / SECOND_MS)
        if run.is_stopping:
            return False
        run.tally.add("listener_retries")
        return True

    def _may_retry(self) -> bool:
        run, limit = self._run, self._run.settings.max_recovery_retries
        return not (run.is_stopping or run.factory.has_ended) and self._retry_count < limit

    def _wait_by_its_clock(self, interval_ms: int) -> None:
        """Wait for a moment of the queue manager's time; raises when it cannot be asked."""
        connection: Connection | None = None
        try:
            connection = self._run.factory.create_connection()
            mq = connection.mq
            until_ms = mq.now_ms() + interval_ms

            def begin(on_done: OnDone[None]) -> UnderWay:
                return mq.begin(ask.WaitUntil(until_ms), on_done)

            self._wait.of(begin)
        finally:
            if connection is not None:
                with suppress(*FAILURES):
                    connection.close()


# Non-ASF mode (L2 to L9)


class NonASF(PortRun):
    """As many threads as sessions, which compete for the messages (L8)."""

    def __init__(
        self, factory: ConnectionFactory, settings: Settings, tally: Tally, pool: ThreadPool
    ) -> None:
        super().__init__(factory, settings, tally, pool)
        self._receivers: list[_Receiver] = []

    def start(self) -> None:
        """Open all sessions, then start all threads (L2)."""
        sessions: list[ServerSession] = []
        try:
            self.reserve_threads(self.settings.max_sessions)
            while len(sessions) < self.settings.max_sessions:
                sessions.append(self.open_session())
            with self.pool.changed:
                self._receivers = [_Receiver(self, session) for session in sessions]
            for receiver in self._receivers:
                self.spawn(receiver.run)
        except BaseException:
            self.give_up(sessions)
            raise
        # All sessions must be receiving on return: under a virtual clock the caller may let time
        # pass at once.
        for receiver in self._receivers:
            receiver.wait.begun.wait()

    @property
    def thread_count(self) -> int:
        """One for each session, always."""
        return self._running_count

    @property
    def receiving_count(self) -> int:
        """How many wait for a message."""
        return sum(receiver.wait.is_pending for receiver in self._receivers)


class _Receiver:
    """One thread with its session."""

    def __init__(self, run: NonASF, session: ServerSession) -> None:
        self._run = run
        self._session: ServerSession | None = session
        self.wait = run.new_wait()
        self._recovery = Recovery(run)

    def run(self) -> None:
        """Receive and call until the run stops."""
        try:
            while not self._run.is_stopping:
                try:
                    self._next()
                except Exception as failure:  # noqa: BLE001 - a message must not end the run
                    self.wait.begun.set()
                    self._close()
                    if not self._recovery.pause(failure):
                        break
        finally:
            self.wait.begun.set()
            self._close()

    def _next(self) -> None:
        run = self._run
        if self._session is None:
            self._session = run.open_session()
        session = self._session
        # Before the receive: the time of waiting is the transaction's (L9).
        transaction = session.begin()
        try:
            delivery = session.receive(self.wait, run.settings.receive_timeout_ms)
        except BaseException:
            transaction.abandon()
            raise
        if delivery is None:
            transaction.rollback()
            if not run.is_stopping:
                run.tally.add("idle_rollbacks")
        elif not session.deliver(transaction, delivery):
            run.request_stop()
        self._recovery.succeed()

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


# ASF mode


class ASF(PortRun):
    """A dispatcher and its workers; their shared state changes with ``pool.changed`` held."""

    def __init__(
        self, factory: ConnectionFactory, settings: Settings, tally: Tally, pool: ThreadPool
    ) -> None:
        super().__init__(factory, settings, tally, pool)
        #: Those that have a session.
        self._workers: list[_Worker] = []
        #: Those without a message: with a thread that waits, or without one.
        self._free: list[_Worker] = []
        with pool.changed:
            self._wait = self.new_wait()
            self.recovery = Recovery(self)
        self._failure: Exception | None = None
        #: Whether the dispatcher may start a thread; whether it has asked for that, and whether
        #: others need it more.
        self._has_permit = self._is_asking = self._is_permit_wanted = False
        #: Whether the dispatcher has ended.
        self._is_over = False
        #: Sessions are looked at in intervals from here on.
        self.begun_ms = 0

    def start(self) -> None:
        """Open the first session, and start the dispatcher."""
        try:
            self.begun_ms = self._open_worker().session.now_ms()
            with self.pool.changed:
                self.pool.add(self)
            self.spawn(self._dispatch, is_session=False)
        except BaseException:
            with self.pool.changed:
                self.pool.remove(self)
            self.give_up([worker.session for worker in self._workers])
            raise
        self._wait.begun.wait()

    @property
    def thread_count(self) -> int:
        """How many sessions have a thread; the dispatcher is none of them."""
        return sum(worker.has_thread for worker in self._workers)

    @property
    def receiving_count(self) -> int:
        """How many wait with a thread for a message, which the dispatcher leaves to them then."""
        return 0 if self._wait.is_busy else sum(worker.is_receiving for worker in self._workers)

    # Called by the pool.

    def grant(self) -> None:
        """Have the permit for a thread."""
        self._has_permit, self._is_asking = True, False
        self._wait.wake()

    def give_up_permit(self) -> None:
        """Return the permit, unless a message is there for it."""
        if not self._is_permit_wanted:
            self._is_permit_wanted = True
            self._wait.wake()

    def give_up_idle(self) -> bool:
        """Let the thread of a free worker end; False when none has one."""
        for worker in self._free:
            if worker.has_thread and not worker.is_unwanted:
                worker.is_unwanted = True
                worker.wait.wake()
                return True
        return False

    # Called by workers.

    def release(self, worker: _Worker) -> bool:
        """Let a worker have the next message; False when its thread is to end.

        One whose session was closed is forgotten: another is opened for the next message. Where
        another port waits for a thread of the pool it has this one: the session stays without.
        """
        with self.pool.changed:
            is_free = not self._is_over and worker in self._workers and worker.session.is_open
            if is_free:
                self._free.append(worker)
                worker.has_thread = not self.pool.is_wanted_beside(self)
                self._wait.wake()
            else:
                self.forget(worker)
            return is_free and worker.has_thread

    def occupy(self, worker: _Worker) -> None:
        """Note that a worker with a thread has a message."""
        with self.pool.changed:
            worker.is_unwanted = False
            if worker in self._free:
                self._free.remove(worker)
                self._wait.wake()

    def leave(self, worker: _Worker, *, is_unused: bool) -> bool:
        """Let the thread of a worker without a message end; False when it is to wait on.

        Its session stays if there is no other for the next message to be found.
        """
        with self.pool.changed:
            if not (is_unused or worker.is_unwanted or self.is_stopping):
                return worker not in self._workers
            if any(not free.has_thread for free in self._free):
                self.forget(worker)
            worker.has_thread = worker.is_unwanted = False
            self._wait.wake()
            return True

    def forget(self, worker: _Worker) -> None:
        """Forget a worker whose session closes; with ``pool.changed`` held."""
        for workers in (self._workers, self._free):
            if worker in workers:
                workers.remove(worker)
        self._wait.wake()

    def fail(self, worker: _Worker, failure: Exception) -> None:
        """Forget a worker that has failed, and let all pause.

        The failure of a worker that was forgotten before is part of an earlier one.
        """
        with self.pool.changed:
            if worker in self._workers:
                self._failure = failure
            self.forget(worker)

    def is_forgotten(self, worker: _Worker) -> bool:
        """Return True if the dispatcher has given a worker up."""
        with self.pool.changed:
            return worker not in self._workers

    # The dispatcher.

    def _dispatch(self) -> None:
        try:
            while not self.is_stopping:
                try:
                    self._next()
                except Exception as failure:  # noqa: BLE001 - a message must not end the run
                    self._wait.begun.set()
                    with self.pool.changed:
                        self._settle_permit(is_needed=False)
                    self._close_free()
                    if not self.recovery.pause(failure):
                        break
                    # All have paused: a failure of a session in work counts with this one.
                    self._failure = None
        finally:
            self._wait.begun.set()
            with self.pool.changed:
                self._is_over = True
                self._has_permit = False
                self.pool.remove(self)
            self._close_free()

    def _next(self) -> None:
        """Find one message for a session without a thread, or wait until that is to be done."""
        with self.pool.changed:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            worker, must_open = self._candidate()
            may_start = self._settle_permit(is_needed=must_open or worker is not None)
        if must_open:
            self._open_worker()
        elif worker is None or self._is_asking:
            self._wait.for_change()
        elif not may_start:
            self._ask_for_thread(worker)
        else:
            delivery = self._receive(worker)
            if delivery is not None:
                self._hand_over(worker, delivery)

    def _candidate(self) -> tuple[_Worker | None, bool]:
        """Return a session to find a message for, and whether one is to be opened."""
        if any(free.has_thread for free in self._free):
            # It takes the next message itself.
            return None, False
        if self._free:
            return self._free[0], False
        return None, len(self._workers) < self.settings.max_sessions

    def _settle_permit(self, *, is_needed: bool) -> bool:
        """Take a permit if one is needed and free, else return it; True if a permit is there."""
        if not is_needed:
            if self._has_permit:
                self._return_permit()
            self.pool.withdraw(self)
            self._is_asking = False
        elif not self._has_permit and not self._is_asking:
            self._has_permit = self.pool.permit(self)
        return self._has_permit

    def _return_permit(self) -> None:
        self._has_permit = self._is_permit_wanted = False
        self.pool.return_permit(self)

    def _ask_for_thread(self, worker: _Worker) -> None:
        """Ask for a thread once there is a message for it.

        Until then the message stays on its queue, where it may expire and others may get it.
        """
        if worker.session.look(self._wait):
            with self.pool.changed:
                self._is_asking = True
                self.pool.ask(self)

    def _receive(self, worker: _Worker) -> Delivery | None:
        """Take a message while the permit is there; one that others need is given up without."""
        delivery = None
        if self._is_permit_wanted:
            # It was asked back as it was granted, and both have woken the same wait. A wake that is
            # left must not end the look that follows.
            self._wait.for_change(0)
        else:
            delivery = worker.session.receive(self._wait, c.MQWI_UNLIMITED)
        if delivery is None and self._is_permit_wanted and not self.is_stopping:
            # Another run wants the permit. A message that it was taken for may be there already.
            delivery = worker.session.receive(self._wait, 0)
            if delivery is None:
                with self.pool.changed:
                    self._return_permit()
        return delivery

    def _hand_over(self, worker: _Worker, delivery: Delivery) -> None:
        """Let a new thread have a message.

        Raises JMSException when there can be none; the message is on its queue again then.
        """
        with self.pool.changed:
            self._free.remove(worker)
            worker.has_thread, worker.wait = True, self.new_wait()
            self._has_permit = self._is_permit_wanted = False
            self.pool.use_permit(self)
            self._reserved_count += 1
        try:
            self.spawn(partial(worker.work, delivery, worker.wait))
        except BaseException:
            with self.pool.changed:
                self.forget(worker)
                self.forget_wait(worker.wait)
            worker.session.close()
            raise

    def _open_worker(self) -> _Worker:
        session = self.open_session()
        with self.pool.changed:
            # Until it has a thread of its own, the dispatcher waits for it.
            worker = _Worker(self, session, self._wait)
            self._workers.append(worker)
            self._free.append(worker)
        return worker

    def _close_free(self) -> None:
        """Close the sessions without a message; after a failure they are opened anew."""
        with self.pool.changed:
            free = list(self._free)
            without_thread = [worker for worker in free if not worker.has_thread]
            for worker in free:
                self.forget(worker)
                if worker.has_thread:
                    worker.wait.end()
        for worker in without_thread:
            worker.session.close()


class _Worker:
    """A session, and while it is needed its thread."""

    def __init__(self, run: ASF, session: ServerSession, wait: Wait) -> None:
        self._run = run
        self.session = session
        self.has_thread = False
        #: The waits of its thread.
        self.wait = wait
        #: Whether its thread is to end, for another port; the session stays.
        self.is_unwanted = False

    @property
    def is_receiving(self) -> bool:
        """Whether it waits with a thread."""
        return self.has_thread and self.wait.is_pending

    def work(self, first: Delivery, wait: Wait) -> None:
        """Deliver a message and those that follow, until there is none for too long."""
        run, delivery = self._run, first
        try:
            while True:
                # In ASF the time of waiting is not the transaction's.
                transaction = self.session.begin(delivery.result.message.seen_ms)
                if not self.session.deliver(transaction, delivery):
                    run.request_stop()
                run.recovery.succeed()
                following = self._next(wait) if run.release(self) else None
                if following is None:
                    break
                delivery = following
        except Exception as failure:  # noqa: BLE001 - a message must not end the run
            run.fail(self, failure)
        finally:
            with run.pool.changed:
                run.forget_wait(wait)
            self._end()

    def _next(self, wait: Wait) -> Delivery | None:
        """Take the next message; None when unused for too long, or at the end."""
        run = self._run
        until_ms: int | None = None
        if run.settings.is_reaping:
            until_ms = run.settings.reap_ms(run.begun_ms, self.session.now_ms())
        while True:
            wait_ms = c.MQWI_UNLIMITED
            if until_ms is not None:
                wait_ms = max(until_ms - self.session.now_ms(), 0)
            delivery = self.session.receive(wait, wait_ms)
            if delivery is not None:
                run.occupy(self)
                return delivery
            is_unused = until_ms is not None and self.session.now_ms() >= until_ms
            if run.leave(self, is_unused=is_unused):
                return None

    def _end(self) -> None:
        # A worker that was not given up may have a message, and another thread, by now.
        if self._run.is_forgotten(self):
            self.session.close()
