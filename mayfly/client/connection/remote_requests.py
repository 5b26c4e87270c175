"""Requests of a client, and their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from mayfly.client.connection.remote_stream import broken
from mayfly.mqi.errors import Failure, MQError, error_of
from mayfly.runtime import Event
from mayfly.verbs.contracts.wire import DONE_BYTES, FAILED_BYTES, WrongFrame, decoded

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


def answer_of(payload: bytes | MQError | None, kind: Any) -> Any:
    """Return the value of an answer; raises the MQError in the answer, or in its place."""
    assert payload is not None
    if isinstance(payload, MQError):
        raise payload
    first = payload[: len(DONE_BYTES)]
    try:
        if first == DONE_BYTES:
            return decoded(kind, payload[len(DONE_BYTES) :], "answer")
        if first == FAILED_BYTES:
            raise error_of(decoded(Failure, payload[len(FAILED_BYTES) :], "answer"))
    except WrongFrame as wrong:
        raise broken(str(wrong)) from None
    raise broken("an answer is neither a value nor a failure")
