"""The Arrow Flight server of queue managers: ledger rows and messages in bulk, secured by a token.

It listens on a port and, for the commands of its machine, on a socket in the folder of each queue
manager. A ticket, or the descriptor of an upload, is a JSON object with one verb: ``{"ledger":
{"after": 0, "until": 10, "manager": null, "instance_id": null, "max_bytes": 2097152}}``. An action
has the verb as its type, and the arguments as its body. ``manager`` names the queue manager if
several are served. ``flight_verbs.py`` has the verbs.
"""

from __future__ import annotations

import hmac
import json
import socket
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from mayfly.engine.api.bulk import ClaimError
from mayfly.mqi.errors import MQError
from mayfly.pipeline.bulk.client import ADDRESS_ACTION, DEFAULT_MAX_BYTES, DEFAULT_PORT
from mayfly.pipeline.bulk.errors import (
    BadRequest,
    BulkError,
    UnknownManager,
    WrongToken,
    to_flight,
)
from mayfly.pipeline.bulk.folder_socket import FlightSocket
from mayfly.pipeline.bulk.schema import pages
from mayfly.queue_manager import QueueManager
from mayfly.servers.budget import Budget
from mayfly.servers.flight_verbs import (
    ACTIONS,
    PROTOCOLS,
    PUTS,
    TICKETS,
    ServedManager,
    VerbRefused,
    fields_of,
)
from mayfly.servers.settings import check_clients
from mayfly.verbs.contracts.access import check_token
from mayfly.verbs.contracts.bulk import PROTOCOL
from mayfly.verbs.contracts.reasons import MQ_ERROR

#: How long stop() waits for calls under way; a client that reads no more would hold it for ever.
_STOP_SECONDS = 5.0
_SOCKET_MODE = 0o600
_MAX_BYTES = "max_bytes"
#: The interval at which an upload that waits for room looks whether the server stops.
_LOOK_SECONDS = 0.25


