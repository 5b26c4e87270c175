"""The sockets of a server: listening ones, TLS handshakes, and one event loop for all connections.

asyncio's own server does not log a failed handshake, and drops a connection that comes while it is
being closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from abc import ABC, abstractmethod
from asyncio import sslproto
from collections.abc import Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from mayfly.channel import ClientConnection
from mayfly.runtime import Loop, Runtime
from mayfly.verbs.contracts.wire import protocol_of

_BACKLOG: Final = 1_024
#: The most connections that are accepted before the loop does other work.
_ACCEPTED_AT_ONCE: Final = 64
#: First byte of a record of TLS that begins a handshake.
_TLS_HANDSHAKE: Final = b"\x16"
_TELLING_BYTES: Final = 8
_CHUNK_BYTES: Final = 65_536
#: A client that is refused has this time to hang up.
_HANGING_UP_SECONDS: Final = 5.0
#: The process has no file descriptor or memory left for a connection; it has later.
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_SECONDS: Final = 1.0
#: Reasons of OpenSSL, with the number and the words of IBM MQ for them.
_CAUSES: Final = {
    "CERTIFICATE_VERIFY_FAILED": ("AMQ9633E", "its certificate is bad"),
    "NO_SHARED_CIPHER": ("AMQ9616E", "none of its CipherSpecs is enabled here"),
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": ("AMQ9637E", "it has no certificate"),
    "UNSUPPORTED_PROTOCOL": ("AMQ9616E", "its version of TLS is not enabled here"),
}
_ALERT = "AMQ9665E", "it has ended the handshake"
_OTHER_CAUSE = "AMQ9620E", "the handshake has failed"


class ConnectionHandler(Protocol):
    """A server as its acceptor sees it.

    The acceptor calls all methods in the server's event loop.
    """

    log: logging.Logger
    #: The first bytes of a client of the server's protocol that does not use TLS.
    magic: bytes

    @property
    def refusal_without_tls(self) -> bytes:
        """The bytes to answer a client that speaks the server's protocol, but not TLS.

        They are sent on a port that accepts only TLS, before the socket closes.
        """

    @property
    def handshake_seconds(self) -> float | None:
        """The longest time for a TLS handshake in seconds; None means no limit."""

    def capacity(self) -> int:
        """Return how many more connections the server accepts now; 0 or less means none."""

    def new(self) -> asyncio.BaseProtocol:
        """Return the asyncio protocol for a new connection."""


def tcp_sockets(host: str, port: int) -> list[socket.socket]:
    """Return TCP sockets that listen on all addresses of a host; port 0 is any free port.

    An empty ``host`` means all interfaces. Raises OSError if an address is unknown or in use; no
    socket stays open then.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((each[0], each[4]) for each in found):
            made.append(socket.create_server(address, family=family, backlog=_BACKLOG))
            made[-1].setblocking(False)
    except BaseException:
        for each in made:
            each.close()
        raise
    return made


def unix_socket(path: Path) -> socket.socket:
    """Return a listening UNIX socket at a path, with file mode 0600; raises OSError."""
    made = socket.socket(socket.AF_UNIX)
    try:
        made.bind(str(path))
        path.chmod(0o600)
        made.listen(_BACKLOG)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


