"""The calls of a queue manager as verbs: each passes a gate, and may have to wait for its turn.

Without a trickle a queue manager is used by one thread at a time, and there is nothing to wait for.
A trickle works on a thread of its clock: from the first one on, the verbs of all queue managers of
the process take turns, because a transmission and what a rule does lead from one to the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from types import TracebackType
from typing import ParamSpec, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

from mayfly.everyplace.journal import Closed, Journal

P = ParamSpec("P")
R = TypeVar("R")
#: Entered by each verb: a journal makes it a transaction, Closed refuses it.
Gate: TypeAlias = Journal | Closed | None
_WAIT_SECONDS = 0.05


class TakesTurns(Protocol):
    """A queue manager, whose verbs can be let in one after the other."""

    def take_turns(self) -> None:
        """Let its verbs wait for their turn from now on."""


class _Turns:
    """Which queue managers there are, and whether their verbs take turns yet."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.known: WeakSet[TakesTurns] = WeakSet()
        self.are_taken = False


_turns = _Turns()
_verbs: list[str] = []


def verb(method: Callable[P, R]) -> Callable[P, R]:
    """Mark a method that is one transaction of a durable queue manager, and refused when closed.

    In memory and without a trickle it stays as it is: a gate would cost it a tenth.
    """
    _verbs.append(method.__name__)
    return method


def know(manager: TakesTurns) -> None:
    """Let a new queue manager take turns with the others, as soon as any does."""
    with _turns.lock:
        _turns.known.add(manager)
        if _turns.are_taken:
            manager.take_turns()


def begin_turns() -> None:
    """Let the verbs of all queue managers of the process take turns from now on."""
    with _turns.lock:
        if not _turns.are_taken:
            _turns.are_taken = True
            for manager in list(_turns.known):
                manager.take_turns()


@contextmanager
def turn_unless(is_over: Callable[[], bool]) -> Iterator[bool]:
    """Wait for a turn until something is over; True with it, False when it was over before."""
    has_turn = _turns.lock.acquire(timeout=_WAIT_SECONDS)
    while not has_turn and not is_over():
        has_turn = _turns.lock.acquire(timeout=_WAIT_SECONDS)
    try:
        yield has_turn and not is_over()
    finally:
        if has_turn:
            _turns.lock.release()


class Turn:
    """A gate that waits for its turn first."""

    def __init__(self, gate: Gate) -> None:
        """Stand before another gate, or none."""
        self._gate = gate

    def __enter__(self) -> None:
        """Wait until no other thread is in a verb."""
        _turns.lock.acquire()
        try:
            if self._gate is not None:
                self._gate.__enter__()
        except BaseException:
            _turns.lock.release()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let the next one in."""
        try:
            if self._gate is not None:
                self._gate.__exit__(kind, error, traceback)
        finally:
            _turns.lock.release()


def pass_through(manager: object, gate: AbstractContextManager[object]) -> None:
    """Let each verb of a queue manager pass a gate from now on."""
    for name in _verbs:
        setattr(manager, name, _gated(gate, getattr(type(manager), name).__get__(manager)))


def _gated(gate: AbstractContextManager[object], method: Callable[P, R]) -> Callable[P, R]:
    @wraps(method)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with gate:
            return method(*args, **kwargs)

    return run