class FlightServer:
    """An Arrow Flight server for one or several queue managers.

    It listens from start() to stop().
    """

    def __init__(
        self,
        queue_managers: ServedManager | Sequence[ServedManager],
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        *,
        token: str,
        tls_certificate: tuple[bytes, bytes] | None = None,
        client_roots: bytes | None = None,
        without_client_certificates: bool = False,
        folders: Mapping[str, Path] | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Configure a server; port 0 is any free port.

        Every call must have ``token``. ``tls_certificate`` is a certificate chain and its key, both
        PEM; without it the token and the rows are not encrypted. ``client_roots`` (PEM) are the
        authorities that sign the certificates of clients; a client without such a certificate
        cannot connect. ``folders``, by name of the queue manager, get a socket for this server too.
        ``budget`` limits the memory, and may be shared with other servers.

        gRPC reads a whole call before the token in it can be checked. Beyond the loopback interface
        ``client_roots`` are therefore required, unless ``without_client_certificates`` opens the
        server to all clients. Raises ValueError for options that contradict each other and for an
        empty token.
        """
        check_clients(
            host,
            has_tls=tls_certificate is not None,
            has_roots=client_roots is not None,
            is_open=without_client_certificates,
        )
        managers = queue_managers if isinstance(queue_managers, Sequence) else [queue_managers]
        self._managers = {manager.name: manager for manager in managers}
        self._host = host
        self._port = port
        self._token = check_token(token)
        self._tls_certificate = tls_certificate
        self._client_roots = client_roots
        self._folders = dict(folders or {})
        self._budget = Budget() if budget is None else budget
        self._stopping = threading.Event()
        #: The service of the port, then those of the folders.
        self._services: list[_Service] = []
        self._sockets: list[FlightSocket] = []
        self._loading: threading.Thread | None = None
        self._is_counted = False
        #: Whether a client that is silent has outlasted stop(): gRPC then waits for it, and with
        #: it the end of the process.
        self.is_held = False

    def __enter__(self) -> FlightServer:
        """Start to listen and return the server; raises OSError if that is not possible."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the server, also after an error."""
        self.stop()

    @property
    def port(self) -> int:
        """The port on which the server listens; before start() the configured port."""
        return int(self._services[0].port) if self._services else self._port

    @property
    def url(self) -> str:
        """The URL for clients: grpc://HOST:PORT, or grpc+tls:// with TLS."""
        return f"{self._scheme}://{self._host}:{self.port}"

    def start(self) -> None:
        """Start to listen on the port and in each folder; a second call does nothing.

        Raises OSError if the port is in use or a folder cannot have a socket; nothing listens then.
        """
        if self._services:
            return
        self._stopping = threading.Event()
        self._count(1)
        try:
            self._listen_on_port()
            for name, folder in self._folders.items():
                self._listen_in_folder(name, folder)
        except BaseException:
            self.stop()
            raise
        # The first list that Arrow converts makes it load pandas: up to a second, which is neither
        # to be that of the start nor that of the first call.
        self._loading = threading.Thread(target=pa.array, args=([None],), name="mayfly-arrow")
        self._loading.start()

    def stop(self) -> None:
        """Refuse new calls and end running ones; returns after a few seconds at most.

        Sets ``is_held`` if gRPC has not ended by then, because it waits for a silent client. Does
        nothing if the server has not been started.
        """
        services, self._services = self._services, []
        sockets, self._sockets = self._sockets, []
        if self._loading is not None:
            self._loading.join()
        self._count(-1)
        if not services:
            return
        self._stopping.set()
        closers = [
            threading.Thread(target=service.shutdown, name="mayfly-flight-stop", daemon=True)
            for service in services
        ]
        for closer in closers:
            closer.start()
        patience_seconds = _STOP_SECONDS
        for closer in closers:
            closer.join(patience_seconds)
            if closer.is_alive():
                self.is_held = True
                # The others have had as long.
                patience_seconds = 0.0
        if not self.is_held:
            # gRPC removes a socket at its end, by the path through this descriptor.
            for folder_socket in sockets:
                folder_socket.close()

    def _count(self, change: int) -> None:
        """Add ``change``, 1 or -1, to the engines' number of servers for other processes.

        A second call with the same number does nothing.
        """
        if self._is_counted != (change > 0):
            self._is_counted = change > 0
            for manager in self._managers.values():
                if isinstance(manager, QueueManager):
                    manager.engine.foreign_client_count += change

    @property
    def _scheme(self) -> str:
        """The scheme of the URL: ``grpc``, with TLS ``grpc+tls``."""
        return "grpc" if self._tls_certificate is None else "grpc+tls"

    def _listen_on_port(self) -> None:
        """Listen on host and port, over TLS if a certificate is set.

        Raises OSError with the reason.
        """
        options: dict[str, Any] = {}
        if self._tls_certificate is not None:
            options["tls_certificates"] = [self._tls_certificate]
        if self._client_roots is not None:
            options |= {"verify_client": True, "root_certificates": self._client_roots}
        place = f"{self._host}:{self._port}"
        try:
            self._listen(f"{self._scheme}://{place}", place, self._managers, options)
        except OSError:
            # gRPC does not say why.
            why = _why_not_bound(self._host, self._port)
            raise OSError(f"cannot listen on {place}: {why}") from None

    def _listen_in_folder(self, name: str, folder: Path) -> None:
        """Listen on a UNIX socket in a queue manager's folder, which only its owner may open.

        The socket serves this queue manager only, without TLS. Raises OSError.
        """
        folder_socket = FlightSocket(folder)
        self._sockets.append(folder_socket)
        place = f"a socket in {folder}"
        self._listen(folder_socket.location, place, {name: self._managers[name]}, {})
        folder_socket.path.chmod(_SOCKET_MODE)

    def _listen(
        self,
        location: str,
        place: str,
        managers: Mapping[str, ServedManager],
        options: Mapping[str, Any],
    ) -> None:
        """Start a gRPC service at a location such as ``grpc://HOST:PORT``, and keep it.

        It serves ``managers``, by name. ``place`` names the location in errors. ``options`` are
        those of pyarrow's server, such as TLS. Raises OSError if gRPC cannot listen there.
        """
        try:
            service = _Service(
                location,
                managers=managers,
                stopping=self._stopping,
                budget=self._budget,
                middleware={"token": _TokenCheck(self._token)},
                **options,
            )
        except pa.ArrowException as error:
            raise OSError(f"cannot listen on {place}: {error}") from error
        self._services.append(service)
        service.url = self.url


def _why_not_bound(host: str, port: int) -> str:
    """Return the system's reason why a port cannot be bound, such as ``Address already in use``.

    If the port can be bound, the text says that the certificate files cannot be used.
    """
    try:
        [(family, _, _, _, address), *_] = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
    except OSError as error:
        return error.strerror or str(error)
    return "the certificate, its key or the authorities of clients cannot be used"


class _Service(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow ships no types
    """Answers the Flight calls of one port or socket, in gRPC's own threads."""

    def __init__(
        self,
        location: str,
        *,
        managers: Mapping[str, ServedManager],
        stopping: threading.Event,
        budget: Budget,
        **options: Any,
    ):
        """Listen at a location such as ``grpc://HOST:PORT``; raises ArrowException if not possible.

        It serves ``managers``, by name. ``budget`` limits the memory for uploads. ``stopping`` is
        set when the server stops. ``options`` are those of pyarrow's server, such as TLS.
        """
        self._managers, self._budget = managers, budget
        #: Set when the server is to stop.
        self._stopping = stopping
        #: The url of the server's port, for clients that came by a folder.
        self.url = ""
        super().__init__(location, **options)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.GeneratorStream:
        """Return the rows that a ticket asks for, as a stream of record batches.

        A wrong request becomes an error that Flight sends to the client.
        """
        with _errors_for_flight():
            name, request = _one_verb(_object(ticket.ticket), "ticket", TICKETS)
            verb = TICKETS[name]
            manager = self._manager(name, request)
            max_bytes = _max_bytes(request)
            batches = verb.open(manager, request)
        return flight.GeneratorStream(verb.schema, self._slices(batches, max_bytes))

    def do_action(self, context: Any, action: flight.Action) -> list[bytes]:
        """Run an action and return its answer: one element, JSON as bytes.

        ``ADDRESS_ACTION`` returns the server's URL. Errors, such as an unknown action, are sent to
        the client.
        """
        with _errors_for_flight():
            request = _object(action.body.to_pybytes())
            answer: Any
            if action.type == ADDRESS_ACTION:
                fields_of(request)
                answer = {"url": self.url}
            elif action.type in ACTIONS:
                manager = self._manager(action.type, request)
                answer = ACTIONS[action.type].run(manager, request)
            else:
                raise BadRequest(f"unknown action {action.type!r}")
        return [json.dumps(answer).encode()]

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Pass the record batches of an upload to its verb, and send the verb's answer as JSON.

        Errors are sent to the client, for example if the columns differ from the verb's schema.
        """
        with _errors_for_flight():
            name, request = _one_verb(_object(descriptor.command or b""), "descriptor", PUTS)
            verb = PUTS[name]
            manager = self._manager(name, request)
            if not reader.schema.equals(verb.schema):
                raise BadRequest(f"{name}: the columns are not those of its schema")
            answer = verb.run(manager, request, self._read(reader), self._stopping)
        writer.write(json.dumps(answer).encode())

    def _read(self, reader: Any) -> Iterator[pa.RecordBatch]:
        """Yield the batches of an upload; after each, wait while the memory budget is used up.

        A batch is counted in the budget until the caller asks for the next one. gRPC reads a few
        batches ahead.
        """
        for chunk in reader:
            batch: pa.RecordBatch = chunk.data
            count = batch.nbytes
            self._budget.take(count)
            try:
                yield batch
            finally:
                self._budget.give(count)
            self._wait_for_memory()

    def _wait_for_memory(self) -> None:
        """Wait until the memory budget is not used up, or until the server stops."""
        if self._budget.is_used_up:
            granted = threading.Event()
            reservation = self._budget.reserve(0, granted.set)
            assert reservation is not None
            while not (reservation.is_granted or self._stopping.is_set()):
                granted.wait(_LOOK_SECONDS)
            reservation.end()

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """Return name and description of all actions."""
        known = [(name, verb.description) for name, verb in ACTIONS.items()]
        return [(ADDRESS_ACTION, "where the port of the server is"), *known]

    def _manager(self, verb: str, request: dict[str, Any]) -> ServedManager:
        """Return the queue manager that a request names, and remove its name from the request.

        The name may be missing if only one queue manager is served. Raises UnknownManager for an
        unknown name, and BadRequest for another version of the verb's protocol.
        """
        _check_protocol(verb, request)
        name = request.pop("manager", None)
        if name is None and len(self._managers) == 1:
            return next(iter(self._managers.values()))
        try:
            return self._managers[name]
        except (KeyError, TypeError):
            served = ", ".join(sorted(self._managers))
            raise UnknownManager(f"no queue manager {name!r} here; served: {served}") from None

    def _slices(
        self, batches: Iterator[pa.RecordBatch], max_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches in slices of at most ``max_bytes``; end early when the server stops."""
        with _errors_for_flight():
            for batch in batches:
                yield from pages(batch, max_bytes)
                if self._stopping.is_set():
                    return


@contextmanager
def _errors_for_flight() -> Iterator[None]:
    """Turn BulkError, ClaimError and MQError of a ``with`` block into errors of Flight."""
    try:
        yield
    except BulkError as error:
        raise to_flight(error) from error
    except ClaimError as error:
        raise to_flight(VerbRefused(error.reason, error.text)) from error
    except MQError as error:
        raise to_flight(VerbRefused(MQ_ERROR, str(error))) from error


def _object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in the bytes of a ticket or action.

    Raises BadRequest if they have none.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadRequest("a ticket or action body must be a JSON object")
    return value


def _one_verb(
    asked: dict[str, Any], what: str, known: Collection[str]
) -> tuple[str, dict[str, Any]]:
    """Return the only key of a request and its arguments, which must be a JSON object.

    Example: ``{"ledger": {"after": 0}}`` -> ``("ledger", {"after": 0})``. Raises BadRequest for no
    key, several keys, or a key that is not in ``known``. ``what`` names the kind of request in the
    error.
    """
    if len(asked) != 1 or next(iter(asked)) not in known:
        verbs = " or ".join(map(repr, known))
        raise BadRequest(f"a {what} has the one verb {verbs}, not {sorted(asked)}")
    [(name, request)] = asked.items()
    if not isinstance(request, dict):
        raise BadRequest(f"{name}: what it asks for must be a JSON object")
    return name, request


def _check_protocol(verb: str, request: dict[str, Any]) -> None:
    """Remove the protocol version from a request, and check it.

    Raises BadRequest if it is not the version of ``verb`` that this server has. A request without a
    version is accepted.
    """
    if verb in PROTOCOLS and request.pop(PROTOCOL, PROTOCOLS[verb]) != PROTOCOLS[verb]:
        raise BadRequest(f"{verb}: only protocol {PROTOCOLS[verb]} is spoken here")


def _max_bytes(request: dict[str, Any]) -> int:
    """Remove the argument ``max_bytes`` from a request and return it; the default if it is missing.

    Raises BadRequest if the value is not a whole number of at least 1.
    """
    value = request.pop(_MAX_BYTES, DEFAULT_MAX_BYTES)
    if type(value) is not int:
        raise BadRequest(f"{_MAX_BYTES} must be a whole number, not {value!r}")
    if value < 1:
        raise BadRequest(f"{_MAX_BYTES} must be at least 1, not {value}")
    return value


class _TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow ships no types
    """Refuses calls whose header ``authorization`` is not ``Bearer`` and the server's token."""

    def __init__(self, token: str) -> None:
        """Take the token that each call must have."""
        super().__init__()
        self._expected = f"Bearer {token}".encode()

    def start_call(self, info: Any, headers: Mapping[str, list[str]]) -> None:
        """Return if a header ``authorization`` has the token.

        Otherwise raise WrongToken for Flight.
        """
        for shown in headers.get("authorization", []):
            # Takes the same time wherever the first wrong byte stands.
            if hmac.compare_digest(shown.encode(), self._expected):
                return
        raise to_flight(WrongToken("the token is missing or wrong"))
