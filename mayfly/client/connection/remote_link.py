"""The socket of a client to a server (link): requests, answers, callbacks, heartbeats and forks.

It is TCP, TLS or UNIX; one thread may write while another reads. One waiting thread reads the
answers for all threads. A separate thread calls callbacks.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import socket
import ssl
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from mayfly.client.connection.endpoint import AnyAddress, Endpoint
from mayfly.client.connection.interface import OnRefused
from mayfly.client.connection.periodic_checks import PeriodicChecks
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.channel_names import is_matched, spelled
from mayfly.mqi.errors import Failure, LostAnswer, MQError, error_of, mq_error
from mayfly.runtime import Event, Loop, Runtime
from mayfly.verbs.contracts.wire import (
    ALIVE,
    ANSWER_BYTES,
    DONE_BYTES,
    ENDED,
    FAILED_BYTES,
    FIRST_FRAME_BYTES,
    HEADER,
    OURS,
    REFUSED,
    Frames,
    Preamble,
    WrongFrame,
    decoded,
    framed,
    packed,
    protocol_of,
)

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
        """Return b"", the end of the stream; never None."""
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


#: Is called with the payload of an answer, or with the error in its place.
OnAnswer: TypeAlias = Callable[[bytes | MQError], object]


class SentRequest:
    """A sent request, and its answer or error once that has come."""

    __slots__ = ("event", "is_doubtful", "on_answer", "on_refused", "payload")

    def __init__(
        self,
        *,
        is_doubtful: bool,
        on_answer: OnAnswer | None = None,
        on_refused: OnRefused | None = None,
    ) -> None:
        """Begin without an answer; ``on_answer`` and ``on_refused`` are its callbacks, if any.

        ``is_doubtful`` is True if the request may have taken effect when its answer is lost.
        """
        self.payload: bytes | MQError | None = None
        self.event: Event | None = None
        #: Whether it may have taken effect when its answer is lost.
        self.is_doubtful = is_doubtful
        self.on_answer, self.on_refused = on_answer, on_refused

    @property
    def is_open(self) -> bool:
        """True until the answer or an error has come."""
        return self.payload is None


def answer_of(payload: bytes | MQError | None, kind: Any) -> Any:
    """Return the value in the payload of an answer, decoded as type ``kind``.

    A payload that is an MQError, or that encodes a failure, is raised as MQError. Raises
    MQRC_CONNECTION_BROKEN for an invalid payload.
    """
    assert payload is not None
    if isinstance(payload, MQError):
        raise payload
    first = payload[: len(DONE_BYTES)]
    try:
        if first == DONE_BYTES:
            return decoded(kind, payload[len(DONE_BYTES) :], "answer")
        if first == FAILED_BYTES:
            raise error_of(decoded(Failure, payload[len(FAILED_BYTES) :], "answer"))
    except WrongFrame as wrong:
        raise broken(str(wrong)) from None
    raise broken("an answer is neither a value nor a failure")


#: No frame is gathered for much longer than this.
_GATHER_SECONDS = 0.001
#: The number of such times without a frame until the thread sleeps; it ends after a second.
_QUIET_ROUNDS, _LINGER_SECONDS = 20, 1.0
#: Returns a frame, which is complete from now on; it is called while the sender is at work.
MakesFrame: TypeAlias = Callable[[], bytes]


class FrameSender:
    """Sends frames to a server; thread-safe. Gathered frames go out before a frame sent at once.

    A send costs the client as much as the rest of a put, and the server more. So puts that nobody
    can see before the commit are gathered. They go out when the frame is full, when another frame
    is sent, or after a millisecond. They must not wait longer: the time to live of a message begins
    when the server has the put. The thread that watches the time exists only while frames are
    gathered.
    """

    def __init__(
        self, stream: Stream, runtime: Runtime, on_failure: Callable[[OSError | str], object]
    ) -> None:
        """Gather the preamble with the protocol versions of this client, which goes out first.

        ``stream`` is the open socket; locks and threads come from ``runtime``. ``on_failure`` is
        called with the error of a frame that no caller waits for.
        """
        self._stream, self._runtime, self._on_failure = stream, runtime, on_failure
        #: Nothing is sent, and nothing gathered, while a thread has it.
        self.lock = runtime.lock("wire-send")
        self._gathered: list[bytes | MakesFrame] = [OURS.packed()]
        #: Whether something was sent since this was last reset.
        self.has_sent = True
        self._changed = runtime.condition()
        self._has_thread = self._is_watched = self._is_over = False

    def send(self, frame: bytes) -> None:
        """Send a frame after the gathered ones; raises OSError.

        After an OSError nothing more may be sent.
        """
        with self.lock:
            if self._gathered:
                self._gathered.append(frame)
                self._send_gathered()
            else:
                self._stream.send(frame)
        self.has_sent = True

    def gather(self, frame: bytes | MakesFrame) -> None:
        """Add a frame, or a function that returns it, to be sent within about a millisecond.

        The caller holds ``lock``, and then calls :meth:`watch` without it.
        """
        self._gathered.append(frame)

    def watch(self) -> None:
        """Start the thread that sends the gathered frames in time, if it does not run."""
        if not self._is_watched:
            self._watch()

    def flush(self) -> None:
        """Send the gathered frames; an OSError goes to ``on_failure``."""
        try:
            with self.lock:
                self._send_gathered()
        except OSError as error:
            self._on_failure(error)
        except BaseException:
            # A part of a frame may be on its way.
            self._on_failure("sending was interrupted")
            raise

    def try_send(self, frame: bytes) -> None:
        """Send a heartbeat, unless another thread is sending: its frame serves as one.

        An OSError goes to ``on_failure``.
        """
        failure: OSError | None = None
        if self.lock.acquire(blocking=False):
            try:
                self._stream.send(frame)
            except OSError as error:
                failure = error
            finally:
                self.lock.release()
        if failure is not None:
            self._on_failure(failure)

    def close(self) -> None:
        """Close the socket, after a send of another thread if one is going on.

        The caller makes sure that no thread is receiving.
        """
        with self.lock:
            self._gathered.clear()
            self._stream.close()

    def end(self) -> None:
        """Let the sending thread end; it sends nothing more."""
        self._is_over = True

    def leave_to_parent(self) -> None:
        """Make the sender of a forked child unusable, without touching the socket of the parent."""
        self._stream = NoStream()
        self.lock = self._runtime.lock("wire-send")
        self._gathered.clear()

    def _send_gathered(self) -> None:
        """Send the gathered frames, if any; the caller holds the lock. Raises OSError."""
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._stream.send(
                b"".join([each if isinstance(each, bytes) else each() for each in gathered])
            )
            self.has_sent = True

    def _watch(self) -> None:
        """Start or wake the thread that sends gathered frames."""
        with self._changed:
            self._is_watched = True
            is_new, self._has_thread = not self._has_thread, True
            self._changed.notify_all()
        if is_new:
            self._runtime.thread(self._run, "mayfly-wire-send").start()

    def _run(self) -> None:
        """Send gathered frames every millisecond, and sleep between bursts. Runs on a thread."""
        quiet_rounds = 0
        while not self._is_over:
            with self._changed:
                if quiet_rounds >= _QUIET_ROUNDS:
                    if not self._sleep():
                        return
                    quiet_rounds = 0
                self._changed.wait(_GATHER_SECONDS)
            quiet_rounds = 0 if self._gathered else quiet_rounds + 1
            if self._gathered and not self._is_over:
                self.flush()

    def _sleep(self) -> bool:
        """Sleep until a frame is gathered; return False when none came and the thread is to end."""
        self._is_watched = False
        if not self._gathered:
            self._changed.wait(_LINGER_SECONDS)
        self._is_watched = self._has_thread = self._is_watched or bool(self._gathered)
        return self._is_watched


_LOG = logging.getLogger("mayfly.client")


class CallbackThread:
    """A queue of callbacks, and the thread that calls them in order; callbacks may call verbs."""

    def __init__(self, runtime: Runtime) -> None:
        """Begin without callbacks; the first one starts the thread."""
        self._runtime = runtime
        self._changed = runtime.condition()
        self._calls: deque[Callable[[], object]] = deque()
        self._has_thread = self._is_over = False

    def add(self, call: Callable[[], object]) -> None:
        """Queue a function for the thread to call; start the thread if it does not run.

        An exception of the function is logged, and later functions are called.
        """
        with self._changed:
            self._calls.append(call)
            is_new, self._has_thread = not self._has_thread, True
            self._changed.notify_all()
        if is_new:
            Loop(self._runtime, self._call_next, "mayfly-wire-call").start()

    def end(self) -> None:
        """End the thread when it has called all queued callbacks."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _call_next(self) -> bool:
        """Wait for the next callback and call it; return False at the end."""
        with self._changed:
            while not self._calls and not self._is_over:
                self._changed.wait()
            if not self._calls:
                self._has_thread = False
                return False
            call = self._calls.popleft()
        try:
            call()
        except (Exception, SystemExit):  # noqa: BLE001 - the program's own; other callbacks follow
            _LOG.exception("a callback has failed")
        return True


