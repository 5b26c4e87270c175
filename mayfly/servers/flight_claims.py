"""What the Flight verbs about queues do: attach, claim, read, end and release; browse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any

from mayfly.engine import Manager, Match
from mayfly.engine.face.bulk import ClaimError, ClaimLimit, browsable_page, browsable_ranges
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.servers.flight_calls import (
    BAD_REQUEST,
    CallRefused,
    Page,
    Request,
    ServedManager,
    fields_of,
    with_queues,
)
from mayfly.store.claims import ClaimedColumns
from mayfly.store.units import StoredMessage

#: Data and rows read at once from what is claimed.
_PAGE_BYTES = 4 * 1024 * 1024
_PAGE_ROWS = 4_096
_OPTIONAL_INT = (int, type(None))
_OPTIONAL_TEXT = (str, type(None))

Answer = dict[str, Any]


def _translated(call: Callable[[Manager, Request], Answer]) -> Callable[..., Answer]:
    """Give a verb the queue manager it needs, and its refusals the form that travels."""

    @wraps(call)
    def run(manager: ServedManager, request: Request) -> Answer:
        try:
            return call(with_queues(manager), request)
        except ClaimError as error:
            raise CallRefused(error.reason, error.text) from error

    return run


@_translated
def attach(manager: Manager, request: Request) -> Answer:
    """Begin to act as a consumer of a queue."""
    consumer, queue = fields_of(request, consumer=str, queue=str)
    standing = manager.claims.attach(consumer, queue)
    return {
        "manager": manager.name,
        "instance_id": manager.ledger.instance_id,
        "consumer": standing.consumer,
        "queue": standing.queue,
        "epoch": standing.epoch,
        "closed": standing.closed,
    }


@_translated
def claim(manager: Manager, request: Request) -> Answer:
    """Claim the next messages behind a claim."""
    consumer, epoch, after, max_rows, max_bytes, up_to = fields_of(
        request,
        consumer=str,
        epoch=int,
        after=int,
        max_rows=int,
        max_data_bytes=int,
        up_to=_OPTIONAL_INT,
    )
    claimed = manager.claims.claim(consumer, epoch, after, ClaimLimit(max_rows, max_bytes, up_to))
    return {"until": claimed.until, "messages": claimed.message_count}


@_translated
def mark(manager: Manager, request: Request) -> Answer:
    """Tell what ``up_to`` of a claim takes to stop at what is there now."""
    fields_of(request)
    return {"mark": manager.claims.mark()}


@_translated
def end(manager: Manager, request: Request) -> Answer:
    """End what claims hold."""
    consumer, epoch, until = fields_of(request, consumer=str, epoch=int, until=int)
    return {"messages": manager.claims.end(consumer, epoch, until)}


@_translated
def end_written(manager: Manager, request: Request) -> Answer:
    """End what claims hold that a checkpoint says is written."""
    consumer, instance_id, until = fields_of(request, consumer=str, instance_id=str, until=int)
    return {"messages": manager.claims.end_written(consumer, instance_id, until)}


@_translated
def quiesce(manager: Manager, request: Request) -> Answer:
    """Give a reader no further claim."""
    consumer, epoch = fields_of(request, consumer=str, epoch=int)
    manager.claims.quiesce(consumer, epoch)
    return {}


@_translated
def renew(manager: Manager, request: Request) -> Answer:
    """Hear of a reader that lives."""
    consumer, epoch = fields_of(request, consumer=str, epoch=int)
    manager.claims.renew(consumer, epoch)
    return {}


@_translated
def edges(manager: Manager, request: Request) -> Answer:
    """Tell which rows claims hold."""
    consumer, epoch, after, until = fields_of(
        request, consumer=str, epoch=int, after=int, until=int
    )
    after_row, until_row = manager.claims.edges(consumer, epoch, after, until)
    return {"after_row": after_row, "until_row": until_row}


@_translated
def release(manager: Manager, request: Request) -> Answer:
    """Give back what a consumer has claimed."""
    consumer, epoch = fields_of(request, consumer=str, epoch=_OPTIONAL_INT)
    return {"messages": manager.claims.release(consumer, epoch)}


@_translated
def consumers(manager: Manager, request: Request) -> Answer:
    """List all consumers."""
    fields_of(request)
    return {"consumers": [standing._asdict() for standing in manager.claims.standings()]}


@_translated
def browse_ranges(manager: Manager, request: Request) -> Answer:
    """Cut what is on a queue into parts that can be browsed side by side."""
    queue, count = fields_of(request, queue=str, count=int)
    if count < 1:
        raise CallRefused(BAD_REQUEST, f"count >= 1 does not hold for {count}")
    return {"ranges": browsable_ranges(manager, queue, count)}


def open_claimed(manager: ServedManager, request: Request) -> Iterator[Page]:
    """Return the claimed messages of a range of rows."""
    consumer, epoch, after, until = fields_of(
        request, consumer=str, epoch=int, after_row=int, until_row=int
    )
    return _claimed(with_queues(manager), consumer, epoch, (after, until))


def open_browse(manager: ServedManager, request: Request) -> Iterator[Page]:
    """Return the live messages of a range of keys that match."""
    queue, low, high, msg_id, correl_id, priority = fields_of(
        request,
        queue=str,
        low=int,
        high=int,
        msg_id=_OPTIONAL_TEXT,
        correl_id=_OPTIONAL_TEXT,
        priority=_OPTIONAL_INT,
    )
    match = Match(_identifier(msg_id), _identifier(correl_id))
    return _browsed(with_queues(manager), queue, (low, high), match, priority)


def _claimed(manager: Manager, consumer: str, epoch: int, rows: tuple[int, int]) -> Iterator[Page]:
    after, until = rows
    while after < until:
        try:
            found = manager.claims.page(
                consumer, epoch, (after, until), max_bytes=_PAGE_BYTES, max_rows=_PAGE_ROWS
            )
        except ClaimError as error:
            raise CallRefused(error.reason, error.text) from error
        yield _page(manager, found.queue, found.columns)
        after += found.message_count


def _browsed(
    manager: Manager, name: str, within: tuple[int, int], match: Match, priority: int | None
) -> Iterator[Page]:
    low: int | None
    low, high = within
    while low is not None:
        queue, found, low = browsable_page(manager, name, (low, high), match, priority)
        if found:
            yield _page(manager, queue, _columns(found))


def _columns(rows: list[StoredMessage]) -> ClaimedColumns:
    return ClaimedColumns(
        [row.msg_id for row in rows],
        [row.correl_id or None for row in rows],
        [row.put_ms for row in rows],
        [row.deliver_at_ms for row in rows],
        [row.expire_at_ms for row in rows],
        [row.backout_count for row in rows],
        [row.descriptor for row in rows],
        [row.body for row in rows],
    )


def _page(manager: Manager, queue: str | Sequence[str], columns: ClaimedColumns) -> Page:
    """Return messages with what their descriptors say, as bulk/claims.py MessageColumns has it."""
    described = {packed: _described(packed) for packed in set(columns.descriptor)}
    return manager.name, queue, columns, described


def _described(packed: bytes) -> tuple[Any, ...]:
    descriptor = unpack_descriptor(packed)
    return (
        descriptor.priority,
        descriptor.persistence,
        descriptor.report,
        descriptor.reply_to_q,
        descriptor.reply_to_q_mgr,
        descriptor.msg_type,
        descriptor.format,
        descriptor.encoding,
        descriptor.coded_char_set_id,
        descriptor.user_identifier,
    )


def _identifier(as_hex: str | None) -> bytes | None:
    if as_hex is None:
        return None
    try:
        return bytes.fromhex(as_hex)
    except ValueError:
        raise CallRefused(BAD_REQUEST, f"{as_hex!r} is not an id in hex") from None
