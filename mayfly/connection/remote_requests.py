"""Requests of a client, and their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from mayfly.connection.remote_stream import broken
from mayfly.connection.wire_values import error_of_row
from mayfly.contracts.wire import DONE, FAILED, MOST_ANSWERED_ELEMENTS
from mayfly.contracts.wire_fields import Kind, WrongFrame, of_kind, unpacked
from mayfly.contracts.wire_rows import FAILURE
from mayfly.mqi.errors import MQError
from mayfly.runtime import Event

#: Is called with the payload of an answer, or with the error in its place.
OnAnswer: TypeAlias = Callable[[bytes | MQError], object]
#: Is called for a get under way with the handle of a queue that cannot be got from, and the error.
OnMet: TypeAlias = Callable[[int, MQError], object]


class Request:
    """A request, with its answer or the error in its place."""

    __slots__ = ("event", "is_doubtful", "on_answer", "on_met", "payload")

    def __init__(
        self,
        *,
        is_doubtful: bool,
        on_answer: OnAnswer | None = None,
        on_met: OnMet | None = None,
    ) -> None:
        self.payload: bytes | MQError | None = None
        self.event: Event | None = None
        #: Whether it may have taken effect when its answer is lost.
        self.is_doubtful = is_doubtful
        self.on_answer, self.on_met = on_answer, on_met

    @property
    def is_open(self) -> bool:
        """Whether it is not answered."""
        return self.payload is None


def answer_of(payload: bytes | MQError | None, kind: Kind) -> Any:
    """Return the value of an answer; raises the MQError in the answer, or in its place."""
    assert payload is not None
    if isinstance(payload, MQError):
        raise payload
    try:
        values = unpacked(payload, MOST_ANSWERED_ELEMENTS)
        if values[0] == DONE and len(values) == 2:
            return of_kind(kind, values[1], "answer")
        if values[0] == FAILED:
            raise error_of_row(of_kind(FAILURE, values[1:], "answer"))
    except WrongFrame as wrong:
        raise broken(str(wrong)) from None
    raise broken("an answer is neither a value nor a failure")
