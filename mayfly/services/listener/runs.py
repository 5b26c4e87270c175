"""One run of a port, from its start to its stop: the common part of both modes."""

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
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, StoreError
from mayfly.runtime import Thread
from mayfly.services.listener.conversations import Conversations
from mayfly.services.listener.server_session import ServerSession
from mayfly.services.listener.settings import Settings
from mayfly.services.listener.statistics import Tally
from mayfly.services.listener.thread_pool import ThreadPool

_LOG = logging.getLogger("mayfly.listener")
#: Errors of the queue manager, the connection to it and its sessions.
FAILURES = (MQError, JMSException, StoreError)


class Run(ABC):
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

    def __init__(self, run: Run) -> None:
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
                return mq.asynchronous.wait_until(until_ms, on_done=on_done)

            self._wait.of(begin)
        finally:
            if connection is not None:
                with suppress(*FAILURES):
                    connection.close()
