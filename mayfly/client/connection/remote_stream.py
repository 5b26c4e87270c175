"""The sockets of a client: TCP, TLS and UNIX; one thread may write while another reads."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import ssl
from pathlib import Path
from typing import Protocol

from mayfly.client.connection.endpoint import AnyAddress, Endpoint
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.distinguished_names import is_matched, spelled
from mayfly.mqi.errors import MQError, mq_error
from mayfly.runtime import Runtime

#: A host that does not answer within this time is not available.
CONNECT_SECONDS = 30.0
#: The same for each of several addresses: the next one may be that of a server that answers.
CONNECT_SECONDS_OF_SEVERAL = 5.0
_CHUNK_BYTES = 65_536
#: How often a thread looks for bytes before it sleeps, about 250 µs in all. Waking a thread can
#: take as long as a put. After looks in vain, receives soon go without looks.
_LOOKS = 120
#: The largest number of receives without looks after looks in vain.
_PASSES_MAX = 64
_CAN_LOOK = hasattr(socket, "MSG_DONTWAIT") and hasattr(os, "sched_yield")


class Stream(Protocol):
    """A byte stream to a server; one thread may send while another receives."""

    def send(self, data: bytes) -> None:
        """Send all bytes; after an OSError nothing more may be sent."""

    def receive(self) -> bytes:
        """Wait for bytes and return them; empty at the end of the stream. Raises OSError."""

    def receive_now(self) -> bytes | None:
        """Return received bytes without waiting: None when there are none, empty at the end.

        Raises OSError.
        """

    def limit(self, seconds: float | None) -> None:
        """Set a timeout for later calls: after ``seconds`` they raise TimeoutError, an OSError.

        None is no timeout.
        """

    def abort(self) -> None:
        """End both directions, which wakes a receiving thread."""

    def close(self) -> None:
        """Close the socket; no thread may be using it."""


class PlainStream:
    """A socket without encryption."""

    def __init__(self, plain: socket.socket) -> None:
        """Use a connected socket."""
        self._socket = plain
        self.send = plain.sendall
        self._is_limited = False
        #: How many receives go without looks from now on, and after the next looks in vain.
        self._passes, self._next_passes = 0, 1

    def receive(self) -> bytes:
        """Wait for bytes and return them; empty at the end of the stream. Raises OSError.

        It polls for about 250 µs, then blocks: waking a thread takes long.
        """
        if self._passes:
            self._passes -= 1
        elif _CAN_LOOK and not self._is_limited:
            data = self._looked_for()
            if data is not None:
                return data
        return self._socket.recv(_CHUNK_BYTES)

    def receive_now(self) -> bytes | None:
        """Return received bytes without waiting: None when there are none, empty at the end."""
        return self._socket.recv(_CHUNK_BYTES) if _is_ready(self._socket, True, 0) else None

    def limit(self, seconds: float | None) -> None:
        """Set the timeout of later calls in seconds; None is no limit."""
        # A socket with a timeout waits even with MSG_DONTWAIT.
        self._is_limited = seconds is not None
        self._socket.settimeout(seconds)

    def abort(self) -> None:
        """End both directions, which wakes a receiving thread."""
        _shut_down(self._socket)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _looked_for(self) -> bytes | None:
        """Return bytes that come within about 250 µs of busy waiting, else None."""
        for _ in range(_LOOKS):
            try:
                data = self._socket.recv(_CHUNK_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                os.sched_yield()
            else:
                self._next_passes = 1
                return data
        self._passes = self._next_passes
        self._next_passes = min(2 * self._next_passes, _PASSES_MAX)
        return None


class TlsStream:
    """A socket with TLS. A lock guards OpenSSL's state; no thread waits while it holds the lock."""

    def __init__(self, encrypted: ssl.SSLSocket, runtime: Runtime) -> None:
        """Use a socket after its TLS handshake; its lock comes from ``runtime``."""
        self._socket = encrypted
        encrypted.setblocking(False)
        self._lock = runtime.lock("tls")
        self._limit_seconds: float | None = None

    def send(self, data: bytes) -> None:
        """Send all bytes; raises OSError."""
        left = memoryview(data)
        while left:
            try:
                with self._lock:
                    left = left[self._socket.send(left) :]
            except ssl.SSLWantReadError:
                self._wait(to_read=True)
            except ssl.SSLWantWriteError:
                self._wait(to_read=False)

    def receive(self) -> bytes:
        """Wait for bytes and return them; empty at the end of the stream. Raises OSError."""
        while True:
            data = self.receive_now()
            if data is not None:
                return data
            self._wait(to_read=True)

    def receive_now(self) -> bytes | None:
        """Return received bytes without waiting; None when there are none, empty at the end."""
        try:
            with self._lock:
                return self._socket.recv(_CHUNK_BYTES)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except ssl.SSLEOFError:
            return b""

    def limit(self, seconds: float | None) -> None:
        """Set the timeout of later calls in seconds; None is no limit."""
        self._limit_seconds = seconds

    def abort(self) -> None:
        """End both directions, which wakes a receiving thread."""
        _shut_down(self._socket)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _wait(self, *, to_read: bool) -> None:
        """Wait until the socket can be read with ``to_read``, or else written.

        Raises TimeoutError when the limit set by :meth:`limit` is over.
        """
        if not _is_ready(self._socket, to_read, self._limit_seconds):
            raise TimeoutError("timed out")


