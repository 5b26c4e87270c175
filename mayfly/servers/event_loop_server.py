"""A server whose connections share one event loop, in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from mayfly.channel import ClientConnection
from mayfly.runtime import Loop, Runtime
from mayfly.servers.acceptor import Acceptor, ConnectionHandler, lower_tls_buffers, tcp_sockets

#: How often a connection that is to end is asked whether its work is done.
LOOK_SECONDS: Final = 0.02


class ServedConnection(Protocol):
    """A connection of a client, as its server sees it; only the event loop uses it."""

    def status(self) -> list[ClientConnection]:
        """Return the attributes of each conversation, as DISPLAY CONN shows them."""

    def abort(self) -> None:
        """Abort the socket without a word to the client; does nothing if it is closed."""


_T = TypeVar("_T")
_ConnectionT = TypeVar("_ConnectionT", bound=ServedConnection)


class EventLoopServer(ABC, Generic[_ConnectionT]):
    """Serves clients in one event loop; any thread may call the public methods.

    The other methods of a subclass are called in the event loop, but for :meth:`_shut_down`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: ConnectionHandler,
        runtime: Runtime,
        thread_name: str,
    ) -> None:
        """Start the event loop on its thread; nothing listens yet.

        ``handler`` makes the object for each new connection. The loop must be made for this server,
        which closes it.
        """
        self.loop, self._handler = loop, handler
        self._acceptors: list[Acceptor] = []
        self._is_closed = self._is_ending = False
        self._thread = Loop(runtime, self._run, thread_name)
        self._thread.start()

    def listen_tcp(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen on an address and return its port; port 0 is any free one.

        With ``tls`` only TLS is accepted. Raises OSError if the address cannot be used.
        """
        if tls is not None:
            lower_tls_buffers()
        listening = tcp_sockets(host, port)
        found = int(listening[0].getsockname()[1])
        self._accept_on(listening, tls)
        return found

    def connections(self) -> list[ClientConnection]:
        """Return the open conversations, as DISPLAY CONN shows them."""
        return self._call(
            lambda: [each for connection in self._open() for each in connection.status()]
        )

    def end(self, number: int, why: str = "was stopped by an operator") -> bool:
        """Close the connection with conversation ``number``; return False if none has it.

        Its units of work are backed out. Other conversations of the same socket end as well.
        ``why`` is a text for the client.
        """
        text = f"connection {number} {why}"
        return self._call_with(number, lambda connection: self._end(connection, text))

    def quiesce(self, number: int) -> bool:
        """Close the connection with conversation ``number`` once its work is done; does not wait.

        Returns False if no connection has it. The client gets no more messages. Work is an open
        unit of work, a delivery to settle or a running verb; once no conversation of the socket has
        any, the socket is closed.
        """
        return self._call_with(number, self._quiesce_until_gone)

    def drain(self, timeout_ms: int) -> bool:
        """Refuse new clients, and wait until all have left; return False after ``timeout_ms``.

        Each connection ends once its work is done, as by :meth:`quiesce`. Connections that are open
        after the timeout stay open until :meth:`close`.
        """

        async def drain() -> bool:
            """Drain in the event loop; return False if clients are left at the end of the time."""
            self._stop_accepting()
            until = self.loop.time() + timeout_ms / 1_000
            while self._has_clients():
                if self.loop.time() >= until:
                    return False
                self._each(lambda connection: self._drain(connection, "the server ends"))
                await asyncio.sleep(LOOK_SECONDS)
            return True

        return self._run_in_loop(drain())

    def drain_manager(self, name: str, timeout_ms: int, why: str) -> None:
        """End the connections of one queue manager; return when none is left. Others stay.

        Each ends once its work is done, as by :meth:`drain`, and after ``timeout_ms`` in any case,
        with ``why`` as the text for its client. New ones must be refused before the call.
        """

        async def drain() -> None:
            until = self.loop.time() + timeout_ms / 1_000
            while connections := self._connections_with(name):
                is_late = self.loop.time() >= until
                for each in connections:
                    if is_late:
                        self._end(each, why)
                    else:
                        self._drain(each, why)
                if is_late:
                    break
                await asyncio.sleep(LOOK_SECONDS)

        self._run_in_loop(drain())

    def close(self) -> None:
        """Close all connections, back out their units of work, and end the threads.

        Returns when this is done. A second call does nothing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._run_in_loop(self._end_all())
        self._is_ending = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self._shut_down()
        self.loop.close()

    @abstractmethod
    def _open(self) -> Collection[_ConnectionT]:
        """Return the open connections."""

    @abstractmethod
    def _end(self, connection: _ConnectionT, why: str) -> None:
        """Close a connection, which an operator or the server ends, with a text for the client."""

    @abstractmethod
    def _quiesce(self, connection: _ConnectionT) -> None:
        """Close a connection for an operator if it has no work left; does not wait.

        The connection sends no more messages. The server repeats the call until it has ended.
        """

    @abstractmethod
    def _drain(self, connection: _ConnectionT, why: str) -> None:
        """Do the same as ``_quiesce``, because the queue manager ends here: with another reason.

        ``why`` is a text for the client.
        """

    @abstractmethod
    async def _end_all(self) -> None:
        """Accept no new connections, close the open ones, and return when they have ended."""

    @abstractmethod
    def _shut_down(self) -> None:
        """End the threads of the server; the event loop has stopped."""

    def _has_clients(self) -> bool:
        """Return True while a connection is open."""
        return bool(self._open())

    def _connections_with(self, manager: str) -> list[_ConnectionT]:
        """Return the open connections that have a conversation with a queue manager."""
        return [
            connection
            for connection in self._open()
            if any(each.queue_manager == manager for each in connection.status())
        ]

    def _stop_accepting(self) -> None:
        """Close the listening sockets."""
        for acceptor in self._acceptors:
            acceptor.close()

    async def _cut_handshakes(self) -> None:
        """Close the listening sockets, and connections whose TLS handshake has not ended."""
        self._stop_accepting()
        for acceptor in self._acceptors:
            await acceptor.cut()

    def _each(self, work: Callable[[_ConnectionT], object]) -> None:
        """Call ``work`` for each connection; an error is logged, and that connection is aborted."""
        log_error = self._handler.log.exception
        for connection in list(self._open()):
            try:
                work(connection)
            except Exception:  # noqa: BLE001 - one client's mistake is not the others'
                log_error("a client is cut off")
                connection.abort()

    def _quiesce_until_gone(self, connection: _ConnectionT) -> None:
        """Ask a connection to end once its work is done, now and every 20 ms until it has ended."""
        if connection in self._open():
            self._quiesce(connection)
            self.loop.call_later(LOOK_SECONDS, self._quiesce_until_gone, connection)

    def _accept_on(
        self, listening: Sequence[socket.socket], tls: ssl.SSLContext | None = None
    ) -> None:
        """Start to accept connections on listening sockets; returns at once.

        With ``tls`` each connection begins with a TLS handshake.
        """
        self._acceptors.append(self._call(lambda: Acceptor(listening, self._handler, tls)))

    def _run(self) -> bool:
        """Run the event loop until :meth:`close`, on its thread.

        Return True if it has ended for another reason, and must run again.
        """
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        return not self._is_ending

    def _call_with(self, number: int, work: Callable[[_ConnectionT], object]) -> bool:
        """Call ``work`` in the event loop with the connection that has conversation ``number``.

        Return False, without a call, if no connection has it.
        """

        def find_and_work() -> bool:
            for connection in self._open():
                if any(each.number == number for each in connection.status()):
                    work(connection)
                    return True
            return False

        return self._call(find_and_work)

    def _call(self, function: Callable[[], _T]) -> _T:
        """Call a function in the event loop, wait for its end, and return its result."""

        async def run() -> _T:
            return function()

        return self._run_in_loop(run())

    def _run_in_loop(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the event loop, wait for its end, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()
