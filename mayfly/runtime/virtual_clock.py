"""The virtual clock: a clock that moves only on command, from due time to due time."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import thread as pool
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import FrameType

from mayfly.lifetime.times import Driven, ms_of_duration
from mayfly.runtime.runtime import Runtime

_START_MS = 1_700_000_000_000
#: More runs at one moment mean that work stays due for ever; one run releases 2,000 messages.
_MAX_RUNS = 50_000
#: How the names of Mayfly's own threads begin that neither put messages nor move a clock, except
#: for a program that waits for them.
_INTERNAL = (
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
#: Threads that call functions of programs: while it sleeps, such a thread counts as internal.
_CALLBACKS = ("mayfly-background", "mayfly-wire-call")
#: The functions of ``threading`` in which a thread sleeps until another one wakes it.
_SLEEPING = frozenset({"join", "wait", "_wait_for_tstate_lock"})
#: Where a thread of a ThreadPoolExecutor waits for work.
_POOL = pool.__file__, "_worker"
#: Looks at a thread that sleeps in one of them until it counts as waiting: one whose ``join`` is
#: over is still there.
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
    """One wait of a thread for something, under a virtual clock with ``autojump``."""

    def __init__(self, is_over: Callable[[], bool], *, is_exact: bool, of_task: bool) -> None:
        """Describe a wait of the calling thread, which lasts until ``is_over`` returns True.

        With ``is_exact`` the result of ``is_over`` is always up to date. Otherwise the waiting
        thread must update it after each change of ``VirtualClock.turn``, a number that grows when
        the time moves, when a wait begins or ends, and when :meth:`VirtualClock.note_change` is
        called. With ``of_task`` the thread runs other asyncio tasks during the wait: only that
        thread can know whether all of them wait.
        """
        self.ident, self.is_over, self.is_exact = threading.get_ident(), is_over, is_exact
        self.of_task = of_task
        #: The turn of the clock in which its thread has last brought ``is_over`` up to date.
        self.turn = -1


class VirtualClock:
    """Time under the control of a program, for tests, demonstrations and simulation.

    It drives any number of queue managers. :meth:`advance` runs all work that falls due on the way,
    in the calling thread and at the exact time: releases, expiry scans, and the decision whether a
    waiting get has its message or its timeout. It does not wait for application code: a thread that
    has returned from a wait starts its next one at the time that it then reads.

    With ``autojump`` no program has to call ``advance``: when every thread that uses the clock
    waits, the clock moves to the next due time. A thread uses the clock once it has called a verb
    of a queue manager of the clock, or of a client whose server is in this process. A thread waits
    in a get, or where another thread wakes it: ``Thread.join``, ``Event.wait``, ``Future.result``.
    """

    def __init__(
        self,
        start_ms: int = _START_MS,
        *,
        autojump: bool = False,
        runtime: Runtime | None = None,
    ) -> None:
        """Create a clock at ``start_ms`` (ms since 1970), which stays there until it is advanced.

        With ``autojump`` the clock also moves by itself, to the next due time, whenever every
        thread that uses it waits. ``runtime`` creates its locks; None means the machine's.
        """
        self._runtime = Runtime() if runtime is None else runtime
        self._now_ms = start_ms
        self.driven: list[Driven] = []
        self._advancing = self._runtime.lock("advance")
        #: Held while something due runs, so that detach can wait for it.
        self._running = self._runtime.reentrant_lock("clock")
        self._advancer: int | None = None
        self.autojump = autojump
        #: The threads that use the clock, by number, and the waits of those that wait.
        self._users: set[int] = set()
        self._waits: list[ClockWait] = []
        #: Counts changes of waits and of time: a wait that is not exact is checked in each turn.
        self.turn = 0
        #: Threads that sleep elsewhere: the place in the program, and in how many looks.
        self._sleepers: dict[int, tuple[tuple[int, int], int]] = {}
        self._looking = self._runtime.condition()

    def now_ms(self) -> int:
        """Return the virtual time: ms since 1970, UTC; with ``autojump``, also note the use."""
        if self.autojump:
            self.note_use()
        return self._now_ms

    def note_use(self) -> None:
        """Note that the calling thread uses the clock.

        With ``autojump``, the clock then moves by itself only while this thread waits.
        """
        self._users.add(threading.get_ident())

    def advance(self, ms: int | timedelta) -> None:
        """Move time on by ``ms``, and run everything that is due up to and at the new moment.

        ``ms`` may be a timedelta. Waits until an advance of another thread is done. Raises
        ValueError for a negative ``ms``, and RuntimeError when it is called by work that an advance
        runs.
        """
        ms = ms_of_duration(ms)
        if ms < 0:
            raise ValueError(f"ms {ms}: time does not go back")
        if self._advancer == self._runtime.thread_id():
            raise RuntimeError("advance() inside of what an advance runs")
        with self._advancing:
            self._advance(self._now_ms + ms)
        # A wake that came during the end of this advance has left its work to it.
        for driven in list(self.driven):
            self.wake(driven)

    def begin_wait(
        self, is_over: Callable[[], bool], *, is_exact: bool = False, of_task: bool = False
    ) -> ClockWait:
        """Register a wait of the calling thread, and return it for :meth:`end_wait`; do not block.

        The wait is over when ``is_over`` returns True. The parameters are those of
        :class:`ClockWait`.
        """
        self.note_use()
        wait = ClockWait(is_over, is_exact=is_exact, of_task=of_task)
        with self._looking:
            self._waits.append(wait)
            self.turn += 1
        return wait

    def end_wait(self, wait: ClockWait) -> None:
        """Remove a wait registered by :meth:`begin_wait`; raises ValueError if it is not there."""
        with self._looking:
            self._waits.remove(wait)
            self.turn += 1

    def note_change(self) -> None:
        """Tell waiting threads that the result of a wait may have changed.

        It increases ``turn``, a number by which a waiting thread sees that it must check its wait
        again.
        """
        with self._looking:
            self.turn += 1

    def wait_until(
        self, is_over: Callable[[], bool], refresh: Callable[[], object] | None = None
    ) -> None:
        """Wait until ``is_over`` returns True.

        While every thread that uses the clock waits, the clock jumps to the next due time.
        ``refresh`` updates the result of ``is_over``; None if the result is always up to date.
        Raises RuntimeError when no more work is due and no other thread can end the wait.
        """
        wait = self.begin_wait(is_over, is_exact=refresh is None)
        try:
            while not is_over():
                if refresh is not None and wait.turn != self.turn:
                    turn = self.turn
                    refresh()
                    wait.turn = turn
                elif not self.jump():
                    self.pause()
        finally:
            self.end_wait(wait)

    def jump(self) -> bool:
        """Move to the next due time if every thread using the clock waits; return True if moved.

        Returns False also while another thread moves the clock. Raises RuntimeError when no work is
        due any more, and no child process could end the waits.
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
        """Let other threads run, for 2 ms of the machine's time at most."""
        with self._looking:
            self._looking.wait(_LOOK_SECONDS)

    def attach(self, driven: Driven) -> None:
        """Begin to run the due work of ``driven``, such as a queue manager, at each advance."""
        self.driven.append(driven)

    def detach(self, driven: Driven) -> None:
        """Stop running the due work of ``driven``; on return no other thread runs that work.

        Does nothing more when it is not attached.
        """
        if driven in self.driven:
            self.driven.remove(driven)
        with self._running:
            pass

    def wake(self, driven: Driven) -> None:
        """Run the work of ``driven`` that is due now, in the calling thread.

        Does nothing while an advance is running, which then does that work, or when no work is due.
        """
        due_ms = driven.next_due_ms()
        if due_ms is not None and due_ms <= self._now_ms and self._advancer is None:
            self._run(driven)

    def _advance(self, target_ms: int) -> None:
        """Move time to ``target_ms``, running due work; the caller holds the advance lock.

        The calling thread is recorded as the one that advances.
        """
        self._advancer = self._runtime.thread_id()
        try:
            self._advance_to(target_ms)
        finally:
            self._advancer = None
            with self._looking:
                self.turn += 1

    def _next_due_ms(self) -> int | None:
        """Return the earliest due time of all that are attached, in epoch ms; None for none."""
        due = [d for driven in list(self.driven) if (d := driven.next_due_ms()) is not None]
        return min(due, default=None)

    def _advance_to(self, target_ms: int) -> None:
        """Move from due time to due time up to ``target_ms``, running the due work at each.

        Raises AssertionError for work that stays due for ever.
        """
        run_count = 0
        while True:
            next_ms = self._next_due_ms()
            if next_ms is None or next_ms > target_ms:
                break
            run_count = 0 if next_ms > self._now_ms else run_count + 1
            # Work that does not move its due moment would stop time here for ever.
            assert run_count <= _MAX_RUNS, f"work at {next_ms} stays due: {self.driven}"
            self._now_ms = max(self._now_ms, next_ms)
            for driven in list(self.driven):
                at_ms = driven.next_due_ms()
                if at_ms is not None and at_ms <= self._now_ms:
                    self._run(driven)
        self._now_ms = target_ms

    def _run(self, driven: Driven) -> None:
        """Run the due work of ``driven``, unless it has been detached."""
        with self._running:
            if driven in self.driven:
                driven.run_due()

    def _all_wait(self) -> bool:
        """Return True if every thread that uses the clock waits and no wait is over.

        Threads that have ended are forgotten.
        """
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
            is_program = not alive[ident].name.startswith((*_INTERNAL, *_CALLBACKS))
            # Each thread is looked at in each round, because its looks are counted.
            is_so = (not is_program or self._sleeps(ident)) and is_so
        return is_so

    def _sleeps(self, ident: int) -> bool:
        """Return True if a thread sleeps at the same place for the third look in a row.

        ``ident`` is the thread's id. Each call is one look.
        """
        place = _place_of_sleep(ident)
        if place is None:
            self._sleepers.pop(ident, None)
            return False
        before, looks = self._sleepers.get(ident, (place, 0))
        looks = looks + 1 if before == place else 1
        self._sleepers[ident] = place, looks
        return looks >= _LOOKS


