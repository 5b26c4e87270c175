"""The Flight verbs about queues: attach, claim, read, end and release; browse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from operator import attrgetter
from typing import Any

from mayfly.engine import Match
from mayfly.engine.face.bulk import ClaimError, ClaimLimit, browsable_page, browsable_ranges
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.queue_manager import QueueManager
from mayfly.servers.flight_calls import (
    CallRefused,
    Page,
    Request,
    ServedManager,
    fields_of,
    request_of,
    with_queues,
)
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts import claims as contract
from mayfly.verbs.contracts.messages import DESCRIBED, MessageColumns
from mayfly.verbs.contracts.reasons import BAD_REQUEST

#: A page of claimed messages has about so many bytes of data, or so many rows.
_PAGE_BYTES = 4 * 1024 * 1024
_PAGE_ROWS = 4_096
#: Columns of a message that its descriptor has.
_SAID = attrgetter(*DESCRIBED)

Answer = dict[str, Any]


def _translated(call: Callable[[QueueManager, Request], Answer]) -> Callable[..., Answer]:
    """Give a verb the queue manager it needs, and its refusals the form that travels."""

    @wraps(call)
    def run(manager: ServedManager, request: Request) -> Answer:
        try:
            return call(with_queues(manager), request)
        except ClaimError as error:
            raise CallRefused(error.reason, error.text) from error

    return run


@_translated
def attach(manager: QueueManager, request: Request) -> Answer:
    """Begin to act as a consumer of a queue."""
    standing = manager.claims.attach(*request_of(contract.AttachRequest, request))
    return contract.Attached(
        manager.name,
        manager.ledger.instance_id,
        standing.consumer,
        standing.queue,
        standing.epoch,
        standing.closed,
    )._asdict()


@_translated
def claim(manager: QueueManager, request: Request) -> Answer:
    """Claim the next messages behind a claim."""
    asked = request_of(contract.ClaimRequest, request)
    limit = ClaimLimit(asked.max_rows, asked.max_data_bytes, asked.up_to)
    claimed = manager.claims.claim(asked.consumer, asked.epoch, asked.after, limit)
    return contract.Claimed(claimed.until, claimed.message_count)._asdict()


@_translated
def mark(manager: QueueManager, request: Request) -> Answer:
    """Return a mark; a claim with this ``up_to`` stops at the messages that are there now."""
    fields_of(request)
    return contract.Mark(manager.claims.mark())._asdict()


@_translated
def end(manager: QueueManager, request: Request) -> Answer:
    """End the lives of messages that claims hold."""
    count = manager.claims.end(*request_of(contract.EndRequest, request))
    return contract.Counted(count)._asdict()


@_translated
def end_written(manager: QueueManager, request: Request) -> Answer:
    """End claims that are written according to a checkpoint."""
    count = manager.claims.end_written(*request_of(contract.EndWrittenRequest, request))
    return contract.Counted(count)._asdict()


@_translated
def quiesce(manager: QueueManager, request: Request) -> Answer:
    """Give a reader no further claim."""
    manager.claims.quiesce(*request_of(contract.Reader, request))
    return {}


@_translated
def renew(manager: QueueManager, request: Request) -> Answer:
    """Note that a reader is alive, so that its claims do not lapse."""
    manager.claims.renew(*request_of(contract.Reader, request))
    return {}


@_translated
def rows(manager: QueueManager, request: Request) -> Answer:
    """Return the rows that claims hold."""
    ranges = manager.claims.ranges(*request_of(contract.ClaimsRequest, request))
    return contract.ClaimedRows(ranges)._asdict()


@_translated
def back_out(manager: QueueManager, request: Request) -> Answer:
    """Back out single messages that a reader cannot use."""
    asked = request_of(contract.BackOutRequest, request)
    if not all(type(row) is int for row in asked.rows):
        raise CallRefused(BAD_REQUEST, f"rows are whole numbers, not {asked.rows!r}")
    return contract.BackedOut(*manager.claims.back_out(*asked))._asdict()


@_translated
def release(manager: QueueManager, request: Request) -> Answer:
    """Give back the messages that a consumer has claimed."""
    count = manager.claims.release(*request_of(contract.ReleaseRequest, request))
    return contract.Counted(count)._asdict()


@_translated
def consumers(manager: QueueManager, request: Request) -> Answer:
    """List all consumers."""
    fields_of(request)
    return {"consumers": [standing._asdict() for standing in manager.claims.standings()]}


@_translated
def browse_ranges(manager: QueueManager, request: Request) -> Answer:
    """Cut the messages of a queue into parts that can be browsed side by side."""
    asked = request_of(contract.RangesRequest, request)
    if asked.part_count < 1:
        raise CallRefused(BAD_REQUEST, f"part_count >= 1 does not hold for {asked.part_count}")
    return {"ranges": browsable_ranges(manager.engine, asked.queue, asked.part_count)}


def open_claimed(manager: ServedManager, request: Request) -> Iterator[Page]:
    """Return the claimed messages of a range of rows."""
    asked = request_of(contract.ClaimedRequest, request)
    return _claimed(with_queues(manager), asked)


def open_browse(manager: ServedManager, request: Request) -> Iterator[Page]:
    """Return the live messages of a range of keys that match."""
    asked = request_of(contract.BrowseRequest, request)
    match = Match(_identifier(asked.msg_id), _identifier(asked.correl_id))
    within = asked.low, asked.high
    return _browsed(with_queues(manager), asked.queue, within, match, asked.priority)


def _claimed(manager: QueueManager, asked: contract.ClaimedRequest) -> Iterator[Page]:
    consumer, epoch, after, until = asked
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
    manager: QueueManager, name: str, within: tuple[int, int], match: Match, priority: int | None
) -> Iterator[Page]:
    low: int | None
    low, high = within
    while low is not None:
        queue, found, low = browsable_page(manager.engine, name, (low, high), match, priority)
        if found:
            yield _page(manager, queue, _columns(found))


def _columns(rows: list[StoredMessage]) -> MessageColumns:
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


def _page(manager: QueueManager, queue: str | Sequence[str], columns: MessageColumns) -> Page:
    """Return messages with the columns of their descriptors, as bulk.queue_client.MessagePage."""
    described = {packed: _SAID(unpack_descriptor(packed)) for packed in set(columns.descriptor)}
    return manager.name, queue, columns, described


def _identifier(as_hex: str | None) -> bytes | None:
    if as_hex is None:
        return None
    try:
        return bytes.fromhex(as_hex)
    except ValueError:
        raise CallRefused(BAD_REQUEST, f"{as_hex!r} is not an id in hex") from None
