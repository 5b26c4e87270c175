"""The thread of a clock that runs what falls due in one queue manager."""

from __future__ import annotations

from mayfly.lifetime.times import SECOND_MS, Clock, Driven
from mayfly.runtime.runtime import Runtime


class Driver:
    """The thread that sleeps until a queue manager's next due moment and runs what is due."""

    #: A step of the wall clock must not be noticed later than this.
    _LONGEST_SLEEP_SECONDS = 1.0

    def __init__(self, clock: Clock, driven: Driven, runtime: Runtime) -> None:
        """Start."""
        self._clock = clock
        self._driven = driven
        self._runtime = runtime
        self._condition = self._runtime.condition()
        self._woken = False
        self._stopped = False
        self._thread = self._runtime.thread(self._run, "mayfly-due")
        self._thread.start()

    def wake(self) -> None:
        """Look again at when it is next needed."""
        with self._condition:
            self._woken = True
            self._condition.notify_all()

    def stop(self) -> None:
        """End, and wait for the run under way unless it is the caller's own."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
        if self._thread.ident != self._runtime.thread_id():
            self._thread.join()

    def _run(self) -> None:
        while True:
            due_ms = self._driven.next_due_ms()
            with self._condition:
                if not self._woken and not self._stopped:
                    self._condition.wait(self._sleep_seconds(due_ms))
                self._woken = False
                if self._stopped:
                    return
            if due_ms is None or due_ms <= self._clock.now_ms():
                self._driven.run_due()

    def _sleep_seconds(self, due_ms: int | None) -> float:
        if due_ms is None:
            return self._LONGEST_SLEEP_SECONDS
        ahead = (due_ms - self._clock.now_ms()) / SECOND_MS
        return min(max(ahead, 0.0), self._LONGEST_SLEEP_SECONDS)
