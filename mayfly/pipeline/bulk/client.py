"""Client that reads the ledger of a queue manager over Arrow Flight, by position.

The ledger has a row for each message that has left a queue. The position of a reader is the number
of the last row it has read. A range ``(after, until]`` always returns the same rows, so that a
reader that fails may repeat it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self, TypeVar
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.flight as flight
import pyarrow.ipc as ipc

from mayfly.pipeline.bulk.errors import (
    BY_REASON,
    BulkError,
    NoCertificate,
    NoRoots,
    NoToken,
    ServerFailed,
    ServerNotReachable,
    from_flight,
)
from mayfly.verbs.contracts import ledger
from mayfly.verbs.contracts.access import (
    CERTIFICATE_VARIABLE,
    KEY_VARIABLE,
    ROOTS_VARIABLE,
    FolderSocket,
    TokenMissing,
    check_token,
    read_token,
)
from mayfly.verbs.contracts.bulk import PROTOCOL
from mayfly.verbs.contracts.ledger import INFO_ACTION, LEDGER_VERB, LedgerInfo, LedgerRequest

# Timeouts and retries for a client of the bulk plane whose server may be gone
#
# A call with one message as its answer has a deadline. A stream of rows has no deadline, because it
# lasts as long as its rows do. It is cancelled when the server is silent for too long, or no longer
# answers a ping.


_Result = TypeVar("_Result")

#: Deadline of a call: long enough to claim, end or put all messages of a batch.
CALL_SECONDS = 300.0
#: Longest wait for the next rows of a stream.
SILENCE_SECONDS = 120.0
#: The waits between the tries of a patient client: a server is back some seconds after its end.
RETRY_WAITS_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
#: Silence during a call after which gRPC sends a ping, and the longest wait for its answer. The
#: first is above five minutes: a server takes more frequent pings for an attack. The second also
#: ends a call whose sent data are not acknowledged.
KEEPALIVE_MS, KEEPALIVE_ANSWER_MS = 330_000, 20_000
_LOOKS = 4


def channel_options(keepalive_ms: int = KEEPALIVE_MS) -> list[tuple[str, int]]:
    """Return the options of a gRPC channel: keepalive pings and quick reconnects."""
    return [
        ("grpc.keepalive_time_ms", keepalive_ms),
        ("grpc.keepalive_timeout_ms", min(KEEPALIVE_ANSWER_MS, keepalive_ms)),
        # A patient client tries again sooner than gRPC would let it.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2_000),
    ]


class Retries:
    """The retries of one call, with a wait before each; an object serves one call or stream."""

    def __init__(self, waits_seconds: tuple[float, ...]) -> None:
        """Keep the waits in seconds, one for each retry; an empty tuple allows no retry."""
        self._all = waits_seconds
        self._left = list(waits_seconds)

    def run(self, call: Callable[[], _Result]) -> _Result:
        """Return the result of ``call``, which is repeated while no server answers.

        Raises the error of the last try. The call must be safe to repeat: its first try may have
        taken effect.
        """
        while True:
            try:
                return call()
            except flight.FlightUnavailableError:
                if not self.wait():
                    raise

    def wait(self) -> bool:
        """Wait before the next retry and return True; return False at once if none is left."""
        if not self._left:
            return False
        threading.Event().wait(self._left.pop(0))
        return True

    def reset(self) -> None:
        """Allow all retries again, because the server has answered."""
        self._left = list(self._all)


class SilenceWatch:
    """A thread that cancels a stream when its reader has waited too long for the server.

    ``is_cut`` is True after it has cancelled the stream.
    """

    def __init__(self, cut: Callable[[], None], limit_seconds: float = SILENCE_SECONDS) -> None:
        """Start the watching thread; ``cut`` cancels the stream and is called on that thread.

        ``cut`` is called once, after about ``limit_seconds`` of one wait for the server.
        """
        self._cut = cut
        self._look_seconds = limit_seconds / _LOOKS
        self._is_stopped = threading.Event()
        #: Number of the present wait, 0 while the reader does something else.
        self._wait, self._wait_count = 0, 0
        self.is_cut = False
        threading.Thread(target=self._run, name="mayfly-silence", daemon=True).start()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Return a context for one wait for the server; only time inside it counts as silence."""
        self._wait_count += 1
        self._wait = self._wait_count
        try:
            yield
        finally:
            self._wait = 0

    def stop(self) -> None:
        """End the watching thread; later waits have no limit."""
        self._is_stopped.set()

    def _run(self) -> None:
        """Call ``cut`` once when one wait lasts too long, then return; the thread's function."""
        seen, looks = 0, 0
        while not self._is_stopped.wait(self._look_seconds):
            wait = self._wait
            looks = looks + 1 if wait and wait == seen else 0
            seen = wait
            if looks >= _LOOKS:
                self.is_cut = True
                self._cut()
                return


