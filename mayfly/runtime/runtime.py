"""Threads, loops, locks, timed waits and random numbers of the machine, handed to a queue manager.

``QueueManager("QM1", folder, clock, runtime=runtime)``: packages that stand on a queue manager take
all of these from its runtime and from nowhere else (``tests/test_tidy.py``). A simulator
hands in a subclass whose threads are steps of one loop and whose random numbers come from a seed.
Time is not part of it: that is the clock's, which the simulator hands in beside it.
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
#: Turns that fail one after the other are this far apart at least, then twice as far each time.
_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 1.0


class Lock(Protocol):
    """A lock that any thread may release."""

    def acquire(self, blocking: bool = ...) -> bool:
        """Take it; False when it is taken and that was not to be waited for."""

    def release(self) -> None:
        """Free it."""

    def __enter__(self) -> bool:
        """Take it."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Free it."""


class PlainLock(Lock, Protocol):
    """A lock that is not reentrant."""

    def locked(self) -> bool:
        """Return True while somebody holds it."""


class Event(Protocol):
    """A flag that threads wait for."""

    def is_set(self) -> bool:
        """Return True once it is set."""

    def set(self) -> None:
        """Set it, and wake all that wait for it."""

    def clear(self) -> None:
        """Take it back."""

    def wait(self, seconds: float | None = None, /) -> bool:
        """Wait until it is set, or so many seconds; return whether it is set."""


class Signal(Protocol):
    """Something that one thread waits for, and that happens once."""

    def is_set(self) -> bool:
        """Return True once it is set."""

    def set(self) -> None:
        """Set it, and wake the thread that waits for it; interrupted, it may be set again."""

    def wait(self) -> object:
        """Wait until it is set."""


class Condition(Protocol):
    """Threads wait under a lock until another one tells them to look again."""

    def __enter__(self) -> bool:
        """Take the lock."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Free the lock."""

    def wait(self, seconds: float | None = None, /) -> bool:
        """Wait for a notification, or so many seconds, with the lock free meanwhile."""

    def notify_all(self) -> None:
        """Wake all that wait."""


class Thread(Protocol):
    """A thread that does one piece of work, started once."""

    @property
    def ident(self) -> int | None:
        """Its own :meth:`Runtime.thread_id`; None before it is started."""

    def start(self) -> None:
        """Begin; raises RuntimeError when the machine has no thread left."""

    def join(self, seconds: float | None = None, /) -> None:
        """Wait until it has ended, or so many seconds."""

    def is_alive(self) -> bool:
        """Return True from its start to its end."""


class EngineLock(_thread.RLock):  # type: ignore[misc]  # final in typeshed, not in CPython
    """A reentrant lock with one condition: something that it guards has been settled.

    A subclass of the interpreter's own lock, because taking it must cost nothing more: the shortest
    put takes 80 µs. Queue managers of one queue-sharing group have one lock.
    """

    def __init__(self) -> None:
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
        """Wait until something is not so any more; call it with the lock held.

        The lock is free meanwhile. The thread that changes the condition calls :meth:`tell`.
        """
        while is_so():
            self._waiting_count += 1
            try:
                self._settled.wait()
            finally:
                self._waiting_count -= 1

    def tell(self) -> None:
        """Let all that wait look again; call it with the lock held."""
        if self._waiting_count:
            self._settled.notify_all()


class MachineSignal:
    """A signal of the machine: one lock of the interpreter, where an Event is two with a condition.

    A commit makes and sets one, which takes 1 µs instead of 9.
    """

    __slots__ = ("_is_set", "_pending")

    def __init__(self) -> None:
        """Begin with a lock that :meth:`set` frees."""
        self._is_set = False
        self._pending = _thread.allocate_lock()
        self._pending.acquire()

    def is_set(self) -> bool:
        """Return True once it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake the thread that waits for it; interrupted, it may be set again."""
        self._is_set = True
        if self._pending.locked():
            self._pending.release()

    def wait(self) -> None:
        """Wait until it is set; interrupted, the wait may be begun again."""
        # Interrupted once the lock was taken, it finds the flag.
        if not self._is_set:
            self._pending.acquire()


class Runtime:
    """The machine as it is; a subclass may be another one."""

    #: Makes an event.
    event: Callable[[], Event] = threading.Event
    #: Makes a signal. A commit makes one: as an attribute it costs no call of its own.
    signal: Callable[[], Signal] = MachineSignal

    def __init__(self, *, vfs: str | None = None, files: Files | None = None) -> None:
        """Take the file system under SQLite by the name that it is registered with; None: default.

        SQLite's checksums lie over it, and over one file system in a process. ``files`` are those
        that a store touches by itself, on the same file system.
        """
        self.vfs = vfs
        self.files = Files() if files is None else files
        #: Loops that were started and have not ended as they were told to.
        self._loops: set[Loop] = set()

    def lock(self, _name: str) -> PlainLock:
        """Return a new lock; locks of one name guard the same thing in different objects."""
        return threading.Lock()

    def reentrant_lock(self, _name: str) -> Lock:
        """Return a new lock that its holder may take again."""
        return threading.RLock()

    def engine_lock(self) -> EngineLock:
        """Return the lock of a new engine."""
        return EngineLock()

    def condition(self) -> Condition:
        """Return a new condition with a lock of its own."""
        return threading.Condition()

    def thread(self, work: Callable[[], None], name: str) -> Thread:
        """Return a thread that will do some work; the end of the process does not wait for it."""
        return threading.Thread(target=work, name=name, daemon=True)

    def gone(self) -> list[str]:
        """Return the names of loops whose thread is not there, though nobody has told it to end."""
        return sorted({loop.name for loop in tuple(self._loops) if loop.is_gone})

    def note_begun(self, loop: Loop) -> None:
        """Watch a loop that is about to begin."""
        self._loops.add(loop)

    def note_ended(self, loop: Loop) -> None:
        """Watch a loop no more: it has ended as it was told to."""
        self._loops.discard(loop)

    def thread_id(self) -> int:
        """Return the number of the running thread, which other threads compare with."""
        return threading.get_ident()

    def random_bytes(self, count: int) -> bytes:
        """Return bytes that nobody can guess."""
        return os.urandom(count)


class Loop:
    """A thread that calls ``turn`` until that returns False, and survives what a turn raises.

    Nobody would miss a thread that an error has ended, nor its work: answers, heartbeats, due work.
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
        """Start the thread for one queue manager."""
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
