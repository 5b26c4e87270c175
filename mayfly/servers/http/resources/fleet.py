"""``/mayfly/v1/fleet``: servers that the console shows together, and figures of a queue manager."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from mayfly.admin.security.roles import Role
from mayfly.engine.api.operating import Watch
from mayfly.servers.figure_history import ALL, RINGS
from mayfly.servers.http.resources.operations import OF_MANAGER, OWN, Call, NoQuery, Operation
from mayfly.servers.status import ServingState


class Fleet(Struct):
    """The servers of a fleet, this one too if its file names it."""

    servers: Annotated[dict[str, str], Meta(description="origins, as https://HOST:PORT, by name")]


class ManagerSummary(Struct):
    """The state of one queue manager, its messages now, and what expired in the last week."""

    name: str
    state: ServingState
    now_ms: Annotated[int, Meta(description="ms since 1970, UTC")]
    depth: Annotated[int, Meta(description="CURDEPTH of all queues but the staging queue")]
    delayed: Annotated[int, Meta(description="messages that wait for their delivery time")]
    dead_letters: Annotated[int, Meta(description="CURDEPTH of its dead-letter queue")]
    expired_present: Annotated[int, Meta(description="expired messages that are still there")]
    oldest_age_ms: Annotated[int, Meta(description="highest age in the last 10 s, 0 without one")]
    expired_count: Annotated[int, Meta(description="lives that expired in the last week")]
    ended_count: Annotated[int, Meta(description="lives that ended in the last week")]


def listed(call: Call[NoQuery, None]) -> Fleet:
    """Show the servers of the table [fleet] in the file of this server."""
    return Fleet(dict(call.service.fleet))


def summarized(call: Call[NoQuery, None]) -> ManagerSummary:
    """Show the state of a queue manager, its messages now, and what expired in the last week."""
    manager, week = call.manager, RINGS["week"]
    now = Watch(manager.engine, 0).look()
    table = call.service.histories[manager.name].table
    steps = table.steps(ALL, week, now.now_ms)
    latest = table.steps(ALL, RINGS["hour"], now.now_ms)[-1:]
    return ManagerSummary(
        name=manager.name,
        state=call.service.server_status.states()[manager.name],
        now_ms=now.now_ms,
        depth=max(0, now.others.depth - now.present.staged),
        delayed=now.present.staged,
        dead_letters=now.dead_letter_count,
        expired_present=now.present.expired_present,
        oldest_age_ms=max((step.oldest_age_ms for step in latest), default=0),
        expired_count=sum(step.expired_count for step in steps),
        ended_count=sum(step.ended_count for step in steps),
    )


OPERATIONS: Final = (
    Operation("GET", f"{OWN}/fleet", listed, Role.LOOK),
    Operation("GET", f"{OF_MANAGER}/summary", summarized, Role.LOOK),
)
