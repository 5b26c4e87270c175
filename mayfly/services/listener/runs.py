"""Runs of a port, from its start to its stop: its threads in non-ASF or ASF mode, and their pool.

In non-ASF mode each session has a thread. In ASF mode a session gets a thread when the dispatcher
has found a message for it. With its thread the session takes its next messages itself. It keeps the
thread until it was unused for some time (the pool properties) or the port stops. The dispatcher
looks for messages only while no session waits with a thread.

A pool limits the threads of the sessions of several ports together. A message is taken off its
queue only when its session has a thread for it. A dispatcher therefore holds a permit for one
thread while its get is pending, and returns the permit when another port needs the thread. A free
thread goes to the port that has waited longest.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from mayfly.client.connection.interface import OnDone, UnderWay
from mayfly.client.connection.waits import Wait
from mayfly.jms.connections import Connection, ConnectionFactory
from mayfly.jms.errors import JMSException
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, StoreError
from mayfly.runtime import Runtime, Thread
from mayfly.services.listener.sessions import Counters, ServerSession, SharedConnections
from mayfly.services.listener.settings import PortSettings
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery

_LOG = logging.getLogger("mayfly.listener")
#: Errors of the queue manager, the connection to it and its sessions.
FAILURES = (MQError, JMSException, StoreError)


class ThreadPool:
    """Counts the threads of several ports, and their permits to start a thread.

    ``max_threads`` None means no limit. The methods, and the methods of runs that they call, run
    with ``changed`` held, and so does every change of a run's state. No verb is called, and no
    other lock waited for, while it is held.
    """

    def __init__(self, runtime: Runtime, max_threads: int | None = None) -> None:
        """Begin with no thread in use; ``max_threads`` None means no limit."""
        self.changed = runtime.condition()
        self.max_threads = max_threads
        self.used_count = 0
        self._runs: list[ASF] = []
        #: Those that may start one thread each.
        self.permitted: list[ASF] = []
        #: Those that have found no thread free, longest waiting first.
        self.waiting: list[ASF] = []

    @property
    def free_count(self) -> int | None:
        """The number of free threads, permits not subtracted; None without a limit."""
        return None if self.max_threads is None else self.max_threads - self.used_count

    def take(self, count: int) -> bool:
        """Count ``count`` threads as used and return True; return False if fewer are free.

        Unused permits are recalled for them. It waits for their return, with ``changed`` released.
        """
        if self._exceeds_limit(count):
            return False
        self.used_count += count
        while self.permitted and self._exceeds_limit(len(self.permitted)):
            for run in self.permitted:
                run.give_up_permit()
            self.changed.wait()
            if self._exceeds_limit(0):
                # A message has come first.
                self.give_back(count)
                return False
        return True

    def give_back(self, count: int = 1) -> None:
        """Count ``count`` threads as ended; waiting runs may get their permits."""
        self.used_count -= count
        self._grant_waiting()

    def try_permit(self, run: ASF) -> bool:
        """Grant a run the permit to start one thread; return False if no thread is free."""
        if self._exceeds_limit(len(self.permitted) + 1):
            return False
        self.permitted.append(run)
        return True

    def use_permit(self, run: ASF) -> None:
        """Exchange a run's permit to start a thread for a used thread."""
        self.permitted.remove(run)
        self.used_count += 1
        # A run may be waiting until this permit is given up: another one is asked back for it.
        self._grant_waiting()

    def return_permit(self, run: ASF) -> None:
        """Take back a run's unused permit to start a thread; a waiting run may get it."""
        self.permitted.remove(run)
        self._grant_waiting()

    def request_permit(self, run: ASF) -> None:
        """Queue a run for a permit to start a thread; :meth:`ASF.grant` gives it, perhaps at once.

        If no thread is free, unused permits or an idle thread are recalled for it.
        """
        self.waiting.append(run)
        self._grant_waiting()

    def cancel_request(self, run: ASF) -> None:
        """Remove a run from the queue for permits to start a thread; ignored if it is not there."""
        if run in self.waiting:
            self.waiting.remove(run)

    def is_wanted_by_others(self, run: ASF) -> bool:
        """Return True if another run waits for a permit to start a thread."""
        return any(waiting is not run for waiting in self.waiting)

    def add(self, run: ASF) -> None:
        """Register a run in ASF mode, whose idle threads may be recalled for other runs."""
        self._runs.append(run)

    def remove(self, run: ASF) -> None:
        """Remove a run that ends, with its permit to start a thread or its request.

        Ignored if unknown.
        """
        if run in self._runs:
            self._runs.remove(run)
        self.cancel_request(run)
        if run in self.permitted:
            self.return_permit(run)

    def _exceeds_limit(self, count: int) -> bool:
        """Return True if ``count`` more threads would exceed ``max_threads``."""
        return self.max_threads is not None and self.used_count + count > self.max_threads

    def _grant_waiting(self) -> None:
        """Grant waiting runs their permits to start a thread, in order, while threads are free."""
        while self.waiting and not self._exceeds_limit(len(self.permitted) + 1):
            run = self.waiting.pop(0)
            self.permitted.append(run)
            run.grant()
        if self.waiting:
            self._reclaim()
        self.changed.notify_all()

    def _reclaim(self) -> None:
        """Recall all unused permits to start a thread or, without any, one idle thread."""
        for run in self.permitted:
            run.give_up_permit()
        if not self.permitted:
            any(self.is_wanted_by_others(one) and one.give_up_idle() for one in self._runs)


