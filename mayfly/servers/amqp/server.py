"""The AMQP server: one event loop in its own thread for all connections, and its acceptor."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from mayfly.admin.security.admission import Admitted, Applicant
from mayfly.channel import ClientConnection
from mayfly.client.connection import Connection
from mayfly.runtime import Loop, Runtime
from mayfly.servers.acceptor import Acceptor, lower_tls_buffers, tcp_sockets
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
from mayfly.verbs.contracts.wire import protocol_of

_T = TypeVar("_T")
_LOG = logging.getLogger("mayfly.amqp")
_WORKERS = 4
_POLL_SECONDS = 0.05
#: The most connections, as many as for Mayfly's own protocol.
_MAX_CONNECTIONS: Final = 10_000
_AMQP: Final = b"AMQP"
#: The protocol header of a server that accepts only TLS (AMQP 1.0, 5.2).
_TLS_HEADER: Final = b"AMQP\x02\x01\x00\x00"


class AmqpServer:
    """Serves queue managers to clients of AMQP 1.0; any thread may call its methods."""

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

        ``connect`` opens a conversation of an admitted user with a queue manager. A client whose
        host name is that of no queue manager is connected to the first one. ``budget`` limits the
        memory for messages and may be shared with other servers.
        """
        self.loop = asyncio.new_event_loop()
        self._executor = ThreadPoolExecutor(_WORKERS, thread_name_prefix="mayfly-amqp")
        limits = limits or AmqpLimits()
        self.service = AmqpService(
            self.loop,
            self._executor,
            admission,
            connect,
            queue_managers,
            limits,
            Budget() if budget is None else budget,
            channel,
            ChannelInstances(),
            DeferredSettlements(self.loop),
            AddedAnnotations(),
            DeletedTopics(),
        )
        self.open_connections: set[AmqpConnection] = set()
        self._handler = _Handler(self)
        self._acceptors: list[Acceptor] = []
        self._is_ending = False
        self._thread = Loop(Runtime() if runtime is None else runtime, self._run, "mayfly-amqp")
        self._thread.start()

    def listen_tcp(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen on an address and return its port; port 0 is any free one.

        With ``tls`` only TLS is accepted. Raises OSError if the address cannot be used.
        """
        if tls is not None:
            lower_tls_buffers()

        listening = tcp_sockets(host, port)
        found: int = listening[0].getsockname()[1]
        self._acceptors.append(self._in_loop(lambda: Acceptor(listening, self._handler, tls)))
        return found

    def connections(self) -> list[ClientConnection]:
        """Return the open conversations, as DISPLAY CONN shows them."""
        return self._in_loop(
            lambda: [each for connection in self.open_connections for each in connection.status()]
        )

    def end(self, number: int) -> bool:
        """Close the client that has conversation ``number``; return False if none has it.

        Its open units of work are backed out.
        """

        def ask() -> bool:
            """Stop the connection in the event loop; return False if none has the number."""
            connection = self._connection_of(number)
            if connection is not None:
                connection.stop(FORCED, f"connection {number} was stopped by an operator")
            return connection is not None

        return self._in_loop(ask)

    def quiesce(self, number: int) -> bool:
        """Close the client with conversation ``number`` once its work is done; does not wait.

        Returns False if no client has this conversation. The client gets no more messages. Once it
        holds none and has no open transaction, it gets amqp:connection:forced.
        """

        def ask() -> bool:
            """Begin to quiesce the connection in the event loop.

            Return False if none has the number.
            """
            connection = self._connection_of(number)
            if connection is not None:
                self._quiesce_until_gone(connection)
            return connection is not None

        return self._in_loop(ask)

    def _connection_of(self, number: int) -> AmqpConnection | None:
        """Return the connection that has conversation ``number``; None if none has it."""
        for connection in self.open_connections:
            if any(each.number == number for each in connection.status()):
                return connection
        return None

    def _quiesce_until_gone(self, connection: AmqpConnection) -> None:
        """Ask a connection to end once its work is done, now and every 50 ms until it has ended."""
        if connection in self.open_connections:
            connection.quiesce(FORCED, "the channel was stopped by an operator")
            self.loop.call_later(_POLL_SECONDS, self._quiesce_until_gone, connection)

    def drain(self, timeout_ms: int) -> None:
        """Accept no new connection; return when all clients have left, or after ``timeout_ms``.

        Each client ends once its work is done, as by :meth:`quiesce`.
        """

        async def stop_listening() -> None:
            """Close the listening sockets, and quiesce the connections until all have ended."""
            for acceptor in self._acceptors:
                acceptor.close()
            deadline = self.loop.time() + timeout_ms / 1000
            while self.open_connections and self.loop.time() < deadline:
                self._each(lambda connection: connection.quiesce(FORCED, "the server ends"))
                await asyncio.sleep(_POLL_SECONDS)

        self._call(stop_listening())

    def close(self) -> None:
        """Close all connections with amqp:connection:forced, and end the threads.

        Open units of work are backed out. A second call does nothing.
        """

        async def end() -> None:
            """Close the connections, wait at most one second, and cut the rest off."""
            for acceptor in self._acceptors:
                acceptor.close()
                await acceptor.cut()
            self._each(lambda connection: connection.end(FORCED, "the server ends"))
            for _ in range(20):
                if not self.open_connections:
                    break
                await asyncio.sleep(_POLL_SECONDS)
            self._each(AmqpConnection.cut)
            await asyncio.sleep(0)

        if self.loop.is_closed():
            return
        self._call(end())
        self._is_ending = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self._executor.shutdown()
        self.loop.close()

    def _each(self, work: Callable[[AmqpConnection], object]) -> None:
        """Call ``work`` for each connection; an error is logged, and that connection is cut off."""
        for connection in list(self.open_connections):
            try:
                work(connection)
            except Exception:  # noqa: BLE001 - one client's mistake is not the others'
                _LOG.exception("a client is cut off")
                connection.cut()

    def _run(self) -> bool:
        """Run the event loop until :meth:`close`.

        Return True if it has ended for another reason.
        """
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        return not self._is_ending

    def _in_loop(self, call: Callable[[], _T]) -> _T:
        """Call a function in the event loop, wait for its end, and return its result."""

        async def run() -> _T:
            return call()

        return self._call(run())

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the event loop, wait for its end, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()


class _Handler:
    """The server as its acceptor sees it."""

    def __init__(self, server: AmqpServer) -> None:
        """Take the server whose connections the acceptor accepts."""
        self._server, self.log = server, _LOG

    @property
    def handshake_seconds(self) -> float:
        """The longest time for a TLS handshake, the same as for the SASL exchange."""
        return HANDSHAKE_SECONDS

    def capacity(self) -> int:
        """Return how many more connections the server accepts now."""
        return _MAX_CONNECTIONS - len(self._server.open_connections)

    def new(self) -> AmqpConnection:
        """Return the asyncio protocol object for a new connection."""
        server = self._server
        return AmqpConnection(server.service, next(INSTANCE_NUMBERS), server.open_connections)

    def without_tls(self, client: str, first: bytes) -> bytes:
        """Log a client that does not use TLS on a TLS port, and return the bytes to answer.

        An AMQP client gets the protocol header of TLS, any other client b"".
        """
        if first.startswith(_AMQP):
            self.log.warning("AMQ9639E: %s has no CipherSpec, and TLS alone is spoken here", client)
            return _TLS_HEADER
        text = "AMQ9207E: %s speaks %s, where TLS alone is spoken"
        self.log.warning(text, client, protocol_of(first))
        return b""
