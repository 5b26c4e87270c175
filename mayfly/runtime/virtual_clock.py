"""A clock that moves only when told to: jumps from due moment to due moment, years in a blink."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import thread as pool
from contextlib import suppress
from pathlib import Path
from types import FrameType

from mayfly.lifetime.times import Driven
from mayfly.runtime.runtime import Runtime

_START_MS = 1_700_000_000_000
#: Nothing has so much to do at one moment: a turn of the delay processor releases 2,000 messages.
_MAX_RUNS = 50_000
#: Threads of Mayfly's own that neither put messages nor move a clock, but for a program that waits
#: for them: how their names begin.
_SERVANTS = (
    "mayfly-aio",
    "mayfly-arrow",
    "mayfly-client",
    "mayfly-due",
    "mayfly-heartbeat",
    "mayfly-host-name",
    "mayfly-log",
    "mayfly-password",
    "mayfly-refusals",
    "mayfly-wire",
)
#: Threads that call functions of programs: such a thread that sleeps is a servant.
_CALLERS = ("mayfly-background", "mayfly-wire-call")
#: The functions of ``threading`` in which a thread sleeps until another one wakes it.
_SLEEPING = frozenset({"join", "wait", "_wait_for_tstate_lock"})
#: Where a thread of a ThreadPoolExecutor waits for work.
_POOL = pool.__file__, "_worker"
#: Looks at a thread that sleeps in one of them until it counts as waiting: one that was woken just
#: now is still there.
_LOOKS = 3
_LOOK_SECONDS = 0.002
_WOULD_NOT_END = (
    "this wait would never end: a VirtualClock moves only when advance() is called, and no "
    "other thread runs that could call it or put a message; get without a wait, or wait on "
    "a thread of its own"
)
_NOTHING_IS_DUE = (
    "this wait would never end: every thread that uses the VirtualClock waits, nothing falls due"
)


class ClockWait:
    """One wait of a thread under a clock with ``autojump``."""

    def __init__(self, is_over: Callable[[], bool], *, is_exact: bool, of_task: bool) -> None:
        """Wait on the calling thread.

        ``is_over`` of one that is exact knows all that has been decided. The wait of a task leaves
        its thread to other tasks: only that thread can tell whether all of them wait.
        """
        self.ident, self.is_over, self.is_exact = threading.get_ident(), is_over, is_exact
        self.of_task = of_task
        #: The turn of the clock in which it was seen to stand.
        self.turn = -1


class VirtualClock:
    """Time under control, for tests, demonstrations and simulation; drives many queue managers.

    ``advance`` decides, on its own thread and at its exact moment, everything that falls due on the
    way: releases, scans, and whether a waiting get has its message or its timeout. It never waits
    for application code: a thread that is not back in a wait yet starts its next wait at the time
    it then sees.

    With ``autojump`` nobody has to call ``advance``: when every thread that uses the clock waits,
    it moves to the next due moment. A thread uses it once it has called a verb of a queue manager
    of the clock, or of a client whose server is in this process. It waits in a get, or where
    another thread wakes it: ``Thread.join``, ``Event.wait``, ``Future.result``.
    """

    def __init__(
        self,
        start_ms: int = _START_MS,
        *,
        autojump: bool = False,
        runtime: Runtime | None = None,
    ) -> None:
        """Stand still at ``start_ms``, epoch milliseconds; its locks are of ``runtime``."""
        self._runtime = Runtime() if runtime is None else runtime
        self._now_ms = start_ms
        self._driven: list[Driven] = []
        self._advancing = self._runtime.lock("advance")
        #: Held while something due runs, so that detach can wait for it.
        self._running = self._runtime.reentrant_lock("clock")
        self._advancer: int | None = None
        self.autojump = autojump
        #: The threads that use it; of those that wait for it their waits.
        self._users: set[int] = set()
        self._waits: list[ClockWait] = []
        #: Counts changes of waits and of time: a wait that is not exact is looked at in each turn.
        self.turn = 0
        #: Threads that sleep elsewhere: the place in the program, and in how many looks.
        self._sleepers: dict[int, tuple[tuple[int, int], int]] = {}
        self._looking = self._runtime.condition()

    def now_ms(self) -> int:
        """Return the virtual time in ms since the epoch."""
        if self.autojump:
            self.note_use()
        return self._now_ms

    def note_use(self) -> None:
        """Note that the calling thread uses the clock."""
        self._users.add(threading.get_ident())

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
            self._advance(self._now_ms + ms)
        # A wake that came while this advance ended was left to it.
        for driven in list(self._driven):
            self.wake(driven)

    def begin_wait(
        self, is_over: Callable[[], bool], *, is_exact: bool = False, of_task: bool = False
    ) -> ClockWait:
        """Note a wait of the calling thread, which lasts until ``is_over`` or :meth:`end_wait`."""
        self.note_use()
        wait = ClockWait(is_over, is_exact=is_exact, of_task=of_task)
        with self._looking:
            self._waits.append(wait)
            self.turn += 1
        return wait

    def end_wait(self, wait: ClockWait) -> None:
        """Note that a wait is over."""
        with self._looking:
            self._waits.remove(wait)
            self.turn += 1

    def note_change(self) -> None:
        """Note that what a wait waits for has changed: the others are looked at again."""
        with self._looking:
            self.turn += 1

    def wait_until(
        self, is_over: Callable[[], bool], stands: Callable[[], object] | None = None
    ) -> None:
        """Wait on the calling thread, and let time pass while every thread that uses it waits.

        ``stands`` returns when ``is_over`` knows all that has been decided so far; without it
        ``is_over`` always does. Raises RuntimeError when nothing falls due any more and nobody else
        can end it.
        """
        wait = self.begin_wait(is_over, is_exact=stands is None)
        try:
            while not is_over():
                if stands is not None and wait.turn != self.turn:
                    turn = self.turn
                    stands()
                    wait.turn = turn
                elif not self.jump():
                    self.pause()
        finally:
            self.end_wait(wait)

    def jump(self) -> bool:
        """Move to the next due moment if every thread that uses the clock waits; else False.

        Raises RuntimeError when nothing falls due any more and nobody else can end the waits.
        """
        if not self._advancing.acquire(blocking=False):
            return False
        try:
            if not self._all_wait():
                return False
            next_ms = self._next_due_ms()
            if next_ms is None:
                if not has_children():
                    raise RuntimeError(_NOTHING_IS_DUE)
                return False
            self._advance(max(next_ms, self._now_ms))
        finally:
            self._advancing.release()
        return True

    def pause(self) -> None:
        """Let other threads go on, for a moment of the machine's time."""
        with self._looking:
            self._looking.wait(_LOOK_SECONDS)

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

    def _advance(self, target_ms: int) -> None:
        self._advancer = self._runtime.thread_id()
        try:
            self._advance_to(target_ms)
        finally:
            self._advancer = None
            with self._looking:
                self.turn += 1

    def _next_due_ms(self) -> int | None:
        due = [d for driven in list(self._driven) if (d := driven.next_due_ms()) is not None]
        return min(due, default=None)

    def _advance_to(self, target_ms: int) -> None:
        run_count = 0
        while True:
            next_ms = self._next_due_ms()
            if next_ms is None or next_ms > target_ms:
                break
            run_count = 0 if next_ms > self._now_ms else run_count + 1
            # Work that leaves its due moment where it is would hold time here for ever.
            assert run_count <= _MAX_RUNS, f"work at {next_ms} stays due: {self._driven}"
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

    def _all_wait(self) -> bool:
        """Return True if every thread that uses the clock waits."""
        alive = {thread.ident: thread for thread in threading.enumerate()}
        self._users.intersection_update(ident for ident in alive if ident is not None)
        with self._looking:
            waits, turn = list(self._waits), self.turn
        own = threading.get_ident()
        is_so = all(
            not wait.is_over()
            and (wait.is_exact or wait.turn == turn)
            and (not wait.of_task or wait.ident == own)
            for wait in waits
        )
        waiting = {wait.ident for wait in waits}
        for ident in tuple(self._users - waiting):
            is_program = not alive[ident].name.startswith((*_SERVANTS, *_CALLERS))
            # All are looked at: a look counts those before it.
            is_so = (not is_program or self._sleeps(ident)) and is_so
        return is_so

    def _sleeps(self, ident: int) -> bool:
        """Return True if a thread sleeps, and has slept at the same place for some looks."""
        place = _place_of_sleep(ident)
        if place is None:
            self._sleepers.pop(ident, None)
            return False
        before, looks = self._sleepers.get(ident, (place, 0))
        looks = looks + 1 if before == place else 1
        self._sleepers[ident] = place, looks
        return looks >= _LOOKS