# A run, from the start of a port to its stop


class PortRun(ABC):
    """One run of a port, from start to stop: its threads, and the state they share."""

    def __init__(
        self,
        factory: ConnectionFactory,
        settings: PortSettings,
        counters: Counters,
        pool: ThreadPool,
    ) -> None:
        """Store the arguments; :meth:`start` opens the sessions.

        ``factory`` makes the connections. ``counters`` count for the statistics of the port.
        ``pool`` supplies the threads.
        """
        self.factory, self.settings, self.counters = factory, settings, counters
        #: Where its sessions have their threads from.
        self.pool = pool
        self._shared_connections = SharedConnections(factory, settings)
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
        """The number of connections that its sessions share."""
        return self._shared_connections.connection_count

    @property
    def is_own_thread(self) -> bool:
        """Whether the calling thread belongs to this run: the caller is inside on_message."""
        own = self.factory.runtime.thread_id()
        # The machine gives the number of a thread that has ended to another one.
        return any(thread.ident == own and thread.is_alive() for thread in self._threads)

    @property
    @abstractmethod
    def thread_count(self) -> int:
        """The number of sessions with a thread; read it with ``pool.changed`` held."""

    @property
    @abstractmethod
    def receiving_count(self) -> int:
        """The number of sessions that wait for a message; read it with ``pool.changed`` held."""

    @abstractmethod
    def start(self) -> None:
        """Open the sessions and start the threads.

        Raises JMSException; then everything that was opened is closed again.
        """

    def open_session(self) -> ServerSession:
        """Open a server session; raises JMSException."""
        return ServerSession(self._shared_connections, self.settings, self.counters)

    def new_wait(self) -> Wait:
        """Return the object by which one thread of the run waits.

        :meth:`request_stop` ends its waits. Call with ``pool.changed`` held.
        """
        wait = Wait(self.factory.runtime)
        if self.is_stopping:
            wait.end()
        self._waits = [*self._waits, wait]
        return wait

    def forget_wait(self, wait: Wait) -> None:
        """Remove the wait object of a thread that ends; call with ``pool.changed`` held."""
        self._waits = [one for one in self._waits if one is not wait]

    def reserve_threads(self, count: int) -> None:
        """Take threads from the pool for sessions that :meth:`spawn` will start.

        Raises JMSException with MQRC_RESOURCE_PROBLEM if too few are free.
        """
        with self.pool.changed:
            if self.pool.take(count):
                self._reserved_count += count
                return
        text = (
            f"{self.settings.title} needs {count} threads for its sessions; "
            f"{self.pool.free_count} of {self.pool.max_threads} are free"
        )
        raise JMSException(text, rc.MQRC_RESOURCE_PROBLEM)

    def spawn(self, work: Callable[[], None], *, is_session: bool = True) -> None:
        """Start a thread that calls ``work``; a session's thread must be reserved before.

        ``is_session`` False is the dispatcher, which needs no thread of the pool. The run ends when
        its last thread has ended. Raises JMSException with MQRC_RESOURCE_PROBLEM if the operating
        system refuses the thread.
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

    def abort_start(self, sessions: Iterable[ServerSession]) -> None:
        """End a failed start: stop the threads, close the sessions, return reserved threads."""
        self.request_stop()
        self.join()
        for session in sessions:
            session.close()
        with self.pool.changed:
            count, self._reserved_count = self._reserved_count, 0
            self.pool.give_back(count)

    def request_stop(self) -> None:
        """End the waits of all threads; each thread ends after the message that it is delivering.

        On return no get is running: messages put after ``has_stopped_taking`` is True stay on the
        queue. Any thread may call it.
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
        """Wait until all threads of the run have ended; never call it from one of them."""
        while alive := [thread for thread in self._threads if thread.is_alive()]:
            for thread in alive:
                thread.join()

    def _enter(self, thread: Thread, *, is_session: bool) -> None:
        """Count a thread that is about to start; one of a session uses up a reserved thread."""
        if is_session:
            self._reserved_count -= 1
        alive = [one for one in self._threads if one.is_alive() or not one.ident]
        self._threads = [*alive, thread]
        self._running_count += 1

    def _leave(self, *, is_session: bool) -> bool:
        """Count a thread as ended; return True if it was the last one.

        The thread of a session (``is_session``) goes back to the pool.
        """
        self._running_count -= 1
        if is_session:
            self.pool.give_back()
        return not self._running_count

    def _run(self, work: Callable[[], None], is_session: bool) -> None:
        """Call ``work`` on this thread, and count the end of the thread.

        The last thread to end ends the run. ``is_session`` is True for the thread of a session,
        False for the dispatcher.
        """
        try:
            work()
        finally:
            with self.pool.changed:
                if self._leave(is_session=is_session):
                    self.is_stopping = self.has_stopped_taking = True


