"""Verbs of a client that are begun, and what takes their outcomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from mayfly.connection.interface import UnderWay
from mayfly.mqi.errors import MQError
from mayfly.servers.wire.operating_verbs import Caller


class Tell(Protocol):
    """Takes the outcome of a verb that was begun; any thread calls it."""

    def __call__(self, outcome: Any, /) -> object:
        """Take the outcome, once: the answer as it travels, or MQError."""

    def refused(self, handle: int, error: MQError) -> object:
        """Take the refusal of a queue that the verb cannot get from; the verb goes on."""


#: Begins a verb. Returns its answer, alone in a tuple, or the verb under way, whose outcome Tell
#: will take. Raises MQError.
Begins: TypeAlias = Callable[[Caller, list[Any], Tell], tuple[Any] | UnderWay]
