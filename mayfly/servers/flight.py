"""Serve queue managers over Arrow Flight: in bulk, by position, to who has a token.

A ticket, and the descriptor of an upload, is JSON with one verb: ``{"ledger": {"after": 0,
"until": 10, "manager": null, "instance_id": null, "max_bytes": 2097152}}``. An action has its verb
as its type and such an object as its body; an exchange, with ``session``, is a session
(``flight_sessions.py``). ``manager`` names the queue manager where several are served. The verbs
stand in ``TICKETS``, ``ACTIONS`` and ``PUTS``; what they do, in modules beside.
"""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.flight as flight

from mayfly.bulk import channels, claims
from mayfly.bulk.client import (
    DEFAULT_MAX_BYTES,
    DEFAULT_PORT,
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
from mayfly.bulk.schema import LEDGER, MESSAGE, ledger_batch, pages
from mayfly.bulk.stages import COMMIT_ACTION, STAGE_VERB, STAGED
from mayfly.mqi.errors import MQError
from mayfly.served.wire import SESSION_VERB
from mayfly.servers import flight_channels, flight_claims, flight_sessions, flight_stages
from mayfly.servers.flight_calls import (
    MQ_ERROR,
    ActionVerb,
    CallRefused,
    Page,
    PutVerb,
    Request,
    ServedManager,
    TicketVerb,
    with_queues,
)
from mayfly.store.ledger import Ledger
from mayfly.store.ledger import PositionTrimmed as TrimmedInStore

#: Rows taken from the store at once: some ten milliseconds of its ledger connection.
PAGE_ROWS = 4096
#: How long stop() waits for calls under way; a client that reads no more would hold it for ever.
_STOP_SECONDS = 5.0
_MAX_BYTES = "max_bytes"


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
        #: Whether a client that is silent has outlasted stop(): gRPC then waits for it, and with
        #: it the end of the process.
        self.is_held = False

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
        # The first list that Arrow converts makes it load pandas: seconds beside a busy queue
        # manager, which are not to be those of the first call.
        pa.array([None])
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
        self.is_held = closer.is_alive()


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
        with _in_terms_of_flight():
            name, request = _one_verb(_object(ticket.ticket), "ticket", TICKETS)
            verb = TICKETS[name]
            manager = self._manager(request.pop("manager", None))
            max_bytes = _max_bytes(request)
            rows = verb.open(manager, request)
        return flight.GeneratorStream(
            verb.schema, self._batches(verb, manager, rows, max_bytes=max_bytes)
        )

    def do_action(self, context: Any, action: flight.Action) -> list[bytes]:
        with _in_terms_of_flight():
            if action.type not in ACTIONS:
                raise BadRequest(f"unknown action {action.type!r}")
            request = _object(action.body.to_pybytes())
            manager = self._manager(request.pop("manager", None))
            answer = ACTIONS[action.type].run(manager, request)
        return [json.dumps(answer).encode()]

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        with _in_terms_of_flight():
            name, request = _one_verb(_object(descriptor.command or b""), "descriptor", PUTS)
            verb = PUTS[name]
            manager = self._manager(request.pop("manager", None))
            if not reader.schema.equals(verb.schema):
                raise BadRequest(f"{name}: the columns are not those of its schema")
            batches = (chunk.data for chunk in reader)
            answer = verb.run(manager, request, batches, self.stopping)
        writer.write(json.dumps(answer).encode())

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        with _in_terms_of_flight():
            asked = _object(descriptor.command or b"")
            _name, opening = _one_verb(asked, "descriptor", (SESSION_VERB,))
            manager = with_queues(self._manager(opening.pop("manager", None)))
            flight_sessions.converse(manager, opening, (reader, writer), self.stopping)

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        return [(name, verb.description) for name, verb in ACTIONS.items()]

    def _manager(self, name: Any) -> ServedManager:
        if name is None and len(self._managers) == 1:
            return next(iter(self._managers.values()))
        try:
            return self._managers[name]
        except (KeyError, TypeError):
            served = ", ".join(sorted(self._managers))
            raise UnknownManager(f"no queue manager {name!r} here; served: {served}") from None

    def _batches(
        self, verb: TicketVerb, manager: ServedManager, rows: Iterator[Page], *, max_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows page by page: a slow client holds a page, never a cursor."""
        with _in_terms_of_flight():
            for page in rows:
                yield from pages(verb.to_batch(page, manager), max_bytes)
                if self.stopping.is_set():
                    return


@contextmanager
def _in_terms_of_flight() -> Iterator[None]:
    """Turn what a verb raises into what Flight carries to the client."""
    try:
        yield
    except BulkError as error:
        raise to_flight(error) from error
    except CallRefused as error:
        raise to_flight(_Refused(error.reason, error.text)) from error
    except MQError as error:
        raise to_flight(_Refused(MQ_ERROR, str(error))) from error


class _Refused(BulkError):
    """What a verb refuses, under the reason it gives."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason  # type: ignore[misc]  # of this one error, not of its class


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BadRequest("a ticket or action body must be a JSON object")
    return value


def _one_verb(
    asked: dict[str, Any], what: str, known: Collection[str]
) -> tuple[str, dict[str, Any]]:
    """Return the one verb of a ticket or descriptor and what it asks for."""
    if len(asked) != 1 or next(iter(asked)) not in known:
        verbs = " or ".join(map(repr, known))
        raise BadRequest(f"a {what} has the one verb {verbs}, not {sorted(asked)}")
    [(name, request)] = asked.items()
    if not isinstance(request, dict):
        raise BadRequest(f"{name}: what it asks for must be a JSON object")
    return name, request


def _max_bytes(request: dict[str, Any]) -> int:
    value = request.pop(_MAX_BYTES, DEFAULT_MAX_BYTES)
    if type(value) is not int:
        raise BadRequest(f"{_MAX_BYTES} must be one of the whole numbers, not {value!r}")
    if value < 1:
        raise BadRequest(f"{_MAX_BYTES} >= 1: {value} do not hold")
    return value


class LedgerRequest(NamedTuple):
    """The range ``(after, until]`` of one ledger, as a ticket names it."""

    after: int
    until: int
    instance_id: str | None = None


def _open_ledger(manager: ServedManager, request: Request) -> Iterator[Page]:
    """Return the rows of a range of positions."""
    asked = _ledger_request(request)
    _check_range(manager.ledger, asked)
    return _ledger_rows(manager.ledger, asked)


def _ledger_rows(ledger: Ledger, request: LedgerRequest) -> Iterator[Page]:
    after = request.after
    while after < request.until:
        try:
            rows = ledger.page(after, min(PAGE_ROWS, request.until - after))
        except TrimmedInStore as error:
            raise PositionTrimmed(str(error)) from error
        if not rows:
            raise _beyond_end(ledger, request.until)
        yield rows
        after = rows[-1][0]


def _ledger_batch(rows: Page, manager: ServedManager) -> pa.RecordBatch:
    return ledger_batch(rows, manager.name, manager.ledger.instance_id)


def _message_batch(page: Page, _manager: ServedManager) -> pa.RecordBatch:
    return claims.message_batch(claims.MessageColumns(*page))


def _ledger_info(manager: ServedManager, request: Request) -> Any:
    if request:
        raise BadRequest(f"{INFO_ACTION} takes nothing but a manager, not {sorted(request)}")
    ledger = manager.ledger
    # The end first: what is trimmed in between only brings the beginning nearer to it.
    last = ledger.last_position()
    first = min(ledger.first_position(), last + 1)
    return LedgerInfo(manager.name, ledger.instance_id, first, last)._asdict()


def _ledger_request(asked: Request) -> LedgerRequest:
    """Return what a ticket asks for; raises BadRequest naming what is wrong with it."""
    try:
        request = LedgerRequest(**asked)
    except TypeError as error:
        raise BadRequest(f"{LEDGER_VERB}: {error}") from error
    numbers = (request.after, request.until)
    if not all(type(number) is int for number in numbers):
        raise BadRequest(f"after and until must be whole numbers, not {numbers}")
    if not 0 <= request.after <= request.until:
        raise BadRequest(f"0 <= after <= until do not hold for {numbers}")
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


#: What a ticket may ask for: verb -> the rows it gives.
TICKETS: dict[str, TicketVerb] = {
    LEDGER_VERB: TicketVerb(LEDGER, _open_ledger, _ledger_batch),
    claims.CLAIMED_VERB: TicketVerb(MESSAGE, flight_claims.open_claimed, _message_batch),
    claims.BROWSE_VERB: TicketVerb(MESSAGE, flight_claims.open_browse, _message_batch),
}

#: What may be asked in one call and is answered by one JSON object.
ACTIONS: dict[str, ActionVerb] = {
    INFO_ACTION: ActionVerb("which positions the ledger of a queue manager holds", _ledger_info),
    claims.ATTACH: ActionVerb("act as a consumer of a queue", flight_claims.attach),
    claims.CLAIM: ActionVerb("claim the next messages", flight_claims.claim),
    claims.END: ActionVerb("end what claims hold", flight_claims.end),
    claims.EDGES: ActionVerb("which rows claims hold", flight_claims.edges),
    claims.MARK: ActionVerb("what tells messages put by now from later", flight_claims.mark),
    claims.RELEASE: ActionVerb("give claimed messages back", flight_claims.release),
    claims.CONSUMERS: ActionVerb("how all consumers stand", flight_claims.consumers),
    claims.RANGES: ActionVerb("parts of a queue to be browsed", flight_claims.browse_ranges),
    COMMIT_ACTION: ActionVerb("put what stages hold", flight_stages.commit),
    channels.PING: ActionVerb("whether a channel receives", flight_channels.ping),
    channels.BEGIN: ActionVerb("begin to send on a channel", flight_channels.begin),
    channels.GO_ON: ActionVerb("put what is kept, or could not be put", flight_channels.go_on),
    channels.CONFIRM: ActionVerb("commit a batch", flight_channels.confirm),
    channels.END: ActionVerb("send no more on a channel", flight_channels.end),
}

#: What an upload may be: verb -> who takes its record batches and answers with a JSON object.
PUTS: dict[str, PutVerb] = {
    STAGE_VERB: PutVerb(STAGED, flight_stages.stage),
    channels.SEND: PutVerb(channels.PARCEL, flight_channels.send),
}
