"""The start and stop of a listener port or an activation specification, in one of two modes."""

from __future__ import annotations

import logging

from mayfly.jms.errors import IllegalStateException
from mayfly.jms.factory import ConnectionFactory
from mayfly.queue_manager import QueueManager
from mayfly.services.listener.asf import ASF
from mayfly.services.listener.conversations import factory_of
from mayfly.services.listener.non_asf import NonASF
from mayfly.services.listener.runs import Run
from mayfly.services.listener.settings import Settings
from mayfly.services.listener.statistics import Statistics, Tally
from mayfly.services.listener.thread_pool import ThreadPool
from mayfly.services.listener.timeouts import check_timeouts

_LOG = logging.getLogger("mayfly.listener")


class Endpoint:
    """Starts and stops the threads that call on_message; any thread may do either."""

    def __init__(
        self,
        manager: QueueManager | ConnectionFactory,
        settings: Settings,
        pool: ThreadPool | None = None,
    ) -> None:
        """Take the settings; timeouts that cannot be safe are warned of (L10).

        Its sessions have their threads from ``pool``; None is one of its own, without a limit.
        """
        self._factory = factory_of(manager)
        self._settings = settings
        runtime = self._factory.runtime
        self._pool = ThreadPool(runtime=runtime) if pool is None else pool
        self._tally = Tally(runtime.lock("tally"))
        self._lock = runtime.lock("port")
        self._run: Run | None = None
        for problem in check_timeouts(
            receive_timeout_ms=settings.receive_timeout_ms,
            total_tran_lifetime_timeout_s=settings.total_tran_lifetime_timeout_s,
            longest_on_message_ms=0,
        ):
            _LOG.warning("%s", problem)

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped nor given up since."""
        return self._run is not None and not self._run.has_stopped_taking

    def start(self) -> None:
        """Open sessions and connections and begin; nothing when it is running.

        Raises JMSException with the reason why the destination or selector cannot be opened; the
        port is stopped then, and nothing is left open. IllegalStateException from inside of an
        on_message that has stopped it.
        """
        if self._run is not None and self._run.is_own_thread and not self.is_running:
            # Checked before the lock: another starter holds it, and waits for this very on_message.
            raise IllegalStateException("start() inside of on_message, which it waits for")
        with self._lock:
            if self.is_running:
                return
            if self._run is not None:
                self._run.join()
            mode = NonASF if self._settings.receive_timeout_ms else ASF
            # An on_message may stop it before its start has returned.
            run = self._run = mode(self._factory, self._settings, self._tally, self._pool)
            try:
                run.start()
            except BaseException:
                self._run = None
                raise

    def stop(self) -> None:
        """Take no more messages, and wait for those in work; a second stop does nothing.

        From inside of on_message it does not wait: the port ends when that has returned.
        """
        run = self._run
        if run is not None:
            run.request_stop()
            if not run.is_own_thread:
                run.join()

    def statistics(self) -> Statistics:
        """Return how it stands and what it has done."""
        return self._tally.statistics(self._state)

    def _state(self) -> tuple[int, int, int]:
        run = self._run
        if run is None:
            return 0, 0, 0
        with self._pool.changed:
            return run.thread_count, run.connection_count, run.receiving_count
