"""The parts of an AMQP server that all its connections share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import NamedTuple

from mayfly.admin.security.admission import Admitted, Applicant
from mayfly.client.connection import Connection
from mayfly.servers.amqp.amended import Amended
from mayfly.servers.amqp.dynamic import Nodes
from mayfly.servers.amqp.unhurried import Unhurried
from mayfly.servers.budget import Budget
from mayfly.servers.clients import Admits, Instances


class Limits(NamedTuple):
    """Bounds of one server."""

    max_frame_bytes: int = 64 * 1024
    idle_timeout_ms: int = 60_000
    #: Messages that a sending client may have under way on one link: while some are on their way
    #: to the disk, others come.
    credit: int = 1_000
    #: Bodies of one connection that may be on their way to the disk; nothing is read from it then.
    put_bytes: int = 16 * 1024 * 1024
    #: Deliveries that a receiving client may hold on one link, whatever credit it gives.
    unsettled: int = 2_000


class Service(NamedTuple):
    """Admission, queue managers and limits of a server, for each of its connections."""

    loop: asyncio.AbstractEventLoop
    executor: Executor
    admission: Admits
    #: Opens a conversation of a user: queue manager, terms, applicant.
    connect: Callable[[str, Admitted, Applicant], Connection]
    queue_managers: Sequence[str]
    mechanisms: Sequence[str]
    limits: Limits
    #: Bytes of messages that are in memory, of all connections of all doors together.
    budget: Budget
    #: The channel whose rules apply to users of AMQP.
    channel: str
    instances: Instances
    #: Settlements that can wait for a sync.
    unhurried: Unhurried
    #: Annotations of messages that were given back.
    amended: Amended
    #: Temporary topics that are gone.
    nodes: Nodes

    def manager_named(self, hostname: str) -> str:
        """Return the queue manager that a host name means: the one of that name, else the first."""
        wanted = hostname.upper()
        return next((n for n in self.queue_managers if n.upper() == wanted), self.queue_managers[0])
