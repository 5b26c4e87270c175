"""Several puts of one request, in this process: each is put, or refused, by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from mayfly.connection.interface import OnDone, UnderWay
from mayfly.connection.values import NewMessage, PutOutcome, PutResult
from mayfly.engine.face.programs import Completion
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError

#: Is called with what became of each of several puts.
OnOutcomes: TypeAlias = Callable[[list[PutOutcome]], object]


class PutTarget(NamedTuple):
    """The arguments that several puts have in common, as in ``Connection.put``."""

    handle: int
    descriptor: Descriptor
    options: int
    context: int


class Puts(Protocol):
    """Puts as far as they go without the disk, and their end."""

    def attempt_put(
        self, target: PutTarget, message: NewMessage
    ) -> tuple[PutResult | None, Completion]:
        """Put a message; raises MQError."""

    def end_with(self, completion: Completion, on_done: OnDone[Any], result: Any) -> UnderWay:
        """Tell the result when what is left is durable, or why it is not."""


class SeveralPuts:
    """The outcomes of several puts, in the order of the puts."""

    def __init__(self, puts: Puts, target: PutTarget) -> None:
        """Begin with none."""
        self._puts, self._target = puts, target
        self.outcomes: list[PutOutcome] = []
        #: Puts that wait for the disk, by their place among the outcomes.
        self._left: dict[int, Completion] = {}

    def put(self, message: NewMessage) -> None:
        """Put a message, or note why it is not put."""
        result: PutOutcome
        try:
            result, completion = self._puts.attempt_put(self._target, message)
        except MQError as error:
            result = error
        else:
            if not completion.is_empty:
                self._left[len(self.outcomes)] = completion
        self.outcomes.append(result)

    def refuse(self, error: MQError) -> None:
        """Note why the next message is not put."""
        self.outcomes.append(error)

    @property
    def is_over(self) -> bool:
        """Whether nothing waits for the disk."""
        return not self._left

    def end_with(self, on_done: OnOutcomes) -> UnderWay | None:
        """Tell the outcomes when all of it is durable, or not; None where nothing waits."""
        under_way: UnderWay | None = None
        left = dict(self._left)
        # Callbacks of a queue manager come one at a time.
        for place, completion in self._left.items():
            done = partial(self._end, place, left, on_done)
            under_way = self._puts.end_with(completion, done, self.outcomes[place])
        return under_way

    def _end(
        self,
        place: int,
        left: dict[int, Completion],
        on_done: OnOutcomes,
        outcome: PutOutcome,
    ) -> None:
        self.outcomes[place] = outcome
        del left[place]
        if not left:
            on_done(self.outcomes)