class NoStream:
    """The stream of a link in a forked child, which must not touch the socket of its parent."""

    def send(self, _data: bytes) -> None:
        """Raise OSError (EBADF)."""
        raise OSError(errno.EBADF, "not connected")

    def receive(self) -> bytes:
        """Return b"", the end of the stream."""
        return b""

    def receive_now(self) -> bytes | None:
        """Return b"", the end of the stream."""
        return b""

    def limit(self, _seconds: float | None) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def open_stream(
    endpoint: Endpoint,
    address: AnyAddress,
    runtime: Runtime,
    seconds: float = CONNECT_SECONDS,
) -> Stream:
    """Connect to one address and return the stream, with TLS if the endpoint has it.

    ``seconds`` is how long each step waits for an answer. Raises MQRC_HOST_NOT_AVAILABLE when
    nobody listens there, and for another network error; MQRC_Q_MGR_NOT_AVAILABLE when nobody
    listens on the socket of a folder; and MQRC_SSL_INITIALIZATION_ERROR for a failed handshake.
    Raises MQRC_SSL_PEER_NAME_MISMATCH when the certificate of the server has another name than
    SSLPEER, MQRC_SSL_PEER_NAME_ERROR for a wrong SSLPEER, and the errors of ``Tls.context``.
    """
    tls = None if isinstance(address, Path) else endpoint.tls
    # Before anything is open: a file may be missing.
    context = None if tls is None else tls.context()
    try:
        plain = _connect_socket(address, seconds)
    except (ConnectionRefusedError, FileNotFoundError) as error:
        text = f"nobody listens on {address}: {error.strerror}"
        is_folder = isinstance(address, Path)
        reason = rc.MQRC_Q_MGR_NOT_AVAILABLE if is_folder else rc.MQRC_HOST_NOT_AVAILABLE
        raise mq_error(reason, text) from None
    except OSError as error:
        raise mq_error(rc.MQRC_HOST_NOT_AVAILABLE, f"{address}: {error}") from None
    if tls is None or context is None or isinstance(address, Path):
        plain.settimeout(None)
        return PlainStream(plain)
    try:
        encrypted = context.wrap_socket(plain, server_hostname=address.host)
    except OSError as error:
        plain.close()
        text = f"TLS with {address}: {error}"
        raise mq_error(rc.MQRC_SSL_INITIALIZATION_ERROR, text) from None
    try:
        _check_name(encrypted, tls.peer_name)
    except MQError:
        encrypted.close()
        raise
    return TlsStream(encrypted, runtime)


def _check_name(encrypted: ssl.SSLSocket, pattern: str) -> None:
    """Raise MQRC_SSL_PEER_NAME_MISMATCH if the server's certificate does not match SSLPEER.

    An empty pattern matches any certificate. A wrong one raises MQRC_SSL_PEER_NAME_ERROR.
    """
    if not pattern:
        return
    subject = spelled((encrypted.getpeercert() or {}).get("subject", ()))  # type: ignore[arg-type]  # typeshed's subject is wider than pairs
    try:
        is_right = is_matched(subject, pattern)
    except ValueError as error:
        raise mq_error(rc.MQRC_SSL_PEER_NAME_ERROR, f"SSLPEER({pattern}): {error}") from None
    if not is_right:
        text = f"the server is {subject!r}, which does not match SSLPEER({pattern})"
        raise mq_error(rc.MQRC_SSL_PEER_NAME_MISMATCH, text)


def broken(error: OSError | str) -> MQError:
    """Return the MQRC_CONNECTION_BROKEN error for a connection that was open."""
    return mq_error(rc.MQRC_CONNECTION_BROKEN, f"the connection to the server is broken: {error}")


def _connect_socket(address: AnyAddress, seconds: float) -> socket.socket:
    """Return a socket connected to a TCP address or to the path of a UNIX socket.

    Raises OSError, also after so many ``seconds`` without an answer.
    """
    if isinstance(address, Path):
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(seconds)
        try:
            made.connect(str(address))
        except OSError:
            made.close()
            raise
        return made
    made = socket.create_connection((address.host, address.port), seconds)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _is_ready(of: socket.socket, to_read: bool, seconds: float | None) -> bool:
    """Wait until a socket can be read, or written without ``to_read``, and return True.

    Return False when that is not possible within ``seconds``; None is no limit.
    """
    if hasattr(select, "poll"):
        # Unlike select it takes any number of a socket.
        poll = select.poll()
        poll.register(of, select.POLLIN if to_read else select.POLLOUT)
        return bool(poll.poll(None if seconds is None else seconds * SECOND_MS))
    for_reading, for_writing = ([of], []) if to_read else ([], [of])
    return any(select.select(for_reading, for_writing, [], seconds))


def _shut_down(of: socket.socket) -> None:
    """Shut a socket down in both directions; do nothing if it is not connected any more."""
    with contextlib.suppress(OSError):
        of.shutdown(socket.SHUT_RDWR)
