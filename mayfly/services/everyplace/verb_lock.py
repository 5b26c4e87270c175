"""The way into the verbs of a queue manager: each passes a gate, and may wait for its turn.

Without a trickle a queue manager is used by one thread at a time, and there is nothing to wait for.
A trickle works on a thread of its clock. From the first one on, the verbs of all queue managers of
its runtime take turns, because transmissions and rules lead from one queue manager to another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from mayfly.runtime import Runtime
from mayfly.services.everyplace.journal import Closed, Journal


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
        self.entrances: WeakSet[Entrance] = WeakSet()
        #: Whether a trickle has begun.
        self.is_used = False


#: One for all queue managers that are given none, so that they take turns with each other.
OF_THIS_PROCESS = Runtime()
_lines: WeakKeyDictionary[Runtime, _Line] = WeakKeyDictionary()


class VerbLock:
    """The line of a runtime, for one queue manager of it."""

    def __init__(self, runtime: Runtime) -> None:
        """Find the line of a runtime, which all its queue managers have in common."""
        line = _lines.get(runtime)
        if line is None:
            line = _lines.setdefault(runtime, _Line(runtime))
        self._thread_id, self._line = runtime.thread_id, line

    def join(self, entrance: Entrance) -> None:
        """Let a queue manager take turns with the others of the runtime, as soon as any does."""
        line = self._line
        with line.changed:
            line.entrances.add(entrance)
            if line.is_used:
                entrance.lock_verbs()

    def is_shared_with(self, other: VerbLock) -> bool:
        """Return True if both stand in one line: their queue managers have one runtime."""
        return self._line is other._line

    def begin(self) -> None:
        """Let the verbs of all queue managers of the runtime take turns from now on."""
        line = self._line
        with line.changed:
            if not line.is_used:
                line.is_used = True
                for entrance in list(line.entrances):
                    entrance.lock_verbs()

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


P = ParamSpec("P")
R = TypeVar("R")
#: Entered by each verb: a journal makes it a transaction, Closed refuses it.
Gate: TypeAlias = Journal | Closed | None

_verbs: list[str] = []


def verb(method: Callable[P, R]) -> Callable[P, R]:
    """Mark a method that is one transaction of a durable queue manager, and refused when closed.

    In memory and without a trickle it stays as it is: a gate would cost it a tenth.
    """
    _verbs.append(method.__name__)
    return method


class _Turn:
    """A gate that waits for its turn first."""

    def __init__(self, gate: Gate, verb_lock: VerbLock) -> None:
        self._gate, self._verb_lock = gate, verb_lock

    def __enter__(self) -> None:
        self._verb_lock.enter()
        try:
            if self._gate is not None:
                self._gate.__enter__()
        except BaseException:
            self._verb_lock.leave()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._gate is not None:
                self._gate.__exit__(kind, error, traceback)
        finally:
            self._verb_lock.leave()


class Entrance:
    """The way into the verbs of one queue manager: its gate, and its line once a trickle runs."""

    def __init__(self, manager: object, verb_lock: VerbLock) -> None:
        """Let verbs in as they come."""
        self._manager, self._verb_lock = manager, verb_lock
        self._gate: Gate = None
        self._entry: AbstractContextManager[object] | None = None

    @property
    def is_open(self) -> bool:
        """Whether verbs are let in: neither closed nor ended by a failure of the disk."""
        return self._gate is None or (isinstance(self._gate, Journal) and self._gate.is_open)

    def set_gate(self, gate: Journal | Closed) -> None:
        """Let each verb pass a gate from now on."""
        self._gate = gate
        self._admit_by(_Turn(gate, self._verb_lock) if isinstance(self._entry, _Turn) else gate)

    def lock_verbs(self) -> None:
        """Let each verb wait until no other thread is in one."""
        self._admit_by(_Turn(self._gate, self._verb_lock))

    def unit(self) -> AbstractContextManager[object]:
        """Return a context that is one verb, whatever is done in it."""
        return self._entry or nullcontext()

    def _admit_by(self, entry: AbstractContextManager[object]) -> None:
        self._entry, manager = entry, self._manager
        for name in _verbs:
            setattr(manager, name, _gated(entry, getattr(type(manager), name).__get__(manager)))


def _gated(gate: AbstractContextManager[object], method: Callable[P, R]) -> Callable[P, R]:
    @wraps(method)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with gate:
            return method(*args, **kwargs)

    return run