class Recovery:
    """Retries of one thread after failures: a limited number in a row, with a pause before each."""

    def __init__(self, run: PortRun) -> None:
        """Prepare retries for one thread of a run; call with ``pool.changed`` held."""
        self._run = run
        #: Of its own: nothing but a stop ends a pause.
        self._wait = run.new_wait()
        self._retry_count = 0

    def succeed(self) -> None:
        """Reset the number of retries to 0, after a success."""
        self._retry_count = 0

    def pause(self, failure: Exception) -> bool:
        """Log a failure, wait for the retry interval, and return True: the caller then tries again.

        Returns False if the run is stopping, or if no retries are left, which stops the run.
        """
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
            # The clock of a queue manager that cannot be reached is unknown: use this machine's.
            self._wait.for_change(interval_ms / SECOND_MS)
        if run.is_stopping:
            return False
        run.counters.add("listener_retries")
        return True

    def _may_retry(self) -> bool:
        """Return True if the run of the port is not stopping and retries are left."""
        run, limit = self._run, self._run.settings.max_recovery_retries
        return not (run.is_stopping or run.factory.has_ended) and self._retry_count < limit

    def _wait_by_its_clock(self, interval_ms: int) -> None:
        """Wait for ``interval_ms`` of the queue manager's clock.

        Raises the error of the connection if the queue manager cannot be asked.
        """
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
    """A run in non-ASF mode: each session has a thread, and they compete for the messages."""

    def __init__(
        self,
        factory: ConnectionFactory,
        settings: PortSettings,
        counters: Counters,
        pool: ThreadPool,
    ) -> None:
        """Store the arguments of :class:`PortRun`; :meth:`start` opens the sessions."""
        super().__init__(factory, settings, counters, pool)
        self._receivers: list[_Receiver] = []

    def start(self) -> None:
        """Reserve the threads, open all sessions, then start all threads.

        Returns when all sessions are receiving. Raises JMSException; nothing is left open then.
        """
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
            self.abort_start(sessions)
            raise
        # All sessions must be receiving on return: under a virtual clock the caller may let time
        # pass at once.
        for receiver in self._receivers:
            receiver.wait.begun.wait()

    @property
    def thread_count(self) -> int:
        """The number of running threads: one for each session."""
        return self._running_count

    @property
    def receiving_count(self) -> int:
        """The number of sessions that wait for a message."""
        return sum(receiver.wait.is_pending for receiver in self._receivers)


class _Receiver:
    """A thread of non-ASF mode, with its session."""

    def __init__(self, run: NonASF, session: ServerSession) -> None:
        """Take an open session; call with ``pool.changed`` held."""
        self._run = run
        self._session: ServerSession | None = session
        self.wait = run.new_wait()
        self._recovery = Recovery(run)

    def run(self) -> None:
        """Receive messages and call on_message until the run stops, with retries after failures."""
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
        """Begin a transaction, receive one message and deliver it; roll back if none came."""
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
                run.counters.add("idle_rollbacks")
        elif not session.deliver(transaction, delivery):
            run.request_stop()
        self._recovery.succeed()

    def _close(self) -> None:
        """Close the session; the next receive opens a new one."""
        session, self._session = self._session, None
        if session is not None:
            session.close()


