"""The Arrow Flight server of queue managers: ledger rows and messages in bulk, secured by a token.

It listens on a port and, for the commands of its machine, on a socket in the folder of each queue
manager. A ticket, or the descriptor of an upload, is a JSON object with one verb: ``{"ledger":
{"after": 0, "until": 10, "manager": null, "instance_id": null, "max_bytes": 2097152}}``. An action
has the verb as its type, and the arguments as its body. ``manager`` names the queue manager if
several are served.

A verb is a function of the queue manager and of its arguments: a JSON object, for most verbs
checked and made a NamedTuple. It raises BulkError, ClaimError or MQError. A claim is a group of
messages that a reader, such as a Spark batch, has reserved. Tables at the end map names to verbs:
``TICKETS`` send rows, ``ACTIONS`` are answered by JSON, ``PUTS`` receive rows. A new verb is a
function and a line there.
"""

from __future__ import annotations

import hmac
import json
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from mayfly.engine import Match
from mayfly.engine.api.bulk import (
    TRANSACTION_ROWS,
    ClaimError,
    ClaimLimit,
    StagedRows,
    StageMissing,
    browsable_page,
    browsable_ranges,
)
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import MQError
from mayfly.pipeline.bulk.client import (
    ADDRESS_ACTION,
    DEFAULT_MAX_BYTES,
    DEFAULT_PORT,
    FlightSocket,
)
from mayfly.pipeline.bulk.errors import (
    BadRequest,
    BulkError,
    OtherInstance,
    PositionBeyondEnd,
    PositionTrimmed,
    UnknownManager,
    WrongToken,
    to_flight,
)
from mayfly.pipeline.bulk.queue_client import STAGED, MessagePage, message_batch
from mayfly.pipeline.bulk.schema import LEDGER, MESSAGE, ledger_batch, pages
from mayfly.queue_manager import QueueManager
from mayfly.servers.budget import Budget
from mayfly.servers.managers import ManagerTable
from mayfly.servers.settings import check_clients
from mayfly.store.ledger import Ledger
from mayfly.store.stage_table import StagePlace
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts import claims, ledger, stages
from mayfly.verbs.contracts.access import check_token
from mayfly.verbs.contracts.bulk import PROTOCOL, field_types
from mayfly.verbs.contracts.bulk_reasons import MQ_ERROR, STAGE_LOST
from mayfly.verbs.contracts.messages import DESCRIPTOR_COLUMNS, MessageColumns

#: How long stop() waits for calls under way; a client that reads no more would hold it for ever.
_STOP_SECONDS = 5.0
_SOCKET_MODE = 0o600
_MAX_BYTES = "max_bytes"
#: The interval at which an upload that waits for room looks whether the server stops.
_LOOK_SECONDS = 0.25
#: Rows of the ledger taken from the store at once: some ten milliseconds of its connection.
PAGE_ROWS = 4096
#: A page of claimed messages ends at about this many bytes of data, or this many rows.
_CLAIMED_PAGE_BYTES = 4 * 1024 * 1024
_CLAIMED_PAGE_ROWS = 4_096
#: The least rows, or bytes of data, of a batch of browsed messages, except at the end.
_BROWSED_ROWS = 4_000
#: A blob holds the rows of one transaction at most: each is put whole.
_BLOB_BYTES = 2 * 1024 * 1024
_MAY_BE_EMPTY = ("dead_letter_queue",)
#: Columns of a message that its descriptor has.
_described_fields = attrgetter(*DESCRIPTOR_COLUMNS)
#: The arguments of a call, without ``manager``, ``protocol`` and ``max_bytes``.
Request = dict[str, Any]
Answer = dict[str, Any]
RowT = TypeVar("RowT", bound=NamedTuple)


