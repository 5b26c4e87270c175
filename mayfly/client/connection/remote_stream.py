"""Sockets of a client: TCP, TLS and UNIX, opened, written and read by different threads."""

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
_CHUNK_BYTES = 65_536
#: Looks for bytes before a thread sleeps, some 250 µs altogether: to wake a thread that sleeps can
#: take as long as a put. Answers that take longer are soon waited for without looks.
_LOOKS = 120
#: So many receives at the most go without looks after looks in vain.
_PASSES_MAX = 64
_CAN_LOOK = hasattr(socket, "MSG_DONTWAIT") and hasattr(os, "sched_yield")
_UNREACHABLE = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.ENETDOWN}
)


class Stream(Protocol):
    """Bytes to and from a server; one thread may send while another one receives."""

    def send(self, data: bytes) -> None:
        """Send all; raises OSError, after which nothing more may be sent."""

    def receive(self) -> bytes:
        """Wait for some bytes; empty at the end. Raises OSError."""

    def receive_now(self) -> bytes | None:
        """Return what is there, None when nothing is; empty at the end. Raises OSError."""

    def limit(self, seconds: float | None) -> None:
        """Let later calls that wait so long raise TimeoutError, an OSError; None: no limit."""

    def abort(self) -> None:
        """End both directions; a thread that receives is woken."""

    def close(self) -> None:
        """Give the socket back; no thread is using it."""


class PlainStream:
    """A socket that is not encrypted."""

    def __init__(self, plain: socket.socket) -> None:
        """Take a connected socket."""
        self._socket = plain
        self.send = plain.sendall
        self._is_limited = False
        #: How many receives go without looks from now on, and after the next looks in vain.
        self._passes, self._next_passes = 0, 1

    def receive(self) -> bytes:
        """Wait for some bytes."""
        if self._passes:
            self._passes -= 1
        elif _CAN_LOOK and not self._is_limited:
            data = self._looked_for()
            if data is not None:
                return data
        return self._socket.recv(_CHUNK_BYTES)

    def receive_now(self) -> bytes | None:
        """Return what is there."""
        return self._socket.recv(_CHUNK_BYTES) if _is_ready(self._socket, True, 0) else None

    def limit(self, seconds: float | None) -> None:
        """Limit how long later calls wait."""
        # With a limit the socket waits also where it is told not to.
        self._is_limited = seconds is not None
        self._socket.settimeout(seconds)

    def abort(self) -> None:
        """End both directions."""
        _end(self._socket)

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()

    def _looked_for(self) -> bytes | None:
        """Return bytes that come soon, letting other programs run meanwhile; else None."""
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
    """A socket under TLS; OpenSSL's state is under a lock, nobody waits while holding it."""

    def __init__(self, encrypted: ssl.SSLSocket, runtime: Runtime) -> None:
        """Take a socket after its handshake."""
        self._socket = encrypted
        encrypted.setblocking(False)
        self._lock = runtime.lock("tls")
        self._limit_seconds: float | None = None

    def send(self, data: bytes) -> None:
        """Send all."""
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
        """Wait for some bytes."""
        while True:
            data = self.receive_now()
            if data is not None:
                return data
            self._wait(to_read=True)

    def receive_now(self) -> bytes | None:
        """Return what is there."""
        try:
            with self._lock:
                return self._socket.recv(_CHUNK_BYTES)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except ssl.SSLEOFError:
            return b""

    def limit(self, seconds: float | None) -> None:
        """Limit how long later calls wait."""
        self._limit_seconds = seconds

    def abort(self) -> None:
        """End both directions."""
        _end(self._socket)

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()

    def _wait(self, *, to_read: bool) -> None:
        if not _is_ready(self._socket, to_read, self._limit_seconds):
            raise TimeoutError("timed out")