# The client


#: The action that answers with the url of the server's port.
ADDRESS_ACTION = "address"
#: Record batches of this size are few enough to be cheap and small enough to wait for.
DEFAULT_MAX_BYTES = 2 * 1024 * 1024
#: The default port of a server.
DEFAULT_PORT = 9414
_INFO_TIMEOUT_SECONDS = 30.0
#: A column may begin anywhere in a message. Arrow, by which DuckDB filters a table, warns on stderr
#: of each that is not aligned.
_ALIGNED = ipc.IpcReadOptions(ensure_alignment=ipc.Alignment.DataTypeSpecific)
_PEM = b"-----BEGIN CERTIFICATE-----"
#: Part of the first line of every key; the kind of key may precede it.
_KEY_PEM = b"PRIVATE KEY-----"
_SCHEMES = ("grpc", "grpc+tcp", "grpc+tls")


def check_url(url: str) -> str:
    """Return ``url`` unchanged if it is a valid URL of a Flight server, else raise ValueError.

    Valid are grpc://HOST:PORT, grpc+tls://HOST:PORT, and grpc+unix:///FOLDER for the server that
    has the queue manager in a folder open. No connection is made.
    """
    parts = urlsplit(url)
    if parts.scheme == FOLDER_SCHEME:
        folder_of_url(url)
        return url
    # Reading .port is what checks it: it raises ValueError when it is not a number.
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.port is None:
        raise ValueError(f"url {url!r} is not grpc://HOST:PORT or grpc+tls://HOST:PORT")
    return url


def _token_in(token_file: str | Path | None) -> str:
    """Return the access token in a file, or for None that in MAYFLY_TOKEN.

    Raises NoToken if the file cannot be read, or the token is missing.
    """
    try:
        return read_token(token_file)
    except TokenMissing as error:
        raise NoToken(str(error)) from error


def _tls_options() -> dict[str, bytes | None]:
    """Return the TLS arguments of ``flight.connect``, read from the files that MAYFLY_TLS_* name.

    Raises NoRoots or NoCertificate for a file that cannot be read or is not PEM, and NoCertificate
    for a certificate without a key.
    """
    roots: bytes | None = None
    if os.environ.get(ROOTS_VARIABLE):
        try:
            roots = Path(os.environ[ROOTS_VARIABLE]).read_bytes()
        except OSError as error:
            text = f"{ROOTS_VARIABLE}: {error.filename} cannot be read: {error.strerror}"
            raise NoRoots(text) from error
        if _PEM not in roots:
            raise NoRoots(f"{ROOTS_VARIABLE}: {os.environ[ROOTS_VARIABLE]} has no certificate, PEM")
    names = [os.environ.get(name) for name in (CERTIFICATE_VARIABLE, KEY_VARIABLE)]
    if not any(names):
        return {"tls_root_certs": roots}
    if not all(names):
        raise NoCertificate(f"{CERTIFICATE_VARIABLE} and {KEY_VARIABLE} go together")
    try:
        chain, key = (Path(name).read_bytes() for name in names if name)
    except OSError as error:
        raise NoCertificate(
            f"{CERTIFICATE_VARIABLE}, {KEY_VARIABLE}: {error.filename} cannot be read: "
            f"{error.strerror}"
        ) from error
    # Checked here: gRPC would report a bad certificate as a server without an address.
    if _PEM not in chain:
        raise NoCertificate(f"{CERTIFICATE_VARIABLE}: {names[0]} has no certificate, PEM")
    if _KEY_PEM not in key:
        raise NoCertificate(f"{KEY_VARIABLE}: {names[1]} has no private key, PEM")
    return {"tls_root_certs": roots, "cert_chain": chain, "private_key": key}