def check_wait(clock: object, foreign_client_count: int) -> None:
    """Raise RuntimeError when a wait by this thread can certainly never end.

    That is so under a virtual clock when no other thread runs a program, the process has no child,
    and ``foreign_client_count``, the number of connected clients of other processes, is 0: then
    ``advance`` is never called and no message is put. Other clocks pass the check.
    """
    if isinstance(clock, VirtualClock) and not foreign_client_count and is_alone():
        raise RuntimeError(_WOULD_NOT_END)


def is_alone() -> bool:
    """Return True if no other thread runs a program, and this process has no running child."""
    own = threading.get_ident()
    for thread in threading.enumerate():
        if thread.ident == own or thread.ident is None:
            continue
        if thread.name.startswith(_CALLBACKS) and _place_of_sleep(thread.ident) is not None:
            continue
        if _has_no_work(thread.ident):
            continue
        if thread.name.startswith(_CALLBACKS) or not thread.name.startswith(_INTERNAL):
            return False
    return not has_children()


def has_children() -> bool:
    """Return True if this process has a running child; False on systems without ``/proc``."""
    for listed in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for child in listed.read_text("ascii").split():
                # A child that has ended, and that nobody has waited for, is a zombie.
                status = Path(f"/proc/{child}/stat").read_text("ascii", errors="replace")
                if status.rpartition(")")[2].split()[0] != "Z":
                    return True
    return False


