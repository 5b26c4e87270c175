"""Serve the ledgers of queue managers over Arrow Flight: in bulk, by position, to who has a token.

A ticket is JSON with one verb: ``{"ledger": {"after": 0, "until": 10, "manager": null,
"instance_id": null, "max_bytes": 2097152}}``. The action ``ledger-info`` takes
``{"manager": null}`` and tells which positions there are.
"""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.flight as flight

from mayfly.bulk.client import (
    DEFAULT_MAX_BYTES,
    INFO_ACTION,
    LEDGER_VERB,
    LedgerInfo,
    check_token,
)
from mayfly.bulk.errors import (
    BadRequest,
    BulkError,
    OtherInstance,
    PositionBeyondEnd,
    PositionTrimmed,
    UnknownManager,
    WrongToken,
    to_flight,
)
from mayfly.bulk.schema import LEDGER, ledger_batch, pages
from mayfly.store.ledger import Ledger
from mayfly.store.ledger import PositionTrimmed as TrimmedInStore

DEFAULT_PORT = 9414
#: Rows taken from the store at once: some ten milliseconds of its ledger connection.
PAGE_ROWS = 4096
#: How long stop() waits for calls under way; a client that reads no more would hold it for ever.
_STOP_SECONDS = 5.0


class ServedManager(Protocol):
    """What the server needs of a queue manager."""

    @property
    def name(self) -> str:
        """The name of the queue manager."""

    @property
    def ledger(self) -> Ledger:
        """Its ledger."""


class LedgerRequest(NamedTuple):
    """The range ``(after, until]`` of one ledger, as a ticket names it."""

    after: int
    until: int
    manager: str | None = None
    instance_id: str | None = None
    max_bytes: int = DEFAULT_MAX_BYTES


class FlightServer:
    """A Flight server for one or several queue managers, open from start() to stop()."""

    def __init__(
        self,
        queue_managers: ServedManager | Sequence[ServedManager],
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        *,
        token: str,
        tls_certificate: tuple[bytes, bytes] | None = None,
    ) -> None:
        """Set up a server; port 0 takes any free one.

        ``token`` is what every call must show. ``tls_certificate`` is a certificate chain and its
        key, both PEM; without it the token and the rows travel in the clear.
        """
        if not token:
            raise ValueError("token is empty: anyone could read the ledger")
        managers = queue_managers if isinstance(queue_managers, Sequence) else [queue_managers]
        self._managers = {manager.name: manager for manager in managers}
        self._host = host
        self._port = port
        self._token = check_token(token)
        self._tls_certificate = tls_certificate
        self._service: _Service | None = None

    def __enter__(self) -> FlightServer:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    @property
    def port(self) -> int:
        """The port it listens on, also when 0 was asked for."""
        return self._port if self._service is None else int(self._service.port)

    @property
    def url(self) -> str:
        """What a client connects to."""
        scheme = "grpc" if self._tls_certificate is None else "grpc+tls"
        return f"{scheme}://{self._host}:{self.port}"

    def start(self) -> None:
        """Begin to listen; OSError when the port is taken."""
        if self._service is not None:
            return
        scheme = "grpc" if self._tls_certificate is None else "grpc+tls"
        try:
            self._service = _Service(
                f"{scheme}://{self._host}:{self._port}",
                middleware={"token": _TokenCheck(self._token)},
                tls_certificates=self._tls_certificate and [self._tls_certificate],
                managers=self._managers,
            )
        except pa.ArrowException as error:
            raise OSError(f"cannot listen on {self._host}:{self._port}: {error}") from error

    def stop(self) -> None:
        """Refuse new calls and end those under way; returns within a few seconds."""
        service, self._service = self._service, None
        if service is None:
            return
        service.stopping.set()
        closer = threading.Thread(target=service.shutdown, name="mayfly-flight-stop", daemon=True)
        closer.start()
        closer.join(_STOP_SECONDS)


