"""``/health/live`` and ``/health/ready``: probes, which anybody may ask (docs/SERVING.md)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final

from msgspec import Meta, Struct

from mayfly.servers.http.resources.operations import Answered, Call, NoQuery, Operation
from mayfly.servers.standing import State


class Health(Struct):
    """The states of the queue managers of a server."""

    queue_managers: Annotated[dict[str, State], Meta(description="by name of the queue manager")]


async def live(call: Call[NoQuery, None]) -> Answered[Health]:
    """Answer 200 while at least one queue manager works; else the process should be restarted."""
    states = call.service.standing.states()
    return _answer(states, is_good=any(state.is_live for state in states.values()))


async def ready(call: Call[NoQuery, None]) -> Answered[Health]:
    """Answer 200 while all queue managers take work."""
    states = call.service.standing.states()
    return _answer(states, is_good=all(state is State.READY for state in states.values()))


def _answer(states: dict[str, State], *, is_good: bool) -> Answered[Health]:
    status = HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE
    return Answered(Health(states), status=status)


_NOT: Final = {HTTPStatus.SERVICE_UNAVAILABLE: "It is not so."}
OPERATIONS: Final = (
    Operation("GET", "/health/live", live, None, other_answers=_NOT),
    Operation("GET", "/health/ready", ready, None, other_answers=_NOT),
)
