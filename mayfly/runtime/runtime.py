"""The runtime of a queue manager: threads, loops, locks, timed waits and random numbers.

``QueueManager("QM1", folder, clock, runtime=runtime)``: the packages of a queue manager take all of
these from its runtime and from nowhere else (``tests/test_tidy.py``). A simulator passes in a
subclass whose threads are steps of one loop and whose random numbers come from a seed. Time is not
part of a runtime: it comes from the clock, which is passed in beside it.
"""

from __future__ import annotations

import _thread
import logging
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from mayfly.lifetime.times import SECOND_MS, Clock, Driven
from mayfly.runtime.files import Files

_LOG = logging.getLogger("mayfly.loops")
#: The first pause between failing turns, which doubles with each failure, and the longest.
_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 1.0


class Lock(Protocol):
    """A lock that any thread may release."""

    def acquire(self, blocking: bool = ...) -> bool:
        """Take the lock, and wait for it unless ``blocking`` is False; return True if taken."""

    def release(self) -> None:
        """Free the lock."""

    def __enter__(self) -> bool:
        """Wait for the lock and take it; the result is always True."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Free the lock."""


class PlainLock(Lock, Protocol):
    """A lock that is not reentrant: its holder cannot take it again."""

    def locked(self) -> bool:
        """Return True while any thread holds the lock."""


class Event(Protocol):
    """A flag that threads wait for, as ``threading.Event``."""

    def is_set(self) -> bool:
        """Return True while the flag is set."""

    def set(self) -> None:
        """Set the flag, and wake all threads that wait for it."""

    def clear(self) -> None:
        """Reset the flag."""

    def wait(self, seconds: float | None = None, /) -> bool:
        """Wait until the flag is set, at most ``seconds`` (None: for ever).

        Returns True if it is set, False when the time was over.
        """


class Signal(Protocol):
    """A flag that is set at most once, and that one thread waits for."""

    def is_set(self) -> bool:
        """Return True once the signal was set."""

    def set(self) -> None:
        """Set the signal, and wake the thread that waits; an interrupted call may be repeated."""

    def wait(self) -> object:
        """Wait until the signal is set, without a limit of time; the result has no meaning."""


class Condition(Protocol):
    """A lock, and a queue of threads that wait for a notification, as ``threading.Condition``."""

    def __enter__(self) -> bool:
        """Wait for the lock and take it; the result is always True."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Free the lock."""

    def wait(self, seconds: float | None = None, /) -> bool:
        """Free the lock until a notification or the end of ``seconds``, then take it again.

        Returns True after a notification, False when the time was over. None waits without a limit.
        """

    def notify_all(self) -> None:
        """Wake all threads that wait; the caller holds the lock."""


class Thread(Protocol):
    """A thread that calls one function and ends; it is started once."""

    @property
    def ident(self) -> int | None:
        """The number that :meth:`Runtime.thread_id` returns on it; None before the start."""

    def start(self) -> None:
        """Start the thread; raises RuntimeError when the machine cannot make another thread."""

    def join(self, seconds: float | None = None, /) -> None:
        """Wait until the thread has ended, at most ``seconds`` (None: without a limit)."""

    def is_alive(self) -> bool:
        """Return True from the start of the thread to its end."""


class EngineLock(_thread.RLock):  # type: ignore[misc]  # final in typeshed, not in CPython
    """A reentrant lock with one condition, which is notified when something that it guards changes.

    It is a subclass of the interpreter's own lock so that taking it costs nothing more: the
    shortest put takes 80 µs. All queue managers of a queue-sharing group share one lock.
    """

    def __init__(self) -> None:
        """Create a lock that no thread holds."""
        super().__init__()
        self._settled = threading.Condition(self)
        self._waiting_count = 0

    if TYPE_CHECKING:

        def is_held(self) -> bool:
            """Return True if the calling thread holds the lock: for assertions."""

    else:
        # One call of C, which threading.Condition itself relies on.
        is_held = _thread.RLock._is_owned

    def wait_while(self, is_so: Callable[[], object]) -> None:
        """Wait until ``is_so`` returns a false value; the lock is free during the wait.

        The caller holds the lock. ``is_so`` is called at once, and again after each
        :meth:`notify_all`.
        """
        while is_so():
            self._waiting_count += 1
            try:
                self._settled.wait()
            finally:
                self._waiting_count -= 1

    def notify_all(self) -> None:
        """Wake all threads in :meth:`wait_while` to check again; the caller holds the lock."""
        if self._waiting_count:
            self._settled.notify_all()


