"""A runtime whose threads are steps of one loop: one runs at a time, and a seed decides which.

A thread that waits gives its turn away; a thread that takes a lock may lose its turn. Two runs of
one seed are the same, byte for byte.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from random import Random
from types import TracebackType

from mayfly.runtime import EngineLock, Runtime


class Loop:
    """Gives the threads of a program turns, by random numbers from a seed."""

    def __init__(self, seed: int) -> None:
        """The calling thread is number 0, and has the first turn."""
        self.random = Random(seed)
        self.turn = 0
        self.switch_count = 0
        self._batons = [threading.Semaphore(0)]
        #: Threads that wait for a turn, each with the condition that it waits for.
        self._waiting: dict[int, Callable[[], bool]] = {}

    def add(self) -> int:
        """Return the number of a new thread, which waits for its first turn."""
        self._batons.append(threading.Semaphore(0))
        number = len(self._batons) - 1
        self._waiting[number] = lambda: True
        return number

    def begin(self, number: int) -> None:
        """Wait for the first turn of a thread."""
        self._batons[number].acquire()

    def end(self) -> None:
        """Give the last turn away."""
        self._pass_on()

    def give_way(self, until: Callable[[], bool] = lambda: True) -> None:
        """Let another thread have a turn, or this one again; return when something is so."""
        number = self.turn
        self._waiting[number] = until
        if self._pass_on() != number:
            self._batons[number].acquire()

    def _pass_on(self) -> int:
        ready = [number for number in sorted(self._waiting) if self._waiting[number]()]
        assert ready, f"nobody can go on: {sorted(self._waiting)}"
        before, chosen = self.turn, self.random.choice(ready)
        self.turn = chosen
        del self._waiting[chosen]
        if chosen != before:
            self.switch_count += 1
            # From here on the chosen thread runs, and may give the turn away again.
            self._batons[chosen].release()
        return chosen


class StepLock:
    """A lock that its holder may take again if it is reentrant."""

    def __init__(self, loop: Loop, *, is_reentrant: bool) -> None:
        self._loop, self._is_reentrant = loop, is_reentrant
        self._owner: int | None = None
        self._depth = 0

    def acquire(self, blocking: bool = True) -> bool:
        loop = self._loop
        if not (self._is_reentrant and self._owner == loop.turn):
            loop.give_way()
            if self._owner is not None:
                if not blocking:
                    return False
                loop.give_way(lambda: self._owner is None)
        self._owner = loop.turn
        self._depth += 1
        return True

    def release(self) -> None:
        assert self._owner is not None
        self._depth -= 1
        if not self._depth:
            self._owner = None

    def locked(self) -> bool:
        return self._owner is not None

    def is_held(self) -> bool:
        return self._owner == self._loop.turn

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Free the lock, however often it was taken, until something is so."""
        assert self.is_held()
        depth, self._depth, self._owner = self._depth, 0, None
        self._loop.give_way(lambda: self._owner is None and is_so())
        self._depth, self._owner = depth, self._loop.turn

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class StepEngineLock(EngineLock):  # type: ignore[misc]  # final in typeshed alone
    """The lock of an engine, checked: a thread that waits or tells must hold it."""

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._lock = StepLock(loop, is_reentrant=True)
        self._told_count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return self._lock.acquire(blocking)

    def release(self) -> None:
        assert self.is_held(), "freed by a thread that does not hold it"
        self._lock.release()

    def is_held(self) -> bool:
        return self._lock.is_held()

    def wait_while(self, is_so: Callable[[], object]) -> None:
        assert self.is_held()
        while is_so():
            told_count = self._told_count
            self._lock.wait_for(partial(self._is_told_since, told_count))

    def _is_told_since(self, told_count: int) -> bool:
        return self._told_count != told_count

    def tell(self) -> None:
        assert self.is_held()
        self._told_count += 1

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()


class StepEvent:
    """A flag; a wait of so many seconds ends at its next turn, or later."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, seconds: float | None = None, /) -> bool:
        self._loop.give_way(self.is_set if seconds is None else lambda: True)
        return self._is_set


class StepCondition(AbstractContextManager[bool]):
    """A condition with a lock of its own."""

    def __init__(self, loop: Loop) -> None:
        self._lock = StepLock(loop, is_reentrant=True)
        self._told_count = 0

    def wait(self, seconds: float | None = None, /) -> bool:
        told_count = self._told_count
        self._lock.wait_for(lambda: seconds is not None or self._told_count != told_count)
        return self._told_count != told_count

    def notify_all(self) -> None:
        assert self._lock.is_held()
        self._told_count += 1

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class StepThread:
    """A thread that runs while it has the turn."""

    def __init__(self, loop: Loop, work: Callable[[], None], name: str) -> None:
        self._loop, self._work = loop, work
        self._number: int | None = None
        self._has_ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def ident(self) -> int | None:
        return self._number

    def start(self) -> None:
        self._number = self._loop.add()
        self._thread.start()

    def join(self, _seconds: float | None = None, /) -> None:
        self._loop.give_way(lambda: self._has_ended)

    def is_alive(self) -> bool:
        return self._number is not None and not self._has_ended

    def _run(self) -> None:
        assert self._number is not None
        self._loop.begin(self._number)
        try:
            self._work()
        finally:
            self._has_ended = True
            self._loop.end()


class StepRuntime(Runtime):
    """Threads, locks and random numbers of a loop."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.loop = Loop(seed)
        self.event = self.signal = lambda: StepEvent(self.loop)

    def lock(self, _name: str) -> StepLock:
        return StepLock(self.loop, is_reentrant=False)

    def reentrant_lock(self, _name: str) -> StepLock:
        return StepLock(self.loop, is_reentrant=True)

    def engine_lock(self) -> StepEngineLock:
        return StepEngineLock(self.loop)

    def condition(self) -> StepCondition:
        return StepCondition(self.loop)

    def thread(self, work: Callable[[], None], name: str) -> StepThread:
        return StepThread(self.loop, work, name)

    def thread_id(self) -> int:
        return self.loop.turn

    def random_bytes(self, count: int) -> bytes:
        return self.loop.random.randbytes(count)
