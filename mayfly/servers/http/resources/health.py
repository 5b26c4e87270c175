"""``/health/live``, ``ready`` and ``replica``: probes without credentials (docs/SERVING.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Annotated, Final

from msgspec import Meta, Struct

from mayfly.servers.http.resources.operations import Answered, Call, NoQuery, Operation
from mayfly.servers.status import ServingState


class Health(Struct):
    """The states of the queue managers of a server."""

    queue_managers: Annotated[
        dict[str, ServingState], Meta(description="by name of the queue manager")
    ]
    gone: Annotated[
        list[str],
        Meta(description="loops of the server that have ended: what they do is done no more"),
    ]


async def live(call: Call[NoQuery, None]) -> Answered[Health]:
    """Answer 200 while at least one queue manager works, else 503: restart the process."""
    return _answer(call, lambda states: any(state.is_live for state in states))


async def ready(call: Call[NoQuery, None]) -> Answered[Health]:
    """Answer 200 while all queue managers accept work and all server threads run, else 503."""
    return _answer(call, lambda states: all(state is ServingState.READY for state in states))


async def replica(call: Call[NoQuery, None]) -> Answered[Health]:
    """Answer as ``/health/ready``; a standby that could take over answers 200 as well.

    So pods of an owner and its standbys are ready by this probe, and the owner alone by the other.
    """
    return await ready(call)


def _answer(
    call: Call[NoQuery, None], is_good: Callable[[Iterable[ServingState]], bool]
) -> Answered[Health]:
    """Return the states of all queue managers: 200 if ``is_good`` is true of them, else 503."""
    server_status = call.service.server_status
    states = server_status.states()
    status = HTTPStatus.OK if is_good(states.values()) else HTTPStatus.SERVICE_UNAVAILABLE
    return Answered(Health(states, server_status.ended_threads()), status=status)


_NOT: Final = {HTTPStatus.SERVICE_UNAVAILABLE: "It is not so."}
OPERATIONS: Final = (
    Operation("GET", "/health/live", live, None, other_answers=_NOT),
    Operation("GET", "/health/ready", ready, None, other_answers=_NOT),
    Operation("GET", "/health/replica", replica, None, other_answers=_NOT),
)
