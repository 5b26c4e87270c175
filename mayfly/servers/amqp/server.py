"""The server of AMQP 1.0."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from mayfly.admin.security.admission import Admitted, Applicant
from mayfly.client.connection import Connection
from mayfly.runtime import Runtime
from mayfly.servers.amqp.addresses import DeletedTopics
from mayfly.servers.amqp.connection import HANDSHAKE_SECONDS, AmqpConnection
from mayfly.servers.amqp.errors import FORCED
from mayfly.servers.amqp.service import (
    AddedAnnotations,
    AmqpLimits,
    AmqpService,
    DeferredSettlements,
)
from mayfly.servers.budget import Budget
from mayfly.servers.clients import INSTANCE_NUMBERS, Admits, ChannelInstances
from mayfly.servers.event_loop_server import LOOK_SECONDS, EventLoopServer

_LOG = logging.getLogger("mayfly.amqp")
_WORKERS = 4
#: The time that clients have to answer a close.
_CLOSING_SECONDS: Final = 1.0
#: The most connections, as many as for Mayfly's own protocol.
_MAX_CONNECTIONS: Final = 10_000


class AmqpServer(EventLoopServer[AmqpConnection]):
    """Serves queue managers to clients of AMQP 1.0; any thread may call its methods.

    Connections that the server ends get amqp:connection:forced.
    """

    def __init__(
        self,
        queue_managers: Sequence[str],
        admission: Admits,
        connect: Callable[[str, Admitted, Applicant], Connection],
        *,
        channel: str = "",
        limits: AmqpLimits | None = None,
        runtime: Runtime | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Start the event loop on its thread; nothing listens yet.

        ``admission`` checks each client by the rules of ``channel``. ``connect`` opens a
        conversation of an admitted user with a queue manager. A client whose host name is that of
        no queue manager is connected to the first one. ``runtime`` provides the thread. ``budget``
        limits the memory for messages and may be shared with other servers.
        """
        loop = asyncio.new_event_loop()
        self._executor = ThreadPoolExecutor(_WORKERS, thread_name_prefix="mayfly-amqp")
        limits = limits or AmqpLimits()
        self.service = AmqpService(
            loop,
            self._executor,
            admission,
            connect,
            queue_managers,
            limits,
            Budget() if budget is None else budget,
            channel,
            ChannelInstances(),
            DeferredSettlements(loop),
            AddedAnnotations(),
            DeletedTopics(),
        )
        self.open_connections: set[AmqpConnection] = set()
        super().__init__(loop, self, runtime or Runtime(), "mayfly-amqp")

    # For the acceptor.

    log, magic = _LOG, b"AMQP"
    #: The protocol header of a server that accepts only TLS (AMQP 1.0, 5.2).
    refusal_without_tls = b"AMQP\x02\x01\x00\x00"
    #: The longest time for a TLS handshake is that for the SASL exchange.
    handshake_seconds = HANDSHAKE_SECONDS

    def capacity(self) -> int:
        """Return how many more connections the server accepts now."""
        return _MAX_CONNECTIONS - len(self.open_connections)

    def new(self) -> AmqpConnection:
        """Return the asyncio protocol object for a new connection."""
        return AmqpConnection(self.service, next(INSTANCE_NUMBERS), self.open_connections)

    # For EventLoopServer.

    def _open(self) -> Collection[AmqpConnection]:
        """Return the open connections of clients."""
        return self.open_connections

    def _end(self, connection: AmqpConnection, why: str) -> None:
        """Close a connection with the AMQP error connection:forced and the text ``why``."""
        connection.stop(FORCED, why)

    def _quiesce(self, connection: AmqpConnection) -> None:
        """End a connection for an operator once its client has no work left; does not wait."""
        connection.quiesce(FORCED, "the channel was stopped by an operator")

    def _drain(self, connection: AmqpConnection) -> None:
        """End a connection, because the server ends, once its client has no work left."""
        connection.quiesce(FORCED, "the server ends")

    async def _end_all(self) -> None:
        """Close all connections, wait at most one second, and abort the rest."""
        await self._cut_handshakes()
        self._each(lambda connection: connection.end(FORCED, "the server ends"))
        until = self.loop.time() + _CLOSING_SECONDS
        while self.open_connections and self.loop.time() < until:
            await asyncio.sleep(LOOK_SECONDS)
        self._each(AmqpConnection.abort)
        await asyncio.sleep(0)

    def _shut_down(self) -> None:
        """End the threads for verbs that may block."""
        self._executor.shutdown()
