"""A clock that moves only when told to: jumps from due moment to due moment, years in a blink."""

from __future__ import annotations

import threading

from mayfly.lifetime.times import Clock, Driven
from mayfly.runtime.runtime import Runtime

_START_MS = 1_700_000_000_000
#: Nothing has so much to do at one moment: a turn of the delay processor releases 2,000 messages.
_MOST_RUNS = 50_000
#: Threads of Mayfly's own that neither put messages nor move a clock: they run nobody's program.
_SERVANTS = frozenset({"mayfly-arrow", "mayfly-due", "mayfly-log", "mayfly-renewal"})


class VirtualClock:
    """Time under control, for tests, demonstrations and simulation; drives many queue managers.

    ``advance`` decides, on its own thread and at its exact moment, everything that falls due on the
    way: releases, scans, and whether a waiting get has its message or its timeout. It never waits
    for application code: a thread that is not back in a wait yet starts its next wait at the time
    it then sees.
    """

    def __init__(self, start_ms: int = _START_MS, *, runtime: Runtime | None = None) -> None:
        """Stand still at ``start_ms``, epoch milliseconds; its locks are of ``runtime``."""
        self._runtime = Runtime() if runtime is None else runtime
        self._now_ms = start_ms
        self._driven: list[Driven] = []
        self._advancing = self._runtime.lock("advance")
        #: Held while something due runs, so that detach can wait for it.
        self._running = self._runtime.reentrant_lock("clock")
        self._advancer: int | None = None

    def now_ms(self) -> int:
        """Return the virtual time in ms since the epoch."""
        return self._now_ms

    def advance(self, ms: int) -> None:
        """Move time on by ``ms`` and run what falls due up to and at the new moment.

        An advance from another thread waits until the one under way is done. Raises ValueError for
        a negative step and RuntimeError from inside of something that the advance itself runs.
        """
        if ms < 0:
            raise ValueError(f"ms {ms}: time does not go back")
        if self._advancer == self._runtime.thread_id():
            raise RuntimeError("advance() inside of what an advance runs")
        with self._advancing:
            self._advancer = self._runtime.thread_id()
            try:
                self._advance_to(self._now_ms + ms)
            finally:
                self._advancer = None
        # A wake that came while this advance ended was left to it.
        for driven in list(self._driven):
            self.wake(driven)

    def attach(self, driven: Driven) -> None:
        """Drive a queue manager from now on."""
        self._driven.append(driven)

    def detach(self, driven: Driven) -> None:
        """Stop driving it; on return no run is under way on another thread."""
        if driven in self._driven:
            self._driven.remove(driven)
        with self._running:
            pass

    def wake(self, driven: Driven) -> None:
        """Run the work that is due at the present moment; later work waits for ``advance``."""
        due_ms = driven.next_due_ms()
        if due_ms is not None and due_ms <= self._now_ms and self._advancer is None:
            self._run(driven)

    def _advance_to(self, target_ms: int) -> None:
        run_count = 0
        while True:
            due = [d for driven in list(self._driven) if (d := driven.next_due_ms()) is not None]
            next_ms = min(due, default=None)
            if next_ms is None or next_ms > target_ms:
                break
            run_count = 0 if next_ms > self._now_ms else run_count + 1
            # Work that leaves its due moment where it is would hold time here for ever.
            assert run_count <= _MOST_RUNS, f"work at {next_ms} stays due: {self._driven}"
            self._now_ms = max(self._now_ms, next_ms)
            for driven in list(self._driven):
                at_ms = driven.next_due_ms()
                if at_ms is not None and at_ms <= self._now_ms:
                    self._run(driven)
        self._now_ms = target_ms

    def _run(self, driven: Driven) -> None:
        with self._running:
            if driven in self._driven:
                driven.run_due()


def check_wait(clock: Clock) -> None:
    """Raise RuntimeError where a wait by this thread can never end.

    That is certain under a virtual clock when no other thread runs: nobody can call ``advance`` or
    put a message. Another thread that never does so is not known to be one.
    """
    if isinstance(clock, VirtualClock) and not _runs_other_programs():
        raise RuntimeError(
            "this wait would never end: a VirtualClock moves only when advance() is called, and no "
            "other thread runs that could call it or put a message; get without a wait, or wait on "
            "a thread of its own"
        )


def _runs_other_programs() -> bool:
    own = threading.get_ident()
    return any(t.ident != own and t.name not in _SERVANTS for t in threading.enumerate())