class MachineSignal:
    """A :class:`Signal` made of one lock of the interpreter; ``threading.Event`` needs two.

    Each commit makes and sets a signal, which takes 1 µs; an Event would take 9 µs.
    """

    __slots__ = ("_is_set", "_pending")

    def __init__(self) -> None:
        """Create a signal that is not set."""
        self._is_set = False
        self._pending = _thread.allocate_lock()
        self._pending.acquire()

    def is_set(self) -> bool:
        """Return True once the signal was set."""
        return self._is_set

    def set(self) -> None:
        """Set the signal, and wake the thread that waits; an interrupted call may be repeated."""
        self._is_set = True
        if self._pending.locked():
            self._pending.release()

    def wait(self) -> None:
        """Wait until the signal is set, without a limit; an interrupted wait may be repeated."""
        # Interrupted when it had the lock, a repeated wait finds the flag.
        if not self._is_set:
            self._pending.acquire()


class Runtime:
    """The threads, locks, random numbers and files of the machine; a subclass may replace them."""

    #: Makes an event.
    event: Callable[[], Event] = threading.Event
    #: Makes a signal. A commit makes one: as an attribute it costs no call of its own.
    signal: Callable[[], Signal] = MachineSignal

    def __init__(self, *, vfs: str | None = None, files: Files | None = None) -> None:
        """Set the SQLite VFS and the files under a store; None means the machine's.

        ``vfs`` is the name under which a virtual file system of SQLite is registered. SQLite's
        checksums use it as well, so that a process can have only one. ``files`` must be on the same
        file system.
        """
        self.vfs = vfs
        self.files = Files() if files is None else files
        #: Loops that were started and not stopped by their owners.
        self._loops: set[Loop] = set()

    def lock(self, _name: str) -> PlainLock:
        """Return a new lock that is not reentrant.

        Locks with one name guard the same thing in different objects. Only a test of the locking
        order uses the name.
        """
        return threading.Lock()

    def reentrant_lock(self, _name: str) -> Lock:
        """Return a new lock that its holder may take again; the name is as in :meth:`lock`."""
        return threading.RLock()

    def engine_lock(self) -> EngineLock:
        """Return a new lock for an engine."""
        return EngineLock()

    def condition(self) -> Condition:
        """Return a new condition that has its own lock."""
        return threading.Condition()

    def thread(self, work: Callable[[], None], name: str) -> Thread:
        """Return a daemon thread, not started yet, that calls ``work`` once.

        The process does not wait for its end.
        """
        return threading.Thread(target=work, name=name, daemon=True)

    def dead_loops(self) -> list[str]:
        """Return the sorted names of loops whose thread has ended without being stopped."""
        return sorted({loop.name for loop in tuple(self._loops) if loop.is_dead})

    def add_loop(self, loop: Loop) -> None:
        """Register a loop that is about to start, for :meth:`dead_loops`."""
        self._loops.add(loop)

    def remove_loop(self, loop: Loop) -> None:
        """Unregister a loop that was stopped or never started; an unknown loop is no error."""
        self._loops.discard(loop)

    def thread_id(self) -> int:
        """Return the id of the calling thread, for comparison with :attr:`Thread.ident`."""
        return threading.get_ident()

    def random_bytes(self, count: int) -> bytes:
        """Return ``count`` bytes of cryptographic randomness."""
        return os.urandom(count)


