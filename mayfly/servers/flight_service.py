"""The calls of a Flight server: tickets, actions and uploads.

A ticket, and the descriptor of an upload, is JSON with one verb: ``{"ledger": {"after": 0,
"until": 10, "manager": null, "instance_id": null, "max_bytes": 2097152}}``. An action has its verb
as its type and such an object as its body. ``manager`` names the queue manager where several are
served. The verbs stand in ``TICKETS``, ``ACTIONS`` and ``PUTS``; modules beside implement them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from mayfly.mqi.errors import MQError
from mayfly.pipeline.bulk.client import ADDRESS_ACTION, DEFAULT_MAX_BYTES
from mayfly.pipeline.bulk.errors import BadRequest, BulkError, UnknownManager, to_flight
from mayfly.pipeline.bulk.queue_client import MessagePage, message_batch
from mayfly.pipeline.bulk.schema import LEDGER, MESSAGE, pages
from mayfly.pipeline.bulk.stages import STAGED
from mayfly.servers import flight_claims, flight_ledger, flight_stages
from mayfly.servers.budget import Budget
from mayfly.servers.flight_calls import (
    ActionVerb,
    CallRefused,
    Page,
    PutVerb,
    ServedManager,
    TicketVerb,
    fields_of,
)
from mayfly.verbs.contracts import claims, ledger, stages
from mayfly.verbs.contracts.bulk import PROTOCOL
from mayfly.verbs.contracts.reasons import MQ_ERROR

_MAX_BYTES = "max_bytes"
#: An upload that waits for room looks so often whether the server stops.
_LOOK_SECONDS = 0.25


class Service(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow ships no types
    """Answers the calls; runs on gRPC's own threads."""

    def __init__(
        self,
        location: str,
        *,
        managers: Mapping[str, ServedManager],
        stopping: threading.Event,
        budget: Budget,
        **options: Any,
    ):
        self._managers, self._budget = managers, budget
        #: Set when the server is to stop.
        self._stopping = stopping
        #: The url of the server's port, for clients that came by a folder.
        self.url = ""
        super().__init__(location, **options)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.GeneratorStream:
        with _in_terms_of_flight():
            name, request = _one_verb(_object(ticket.ticket), "ticket", TICKETS)
            verb = TICKETS[name]
            _check_protocol(name, request)
            manager = self._manager(request.pop("manager", None))
            max_bytes = _max_bytes(request)
            rows = verb.open(manager, request)
        return flight.GeneratorStream(
            verb.schema, self._batches(verb, manager, rows, max_bytes=max_bytes)
        )

    def do_action(self, context: Any, action: flight.Action) -> list[bytes]:
        with _in_terms_of_flight():
            request = _object(action.body.to_pybytes())
            answer: Any
            if action.type == ADDRESS_ACTION:
                fields_of(request)
                answer = {"url": self.url}
            elif action.type in ACTIONS:
                _check_protocol(action.type, request)
                manager = self._manager(request.pop("manager", None))
                answer = ACTIONS[action.type].run(manager, request)
            else:
                raise BadRequest(f"unknown action {action.type!r}")
        return [json.dumps(answer).encode()]

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        with _in_terms_of_flight():
            name, request = _one_verb(_object(descriptor.command or b""), "descriptor", PUTS)
            verb = PUTS[name]
            _check_protocol(name, request)
            manager = self._manager(request.pop("manager", None))
            if not reader.schema.equals(verb.schema):
                raise BadRequest(f"{name}: the columns are not those of its schema")
            answer = verb.run(manager, request, self._read(reader), self._stopping)
        writer.write(json.dumps(answer).encode())

    def _read(self, reader: Any) -> Iterator[pa.RecordBatch]:
        """Yield the batches of an upload; the next one is read when there is room for more.

        gRPC has read a batch whole by then, and reads only so far ahead.
        """
        for chunk in reader:
            batch: pa.RecordBatch = chunk.data
            count = batch.nbytes
            self._budget.take(count)
            try:
                yield batch
            finally:
                self._budget.give(count)
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        if self._budget.is_used_up:
            there = threading.Event()
            room = self._budget.room(0, there.set)
            assert room is not None
            while not (room.is_there or self._stopping.is_set()):
                there.wait(_LOOK_SECONDS)
            room.end()

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        known = [(name, verb.description) for name, verb in ACTIONS.items()]
        return [(ADDRESS_ACTION, "where the port of the server is"), *known]

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
                if self._stopping.is_set():
                    return