# ASF mode


class ASF(PortRun):
    """A run in ASF mode: a dispatcher thread, and sessions with threads while they have work.

    State changes with ``pool.changed`` held.
    """

    def __init__(
        self,
        factory: ConnectionFactory,
        settings: PortSettings,
        counters: Counters,
        pool: ThreadPool,
    ) -> None:
        """Store the arguments of :class:`PortRun`; :meth:`start` opens the first session."""
        super().__init__(factory, settings, counters, pool)
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
        """Open the first session and start the dispatcher; raises JMSException."""
        try:
            self.begun_ms = self._open_worker().session.now_ms()
            with self.pool.changed:
                self.pool.add(self)
            self.spawn(self._dispatch, is_session=False)
        except BaseException:
            with self.pool.changed:
                self.pool.remove(self)
            self.abort_start([worker.session for worker in self._workers])
            raise
        self._wait.begun.wait()

    @property
    def thread_count(self) -> int:
        """The number of sessions with a thread, the dispatcher not counted."""
        return sum(worker.has_thread for worker in self._workers)

    @property
    def receiving_count(self) -> int:
        """The number of sessions that wait with a thread for a message.

        It is 0 while the dispatcher is busy.
        """
        return 0 if self._wait.is_busy else sum(worker.is_receiving for worker in self._workers)

    # Called by the pool.

    def grant(self) -> None:
        """Accept the permit to start a thread that the run has requested; called by the pool."""
        self._has_permit, self._is_asking = True, False
        self._wait.wake()

    def give_up_permit(self) -> None:
        """Ask the dispatcher to return its permit to start a thread; called by the pool.

        If a message is available for it, the dispatcher uses the permit instead.
        """
        if not self._is_permit_wanted:
            self._is_permit_wanted = True
            self._wait.wake()

    def give_up_idle(self) -> bool:
        """Ask an idle worker to end its thread; return False if no idle worker has a thread.

        The session of the worker stays open.
        """
        for worker in self._free:
            if worker.has_thread and not worker.is_unwanted:
                worker.is_unwanted = True
                worker.wait.wake()
                return True
        return False

    # Called by workers.

    def make_idle(self, worker: _Worker) -> bool:
        """Make a worker idle after a message; return False if its thread must end.

        A worker whose session is closed is removed; the next message gets a new session. If another
        port waits for a thread of the pool, the worker keeps its session and loses its thread.
        """
        with self.pool.changed:
            is_free = not self._is_over and worker in self._workers and worker.session.is_open
            if is_free:
                self._free.append(worker)
                worker.has_thread = not self.pool.is_wanted_by_others(self)
                self._wait.wake()
            else:
                self.remove_worker(worker)
            return is_free and worker.has_thread

    def note_busy(self, worker: _Worker) -> None:
        """Record that an idle worker, which waits with a thread, has taken a message."""
        with self.pool.changed:
            worker.is_unwanted = False
            if worker in self._free:
                self._free.remove(worker)
                self._wait.wake()

    def may_end_thread(self, worker: _Worker, *, is_unused: bool) -> bool:
        """Return True if the thread of an idle worker must end, False if it must go on waiting.

        The thread ends if ``is_unused`` (the unused timeout is over), another port needs it, the
        run stops, or the worker was removed. The session stays open if the dispatcher has no other
        session to find a message with.
        """
        with self.pool.changed:
            if not (is_unused or worker.is_unwanted or self.is_stopping):
                return worker not in self._workers
            if any(not free.has_thread for free in self._free):
                self.remove_worker(worker)
            worker.has_thread = worker.is_unwanted = False
            self._wait.wake()
            return True

    def remove_worker(self, worker: _Worker) -> None:
        """Remove a worker whose session closes; call with ``pool.changed`` held."""
        for workers in (self._workers, self._free):
            if worker in workers:
                workers.remove(worker)
        self._wait.wake()

    def fail(self, worker: _Worker, failure: Exception) -> None:
        """Remove a failed worker, and let the dispatcher pause for the failure.

        If the worker was removed before, the failure is part of an earlier one and is ignored.
        """
        with self.pool.changed:
            if worker in self._workers:
                self._failure = failure
            self.remove_worker(worker)

    def is_removed(self, worker: _Worker) -> bool:
        """Return True if the worker was removed."""
        with self.pool.changed:
            return worker not in self._workers

    # The dispatcher.

    def _dispatch(self) -> None:
        """Find messages for sessions until the run stops; the function of the dispatcher thread."""
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
        """Get one message, and start a thread for a session to deliver it.

        A call may instead only open a session, wait for a change, or request a thread. Raises the
        error with which a session has failed meanwhile.
        """
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
        """Return the idle worker for the next message or None, and whether to open a new one.

        (None, False) means that a worker already waits for the message, or that all sessions are
        busy.
        """
        if any(free.has_thread for free in self._free):
            # It takes the next message itself.
            return None, False
        if self._free:
            return self._free[0], False
        return None, len(self._workers) < self.settings.max_sessions

    def _settle_permit(self, *, is_needed: bool) -> bool:
        """Get a permit to start a thread if ``is_needed`` and one is free, else give it back.

        Returns True if the run now has a permit. Does not wait.
        """
        if not is_needed:
            if self._has_permit:
                self._return_permit()
            self.pool.cancel_request(self)
            self._is_asking = False
        elif not self._has_permit and not self._is_asking:
            self._has_permit = self.pool.try_permit(self)
        return self._has_permit

    def _return_permit(self) -> None:
        """Return the permit to start a thread to the pool."""
        self._has_permit = self._is_permit_wanted = False
        self.pool.return_permit(self)

    def _ask_for_thread(self, worker: _Worker) -> None:
        """Wait until a message is available, then request a permit to start a thread for it.

        ``worker`` has the session that waits. Until the permit comes, the message stays on its
        queue, where it may expire or another program may get it.
        """
        if worker.session.wait_until_available(self._wait):
            with self.pool.changed:
                self._is_asking = True
                self.pool.request_permit(self)

    def _receive(self, worker: _Worker) -> Delivery | None:
        """Get a message by the session of ``worker`` and return it; None if none came.

        The run has a permit to start a thread. If another run needs the permit and no message is
        available, the permit is returned.
        """
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
        """Start a thread for a worker, which delivers a message.

        Raises JMSException if no thread can be started; the message is then backed out to its
        queue.
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
                self.remove_worker(worker)
                self.forget_wait(worker.wait)
            worker.session.close()
            raise

    def _open_worker(self) -> _Worker:
        """Open a session and add it as an idle worker; raises JMSException."""
        session = self.open_session()
        with self.pool.changed:
            # Until it has a thread of its own, the dispatcher waits for it.
            worker = _Worker(self, session, self._wait)
            self._workers.append(worker)
            self._free.append(worker)
        return worker

    def _close_free(self) -> None:
        """Close all idle sessions; after a failure, new ones are opened when needed."""
        with self.pool.changed:
            free = list(self._free)
            without_thread = [worker for worker in free if not worker.has_thread]
            for worker in free:
                self.remove_worker(worker)
                if worker.has_thread:
                    worker.wait.end()
        for worker in without_thread:
            worker.session.close()


class _Worker:
    """A session of ASF mode, and its thread while it has one."""

    def __init__(self, run: ASF, session: ServerSession, wait: Wait) -> None:
        """Take an open session; until it has a thread, the dispatcher waits with ``wait``."""
        self._run = run
        self.session = session
        self.has_thread = False
        #: The waits of its thread.
        self.wait = wait
        #: Whether its thread is to end, for another port; the session stays.
        self.is_unwanted = False

    @property
    def is_receiving(self) -> bool:
        """Whether the worker has a thread that waits for a message."""
        return self.has_thread and self.wait.is_pending

    def work(self, first: Delivery, wait: Wait) -> None:
        """Deliver ``first`` and the following messages, until none came for the unused timeout.

        The thread waits by ``wait``. A failure removes the worker; the dispatcher then pauses.
        """
        run, delivery = self._run, first
        try:
            while True:
                # In ASF the time of waiting is not the transaction's.
                transaction = self.session.begin(delivery.result.message.seen_ms)
                if not self.session.deliver(transaction, delivery):
                    run.request_stop()
                run.recovery.succeed()
                following = self._next(wait) if run.make_idle(self) else None
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
        """Wait by ``wait`` for the next message and return it; None if the thread must end."""
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
                run.note_busy(self)
                return delivery
            is_unused = until_ms is not None and self.session.now_ms() >= until_ms
            if run.may_end_thread(self, is_unused=is_unused):
                return None

    def _end(self) -> None:
        """Close the session if the run has removed this worker."""
        # A worker that was not given up may have a message, and another thread, by now.
        if self._run.is_removed(self):
            self.session.close()