class FlightServer:
    """An Arrow Flight server for one or several queue managers.

    It listens from start() to stop().
    """

    def __init__(
        self,
        queue_managers: ServedManager | Sequence[ServedManager] | ManagerTable,
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
        self._managers = _by_name(queue_managers)
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

    def note_opened(self, manager: QueueManager) -> None:
        """Count this server, which listens, for a queue manager that was opened since."""
        if self._is_counted:
            manager.engine.foreign_client_count += 1

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
            self._listen(f"{self._scheme}://{place}", place, _names_of(self._managers), options)
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
        self._listen(folder_socket.location, place, (name,), {})
        folder_socket.path.chmod(_SOCKET_MODE)

    def _listen(
        self,
        location: str,
        place: str,
        names: Sequence[str],
        options: Mapping[str, Any],
    ) -> None:
        """Start a gRPC service at a location such as ``grpc://HOST:PORT``, and keep it.

        It serves the queue managers of these ``names``. ``place`` names the location in errors.
        ``options`` are those of pyarrow's server, such as TLS. Raises OSError if gRPC cannot listen
        there.
        """
        try:
            service = _Service(
                location,
                managers=self._managers,
                names=names,
                stopping=self._stopping,
                budget=self._budget,
                middleware={"token": _TokenCheck(self._token)},
                **options,
            )
        except pa.ArrowException as error:
            raise OSError(f"cannot listen on {place}: {error}") from error
        self._services.append(service)
        service.url = self.url


def _by_name(
    queue_managers: ServedManager | Sequence[ServedManager] | ManagerTable,
) -> Mapping[str, ServedManager]:
    """Return queue managers by their names; a table stays as it is, since it changes."""
    if isinstance(queue_managers, ManagerTable):
        return queue_managers
    managers = queue_managers if isinstance(queue_managers, Sequence) else [queue_managers]
    return {manager.name: manager for manager in managers}


def _names_of(managers: Mapping[str, ServedManager]) -> tuple[str, ...]:
    """Return the names of all queue managers, also of those in standby."""
    return managers.names if isinstance(managers, ManagerTable) else tuple(managers)


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
        names: Sequence[str],
        stopping: threading.Event,
        budget: Budget,
        **options: Any,
    ):
        """Listen at a location such as ``grpc://HOST:PORT``; raises ArrowException if not possible.

        It serves the ``managers`` of these ``names``. ``budget`` limits the memory for uploads.
        ``stopping`` is set when the server stops. ``options`` are those of pyarrow's server, such
        as TLS.
        """
        self._managers, self._names, self._budget = managers, names, budget
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
        unknown name, BadRequest for another version of the verb's protocol, and
        FlightUnavailableError for a queue manager that another server owns.
        """
        _check_protocol(verb, request)
        name = request.pop("manager", None)
        if name is None and len(self._names) == 1:
            name = self._names[0]
        manager = self._managers.get(name) if name in self._names else None
        if manager is not None:
            return manager
        if isinstance(self._managers, ManagerTable) and name in self._names:
            absence = self._managers.absence(name, "flight")
            if absence is not None:
                raise flight.FlightUnavailableError(absence.detail)
        served = ", ".join(sorted(self._names))
        raise UnknownManager(f"no queue manager {name!r} here; served: {served}")

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


class ServedManager(Protocol):
    """A queue manager that is served by Flight.

    One that is not a QueueManager has a ledger, but no queues.
    """

    @property
    def name(self) -> str:
        """The name of the queue manager."""

    @property
    def ledger(self) -> Ledger:
        """The ledger of the queue manager."""


class TicketVerb(NamedTuple):
    """A verb that sends rows of ``schema`` to the client.

    ``open`` checks the request at once and returns record batches, each read when it is sent.
    Between two batches it must not hold a lock or a read transaction, since the client may be slow.
    """

    schema: pa.Schema
    open: Callable[[ServedManager, Request], Iterator[pa.RecordBatch]]


class ActionVerb(NamedTuple):
    """A verb that is answered by JSON."""

    description: str
    run: Callable[[ServedManager, Request], Any]


class PutVerb(NamedTuple):
    """A verb that receives record batches of a schema, and is answered by one JSON object.

    Each batch is read from the client when it is asked for; the event is set when the server stops.
    """

    schema: pa.Schema
    run: Callable[[ServedManager, Request, Iterator[pa.RecordBatch], threading.Event], Any]


class VerbRefused(BulkError):
    """A refusal with the reason code of a verb, one of ``verbs/contracts/bulk_reasons.py``."""

    def __init__(self, reason: str, text: str) -> None:
        """Take the reason, one of ``verbs/contracts/bulk_reasons.py``, and a text for people."""
        super().__init__(text)
        self.reason = reason  # type: ignore[misc]  # of this one error, not of its class


def request_of(kind: type[RowT], request: Request) -> RowT:
    """Return the arguments of a request as the NamedTuple ``kind``, checked by type.

    Raises BadRequest if an argument is missing, unknown, or of another type.
    """
    return kind(*fields_of(request, **field_types(kind)))


def fields_of(request: Request, **kinds: type | tuple[type, ...]) -> tuple[Any, ...]:
    """Return the values of a request in the order of ``kinds``, after a check of their types.

    Raises BadRequest if one is missing, unknown, of another type, or a number beyond 64 bits.
    """
    if request.keys() != kinds.keys():
        raise BadRequest(f"asked for {sorted(request)}, known: {sorted(kinds)}")
    for name, kind in kinds.items():
        value = request[name]
        allowed = kind if isinstance(kind, tuple) else (kind,)
        # To Python a flag is a number as well.
        is_flag = isinstance(value, bool) and bool not in allowed
        is_too_large = isinstance(value, int) and not -(2**63) <= value < 2**63
        if not isinstance(value, allowed) or is_flag or is_too_large:
            raise BadRequest(f"{name} cannot be {value!r}")
    return tuple(request[name] for name in kinds)


def _with_queues(manager: ServedManager) -> QueueManager:
    """Return the queue manager itself; raises BadRequest if it has a ledger but no queues."""
    if not isinstance(manager, QueueManager):
        raise BadRequest(f"{manager.name} is served without its queues")
    return manager


# The ledger.
def open_ledger(manager: ServedManager, request: Request) -> Iterator[pa.RecordBatch]:
    """Return batches of the ledger rows after position ``after``, up to and including ``until``.

    Raises BadRequest for wrong arguments. Raises OtherInstance, PositionBeyondEnd or
    PositionTrimmed if the ledger does not have all these rows. Also notes how far the ledger has
    been read.
    """
    asked = _ledger_request(request)
    _check_range(manager.ledger, asked)
    manager.ledger.asked_position = max(asked.after, manager.ledger.asked_position or 0)
    return _ledger_batches(manager, asked)


def _ledger_batches(
    manager: ServedManager, request: ledger.LedgerRequest
) -> Iterator[pa.RecordBatch]:
    """Yield the asked ledger rows in batches of up to 4096 rows.

    Raises PositionTrimmed if rows are removed meanwhile, and PositionBeyondEnd if rows are missing
    at the end.
    """
    lives, after = manager.ledger, request.after
    while after < request.until:
        try:
            rows = lives.page(after, min(PAGE_ROWS, request.until - after))
        except ledger.PositionTrimmed as error:
            raise PositionTrimmed(str(error)) from error
        if not rows:
            raise _beyond_end(lives, request.until)
        yield ledger_batch(rows, manager.name, lives.instance_id)
        after = rows[-1][0]


def ledger_info(manager: ServedManager, request: Request) -> Answer:
    """Return the id of a queue manager's store, and the first and last position of its ledger.

    The keys are ``manager`` (its name), ``instance_id``, ``first_position`` and ``last_position``.
    For an empty ledger the first position is the last one plus 1. Raises BadRequest if the request
    has arguments.
    """
    if request:
        filled = f"{ledger.INFO_ACTION} takes nothing but a manager, not {sorted(request)}"
        raise BadRequest(filled)
    lives = manager.ledger
    # The end is read first: a trim in between then only moves the beginning towards it.
    last = lives.last_position()
    first = min(lives.first_position(), last + 1)
    return ledger.LedgerInfo(manager.name, lives.instance_id, first, last)._asdict()


def _ledger_request(asked: Request) -> ledger.LedgerRequest:
    """Return the range of ledger positions in a request.

    Raises BadRequest unless ``after`` and ``until`` are whole numbers with 0 <= after <= until.
    """
    try:
        request = ledger.LedgerRequest(**asked)
    except TypeError as error:
        raise BadRequest(f"{ledger.LEDGER_VERB}: {error}") from error
    numbers = (request.after, request.until)
    if not all(type(number) is int for number in numbers):
        raise BadRequest(f"after and until must be whole numbers, not {numbers}")
    if not 0 <= request.after <= request.until:
        raise BadRequest(f"0 <= after <= until does not hold for {numbers}")
    return request


def _check_range(lives: Ledger, request: ledger.LedgerRequest) -> None:
    """Raise an error unless the ledger has all rows after ``after`` up to ``until``.

    OtherInstance: the request names the id of another store. PositionBeyondEnd: ``until`` is after
    the last row. PositionTrimmed: the first rows were removed by retention.
    """
    if request.instance_id not in (None, lives.instance_id):
        raise OtherInstance(
            f"positions of store {request.instance_id} were asked of store {lives.instance_id}"
        )
    if request.until > lives.last_position():
        raise _beyond_end(lives, request.until)
    first = lives.first_position()
    if request.after < request.until and request.after + 1 < first:
        raise PositionTrimmed(str(ledger.PositionTrimmed(request.after, first)))


def _beyond_end(lives: Ledger, until: int) -> PositionBeyondEnd:
    """Return the error for ``until``, a position after the last row of the ledger."""
    return PositionBeyondEnd(
        f"position {until} was asked for and the ledger ends at {lives.last_position()}"
    )


# Queues: attach, claim, read, end and release; browse.
class NoArguments(NamedTuple):
    """A request without arguments."""


def attach(queues: QueueManager, asked: claims.AttachRequest) -> Answer:
    """Register a reader of a queue under a consumer's name, in place of an earlier reader.

    The answer has ``manager``, ``instance_id`` (the store), ``consumer``, ``queue``, ``epoch`` and
    ``closed``. ``epoch`` is the number of this reader, which its later requests name. ``closed`` is
    the number of the last claim that has ended. An earlier reader of this name gets errors from now
    on. Raises the MQError of opening the queue, and ClaimError if the consumer belongs to another
    queue.
    """
    standing = queues.claims.attach(*asked)
    return claims.Attached(
        queues.name,
        queues.ledger.instance_id,
        standing.consumer,
        standing.queue,
        standing.epoch,
        standing.closed,
    )._asdict()


def claim(queues: QueueManager, asked: claims.ClaimRequest) -> Answer:
    """Reserve the next messages of a queue for a reader (a claim), up to limits of rows and bytes.

    The answer has ``until``, the number of the last claim, and ``messages``: how many messages the
    claims after number ``after`` hold, those that were open before included. Without messages these
    are ``after`` and 0. Raises MQRC_GET_INHIBITED, and ClaimError if a newer reader has attached.
    """
    limit = ClaimLimit(asked.max_rows, asked.max_data_bytes, asked.up_to)
    claimed = queues.claims.claim(asked.consumer, asked.epoch, asked.after, limit)
    return claimed._asdict()


def mark(queues: QueueManager, _asked: NoArguments) -> Answer:
    """Return {"mark": number}: the number marks the present moment in the order of puts.

    With this number as ``up_to``, :func:`claim` reserves no message that is put later.
    """
    return claims.Mark(queues.claims.mark())._asdict()


def end(queues: QueueManager, asked: claims.EndRequest) -> Answer:
    """End a reader's claims (numbered groups of reserved messages) up to number ``until``.

    Their messages are removed as if they had been got. Returns {"messages": how many}. Raises
    ClaimError if a newer reader has attached.
    """
    return claims.Counted(queues.claims.end(*asked))._asdict()


def end_written(queues: QueueManager, asked: claims.EndWrittenRequest) -> Answer:
    """End the claims (groups of reserved messages) that a Spark checkpoint records as written.

    These are the claims up to number ``until``. Their messages are removed as if they had been got.
    Returns {"messages": how many}. Any caller may do this, not only the reader. Raises ClaimError
    for another store, an unknown consumer, or a claim that never existed.
    """
    return claims.Counted(queues.claims.end_written(*asked))._asdict()


def quiesce(queues: QueueManager, asked: claims.ClaimReader) -> Answer:
    """Let a reader reserve no further messages; return {}.

    The reader may still read the messages it has reserved. The next reader that attaches can
    reserve messages again. Raises ClaimError if a newer reader has attached.
    """
    queues.claims.quiesce(*asked)
    return {}


def renew(queues: QueueManager, asked: claims.ClaimReader) -> Answer:
    """Renew the lease of the messages that a reader has reserved; return {}.

    Without it, leased messages return to their queue after a time. Raises ClaimError if the
    consumer is unknown or a newer reader has attached.
    """
    queues.claims.renew(*asked)
    return {}


def claimed_rows(queues: QueueManager, asked: claims.ClaimsRequest) -> Answer:
    """Return the row numbers of messages that a reader's claims have reserved, as ``ranges``.

    A range is (low, high, bytes): it has the rows after ``low`` up to ``high``, and the length of
    their data. The claims are those after number ``after`` up to ``until``. Raises ClaimError if
    one of them has ended, or if a newer reader has attached.
    """
    return claims.ClaimedRows(queues.claims.ranges(*asked))._asdict()


def back_out(queues: QueueManager, asked: claims.BackOutRequest) -> Answer:
    """Back out single reserved messages that a reader cannot process, by row number.

    Each returns to its queue with its backout count raised, or goes to the backout or dead-letter
    queue, as BOTHRESH of the queue demands. ``reason`` is the MQRC_* for a dead letter. The answer
    has both numbers: ``returned`` to the queue, and ``moved`` to another. Rows that are not
    reserved are skipped. Raises BadRequest for rows that are not whole numbers, and ClaimError if a
    newer reader has attached.
    """
    if not all(type(row) is int for row in asked.rows):
        raise BadRequest(f"rows are whole numbers, not {asked.rows!r}")
    return queues.claims.back_out(*asked)._asdict()


def release(queues: QueueManager, asked: claims.ReleaseRequest) -> Answer:
    """Return all messages that a consumer has reserved to their queue.

    The answer is {"messages": how many}. Their backout counts are raised. The present reader of the
    consumer gets errors from now on. An epoch is the number that :func:`attach` has given a reader;
    without one any caller may release. Raises ClaimError for an unknown consumer, and for the epoch
    of an earlier reader.
    """
    return claims.Counted(queues.claims.release(*asked))._asdict()


def consumers(queues: QueueManager, _asked: NoArguments) -> Answer:
    """Return {"consumers": states}, one dict for each consumer of a queue.

    Each has the fields of ``ConsumerState``, such as ``queue``, ``epoch`` (the number of its
    present reader) and ``message_count`` (reserved messages).
    """
    return {"consumers": [standing._asdict() for standing in queues.claims.consistent_states()]}


def browse_ranges(queues: QueueManager, asked: claims.RangesRequest) -> Answer:
    """Return {"ranges": pairs}: about ``part_count`` key ranges that cover a queue.

    Each may be browsed in parallel to the others. A key is a number by which the messages of the
    queue are in get order; a range begins with its first key and ends before its second. A short
    queue has fewer ranges, an empty one none. Raises BadRequest if ``part_count`` is below 1, and
    MQRC_GET_INHIBITED.
    """
    if asked.part_count < 1:
        raise BadRequest(f"part_count >= 1 does not hold for {asked.part_count}")
    return {"ranges": browsable_ranges(queues.engine, asked.queue, asked.part_count)}


def open_claimed(manager: ServedManager, request: Request) -> Iterator[pa.RecordBatch]:
    """Return batches of the messages that a reader has reserved, by row number.

    The rows are those after ``after_row`` up to ``until_row``. While the batches are read,
    ClaimError is raised if a row is no longer reserved.
    """
    asked = request_of(claims.ClaimedRequest, request)
    return _claimed(_with_queues(manager), asked)


def _claimed(manager: QueueManager, asked: claims.ClaimedRequest) -> Iterator[pa.RecordBatch]:
    """Yield reserved messages in pages of about 4 MiB.

    Raises ClaimError if a row is no longer reserved.
    """
    consumer, epoch, after, until = asked
    while after < until:
        found = manager.claims.page(
            consumer,
            epoch,
            after,
            until,
            max_bytes=_CLAIMED_PAGE_BYTES,
            max_rows=_CLAIMED_PAGE_ROWS,
        )
        yield _message_batch(manager, found.queue, found.columns)
        after += found.message_count


def open_browse(manager: ServedManager, request: Request) -> Iterator[pa.RecordBatch]:
    """Return batches of the messages in a key range that can be got and match the ids and priority.

    Expired messages are skipped. Nothing is removed. Raises BadRequest for an id that is not
    hexadecimal.
    """
    asked = request_of(claims.BrowseRequest, request)
    match = Match(_identifier(asked.msg_id), _identifier(asked.correl_id))
    return _browsed(_with_queues(manager), asked, match)


def _browsed(
    manager: QueueManager, asked: claims.BrowseRequest, match: Match
) -> Iterator[pa.RecordBatch]:
    """Yield the matching messages of a key range, in batches of several pages of the queue.

    A page is short, as others wait for it; a batch has a cost of its own, as much as 100 messages.
    """
    low: int | None = asked.low
    found: list[StoredMessage] = []
    data_bytes = 0
    while low is not None:
        queue, page, low = browsable_page(
            manager.engine, asked.queue, low, asked.high, match, asked.priority
        )
        found += page
        data_bytes += sum(len(row.body) for row in page)
        is_full = len(found) >= _BROWSED_ROWS or data_bytes >= DEFAULT_MAX_BYTES
        if found and (is_full or low is None):
            yield _message_batch(manager, queue, _columns(found))
            found, data_bytes = [], 0


def _columns(rows: list[StoredMessage]) -> MessageColumns:
    """Return stored messages as columns; an empty correlation id becomes None."""
    return MessageColumns(
        [row.msg_id for row in rows],
        [row.correl_id or None for row in rows],
        [row.put_ms for row in rows],
        [row.deliver_at_ms for row in rows],
        [row.expire_at_ms for row in rows],
        [row.backout_count for row in rows],
        [row.descriptor for row in rows],
        [row.body for row in rows],
    )


def _message_batch(
    manager: QueueManager, queue: str | Sequence[str], columns: MessageColumns
) -> pa.RecordBatch:
    """Return messages as a record batch, with the descriptor unpacked into columns.

    ``queue`` is one name for all messages, or one name for each message.
    """
    described = {
        packed: _described_fields(unpack_descriptor(packed)) for packed in set(columns.descriptor)
    }
    return message_batch(MessagePage(manager.name, queue, columns, described))


def _identifier(as_hex: str | None) -> bytes | None:
    """Return the bytes of an id in hexadecimal digits, such as ``'414d51'``; None for None.

    Raises BadRequest for another text.
    """
    if as_hex is None:
        return None
    try:
        return bytes.fromhex(as_hex)
    except ValueError:
        raise BadRequest(f"{as_hex!r} is not an id in hex") from None


# Stages: rows that a query writes, and the commit that puts them.
def stage(
    manager: ServedManager,
    request: Request,
    batches: Iterator[pa.RecordBatch],
    stopping: threading.Event,
) -> Answer:
    """Store the rows that one attempt of a task uploads; :func:`commit` puts them on queues later.

    ``stopping`` is set when the server stops. Returns at the end of the upload. An empty batch
    marks the end of the rows. The answer has ``row_count``: their number, or DECIDED if the batch
    is committed already; the rows are then ignored. Raises BadRequest if this attempt is stored
    already. If the upload ends early or the server stops, discards the rows and raises VerbRefused.
    """
    asked = request_of(stages.StageRequest, request)
    _check(asked)
    try:
        writer = _with_queues(manager).stages.begin(StagePlace(*asked))
    except ValueError as error:
        raise BadRequest(str(error)) from error
    if writer is None:
        for _ in batches:
            pass
        return stages.StageAnswer(stages.DECIDED)._asdict()
    is_complete = False
    try:
        for received in batches:
            if stopping.is_set():
                raise VerbRefused(STAGE_LOST, "the server is being stopped")
            for page in _slices(received):
                writer.append(_blob(page), page.num_rows)
            is_complete = not received.num_rows
        if not is_complete:
            raise VerbRefused(STAGE_LOST, "the upload broke off")
    except BaseException:
        writer.discard()
        raise
    return stages.StageAnswer(writer.finish())._asdict()


def commit(queues: QueueManager, asked: stages.CommitRequest) -> Answer:
    """Put the next stored rows of a batch on their queues, and commit them.

    One call puts a limited number of rows; the client calls again until ``is_done`` is true. The
    answer also has ``batch``, ``put_count``, ``expired_count`` and ``refused_count``. ``stages``
    names the uploads whose rows are put. With ``surrenders`` a row that no queue could ever accept
    is left out, for :func:`surrendered`. Raises VerbRefused if a named upload is missing or
    incomplete, and MQError if no queue accepts a row.
    """
    _check(asked)
    named = [_stage_of(name) for name in asked.stages]
    try:
        state = queues.stages.commit(
            asked.query,
            asked.batch,
            named,
            _staged_rows,
            dead_letter_queue=asked.dead_letter_queue,
            surrenders=asked.surrenders,
        )
    except StageMissing as error:
        raise VerbRefused(STAGE_LOST, str(error)) from error
    counts = state.put_count, state.expired_count, state.refused_count
    return stages.CommitAnswer(state.batch, state.is_done, *counts)._asdict()


def surrendered(queues: QueueManager, asked: stages.SurrenderedRequest) -> Answer:
    """Return the rows that a commit has left out because no queue could ever accept them.

    The answer has ``rows``: each is a list of its number at the source, the reason code and a text.
    The list is empty if no row was left out.
    """
    _check(asked)
    rows = queues.stages.surrendered(asked.query, asked.batch)
    return stages.SurrenderedRows([(*row,) for row in rows])._asdict()


def _staged_rows(blob: bytes) -> StagedRows:
    """Decode the rows of one stored blob, as :func:`_blob` has encoded them.

    All payloads are one buffer with offsets; the other columns are lists of Python values.
    """
    with pa.ipc.open_stream(blob) as reader:
        batch = reader.read_next_batch()
    payload = batch.column(stages.PAYLOAD)
    _, offsets, data = payload.buffers()
    first, count = payload.offset, batch.num_rows
    edges = memoryview(offsets).cast("i")[first : first + count + 1].tolist()
    missing = payload.is_null().to_pylist() if payload.null_count else ()
    others = (name for name in batch.schema.names if name != stages.PAYLOAD)
    return StagedRows(
        count,
        {name: batch.column(name).to_pylist() for name in others},
        b"" if data is None else data.to_pybytes(),
        edges,
        frozenset(row for row, is_missing in enumerate(missing) if is_missing),
    )


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices that fit into one transaction each (2 MiB and a number of rows).

    A larger row is one slice. An empty batch yields nothing.
    """
    row_bytes = max(batch.nbytes // max(batch.num_rows, 1), 1)
    rows = min(TRANSACTION_ROWS, max(_BLOB_BYTES // row_bytes, 1))
    edges = [*range(0, batch.num_rows, rows), batch.num_rows]
    for start, stop in pairwise(edges):
        yield batch.slice(start, stop - start)


def _blob(batch: pa.RecordBatch) -> bytes:
    """Return a batch as bytes of an Arrow stream, without columns that have only nulls."""
    filled = [
        name
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if name == stages.PAYLOAD or column.null_count < batch.num_rows
    ]
    batch = batch.select(filled)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def _stage_of(name: Any) -> tuple[int, str]:
    """Return partition and attempt from the JSON value ``[partition, attempt]``.

    Raises BadRequest for a value of another form.
    """
    match name:
        case [int(partition), str(attempt)]:
            return partition, attempt
    raise BadRequest(f"a stage is [partition, attempt], not {name!r}")


def _check(asked: NamedTuple) -> None:
    """Raise BadRequest if a request has a negative number or an empty text.

    Only ``dead_letter_queue`` may be empty.
    """
    for name, value in asked._asdict().items():
        is_empty = value == "" and name not in _MAY_BE_EMPTY
        if is_empty or (isinstance(value, int) and value < 0):
            raise BadRequest(f"{name} cannot be {value!r}")


def _action(
    description: str, kind: type[RowT], run: Callable[[QueueManager, RowT], Answer]
) -> ActionVerb:
    """Return an action on the queues of a queue manager, whose arguments are those of ``kind``.

    ``run`` does the work; ``description`` is shown in the list of actions. Other arguments raise
    BadRequest, and so does a queue manager without queues.
    """
    return ActionVerb(
        description, lambda manager, request: run(_with_queues(manager), request_of(kind, request))
    )


#: Verbs of tickets: their rows are sent.
TICKETS: dict[str, TicketVerb] = {
    ledger.LEDGER_VERB: TicketVerb(LEDGER, open_ledger),
    claims.CLAIMED_VERB: TicketVerb(MESSAGE, open_claimed),
    claims.BROWSE_VERB: TicketVerb(MESSAGE, open_browse),
}
#: Verbs of actions: one call, answered by JSON.
ACTIONS: dict[str, ActionVerb] = {
    ledger.INFO_ACTION: ActionVerb(
        "which positions the ledger of a queue manager holds", ledger_info
    ),
    claims.ATTACH: _action("act as a consumer of a queue", claims.AttachRequest, attach),
    claims.CLAIM: _action("claim the next messages", claims.ClaimRequest, claim),
    claims.END: _action("end what claims hold", claims.EndRequest, end),
    claims.END_WRITTEN: _action(
        "end what a checkpoint says is written", claims.EndWrittenRequest, end_written
    ),
    claims.QUIESCE: _action(
        "claim nothing more for a reader that ends", claims.ClaimReader, quiesce
    ),
    claims.HEARTBEAT: _action("hear of a reader that lives", claims.ClaimReader, renew),
    claims.ROWS: _action("which rows claims hold", claims.ClaimsRequest, claimed_rows),
    claims.BACK_OUT: _action("back out messages of a claim", claims.BackOutRequest, back_out),
    claims.MARK: _action("what tells messages put by now from later", NoArguments, mark),
    claims.RELEASE: _action("give claimed messages back", claims.ReleaseRequest, release),
    claims.CONSUMERS: _action("how all consumers stand", NoArguments, consumers),
    claims.RANGES: _action("parts of a queue to be browsed", claims.RangesRequest, browse_ranges),
    stages.COMMIT_ACTION: _action("put what stages hold", stages.CommitRequest, commit),
    stages.SURRENDERED_ACTION: _action(
        "rows nobody has taken", stages.SurrenderedRequest, surrendered
    ),
}
#: Verbs of uploads: rows come, and one JSON object answers.
PUTS: dict[str, PutVerb] = {stages.STAGE_VERB: PutVerb(STAGED, stage)}
#: The version of the contract of each verb that may say one.
PROTOCOLS: dict[str, int] = {
    **dict.fromkeys(ledger.VERBS, ledger.VERSION),
    **dict.fromkeys(claims.VERBS, claims.VERSION),
    **dict.fromkeys(stages.VERBS, stages.VERSION),
}
