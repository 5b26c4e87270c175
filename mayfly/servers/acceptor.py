"""Accepts the connections of a server: listening sockets and TLS handshakes.

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
from asyncio import sslproto
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

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