class _TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow ships no types
    """Refuses every call that does not show the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._expected = f"Bearer {token}".encode()

    def start_call(self, info: Any, headers: Mapping[str, list[str]]) -> None:
        for shown in headers.get("authorization", []):
            # Takes the same time wherever the first wrong byte stands.
            if hmac.compare_digest(shown.encode(), self._expected):
                return
        raise to_flight(WrongToken("the token is missing or wrong"))


class _Service(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow ships no types
    """Answers the calls; runs on gRPC's own threads."""

    def __init__(self, location: str, *, managers: Mapping[str, ServedManager], **options: Any):
        self._managers = managers
        self.stopping = threading.Event()
        super().__init__(location, **options)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.GeneratorStream:
        try:
            request = _ledger_request(_object(ticket.ticket))
            manager = self._manager(request.manager)
            _check_range(manager.ledger, request)
        except BulkError as error:
            raise to_flight(error) from error
        return flight.GeneratorStream(LEDGER, self._batches(manager, request))

    def do_action(self, context: Any, action: flight.Action) -> list[bytes]:
        try:
            if action.type != INFO_ACTION:
                raise BadRequest(f"unknown action {action.type!r}")
            manager = self._manager(_object(action.body.to_pybytes()).get("manager"))
        except BulkError as error:
            raise to_flight(error) from error
        ledger = manager.ledger
        # The end first: what is trimmed in between only brings the beginning nearer to it.
        last = ledger.last_position()
        first = min(ledger.first_position(), last + 1)
        return [
            json.dumps(LedgerInfo(manager.name, ledger.instance_id, first, last)._asdict()).encode()
        ]

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        return [(INFO_ACTION, "which positions the ledger of a queue manager holds")]

    def _manager(self, name: Any) -> ServedManager:
        if name is None and len(self._managers) == 1:
            return next(iter(self._managers.values()))
        try:
            return self._managers[name]
        except (KeyError, TypeError):
            served = ", ".join(sorted(self._managers))
            raise UnknownManager(f"no queue manager {name!r} here; served: {served}") from None

    def _batches(self, manager: ServedManager, request: LedgerRequest) -> Iterator[pa.RecordBatch]:
        """Yield the range page by page: a slow client holds a page, never a cursor."""
        ledger = manager.ledger
        after = request.after
        while after < request.until and not self.stopping.is_set():
            try:
                rows = ledger.page(after, min(PAGE_ROWS, request.until - after))
            except TrimmedInStore as error:
                raise to_flight(PositionTrimmed(str(error))) from error
            if not rows:
                raise to_flight(_beyond_end(ledger, request.until))
            batch = ledger_batch(rows, manager.name, ledger.instance_id)
            yield from pages(batch, request.max_bytes)
            after = rows[-1][0]


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BadRequest("a ticket or action body must be a JSON object")
    return value


def _ledger_request(ticket: dict[str, Any]) -> LedgerRequest:
    """Return what a ticket asks for; raises BadRequest naming what is wrong with it."""
    if list(ticket) != [LEDGER_VERB]:
        raise BadRequest(f"a ticket has the one verb {LEDGER_VERB!r}, not {sorted(ticket)}")
    try:
        request = LedgerRequest(**ticket[LEDGER_VERB])
    except TypeError as error:
        raise BadRequest(f"{LEDGER_VERB}: {error}") from error
    numbers = (request.after, request.until, request.max_bytes)
    if not all(type(number) is int for number in numbers):
        raise BadRequest(f"after, until and max_bytes must be whole numbers, not {numbers}")
    if not 0 <= request.after <= request.until or request.max_bytes < 1:
        raise BadRequest(f"0 <= after <= until and max_bytes >= 1 do not hold for {numbers}")
    return request


def _check_range(ledger: Ledger, request: LedgerRequest) -> None:
    if request.instance_id not in (None, ledger.instance_id):
        raise OtherInstance(
            f"positions of store {request.instance_id} were asked of store {ledger.instance_id}"
        )
    if request.until > ledger.last_position():
        raise _beyond_end(ledger, request.until)
    first = ledger.first_position()
    if request.after < request.until and request.after + 1 < first:
        raise PositionTrimmed(str(TrimmedInStore(request.after, first)))


def _beyond_end(ledger: Ledger, until: int) -> PositionBeyondEnd:
    return PositionBeyondEnd(
        f"position {until} was asked for and the ledger ends at {ledger.last_position()}"
    )
