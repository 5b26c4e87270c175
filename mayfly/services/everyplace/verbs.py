"""The calls of a queue manager as verbs: each passes a gate, and may have to wait for its turn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeAlias, TypeVar

from mayfly.services.everyplace.journal import Closed, Journal
from mayfly.services.everyplace.turns import Turns

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

    def __init__(self, gate: Gate, turns: Turns) -> None:
        """Stand before another gate, or none."""
        self._gate, self._turns = gate, turns

    def __enter__(self) -> None:
        """Wait until no other thread is in a verb."""
        self._turns.enter()
        try:
            if self._gate is not None:
                self._gate.__enter__()
        except BaseException:
            self._turns.leave()
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
            self._turns.leave()


class Entrance:
    """The way into the verbs of one queue manager: its gate, and its line once a trickle runs."""

    def __init__(self, manager: object, turns: Turns) -> None:
        """Let verbs in as they come."""
        self._manager, self._turns = manager, turns
        self._gate: Gate = None
        self._entry: AbstractContextManager[object] | None = None

    @property
    def is_open(self) -> bool:
        """Whether verbs are let in: neither closed nor ended by a failure of the disk."""
        return self._gate is None or (isinstance(self._gate, Journal) and self._gate.is_open)

    def set_gate(self, gate: Journal | Closed) -> None:
        """Let each verb pass a gate from now on."""
        self._gate = gate
        self._let_in_by(_Turn(gate, self._turns) if isinstance(self._entry, _Turn) else gate)

    def take_turns(self) -> None:
        """Let each verb wait until no other thread is in one."""
        self._let_in_by(_Turn(self._gate, self._turns))

    def unit(self) -> AbstractContextManager[object]:
        """Return a context that is one verb, whatever is done in it."""
        return self._entry or nullcontext()

    def _let_in_by(self, entry: AbstractContextManager[object]) -> None:
        self._entry, manager = entry, self._manager
        for name in _verbs:
            setattr(manager, name, _gated(entry, getattr(type(manager), name).__get__(manager)))


def _gated(gate: AbstractContextManager[object], method: Callable[P, R]) -> Callable[P, R]:
    @wraps(method)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with gate:
            return method(*args, **kwargs)

    return run