class Acceptor:
    """Accepts connections on listening sockets, in the event loop that creates the acceptor."""

    def __init__(
        self,
        listening: Sequence[socket.socket],
        handler: ConnectionHandler,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Start to accept connections on the sockets ``listening``; returns at once.

        ``handler`` is the server that gets them. With ``context`` each connection begins with a TLS
        handshake.
        """
        self._handler, self._context = handler, context
        #: Connections whose handshake has not ended.
        self._handshaking: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._listening = list(listening)
        for each in self._listening:
            self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        """Close the listening sockets; a second call does nothing.

        Connections that wait in the queue of a socket are accepted and served.
        """
        listening, self._listening = self._listening, []
        for each in listening:
            self._loop.remove_reader(each)
            # A close would reset them without an answer.
            with each, contextlib.suppress(OSError):
                while True:
                    self._begin(each.accept()[0])

    async def cut(self) -> None:
        """Close connections whose TLS handshake has not ended; return when all are closed."""
        handshaking = list(self._handshaking)
        for each in handshaking:
            each.cancel()
        await asyncio.gather(*handshaking, return_exceptions=True)

    def _accept(self, listening: socket.socket) -> None:
        """Accept up to 64 waiting connections of one listening socket.

        The next call accepts the rest. If the process has no descriptor or memory, log a warning,
        and accept none on this socket for one second.
        """
        # asyncio's sock_accept loses a connection when it is cancelled behind the accept.
        try:
            for _ in range(_ACCEPTED_AT_ONCE):
                self._begin(listening.accept()[0])
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._handler.log.warning("AMQ9210E: no connection is taken: %s", error)
                self._loop.remove_reader(listening)
                self._loop.call_later(_PAUSE_SECONDS, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        """Accept connections on a socket again, a second after descriptors or memory were lacking.

        Does nothing after :meth:`close`.
        """
        if listening in self._listening:
            self._loop.add_reader(listening, self._accept, listening)

    def _begin(self, made: socket.socket) -> None:
        """Start a task for a new connection; close the connection if the server has no capacity."""
        made.setblocking(False)
        free = self._handler.capacity()
        if len(self._handshaking) >= free:
            text = "AMQ9213E: %s is refused: %d connections more may come in"
            self._handler.log.warning(text, _name(made), free)
            made.close()
            return
        task = self._loop.create_task(self._authenticate(made))
        self._handshaking.add(task)

        def end(task: asyncio.Task[None]) -> None:
            """Forget a finished task; close the socket if the task was cancelled."""
            self._handshaking.discard(task)
            if task.cancelled():
                made.close()

        task.add_done_callback(end)

    async def _authenticate(self, made: socket.socket) -> None:
        """Connect a new socket to a protocol of the server, after a TLS handshake if TLS is on.

        A failed or late handshake is logged and the socket is closed; no error is raised.
        """
        log, client = self._handler.log, _name(made)
        try:
            if self._context is None:
                await self._loop.connect_accepted_socket(self._handler.new, made)
                return
            async with asyncio.timeout(self._handler.handshake_seconds):
                await self._shake_hands(made, client, self._context)
        except TimeoutError:
            log.warning("AMQ9259E: %s has not ended its TLS handshake", client)
        except ssl.SSLError as error:
            number, text = _cause(error)
            log.warning("%s: %s is refused by TLS: %s (%s)", number, client, text, error)
        except OSError as error:
            log.warning("AMQ9209E: %s has gone in its TLS handshake: %s", client, error)
        else:
            return
        made.close()

    async def _shake_hands(self, made: socket.socket, client: str, context: ssl.SSLContext) -> None:
        """Do the TLS handshake of one connection; raises ssl.SSLError or OSError.

        A client that does not begin a handshake is refused. A client that closes without sending
        anything is ignored. The socket is closed in both cases.
        """
        first = await _first_bytes(made)
        if not first:
            # A program that only looks whether a server listens sends nothing.
            made.close()
        elif first.startswith(_TLS_HANDSHAKE):
            await self._loop.connect_accepted_socket(self._handler.new, made, ssl=context)
        else:
            with made, contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_HANGING_UP_SECONDS):
                    await _refuse(made, self._answer_without_tls(client, first))

    def _answer_without_tls(self, client: str, first: bytes) -> bytes:
        """Log a client that does not use TLS, and return the bytes to answer.

        ``client`` is its name for the log, ``first`` its first bytes. The bytes are b"" for a
        client of another protocol, which would not understand an answer.
        """
        handler = self._handler
        if first.startswith(handler.magic):
            text = "AMQ9639E: %s has no CipherSpec, and TLS alone is spoken here"
            handler.log.warning(text, client)
            return handler.refusal_without_tls
        text = "AMQ9207E: %s speaks %s, where TLS alone is spoken"
        handler.log.warning(text, client, protocol_of(first))
        return b""


async def _first_bytes(made: socket.socket) -> bytes:
    """Wait for the first bytes of a client and return up to 8 of them, without consuming them.

    Returns b"" if the client has closed the connection.
    """
    loop = asyncio.get_running_loop()
    there = asyncio.Event()
    loop.add_reader(made, there.set)
    try:
        await there.wait()
    finally:
        loop.remove_reader(made)
    return made.recv(_TELLING_BYTES, socket.MSG_PEEK)


async def _refuse(made: socket.socket, answer: bytes) -> None:
    """Send an answer to a client, then wait until the client closes the connection."""
    loop = asyncio.get_running_loop()
    # With bytes that are not read, a close would reset the connection before the client reads.
    await loop.sock_recv(made, _CHUNK_BYTES)
    await loop.sock_sendall(made, answer)
    made.shutdown(socket.SHUT_WR)
    while await loop.sock_recv(made, _CHUNK_BYTES):
        pass


def _cause(error: ssl.SSLError) -> tuple[str, str]:
    """Return IBM's message number and a text for a TLS error.

    Example: ``("AMQ9616E", "none of its CipherSpecs is enabled here")``. Unknown errors give
    AMQ9620E.
    """
    reason = error.reason or ""
    return _CAUSES.get(reason, _ALERT if "_ALERT_" in reason else _OTHER_CAUSE)


def _name(made: socket.socket) -> str:
    """Return the client's address and port for the log, such as ``10.0.0.5(40112)``.

    A UNIX socket gives ``a UNIX socket``, a closed connection ``a client that has gone``.
    """
    try:
        name = made.getpeername()
    except OSError:
        return "a client that has gone"
    return f"{name[0]}({name[1]})" if isinstance(name, tuple) else "a UNIX socket"


_INTERNET: Final = frozenset({socket.AF_INET, socket.AF_INET6})


def send_at_once(transport: asyncio.BaseTransport) -> None:
    """Turn off Nagle's algorithm on an accepted connection (TCP_NODELAY).

    With it, a second answer waits until the client acknowledges the first one, which takes 40 ms if
    the client sends nothing meanwhile. asyncio does this itself, but not if the server listens on a
    numeric address.
    """
    accepted = transport.get_extra_info("socket")
    if accepted is not None and accepted.family in _INTERNET:
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


#: asyncio gives each TLS connection a buffer of 256 KiB to read into; a record has 16.
_BUFFER_BYTES: Final = 16_384


def lower_tls_buffers() -> None:
    """Set the read buffer of later TLS connections of this process to 16 KiB, one TLS record."""
    sslproto.SSLProtocol.max_size = _BUFFER_BYTES


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
