"""Counts of a port over all its starts, and its present state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from mayfly.runtime import Lock


@dataclass(frozen=True)
class Statistics:
    """The present state of a port, and its counts over all starts since it was made.

    Now: ``threads`` is the number of sessions with a thread, ``connections`` the number of their
    connections, ``receiving`` the number of threads that wait for a message (in ASF, for the
    dispatcher). Counts: ``idle_rollbacks`` are transactions whose receive found nothing.
    ``delivered`` are calls of on_message, each of which ends as ``committed`` or ``rolled_back``.
    ``timed_out`` are transactions marked for rollback by a timeout, ``requeued`` messages moved to
    BOQNAME or the dead-letter queue, ``listener_retries`` recoveries of all sessions.
    """

    threads: int
    connections: int
    receiving: int
    idle_rollbacks: int
    delivered: int
    committed: int
    rolled_back: int
    timed_out: int
    requeued: int
    listener_retries: int


class Tally:
    """Counts what the threads of a port do."""

    def __init__(self, lock: Lock) -> None:
        """Begin with nothing."""
        self._lock = lock
        self._counts: Counter[str] = Counter()

    def add(self, name: str) -> None:
        """Count one more of a field of :class:`Statistics`."""
        with self._lock:
            self._counts[name] += 1

    def statistics(self, state: Callable[[], tuple[int, int, int]]) -> Statistics:
        """Return the counts together with how the port stands: threads, connections, receiving.

        Nothing is counted while ``state`` is called.
        """
        with self._lock:
            threads, connections, receiving = state()
            counts = self._counts.copy()
        return Statistics(
            threads,
            connections,
            receiving,
            counts["idle_rollbacks"],
            counts["delivered"],
            counts["committed"],
            counts["rolled_back"],
            counts["timed_out"],
            counts["requeued"],
            counts["listener_retries"],
        )