_HEARTBEATS = PeriodicChecks("mayfly-heartbeat")
#: All links of this process.
_links: weakref.WeakSet[RemoteLink] = weakref.WeakSet()
_ALIVE = framed(0, ALIVE, packed([ALIVE]))
_link_numbers = count(1)
#: The end of the connection; and a get under way with a queue that it cannot get from.
_ENDED = tuple[int, Failure]
_MET = tuple[int, int, int, Failure]
#: Looks without a byte from the server after which it is taken for gone; see ``servers.wire``.
_SILENT_TICKS = 3


class RemoteLink:
    """One socket to a server, which several conversations share; thread-safe."""

    def __init__(self, stream: Stream, address: AnyAddress, runtime: Runtime) -> None:
        """Prepare the first frame; nothing is sent yet."""
        self._stream, self.runtime = stream, runtime
        #: Other than those of all other links of the process.
        self.number = next(_link_numbers)
        self.sender = FrameSender(stream, runtime, lambda error: self.abandon(broken(error)))
        self.address = address
        self.tick_ms = 0
        #: The version that both sides speak, 0 before the first frame of the server.
        self.version = 0
        self._numbers = count(1)
        #: For those that begin a conversation.
        self.conversation_numbers = count(1)
        #: The conversations that share it, and how many of them may.
        self.members: set[Any] = set()
        self.max_members = 1
        self._slots: dict[int, SentRequest] = {}
        self._roles = runtime.lock("wire-roles")
        self._is_reading = False
        #: Threads that wait for their answer while another one reads.
        self._waiting: dict[SentRequest, None] = {}
        self._frames = Frames(self._on_preamble, self._on_frame, FIRST_FRAME_BYTES)
        self._error: MQError | None = None
        self._has_received, self._silent_ticks = True, 0
        #: How many requests with callbacks are under way.
        self._begun_count = 0
        self._calls, self._has_reader = runtime.condition(), False
        self._callbacks = CallbackThread(runtime)
        _links.add(self)

    # Conversations.

    def admit(self, heartbeat_ms: int, max_members: int = 1) -> None:
        """Accept frames up to ANSWER_BYTES and begin heartbeats.

        The caller does so once the server has accepted a conversation. ``heartbeat_ms`` 0 means no
        heartbeats. ``max_members`` conversations may share the link.
        """
        self._frames.max_bytes = ANSWER_BYTES
        self.max_members = max_members
        if heartbeat_ms and not self.tick_ms:
            self.tick_ms = max(heartbeat_ms // 2, 1)
            _HEARTBEATS.add(self)

    # Requests.

    def call(
        self,
        conversation: int,
        payload: bytes,
        kind: Any,
        *,
        is_doubtful: bool = False,
        wait: Callable[[int, SentRequest], None] | None = None,
    ) -> Any:
        """Send a request, wait for its answer and return it as type ``kind``; raises MQError.

        ``conversation`` is the number of the conversation on the socket, ``payload`` the encoded
        request. ``wait``, unless None, is called with the number of the request, and the request,
        before its answer is read. Raises MQRC_CONNECTION_BROKEN when the connection is gone. That
        is a LostAnswer if ``is_doubtful``: the server may have run the request.
        """
        slot = SentRequest(is_doubtful=is_doubtful)
        request = self._send(conversation, payload, slot)
        try:
            if wait is not None:
                wait(request, slot)
            self._wait_for(slot)
        finally:
            # After an interruption no thread waits, and a later answer is dropped.
            self._slots.pop(request, None)
        return answer_of(slot.payload, kind)

    def begin(
        self,
        conversation: int,
        payload: bytes,
        on_answer: OnAnswer,
        *,
        is_doubtful: bool = False,
        on_refused: OnRefused | None = None,
    ) -> int:
        """Send a request and return its number; another thread calls ``on_answer`` with the answer.

        ``conversation`` is the number of the conversation on the socket, ``payload`` the encoded
        request. ``on_answer`` gets an MQError when the connection breaks: LostAnswer if
        ``is_doubtful``. ``on_refused`` gets the handle and error of each queue that a running get
        cannot read. Raises MQRC_CONNECTION_BROKEN when the request cannot be sent; ``on_answer`` is
        then not called.
        """
        slot = SentRequest(is_doubtful=is_doubtful, on_answer=on_answer, on_refused=on_refused)
        self._count_callback()
        try:
            return self._send(conversation, payload, slot)
        except MQError:
            self._uncount_callback()
            raise

    def forget(self, request: int) -> None:
        """Forget a cancelled request: its callback is not called. An unknown number is ignored."""
        if self._slots.pop(request, None) is not None:
            self._uncount_callback()

    def awaits(self, request: int) -> bool:
        """Return True while the request with this number has no answer."""
        return request in self._slots

    def post(self, conversation: int, payload: bytes) -> SentRequest:
        """Send a request and return it without waiting for its answer; see :meth:`read_until`.

        Raises MQRC_CONNECTION_BROKEN when the request cannot be sent.
        """
        slot = SentRequest(is_doubtful=False)
        self._send(conversation, payload, slot)
        return slot

    def gather(self, conversation: int, packed: Callable[[], bytes], slot: SentRequest) -> None:
        """Send a request within about a millisecond; ``packed`` returns its bytes when it is sent.

        The answer goes to ``slot``. The caller holds the lock of the sender. Raises the error of a
        link that is closed or broken.
        """
        self._check_running()
        if slot.on_answer is not None:
            self._count_callback()
        request = self._enter(slot)
        self.sender.gather(lambda: framed(conversation, request, packed()))
        if self.is_over and self._slots.pop(request, None) is not None:
            # The link was just abandoned, and no other thread will settle the request.
            if slot.on_answer is not None:
                self._uncount_callback()
            self._check_running()

    def read_until(self, request: SentRequest) -> None:
        """Wait until a posted request has an answer, or the connection is gone."""
        if request.is_open:
            self.sender.flush()
            self._wait_for(request)

    @property
    def is_over(self) -> bool:
        """True when the connection is closed or broken."""
        return self._error is not None

    def close(self) -> None:
        """Close the socket; the server backs out uncommitted work. A second call does nothing."""
        _HEARTBEATS.remove(self)
        self.abandon(mq_error(rc.MQRC_HCONN_ERROR, "the connection is closed"))

    def abandon(self, error: MQError) -> None:
        """Break the connection off: all requests without an answer fail with ``error``.

        A doubtful request fails with LostAnswer. After an earlier abandon its error is used again.
        """
        # The first cause counts: the reader finds the end of the stream as well.
        error = self._error = self._error or error
        self.sender.end()
        self._stream.abort()
        slots, self._slots = self._slots, {}
        for slot in slots.values():
            self._settle(
                slot, LostAnswer(error.reason, error.detail) if slot.is_doubtful else error
            )
        self._callbacks.end()
        with self._calls:
            self._calls.notify_all()
        if self._become_reader():
            self._stop_reading()

    def abort(self) -> None:
        """End the socket without taking a lock, when Python has garbage-collected the connection.

        Collection can happen at any moment, also while the lock is held.
        """
        if self._error is None:
            self._error = mq_error(rc.MQRC_HCONN_ERROR, "the connection was dropped")
        self.sender.end()
        self._stream.abort()
        if not self._is_reading:
            self._stream.close()

    def leave_to_parent(self) -> None:
        """Make the link unusable in a forked child; nothing is sent to the server."""
        self._error = mq_error(rc.MQRC_HCONN_ERROR, "the connection was made before a fork")
        self._stream = NoStream()
        self.sender.leave_to_parent()

    def check(self) -> None:
        """Read what has arrived without waiting, which detects that a server is gone.

        Does nothing while another thread reads the socket.
        """
        if self._error is None and self._become_reader():
            try:
                while not self.is_over and (data := self._receive_now()) is not None:
                    self._process(data)
            finally:
                self._stop_reading()

    def tick(self) -> None:
        """Send a heartbeat if nothing else was sent since the last tick.

        After three ticks without data from the server, abandon the connection.
        """
        self.check()
        self._silent_ticks = 0 if self._has_received else self._silent_ticks + 1
        self._has_received = False
        if self._silent_ticks >= _SILENT_TICKS:
            self.abandon(broken("the server sent nothing for two heartbeats"))
        elif not self.sender.has_sent:
            self.sender.try_send(_ALIVE)
        self.sender.has_sent = False

    # Sending.

    def _enter(self, slot: SentRequest) -> int:
        """Register a request that waits for its answer, and return its new number."""
        request = next(self._numbers) & 0xFFFFFFFF
        self._slots[request] = slot
        return request

    def _check_running(self) -> None:
        """Raise the error with which the link was closed or abandoned; do nothing before that."""
        if self._error is not None:
            raise self._error

    def _send(self, conversation: int, payload: bytes, slot: SentRequest) -> int:
        """Send a request and return its number; raises MQRC_CONNECTION_BROKEN.

        After an error the server has not received the complete frame. A request whose callback
        already has the error raises nothing.
        """
        if self._error is not None:
            raise self._error
        request = self._enter(slot)
        frame = HEADER.pack(len(payload), conversation, request) + payload
        try:
            self.sender.send(frame)
        except OSError as error:
            is_notified = self._slots.pop(request, None) is None
            failure = broken(error)
            self.abandon(failure)
            if not is_notified:
                raise failure from None
        except BaseException:
            # A part of the frame may be on its way.
            self.abandon(broken("sending was interrupted"))
            raise
        return request

    def _wait_for(self, slot: SentRequest, *, once: bool = False) -> None:
        """Wait for the answer of ``slot``: read the socket, or let the thread that reads it do so.

        With ``once`` return after one read, even without the answer.
        """
        while slot.payload is None:
            if self._become_reader():
                try:
                    self._read_until(slot, once=once)
                finally:
                    self._stop_reading()
                return
            event = slot.event = slot.event or self.runtime.event()
            with self._roles:
                is_free = not self._is_reading
                if not is_free:
                    self._waiting[slot] = None
            if not is_free and slot.is_open:
                event.wait()
                event.clear()
            with self._roles:
                self._waiting.pop(slot, None)
            if once and not is_free:
                return

    def _read_until(self, slot: SentRequest, *, once: bool) -> None:
        """Read the socket until a request has its answer; with ``once`` read one time."""
        while slot.is_open:
            self._receive()
            if once:
                return

    def _become_reader(self) -> bool:
        """Make this thread the one that reads the socket; return False if another thread reads."""
        with self._roles:
            if self._is_reading:
                return False
            self._is_reading = True
            return True

    def _stop_reading(self) -> None:
        """Stop reading, and wake one waiting thread to read instead."""
        if self._error is not None:
            self.sender.close()
        with self._roles:
            self._is_reading = False
            while self._waiting:
                slot = next(iter(self._waiting))
                del self._waiting[slot]
                if slot.payload is None and slot.event is not None:
                    slot.event.set()
                    return

    def _receive(self) -> None:
        """Wait for data from the server and process it; an error abandons the link."""
        try:
            data = self._stream.receive()
        except OSError as error:
            self._abandon(broken(error))
            return
        self._process(data)

    def _receive_now(self) -> bytes | None:
        """Return received data without waiting, None when there is none.

        An error abandons the link.
        """
        try:
            return self._stream.receive_now()
        except OSError as error:
            self._abandon(broken(error))
            return None

    def _process(self, data: bytes) -> None:
        """Process received data; empty data is the end of the stream, which abandons the link.

        Wrong frames abandon the link as well.
        """
        if not data:
            self._abandon(broken("the server has closed it"))
            return
        self._has_received = True
        try:
            self._frames.take(data)
        except WrongFrame as wrong:
            self._abandon(broken(str(wrong)))

    def _on_preamble(self, theirs: Preamble | None, first: bytes) -> bool:
        """Return True if the server speaks this protocol; otherwise abandon the link.

        ``theirs`` are the versions that the server accepts. It is None for another protocol, whose
        first bytes are ``first``. Returns False after the link is abandoned.
        """
        if theirs is None:
            text = f"{self.address} is no server of Mayfly: it speaks {protocol_of(first)}"
        elif (version := OURS.common_with(theirs)) is None:
            text = f"{self.address} speaks {theirs} of the protocol, this client {OURS}"
        else:
            self.version = version
            return True
        self._abandon(mq_error(rc.MQRC_Q_MGR_NOT_AVAILABLE, text))
        return False

    def _on_frame(self, conversation: int, request: int, payload: bytes) -> None:
        """Pass a frame to its request, or process a message of the server about the link.

        The answer of an unknown request is ignored.
        """
        if conversation:
            slot = self._slots.pop(request, None)
            if slot is not None:
                self._settle(slot, payload)
        elif request == ENDED:
            self._abandon(error_of(decoded(_ENDED, payload, "ended")[1]))
        elif request == REFUSED:
            _met_number, number, handle, failure = decoded(_MET, payload, "met")
            slot = self._slots.get(number)
            if slot is not None and slot.on_refused is not None:
                self._callbacks.add(partial(slot.on_refused, handle, error_of(failure)))

    def _settle(self, slot: SentRequest, payload: bytes | MQError) -> None:
        """Give a request its answer or error, then wake the waiting thread or call back."""
        slot.payload = payload
        if slot.on_answer is not None:
            self._notify(slot.on_answer, payload)
        elif slot.event is not None:
            slot.event.set()

    def _abandon(self, error: MQError) -> None:
        """Break the connection off and stop its heartbeats."""
        _HEARTBEATS.remove(self)
        self.abandon(error)

    # Callbacks.

    def _count_callback(self) -> None:
        """Count a request with a callback, and start the thread that reads its answer."""
        with self._calls:
            self._begun_count += 1
            is_first, self._has_reader = not self._has_reader, True
            self._calls.notify_all()
        if is_first:
            self.runtime.thread(self._read_for_callbacks, "mayfly-wire-read").start()

    def notify(self, on_answer: OnAnswer) -> None:
        """Call ``on_answer`` with an empty payload, after the callbacks that are already queued."""
        with self._calls:
            self._begun_count += 1
        self._notify(on_answer, b"")

    def _notify(self, on_answer: OnAnswer, payload: bytes | MQError) -> None:
        """Queue the callback of a request with its payload, and count one running request less."""
        with self._calls:
            self._begun_count -= 1
        self._callbacks.add(partial(on_answer, payload))

    def _uncount_callback(self) -> None:
        """Count one request with a callback less: it failed or was cancelled."""
        with self._calls:
            self._begun_count -= 1
            self._calls.notify_all()

    def _read_for_callbacks(self) -> None:
        """Read answers while requests with callbacks have no answer. Runs on a thread.

        An exception abandons the link, and is raised.
        """
        try:
            self._read_while_begun()
        except BaseException as error:
            # Verbs with callbacks would wait for ever for a thread that is not there.
            self._has_reader = False
            self._abandon(broken(f"what the server has sent cannot be read: {error!r}"))
            raise

    def _read_while_begun(self) -> None:
        """Read answers until the link is abandoned; sleep while no callback is due."""
        while True:
            if not self._begun_count and self._become_reader():
                self._stop_reading()  # to another thread: this one may have been woken to read
            with self._calls:
                while not self._begun_count and self._error is None:
                    self._calls.wait()
                if self._error is not None:
                    self._has_reader = False
                    return
            self._wait_for(SentRequest(is_doubtful=False), once=True)


def _leave_to_parent() -> None:
    """Make the links of a forked child unusable: their sockets belong to the parent."""
    for link in list(_links):
        link.leave_to_parent()
    _links.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
