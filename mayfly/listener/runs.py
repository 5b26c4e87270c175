"""One run of a port, from its start to its stop: the common part of both modes."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from mayfly.engine.face.jms import Wait, between_takes
from mayfly.jms.errors import JMSException
from mayfly.listener.conversations import Conversations
from mayfly.listener.server_session import ServerSession
from mayfly.listener.settings import Settings
from mayfly.listener.statistics import Tally
from mayfly.listener.thread_pool import ThreadPool
from mayfly.listener.transactions import TransactionService
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, StoreError
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Thread

_LOG = logging.getLogger("mayfly.listener")
_T = TypeVar("_T")
#: Errors of the queue manager and its sessions.
FAILURES = (MQError, JMSException, StoreError)


class Run(ABC):
    """The threads of a port; the last of them that ends closes what they shared."""

    def __init__(
        self, manager: QueueManager, settings: Settings, tally: Tally, pool: ThreadPool
    ) -> None:
        """Take what there is to do; nothing is opened yet."""
        self.manager, self.settings, self.tally = manager, settings, tally
        #: Where its sessions have their threads from.
        self.pool = pool
        self._conversations = Conversations(manager, settings)
        self.transactions: TransactionService
        self.is_stopping = False
        #: Those that have not ended, as of the last start of one. All that follows changes between
        #: takes. Each change makes a new list, so that it can be read at any time.
        self._threads: list[Thread] = []
        self._running_count = 0
        #: Threads taken from the pool that are not started yet.
        self._reserved_count = 0

    @property
    def connection_count(self) -> int:
        """How many connections its sessions share."""
        return self._conversations.connection_count

    @property
    def is_own_thread(self) -> bool:
        """Whether the present thread is one of its own: inside of on_message."""
        own = self.manager.engine.runtime.thread_id()
        # The machine gives the number of a thread that has ended to another one.
        return any(thread.ident == own and thread.is_alive() for thread in self._threads)

    @property
    @abstractmethod
    def thread_count(self) -> int:
        """How many sessions have a thread; read between takes, together with the next."""

    @property
    @abstractmethod
    def receiving_count(self) -> int:
        """How many sessions wait for a message."""

    @abstractmethod
    def start(self) -> None:
        """Open the sessions and start threads; raises JMSException, nothing is left open then."""

    @abstractmethod
    def interrupt(self) -> None:
        """End the waits of its threads; messages in work are not disturbed."""

    def open_session(self) -> ServerSession:
        """Open a server session; raises JMSException."""
        return ServerSession(self._conversations, self.settings, self.tally)

    def begin(self) -> None:
        """Let transactions be timed."""
        self.transactions = TransactionService(
            self.manager,
            total_tran_lifetime_timeout_s=self.settings.total_tran_lifetime_timeout_s,
            on_timeout=lambda _transaction: self.tally.add("timed_out"),
        )

    def reserve_threads(self, count: int) -> None:
        """Take threads from the pool for sessions that :meth:`spawn` is about to start.

        Raises JMSException with MQRC_RESOURCE_PROBLEM when it has fewer left.
        """
        if not self.between_takes(partial(self._reserve, count)):
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
        thread = self.manager.engine.runtime.thread(work_of_run, "mayfly-listener")
        self.between_takes(partial(self._enter, thread, is_session=is_session))
        try:
            thread.start()
        except RuntimeError as error:
            self.between_takes(partial(self._remove, thread, is_session=is_session))
            reason = rc.MQRC_RESOURCE_PROBLEM
            raise JMSException(f"a session has no thread: {error}", reason) from error

    def give_up(self, sessions: Iterable[ServerSession]) -> None:
        """End what a start that has failed had begun, and its sessions."""
        self.request_stop()
        self.join()
        for session in sessions:
            session.close()
        self.between_takes(self._give_reserved_back)
        self.transactions.close()

    def request_stop(self) -> None:
        """Let its threads end when the message each has in work is done.

        No message that is put after ``is_stopping`` was seen is taken: both change between takes.
        """
        self.between_takes(self._stop)

    def _stop(self) -> None:
        # Before the interrupt: a thread whose wait that ends looks at this next.
        self.is_stopping = True
        self.interrupt()

    def join(self) -> None:
        """Wait until it has ended; not from one of its own threads."""
        while alive := [thread for thread in self._threads if thread.is_alive()]:
            for thread in alive:
                thread.join()

    def between_takes(self, call: Callable[[], _T]) -> _T:
        """Change or read what the run and its pool keep, while no take looks at it."""
        return between_takes(self.manager.engine, call)

    def _reserve(self, count: int) -> bool:
        has_room = self.pool.has_room(count)
        if has_room:
            self.pool.take(count)
            self._reserved_count += count
        return has_room

    def _enter(self, thread: Thread, *, is_session: bool) -> None:
        if is_session:
            self._reserved_count -= 1
        alive = [one for one in self._threads if one.is_alive() or not one.ident]
        self._threads = [*alive, thread]
        self._running_count += 1

    def _remove(self, thread: Thread, *, is_session: bool) -> None:
        self._threads = [one for one in self._threads if one is not thread]
        self._leave(is_session=is_session)

    def _leave(self, *, is_session: bool) -> bool:
        """Count a thread that has ended; tell whether it was the last."""
        self._running_count -= 1
        if is_session:
            self.pool.give_back(1)
        return not self._running_count

    def _give_reserved_back(self) -> None:
        count, self._reserved_count = self._reserved_count, 0
        if count:
            self.pool.give_back(count)

    def _run(self, work: Callable[[], None], is_session: bool) -> None:
        try:
            work()
        finally:
            if self.between_takes(partial(self._leave, is_session=is_session)):
                self.is_stopping = True
                self.transactions.close()


class Recovery:
    """Tries again after a failure, some times in a row and with time in between."""

    def __init__(self, run: Run, wait: Wait) -> None:
        """Recover for a thread of a run, which waits by ``wait``."""
        self._run, self._wait = run, wait
        self._retry_count = 0

    def succeed(self) -> None:
        """Begin to count anew: something has worked."""
        self._retry_count = 0

    def pause(self, failure: Exception) -> bool:
        """Wait for the next try; False when there is none: the run is stopped then."""
        run, title = self._run, self._run.settings.title
        manager, interval_ms = run.manager, run.settings.retry_interval_ms
        if not self._may_retry():
            if not run.is_stopping:
                _LOG.error("%s stops: %s", title, failure)
                run.request_stop()
            return False
        _LOG.warning("%s tries again in %d ms: %s", title, interval_ms, failure)
        self._retry_count += 1
        until_ms = manager.now_ms() + interval_ms
        try:
            self._wait.pause(until_ms)
        except MQError as error:
            return self.pause(error)
        return self._resume()

    def _may_retry(self) -> bool:
        manager, limit = self._run.manager, self._run.settings.max_recovery_retries
        has_ended = manager.engine.is_closing or manager.is_stopped
        return not (self._run.is_stopping or has_ended) and self._retry_count < limit

    def _resume(self) -> bool:
        if self._run.is_stopping:
            return False
        self._run.tally.add("listener_retries")
        return True
