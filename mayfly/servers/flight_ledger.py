"""Verbs of the Flight server about the ledger: its rows by position, and its positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from mayfly.pipeline.bulk.errors import (
    BadRequest,
    OtherInstance,
    PositionBeyondEnd,
    PositionTrimmed,
)
from mayfly.pipeline.bulk.schema import ledger_batch
from mayfly.servers.flight_calls import Page, Request, ServedManager
from mayfly.store.ledger import Ledger
from mayfly.verbs.contracts.ledger import INFO_ACTION, LEDGER_VERB, LedgerInfo, LedgerRequest
from mayfly.verbs.contracts.ledger import PositionTrimmed as TrimmedInStore

#: Rows taken from the store at once: some ten milliseconds of its ledger connection.
PAGE_ROWS = 4096


def open_ledger(manager: ServedManager, request: Request) -> Iterator[Page]:
    """Return the rows of a range of positions."""
    asked = _ledger_request(request)
    _check_range(manager.ledger, asked)
    manager.ledger.asked_position = max(asked.after, manager.ledger.asked_position or 0)
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


def batch(rows: Page, manager: ServedManager) -> pa.RecordBatch:
    """Return a page of the ledger as a record batch."""
    return ledger_batch(rows, manager.name, manager.ledger.instance_id)


def info(manager: ServedManager, request: Request) -> Any:
    """Return the queue manager of the ledger, and the positions that it holds."""
    if request:
        raise BadRequest(f"{INFO_ACTION} takes nothing but a manager, not {sorted(request)}")
    ledger = manager.ledger
    # The end is read first: a trim in between then only moves the beginning towards it.
    last = ledger.last_position()
    first = min(ledger.first_position(), last + 1)
    return LedgerInfo(manager.name, ledger.instance_id, first, last)._asdict()


def _ledger_request(asked: Request) -> LedgerRequest:
    """Return the request of a ticket; raises BadRequest naming the wrong value."""
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
