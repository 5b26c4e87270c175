"""The turns of verbs: one thread at a time, for all queue managers of one runtime.

Without a trickle a queue manager is used by one thread at a time, and there is nothing to wait for.
A trickle works on a thread of its clock. From the first one on, the verbs of all queue managers of
its runtime take turns, because transmissions and rules lead from one queue manager to another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet

from mayfly.runtime import Runtime


class TakesTurns(Protocol):
    """The way into the verbs of a queue manager, which can be let in one after the other."""

    def take_turns(self) -> None:
        """Let its verbs wait for their turn from now on."""


class _Line:
    """The threads that wait for their turn, by number and in order; the first of them has it.

    The end of a turn lets the next thread in. Were the same thread free to begin another verb
    first, one that calls verbs without a pause would keep all others out.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Begin with nobody. The runtime is not kept: the line ends with it."""
        self.changed = runtime.condition()
        self.threads: deque[int] = deque()
        #: Verbs that the first thread is in: a rule may call one within another.
        self.depth = 0
        self.entrances: WeakSet[TakesTurns] = WeakSet()
        #: Whether a trickle has begun.
        self.is_used = False


#: One for all queue managers that are given none, so that they take turns with each other.
OF_THIS_PROCESS = Runtime()
_lines: WeakKeyDictionary[Runtime, _Line] = WeakKeyDictionary()


class Turns:
    """The line of a runtime, for one queue manager of it."""

    def __init__(self, runtime: Runtime) -> None:
        """Find the line of a runtime, which all its queue managers have in common."""
        line = _lines.get(runtime)
        if line is None:
            line = _lines.setdefault(runtime, _Line(runtime))
        self._thread_id, self._line = runtime.thread_id, line

    def join(self, entrance: TakesTurns) -> None:
        """Let a queue manager take turns with the others of the runtime, as soon as any does."""
        line = self._line
        with line.changed:
            line.entrances.add(entrance)
            if line.is_used:
                entrance.take_turns()

    def is_shared_with(self, other: Turns) -> bool:
        """Return True if both stand in one line: their queue managers have one runtime."""
        return self._line is other._line

    def begin(self) -> None:
        """Let the verbs of all queue managers of the runtime take turns from now on."""
        line = self._line
        with line.changed:
            if not line.is_used:
                line.is_used = True
                for entrance in list(line.entrances):
                    entrance.take_turns()

    def enter(self, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Wait for a turn, and return True; False, without a turn, when something is over.

        The thread that ends it calls :meth:`look_again`.
        """
        line, thread = self._line, self._thread_id()
        with line.changed:
            is_within = bool(line.threads) and line.threads[0] == thread
            if not is_within:
                line.threads.append(thread)
            has_turn = False
            try:
                while line.threads[0] != thread and not is_over():
                    line.changed.wait()
                has_turn = not is_over()
            finally:
                # An interrupt may end the wait as well.
                if not has_turn and not is_within:
                    line.threads.remove(thread)
                    line.changed.notify_all()
            line.depth += has_turn
        return has_turn

    def leave(self) -> None:
        """End a turn; the next thread has its own when this was the outermost verb."""
        line = self._line
        with line.changed:
            line.depth -= 1
            if not line.depth:
                line.threads.popleft()
                line.changed.notify_all()

    def look_again(self) -> None:
        """Wake threads that wait beside something that is over now."""
        with self._line.changed:
            self._line.changed.notify_all()