def check_wait(clock: object, foreign_client_count: int) -> None:
    """Raise RuntimeError where a wait by this thread can never end.

    That is certain under a virtual clock when no other thread runs, when the process has no child
    and no program of another process is connected: nobody can call ``advance`` or put a message.
    Another thread that never does so is not known to be one.
    """
    if isinstance(clock, VirtualClock) and not foreign_client_count and is_alone():
        raise RuntimeError(_WOULD_NOT_END)


def is_alone() -> bool:
    """Return True if no other thread runs a program, and the process has no child."""
    own = threading.get_ident()
    for thread in threading.enumerate():
        if thread.ident == own or thread.ident is None:
            continue
        if thread.name.startswith(_CALLERS) and _place_of_sleep(thread.ident) is not None:
            continue
        if _has_no_work(thread.ident):
            continue
        if thread.name.startswith(_CALLERS) or not thread.name.startswith(_SERVANTS):
            return False
    return not has_children()


def has_children() -> bool:
    """Return True if a process that this one has started runs; False where Linux does not say."""
    for listed in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for child in listed.read_text("ascii").split():
                # One that has ended, and that nobody has asked for, is a zombie.
                status = Path(f"/proc/{child}/stat").read_text("ascii", errors="replace")
                if status.rpartition(")")[2].split()[0] != "Z":
                    return True
    return False


def this_process() -> str:
    """Return a text by which a server and a client find out that they are one process."""
    return f"{_RANDOM}.{os.getpid()}"


_RANDOM = os.urandom(16).hex()


def _place_of_sleep(ident: int) -> tuple[int, int] | None:
    """Return where a thread sleeps until another one wakes it, None while it does not."""
    frame = frames_of_threads().get(ident)
    if frame is None:
        return None
    file, name = frame.f_code.co_filename, frame.f_code.co_name
    sleeps = (file == threading.__file__ and name in _SLEEPING) or (file, name) == _POOL
    return (id(frame), frame.f_lasti) if sleeps else None


def _has_no_work(ident: int) -> bool:
    """Return True for a thread of a pool to which nobody has given work."""
    frame = frames_of_threads().get(ident)
    return frame is not None and (frame.f_code.co_filename, frame.f_code.co_name) == _POOL


def frames_of_threads() -> dict[int, FrameType]:
    """Return where each thread is, by its number.

    The collector is off meanwhile: CPython 3.11 holds a lock there that a thread needs to start,
    and a weak reference that dies would let that thread run (its issue 106883).
    """
    with _LOOKING:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if was_on:
                gc.enable()


#: Looks at frames are one after the other: the collector is on or off for all threads. One that
#: begins may be in a collection that has interrupted another one of its thread.
_LOOKING = threading.RLock()