def this_process() -> str:
    """Return a text unique to this process; a client compares it with the server's."""
    return f"{_RANDOM}.{os.getpid()}"


_RANDOM = os.urandom(16).hex()


def _place_of_sleep(ident: int) -> tuple[int, int] | None:
    """Return where a thread waits for another thread, as (frame id, instruction).

    None while it does not wait, was woken and has not run since, or has ended.
    """
    frame = frames_of_threads().get(ident)
    if frame is None:
        return None
    file, name = frame.f_code.co_filename, frame.f_code.co_name
    sleeps = (file == threading.__file__ and name in _SLEEPING) or (file, name) == _POOL
    return (id(frame), frame.f_lasti) if sleeps and not _is_woken(frame) else None


def _is_woken(frame: FrameType) -> bool:
    """Return True if a thread in ``Condition.wait`` was notified; False in any other frame.

    On a busy machine it may take a while until such a thread runs. Events and futures wait there.
    """
    names = frame.f_locals
    condition, waiter = names.get("self"), names.get("waiter")
    # A notification takes the lock of the thread off the list; Python has no public way to ask.
    waiting = getattr(condition, "_waiters", None)
    return waiter is not None and waiting is not None and waiter not in tuple(waiting)


def _has_no_work(ident: int) -> bool:
    """Return True for a ThreadPoolExecutor's thread that waits for work."""
    frame = frames_of_threads().get(ident)
    return frame is not None and (frame.f_code.co_filename, frame.f_code.co_name) == _POOL


def frames_of_threads() -> dict[int, FrameType]:
    """Return the current frame of each thread, by thread id.

    The garbage collector is off meanwhile. CPython 3.11 holds a lock here that a starting thread
    needs, and the death of a weak reference would let that thread run (CPython issue 106883).
    """
    with _LOOKING:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if was_on:
                gc.enable()


#: One thread at a time reads frames: the collector is on or off for all threads. Reentrant,
#: because a collection may interrupt a thread that reads them.
_LOOKING = threading.RLock()