def _folder_socket(url: str) -> FlightSocket:
    """Return the opened socket of the server in the URL's folder.

    Raises ServerNotReachable if the folder cannot be opened.
    """
    try:
        return FlightSocket(folder_of_url(url))
    except OSError as error:
        text = f"no Mayfly server answers at {url}: {error.strerror}"
        raise ServerNotReachable(text) from error


class LedgerClient:
    """A connection to the ledger of one queue manager; a context manager."""

    #: Reason -> the error that a request of this client can get.
    by_reason: ClassVar[Mapping[str, type[BulkError]]] = BY_REASON

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        token_file: str | Path | None = None,
        manager: str | None = None,
        is_patient: bool = False,
        timeout_seconds: float | None = None,
    ) -> None:
        """Prepare a connection; the first call opens it.

        ``url`` is one that :func:`check_url` accepts. ``manager`` names the queue manager, for a
        server of several. With ``is_patient`` a call is repeated for some seconds while no server
        answers; that is safe, because each call names its rows completely. A call fails that has no
        answer after ``timeout_seconds``; None gives each call the time that its work may take. With
        TLS the server's certificate is checked against the file in MAYFLY_TLS_ROOTS, else gRPC's
        own roots. The client's own certificate is in the files of MAYFLY_TLS_CERTIFICATE and
        MAYFLY_TLS_KEY.
        Raises ValueError for an invalid url or token, NoToken, NoRoots or NoCertificate if one is
        missing, and ServerNotReachable for a folder that cannot be opened.
        """
        self.url = check_url(url)
        self._manager = manager
        bearer = check_token(_token_in(token_file) if token is None else token)
        self._headers = [(b"authorization", f"Bearer {bearer}".encode())]
        self._folder_socket: FlightSocket | None = None
        self._retry_waits = RETRY_WAITS_SECONDS if is_patient else ()
        self._silence_seconds = SILENCE_SECONDS
        self._timeout_seconds = timeout_seconds
        location, options = url, {}
        if url.startswith(f"{FOLDER_SCHEME}:"):
            self._folder_socket = _folder_socket(url)
            location = self._folder_socket.location
        elif url.startswith("grpc+tls:"):
            options = _tls_options()
        self._flight = flight.connect(location, generic_options=channel_options(), **options)

    def __repr__(self) -> str:
        """Return the class and url, never the token."""
        return f"{type(self).__name__}({self.url!r})"

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._flight.close()
        folder_socket, self._folder_socket = self._folder_socket, None
        if folder_socket is not None:
            folder_socket.close()

    def address(self) -> str:
        """Return the URL at which other processes reach the server; raises BulkError.

        It has the server's port, also if this client came over the socket in a folder.
        """
        return str(self._answer(ADDRESS_ACTION, {}, _INFO_TIMEOUT_SECONDS)["url"])

    def info(self) -> LedgerInfo:
        """Return the queue manager's name, its store's id and the ledger's positions.

        The ledger's positions are the first and last ones held. Raises BulkError if the server
        refuses, cannot be reached, or does not answer within 30 seconds.
        """
        request = {"manager": self._manager}
        return LedgerInfo(**self._answer(INFO_ACTION, request, _INFO_TIMEOUT_SECONDS))

    def read(
        self,
        after_position: int,
        until_position: int,
        *,
        instance_id: str | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the ledger rows ``(after_position, until_position]`` in batches of schema LEDGER.

        A batch has at most ``max_bytes``, or one row. ``instance_id`` is the id of the store that
        the positions belong to; None is not checked. Each position comes exactly once and in order,
        or a BulkError is raised: OtherInstance, PositionTrimmed, PositionBeyondEnd, or ServerFailed
        when other rows came.
        """
        position, retries = after_position, Retries(self._retry_waits)
        while True:
            rows = LedgerRequest(position, until_position, instance_id)
            request = {**self._request(ledger.VERSION, rows), "max_bytes": max_bytes}
            try:
                for batch in self._batches({LEDGER_VERB: request}):
                    position = self._next_position(batch, position)
                    retries.reset()
                    yield batch
                break
            except flight.FlightUnavailableError as error:
                if not retries.wait():
                    raise self.error_of(error) from None
            except flight.FlightError as error:
                raise self.error_of(error) from None
        if position != until_position:
            raise ServerFailed(
                f"the server {self.url} ended at position {position}, not {until_position}"
            )

    def error_of(self, error: flight.FlightError) -> BulkError:
        """Return the BulkError that a Flight error of the server stands for; raise it from None."""
        return from_flight(error, self.url, self.by_reason)

    def _request(self, version: int, request: NamedTuple | None) -> dict[str, Any]:
        """Return a request as a dict for JSON, with queue manager name and protocol ``version``.

        ``request`` None has no further fields.
        """
        fields = {} if request is None else request._asdict()
        return {"manager": self._manager, PROTOCOL: version, **fields}

    def _answer(
        self, name: str, request: dict[str, Any], timeout_seconds: float = CALL_SECONDS
    ) -> dict[str, Any]:
        """Send the request ``name``, which may be repeated; return the JSON of its answer.

        A patient client repeats the request while no server answers. A call fails without an answer
        after ``timeout_seconds``, or after the time that the client was made with. Raises
        BulkError.
        """
        action = flight.Action(name, json.dumps(request).encode())
        if self._timeout_seconds is not None:
            timeout_seconds = self._timeout_seconds
        options = flight.FlightCallOptions(timeout=timeout_seconds, headers=self._headers)

        def ask() -> Any:
            """Send the request once and return the answer's body; raises FlightError."""
            [answer] = self._flight.do_action(action, options)
            return answer.body

        try:
            body = Retries(self._retry_waits).run(ask)
        except flight.FlightError as error:
            raise self.error_of(error) from None
        found: dict[str, Any] = json.loads(body.to_pybytes())
        return found

    def _batches(self, ticket: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a Flight ticket; raises FlightError.

        A server that sends nothing for ``SILENCE_SECONDS`` is an error as well. At the end, also of
        an abandoned iteration, the stream is cancelled.
        """
        options = flight.FlightCallOptions(headers=self._headers, read_options=_ALIGNED)
        reader = self._flight.do_get(flight.Ticket(json.dumps(ticket).encode()), options)
        watch = SilenceWatch(reader.cancel, self._silence_seconds)
        try:
            while True:
                with watch.waiting():
                    chunk = next(reader, None)
                if chunk is None:
                    return
                yield chunk.data
        except flight.FlightCancelledError as error:
            if not watch.is_cut:
                raise
            raise flight.FlightTimedOutError(
                f"nothing has come for {self._silence_seconds:g} s"
            ) from error
        finally:
            watch.stop()
            # A reader given up half way would keep the server's generator alive.
            reader.cancel()

    def _next_position(self, batch: pa.RecordBatch, position: int) -> int:
        """Return the position of the batch's last row; raises ServerFailed if rows are missing.

        The first row must have the position after ``position``.
        """
        expected = range(position + 1, position + 1 + batch.num_rows)
        if batch.column("position").to_numpy().tolist() != list(expected):
            raise ServerFailed(f"the server {self.url} left out rows after position {position}")
        return expected.stop - 1


# The socket in the folder of a queue manager, for pipelines on the same machine


#: The scheme of ``grpc+unix:///FOLDER``, which means the server of the queue manager in a folder.
FOLDER_SCHEME = "grpc+unix"
SOCKET_FILE = "flight.sock"


def folder_url(folder: Path) -> str:
    """Return the URL of the server that has the queue manager in ``folder`` open.

    Example: ``/var/QM1`` -> ``grpc+unix:///var/QM1``.
    """
    return f"{FOLDER_SCHEME}://{quote(str(folder.absolute()))}"


def folder_of_url(url: str) -> Path:
    """Return the folder in a URL ``grpc+unix:///FOLDER``; raises ValueError for another URL."""
    parts = urlsplit(url)
    if parts.scheme != FOLDER_SCHEME or parts.netloc or not parts.path.startswith("/"):
        raise ValueError(f"url {url!r} is not {FOLDER_SCHEME}:///FOLDER")
    return Path(unquote(parts.path))


class FlightSocket(FolderSocket):
    """The socket of Arrow Flight in the folder of a queue manager."""

    def __init__(self, folder: Path) -> None:
        """Open the folder; raises OSError if it is no folder or cannot be opened."""
        super().__init__(folder, SOCKET_FILE)

    @property
    def location(self) -> str:
        """The address for gRPC to listen on or connect to, such as ``grpc+unix://PATH``.

        The address is valid in this process only.
        """
        return f"{FOLDER_SCHEME}://{self.path}"
