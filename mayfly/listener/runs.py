"""One run of a port, from its start to its stop: what both modes have in common."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from mayfly.engine.manager import Manager
from mayfly.jms.errors import JMSException
from mayfly.listener.conversations import Conversations
from mayfly.listener.server_session import ServerSession
from mayfly.listener.settings import Settings
from mayfly.listener.statistics import Tally
from mayfly.listener.transactions import TransactionService
from mayfly.listener.waits import Wait
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, StoreError

_LOG = logging.getLogger("mayfly.listener")
#: What the queue manager and its sessions raise.
FAILURES = (MQError, JMSException, StoreError)


class Run(ABC):
    """The threads of a port; the last of them that ends closes what they shared."""

    def __init__(self, manager: Manager, settings: Settings, tally: Tally) -> None:
        """Take what there is to do; nothing is opened yet."""
        self.manager, self.settings, self.tally = manager, settings, tally
        self._conversations = Conversations(manager, settings)
        self.transactions: TransactionService
        self.is_stopping = False
        #: All of them, those included that have ended; under the latch like all that follows.
        self._threads: list[threading.Thread] = []
        self._running_count = 0

    @property
    def connection_count(self) -> int:
        """How many connections its sessions share."""
        return self._conversations.connection_count

    @property
    def is_own_thread(self) -> bool:
        """Whether the present thread is one of its own: inside of on_message."""
        return threading.current_thread() in self._threads

    @property
    @abstractmethod
    def thread_count(self) -> int:
        """How many sessions have a thread."""

    @property
    @abstractmethod
    def receiving_count(self) -> int:
        """How many sessions wait for a message."""

    @abstractmethod
    def start(self) -> None:
        """Open the sessions and start threads; raises JMSException, nothing is left open then."""

    @abstractmethod
    def interrupt(self) -> None:
        """End the waits of its threads; what is in work is not disturbed."""

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

    def spawn(self, work: Callable[[], None]) -> None:
        """Start a thread; the run ends when all have ended.

        Raises JMSException with MQRC_RESOURCE_PROBLEM when the machine has none left.
        """
        thread = threading.Thread(
            target=self._run, args=(work,), name="mayfly-listener", daemon=True
        )
        with self.manager.latch:
            self._threads = [one for one in self._threads if one.is_alive() or not one.ident]
            self._threads.append(thread)
            self._running_count += 1
        try:
            thread.start()
        except RuntimeError as error:
            with self.manager.latch:
                self._threads.remove(thread)
                self._running_count -= 1
            reason = rc.MQRC_RESOURCE_PROBLEM
            raise JMSException(f"a session has no thread: {error}", reason) from error

    def give_up(self, sessions: Iterable[ServerSession]) -> None:
        """End what a start that has failed had begun, and its sessions."""
        self.request_stop()
        self.join()
        for session in sessions:
            session.close()
        self.transactions.close()

    def request_stop(self) -> None:
        """Let its threads end when the message each has in work is done."""
        with self.manager.latch:
            self.is_stopping = True
        self.interrupt()

    def join(self) -> None:
        """Wait until it has ended; not from one of its own threads."""
        while True:
            with self.manager.latch:
                alive = [thread for thread in self._threads if thread.is_alive()]
            if not alive:
                return
            for thread in alive:
                thread.join()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            with self.manager.latch:
                self._running_count -= 1
                is_last = not self._running_count
            if is_last:
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
        run, destination = self._run, self._run.settings.destination
        manager, interval_ms = run.manager, run.settings.retry_interval_ms
        if not self._may_retry():
            if not run.is_stopping:
                _LOG.error("the port of %s stops: %s", destination, failure)
                run.request_stop()
            return False
        _LOG.warning("the port of %s tries again in %d ms: %s", destination, interval_ms, failure)
        self._retry_count += 1
        until_ms = manager.now_ms() + interval_ms
        try:
            self._wait.pause(until_ms)
        except MQError as error:
            return self.pause(error)
        return self._resume()

    def _may_retry(self) -> bool:
        manager, limit = self._run.manager, self._run.settings.max_recovery_retries
        has_ended = manager.is_closing or manager.is_stopped
        return not (self._run.is_stopping or has_ended) and self._retry_count < limit

    def _resume(self) -> bool:
        if self._run.is_stopping:
            return False
        self._run.tally.add("listener_retries")
        return True
