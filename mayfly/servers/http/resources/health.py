"""``/health/live``, ``ready`` and ``replica``: probes without credentials (docs/SERVING.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Final

from msgspec import Meta, Struct

from mayfly.servers.http.resources.operations import Answered, Call, NoQuery, Operation
from mayfly.servers.status import ServingState


class Owner(Struct):
    """The owner of a queue manager that this server follows (docs/REPLICA.md)."""

    owner: Annotated[str | None, Meta(description="machine and process, null if nobody owns it")]
    address: Annotated[str | None, Meta(description="of its listener for HTTP")]


class Health(Struct):
    """The states of the queue managers of a server."""

    queue_managers: Annotated[
        dict[str, ServingState], Meta(description="by name of the queue manager")
    ]
    owners: Annotated[
        dict[str, Owner],
        Meta(description="of the queue managers in standby: who owns them, by name"),
    ]
    gone: Annotated[
        list[str],
        Meta(description="loops of the server that have ended: what they do is done no more"),
    ]


async def live(call: Call[NoQuery, None]) -> Answered[Health]:
    """Answer 200 while at least one queue manager works, else 503: restart the process."""
    return _answer(call, lambda states: any(state.is_live for state in states.values()))


async def ready(call: Call[NoQuery, None]) -> Answered[Health]:
    """Answer 200 while the server has work to take, and takes it, else 503.

    One of its queue managers at least is open, and each that is not in standby accepts work. All
    server threads run.
    """
    return _answer(call, _is_ready)


def _is_ready(states: Mapping[str, ServingState]) -> bool:
    """Return True if all queue managers are ready, apart from those in standby."""
    return set(states.values()) - {ServingState.STANDBY} == {ServingState.READY}


async def replica(call: Call[NoQuery, None]) -> Answered[Health]:
    """Answer 200 while each queue manager is ready, or in standby and could be owned here.

    Else 503. It could be while its folder has all of the log. So pods of an owner and of its
    standbys are ready by this probe, and the owner alone by ``/health/ready``.
    """
    managers = call.service.managers

    def can_serve(states: Mapping[str, ServingState]) -> bool:
        """Return True if all queue managers are served, or could be."""
        return all(
            state is ServingState.READY
            or (state is ServingState.STANDBY and managers.is_following(name))
            for name, state in states.items()
        )

    return _answer(call, can_serve)


def _answer(
    call: Call[NoQuery, None], is_good: Callable[[Mapping[str, ServingState]], bool]
) -> Answered[Health]:
    """Return the states of all queue managers: 200 if ``is_good`` is true of them, else 503."""
    server_status = call.service.server_status
    states = server_status.states()
    status = HTTPStatus.OK if is_good(states) else HTTPStatus.SERVICE_UNAVAILABLE
    found = Health(states, _owners(call), server_status.ended_threads())
    return Answered(found, status=status)


def _owners(call: Call[NoQuery, None]) -> dict[str, Owner]:
    """Return the owners of the queue managers in standby, by name of the queue manager."""
    managers, found = call.service.managers, dict[str, Owner]()
    for name in managers.names:
        owner = managers.owner_of(name)
        if owner is not None:
            address = owner.address("http")
            found[name] = Owner(owner.name or None, None if address is None else str(address))
    return found


_NOT: Final = {HTTPStatus.SERVICE_UNAVAILABLE: "It is not so."}
OPERATIONS: Final = (
    Operation("GET", "/health/live", live, None, other_answers=_NOT),
    Operation("GET", "/health/ready", ready, None, other_answers=_NOT),
    Operation("GET", "/health/replica", replica, None, other_answers=_NOT),
)