class NoStream:
    """A stream that is somebody else's."""

    def send(self, _data: bytes) -> None:
        """Send nothing."""
        raise OSError(errno.EBADF, "not connected")

    def receive(self) -> bytes:
        """Receive nothing."""
        return b""

    def receive_now(self) -> bytes | None:
        """Receive nothing."""
        return b""

    def limit(self, _seconds: float | None) -> None:
        """Leave it as it is."""

    def abort(self) -> None:
        """Leave it as it is."""

    def close(self) -> None:
        """Leave it as it is."""


def opened(endpoint: Endpoint, address: AnyAddress, runtime: Runtime) -> Stream:
    """Return a stream to one address.

    Raises MQRC_Q_MGR_NOT_AVAILABLE where nobody listens, MQRC_HOST_NOT_AVAILABLE,
    MQRC_SSL_INITIALIZATION_ERROR, what ``Tls.context`` raises, and MQRC_SSL_PEER_NAME_MISMATCH or
    MQRC_SSL_PEER_NAME_ERROR for a server or a pattern of another name.
    """
    tls = None if isinstance(address, Path) else endpoint.tls
    # Before anything is open: a file may be missing.
    context = None if tls is None else tls.context()
    try:
        plain = _connected(address)
    except (ConnectionRefusedError, FileNotFoundError) as error:
        said = f"nobody listens on {address}: {error.strerror}"
        raise mq_error(rc.MQRC_Q_MGR_NOT_AVAILABLE, said) from None
    except OSError as error:
        raise mq_error(rc.MQRC_HOST_NOT_AVAILABLE, f"{address}: {error}") from None
    if tls is None or context is None or isinstance(address, Path):
        plain.settimeout(None)
        return PlainStream(plain)
    try:
        encrypted = context.wrap_socket(plain, server_hostname=address.host)
    except OSError as error:
        plain.close()
        said = f"TLS with {address}: {error}"
        raise mq_error(rc.MQRC_SSL_INITIALIZATION_ERROR, said) from None
    try:
        _check_name(encrypted, tls.peer_name)
    except MQError:
        encrypted.close()
        raise
    return TlsStream(encrypted, runtime)


def _check_name(encrypted: ssl.SSLSocket, pattern: str) -> None:
    """Raise MQRC_SSL_PEER_NAME_MISMATCH unless the server's certificate has the name of SSLPEER."""
    if not pattern:
        return
    subject = spelled((encrypted.getpeercert() or {}).get("subject", ()))  # type: ignore[arg-type]  # typeshed's subject is wider than pairs
    try:
        is_right = is_matched(subject, pattern)
    except ValueError as error:
        raise mq_error(rc.MQRC_SSL_PEER_NAME_ERROR, f"SSLPEER({pattern}): {error}") from None
    if not is_right:
        said = f"the server is {subject!r}, which does not match SSLPEER({pattern})"
        raise mq_error(rc.MQRC_SSL_PEER_NAME_MISMATCH, said)


def broken(error: OSError | str) -> MQError:
    """Return why a connection that was open is gone."""
    return mq_error(rc.MQRC_CONNECTION_BROKEN, f"the connection to the server is broken: {error}")


def _connected(address: AnyAddress) -> socket.socket:
    if isinstance(address, Path):
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(CONNECT_SECONDS)
        try:
            made.connect(str(address))
        except OSError:
            made.close()
            raise
        return made
    made = socket.create_connection((address.host, address.port), CONNECT_SECONDS)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _is_ready(of: socket.socket, to_read: bool, seconds: float | None) -> bool:
    """Wait until a socket can be read or written, for a time; None is for ever."""
    if hasattr(select, "poll"):
        # Unlike select it takes any number of a socket.
        poll = select.poll()
        poll.register(of, select.POLLIN if to_read else select.POLLOUT)
        return bool(poll.poll(None if seconds is None else seconds * SECOND_MS))
    for_reading, for_writing = ([of], []) if to_read else ([], [of])
    return any(select.select(for_reading, for_writing, [], seconds))


def _end(of: socket.socket) -> None:
    with contextlib.suppress(OSError):
        of.shutdown(socket.SHUT_RDWR)
