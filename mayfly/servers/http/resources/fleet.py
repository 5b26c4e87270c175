"""``/mayfly/v1/fleet``: servers that the console shows together, and figures of a queue manager."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from mayfly.admin.security.roles import Role
from mayfly.engine.api.operating import Watch
from mayfly.queue_manager import QueueManager
from mayfly.servers.figure_history import ALL, RINGS
from mayfly.servers.http.resources.operations import OF_MANAGER, OWN, Call, NoQuery, Operation
from mayfly.servers.status import ServingState


class Fleet(Struct):
    """The servers of a fleet, this one too if its file names it."""

    servers: Annotated[dict[str, str], Meta(description="origins, as https://HOST:PORT, by name")]


class Standby(Struct):
    """A server that follows the owner of a queue manager, and takes over when that is lost."""

    name: Annotated[str, Meta(description="its machine and process")]
    addresses: Annotated[
        dict[str, str], Meta(description="where it listens, as HOST:PORT, by listener")
    ]
    lag_rows: Annotated[int, Meta(description="rows of the log that it lacks")]
    lag_ms: Annotated[
        int, Meta(description="what was committed in so many ms it may lack; 0 without such a row")
    ]
    seen_ms: Annotated[int, Meta(description="how long ago it was seen; after 10 s it is gone")]


class OwnedReplica(Struct):
    """The replica of a queue manager, as its owner sees it."""

    role: Annotated[Literal["owner"], Meta(description="a standby answers 503 with `standby`")]
    epoch: Annotated[int, Meta(description="the number of this ownership; each owner adds 1")]
    last_row: Annotated[int, Meta(description="the last row of the log")]
    lease_ms: Annotated[int, Meta(description="how long nobody takes over after a renewal")]
    lease_age_ms: Annotated[int, Meta(description="how long ago the lease was renewed")]
    standbys: Annotated[list[Standby], Meta(description="by name, as of the last renewal")]


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
    replica: Annotated[
        OwnedReplica | None, Meta(description="its replica in PostgreSQL; null without one")
    ]


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
        replica=_owned_replica(manager),
    )


def _owned_replica(manager: QueueManager) -> OwnedReplica | None:
    """Return the replica of a queue manager as the API shows it; None without one."""
    replica = manager.engine.replica
    if replica is None:
        return None
    standbys = [
        Standby(each.name, dict(each.addresses), each.lag_rows, each.lag_ms, each.seen_ms)
        for each in replica.standbys()
    ]
    number, epoch = replica.position
    lease = replica.lease
    return OwnedReplica("owner", epoch, number, lease.lease_ms, max(lease.age_ms, 0), standbys)


OPERATIONS: Final = (
    Operation("GET", f"{OWN}/fleet", listed, Role.LOOK),
    Operation("GET", f"{OF_MANAGER}/summary", summarized, Role.LOOK),
)
