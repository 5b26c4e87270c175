"""The thread of a clock that runs what falls due in one queue manager."""

from __future__ import annotations

from mayfly.lifetime.times import SECOND_MS, Clock, Driven
from mayfly.runtime.loops import Loop
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
        self._loop = Loop(self._runtime, self._turn, "mayfly-due")
        self._loop.start()

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
        if self._loop.ident != self._runtime.thread_id():
            self._loop.join()

    def _turn(self) -> bool:
        """Sleep until something is due, and run it; False at the end."""
        due_ms = self._driven.next_due_ms()
        with self._condition:
            if not self._woken and not self._stopped:
                self._condition.wait(self._sleep_seconds(due_ms))
            self._woken = False
            if self._stopped:
                return False
        if due_ms is None or due_ms <= self._clock.now_ms():
            self._driven.run_due()
        return True

    def _sleep_seconds(self, due_ms: int | None) -> float:
        if due_ms is None:
            return self._LONGEST_SLEEP_SECONDS
        ahead = (due_ms - self._clock.now_ms()) / SECOND_MS
        return min(max(ahead, 0.0), self._LONGEST_SLEEP_SECONDS)