class Loop:
    """A thread that calls ``turn`` until that returns False, and survives errors of a turn.

    Otherwise an error would silently end a thread and all its work: answers, heartbeats, due work.
    An error of a turn is logged, and the next turn follows. While turns keep failing, the pause
    between them grows from 1 ms to one second, and the same error is logged once. The runtime keeps
    a list of running loops: :meth:`Runtime.dead_loops` names those that have ended without being
    stopped.
    """

    def __init__(
        self, runtime: Runtime, turn: Callable[[], bool], name: str, *, survives_errors: bool = True
    ) -> None:
        """Create the loop with its thread name; :meth:`start` starts it.

        The thread calls ``turn`` again and again until the result is False. An error of ``turn`` is
        logged, and the next call follows after a pause. With ``survives_errors`` False the first
        error ends the loop, which is dead then.
        """
        self.name = name
        self._runtime, self._turn, self._survives_errors = runtime, turn, survives_errors
        self._worker = runtime.thread(self._run, name)
        #: How many turns have failed since the last one that succeeded.
        self._failure_count = 0
        self._last_error = ""
        self._has_begun = self._is_ending = False

    @property
    def ident(self) -> int | None:
        """The id of its thread; None before the start."""
        return self._worker.ident

    def start(self) -> None:
        """Start the thread; raises RuntimeError when the machine cannot make another thread."""
        self._runtime.add_loop(self)
        try:
            self._worker.start()
        except BaseException:
            self._runtime.remove_loop(self)
            raise

    def join(self, seconds: float | None = None) -> None:
        """Wait until the thread has ended, at most ``seconds`` (None: without a limit).

        The owner must make ``turn`` return False first. :meth:`Runtime.dead_loops` does not name
        the loop afterwards.
        """
        self._is_ending = True
        self._worker.join(seconds)
        self._runtime.remove_loop(self)

    def is_alive(self) -> bool:
        """Return True from the start of the thread to its end."""
        return self._worker.is_alive()

    @property
    def is_dead(self) -> bool:
        """Whether the thread was started and has ended, for example by an error of a turn."""
        return self._has_begun and not self._worker.is_alive()

    def _run(self) -> None:
        """Call ``turn`` until it returns False; the function that the thread runs.

        An error is logged, and ends the loop only while it is being joined or must not survive
        errors.
        """
        self._has_begun = True
        while True:
            try:
                if not self._turn():
                    break
            except BaseException as error:  # noqa: BLE001 - an item must not end it for the others
                self._note(error)
                if not self._survives_errors:
                    return
                if self._is_ending:
                    break
                self._pause()
            else:
                self._failure_count, self._last_error = 0, ""
        self._runtime.remove_loop(self)

    def _note(self, error: BaseException) -> None:
        """Log an error of a turn, unless the previous turn failed with the same error."""
        text = repr(error)
        if text != self._last_error:
            self._last_error = text
            what = "goes on after" if self._survives_errors else "has ended with"
            _LOG.error("%s %s an error: %s", self.name, what, text, exc_info=error)

    def _pause(self) -> None:
        """Wait between failing turns: first 0, then 1 ms, doubling to one second."""
        if self._failure_count:
            pause = _FIRST_PAUSE_SECONDS * 2 ** min(self._failure_count - 1, 20)
            self._runtime.event().wait(min(pause, _LONGEST_PAUSE_SECONDS))
        self._failure_count += 1


class Driver:
    """The thread in which a clock runs the due work of one owner, such as a queue manager."""

    #: A step of the wall clock is noticed within this time.
    LONGEST_SLEEP_SECONDS = 1.0

    def __init__(self, clock: Clock, driven: Driven, runtime: Runtime) -> None:
        """Start the thread that calls ``driven.run_due`` whenever work is due.

        An error of ``run_due`` is logged, and the thread goes on.
        """
        self._clock = clock
        self._driven = driven
        self._runtime = runtime
        self._condition = self._runtime.condition()
        self._woken = False
        self._stopped = False
        self._loop = Loop(self._runtime, self._turn, "mayfly-due")
        self._loop.start()

    def wake(self) -> None:
        """Wake the thread, which asks ``driven.next_due_ms`` again."""
        with self._condition:
            self._woken = True
            self._condition.notify_all()

    def stop(self) -> None:
        """Stop the thread, and wait until a run under way has finished.

        Called by the thread itself, it does not wait. A second call does nothing.
        """
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
        if self._loop.ident != self._runtime.thread_id():
            self._loop.join()

    def _turn(self) -> bool:
        """Sleep until work is due, for one second at most, and run the due work.

        Returns False after :meth:`stop`, else True.
        """
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
        """Return how long to sleep until ``due_ms`` (epoch ms): 0 to 1 s, and 1 s for None.

        A step of the wall clock may bring that time nearer, hence the limit.
        """
        if due_ms is None:
            return self.LONGEST_SLEEP_SECONDS
        ahead = (due_ms - self._clock.now_ms()) / SECOND_MS
        return min(max(ahead, 0.0), self.LONGEST_SLEEP_SECONDS)
