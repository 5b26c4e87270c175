"""Non-ASF mode: each session has a thread that receives and calls, from start to stop (L2-L9)."""

from __future__ import annotations

from mayfly.jms.factory import ConnectionFactory
from mayfly.services.listener.runs import Recovery, Run
from mayfly.services.listener.server_session import ServerSession
from mayfly.services.listener.settings import Settings
from mayfly.services.listener.statistics import Tally
from mayfly.services.listener.thread_pool import ThreadPool


class NonASF(Run):
    """As many threads as sessions, which compete for the messages (L8)."""

    def __init__(
        self, factory: ConnectionFactory, settings: Settings, tally: Tally, pool: ThreadPool
    ) -> None:
        """Begin without a session."""
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
        return sum(receiver.wait.is_standing for receiver in self._receivers)


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
