"""Client that reads the ledger of a queue manager over Arrow Flight, by position.

The ledger has a row for each message that has left a queue. The position of a reader is the number
of the last row it has read. A range ``(after, until]`` always returns the same rows, so that a
reader that fails may repeat it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import urlsplit

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
from mayfly.pipeline.bulk.folder_socket import FOLDER_SCHEME, FlightSocket, folder_of_url
from mayfly.pipeline.bulk.patience import (
    CALL_SECONDS,
    RETRY_WAITS_SECONDS,
    SILENCE_SECONDS,
    Retries,
    SilenceWatch,
    channel_options,
)
from mayfly.verbs.contracts import ledger
from mayfly.verbs.contracts.access import (
    CERTIFICATE_VARIABLE,
    KEY_VARIABLE,
    ROOTS_VARIABLE,
    TokenMissing,
    check_token,
    read_token,
)
from mayfly.verbs.contracts.bulk import PROTOCOL
from mayfly.verbs.contracts.ledger import INFO_ACTION, LEDGER_VERB, LedgerInfo, LedgerRequest

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
