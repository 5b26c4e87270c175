"""Loops: threads that take turns until they are told to end, and survive what a turn raises.

Nobody misses a thread that has ended by an error. Its work is not done any more, for anybody:
answers, heartbeats, due work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from mayfly.lifetime.times import SECOND_MS, Clock, Driven
from mayfly.runtime.runtime import Runtime

_LOG = logging.getLogger("mayfly.loops")
#: Turns that fail one after the other are this far apart at least, then twice as far each time.
_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 1.0


class Loop:
    """A thread that calls ``turn`` until that returns False.

    A turn that raises is logged, and the next one follows. The pause between turns that fail one
    after the other grows to a second, and an error that stays the same is logged once. Its runtime
    knows a loop from its start to its end: :meth:`Runtime.gone` names the loops that are not there
    though nobody has told them to end.
    """

    def __init__(
        self, runtime: Runtime, turn: Callable[[], bool], name: str, *, goes_on: bool = True
    ) -> None:
        """Take the name of the thread, which is not started yet.

        ``goes_on`` is False for a turn that cannot be taken again once it has raised: the loop is
        gone then.
        """
        self.name = name
        self._runtime, self._turn, self._goes_on = runtime, turn, goes_on
        self._worker = runtime.thread(self._run, name)
        #: Of turns that have failed one after the other.
        self._failure_count = 0
        self._said = ""
        self._has_begun = self._is_told = False

    @property
    def ident(self) -> int | None:
        """The number of its thread; None before it is started."""
        return self._worker.ident

    def start(self) -> None:
        """Begin; raises RuntimeError when the machine has no thread left."""
        self._runtime.note_begun(self)
        try:
            self._worker.start()
        except BaseException:
            self._runtime.note_ended(self)
            raise

    def join(self, seconds: float | None = None) -> None:
        """Wait until it has ended, or so many seconds: its owner has told it to end."""
        self._is_told = True
        self._worker.join(seconds)
        self._runtime.note_ended(self)

    def is_alive(self) -> bool:
        """Return True from its start to its end."""
        return self._worker.is_alive()

    @property
    def is_gone(self) -> bool:
        """Whether its thread has ended, though nobody has told it to."""
        return self._has_begun and not self._worker.is_alive()

    def _run(self) -> None:
        self._has_begun = True
        while True:
            try:
                if not self._turn():
                    break
            except BaseException as error:  # noqa: BLE001 - an item must not end it for the others
                self._note(error)
                if not self._goes_on:
                    return
                if self._is_told:
                    break
                self._pause()
            else:
                self._failure_count, self._said = 0, ""
        self._runtime.note_ended(self)

    def _note(self, error: BaseException) -> None:
        said = repr(error)
        if said != self._said:
            self._said = said
            what = "goes on after" if self._goes_on else "has ended with"
            _LOG.error("%s %s an error: %s", self.name, what, said, exc_info=error)

    def _pause(self) -> None:
        if self._failure_count:
            pause = _FIRST_PAUSE_SECONDS * 2 ** min(self._failure_count - 1, 20)
            self._runtime.event().wait(min(pause, _LONGEST_PAUSE_SECONDS))
        self._failure_count += 1


class Driver:
    """The thread of a clock: it sleeps until a queue manager's work is due, and runs it."""

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
