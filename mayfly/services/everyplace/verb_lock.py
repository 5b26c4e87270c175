"""Verb lock: the lock around the verbs of queue managers, so that a trickle can run on a thread.

Without a trickle a queue manager is used by one thread at a time, and no verb waits. A trickle
works on a thread of its clock. From the first trickle on, all verbs of all queue managers of one
runtime run one at a time, because transmissions and rules call other queue managers.
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


class LockQueue:
    """The threads that wait for the verb lock of a runtime, first in, first out; the first has it.

    A thread that releases the lock goes to the end of the queue. Otherwise a thread that calls
    verbs without a pause would keep all others waiting.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Begin empty.

        ``runtime`` supplies the condition of the threads. It is not stored, so that the lock is
        freed with the runtime.
        """
        self.changed = runtime.condition()
        self.threads: deque[int] = deque()
        #: Verbs that the first thread is in: a rule may call one within another.
        self.depth = 0
        self.verb_gates: WeakSet[VerbGate] = WeakSet()
        #: Whether a trickle has begun.
        self.is_used = False


#: One for all queue managers that are given none, so that they take turns with each other.
OF_THIS_PROCESS = Runtime()
_lines: WeakKeyDictionary[Runtime, LockQueue] = WeakKeyDictionary()


class VerbLock:
    """The verb lock as one queue manager uses it.

    All queue managers of a runtime share one lock.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Use the lock of a runtime, which is made for the first queue manager of the runtime."""
        line = _lines.get(runtime)
        if line is None:
            line = _lines.setdefault(runtime, LockQueue(runtime))
        self._thread_id, self._line = runtime.thread_id, line

    def join(self, verb_gate: VerbGate) -> None:
        """Register the verbs of a queue manager; they take the lock once it is used.

        It is used from the first trickle on (:meth:`begin`): a trickle transmits messages
        periodically, on another thread.
        """
        line = self._line
        with line.changed:
            line.verb_gates.add(verb_gate)
            if line.is_used:
                verb_gate.lock_verbs()

    def is_shared_with(self, other: VerbLock) -> bool:
        """Return True if both queue managers have the same runtime, and so one lock."""
        return self._line is other._line

    def begin(self) -> None:
        """Make the verbs of all queue managers of the runtime take the lock from now on."""
        line = self._line
        with line.changed:
            if not line.is_used:
                line.is_used = True
                for verb_gate in list(line.verb_gates):
                    verb_gate.lock_verbs()

    def enter(self, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Wait for the lock and return True; a thread that has it enters again at once.

        Returns False, without the lock, once ``is_over`` returns True. The thread that makes
        ``is_over`` true must call :meth:`wake_waiting`.
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
        """End one :meth:`enter`; the last one of the thread gives the lock to the next thread."""
        line = self._line
        with line.changed:
            line.depth -= 1
            if not line.depth:
                line.threads.popleft()
                line.changed.notify_all()

    def wake_waiting(self) -> None:
        """Wake the threads that wait in :meth:`enter`, so that they test ``is_over`` again."""
        with self._line.changed:
            self._line.changed.notify_all()


P = ParamSpec("P")
R = TypeVar("R")
#: Entered by each verb: a journal makes it a transaction, Closed refuses it.
Gate: TypeAlias = Journal | Closed | None

_verbs: list[str] = []


def verb(method: Callable[P, R]) -> Callable[P, R]:
    """Mark a method as one transaction of a durable queue manager, refused once it is closed.

    The method is not wrapped until a gate is set: in memory, without a trickle, a gate would cost a
    tenth of its speed.
    """
    _verbs.append(method.__name__)
    return method


class _LockGate:
    """A context that takes the verb lock, then enters the gate (journal or refusal) inside it."""

    def __init__(self, gate: Gate, verb_lock: VerbLock) -> None:
        """Take the gate to enter within the lock; None is no gate."""
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


class VerbGate:
    """The context around each verb of one queue manager: journal, refusal when closed, or lock."""

    def __init__(self, manager: object, verb_lock: VerbLock) -> None:
        """Begin without a gate: verbs run at once."""
        self._manager, self.verb_lock = manager, verb_lock
        self._gate: Gate = None
        self._entry: AbstractContextManager[object] | None = None

    @property
    def is_open(self) -> bool:
        """True while verbs may run: the queue manager is not closed or ended by a disk failure."""
        return self._gate is None or (isinstance(self._gate, Journal) and self._gate.is_open)

    def set_gate(self, gate: Journal | Closed) -> None:
        """Make each verb enter ``gate`` from now on: a journal, or Closed, which refuses verbs."""
        self._gate = gate
        self._admit_by(
            _LockGate(gate, self.verb_lock) if isinstance(self._entry, _LockGate) else gate
        )

    def lock_verbs(self) -> None:
        """Make each verb take the verb lock from now on."""
        self._admit_by(_LockGate(self._gate, self.verb_lock))

    def unit(self) -> AbstractContextManager[object]:
        """Return a context within which all calls together are one verb, so one transaction.

        Without a gate the context does nothing.
        """
        return self._entry or nullcontext()

    def _admit_by(self, entry: AbstractContextManager[object]) -> None:
        """Replace all verbs of the queue manager by methods that run within a context."""
        self._entry, manager = entry, self._manager
        for name in _verbs:
            setattr(manager, name, _gated(entry, getattr(type(manager), name).__get__(manager)))


def _gated(gate: AbstractContextManager[object], method: Callable[P, R]) -> Callable[P, R]:
    """Return a method that enters ``gate``, then calls ``method``."""

    @wraps(method)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with gate:
            return method(*args, **kwargs)

    return run