@contextmanager
def _in_terms_of_flight() -> Iterator[None]:
    """Raise the error of a verb as an error that Flight carries to the client."""
    try:
        yield
    except BulkError as error:
        raise to_flight(error) from error
    except CallRefused as error:
        raise to_flight(_Refused(error.reason, error.text)) from error
    except MQError as error:
        raise to_flight(_Refused(MQ_ERROR, str(error))) from error


class _Refused(BulkError):
    """A refusal of a verb, with the reason it gives."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason  # type: ignore[misc]  # of this one error, not of its class


def _object(body: bytes) -> dict[str, Any]:
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
    """Return the one verb of a ticket or descriptor, and its request."""
    if len(asked) != 1 or next(iter(asked)) not in known:
        verbs = " or ".join(map(repr, known))
        raise BadRequest(f"a {what} has the one verb {verbs}, not {sorted(asked)}")
    [(name, request)] = asked.items()
    if not isinstance(request, dict):
        raise BadRequest(f"{name}: what it asks for must be a JSON object")
    return name, request


def _check_protocol(verb: str, request: dict[str, Any]) -> None:
    """Raise BadRequest where a client says that it speaks another version of the contract."""
    if verb in PROTOCOLS and request.pop(PROTOCOL, PROTOCOLS[verb]) != PROTOCOLS[verb]:
        raise BadRequest(f"{verb}: only protocol {PROTOCOLS[verb]} is spoken here")


def _max_bytes(request: dict[str, Any]) -> int:
    value = request.pop(_MAX_BYTES, DEFAULT_MAX_BYTES)
    if type(value) is not int:
        raise BadRequest(f"{_MAX_BYTES} must be one of the whole numbers, not {value!r}")
    if value < 1:
        raise BadRequest(f"{_MAX_BYTES} >= 1: {value} do not hold")
    return value


def _message_batch(page: Page, _manager: ServedManager) -> pa.RecordBatch:
    return message_batch(MessagePage(*page))


#: Verbs of tickets: verb -> its rows.
TICKETS: dict[str, TicketVerb] = {
    ledger.LEDGER_VERB: TicketVerb(LEDGER, flight_ledger.open_ledger, flight_ledger.batch),
    claims.CLAIMED_VERB: TicketVerb(MESSAGE, flight_claims.open_claimed, _message_batch),
    claims.BROWSE_VERB: TicketVerb(MESSAGE, flight_claims.open_browse, _message_batch),
}

#: Verbs of actions: one call, answered by one JSON object.
ACTIONS: dict[str, ActionVerb] = {
    ledger.INFO_ACTION: ActionVerb(
        "which positions the ledger of a queue manager holds", flight_ledger.info
    ),
    claims.ATTACH: ActionVerb("act as a consumer of a queue", flight_claims.attach),
    claims.CLAIM: ActionVerb("claim the next messages", flight_claims.claim),
    claims.END: ActionVerb("end what claims hold", flight_claims.end),
    claims.END_WRITTEN: ActionVerb(
        "end what a checkpoint says is written", flight_claims.end_written
    ),
    claims.QUIESCE: ActionVerb("claim nothing more for a reader that ends", flight_claims.quiesce),
    claims.RENEW: ActionVerb("hear of a reader that lives", flight_claims.renew),
    claims.ROWS: ActionVerb("which rows claims hold", flight_claims.rows),
    claims.BACK_OUT: ActionVerb("back out messages of a claim", flight_claims.back_out),
    claims.MARK: ActionVerb("what tells messages put by now from later", flight_claims.mark),
    claims.RELEASE: ActionVerb("give claimed messages back", flight_claims.release),
    claims.CONSUMERS: ActionVerb("how all consumers stand", flight_claims.consumers),
    claims.RANGES: ActionVerb("parts of a queue to be browsed", flight_claims.browse_ranges),
    stages.COMMIT_ACTION: ActionVerb("put what stages hold", flight_stages.commit),
    stages.SURRENDERED_ACTION: ActionVerb("rows nobody has taken", flight_stages.surrendered),
}

#: Verbs of uploads: verb -> function that takes record batches and answers with a JSON object.
PUTS: dict[str, PutVerb] = {
    stages.STAGE_VERB: PutVerb(STAGED, flight_stages.stage),
}

#: The version of the contract of each verb that may say one.
PROTOCOLS: dict[str, int] = {
    **dict.fromkeys(ledger.VERBS, ledger.VERSION),
    **dict.fromkeys(claims.VERBS, claims.VERSION),
    **dict.fromkeys(stages.VERBS, stages.VERSION),
}
